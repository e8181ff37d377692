# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The life cycle of an event on one VM: how an answer of Azure changes it, and which response may run next.

This is the only place that decides it; the checker, the event source and the fleet's runbook ask here. Pure: no clock,
no input and no output. P1 to P6 are the properties of the design that a function keeps.

Facts about Azure are from Microsoft's page "Scheduled Events for Linux VMs"
(azure-compute-docs, linux/scheduled-events.md).
"""

from __future__ import annotations

from datetime import datetime
from typing import Iterable, NamedTuple, Sequence

from .._errors import one_line
from .document import STARTED as STATUS_STARTED
from .document import Document, Event, fold_case

ANNOUNCED = "announced"
STARTED = "started"
ENDED = "ended"
PHASES = (ANNOUNCED, STARTED, ENDED)
# No phase of an event: its approval waits for other VMs, and one VM may have something run about it.
WAITING = "waiting"
# Nor is this: a person has the VM put back into service before the event, because its preparation failed.
RESTORE = "restore"
RESPONSE_PHASES = (ANNOUNCED, WAITING, RESTORE, STARTED, ENDED)

COMPLETED = "completed"
WITHDRAWN = "withdrawn"

# The number of an event that a run knows: Azure has not told the checker of it yet, or it is over
UNTOLD = 0

# Seconds. Empty and unreadable answers are normal for a moment; for so long they are all that Azure will say.
UNCLEAR_ENDS_AFTER = 300.0


class Known(NamedTuple):
    """The known facts of an event that has not ended.

    :ivar event: the event as it was last seen.
    :ivar approved: Azure took an approval of it, or may have taken one whose answer was lost.
    :ivar rebooted: this VM has booted since a document last listed the event: an event that is Scheduled after a boot
        has not caused it.
    :ivar fell_due: the time from which Azure may start it has come.
    """

    event: Event
    approved: bool = False
    rebooted: bool = False
    fell_due: bool = False

    @classmethod
    def at(
        cls, now: datetime, event: Event, listed_boot_id: str | None, boot_id: str | None, approved: bool = False
    ) -> Known:
        """Return the known facts of an event at a moment.

        :param now: aware datetime.
        :param listed_boot_id: the boot in which a document last listed it.
        :param boot_id: the boot of now.
        """
        rebooted = not same_boot(listed_boot_id, boot_id)
        return cls(event, approved, rebooted, fell_due=event.seconds_until_start(now) == 0)

    @property
    def took_place(self) -> bool:
        """Whether there is evidence that Azure started it. A lost connection is no evidence."""
        return self.event.has_started or self.approved or self.rebooted or self.fell_due


class Transition(NamedTuple):
    """An event has reached a phase; ``outcome`` is that of an ended one, else None."""

    event: Event
    phase: str
    outcome: str | None = None


class Following(NamedTuple):
    """How one answer changes the events of this VM.

    :ivar transitions: those that ended first.
    :ivar listed: every event of this VM that the answer lists, by key, as it is known now.
    :ivar missing: events that the answer does not list, and that have not ended, because the answer is unclear.
    """

    transitions: tuple[Transition, ...]
    listed: dict[str, Event]
    missing: tuple[Event, ...]


def phase_of(event: Event) -> str:
    """Return the phase of an event that a document lists."""
    return STARTED if event.has_started else ANNOUNCED


def follow(
    known: Iterable[Known], document: Document | None, resource_name: str | None, unclear_seconds: float = 0.0
) -> Following:
    """Compare the known events with an answer of Azure.

    Only a document ends an event, and only one in which every entry can be read (P4): the entry that cannot be
    read may be the missing one. An event that is first seen Started was never announced. One that has been seen
    Started stays so: the documents of the VMs of an event may reach a reader out of order.

    :param document: None for an empty body.
    :param resource_name: the name of this VM; without it no event is known to concern other VMs only.
    :param unclear_seconds: for how long every answer was empty, or held an entry that could not be read.
    """
    before = {each.event.key: each for each in known}
    listed = {}
    for event in document.events if document is not None else ():
        if event.affects(resource_name) is False:
            # It concerns other VMs, or has left this one.
            continue
        earlier = before.get(event.key)
        listed[event.key] = _as_known(event, earlier.event if earlier else None)
    clear = document is not None and document.is_clear
    transitions: list[Transition] = []
    missing: list[Event] = []
    for key, each in before.items():
        if key in listed:
            continue
        if clear or (each.took_place and unclear_seconds >= UNCLEAR_ENDS_AFTER):
            transitions.append(Transition(each.event, ENDED, outcome(each)))
        else:
            missing.append(each.event)
    for key, event in listed.items():
        earlier = before.get(key)
        if earlier is None or phase_of(earlier.event) != phase_of(event):
            transitions.append(Transition(event, phase_of(event)))
    return Following(tuple(transitions), listed, tuple(missing))


def _as_known(event: Event, earlier: Event | None) -> Event:
    """Return the event as a new document has it, without a step back."""
    if earlier is None:
        return event
    if earlier.has_started:
        event = event._replace(event_status=STATUS_STARTED)
    if not event.names_its_vms and earlier.names_its_vms:
        event = event._replace(resources=earlier.resources, names_its_vms=True)
    return event


def is_of_another_vm(event: Event, resource_name: str, listed_in_this_boot: bool) -> bool:
    """Tell whether a known event came here with a copy of another VM's disk: nothing was prepared on this VM."""
    return not listed_in_this_boot and event.affects(resource_name) is False


