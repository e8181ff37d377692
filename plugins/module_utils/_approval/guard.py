# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Which events may be approved."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from .._errors import one_line
from .._event.document import SCHEDULED, STARTED, Document, Event, Incarnation, fold_case
from .._event.selection import NO_DOCUMENT, SHORTEST_BEGINNING, Selection, find_named, keys

APPROVED = "approved"
ALREADY_STARTED = "already_started"
NOT_FOUND = "not_found"
REFUSED = "refused"

NOT_LISTED = "it has ended, was withdrawn, or was never there."
_TOO_SHORT = f"The beginning of an id needs at least {SHORTEST_BEGINNING} characters."
_FORCE = "Set force of the module to approve anyway."
UNCLEAR_DOCUMENT = "an entry of the document cannot be read and may be this event. Ask again."


class ApprovalRequest(NamedTuple):
    """The events that a caller wants to approve, and the VMs for which it speaks.

    :ivar event_ids: ids as the caller wrote them; empty asks for every event that matches the rest and
        lists a VM the caller speaks for.
    :ivar beginnings: an id that no event has may be the beginning of one.
    :ivar resource_name: the name of this VM.
    :ivar resources_ready: further VMs that are prepared.
    :ivar document_incarnation: refuse unless the document still has this one; None does not check.
    :ivar force: approve whatever VMs the event lists.
    """

    resource_name: str
    event_ids: tuple[str, ...] = ()
    beginnings: bool = False
    event_types: frozenset[str] = frozenset()
    event_sources: frozenset[str] = frozenset()
    resources_ready: tuple[str, ...] = ()
    document_incarnation: str | None = None
    force: bool = False

    @property
    def ready(self) -> frozenset[str]:
        return keys((self.resource_name, *self.resources_ready))


class Approval(NamedTuple):
    """The decision about one event.

    :ivar result: one of this module's four words.
    :ivar why: why it is refused, a sentence for people.
    :ivar advice: which option of a caller would have it approved, a sentence; the checker has no such options.
    """

    event_id: str
    result: str
    event_status: str | None = None
    waiting_for: tuple[str, ...] = ()
    why: str = ""
    advice: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "event_id": self.event_id,
            "result": self.result,
            "waiting_for": list(self.waiting_for),
            "event_status": self.event_status,
        }


class ApprovalPlan(NamedTuple):
    """The answer to an ApprovalRequest for one document.

    :ivar approvals: one for each event that was selected or listed.
    :ivar warnings: a sentence for each listed id that is not acted on.
    :ivar events: those of the approvals that are in the document.
    """

    approvals: tuple[Approval, ...]
    warnings: tuple[str, ...]
    events: tuple[Event, ...] = ()

    @property
    def refusals(self) -> list[Approval]:
        return [approval for approval in self.approvals if approval.result == REFUSED]

    @property
    def ids_to_approve(self) -> list[str]:
        """The ids to POST, spelled as Azure spelled them."""
        return [approval.event_id for approval in self.approvals if approval.result == APPROVED]


def plan_approval(document: Document | None, request: ApprovalRequest, now: datetime) -> ApprovalPlan:
    """Decide for each event of the request whether it is approved, and why not.

    :param document: None where Azure answered without a document.
    """
    known = [event.key for event in document.events] if document is not None else []
    named = find_named(request.event_ids, known, request.beginnings)
    events, warnings = _select(document, request, {key for keys_of_name in named.values() for key in keys_of_name}, now)
    incarnation = document.incarnation if document is not None else None
    approvals = [_decide(event, incarnation, request) for event in events]
    if document is not None and not document.is_clear:
        whole = keys(named)
        beginnings = {found[0] for name, found in named.items() if len(found) == 1 and found[0] not in whole}
        approvals = [
            _refuse_beginning(each, event) if event.key in beginnings else each
            for each, event in zip(approvals, events)
        ]
    approvals.extend(_refuse_ambiguous(name, found) for name, found in named.items() if len(found) > 1)
    absent = [name for name, found in named.items() if not found]
    approvals.extend(Approval(event_id, NOT_FOUND) for event_id in absent)
    if document is None:
        warnings.append(NO_DOCUMENT)
    else:
        why = NOT_LISTED if document.is_clear else UNCLEAR_DOCUMENT
        for event_id in absent:
            short = f" {_TOO_SHORT}" if request.beginnings and len(event_id) < SHORTEST_BEGINNING else ""
            warnings.append(f"Event {one_line(event_id)} is not in the document: {why}{short}")
    return ApprovalPlan(hold_back(approvals), tuple(warnings), tuple(events))


