# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of the store, and how they are written as text and read back.

Reading is forgiving, because the text may be damaged or from another version of this program: a value that cannot be
read is replaced by "unknown", an unknown one is left out, and the record says that it is damaged. Only a record
that does not tell what it belongs to is none.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any, Mapping, NamedTuple, Sequence

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import Event, parse_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._lifecycle import (
    ANNOUNCED,
    ENDED,
    PHASES,
    STARTED,
)

from .config import APPROVE, Rule

# States of a response; a step is pending in place of planned and due.
PLANNED = "planned"
DUE = "due"
PENDING = "pending"
RUNNING = "running"
SUCCEEDED = "succeeded"
FAILED = "failed"
SKIPPED = "skipped"
UNFINISHED = (PLANNED, DUE, RUNNING)
_RESPONSE_STATES = (*UNFINISHED, SUCCEEDED, FAILED, SKIPPED)
_STEP_STATES = (PENDING, RUNNING, SUCCEEDED, FAILED, SKIPPED)

# States of an approval
SENDING = "sending"
APPROVED = "approved"
WAITING = "waiting"
_APPROVALS = (SENDING, APPROVED, WAITING)

DAMAGED = "This record was damaged: what could not be read of it is unknown."
# What Azure says must not fill the disk.
_LONGEST_TEXT = 1000
_MOST_NAMES = 1000


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
    """An event with what was decided and done; times are in seconds since 1970, None where it did not happen.

    :ivar seen: when it was first seen.
    :ivar end_order: grows with each event that ends; 0 for one that ended under version 1.0, None while it is open.
    :ivar listed_boot: the last boot in which a document listed it; None where that is unknown.
    :ivar approval: None; SENDING, an approval was sent and its answer is unknown; APPROVED; or WAITING for the VMs in
        ``waiting_for``.
    :ivar note: why no rule was asked, or what else a person should know.
    :ivar damaged: something of it could not be read.
    """

    number: int
    event: Event
    rule: Rule | None
    phase: str
    outcome: str | None
    seen: Moment
    listed_boot: str | None
    announced_at: float | None
    started_at: float | None
    ended_at: float | None
    end_order: int | None
    approval: str | None
    approved_at: float | None
    waiting_for: tuple[str, ...]
    note: str | None
    damaged: bool = False

    def nows(self, now: Moment) -> list[datetime]:
        """Return the time by the wall clock and, in the same boot, as it would be had nobody set that clock."""
        nows = [now.wall]
        if now.boot_id == self.seen.boot_id:
            undisturbed = self.seen.at + now.uptime - self.seen.uptime
            nows.append(datetime.fromtimestamp(undisturbed, timezone.utc))
        return nows

    def seconds_until_start(self, now: Moment) -> int | None:
        """Return the seconds until Azure may start the event, by the clock that says least; None where unknown."""
        left = [self.event.seconds_until_start(each) for each in self.nows(now)]
        return min((seconds for seconds in left if seconds is not None), default=None)


class ResponseRecord(NamedTuple):
    """One run of what a rule asks for in one phase of one event.

    :ivar boot_id: the boot in which it was last begun.
    """

    number: int
    event: int
    phase: str
    state: str
    boot_id: str
    created_at: float
    finished_at: float | None
    message: str | None

    @property
    def finished(self) -> bool:
        return self.state not in UNFINISHED


class StepRecord(NamedTuple):
    """One step of a response: ``failures`` and ``interruptions`` count the tries that ended so.

    :ivar succeeded_boot: the boot in which it succeeded; None where it has not, or that is unknown.
    """

    response: int
    position: int
    content: dict[str, Any]
    state: str
    failures: int
    interruptions: int
    started_at: float | None
    finished_at: float | None
    message: str | None
    succeeded_boot: str | None = None


class DamagedRecord(Exception):
    """Nothing useful can be read of a record."""


def encode_event(event: Event) -> str:
    """Return an event as JSON, its texts cut where they are too long to be kept."""
    content = event.fields()
    # Version 1.0 refuses a key that it does not know. It reads an empty list as "may concern this VM", as it should.
    if not content.pop("names_its_vms"):
        content["resources"] = []
    content["resources"] = content["resources"][:_MOST_NAMES]
    for key, value in content.items():
        if isinstance(value, str) and key != "event_id":
            content[key] = value[:_LONGEST_TEXT]
    return json.dumps(content)


def decode_event(text: Any, key: str) -> tuple[Event, bool]:
    """Return an event and whether all of it could be read.

    :param key: what the event is known by, for a text that does not even tell its id.
    """
    try:
        content = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        content = None
    sound = isinstance(content, dict)
    found: dict[str, Any] = content if isinstance(content, dict) else {}

    def take(name: str, kind: type) -> Any:
        nonlocal sound
        value = found.get(name)
        if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
            return value
        sound = False
        return None

    event_id = take("event_id", str)
    if not event_id or event_id.lower() != key:
        sound, event_id = False, key
    names = found.get("resources")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        sound, names = False, []
    not_before = None
    moment = take("not_before", str)
    if moment is not None:
        try:
            not_before = parse_utc(moment)
        except ValueError:
            sound = False
    event = Event(
        event_id=event_id,
        event_type=take("event_type", str),
        event_status=take("event_status", str),
        resource_type=take("resource_type", str),
        resources=tuple(names),
        not_before=not_before,
        not_before_raw=take("not_before_raw", str),
        description=take("description", str),
        event_source=take("event_source", str),
        duration_seconds=take("duration_seconds", int),
        names_its_vms=bool(names),
    )
    return event, sound


