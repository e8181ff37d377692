# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the records of the store are written as text and read back.

Reading is forgiving, because the text may be damaged or from another version of this program: a value that cannot be
read is replaced by "unknown", an unknown one is left out, and the record says that it is damaged. Only a record
that does not tell what it belongs to is none.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import (
    Event,
    fold_case,
    parse_utc,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    RESPONSE_PHASES,
    STARTED,
)

from .config import APPROVE, Rule
from .records import (
    APPROVED,
    DUE,
    FAILED,
    PENDING,
    RUNNING,
    SENDING,
    SKIPPED,
    SUCCEEDED,
    UNFINISHED,
    WAITING,
    EventRecord,
    Moment,
    ResponseRecord,
    StepRecord,
)
from .rules import is_step

_RESPONSE_STATES = (*UNFINISHED, SUCCEEDED, FAILED, SKIPPED)
_STEP_STATES = (PENDING, RUNNING, SUCCEEDED, FAILED, SKIPPED)
_APPROVALS = (SENDING, APPROVED, WAITING)

DAMAGED = "This record was damaged: what could not be read of it is unknown."
# In place of a step that does not tell what to do. There is no such program, so version 1.0 fails at it too.
DAMAGED_STEP: dict[str, Any] = {"command": ["(its record was damaged)"]}
# What Azure says must not fill the disk.
_LONGEST_NAME = 1000
_MOST_WAITED_FOR = 100


class DamagedRecord(Exception):
    """Nothing useful can be read of a record."""


def encode_event(event: Event) -> str:
    """Return an event as JSON, its texts cut where they are too long to be kept."""
    content = event.shortened().fields()
    # Version 1.0 refuses a key that it does not know. It reads an empty list as "may concern this VM", as it should.
    if not content.pop("names_its_vms"):
        content["resources"] = []
    return json.dumps(content)


def encode_names(names: Iterable[str]) -> str:
    """Return the names of VMs as JSON; beyond so many they tell a person nothing more."""
    return json.dumps([name[:_LONGEST_NAME] for name in names][:_MOST_WAITED_FOR])


def load(text: Any) -> Any:
    """Return what JSON text holds, None for what is not JSON."""
    try:
        content = json.loads(text)
        if "\\ud" in text.lower():
            # Half a surrogate pair can be written to no file.
            content = json.loads(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))
    except (TypeError, ValueError, AttributeError, RecursionError):
        return None
    return content


# The check reads the same records at every poll.
@functools.lru_cache(maxsize=64)
def decode_event(text: Any, key: Any) -> tuple[Event, bool]:
    """Return an event and whether all of it could be read.

    :param key: what the event is known by, for a text that does not even tell its id.
    :raises DamagedRecord: neither tells which event it is.
    """
    content = load(text)
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
    known_key = isinstance(key, str) and bool(key)
    if not known_key or not event_id or fold_case(event_id) != fold_case(key):
        sound, event_id = False, key if known_key else event_id
    if not event_id:
        raise DamagedRecord("it has no id")
    names = found.get("resources")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        sound, names = False, []
    not_before = None
    moment = take("not_before", str)
    if moment is not None:
        try:
            # Version 1.0 wrote a year before 1000 with three digits.
            not_before = parse_utc(moment.rjust(20, "0"))
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
    # It has a column of its own, of which version 1.0 knows nothing.
    del content["on_waiting"]
    defaults = Rule._field_defaults
    kept = {key: value for key, value in content.items() if key == "name" or value != defaults.get(key)}
    return json.dumps({**kept, "match": {}})


def encode_steps(rule: Rule | None) -> str | None:
    """Return the steps of on_waiting as JSON, None where there are none."""
    return json.dumps(rule.on_waiting) if rule is not None and rule.on_waiting else None


@functools.lru_cache(maxsize=64)
def decode_rule(text: Any, on_waiting: Any = None) -> tuple[Rule | None, bool]:
    """Return a rule, None for none, and whether all of it could be read. Its steps count only in their own records,
    but for those of a phase that is still to come.

    :param on_waiting: the steps of that phase, which have a column of their own.
    """
    if text is None:
        return None, True
    rule, sound = _decode_rule(text)
    if on_waiting is None:
        return rule, sound
    steps = load(on_waiting)
    fits = _fits("on_waiting", steps)
    return rule._replace(on_waiting=tuple(steps) if fits else ()), sound and fits


