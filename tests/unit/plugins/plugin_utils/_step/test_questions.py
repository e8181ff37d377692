# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In which order a Windows host is asked for its document and its marks: the modules there answer from lists."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.hosts import NEW_HOST, restores
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.marks import take_up_marks
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._step import questions
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._run.fleet import (
    SETTINGS,
    make_event,
)

A1, B2 = make_event("A1", ["app-1"]), make_event("B2", ["app-1"])
LOST = {"unreachable": True, "msg": "The host is down."}


def document(*events):
    told = {"document_received": True, "document_is_clear": True, "resource_name": "app-1", "vm_id": "02aa"}
    return {**told, "boot_id": None, "marks": None, "msg": "", "events": list(events)}


def mark(event, run, **more):
    written = {**marks.new_mark(marks.RUN, event, "2026-11-21T09:59:00Z", run=run), "state": marks.PREPARED}
    return {**written, "file": f"C:\\marks\\{marks.file_name(written)}", "counts": True, "fault": None, **more}


class Vm:
    """A Windows VM that gives these documents, and these marks in one look at them after the other."""

    def __init__(self, monkeypatch, documents, *looks):
        self.documents, self.looks, self.asked = list(documents), list(looks), []
        action = SimpleNamespace(_task=SimpleNamespace(args={}), _connection=SimpleNamespace(_shell=SimpleNamespace()))
        self.questions = questions.Questions(action, {"inventory_hostname": "host-c"})
        monkeypatch.setattr(questions, "is_windows", lambda _action: True)
        monkeypatch.setattr(self.questions, "_run_query", self._tell_document)
        monkeypatch.setattr(questions, "tell_marks", self._tell_marks)
        monkeypatch.setattr(questions, "tell_boot_time", lambda *_task: {"booted_at": 0.0})

    def _tell_marks(self, *_task):
        return self._tell({"marks": self.looks.pop(0), "folder": "C:\\marks", "warnings": []})

    def _tell_document(self, _arguments):
        return self._tell(self.documents.pop(0))

    def _tell(self, answer):
        self.asked.append("marks" if "warnings" in answer else "document")
        return answer


@pytest.fixture
def host():
    return {**NEW_HOST, "settings": SETTINGS, "run": "own"}


def test_p3_a_mark_that_is_written_behind_the_document_is_not_taken_for_one_whose_event_is_over(monkeypatch, host):
    vm = Vm(monkeypatch, [document(), document(B2)], [mark(B2, "another")])
    host, _answer = vm.questions.ask(host)
    host, _told = take_up_marks("host-c", host, None, {"check_mode": False, "only_marked": False}, time.time())
    assert restores(host) == []
    assert vm.asked == ["document", "marks", "document"]


def test_p3_so_is_one_that_comes_while_the_run_waits(monkeypatch, host):
    host, _answer = Vm(monkeypatch, [document(A1)], []).questions.ask(host)
    vm = Vm(monkeypatch, [document(), document(B2)], [mark(B2, "another")])
    order = {"since": time.time(), "until": time.time(), "latest": time.time() + 60}
    host, _answer = vm.questions.wait(host, order, {"host-c": host}, "1_1")
    assert [event["event_id"] for event in host["listed"]] == ["B2"]
    assert vm.asked == ["document", "marks", "document"]


def test_p15_a_wait_for_another_run_at_work_ends_when_that_does(monkeypatch, host):
    """Not when the time is up that it might have taken: the event of this run may have started by then."""
    at_work = mark(A1, "another", state=marks.RESTORING, state_since=None)
    vm = Vm(monkeypatch, [document(A1)] * 3, [at_work], [at_work], [])
    host, _answer = vm.questions.ask(host)
    assert host["at_work"]
    monkeypatch.setattr(questions, "pause_between", lambda _waited: 0.0)
    vm.asked.clear()
    order = {"since": time.time(), "until": time.time() + 600, "latest": time.time() + 600}
    host, _answer = vm.questions.wait(host, order, {"host-c": host}, "1_2")
    assert host["at_work"] == {}
    assert vm.asked == ["document", "marks", "document", "marks"]


def test_the_mark_of_a_run_that_was_killed_long_ago_is_not_looked_at_again_and_again(monkeypatch, host):
    left = mark(A1, "another", state=marks.PREPARING, state_since="2026-11-21T09:59:00Z")
    vm = Vm(monkeypatch, [document(A1), document(A1), document()], *[[left]] * 2)
    host, _answer = vm.questions.ask(host)
    monkeypatch.setattr(questions, "pause_between", lambda _waited: 0.0)
    vm.asked.clear()
    order = {"since": time.time(), "until": time.time() + 600, "latest": time.time() + 600}
    vm.questions.wait(host, order, {"host-c": host}, "1_3")
    assert vm.asked == ["document", "document", "marks"]


