# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write down what a document tells, and decide which responses are due. Nothing here waits or talks to anything."""

from __future__ import annotations

from typing import Iterable

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import (
    STARTED as STATUS_STARTED,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import Document, Event
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import one_line
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._lifecycle import (
    ANNOUNCED,
    STARTED,
    Known,
    Transition,
    find_transitions,
)

from .config import Rule
from .rules import RuleError, find_rule, steps_for
from .store import APPROVED, DUE, PLANNED, SKIPPED, EventRecord, Moment, ResponseRecord, Store


def record_document(
    store: Store, rules: Iterable[Rule], document: Document, now: Moment, resource_name: str
) -> list[str]:
    """Write down what became of this VM's events, with the responses that the rules ask for, all or nothing.

    :returns: a line for the log for each event that reached a phase.
    """
    ours = [event for event in document.events if event.affects(resource_name) is not False]
    records = {record.event.key: record for record in store.open_events()}
    transitions = find_transitions(
        [_known(record, now) for record in records.values()], document._replace(events=tuple(ours))
    )
    changed = [
        event
        for event in ours
        if event.key in records and _as_seen(event, records[event.key]) != records[event.key].event
    ]
    if not transitions and not changed:
        return []
    with store.transaction():
        for event in changed:
            record = records[event.key]
            store.update_event(record.number, _as_seen(event, record))
        return [
            _record(store, rules, transition, records.get(transition.event.key), now, resource_name)
            for transition in transitions
        ]


def _known(record: EventRecord, now: Moment) -> Known:
    # The clock that nobody can set, where it reaches back to when the event was first seen
    undisturbed = record.nows(now)[-1]
    return Known(
        record.event,
        approved=record.approval == APPROVED,
        rebooted=record.seen.boot_id != now.boot_id,
        fell_due=record.event.seconds_until_start(undisturbed) == 0,
    )


def _as_seen(event: Event, record: EventRecord) -> Event:
    """Return the event as the newest document has it, but for a status that would go back."""
    return event._replace(event_status=STATUS_STARTED) if record.event.has_started else event


def _record(
    store: Store,
    rules: Iterable[Rule],
    transition: Transition,
    record: EventRecord | None,
    now: Moment,
    resource_name: str,
) -> str:
    event, phase = transition.event, transition.phase
    line = f"{one_line(event.event_type or 'Event of unknown type')} {one_line(event.event_id)} {phase}"
    if record is None:
        rule, note = _decide(rules, event, now, resource_name)
        number = store.add_event(event, rule, phase, now, note)
        line += f" (rule {one_line(rule.name)})" if rule else f": {note}"
    else:
        rule, number = record.rule, record.number
        if phase == STARTED:
            store.start_event(number, event, now)
        elif transition.outcome is not None:
            store.end_event(number, transition.outcome, now)
            line += f", {transition.outcome}"
        for response in store.responses_to(number):
            if response.phase == ANNOUNCED and response.state == PLANNED:
                store.finish_response(response.number, SKIPPED, f"The event {phase} before this was due.", now)
    steps = steps_for(rule, phase) if rule else []
    if steps:
        store.add_response(number, phase, steps, now)
    return f"{line}."


def _decide(rules: Iterable[Rule], event: Event, now: Moment, resource_name: str) -> tuple[Rule | None, str | None]:
    """Return the rule for an event, and a sentence where there is something to say of the choice."""
    if not event.resources:
        return None, "it names no VM, so whether it concerns this one is unknown; nothing is done"
    try:
        rule = find_rule(rules, event, now.wall, resource_name)
    except RuleError as error:
        return None, f"{error}; nothing is done"
    return rule, None if rule else "no rule matches; nothing is done"


def due_responses(store: Store, now: Moment) -> list[ResponseRecord]:
    """Return the responses that should run now, after writing down which of them have become due.

    The responses to one event run one after the other, so that nothing is restored while it is being prepared.
    """
    due = []
    busy: set[int] = set()
    for response in store.unfinished_responses():
        if response.event in busy:
            continue
        busy.add(response.event)
        if response.state == PLANNED:
            if not _is_due(response, store.event(response.event), now):
                continue
            with store.transaction():
                store.begin_response(response.number, DUE, now)
            response = response._replace(state=DUE, boot_id=now.boot_id)
        due.append(response)
    return due


def _is_due(response: ResponseRecord, record: EventRecord, now: Moment) -> bool:
    if response.phase != ANNOUNCED or record.rule is None or record.rule.lead_time is None:
        return True
    # Whichever clock says so: too early does less harm than too late. An unknown start is never near.
    left = [record.event.seconds_until_start(each) for each in record.nows(now)]
    return any(seconds is not None and seconds <= record.rule.lead_time for seconds in left)


def may_resume(response: ResponseRecord, now: Moment, answered: bool) -> bool:
    """Tell whether a response may run before Azure has been heard.

    After a boot, an event that was to be prepared for may be over, and only Azure can tell.
    """
    return answered or response.phase != ANNOUNCED or response.boot_id == now.boot_id
