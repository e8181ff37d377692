# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Ask for the document, approve events, wait for them: the client and the pure rules put together."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Callable, NamedTuple

from ._decisions import ApprovalPlan, ApprovalRequest, plan_approval
from ._document import Document, decode_document, parse_document
from ._errors import HttpStatusError, ImdsError, UnreachableError
from ._imds import Deadline, ImdsClient

# Microsoft recommends one request a second; five a second is the limit for all programs of a VM together.
POLL_INTERVAL = 1.0

FindAddresses = Callable[[], "tuple[list[tuple[str, str]], list[str]]"]


class Look(NamedTuple):
    """What one look at IMDS told.

    :ivar client: the client that got the answer, at the endpoint that gave it.
    :ivar document: None where Azure answered without a document.
    :ivar resource_name: the name of this VM, None where IMDS has none.
    :ivar deadline: what is left of the time for this look and all that follows from it.
    :ivar warnings: what could not be read on the way.
    """

    client: ImdsClient
    document: Document | None
    resource_name: str | None
    deadline: Deadline
    warnings: tuple[str, ...]


def now_utc() -> datetime:
    return datetime.now(timezone.utc)


def look(client: ImdsClient, resource_name: str | None, find_addresses: FindAddresses | None = None) -> Look:
    """Ask for the document and, unless it is given, for the name of this VM.

    :param find_addresses: where to look for another endpoint when the client's does not answer; None does not look.
    :raises ImdsError: there was no usable answer.
    """
    deadline = client.deadline()
    warnings: list[str] = []
    try:
        document = read_document(client, deadline)
    except UnreachableError as error:
        if find_addresses is None:
            raise
        client, document = _look_elsewhere(client, deadline, find_addresses, error, warnings)
    if document is not None:
        warnings.extend(document.warnings)
    name = resource_name or client.get_resource_name(deadline)
    return Look(client, document, name, deadline, tuple(warnings))


def _look_elsewhere(
    client: ImdsClient,
    deadline: Deadline,
    find_addresses: FindAddresses,
    error: UnreachableError,
    warnings: list[str],
) -> tuple[ImdsClient, Document | None]:
    """Ask the endpoints that DHCP option 245 named, in turn, until one answers."""
    addresses, notes = find_addresses()
    warnings.extend(notes)
    failures = [str(error), *notes]
    for address, source in addresses:
        other = client.at(f"http://{address}")
        try:
            return other, read_document(other, deadline)
        except ImdsError as failure:
            failures.append(f"From {source}: {failure}")
    if not addresses:
        failures.append("No DHCP lease of this machine names another endpoint (option 245).")
    raise UnreachableError(" ".join(failures), error.http_status) from error


def read_document(client: ImdsClient, deadline: Deadline) -> Document | None:
    """Return the document, None where Azure answered without one.

    :raises ImdsError: there was no usable answer.
    """
    content = decode_document(client.get_document(deadline))
    return None if content is None else parse_document(content, client.api_version)


def approve(look_: Look, plan: ApprovalPlan, request: ApprovalRequest) -> ApprovalPlan:
    """POST what the plan approves, and return the plan as it was carried out.

    Azure answers 400 for an id that it no longer lists. An event that vanished since the look must not cost the
    others their approval, so the rest is decided on and sent again.

    :raises ImdsError: Azure did not take the approval.
    """
    document = look_.document
    while plan.ids_to_approve:
        try:
            look_.client.approve(plan.ids_to_approve, _incarnation_to_send(look_, document, request), look_.deadline)
            return plan
        except HttpStatusError as error:
            if error.http_status != 400:
                raise
            document = read_document(look_.client, look_.deadline)
            request = request._replace(event_ids=tuple(approval.event_id for approval in plan.approvals))
            again = plan_approval(document, request, now_utc())
            if document is None or again.ids_to_approve == plan.ids_to_approve:
                raise
            plan = again._replace(warnings=tuple(dict.fromkeys(plan.warnings + again.warnings)))
    return plan


def _incarnation_to_send(look_: Look, document: Document | None, request: ApprovalRequest) -> str | None:
    """Return what the pages of 2017 ask to be sent along, as a string; later pages dropped it."""
    asked_for = request.document_incarnation is not None or look_.client.api_version.startswith("2017-")
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
