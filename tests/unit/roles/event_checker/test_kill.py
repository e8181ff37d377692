# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 of the check and of a response at every recorded step of an event, right before and right after each commit.

Each run of the command is a process of its own, forked from this one because that is quick. The simulator's clock
stands still unless it is moved.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import shutil
import signal
import sqlite3
import traceback
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.records import (
    FAILED,
    SUCCEEDED,
    UNFINISHED,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.schema import (
    prepare,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.store import Store
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import Folders
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import machine

tmp_path = machine.tmp_path

# What is there already need not be read again in every process.
for _module in ("poll.check", "respond.responder", "report.report"):
    importlib.import_module(f"{cli.__package__}.{_module}")

LABELS = ["first", "flaky", "note", "restore"]


class Life:
    """One event from its announcement to its end on a VM, during which one process is killed.

    :ivar killed: whether any process was.
    """

    def __init__(self, folder, simulator, kill_at):
        self.folder = folder
        self.control = simulator.control
        self.kill_at = kill_at
        self.killed = False
        # Shared with the processes
        self.ticks = mmap.mmap(-1, 8)
        self.log = folder / "ran"
        self.units = folder / "units"
        self.folders = Folders(*(str(folder / name) for name in Folders._fields))._replace(
            config=str(folder / "config.json")
        )
        for name in ("playbooks", "run", "facts"):
            (folder / name).mkdir(parents=True)
        self.log.touch()
        rule = {
            "name": "Drain",
            # The second fails at its first try, so that there is a failure to be written down too.
            "on_announced": [
                self.step("first"),
                self.step("flaky", f"test -e '{folder}/tried' || {{ touch '{folder}/tried'; false; }}"),
            ],
            "on_started": [self.step("note")],
            "on_ended": [self.step("restore")],
            "approve": "when_ready",
            "retries": 1,
            "retry_delay": 0,
        }
        content = {"endpoint": simulator.endpoint("web-1"), "timeout": 600, "rules": [rule]}
        (folder / "config.json").write_text(json.dumps(content))
        self.posts_before = self.posts()
        event = self.control("POST", "/simulator/events", {"event_type": "Reboot", "resources": ["web-1"]})
        self.event_id = event["event_id"]
        # How often each step had run when it was first known to have succeeded
        self.finished = {}

    def step(self, label, script="true"):
        return {
            "command": [
                "/bin/sh",
                "-c",
                f'echo "$0 $AZURE_EVENT_ID $AZURE_EVENT_OUTCOME" >>"$1"; {script}',
                label,
                str(self.log),
            ]
        }

    @property
    def ran(self):
        return [line.split()[0] for line in self.log.read_text().splitlines()]

    def posts(self):
        journal = self.control("GET", "/simulator/journal")["requests"]
        return sum(one["method"] == "POST" for one in journal)

    def tick(self):
        count = int.from_bytes(self.ticks[:8], "big") + 1
        self.ticks[:8] = count.to_bytes(8, "big")
        if count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def command(self, *arguments):
        """Run the command in a process of its own."""
        pid = os.fork()
        if pid == 0:
            try:
                self._child(arguments)
            except BaseException:
                traceback.print_exc()
            os._exit(99)
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            self.killed = True
        else:
            assert os.WEXITSTATUS(status) == 0, (self.folder / "stderr").read_text()
        self.look()

    def _child(self, arguments):
        output = os.open(str(self.folder / "stderr"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        original = Store.transaction

        @contextmanager
        def transaction(state):
            with original(state):
                yield
                self.tick()
            self.tick()

        def start_unit(number, **_options):
            with open(self.units, "a") as units:
                units.write(f"{number}\n")

        Store.transaction = transaction
        cli.start_unit = start_unit
        code = cli.main(arguments, self.folders)
        os._exit(code)

    def tables(self):
        path = Path(self.folders.state, "state.db")
        if not path.exists():
            return [], [], []
        with closing(sqlite3.connect(str(path))) as connection:
            store = Store(prepare(connection))
            responses = store.all_responses()
            steps = [step for response in responses for step in response.steps]
            return (
                [row._asdict() for row in store.all_events()],
                [row._asdict() for row in responses],
                [row._asdict() for row in steps],
            )

    def look(self):
        """Hold what is recorded now against what has really happened, and must not happen any more."""
        _events, _responses, steps = self.tables()
        for step in steps:
            content = step["content"]
            label = content["command"][3] if "command" in content else "approve"
            if step["state"] == SUCCEEDED and label != "approve":
                self.finished.setdefault(label, self.ran.count(label))
        if self.posts() > self.posts_before:
            assert {"first", "flaky"} <= set(self.finished), "approved before the preparation had succeeded"

    def live(self):
        """Fire the timer again and again, as Azure goes on, until all is over."""
        for _number in range(40):
            self.units.write_text("")
            self.command("check", "--once")
            for number in dict.fromkeys(self.units.read_text().split()):
                self.command("respond", number)
            events, responses, _steps = self.tables()
            theirs = next(
                one for one in self.control("GET", "/simulator/events")["events"] if one["event_id"] == self.event_id
            )
            busy = any(response["state"] in UNFINISHED for response in responses)
            if busy or not events or events[0]["phase"] != theirs["phase"]:
                continue
            if theirs["phase"] == "ended":
                return
            # Long enough for the start, not for the end; then for the end
            self.control("POST", "/simulator/clock", {"advance": 2 if theirs["phase"] == "announced" else 60})
        raise AssertionError((self.folder / "stderr").read_text())

    def judge(self):
        events, responses, steps = self.tables()
        assert [(event["phase"], event["outcome"]) for event in events] == [("ended", "completed")]
        assert [response["phase"] for response in responses] == ["announced", "started", "ended"]
        assert {response["state"] for response in responses} == {SUCCEEDED}
        assert {step["state"] for step in steps} == {SUCCEEDED}
        assert sum(step["interruptions"] for step in steps) <= int(self.killed)
        ran = self.ran
        # Each in its turn, one after the other
        assert [label for label, _runs in groupby(ran)] == LABELS
        for label in LABELS:
            assert ran.count(label) == self.finished[label], f"{label} ran again after it had finished"
        for step in steps:
            content = step["content"]
            if "command" in content:
                # Again only after a failure, or after it was cut off
                assert ran.count(content["command"][3]) <= 1 + step["failures"] + step["interruptions"]
        assert FAILED not in {response["state"] for response in responses}
        assert self.posts() - self.posts_before in ((1, 2) if self.killed else (1,))
        ended = [line for line in self.log.read_text().splitlines() if line.startswith("restore")]
        assert set(ended) == {f"restore {self.event_id} completed"}


@pytest.fixture
def azure(simulator):
    return simulator("--clock", "manual", "--vms", "web-1")


@pytest.mark.matrix
@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.release), "after"])
def test_kill_9_at_every_recorded_step(azure, tmp_path, moment):
    number = 1 if moment == "before" else 2
    while True:
        life = Life(tmp_path / str(number), azure, number)
        life.live()
        try:
            life.judge()
        except AssertionError as error:
            stderr = (life.folder / "stderr").read_text()
            raise AssertionError(
                f"killed {moment} commit {(number + 1) // 2}: {error}\n{life.ran}\n{stderr}"
            ) from error
        if not life.killed:
            break
        shutil.rmtree(life.folder)
        azure.control("DELETE", "/simulator/journal")
        number += 2
    # It is a life of many steps, so that the loop did not end for another reason.
    assert number > 60
    assert life.ran == ["first", "flaky", "flaky", "note", "restore"]
