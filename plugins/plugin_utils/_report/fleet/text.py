# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""A fleet report in words: for the terminal, as Markdown, as CSV. Text from outside is escaped for each of them."""

from __future__ import annotations

import csv
import io
from typing import Any, Iterable, Mapping

from ....module_utils._errors import one_line
from ....module_utils._event.document import STARTED, fold_case
from ....module_utils._event.sentences import format_duration
from ..outside import first_names
from ..text import cell, counted, markdown, natural_key
from .host_results import AFFECTED, FAILED, NOT_ASKED, NOT_ON_AZURE, QUIET, UNREACHABLE
from .merge import Report, describe_contradiction

STATE_WORDS = {
    AFFECTED: "affected",
    QUIET: "quiet",
    UNREACHABLE: "unreachable",
    NOT_ON_AZURE: "not on Azure",
    FAILED: "without a usable answer",
    NOT_ASKED: "not asked",
}
# For the reasons of modules that are also the word for a state, or no words at all; the others are told as they are.
_REASON_WORDS = {
    (UNREACHABLE, "unreachable"): "no connection",
    (NOT_ON_AZURE, "unreachable"): "nothing listens",
    (NOT_ON_AZURE, "not_imds"): "something else answers",
}
# Those that are told even when there are none
_ALWAYS_COUNTED = (AFFECTED, QUIET, UNREACHABLE, NOT_ON_AZURE)

NOTHING_KNOWN = "No VM answered, so nothing is known of any maintenance."

_MOST_EVENTS = 20
CSV_COLUMNS = (
    "host",
    "state",
    "reason",
    "message",
    "resource_name",
    "event_id",
    "event_type",
    "event_status",
    "not_before",
    "seconds_until_start",
    "duration_seconds",
    "event_source",
    "description",
    "contradictions",
    "told_by_azure",
    "out_of_service",
)


def count_hosts(report: Report) -> str:
    """Return ``5 hosts asked: 1 affected, 2 quiet, 1 unreachable, 1 not on Azure``."""
    counts = report["counts"]
    told = [
        f"{counts[state]:,} {word}" for state, word in STATE_WORDS.items() if counts[state] or state in _ALWAYS_COUNTED
    ]
    return f"{counted(counts['asked'], 'host')} asked: {', '.join(told)}"


def start_text(event: dict[str, Any]) -> str:
    """Return when Azure may start the event, counted from the time of the report."""
    seconds = event["seconds_until_start"]
    if event["event_status"] == STARTED:
        return "started"
    if seconds is None:
        return "start unknown"
    return f"in {format_duration(seconds)}" if seconds else "due"


def duration_text(event: dict[str, Any]) -> str:
    return "unknown" if event["duration_seconds"] is None else format_duration(event["duration_seconds"])


def vm_label(vm: dict[str, str | None]) -> str:
    """Return the name of a VM, as it came from outside, and that of its host where the inventory calls it otherwise."""
    resource, host = vm["resource"], vm["host"]
    if resource is None or host is None or fold_case(resource) == fold_case(host):
        return resource or host or "unknown"
    return f"{resource} ({host})"


def vm_labels(event: dict[str, Any]) -> list[str]:
    return sorted(dict.fromkeys(map(vm_label, event["vms"])), key=natural_key)


def reason_words(host: dict[str, Any]) -> str:
    """Return why a host gave no answer, without a word that means something else beside it."""
    reason = host["reason"] or ""
    return _REASON_WORDS.get((host["state"], reason), reason.replace("_", " "))


def not_answered(report: Report) -> list[dict[str, Any]]:
    """Return the hosts that gave no answer, those of one state together."""
    order = list(STATE_WORDS)
    silent = [host for host in report["hosts"] if host["state"] not in (AFFECTED, QUIET)]
    return sorted(silent, key=lambda host: (order.index(host["state"]), natural_key(host["host"])))


def out_of_service(report: Report) -> list[tuple[str, str]]:
    """Return each host with a mark, since when, for which event and by which run or checker it is out of service."""
    hosts = sorted(report["hosts"], key=lambda host: natural_key(host["host"]))
    return [(host["host"], why) for host in hosts for why in host["out_of_service"]]


def all_contradictions(report: Report) -> list[tuple[dict[str, Any], str]]:
    """Return each contradiction as a sentence, with its event."""
    return [(event, describe_contradiction(one)) for event in report["events"] for one in event["contradictions"]]


def nothing_known(report: Report) -> str:
    """Return the sentence for no event: silence of the VMs is no good news."""
    if somebody_answered(report["counts"]):
        return "No maintenance is announced to the VMs that answered."
    return NOTHING_KNOWN


def somebody_answered(counts: Mapping[str, int]) -> bool:
    return counts[AFFECTED] + counts[QUIET] > 0


