# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run one response, step by step: each is written down before it runs and after."""

from __future__ import annotations

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import escape, one_line
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    RESTORE,
    WAITING,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import (
    FAILED,
    PREPARED,
    PREPARING,
    RESTORING,
)

from ..config.config import Config, step_timeout
from ..config.rules import APPROVE_STEP
from ..config.step import describe_step, ignores_errors, tells
from ..state import records
from ..state.marks import (
    is_marked,
    put_back_until,
    puts_back,
    read_marks,
    remove_marks_of_restored,
    takes_out_of_service,
    write_mark,
)
from ..state.records import EventRecord, StepRecord
from ..state.store import Store
from ..system import ERROR, Clock, Folders, prolong_time, say
from .approval import TAKEN, Approval
from .decision import Decision, PrepareAgain, Stop, Task
from .notify import OTHER_JOB, CallbackTries
from .programs import StepError
from .steps import StepContext, run_step
from .writer import Writer

# A step that takes the VM down with it would otherwise be run at every boot for ever.
_MOST_INTERRUPTIONS = 3
# All tries of a step that tells another service may take this part of the time until the start, and so many seconds at
# least.
_SHARE_FOR_TELLING = 0.25
_LEAST_FOR_TELLING = 5.0
# Seconds that the program itself needs around a step
_SLACK = 60.0


