# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Print the costs of each gate in the last run of the targets of make that the arguments name, in one table."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from venvs import LOGS


class Result(NamedTuple):
    """How a gate ended, and its costs."""

    name: str
    state: str
    """passed, failed or "left out"."""
    seconds: float
    """On the clock on the wall."""
    cpu_seconds: float
    """Of its commands and the processes they started, but not of VMs, nor of a process nobody waited for."""
    reasons: list[str]
    """Lines of the output of a gate that failed which say why."""


def forget(target: str) -> None:
    """Remove the costs of the last run of this target."""
    (LOGS / f"costs-{target}.json").unlink(missing_ok=True)


def keep(target: str, results: list[Result], left_out: list[str], missing: list[str]) -> None:
    """Write down the costs of this run of the target."""
    (LOGS / f"costs-{target}.json").write_text(json.dumps([results, left_out, missing]))


def show(results: list[Result], left_out: list[str], missing: list[str]) -> int:
    """Print the table and how to get the Debian packages that are missing; return the exit status that follows."""
    print("\nSummary                           wall       CPU")
    for result in results:
        print(f"  {result.name:28} {result.seconds:5.0f} s   {result.cpu_seconds:5.0f} s   {result.state}")
    print("Left out" if left_out else "Nothing was left out.")
    print("".join(f"  {line}\n" for line in left_out), end="")
    if missing:
        print(f"To run the tests that were left out: apt-get install {' '.join(missing)}")
    states = [result.state for result in results]
    failed = states.count("failed")
    # Last, because a build server may show only the end of all output.
    for result in results:
        if result.state == "failed":
            print(f"{result.name} failed")
            print("".join(f"    {line}\n" for line in result.reasons), end="")
    print(f"{states.count('passed')} passed, {failed} failed", flush=True)
    return 1 if failed else 0


def main() -> int:
    results, left_out, missing = [], [], []
    for target in sys.argv[1:]:
        file = LOGS / f"costs-{target}.json"
        if file.exists():
            gates, lines, packages = json.loads(file.read_text())
            results += [Result(*gate) for gate in gates]
            left_out += lines
            missing += [package for package in packages if package not in missing]
        else:
            results.append(Result(f"make {target}", "failed", 0.0, 0.0, ["It could not begin, or was stopped."]))
    return show(results, left_out, missing)


if __name__ == "__main__":
    sys.exit(main())
