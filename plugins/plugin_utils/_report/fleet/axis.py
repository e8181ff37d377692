# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The time axis of a fleet report. It is broken, so that the first hour has room whatever comes later."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from ....module_utils._event.document import STARTED, read_utc
from .merge import Report

HOUR, DAY = 3600, 86400
_FURTHEST_BACK = HOUR
_FURTHEST_AHEAD = 7 * DAY
_STEPS = (600, 900, 1800, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY)
# Percent of the width: free room at the ends, room for overdue events, and for a tick, also on a phone.
_LEFT, _RIGHT, _OVERDUE = 7.0, 93.0, 14.0
_TICK, _TICK_ON_A_PHONE = 8.0, 15.0
# How the width is shared by the first hour, the first day and the time after it
_SHARES = {1: (1.0,), 2: (0.58, 0.42), 3: (0.48, 0.26, 0.26)}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Piece(NamedTuple):
    """A part of the axis in which time runs evenly: seconds from the time of the report, and percent of the width."""

    name: str
    begin: float
    end: float
    left: float
    right: float


class Tick(NamedTuple):
    """A round time. One that is not coarse is left out where the page is narrow."""

    place: float
    hour: str
    day: str
    is_coarse: bool


class Axis(NamedTuple):
    """The time that is drawn, one piece after the other."""

    now: datetime
    pieces: tuple[Piece, ...]

    @property
    def last(self) -> float:
        return self.pieces[-1].end

    def place(self, seconds: float) -> float:
        """Return where on the axis a time lies, in percent; its edge for a time beyond."""
        piece = next((piece for piece in self.pieces if seconds < piece.end), self.pieces[-1])
        part = min(1.0, max(0.0, (seconds - piece.begin) / (piece.end - piece.begin)))
        return round(piece.left + part * (piece.right - piece.left), 2)

    def ticks(self) -> list[Tick]:
        """Return the round times, as many as there is room for."""
        found: list[Tick] = []
        for piece in self.pieces:
            most = max(1, int((piece.right - piece.left) / _TICK))
            step = next((step for step in _STEPS if (piece.end - piece.begin) / step <= most), _STEPS[-1])
            for moment in _round_times(self.now, piece, step):
                place = self.place((moment - self.now).total_seconds())
                # One right behind a break would be written across it.
                if (found and place - found[-1].place < _TICK) or (piece.begin > 0 and place - piece.left < _TICK / 2):
                    continue
                coarse = [tick.place for tick in found if tick.is_coarse]
                is_coarse = not coarse or place - coarse[-1] >= _TICK_ON_A_PHONE
                found.append(Tick(place, hour_of(moment), day_of(moment), is_coarse))
        return found


def _round_times(now: datetime, piece: Piece, step: int) -> list[datetime]:
    start, end = now + timedelta(seconds=piece.begin), now + timedelta(seconds=piece.end)
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    moment = midnight + timedelta(seconds=step * -(-(start - midnight).total_seconds() // step))
    found = []
    while moment < end:
        found.append(moment)
        moment += timedelta(seconds=step)
    return found


def hour_of(moment: datetime) -> str:
    return f"{moment.hour:02}:{moment.minute:02}"


def day_of(moment: datetime) -> str:
    """Return ``21 Nov``, in whatever language Ansible runs."""
    return f"{moment.day} {_MONTHS[moment.month - 1]}"


def start_of(event: dict[str, Any], now: datetime) -> float | None:
    """Return the start in seconds from now, None where it is unknown. Azure does not tell when a start has been."""
    if event["event_status"] == STARTED:
        return 0.0
    not_before = read_utc(event["not_before"] or "")
    return None if not_before is None else (not_before - now).total_seconds()


def make_axis(report: Report) -> Axis:
    """Return the axis on which all events of the report have a place."""
    now = read_utc(report["generated_at"]) or datetime.now(timezone.utc)
    first = last = 0.0
    for event in report["events"]:
        begin = start_of(event, now)
        if begin is not None:
            first = min(first, begin)
            last = max(last, begin + (event["duration_seconds"] or 0))
    spans = [("first hour", 0.0, float(HOUR))]
    if last > HOUR:
        spans.append(("first day", float(HOUR), min(max(last, 2 * HOUR), DAY)))
    if last > DAY:
        spans.append(("first week", float(DAY), min(max(last, 2 * DAY), _FURTHEST_AHEAD)))
    pieces, left = [], _LEFT
    if first < 0:
        left = _OVERDUE
        pieces.append(Piece("overdue", max(first, -_FURTHEST_BACK), 0.0, _LEFT, left))
    room = _RIGHT - left
    for (name, begin, end), share in zip(spans, _SHARES[len(spans)]):
        pieces.append(Piece(name, begin, end, round(left, 2), round(left + share * room, 2)))
        left += share * room
    return Axis(now, tuple(pieces))
