# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Responses: which steps run, how often and in which order, and when Azure is told that it may start."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval import approve as approving
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import NoAnswerError
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client as imds
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.fetch import fetch
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    Config,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.report import (
    status_report,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import (
    approval,
    http_client,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import (
    responder as respond,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.notify import (
    OTHER_JOB,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.responder import (  # noqa: E501
    Responder,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.steps import (
    StepError,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.writer import (
    Writer,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import (
    records as states,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import (
    is_running,
    lock,
    response_lock,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track.situation import (
    due_responses,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils import conftest as scripted
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    NOW,
    Story,
    ended_with,
    make_document,
    make_event,
    open_state,
    started,
)

serve = scripted.serve

pytestmark = pytest.mark.filterwarnings("error")

NO_PROGRAM = {"command": ["/nosuch/program"]}
WAITS_FOR_NOBODY = "The event is approved, or has started or ended, so its approval does not wait any more."


class StageClock:
    """The clock of a stage, which is told when it waits."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def now(self) -> Any:
        return self._stage.clock.now()

    def sleep(self, seconds: float) -> None:
        self._stage.pause(seconds)


class Stage(Story):
    """The state of web-1, and the responses to what is announced to it."""

    def __init__(self, state: Any, folders: Any, clock: Any, recorder: Any) -> None:
        super().__init__(state, clock)
        self.folders = folders
        self.recorder = recorder
        self.config = Config(resource_name="web-1")
        self.while_waiting: Any = lambda: None
        self._runs = 0
        self._pauses: dict[tuple[int, int], float] = {}

    def announce(self, *words: str, event: Any = None, **rule: Any) -> None:
        """Announce an event for which the recorder is to be called with each of the words."""
        rule.setdefault("on_announced", [self.recorder.step(word) for word in words])
        self.see(event or make_event(), **rule)

    def due(self) -> list[Any]:
        return due_responses(self.state, self.clock.now(), functools.partial(is_running, self.folders))

    def open_store(self, unwritable: bool = False) -> Any:
        assert not unwritable
        return open_state(self.folders)

    def run(self) -> bool:
        """Run the first response that is due."""
        return self.run_number(self.due()[0].number)

    def run_number(self, number: int) -> bool:
        self._runs += 1
        with lock(self.folders.run, response_lock(number)) as free:
            assert free
            with closing(Writer(self.open_store, self.folders)) as writer:
                responder = Responder(writer, self.config, self.folders, StageClock(self))
                return responder.run(number)

    def pause(self, seconds: float) -> None:
        # One wait may be slept in several parts.
        which = (self._runs, len(self.recorder.calls))
        self._pauses[which] = self._pauses.get(which, 0) + seconds
        self.while_waiting()

    @property
    def pauses(self) -> list[float]:
        """How long it waited before each try that followed one that failed."""
        return list(self._pauses.values())

    def retry(self, number: int = 1) -> None:
        with self.state.transaction():
            self.state.renew_steps(number, lambda step: step.state == states.FAILED)
            self.state.begin_response(number, states.DUE, self.clock.now())

    def interrupt(self, position: int = 1) -> None:
        """Leave a step as a process leaves it that is killed in the middle of it."""
        with self.state.transaction():
            self.state.begin_response(1, states.RUNNING, self.clock.now())
            self.state.begin_step(self.state.steps(1)[position - 1], self.clock.now())

    @property
    def response(self) -> tuple[str, str | None]:
        found = self.state.response(1)
        return found.state, found.message

    @property
    def steps(self) -> list[tuple[str, str | None]]:
        return [(step.state, step.message) for step in self.state.steps(1)]

    @property
    def record(self) -> Any:
        return self.state.event(1)


@pytest.fixture
def stage(state, folders, clock, recorder):
    return Stage(state, folders, clock, recorder)


FINE = ("succeeded", ended_with(0))
STATUS_1 = ("failed", ended_with(1))


def test_the_steps_run_in_their_order(stage, capfd):
    stage.announce("one", "two")
    assert stage.run()
    assert stage.recorder.words == ["one", "two"]
    assert stage.response == ("succeeded", None)
    assert stage.steps == [FINE, FINE]
    assert stage.due() == []
    first, *_between, last = capfd.readouterr().err.splitlines()
    assert first == "Response 1 (announced, Reboot A1) begins."
    assert last == "Response 1 (announced, Reboot A1) succeeded."


def test_each_step_gets_the_event_as_it_is_known_by_then(stage):
    stage.announce(on_announced=[], on_ended=[stage.recorder.step("one")])
    stage.clock.reboot()
    stage.see()
    assert stage.run()
    (call,) = stage.recorder.calls
    told = json.loads(call.stdin)
    assert (told["maintenance_phase"], told["maintenance_outcome"]) == ("ended", "completed")
    assert told["resource_name"] == "web-1"
    assert told["maintenance_event"]["seconds_until_start"] == 840


def test_the_name_of_this_vm_is_the_one_that_azure_gave(stage):
    stage.config = Config()
    stage.set_fact("resource_name", {"name": "WEB-1", "boot_id": "any"})
    stage.announce("one")
    assert stage.run()
    assert json.loads(stage.recorder.calls[0].stdin)["resource_name"] == "WEB-1"


def test_a_step_is_written_down_before_it_runs_and_after(stage, tmp_path):
    look_inside = """
import json, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
state, content = database.execute("SELECT state, content FROM response").fetchone()
steps = json.loads(content.partition(" ")[2])[-1]
with open(sys.argv[2], "a") as file:
    file.write(json.dumps([*(step[1] for step in steps), state]) + "\\n")
"""
    out = tmp_path / "out"
    step = {"command": [sys.executable, "-I", "-c", look_inside, f"{stage.folders.state}/state.db", str(out)]}
    stage.announce(on_announced=[step, step])
    assert stage.run()
    assert [json.loads(line) for line in out.read_text().splitlines()] == [
        ["running", "pending", "running"],
        ["succeeded", "running", "running"],
    ]


def test_a_step_that_fails_at_first_is_tried_again(stage, capfd):
    stage.recorder.fail(2)
    stage.announce("one", "two", retries=2, retry_delay=7)
    assert stage.run()
    assert stage.recorder.words == ["one", "one", "one", "two"]
    assert stage.pauses == [7, 7]
    assert stage.steps == [FINE, FINE]
    assert "command " in capfd.readouterr().err


def test_a_try_that_follows_at_once_is_told_without_a_pause(stage, capfd):
    stage.recorder.fail(1)
    stage.announce("one", retries=1, retry_delay=0)
    assert stage.run()
    assert "It is tried again.\n" in capfd.readouterr().err


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_step_fails_after_one_try_and_the_retries(stage, retries, capfd):
    stage.recorder.fail(9)
    stage.announce("one", "two", retries=retries, retry_delay=7)
    assert not stage.run()
    assert stage.recorder.words == ["one"] * (retries + 1)
    assert stage.pauses == [7] * retries
    assert stage.steps == [STATUS_1, ("pending", None)]
    state, message = stage.response
    assert state == "failed"
    assert message.startswith("Step 1 (command ")
    assert message.endswith(f"): {ended_with(1)}")
    assert stage.due() == []
    lines = capfd.readouterr().err.splitlines()
    assert lines[-1] == ("Response 1 (announced, Reboot A1) failed. To try again: azure-maintenance retry 1")
    assert len([line for line in lines if line.endswith("It is tried again in 7 s.")]) == retries


def test_a_retry_resumes_at_the_step_that_failed_with_all_its_tries(stage, tmp_path):
    ready = tmp_path / "ready"
    until_ready = {"command": [sys.executable, "-c", f"import os, sys; sys.exit(not os.path.exists({str(ready)!r}))"]}
    stage.announce(on_announced=[stage.recorder.step("one"), until_ready, stage.recorder.step("two")], retries=1)
    assert not stage.run()
    assert stage.recorder.words == ["one"]
    assert stage.pauses == [10]
    assert stage.steps == [FINE, STATUS_1, ("pending", None)]
    stage.retry()
    assert stage.response == ("due", None)
    stage.while_waiting = ready.touch
    assert stage.run()
    assert stage.pauses == [10, 10]
    assert stage.recorder.words == ["one", "two"]
    assert stage.steps == [FINE, FINE, FINE]
    assert stage.response == ("succeeded", None)


def test_a_permanent_error_is_not_tried_again(stage):
    stage.announce(on_announced=[NO_PROGRAM], retries=5)
    assert not stage.run()
    assert stage.pauses == []
    ((state, message),) = stage.steps
    assert (state, message.startswith("/nosuch/program ")) == ("failed", True)


def test_p2_a_preparation_whose_record_is_lost_while_a_step_runs_goes_no_further(stage):
    lose = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(\"UPDATE response SET content = 'x'\")"
    step = {"command": [sys.executable, "-I", "-c", lose, f"{stage.folders.state}/state.db"]}
    stage.announce(on_announced=[step, stage.recorder.step("two")], approve="when_ready")
    assert stage.run()
    assert stage.recorder.words == []


class TestInterrupted:
    """A step that was begun and never ended: killed, crashed, or taken down with the VM."""

    def test_it_runs_again(self, stage, capfd):
        stage.announce("one", "two")
        stage.interrupt()
        assert stage.run()
        assert stage.recorder.words == ["one", "two"]
        assert [step.interruptions for step in stage.state.steps(1)] == [1, 0]
        assert "was interrupted and runs again." in capfd.readouterr().err

    def test_after_three_times_it_fails_and_the_journal_tells_why(self, stage, capfd):
        self.interrupt_three_times(stage)
        told = capfd.readouterr().err
        assert f"step 1: command {sys.executable}" in told
        assert ": It was interrupted 3 times and is not run again.\n" in told

    def test_killed_before_the_response_could_fail_the_journal_tells_why(self, stage, capfd):
        stage.announce("one", retries=0)
        with stage.state.transaction():
            stage.state.begin_response(1, states.RUNNING, stage.clock.now())
            stage.state.finish_step(stage.state.steps(1)[0], states.FAILED, "No.", stage.clock.now())
        assert not stage.run()
        assert stage.recorder.words == []
        assert ": No.\n" in capfd.readouterr().err

    def interrupt_three_times(self, stage):
        stage.announce("one", "two")
        for _number in range(2):
            stage.interrupt()
            # As it begins anew, and is killed again
            with stage.state.transaction():
                stage.state.interrupt_step(stage.state.steps(1)[0])
        stage.interrupt()
        assert not stage.run()
        assert stage.recorder.words == []
        message = "It was interrupted 3 times and is not run again."
        assert stage.steps == [("failed", message), ("pending", None)]
        assert stage.response[0] == "failed"
        assert stage.response[1].endswith(message)
        (event,) = status_report(stage.state, stage.clock.now(), [])["events"]
        assert [step["tries"] for step in event["responses"][0]["steps"]] == [3, 0]

    def test_a_retry_forgets_the_interruptions(self, stage):
        self.interrupt_three_times(stage)
        stage.retry()
        stage.interrupt()
        assert stage.run()
        assert stage.recorder.words == ["one", "two"]

    def test_what_finished_before_is_not_run_again(self, stage):
        stage.announce("one", "two")
        with stage.state.transaction():
            stage.state.finish_step(stage.state.steps(1)[0], states.SUCCEEDED, "Done.", stage.clock.now())
        stage.interrupt(2)
        assert stage.run()
        assert stage.recorder.words == ["two"]

    def test_the_failures_before_it_still_count(self, stage):
        stage.recorder.fail(9)
        stage.announce("one", retries=2)
        step = stage.state.steps(1)[0]
        with stage.state.transaction():
            stage.state.finish_step(step, states.FAILED, "No.", stage.clock.now())
            stage.state.finish_step(step, states.FAILED, "No.", stage.clock.now())
        stage.interrupt()
        assert not stage.run()
        assert stage.recorder.words == ["one"]

    def test_between_two_tries_is_no_interruption(self, stage):
        stage.announce("one", retries=2)
        step = stage.state.steps(1)[0]
        with stage.state.transaction():
            stage.state.begin_response(1, states.RUNNING, stage.clock.now())
            stage.state.finish_step(step, states.FAILED, "No.", stage.clock.now())
        assert stage.run()
        assert stage.state.steps(1)[0].interruptions == 0


class TestACallbackToAwx:
    """Of one template AWX takes one callback at a time for a VM, whoever asked for the job that is pending."""

    @pytest.fixture
    def step(self, stage, tmp_path, serve, monkeypatch):
        monkeypatch.setattr(http_client, "_FIRST_PAUSE", 0.01)
        key = tmp_path / "key"
        key.touch(0o600)
        key.write_text("k3y")
        busy = (400, b'{"msg":"Host callback job already pending."}')

        def announce(*replies):
            url = f"{serve(*replies, then=busy).endpoint}/api/v2/job_templates/7/callback/"
            stage.announce(on_announced=[{"awx_callback": url, "key_file": str(key), "timeout": 600}], retries=0)

        return announce

    @pytest.mark.parametrize(("noted", "ours"), [(None, True), (OTHER_JOB, False)])
    def test_p13_after_a_kill_the_job_is_ours_unless_another_was_seen_before(self, stage, step, noted, ours):
        busy = (400, b'{"msg":"Host callback job already pending."}')
        step(busy, *([] if noted is None else [(201,)]))
        if noted:
            stage.state.note_step(stage.state.steps(1)[0], noted)
        stage.interrupt()
        assert stage.run()
        ((state, message),) = stage.steps
        assert (state, "already" in message) == ("succeeded", ours)

    def test_p13_that_another_job_was_seen_outlives_a_kill(self, stage, step, monkeypatch):
        step()

        class Killed(BaseException):
            pass

        def kill(_seconds):
            raise Killed

        monkeypatch.setattr(http_client.time, "sleep", kill)
        with pytest.raises(Killed):
            stage.run()
        assert stage.steps == [("running", OTHER_JOB)]


class TestOvertaken:
    """The event ends while it is still being prepared for."""

    def test_the_steps_that_are_left_are_skipped(self, stage, capfd):
        stage.recorder.fail(1)
        stage.announce("one", "two", approve="when_ready", retry_delay=600)
        stage.while_waiting = stage.see
        assert stage.run()
        assert stage.recorder.words == ["one"]
        assert stage.response == ("skipped", "The event ended before its preparation did.")
        assert [state for state, _message in stage.steps] == ["failed", "skipped", "skipped"]
        # It does not wait any longer than until the end was seen.
        assert stage.pauses == [1]
        assert "The steps that are left are skipped." in capfd.readouterr().err

    def test_it_is_seen_before_the_first_step(self, stage):
        stage.announce("one")
        stage.due()
        stage.see()
        assert stage.run_number(1)
        assert stage.recorder.words == []
        assert stage.steps == [("skipped", None)]

    def test_on_started_does_not_keep_the_end_waiting_between_two_tries(self, stage):
        stage.recorder.fail(1)
        stage.announce(
            on_started=[stage.recorder.step("note")], on_ended=[stage.recorder.step("back")], retry_delay=600
        )
        stage.see(make_event(event_status="Started"))
        stage.while_waiting = stage.see
        assert stage.run()
        assert stage.pauses == [1]
        assert stage.run()
        assert stage.recorder.words == ["note", "note", "back"]


def test_putting_back_into_service_yields_to_a_preparation_between_two_steps(stage, tmp_path):
    stage.announce(on_announced=[], on_ended=[stage.recorder.step("back-1"), stage.recorder.step("back-2")])
    stage.see()
    number = stage.due()[0].number

    def announce_another(*arguments):
        stage.announce("drain", event=make_event("B"))
        assert stage.due() == []
        return run_step(*arguments)

    run_step = respond.run_step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(respond, "run_step", announce_another)
        assert stage.run_number(number)
    assert stage.recorder.words == ["back-1"]
    assert stage.state.response(number).state == "due"
    assert stage.run()
    assert stage.recorder.words == ["back-1", "drain"]
    assert stage.due() == []
    stage.see()
    assert stage.run()
    assert stage.recorder.words == ["back-1", "drain", "back-2"]


def test_putting_back_into_service_yields_to_a_preparation_between_two_tries(stage):
    stage.recorder.fail(1)
    stage.announce(on_announced=[], on_ended=[stage.recorder.step("back")], retry_delay=600)
    stage.see()
    number = stage.due()[0].number

    def while_waiting():
        stage.announce("drain", event=make_event("B"))
        assert stage.due() == []

    stage.while_waiting = while_waiting
    assert stage.run_number(number)
    assert stage.pauses == [1]
    assert stage.state.response(number).state == "due"
    assert stage.run()
    assert stage.recorder.words == ["back", "drain"]


def marked_by_a_run(stage, state, since, longest=0.0):
    """The path of a mark of a run that restores after another event, or does something else.

    The times in it are by the clock of its controller.

    :param longest: seconds that this may take by its mark.
    """
    about = {"event_id": "OVER", "event_type": "Reboot"}
    told = since - timedelta(hours=1)
    mark = marks.set_state(marks.new_mark(marks.RUN, about, format_utc(told), run="r1"), state, told, longest)
    folder = Path(stage.folders.marks)
    folder.mkdir()
    path = folder / marks.file_name(mark)
    path.write_bytes(marks.encode(mark))
    os.utime(path, (since.timestamp(),) * 2)
    return path


@pytest.mark.parametrize("phase", ["announced", "started"])
def test_p3_what_takes_the_vm_out_of_service_waits_while_a_run_puts_it_back(stage, phase, capfd):
    path = marked_by_a_run(stage, marks.RESTORING, NOW)
    ran_while_waiting = []

    def while_waiting():
        # A run looks at the marks of others after it has written its own.
        own = [each for each in path.parent.iterdir() if each != path]
        ran_while_waiting.append((len(own), stage.recorder.words))
        if len(ran_while_waiting) == 30:
            path.unlink()

    stage.while_waiting = while_waiting
    step = [stage.recorder.step("drain")]
    if phase == "started":
        stage.see(started(make_event()), on_announced=[], on_started=step)
    else:
        stage.announce("drain", approve="never")
    assert stage.run()
    assert ran_while_waiting == [(1, [])] * 30
    assert stage.recorder.words == ["drain"]
    assert "waits while a run puts this VM back into service" in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("does", "age", "longest", "waits"),
    [
        pytest.param(marks.RESTORING, 90, 0, 10, id="a run that was killed is waited for as long as a step may take"),
        pytest.param(marks.RESTORING, 101, 0, 0, id="a run that was killed long ago"),
        pytest.param(marks.RESTORING, -5000, 0, 100, id="a clock that is ahead"),
        pytest.param(marks.RESTORING, 0, 30, 30, id="a run whose restore may take less than the step"),
        pytest.param(marks.PREPARING, 0, 0, 0, id="a run that prepares"),
        pytest.param(marks.PREPARED, 0, 0, 0, id="a run that has prepared"),
        pytest.param(marks.FAILED, 0, 0, 0, id="a run that has failed"),
    ],
)
def test_p15_a_preparation_waits_for_no_run_without_an_end(stage, does, age, longest, waits):
    marked_by_a_run(stage, does, NOW - timedelta(seconds=age), longest)
    stage.while_waiting = lambda: stage.clock.advance(1)
    stage.announce("drain", timeout=100, approve="never")
    assert stage.run()
    assert stage.recorder.words == ["drain"]
    assert sum(stage.pauses) == waits


@pytest.mark.parametrize(
    ("set_by", "ends_after", "waits"),
    [
        pytest.param(-3600, None, 100, id="P15: a clock that is set back does not prolong the wait"),
        pytest.param(3600, 30, 30, id="P3: a clock that is set forward does not end the wait"),
    ],
)
def test_p3_p15_a_clock_that_is_set_while_a_preparation_waits_for_a_run(stage, set_by, ends_after, waits):
    path = marked_by_a_run(stage, marks.RESTORING, NOW)

    def while_waiting():
        stage.clock.advance(1)
        if sum(stage.pauses) == 3:
            stage.clock.set_by(set_by)
        if sum(stage.pauses) == ends_after:
            path.unlink()

    stage.while_waiting = while_waiting
    stage.announce("drain", timeout=100, approve="never")
    assert stage.run()
    assert stage.recorder.words == ["drain"]
    assert sum(stage.pauses) == waits


def test_p3_a_preparation_whose_event_ends_while_it_waits_for_a_run_is_skipped(stage):
    marked_by_a_run(stage, marks.RESTORING, NOW)

    def while_waiting():
        stage.clock.advance(1)
        stage.see()

    stage.while_waiting = while_waiting
    stage.announce("drain", approve="never")
    assert stage.run()
    assert stage.recorder.words == []
    assert stage.response[0] == states.SKIPPED


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    """The socket on which systemd hears of a unit."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        yield listener


def told_to(systemd):
    """Return the messages, each as a mapping."""
    told = []
    with contextlib.suppress(BlockingIOError):
        while True:
            told.append(dict(line.split("=") for line in systemd.recv(200).decode().splitlines()))
    return told


def test_systemd_is_told_how_long_a_step_may_take(stage, systemd):
    stage.recorder.fail(1)
    stage.announce("one", timeout=100, retry_delay=30)
    assert stage.run()
    told = told_to(systemd)
    assert [each["EXTEND_TIMEOUT_USEC"] for each in told] == [f"{seconds}000000" for seconds in (160, 90, 160)]


def test_p15_systemd_ends_a_program_that_says_nothing_for_long_after_the_time_of_its_step(stage, systemd):
    stage.recorder.fail(1)
    stage.announce("one", timeout=100, retry_delay=30)
    assert stage.run()
    # Ten minutes more: the clock of the VM may jump by as long as Azure froze it, and a disk may be slow.
    assert [(each["WATCHDOG"], int(each["WATCHDOG_USEC"]) // 1_000_000) for each in told_to(systemd)] == [
        ("1", 760),
        ("1", 690),
        ("1", 760),
    ]


def test_p15_a_pause_between_two_tries_is_not_longer_than_systemd_was_told(stage):
    # To look at the state each second takes its time, on a slow disk much.
    stage.while_waiting = lambda: stage.clock.advance(1.5)
    stage.recorder.fail(1)
    stage.announce("one", retry_delay=30)
    assert stage.run()
    assert stage.pauses == [20]


@pytest.mark.parametrize("address", ["", "/nosuch/notify"])
def test_a_step_runs_where_systemd_cannot_be_told(stage, monkeypatch, address):
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    stage.announce("one")
    assert stage.run()
    assert stage.recorder.words == ["one"]


class Azure:
    """The simulator for web-1 and web-2 under the manual clock, and what it was asked."""

    def __init__(self, simulator: Any, stage: Stage) -> None:
        self.simulator = simulator("--clock", "manual", "--vms", "web-1,web-2")
        self.stage = stage
        stage.config = Config(endpoint=self.simulator.endpoint("web-1"), timeout=600)

    def schedule(self, *resources: str) -> str:
        body = {"event_type": "Reboot", "resources": list(resources)}
        return self.simulator.control("POST", "/simulator/events", body)["event_id"]

    def advance(self, seconds: float) -> None:
        self.simulator.control("POST", "/simulator/clock", {"advance": seconds})

    def fault(self, **fault: Any) -> None:
        self.simulator.control("POST", "/simulator/faults", fault)

    def announce_new(self, *words: str, resources: Any = ("web-1",), **rule: Any) -> str:
        """Schedule an event, and let the check see it."""
        event_id = self.schedule(*resources)
        self.announce(*words, **rule)
        return event_id

    def announce(self, *words: str, **rule: Any) -> None:
        """Let the check see what Azure tells now."""
        found = fetch(self.stage.config.client(retries=False), "web-1")
        rule.setdefault("on_announced", [self.stage.recorder.step(word) for word in words])
        self.stage.see(*found.document.events, **rule)

    @property
    def approvals(self) -> int:
        """How many approvals Azure was sent, taken or not."""
        return len(self.simulator.posted())


class TestApproval:
    """Against the simulator: when Azure is told that it may start, and when not."""

    @pytest.fixture(autouse=True)
    def _short_pauses(self, monkeypatch):
        for module in (imds, approving):
            monkeypatch.setattr(module, "_FIRST_PAUSE", 0.01)
            monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.05)

    @pytest.fixture
    def azure(self, simulator, stage):
        return Azure(simulator, stage)

    @pytest.fixture
    def hears_first(self, monkeypatch):
        """Let the first document that an approval reads list an event, and the next ones what the simulator tells."""

        def hear(event: Any) -> None:
            read, first = approval.fetch_document, [make_document(event)]

            def fetch_document(client: Any, *rest: Any) -> Any:
                return (client, first.pop()) if first else read(client, *rest)

            monkeypatch.setattr(approval, "fetch_document", fetch_document)

        return hear

    def test_when_ready_comes_after_the_steps(self, azure, stage):
        azure.announce_new("one", approve="when_ready")
        assert stage.run()
        assert stage.steps == [FINE, ("succeeded", approval.TAKEN)]
        assert azure.approvals == 1
        assert (stage.record.approval, stage.record.approved_at) == ("approved", stage.clock.now().at)

    @pytest.mark.parametrize(("given", "approvals"), [("web-2", 0), (None, 1)])
    def test_a_vm_approves_under_the_name_that_is_configured_or_that_azure_gives_it_now(
        self, azure, stage, given, approvals
    ):
        azure.announce_new("one", approve="when_ready")
        # As on a disk that was copied from another VM
        stage.set_fact("resource_name", {"name": "web-2", "boot_id": stage.clock.now().boot_id})
        stage.config = stage.config._replace(resource_name=given)
        assert stage.run()
        assert azure.approvals == approvals
        assert stage.record.waiting_for == (() if approvals else ("web-1",))

    @pytest.mark.parametrize(
        ("resources", "approve", "words"),
        [
            pytest.param(["web-1", "web-2"], "when_ready", ["one", "launch"], id="the leader"),
            pytest.param(["WEB-1", "web-2"], "at_once", ["one", "launch"], id="the leader, approving at once"),
            pytest.param(["web-2", "web-1"], "when_ready", ["one"], id="another VM leads"),
            pytest.param(["web-1"], "when_ready", ["one"], id="the event is of this VM alone"),
        ],
    )
    def test_on_waiting_runs_once_on_the_leader_of_an_event_of_several_vms(
        self, azure, stage, resources, approve, words
    ):
        rule = {"approve": approve, "on_waiting": [stage.recorder.step("launch")]}
        azure.announce_new("one", resources=resources, **rule)
        while stage.due():
            assert stage.run()
            azure.announce("one", **rule)
        assert stage.recorder.words == words
        if len(words) == 2:
            assert stage.recorder.calls[1].variables["AZURE_EVENT_PHASE"] == "waiting"

    def test_on_waiting_runs_where_this_vm_comes_to_lead_the_event(self, azure, stage):
        rule = {"approve": "when_ready", "on_waiting": [stage.recorder.step("launch")]}
        azure.announce_new("one", resources=("web-2", "web-1"), **rule)
        assert stage.run()
        assert stage.due() == []
        event = stage.record.event
        for _time in range(2):
            stage.announce("one", event=event._replace(resources=("web-1", "web-2")), **rule)
        assert [each.phase for each in stage.due()] == ["waiting"]

    @pytest.mark.parametrize("approve", ["when_ready", "at_once"])
    @pytest.mark.parametrize(
        "before",
        [
            pytest.param({"resources": ("web-1", "web-2")}, id="it listed another VM"),
            pytest.param({"resources": ("null",), "names_its_vms": False}, id="a name could not be read"),
            pytest.param({"resources": (), "names_its_vms": False}, id="it listed no VM"),
            pytest.param({"event_status": None}, id="its status could not be read"),
        ],
    )
    def test_an_approval_that_waited_is_sent_as_soon_as_the_event_lists_this_vm_alone(
        self, azure, stage, hears_first, approve, before
    ):
        azure.announce_new("one", approve=approve)
        event = stage.record.event
        hears_first(event._replace(**before))
        assert stage.run()
        assert (azure.approvals, stage.record.approval) == (0, "waiting")
        # As long as nothing is known to be better, nothing is sent.
        stage.see(event._replace(**before), approve=approve)
        assert stage.due() == []
        stage.see(event, approve=approve)
        assert [each.phase for each in stage.due()] == ["announced"]
        assert stage.run()
        assert (azure.approvals, stage.record.approval) == (1, "approved")
        assert stage.recorder.words == ["one"]
        stage.see(event, approve=approve)
        assert stage.due() == []

    def test_p2_after_a_boot_an_approval_that_waited_is_sent_after_the_preparation(self, azure, stage, hears_first):
        azure.announce_new("one", approve="when_ready")
        event = stage.record.event
        hears_first(event._replace(resources=("web-1", "web-2")))
        assert stage.run()
        stage.clock.reboot()
        stage.see(event, approve="when_ready")
        assert stage.run()
        assert stage.recorder.words == ["one", "one"]
        assert (azure.approvals, stage.record.approval) == (1, "approved")

    def test_p6_an_approval_that_waited_is_not_sent_once_the_event_was_seen_started(self, azure, stage):
        azure.announce_new("one", resources=("web-1", "web-2"), approve="when_ready")
        assert stage.run()
        event = stage.record.event
        stage.see(event._replace(event_status="Started"), approve="when_ready")
        stage.clock.reboot()
        # An older document
        stage.see(event._replace(resources=("web-1",)), approve="when_ready")
        assert stage.due() == []
        assert stage.record.approval == "waiting"

    def test_an_approval_that_has_failed_since_it_waited_is_left_to_a_person(self, azure, stage):
        azure.announce_new("one", resources=("web-1", "web-2"), approve="when_ready")
        assert stage.run()
        stage.finish(1, states.FAILED, "why")
        stage.see(stage.record.event._replace(resources=("web-1",)), approve="when_ready")
        assert stage.due() == []

    def test_on_waiting_has_no_use_any_more_once_the_event_has_started(self, azure, stage):
        rule = {"approve": "when_ready", "on_waiting": [stage.recorder.step("launch")]}
        azure.announce_new("one", resources=("web-1", "web-2"), **rule)
        assert stage.run()
        stage.see(stage.record.event._replace(event_status="Started"), **rule)
        assert stage.due() == []
        waiting = stage.state.responses_to(1)[1]
        assert (waiting.phase, waiting.state) == ("waiting", "skipped")
        assert waiting.message == WAITS_FOR_NOBODY

    def test_p4_a_word_in_the_place_of_the_name_approves_nothing(self, azure, stage):
        stage.config = stage.config._replace(resource_name=None, timeout=1.0)
        azure.announce_new("one", approve="when_ready", retries=0)
        azure.fault(fault="body", body="Unavailable", path="instance")
        assert not stage.run()
        assert azure.approvals == 0
        assert stage.record.approval is None
        assert "which is not a JSON object with the vmId of a VM" in stage.steps[1][1]

    UNCLEAR: ClassVar = [
        pytest.param({"fault": "empty"}, "an empty body", id="no document"),
        pytest.param(
            {"fault": "body", "body": '{"DocumentIncarnation": 7, "Events": [{"EventId": null}]}'},
            approval.approvals.UNCLEAR_DOCUMENT,
            id="an entry that cannot be read",
        ),
    ]

    @pytest.mark.parametrize(("fault", "said"), UNCLEAR)
    def test_p4_b3_only_a_clear_document_tells_that_an_event_is_gone(self, azure, stage, fault, said):
        event_id = azure.announce_new("one", approve="when_ready", retries=1, retry_delay=3)
        azure.fault(**fault, methods=["GET"], times=2)
        assert not stage.run()
        assert stage.pauses == [3]
        state, message = stage.steps[1]
        assert (state, azure.approvals, stage.record.approval) == ("failed", 0, None)
        assert said in message
        azure.simulator.control("DELETE", f"/simulator/events/{event_id}")
        azure.advance(3600)
        stage.retry()
        assert stage.run()
        assert stage.steps[1] == ("succeeded", "The event is gone; there is nothing to approve.")

    @pytest.mark.parametrize(("fault", "said"), UNCLEAR)
    def test_s7_what_is_no_clear_document_is_tried_again(self, azure, stage, fault, said, capfd):
        azure.announce_new("one", approve="when_ready", retries=1, retry_delay=3)
        azure.fault(**fault, methods=["GET"], times=1)
        assert stage.run()
        assert stage.pauses == [3]
        assert (azure.approvals, stage.record.approval) == (1, "approved")
        assert said in capfd.readouterr().err

    def test_p13_an_approval_that_azure_refused_is_no_evidence_that_the_event_took_place(
        self, azure, stage, monkeypatch
    ):
        azure.announce_new("one", approve="when_ready", retries=0)
        azure.fault(fault="status", status=400, methods=["POST"])

        def withdraw(_seconds):
            azure.fault(fault="body", body='{"DocumentIncarnation": 9, "Events": []}', methods=["GET"])

        monkeypatch.setattr(approving, "time", SimpleNamespace(sleep=withdraw))
        assert stage.run()
        assert azure.approvals == 1
        stage.see()
        assert (stage.record.approval, stage.record.outcome) == (None, "withdrawn")

    def test_s6_a_fault_that_passes_costs_no_try(self, azure, stage):
        azure.announce_new("one", approve="when_ready", retries=0)
        azure.fault(fault="status", status=500, times=2)
        assert stage.run()
        assert stage.pauses == []
        assert stage.record.approval == "approved"

    def test_an_approval_that_was_interrupted_is_sent_again(self, azure, stage):
        azure.announce_new(approve="when_ready")
        stage.interrupt()
        assert stage.run()
        assert azure.approvals == 1
        assert stage.record.approval == "approved"

    @pytest.mark.parametrize("how", ["failed", "interrupted"])
    def test_p2_what_was_prepared_before_a_boot_is_prepared_again_before_it_is_approved(self, azure, stage, how):
        azure.announce_new("one", "two", approve="when_ready", retries=0)
        azure.fault(fault="status", status=403, methods=["POST"], times=1)
        assert not stage.run()
        assert stage.recorder.words == ["one", "two"]
        stage.clock.reboot()
        stage.retry()
        if how == "interrupted":
            stage.interrupt(3)
        # Nothing is prepared before a document of this boot has listed the event.
        assert stage.due() == []
        azure.announce("one", "two", approve="when_ready", retries=0)
        assert stage.run()
        assert stage.recorder.words == ["one", "two", "one", "two"]
        assert stage.record.approval == "approved"

    def test_p2_an_event_that_was_approved_before_a_boot_is_not_prepared_again(self, azure, stage):
        stage.recorder.fail(1)
        azure.announce_new("one", approve="at_once", retries=0)
        assert not stage.run()
        stage.clock.reboot()
        azure.announce("one", approve="at_once", retries=0)
        stage.retry()
        assert stage.run()
        assert azure.approvals == 1
        assert stage.recorder.words == ["one", "one"]

    @pytest.mark.parametrize("boots", [False, True])
    def test_p6_an_approval_that_was_noted_before_a_kill_ends_its_response(self, azure, stage, monkeypatch, boots):
        """Its step had not been noted as ended."""
        finish_step = respond.Store.finish_step

        def die(store, step, *rest):
            if step.content == {"approve": True}:
                raise KeyboardInterrupt
            finish_step(store, step, *rest)

        azure.announce_new("one", approve="when_ready")
        with monkeypatch.context() as patch:
            patch.setattr(respond.Store, "finish_step", die)
            with pytest.raises(KeyboardInterrupt):
                stage.run()
        assert stage.record.approval == "approved"
        if boots:
            stage.clock.reboot()
            azure.announce("one", approve="when_ready")
        assert stage.run()
        assert (azure.approvals, stage.recorder.words) == (1, ["one"])

    def test_p1_the_name_is_known_before_the_document_is_read(self, azure, stage):
        stage.config = stage.config._replace(resource_name=None)
        azure.announce_new("one", approve="when_ready")
        azure.simulator.control("DELETE", "/simulator/journal")
        assert stage.run()
        requests = azure.simulator.control("GET", "/simulator/journal")["requests"]
        asked = [f"{one['method']} {one['path'].partition('?')[0].rpartition('/')[2]}" for one in requests]
        assert asked == ["GET compute", "GET scheduledevents", "POST scheduledevents"]

    def test_p1_the_document_is_read_anew_before_each_post(self, azure, stage, monkeypatch):
        event_id = azure.announce_new("one", approve="when_ready")
        azure.fault(fault="status", status=503, methods=["POST"], times=1)

        def grow(_seconds):
            event = {"EventId": event_id, "EventStatus": "Scheduled", "EventType": "Reboot"}
            events = [{**event, "Resources": ["web-1", "web-2"]}]
            body = json.dumps({"DocumentIncarnation": 9, "Events": events})
            azure.fault(fault="body", body=body, methods=["GET"])

        monkeypatch.setattr(approving, "time", SimpleNamespace(sleep=grow))
        assert stage.run()
        assert azure.approvals == 1
        assert (stage.record.approval, stage.record.waiting_for) == ("waiting", ("web-2",))

    @pytest.mark.parametrize("then", ["refused", "started"])
    def test_an_approval_whose_answer_was_lost_is_evidence_that_the_event_took_place(
        self, azure, stage, monkeypatch, then
    ):
        azure.announce_new("one", approve="when_ready", retries=0)
        send = imds.ImdsClient.approve

        def send_and_lose_the_answer(*arguments):
            send(*arguments)
            monkeypatch.undo()
            if then == "refused":
                azure.fault(fault="status", status=400, methods=["POST"])
            else:
                azure.advance(901)
            raise NoAnswerError("No answer.")

        monkeypatch.setattr(imds.ImdsClient, "approve", send_and_lose_the_answer)
        assert stage.run() is (then == "started")
        assert stage.record.approval == "sending"
        stage.see()
        assert stage.record.outcome == "completed"

    def test_an_approval_that_was_sent_and_not_noted_before_a_kill(self, azure, stage, monkeypatch):
        azure.announce_new("one", approve="when_ready")
        send = imds.ImdsClient.approve

        def send_and_die(*arguments):
            send(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(imds.ImdsClient, "approve", send_and_die)
        with pytest.raises(KeyboardInterrupt):
            stage.run()
        assert azure.approvals == 1
        assert stage.record.approval == "sending"
        stage.see()
        assert stage.record.outcome == "completed"


class TestSteps:
    """A3: a step that tells another service never uses up the notice, and each step may say how long it takes."""

    HOOK: ClassVar = {"webhook": "http://127.0.0.1:9/x"}
    CALL: ClassVar = {"awx_callback": "http://127.0.0.1:9/api/v2/job_templates/7/callback/", "key_file": "/key"}
    JOB: ClassVar = {"awx_job": "http://127.0.0.1:9", "template": 7, "token_file": "/token"}

    @pytest.fixture
    def given(self, monkeypatch, stage):
        """The seconds that each try was given; each takes all of them, and fails."""
        seconds = []

        def run_step(_step, _context, _config, _folders, _now, timeout):
            seconds.append(timeout)
            stage.clock.advance(timeout)
            raise StepError("It failed.")

        monkeypatch.setattr(respond, "run_step", run_step)
        return seconds

    @pytest.mark.parametrize("step", [HOOK, CALL, JOB])
    @pytest.mark.parametrize(
        ("notice", "more", "seconds"),
        [
            (900, {}, [15, 15, 15]),
            (120, {}, [15, 10]),
            (30, {}, [7.5]),
            (2, {}, [5]),
            (-2, {}, [5]),
            (None, {}, [15, 15, 15]),
            (900, {"timeout": 40}, [40, 40, 40]),
            (100, {"timeout": 40}, [25]),
        ],
    )
    def test_a3_a_service_is_told_within_a_quarter_of_the_notice(self, stage, given, step, notice, more, seconds):
        not_before = None if notice is None else NOW + timedelta(seconds=notice)
        event = make_event(not_before=not_before)
        # A pause is slept in parts of a second.
        stage.while_waiting = lambda: stage.clock.advance(1.0)
        stage.announce(event=event, on_announced=[{**step, **more}], retries=2, retry_delay=5, timeout=600)
        stage.run()
        assert given == seconds

    @pytest.mark.parametrize("phase", ["on_started", "on_ended"])
    def test_after_the_start_there_is_no_such_limit(self, stage, given, phase):
        stage.announce(event=started(make_event()), on_announced=[], **{phase: [self.CALL]}, retries=1, retry_delay=600)
        if phase == "on_ended":
            stage.see()
        stage.run()
        assert given == [15, 15]

    def test_a_step_that_takes_the_vm_out_of_service_has_the_time_of_its_rule_or_its_own(self, stage, given):
        steps = [{"command": ["/bin/true"], "ignore_errors": True}, {"command": ["/bin/true"], "timeout": 7}]
        stage.announce(
            event=make_event(not_before=NOW + timedelta(seconds=30)), on_announced=steps, retries=0, timeout=99
        )
        assert not stage.run()
        assert given == [99, 7]
        assert [state for state, _message in stage.steps] == ["failed", "failed"]

    @pytest.mark.parametrize(
        ("more", "goes_on"), [({}, True), ({"ignore_errors": True}, True), ({"ignore_errors": False}, False)]
    )
    def test_a3_a_webhook_that_fails_stops_the_steps_behind_it_only_where_it_says_so(self, stage, more, goes_on):
        steps = [{**self.HOOK, **more}, stage.recorder.step("drain")]
        stage.announce(on_announced=steps, retries=0, approve="when_ready")
        stage.config = stage.config._replace(endpoint="http://127.0.0.1:9", timeout=1)
        stage.run()
        assert stage.recorder.words == (["drain"] if goes_on else [])
        states = [state for state, _message in stage.steps]
        assert states[:2] == (["failed", "succeeded"] if goes_on else ["failed", "pending"])
        # The approval was tried where the VM is prepared.
        assert (states[2] != "pending") is goes_on
