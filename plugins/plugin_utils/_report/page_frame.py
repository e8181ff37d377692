# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The frame of the pages of this collection. A page needs no other file; text from outside passes escape()."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Iterable, Sequence

from .text import counted


def html_page(title: str, content: Iterable[str], style: str, script: str = "", **data: str) -> str:
    """Return a whole page.

    :param title: plain text.
    :param content: HTML; empty parts are left out.
    :param script: none if empty.
    :param data: the attributes of the body for the script, as plain text by the name after ``data-``.
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


def folded(count: int, things: str, name: str, content: str, is_open: bool = False) -> str:
    """Return content that is folded away behind its number. A link to the name opens it."""
    state = " open" if is_open else ""
    return f'<details{state}><summary>{counted(count, things)}</summary><div id="{name}">{content}</div></details>'
