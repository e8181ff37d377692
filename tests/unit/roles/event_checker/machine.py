# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A VM with the checker on it: the real program as processes in a folder, against the real simulator."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.database import (
    open_database,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report import report
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.store import Store
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import Clock

LAUNCHED = Path(__file__).with_name("launched.py")
# The folder that holds ansible_collections
IMPORT_FROM = Path(cli.__file__).parents[7]
ENVIRONMENT = {
    key: value
    for key, value in os.environ.items()
    if not key.lower().endswith("_proxy") and key not in ("AZURE_IMDS_ENDPOINT", "JOURNAL_STREAM", "NOTIFY_SOCKET")
}


@contextlib.contextmanager
def folder_in_memory():
    """A folder of its own that is gone afterwards, in memory where the system has a place for that."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def tmp_path():
    """For tests that are not about a disk: there each commit would wait for it."""
    with folder_in_memory() as folder:
        yield folder


class Machine:
    """:ivar log: where the steps write a line each: label, phase, event id, outcome."""

    def __init__(self, folder, endpoint):
        self.folder = folder
        self.endpoint = endpoint
        self.log = folder / "ran"
        self._processes = []
        for name in ("playbooks", "run", "facts", "units", "held"):
            (folder / name).mkdir(parents=True)
        self.log.touch()
        self.boots = 0
        self.boot()

    def boot(self):
        """Begin anew: what is in memory is gone, processes too."""
        self.kill_all()
        self.boots += 1
        (self.folder / "boot_id").write_text(f"boot-{self.boots}")
        shutil.rmtree(self.folder / "run")
        (self.folder / "run").mkdir()

    def configure(self, *rules, **settings):
        content = {"endpoint": self.endpoint, "poll_interval": 0.5, "timer_interval": 300, "timeout": 10, **settings}
        (self.folder / "config.json").write_text(json.dumps({**content, "rules": rules}))

    def step(self, label, script="true"):
        """A command step that writes its line, and then does as the shell script says."""
        line = 'echo "$0 $AZURE_EVENT_PHASE $AZURE_EVENT_ID $AZURE_EVENT_OUTCOME" >>"$1"; '
        return {"command": ["/bin/sh", "-c", line + script, label, str(self.log)]}

    def held_step(self, label):
        """A command step that hangs until it is released."""
        held = self.folder / "held" / label
        held.touch()
        return self.step(label, f"while test -e '{held}'; do sleep 0.05; done")

    def release(self):
        for held in (self.folder / "held").iterdir():
            held.unlink()

    def rule(self, **changes):
        """A rule that prepares, approves and restores, and whose steps tell what phase they are for."""
        rule = {
            "name": "Drain",
            "on_announced": [self.step("prepare")],
            "on_started": [self.step("note")],
            "on_ended": [self.step("restore")],
            "approve": "when_ready",
            "timeout": 20,
            "retries": 0,
        }
        rule.update(changes)
        return rule

    def start(self, *arguments, **variables):
        process = subprocess.Popen(
            [sys.executable, str(LAUNCHED), str(self.folder), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            start_new_session=True,
            env={
                **ENVIRONMENT,
                "PYTHONPATH": str(IMPORT_FROM),
                # Compiled once for all tests of a session, and nothing of it beside the program
                "PYTHONPYCACHEPREFIX": str(self.folder.parent.parent / "bytecode"),
                **variables,
            },
        )
        self._processes.append(process)
        return process

    def run(self, *arguments, **variables):
        process = self.start(*arguments, **variables)
        stdout, stderr = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def check(self, expected=0, **variables):
        """Poll once and wait for the responses that this starts."""
        done = self.run("check", "--once", **variables)
        assert done.returncode == expected, done
        self.wait(lambda: not self.active_units(), "the responses go on and on", 30)
        return done

    def check_until_quiet(self):
        """Poll until no response is left to run."""
        for _number in range(10):
            self.check()
            if not any(response["state"] in ("due", "running") for response in self.responses()):
                return
        raise AssertionError(f"there is always something left to run: {self.history()}")

    def history(self):
        """What the command history prints; read here because that is quicker."""
        with contextlib.closing(
            Store(open_database(str(self.folder / "state"), str(self.folder / "run"), pytest.fail))
        ) as state:
            return report(state, Clock().now(), state.all_events())

    def status(self):
        done = self.run("status", "--json")
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def event(self, event_id):
        return next(event for event in reversed(self.history()["events"]) if event["event_id"] == event_id)

    def responses(self):
        return [response for event in self.history()["events"] for response in event["responses"]]

    @property
    def ran(self):
        """The lines that the steps wrote."""
        return [line.rstrip() for line in self.log.read_text().splitlines()]

    def active_units(self):
        """The process ids of the responses that run."""
        found = []
        for path in (self.folder / "units").iterdir():
            with open(path) as unit:
                try:
                    fcntl.flock(unit, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    found.append(path)
        return found

    def wait(self, condition, otherwise, seconds=15):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{otherwise}; the steps wrote {self.ran}, the units {self.units_log}"
            time.sleep(0.02)

    @property
    def units_log(self):
        log = self.folder / "units.log"
        return log.read_text() if log.exists() else ""

    def kill_all(self):
        """Kill every process with SIGKILL, as a crash does."""
        for process in self._processes:
            process.kill()
            process.communicate()
        self._processes = []
        for unit in self.active_units():
            # It holds the lock, so the number is still its own, as soon as it is written.
            self.wait(unit.read_text, "a unit never got its number")
            os.kill(int(unit.read_text()), signal.SIGKILL)
        self.wait(lambda: not self.active_units(), "a unit survives SIGKILL")

    def close(self):
        self.release()
        self.kill_all()
