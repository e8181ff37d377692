# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the checker remembers: the tables of events, the responses to them, their steps, and facts by name.

A record that cannot be read costs no other: reading leaves it out, and repair() puts it aside.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from typing import Any, Callable, Collection, Iterable, Iterator, TypeVar

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Event
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    STARTED,
    Response,
    TrackedEvent,
)

from . import history
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
from .records import (
    APPROVED,
    DUE,
    FAILED,
    PENDING,
    PLANNED,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    UNFINISHED,
    EventRecord,
    Moment,
    ResponseRecord,
    StepRecord,
)
from .rules import APPROVE_STEP

# However often Azure announces and withdraws events, the file stays small.
_MOST_ENDED = 1000
_FINISHED = (SUCCEEDED, FAILED, SKIPPED)
_IS_PENDING = "ended_at IS NULL OR number IN (SELECT event FROM response WHERE state NOT IN (?, ?, ?))"
RESPONSE_COLUMNS = "number, event, phase, state, boot_id, created_at, finished_at, message"
ALL_STEPS = (
    "SELECT step.response, step.position, step.content, step.state, step.failures, step.interruptions,"
    " step.started_at, step.finished_at, step.message, step_success.boot_id AS succeeded_boot FROM step"
    " LEFT JOIN step_success ON step_success.response = step.response AND step_success.position = step.position"
)

Record = TypeVar("Record")