def azure_lines(report: Report) -> list[str]:
    """Return for which hosts without an answer Azure Resource Graph told of events, and what it did not tell; nothing
    where it was not asked.
    """
    if report["azure_messages"] is None:
        return []
    told = [host["host"] for host in report["hosts"] if host["told_by_azure"]]
    silent = len(not_answered(report))
    lines = []
    if told:
        names = first_names(sorted(told, key=natural_key))
        lines = [
            f"Azure Resource Graph tells of events of {counted(len(told), 'host')} that gave no whole answer: {names}."
        ]
    elif silent and not report["azure_messages"]:
        lines = [
            f"Azure Resource Graph tells of no event of the {counted(silent, 'host')} that gave no answer, which is no "
            "proof that there is none."
        ]
    return [*lines, *report["azure_messages"]]


def as_lines(report: Report) -> list[str]:
    """Return the summary for a terminal."""
    lines = [count_hosts(report) + ".", *([] if report["events"] else [nothing_known(report)])]
    for event in report["events"][:_MOST_EVENTS]:
        vms = [one_line(label) for label in vm_labels(event)]
        shown = ", ".join(vms[:4]) + (f" and {len(vms) - 4} more" if len(vms) > 4 else "")
        lines.append(
            f"{one_line(event['event_type'] or 'unknown event')} {start_text(event)}: {shown or 'no VM named'}"
        )
    if len(report["events"]) > _MOST_EVENTS:
        lines.append(f"and {counted(len(report['events']) - _MOST_EVENTS, 'more event')}")
    out = list(dict.fromkeys(host for host, _why in out_of_service(report)))
    if out:
        more = f" and {len(out) - 4} more" if len(out) > 4 else ""
        lines.append(f"Out of service on our account: {', '.join(map(one_line, out[:4]))}{more}")
    lines += azure_lines(report)
    contradictions = all_contradictions(report)
    if contradictions:
        lines.append(f"VMs contradict each other about {counted(report['counts']['contradictions'], 'event')}.")
    return lines


def due_lines(report: Report, seconds: float) -> list[str]:
    """Return the events that have started or may start within this time, a line each; an unknown start is never due."""
    lines = []
    for event in report["events"]:
        left = event["seconds_until_start"]
        if event["event_status"] == STARTED or (left is not None and left <= seconds):
            vms = ", ".join(map(one_line, vm_labels(event))) or "no VM named"
            kind = one_line(event["event_type"] or "unknown event")
            lines.append(f"{kind} {one_line(event['event_id'])} {start_text(event)}: {vms}")
    return lines


def as_markdown(report: Report) -> str:
    lines = ["# Azure maintenance", "", f"{report['generated_at']}: {markdown(count_hosts(report))}.", ""]
    if report["events"]:
        rows = [
            (
                event["event_type"] or "unknown",
                event["event_status"] or "unknown",
                event["not_before"] or "",
                start_text(event),
                duration_text(event),
                ", ".join(vm_labels(event)) or "no VM named",
                event["event_source"] or "",
                event["description"] or "",
                event["event_id"],
            )
            for event in report["events"]
        ]
        names = ("Type", "Status", "Not before", "Starts", "Length", "VMs", "Source", "Description", "Event")
        lines += ["## Events", "", *_table(names, rows), ""]
    else:
        lines += [nothing_known(report), ""]
    azure = azure_lines(report)
    if azure:
        lines += ["## Azure Resource Graph", "", *(f"- {markdown(text)}" for text in azure), ""]
    contradictions = all_contradictions(report)
    if contradictions:
        lines += ["## Contradictions", ""]
        lines += [f"- {markdown(event['event_id'])}: {markdown(text)}" for event, text in contradictions]
        lines.append("")
    out = out_of_service(report)
    if out:
        lines += ["## Out of service", ""]
        lines += [f"- {markdown(host)}: {markdown(why)}" for host, why in out]
        lines.append("")
    silent = not_answered(report)
    if silent:
        hosts = [(host["host"], STATE_WORDS[host["state"]], reason_words(host), host["message"]) for host in silent]
        lines += ["## Hosts without an answer", "", *_table(("Host", "State", "Reason", "Message"), hosts), ""]
    return "\n".join(lines)


def _table(names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    return lines + [f"| {' | '.join(map(markdown, row))} |" for row in rows]


def as_csv(report: Report) -> str:
    """Return a row for each VM of each event, and for each host that has none."""
    results = {host["host"]: {**host, "out_of_service": "; ".join(host["out_of_service"])} for host in report["hosts"]}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in results}
    without_host: list[dict[str, Any]] = []
    for event in report["events"]:
        shown = {name: event[name] for name in CSV_COLUMNS if name in event}
        shown["contradictions"] = "; ".join(map(describe_contradiction, event["contradictions"]))
        for vm in event["vms"] or [{"resource": None, "host": None}]:
            row = {**results.get(vm["host"] or "", {}), **shown}
            by_azure = not event["told_by"] or vm["host"] in event["told_by_azure"]
            row.update(host=vm["host"], resource_name=vm["resource"], told_by_azure="yes" if by_azure else "no")
            rows.get(vm["host"] or "", without_host).append(row)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(CSV_COLUMNS)
    for name, told in results.items():
        for row in rows[name] or [{**told, "told_by_azure": None}]:
            writer.writerow([cell(row.get(column)) for column in CSV_COLUMNS])
    for row in without_host:
        writer.writerow([cell(row.get(column)) for column in CSV_COLUMNS])
    return text.getvalue()
