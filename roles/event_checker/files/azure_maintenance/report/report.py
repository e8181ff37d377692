# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report: the state as data, from which status, facts and metrics are made."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from datetime import datetime, timezone
from functools import partial
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import fold_case, format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.history_row import FORMAT
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    RESPONSE_PHASES,
    why_not_now,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import CHECKER

from .. import __version__
from ..config.step import describe_step
from ..poll.memory import last_answer_at
from ..poll.statistics import Polls
from ..respond.retry import has_booted_since, is_undone_by_boot, why_not_restore
from ..state import history
from ..state.database import find_put_aside, put_aside_at
from ..state.marks import events_of_runs, may_be_at_work, read_marks, told_at
from ..state.records import FAILED, RUNNING, SUCCEEDED, UNFINISHED, WAITING, EventRecord, Moment, ResponseRecord
from ..state.store import Store
from ..system import CHECK, Folders, is_held, is_running, warn, write_file
from ..track.situation import read_situation
from .metrics import metrics_text

_FACTS_FILE = "azure_maintenance.fact"
_METRICS_FILE = "azure_maintenance.prom"
# While an event is open, the seconds until its start change without a write to the state.
_REFRESH = 10.0
# Seconds after an event within which a run that lives has begun to restore this VM
_RUN_RESTORES = 3600.0
# Seconds beyond the length of a check, which writes down the time of the last answer at its end
_SILENCE = 240.0
_TIMER_INTERVAL = 60.0
_NO_CHECK = "The check does not run: systemctl status azure-maintenance-check.timer"


class BesideState(NamedTuple):
    """What this VM holds beside the state.

    :ivar marks: those on this VM.
    :ivar answered_at: when a document came last, in seconds since 1970.
    :ivar told_at: from told_at().
    :ivar put_aside: the files of the state that could not be read.
    :ivar is_running: tells whether a process runs the response of this number now.
    :ivar is_checking: tells whether a check runs now.
    """

    marks: Sequence[dict[str, Any]] = ()
    answered_at: float | None = None
    told_at: float | None = None
    put_aside: Sequence[str] = ()
    is_running: Callable[[int], bool] = lambda _number: True
    is_checking: Callable[[], bool] = lambda: True

    @classmethod
    def read(cls, store: Store, folders: Folders) -> BesideState:
        put_aside = find_put_aside(folders.state, folders.run)
        running, checking = partial(is_running, folders), partial(is_held, folders.run, CHECK)
        marks, told = read_marks(store, folders), told_at(store, folders)
        return cls(marks, last_answer_at(folders), told, put_aside, running, checking)


_NOTHING = BesideState()


def report(store: Store, now: Moment, records: Iterable[EventRecord], beside: BesideState = _NOTHING) -> dict[str, Any]:
    """Return these events and the statistics of the polling, ready for JSON."""
    polls = Polls(**store.fact("polls"))
    if beside.answered_at is not None:
        polls = polls._replace(last_answer_at=beside.answered_at)
    error = polls.last_error
    name = store.fact("resource_name").get("name")
    unclear_seconds, missing, interval = _polling(store.fact("poller"), now)
    waits = _waits(store, now, beside)
    heard = polls.last_answer_at is not None and abs(now.at - polls.last_answer_at) <= _SILENCE + interval
    return {
        "resource_name": name,
        "heard_lately": heard,
        "unclear_seconds": unclear_seconds,
        "last_answer_at": _iso(polls.last_answer_at),
        "last_error": None if error is None else {**error, "at": _iso(error["at"])},
        "polls": polls.number,
        "poll_errors": dict(polls.errors),
        "events": [_event(store, record, now, name, waits, record.event.key in missing) for record in records],
        "marks": list(beside.marks),
        "marks_left": _left_marks(store, beside.marks, now),
        "state_put_aside": list(beside.put_aside),
    }


def history_report(
    store: Store, now: Moment, warnings: Iterable[str], beside: BesideState = _NOTHING
) -> dict[str, Any]:
    """Return the report on all events, with the history of removed ones.

    :param warnings: the faults of the state.
    """
    found = report(store, now, store.all_events(), beside)
    rows = history.read_rows(store, found["resource_name"])
    told = {"warnings": _faults(store, warnings, beside, now), "history": rows}
    return {**found, "history_format": FORMAT, "version": __version__, **told}


def status_report(store: Store, now: Moment, warnings: Iterable[str], beside: BesideState = _NOTHING) -> dict[str, Any]:
    """Return the report on the events that need attention.

    :param warnings: the faults of the state and of the configuration, for which an event may be missing (P13).
    """
    found = report(store, now, needing_attention(store), beside)
    told = list(warnings)
    # Each other reason is told in its own words.
    is_told = found["heard_lately"] or found["last_error"] or found["unclear_seconds"] or told
    if not is_told and not beside.is_checking():
        told.append(_NO_CHECK)
    return {**found, "warnings": _faults(store, told, beside, now)}