def encode_rule(rule: Rule) -> str:
    """Return a rule as JSON. What made it match is of no use any more, and what it leaves at its default is left out:
    an older version of this program would refuse an option that it does not know."""
    content = rule._asdict()
    defaults = Rule._field_defaults
    kept = {key: value for key, value in content.items() if key == "name" or value != defaults.get(key)}
    return json.dumps({**kept, "match": {}})


def decode_rule(text: Any) -> tuple[Rule | None, bool]:
    """Return a rule, None for none, and whether all of it could be read. Its steps count only in their own records."""
    if text is None:
        return None, True
    try:
        content = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return Rule("unknown (its record was damaged)"), False
    sound = True
    values: dict[str, Any] = {}
    for name, default in (("name", "unknown"), *Rule._field_defaults.items()):
        value = content.get(name, default)
        if _fits(name, value):
            values[name] = tuple(value) if isinstance(value, list) else value
        else:
            sound = False
            values[name] = default
    return Rule(**values), sound


def _fits(name: str, value: Any) -> bool:
    if name == "match":
        return isinstance(value, dict)
    if name.startswith("on_"):
        return isinstance(value, (list, tuple))
    if name == "name":
        return isinstance(value, str) and bool(value)
    if name == "approve":
        return value in APPROVE
    if name == "lead_time" and value is None:
        return True
    kinds = (int,) if name in ("lead_time", "retries") else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value <= 604800


def read_event(row: Mapping[str, Any]) -> EventRecord:
    """Return the record of a row of the table event.

    :raises DamagedRecord: it does not tell which event it is.
    """
    key = row["key"]
    if not isinstance(key, str) or not key:
        raise DamagedRecord("it has no id")
    event, sound_event = decode_event(row["content"], key)
    rule, sound_rule = decode_rule(row["rule"])
    numbers = {name: _number(row[name]) for name in ("announced_at", "started_at", "ended_at", "approved_at")}
    # The column ended_at decides, because the table allows one event with this id in which it is null.
    ended = row["ended_at"] is not None
    phase = ENDED if ended else STARTED if row["phase"] == STARTED else ANNOUNCED
    if ended and numbers["ended_at"] is None:
        numbers["ended_at"] = 0.0
    approval = row["approval"] if row["approval"] in _APPROVALS else None
    boot = row["boot_id"] if isinstance(row["boot_id"], str) else ""
    seen_at, uptime = _number(row["seen_at"]), _number(row["seen_uptime"])
    sound = all(
        (
            sound_event,
            sound_rule,
            approval == row["approval"],
            phase == row["phase"],
            seen_at is not None and uptime is not None,
            all(row[name] is None or numbers[name] == row[name] for name in numbers),
        )
    )
    return EventRecord(
        number=row["number"],
        event=event,
        rule=rule,
        phase=phase,
        outcome=_text(row["outcome"]),
        # Without its boot the two clocks cannot be compared, and nothing is concluded from them.
        seen=Moment(seen_at or 0.0, uptime or 0.0, boot if uptime is not None and seen_at is not None else ""),
        listed_boot=_text(row["listed_boot"]),
        end_order=None if phase != ENDED else row["end_order"] if isinstance(row["end_order"], int) else 0,
        approval=approval,
        waiting_for=_names(row["waiting_for"]),
        note=_text(row["note"]),
        damaged=not sound,
        **numbers,
    )


def read_response(row: Sequence[Any]) -> ResponseRecord:
    """Return the record of a row of the table response; one whose state cannot be read has failed.

    :raises DamagedRecord: it does not tell to which event and phase it belongs.
    """
    number, event, phase, state, boot_id, created_at, finished_at, message = row
    if phase not in PHASES or not isinstance(event, int):
        raise DamagedRecord(f"it has the phase {phase!r:.100}")
    if state not in _RESPONSE_STATES:
        # A restore is owed however damaged its record is; anything else is left to a person.
        state, message = (DUE if phase == ENDED else FAILED), DAMAGED
    return ResponseRecord(
        number, event, phase, state, _text(boot_id) or "", _number(created_at) or 0.0, _number(finished_at),
        _text(message),
    )  # fmt: skip


def read_step(row: Sequence[Any], succeeded_boot: Any) -> StepRecord:
    """Return the record of a row of the table step; one that does not tell what to do has failed."""
    response, position, text, state, failures, interruptions, started_at, finished_at, message = row
    try:
        content = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not content:
        content, state, message = {"damaged": True}, FAILED, DAMAGED
    if state not in _STEP_STATES:
        state = PENDING
    return StepRecord(
        response, position, content, state,
        failures if isinstance(failures, int) else 0,
        interruptions if isinstance(interruptions, int) else 0,
        _number(started_at), _number(finished_at), _text(message),
        _text(succeeded_boot) if state == SUCCEEDED else None,
    )  # fmt: skip


def _number(value: Any) -> float | None:
    return float(value) if is_time(value) else None


def is_time(value: Any) -> bool:
    """Tell whether a value is a number of seconds since 1970 before the year 9999, beyond which no date can be told."""
    return isinstance(value, (int, float)) and 0 <= value < 253370764800


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _names(value: Any) -> tuple[str, ...]:
    try:
        names = json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return ()
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
