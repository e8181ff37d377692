# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The open events and unfinished responses, for the life cycle, and the responses that may run now."""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    UNTOLD,
    Response,
    TrackedEvent,
    is_obsolete,
    short_name,
    why_not_now,
)

from ..state.marks import MarkOfRuns
from ..state.records import APPROVED, DUE, PLANNED, RUNNING, SKIPPED, EventRecord, Moment, ResponseRecord
from ..state.store import Store
from .tracker import obsolete_reason


class Situation(NamedTuple):
    """:ivar found: the events that are open or have unfinished work, with the responses to them.
    :ivar untold: the events for which a run has this VM out of service since Azure told the checker of its events; and
        those that are not open, and for which a run prepares it at this moment.
    """

    found: list[tuple[EventRecord, TrackedEvent, list[ResponseRecord]]]
    untold: list[TrackedEvent]

    def others(self, course: TrackedEvent) -> list[TrackedEvent]:
        """Return the other events of this VM."""
        return [*(each for _record, each, _responses in self.found if each is not course), *self.untold]


def read_situation(
    store: Store, boot_id: str, is_running: Callable[[int], bool], marked: Mapping[str, MarkOfRuns]
) -> Situation:
    """Return the events of this VM.

    :param is_running: tells whether a process runs the response of this number now.
    :param marked: from events_of_runs().
    """
    found = []
    for record, responses in store.read_pending():
        course = TrackedEvent(
            record.number,
            record.event.key,
            record.phase,
            record.listed_boot == boot_id,
            tuple(
                Response(
                    each.number,
                    each.phase,
                    finished=each.finished,
                    due=each.state != PLANNED,
                    begun=each.begun,
                    running=each.state == RUNNING and is_running(each.number),
                )
                for each in responses
            ),
            record.end_order,
            record.approval == APPROVED,
            record.event.key in marked,
            short_name(record.event),
        )
        found.append((record, course, responses))
    is_open = {course.key for _record, course, _responses in found if course.phase != ENDED}
    untold = []
    for key, mark in marked.items():
        if mark.is_newer and not store.knows(key):
            untold.append(TrackedEvent(UNTOLD, key, ANNOUNCED, False, (), marked=True))
        elif mark.is_preparing and key not in is_open:
            untold.append(TrackedEvent(UNTOLD, key, ENDED, False, (), marked=True))
    return Situation(found, untold)


def due_responses(
    store: Store,
    now: Moment,
    is_running: Callable[[int], bool],
    read_marked: Callable[[], Mapping[str, MarkOfRuns]] = dict,
) -> list[ResponseRecord]:
    """Write down which responses have become due, and return those that may run now and do not.

    :param is_running: tells whether a process runs the response of this number now.
    :param read_marked: returns what events_of_runs() does.
    """
    if not store.unfinished_responses():
        return []
    marked = read_marked()
    situation = read_situation(store, now.boot_id, is_running, marked)
    changes: dict[int, str] = {}
    phases: dict[int, str] = {}
    for record, course, responses in situation.found:
        for response, seen in zip(responses, course.responses):
            if is_obsolete(seen, course) and not seen.running:
                changes[response.number], phases[response.number] = SKIPPED, response.phase
            elif response.state == PLANNED and _is_due(response, record, now):
                changes[response.number] = DUE
    if changes:
        with store.transaction():
            for number, state in changes.items():
                if state == DUE:
                    store.begin_response(number, DUE, now)
                else:
                    store.finish_response(number, SKIPPED, obsolete_reason(phases[number]), now)
        situation = read_situation(store, now.boot_id, is_running, marked)
    return [
        response
        for _record, course, responses in situation.found
        for response, seen in zip(responses, course.responses)
        if seen.due and not seen.finished and not seen.running
        if why_not_now(seen, course, situation.others(course)) is None
    ]


def _is_due(response: ResponseRecord, record: EventRecord, now: Moment) -> bool:
    if response.phase != ANNOUNCED or record.rule is None or record.rule.lead_time is None:
        return True
    # Whichever clock says so: too early does less harm than too late. An unknown start is never near.
    left = record.seconds_until_start(now)
    return left is not None and left <= record.rule.lead_time
