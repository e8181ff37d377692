# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long from an event's appearing at Azure to the start of its response, at polls a second apart.

DESIGN section 9, row 4. Runs on a VM of the lab, which `make lab` prepares: the checker is installed by its role, and
systemd says when the unit of the response was started.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

COLLECTION = Path(__file__).resolve().parents[2]
LAB = COLLECTION / "extensions" / "molecule"
ROUNDS = 50
LIMIT_MEDIAN = 0.8
LIMIT_WORST = 1.6

INSTALL = """
- hosts: web-1
  gather_facts: false
  roles:
    - role: fleetops.azure_maintenance.event_checker
      vars:
        event_checker_rules:
          - {name: Anything, on_announced: [{command: ["true"]}]}
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: "{{ hostvars['web-1'].lab_name }}-web-1"
"""

# Runs on the VM. Each round waits for another part of a second, so that the polls are met at every moment.
MEASURE = """
import http.client, json, subprocess, time

def control(method, path, body=None):
    connection = http.client.HTTPConnection("169.254.169.254", 80, timeout=20)
    connection.request(method, "/simulator" + path, body and json.dumps(body))
    answer = json.load(connection.getresponse())
    connection.close()
    return answer

def started(number):
    unit = f"azure-maintenance-respond@{number}.service"
    show = ["systemctl", "show", "--property=InactiveExitTimestampMonotonic", "--value", unit]
    return int(subprocess.check_output(show)) / 1e6

limit = time.monotonic() + 60
while not [each for each in control("GET", "/journal")["requests"] if "scheduledevents" in each["path"]]:
    assert time.monotonic() < limit, "the checker does not poll"
    time.sleep(0.1)
delays = []
for number in range(1, ROUNDS + 1):
    time.sleep(1 + number * 0.37 % 1)
    appeared = time.monotonic()
    event = control("POST", "/events", {"event_type": "Freeze", "resources": ["web-1"]})["event_id"]
    while not started(number):
        assert time.monotonic() < appeared + 30, "no response was started"
        time.sleep(0.02)
    delays.append(started(number) - appeared)
    control("DELETE", "/events/" + event)
print(json.dumps(delays))
"""


def play(file: str, env: dict[str, str]) -> str:
    inventory = str(LAB / "inventory.yml")
    ended = subprocess.run(
        ["ansible-playbook", "-i", inventory, file],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ended.returncode:
        sys.exit(f"{ended.stdout}\nbench_detection: {file} failed.")
    return ended.stdout


def main() -> int:
    print("\nFrom an event's appearing to the start of its response unit")
    standing = subprocess.run([sys.executable, str(COLLECTION / ".ci" / "lab.py"), "--check"], check=False)
    if standing.returncode:
        print("  not measured: there is no VM lab")
        return 0
    env = {
        **os.environ,
        "ANSIBLE_CONNECTION_PLUGINS": str(LAB / "plugins" / "connection"),
        "CONTAINERS_CONF": str(COLLECTION / ".ci" / "lab" / "containers.conf"),
        # The VMs of a benchmark are none of molecule's.
        "MOLECULE_PROJECT_DIRECTORY": f"{COLLECTION} benchmark {os.getpid()}",
    }
    with tempfile.TemporaryDirectory() as folder:
        install = Path(folder, "install.yml")
        install.write_text(INSTALL)
        try:
            play(str(LAB / "shared" / "create.yml"), env)
            vm = play(str(install), env).rpartition('"msg": "')[2].partition('"')[0]
            measured = subprocess.run(
                ["podman", "exec", "--interactive", vm, "python3", "-"],
                input=MEASURE.replace("ROUNDS", str(ROUNDS)),
                env=env,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        finally:
            play(str(LAB / "shared" / "destroy.yml"), env)
    delays = json.loads(measured.stdout)
    median, worst = statistics.median(delays), max(delays)
    print(f"  median {median:.2f} s (limit {LIMIT_MEDIAN}), worst of {len(delays)} {worst:.2f} s (limit {LIMIT_WORST})")
    return 0 if median <= LIMIT_MEDIAN and worst <= LIMIT_WORST else 1


if __name__ == "__main__":
    sys.exit(main())
