# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history, one row an event, and the removal of old events.

The table holds the rows of removed events, each written once, when the event is removed.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Iterable, NamedTuple, Sequence

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import (
    fold_case,
    format_utc,
    is_count,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.history_row import (
    approved_by,
    read_seconds,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import ANNOUNCED, WITHDRAWN

from ..config.rules import APPROVE_STEP
from .codec import DamagedRecord, seal, unseal
from .records import APPROVED, FAILED, SUCCEEDED, EventRecord, Moment, ResponseRecord
from .store import Store

# However often Azure announces events, and however long their texts are, the file stays small.
MOST_ROWS = 1000
_LONGEST_TEXT = 200
# The longest id that a document may have
_LONGEST_ID = 256
# For an event with its responses. The history keeps its row for longer.
RETENTION = 30 * 86400.0
_FACT = "clock"
# The confirmed time makes up for the time in which the VM was off. A clock that is wrong for a day costs two days.
_FASTEST = 2.0


class ConfirmedTime(NamedTuple):
    """A time of the wall clock, but never further on than the time that can have passed.

    :ivar at: seconds since 1970.
    :ivar uptime: when it was confirmed, in seconds since this boot began.
    :ivar kernel: the boot of the kernel; a container that is started anew has the uptime of its host.
    """

    at: float
    uptime: float
    kernel: str

    def confirm(self, now: Moment) -> ConfirmedTime:
        """Follow the wall clock: back at once, because a row that is kept too long does no harm; forward at most
        twice as fast as the VM runs."""
        kernel = _kernel(now)
        elapsed = now.uptime - (self.uptime if kernel == self.kernel else 0.0)
        return ConfirmedTime(min(now.at, self.at + _FASTEST * elapsed), now.uptime, kernel)

    @classmethod
    def read(cls, store: Store, now: Moment) -> ConfirmedTime:
        """Return the time of an earlier check, or that of the newest event where none is known."""
        fact = store.fact(_FACT)
        if fact:
            return cls(**fact)
        forgotten = store.connection.execute("SELECT MAX(seen_at) FROM history").fetchone()[0]
        seen = [record.seen.at for record in store.all_events()] + [forgotten] * isinstance(forgotten, float)
        return cls(max(seen, default=now.at), now.uptime, _kernel(now))

    def write(self, store: Store) -> None:
        store.set_fact(_FACT, self._asdict())


def _kernel(now: Moment) -> str:
    return now.boot_id.partition("/")[0]


def remove_old(store: Store, time: ConfirmedTime, history_days: int) -> None:
    """Remove old events and rows, by a time that a wrong wall clock moves only slowly."""
    for record in store.ended_before(time.at - RETENTION):
        content = seal(make_row(record, store.responses_to(record.number)))
        store.connection.execute(
            "REPLACE INTO history (key, seen_at, ended_at, content) VALUES (?, ?, ?, ?)",
            (record.event.key[:_LONGEST_ID], record.seen.at, record.ended_at, content),
        )
        store.remove_event(record.number)
    store.connection.execute(
        "DELETE FROM history WHERE ended_at < ?"
        " OR rowid NOT IN (SELECT rowid FROM history ORDER BY seen_at DESC LIMIT ?)",
        (time.at - history_days * 86400.0, MOST_ROWS),
    )


def read_rows(store: Store, resource_name: str | None) -> list[dict[str, Any]]:
    """Return the rows of all events, the oldest first, without those that cannot be read.

    :param resource_name: the name of this VM; rows of another one, from a copied disk, are left out.
    """
    rows = [make_row(record, store.responses_to(record.number)) for record in store.all_events()]
    for found in store.connection.execute("SELECT content FROM history").fetchall():
        try:
            rows.append(unseal(found["content"]))
        except DamagedRecord:
            store.needs_repair = True
    own = [row for row in rows if None in (resource_name, row["resource_name"]) or _is_same(resource_name, row)]
    return sorted(own, key=lambda row: (row["first_seen_at"], row["event_id"]))


def _is_same(resource_name: Any, row: dict[str, Any]) -> bool:
    return fold_case(resource_name) == fold_case(row["resource_name"])


def make_row(record: EventRecord, responses: Sequence[ResponseRecord]) -> dict[str, Any]:
    """Return the row of an event."""
    event = record.event
    prepared = _prepared(responses)
    last = record.not_before_last
    by_checker = record.approval == APPROVED
    return {
        "event_id": event.event_id[:_LONGEST_ID],
        "event_type": _text(event.event_type),
        "event_source": _text(event.event_source),
        "description": _text(event.description),
        "resources_count": len(event.resources) if event.resources else None,
        "leader": _text(event.leader),
        "resource_name": _text(record.resource_name),
        "simulated": record.is_simulated,
        "first_seen_at": _iso(record.seen.at),
        "not_before_first": record.not_before_first,
        "not_before_last": last,
        "started_at": _iso(record.started_at),
        "ended_at": _iso(record.ended_at),
        "outcome": _text(record.outcome),
        "duration_seconds": event.duration_seconds if is_count(event.duration_seconds) else None,
        "approved_at": _iso(record.approved_at) if by_checker else None,
        "approved_by": approved_by(by_checker, record.started_at, read_seconds(last)),
        "responses": len(responses),
        "failed_responses": [each.phase for each in responses if each.state == FAILED],
        "late": _is_late(record, responses, read_seconds(last), prepared),
        "prepare_seconds": None if prepared is None else round(prepared[1] - prepared[0]),
    }


def _is_late(
    record: EventRecord,
    responses: Sequence[ResponseRecord],
    not_before: float | None,
    prepared: tuple[float, float] | None,
) -> bool:
    """Tell whether the event began, or fell due, before on_announced had succeeded."""
    if record.started_at is None and (record.ended_at is None or record.outcome == WITHDRAWN):
        return False
    begun = next(each for each in (record.started_at, not_before, record.ended_at) if each is not None)
    for response in responses:
        if response.phase == ANNOUNCED:
            # An approved event had been prepared; the rest of the response is the answer of Azure.
            approved = record.approved_at if record.approval == APPROVED else None
            ended = response.finished_at if response.state == SUCCEEDED else None
            done = approved or (ended if prepared is None else prepared[1])
            return done is None or done > begun
    return False


def _prepared(responses: Iterable[ResponseRecord]) -> tuple[float, float] | None:
    """Return when the steps of on_announced, without the approval, began and when all were done."""
    for response in responses:
        if response.phase == ANNOUNCED:
            steps = [step for step in response.steps if step.content != APPROVE_STEP]
            spans = [(step.started_at, step.finished_at) for step in steps if step.is_settled]
            known = [(begun, done) for begun, done in spans if begun is not None and done is not None]
            if known and len(known) == len(steps):
                begun, done = min(begun for begun, _done in known), max(done for _begun, done in known)
                return (begun, done) if 0 <= done - begun <= 10**9 else None
    return None


def _text(value: Any) -> str | None:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else None


def _iso(at: float | None) -> str | None:
    return None if at is None else format_utc(datetime.fromtimestamp(at, timezone.utc))