class Store:
    """The tables. Every method that writes is to be called within a transaction().

    :ivar place: which file holds them, as locate() identifies it; None for a copy in memory.
    """

    def __init__(self, connection: sqlite3.Connection, place: tuple[str, int, int] | None = None) -> None:
        self.connection = self._db = connection
        self.place = place
        # Set when a record could not be read
        self.needs_repair = False

    @property
    def version(self) -> tuple[int, int]:
        """Something that differs after any process has written."""
        return self._db.execute("PRAGMA data_version").fetchone()[0], self._db.total_changes

    def close(self) -> None:
        self._db.close()

    def wait_for_lock(self, seconds: float) -> None:
        """Set how long a transaction waits for the lock of another program."""
        self._db.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

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

    # Events

    def pending_events(self) -> list[EventRecord]:
        """Return the events that have not ended, and those with a response that is not finished."""
        return self._events(_IS_PENDING, *_FINISHED)

    def all_events(self) -> list[EventRecord]:
        return self._events("1")

    def event(self, number: int) -> EventRecord | None:
        return next(iter(self._events("number = ?", number)), None)

    def _events(self, condition: str, *values: Any) -> list[EventRecord]:
        rows = self._db.execute(f"SELECT * FROM event WHERE {condition} ORDER BY number", values)
        return self._readable(rows, read_event)

    def _readable(self, rows: Iterable[Any], read: Callable[[Any], Record]) -> list[Record]:
        found = []
        for row in rows:
            try:
                record = read(row)
            except DamagedRecord:
                self.needs_repair = True
                continue
            self.needs_repair = self.needs_repair or getattr(record, "damaged", False)
            found.append(record)
        return found

    def add_event(self, event: Event, rule: Rule | None, phase: str, now: Moment, note: str | None) -> int:
        """Add an event that is first seen in this phase, and return its number."""
        cursor = self._db.execute(
            "INSERT INTO event (key, content, rule, phase, boot_id, seen_at, seen_uptime, announced_at, started_at,"
            " note, listed_boot, on_waiting) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                event.key,
                encode_event(event),
                None if rule is None else encode_rule(rule),
                phase,
                now.boot_id,
                now.at,
                now.uptime,
                now.at if phase == ANNOUNCED else None,
                now.at if phase == STARTED else None,
                note,
                now.boot_id,
                encode_steps(rule),
            ),
        )
        assert cursor.lastrowid is not None
        history.keep(self._db, cursor.lastrowid, is_new=True)
        return cursor.lastrowid

    def update_event(self, number: int, event: Event, listed_boot: str | None) -> None:
        """Keep what the newest document says of an event, and in which boot it came."""
        self._db.execute(
            "UPDATE event SET content = ?, listed_boot = ? WHERE number = ?", (encode_event(event), listed_boot, number)
        )
        history.keep(self._db, number)

    def set_rule(self, number: int, rule: Rule | None, note: str | None) -> None:
        self._db.execute(
            "UPDATE event SET rule = ?, on_waiting = ?, note = ? WHERE number = ?",
            (None if rule is None else encode_rule(rule), encode_steps(rule), note, number),
        )

    def start_event(self, number: int, now: Moment) -> None:
        self._db.execute("UPDATE event SET phase = ?, started_at = ? WHERE number = ?", (STARTED, now.at, number))

    def end_event(self, number: int, outcome: str, now: Moment, note: str | None = None) -> None:
        self._db.execute(
            "UPDATE event SET phase = ?, outcome = ?, ended_at = ?, note = COALESCE(?, note),"
            " end_order = (SELECT COALESCE(MAX(end_order), 0) + 1 FROM event) WHERE number = ?",
            (ENDED, outcome, now.at, note, number),
        )
        history.keep(self._db, number)

    def set_approval(self, number: int, approval: str | None, waiting_for: tuple[str, ...], now: Moment) -> None:
        self._db.execute(
            "UPDATE event SET approval = ?, approved_at = ?, waiting_for = ? WHERE number = ?",
            (approval, now.at if approval == APPROVED else None, encode_names(waiting_for), number),
        )

    def forget_ended_before(self, at: float) -> None:
        """Remove events that ended before a moment, or long enough ago, unless a response to them is unfinished.

        An event whose restore failed is kept for the person who must retry it, even where the clock is set meanwhile.
        The history keeps what became of each event.
        """
        old = self._db.execute(
            "SELECT number FROM event WHERE ended_at IS NOT NULL"
            " AND ((ended_at < ? AND number NOT IN (SELECT event FROM response WHERE phase = ? AND state = ?))"
            " OR number NOT IN (SELECT number FROM event WHERE ended_at IS NOT NULL ORDER BY number DESC LIMIT ?))"
            " AND number NOT IN (SELECT event FROM response WHERE state IN (?, ?, ?))",
            (at, ENDED, FAILED, _MOST_ENDED, *UNFINISHED),
        ).fetchall()
        for row in old:
            history.keep(self._db, row["number"])
            self._db.execute("DELETE FROM event WHERE number = ?", (row["number"],))

    # Responses

    def add_response(self, event: int, phase: str, steps: list[dict[str, Any]], now: Moment) -> None:
        cursor = self._db.execute(
            "INSERT INTO response (event, phase, state, boot_id, created_at) VALUES (?, ?, ?, ?, ?)",
            (event, phase, PLANNED, now.boot_id, now.at),
        )
        assert cursor.lastrowid is not None
        self.add_steps(cursor.lastrowid, steps)

    def add_steps(self, response: int, steps: list[dict[str, Any]], begun_at: float | None = None) -> None:
        """Add those of all steps of a response that are not there.

        :param begun_at: where they may have been begun before: a moment after that.
        """
        self._db.executemany(
            "INSERT OR IGNORE INTO step (response, position, content, state, started_at) VALUES (?, ?, ?, ?, ?)",
            [(response, position, json.dumps(step), PENDING, begun_at) for position, step in enumerate(steps, start=1)],
        )

    def was_begun(self, event: int) -> bool:
        """Tell whether a step of any response to an event was begun, or may have been: its records may be damaged."""
        begun = self._db.execute(
            "SELECT 1 FROM response LEFT JOIN step ON step.response = response.number"
            " WHERE event = ? AND (response.state NOT IN (?, ?, ?) OR step.started_at IS NOT NULL) LIMIT 1",
            (event, PLANNED, DUE, SKIPPED),
        )
        return begun.fetchone() is not None

    def remove_responses(self, event: int) -> None:
        """Remove the responses to an event for which nothing was begun, to make room for those of another rule."""
        self._db.execute("DELETE FROM response WHERE event = ?", (event,))

    def unfinished_responses(self) -> list[ResponseRecord]:
        """Return the responses that are planned, due or running, in the order in which they were made."""
        return self._responses("state NOT IN (?, ?, ?)", *_FINISHED)

    def responses_to(self, event: int) -> list[ResponseRecord]:
        return self._responses("event = ?", event)

    def response(self, number: int) -> ResponseRecord | None:
        return next(iter(self._responses("number = ?", number)), None)

    def _responses(self, condition: str, *values: Any) -> list[ResponseRecord]:
        rows = self._db.execute(f"SELECT {RESPONSE_COLUMNS} FROM response WHERE {condition} ORDER BY number", values)
        return self._readable(rows, read_response)

    def count_responses(self) -> list[tuple[str, str, int]]:
        """Return phase and state of the responses with the number of each such."""
        counts: dict[tuple[str, str], int] = {}
        for response in self._responses("1"):
            key = (response.phase, response.state)
            counts[key] = counts.get(key, 0) + 1
        return [(phase, state, count) for (phase, state), count in sorted(counts.items())]

    def courses(
        self, boot_id: str, is_running: Callable[[int], bool], marked: Collection[str] = ()
    ) -> list[tuple[EventRecord, TrackedEvent, list[ResponseRecord]]]:
        """Return all that may still happen, as the life cycle wants it: events that are open or have unfinished work.

        :param is_running: tells whether a process runs the response of this number now.
        :param marked: the keys of the events for which runs have this VM out of service.
        """
        begun = {row[0] for row in self._db.execute("SELECT response FROM step WHERE started_at IS NOT NULL")}
        of_event: dict[int, list[ResponseRecord]] = {}
        for response in self._responses(f"event IN (SELECT number FROM event WHERE {_IS_PENDING})", *_FINISHED):
            of_event.setdefault(response.event, []).append(response)
        found = []
        for record in self.pending_events():
            responses = of_event.get(record.number, [])
            course = TrackedEvent(
                record.number,
                record.event.key,
                record.phase,
                record.listed_boot == boot_id,
                tuple(
                    Response(
                        each.number,
                        each.phase,
                        finished=each.finished,
                        due=each.state != PLANNED,
                        # The records of its steps may be lost.
                        begun=each.number in begun or each.state in (RUNNING, SUCCEEDED, FAILED),
                        running=each.state == RUNNING and is_running(each.number),
                    )
                    for each in responses
                ),
                record.end_order,
                record.approval == APPROVED,
                record.event.key in marked,
            )
            found.append((record, course, responses))
        return found

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

    # Steps

    def steps(self, response: int) -> list[StepRecord]:
        rows = self._db.execute(f"{ALL_STEPS} WHERE step.response = ? ORDER BY step.position", (response,))
        return [read_step(tuple(row)[:9], row[9]) for row in rows]

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
        if state == SUCCEEDED:
            self._db.execute(
                "REPLACE INTO step_success (response, position, boot_id) VALUES (?, ?, ?)",
                (step.response, step.position, now.boot_id),
            )

    def note_step(self, step: StepRecord, message: str) -> None:
        """Write down what is known of a step that still runs."""
        self._db.execute(
            "UPDATE step SET message = ? WHERE response = ? AND position = ?", (message, step.response, step.position)
        )

    def interrupt_step(self, step: StepRecord) -> None:
        """Count that a try of a step was begun, and never came to an end."""
        self._db.execute(
            "UPDATE step SET state = ?, interruptions = interruptions + 1 WHERE response = ? AND position = ?",
            (PENDING, step.response, step.position),
        )

    def renew_approval(self, response: int) -> None:
        """Let a response that has ended approve its event once more."""
        self._db.execute(
            "UPDATE step SET state = ?, finished_at = NULL, message = NULL WHERE response = ? AND content = ?",
            (PENDING, response, json.dumps(APPROVE_STEP)),
        )

    def renew_failed_steps(self, response: int) -> None:
        """Give the steps that failed all their tries anew."""
        self._renew_steps(response, FAILED, RUNNING)

    def renew_all_steps(self, response: int) -> None:
        """Let a response begin with its first step again."""
        self._db.execute("DELETE FROM step_success WHERE response = ?", (response,))
        self._renew_steps(response, SUCCEEDED, FAILED, RUNNING, SKIPPED)

    def undo_preparation(self, event: int, message: str, now: Moment) -> None:
        """Note that what was begun to prepare for an event was taken back: nothing is approved on its ground (P2)."""
        for response in self.responses_to(event):
            if response.phase == ANNOUNCED:
                self.renew_all_steps(response.number)
                self._db.execute("UPDATE step SET started_at = NULL WHERE response = ?", (response.number,))
                self.finish_response(response.number, SKIPPED, message, now)

    def _renew_steps(self, response: int, *states: str) -> None:
        self._db.execute(
            "UPDATE step SET state = ?, failures = 0, interruptions = 0, finished_at = NULL, message = NULL"
            f" WHERE response = ? AND state IN ({', '.join('?' * len(states))})",
            (PENDING, response, *states),
        )

    # Facts

    def fact(self, name: str) -> dict[str, Any]:
        """Return what is remembered by this name, an empty mapping where that is nothing, or cannot be read."""
        row = self._db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        value = {} if row is None else load(row["value"])
        if not isinstance(value, dict):
            self.needs_repair = True
            return {}
        return value

    def set_fact(self, name: str, value: dict[str, Any]) -> None:
        self._db.execute("REPLACE INTO fact (name, value) VALUES (?, ?)", (name, json.dumps(value)))
