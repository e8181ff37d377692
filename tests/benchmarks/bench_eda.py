# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event source through ten minutes of faults below the real ansible-rulebook, and what both cost in quiet times.

An argument is another number of seconds for the faults.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLLECTION = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(COLLECTION.parents[2]))

from ansible_collections.fleetops.azure_maintenance.tests.eda.rulebook import inject_faults, polls, rulebook  # noqa: E402
from ansible_collections.fleetops.azure_maintenance.tests.simulator import launcher, plain_environment  # noqa: E402

SOURCE = COLLECTION / "extensions" / "eda" / "plugins" / "event_source" / "scheduled_events.py"
FAULTS_FOR = 600
QUIET_FOR = 30
TICKS = os.sysconf("SC_CLK_TCK")


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid: int) -> int:
    """The peak, in MiB."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024


def tell_quiet(name: str, pid: int) -> None:
    before = cpu(pid)
    time.sleep(QUIET_FOR)
    share = (cpu(pid) - before) / QUIET_FOR
    print(f"  {name}: {share:.2%} of a CPU where nothing happens, {memory(pid)} MiB")


def main() -> int:
    print("\nThe event source of Event-Driven Ansible, at polls a second apart")
    seconds = float(sys.argv[1]) if sys.argv[1:] else FAULTS_FOR
    with contextlib.ExitStack() as stack:
        azure = stack.enter_context(launcher())("--vms", "web-1")
        endpoint = azure.endpoint("web-1")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        alone = subprocess.Popen([sys.executable, str(SOURCE), f"endpoint={endpoint}"], env=plain_environment())
        stack.callback(alone.wait)
        stack.callback(alone.terminate)
        time.sleep(2)
        tell_quiet("the source by itself", alone.pid)
        alone.terminate()
        if not shutil.which("java") or not shutil.which("ansible-rulebook"):
            print("  not measured: there is no java or no ansible-rulebook")
            return 0

        name = "fleetops.azure_maintenance.scheduled_events"
        running = stack.enter_context(rulebook(folder, name, env={"AZURE_IMDS_ENDPOINT": endpoint}))
        asked = polls(azure)
        running.wait_for("first question", lambda: polls(azure) > asked)
        tell_quiet("ansible-rulebook with the source", running.process.pid)
        event_id = azure.announce("Reboot", "web-1", notice=seconds + 900)
        running.wait_for_runs(1)
        inject_faults(azure, seconds)
        early = len(running.ran())
        azure.control("DELETE", f"/simulator/events/{event_id}")
        kinds = [run["kind"] for run in running.wait_for_runs(2)]
        lines = running.said().count("fleetops.azure_maintenance.scheduled_events - ")
    print(f"  {seconds:.0f} s of faults: the playbooks that ran are {kinds}; {lines} lines in the log")
    return 0 if early == 1 and kinds == ["prepare", "restore"] else 1


if __name__ == "__main__":
    sys.exit(main())
