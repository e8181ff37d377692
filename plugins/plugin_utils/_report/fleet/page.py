# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""A fleet report as one HTML page. Every text from outside passes through escape()."""

from __future__ import annotations

from datetime import timedelta
from html import escape
from itertools import groupby
from typing import Any

from ....module_utils._event.document import EVENT_TYPES, fold_case, format_utc, read_utc
from ....module_utils._event.sentences import format_duration
from ..page_frame import folded, html_page, html_table, spans, time_tag
from ..script import SCRIPT
from ..style import STYLE
from ..text import clean, counted, natural_key
from .elements import name_list, starts
from .host_results import AFFECTED, NOT_ASKED, QUIET
from .merge import Report
from .text import (
    STATE_WORDS,
    all_contradictions,
    azure_lines,
    count_hosts,
    duration_text,
    not_answered,
    nothing_known,
    out_of_service,
    reason_words,
    start_text,
)
from .timeline import draw_timeline

# Azure announces a Reboot this long before it: an older page may miss one that has begun.
WARN_AFTER = 900
_MOST_AFFECTED_SHOWN = 60
# Sorts after every number of seconds that a report can hold.
_LAST = 10**12

_KNOWN_TYPES = {fold_case(word) for word in EVENT_TYPES}


def as_html(report: Report, warn_after: float = WARN_AFTER) -> str:
    """Return the page.

    :param warn_after: seconds after which the page says across its top that it is old; 0 is never.
    """
    events = report["events"]
    written, asked = (read_utc(report[name] or "") for name in ("generated_at", "asked_from"))
    asked = asked or written
    data = {"warn-after": f"{warn_after:.0f}"}
    if written and asked:
        data.update(written=f"{written.timestamp():.0f}", asked=f"{asked.timestamp():.0f}")
    parts = [
        _warning(report, warn_after),
        f'<header><h1>Azure maintenance</h1><p class="dim">{_told_at(report, warn_after)}</p></header>',
        _counts(report),
        _FILTER if events else "",
        _out_of_service(report),
        _azure(report),
        _silent_hosts(report),
        _timeline(report),
        _events_table(events) if events else "",
        _contradictions(report),
        _hosts(report),
        _more(report),
    ]
    title = f"Azure maintenance, {report['generated_at']}"
    return html_page(title, parts, STYLE, SCRIPT, **data)


_FILTER = (
    '<div class="tools" role="search" hidden><label>Filter timeline and tables <input type="search" '
    'placeholder="VM, type, words, id"></label><output></output></div>'
)


def _warning(report: Report, warn_after: float) -> str:
    """Return the line that the script shows once the page is old; where it is old when it is written, it is shown."""
    first, written = (read_utc(report[name] or "") for name in ("asked_from", "generated_at"))
    if not warn_after or written is None:
        return ""
    age = int((written - (first or written)).total_seconds())
    shown = "" if age > warn_after else " hidden"
    since = time_tag(report["asked_from"] or report["generated_at"])
    return (
        f'<p id="old" role="alert"{shown}><strong>This page is out of date: what it says is '
        f'<span id="age">{format_duration(age)}</span> old.</strong> What Azure announced after {since} is not on it. '
        f"It warns after {format_duration(int(warn_after))} (<code>fleet_report_warn_after</code>). "
        "Write the report again.</p>"
    )


def _told_at(report: Report, warn_after: float) -> str:
    first, last, written = report["asked_from"], report["asked_until"], report["generated_at"]
    asked = ""
    if first is not None:
        asked = f"; asked between {time_tag(first)} and {time_tag(last)}"
        if first == last:
            asked = f"; asked at {time_tag(first)}"
    oldest = read_utc(written if first is None else first)
    limit = ""
    if warn_after and oldest is not None:
        limit = f" Out of date from {time_tag(format_utc(oldest + timedelta(seconds=warn_after)) or '')} on."
    return f"{escape(count_hosts(report))}. Written at {time_tag(written)}{asked}.{limit}"


