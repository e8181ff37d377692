# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Run histories, and shorten the first that breaks a property.

python tests/campaign/run.py --number 10000            run the histories of the seeds 0 to 9999
python tests/campaign/run.py --seed 17 --keep 0,3,8    tell one history, with only these of its actions
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Callable, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))

from ansible_collections.fleetops.azure_maintenance.tests.campaign.history import (
    Failure,
    make_actions,
    run_history,
    temporary_folder,
)
from ansible_collections.fleetops.azure_maintenance.tests.campaign.patches import patched
from ansible_collections.fleetops.azure_maintenance.tests.campaign.shared_state import SharedState


def shorten(failure: Failure, say: Callable[[str], None] = lambda _text: None) -> list[int]:
    """Return the numbers of the actions that are needed to break the same property, found by leaving out the others."""
    keep = list(range(len(make_actions(failure.seed))))
    size = max(1, len(keep) // 2)
    while True:
        shorter = False
        for start in range(0, len(keep), size):
            trial = keep[:start] + keep[start + size :]
            found = run_history(failure.seed, trial)[0]
            if found is not None and found.name == failure.name:
                keep, shorter = trial, True
                say(f"  {len(keep)} actions are enough")
                break
        if not shorter:
            if size == 1:
                return keep
            size = max(1, size // 2)


def describe(failure: Failure, keep: Sequence[int], option: str = "") -> str:
    """Return the message for a history that broke a property, with the command that tells it."""
    actions = make_actions(failure.seed)
    told = [f"  {number}: {actions[number]}" for number in keep]
    numbers = ",".join(map(str, keep))
    return "\n".join(
        [
            f"{failure.name} is broken in the history of seed {failure.seed}: {failure.why}",
            *told,
            f"To see it: python tests/campaign/run.py --seed {failure.seed} --keep {numbers or 'none'}{option}",
        ]
    )


def run_many(first: int, number: int, stop_at: int = 1) -> tuple[list[Failure], int]:
    """Run the histories of so many seeds; return what was broken, and how many histories ran."""
    found: list[Failure] = []
    with temporary_folder() as folder, closing(SharedState(f"{folder}/state")) as shared_state:
        for done, seed in enumerate(range(first, first + number), start=1):
            failure = run_history(seed, shared_state=shared_state)[0]
            if failure is not None:
                found.append(failure)
                if len(found) >= stop_at:
                    return found, done
    return found, number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=1000, help="how many histories to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--stop-at", type=int, default=1, help="end after so many failures")
    parser.add_argument("--seed", type=int, help="tell the history of this seed")
    parser.add_argument("--keep", help="only these of its actions")
    parser.add_argument("--mutant", help="with this mend taken back; see mutants.py")
    options = parser.parse_args()
    option = ""
    if options.mutant:
        from ansible_collections.fleetops.azure_maintenance.tests.campaign.mutants import apply

        apply(options.mutant)
        option = f" --mutant {options.mutant}"
    with patched():
        if options.seed is not None:
            keep = None
            if options.keep:
                keep = [int(each) for each in options.keep.split(",")] if options.keep != "none" else []
            failure, story = run_history(options.seed, keep, tell=True)
            print(*story, sep="\n")
            print(f"{failure.name} is broken: {failure.why}" if failure else "Nothing is broken.")
            return int(failure is not None)
        begun, cpu = time.monotonic(), time.process_time()
        found, number = run_many(options.first, options.number, options.stop_at)
        seconds, cpu = time.monotonic() - begun, time.process_time() - cpu
        rate = number / seconds * 60
        print(f"{number} histories in {seconds:.1f} s, {cpu:.1f} s of CPU: {rate:.0f} a minute; {len(found)} broken")
        for failure in found[1:]:
            print(f"{failure.seed}: {failure.name}: {failure.why.splitlines()[-1][:200]}")
        for failure in found[:1]:
            print(describe(failure, shorten(failure), option))
        return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
