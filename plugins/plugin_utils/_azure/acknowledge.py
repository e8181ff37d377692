# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Approve events by Azure's control plane: the work of the module scheduled_event_acknowledge."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple

from ...module_utils._approval.guard import (
    ALREADY_STARTED,
    APPROVED,
    NOT_FOUND,
    REFUSED,
    Approval,
    ApprovalRequest,
    hold_back,
    plan_approval,
)
from ...module_utils._errors import one_line
from ...module_utils._event.document import Document, fold_case
from ...module_utils._event.selection import check_words, words
from .arm import ArmClient, fold_keys, growing_pauses, join_code, read_error
from .errors import HTTP_STATUS, MALFORMED, AzureError
from .events import OutsideEvent
from .graph import Found, Scope, ask_events
from .info import read_scope
from .resource_ids import ResourceId
from .task import Task

ENDED, FAILED = "ended", "failed"

_API_VERSION = "2025-10-01-preview"
_GUID = re.compile(r"[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}", re.IGNORECASE)
# From outside no VM speaks for itself: each must be vouched for.
_NO_VM = ""
_NO_SUCH_EVENT = "no such event"
_IN_DOUBT = "An approval was sent and was not confirmed. Azure may have taken it."

SPEC: dict[str, Any] = {
    "argument_spec": {
        "event_ids": {"type": "list", "elements": "str", "required": True, "aliases": ["event_id"]},
        "subscriptions": {"type": "list", "elements": "str"},
        "management_groups": {"type": "list", "elements": "str"},
        "resources_ready": {"type": "list", "elements": "str", "default": []},
        "force": {"type": "bool", "default": False},
    },
    "mutually_exclusive": [("subscriptions", "management_groups")],
}


class Outcome(NamedTuple):
    """The result for one event.

    :ivar result: a word of _approval_plan, ENDED or FAILED.
    :ivar why: a sentence for people where it was not approved.
    :ivar code: Azure's own word for it.
    """

    event_id: str
    result: str
    event_status: str | None = None
    waiting_for: tuple[str, ...] = ()
    why: str = ""
    code: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "event_id": self.event_id,
            "result": self.result,
            "waiting_for": list(self.waiting_for),
            "event_status": self.event_status,
            "error_code": self.code,
            "message": self.why or None,
        }


def acknowledge(task: Task) -> dict[str, Any]:
    """Do the module's work, and return its result; ``failed`` where it must fail.

    :raises ValueError: an option is wrong.
    """
    try:
        return _acknowledge(task)
    except AzureError as error:
        # Before anything was sent
        return {"failed": True, "msg": str(error), **error.data(), "in_doubt": False}


def _acknowledge(task: Task) -> dict[str, Any]:
    options = task.options
    check_words(options)
    wanted = words(options["event_ids"])
    if options["event_ids"] == []:
        # An id that was not found must not approve another event.
        return {**_Work([], {}).describe(task.check_mode), "msg": _NO_SUCH_EVENT}
    for event_id in wanted or [""]:
        if not _GUID.fullmatch(event_id):
            raise ValueError(f"event_ids must be whole ids of events, which are GUIDs, not {one_line(event_id)!r}.")
    scope = read_scope(options, task.subscription_id)
    client = task.client()
    request = ApprovalRequest(
        resource_name=_NO_VM,
        event_ids=tuple({fold_case(each): each for each in wanted}.values()),
        resources_ready=words(options["resources_ready"]),
        force=options["force"],
    )
    found = ask_events(client, scope, task.warn)
    outcomes, events = judge(found, request, client)
    for outcome in outcomes:
        if outcome.result == NOT_FOUND:
            task.warn(outcome.why)
    work = _Work(outcomes, events)
    if not task.check_mode and not work.refused:
        work.send(client, scope, request, task.warn)
    if work.in_doubt:
        task.warn(_IN_DOUBT)
    return work.describe(task.check_mode)


def judge(found: Found, request: ApprovalRequest, client: ArmClient) -> tuple[list[Outcome], dict[str, OutsideEvent]]:
    """Return the possible result for each event, by the guard of scheduled_event_approve, and the events by their keys.

    APPROVED means that the approval may be sent.
    """
    events = {key: each for key in map(fold_case, request.event_ids) if (each := found.find(key)) is not None}
    live = {key: each for key, each in events.items() if each.outcome is None}
    document = Document(None, tuple(each.event for each in live.values()), (), found.is_complete)
    plan = plan_approval(document, request._replace(event_ids=tuple(live)), client.now()) if live else None
    approvals = {fold_case(each.event_id): each for each in _with_targets(plan.approvals if plan else (), live)}
    outcomes = []
    for event_id in request.event_ids:
        key = fold_case(event_id)
        if key in approvals:
            outcomes.append(_from_approval(approvals[key]))
        elif key in events:
            event = events[key].event
            why = f"Event {one_line(event_id)} is {event.event_status}, so nothing was sent."
            outcomes.append(Outcome(event.event_id, ENDED, event.event_status, why=why))
        else:
            outcomes.append(_not_found(event_id, found))
    return outcomes, live


