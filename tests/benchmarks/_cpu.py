# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPU time: of this process, of its children, and how it grows with the number of hosts."""

from __future__ import annotations

import resource
import time
from statistics import median
from typing import Callable

ROUNDS = 5
Tasks = dict[str, Callable[[], object]]


def seconds(work: Callable[[], object]) -> float:
    """Do this, and return the CPU time that this process used for it."""
    started = time.process_time()
    work()
    return time.process_time() - started


def seconds_of_children(work: Callable[[], object]) -> float:
    """Do this, and return the CPU time of all processes that it started and waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_growth(title: str, tasks: Callable[[int], Tasks], few: int, many: int) -> list[dict[str, float]]:
    """Print and return the median seconds of each task, for few hosts and for many.

    :param tasks: returns the tasks for so many hosts; one of them is named json.
    """
    work = {hosts: tasks(hosts) for hosts in (few, many)}
    times: dict[int, dict[str, list[float]]] = {hosts: {name: [] for name in work[hosts]} for hosts in work}
    # In turn, so that whatever else the machine does hits all of them alike; a short run is repeated for that.
    for _round in range(ROUNDS):
        for name in work[few]:
            for hosts in (few, many):
                repeat = many // hosts
                times[hosts][name].append(sum(seconds(work[hosts][name]) for _time in range(repeat)) / repeat)
    found = [{name: median(values) for name, values in times[hosts].items()} for hosts in (few, many)]
    print(f"{title}, CPU, medians of {ROUNDS} rounds:")
    for hosts, medians in zip((few, many), found):
        told = ", ".join(f"{name} {value * 1000:.0f} ms" for name, value in medians.items())
        print(f"  {hosts:6,} hosts: {told}")
    # Where memory is slow, json grows by more than the number of hosts does, and so does all else.
    print(f"  {'json alone, growth':32} {found[1]['json'] / found[0]['json']:5.2f}")
    return found
