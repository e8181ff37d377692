# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table history: a row an event, which stays when the event and the responses to it are forgotten.

A row is made of the records of the event, and made anew from them as long as they are there. Only the first NotBefore
is known to the row alone, because the record of the event has the last one.
"""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime, timezone
from typing import Any

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import (
    LONGEST_DURATION,
    fold_case,
    format_utc,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.history_row import (
    approved_by,
    complaint,
    read_seconds,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import ANNOUNCED, WITHDRAWN
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import DEFAULT_ENDPOINT

from .codec import DamagedRecord, is_time, load, read_event, read_response
from .records import APPROVED, FAILED, SUCCEEDED, EventRecord, ResponseRecord
from .rules import APPROVE_STEP

# However often Azure announces events, and however long their texts are, the file stays small.
MOST_ROWS = 1000
_LONGEST_TEXT = 200
# The longest id that a document may have
_LONGEST_ID = 256

_SAME = "history.key = substr(event.key, 1, 256) AND history.seen_at = event.seen_at"
_RESPONSES = "SELECT number, event, phase, state, boot_id, created_at, finished_at, message FROM response"


def keep(db: sqlite3.Connection, number: int, is_new: bool = False) -> None:
    """Write the row of the event with this number; one whose record cannot be read keeps the row that it has.

    :param is_new: the event was first seen just now.
    """
    found = db.execute("SELECT * FROM event WHERE number = ?", (number,)).fetchone()
    try:
        record = read_event(found)
        responses = [
            read_response(tuple(row)) for row in db.execute(f"{_RESPONSES} WHERE event = ? ORDER BY number", (number,))
        ]
    except DamagedRecord:
        return
    key = record.event.key[:_LONGEST_ID], record.seen.at
    known = db.execute("SELECT content FROM history WHERE key = ? AND seen_at = ?", key).fetchone()
    before = None if known is None else load(known["content"])
    if before is None or complaint(before) is not None:
        before = {**_origin(db), "first_is_lost": not is_new}
    row = _row(record, responses, before, _prepared(db, responses))
    db.execute(
        "REPLACE INTO history (key, seen_at, ended_at, content) VALUES (?, ?, ?, ?)",
        (*key, record.ended_at, json.dumps(row)),
    )


def keep_missing(db: sqlite3.Connection) -> None:
    """Write the rows that are missing or do not tell of an end, as after damage."""
    known = f"SELECT 1 FROM history WHERE {_SAME} AND history.ended_at IS event.ended_at"
    for number in db.execute(f"SELECT number FROM event WHERE NOT EXISTS ({known})").fetchall():
        keep(db, number[0])


def keep_all(db: sqlite3.Connection) -> None:
    """Write the rows of all events anew, with what became of the responses since."""
    for number in db.execute("SELECT number FROM event ORDER BY number").fetchall():
        keep(db, number[0])


def forget(db: sqlite3.Connection, before: float) -> None:
    """Remove the rows of events that ended before a moment, or that were first seen long enough ago.

    :param before: seconds since 1970.
    """
    db.execute(
        "DELETE FROM history WHERE ended_at < ?"
        " OR rowid NOT IN (SELECT rowid FROM history ORDER BY seen_at DESC LIMIT ?)"
        # An event that is neither known nor has an end here ended when its record was lost.
        f" OR (ended_at IS NULL AND seen_at < ? AND NOT EXISTS (SELECT 1 FROM event WHERE {_SAME}))",
        (before, MOST_ROWS, before),
    )


def newest(db: sqlite3.Connection) -> float | None:
    """Return when the latest event was first seen, None where there is none."""
    found = db.execute("SELECT MAX(seen_at) FROM history WHERE typeof(seen_at) = 'real'").fetchone()
    return None if found is None else found[0]


def read_rows(db: sqlite3.Connection, resource_name: str | None) -> tuple[list[dict[str, Any]], int]:
    """Return the rows that can be read, the oldest first, and the number of the others.

    :param resource_name: the name of this VM; rows of another one, of whose disk this one has a copy, are left out.
    """
    rows, damaged = [], 0
    for found in db.execute("SELECT content FROM history ORDER BY seen_at, key").fetchall():
        row = load(found["content"])
        if complaint(row) is not None:
            damaged += 1
        elif None in (resource_name, row["resource_name"]) or _is_same(resource_name, row["resource_name"]):
            rows.append(row)
    return rows, damaged


def _is_same(one: Any, other: Any) -> bool:
    return fold_case(one) == fold_case(other)


def _origin(db: sqlite3.Connection) -> dict[str, Any]:
    """Return which VM is called by the events now, and whether they come from Azure."""
    found = db.execute("SELECT value FROM fact WHERE name = 'resource_name'").fetchone()
    fact = load(found["value"]) if found else None
    fact = fact if isinstance(fact, dict) else {}
    name, endpoint = fact.get("name"), fact.get("endpoint")
    simulated = isinstance(endpoint, str) and endpoint.rstrip("/") != DEFAULT_ENDPOINT
    return {"resource_name": _text(name), "simulated": simulated}


def _row(
    record: EventRecord,
    responses: list[ResponseRecord],
    before: dict[str, Any],
    prepared: tuple[float, float] | None,
) -> dict[str, Any]:
    """Return the row of an event.

    :param before: the row that it has, or what is known of one that is new.
    :param prepared: when the steps of on_announced began and had succeeded, None where they have not or are none.
    """
    event = record.event
    told = format_utc(event.not_before)
    # That of now is the first one only where no other was told. Of a row that was lost nobody knows.
    is_first = before.get("not_before_last") is None and not before.get("first_is_lost")
    first = before.get("not_before_first") or (told if is_first else None)
    # Azure blanks the time of what has started.
    last = told or before.get("not_before_last")
    by_checker = record.approval == APPROVED
    return {
        "event_id": event.event_id[:_LONGEST_ID],
        "event_type": _text(event.event_type),
        "event_source": _text(event.event_source),
        "description": _text(event.description),
        "resources_count": len(event.resources) if event.resources else None,
        "leader": _text(event.leader),
        "resource_name": before["resource_name"],
        "simulated": before["simulated"],
        "first_seen_at": _iso(record.seen.at),
        "not_before_first": first,
        "not_before_last": last,
        "started_at": _iso(record.started_at),
        "ended_at": _iso(record.ended_at),
        "outcome": _text(record.outcome),
        "duration_seconds": event.duration_seconds if 0 <= (event.duration_seconds or 0) <= LONGEST_DURATION else None,
        "approved_at": _iso(record.approved_at) if by_checker else None,
        "approved_by": approved_by(by_checker, record.started_at, read_seconds(last)),
        "responses": len(responses),
        "failed_responses": [each.phase for each in responses if each.state == FAILED],
        "late": _is_late(record, responses, read_seconds(last), prepared),
        "prepare_seconds": None if prepared is None else round(prepared[1] - prepared[0]),
    }


def _is_late(
    record: EventRecord, responses: list[ResponseRecord], not_before: float | None, prepared: tuple[float, float] | None
) -> bool:
    """Tell whether the event began, or fell due, before on_announced had succeeded."""
    if record.started_at is None and (record.ended_at is None or record.outcome == WITHDRAWN):
        return False
    begun = next(each for each in (record.started_at, not_before, record.ended_at) if each is not None)
    for response in responses:
        if response.phase == ANNOUNCED:
            # What was approved had been prepared; the rest of the response is the answer of Azure.
            approved = record.approved_at if record.approval == APPROVED else None
            ended = response.finished_at if response.state == SUCCEEDED else None
            done = approved or (ended if prepared is None else prepared[1])
            return done is None or done > begun
    return False


def _prepared(db: sqlite3.Connection, responses: list[ResponseRecord]) -> tuple[float, float] | None:
    """Return when the steps of on_announced, without the approval, began and when all had succeeded."""
    for response in responses:
        if response.phase == ANNOUNCED:
            sql = "SELECT state, started_at, finished_at FROM step WHERE response = ? AND content != ?"
            steps = [tuple(row) for row in db.execute(sql, (response.number, json.dumps(APPROVE_STEP)))]
            if steps and all(state == SUCCEEDED and is_time(first) and is_time(last) for state, first, last in steps):
                begun, done = min(first for _state, first, _last in steps), max(last for _state, _first, last in steps)
                return (begun, done) if 0 <= done - begun <= 10**9 else None
    return None


def _text(value: Any) -> str | None:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else None


def _iso(at: float | None) -> str | None:
    return None if at is None else format_utc(datetime.fromtimestamp(at, timezone.utc))
