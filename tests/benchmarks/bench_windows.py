# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPU on the controller of asking 20 Windows hosts: scheduled_events_info beside win_ping and win_uri.

The hosts are stand-ins, which answer on the controller; what they cost is in all of the numbers. Needs ansible on PATH
and the collection on ANSIBLE_COLLECTIONS_PATH; `make bench` sees to both.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from _imds import serve

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))

from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows
from bench_modules import DOCUMENT, Fleet, Way, cpu_seconds

FLEET = Fleet(20, 5, 7)
LIMIT = 1.3


def ways(endpoint: str) -> dict[str, Way]:
    asking = {
        "url": f"{endpoint}/metadata/scheduledevents?api-version=2020-07-01",
        "url_method": "GET",
        "url_timeout": 125,
        "headers": {"Metadata": "true"},
        "return_content": True,
        "follow_redirects": "none",
        "use_proxy": False,
    }
    info = "fleetops.azure_maintenance.scheduled_events_info"
    return {
        "win_ping": Way("ansible.windows.win_ping", ""),
        "win_uri": Way("ansible.windows.win_uri", json.dumps(asking)),
        "info, named": Way(info, json.dumps({"endpoint": endpoint, "resource_name": "vm"})),
        "info": Way(info, json.dumps({"endpoint": endpoint})),
    }


def main() -> None:
    os.environ.update({"NO_PROXY": "127.0.0.1"})
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(windows.settings(windows.make_ansible_windows(Path(folder) / "installed")))
        inventory = Path(folder) / "inventory"
        inventory.write_text("".join(windows.host(f"vm{number}") for number in range(FLEET.hosts)))
        wanted = ways(serve(json.dumps(DOCUMENT).encode()))
        # In turn, so that whatever else the machine does hits all of them alike.
        rounds = [
            {name: cpu_seconds(str(inventory), FLEET.forks, way) for name, way in wanted.items()}
            for _round in range(FLEET.rounds)
        ]
    print(
        f"CPU of asking {FLEET.hosts} stand-ins for Windows hosts with {FLEET.forks} forks, median of {FLEET.rounds}:"
    )
    median = {name: statistics.median(times[name] for times in rounds) for name in wanted}
    for name, seconds in median.items():
        print(f"  {name:12} {seconds:6.2f} s  {seconds / FLEET.hosts * 1000:5.0f} ms a host")
    ratio = median["info, named"] / median["win_uri"]
    print(f"  info, named / win_uri {ratio:5.2f}  limit {LIMIT:.2f}  {'met' if ratio <= LIMIT else 'MISSED'}")
    # The name of the VM is one more request, so one more run of win_uri.
    print(f"  info / win_uri {median['info'] / median['win_uri']:5.2f}")


if __name__ == "__main__":
    main()
