# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fleet history: how its time grows from 100 to 1,000 hosts with 100 events each, the same in units of json.loads
of the same data, and the page in units of an empty page of the same size.

Merge: read a part as text, check it and merge it. Whole history: the same, and write it in all four formats.
Hosts are in groups of five; of the events of a host, half are those of its group.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from shutil import which
from statistics import median
from typing import Any

# The folder that holds ansible_collections; make bench runs this in such a tree.
sys.path.insert(0, str(Path(__file__).resolve().parents[5]))

from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report import slices
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.history import formats, host_results
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.history.merge import merge_slices
from ansible_collections.fleetops.azure_maintenance.tests.benchmarks import _cpu

SMALL, LARGE = 100, 1000
EVENTS = 100
MOST_GROWTH = 12.0
MOST_JSON = 10.0
MOST_BYTES = 3 * 1024 * 1024
MOST_SHOWN = 2.0
GROUP = 5

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
SETTINGS = {"mode": "merge", "max_age": 0, "simulated": False, "fail_within": ""}
# Type, notice and length in seconds
KINDS = (
    ("Reboot", 890, 240),
    ("Freeze", 880, 300),
    ("Redeploy", 590, 600),
    ("Preempt", 20, 30),
    ("Terminate", 290, 90),
)


def iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def row_of(host: int, number: int) -> dict[str, Any]:
    """Return what the host with this number remembers of its event with this number."""
    shared = number % 2 == 0
    of = host // GROUP * GROUP if shared else host
    kind, notice, length = KINDS[(of + number) % len(KINDS)]
    notice += (of * 7 + number * 13) % 20 - 10
    seen = NOW - timedelta(days=4 * number + 1, seconds=of * 17 % 86400 + host % GROUP)
    started = seen + timedelta(seconds=40 + number)
    ended = started + timedelta(seconds=length + (of + number) % 90)
    withdrawn = number % 9 == 0
    return {
        "event_id": f"C7061BAC-AFDC-4513-{number:04X}-{of:012X}",
        "event_type": kind,
        "event_source": "Platform",
        "description": "Host server is undergoing maintenance.",
        "resources_count": GROUP if shared else 1,
        "leader": f"vm-{of:05}",
        "resource_name": f"vm-{host:05}",
        "simulated": False,
        "first_seen_at": iso(seen),
        "not_before_first": iso(seen + timedelta(seconds=notice)),
        "not_before_last": iso(seen + timedelta(seconds=notice)),
        "started_at": None if withdrawn else iso(started),
        "ended_at": iso(ended),
        "outcome": "withdrawn" if withdrawn else "completed",
        "duration_seconds": 9,
        "approved_at": None if withdrawn else iso(started - timedelta(seconds=3)),
        "approved_by": None if withdrawn else "checker",
        "responses": 2,
        "failed_responses": ["ended"] if number % 31 == 0 else [],
        "late": number % 37 == 0,
        "prepare_seconds": 20 + number % 50,
    }


def part_of(hosts: int, events: int = EVENTS) -> dict[str, Any]:
    """Return the part of a fleet of so many hosts, as its checkers would tell it."""
    results = {}
    for host in range(hosts):
        said = {
            "resource_name": f"vm-{host:05}",
            "history_format": 1,
            "version": "1.1.0",
            "warnings": [],
            "history": [row_of(host, number) for number in reversed(range(events))],
        }
        results[f"host-{host:05}"] = {"rc": 0, "stdout": json.dumps(said)}
    return host_results.make_slice(results, "all", NOW)


def tasks(hosts: int) -> _cpu.Tasks:
    """Return what is measured, for a fleet of so many hosts."""
    text = json.dumps(part_of(hosts))

    def read() -> Any:
        return slices.checked_slices(host_results.SLICE_FORMAT, [("all", slices.decode_slice("all", text))], NOW, 0)

    def merge() -> None:
        with slices.gc_paused():
            merge_slices(read(), NOW)

    def history() -> None:
        with slices.gc_paused():
            formats.format_slices(read(), NOW, [], SETTINGS)

    return {"json": lambda: json.loads(text), "merge": merge, "history": history}


def show(program: str, page: Path) -> float:
    """Return the CPU seconds in which a browser shows a page and ends."""
    with tempfile.TemporaryDirectory() as profile:
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
        command += ["--disable-background-networking", f"--user-data-dir={profile}", "--window-size=1280,900"]
        command += [f"--screenshot={profile}/page.png", page.as_uri()]
        return _cpu.seconds_of_children(lambda: subprocess.run(command, check=True, capture_output=True, timeout=600))


def measure_page(page: str) -> float | None:
    """Return the time of a page in units of that of an empty one of its size, None without a browser."""
    program = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        whole, empty = Path(folder, "history.html"), Path(folder, "empty.html")
        whole.write_text(page, encoding="utf-8")
        size = whole.stat().st_size
        empty.write_text(f"<!DOCTYPE html><title>empty</title><!--{'x' * (size - 45)}-->", encoding="utf-8")
        times: dict[Path, list[float]] = {whole: [], empty: []}
        for _round in range(_cpu.ROUNDS):
            for path, found in times.items():
                found.append(show(program, path))
    return median(times[whole]) / median(times[empty])


def main() -> None:
    small, large = _cpu.measure_growth(f"Fleet history, {EVENTS} events a host", tasks, SMALL, LARGE)
    page = formats.format_slices([part_of(LARGE)], NOW, [], SETTINGS).files["html"]
    shown = measure_page(page)
    for name, ratio, limit in (
        ("history, growth", large["history"] / small["history"], MOST_GROWTH),
        ("merge / json.loads", large["merge"] / large["json"], MOST_JSON),
        ("history / json.loads", large["history"] / large["json"], MOST_JSON),
        ("page, of 3 MiB", len(page.encode()) / MOST_BYTES, 1.0),
        ("page / empty page in a browser", shown, MOST_SHOWN),
    ):
        if ratio is None:
            print(f"  {name:32} not measured: there is no chromium")
        else:
            print(f"  {name:32} {ratio:5.2f}  limit {limit:5.2f}  {'met' if ratio <= limit else 'MISSED'}")


if __name__ == "__main__":
    main()
