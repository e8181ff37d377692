# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""A fleet history as one HTML page that needs nothing but itself. Every text from outside passes through escape()."""

from __future__ import annotations

from html import escape
from typing import Iterable

from ....module_utils._event.history_row import NOTICE_SOURCE
from ..page_frame import html_page, html_table, time_tag
from ..text import clean, counted
from .host_results import TOLD
from .merge import Report
from .plots import Plot, plot_lasted, plot_notice, plot_weeks
from .style import STYLE
from .text import (
    AZURE_CAUSE_HEADS,
    AZURE_EVENT_HEADS,
    EVENT_HEADS,
    HOST_HEADS,
    TYPE_HEADS,
    VM_HEADS,
    WEEK_HEADS,
    azure_cause_rows,
    azure_event_rows,
    azure_lines,
    count_hosts,
    event_rows,
    host_rows,
    not_shown,
    nothing_known,
    type_rows,
    vm_rows,
    week_rows,
    without_history,
)

# The columns in which texts may be broken, with their classes
_LONG_TEXTS = {
    **dict.fromkeys(("VM", "Approved by", "Message"), "text"),
    **dict.fromkeys(("VMs", "Description"), "text words"),
    "Event": "text id",
}
# A table with more has no room on a tablet.
_FEW_COLUMNS = 8
# The columns with one name or word of any length
_ONE_WORD = {"Host": "vm", **dict.fromkeys(("Type", "Outcome", "Source"), "word")}


def as_html(report: Report) -> str:
    parts = [
        f'<header><h1>What Azure really did</h1><p class="dim">{_told_at(report)}</p></header>',
        _counts(report),
        _hosts(report),
        _azure(report),
        *(_of_events(report) if report["events"] else [_nothing(report)]),
        _left_out(report),
    ]
    return html_page(f"What Azure really did, {report['generated_at']}", parts, STYLE)


def _told_at(report: Report) -> str:
    written = f"Written at {time_tag(report['generated_at'])}"
    first, last = report["asked_from"], report["asked_until"]
    if first is None:
        return f"{escape(count_hosts(report))}. {written}."
    asked = f"at {time_tag(first)}" if first == last else f"between {time_tag(first)} and {time_tag(last)}"
    return f"{escape(count_hosts(report))}. {written}; asked {asked}."


def _counts(report: Report) -> str:
    counts = report["counts"]
    without = counts["asked"] - counts[TOLD]
    shown = [
        ("asked", "hosts asked", counts["asked"], "", ""),
        ("without", "without a whole history", without, "bad" if without else "good", "hosts"),
        ("events", "events", counts["events"], "", "events"),
        ("withdrawn", "withdrawn", counts["withdrawn"], "", ""),
        (
            "shorter",
            "shorter notice than documented",
            counts["shorter"],
            "bad" if counts["shorter"] else "good",
            "types",
        ),
        (
            "failed",
            "failed responses",
            counts["failed_responses"],
            "bad" if counts["failed_responses"] else "good",
            "types",
        ),
        ("late", "prepared for too late", counts["late"], "bad" if counts["late"] else "good", "types"),
    ]
    tiles = []
    for name, word, count, kind, target in shown:
        # Where there is none, there is nothing to go to.
        label = f'<a href="#{target}">{word}</a>' if count and target else word
        tiles.append(f'<div class="{kind}"><dt>{label}</dt><dd id="count-{name}">{count:,}</dd></div>')
    return f'<dl class="counts">{"".join(tiles)}</dl>'


def _hosts(report: Report) -> str:
    rows = host_rows(report)
    if not rows:
        return ""
    left = not_shown(report, rows, "hosts")
    more = f'<p class="dim">{left}</p>' if left else ""
    return (
        f'<section class="alert"><h2>{counted(len(without_history(report)), "host")} without a whole history</h2>'
        '<p class="dim">What they do not tell is missing from all that follows.</p>'
        '<div class="scroll few" tabindex="0" role="region" aria-label="Hosts without a whole history">'
        f"{_table('hosts', HOST_HEADS, rows)}</div>{more}</section>"
    )


def _azure(report: Report) -> str:
    lines = "".join(f"<p>{escape(clean(text))}</p>" for text in azure_lines(report))
    told = f'<section class="alert"><h2>Azure Resource Graph</h2>{lines}</section>' if lines else ""
    events = _section(report, "azure_events", "Events that no checker saw", AZURE_EVENT_HEADS, azure_event_rows(report))
    causes = _section(report, "azure_causes", "Azure's notes on the VMs", AZURE_CAUSE_HEADS, azure_cause_rows(report), (
        "Each is about a VM and not about an event: compare the times, which are UTC."
    ), folded=True)  # fmt: skip
    return told + events + causes


