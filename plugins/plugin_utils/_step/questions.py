# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Ask the host of an action plugin which events affect it: once, with an end, or until there is news."""

from __future__ import annotations

import multiprocessing
import os
import re
import time
from functools import partial
from pathlib import Path
from typing import Any, Callable, Mapping

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.connection import ConnectionBase
from ansible.utils.display import Display

from ...module_utils._time_limit import TimeIsUpError, limit
from .._answer_form import UNUSABLE, find_answer_fault
from .._failure_text import tell_failure
from .._load_action import load_action
from .._run.hosts import Host, news, others_end_at, pause_between, take_answer, turn_length
from .._run.marks import has_newer
from .._run.messages import format_waiting
from .._windows.dispatch import is_windows
from .._windows.run import tell_boot_time, tell_marks

QUERY = "fleetops.azure_maintenance.scheduled_events_info"
# An event that module_defaults of the play leave out would be taken for gone.
_ALL = {"scope": "this_vm", "event_types": [], "event_statuses": [], "event_sources": [], "event_ids": []}
# The options of the step; others come from the defaults of the action group imds.
_OF_STEP = ("step", "reached", "checker")
# The module's part of the time of a question. The rest is for the connection, and for the module to start. Without an
# end of its own it would ask for as long as Ansible waits, and a VM whose metadata service fails would count as
# unreachable.
_PART_OF_MODULE = 5 / 6
_SECONDS_BETWEEN_LINES = 60
# As the connection plugins of Ansible say it of a become method
_WRONG_PASSWORD = re.compile(r"\b(Incorrect|Missing) \S+ password")

display = Display()


