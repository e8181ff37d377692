# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What others read of the state: one report as data, from which status, facts and metrics are made."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime, timezone
from typing import Any, Iterable

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import format_utc

from .config import describe_step
from .metrics import metrics_text
from .store import FAILED, SUCCEEDED, UNFINISHED, EventRecord, Moment, Store
from .system import Folders, warn, write_file

_FACTS_FILE = "azure_maintenance.fact"
_METRICS_FILE = "azure_maintenance.prom"
# While an event is open the seconds until its start change, though nothing is written down.
_REFRESH = 10.0


def report(store: Store, now: Moment, records: Iterable[EventRecord]) -> dict[str, Any]:
    """Return all that is known of these events, and of the polling, as JSON takes it."""
    facts = store.facts()
    polls = facts.get("polls", {})
    error = polls.get("last_error")
    name = facts.get("resource_name", {}).get("name")
    return {
        "resource_name": name,
        "last_answer_at": _iso(polls.get("last_answer_at")),
        "last_error": error and {**error, "at": _iso(error["at"])},
        "polls": polls.get("count", 0),
        "poll_errors": polls.get("errors", {}),
        "events": [_event(store, record, now, name) for record in records],
    }


def needing_attention(store: Store) -> list[EventRecord]:
    """Return the events that have not ended, and those with a response that failed or has not ended."""
    wanted = (*UNFINISHED, FAILED)
    return [
        record
        for record in store.all_events()
        if record.ended_at is None or any(each.state in wanted for each in store.responses_to(record.number))
    ]


def _event(store: Store, record: EventRecord, now: Moment, resource_name: str | None) -> dict[str, Any]:
    return {
        **record.event.to_dict(now.wall, resource_name),
        "phase": record.phase,
        "outcome": record.outcome,
        "announced_at": _iso(record.announced_at),
        "started_at": _iso(record.started_at),
        "ended_at": _iso(record.ended_at),
        "rule": record.rule and record.rule.name,
        "lead_time": record.rule and record.rule.lead_time,
        "note": record.note,
        "approval": record.approval,
        "approval_rule": record.rule and record.rule.approve,
        "approved_at": _iso(record.approved_at),
        "waiting_for": list(record.waiting_for),
        "responses": [
            {
                "number": response.number,
                "phase": response.phase,
                "state": response.state,
                "message": response.message,
                "created_at": _iso(response.created_at),
                "finished_at": _iso(response.finished_at),
                "steps": [
                    {
                        "step": describe_step(step.content),
                        "state": step.state,
                        "tries": step.failures + step.interruptions + (step.state == SUCCEEDED),
                        "started_at": _iso(step.started_at),
                        "finished_at": _iso(step.finished_at),
                        "message": step.message,
                    }
                    for step in store.steps(response.number)
                ],
            }
            for response in store.responses_to(record.number)
        ],
    }


def _iso(at: float | None) -> str | None:
    return None if at is None else format_utc(datetime.fromtimestamp(at, timezone.utc))


class Publisher:
    """Writes the facts for ansible_local and the metrics, when there is something new to write."""

    def __init__(self, metrics_dir: str | None, folders: Folders) -> None:
        self._metrics_dir = metrics_dir
        self._folders = folders
        self._version: tuple[int, int] | None = None
        self._written_at = 0.0
        self._events_open = False
        self._complaints: set[str] = set()

    def publish(self, store: Store, now: Moment) -> None:
        age = time.monotonic() - self._written_at
        if store.version == self._version and not (self._events_open and age >= _REFRESH):
            return
        self._version = store.version
        self._written_at = time.monotonic()
        records = needing_attention(store)
        self._events_open = any(record.ended_at is None for record in records)
        found = report(store, now, records)
        self._write(os.path.join(self._folders.facts, _FACTS_FILE), json.dumps(found, indent=1, sort_keys=True) + "\n")
        if self._metrics_dir is not None:
            counts = store.count_responses()
            self._write(os.path.join(self._metrics_dir, _METRICS_FILE), metrics_text(found, counts))

    def _write(self, path: str, text: str) -> None:
        try:
            write_file(path, text, 0o644)
        except OSError as error:
            # What others read is not worth the polling that would end with it.
            complaint = f"{path} cannot be written ({error.strerror})."
            if complaint not in self._complaints:
                self._complaints.add(complaint)
                warn(complaint)
