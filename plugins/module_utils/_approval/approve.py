# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Approve events and wait for their start or end."""

from __future__ import annotations

import time
from typing import Any, Callable, Collection, Iterator, Mapping, NamedTuple

from .._errors import ImdsError, UnreachableError, failure_data, one_line
from .._event.document import Document, Event
from .._event.selection import NO_DOCUMENT, check_words, find_named, keys, words
from .._imds.client import ImdsClient
from .._imds.fetch import POLL_INTERVAL, fetch_with_options, now_utc, read_document
from .._imds.transport import Deadline
from .guard import APPROVED, NOT_FOUND, ApprovalPlan, ApprovalRequest, plan_approval

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_NO_SUCH_EVENT = "no such event"
_NONE_READ = "no such event could be read; ask again"
_IN_DOUBT = "An approval was sent and was not confirmed. Azure may have taken it."


def run_approval(
    params: Mapping[str, Any],
    client: ImdsClient,
    warn: Callable[[str], None],
    check_mode: bool,
    poll_interval: float | None = None,
) -> dict[str, Any]:
    """Do the work of the module scheduled_event_approve, and return its result; ``failed`` where it must fail.

    :param params: the module's options.
    :param warn: is called with each warning, also where an error follows.
    :param poll_interval: seconds from one look to the next while wait_for waits, by default POLL_INTERVAL.
    """
    sent: list[str] = []
    try:
        return _run(params, client, warn, check_mode, poll_interval, sent.extend)
    except ImdsError as error:
        in_doubt = bool(sent) and not error.refused
        if in_doubt:
            warn(_IN_DOUBT)
        return {"failed": True, "msg": str(error), **failure_data(error), "in_doubt": in_doubt}
    except ValueError as error:
        return {"failed": True, "msg": str(error), "in_doubt": False}


def _run(
    params: Mapping[str, Any],
    client: ImdsClient,
    warn: Callable[[str], None],
    check_mode: bool,
    poll_interval: float | None,
    before_post: Callable[[list[str]], None],
) -> dict[str, Any]:
    """Do it.

    :raises ImdsError: there was no usable answer.
    :raises ValueError: an option is wrong, or the name of this VM is not known.
    """
    if not params["wait_timeout"] > 0:
        raise ValueError(f"wait_timeout must be more than 0 seconds, not {params['wait_timeout']}.")
    if params["wait_timeout"] == float("inf"):
        raise ValueError(f"wait_timeout must be a number of seconds with an end, not {params['wait_timeout']}.")
    check_words(params)
    selecting = [params[option] for option in ("event_ids", "event_types", "event_sources")]
    if [] in selecting:
        # Nothing was asked, so this must not read as an empty answer.
        return {**_describe(Approved(ApprovalPlan((), ()), None, {}), ""), "msg": _NO_SUCH_EVENT}
    if not any(map(words, selecting)):
        raise ValueError("Nothing says which events to approve: set event_ids, event_types or event_sources.")
    found = fetch_with_options(params, client, warn)
    request = _read_request(params, found.require_name())
    if check_mode:
        plan = plan_approval(found.document, request, now_utc())
        done = Approved(plan, found.document, _statuses(plan))
    else:
        done = approve(found.client, found.document, request, found.deadline, before_post)
    for warning in done.plan.warnings:
        warn(warning)
    if done.unanswered:
        warn(_IN_DOUBT)
    result = _describe(done, request.resource_name, check_mode)
    if done.plan.refusals:
        return {**result, "failed": True}
    if params["wait_for"] != "nothing" and not check_mode:
        return _wait(params, found.client, done, result, poll_interval)
    return result


def _read_request(params: Mapping[str, Any], resource_name: str) -> ApprovalRequest:
    return ApprovalRequest(
        resource_name=resource_name,
        event_ids=words(params["event_ids"]),
        beginnings=True,
        event_types=keys(words(params["event_types"])),
        event_sources=keys(words(params["event_sources"])),
        resources_ready=words(params["resources_ready"]),
        document_incarnation=params["document_incarnation"],
        force=params["force"],
    )


def _describe(done: Approved, resource_name: str, check_mode: bool = False) -> dict[str, Any]:
    """Return the result as users see it."""
    plan = done.plan
    now = now_utc()
    approved = plan.ids_to_approve
    after = {**_statuses(plan), **dict.fromkeys(approved, APPROVED)}
    words_of = {APPROVED: "would be approved:"} if check_mode else {}
    refused = " ".join(f"{refusal.why} {refusal.advice}".strip() for refusal in plan.refusals)
    told = "; ".join(f"{words_of.get(each.result, each.result)} {one_line(each.event_id)}" for each in plan.approvals)
    return {
        "changed": bool(approved) or done.unanswered,
        "in_doubt": done.unanswered,
        "document_received": done.document is not None,
        "document_is_clear": done.clear,
        "approvals": [approval.to_dict() for approval in plan.approvals],
        "events": [event.to_dict(now, resource_name) for event in plan.events],
        "diff": {"before": done.before, "after": {each: after.get(each, NOT_FOUND) for each in done.before}},
        "msg": refused or told or _tell_none(done),
    }