class Questions:
    """The questions to the host of an action plugin.

    :param action: the action plugin.
    """

    def __init__(self, action: Any, task_vars: dict[str, Any]) -> None:
        self._action = action
        self._task_vars = task_vars

    def ask(self, host: Host) -> tuple[Host, dict[str, Any]]:
        """Ask once; return the known state of the host then, and the answer."""
        answer = self._read_marks(host, self._ask(host))
        return take_answer(host, answer, time.time()), answer

    def ask_checker(self, program: str, seconds: float) -> dict[str, Any]:
        """Return the result of Ansible's module command for the status of the checker of the host."""
        command = load_action(self._action, "ansible.builtin.command", {"argv": [program, "status", "--json"]})
        # It only reads.
        command._task.check_mode = False
        return self._end(seconds, lambda: command.run(task_vars=self._task_vars))

    def wait(
        self, host: Host, order: Mapping[str, Any], awaited: Mapping[str, Host], turn: str
    ) -> tuple[Host, dict[str, Any]]:
        """Ask again and again, until there is news of this host or of another one that is awaited, or the time is up.

        :param order: of the engine, for this host.
        :param awaited: the known state of all awaited hosts at the begin of the turn.
        :param turn: names the turn.
        """
        before = host
        # All hosts of a turn know this file; one that has news makes it, and the others return.
        somebody_has_news = Path(C.DEFAULT_LOCAL_TMP) / f"event_response_{turn}"

        def is_needless() -> bool:
            return somebody_has_news.exists() or _is_left_alone()

        begun, since = time.time(), float(order["since"])
        length = turn_length(len(awaited), count_forks(), time.time() - since)
        ends = float(order["until"]) if length is None else min(float(order["until"]), begun + length)
        while True:
            answer = self._ask(host)
            if others_end_at(host) > time.time():
                # They may have ended, and the wait then does.
                answer = self._read_marks(host, answer)
            asked_at = time.time()
            host = take_answer(host, answer, asked_at)
            if news(before, host):
                somebody_has_news.touch()
                break
            awaited = {**awaited, self._task_vars["inventory_hostname"]: host}
            if self._task_vars["inventory_hostname"] == next(iter(awaited)):
                progress = {name: known["events"] for name, known in awaited.items()}
                _tell(format_waiting(progress, float(order["latest"]), time.time()))
            # The clock may be set back meanwhile.
            pause_ends = time.monotonic() + min(ends - time.time(), pause_between(time.time() - since))
            while time.monotonic() < pause_ends and not is_needless():
                time.sleep(min(1.0, max(0.0, pause_ends - time.monotonic())))
            if time.time() >= ends or is_needless():
                break
        with_marks = self._read_marks(host, answer)
        return (host if with_marks is answer else take_answer(host, with_marks, asked_at)), with_marks

    def _ask(self, host: Host) -> dict[str, Any]:
        was_prepared = any(each["prepared"] is not None for each in host["events"])
        seconds = float(host["settings"]["ask_timeout"])
        given = {name: value for name, value in self._action._task.args.items() if name not in _OF_STEP}
        arguments = {**given, **_ALL, "timeout": seconds * _PART_OF_MODULE}
        answer = self._end(seconds, lambda: self._run_query(arguments))
        if answer.get("reason") == "timeout":
            # The module's own advice is an option that is set here.
            answer["msg"] = "the metadata service gave no complete answer in time (event_response_ask_timeout)."
        if was_prepared and "document_received" in answer and is_windows(self._action):
            # Such a host has no boot id.
            told = self._end(seconds, lambda: tell_boot_time(self._action, self._task_vars))
            if "booted_at" in told:
                answer["booted_at"] = told["booted_at"]
            else:
                answer = {**answer, "boot_fault": str(told.get("msg") or "no answer")}
        return answer

    def _read_marks(self, host: Host, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a host with its marks, or why there is none where they cannot be read.

        scheduled_events_info reads none on Windows: that costs as much as the question, which is asked again and again.
        """
        if "document_received" not in answer or answer.get("marks") is not None or not is_windows(self._action):
            return answer
        question = partial(tell_marks, self._action, self._task_vars, answer["vm_id"])
        told = self._end(float(host["settings"]["ask_timeout"]), question)
        if "marks" not in told:
            # As one that is lost it is not restored: another run may have it prepared (P3).
            return {**told, "unreachable": True}
        if has_newer(host, told["marks"], answer):
            answer = self._ask(host)
            if "document_received" not in answer:
                return answer
        warnings = [*answer.get("warnings", []), *told["warnings"]]
        return {**answer, "marks": told["marks"], "marks_folder": told["folder"], "warnings": warnings}

    def _run_query(self, arguments: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = load_action(self._action, QUERY, arguments).run(task_vars=self._task_vars)
        failed = bool(answer.get("failed") or answer.get("unreachable"))
        fault = None if failed and "document_received" not in answer else find_answer_fault(answer)
        return {"failed": True, "msg": UNUSABLE.format(fault=fault)} if fault else answer

    def _end(self, seconds: float, question: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the answer to a question, also where there is none within the limit."""
        try:
            with limit(seconds):
                answer = question()
        except TimeIsUpError:
            # A connection that hangs would keep its reset as well.
            self._action._connection._shell.tmpdir = None
            return {"unreachable": True, "msg": f"no answer within {seconds:g} s (event_response_ask_timeout)."}
        except AnsibleConnectionFailure as error:
            self._leave_connection()
            return {"unreachable": True, "msg": str(error)}
        except AnsibleError as error:
            # A host that goes down or comes up has more ways to fail, such as a prompt of sudo that does not come.
            self._leave_connection()
            return {"failed": True, "msg": str(error), "wrong_password": bool(_WRONG_PASSWORD.search(str(error)))}
        return {**answer, "msg": tell_failure(answer)} if answer.get("failed") else answer

    def _leave_connection(self) -> None:
        """A host that comes back from a reboot has no connection and no temporary folder of ours."""
        connection = self._action._connection
        connection._shell.tmpdir = None
        if type(connection).reset is ConnectionBase.reset:
            # For that one a reset only prints a warning.
            return
        try:
            with limit(10):
                connection.reset()
        except (Exception, TimeIsUpError) as error:
            # The connection psrp lets errors of its libraries through.
            display.vvv(f"The connection could not be reset: {error}")


def _is_left_alone() -> bool:
    """Tell whether this is a process of a run that was killed: it would ask its host for hours, for nobody."""
    parent = multiprocessing.parent_process()
    return parent is not None and parent.pid != os.getppid()


def count_forks() -> int:
    """Return on how many hosts Ansible runs a task at the same time."""
    return int(context.CLIARGS.get("forks") or C.DEFAULT_FORKS)


def _tell(line: str) -> None:
    """Show a line, unless there was one less than a minute ago."""
    last = Path(C.DEFAULT_LOCAL_TMP) / "event_response_told"
    if last.exists() and time.time() - os.stat(last).st_mtime < _SECONDS_BETWEEN_LINES:
        return
    last.touch()
    # A callback that prints JSON has the output for itself.
    display.display(line, stderr=C.DEFAULT_STDOUT_CALLBACK.rpartition(".")[2] in ("json", "jsonl"))
