# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Run the gates of gates.toml that the arguments name (lint, test and test-matrix stand for many).

The output of a gate goes to build/logs/GATE.log and is shown when the gate fails; of a gate that passes only the lines
with counts, tests that were left out, and warnings are shown.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import costs
import measured
from costs import Result
from needs import (
    GATES,
    Gate,
    environment,
    gates_of,
    install_packages,
    make_venvs,
    missing_packages,
    why_no_lab,
    why_no_python,
)
from tree import COLLECTIONS, make_tree
from venvs import LOGS, ROOT

# The exit status of pytest where all tests were left out
NO_TEST_RAN = 5
# Set where a lab that does not stand is a failure
LAB_REQUIRED = "LAB_REQUIRED"
# Seconds after which a gate is ended and has failed, so that one that hangs takes no result from the others
LIMIT = 3600
# At once: two keep the cores busy, and the third uses them while one of the two waits.
AT_ONCE = 3
# Beside these: the VMs of two labs leave the others some CPU.
LABS_AT_ONCE = 2
# After these: each waits a while for the packages that it installs.
ALONE_AT_ONCE = 2

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


class Schedule:
    """The gates that have not begun yet, in their order."""

    def __init__(self, gates: list[Gate]) -> None:
        self._waiting = list(gates)
        self._busy_lanes: set[str] = set()
        self._changed = threading.Condition()

    def next(self) -> Gate | None:
        """Wait for a gate whose lane is free and return it, or None where all have begun."""
        with self._changed:
            while self._waiting:
                gate = next((gate for gate in self._waiting if gate.lane not in self._busy_lanes), None)
                if gate:
                    self._waiting.remove(gate)
                    if gate.lane:
                        self._busy_lanes.add(gate.lane)
                    return gate
                self._changed.wait()
        return None

    def ended(self, gate: Gate) -> None:
        with self._changed:
            self._busy_lanes.discard(gate.lane)
            self._changed.notify_all()


def run(gate: Gate, env: dict[str, str]) -> tuple[Result, str]:
    """Run the command of this gate, and return its result and its output."""
    log = LOGS / f"{gate.name}.log"
    shutil.rmtree(gate.collections, ignore_errors=True)
    tree = shutil.copytree(COLLECTIONS / "ansible_collections", gate.collections / "ansible_collections", symlinks=True)
    # A gate in a lane is one process, and the next one in the lane waits; the others have processes enough.
    first = ["nice", "-n", "0" if gate.lane else "5"]
    bash = [*first, "bash", "-e", "-u", "-o", "pipefail", "-c", gate.command]
    start = time.monotonic()
    with open(log, "w") as output:
        place = tree / "fleetops" / "azure_maintenance"
        process = subprocess.Popen(bash, cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        limit = threading.Timer(LIMIT, process.kill)
        limit.start()
        # Popen.wait() does not return the resources that the process used.
        _pid, status, used = os.wait4(process.pid, 0)
        limit.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - start
    state = {0: "passed", NO_TEST_RAN: "left out"}.get(process.returncode, "failed")
    printed = log.read_text(errors="replace")
    if process.returncode == -signal.SIGKILL:
        printed += f"\nERROR: killed, after {seconds:.0f} s; a gate may take {LIMIT} s.\n"
    lines = printed.splitlines() if state == "failed" else []
    reasons = [line[:300] for line in [line for line in lines if REASON.match(line)] or lines][-20:]
    return Result(gate.name, state, seconds, used.ru_utime + used.ru_stime, reasons), printed


def tell(result: Result, printed: str) -> list[str]:
    """Print how a gate ended, and return the tests that it has left out."""
    shown = dict.fromkeys(line for line in printed.splitlines() if SHOWN.match(line))
    told = printed if result.state == "failed" else "".join(f"    {line}\n" for line in shown)
    print(f"{result.name}\n{told}    {result.state}, {result.seconds:.0f} s", flush=True)
    return [f"{result.name}: {line}" for line in shown if LEFT_OUT.match(line)]


def main() -> int:
    if re.search(r"\s", str(ROOT)):
        sys.exit(f"ansible-test cannot work below a folder with a space in its name: {ROOT}")
    LOGS.mkdir(parents=True, exist_ok=True)
    gates = gates_of(sys.argv[1:])
    target = "-".join(sys.argv[1:]) if len(sys.argv) == 2 else "gates"
    costs.forget(target)
    install_packages(gates)
    programs = make_venvs(gates)
    tree = make_tree(COLLECTIONS)
    measured.forget()

    results: list[Result] = []
    left_out: list[str] = []
    ready = []
    for gate in gates:
        no_lab = why_no_lab(gate)
        problem = no_lab or why_no_python(gate, programs)
        if no_lab and os.environ.get(LAB_REQUIRED):
            results.append(Result(gate.name, "failed", 0.0, 0.0, [no_lab]))
            tell(results[-1], f"{no_lab}\n")
        elif problem:
            left_out.append(f"{gate.name}: {problem}")
        else:
            ready.append(gate)

    def work(schedule: Schedule) -> None:
        while (gate := schedule.next()) is not None:
            try:
                result, printed = run(gate, environment(gate, programs))
            finally:
                schedule.ended(gate)
            results.append(result)
            left_out.extend(tell(result, printed))

    # A gate in the lab waits for its VMs most of the time, so no other gate need wait for it.
    labs = [gate for gate in ready if gate.lab and not gate.alone]
    others = [gate for gate in ready if not gate.lab and not gate.alone]
    alone = [gate for gate in ready if gate.alone]
    for groups in (((labs, LABS_AT_ONCE), (others, AT_ONCE)), ((alone, ALONE_AT_ONCE),)):
        with ThreadPoolExecutor(AT_ONCE + LABS_AT_ONCE) as pool:
            schedules = [schedule for group, places in groups for schedule in [Schedule(group)] * places]
            for worker in [pool.submit(work, schedule) for schedule in schedules]:
                worker.result()
    some = next((gate for gate in ready if gate.measured), None)
    if some:
        measured.show(programs[some.venvs[0]], tree)
    results.sort(key=lambda result: list(GATES).index(result.name))
    missing = missing_packages(gates)
    costs.keep(target, results, left_out, missing)
    return costs.show(results, left_out, missing)


if __name__ == "__main__":
    sys.exit(main())
