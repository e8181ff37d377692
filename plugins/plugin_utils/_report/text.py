# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Words for reports of either kind. Text from outside is escaped as a terminal, Markdown or CSV asks."""

from __future__ import annotations

import re
from typing import Any

from ...module_utils._errors import escape
from ...module_utils._event.document import fold_case

_NUMBER = re.compile("([0-9]+)")

# In Markdown a backslash makes any of these a plain character. Those of HTML, of links without brackets and of
# mentions need more: GitHub looks for the latter in the result of Markdown.
_MARKDOWN = re.compile(r"[\\`*_\[\]|~$]|^[#+=-]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "://": "&#58;//", "www.": "www&#46;"}
_NEED_ENTITY = re.compile("|".join(map(re.escape, _ENTITIES)), re.IGNORECASE)

# To a spreadsheet these begin a formula, in the wide form too, and also behind blanks.
_FORMULA = re.compile(r" *[=+\-@\uff1d\uff0b\uff0d\uff20]")


def clean(text: str) -> str:
    """Return text from outside for a file: on one line, with control characters of a terminal escaped."""
    if text.isprintable():
        return text
    return escape("".join(" " if char.isspace() else char for char in text))


def counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def natural_key(name: str) -> list[Any]:
    """Return a key that sorts names as people do, web-2 before web-10."""
    parts: list[Any] = _NUMBER.split(fold_case(name))
    # A number may be too long for int(): the longer of two is the larger one.
    parts[1::2] = [(len(digits.lstrip("0")), digits.lstrip("0")) for digits in parts[1::2]]
    return parts


def markdown(text: str) -> str:
    """Return text from outside as Markdown that shows it, in a table too."""
    escaped = _MARKDOWN.sub(r"\\\g<0>", clean(text))
    return _NEED_ENTITY.sub(lambda found: _ENTITIES.get(found[0], "www&#46;"), escaped)


def cell(value: Any) -> Any:
    """Return a value that no spreadsheet takes for a formula, and that steers no terminal."""
    if not isinstance(value, str):
        return value
    value = clean(value)
    return f"'{value}" if _FORMULA.match(value) else value
