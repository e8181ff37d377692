# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a response, or its next step, may run: decided in the same transaction that notes its start.

The caller begins the transaction.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ENDED,
    RESTORE,
    Response,
    StepResult,
    TrackedEvent,
    is_obsolete,
    may_approve,
    must_prepare_again,
    why_not_now,
)

from ..config.config import Rule
from ..config.rules import APPROVE_STEP
from ..state import records
from ..state.marks import read_marked_by_runs
from ..state.records import EventRecord, ResponseRecord, StepRecord
from ..system import Clock, Folders, is_running, say
from ..track.situation import read_situation
from ..track.tracker import obsolete_reason
from .writer import Writer

_UNKNOWN = "Its record is lost."


class Stop(Exception):
    """The response must not go on now.

    :ivar state: the state in which it is left.
    """

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state


class PrepareAgain(Exception):
    """A preparation before the last boot must be repeated before the event is approved."""


class Task(NamedTuple):
    """A response with its title and rule."""

    response: ResponseRecord
    title: str
    kept_rule: Rule | None

    @property
    def rule(self) -> Rule:
        return self.kept_rule or Rule("unknown")


class Decision:
    """Decides for one response.

    :param writer: holds the store.
    """

    def __init__(self, writer: Writer, folders: Folders, clock: Clock) -> None:
        self._writer = writer
        self._folders = folders
        self._clock = clock

    def begin(self, task: Task) -> bool:
        """Note that the response runs, if it may."""
        response, record, course, others = self._situation(task)
        if response.finished or response.state == records.PLANNED:
            say(f"{task.title} is {response.state}; there is nothing to run.")
            return False
        self._check_may_run(task, course, others)
        steps = self._writer.store.steps(response.number)
        if must_prepare_again(_results(steps), self._clock.now().boot_id, record.approval == records.APPROVED):
            say(f"{task.title}: the VM booted between the preparation and the approval. It begins again.")
            self._writer.store.renew_steps(response.number, lambda _step: True)
        self._writer.store.begin_response(response.number, records.RUNNING, self._clock.now())
        return True

    def begin_step(self, task: Task, step: StepRecord) -> None:
        """Note that a step runs, if it may."""
        response, _record, course, others = self._situation(task)
        if response.phase in (RESTORE, ENDED):
            # Between two steps of it another event may have become urgent.
            self._check_may_run(task, course, others)
        else:
            self._check_obsolete(task, course)
        steps = _results(self.steps(task))
        if step.content == APPROVE_STEP and not may_approve(steps, self._clock.now().boot_id):
            raise PrepareAgain
        self._writer.store.begin_step(step, self._clock.now())

    def may_go_on(self, task: Task) -> bool:
        """Tell whether a response that puts the VM back may run its next step."""
        try:
            _response, _record, course, others = self._situation(task)
            self._check_may_run(task, course, others)
        except Stop:
            return False
        return True

    def steps(self, task: Task) -> tuple[StepRecord, ...]:
        """:raises Stop: its record was lost."""
        response = self._writer.store.response(task.response.number)
        if response is None:
            raise Stop(records.SKIPPED, _UNKNOWN)
        return response.steps

    def _check_may_run(self, task: Task, course: TrackedEvent, others: list[TrackedEvent]) -> None:
        seen = self._check_obsolete(task, course)
        why = why_not_now(seen, course, others)
        if why is not None:
            raise Stop(records.DUE, why)

    def check_obsolete(self, task: Task) -> None:
        """:raises Stop: the event has gone on while the response waited."""
        self._check_obsolete(task, self._situation(task)[2])

    def _check_obsolete(self, task: Task, course: TrackedEvent) -> Response:
        seen = next((each for each in course.responses if each.number == task.response.number), None)
        if seen is None:
            raise Stop(records.SKIPPED, _UNKNOWN)
        if is_obsolete(seen, course):
            raise Stop(records.SKIPPED, obsolete_reason(seen.phase))
        return seen

    def _situation(self, task: Task) -> tuple[ResponseRecord, EventRecord, TrackedEvent, list[TrackedEvent]]:
        number = task.response.number

        def runs(other: int) -> bool:
            return other != number and is_running(self._folders, other)

        now = self._clock.now()
        marked = read_marked_by_runs(self._writer.store, self._folders, now)
        situation = read_situation(self._writer.store, now.boot_id, runs, marked)
        for record, course, responses in situation.found:
            for response in responses:
                if response.number == number:
                    return response, record, course, situation.others(course)
        finished = self._writer.store.response(number)
        record_now = finished and self._writer.store.event(finished.event)
        if finished is None or record_now is None:
            raise Stop(records.SKIPPED, _UNKNOWN)
        return (
            finished,
            record_now,
            TrackedEvent(record_now.number, record_now.event.key, record_now.phase, False, ()),
            [],
        )


def _results(steps: Sequence[StepRecord]) -> list[StepResult]:
    """Return the steps that must succeed before the approval: a step with an ignored failure is not one."""
    counted = [step for step in steps if not step.is_ignored]
    return [StepResult(step.content == APPROVE_STEP, step.succeeded_boot) for step in counted]
