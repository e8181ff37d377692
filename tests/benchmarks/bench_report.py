# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fleet report: how its time grows from 1,000 to 10,000 hosts, and the merge in units of json of the same data.

DESIGN section 9. Whole report: read a part, merge it, and write it in all four formats. A tenth of the hosts is not
reached; the others are in groups of five that see each other's events, and every second group has one.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

# The folder that holds ansible_collections; make bench runs this in such a tree.
sys.path.insert(0, str(Path(__file__).resolve().parents[5]))

from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report import slices
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet import formats, host_results
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.merge import merge_slices
from ansible_collections.fleetops.azure_maintenance.tests.benchmarks._cpu import Tasks, measure_growth

SMALL, LARGE = 1000, 10000
MOST_GROWTH = 11.0
MOST_JSON = 5.0
GROUP = 5

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
SETTINGS = {"mode": "merge", "max_age": 0, "fail_within": "", "warn_after": 900}


def result_of(number: int) -> dict[str, Any]:
    """Return what the host with this number said."""
    if number % 10 == 9:
        return {"unreachable": True, "msg": "Failed to connect to the host via ssh: No route to host"}
    group, name = number // GROUP, f"vm-{number:05}"
    members = [f"vm-{group * GROUP + place:05}" for place in range(GROUP)]
    event = {
        "event_id": f"C7061BAC-AFDC-4513-B24B-{group:012X}",
        "event_type": ("Freeze", "Reboot", "Redeploy")[group % 3],
        "event_status": "Scheduled",
        "resource_type": "VirtualMachine",
        "resources": members,
        "not_before": f"2026-11-21T10:{group % 60:02}:00Z",
        "not_before_raw": f"Sat, 21 Nov 2026 10:{group % 60:02}:00 GMT",
        "seconds_until_start": 60 * (group % 60),
        "description": "Host server is undergoing maintenance.",
        "event_source": "Platform",
        "duration_seconds": 9,
        "affects_this_vm": True,
        "leader": members[0],
        "is_leader": number % GROUP == 0,
    }
    events = [event] if group % 2 == 0 else []
    return {"events": events, "resource_name": name, "document_incarnation": 2, "msg": "", "warnings": []}


def tasks(hosts: int) -> Tasks:
    """Return what is measured, for a fleet of so many hosts."""
    part = host_results.make_slice({f"host-{number:05}": result_of(number) for number in range(hosts)}, "all", NOW)
    text = json.dumps(part)

    def merge() -> object:
        slices.check_slice(host_results.SLICE_FORMAT, "all", part)
        return merge_slices([part], NOW)

    def report() -> None:
        with slices.gc_paused():
            found = [("all", slices.decode_slice("all", text))]
            formats.format_slices(slices.checked_slices(host_results.SLICE_FORMAT, found, NOW, 0), NOW, [], SETTINGS)

    return {"json": lambda: json.loads(json.dumps(part)), "merge": merge, "report": report}


def main() -> None:
    small, large = measure_growth("Fleet report", tasks, SMALL, LARGE)
    for name, ratio, limit in (
        ("report, growth", large["report"] / small["report"], MOST_GROWTH),
        ("merge / json.dumps + json.loads", large["merge"] / large["json"], MOST_JSON),
    ):
        print(f"  {name:32} {ratio:5.2f}  limit {limit:5.2f}  {'met' if ratio <= limit else 'MISSED'}")


if __name__ == "__main__":
    main()
