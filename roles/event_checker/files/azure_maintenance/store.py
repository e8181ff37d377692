# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the checker remembers: events, the responses to them, and the steps of these."""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Iterator, NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import (
    Event,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._lifecycle import ANNOUNCED, ENDED, STARTED

from .config import Rule, parse_rule

# States of a response; a step is pending in place of planned and due.
PLANNED = "planned"
DUE = "due"
PENDING = "pending"
RUNNING = "running"
SUCCEEDED = "succeeded"
FAILED = "failed"
SKIPPED = "skipped"
UNFINISHED = (PLANNED, DUE, RUNNING)

APPROVED = "approved"
WAITING = "waiting"

RETENTION = 30 * 86400.0


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
    :ivar approval: None, APPROVED, or WAITING for the VMs in ``waiting_for``.
    :ivar note: why no rule was asked, or what else a person should know.
    """

    number: int
    event: Event
    rule: Rule | None
    phase: str
    outcome: str | None
    seen: Moment
    announced_at: float | None
    started_at: float | None
    ended_at: float | None
    approval: str | None
    approved_at: float | None
    waiting_for: tuple[str, ...]
    note: str | None

    def nows(self, now: Moment) -> list[datetime]:
        """Return the time by the wall clock and, in the same boot, as it would be had nobody set that clock."""
        nows = [now.wall]
        if now.boot_id == self.seen.boot_id:
            undisturbed = self.seen.at + now.uptime - self.seen.uptime
            nows.append(datetime.fromtimestamp(undisturbed, timezone.utc))
        return nows


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


class StepRecord(NamedTuple):
    """One step of a response: ``failures`` and ``interruptions`` count the tries that ended so."""

    response: int
    position: int
    content: dict[str, Any]
    state: str
    failures: int
    interruptions: int
    started_at: float | None
    finished_at: float | None
    message: str | None


class Store:
    """The tables. Every method that writes is to be called within a transaction()."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    @property
    def version(self) -> tuple[int, int]:
        """Something that differs after any process has written."""
        return self._db.execute("PRAGMA data_version").fetchone()[0], self._db.total_changes

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def open_events(self) -> list[EventRecord]:
        """Return the events that have not ended, in the order in which they were first seen."""
        rows = self._db.execute("SELECT * FROM event WHERE ended_at IS NULL ORDER BY number")
        return [_event_record(row) for row in rows]

    def all_events(self) -> list[EventRecord]:
        return [_event_record(row) for row in self._db.execute("SELECT * FROM event ORDER BY number")]

    def event(self, number: int) -> EventRecord:
        return _event_record(self._db.execute("SELECT * FROM event WHERE number = ?", (number,)).fetchone())

    def add_event(self, event: Event, rule: Rule | None, phase: str, now: Moment, note: str | None) -> int:
        """Add an event that is first seen in this phase, and return its number."""
        cursor = self._db.execute(
            "INSERT INTO event (key, content, rule, phase, boot_id, seen_at, seen_uptime, announced_at, started_at,"
            " note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                event.key,
                _event_text(event),
                # What made it match is of no use any more.
                None if rule is None else json.dumps({**rule._asdict(), "match": {}}),
                phase,
                now.boot_id,
                now.at,
                now.uptime,
                now.at if phase == ANNOUNCED else None,
                now.at if phase == STARTED else None,
                note,
            ),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def update_event(self, number: int, event: Event) -> None:
        """Keep what the newest document says of an event."""
        self._db.execute("UPDATE event SET content = ? WHERE number = ?", (_event_text(event), number))

    def start_event(self, number: int, event: Event, now: Moment) -> None:
        self.update_event(number, event)
        self._db.execute("UPDATE event SET phase = ?, started_at = ? WHERE number = ?", (STARTED, now.at, number))

    def end_event(self, number: int, outcome: str, now: Moment) -> None:
        self._db.execute(
            "UPDATE event SET phase = ?, outcome = ?, ended_at = ? WHERE number = ?", (ENDED, outcome, now.at, number)
        )

    def set_approval(self, number: int, approval: str, waiting_for: tuple[str, ...], now: Moment) -> None:
        self._db.execute(
            "UPDATE event SET approval = ?, approved_at = ?, waiting_for = ? WHERE number = ?",
            (approval, now.at if approval == APPROVED else None, json.dumps(waiting_for), number),
        )

    def forget_ended_before(self, at: float) -> None:
        """Remove events that ended before a moment, unless a response to them is unfinished."""
        self._db.execute(
            "DELETE FROM event WHERE ended_at < ?"
            " AND number NOT IN (SELECT event FROM response WHERE state IN (?, ?, ?))",
            (at, *UNFINISHED),
        )

    def add_response(self, event: int, phase: str, steps: list[dict[str, Any]], now: Moment) -> None:
        cursor = self._db.execute(
            "INSERT INTO response (event, phase, state, boot_id, created_at) VALUES (?, ?, ?, ?, ?)",
            (event, phase, PLANNED, now.boot_id, now.at),
        )
        self._db.executemany(
            "INSERT INTO step (response, position, content, state) VALUES (?, ?, ?, ?)",
            [(cursor.lastrowid, position, json.dumps(step), PENDING) for position, step in enumerate(steps, start=1)],
        )

    def unfinished_responses(self) -> list[ResponseRecord]:
        """Return the responses that are planned, due or running, in the order in which they were made."""
        rows = self._db.execute("SELECT * FROM response WHERE state IN (?, ?, ?) ORDER BY number", UNFINISHED)
        return [ResponseRecord(*row) for row in rows]

    def responses_to(self, event: int) -> list[ResponseRecord]:
        rows = self._db.execute("SELECT * FROM response WHERE event = ? ORDER BY number", (event,))
        return [ResponseRecord(*row) for row in rows]

    def response(self, number: int) -> ResponseRecord | None:
        row = self._db.execute("SELECT * FROM response WHERE number = ?", (number,)).fetchone()
        return None if row is None else ResponseRecord(*row)

    def count_responses(self) -> list[tuple[str, str, int]]:
        """Return phase and state of the responses with the number of each such."""
        rows = self._db.execute("SELECT phase, state, COUNT(*) FROM response GROUP BY phase, state ORDER BY 1, 2")
        return [tuple(row) for row in rows]

    def begin_response(self, number: int, state: str, now: Moment) -> None:
        """Note that a response is due, or runs."""
        self._db.execute(
            "UPDATE response SET state = ?, boot_id = ?, finished_at = NULL, message = NULL WHERE number = ?",
            (state, now.boot_id, number),
        )

    def finish_response(self, number: int, state: str, message: str | None, now: Moment) -> None:
        """Note how a response ended; the steps that it had not come to are skipped, unless it may be tried again."""
        self._db.execute(
            "UPDATE response SET state = ?, finished_at = ?, message = ? WHERE number = ?",
            (state, now.at, message, number),
        )
        if state == SKIPPED:
            self._db.execute(
                "UPDATE step SET state = ? WHERE response = ? AND state IN (?, ?)", (SKIPPED, number, PENDING, RUNNING)
            )

    def steps(self, response: int) -> list[StepRecord]:
        rows = self._db.execute("SELECT * FROM step WHERE response = ? ORDER BY position", (response,))
        return [StepRecord(*row)._replace(content=json.loads(row["content"])) for row in rows]

    def begin_step(self, step: StepRecord, now: Moment) -> None:
        self._db.execute(
            "UPDATE step SET state = ?, started_at = ?, finished_at = NULL WHERE response = ? AND position = ?",
            (RUNNING, now.at, step.response, step.position),
        )

    def finish_step(self, step: StepRecord, state: str, message: str | None, now: Moment) -> None:
        self._db.execute(
            "UPDATE step SET state = ?, finished_at = ?, message = ?, failures = failures + ?"
            " WHERE response = ? AND position = ?",
            (state, now.at, message, state == FAILED, step.response, step.position),
        )

    def interrupt_step(self, step: StepRecord) -> None:
        """Count that a try of a step was begun, and never came to an end."""
        self._db.execute(
            "UPDATE step SET state = ?, interruptions = interruptions + 1 WHERE response = ? AND position = ?",
            (PENDING, step.response, step.position),
        )

    def renew_failed_steps(self, response: int) -> None:
        """Give the steps that failed all their tries anew."""
        self._db.execute(
            "UPDATE step SET state = ?, failures = 0, interruptions = 0 WHERE response = ? AND state IN (?, ?)",
            (PENDING, response, FAILED, RUNNING),
        )

    def facts(self) -> dict[str, Any]:
        """Return what is remembered by name besides events."""
        return {row["name"]: json.loads(row["value"]) for row in self._db.execute("SELECT * FROM fact")}

    def set_facts(self, facts: dict[str, Any]) -> None:
        self._db.executemany(
            "REPLACE INTO fact (name, value) VALUES (?, ?)",
            [(name, json.dumps(value)) for name, value in facts.items()],
        )


def _event_text(event: Event) -> str:
    return json.dumps(event.fields())


def _event_record(row: sqlite3.Row) -> EventRecord:
    return EventRecord(
        number=row["number"],
        event=Event.from_dict(json.loads(row["content"])),
        rule=None if row["rule"] is None else parse_rule(json.loads(row["rule"]), "a rule in the state"),
        phase=row["phase"],
        outcome=row["outcome"],
        seen=Moment(row["seen_at"], row["seen_uptime"], row["boot_id"]),
        announced_at=row["announced_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        approval=row["approval"],
        approved_at=row["approved_at"],
        waiting_for=tuple(json.loads(row["waiting_for"])),
        note=row["note"],
    )
