# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The answers of a fleet as lines of text that fit a terminal, where that can be."""

from __future__ import annotations

import textwrap
from collections import Counter
from datetime import datetime
from typing import Any, Sequence

from ..module_utils._document import SCHEDULED, STARTED, fold_case
from ..module_utils._errors import escape, one_line
from ..module_utils._summary import format_duration
from ._fleet import merge_events
from ._fleet_parts import AFFECTED, FAILED, NOT_ON_AZURE, QUIET, UNREACHABLE, HostResult
from ._fleet_text import vm_label

_HEADINGS = ("START", "TYPE", "LASTS", "SOURCE", "EVENT", "VMS")
_STATE_WORDS = {
    QUIET: "quiet",
    AFFECTED: "affected",
    UNREACHABLE: "unreachable",
    NOT_ON_AZURE: "not on Azure",
    FAILED: "failed",
}
_GAP = "  "
# So many characters of an id tell events apart as well as the whole, for people.
_SHORT_ID = 8
_LONGEST_CELL = 24
_LEAST_ROOM = 20
_LONGEST_NAME = 70
# Lines; where many hosts give no answer, the table of events must not be pushed out of sight.
_LONGEST_REASON, _LONGEST_OF_MANY = 2, 1
_MANY = 10


def fleet_lines(results: Sequence[HostResult], width: int, now: datetime) -> list[str]:
    """Return the table of events, the hosts that gave no answer, and the line that counts."""
    lines = _table(merge_events(results, now), width)
    silent = sorted((told for told in results if told["state"] not in (QUIET, AFFECTED)), key=lambda told: told["host"])
    if silent:
        lines += ([""] if lines else []) + ["No answer from:"] + _silent_lines(silent, width)
    if lines:
        lines.append("")
    numbers = Counter(told["state"] for told in results)
    counts = ", ".join(f"{numbers[state]} {words}" for state, words in _STATE_WORDS.items())
    asked = len(results)
    return [*lines, f"{asked} {'host' if asked == 1 else 'hosts'} asked: {counts}"]


def _table(events: Sequence[dict[str, Any]], width: int) -> list[str]:
    if not events:
        return []
    whole = _layout(events, width, None)
    return whole if max(map(len, whole)) <= width else _layout(events, width, _SHORT_ID)


def _layout(events: Sequence[dict[str, Any]], width: int, id_length: int | None) -> list[str]:
    """Lay the rows out. With whole ids nothing is shortened; with short ones the list of VMs is what gives way."""
    cells = [_HEADINGS[:-1], *(_cells(event, id_length) for event in events)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    room = max(width - sum(widths) - len(_GAP) * len(widths), _LEAST_ROOM)
    last = [_HEADINGS[-1], *(_list_vms(event, room if id_length else None) for event in events)]
    return [
        _GAP.join([*(cell.ljust(size) for cell, size in zip(line, widths)), names]).rstrip()
        for line, names in zip(cells, last)
    ]


def _cells(event: dict[str, Any], id_length: int | None) -> tuple[str, ...]:
    return (
        _start(event),
        _cell(event["event_type"]),
        "-" if event["duration_seconds"] is None else format_duration(event["duration_seconds"]),
        _cell(event["event_source"]),
        one_line(event["event_id"])[:id_length],
    )


def _cell(text: str | None) -> str:
    return _cut(one_line(text or "-"), _LONGEST_CELL)


def _start(event: dict[str, Any]) -> str:
    status, seconds = event["event_status"], event["seconds_until_start"]
    if status == STARTED:
        return "started"
    start = "unknown" if seconds is None else "now"
    if seconds:
        start = f"in {format_duration(seconds)}"
    scheduled = fold_case(status or "") == fold_case(SCHEDULED)
    return start if scheduled else _cut(f"{start}, {one_line(status or 'no status')}", _LONGEST_CELL)


def _list_vms(event: dict[str, Any], room: int | None) -> str:
    """Join the names; where they need more room, as many of the first ones as it takes, and how many are left."""
    if not event["resources"]:
        return "none named"
    shown = [_cut(one_line(vm_label(vm)), _LONGEST_NAME) for vm in event["vms"]]
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


def _silent_lines(results: Sequence[HostResult], width: int) -> list[str]:
    names = [escape(told["host"]) for told in results]
    indent = max(map(len, names)) + 2 * len(_GAP)
    lines = []
    for name, told in zip(names, results):
        # A name as long as the terminal is wide is still told, and so is why.
        lines += textwrap.wrap(
            f"{_STATE_WORDS[told['state']]}: {escape(told['message'] or '')}",
            max(width, indent + _LEAST_ROOM),
            initial_indent=f"{_GAP}{name}{_GAP}".ljust(indent),
            subsequent_indent=" " * indent,
            max_lines=_LONGEST_OF_MANY if len(results) > _MANY else _LONGEST_REASON,
            placeholder=" …",
        )
    return lines


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
