# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Approve events and wait for what becomes of them."""

from __future__ import annotations

import time

from ._approval_plan import ApprovalPlan, ApprovalRequest, plan_approval
from ._document import Document
from ._errors import HttpStatusError, ImdsError
from ._fetch import POLL_INTERVAL, FetchResult, now_utc, read_document
from ._imds import ImdsClient
from ._imds_transport import Deadline


def approve(found: FetchResult, plan: ApprovalPlan, request: ApprovalRequest) -> ApprovalPlan:
    """POST what the plan approves, and return the plan as it was carried out.

    Azure answers 400 for an id that it no longer lists. An event that vanished since the look must not cost the
    others their approval, so the rest is decided on and sent again.

    :raises ImdsError: Azure did not take the approval.
    """
    document = found.document
    while plan.ids_to_approve:
        try:
            found.client.approve(plan.ids_to_approve, _incarnation_to_send(found, document, request), found.deadline)
            return plan
        except HttpStatusError as error:
            if error.http_status != 400:
                raise
            document = read_document(found.client, found.deadline)
            request = request._replace(event_ids=tuple(approval.event_id for approval in plan.approvals))
            again = plan_approval(document, request, now_utc())
            if document is None or again.ids_to_approve == plan.ids_to_approve:
                raise
            plan = again._replace(warnings=tuple(dict.fromkeys(plan.warnings + again.warnings)))
    return plan


def _incarnation_to_send(found: FetchResult, document: Document | None, request: ApprovalRequest) -> str | None:
    """Return what the pages of 2017 ask to be sent along, as a string; later pages dropped it."""
    asked_for = request.document_incarnation is not None or found.client.api_version.startswith("2017-")
    if not asked_for or document is None or document.incarnation is None:
        return None
    return str(document.incarnation)


class WaitExpired(Exception):
    """The events did not get as far as was waited for.

    :ivar statuses: the last known status of each event, None for one that is gone.
    :ivar last_error: why the last look failed, None where it did not.
    """

    def __init__(self, statuses: dict[str, str | None], last_error: ImdsError | None) -> None:
        super().__init__("time is up")
        self.statuses = statuses
        self.last_error = last_error


def wait_for(
    client: ImdsClient, statuses: dict[str, str | None], until_ended: bool, seconds: float
) -> dict[str, str | None]:
    """Wait until the events have started, or are gone from the document, and return their last statuses.

    A look that fails and an answer without a document end nothing: the events are taken to stay as they were.

    :param statuses: the events by id, with the status each was last seen with.
    :raises WaitExpired: it took longer than so many seconds.
    """
    deadline = Deadline(seconds)
    last_error: ImdsError | None = None
    while True:
        left = deadline.remaining()
        try:
            document = read_document(client, Deadline(min(client.timeout, left)))
            last_error = None
        except ImdsError as error:
            document = None
            # A look that the end of the wait cut short tells of our hurry, not of Azure.
            if left > POLL_INTERVAL or deadline.remaining() > 0:
                last_error = error
        if document is not None:
            seen = {event_id: document.find(event_id) for event_id in statuses}
            statuses = {event_id: event.event_status if event else None for event_id, event in seen.items()}
            if all(event is None or (event.has_started and not until_ended) for event in seen.values()):
                return statuses
        if deadline.remaining() <= POLL_INTERVAL:
            raise WaitExpired(statuses, last_error)
        time.sleep(POLL_INTERVAL)
