# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""A fleet report as one HTML page that needs nothing but itself. Every text from outside passes through escape()."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Any, Iterable

from ..module_utils._document import EVENT_TYPES, fold_case
from ._fleet import Report
from ._fleet_assets import SCRIPT, STYLE
from ._fleet_parts import AFFECTED, QUIET
from ._fleet_text import (
    STATE_WORDS,
    all_contradictions,
    count_hosts,
    length,
    not_answered,
    nothing_known,
    number,
    tidy,
    vm_label,
    when,
)
from ._fleet_timeline import draw_timeline

_MOST_VMS = 12
# Sorts after every number of seconds that a report can hold.
_LAST = 10**12

_KNOWN_TYPES = {fold_case(word) for word in EVENT_TYPES}


def as_html(report: Report) -> str:
    events = report["events"]
    parts = [
        f'<header><h1>Azure maintenance</h1><p class="dim">{_told_at(report)}</p></header>',
        _counts(report),
        "<section><h2>Timeline</h2>",
        f'<p class="dim">Times are UTC. An open circle is announced, a filled one has started; a dashed line has no '
        f"known end.</p>{draw_timeline(report)}"
        if events
        else f"<p>{nothing_known(report)}</p>",
        "</section>",
        _events_table(events) if events else "",
        _contradictions(report),
        _silent_hosts(report),
        _more(report),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        # An empty picture, or a browser would ask the server for one.
        '<link rel="icon" href="data:,">\n'
        f"<title>Azure maintenance, {escape(report['generated_at'])}</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n{''.join(part + chr(10) for part in parts if part)}"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _policy() -> str:
    """Allow this style and this script and nothing else, so that a text that got through could still do nothing."""

    def source(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    allowed = f"style-src {source(STYLE)}; script-src {source(SCRIPT)}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _told_at(report: Report) -> str:
    first, last = report["asked_from"], report["asked_until"]
    asked = ""
    if first is not None:
        asked = f"; asked at {_time(first)}" if first == last else f"; asked between {_time(first)} and {_time(last)}"
    return f"{escape(count_hosts(report))}. Written at {_time(report['generated_at'])}{asked}."


def _time(text: str, zone: str = " UTC") -> str:
    shown = escape(text)
    return f'<time datetime="{shown}">{shown.replace("T", " ").replace("Z", zone)}</time>'


def _counts(report: Report) -> str:
    counts = report["counts"]
    shown = [("asked", "hosts asked", "")]
    for state, word in STATE_WORDS.items():
        if counts[state] or state not in ("failed", "not_asked"):
            kind = {AFFECTED: "", QUIET: "good"}.get(state, "bad") if counts[state] else ""
            shown.append((state, word, kind))
    shown.append(("events", "events", ""))
    tiles = [f'<div class="{kind}"><dt>{word}</dt><dd id="count-{name}">{counts[name]:,}</dd></div>'
             for name, word, kind in shown]  # fmt: skip
    return f'<dl class="counts">{"".join(tiles)}</dl>'


def _events_table(events: list[dict[str, Any]]) -> str:
    names = ("Type", "Status", "Starts", "Not before (UTC)", "Length", "VMs", "Source", "Description", "Event")
    rows = [_event_row(row, event, names) for row, event in enumerate(events)]
    return (
        '<section><h2>Events</h2><div class="tools" hidden><label>Filter <input type="search"></label><output></output>'
        f'</div><div class="wide">{_table("events", names, rows)}</div>'
        '<p class="dim">Azure does not tell whether an event has been approved. It may start one that is announced at '
        "the time shown, or as soon as it is approved; where VMs were told different times, the earliest is shown.</p>"
        "</section>"
    )


def _event_row(row: int, event: dict[str, Any], names: tuple[str, ...]) -> str:
    kind = tidy(event["event_type"] or "unknown")
    known = fold_case(kind) if fold_case(kind) in _KNOWN_TYPES else "other"
    note = f'<div class="note">VMs contradict each other: {_fields(event)}</div>' if event["contradictions"] else ""
    seconds, duration = event["seconds_until_start"], event["duration_seconds"]
    # What has started comes before what is due.
    start = _LAST if seconds is None else -1 if when(event) == "started" else seconds
    not_before = event["not_before"]
    cells = [
        f'class="short"><span class="kind {known}">{escape(kind)}</span>',
        f'class="short">{escape(tidy(event["event_status"] or "unknown"))}{note}',
        f'class="short" data-sort="{start}">{escape(when(event))}',
        f'class="short" data-sort="{escape(not_before or "~")}">{_time(not_before, "") if not_before else ""}',
        f'class="short" data-sort="{_LAST if duration is None else duration}">{escape(length(event))}',
        f'class="vms">{_vms(event)}',
        f'class="short">{escape(tidy(event["event_source"] or ""))}',
        f">{escape(tidy(event['description'] or ''))}",
        f'class="id">{escape(tidy(event["event_id"]))}',
    ]
    marked = "".join(f'<td data-label="{name}" {cell}</td>' for name, cell in zip(names, cells))
    return f'<tr id="event-{row + 1}">{marked}</tr>'


def _fields(event: dict[str, Any]) -> str:
    return escape(", ".join(one["field"].replace("_", " ") for one in event["contradictions"]))


def _vms(event: dict[str, Any]) -> str:
    labels = [escape(tidy(vm_label(vm))) for vm in event["vms"]]
    listed = ", ".join(labels) or "no VM named"
    if len(labels) <= _MOST_VMS:
        return listed
    return f"<details><summary>{number(len(labels), 'VM')}</summary>{listed}</details>"


def _table(name: str, heads: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    body = "\n".join(rows)
    return f'<table id="{name}" class="sortable"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'


def _contradictions(report: Report) -> str:
    told = all_contradictions(report)
    if not told:
        return ""
    items = [f"<li>{escape(tidy(event['event_id']))}: {escape(tidy(text))}</li>" for event, text in told]
    return (
        '<section id="contradictions"><h2>Where VMs contradict each other</h2>'
        '<p class="dim">They were asked one after the other, so one may know already what another does not.</p>'
        f"<ul>{''.join(items)}</ul></section>"
    )


def _silent_hosts(report: Report) -> str:
    silent = not_answered(report)
    if not silent:
        return ""
    names = ("Host", "State", "Reason", "Message")
    rows = []
    for host in silent:
        texts = (host["host"], STATE_WORDS[host["state"]], host["reason"] or "", host["message"] or "")
        rows.append(
            "<tr>" + "".join(f'<td data-label="{name}">{escape(tidy(text))}</td>' for name, text in zip(names, texts))
            + "</tr>"
        )  # fmt: skip
    return f'<section><h2>Hosts without an answer</h2><div class="wide">{_table("silent", names, rows)}</div></section>'


def _more(report: Report) -> str:
    """Return what few people look for: which hosts are quiet, what the hosts warned of, which parts were too old."""
    quiet = [escape(tidy(host["host"])) for host in report["hosts"] if host["state"] == QUIET]
    warned: dict[str, list[str]] = {}
    for host in report["hosts"]:
        for text in host["warnings"]:
            warned.setdefault(text, []).append(host["host"])
    parts = []
    if quiet:
        parts.append(
            f"<details><summary>{number(len(quiet), 'quiet host')}</summary><p>{', '.join(quiet)}</p></details>"
        )
    if warned:
        items = [f"<li>{escape(tidy(text))} <span class=\"dim\">{escape(tidy(', '.join(hosts)))}</span></li>"
                 for text, hosts in warned.items()]  # fmt: skip
        parts.append(f"<details><summary>{number(len(warned), 'warning')}</summary><ul>{''.join(items)}</ul></details>")
    if report["left_out_parts"]:
        names = escape(tidy(", ".join(report["left_out_parts"])))
        parts.append(f"<p>Left out because they are too old: {names}</p>")
    return f'<section id="more">{"".join(parts)}</section>' if parts else ""
