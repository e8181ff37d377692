# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the pictures of the README, docs/pictures/*.png, of a fleet that is made up.

It needs chromium and optipng on PATH, and runs in a tree as .ci/tree.py makes it:

    python build/ansible_collections/fleetops/azure_maintenance/tests/pictures.py docs/pictures
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from html import escape
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet import host_results, table
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.merge import merge_slices
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.page import as_html
from ansible_collections.fleetops.azure_maintenance.tests.browser import browser

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
WIDTH, COLUMNS = 1180, 128
# Where the picture of a page ends, in its own words
TIMELINE = "document.querySelector('.timeline').closest('section').getBoundingClientRect().bottom + 16"
TEXT = "document.querySelector('pre').offsetHeight"
# type, seconds until the start (None: it has started), expected length, source, description, VMs
EVENTS: tuple[tuple[str, int | None, int | None, str, str, list[str]], ...] = (
    ("Freeze", None, 9, "Platform", "Host server is undergoing maintenance.", ["cache-2"]),
    ("Preempt", 25, None, "Platform", "", ["spot-7"]),
    ("Reboot", 437, 180, "Platform", "Host server is undergoing maintenance.", ["web-1", "web-2", "web-10"]),
    ("Redeploy", 1510, 600, "Platform", "Host hardware is degraded.", ["db-1"]),
    ("Freeze", 2900, 9, "Platform", "Host server is undergoing maintenance.", ["web-4", "web-5"]),
    ("Reboot", 20000, 300, "User", "", ["db-2", "db-3"]),
    ("Terminate", 180000, None, "User", "", ["batch-3"]),
)
SILENT: dict[str, dict[str, Any]] = {
    "db-3": {"unreachable": True, "msg": "ssh: connect to host db-3 port 22: No route to host"},
    "web-7": {"reason": "timeout", "msg": "No complete answer within 150 s."},
}
TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>
body { margin: 0; background: #161b22; }
pre { margin: 0; padding: 18px 22px; color: #e6edf3; font: 14px/1.45 "DejaVu Sans Mono", monospace; }
b { color: #7ee787; font-weight: 400; }
</style><pre><b>$</b> ansible all -m fleetops.azure_maintenance.scheduled_events_info
"""


def fleet() -> dict[str, Any]:
    """Return what each host said."""
    names = [f"web-{number}" for number in range(1, 13)] + [name for event in EVENTS for name in event[-1]]
    results: dict[str, Any] = {
        name: {"events": [], "resource_name": name, "document_received": True, "msg": ""} for name in names
    }
    for number, (event_type, seconds, length, source, description, vms) in enumerate(EVENTS, start=1):
        for name in vms:
            event = {
                "event_id": f"{number * 0x1F3A5C7D:08X}-AFDC-4513-B24B-AA5F13A16123",
                "event_type": event_type,
                "event_status": "Started" if seconds is None else "Scheduled",
                "resources": vms,
                "not_before": None if seconds is None else format_utc(NOW + timedelta(seconds=seconds)),
                "description": description,
                "event_source": source,
                "duration_seconds": length,
                "affects_this_vm": True,
            }
            results[name]["events"].append(event)
    return {**results, **SILENT}


def main(folder: Path) -> None:
    results = fleet()
    part = host_results.make_slice(results, "whole", NOW)
    answers = [host_results.read_result(host, result) for host, result in results.items()]
    pages = {
        "page": (as_html(merge_slices([part], NOW)), TIMELINE),
        "terminal": (TERMINAL + escape("\n".join(table.fleet_lines(answers, COLUMNS, NOW))), TEXT),
    }
    with tempfile.TemporaryDirectory() as scratch, browser("chromium", f"{scratch}/profile") as window:
        window.stop_clock(NOW)
        window.show_as(width=WIDTH)
        for name, (html, end) in pages.items():
            source, picture = Path(scratch) / f"{name}.html", folder / f"{name}.png"
            source.write_text(html, encoding="utf-8")
            window.open(source)
            picture.write_bytes(window.picture(window.look(end)))
            subprocess.check_call(["optipng", "-quiet", "-o5", "-strip", "all", str(picture)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