def is_of_another_kind(before: Event, now: Event) -> bool:
    """Tell whether the type or the source of an event is another than before. A word that is left out tells nothing."""
    words = ((before.event_type, now.event_type), (before.event_source, now.event_source))
    return any(new and fold_case(new) != fold_case(old or "") for old, new in words)


def outcome(known: Known) -> str:
    """Return the outcome of an event that has ended: a withdrawn event was never started, approved or due."""
    return COMPLETED if known.took_place else WITHDRAWN


def same_boot(boot_id: str | None, other: str | None) -> bool:
    """Tell whether two boot ids may be of one boot of a VM; None stands for a system that has none."""
    return boot_id is None or other is None or boot_id == other


class Response(NamedTuple):
    """One execution of a rule's steps: in one phase of an event, while its approval waits, or as a person asks.

    :ivar number: grows with each response that is made.
    :ivar finished: it has succeeded, failed or been skipped.
    :ivar due: its time has come, which for a preparation may be some time after the event was first seen.
    :ivar begun: a step of it was begun at some time.
    :ivar running: a process runs it now.
    """

    number: int
    phase: str
    finished: bool = False
    due: bool = True
    begun: bool = False
    running: bool = False


class TrackedEvent(NamedTuple):
    """An event with all its responses.

    :ivar number: grows with each event that is first seen; UNTOLD for one of a run alone.
    :ivar key: the id by which Azure calls it, as ids are compared. After its end Azure may use the id again.
    :ivar listed: a document of this boot has listed it.
    :ivar end_order: grows with each event that ends; None while it is open.
    :ivar approved: Azure took an approval of it from this VM.
    :ivar marked: a run over the fleet has this VM out of service for it.
    :ivar name: how a message calls it, from short_name(); one of a run alone has none.
    """

    number: int
    key: str
    phase: str
    listed: bool
    responses: tuple[Response, ...]
    end_order: int | None = None
    approved: bool = False
    marked: bool = False
    name: str = ""

    @property
    def prepared(self) -> bool:
        """Whether something was done on this VM that only on_ended, or the run that did it, takes back."""
        return self.marked or any(each.begun for each in self.responses if each.phase in (ANNOUNCED, STARTED))


def short_name(event: Event) -> str:
    """Return the type and the first characters of the id, by which a person finds an event in a list."""
    return f"{one_line(event.event_type or 'event')} {one_line(event.event_id)[:8]}"


def is_leader_of_several(event: Event, resource_name: str) -> bool:
    """Tell whether this VM is the one that has something run while the approval of an event waits for other VMs: the
    leader, the first of several that the event lists."""
    names = [fold_case(name) for name in event.resources]
    return event.names_its_vms and len(set(names)) > 1 and names[0] == fold_case(resource_name)


def is_obsolete(response: Response, tracked: TrackedEvent) -> bool:
    """Tell whether the event has gone on, so that the remaining steps of a response have no use: of a preparation
    when it has ended, of on_waiting and of a restore before the event when it is approved or has started."""
    if response.phase in (WAITING, RESTORE):
        return not response.finished and (tracked.phase != ANNOUNCED or tracked.approved)
    return response.phase == ANNOUNCED and not response.finished and tracked.phase == ENDED