def _decode_rule(text: Any) -> tuple[Rule, bool]:
    content = load(text)
    if not isinstance(content, dict):
        # What was to be done once the event has ended is unknown, and a person must be told so then.
        return Rule("unknown (its record was damaged)", on_ended=(DAMAGED_STEP,)), False
    sound = True
    values: dict[str, Any] = {}
    for name, default in (("name", "unknown"), *Rule._field_defaults.items()):
        value = content.get(name, default)
        if _fits(name, value):
            values[name] = tuple(value) if isinstance(value, list) else value
        else:
            sound = False
            values[name] = (DAMAGED_STEP,) if name.startswith("on_") else default
    return Rule(**values), sound


def _fits(name: str, value: Any) -> bool:
    if name == "match":
        return isinstance(value, dict)
    if name.startswith("on_"):
        # A step in it that cannot be read fails when it is to be run, and so is told.
        return isinstance(value, (list, tuple)) and all(isinstance(step, dict) and step for step in value)
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
    event, sound_event = decode_event(row["content"], row["key"])
    rule, sound_rule = decode_rule(row["rule"], row["on_waiting"])
    times = {name: _number(row[name]) for name in ("announced_at", "started_at", "ended_at", "approved_at")}
    phase = _read_phase(row)
    if phase == ENDED and times["ended_at"] is None:
        times["ended_at"] = max(each or 0.0 for each in (*times.values(), _number(row["seen_at"])))
    end_order = row["end_order"] if isinstance(row["end_order"], int) else 0
    approval = row["approval"] if row["approval"] in _APPROVALS else None
    waiting_for = load(row["waiting_for"])
    sound_names = isinstance(waiting_for, list) and all(isinstance(name, str) for name in waiting_for)
    seen = _read_seen(row)
    outcome, listed_boot, note = (_text(row[name]) for name in ("outcome", "listed_boot", "note"))
    record = EventRecord(
        number=row["number"],
        event=event,
        rule=rule,
        phase=phase,
        outcome=outcome,
        seen=seen or Moment(_number(row["seen_at"]) or 0.0, 0.0, ""),
        listed_boot=listed_boot,
        announced_at=times["announced_at"],
        started_at=times["started_at"],
        ended_at=times["ended_at"],
        end_order=end_order if phase == ENDED else None,
        approval=approval,
        approved_at=times["approved_at"],
        waiting_for=tuple(waiting_for) if sound_names else (),
        note=note,
    )
    sound = sound_event and sound_rule and sound_names and seen is not None
    plain = (*times, "phase", "outcome", "listed_boot", "approval", "note")
    return record._replace(damaged=not (sound and all(row[name] == getattr(record, name) for name in plain)))


def _read_phase(row: Mapping[str, Any]) -> str:
    # The table allows one event with this id in which ended_at is null.
    if row["ended_at"] is not None or row["phase"] == ENDED:
        return ENDED
    if row["phase"] == STARTED or (row["phase"] != ANNOUNCED and row["started_at"] is not None):
        return STARTED
    return ANNOUNCED


def _read_seen(row: Mapping[str, Any]) -> Moment | None:
    """Return when the event was first seen, None where that cannot be: the VM booted long before 1970."""
    at, uptime, boot_id = _number(row["seen_at"]), _number(row["seen_uptime"]), _text(row["boot_id"])
    if at is None or uptime is None or boot_id is None or uptime > at + 86400:
        return None
    return Moment(at, uptime, boot_id)


def read_response(row: Sequence[Any]) -> ResponseRecord:
    """Return the record of a row of the table response; one whose state cannot be read has failed.

    :raises DamagedRecord: it does not tell to which event and phase it belongs.
    """
    number, event, phase, state, boot_id, created_at, finished_at, message = row
    if phase not in RESPONSE_PHASES or not isinstance(event, int):
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
    content = load(text)
    if not is_step(content):
        content, state, message = DAMAGED_STEP, FAILED, DAMAGED
    if state not in _STEP_STATES:
        state = SUCCEEDED if isinstance(succeeded_boot, str) else PENDING
    return StepRecord(
        response, position, content, state,
        failures if isinstance(failures, int) and failures >= 0 else 0,
        interruptions if isinstance(interruptions, int) and interruptions >= 0 else 0,
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
