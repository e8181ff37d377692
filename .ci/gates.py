# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Run the gates of gates.toml that the arguments name (lint, test and test-matrix stand for many).

The output of a gate goes to build/logs/GATE.log and is shown when the gate fails; of a gate that passes only the lines
with counts, tests that were left out, and warnings are shown. The summary at the end is also in build/logs/.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import lab
import measured
import needs
from tree import make_tree
from venvs import BUILD, LOGS, ROOT

# The exit status of pytest where all tests were left out
NO_TEST_RAN = 5
# Seconds after which a gate is ended and has failed, so that one that hangs takes no result from the others
LIMIT = 3600
# The exit status of timeout after that
KILLED = 137
# At once: two keep the cores busy, and the third uses them while one of the two waits.
AT_ONCE = 3
# Beside these: the VMs of two labs leave the others some CPU.
LABS_AT_ONCE = 2
# After these: each waits a while for the packages that it installs.
BARE_AT_ONCE = 2

LEFT_OUT = re.compile(r"SKIPPED |WARNING: Skipping |WARNING .*Missing playbook")
SHOWN = re.compile(
    r"=+ .*\d (passed|failed|skipped|errors?)\b.* =+$"
    r"|SKIPPED "
    r"|Running \S+ integration test role$"
    r"|WARNING: (?!Using locale|Reviewing previous|Location |Retrying )"
    r"|WARNING .*Missing playbook"
    r"|\S+ +: actions="
)
# Lines of a failed gate that are repeated at the end
REASON = re.compile(r"(fatal|failed): \[|E   |FAILED |ERROR")


class Result(NamedTuple):
    """How a gate ended, and its costs."""

    name: str
    state: str
    """passed, failed or "left out"."""
    seconds: float = 0.0
    """On the clock on the wall."""
    cpu_seconds: float = 0.0
    """Of its commands and the processes they started, but not of VMs, nor of a process nobody waited for."""
    reasons: tuple[str, ...] = ()
    """Lines of the output of a gate that failed which say why."""


def run(gate: needs.Gate, env: dict[str, str]) -> tuple[Result, str]:
    """Run the command of this gate, and return its result and its output."""
    log = LOGS / f"{gate.name}.log"
    copy = BUILD / gate.name
    shutil.rmtree(copy, ignore_errors=True)
    tree = shutil.copytree(BUILD / "ansible_collections", copy / "ansible_collections", symlinks=True)
    # A gate in a lane is one process, and the next one in the lane waits; the others have processes enough.
    first = ["timeout", "--foreground", "--signal=KILL", str(LIMIT), "nice", "-n", "0" if gate.lane else "5"]
    bash = [*first, "bash", "-e", "-u", "-o", "pipefail", "-c", gate.command]
    start = time.monotonic()
    with open(log, "w") as output:
        place = tree / "fleetops" / "azure_maintenance"
        process = subprocess.Popen(bash, cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        # Popen.wait() does not return the resources that the process used.
        _pid, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - start
    state = {0: "passed", NO_TEST_RAN: "left out"}.get(process.returncode, "failed")
    printed = log.read_text(errors="replace")
    if process.returncode == KILLED:
        printed += f"\nERROR: killed, after {seconds:.0f} s; a gate may take {LIMIT} s.\n"
    lines = printed.splitlines() if state == "failed" else []
    reasons = tuple(line[:300] for line in [line for line in lines if REASON.match(line)] or lines)[-20:]
    return Result(gate.name, state, seconds, used.ru_utime + used.ru_stime, reasons), printed


def tell(result: Result, printed: str) -> list[str]:
    """Print how a gate ended, and return the tests that it has left out."""
    shown = dict.fromkeys(line for line in printed.splitlines() if SHOWN.match(line))
    told = printed if result.state == "failed" else "".join(f"    {line}\n" for line in shown)
    print(f"{result.name}\n{told}    {result.state}, {result.seconds:.0f} s", flush=True)
    return [f"{result.name}: {line}" for line in shown if LEFT_OUT.match(line)]


def lanes(gates: list[needs.Gate]) -> list[list[needs.Gate]]:
    """Return these gates in their order, those of one lane together."""
    found: dict[str, list[needs.Gate]] = {}
    for gate in gates:
        found.setdefault(gate.lane or gate.name, []).append(gate)
    return list(found.values())


def summary(results: list[Result], left_out: list[str], missing: list[str]) -> str:
    """Return the table of the costs, and how to get the Debian packages that are missing."""
    lines = ["Summary                           wall       CPU"]
    for result in results:
        lines.append(f"  {result.name:28} {result.seconds:5.0f} s   {result.cpu_seconds:5.0f} s   {result.state}")
    lines += ["Left out", *(f"  {line}" for line in left_out)] if left_out else ["Nothing was left out."]
    if missing:
        lines.append(f"To run the tests that were left out: apt-get install {' '.join(missing)}")
    # Last, because a build server may show only the end of all output.
    for result in results:
        if result.state == "failed":
            lines += [f"{result.name} failed", *(f"    {line}" for line in result.reasons)]
    states = [result.state for result in results]
    return "\n".join([*lines, f"{states.count('passed')} passed, {states.count('failed')} failed\n"])


def main() -> int:
    if re.search(r"\s", str(ROOT)):
        sys.exit(f"ansible-test cannot work below a folder with a space in its name: {ROOT}")
    LOGS.mkdir(parents=True, exist_ok=True)
    gates = needs.gates_of(sys.argv[1:])
    target = sys.argv[1] if len(sys.argv) == 2 else "gates"
    packages = [package for gate in gates for package in gate.packages]
    needs.install_packages(packages)
    programs = needs.make_venvs(gates)
    tree = make_tree(BUILD)
    measured.forget()

    results: list[Result] = []
    left_out: list[str] = []

    def work(gates: list[needs.Gate]) -> None:
        for gate in gates:
            no_lab = lab.why_not(gate.lab) if gate.lab else ""
            if no_lab and os.environ.get("LAB_REQUIRED"):
                result, printed = Result(gate.name, "failed", reasons=(no_lab,)), f"{no_lab}\n"
            elif problem := no_lab or needs.why_no_python(gate, programs):
                left_out.append(f"{gate.name}: {problem}")
                continue
            else:
                result, printed = run(gate, needs.environment(gate, programs))
            results.append(result)
            left_out.extend(tell(result, printed))

    bare = [gate for gate in gates if gate.lab.startswith("bare-")]
    # A gate in the lab waits for its VMs most of the time, so no other gate need wait for it.
    labs = [gate for gate in gates if gate.lab and gate not in bare]
    others = [gate for gate in gates if not gate.lab]
    for at_once in ([(labs, LABS_AT_ONCE), (others, AT_ONCE)], [(bare, BARE_AT_ONCE)]):
        pools = [(ThreadPoolExecutor(places), lanes(group)) for group, places in at_once]
        for ended in [pool.map(work, group) for pool, group in pools]:
            list(ended)
    measuring = next((programs[gate.venvs[0]] for gate in gates if gate.measured), None)
    if measuring:
        measured.show(measuring, tree)
    results.sort(key=lambda result: list(needs.GATES).index(result.name))
    told = summary(results, left_out, needs.missing_packages(packages))
    (LOGS / f"summary-{target}.txt").write_text(told)
    print(f"\n{told}", end="", flush=True)
    return 1 if any(result.state == "failed" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