def _tell_none(done: Approved) -> str:
    """Return the message for no selected event."""
    if done.document is None:
        return NO_DOCUMENT
    return _NO_SUCH_EVENT if done.clear else _NONE_READ


def _statuses(plan: ApprovalPlan) -> dict[str, str]:
    """Return the status of each event that is in the document, by id."""
    return {approval.event_id: approval.event_status for approval in plan.approvals if approval.event_status}


def _wait(
    params: Mapping[str, Any], client: ImdsClient, done: Approved, result: dict[str, Any], poll_interval: float | None
) -> dict[str, Any]:
    """Wait as wait_for says, and return the result with the statuses that were seen."""
    # Without a clear document an event that is not listed may still be there, so it is waited for.
    statuses = {
        approval.event_id: approval.event_status
        for approval in done.plan.approvals
        if approval.result != NOT_FOUND or not done.clear
    }
    if not statuses:
        return result
    not_seen = [approval.event_id for approval in done.plan.approvals if approval.result == NOT_FOUND]
    until_ended = params["wait_for"] == "ended"
    failure = None
    try:
        statuses = wait_for(client, statuses, until_ended, params["wait_timeout"], poll_interval, not_seen)
    except WaitExpired as expired:
        statuses, failure = expired.statuses, expired
    for approval in result["approvals"]:
        approval["event_status"] = statuses.get(approval["event_id"])
    if failure is None:
        return result
    data = failure_data(failure.last_error) if failure.last_error else {}
    return {**result, **data, "msg": _format_expired(params, result["changed"], failure), "failed": True}


def _format_expired(params: Mapping[str, Any], approved: bool, failure: WaitExpired) -> str:
    left = [f"{one_line(event_id)} is {one_line(status)}" for event_id, status in failure.statuses.items() if status]
    left += [f"{one_line(event_id)} is not known to have {params['wait_for']}" for event_id in failure.unknown]
    parts = [f"After {params['wait_timeout']:g} s of waiting for {params['wait_for']}: {', '.join(left)}."]
    if approved:
        parts.append("The approval stands.")
    if failure.last_error:
        parts.append(f"The last request failed: {failure.last_error}")
    elif failure.unclear:
        parts.append("The last answer was empty or has an entry that cannot be read, so it does not end an event.")
    return " ".join(parts)


class Approved(NamedTuple):
    """The result of an approval.

    :ivar plan: the plan as it was carried out.
    :ivar document: the document that it was judged by, None for an empty body.
    :ivar before: the status of each event before the first approval was sent, by id.
    :ivar unanswered: an approval was sent whose answer was lost, and none of the same events was taken afterwards.
    """

    plan: ApprovalPlan
    document: Document | None
    before: Mapping[str, str]
    unanswered: bool = False

    @property
    def clear(self) -> bool:
        """Whether every entry of the document could be read, so that an event which is not listed is gone."""
        return self.document is not None and self.document.is_clear


def approve(
    client: ImdsClient,
    document: Document | None,
    request: ApprovalRequest,
    deadline: Deadline,
    before_post: Callable[[list[str]], None] | None = None,
) -> Approved:
    """Send a POST for the events of the document that the request may approve, and return the result.

    Before each further try the document is read and judged again (P1): while a try failed, the event may have
    got another VM. Azure answers 400 for an id that it no longer lists; an event that has vanished must not cost the
    others their approval.

    :param document: read just now, after the name in the request was known.
    :param before_post: is called with the ids before each POST.
    :raises ImdsError: Azure did not take the approval, or gave no answer. It is ``refused`` only if Azure has
        certainly taken none of those that were sent.
    """
    plan = plan_approval(document, request, now_utc())
    before = _statuses(plan)
    in_doubt: set[str] = set()
    lost: ImdsError | None = None
    pauses = _growing_pauses()
    while plan.ids_to_approve:
        sent = plan.ids_to_approve
        if before_post is not None:
            before_post(sent)
        try:
            client.approve(sent, _incarnation_to_send(client, document, request), deadline)
            return Approved(plan, document, before, bool(in_doubt.difference(sent)))
        except ImdsError as error:
            failure = error
        if not failure.refused:
            in_doubt.update(sent)
            lost = lost or failure
        # An approval with a lost answer counts for more than the answers to later ones.
        reason = lost or failure
        if not (failure.may_pass or failure.http_status == 400):
            raise reason
        document = _read_again(client, deadline, pauses, reason, failure.retry_after or 0.0)
        request = request._replace(event_ids=tuple(approval.event_id for approval in plan.approvals), beginnings=False)
        again = plan_approval(document, request, now_utc())
        if failure.http_status == 400 and again.ids_to_approve == sent:
            raise reason
        plan = again._replace(warnings=tuple(dict.fromkeys(plan.warnings + again.warnings)))
    return Approved(plan, document, before, bool(in_doubt))


