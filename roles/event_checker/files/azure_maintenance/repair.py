# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records that cannot be read: write anew what could be, and put aside the rest, so that none costs another."""

from __future__ import annotations

import json
import sqlite3

from .records import DamagedRecord, EventRecord, Moment, encode_event, encode_rule, read_event, read_response
from .store import RESPONSE_COLUMNS, Store


def repair(store: Store, now: Moment) -> list[str]:
    """Write anew what could be read of damaged records, put aside those of which nothing could be, and return a
    line for each. The text of both is kept in the table put_aside."""
    db = store.connection
    lines = []
    for row in db.execute("SELECT * FROM event ORDER BY number").fetchall():
        try:
            record = read_event(row)
        except DamagedRecord as damage:
            _put_aside(db, "event", row, now)
            db.execute("DELETE FROM event WHERE number = ?", (row["number"],))
            lines.append(f"The record of event number {row['number']} cannot be read ({damage}) and was put aside.")
            continue
        if record.damaged:
            _put_aside(db, "event", row, now)
            _rewrite(db, record)
            lines.append(f"The record of event {record.event.event_id:.100} was damaged: part of it is unknown now.")
    for row in db.execute(f"SELECT {RESPONSE_COLUMNS} FROM response ORDER BY number").fetchall():
        try:
            response = read_response(tuple(row))
        except DamagedRecord as damage:
            _put_aside(db, "response", row, now)
            db.execute("DELETE FROM response WHERE number = ?", (row["number"],))
            lines.append(f"The record of response {row['number']} cannot be read ({damage}) and was put aside.")
            continue
        if response.state != row["state"]:
            _put_aside(db, "response", row, now)
            db.execute(
                "UPDATE response SET state = ?, message = ? WHERE number = ?",
                (response.state, response.message, response.number),
            )
            lines.append(f"The record of response {response.number} was damaged: it is taken for {response.state}.")
    for row in db.execute("SELECT * FROM fact").fetchall():
        if not store.fact(str(row["name"])):
            _put_aside(db, "fact", row, now)
            db.execute("DELETE FROM fact WHERE name = ?", (row["name"],))
    newest = "SELECT rowid FROM put_aside ORDER BY rowid DESC LIMIT 100"
    db.execute(f"DELETE FROM put_aside WHERE rowid NOT IN ({newest})")
    store.needs_repair = False
    return lines


def _put_aside(db: sqlite3.Connection, table: str, row: sqlite3.Row, now: Moment) -> None:
    text = json.dumps(
        {
            key: value if isinstance(value, (int, float, str, type(None))) else repr(value)
            for key, value in zip(row.keys(), tuple(row))
        }
    )
    db.execute("INSERT INTO put_aside (name, content, at) VALUES (?, ?, ?)", (table, text, now.at))


def _rewrite(db: sqlite3.Connection, record: EventRecord) -> None:
    db.execute(
        "UPDATE event SET content = ?, rule = ?, phase = ?, boot_id = ?, seen_at = ?, seen_uptime = ?,"
        " announced_at = ?, started_at = ?, ended_at = ?, approval = ?, approved_at = ?, note = ? WHERE number = ?",
        (
            encode_event(record.event),
            None if record.rule is None else encode_rule(record.rule),
            record.phase,
            record.seen.boot_id,
            record.seen.at,
            record.seen.uptime,
            record.announced_at,
            record.started_at,
            record.ended_at,
            record.approval,
            record.approved_at,
            record.note or "its record was damaged, and part of it is unknown",
            record.number,
        ),
    )
