# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What a report over a fleet says where Azure Resource Graph did not tell all; pure."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ...module_utils._errors import one_line
from .._failure_text import tell_failure

_MOST_NAMED = 4


def azure_messages(azure: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the answer of Resource Graph, a sentence each."""
    if "hosts" not in azure:
        return [f"Azure Resource Graph was asked too, and gave no usable answer: {one_line(tell_failure(azure))}"]
    if azure.get("is_complete") is False:
        return ["The answer of Azure Resource Graph is not complete, so there may be more events. Ask again."]
    return []


def without_ids(hosts: Sequence[str]) -> list[str]:
    """Return the sentence about hosts for which nothing could be asked."""
    if not hosts:
        return []
    return [
        f"Azure Resource Graph was not asked for {first_names(hosts)}: the inventory has neither resource_id nor id of "
        "a VM of Azure for them."
    ]


def first_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(map(one_line, names[:_MOST_NAMED])) + more
