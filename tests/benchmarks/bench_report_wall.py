# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long the playbook fleet_report takes beside the same question ad hoc, over 2 and 20 local hosts.

I13, DESIGN section 9. Needs ansible on PATH and the collection on ANSIBLE_COLLECTIONS_PATH; `make bench` sees to both.
The number of rounds may be given: a busy machine shows the ratio in few of them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _imds import serve

HOSTS = (2, 20)
ROUNDS = 5
LIMIT = 2.5
DOCUMENT = {"DocumentIncarnation": 1, "Events": []}


def ways(inventory: Path) -> dict[str, list[str]]:
    """Return both ways to ask the same hosts."""
    fleet = ["-i", str(inventory)]
    report = ["-e", f"fleet_report_dir={inventory.parent / 'report'}"]
    module = ["-m", "fleetops.azure_maintenance.scheduled_events_info", "-a", "scope=all"]
    return {
        "ad hoc": ["ansible", "all", *fleet, *module],
        "fleet_report": ["ansible-playbook", "fleetops.azure_maintenance.fleet_report", *fleet, *report],
    }


def seconds(command: list[str]) -> float:
    before = time.monotonic()
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{run.stdout}")
    return time.monotonic() - before


def measure(hosts: int, endpoint: str, rounds: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        inventory = Path(folder, "hosts.ini")
        here = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
        lines = [f"vm{number} {here} azure_maintenance_endpoint={endpoint}\n" for number in range(hosts)]
        inventory.write_text("".join(lines), encoding="utf-8")
        times: dict[str, list[float]] = {name: [] for name in ways(inventory)}
        # In turn, so that whatever else the machine does hits both alike.
        for _round in range(rounds):
            for name, command in ways(inventory).items():
                times[name].append(seconds(command))
        return times


def main() -> None:
    os.environ.update({"NO_PROXY": "127.0.0.1", "ANSIBLE_LOCALHOST_WARNING": "0"})
    endpoint = serve(json.dumps(DOCUMENT).encode())
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    for hosts in HOSTS:
        times = measure(hosts, endpoint, rounds)
        print(f"Asking {hosts} local hosts, wall, median of {rounds} rounds:")
        for name, values in times.items():
            print(f"  {name:12} {statistics.median(values):6.2f} s  ({min(values):.2f} to {max(values):.2f} s)")
        ratio = statistics.median(each / other for each, other in zip(times["fleet_report"], times["ad hoc"]))
        print(f"  fleet_report / ad hoc  {ratio:5.2f}  limit {LIMIT:.2f}  {'met' if ratio <= LIMIT else 'MISSED'}")


if __name__ == "__main__":
    main()
