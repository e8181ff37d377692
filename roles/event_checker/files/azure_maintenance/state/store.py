# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The events that the checker remembers, the responses to them with their steps, and facts by name.

A record that cannot be read does not affect others: reading leaves it out, and recovery puts it aside.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from typing import Any, Callable, Iterable, Iterator, Mapping, TypeVar

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Event, format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    STARTED,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import DEFAULT_ENDPOINT

from ..config.config import Rule
from ..config.rules import RESPONSE_LOST
from .codec import DamagedRecord, decode_event, decode_fact, decode_response, encode_event, encode_response, seal
from .records import (
    APPROVED,
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

# However often Azure announces and withdraws events, the file stays small.
_MOST_ENDED = 1000
_FINISHED = (SUCCEEDED, FAILED, SKIPPED)

Record = TypeVar("Record")


class Store:
    """The tables. Every method that writes is to be called within a transaction(), and does nothing for a record that
    is not there or cannot be read.

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
        # The store is closed if its replacement could not be opened.
        with suppress(sqlite3.ProgrammingError):
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
        is_unfinished = "SELECT event FROM response WHERE state NOT IN (?, ?, ?)"
        return self._events(f"ended_at IS NULL OR number IN ({is_unfinished})", *_FINISHED)

    def read_pending(self) -> list[tuple[EventRecord, list[ResponseRecord]]]:
        """Return the pending events with the responses to them."""
        return [(record, self.responses_to(record.number)) for record in self.pending_events()]

    def all_events(self) -> list[EventRecord]:
        return self._events("1")

    def knows(self, key: str) -> bool:
        """Tell whether Azure has ever told of the event with this key."""
        return bool(self._events("key = ?", key))

    def event(self, number: int) -> EventRecord | None:
        return next(iter(self._events("number = ?", number)), None)

    def _events(self, condition: str, *values: Any) -> list[EventRecord]:
        columns = "number, key, ended_at, end_order, content"
        return self._readable(f"SELECT {columns} FROM event WHERE {condition} ORDER BY number", values, decode_event)

    def _readable(self, sql: str, values: Iterable[Any], decode: Callable[..., Record]) -> list[Record]:
        found = []
        for row in self._db.execute(sql, tuple(values)):
            try:
                found.append(decode(*row))
            except DamagedRecord:
                self.needs_repair = True
        return found

    def add_event(self, event: Event, rule: Rule | None, phase: str, now: Moment, note: str | None) -> int:
        """Add an event that is first seen in this phase, and return its number."""
        told = format_utc(event.not_before)
        fact = self.fact("resource_name")
        record = EventRecord(
            *(0, event, rule, phase, now, now.boot_id),
            announced_at=now.at if phase == ANNOUNCED else None,
            started_at=now.at if phase == STARTED else None,
            note=note,
            not_before_first=told,
            not_before_last=told,
            resource_name=fact.get("name"),
            is_simulated=fact.get("endpoint", DEFAULT_ENDPOINT).rstrip("/") != DEFAULT_ENDPOINT,
        )
        return self.insert_event(record)

    def insert_event(self, record: EventRecord) -> int:
        """Add a record, and return the number that it got."""
        cursor = self._db.execute(
            "INSERT INTO event (key, content) VALUES (?, ?)", (record.event.key, encode_event(record))
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _change_event(self, number: int, **changes: Any) -> None:
        record = self.event(number)
        if record is None:
            return
        record = record._replace(**changes)
        self._db.execute(
            "UPDATE event SET ended_at = ?, end_order = ?, content = ? WHERE number = ?",
            (record.ended_at, record.end_order, encode_event(record), number),
        )

    def update_event(self, record: EventRecord, event: Event, listed_boot: str | None) -> None:
        """Keep the newest document's data on an event, and the boot of that document."""
        told = format_utc(event.not_before)
        self._change_event(
            record.number,
            event=event,
            listed_boot=listed_boot,
            not_before_first=record.not_before_first or told,
            # Azure blanks the time of a started event.
            not_before_last=told or record.not_before_last,
        )

    def set_rule(self, number: int, rule: Rule | None, note: str | None) -> None:
        self._change_event(number, rule=rule, note=note)

    def start_event(self, number: int, now: Moment) -> None:
        self._change_event(number, phase=STARTED, started_at=now.at)

    def end_event(self, number: int, outcome: str, now: Moment, note: str | None = None) -> None:
        order = self._db.execute("SELECT COALESCE(MAX(end_order), 0) + 1 FROM event").fetchone()[0]
        more = {} if note is None else {"note": note}
        self._change_event(number, phase=ENDED, outcome=outcome, ended_at=now.at, end_order=order, **more)

    def set_approval(self, number: int, approval: str | None, waiting_for: tuple[str, ...], now: Moment) -> None:
        approved_at = now.at if approval == APPROVED else None
        self._change_event(number, approval=approval, approved_at=approved_at, waiting_for=waiting_for)

    def ended_before(self, at: float) -> list[EventRecord]:
        """Return events that ended before a moment, or long enough ago, and have no response that is unfinished.

        An event whose restore failed is kept for the person who must retry it, even where the clock is set meanwhile.
        """
        return self._events(
            "ended_at IS NOT NULL"
            " AND ((ended_at < ? AND number NOT IN (SELECT event FROM response WHERE phase = ? AND state = ?))"
            " OR number NOT IN (SELECT number FROM event WHERE ended_at IS NOT NULL ORDER BY number DESC LIMIT ?))"
            " AND number NOT IN (SELECT event FROM response WHERE state IN (?, ?, ?))",
            *(at, ENDED, FAILED, _MOST_ENDED, *UNFINISHED),
        )

    def remove_event(self, number: int) -> None:
        self._db.execute("DELETE FROM event WHERE number = ?", (number,))

    # Responses

    def add_response(
        self,
        event: int,
        phase: str,
        steps: list[dict[str, Any]],
        now: Moment,
        state: str = PLANNED,
        known: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a response, unless it has no steps.

        :param known: the known states of its steps.
        """
        told = tuple(StepRecord(0, position, step, **(known or {})) for position, step in enumerate(steps, start=1))
        # A response with a lost record may have failed.
        finished_at, message = (now.at, RESPONSE_LOST) if state == FAILED else (None, None)
        record = ResponseRecord(0, event, phase, state, now.boot_id, now.at, finished_at, message, told)
        if told:
            self._db.execute(
                "INSERT INTO response (event, phase, state, content) VALUES (?, ?, ?, ?)",
                (event, phase, state, encode_response(record)),
            )

    def was_begun(self, event: int) -> bool:
        """Tell whether a step of any response to an event was begun, or may have been: its record may be damaged."""
        responses = self.responses_to(event)
        return self.needs_repair or any(each.begun for each in responses)

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
        columns = "number, event, phase, state, content"
        sql = f"SELECT {columns} FROM response WHERE {condition} ORDER BY number"
        return self._readable(sql, values, decode_response)

    def all_responses(self) -> list[ResponseRecord]:
        return self._responses("1")

    def _change_response(self, number: int, **changes: Any) -> None:
        record = self.response(number)
        if record is None:
            return
        record = record._replace(**changes)
        self._db.execute(
            "UPDATE response SET state = ?, content = ? WHERE number = ?",
            (record.state, encode_response(record), number),
        )

    def begin_response(self, number: int, state: str, now: Moment) -> None:
        """Note that a response is due, or runs."""
        self._change_response(number, state=state, boot_id=now.boot_id, finished_at=None, message=None)

    def finish_response(self, number: int, state: str, message: str | None, now: Moment) -> None:
        """Note how a response ended; the steps that it had not come to are skipped, unless it may be tried again."""
        self._change_response(number, state=state, finished_at=now.at, message=message)
        if state == SKIPPED:
            self._change_steps(number, lambda step: step.state in (PENDING, RUNNING), state=SKIPPED)

    def undo_preparation(self, event: int, message: str, now: Moment) -> None:
        """Note that a preparation was taken back: no event is approved because of it (P2)."""
        for response in self.responses_to(event):
            if response.phase == ANNOUNCED:
                self.renew_steps(response.number, lambda _step: True)
                self._change_steps(response.number, lambda _step: True, started_at=None)
                self.finish_response(response.number, SKIPPED, message, now)

    # Steps

    def steps(self, response: int) -> tuple[StepRecord, ...]:
        found = self.response(response)
        return found.steps if found else ()

    def _change_steps(self, response: int, which: Callable[[StepRecord], bool], **changes: Any) -> None:
        steps = tuple(step._replace(**changes) if which(step) else step for step in self.steps(response))
        self._change_response(response, steps=steps)

    def _change_step(self, step: StepRecord, **changes: Any) -> None:
        self._change_steps(step.response, lambda each: each.position == step.position, **changes)

    def begin_step(self, step: StepRecord, now: Moment) -> None:
        self._change_step(step, state=RUNNING, started_at=now.at, finished_at=None)

    def finish_step(self, step: StepRecord, state: str, message: str | None, now: Moment) -> None:
        before = next((each for each in self.steps(step.response) if each.position == step.position), step)
        self._change_step(
            step,
            state=state,
            finished_at=now.at,
            message=message,
            failures=before.failures + (state == FAILED),
            succeeded_boot=now.boot_id if state == SUCCEEDED else None,
        )

    def note_step(self, step: StepRecord, message: str) -> None:
        """Write down the state of a step that still runs."""
        self._change_step(step, message=message)

    def interrupt_step(self, step: StepRecord) -> None:
        """Count a try of a step that was begun and never ended."""
        self._change_step(step, state=PENDING, interruptions=step.interruptions + 1)

    def renew_steps(self, response: int, which: Callable[[StepRecord], bool]) -> None:
        """Let steps run anew, with all their tries."""
        fresh = {"failures": 0, "interruptions": 0, "finished_at": None, "message": None, "succeeded_boot": None}
        self._change_steps(response, which, state=PENDING, **fresh)

    # Facts

    def fact(self, name: str) -> dict[str, Any]:
        """Return the fact of this name, an empty mapping where there is none, or it cannot be read."""
        found = self._readable("SELECT name, content FROM fact WHERE name = ?", (name,), decode_fact)
        return found[0] if found else {}

    def set_fact(self, name: str, value: dict[str, Any]) -> None:
        self._db.execute("REPLACE INTO fact (name, content) VALUES (?, ?)", (name, seal([name, value])))