def may_approve_alone(document: Document, event_id: str, resource_name: str, now: datetime) -> bool:
    """Tell whether a VM that speaks for itself alone may approve an event as this document lists it."""
    request = ApprovalRequest(resource_name, (event_id,))
    return [each.result for each in plan_approval(document, request, now).approvals] == [APPROVED]


def _refuse_ambiguous(name: str, found: list[str]) -> Approval:
    why = f"{len(found)} events have an id that begins with {one_line(name)}, so none is approved: write more of it."
    return Approval(name, REFUSED, why=why)


def _refuse_beginning(approval: Approval, event: Event) -> Approval:
    """Refuse an event that is named by the beginning of its id, where an entry that cannot be read may begin so too."""
    if approval.result != APPROVED:
        return approval
    why = "it is named by the beginning of its id, and an entry of the document that cannot be read may begin so too"
    return _refuse(event, why, advice="Give its whole id.")


def _select(
    document: Document | None, request: ApprovalRequest, listed: set[str], now: datetime
) -> tuple[list[Event], list[str]]:
    """Return the events to decide on, and a sentence for each listed one that is left alone.

    :param listed: the keys of the events that the caller named.
    """
    selection = Selection(event_types=request.event_types, event_sources=request.event_sources)
    selected: list[Event] = []
    warnings: list[str] = []
    for event in document.events if document is not None else ():
        if request.event_ids and event.key not in listed:
            continue
        if selection.matches(event, now):
            if listed or _concerns(event, request):
                selected.append(event)
        elif listed:
            warnings.append(f"{_title(event)} is listed but has another type or source, and is left alone.")
    return selected, warnings


def hold_back(approvals: list[Approval]) -> tuple[Approval, ...]:
    """Refuse everything where one event is refused: then nothing at all is sent."""
    if not any(approval.result == REFUSED for approval in approvals):
        return tuple(approvals)
    return tuple(
        approval._replace(
            result=REFUSED,
            why=f"Event {one_line(approval.event_id)} is not approved: another event of this task is refused.",
        )
        if approval.result == APPROVED
        else approval
        for approval in approvals
    )


def _concerns(event: Event, request: ApprovalRequest) -> bool:
    """Tell whether the caller speaks for a VM of the event, or may do so because not all its VMs can be read.

    An event that may list a VM of the caller is refused, and not left out as if it were another VM's. With force it is
    left out: force approves no event of which only other VMs are known.
    """
    ready = request.ready
    if not event.resources or any(fold_case(name) in ready for name in event.resources):
        return True
    return not event.names_its_vms and not request.force


def _decide(event: Event, incarnation: Incarnation | None, request: ApprovalRequest) -> Approval:
    if event.has_started:
        return Approval(event.event_id, ALREADY_STARTED, event.event_status)
    expected = request.document_incarnation
    if expected is not None and (incarnation is None or expected != str(incarnation)):
        found, wanted = one_line(str(incarnation)), one_line(expected)
        why = f"the document has changed since (DocumentIncarnation is {found}, not {wanted}); ask again"
        return _refuse(
            event, why if expected else "the answer that you decided by had no DocumentIncarnation; ask again"
        )
    if not request.force:
        if not event.resources:
            return _refuse(event, "it lists no VM, so readiness cannot be confirmed", advice=_FORCE)
        ready = request.ready
        waiting_for = tuple(name for name in event.resources if fold_case(name) not in ready)
        if waiting_for:
            return _refuse_unready(event, waiting_for)
        if not event.names_its_vms:
            return _refuse(event, "not every VM that it lists can be read; ask again")
        if event.event_status != SCHEDULED:
            return _refuse(event, f"its status is neither {SCHEDULED} nor {STARTED}", advice=_FORCE)
    return Approval(event.event_id, APPROVED, event.event_status)


def _refuse_unready(event: Event, waiting_for: tuple[str, ...]) -> Approval:
    # The playbook shows this sentence, and has a variable for the option.
    advice = "Prepare them and add their names to resources_ready (playbook approve: approve_resources_ready)."
    if len(waiting_for) == 1:
        advice = "Prepare it and add its name to resources_ready (playbook approve: approve_resources_ready)."
    return _refuse(event, f"it waits for {', '.join(map(one_line, waiting_for))}", waiting_for, advice)


def _refuse(event: Event, why: str, waiting_for: tuple[str, ...] = (), advice: str = "") -> Approval:
    said = f"{_title(event)} is not approved: {why}."
    return Approval(event.event_id, REFUSED, event.event_status, waiting_for, said, advice)


def _title(event: Event) -> str:
    return f"Event {one_line(event.event_id)} ({one_line(event.event_type or 'unknown type')})"