def _counts(report: Report) -> str:
    counts = report["counts"]
    shown = [("asked", "hosts asked", "", "hosts")]
    for state, word in STATE_WORDS.items():
        if counts[state] or state not in ("failed", NOT_ASKED):
            kind = {AFFECTED: "warn", QUIET: "good"}.get(state, "bad") if counts[state] else ""
            shown.append((state, word, kind, f"hosts-{state}"))
    shown.append(("events", "events", "", "events"))
    tiles = []
    for name, word, kind, target in shown:
        # Where there is none, there is nothing to go to.
        label = f'<a href="#{target}">{word}</a>' if counts[name] else word
        tiles.append(f'<div class="{kind}"><dt>{label}</dt><dd id="count-{name}">{counts[name]:,}</dd></div>')
    return f'<dl class="counts">{"".join(tiles)}</dl>'


def _timeline(report: Report) -> str:
    if not report["events"]:
        return f"<section><h2>Timeline</h2><p>{nothing_known(report)}</p></section>"
    return (
        '<section><h2>Timeline</h2><p class="dim">Times are UTC. The first hour has the most room; after each '
        "<b>//</b> time runs faster. An open circle is announced, a filled one has started; a dashed line has no known "
        "end.<noscript> Without its script this page counts from the time at which it was written.</noscript></p>"
        f"{draw_timeline(report)}</section>"
    )


def _events_table(events: list[dict[str, Any]]) -> str:
    names = ("Type", "Status", "Starts (UTC)", "Length", "VMs", "Source", "Description", "Event")
    rows = [_event_row(row, event, names) for row, event in enumerate(events)]
    return (
        '<section><h2>Events</h2><div class="wide" tabindex="0" role="region" aria-label="Events">'
        f"{html_table('events', names, [('', rows)])}</div>"
        '<p class="dim">Azure does not tell whether an event has been approved. It may start one that is announced at '
        "the time shown, or as soon as it is approved; where VMs were told different times, the earliest is shown.</p>"
        "</section>"
    )


def _event_row(row: int, event: dict[str, Any], names: tuple[str, ...]) -> str:
    kind = clean(event["event_type"] or "unknown")
    known = fold_case(kind) if fold_case(kind) in _KNOWN_TYPES else "other"
    note = f'<div class="note">VMs contradict each other: {_fields(event)}</div>' if event["contradictions"] else ""
    seconds, duration = event["seconds_until_start"], event["duration_seconds"]
    # Started events come before due ones.
    start = _LAST if seconds is None else -1 if start_text(event) == "started" else seconds
    not_before = f"<div>{time_tag(event['not_before'], '')}</div>" if event["not_before"] else ""
    cells = [
        f'class="short">{_word(kind, f" kind {known}")}',
        f'class="short">{_word(event["event_status"] or "unknown")}{note}',
        f'class="short" data-sort="{start}"><div class="start">{starts(event, "span")}</div>{not_before}',
        f'class="short" data-sort="{_LAST if duration is None else duration}">{escape(duration_text(event))}',
        f'class="vms"><div>{name_list(event)}</div>',
        f'class="short">{_word(event["event_source"])}',
        f'class="words">{escape(clean(event["description"] or ""))}',
        f'class="id">{escape(clean(event["event_id"]))}',
    ]
    marked = "".join(f'<td data-label="{name}" {cell}</td>' for name, cell in zip(names, cells))
    return f'<tr id="event-{row + 1}">{marked}</tr>'


def _word(text: str | None, more: str = "") -> str:
    return f'<span class="word{more}">{escape(clean(text))}</span>' if text else ""


def _fields(event: dict[str, Any]) -> str:
    return escape(", ".join(one["field"].replace("_", " ") for one in event["contradictions"]))


def _contradictions(report: Report) -> str:
    found = all_contradictions(report)
    if not found:
        return ""
    items = "".join(f"<li>{escape(clean(event['event_id']))}: {escape(text)}</li>" for event, text in found)
    return (
        '<section><h2>Where VMs contradict each other</h2><p class="dim">They were asked one after the other, so '
        f"one may know already what another does not.</p><ul>{items}</ul></section>"
    )