def _nothing(report: Report) -> str:
    return f"<section><p>{nothing_known(report)}</p></section>"


def _of_events(report: Report) -> list[str]:
    source = f'<a href="{NOTICE_SOURCE}" rel="noreferrer">Microsoft&#x27;s page</a>'
    return [
        _section(report, "types", "By type", TYPE_HEADS, type_rows(report), note=(
            'A lead_time must be longer than the preparation takes, and shorter than the notice. "Shorter" counts '
            'events whose notice was more than 10 % shorter than documented; "late" those that began before the VM '
            "was prepared."
        )),
        _plot_section("notice", "Notice given against documented", plot_notice(report), (
            "From when the first VM saw the event to the NotBefore that it was told first. The line is from the least "
            "to the most, the box the middle half, the thick mark the median; dashed is "
            f'<span class="promise-word">what is documented</span> on {source}. The axis is logarithmic.'
        )),
        _plot_section("weeks", "Events per week", plot_weeks(report), "Weeks as ISO 8601 counts them, in UTC."),
        _plot_section("lasted", "How long events lasted", plot_lasted(report), (
            "From when the VM saw the event started to when it was gone, which Azure tells minutes after the "
            "interruption. Line, box and mark as above. The axis is logarithmic."
        )),
        _section(report, "", "By week and type", WEEK_HEADS, week_rows(report), folded=True),
        _section(report, "vms", "VMs with most trouble", VM_HEADS, vm_rows(report), folded=True),
        _section(report, "events", "Newest events", EVENT_HEADS, event_rows(report), note="Times are UTC."),
    ]  # fmt: skip


def _plot_section(name: str, title: str, plot: Plot, note: str) -> str:
    drawn = plot.drawn or "<p>Nothing is known of it.</p>"
    table = ""
    if plot.rows:
        shown = _table(f"{name}-table", plot.heads, plot.rows)
        table = f"<details><summary>The numbers as a table</summary>{_wide(shown, title)}</details>"
    return f'<section id="{name}"><h2>{title}</h2><p class="dim">{note}</p>{drawn}{table}</section>'


def _section(
    report: Report,
    name: str,
    title: str,
    heads: tuple[str, ...],
    rows: list[tuple[str, ...]],
    note: str = "",
    folded: bool = False,
) -> str:
    if not rows:
        return ""
    shown = _wide(_table(name or title.lower().replace(" ", "-"), heads, rows), title)
    if folded:
        shown = f"<details><summary>The table</summary>{shown}</details>"
    left = not_shown(report, rows, name) if name else ""
    told = "".join(f'<p class="dim">{text}</p>' for text in (note, left) if text)
    return f"<section><h2>{title}</h2>{shown}{told}</section>"


def _wide(table: str, title: str) -> str:
    """Return a table that can be scrolled sideways, with the keyboard too."""
    return f'<div class="wide" tabindex="0" role="group" aria-label="{title}: table">{table}</div>'


def _table(name: str, heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    marks = [f' class="{_LONG_TEXTS[text]}"' if text in _LONG_TEXTS else "" for text in heads]
    starts = [f'<td data-label="{text}"{mark}>' for text, mark in zip(heads, marks)]
    lines = (
        "<tr>" + "".join(f"{start}{_cell(head, text)}</td>" for head, start, text in zip(heads, starts, row)) + "</tr>"
        for row in rows
    )
    return html_table(name, heads, [("", lines)], "figures many" if len(heads) > _FEW_COLUMNS else "figures")


def _cell(head: str, text: str) -> str:
    shown = escape(clean(text))
    if head == "VMs":
        # A browser would break a line at each hyphen of a name.
        return " ".join(f'<span class="vm">{word}</span>' for word in shown.split(" "))
    return f'<span class="{_ONE_WORD[head]}">{shown}</span>' if shown and head in _ONE_WORD else shown


def _left_out(report: Report) -> str:
    told = []
    if report["counts"]["simulated"]:
        told.append(f"{report['counts']['simulated']:,} rows are left out because simulators announced their events.")
    if report["counts"]["doubtful"]:
        told.append(
            f"Of {report['counts']['doubtful']:,} events some times contradict each other, as when the clock of a VM "
            "was wrong: what would follow from those times is left out."
        )
    if report["left_out_parts"]:
        told.append(f"Left out because they are too old: {escape(clean(', '.join(report['left_out_parts'])))}")
    return f"<section>{''.join(f'<p>{text}</p>' for text in told)}</section>" if told else ""
