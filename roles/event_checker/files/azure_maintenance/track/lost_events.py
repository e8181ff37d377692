# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events with a lost record, put aside alone or with the whole file: the marks say which must still be restored."""

from __future__ import annotations

from typing import Any, Iterable

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import escape
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import (
    Document,
    Event,
    parse_utc,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    STARTED,
    phase_of,
    same_boot,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import PREPARED

from ..config.config import AT_ONCE, WHEN_READY, Rule
from ..config.rules import steps_for
from ..state.marks import OwnMark, read_own_marks
from ..state.records import FAILED, PLANNED, SENDING, SUCCEEDED, EventRecord, Moment
from ..state.store import Store
from ..system import Folders, running_responses


def take_up_lost(
    store: Store, folders: Folders, rules: Iterable[Rule], document: Document | None, now: Moment, name: str
) -> tuple[Document | None, list[str]]:
    """Make records of the events for which this VM was prepared, and which have no record any more.

    :param name: of this VM.
    :returns: the document, without those for which a response of the lost file still runs: it goes on by that file; and
        a line for each event that was taken up.
    """
    marks = read_own_marks(store, folders)
    known = {record.event.key for record in store.all_events()} if marks else set()
    lost: dict[str, OwnMark] = {}
    for mark in marks:
        # An event has two where the id of this VM became known later, or the disk was full: the one that claims less
        # counts.
        if mark.key not in known and (mark.key not in lost or mark.state != PREPARED):
            lost[mark.key] = mark
    if lost and runs_a_stranger(store, folders):
        left = tuple(event for event in document.events if event.key not in lost) if document else ()
        return document and document._replace(events=left), []
    if not lost:
        return document, []
    with store.transaction():
        return document, [escape(_take_up(store, mark, rules, document, now, name)) for mark in lost.values()]


def runs_a_stranger(store: Store, folders: Folders) -> bool:
    """Tell whether a response without a record runs."""
    return any(store.response(number) is None for number in running_responses(folders))


def _take_up(
    store: Store, mark: OwnMark, rules: Iterable[Rule], document: Document | None, now: Moment, resource_name: str
) -> str:
    """Make a record of an event for which this VM was prepared, and return a line that says so.

    The documents decide the next phase, as for any other event.
    """
    listed = document.find(mark.event_id) if document is not None else None
    if listed is None or listed.affects(resource_name) is False:
        listed = Event(
            *(mark.event_id, mark.event_type, None, None, (), None, None, None, None, None), names_its_vms=False
        )
    rule = next((each for each in rules if each.name == mark.rule), None)
    phase, since = phase_of(listed), _read_time(mark.since) or now.at
    told = "its record was lost; a mark of this VM tells of it"
    if rule is None:
        told += (
            ", and by which rule it was prepared is not known: restore this VM by hand, and remove the file of the mark"
            " after that"
        )
    record = EventRecord(
        *(0, listed, rule, phase, now, mark.boot_id, since),
        started_at=now.at if phase == STARTED else None,
        approval=SENDING if rule is not None and _may_be_approved(mark, rule, listed) else None,
        note=told,
    )
    number = store.insert_event(record)
    if rule is not None:
        state, known = _preparation(mark, rule, now, since)
        store.add_response(number, ANNOUNCED, steps_for(rule, ANNOUNCED), now, state, known)
        if phase == STARTED:
            store.add_response(number, STARTED, steps_for(rule, STARTED), now, FAILED)
    return f"{listed.event_type or 'Event'} {listed.event_id}: {told}."


def _may_be_approved(mark: OwnMark, rule: Rule, event: Event) -> bool:
    """Tell whether an approval may have been sent: that is evidence that the event took place."""
    is_sent = rule.approve == AT_ONCE or (rule.approve == WHEN_READY and mark.state == PREPARED)
    # An event with other VMs is left to the fleet.
    return is_sent and len(event.resources) < 2


def _preparation(mark: OwnMark, rule: Rule, now: Moment, since: float) -> tuple[str, dict[str, Any]]:
    """Return the state of the response that prepared the VM, and the known states of its steps.

    Where it is not known to have ended, it is run again only if an approval asks for that in a later boot (P2, P6).
    """
    if mark.state == PREPARED:
        return SUCCEEDED, {
            "state": SUCCEEDED,
            "started_at": since,
            "finished_at": now.at,
            "succeeded_boot": mark.boot_id,
        }
    again = rule.approve == WHEN_READY and not same_boot(mark.boot_id, now.boot_id)
    return PLANNED if again else FAILED, {"started_at": since}


def _read_time(text: str | None) -> float | None:
    try:
        return None if text is None else parse_utc(text).timestamp()
    except ValueError:
        return None