def _silent_hosts(report: Report) -> str:
    silent = not_answered(report)
    if not silent:
        return ""
    names = ("Host", "State", "Reason", "Message")
    bodies = []
    for state, hosts in groupby(silent, key=lambda host: host["state"]):
        rows = []
        for host in hosts:
            texts = (STATE_WORDS[state], reason_words(host), host["message"] or "")
            told = [spans([escape(clean(host["host"]))]), *(escape(clean(text)) for text in texts)]
            cells = [f'<td data-label="{name}">{text}</td>' for name, text in zip(names, told)]
            rows.append(f"<tr>{''.join(cells)}</tr>")
        bodies.append((f"hosts-{state}", rows))
    return (
        f'<section class="alert"><h2>{counted(len(silent), "host")} without an answer</h2><p class="dim">They did '
        'not say what is coming for them.</p><div class="scroll few" tabindex="0" role="region" '
        f'aria-label="Hosts without an answer">{html_table("silent", names, bodies)}</div></section>'
    )


def _azure(report: Report) -> str:
    items = [f"<li>{escape(clean(text))}</li>" for text in azure_lines(report)]
    return f'<section class="alert"><h2>Azure Resource Graph</h2><ul>{"".join(items)}</ul></section>' if items else ""


def _out_of_service(report: Report) -> str:
    items = [
        f"<li>{escape(clean(host))} <span>{escape(clean(why))}</span></li>" for host, why in out_of_service(report)
    ]
    if not items:
        return ""
    return (
        '<section id="out-of-service"><h2>Out of service</h2><div class="scroll few" tabindex="0" role="region" '
        f'aria-label="Out of service"><ul>{"".join(items)}</ul></div></section>'
    )


def _hosts(report: Report) -> str:
    """Return the names of the hosts that answered; the affected ones lead to their first event."""
    rows: dict[str, int] = {}
    for row, event in enumerate(report["events"], start=1):
        rows.setdefault(fold_case(event["event_id"]), row)
    hosts = sorted(report["hosts"], key=lambda host: natural_key(host["host"]))
    affected = []
    for host in hosts:
        if host["state"] == AFFECTED:
            first = min(rows[fold_case(event_id)] for event_id in host["event_ids"])
            affected.append(f'<a href="#event-{first}">{escape(clean(host["host"]))}</a>')
    quiet = [escape(clean(host["host"])) for host in hosts if host["state"] == QUIET]
    parts = []
    for names, kind in ((affected, AFFECTED), (quiet, QUIET)):
        is_open = kind == AFFECTED and len(names) <= _MOST_AFFECTED_SHOWN
        if names:
            parts.append(folded(len(names), f"{kind} host", f"hosts-{kind}", spans(names), is_open))
    silent = not_answered(report)
    if silent:
        first_state = silent[0]["state"]
        parts.append(f'<p><a href="#hosts-{first_state}">{counted(len(silent), "host")} without an answer</a></p>')
    return f'<section id="hosts"><h2>Hosts</h2>{"".join(parts)}</section>' if parts else ""


def _more(report: Report) -> str:
    """Return the details that few people look for: the warnings of the hosts, and parts that were too old."""
    warned: dict[str, list[str]] = {}
    for host in report["hosts"]:
        for text in host["warnings"]:
            warned.setdefault(text, []).append(host["host"])
    parts = []
    if warned:
        items = [f"<li>{escape(clean(text))} <span class=\"dim\">{escape(clean(', '.join(hosts)))}</span></li>"
                 for text, hosts in warned.items()]  # fmt: skip
        parts.append(folded(len(warned), "warning", "warnings", f"<ul>{''.join(items)}</ul>"))
    if report["left_out_parts"]:
        names = escape(clean(", ".join(report["left_out_parts"])))
        parts.append(f"<p>Left out because they are too old: {names}</p>")
    return f'<section id="more">{"".join(parts)}</section>' if parts else ""
