# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The answers of a fleet as lines of text that fit a terminal, where that can be."""

from __future__ import annotations

import textwrap
from typing import Sequence

from ..module_utils._errors import escape, plain
from ..module_utils._summary import format_duration
from ._fleet_query import AFFECTED, QUIET, Answer, Row, count, merge

_HEADINGS = ("START", "TYPE", "LASTS", "SOURCE", "EVENT", "VMS")
_GAP = "  "
# So many characters of an id tell events apart as well as the whole, for people.
_SHORT_ID = 8
_LONGEST_CELL = 24
_LEAST_ROOM = 20
_LONGEST_NAME = 70
# Lines
_LONGEST_REASON = 2


def fleet_lines(answers: Sequence[Answer], width: int) -> list[str]:
    """Return the table of events, the hosts that gave no answer, and the line that counts."""
    lines = _table(merge(answers), width)
    silent = sorted((one for one in answers if one.state not in (QUIET, AFFECTED)), key=lambda one: one.host)
    if silent:
        lines += ([""] if lines else []) + ["No answer from:"] + _silent_lines(silent, width)
    if lines:
        lines.append("")
    counts = ", ".join(f"{number} {state}" for state, number in count(answers).items())
    asked = len(answers)
    return [*lines, f"{asked} {'host' if asked == 1 else 'hosts'} asked: {counts}"]


def _table(rows: Sequence[Row], width: int) -> list[str]:
    if not rows:
        return []
    whole = _layout(rows, width, None)
    return whole if max(map(len, whole)) <= width else _layout(rows, width, _SHORT_ID)


def _layout(rows: Sequence[Row], width: int, id_length: int | None) -> list[str]:
    """Lay the rows out. With whole ids nothing is shortened; with short ones the list of VMs is what gives way."""
    cells = [_HEADINGS[:-1], *(_cells(row, id_length) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    room = max(width - sum(widths) - len(_GAP) * len(widths), _LEAST_ROOM)
    last = [_HEADINGS[-1], *(_list_names(row.vms, room if id_length else None) for row in rows)]
    return [
        _GAP.join([*(cell.ljust(size) for cell, size in zip(line, widths)), names]).rstrip()
        for line, names in zip(cells, last)
    ]


def _cells(row: Row, id_length: int | None) -> tuple[str, ...]:
    return (
        _start(row),
        _cell(row.event_type),
        "-" if row.duration_seconds is None else format_duration(row.duration_seconds),
        _cell(row.event_source),
        plain(row.event_id)[:id_length],
    )


def _cell(text: str | None) -> str:
    return _cut(plain(text or "-"), _LONGEST_CELL)


def _start(row: Row) -> str:
    if row.has_started:
        return "started"
    if row.seconds_until_start is None:
        start = "unknown"
    elif row.seconds_until_start == 0:
        start = "now"
    else:
        start = f"in {format_duration(row.seconds_until_start)}"
    return start if row.is_scheduled else _cut(f"{start}, {plain(row.event_status or 'no status')}", _LONGEST_CELL)


def _list_names(names: Sequence[str], room: int | None) -> str:
    """Join the names; where they need more room, as many of the first ones as it takes, and how many are left."""
    if not names:
        return "none named"
    shown = [_cut(plain(name), _LONGEST_NAME) for name in names]
    whole = ", ".join(shown)
    if room is None or len(whole) <= room:
        return whole
    number = 1
    while len(_first(shown, number + 1)) <= room:
        number += 1
    return _first(shown, number)


def _first(names: Sequence[str], number: int) -> str:
    left = len(names) - number
    return ", ".join(names[:number]) + (f", +{left} more" if left > 0 else "")


def _silent_lines(answers: Sequence[Answer], width: int) -> list[str]:
    names = [escape(answer.host) for answer in answers]
    indent = max(map(len, names)) + 2 * len(_GAP)
    lines = []
    for name, answer in zip(names, answers):
        # A name as long as the terminal is wide is told all the same, and so is why.
        lines += textwrap.wrap(
            f"{answer.state}: {escape(answer.reason)}",
            max(width, indent + _LEAST_ROOM),
            initial_indent=f"{_GAP}{name}{_GAP}".ljust(indent),
            subsequent_indent=" " * indent,
            max_lines=_LONGEST_REASON,
            placeholder=" …",
        )
    return lines


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