def _growing_pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, _LONGEST_PAUSE)


def _read_again(
    client: ImdsClient, deadline: Deadline, pauses: Iterator[float], reason: ImdsError, retry_after: float
) -> Document:
    """Pause, and read the document until there is one; an empty body says nothing about the approval.

    :param reason: is raised when there is no document before the deadline.
    """
    while True:
        wait = max(next(pauses), retry_after)
        if wait >= deadline.remaining():
            raise reason
        time.sleep(wait)
        try:
            document = read_document(client, deadline)
        except ImdsError as error:
            # The service may be restarting, so that nothing listens for a moment.
            if not (error.may_pass or isinstance(error, UnreachableError)):
                raise reason from error
            retry_after = error.retry_after or 0.0
            continue
        if document is not None:
            return document
        retry_after = 0.0


def _incarnation_to_send(client: ImdsClient, document: Document | None, request: ApprovalRequest) -> str | None:
    """Return the DocumentIncarnation that the pages of 2017 ask for, as a string; later pages dropped it."""
    asked_for = request.document_incarnation is not None or client.api_version.startswith("2017-")
    if not asked_for or document is None or document.incarnation is None:
        return None
    return str(document.incarnation)


class WaitExpired(Exception):
    """The events did not get as far as was waited for.

    :ivar statuses: the last known status of each event, None for one that is gone, or of which nothing is known.
    :ivar unknown: the events of which nothing is known: no document listed them or showed that they are gone.
    :ivar last_error: why the last request failed, None where it did not.
    :ivar unclear: the last answer was no document, or one with an entry that cannot be read.
    """

    def __init__(
        self, statuses: dict[str, str | None], unknown: list[str], last_error: ImdsError | None, unclear: bool
    ) -> None:
        super().__init__("time is up")
        self.statuses = statuses
        self.unknown = unknown
        self.last_error = last_error
        self.unclear = unclear


def wait_for(
    client: ImdsClient,
    statuses: dict[str, str | None],
    until_ended: bool,
    seconds: float,
    poll_interval: float | None = None,
    beginnings: Collection[str] = (),
) -> dict[str, str | None]:
    """Wait until the events have started, or are gone from the document, and return their last statuses.

    Only a document in which every entry can be read tells that an event is gone (P4). After a request that failed,
    an empty body, or an unclear document that does not list it, an event is taken to stay as it was.

    :param statuses: the events by id, with the status each was last seen with.
    :param poll_interval: seconds from one look to the next, by default POLL_INTERVAL.
    :param beginnings: those of the ids that no document has listed yet, so that each may be the beginning of one.
    :raises WaitExpired: it took longer than so many seconds.
    """
    deadline = Deadline(seconds)
    pause = POLL_INTERVAL if poll_interval is None else poll_interval
    statuses = dict(statuses)
    reached = dict.fromkeys(statuses, False)
    last_error: ImdsError | None = None
    while True:
        left = deadline.remaining()
        try:
            document = read_document(client, Deadline(min(client.timeout, left)))
            last_error = None
        except ImdsError as error:
            document = None
            # A request cut short by the end of the wait shows no fault of Azure.
            if left > pause or deadline.remaining() > 0:
                last_error = error
        if document is not None:
            for event_id in statuses:
                event = _find_beginning(document, event_id) if event_id in beginnings else document.find(event_id)
                if event is not None:
                    statuses[event_id] = event.event_status
                    reached[event_id] = event.has_started and not until_ended
                elif document.is_clear:
                    statuses[event_id], reached[event_id] = None, True
            if all(reached.values()):
                return statuses
        if deadline.remaining() <= pause:
            unknown = [event_id for event_id, status in statuses.items() if status is None and not reached[event_id]]
            raise WaitExpired(statuses, unknown, last_error, document is None or not document.is_clear)
        time.sleep(pause)


def _find_beginning(document: Document, name: str) -> Event | None:
    """Return the event with this id, or one whose id begins so: of several, one that has not started."""
    (found,) = find_named((name,), [event.key for event in document.events]).values()
    events = [event for event in document.events if event.key in found]
    return next((event for event in events if not event.has_started), events[0] if events else None)