def _faults(store: Store, warnings: Iterable[str], beside: BesideState, now: Moment) -> list[str]:
    damaged = ["Records of the state are damaged, and are left out."] if store.needs_repair else []
    empty = ["Azure has not answered since the state was put aside, so events are missing here."]
    return [*warnings, *damaged, *(empty if _is_untold(store, beside, now) else [])]


def _is_untold(store: Store, beside: BesideState, now: Moment) -> bool:
    """Tell whether Azure has not told of its events since the state was put aside."""
    lost_at = max(map(put_aside_at, beside.put_aside), default=0.0)
    told_at = beside.told_at or 0.0
    _unclear, _missing, interval = _polling(store.fact("poller"), now)
    lately = _SILENCE + interval
    # Where that lies in the future the clock was set back since, and the last minutes are after it.
    return lost_at > told_at and not (lost_at > now.at + lately and abs(now.at - told_at) <= lately)


def _polling(fact: Mapping[str, Any], now: Moment) -> tuple[int, list[Any], float]:
    """Return the seconds since the last clear answer, the open events missing since, and the length of a check."""
    unclear, interval = fact.get("unclear"), fact.get("timer_interval", _TIMER_INTERVAL)
    if not unclear or fact["boot_id"] != now.boot_id:
        return 0, [], interval
    return max(1, int(now.uptime - unclear[0])), fact["missing"], interval


def _waits(store: Store, now: Moment, beside: BesideState) -> dict[int, str]:
    """Return the reason for which each waiting response waits, by its number."""
    marked = events_of_runs(beside.marks, beside.told_at, now)
    situation = read_situation(store, now.boot_id, beside.is_running, marked)
    waits = {}
    for _record, course, records in situation.found:
        for record, response in zip(records, course.responses):
            if response.finished or response.running or not (response.due or response.phase != ANNOUNCED):
                continue
            why = why_not_now(response, course, situation.others(course))
            if why is None and record.state == RUNNING:
                why = "for the next check, which begins it again"
            if why is not None:
                waits[response.number] = why
    return waits


def _left_marks(store: Store, marks: Iterable[dict[str, Any]], now: Moment) -> list[str]:
    """Return the files of the marks for which nobody puts this VM back.

    Of the checker: the event is not open, and its rule is lost. Where there are responses to an event, the next check
    removes its mark. Of a run, which was killed or has failed: the event has been over for long, as this VM saw it.
    """
    counting = [mark for mark in marks if mark["counts"]]
    records = store.all_events() if counting else []

    def is_left(mark: dict[str, Any]) -> bool:
        # Azure may use an id again.
        known = [each for each in records if each.event.key == fold_case(mark["event_id"])]
        if mark["by"] == CHECKER:
            return not any(each.ended_at is None or store.responses_to(each.number) for each in known)
        over_at = known[-1].ended_at if known else None
        # Since an end in the future the clock was set back, and nobody knows when.
        return over_at is not None and abs(now.at - over_at) > _RUN_RESTORES and not may_be_at_work(mark, now)

    return [mark["file"] for mark in counting if is_left(mark)]


def needing_attention(store: Store) -> list[EventRecord]:
    """Return the events that have not ended, and those with a response that has not ended, or that failed and that no
    on_ended made good."""
    return [
        record
        for record in store.all_events()
        if record.ended_at is None or _is_left_undone(store.responses_to(record.number))
    ]


def _is_left_undone(responses: Sequence[ResponseRecord]) -> bool:
    """Tell whether a person should look at these responses to an event that has ended."""
    states = {response.state for response in responses}
    is_put_back = any(each.phase == ENDED and each.state == SUCCEEDED for each in responses)
    return not states.isdisjoint(UNFINISHED) or (FAILED in states and not is_put_back)


def _event(
    store: Store, record: EventRecord, now: Moment, resource_name: str | None, waits: Mapping[int, str], missing: bool
) -> dict[str, Any]:
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
        "missing": missing,
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
                "waits": waits.get(response.number),
                "restorable": why_not_restore(response, record) is None,
                "booted_since": has_booted_since(response, record, now.boot_id),
                "undone_by_boot": is_undone_by_boot(response, record, now.boot_id),
                "created_at": _iso(response.created_at),
                "finished_at": _iso(response.finished_at),
                "steps": [
                    {
                        "step": describe_step(step.content),
                        "state": step.state,
                        "tries": step.failures + step.interruptions + (step.state == SUCCEEDED),
                        "interruptions": step.interruptions,
                        "started_at": _iso(step.started_at),
                        "finished_at": _iso(step.finished_at),
                        "in_this_boot": step.succeeded_boot == now.boot_id,
                        "message": step.message,
                    }
                    for step in response.steps
                ],
            }
            for response in store.responses_to(record.number)
        ],
    }


