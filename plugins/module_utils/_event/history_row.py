# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The course of an event as one row of a history: the fields it may have, and the results of its times.

The checker writes rows, and the fleet history reads them, maybe with another version of this file.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any, Iterator, Mapping, NamedTuple

from .document import EVENT_TYPES, fold_case, is_count

# Raise it when a row means something else than before; a field that is only added needs no new number.
FORMAT = 1

CHECKER = "checker"
OTHER = "other"


class Notice(NamedTuple):
    """The notice that Microsoft documents for a type of event, in seconds; for Terminate the owner sets it."""

    least: int
    most: int


# From "Event scheduling" of this page
NOTICE_SOURCE = "https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#event-scheduling"
DOCUMENTED_NOTICE = {
    "Freeze": Notice(900, 900),
    "Reboot": Notice(900, 900),
    "Redeploy": Notice(600, 600),
    "Preempt": Notice(30, 30),
    "Terminate": Notice(300, 900),
}
_SPELLING = {fold_case(name): name for name in EVENT_TYPES}
# Polling, and a clock that is a little off, take some of the notice. A notice below this share counts as shorter.
_SHORTER = 0.9
_EPOCH = datetime(1970, 1, 1)
# Azure starts an event before NotBefore only if somebody has approved it. Clocks may differ by so many seconds.
_CLEARLY_BEFORE = 10


@lru_cache(maxsize=256)
def known_type(event_type: str | None) -> str | None:
    """Return a type in Azure's spelling, None for one that is not documented."""
    return _SPELLING.get(fold_case(event_type)) if event_type else None


def documented_notice(event_type: str | None) -> Notice | None:
    return DOCUMENTED_NOTICE.get(known_type(event_type) or "")


def is_shorter(event_type: str | None, notice: int) -> bool:
    """Tell whether a notice, in seconds, is clearly shorter than the one documented for the type."""
    documented = documented_notice(event_type)
    return documented is not None and notice < _SHORTER * documented.least


def read_seconds(text: Any) -> float | None:
    """Return the seconds since 1970 of a time such as 2026-11-21T10:00:00Z, None for anything else."""
    moment = _read_time(text)
    # With the strptime() of parse_utc(), or with time zones, a large history takes twice as long.
    return None if moment is None else (moment - _EPOCH).total_seconds()


def _read_time(text: Any) -> datetime | None:
    if not isinstance(text, str) or len(text) != 20 or text[10] != "T" or text[-1] != "Z":
        return None
    try:
        moment = datetime.fromisoformat(text[:19])
    except ValueError:
        return None
    # Other forms of ISO 8601 are as long: a time zone without seconds, a week.
    return moment if moment.tzinfo is None and text[13] == text[16] == ":" and text[4] == text[7] == "-" else None


_TEXTS = (
    *("event_id", "event_type", "event_source", "description", "leader"),
    *("resource_name", "outcome", "approved_by"),
)
_COUNTS = ("resources_count", "duration_seconds", "prepare_seconds", "responses")
_TIMES = ("first_seen_at", "not_before_first", "not_before_last", "approved_at", "started_at", "ended_at")
_FLAGS = ("late", "simulated")
ROW = (*_TEXTS, *_COUNTS, *_TIMES, "failed_responses", *_FLAGS)
_NAMES = frozenset(ROW)


def complaint(row: Any) -> str | None:
    """Return the fault of a row, None for a sound one."""
    if not isinstance(row, dict):
        return "it is not a dictionary"
    faulty = next(_find_faulty(row), None)
    if faulty is not None:
        return f"{faulty} is missing or cannot be read"
    if not row["event_id"] or row["first_seen_at"] is None:
        return "it does not tell which event was seen when"
    return None


def _find_faulty(row: Mapping[str, Any]) -> Iterator[str]:
    """Return the fields that a row lacks, or that cannot be read: a large history has millions of fields."""
    if not row.keys() >= _NAMES:
        yield from (name for name in ROW if name not in row)
    for name in _TEXTS:
        if row[name] is not None and not isinstance(row[name], str):
            yield name
    for name in _COUNTS:
        if row[name] is not None and not is_count(row[name]):
            yield name
    for name in _TIMES:
        if row[name] is not None and _read_time(row[name]) is None:
            yield name
    failed = row["failed_responses"]
    if not isinstance(failed, list) or [each for each in failed if not isinstance(each, str)]:
        yield "failed_responses"
    for name in _FLAGS:
        if not isinstance(row[name], bool):
            yield name


class Course(NamedTuple):
    """The durations from the times of a row, or of several rows of one event; in seconds, None if unknown.

    :ivar notice: from the first sight of the event to its first NotBefore; 0 where it had started then.
        Without a NotBefore its start does not give the notice: somebody may have approved it.
    :ivar approval_to_start: from the approval by a checker to the start.
    :ivar lasted: from the start to the end.
    :ivar doubtful: times contradict each other, as when the clock was wrong. Durations from those are unknown.
    """

    notice: int | None
    approval_to_start: int | None
    lasted: int | None
    doubtful: bool


def find_course(
    seen: float, not_before: float | None, approved: float | None, started: float | None, ended: float | None
) -> Course:
    """Return the course from times in seconds since 1970."""
    announced_until = not_before
    if not_before is None and started is not None and started <= seen:
        announced_until = started
    notice, approval_to_start = _between(seen, announced_until), _between(approved, started)
    lasted = _between(started, ended)
    # No field shows the last two, but a negative one is impossible too.
    lengths = (notice, approval_to_start, lasted, _between(seen, started), _between(seen, ended))
    if min([each for each in lengths if each is not None], default=0) >= 0:
        return Course(notice, approval_to_start, lasted, False)
    notice, approval_to_start, lasted = (None if each is not None and each < 0 else each for each in lengths[:3])
    return Course(notice, approval_to_start, lasted, True)


def _between(first: float | None, last: float | None) -> int | None:
    return None if first is None or last is None else int(last - first)


def course_of(row: Mapping[str, Any]) -> Course:
    """Return the course from the times of one sound row."""
    return read_course(row)[1]


def read_course(row: Mapping[str, Any]) -> tuple[float, Course]:
    """Return when the event of a sound row was first seen, in seconds since 1970, and its course."""
    seen = read_seconds(row["first_seen_at"])
    if seen is None:
        raise ValueError("complaint() takes no row without first_seen_at")
    names = ("not_before_first", "approved_at", "started_at", "ended_at")
    return seen, find_course(seen, *[read_seconds(row[name]) for name in names])


def approved_by(by_checker: bool, started: float | None, not_before: float | None) -> str | None:
    """Return who approved an event: CHECKER, that of this VM; OTHER, where it started well before its NotBefore and
    this checker had not approved it; None where it is unknown."""
    if by_checker:
        return CHECKER
    if started is not None and not_before is not None and started < not_before - _CLEARLY_BEFORE:
        return OTHER
    return None
