# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of the store, and the words for their states."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Event

from ..config.config import Rule
from ..config.step import ignores_errors

# States of a response; a step is pending in place of planned and due.
PLANNED = "planned"
DUE = "due"
PENDING = "pending"
RUNNING = "running"
SUCCEEDED = "succeeded"
FAILED = "failed"
SKIPPED = "skipped"
UNFINISHED = (PLANNED, DUE, RUNNING)

# States of an approval
SENDING = "sending"
APPROVED = "approved"
WAITING = "waiting"

# The message of the approval step for an event that it leaves to others; status compares it.
LEFT_TO_FLEET = "Left to a runbook for the fleet."

# The message of a preparation that was taken back. It may be tried again, as a whole.
PUT_BACK = "A person had this VM put back into service."


class Moment(NamedTuple):
    """One moment on two clocks: the wall clock, which may be set, and the seconds since this boot began.

    :ivar at: seconds since 1970.
    :ivar uptime: seconds; comparable only where ``boot_id`` is the same.
    """

    at: float
    uptime: float
    boot_id: str

    @property
    def wall(self) -> datetime:
        return datetime.fromtimestamp(self.at, timezone.utc)


class EventRecord(NamedTuple):
    """An event with its rule and its times, in seconds since 1970, None where it did not happen.

    :ivar seen: when it was first seen.
    :ivar end_order: grows with each event that ends; None while it is open.
    :ivar listed_boot: the last boot in which a document listed it; None where that is unknown.
    :ivar approval: None; SENDING, an approval was sent and its answer is unknown; APPROVED; or WAITING for the VMs in
        ``waiting_for``.
    :ivar note: why no rule was used, or another sentence for a person.
    :ivar not_before_first: Azure's first NotBefore, as ISO 8601; ``not_before_last`` the last one.
    :ivar resource_name: the name of this VM when the event was first seen.
    :ivar is_simulated: a simulator announced it.
    """

    number: int
    event: Event
    rule: Rule | None
    phase: str
    seen: Moment
    listed_boot: str | None = None
    announced_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    end_order: int | None = None
    outcome: str | None = None
    approval: str | None = None
    approved_at: float | None = None
    waiting_for: tuple[str, ...] = ()
    note: str | None = None
    not_before_first: str | None = None
    not_before_last: str | None = None
    resource_name: str | None = None
    is_simulated: bool = False

    def nows(self, now: Moment) -> list[datetime]:
        """Return the time by the wall clock and, in the same boot, by a wall clock that nobody has set since."""
        nows = [now.wall]
        if now.boot_id == self.seen.boot_id:
            undisturbed = self.seen.at + now.uptime - self.seen.uptime
            nows.append(datetime.fromtimestamp(undisturbed, timezone.utc))
        return nows

    def seconds_until_start(self, now: Moment) -> int | None:
        """Return the seconds until Azure may start the event, by the clock that says least; None where unknown."""
        left = [self.event.seconds_until_start(each) for each in self.nows(now)]
        return min((seconds for seconds in left if seconds is not None), default=None)


class StepRecord(NamedTuple):
    """One step of a response: ``failures`` and ``interruptions`` count the tries that ended so.

    :ivar succeeded_boot: the boot in which it succeeded; None where it has not.
    """

    response: int
    position: int
    content: dict[str, Any]
    state: str = PENDING
    failures: int = 0
    interruptions: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    message: str | None = None
    succeeded_boot: str | None = None

    @property
    def is_ignored(self) -> bool:
        """Whether it failed, and its rule goes on all the same."""
        return self.state == FAILED and ignores_errors(self.content)

    @property
    def is_settled(self) -> bool:
        """Whether the step behind it may run."""
        return self.state == SUCCEEDED or self.is_ignored


class ResponseRecord(NamedTuple):
    """One run of a rule's steps in one phase of one event.

    :ivar boot_id: the boot in which it was last begun.
    """

    number: int
    event: int
    phase: str
    state: str
    boot_id: str
    created_at: float
    finished_at: float | None = None
    message: str | None = None
    steps: tuple[StepRecord, ...] = ()

    @property
    def finished(self) -> bool:
        return self.state not in UNFINISHED

    @property
    def begun(self) -> bool:
        """Whether a step of it was ever begun."""
        return self.state in (RUNNING, SUCCEEDED, FAILED) or any(step.started_at is not None for step in self.steps)
