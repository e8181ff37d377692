# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What has become of the events since they were last seen: announced, started, ended.

Facts about Azure are from Microsoft's page "Scheduled Events for Linux VMs"
(azure-compute-docs, linux/scheduled-events.md).
"""

from __future__ import annotations

from typing import Iterable, NamedTuple

from ._document import Document, Event

ANNOUNCED = "announced"
STARTED = "started"
ENDED = "ended"

COMPLETED = "completed"
WITHDRAWN = "withdrawn"


class Known(NamedTuple):
    """What is known of an event that has not ended.

    :ivar event: the event as it was last seen.
    :ivar approved: Azure took an approval of it.
    :ivar rebooted: this VM has booted since the event was first seen.
    :ivar fell_due: the time from which Azure may start it has come.
    """

    event: Event
    approved: bool = False
    rebooted: bool = False
    fell_due: bool = False


class Transition(NamedTuple):
    """An event has reached a phase; ``outcome`` is that of an ended one."""

    event: Event
    phase: str
    outcome: str | None = None


def find_transitions(known: Iterable[Known], document: Document) -> list[Transition]:
    """Tell two documents apart by the id and status of each event, those that ended first.

    An event that is first seen Started was never announced. One that has been seen Started stays so, because
    Azure goes one way only. The document says nothing of what became of an event that is gone.

    :param known: the events that had not ended when the document before this one was read.
    """
    before = {each.event.key: each for each in known}
    listed = {event.key for event in document.events}
    transitions = [Transition(each.event, ENDED, _outcome(each)) for key, each in before.items() if key not in listed]
    for event in document.events:
        earlier = before.get(event.key)
        if event.has_started:
            if earlier is None or not earlier.event.has_started:
                transitions.append(Transition(event, STARTED))
        elif earlier is None:
            transitions.append(Transition(event, ANNOUNCED))
    return transitions


def _outcome(known: Known) -> str:
    happened = known.event.has_started or known.rebooted or known.approved or known.fell_due
    return COMPLETED if happened else WITHDRAWN
