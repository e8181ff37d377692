# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put records aside that cannot be read, so that the others stay usable."""

from __future__ import annotations

import json
from typing import Callable, Collection

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import escape
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    STARTED,
)

from ..config.rules import steps_for
from .codec import DamagedRecord, decode_event, decode_fact, decode_response, unseal
from .records import FAILED, PLANNED, EventRecord, Moment
from .store import Store

_MOST_KEPT = 100
_MOST_LINES = 10
# The columns of each table, and their reader
_READERS: dict[str, tuple[str, Callable[..., object]]] = {
    "event": ("number, key, ended_at, end_order, content", decode_event),
    "response": ("number, event, phase, state, content", decode_response),
    "fact": ("name, content", decode_fact),
    "history": ("key, content", lambda _key, text: unseal(text)),
}


def repair(store: Store, now: Moment, marked: Collection[str]) -> list[str]:
    """Put aside the records that cannot be read, and return a line for each.

    A lost response is not forgotten: a restore is planned again if a mark shows that the VM needs it, and any other
    response has failed, because it is unknown whether it has run.

    :param marked: the keys of the events for which the checker has this VM out of service.
    """
    db, lines, losers = store.connection, [], set()
    for table, (columns, read) in _READERS.items():
        for rowid, *row in db.execute(f"SELECT rowid, {columns} FROM {table}").fetchall():
            try:
                read(*row)
            except DamagedRecord as damage:
                text = json.dumps([each if isinstance(each, (int, float, str)) else repr(each) for each in row])
                db.execute("INSERT INTO put_aside (name, content, at) VALUES (?, ?, ?)", (table, text, now.at))
                # The responses to an event go with it.
                db.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))
                lines.append(f"A record of {table} {row[0]!s:.100} cannot be read ({damage}) and was put aside.")
                losers |= {row[1]} if table == "response" else set()
    for record in store.all_events():
        if record.number in losers:
            _add_lost_responses(store, record, now, record.event.key in marked)
    db.execute(
        "DELETE FROM put_aside WHERE rowid NOT IN (SELECT rowid FROM put_aside ORDER BY rowid DESC LIMIT ?)",
        (_MOST_KEPT,),
    )
    store.needs_repair = False
    more = [f"And {len(lines) - _MOST_LINES} more records were damaged."] if len(lines) > _MOST_LINES else []
    # They have Azure's ids, and text from a damaged file.
    return [escape(line) for line in lines[:_MOST_LINES]] + more


def _add_lost_responses(store: Store, record: EventRecord, now: Moment, is_marked: bool) -> None:
    known = {response.phase for response in store.responses_to(record.number)}
    reached = {ANNOUNCED: record.announced_at, STARTED: record.started_at, ENDED: record.ended_at}
    for phase, at in reached.items():
        if at is not None and record.rule is not None and phase not in known:
            state = PLANNED if phase == ENDED and is_marked else FAILED
            store.add_response(record.number, phase, steps_for(record.rule, phase), now, state)