def test_p15_a_host_is_asked_again_in_time_where_the_clock_of_the_controller_is_set_back(monkeypatch, host):
    passed, set_back = [0.0], [0.0]

    def sleep(seconds):
        passed[0] += seconds
        set_back[0] = 3600.0

    clock = {"time": lambda: 1795255200.0 + passed[0] - set_back[0], "monotonic": lambda: passed[0], "sleep": sleep}
    monkeypatch.setattr(questions, "time", SimpleNamespace(**clock))
    vm = Vm(monkeypatch, [document(A1)] * 2 + [document()], [], [])
    host, _answer = vm.questions.ask(host)
    order = {"since": clock["time"](), "until": clock["time"]() + 600, "latest": clock["time"]() + 600}
    host, _answer = vm.questions.wait(host, order, {"host-c": host}, "1_4")
    assert host["listed"] == []
    assert passed[0] < 60


@pytest.mark.parametrize(
    "found",
    [[], [mark(A1, "another")], [mark(B2, "own")], [mark(B2, "another", counts=False)]],
    ids=["none", "listed", "its own", "faulty"],
)
def test_otherwise_a_question_is_one_document_and_one_look_at_the_marks(monkeypatch, host, found):
    vm = Vm(monkeypatch, [document(A1)], found)
    vm.questions.ask(host)
    assert vm.asked == ["document", "marks"]


def test_a_mark_that_was_there_before_the_document_is_older_than_it(monkeypatch, host):
    vm = Vm(monkeypatch, [document()] * 3, *[[mark(B2, "another")]] * 2)
    host, _answer = vm.questions.ask(host)
    vm.asked.clear()
    vm.questions.ask(host)
    assert vm.asked == ["document", "marks"]


def test_a_host_that_is_lost_before_the_second_document_could_not_be_asked(monkeypatch, host):
    vm = Vm(monkeypatch, [document(), LOST], [mark(B2, "another")])
    host, answer = vm.questions.ask(host)
    assert host["unreachable"]
    assert (host["answer"], host["marks"]) == (None, None)
    assert answer == LOST


def test_p15_a_connection_whose_reset_fails_by_an_error_of_its_library_is_asked_again(monkeypatch, host):
    """The connection psrp connects anew in its reset."""

    class Connection(ConnectionBase):
        transport, _connect, exec_command, put_file, fetch_file, close = "psrp", None, None, None, None, None

        def __init__(self):
            self._shell = SimpleNamespace(tmpdir="C:\\Temp")

        def reset(self):
            raise ConnectionResetError(104, "Connection reset by peer")

    def fail(_arguments):
        raise AnsibleConnectionFailure("The host is down.")

    vm = Vm(monkeypatch, [])
    vm.questions._action._connection = Connection()
    monkeypatch.setattr(vm.questions, "_run_query", fail)
    host, answer = vm.questions.ask(host)
    assert answer == LOST
    assert host["unreachable"]


def test_p13_the_module_ends_before_the_time_of_its_question(monkeypatch, host):
    """Else a VM whose metadata service fails would be one that cannot be reached, and might count as deleted."""
    vm = Vm(monkeypatch, [document()], [])
    given = []
    monkeypatch.setattr(vm.questions, "_run_query", lambda arguments: given.append(arguments) or document())
    vm.questions._action._task.args = {"step": "ask", "timeout": 150}
    host["settings"] = {**SETTINGS, "ask_timeout": 30}
    vm.questions.ask(host)
    assert 20 < given[0]["timeout"] < 30


def test_the_advice_for_a_silent_metadata_service_names_the_variable_of_the_run(monkeypatch, host):
    """That of the module names an option which the run sets itself."""
    silent = {"failed": True, "reason": "timeout", "msg": "Azure holds the first answer: give timeout 150 seconds."}
    vm = Vm(monkeypatch, [silent], [])
    host, answer = vm.questions.ask(host)
    assert answer["msg"] == "the metadata service gave no complete answer in time (event_response_ask_timeout)."
    assert host["no_answer"] == answer["msg"]
    assert not host["unreachable"]


@pytest.mark.parametrize(
    ("callback", "beside_the_output"),
    [("default", False), ("json", True), ("ansible.posix.json", True), ("ansible.posix.jsonl", True)],
)
def test_the_line_of_a_wait_is_not_in_the_json_of_a_callback(monkeypatch, tmp_path, callback, beside_the_output):
    told = []
    monkeypatch.setattr(questions.C, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(questions.C, "DEFAULT_STDOUT_CALLBACK", callback)
    monkeypatch.setattr(questions.display, "display", lambda line, stderr=False: told.append((line, stderr)))
    questions._tell("Waiting for host-a")
    assert told == [("Waiting for host-a", beside_the_output)]