class Responder:
    """Runs responses; the caller holds the lock of the response.

    :param writer: holds the store.
    """

    def __init__(self, writer: Writer, config: Config, folders: Folders, clock: Clock) -> None:
        self._writer = writer
        self._folders = folders
        self._config = config
        self._clock = clock
        self._decision = Decision(writer, folders, clock)

    @property
    def _store(self) -> Store:
        return self._writer.store

    def run(self, number: int) -> bool:
        """Run the steps that are left of a response, and tell whether none of them failed."""
        response = self._store.response(number)
        record = response and self._store.event(response.event)
        if response is None or record is None:
            say(f"Response {number} is not known any more; there is nothing to run.")
            return True
        title = f"Response {number} ({response.phase}, {_title(record)})"
        task = Task(response, title, record.rule)
        self._writer.response = response
        try:
            if not self._writer.write(lambda _store: self._decision.begin(task)):
                return True
            say(f"{title} begins.")
            return self._run_steps(task)
        except Stop as stop:
            state, why = stop.state, str(stop)
        if task.response.phase in (RESTORE, ENDED):
            # Before the event only a preparation that failed is taken back (P2).
            self._note_state(task, FAILED if task.response.phase == RESTORE else PREPARED)
        if state == records.SKIPPED:
            self._writer.write(lambda _store: self._finish(task, records.SKIPPED, why))
            say(f"{title}: {why} The steps that are left are skipped.")
        else:
            self._writer.write(lambda store: store.begin_response(number, state, self._clock.now()))
            say(f"{title} waits {why}.")
        return True

    def _run_steps(self, task: Task) -> bool:
        number = task.response.number
        while True:
            step = next((each for each in self._decision.steps(task) if not each.is_settled), None)
            if step is None:
                self._writer.write(lambda _store: self._finish(task, records.SUCCEEDED, None))
                self._note_success(task)
                say(f"{task.title} succeeded.")
                return True
            name = escape(describe_step(step.content))
            title = f"{task.title}, step {step.position}: {name}"
            try:
                message = self._run_step(task, step, title)
            except PrepareAgain:
                say(f"{task.title}: a boot came between the preparation and the approval. It begins again.")
                self._writer.write(lambda store: store.renew_steps(number, lambda _step: True))
                continue
            if message is not None and ignores_errors(step.content):
                say(f"{title}: {message} The steps behind it run all the same.", ERROR)
            elif message is not None:
                say(f"{title}: {message}", ERROR)
                self._fail(task, f"Step {step.position} ({name}): {message}")
                self._note_state(task, FAILED)
                say(f"{task.title} failed. To try again: azure-maintenance retry {number}", ERROR)
                return False

    def _note_success(self, task: Task) -> None:
        """Bring the mark up to date. If that fails, the mark says less than is true, and the next check removes it."""
        if task.response.phase not in (RESTORE, ENDED):
            self._note_state(task, PREPARED)
            return
        try:
            remove_marks_of_restored(self._store, self._folders)
        except OSError as error:
            say(f"{task.title}: the mark of this VM could not be removed: {error}.", ERROR)

    def _note_state(self, task: Task, state: str, longest: float = 0.0) -> None:
        """Note in the mark how far this is. Only what puts the VM back makes one.

        :param longest: seconds for which it may be at work in this state.
        """
        if task.response.phase == WAITING:
            return
        try:
            record = self._store.event(task.response.event)
            if record is not None and (state == RESTORING or is_marked(self._store, self._folders, record.event)):
                write_mark(self._store, self._folders, record, state, self._clock.now(), longest)
        except (OSError, ValueError) as error:
            say(f"{task.title}: the mark of this VM could not be brought up to date: {error}.", ERROR)

    def _finish(self, task: Task, state: str, message: str | None) -> None:
        now = self._clock.now()
        self._store.finish_response(task.response.number, state, message, now)
        if task.response.phase == RESTORE and state == records.SUCCEEDED:
            self._store.undo_preparation(task.response.event, records.PUT_BACK, now)

    def _fail(self, task: Task, message: str) -> None:
        self._writer.write(lambda _store: self._finish(task, records.FAILED, message))

    # Steps

    def _run_step(self, task: Task, step: StepRecord, title: str) -> str | None:
        """Run a step until it succeeds or has no tries left, and return why it failed, None where it did not."""
        failures, rule = step.failures, task.rule
        if step.content == APPROVE_STEP and self._is_approved(task):
            # It was killed after it had noted Azure's answer.
            self._finish_step(task, step, records.SUCCEEDED, TAKEN)
            return None
        if step.state == records.FAILED and failures > rule.retries:
            # It was killed between the last try and the end of the response.
            return step.message or "It failed."
        if step.state == records.RUNNING:
            if step.interruptions + 1 >= _MOST_INTERRUPTIONS:
                # Counted as the failure that it becomes, and not as an interruption too.
                message = f"It was interrupted {_MOST_INTERRUPTIONS} times and is not run again."
                self._finish_step(task, step, records.FAILED, message)
                return message
            self._writer.write(lambda store: store.interrupt_step(step))
            say(f"{title} was interrupted and runs again.")
        ends_at = self._ends_at(task, step)
        tries = CallbackTries(
            unanswered=step.state == records.RUNNING,
            other=(step.message or "").startswith(OTHER_JOB),
            note=lambda text: self._writer.write(lambda store: store.note_step(step, text)),
        )
        while True:
            seconds = min(step_timeout(step.content, rule), ends_at - self._clock.now().uptime)
            if puts_back(task.response.phase, step.content):
                # Written before it looks for the mark of a run: that run looks for this one after it wrote its own. So
                # it is written also where nothing was prepared.
                self._note_state(task, RESTORING, _longest_try(task, seconds))
            self._writer.write(lambda _store: self._decision.begin_step(task, step))
            prolong_time(seconds + _SLACK)
            try:
                again = failures > 0 or step.started_at is not None
                message = self._try_step(task, step, again, tries, seconds)
            except StepError as error:
                failures += 1
                self._finish_step(task, step, records.FAILED, str(error))
                too_late = self._clock.now().uptime + rule.retry_delay >= ends_at
                if error.permanent or failures > rule.retries or too_late:
                    return str(error)
                pause = f" in {rule.retry_delay:g} s" if rule.retry_delay else ""
                say(f"{title}: {error} It is tried again{pause}.", ERROR)
                self._pause(task)
                continue
            self._finish_step(task, step, records.SUCCEEDED, message)
            say(f"{title}: {message}")
            return None

    def _finish_step(self, task: Task, step: StepRecord, state: str, message: str) -> None:
        self._writer.write(lambda store: store.finish_step(step, state, message, self._clock.now()))

    def _pause(self, task: Task) -> None:
        """Wait before the next try until the event has ended at the latest; a preparation stops then.

        Nothing that follows the event, such as putting the VM back into service, has to wait for it. Nor has another
        event to wait for a try to put the VM back.
        """
        prolong_time(task.rule.retry_delay + _SLACK)
        left = float(task.rule.retry_delay)
        ends = self._clock.now().uptime + left
        while left > 0:
            self._clock.sleep(min(left, 1.0))
            # What is done in between takes time, too.
            left = min(left - 1.0, ends - self._clock.now().uptime)
            self._writer.follow()
            if task.response.phase in (RESTORE, ENDED):
                is_over = not self._decision.may_go_on(task)
            else:
                record = self._store.event(task.response.event)
                phase = record.phase if record is not None else ANNOUNCED
                is_over = phase == ENDED or (phase != ANNOUNCED and task.response.phase == WAITING)
            if is_over:
                # The next try reads the event again.
                return

    def _ends_at(self, task: Task, step: StepRecord) -> float:
        """Return the uptime at which the last try of a step must end, so that there is time left to prepare."""
        record, now = self._store.event(task.response.event), self._clock.now()
        left = record.seconds_until_start(now) if record is not None and record.phase == ANNOUNCED else None
        if left is None or not tells(step.content):
            return float("inf")
        return now.uptime + max(_LEAST_FOR_TELLING, _SHARE_FOR_TELLING * left)

    def _try_step(self, task: Task, step: StepRecord, again: bool, tries: CallbackTries, seconds: float) -> str:
        """:param seconds: after which it is stopped."""
        record = self._store.event(task.response.event)
        if record is None:
            raise StepError("Its event is not known any more.", permanent=True)
        if step.content == APPROVE_STEP:
            return Approval(self._writer, self._config, self._clock, task.rule, record).send()
        if takes_out_of_service(task.response.phase, step.content):
            longest = _longest_try(task, seconds)
            self._mark(record, longest)
            if self._wait_for_runs(task, seconds):
                self._mark(record, longest)
        name = self._config.resource_name or self._store.fact("resource_name").get("name")
        now, name = self._clock.now(), name if isinstance(name, str) else ""
        # The boot id tells the VMs apart; and a preparation that is done anew after a boot launches its job anew.
        planned_at = task.response.created_at
        mark = f"{record.event.event_id} {planned_at:.3f} {step.position} {now.boot_id}"
        # The tasks that put this VM back are the same before the event and after it; there is no outcome before.
        phase = ENDED if task.response.phase == RESTORE else task.response.phase
        context = StepContext(step.response, record.event, phase, record.outcome, name, mark, again, tries, planned_at)
        return run_step(step.content, context, self._config, self._folders, now, seconds)

    def _mark(self, record: EventRecord, longest: float) -> None:
        """:param longest: seconds for which it may be at work.
        :raises StepError: nobody could see that this VM is out of service, so it must not be taken out of it.
        """
        try:
            write_mark(self._store, self._folders, record, PREPARING, self._clock.now(), longest)
        except OSError as error:
            why = f"{error.filename or self._folders.marks}: {error.strerror or error}"
            raise StepError(f"The mark of this VM could not be written ({why}), so nothing was done.") from error
        except ValueError as error:
            raise StepError(f"The mark of this VM could not be written: {error}", permanent=True) from error

    def _wait_for_runs(self, task: Task, seconds: float) -> bool:
        """Wait while a run puts this VM back into service (P3), and tell whether one did.

        Each of the two writes its own mark before it looks at that of the other.

        :param seconds: which the step may take; a restore of a run is not waited for any longer.
        """
        begun = now = self._clock.now()
        latest, ends = begun.at + seconds, begun.uptime + seconds
        until = self._put_back_until(seconds, latest)
        if until <= begun.at:
            return False
        say(f"{task.title} waits while a run puts this VM back into service.")
        prolong_time(2 * seconds + _SLACK)
        # Somebody may set the clock meanwhile, as after a Freeze. That neither ends the wait nor makes it longer.
        while now.uptime < ends and min(now.at, begun.at + now.uptime - begun.uptime) < until:
            self._clock.sleep(1.0)
            now = self._clock.now()
            until = self._put_back_until(seconds, latest)
        self._writer.write(lambda _store: self._decision.check_obsolete(task))
        return True

    def _put_back_until(self, seconds: float, latest: float) -> float:
        return min(put_back_until(read_marks(self._store, self._folders), seconds), latest)

    def _is_approved(self, task: Task) -> bool:
        record = self._store.event(task.response.event)
        return record is not None and record.approval == records.APPROVED


def _longest_try(task: Task, seconds: float) -> float:
    """Return the seconds from the begin of a try of a step to that of the next one at the latest."""
    return seconds + float(task.rule.retry_delay) + _SLACK


def _title(record: EventRecord) -> str:
    return f"{one_line(record.event.event_type or 'event')} {one_line(record.event.event_id)}"
