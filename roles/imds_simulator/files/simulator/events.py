# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One event: how it is asked for, and when it takes its next step."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from simulator.checks import Fields, Refused, filled_text, list_of, one_of, or_null, seconds, show, text, whole
from simulator.clock import iso

_NOTICE = {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30, "Terminate": 300}


@dataclass
class Event:  # pylint: disable=too-many-instance-attributes
    """The first fields are the plan, the later ones (from announced_at on) the course so far."""

    event_id: str
    event_type: str
    event_source: str
    description: str
    duration_seconds: int
    resources: list[str]
    scope: Any
    straight_to_started: bool
    notice: float
    start_delay: float
    started_for: float
    announce_at: float
    withdraw_at: float | None
    announced_at: float | None = None
    not_before: float | None = None
    start_at: float = 0.0
    approved_at: float | None = None
    approved_by: str | None = None
    started_at: float | None = None
    ended_at: float | None = None
    outcome: str | None = None
    # Under the setting new_id_each_state: the id under which the document lists the event since its start.
    started_id: str | None = None

    @property
    def listed_id(self):
        return self.started_id or self.event_id

    @property
    def phase(self):
        if self.ended_at is not None:
            return "ended"
        if self.started_at is not None:
            return "started"
        return "pending" if self.announced_at is None else "announced"

    @property
    def listed(self):
        return self.phase in ("announced", "started")

    def next_step(self):
        """The time and the name of the event's next step; None when no step is left."""
        phase = self.phase
        if phase == "ended":
            return None
        if phase == "started":
            return self.started_at + self.started_for, "end"
        if phase == "pending":
            return self.announce_at, "announce"
        if self.withdraw_at is not None and self.withdraw_at < self.start_at:
            return self.withdraw_at, "withdraw"
        return self.start_at, "start"

    def state(self):
        return {
            "event_id": self.event_id,
            "listed_id": self.listed_id,
            "event_type": self.event_type,
            "event_status": {"announced": "Scheduled", "started": "Started"}.get(self.phase),
            "event_source": self.event_source,
            "description": self.description,
            "duration_seconds": self.duration_seconds,
            "resources": list(self.resources),
            "scope": self.scope.name,
            "phase": self.phase,
            "announced_at": iso(self.announced_at),
            "not_before": iso(self.not_before),
            "approved_at": iso(self.approved_at),
            "approved_by": self.approved_by,
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "outcome": self.outcome,
        }


def read_event(value, where, world):
    """An event as it stands in a scenario or a control request; refused in one sentence when it is wrong."""
    fields = Fields(value, where)
    event_type = fields.take("event_type", filled_text)
    resources = _read_resources(fields.take("resources", list_of(_name_or_index)), where, world)
    scopes = {world.scope_of(name).name: world.scope_of(name) for name in resources}
    if len(scopes) > 1:
        raise Refused(f"{where}: resources lie in several scopes ({', '.join(scopes)}); an event belongs to one.")
    straight = fields.take("event_status", one_of("Scheduled", "Started"), "Scheduled") == "Started"
    notice = fields.take("notice", seconds, _NOTICE.get(event_type))
    if notice is None and not straight:
        known = ", ".join(_NOTICE)
        raise Refused(f"{where}: event_type {show(event_type)} has no usual notice; give notice or one of {known}.")
    withdraw_after = fields.take("withdraw_after", or_null(seconds), None)
    clock = world.clock
    announce_at = clock.now() + clock.scaled(fields.take("after", seconds, 0))
    event = Event(
        # Azure writes ids in capitals; the setting event_id_case changes how they are shown, not which they are.
        event_id=fields.take("event_id", filled_text, str(uuid.uuid4())).upper(),
        event_type=event_type,
        event_source=fields.take("event_source", filled_text, "Platform"),
        description=fields.take("description", text, ""),
        duration_seconds=fields.take("duration_seconds", whole(-1), -1),
        resources=resources,
        scope=next(iter(scopes.values())),
        straight_to_started=straight,
        notice=clock.scaled(notice or 0),
        start_delay=clock.scaled(fields.take("start_delay", seconds, 1)),
        started_for=clock.scaled(fields.take("started_for", seconds, 10)),
        announce_at=announce_at,
        withdraw_at=None if withdraw_after is None else announce_at + clock.scaled(withdraw_after),
    )
    fields.end()
    return event


def _name_or_index(value, name):
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise Refused(f"{name} must be the name of a VM or its number, counted from 0, not {show(value)}.")
    return value


def _read_resources(asked, where, world):
    names = []
    for item in asked:
        names.append(world.vm_named(item, f"{where}: resources"))
    if not names:
        raise Refused(f"{where}: resources is empty; to serve an event without any, use the setting omit_fields.")
    if len(set(names)) < len(names):
        raise Refused(f"{where}: resources names a VM twice ({', '.join(names)}).")
    return names
