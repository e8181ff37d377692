# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""A fleet history in words: for the terminal, as Markdown, CSV and JSON. Text from outside is escaped for each."""

from __future__ import annotations

import csv
import json
from operator import itemgetter
from typing import Any, Callable, Iterable, Sequence

from ....module_utils._errors import one_line
from ....module_utils._event.history_row import CHECKER, NOTICE_SOURCE, OTHER
from ....module_utils._event.sentences import format_duration
from ..outside import first_names
from ..slices import clean_json_line
from ..text import cell, counted, markdown
from .host_results import DAMAGED, FAILED, NO_CHECKER, NOT_ASKED, OTHER_VERSION, TOLD, UNREACHABLE
from .merge import Report

STATE_WORDS = {
    TOLD: "with a history",
    DAMAGED: "with a damaged one",
    NO_CHECKER: "without a checker",
    OTHER_VERSION: "with a checker of another version",
    UNREACHABLE: "unreachable",
    FAILED: "without a usable answer",
    NOT_ASKED: "not asked",
}
_ALWAYS_COUNTED = (TOLD, NO_CHECKER, UNREACHABLE)
APPROVERS = {CHECKER: "a checker", OTHER: "somebody else", None: "unknown"}

MOST_WEEKS = 60
_MOST_EVENTS = 50
_MOST_VMS = 100
_MOST_HOSTS = 1000

_OF_THE_EVENT = (
    "week", "event_id", "event_type", "event_source", "description", "leader", "resources_count", "duration_seconds",
    "documented_notice_seconds", "simulated", "azure_outcome",
)  # fmt: skip
_OF_THE_HOST = ("host", "resource_name", "state", "reason", "message", "checker_version")
_OF_THE_VM = (
    "first_seen_at", "not_before_first", "not_before_last", "notice_seconds", "shorter", "approved_by", "approved_at",
    "started_at", "approval_to_start_seconds", "ended_at", "lasted_seconds", "outcome", "prepare_seconds", "responses",
    "failed_responses", "failed_phases", "late", "doubtful",
)  # fmt: skip
CSV_COLUMNS = (*_OF_THE_HOST, *_OF_THE_EVENT, *_OF_THE_VM)


def count_hosts(report: Report) -> str:
    """Return ``5 hosts asked: 3 with a history, 1 without a checker, 1 unreachable``."""
    counts = report["counts"]
    told = [
        f"{counts[state]:,} {word}" for state, word in STATE_WORDS.items() if counts[state] or state in _ALWAYS_COUNTED
    ]
    return f"{counted(counts['asked'], 'host')} asked: {', '.join(told)}"


def count_events(report: Report) -> str:
    counts = report["counts"]
    told = [f"{counts[name]:,} {name}" for name in ("completed", "withdrawn", "open")]
    words = {
        "shorter": "with a shorter notice than documented",
        "late": "prepared for too late",
        "doubtful": "with times that contradict each other",
    }
    told += [f"{counts[name]:,} {word}" for name, word in words.items() if counts[name]]
    failed = f"; {counted(counts['failed_responses'], 'response')} failed" if counts["failed_responses"] else ""
    left_out = f"; {counts['simulated']:,} of simulators left out" if counts["simulated"] else ""
    return f"{counted(counts['events'], 'event')}: {', '.join(told)}{failed}{left_out}"


def nothing_known(report: Report) -> str:
    """Return the sentence for no event: silence of the VMs is no good news."""
    if report["counts"][TOLD]:
        return "No VM that answered remembers an event."
    return "No VM told its history, so nothing is known."


def seconds(value: int | None) -> str:
    return "" if value is None else format_duration(value)


def part_of(spread: dict[str, int] | None, name: str) -> str:
    """Return one number of a spread as a duration, nothing where none is known."""
    return "" if spread is None else format_duration(spread[name])


def _range(spread: dict[str, int]) -> str:
    least, most = part_of(spread, "least"), part_of(spread, "most")
    return least if least == most else f"{least} to {most}"