def _iso(at: float | None) -> str | None:
    return None if at is None else format_utc(datetime.fromtimestamp(at, timezone.utc))


def public(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a report that everybody on the VM may read: no command line, and no output of a step."""
    events = [
        {
            **event,
            "responses": [
                {
                    **response,
                    "message": None,
                    "steps": [
                        {**step, "step": step["step"].split(" ")[0], "message": None} for step in response["steps"]
                    ],
                }
                for response in event["responses"]
            ],
        }
        for event in found["events"]
    ]
    # Runs write marks without an update of this report.
    return {**{key: value for key, value in found.items() if key not in ("marks", "marks_left")}, "events": events}


def exit_status(found: Mapping[str, Any]) -> int:
    """Return the status for monitoring.

    0 fine, 1 a response failed or waits for a person, a person must put this VM back, or the state could not be read
    whole, 3 no answer lately.
    """
    if not found["heard_lately"]:
        return 3
    if found["state_put_aside"] or found["warnings"] or found["marks_left"]:
        return 1
    for event in found["events"]:
        if any(may_be_retried(each, event) or each["undone_by_boot"] for each in event["responses"]):
            return 1
        if event["ended_at"] is None and (event["approval"] == WAITING or (event["note"] and not event["rule"])):
            return 1
    return 0


def may_be_retried(response: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Tell whether a response failed and can still be tried again."""
    return response["state"] == FAILED and (event["ended_at"] is None or response["phase"] == ENDED)


def metrics(store: Store, found: Mapping[str, Any]) -> str:
    """Return a report in Prometheus' format."""
    responses = store.all_responses()
    damaged = bool(found["state_put_aside"]) or store.needs_repair
    return metrics_text(
        found,
        _count(responses),
        _failed_by_phase(found),
        _failed_steps_by_phase(responses),
        _prepared_events(found),
        damaged,
    )


def _count(responses: Iterable[ResponseRecord]) -> list[tuple[str, str, int]]:
    """Return the number of responses by phase and state."""
    counts = Counter((response.phase, response.state) for response in responses)
    return [(phase, state, count) for (phase, state), count in sorted(counts.items())]


def _failed_by_phase(found: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of failed responses that can still be tried again, by phase."""
    counts = dict.fromkeys(RESPONSE_PHASES, 0)
    for event in found["events"]:
        for response in event["responses"]:
            counts[response["phase"]] += may_be_retried(response, event)
    return counts


def _failed_steps_by_phase(responses: Iterable[ResponseRecord]) -> dict[str, int]:
    """Return the number of failed steps, by phase: one of a webhook, or with ignore_errors, makes no response fail."""
    counts = dict.fromkeys(RESPONSE_PHASES, 0)
    for response in responses:
        counts[response.phase] += sum(step.state == FAILED for step in response.steps)
    return counts


def _prepared_events(found: Mapping[str, Any]) -> set[str]:
    """Return the ids of the open events for which on_announced succeeded, or has no steps."""
    return {
        event["event_id"]
        for event in found["events"]
        if event["ended_at"] is None
        and event["rule"] is not None
        and all(_is_done(response, event) for response in event["responses"] if response["phase"] == ANNOUNCED)
    }


def _is_done(preparation: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Tell whether a preparation succeeded. A boot before the event takes it back: services started again (P2)."""
    steps = [step for step in preparation["steps"] if step["state"] == SUCCEEDED]
    return preparation["state"] == SUCCEEDED and (
        event["phase"] != ANNOUNCED or all(step["in_this_boot"] for step in steps)
    )


class Publisher:
    """Writes the facts for ansible_local and the metrics, when they have changed."""

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
        found = report(store, now, records, BesideState.read(store, self._folders))
        self._write(
            os.path.join(self._folders.facts, _FACTS_FILE), json.dumps(public(found), indent=1, sort_keys=True) + "\n"
        )
        if self._metrics_dir is not None:
            self._write(os.path.join(self._metrics_dir, _METRICS_FILE), metrics(store, found))

    def _write(self, path: str, text: str) -> None:
        try:
            write_file(path, text, 0o644)
        except OSError as error:
            # Polling must go on without facts and metrics.
            complaint = f"{path} cannot be written ({error.strerror})."
            if complaint not in self._complaints:
                self._complaints.add(complaint)
                warn(complaint)
