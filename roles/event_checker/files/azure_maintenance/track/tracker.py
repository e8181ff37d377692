# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Record an answer of Azure. Nothing here waits, or talks to a service.

The life cycle decides which change may follow which; here the changes are written down.
"""

from __future__ import annotations

from typing import Iterable, NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval.guard import may_approve_alone
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import one_line
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Document, Event
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    RESTORE,
    STARTED,
    WAITING,
    WITHDRAWN,
    Following,
    Known,
    Transition,
    follow,
    is_leader_of_several,
    is_of_another_kind,
    is_of_another_vm,
)

from ..config.config import Rule
from ..config.rules import APPROVE_STEP, RuleError, find_rule, steps_for
from ..state.records import APPROVED, DUE, PLANNED, SENDING, SKIPPED, SUCCEEDED, EventRecord, Moment, ResponseRecord
from ..state.records import WAITING as APPROVAL_WAITS
from ..state.store import Store

# A VM has one or two events. Further ones are said, but not followed.
MOST_OPEN = 100
# With ended events that have an unfinished response: it may have to wait for days.
MOST_PENDING = 300
_MOST_LINES = 10
_NO_VM = "it lists no VM, so whether it concerns this one is unknown; nothing is done"
_OBSOLETE = {
    ANNOUNCED: "The event ended before its preparation did.",
    WAITING: "The event is approved, or has started or ended, so its approval does not wait any more.",
    RESTORE: "The event is approved, or has started or ended, so only on_ended puts this VM back into service.",
}
_COPIED = "it belongs to another VM, and this VM has a copy of its disk; nothing is done"


class Recorded(NamedTuple):
    """:ivar lines: for the log.
    :ivar missing: open events that an unclear answer does not list.
    :ivar left_out: a line where new events are not followed. The same document may find room for them later.
    """

    lines: list[str]
    missing: tuple[Event, ...]
    left_out: tuple[str, ...] = ()


def record_answer(
    store: Store,
    rules: Iterable[Rule],
    document: Document | None,
    now: Moment,
    resource_name: str,
    unclear_seconds: float = 0.0,
) -> Recorded:
    """Record the changes of this VM's events, with the responses that the rules ask for, all or nothing.

    :param document: None for an empty body.
    :param unclear_seconds: since the last clear answer.
    """
    pending = store.pending_events()
    foreign = [each for each in pending if is_of_another_vm(each.event, resource_name, each.listed_boot == now.boot_id)]
    records = {record.event.key: record for record in pending if record.ended_at is None and record not in foreign}
    known = [_known(record, now) for record in records.values()]
    following = follow(known, document, resource_name, unclear_seconds)
    ending = sum(each.phase == ENDED for each in following.transitions)
    room = min(MOST_OPEN - len(records) + ending, MOST_PENDING - len(pending))
    following, left_out = _bounded(following, records, room)
    changed = [
        (records[key], event)
        for key, event in following.listed.items()
        if key in records and (event != records[key].event or records[key].listed_boot != now.boot_id)
    ]
    waited = _waited_enough(store, records.values(), document, now, resource_name)
    if not (following.transitions or changed or foreign or waited):
        return Recorded([], following.missing, left_out)
    with store.transaction():
        lines = [_disown(store, record, now) for record in foreign]
        for record, event in changed:
            store.update_event(record, event, now.boot_id)
            record, said = _decide_again(store, rules, record, event, now, resource_name)
            records[event.key] = record
            lines += said
            if record.approval == APPROVAL_WAITS and not event.has_started:
                # Another VM may have led the event before.
                plan_waiting(store, record.number, record.rule, event, now, resource_name)
        lines += [_approve_after_all(store, record, response, now) for record, response in waited]
        for transition in following.transitions:
            record_now = records.get(transition.event.key)
            lines.append(_record(store, rules, transition, record_now, now, resource_name))
    return Recorded(_first(lines), following.missing, left_out)


def _known(record: EventRecord, now: Moment) -> Known:
    # The clock that nobody can set, if it has run since the event was first seen
    undisturbed = record.nows(now)[-1]
    approved = record.approval in (APPROVED, SENDING)
    return Known.at(undisturbed, record.event, record.listed_boot, now.boot_id, approved)


def _bounded(following: Following, records: dict[str, EventRecord], room: int) -> tuple[Following, tuple[str, ...]]:
    """Leave out new events beyond the limit; those that surely concern this VM come first."""
    new = [each for each in following.transitions if each.phase != ENDED and each.event.key not in records]
    room = max(0, room)
    if len(new) <= room:
        return following, ()
    new.sort(key=lambda each: not each.event.names_its_vms)
    beyond = {each.event.key for each in new[room:]}
    kept = tuple(each for each in following.transitions if each.event.key not in beyond)
    line = (
        f"{MOST_OPEN} events are open, or {MOST_PENDING} are open or have responses that are not finished. "
        "Further ones are not followed, and nothing is done for them."
    )
    return following._replace(transitions=kept), (line,)


def _first(lines: list[str]) -> list[str]:
    more = [f"And {len(lines) - _MOST_LINES} more events."] if len(lines) > _MOST_LINES else []
    return lines[:_MOST_LINES] + more


def _title(event: Event) -> str:
    return f"{one_line(event.event_type or 'Event of unknown type')} {one_line(event.event_id)}"


def _record(
    store: Store,
    rules: Iterable[Rule],
    transition: Transition,
    record: EventRecord | None,
    now: Moment,
    resource_name: str,
) -> str:
    event, phase = transition.event, transition.phase
    line = f"{_title(event)} {phase}"
    if record is None:
        rule, note = _decide(rules, event, now, resource_name)
        number = store.add_event(event, rule, phase, now, note)
        line += _choice(rule, note)
    else:
        rule, number = record.rule, record.number
        if phase == STARTED:
            store.start_event(number, now)
        elif transition.outcome is not None:
            store.end_event(number, transition.outcome, now)
            line += f", {transition.outcome}"
        for response in store.responses_to(number):
            if response.phase == ANNOUNCED and response.state == PLANNED:
                store.finish_response(response.number, SKIPPED, f"The event {phase} before this was due.", now)
    _plan(store, number, rule, phase, now)
    return f"{line}."


def _plan(store: Store, number: int, rule: Rule | None, phase: str, now: Moment) -> None:
    steps = steps_for(rule, phase) if rule else []
    # After a damaged record an event may come to a phase again.
    if steps and all(each.phase != phase for each in store.responses_to(number)):
        store.add_response(number, phase, steps, now)


def obsolete_reason(phase: str) -> str:
    """Return why a response of this phase is obsolete."""
    return _OBSOLETE[phase]


def plan_waiting(store: Store, number: int, rule: Rule | None, event: Event, now: Moment, resource_name: str) -> None:
    """Plan on_waiting, which runs once while the approval of an event waits for other VMs, if this VM is to run it."""
    if is_leader_of_several(event, resource_name):
        _plan(store, number, rule, WAITING, now)


def _disown(store: Store, record: EventRecord, now: Moment) -> str:
    """Close an event of another VM, from a copied disk: nothing was prepared here."""
    if record.ended_at is None:
        store.end_event(record.number, WITHDRAWN, now, _COPIED)
    for response in store.responses_to(record.number):
        if not response.finished:
            store.finish_response(response.number, SKIPPED, "The event belongs to another VM.", now)
    return f"{_title(record.event)}: {_COPIED}."


def _waited_enough(
    store: Store, records: Iterable[EventRecord], document: Document | None, now: Moment, resource_name: str
) -> list[tuple[EventRecord, ResponseRecord]]:
    """Return the events with an approval that need not wait for other VMs any more, and the response that sends it."""
    found = []
    for record in records:
        # One that was seen started stays so, whatever an older document says.
        if document is None or record.phase != ANNOUNCED or record.approval != APPROVAL_WAITS:
            continue
        if may_approve_alone(document, record.event.event_id, resource_name, now.wall):
            responses = store.responses_to(record.number)
            found += [(record, each) for each in responses if each.phase == ANNOUNCED and each.state == SUCCEEDED]
    return found


def _approve_after_all(store: Store, record: EventRecord, response: ResponseRecord, now: Moment) -> str:
    """Try an approval again: the event does not list the VMs any more for which it waited, or could not be read."""
    store.set_approval(record.number, None, (), now)
    store.renew_steps(response.number, lambda step: step.content == APPROVE_STEP)
    store.begin_response(response.number, DUE, now)
    return f"{_title(record.event)} waits for no other VM any more. Its approval is tried again."


def _decide_again(
    store: Store, rules: Iterable[Rule], record: EventRecord, event: Event, now: Moment, resource_name: str
) -> tuple[EventRecord, list[str]]:
    """Find the rule anew for an event that listed no VM before, or whose type or source has changed.

    A response that was begun goes on by its old rule.
    """
    if record.rule is None and event.names_its_vms and not record.event.names_its_vms:
        news = "lists this VM now"
    elif is_of_another_kind(record.event, event):
        news = f"was {_kind(record.event)}"
    else:
        return record, []
    if store.was_begun(record.number):
        return record, [
            f"{_title(event)} {news}. A response to it was begun, so its rule stays{_choice(record.rule, None)}."
        ]
    rule, note = _decide(rules, event, now, resource_name)
    store.set_rule(record.number, rule, note)
    store.remove_responses(record.number)
    # A transition to the next phase in this same document plans that phase itself.
    _plan(store, record.number, rule, record.phase, now)
    return record._replace(rule=rule), [f"{_title(event)} {news}{_choice(rule, note)}."]


def _kind(event: Event) -> str:
    kind = f"a {one_line(event.event_type)}" if event.event_type else "an event of unknown type"
    return f"{kind} from {one_line(event.event_source)}" if event.event_source else kind


def _choice(rule: Rule | None, note: str | None) -> str:
    """Return the name of an event's rule and the note on it, as the end of a line."""
    return (f" (rule {one_line(rule.name)})" if rule else "") + (f": {note}" if note else "")


def _decide(rules: Iterable[Rule], event: Event, now: Moment, resource_name: str) -> tuple[Rule | None, str | None]:
    """Return the rule for an event, and a note on the choice or None."""
    if not event.names_its_vms:
        return None, _NO_VM
    try:
        rule, slow = find_rule(rules, event, now.wall, resource_name)
    except RuleError as error:
        return None, f"{error}; nothing is done"
    said = slow if rule else [*slow, "no rule matches; nothing is done"]
    return rule, "; ".join(said) or None