def _with_targets(approvals: Iterable[Approval], live: Mapping[str, OutsideEvent]) -> tuple[Approval, ...]:
    """Refuse an event without a known resource: its approval has no address."""
    return hold_back(
        [
            approval._replace(
                result=REFUSED,
                why=f"Event {one_line(approval.event_id)} is not approved: Azure does not tell its resource.",
            )
            if approval.result == APPROVED and not live[fold_case(approval.event_id)].targets
            else approval
            for approval in approvals
        ]
    )


def _from_approval(approval: Approval) -> Outcome:
    why = f"{approval.why} {approval.advice}".strip()
    return Outcome(approval.event_id, approval.result, approval.event_status, approval.waiting_for, why)


def _not_found(event_id: str, found: Found) -> Outcome:
    why = "it has ended and is gone from there, was never there, or Azure is late."
    if not found.is_complete:
        why = "Azure's answer is not complete, so it may be there. Ask again."
    return Outcome(event_id, NOT_FOUND, why=f"Event {one_line(event_id)} is not in Azure Resource Graph: {why}")


class _Work:
    """The results of the events while approvals are sent."""

    def __init__(self, outcomes: Iterable[Outcome], events: Mapping[str, OutsideEvent]) -> None:
        self._outcomes = {fold_case(each.event_id): each for each in outcomes}
        self._events = dict(events)
        self._before = {each.event_id: each.event_status for each in self._outcomes.values() if each.event_status}
        # Which resources of the events have taken the approval, and for which the answer to it was lost
        self._taken: set[tuple[str, str]] = set()
        self._doubts: set[tuple[str, str]] = set()
        # How often each resource was asked, and the latest failure of each event and resource, by their keys
        self._tries: Counter[str] = Counter()
        self._errors: dict[str, AzureError] = {}
        self._failure: AzureError | None = None

    @property
    def refused(self) -> bool:
        return any(each.result == REFUSED for each in self._outcomes.values())

    @property
    def in_doubt(self) -> set[str]:
        """The keys of events that Azure may begin although they do not count as approved.

        The answer of a resource to the approval was lost, or only some of their resources have taken it.
        """
        partly = {key for key, _target in self._taken if self._outcomes[key].result != APPROVED}
        return partly | {key for key, _target in self._doubts}

    def send(self, client: ArmClient, scope: Scope, request: ApprovalRequest, warn: Callable[[str], None]) -> None:
        """Send the approvals, and failed ones again as long as there is time and the guard allows it.

        Before each request but the first Resource Graph is asked anew (P1).
        """
        open_ = {key for key, each in self._outcomes.items() if each.result == APPROVED}
        pauses = growing_pauses()
        while open_:
            failures = self._send_next(client, open_)
            passing = {key for key, error in failures.items() if error.may_pass}
            unknown = {key for key, error in failures.items() if error.http_status == 404}
            for key in failures.keys() - passing - unknown:
                self._fail(key, failures[key])
            open_ = passing | {key for key in open_ - failures.keys() if self._open_targets(key)}
            if not open_ and not unknown:
                return
            try:
                self._pause_before_retry(client, open_, pauses)
                found = ask_events(client, scope, warn)
            except AzureError as error:
                self._failure = error
                for key in open_ | unknown:
                    self._fail(key, self._errors.get(key, error))
                return
            ids = tuple(self._outcomes[key].event_id for key in open_ | unknown)
            again, events = judge(found, request._replace(event_ids=ids), client)
            self._events.update(events)
            open_ = self._take_up({fold_case(each.event_id): each for each in again}, open_, unknown)

    def _open_targets(self, key: str) -> list[ResourceId]:
        return [target for target in self._events[key].targets if (key, target.key) not in self._taken]

    def _next_target(self, keys: set[str]) -> ResourceId:
        """Return the resource to ask next: one that fails does not keep the others waiting."""
        targets = [target for key in self._outcomes if key in keys for target in self._open_targets(key)]
        return min(targets, key=lambda each: self._tries[each.key])

    def _pause_before_retry(self, client: ArmClient, keys: set[str], pauses: Iterator[float]) -> None:
        failure = self._errors.get(self._next_target(keys).key) if keys else None
        if failure is not None:
            client.pause(max(next(pauses), failure.retry_after), failure)

    def _send_next(self, client: ArmClient, keys: set[str]) -> dict[str, AzureError]:
        """Send the approvals of one resource, and return why some were not taken."""
        target = self._next_target(keys)
        of_target = [key for key in self._outcomes if key in keys and target in self._open_targets(key)]
        self._tries[target.key] += 1
        failures = self._post(client, target, of_target)
        self._errors.update(failures)
        for key in of_target:
            if key not in failures:
                self._taken.add((key, target.key))
                self._doubts.discard((key, target.key))
                continue
            self._errors[target.key] = failures[key]
            if not failures[key].refused:
                self._doubts.add((key, target.key))
        return failures

    def _post(self, client: ArmClient, target: ResourceId, keys: list[str]) -> dict[str, AzureError]:
        """Approve events of one resource, and return why some were not taken."""
        ids = [self._outcomes[key].event_id for key in keys]
        path = f"{target}/providers/Microsoft.Maintenance/scheduledevents"
        try:
            if len(ids) == 1:
                answer = client.send("POST", f"{path}/{ids[0]}/acknowledge", _API_VERSION, again=False)
            else:
                answer = client.send("POST", path, _API_VERSION, {"value": ids}, again=False)
        except AzureError as error:
            return dict.fromkeys(keys, error)
        return _read_partial_failure(answer.body, answer.status, keys)

    def _take_up(self, again: Mapping[str, Outcome], open_: set[str], unknown: set[str]) -> set[str]:
        """Judge the events that are not approved yet as Resource Graph has them now; return those to send."""
        if any(again[key].result == REFUSED for key in open_):
            # After a change, such as another VM in one of the events, no approval is sent any more.
            self._outcomes.update({key: again[key] for key in open_})
            open_ = set()
        for key in (*open_, *unknown):
            now = again[key]
            if key in unknown and now.result == APPROVED:
                self._fail(key, self._errors[key], "Resource Graph lists it, but Azure's maintenance service does not.")
            elif now.result in (ALREADY_STARTED, ENDED) and any(key == taken for taken, _target in self._taken):
                # Azure did not wait for its other resources.
                continue
            elif now.result != APPROVED:
                self._outcomes[key] = now
        return {key for key in open_ if again[key].result == APPROVED and self._open_targets(key)}

    def _fail(self, key: str, error: AzureError, more: str = "") -> None:
        event_id, status = self._outcomes[key].event_id, self._outcomes[key].event_status
        said = f"Event {one_line(event_id)} was not approved"
        if any(key == lost for lost, _target in self._doubts):
            said = f"Whether event {one_line(event_id)} was approved is not known"
        why = f"{said}: {error} {more}".strip()
        self._outcomes[key] = Outcome(event_id, FAILED, status, why=why, code=error.code)
        self._failure = self._failure or error

    def describe(self, check_mode: bool) -> dict[str, Any]:
        """Return the result of the module."""
        outcomes = list(self._outcomes.values())
        approved = [each.event_id for each in outcomes if each.result == APPROVED]
        bad = [each for each in outcomes if each.result in (REFUSED, FAILED)]
        done = f"{'would be approved' if check_mode else 'approved'}: {', '.join(map(one_line, approved))}."
        told = [done] if approved else []
        told += [each.why for each in outcomes if each.result != APPROVED and each.why]
        after = {each.event_id: each.event_status or each.result for each in outcomes}
        after.update(dict.fromkeys(approved, APPROVED))
        result = {
            "changed": bool(approved) or bool(self.in_doubt),
            "in_doubt": bool(self.in_doubt),
            "approvals": [each.to_dict() for each in outcomes],
            "diff": {"before": self._before, "after": {each: after.get(each) for each in self._before}},
            "msg": " ".join(told) or "; ".join(f"{each.result} {each.event_id}" for each in outcomes) or _NO_SUCH_EVENT,
        }
        if self._failure is not None:
            result.update(self._failure.data())
        return {**result, "failed": True} if bad else result


def _read_partial_failure(body: Any, status: int, keys: list[str]) -> dict[str, AzureError]:
    """Return which events an answer that is a success was none for; 207 is a success with an error in it."""
    code, message, details = read_error(body)
    if status != 207 and fold_keys(body).get("error") is None:
        return {}
    named = {}
    # One detail that names none of these events may be about any of them.
    all_named = bool(details)
    for each in details:
        target = each.get("target")
        key = fold_case(target) if isinstance(target, str) else ""
        if key not in keys:
            all_named = False
            continue
        inner, said, _more = read_error({"error": each})
        gone = fold_case(inner or "") in ("notfound", "invalidscheduledeventid")
        why = join_code(inner, said) or "Azure does not say why."
        named[key] = AzureError(why, HTTP_STATUS, 404 if gone else 409, inner)
    if all_named:
        return named
    told = join_code(code, message) or f"Azure answered {status} without saying for which events."
    return {**dict.fromkeys(keys, AzureError(told, MALFORMED, status, code)), **named}
