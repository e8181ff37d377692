# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records that cannot be read: write anew what could be, and put aside the rest, so that none costs another."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, Iterator, Sequence

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import escape
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.history_row import complaint
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    STARTED,
)

from .codec import (
    DamagedRecord,
    encode_event,
    encode_names,
    encode_rule,
    encode_steps,
    load,
    read_event,
    read_response,
    read_step,
)
from .config import Rule
from .records import FAILED, EventRecord, Moment, ResponseRecord
from .rules import RESPONSE_LOST, STEPS_LOST, are_whole, steps_for
from .store import ALL_STEPS, RESPONSE_COLUMNS, Store
from .tables import RESCUED

_RESPONSES = f"SELECT {RESPONSE_COLUMNS} FROM response"
_MOST_KEPT = 100
_MOST_LINES = 10


def repair(store: Store, now: Moment) -> list[str]:
    """Write anew what could be read of damaged records, put aside those of which nothing could be, and return a
    line for each. The text of both is kept in the table put_aside."""
    db = store.connection
    lines = [*_repair_events(db, now), *_repair_responses(db, now)]
    rescued = db.execute("DELETE FROM fact WHERE name = ?", (RESCUED,)).rowcount
    if lines or rescued:
        lost = list(_add_lost_responses(db, now))
        # What was put aside just now has its line.
        lines += lost if rescued else []
    lines += [*_repair_facts(db, now), *_repair_history(db, now)]
    if lines:
        db.execute(
            "DELETE FROM put_aside WHERE rowid NOT IN (SELECT rowid FROM put_aside ORDER BY rowid DESC LIMIT ?)",
            (_MOST_KEPT,),
        )
    store.needs_repair = False
    more = [f"And {len(lines) - _MOST_LINES} more records were damaged."] if len(lines) > _MOST_LINES else []
    # They have ids of Azure's, and words from a damaged file.
    return [escape(line) for line in lines[:_MOST_LINES]] + more


def _repair_events(db: sqlite3.Connection, now: Moment) -> Iterator[str]:
    for row in db.execute("SELECT * FROM event ORDER BY number").fetchall():
        try:
            record = read_event(row)
        except DamagedRecord as damage:
            _put_aside(db, "event", row, now)
            for response in db.execute(f"{_RESPONSES} WHERE event = ?", (row["number"],)).fetchall():
                _put_aside(db, "response", response, now)
            db.execute("DELETE FROM response WHERE event = ?", (row["number"],))
            db.execute("DELETE FROM event WHERE number = ?", (row["number"],))
            yield f"The record of event number {row['number']} cannot be read ({damage}) and was put aside."
            continue
        if record.damaged:
            _put_aside(db, "event", row, now)
            _rewrite(db, record)
            yield f"The record of event {record.event.event_id:.100} was damaged: part of it is unknown now."


def _repair_responses(db: sqlite3.Connection, now: Moment) -> Iterator[str]:
    events = {row["number"] for row in db.execute("SELECT number FROM event")}
    steps: dict[int, list[sqlite3.Row]] = {}
    for row in db.execute(f"{ALL_STEPS} ORDER BY step.response, step.position"):
        steps.setdefault(row["response"], []).append(row)
    for row in db.execute(f"{_RESPONSES} ORDER BY number").fetchall():
        number = row["number"]
        try:
            response = read_response(tuple(row))
            if response.event not in events:
                raise DamagedRecord("its event is not known")
        except DamagedRecord as damage:
            _put_aside(db, "response", row, now)
            db.execute("DELETE FROM response WHERE number = ?", (number,))
            yield f"The record of response {number} cannot be read ({damage}) and was put aside."
            continue
        if response.state != row["state"]:
            _put_aside(db, "response", row, now)
            _set_state(db, response)
            yield f"The record of response {number} was damaged: it is taken for {response.state}."
        yield from _repair_steps(db, response, steps.get(number, []), now)


def _repair_steps(
    db: sqlite3.Connection, response: ResponseRecord, rows: list[sqlite3.Row], now: Moment
) -> Iterator[str]:
    for row in rows:
        step = read_step(tuple(row)[:9], row["succeeded_boot"])
        if load(row["content"]) == step.content and row["state"] == step.state:
            continue
        _put_aside(db, "step", row, now)
        db.execute(
            "UPDATE step SET content = ?, state = ?, message = ? WHERE response = ? AND position = ?",
            (json.dumps(step.content), step.state, step.message, response.number, step.position),
        )
        yield f"The record of step {step.position} of response {response.number} was damaged."
    if response.finished:
        return
    if not are_whole([row["position"] for row in rows], _rule_of(db, response), response.phase):
        # What is left must not pass for the whole.
        _set_state(db, response._replace(state=FAILED, finished_at=now.at, message=STEPS_LOST))
        yield f"Response {response.number}: {STEPS_LOST}"


