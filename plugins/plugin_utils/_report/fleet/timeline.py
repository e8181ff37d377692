# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The timeline of a fleet report: a table with a row for each VM, and its events drawn as SVG.

VMs that share an event share a row. The head of the table is the axis, so a printer repeats it on each page.
Places along the time are percentages, so that a narrow window squeezes the time and leaves the text as large as it is.
"""

from __future__ import annotations

from html import escape
from typing import Any

from ....module_utils._event.document import EVENT_TYPES, STARTED, fold_case, read_utc
from ..text import clean, counted
from .axis import Axis, Tick, day_of, hour_of, make_axis, start_of
from .elements import name_list, starts
from .merge import Report
from .text import duration_text, vm_labels

_KNOWN_TYPES = {fold_case(word) for word in EVENT_TYPES}

_AXIS_HEIGHT = 62
_EVENT_HEIGHT = 25
_LONGEST_TYPE = 24


def draw_timeline(report: Report) -> str:
    """Return the timeline as HTML: an axis that stays in sight, and the rows below it."""
    axis = make_axis(report)
    lanes: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for row, event in enumerate(report["events"], start=1):
        lanes.setdefault(tuple(vm_labels(event)), []).append((row, event))
    rows = "\n".join(_draw_lane(events, axis) for events in lanes.values())
    pieces = ";".join(f"{piece.begin:g},{piece.end:g},{piece.left:g},{piece.right:g}" for piece in axis.pieces)
    said = f"Timeline of {counted(len(report['events']), 'event')}. The table of events says the same."
    return (
        f'{_shared_drawings(axis)}<div class="scroll" tabindex="0" role="region" aria-label="{said}">'
        f'<table class="timeline" data-axis="{pieces}"><thead><tr><th scope="col">VMs</th>'
        f'<th scope="col" class="plot"><span class="unseen">Time</span>{_draw_axis(axis)}</th></tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _shared_drawings(axis: Axis) -> str:
    """Return the background of the rows, once for all of them; the script moves the line of now."""
    later = "".join(
        f'<rect class="later" x="{piece.left}%" width="{100 - piece.left:.2f}%" height="100%"/>'
        f'<line class="break" x1="{piece.left}%" x2="{piece.left}%" y2="100%"/>'
        for piece in axis.pieces
        if piece.begin > 0
    )
    grid = "".join(f'<line class="{_kind(tick)}" x1="{tick.place}%" x2="{tick.place}%" y2="100%"/>'
                   for tick in axis.ticks())  # fmt: skip
    now = axis.place(0)
    return (
        f'<svg class="unseen" aria-hidden="true"><defs><g id="grid">{later}{grid}</g>'
        f'<line id="now" class="now" x1="{now}%" x2="{now}%" y2="100%"/></defs></svg>'
    )


def _kind(tick: Tick) -> str:
    return "grid" if tick.is_coarse else "grid fine"


def _draw_axis(axis: Axis) -> str:
    drawn = [_behind()]
    for piece in axis.pieces:
        middle = (piece.left + piece.right) / 2
        drawn.append(
            f'<line class="span" x1="{piece.left}%" x2="{piece.right}%" y1="18.5" y2="18.5"/>'
            f'<text class="piece" x="{middle:.2f}%" y="13">{piece.name}</text>'
        )
        if piece.begin > 0:
            # Across the line, where time goes on faster
            drawn.append(f'<text class="cut" x="{piece.left}%" y="23">//</text>')
    for tick in axis.ticks():
        kind = "" if tick.is_coarse else " fine"
        drawn.append(
            f'<text class="tick{kind}" x="{tick.place}%" y="32">{tick.hour}</text>'
            f'<text class="tick{kind}" x="{tick.place}%" y="44">{tick.day}</text>'
        )
    now = f'<text id="at-now" class="tick at-now" x="{axis.place(0)}%" dx="4" y="58">now</text>'
    return f'<svg class="axis" width="100%" height="{_AXIS_HEIGHT}" aria-hidden="true">{"".join(drawn)}{now}</svg>'


def _behind() -> str:
    return '<use href="#grid"/><use href="#now"/>'


def _draw_lane(events: list[tuple[int, dict[str, Any]]], axis: Axis) -> str:
    drawn = "".join(_draw_event(row, event, axis, _EVENT_HEIGHT * place) for place, (row, event) in enumerate(events))
    return (
        f'<tr><th scope="row">{name_list(events[0][1])}</th><td class="plot">'
        f'<svg class="behind" aria-hidden="true">{_behind()}</svg>'
        f'<svg class="lane" width="100%" height="{_EVENT_HEIGHT * len(events)}">{drawn}</svg></td></tr>'
    )


def _draw_event(row: int, event: dict[str, Any], axis: Axis, top: int) -> str:
    begin = start_of(event, axis.now)
    kind = clean(event["event_type"] or "unknown event")
    known = fold_case(kind) if fold_case(kind) in _KNOWN_TYPES else "other"
    kind = kind if len(kind) <= _LONGEST_TYPE else kind[:_LONGEST_TYPE] + "…"
    classes = f"event {known}" + (" started" if event["event_status"] == STARTED else "")
    told = escape(f"{kind}, not before {event['not_before'] or 'unknown'}, expected length {duration_text(event)}")
    shape = ""
    place = axis.place(0 if begin is None else begin)
    if begin is not None:
        width = round(axis.place(begin + (event["duration_seconds"] or 0)) - place, 2)
        shape = f'<rect class="bar" y="15" width="{width}%" height="6" rx="3"/>'
        if event["duration_seconds"] is None:
            shape = '<line class="open" x1="5" x2="35" y1="18" y2="18"/>'
        shape += '<circle class="start" cx="0" cy="18" r="4.5"/>'
    anchor = ' class="what back" x="5"' if place > 50 else ' class="what" x="7"'
    # An inner picture as wide as the outer one: in it 0 is the start of the event.
    return (
        f'<a href="#event-{row}"><svg class="{classes}" x="{place}%" y="{top}" width="100%" height="{_EVENT_HEIGHT}">'
        f'<title>{told}</title><text{anchor} y="12">{escape(kind)} {starts(event, "tspan")}{_absolute(event, axis)}'
        f"</text>{shape}</svg></a>"
    )


def _absolute(event: dict[str, Any], axis: Axis) -> str:
    """Return the time of the start, with its day and its year where these are other ones."""
    moment = read_utc(event["not_before"] or "")
    if moment is None or event["event_status"] == STARTED:
        return ""
    day = "" if moment.date() == axis.now.date() else f"{day_of(moment)} "
    day += "" if moment.year == axis.now.year else f"{moment.year} "
    beyond = " →" if (moment - axis.now).total_seconds() > axis.last else ""
    return f' <tspan class="clock">{day}{hour_of(moment)}{beyond}</tspan>'