def why_not_now(response: Response, tracked: TrackedEvent, others: Sequence[TrackedEvent]) -> str | None:
    """Return why a response must not run now, as the end of a sentence "it waits …"; None where it may run.

    - A preparation waits until a document of this boot has listed its event (P5), and so does on_waiting.
    - A restore before the event waits as a preparation and as on_ended do.
    - on_ended waits while another event is open that was prepared for or has started, while a run prepares this VM for
      one that is over, and where a run has prepared this VM for one that the checker has not seen, until Azure tells of
      it or does not; then all run in the order of their ends (P3). on_announced and on_started take the VM out of
      service. They wait for an on_ended that is running, which would undo them, and go before one that is not. So an
      on_ended that is running must ask again before each of its steps.
    - Responses to one event run one after the other, in the order of the phases, and none of them beside a response
      that still runs for an ended event with the same id (P6).

    :param others: the other events of this VM.
    """
    for each in tracked.responses:
        if each.number == response.number:
            continue
        if each.running or (not each.finished and _order(each) < _order(response)):
            return f"for response {each.number} to the same event"
    for other in others:
        for each in other.responses:
            if each.running and other.key == tracked.key:
                return f"until response {each.number} to an earlier event with the same id has stopped"
    if response.phase == ANNOUNCED:
        return _why_not_unlisted(tracked) or _why_not_prepare(others)
    if response.phase == WAITING:
        return _why_not_unlisted(tracked)
    if response.phase == RESTORE:
        if tracked.marked:
            return "for the run that has this VM out of service for the same event"
        return _why_not_unlisted(tracked) or _why_not_restore(tracked, others, before_event=True)
    if response.phase == ENDED:
        return _why_not_restore(tracked, others)
    return _why_not_prepare(others)


def _why_not_unlisted(tracked: TrackedEvent) -> str | None:
    return None if tracked.listed else "for a document that lists the event: after a boot the event may be over"


def _why_not_prepare(others: Sequence[TrackedEvent]) -> str | None:
    restoring = [
        each for other in others for each in other.responses if each.phase in (RESTORE, ENDED) and each.running
    ]
    if restoring:
        return f"for response {restoring[0].number}, which puts the VM back into service at this moment"
    return None


def _why_not_restore(tracked: TrackedEvent, others: Sequence[TrackedEvent], before_event: bool = False) -> str | None:
    for other in others:
        if other.number == UNTOLD and other.phase == ENDED:
            return "for a run that prepares this VM at this moment for an event that is not open"
        if other.number == UNTOLD:
            return "for Azure's next document: a run has this VM out of service for an event that the last did not list"
        preparations = [each for each in other.responses if each.phase == ANNOUNCED]
        restores = [each for each in other.responses if each.phase in (RESTORE, ENDED)]
        if other.phase != ENDED:
            # Where both are to be put back before their events, neither waits for the end of the other.
            both = before_event and any(not each.finished for each in restores)
            if other.prepared and not both:
                return f"for the end of {other.name}, for which a preparation was begun"
            if other.phase == STARTED:
                return f"for the end of {other.name}, which has started"
            if other.listed and any(each.due and not each.finished for each in preparations):
                return f"for the end of {other.name}, for which this VM is about to be prepared"
        if any(each.running for each in other.responses if each.phase in (ANNOUNCED, STARTED)):
            return f"until the running response to {other.name} has stopped"
        # on_ended of another event waits for the open ones, so that a restore before the event waits for none.
        earlier = not before_event and _end_rank(other) < _end_rank(tracked)
        if any(each.running or (not each.finished and earlier) for each in restores):
            return f"for on_ended of {other.name}"
    return None


def _order(response: Response) -> tuple[int, int]:
    return RESPONSE_PHASES.index(response.phase), response.number


def _end_rank(tracked: TrackedEvent) -> tuple[float, int]:
    return (float("inf") if tracked.end_order is None else tracked.end_order, tracked.number)


class StepResult(NamedTuple):
    """How far a step of a preparation is.

    :ivar approves: the step approves the event.
    :ivar boot_id: the boot in which it succeeded, None where it has not.
    """

    approves: bool
    boot_id: str | None


def must_prepare_again(steps: Sequence[StepResult], boot_id: str, approved: bool) -> bool:
    """Tell whether a preparation must run again as a whole, because a boot came before its approval (P2).

    An event may be approved only if it was prepared for in this boot. An approved event is not prepared for again,
    and a preparation that approves nothing goes on where it stopped.
    """
    if approved:
        return False
    for position, step in enumerate(steps):
        if step.approves and step.boot_id is None:
            return any(each.boot_id is not None and each.boot_id != boot_id for each in steps[:position])
    return False


def may_approve(steps: Sequence[StepResult], boot_id: str) -> bool:
    """Tell whether all steps before the approval succeeded in this boot (P2)."""
    for step in steps:
        if step.approves:
            return True
        if step.boot_id != boot_id:
            return False
    return False
