# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The variable for the user's files about the other hosts of the run; pure."""

from __future__ import annotations

from typing import Any, Mapping

from .hosts import Host
from .progress import must_restore


def describe_hosts(hosts: Mapping[str, Host]) -> dict[str, dict[str, Any]]:
    """Return the events and marks of each host of a run, by its name, from its latest answer.

    A host is ``free`` if it is known that no event affects it and that nobody has it out of service.
    """
    return {host: _describe(known) for host, known in hosts.items()}


def _describe(known: Host) -> dict[str, Any]:
    no_answer = _why_unknown(known)
    marks = list(known["marks"] or ())
    # In check mode, and where nothing is to be prepared, a host that is prepared has no mark.
    is_prepared = any(map(must_restore, known["events"]))
    return {
        "resource_name": known["name"],
        "events": [{name: value for name, value in event.items() if name != "is_missing"} for event in known["listed"]],
        "marks": marks,
        "no_answer": no_answer,
        "free": not (no_answer or known["listed"] or marks or known["unreadable_marks"] or is_prepared),
    }


def _why_unknown(known: Host) -> str | None:
    if known["fault"]:
        return str(known["fault"])
    if known["settings"] is None or not known["times_asked"]:
        return "it was not asked"
    if known["away"]:
        return "it failed or became unreachable"
    if known["no_answer"]:
        return str(known["no_answer"])
    return None if known["answer"]["document_is_clear"] else "part of the answer of Azure could not be read"