def _add_lost_responses(db: sqlite3.Connection, now: Moment) -> Iterator[str]:
    """Note as failed what a rule asks for and no record tells of: nobody knows whether it has run.

    Of the events that have ended only the last one is looked at: what came after the others has restored the VM.
    """
    known = {(row["event"], row["phase"]) for row in db.execute("SELECT event, phase FROM response")}
    last = "SELECT MAX(end_order) FROM event"
    for row in db.execute(f"SELECT * FROM event WHERE ended_at IS NULL OR end_order = ({last})").fetchall():
        record = read_event(row)
        reached = {ANNOUNCED: record.announced_at, STARTED: record.started_at}
        if record.ended_at is not None:
            reached = {ENDED: record.ended_at}
        for phase, at in reached.items():
            asked = at is not None and record.rule is not None and steps_for(record.rule, phase)
            if not asked or (record.number, phase) in known:
                continue
            db.execute(
                "INSERT INTO response (event, phase, state, boot_id, created_at, finished_at, message)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (record.number, phase, FAILED, now.boot_id, at, now.at, RESPONSE_LOST),
            )
            yield f"on_{phase} for event {record.event.event_id:.100}: {RESPONSE_LOST}"


def _rule_of(db: sqlite3.Connection, response: ResponseRecord) -> Rule | None:
    return read_event(db.execute("SELECT * FROM event WHERE number = ?", (response.event,)).fetchone()).rule


def _repair_facts(db: sqlite3.Connection, now: Moment) -> Iterator[str]:
    for row in db.execute("SELECT rowid, name, value FROM fact").fetchall():
        if not isinstance(load(row["value"]), dict):
            _put_aside(db, "fact", row, now)
            db.execute("DELETE FROM fact WHERE rowid = ?", (row["rowid"],))
            yield f"What was remembered as {row['name']!s:.100} cannot be read and was put aside."


def _repair_history(db: sqlite3.Connection, now: Moment) -> Iterator[str]:
    for row in db.execute("SELECT rowid, key, content FROM history").fetchall():
        why = complaint(load(row["content"]))
        if why is not None:
            _put_aside(db, "history", row, now)
            db.execute("DELETE FROM history WHERE rowid = ?", (row["rowid"],))
            yield f"The history of event {row['key']!s:.100} cannot be read ({why}) and was put aside."


def _put_aside(db: sqlite3.Connection, table: str, row: sqlite3.Row, now: Moment) -> None:
    text = json.dumps(dict(zip(row.keys(), map(_as_json, tuple(row)))))
    db.execute("INSERT INTO put_aside (name, content, at) VALUES (?, ?, ?)", (table, text, now.at))


def _as_json(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, type(None))) else repr(value)


def _set_state(db: sqlite3.Connection, response: ResponseRecord) -> None:
    db.execute(
        "UPDATE response SET state = ?, finished_at = ?, message = ? WHERE number = ?",
        (response.state, response.finished_at, response.message, response.number),
    )


def _rewrite(db: sqlite3.Connection, record: EventRecord) -> None:
    columns: Sequence[tuple[str, Any]] = (
        ("key", record.event.key),
        ("content", encode_event(record.event)),
        ("rule", None if record.rule is None else encode_rule(record.rule)),
        ("on_waiting", encode_steps(record.rule)),
        ("phase", record.phase),
        ("outcome", record.outcome),
        ("boot_id", record.seen.boot_id),
        ("seen_at", record.seen.at),
        ("seen_uptime", record.seen.uptime),
        ("listed_boot", record.listed_boot),
        ("announced_at", record.announced_at),
        ("started_at", record.started_at),
        ("ended_at", record.ended_at),
        ("end_order", record.end_order),
        ("approval", record.approval),
        ("approved_at", record.approved_at),
        ("waiting_for", encode_names(record.waiting_for)),
        ("note", record.note or "its record was damaged, and part of it is unknown"),
    )
    names = ", ".join(f"{name} = ?" for name, _value in columns)
    db.execute(
        f"UPDATE OR IGNORE event SET {names} WHERE number = ?", (*(value for _name, value in columns), record.number)
    )