def documented(notice: dict[str, int] | None) -> str:
    if notice is None:
        return ""
    least, most = notice["least"], notice["most"]
    # All documented ranges are of whole minutes.
    return format_duration(least) if least == most else f"{least // 60} to {most // 60} min"


def without_history(report: Report) -> list[dict[str, Any]]:
    return [host for host in report["hosts"] if host["state"] != TOLD]


def worst_vms(report: Report) -> list[dict[str, Any]]:
    """Return the VMs with most trouble, then with most events."""
    return sorted(report["vms"], key=lambda vm: (-vm["failed_responses"] - vm["late"], -vm["events"]))


def _approvals(one: dict[str, Any]) -> str:
    return f"{one['approved_by_checker']:,}, {one['approved_by_other']:,}, {one['approval_unknown']:,}"


# The columns for a type, a week or a VM: the head and the text
SUMMARY_COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("Events", lambda one: f"{one['events']:,}"),
    ("Withdrawn", lambda one: f"{one['withdrawn']:,}"),
    ("Notice, least", lambda one: part_of(one["notice"], "least")),
    ("Notice, median", lambda one: part_of(one["notice"], "median")),
    ("Shorter", lambda one: f"{one['shorter']:,}"),
    ("Approval to start, median", lambda one: part_of(one["approval_to_start"], "median")),
    ("Lasted, median", lambda one: part_of(one["lasted"], "median")),
    ("Lasted, most", lambda one: part_of(one["lasted"], "most")),
    ("Prepared in, most", lambda one: part_of(one["prepare"], "most")),
    ("Approved: checkers, others, unknown", _approvals),
    ("Failed responses", lambda one: f"{one['failed_responses']:,}"),
    ("Late", lambda one: f"{one['late']:,}"),
)
SUMMARY_HEADS = tuple(head for head, _text in SUMMARY_COLUMNS)
TYPE_HEADS = ("Type", "Notice, documented", *SUMMARY_HEADS)
WEEK_HEADS = ("Week", "Type", *SUMMARY_HEADS)
VM_HEADS = ("VM", *SUMMARY_HEADS)
EVENT_HEADS = (
    "First seen", "Type", "VMs", "Outcome", "Notice", "Documented", "Approved by", "Approval to start", "Lasted",
    "Failed", "Late", "Source", "Description", "Event",
)  # fmt: skip
AZURE_EVENT_HEADS = ("Type", "VMs", "Outcome", "Not before", "Source", "Description", "Event")
AZURE_CAUSE_HEADS = ("Time", "VM", "Note", "Reason", "Category", "Context", "Description")
HOST_HEADS = ("Host", "State", "Reason", "Message")


def summary_cells(one: dict[str, Any]) -> tuple[str, ...]:
    return tuple(text(one) for _head, text in SUMMARY_COLUMNS)


def type_rows(report: Report) -> list[tuple[str, ...]]:
    return [(one["event_type"], documented(one["documented_notice"]), *summary_cells(one)) for one in report["types"]]


def week_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the rows of the latest weeks."""
    weeks = list(dict.fromkeys(one["week"] for one in report["weeks"]))[:MOST_WEEKS]
    kept = set(weeks)
    return [(one["week"], one["event_type"], *summary_cells(one)) for one in report["weeks"] if one["week"] in kept]


def vm_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the rows of the VMs with most trouble."""
    return [(vm["resource_name"] or vm["host"], *summary_cells(vm)) for vm in worst_vms(report)[:_MOST_VMS]]


def event_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the rows of the newest events."""
    return [_event_row(event) for event in report["events"][:_MOST_EVENTS]]


def azure_event_rows(report: Report) -> list[tuple[str, ...]]:
    return [
        (
            event["event_type"] or "unknown",
            first_names(event["hosts"]),
            event["outcome"] or f"open ({event['event_status'] or 'unknown'})",
            _time(event["not_before"]),
            event["event_source"] or "",
            event["description"] or "",
            event["event_id"],
        )
        for event in report["azure_events"][:_MOST_EVENTS]
    ]


def azure_cause_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the rows of the newest of Azure's notes on the health of VMs."""
    causes = sorted(report["azure_causes"], key=lambda cause: cause["occurred_at"] or "", reverse=True)[:_MOST_EVENTS]
    names = ("annotation", "reason", "category", "context", "summary")
    return [(_time(cause["occurred_at"]), cause["host"], *(cause[name] or "" for name in names)) for cause in causes]


