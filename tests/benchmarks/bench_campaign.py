# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""The campaigns: a million random histories each, in which no property of DESIGN section 12 may be broken.

--of says of what: the checker of one VM, a run over a fleet, one that is limited to some events, one in batches, the
playbook restore after one, a run over hosts that differ and have checkers, or two runs beside each other. One process
runs on each core. The seeds are those from --first on, --number of them, or as many as are begun within --seconds.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))

from ansible_collections.fleetops.azure_maintenance.tests.campaign.fleet_mixed import run_mixed_history
from ansible_collections.fleetops.azure_maintenance.tests.campaign.fleet_pair import (
    run_mixed_pair_history,
    run_pair_history,
)
from ansible_collections.fleetops.azure_maintenance.tests.campaign.fleet_run import (
    run_check_history,
    run_history,
    run_history_in_batches,
    run_limited_history,
    run_restore_history,
)
from ansible_collections.fleetops.azure_maintenance.tests.campaign.history import Failure
from ansible_collections.fleetops.azure_maintenance.tests.campaign.patches import patched
from ansible_collections.fleetops.azure_maintenance.tests.campaign.run import describe, run_many, shorten

_PART = 200
# A line with the figures so far, after so many seconds
_TOLD_AFTER = 300.0
_MOST_BROKEN = 20


FLEETS = {
    "run": run_history,
    "limited": run_limited_history,
    "batches": run_history_in_batches,
    "restore": run_restore_history,
    "mixed": run_mixed_history,
    "check-mode": run_check_history,
    "two-runs": run_pair_history,
    "two-mixed": run_mixed_pair_history,
}


class Broken(NamedTuple):
    """What a history of a fleet has broken."""

    seed: int
    name: str
    why: str
    story: list[str]


def _run_part(end: float, last: int, what: str, first: int) -> tuple[int, float, list[Failure | Broken]]:
    """Return the number of histories that were run, the seconds of CPU, and what was broken."""
    if time.monotonic() >= end:
        return 0, 0.0, []
    begun = time.process_time()
    if what in FLEETS:
        seeds = range(first, min(first + _PART, last))
        judges = [(seed, FLEETS[what](seed)) for seed in seeds]
        broken = [Broken(seed, *judge.broken, judge.story) for seed, judge in judges if judge.broken]
        return len(seeds), time.process_time() - begun, broken
    with patched():
        found, number = run_many(first, min(_PART, last - first), stop_at=_PART)
    return number, time.process_time() - begun, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", choices=["checker", *FLEETS], help="of what; without it, of each in turn")
    parser.add_argument("--number", type=int, default=1_000_000, help="how many histories to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no more after so many")
    options = parser.parse_args()
    kinds = [options.of] if options.of else ["checker", *FLEETS]
    return max(run_campaign(what, options) for what in kinds)


def run_campaign(what: str, options: argparse.Namespace) -> int:
    begun = told = time.monotonic()
    last = options.first + options.number
    number, cpu = 0, 0.0
    broken: list[Failure | Broken] = []

    def tell() -> None:
        print(
            f"campaign of {what}: {number} histories from seed {options.first} on, {cpu:.0f} s of CPU in "
            f"{time.monotonic() - begun:.0f} s, {1000 * cpu / max(1, number):.2f} ms of CPU a history; "
            f"{len(broken)} broken",
            flush=True,
        )

    run = functools.partial(_run_part, begun + options.seconds, last, what)
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for more, seconds, found in pool.imap(run, range(options.first, last, _PART)):
            number, cpu = number + more, cpu + seconds
            broken += found
            for failure in found:
                print(f"seed {failure.seed} breaks {failure.name}: {failure.why.splitlines()[-1][:200]}", flush=True)
            if len(broken) >= _MOST_BROKEN:
                break
            if time.monotonic() - told >= _TOLD_AFTER:
                told = time.monotonic()
                tell()
    tell()
    for failure in broken[:1]:
        if isinstance(failure, Broken):
            print("\n".join(failure.story))
        else:
            with patched():
                print(describe(failure, shorten(failure)))
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
