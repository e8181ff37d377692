# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The timeline of a fleet report, drawn as SVG: a lane for each VM that has an event.

Places along the time are percentages, so that a narrow window squeezes the time and leaves the text as large as it is.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from html import escape
from typing import Any, NamedTuple

from ..module_utils._document import EVENT_TYPES, STARTED, fold_case
from ._fleet import Report
from ._fleet_parts import read_utc
from ._fleet_text import length, number, tidy, vm_label, when

_KNOWN_TYPES = {fold_case(word) for word in EVENT_TYPES}

_SHORTEST = 15 * 60
_FURTHEST_BACK = 3600
_FURTHEST_AHEAD = 7 * 86400
_STEPS = (60, 120, 300, 600, 900, 1800, 3600, 2 * 3600, 4 * 3600, 86400, 2 * 86400)
_MOST_TICKS = 6

_NAME_HEIGHT = 20
_EVENT_HEIGHT = 26


class Axis(NamedTuple):
    """The time that is drawn, in seconds from the time of the report."""

    now: datetime
    first: float
    last: float

    def place(self, seconds: float) -> float:
        """Return where on the axis a time lies, in percent, and its edge for what lies beyond."""
        part = (seconds - self.first) / (self.last - self.first)
        return round(100 * min(1.0, max(0.0, part)), 3)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the places of the round times, and how these are written."""
        step = next((step for step in _STEPS if (self.last - self.first) / step <= _MOST_TICKS), _STEPS[-1])
        start = self.now + timedelta(seconds=self.first)
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
        moment = midnight + timedelta(seconds=step * (int((start - midnight).total_seconds()) // step + 1))
        written = "%m-%d" if step >= 86400 else "%H:%M"
        found = []
        while (seconds := (moment - self.now).total_seconds()) < self.last:
            found.append((self.place(seconds), moment.strftime(written)))
            moment += timedelta(seconds=step)
        return found


def make_axis(report: Report) -> Axis:
    now = read_utc(report["generated_at"]) or datetime.now(timezone.utc)
    first, last = 0.0, float(_SHORTEST)
    for event in report["events"]:
        begin = start_of(event, now)
        if begin is not None:
            first = min(first, begin)
            last = max(last, begin + (event["duration_seconds"] or 0))
    first, last = max(first, -_FURTHEST_BACK), min(last, _FURTHEST_AHEAD)
    # Wide enough for the time that is written below its edges, on a phone too
    margin = (last - first) / 18
    return Axis(now, first - margin, last + margin)


def start_of(event: dict[str, Any], now: datetime) -> float | None:
    """Return the start in seconds from now, None where it is unknown. Azure does not tell when a start has been."""
    if event["event_status"] == STARTED:
        return 0.0
    not_before = read_utc(event["not_before"] or "")
    return None if not_before is None else (not_before - now).total_seconds()


def draw_timeline(report: Report) -> str:
    """Return the timeline as HTML: an axis that stays in sight, and the lanes below it."""
    lanes: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for row, event in enumerate(report["events"]):
        for label in dict.fromkeys(map(vm_label, event["vms"])) or ["no VM named"]:
            lanes.setdefault(label, []).append((row, event))
    axis = make_axis(report)
    ticks = axis.ticks()
    now = f'<line class="now" x1="{axis.place(0)}%" x2="{axis.place(0)}%" y1="0" y2="100%"/>'
    grid = "".join(f'<line class="grid" x1="{x}%" x2="{x}%" y1="0" y2="100%"/>' for x, _text in ticks)
    written = "".join(f'<text class="tick" x="{x}%" y="30">{text}</text>' for x, text in ticks)
    drawn, top = [], 0
    for label, events in lanes.items():
        height = _NAME_HEIGHT + _EVENT_HEIGHT * len(events)
        drawn.append(_draw_lane(label, events, axis, top, height))
        top += height
    said = f"Timeline: {number(len(lanes), 'VM')} with events. The table below says the same."
    return (
        '<div class="timeline" tabindex="0">'
        f'<svg class="axis" width="100%" height="36" aria-hidden="true">{grid}{now}'
        f'<text class="tick at-now" x="{axis.place(0)}%" y="13">now</text>{written}</svg>'
        f'<svg class="lanes" width="100%" height="{top}" role="group" aria-label="{said}">{grid}{now}{"".join(drawn)}'
        "</svg></div>"
    )


def _draw_lane(label: str, events: list[tuple[int, dict[str, Any]]], axis: Axis, top: int, height: int) -> str:
    drawn = "".join(
        _draw_event(row, event, axis, top + _NAME_HEIGHT + _EVENT_HEIGHT * place)
        for place, (row, event) in enumerate(events)
    )
    return (
        f'<g class="lane"><line class="edge" x1="0" x2="100%" y1="{top + height - 0.5}" y2="{top + height - 0.5}"/>'
        f'<text class="vm" x="6" y="{top + 15}">{escape(tidy(label))}</text>{drawn}</g>'
    )


def _draw_event(row: int, event: dict[str, Any], axis: Axis, top: int) -> str:
    begin = start_of(event, axis.now)
    kind = tidy(event["event_type"] or "unknown event")
    known = fold_case(kind) if fold_case(kind) in _KNOWN_TYPES else "other"
    classes = f"event {known}" + (" started" if event["event_status"] == STARTED else "")
    text = f"{kind} {when(event)}"
    told = escape(f"{text}; not before {event['not_before'] or 'unknown'}; expected length {length(event)}")
    if begin is None:
        place, shape = 0.0, ""
    else:
        place = axis.place(begin)
        width = round(axis.place(begin + (event["duration_seconds"] or 0)) - place, 3)
        shape = f'<rect class="bar" y="15" width="{width}%" height="6" rx="3"/>'
        if event["duration_seconds"] is None:
            shape = '<line class="open" x1="5" x2="45" y1="18" y2="18"/>'
        shape += '<circle class="start" cx="0" cy="18" r="4.5"/>'
        if begin > axis.last:
            text += " →"
    anchor = ' text-anchor="end" x="5"' if place > 55 else ' x="8"'
    # An inner picture as wide as the outer one: in it 0 is the start of the event.
    return (
        f'<a href="#event-{row + 1}"><svg class="{classes}" x="{place}%" y="{top}" width="100%" height="24">'
        f'<title>{told}</title><text class="what"{anchor} y="11">{escape(text)}</text>{shape}</svg></a>'
    )
