# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What pages of this collection are made of. A page needs nothing but itself; text from outside passes escape()."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Any, Iterable, Mapping, Sequence

from ...module_utils._document import STARTED
from ...module_utils._summary import format_duration
from .fleet.text import number, tidy, vm_label, vm_labels
from .slices import read_utc

MOST_VMS = 12
# Below so many seconds each of them is told. Above, a time that goes on by the second would only distract.
_SECONDS_COUNT = 120


def html_page(title: str, content: Iterable[str], style: str, script: str = "", **data: str) -> str:
    """Return a whole page.

    :param title: plain text.
    :param content: HTML; empty parts are left out.
    :param script: none if empty.
    :param data: what the script reads from the attributes of the body, as plain text by the name after ``data-``.
    """
    attributes = "".join(f' data-{name}="{escape(text)}"' for name, text in data.items())
    run = f"<script>{script}</script>\n" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        # An empty picture, or a browser would ask the server for one.
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n"
        f"<body{attributes}>\n<main>\n{''.join(part + chr(10) for part in content if part)}</main>\n"
        f"{run}</body>\n</html>\n"
    )


def _policy(style: str, script: str) -> str:
    """Allow this style and this script and nothing else, so that a text that got through could still do nothing."""
    allowed = [f"style-src {_hash(style)}", *([f"script-src {_hash(script)}"] if script else []), "img-src data:"]
    return f"default-src 'none'; {'; '.join(allowed)}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def time_tag(text: str, zone: str = " UTC") -> str:
    shown = escape(text)
    return f'<time datetime="{shown}">{shown.replace("T", " ").replace("Z", zone)}</time>'


def starts(event: Mapping[str, Any], tag: str) -> str:
    """Return when Azure may start the event, in an element whose text the script keeps up with the clock."""
    seconds, moment = event["seconds_until_start"], read_utc(event["not_before"] or "")
    if event["event_status"] == STARTED:
        return "started"
    if seconds is None or moment is None:
        return "start unknown"
    if seconds >= _SECONDS_COUNT:
        seconds -= seconds % 60
    text = f"in {format_duration(seconds)}" if seconds else "due"
    return f'<{tag} data-at="{int(moment.timestamp())}">{text}</{tag}>'


def name_list(event: dict[str, Any]) -> str:
    """Return the VMs of an event in natural order. One of which nothing was heard is marked."""
    heard = {vm_label(vm) for vm in event["vms"] if vm["host"] is not None}
    names = []
    for label in vm_labels(event):
        mark = "" if label in heard else ' <span class="alarm">no answer</span>'
        names.append(f"{escape(tidy(label))}{mark}")
    if len(names) <= MOST_VMS:
        return spans(names) or "no VM named"
    more = f"and {len(names) - MOST_VMS} more"
    return f"{spans(names[:MOST_VMS])} <details><summary>{more}</summary>{spans(names[MOST_VMS:])}</details>"


def spans(names: Sequence[str]) -> str:
    """Return names, given as HTML, with commas that stay at their ends where a line is broken."""
    commas = [","] * (len(names) - 1) + [""]
    return " ".join(f'<span class="vm">{name}{comma}</span>' for name, comma in zip(names, commas))


def html_table(
    name: str, heads: Iterable[str], bodies: Iterable[tuple[str, Iterable[str]]], kind: str = "sortable"
) -> str:
    """Return a table.

    :param bodies: for each its id, empty if it needs none, and its rows as HTML.
    :param kind: its class; a sortable one sorts its rows, within each of its bodies.
    """
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    parts = []
    for body, rows in bodies:
        marked = f' id="{body}"' if body else ""
        parts.append(f"<tbody{marked}>\n" + "\n".join(rows) + "\n</tbody>")
    return f'<table id="{name}" class="{kind}"><thead><tr>{head}</tr></thead>{"".join(parts)}</table>'


def counted(count: int, what: str, name: str, content: str, is_open: bool = False) -> str:
    """Return what is folded away behind its number. A link to the name opens it."""
    state = " open" if is_open else ""
    return f'<details{state}><summary>{number(count, what)}</summary><div id="{name}">{content}</div></details>'
