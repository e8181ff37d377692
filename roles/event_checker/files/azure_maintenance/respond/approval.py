# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Approve one event, unless it lists another VM."""

from __future__ import annotations

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval import guard as approvals
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval.approve import approve
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import ImdsError
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Event
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.dhcp_lease import find_endpoint_addresses
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.fetch import fetch_document, fetch_name

from ..config.config import Config, Rule
from ..state import records
from ..state.records import EventRecord
from ..system import Clock
from ..track.tracker import plan_waiting
from .programs import StepError
from .writer import Writer

TAKEN = "Azure may start the event now."


class Approval:
    """The approval of one event.

    :ivar _sent: it was sent, even if Azure refused it.
    """

    def __init__(self, writer: Writer, config: Config, clock: Clock, rule: Rule, record: EventRecord) -> None:
        self._writer = writer
        self._config = config
        self._clock = clock
        self._rule = rule
        self._record = record
        self._sent = False

    def send(self) -> str:
        """Approve the event if it lists this VM alone, and return a sentence with the result.

        :raises StepError: it is unknown whether it may be approved, or was.
        """
        client = self._config.client(retries=True, timeout=min(self._rule.timeout, self._config.timeout))
        deadline = client.deadline()
        search = find_endpoint_addresses if self._config.discover_endpoint else None
        try:
            # The name is asked for anew: an approval cannot be taken back.
            name = self._config.resource_name
            if name is None:
                client, name, _vm_id = fetch_name(client, deadline, search)
            client, document = fetch_document(client, deadline, search)
            request = approvals.ApprovalRequest(name, (self._record.event.event_id,))
            done = approve(client, document, request, deadline, self._note_sending)
        except ImdsError as error:
            if error.refused and self._sent:
                self._note_none_taken()
            raise StepError(str(error)) from error
        approval = done.plan.approvals[0]
        if approval.result != approvals.APPROVED and self._sent and not done.unanswered:
            self._note_none_taken()
        if approval.result == approvals.APPROVED:
            self._note(records.APPROVED)
            return TAKEN
        if approval.result == approvals.NOT_FOUND:
            if done.document is None:
                raise StepError("The answer was an empty body, which is not a document.")
            if not done.clear:
                raise StepError(f"The event is not listed, but {approvals.UNCLEAR_DOCUMENT}")
            return "The event is gone; there is nothing to approve."
        if approval.result != approvals.REFUSED:
            return "The event has started already."
        listed = done.document and done.document.find(self._record.event.event_id)
        self._note_waiting(approval.waiting_for, listed, name)
        return f"{records.LEFT_TO_FLEET} {approval.why}"

    def _note_sending(self, _event_ids: list[str]) -> None:
        self._sent = True
        self._note(records.SENDING)

    def _note_waiting(self, waiting_for: tuple[str, ...], event: Event | None, name: str) -> None:
        self._note(records.WAITING, waiting_for)
        if event is not None and waiting_for:
            number, rule, now = self._record.number, self._rule, self._clock.now()
            self._writer.write(lambda store: plan_waiting(store, number, rule, event, now, name))

    def _note_none_taken(self) -> None:
        """Azure has taken no approval, so those that were sent are no evidence that the event took place."""
        if self._record.approval is None:
            self._note(None)

    def _note(self, approval: str | None, waiting_for: tuple[str, ...] = ()) -> None:
        number, now = self._record.number, self._clock.now()
        self._writer.write(lambda store: store.set_approval(number, approval, waiting_for, now))
