# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPU of asking local hosts ad hoc: scheduled_events_info beside ansible.builtin.ping and ansible.builtin.uri.

DESIGN section 9, first row, over 20 hosts; and over a fleet of 200, also with the callback fleet. Needs ansible on PATH
and the collection on ANSIBLE_COLLECTIONS_PATH; `make bench` sees to both.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

from _cpu import seconds_of_children
from _imds import serve


class Fleet(NamedTuple):
    """So many hosts, so many of them at a time, and how often each way to ask is measured."""

    hosts: int
    forks: int
    rounds: int


FLEETS = (Fleet(20, 5, 7), Fleet(200, 20, 3))
LIMITS = {"ping": 1.1, "uri": 0.80}
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


class Way(NamedTuple):
    """A way to ask: a module, its options, and settings of Ansible."""

    module: str
    options: str
    settings: tuple[tuple[str, str], ...] = ()


def ways(endpoint: str) -> dict[str, Way]:
    info = Way("fleetops.azure_maintenance.scheduled_events_info", json.dumps({"endpoint": endpoint}))
    table = (("ANSIBLE_LOAD_CALLBACK_PLUGINS", "1"), ("ANSIBLE_STDOUT_CALLBACK", "fleetops.azure_maintenance.fleet"))
    return {
        "ping": Way("ansible.builtin.ping", ""),
        "uri": Way(
            "ansible.builtin.uri",
            json.dumps(
                {
                    "url": f"{endpoint}/metadata/scheduledevents?api-version=2020-07-01",
                    "headers": {"Metadata": "true"},
                    "return_content": True,
                }
            ),
        ),
        "info": info,
        "fleet": info._replace(settings=table),
        "no task": Way("ansible.builtin.meta", "noop"),
    }


def cpu_seconds(inventory: str, forks: int, way: Way) -> float:
    """Ask all hosts and return the CPU time that Ansible and all its children used."""

    def ask() -> None:
        run = subprocess.run(
            ["ansible", "all", "-i", inventory, "-f", str(forks), "-m", way.module, "-a", way.options],
            env={**os.environ, **dict(way.settings)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            sys.exit(f"Asking with {way.module} failed:\n{run.stdout}")

    return seconds_of_children(ask)


def measure(fleet: Fleet, wanted: dict[str, Way]) -> dict[str, list[float]]:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".ini") as inventory:
        for number in range(fleet.hosts):
            print(f"vm{number} ansible_connection=local ansible_python_interpreter={sys.executable}", file=inventory)
        inventory.flush()
        times: dict[str, list[float]] = {name: [] for name in wanted}
        # In turn, so that whatever else the machine does hits all of them alike.
        for _round in range(fleet.rounds):
            for name, way in wanted.items():
                times[name].append(cpu_seconds(inventory.name, fleet.forks, way))
    return times


def tell(fleet: Fleet, times: dict[str, list[float]]) -> None:
    median = {name: statistics.median(values) for name, values in times.items()}
    print(f"CPU of asking {fleet.hosts} local hosts with {fleet.forks} forks, median of {fleet.rounds} rounds:")
    for name, values in times.items():
        spread = f"{min(values):.2f} to {max(values):.2f} s"
        print(f"  {name:8} {median[name]:6.2f} s  {median[name] / fleet.hosts * 1000:5.0f} ms a host  ({spread})")
    for name in ("info", "fleet"):
        for other, limit in LIMITS.items():
            ratio = median[name] / median[other]
            net = (median[name] - median["no task"]) / (median[other] - median["no task"])
            verdict = "met" if ratio <= limit else "MISSED"
            print(f"  {name:5} / {other:4} {ratio:5.2f}  limit {limit:.2f}  {verdict}  (without start-up: {net:.2f})")


def main() -> None:
    os.environ.update({"NO_PROXY": "127.0.0.1", "ANSIBLE_LOCALHOST_WARNING": "0"})
    wanted = ways(serve(json.dumps(DOCUMENT).encode()))
    for fleet in FLEETS:
        tell(fleet, measure(fleet, wanted))


if __name__ == "__main__":
    main()
