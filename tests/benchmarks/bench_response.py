# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook respond in CPU of the controller and its hosts, which are this machine.

DESIGN section 9: against a playbook by hand, with ansible.builtin.uri, that does the same steps without any safety.
Over 10 and 40 hosts, half of them in events of five, and all of them, where the safety costs most; then over a hundred
alone. An event is over as soon as it is approved, so that nothing is waited for.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

COLLECTION = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(COLLECTION.parents[2]))

from ansible_collections.fleetops.azure_maintenance.tests.simulator import launcher, plain_environment  # noqa: E402

RESPOND = "fleetops.azure_maintenance.respond"
ROUNDS = 3
MOST_RATIO = 1.0
# Hosts, and whether all of them are in events
COMPARED = ((10, False), (40, False), (10, True), (40, True))
MANY = 100
IN_AN_EVENT = 5
FORKS = 10

BY_HAND = """
- hosts: all
  gather_facts: false
  vars:
    url: "{{ azure_maintenance_endpoint }}/metadata/scheduledevents?api-version=2020-07-01"
  tasks:
    - name: Ask
      ansible.builtin.uri: &ask
        url: "{{ url }}"
        use_proxy: false
        headers: &headers {Metadata: "true"}
      register: asked
    - name: Prepare
      ansible.builtin.include_tasks: prepare.yml
      when: mine | length > 0
      vars: &mine
        mine: "{{ asked.json.Events | selectattr('Resources', 'contains', inventory_hostname) }}"
    - name: Ask again
      ansible.builtin.uri: *ask
      register: asked
    - name: Approve
      ansible.builtin.uri:
        url: "{{ url }}"
        use_proxy: false
        method: POST
        headers: *headers
        body_format: json
        body: {StartRequests: [{EventId: "{{ mine[0].EventId }}"}]}
      vars: *mine
      when: mine | length > 0 and mine[0].Resources[0] == inventory_hostname
    - name: Wait until it is over
      ansible.builtin.uri: *ask
      register: now_there
      until: now_there.json.Events | selectattr('Resources', 'contains', inventory_hostname) | length == 0
      retries: 60
      delay: 5
    - name: Restore
      ansible.builtin.include_tasks: restore.yml
      when: mine | length > 0
      vars: *mine
"""
TASKS = "- name: Do it\n  ansible.builtin.command: 'true'\n  changed_when: true\n"


class Cost(NamedTuple):
    """What a run took, and whether it did what it should."""

    seconds: float
    cpu: float
    right: bool


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def groups_of(vms: list[str], all_affected: bool) -> list[list[str]]:
    """Return the VMs of each event: all of them, or of the first ten five, and so on."""
    step = IN_AN_EVENT if all_affected else 2 * IN_AN_EVENT
    return [vms[first : first + IN_AN_EVENT] for first in range(0, len(vms), step)]


def run(count: int, all_affected: bool, by_hand: bool = False) -> Cost:
    vms = [f"web-{number:03}" for number in range(count)]
    groups = groups_of(vms, all_affected)
    with launcher() as start, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        azure = start("--vms", ",".join(vms), "--clock", "manual")
        events = [azure.announce("Reboot", *group, start_delay=0, started_for=0) for group in groups]
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        hosts = {vm: {**local, "azure_maintenance_endpoint": azure.endpoint(vm)} for vm in vms}
        (folder / "inventory.json").write_text(json.dumps({"all": {"hosts": hosts}}))
        (folder / "by_hand.yml").write_text(BY_HAND)
        files = []
        for phase in ("prepare", "restore"):
            (folder / f"{phase}.yml").write_text(TASKS)
            files += ["-e", f"event_response_{phase}={folder / phase}.yml"]
        argv: list[Any] = ["ansible-playbook", "-i", folder / "inventory.json", "--forks", str(FORKS)]
        argv += [folder / "by_hand.yml"] if by_hand else [RESPOND, *files]
        begun, used = time.monotonic(), children_cpu()
        ended = subprocess.run(
            argv,
            env={**plain_environment(), "HOME": name, "ANSIBLE_NOCOLOR": "true", "ANSIBLE_PIPELINING": "true"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        seconds, used = time.monotonic() - begun, children_cpu() - used
        approved = sorted((vm, [one["EventId"] for one in body["StartRequests"]]) for vm, body in azure.posted())
    right = ended.returncode == 0 and approved == sorted((group[0], [id]) for group, id in zip(groups, events))
    if not right:
        print(ended.stdout)
    return Cost(seconds, used, right)


def compare(count: int, all_affected: bool) -> bool:
    """Print the ratio of the CPU of respond to that of the playbook by hand; return whether it is small enough."""
    # Each is the first in turn.
    orders = [((False, True), (True, False))[number % 2] for number in range(ROUNDS)]
    pairs = [{by_hand: run(count, all_affected, by_hand) for by_hand in order} for order in orders]
    ratio = median(pair[False].cpu / pair[True].cpu for pair in pairs)
    ours, by_hand = (median(pair[which].cpu for pair in pairs) for which in (False, True))
    right = all(each.right for pair in pairs for each in pair.values())
    held = right and ratio <= MOST_RATIO
    affected = "all" if all_affected else "half"
    print(
        f"  {count:3} hosts, {affected} of them affected: {ours:.1f} s of CPU against {by_hand:.1f} s by hand, "
        f"ratio {ratio:.2f}, at most {MOST_RATIO}: {'held' if held else 'WRONG' if not right else 'NOT HELD'}"
    )
    return held


def main() -> int:
    print(f"A response against a playbook by hand, {FORKS} forks, {ROUNDS} rounds")
    held = [compare(count, all_affected) for count, all_affected in COMPARED]
    cost = run(MANY, all_affected=False)
    print(
        f"A response over {MANY} hosts, half of them affected: {cost.seconds:.0f} s, {cost.cpu:.0f} s of CPU, "
        f"{cost.cpu / MANY:.2f} s a host; {'right' if cost.right else 'WRONG'}"
    )
    return 0 if all(held) and cost.right else 1


if __name__ == "__main__":
    sys.exit(main())
