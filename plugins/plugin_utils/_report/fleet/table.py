# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The answers of a fleet as lines of text that fit a terminal, where that can be."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from datetime import datetime
from typing import Any, Mapping, Sequence

from ....module_utils._errors import escape, one_line
from ....module_utils._event.document import SCHEDULED, STARTED, fold_case, read_utc
from ....module_utils._event.sentences import format_duration
from ..slices import HostResult
from ..text import natural_key
from .host_results import AFFECTED, FAILED, NOT_ON_AZURE, QUIET, UNREACHABLE
from .merge import merge_events
from .text import vm_labels

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
_SECONDS_COUNT = 600
_LEAST_ROOM_FOR_A_REASON = 20
# Beside descriptions; so two or three names of a usual length stay in their row.
_LEAST_ROOM_FOR_VMS = 32
_LONGEST_NAME = 70
# Lines of VMs below the row of an event, where they have no room in it
_MOST_VM_LINES = 2
# Lines; where many hosts give no answer, the table of events must not be pushed out of sight.
_LONGEST_REASON, _LONGEST_OF_MANY = 2, 1
_MANY = 10
# Ansible's words for an option that there is not; in so few lines its name would not be reached.
_UNSUPPORTED = re.compile(r"(?<=^Unsupported parameters) for \(\S+\) module(?=: )")


def fleet_lines(
    results: Sequence[HostResult], width: int, now: datetime, outcomes: Mapping[str, str] | None = None
) -> list[str]:
    """Return the table of events, the hosts that gave no answer, and the line that counts.

    :param outcomes: of events that are over, by their ids in small letters.
    """
    events = merge_events(results, now)
    lines = _table(events, width, now, outcomes or {})
    answered = {told["host"] for told in results if told["reason"] is None}
    affected = {told["host"] for told in results if told["host"] in answered and told["events"]}
    others = [vm["resource"] for event in events for vm in event["vms"] if vm["host"] not in affected]
    if others:
        shown = [_cut(one_line(name), _LONGEST_NAME) for name in sorted(dict.fromkeys(others), key=natural_key)]
        lines += ["", "Also affected: " + _fit(shown, width - len("Also affected: "))]
    out = sorted((told for told in results if told["out_of_service"]), key=lambda told: natural_key(told["host"]))
    if out:
        lines += ([""] if lines else []) + ["Out of service:"] + _out_lines(out, width)
    silent = [told for told in results if told["state"] not in (QUIET, AFFECTED)]
    silent.sort(key=lambda told: natural_key(told["host"]))
    # A condition of the task, such as failed_when, may make it fail after a whole answer.
    for heading, of_answered in (("Failed after their answer:", True), ("No answer from:", False)):
        failed = [told for told in silent if (told["host"] in answered) is of_answered]
        if failed:
            lines += ([""] if lines else []) + [heading] + _silent_lines(failed, width)
    if lines:
        lines.append("")
    numbers = Counter(told["state"] for told in results)
    told_of = [state for state in _STATE_WORDS if state != AFFECTED or numbers[AFFECTED] or not others]
    counts = ", ".join(f"{numbers[state]} {_STATE_WORDS[state]}" for state in told_of)
    asked = len(results)
    return [*lines, f"{asked} {'host' if asked == 1 else 'hosts'} asked: {counts}"]


def _table(events: Sequence[dict[str, Any]], width: int, now: datetime, outcomes: Mapping[str, str]) -> list[str]:
    """Return the widest table that fits: with descriptions where there is room, and whole ids where there is more."""
    if not events:
        return []
    described = any(event["description"] for event in events)
    descriptions = [one_line(event["description"] or "") for event in events]
    for id_length, with_description in ((None, described), (_SHORT_ID, described), (None, False)):
        rows = [_cells(event, id_length, now, outcomes) for event in events]
        vms = [_fit(_vm_names(event), None) for event in events]
        lines = _join(_headings(id_length), rows, vms, descriptions if with_description else None)
        if max(map(len, lines)) <= width:
            return lines
    rows = [_cells(event, _SHORT_ID, now, outcomes) for event in events]
    room = width - sum(max(map(len, column)) + len(_GAP) for column in zip(_headings(_SHORT_ID), *rows))
    beside = room - max(map(len, descriptions)) - len(_GAP)
    with_description = described and beside >= _LEAST_ROOM_FOR_VMS
    names = [_vm_names(event) for event in events]
    below = [len(_fit(each, None)) > (beside if with_description else room) for each in names]
    vms = [_counted(each) if is_below else _fit(each, None) for each, is_below in zip(names, below)]
    heading, *lines = _join(_headings(_SHORT_ID), rows, vms, descriptions if with_description else None)
    for index in reversed(range(len(events))):
        if below[index]:
            lines[index + 1 : index + 1] = _vm_lines(names[index], width)
    return [heading, *lines]


