# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run one response, step by step: each is written down before it runs and after."""

from __future__ import annotations

import sqlite3
import time
from typing import Callable

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval_plan import (
    APPROVED,
    NOT_FOUND,
    REFUSED,
    ApprovalRequest,
    plan_approval,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approve import approve
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._dhcp_lease import find_endpoint_addresses
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import ImdsError, one_line
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._fetch import NoResourceNameError, fetch
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._lifecycle import ANNOUNCED, ENDED
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._selection import NO_DOCUMENT

from . import store as states
from .config import Config, Rule, describe_step
from .database import cannot_be_written
from .rules import APPROVE_STEP
from .steps import StepContext, StepError, run_step
from .store import EventRecord, ResponseRecord, StepRecord, Store
from .system import ERROR, Clock, Folders, prolong_start, say

# A step that takes the VM down with it would otherwise be run at every boot for ever.
_MOST_INTERRUPTIONS = 3
# What the program itself needs around a step before systemd may take it for hung
_SLACK = 60.0


class _OvertakenError(Exception):
    """The event ended before the preparation for it did."""


class Responder:
    """Runs responses; the caller holds the lock of the response.

    :param sleep: waits between two tries.
    :param open_store: opens the state anew, or its stand-in where it is told that the disk cannot be written.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        folders: Folders,
        clock: Clock,
        sleep: Callable[[float], None] = time.sleep,
        open_store: Callable[[bool], Store] | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._folders = folders
        self._clock = clock
        self._sleep = sleep
        self._open_store = open_store

    def close(self) -> None:
        """Close the state, which may be another than that of the caller by now."""
        self._store.close()

    def run(self, response: ResponseRecord) -> bool:
        """Run what is left of a response, and tell whether it succeeded."""
        record = self._store.event(response.event)
        title = f"Response {response.number} ({response.phase}, {_title(record)})"
        self._write(response, lambda store: store.begin_response(response.number, states.RUNNING, self._clock.now()))
        say(f"{title} begins.")
        for step in self._store.steps(response.number):
            if step.state == states.SUCCEEDED:
                continue
            name = describe_step(step.content)
            try:
                message = self._run_step(response, step, f"{title}, step {step.position}: {name}")
            except _OvertakenError:
                self._finish(response, states.SKIPPED, "The event ended before the preparation did.")
                say(f"{title}: the event has ended; the steps that are left are skipped.")
                return True
            if message is not None:
                self._finish(response, states.FAILED, f"Step {step.position} ({name}): {message}")
                say(f"{title} failed. To try again: azure-maintenance retry {response.number}", ERROR)
                return False
        self._finish(response, states.SUCCEEDED, None)
        say(f"{title} succeeded.")
        return True

    def _finish(self, response: ResponseRecord, state: str, message: str | None) -> None:
        self._write(response, lambda where: where.finish_response(response.number, state, message, self._clock.now()))

    def _finish_step(self, response: ResponseRecord, step: StepRecord, state: str, message: str) -> None:
        self._write(response, lambda where: where.finish_step(step, state, message, self._clock.now()))

    def _write(self, response: ResponseRecord, write: Callable[[Store], None]) -> None:
        """Write something down, even if the disk has become unwritable meanwhile."""
        self._follow(response)
        try:
            with self._store.transaction():
                write(self._store)
        except sqlite3.DatabaseError as error:
            say(f"The state failed: {error}.", ERROR)
            self._follow(response, cannot_be_written(error))
            with self._store.transaction():
                write(self._store)

    def _follow(self, response: ResponseRecord, unwritable: bool = False) -> None:
        """Open the state anew: the check may have moved it while a step ran."""
        if self._open_store is None:
            return
        store = self._open_store(unwritable)
        found = store.response(response.number)
        # After damage the number may be that of another response.
        if found and (found.phase, found.created_at) == (response.phase, response.created_at):
            store, self._store = self._store, store
        store.close()

    def _run_step(self, response: ResponseRecord, step: StepRecord, title: str) -> str | None:
        """Run a step until it succeeds or has no tries left, and return why it failed, None where it did not.

        :raises _OvertakenError: it would prepare for an event that has ended.
        """
        rule = self._store.event(response.event).rule or Rule("")
        failures = step.failures
        if step.state == states.RUNNING:
            self._write(response, lambda store: store.interrupt_step(step))
            if step.interruptions + 1 >= _MOST_INTERRUPTIONS:
                message = f"It was interrupted {_MOST_INTERRUPTIONS} times and is not run again."
                self._finish_step(response, step, states.FAILED, message)
                return message
            say(f"{title} was interrupted and runs again.")
        while True:
            self._follow(response)
            if response.phase == ANNOUNCED and self._store.event(response.event).phase == ENDED:
                raise _OvertakenError
            self._write(response, lambda store: store.begin_step(step, self._clock.now()))
            prolong_start(rule.timeout + _SLACK)
            try:
                message = self._try_step(step, response, rule)
            except StepError as error:
                failures += 1
                self._finish_step(response, step, states.FAILED, str(error))
                last = error.permanent or failures > rule.retries
                say(f"{title}: {error}{'' if last else f' It is tried again in {rule.retry_delay:g} s.'}", ERROR)
                if last:
                    return str(error)
                prolong_start(rule.retry_delay + _SLACK)
                self._sleep(rule.retry_delay)
                continue
            self._finish_step(response, step, states.SUCCEEDED, message)
            say(f"{title}: {message}")
            return None

    def _try_step(self, step: StepRecord, response: ResponseRecord, rule: Rule) -> str:
        record = self._store.event(response.event)
        if step.content == APPROVE_STEP:
            return self._approve(response, record, rule.timeout)
        name = self._config.resource_name or self._store.facts().get("resource_name", {}).get("name", "")
        context = StepContext(record.event, response.phase, record.outcome, name)
        return run_step(step.content, context, self._config, self._folders, self._clock.now(), rule.timeout)

    def _approve(self, response: ResponseRecord, record: EventRecord, timeout: float) -> str:
        """Let Azure start the event, unless it lists a VM for which this one cannot speak."""
        client = self._config.client(retries=True, timeout=min(timeout, self._config.timeout))
        try:
            # The name is asked for anew: an approval cannot be taken back.
            search = find_endpoint_addresses if self._config.discover_endpoint else None
            found = fetch(client, self._config.resource_name, search)
            name = found.require_name()
            if not found.document_received:
                raise StepError(NO_DOCUMENT)
            request = ApprovalRequest(name, (record.event.event_id,))
            plan = approve(found, plan_approval(found.document, request, self._clock.now().wall), request)
        except NoResourceNameError as error:
            raise StepError(str(error), permanent=True) from error
        except ImdsError as error:
            raise StepError(str(error)) from error
        approval = plan.approvals[0]
        if approval.result == APPROVED:
            self._note_approval(response, states.APPROVED, ())
            return "Azure may start the event now."
        if approval.result == NOT_FOUND:
            return "The event is gone; there is nothing to approve."
        if approval.result != REFUSED:
            return "The event has started already."
        self._note_approval(response, states.WAITING, approval.waiting_for)
        return f"Left to a runbook for the fleet. {approval.why}"

    def _note_approval(self, response: ResponseRecord, approval: str, waiting_for: tuple[str, ...]) -> None:
        now = self._clock.now()
        self._write(response, lambda store: store.set_approval(response.event, approval, waiting_for, now))


def _title(record: EventRecord) -> str:
    return f"{one_line(record.event.event_type or 'event')} {one_line(record.event.event_id)}"
