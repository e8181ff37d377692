# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPU of one task over 20 local hosts: scheduled_events_info beside ansible.builtin.ping and ansible.builtin.uri.

DESIGN section 9, first row. Needs ansible-playbook on PATH and the collection on ANSIBLE_COLLECTIONS_PATH; `make bench`
sees to both.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

from _imds import serve

HOSTS = 20
ROUNDS = 7
LIMITS = {"ping": 1.2, "uri": 0.85}
DOCUMENT = {
    "DocumentIncarnation": 2,
    "Events": [
        {
            "EventId": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
            "EventStatus": "Scheduled",
            "EventType": "Reboot",
            "ResourceType": "VirtualMachine",
            "Resources": ["vm"],
            "NotBefore": "Mon, 11 Apr 2022 22:26:58 GMT",
            "Description": "Host server is undergoing maintenance.",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }
    ],
}


def tasks(endpoint: str) -> dict[str, dict[str, object]]:
    return {
        "ping": {"ansible.builtin.ping": {}},
        "uri": {
            "ansible.builtin.uri": {
                "url": f"{endpoint}/metadata/scheduledevents?api-version=2020-07-01",
                "headers": {"Metadata": "true"},
                "return_content": True,
            }
        },
        "info": {"fleetops.azure_maintenance.scheduled_events_info": {"endpoint": endpoint}},
        "no task": {"ansible.builtin.meta": "noop"},
    }


def cpu_seconds(folder: str, name: str) -> float:
    """Run one playbook and return the CPU time that it and all its children used."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(
        ["ansible-playbook", "-i", f"{folder}/hosts", "-f", "5", f"{folder}/{name}.yml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        sys.exit(f"The playbook for {name} failed:\n{run.stdout}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(endpoint: str) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/hosts", "w", encoding="utf-8") as inventory:
            for number in range(HOSTS):
                print(
                    f"vm{number} ansible_connection=local ansible_python_interpreter={sys.executable}", file=inventory
                )
        wanted = tasks(endpoint)
        for name, task in wanted.items():
            with open(f"{folder}/{name}.yml", "w", encoding="utf-8") as playbook:
                json.dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}], playbook)
        times: dict[str, list[float]] = {name: [] for name in wanted}
        for _round in range(ROUNDS):
            for name in wanted:
                times[name].append(cpu_seconds(folder, name))
    return times


def main() -> None:
    os.environ.update({"NO_PROXY": "127.0.0.1", "ANSIBLE_LOCALHOST_WARNING": "0"})
    times = measure(serve(json.dumps(DOCUMENT).encode()))
    median = {name: statistics.median(values) for name, values in times.items()}
    print(f"CPU for one task over {HOSTS} local hosts, median of {ROUNDS} rounds:")
    for name in ("ping", "uri", "info", "no task"):
        spread = f"{min(times[name]):.2f} to {max(times[name]):.2f} s"
        print(f"  {name:8} {median[name]:6.2f} s  {median[name] / HOSTS * 1000:5.0f} ms a host  ({spread})")
    for other, limit in LIMITS.items():
        ratio = median["info"] / median[other]
        net = (median["info"] - median["no task"]) / (median[other] - median["no task"])
        verdict = "met" if ratio <= limit else "MISSED"
        print(f"  info / {other:4} {ratio:5.2f}  limit {limit:.2f}  {verdict}  (without start-up: {net:.2f})")


if __name__ == "__main__":
    main()