def azure_lines(report: Report) -> list[str]:
    """Return how many events only Azure Resource Graph tells of, and what it did not tell."""
    count = report["counts"]["told_by_azure"]
    lines = [f"Azure Resource Graph tells of {counted(count, 'event')} that no checker saw."] if count else []
    return [*lines, *(report["azure_messages"] or [])]


def _time(text: str | None) -> str:
    return (text or "").replace("T", " ").replace("Z", "")


def _event_row(event: dict[str, Any]) -> tuple[str, ...]:
    names = [vm["resource_name"] or vm["host"] for vm in event["vms"]]
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    by = APPROVERS.get(event["approved_by"], APPROVERS[OTHER])
    return (
        _time(event["first_seen_at"]),
        event["event_type"] or "unknown",
        ", ".join(names[:3]) + more,
        (event["outcome"] or "open") + (" (Azure)" if event["azure_outcome"] else ""),
        seconds(event["notice_seconds"]) + (" (doubtful)" if event["doubtful"] else ""),
        seconds(event["documented_notice_seconds"]),
        f"{by}: {event['approved_on'][0]}" if event["approved_on"] else by,
        seconds(event["approval_to_start_seconds"]),
        seconds(event["lasted_seconds"]),
        str(event["failed_responses"] or ""),
        "late" if event["late"] else "",
        event["event_source"] or "",
        event["description"] or "",
        event["event_id"],
    )


def host_rows(report: Report) -> list[tuple[str, ...]]:
    hosts = without_history(report)[:_MOST_HOSTS]
    return [(host["host"], STATE_WORDS[host["state"]], host["reason"] or "", host["message"] or "") for host in hosts]


def not_shown(report: Report, shown: Sequence[Any], name: str) -> str:
    """Return a sentence on the rows that a table leaves out, empty where it has all."""
    every = len(without_history(report)) if name == "hosts" else len(report[name])
    left = every - len(shown)
    rows = {"vms": "VMs", "azure_events": "events", "azure_causes": "notes"}.get(name, name)
    files = "history.json" if name == "azure_causes" else "history.csv and history.json"
    return f"{left:,} more {rows} are in {files}." if left > 0 else ""


def as_lines(report: Report) -> list[str]:
    """Return the summary for a terminal."""
    lines = [f"{count_hosts(report)}.", f"{count_events(report)}."]
    lines += [] if report["events"] else [nothing_known(report)]
    for one in report["types"]:
        notice, lasted = one["notice"], one["lasted"]
        told = [f"{one['event_type']}: {counted(one['events'], 'event')}"]
        if notice is not None:
            span = f"notice {_range(notice)}"
            known = documented(one["documented_notice"])
            told.append(f"{span} (documented: {known})" if known else span)
        if lasted is not None:
            told.append(f"lasted {_range(lasted)}")
        lines.append("; ".join(told))
    lines += azure_lines(report)
    hosts = without_history(report)
    lines += [f"{one_line(host['host'])}: {one_line(host['message'] or host['state'])}" for host in hosts[:10]]
    if len(hosts) > 10:
        lines.append(f"and {counted(len(hosts) - 10, 'more host')} without a whole history")
    return lines


