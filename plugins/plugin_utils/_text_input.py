# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Variables that must be text: names of events, hosts and words of Azure; pure.

AWX marks the answers of its surveys as unsafe, and ansible-core 2.19 and later give such text a type: 0123 is the
number 83, 0000 is 0, off is false, and an empty answer is null. The text that was written is not known then.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from ..module_utils._errors import one_line

_NOT_TEXT = (
    "{name} must be text, not {value}. Ansible reads an answer such as 0123, off or 2026-11-25 as a number, a boolean "
    "or a date, and its text is lost. In AWX, write a comma after it (0123,). In YAML, put it in quotes."
)
# A boolean is a number for Python.
_KINDS = ((bool, "the boolean"), ((int, float), "the number"), (date, "the date"))


def tell_not_text(name: str, value: Any) -> list[str]:
    """Return the fault of a variable that must be text or a list of texts, a sentence.

    :param value: None is a variable that was not given; in a list it is no text.
    """
    members = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    others = [member for member in members if not isinstance(member, str)]
    return [_NOT_TEXT.format(name=name, value=_show(others[0]))] if others else []


def tell_empty_list(name: str, value: Any) -> list[str]:
    """Return the fault of a condition that is a list in which nothing is named, as of a search that found nothing: it
    would count as none. An empty list is none of these: it selects nothing.

    :param value: as the user wrote it.
    """
    if not isinstance(value, (list, tuple)) or not value:
        return []
    if [member for member in value if member is not None and str(member).strip()]:
        return []
    return [f"{name} must name something: each member of its list is null or empty. An empty list selects nothing."]


def _show(value: Any) -> str:
    if value is None:
        return "null"
    kind = next((words for kind, words in _KINDS if isinstance(value, kind)), "")
    text = str(value).lower() if isinstance(value, bool) else one_line(str(value))
    return f"{kind} {text}" if kind else text
