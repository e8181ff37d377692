# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role event_response over a hundred local hosts, of which fifty are in ten events: seconds, and CPU.

Each event is over as soon as it is approved, so that nothing is waited for. An argument is another number of hosts.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLLECTION = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(COLLECTION.parents[2]))

from ansible_collections.fleetops.azure_maintenance.tests.simulator import launcher, plain_environment  # noqa: E402

RESPOND = "fleetops.azure_maintenance.respond"
HOSTS = 100
IN_AN_EVENT = 5
FORKS = 10


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    count = int(sys.argv[1]) if sys.argv[1:] else HOSTS
    vms = [f"web-{number:03}" for number in range(count)]
    # Of the first ten hosts five are in the first event, and so on.
    groups = [vms[first : first + IN_AN_EVENT] for first in range(0, count, 2 * IN_AN_EVENT)]
    with launcher() as start, tempfile.TemporaryDirectory() as folder:
        azure = start("--vms", ",".join(vms), "--clock", "manual")
        events = [azure.announce("Reboot", *group, start_delay=0, started_for=0) for group in groups]
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        hosts = {vm: {**local, "event_response_endpoint": azure.endpoint(vm)} for vm in vms}
        inventory = Path(folder) / "inventory.json"
        inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
        begun, used = time.monotonic(), children_cpu()
        run = subprocess.run(
            [
                "ansible-playbook",
                "-i",
                inventory,
                "--forks",
                str(FORKS),
                RESPOND,
                "-e",
                "event_response_prepare=nothing",
            ],
            env={**plain_environment(), "HOME": folder, "ANSIBLE_NOCOLOR": "true"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        seconds, used = time.monotonic() - begun, children_cpu() - used
        approved = sorted((vm, [one["EventId"] for one in body["StartRequests"]]) for vm, body in azure.posted())
    right = (
        run.returncode == 0
        and approved == sorted((group[0], [event]) for group, event in zip(groups, events))
        and run.stdout.count(" completed, approved by ") == len(groups)
        and run.stdout.count("failed=0") == count + 1  # and localhost
    )
    if not right:
        print(run.stdout)
    print(f"\nA response over {count} hosts, {sum(map(len, groups))} of them in {len(groups)} events, {FORKS} forks")
    print(f"  {seconds:.0f} s, {used:.0f} s of CPU, {used / count:.2f} s a host; {'right' if right else 'WRONG'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