def as_markdown(report: Report) -> str:
    lines = ["# What Azure really did", "", f"{report['generated_at']}: {markdown(count_hosts(report))}.", ""]
    lines += [f"{markdown(count_events(report))}.", ""]
    lines += [] if report["events"] else [nothing_known(report), ""]
    for text in azure_lines(report):
        lines += [markdown(text), ""]
    tables = (
        ("By type", TYPE_HEADS, type_rows(report), ""),
        ("By week and type", WEEK_HEADS, week_rows(report), ""),
        ("VMs", VM_HEADS, vm_rows(report), "vms"),
        ("Events", EVENT_HEADS, event_rows(report), "events"),
        ("Events that no checker saw", AZURE_EVENT_HEADS, azure_event_rows(report), "azure_events"),
        ("Azure's notes on the VMs", AZURE_CAUSE_HEADS, azure_cause_rows(report), "azure_causes"),
        ("Hosts without a whole history", HOST_HEADS, host_rows(report), "hosts"),
    )
    for title, heads, rows, name in tables:
        if rows:
            lines += [f"## {title}", "", *_table(heads, rows), ""]
            left = not_shown(report, rows, name) if name else ""
            lines += [left, ""] if left else []
    return "\n".join([*lines, f"The documented notice is that of <{NOTICE_SOURCE}>.", ""])


def _table(heads: Iterable[str], rows: Iterable[tuple[str, ...]]) -> list[str]:
    heads = tuple(heads)
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    return lines + [f"| {' | '.join(map(markdown, row))} |" for row in rows]


def as_csv(report: Report) -> str:
    """Return a row for each VM of each event, and for each host that has none; all fields are quoted."""
    lines = [_csv(CSV_COLUMNS)]
    starts = {host["host"]: _csv(host[name] for name in _OF_THE_HOST) for host in report["hosts"]}
    silent = dict(starts)
    for event in report["events"]:
        told = _csv(event[name] for name in _OF_THE_EVENT)
        for vm in event["vms"]:
            silent.pop(vm["host"], None)
            lines.append(f"{starts[vm['host']]},{told},{_csv_of_vm(vm)}")
    unknown = [""] * len(_OF_THE_VM)
    for event in report["azure_events"]:
        event = {**event, "azure_outcome": event["outcome"]}
        told = _csv([*(event.get(name) for name in _OF_THE_EVENT), *unknown])
        for host in event["hosts"]:
            silent.pop(host, None)
            lines.append(f"{starts[host]},{told}")
    empty = _csv([""] * (len(CSV_COLUMNS) - len(_OF_THE_HOST)))
    lines += [f"{start},{empty}" for start in silent.values()]
    return "\r\n".join([*lines, ""])


def _csv(values: Iterable[Any]) -> str:
    return _as_line([cell(value) for value in values])


def _csv_of_vm(vm: dict[str, Any]) -> str:
    values = list(_of_the_vm(vm))
    values[_PHASES] = " ".join(values[_PHASES])
    # These texts come from the VM as they are; the others were checked to be times.
    for place in _FREE_TEXTS:
        values[place] = cell(values[place])
    return _as_line(values)


def _as_line(values: Iterable[Any]) -> str:
    line: str = _writer.writerow(values)
    return line


class _Line:
    """A file for csv.writer, whose writerow() returns what write() returns: so a host and an event are written once,
    and not for each VM."""

    def write(self, text: str) -> str:
        return text


_writer = csv.writer(_Line(), quoting=csv.QUOTE_ALL, lineterminator="")
_of_the_vm = itemgetter(*_OF_THE_VM)
_PHASES = _OF_THE_VM.index("failed_phases")
_FREE_TEXTS = (_OF_THE_VM.index("approved_by"), _OF_THE_VM.index("outcome"), _PHASES)


def as_json(report: Report) -> str:
    """Return the history with each event, VM and host on a line of its own."""
    # One text is made of all pieces at the end: it is large, and each copy of it costs time.
    pieces, before = [], "{\n"
    for key, value in report.items():
        pieces.append(f"{before}  {json.dumps(key)}: ")
        if isinstance(value, list) and value:
            for number, each in enumerate(value):
                pieces += [",\n    " if number else "[\n    ", _json(each)]
            pieces.append("\n  ]")
        else:
            pieces.append(_json(value))
        before = ",\n"
    return "".join([*pieces, "\n}\n"])


def _json(value: Any) -> str:
    return clean_json_line(_encode(value))


_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