def _headings(id_length: int | None) -> tuple[str, ...]:
    return ("START", "UTC" if id_length else "NOT BEFORE", "TYPE", "LASTS", "SOURCE", "EVENT")


def _join(
    headings: Sequence[str], rows: Sequence[Sequence[str]], vms: Sequence[str], descriptions: Sequence[str] | None
) -> list[str]:
    lines = [[*headings, "VMS"], *([*row, names] for row, names in zip(rows, vms))]
    if descriptions is not None:
        lines = [[*line, text] for line, text in zip(lines, ["DESCRIPTION", *descriptions])]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return [_GAP.join(cell.ljust(size) for cell, size in zip(line, widths)).rstrip() for line in lines]


def _cells(event: dict[str, Any], id_length: int | None, now: datetime, outcomes: Mapping[str, str]) -> tuple[str, ...]:
    outcome = outcomes.get(fold_case(event["event_id"]))
    moment = read_utc(event["not_before"] or "")
    # Without room for all, the year and the seconds are missed least.
    when = "-" if moment is None else moment.strftime("%m-%d %H:%M") if id_length else event["not_before"]
    return (
        _start(event) if outcome is None else _cell(outcome),
        # Of an event that is over, this time may not have come yet: an approval makes it start before.
        when if outcome is None else "-",
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
        # The time itself stands beside it, so seconds are told only where they count.
        start = f"in {format_duration(seconds if seconds < _SECONDS_COUNT else seconds - seconds % 60)}"
    scheduled = fold_case(status or "") == fold_case(SCHEDULED)
    return start if scheduled else _cut(f"{start}, {one_line(status or 'no status')}", _LONGEST_CELL)


def _vm_names(event: dict[str, Any]) -> list[str]:
    if not event["resources"]:
        return ["none named"]
    return [_cut(one_line(label), _LONGEST_NAME) for label in vm_labels(event)]


def _fit(names: Sequence[str], room: int | None) -> str:
    """Join the names; where they need more room, as many of the first ones as it takes, and how many are left."""
    whole = ", ".join(names)
    if room is None or len(whole) <= room:
        return whole
    number = 1
    while number < len(names) and len(_first(names, number + 1)) <= room:
        number += 1
    text = _first(names, number)
    if len(text) <= room:
        return text
    rest = text[len(names[0]) :]
    return _cut(names[0], max(room - len(rest), 2)) + rest


def _counted(names: Sequence[str]) -> str:
    return f"{len(names)} {'VM' if len(names) == 1 else 'VMs'}:"


def _vm_lines(names: Sequence[str], width: int) -> list[str]:
    """Return the names on lines of their own; the last line ends with the number of those left out."""
    room = max(width - len(_GAP), _LONGEST_NAME)
    lines: list[str] = []
    rest = list(names)
    while rest:
        last = len(lines) + 1 == _MOST_VM_LINES
        number = 1
        while number < len(rest) and len(", ".join(rest[: number + 1])) + 1 <= room:
            number += 1
        if last or number == len(rest):
            lines.append(_fit(rest, room))
            break
        lines.append(", ".join(rest[:number]) + ",")
        rest = rest[number:]
    return [_GAP + line for line in lines]


def _first(names: Sequence[str], number: int) -> str:
    left = len(names) - number
    return ", ".join(names[:number]) + (f", +{left} more" if left > 0 else "")


def _out_lines(results: Sequence[HostResult], width: int) -> list[str]:
    return [
        line
        for told in results
        for why in told["out_of_service"]
        for line in textwrap.wrap(
            escape(f"{told['host']}  {why}"),
            max(width, _LONGEST_NAME),
            initial_indent=_GAP,
            subsequent_indent=_GAP * 3,
        )
    ]


def _silent_lines(results: Sequence[HostResult], width: int) -> list[str]:
    names = [escape(told["host"]) for told in results]
    longest = max(width // 2, len(_GAP) * 2 + _LEAST_ROOM_FOR_A_REASON)
    indent = min(max(map(len, names)) + 2 * len(_GAP), longest)
    lines = []
    for name, told in zip(names, results):
        begin = f"{_GAP}{name}{_GAP}".ljust(indent)
        if len(begin) > indent:
            # A long name has a line of its own, and leaves room for the reason.
            lines.append(begin.rstrip())
            begin = " " * indent
        lines += textwrap.wrap(
            f"{_STATE_WORDS[told['state']]}: {escape(_UNSUPPORTED.sub('', told['message'] or ''))}",
            max(width, indent + _LEAST_ROOM_FOR_A_REASON),
            initial_indent=begin,
            subsequent_indent=" " * indent,
            max_lines=_LONGEST_OF_MANY if len(results) > _MANY else _LONGEST_REASON,
            placeholder=" …",
        )
    return lines


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    # The name of a VM may end with that of its host, in brackets.
    end = "…)" if text.endswith(")") and "(" in text[: length - 2] else "…"
    return text[: length - len(end)] + end
