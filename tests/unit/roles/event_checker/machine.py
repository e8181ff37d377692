# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A VM with the checker on it: the real program as processes in a folder, against the real simulator."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.report import (
    report,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.database import (
    open_database,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.store import Store
from ansible_collections.fleetops.azure_maintenance.tests.simulator import plain_environment
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.shared_clock import SharedClock

# What takes longer hangs.
STOP = 600
LAUNCHED = Path(__file__).with_name("launched.py")
# The folder that holds ansible_collections
IMPORT_FROM = Path(cli.__file__).parents[7]
OF_OTHERS = ("AZURE_IMDS_ENDPOINT", "JOURNAL_STREAM", "NOTIFY_SOCKET")
ENVIRONMENT = {key: value for key, value in plain_environment().items() if key not in OF_OTHERS}


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


class Launcher:
    """The process from which the command is forked; see launched.py."""

    _running = None

    def __init__(self, folder):
        self.owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, str(LAUNCHED)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **ENVIRONMENT,
                "PYTHONPATH": str(IMPORT_FROM),
                # Compiled once for all tests of a session, and nothing of it beside the program
                "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            },
        )
        atexit.register(self._stop)

    @classmethod
    def get(cls, folder):
        """Return the one of this process: what another one has mounted is seen only by its own."""
        if cls._running is None or cls._running.owner != os.getpid():
            cls._running = cls(folder)
        return cls._running

    def ask(self, *request):
        """Send a request and return the number that is the answer."""
        self._process.stdin.write(json.dumps(request).encode("ascii") + b"\n")
        self._process.stdin.flush()
        ready, _unused, _unused = select.select([self._process.stdout], [], [], STOP)
        assert ready, f"no answer to {request}"
        return int(self._process.stdout.readline())

    def _stop(self):
        if self.owner == os.getpid():
            self._process.stdin.close()
            self._process.wait(STOP)
            self._process.stdout.close()


class Run:
    """One run of the command. Its output goes to files, so that nothing waits for whoever reads it."""

    def __init__(self, launcher, request, output):
        self._launcher = launcher
        self._output = output
        self.pid = launcher.ask("start", *request)
        self.returncode = None

    def poll(self):
        return self._ask("poll")

    def wait(self):
        return self._ask("wait")

    def _ask(self, verb):
        if self.returncode is None:
            answer = self._launcher.ask(verb, self.pid)
            self.returncode = None if answer == -1 else answer
        return self.returncode

    def signal(self, number):
        """Send a signal to it, if it still runs."""
        if self.poll() is None:
            os.killpg(self.pid, number)

    def terminate(self):
        self.signal(signal.SIGTERM)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.wait()

    def communicate(self):
        """Return what it printed, after its end."""
        self.wait()
        return tuple(Path(f"{self._output}.{name}").read_text() for name in ("stdout", "stderr"))


class Machine:
    """Its clock stands still, but while a check sleeps between two polls, which each test lets go on by itself.

    :param at: what its clock shows, in Unix time; that of this machine where it is not given.
    :ivar log: where the steps write a line each: label, phase, event id, outcome.
    :ivar usual_answer: how many seconds a check waits for an answer of IMDS while something is due.
    """

    def __init__(self, folder, endpoint, at=None):
        self.folder = folder
        self.endpoint = endpoint
        self.log = folder / "ran"
        self.usual_answer = STOP
        self._runs = []
        self._started = 0
        for name in ("playbooks", "run", "facts", "units", "held", "output"):
            (folder / name).mkdir(parents=True)
        self.log.touch()
        self.clock = SharedClock(folder / "clock")
        self.clock.set_to(time.time() if at is None else at, 5000.0)
        self.boots = 0
        self.boot()

    def boot(self):
        """Begin anew: what is in memory is gone, processes too."""
        self.kill_all()
        self.boots += 1
        if self.boots > 1:
            self.clock.set_to(self.clock.now().at, 10.0)
        (self.folder / "boot_id").write_text(f"boot-{self.boots}")
        shutil.rmtree(self.folder / "run")
        (self.folder / "run").mkdir()

    def configure(self, *rules, **settings):
        content = {"endpoint": self.endpoint, "poll_interval": 0.5, "timer_interval": 300, "timeout": STOP, **settings}
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
            "timeout": STOP,
            "retries": 0,
        }
        rule.update(changes)
        return rule

    def start(self, *arguments, **variables):
        self.clock.wake()
        self._started += 1
        output = self.folder / "output" / str(self._started)
        request = (str(self.folder), arguments, variables, str(output), self.usual_answer)
        self._runs.append(Run(Launcher.get(self.folder.parent.parent), request, output))
        return self._runs[-1]

    def run(self, *arguments, **variables):
        run = self.start(*arguments, **variables)
        stdout, stderr = run.communicate()
        return subprocess.CompletedProcess(arguments, run.returncode, stdout, stderr)

    def poll(self, times=1):
        """Let the check that runs poll so many times more: the time until each passes at once."""
        for _number in range(times):
            self.wait_for_sleep()
            self.clock.wake()
        self.wait_for_sleep()

    def wait_for_sleep(self):
        self.wait(self.clock.is_anyone_asleep, "the check does not come to the end of its poll")

    def check(self, expected=0, **variables):
        """Poll once and wait for the responses that this starts."""
        done = self.run("check", "--once", **variables)
        assert done.returncode == expected, done
        self.wait_for_units()
        return done

    def check_until_ran(self, steps):
        """Poll once, and wait until so many steps have written their line."""
        assert self.run("check", "--once").returncode == 0
        self.wait(lambda: len(self.ran) == steps, f"step {steps} does not begin")

    def wait_for_units(self):
        self.wait(lambda: not self.active_units(), "the responses do not end")

    def retry(self, number):
        """Try a response again, as a person does, and wait for its end."""
        done = self.run("retry", str(number))
        assert done.returncode == 0, done
        self.wait_for_units()

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
            return report(state, self.clock.now(), state.all_events())

    def sql(self, statement):
        """Change the state behind the back of the program."""
        connection = sqlite3.connect(self.folder / "state" / "state.db")
        with contextlib.closing(connection), connection:
            connection.execute(statement)

    def status(self):
        done = self.run("status", "--json")
        # 1: something waits for a person; 3: no document was heard of
        assert done.returncode in (0, 1, 3), done
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

    def wait(self, condition, otherwise):
        end = time.monotonic() + STOP
        while not condition():
            assert time.monotonic() < end, f"{otherwise}; the steps wrote {self.ran}, the units {self.units_log}"
            time.sleep(0.005)

    @property
    def units_log(self):
        log = self.folder / "units.log"
        return log.read_text() if log.exists() else ""

    def kill_all(self):
        """Kill every process with SIGKILL, as a crash does."""
        for run in self._runs:
            run.kill()
        self._runs = []
        for unit in self.active_units():
            # It holds the lock, so the number is still its own, as soon as it is written.
            self.wait(unit.read_text, "a unit never got its number")
            os.kill(int(unit.read_text()), signal.SIGKILL)
        self.wait(lambda: not self.active_units(), "a unit survives SIGKILL")

    def close(self):
        self.release()
        self.kill_all()
