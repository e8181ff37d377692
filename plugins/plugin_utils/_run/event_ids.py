# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Which events a run of event_response is limited to, by ids or their beginnings; pure."""

from __future__ import annotations

from typing import Any, Container, Iterable, Mapping

from ...module_utils._errors import one_line
from ...module_utils._event.document import fold_case
from ...module_utils._event.selection import SHORTEST_BEGINNING, WHOLE_ID, find_named, words
from .messages import shorten

_AMBIGUOUS = "event_response_event_ids: {count} events have an id that begins with {name}: write more of it."
_UNKNOWN = (
    "event_response_event_ids: no host is affected by an event with the id {name}, or with one that begins so "
    f"({SHORTEST_BEGINNING} characters at least): it is over or was withdrawn, names no VM, is left out by other "
    "variables, or has another id."
)
_NOT_WHOLE = (
    "event_response_event_ids: {name} is not the whole id of an event, and a host that was not asked, as in a later "
    "batch of the play (serial), may have another event that begins so: give whole ids."
)
_NOT_ALL_KNOWN = (
    "event_response_event_ids: {name} is not the whole id of an event, and not all events of {hosts} are known, so "
    "another one may begin so: give whole ids."
)
_UNCLEAR = "Azure's answer to {hosts} was empty or could not be read as a whole: run this again."


def resolve_event_ids(
    names: Iterable[Any] | str | None, answers: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
    """Find the events that are named, over all hosts: hosts that share no document see different events.

    :param names: ids or their beginnings, as the user wrote them.
    :param answers: the answer to each host of the play, None for one that has not been asked yet.
    :returns: ``event_ids``, the whole ids, also one that no host knows, None where all events are wanted; ``faults``
        of the names, a sentence each. While not all events of all hosts are known, a beginning is a fault. While a
        host was not asked, a whole id that no host knows is none.
    """
    wanted = words(names)
    if not wanted:
        return {"event_ids": None, "faults": []}
    given = {host: answer for host, answer in answers.items() if answer and "events" in answer}
    events = [event for answer in given.values() for event in answer["events"] if event["affects_this_vm"]]
    ids = {fold_case(event["event_id"]): event["event_id"] for event in events}
    named = find_named(wanted, ids)
    faults = [
        _AMBIGUOUS.format(count=len(found), name=one_line(name)) for name, found in named.items() if len(found) > 1
    ]
    unknown = [name for name, found in named.items() if not found]
    unsure = find_unsure(answers)
    if unsure:
        parts = [name for name, found in named.items() if len(found) < 2 and not is_whole(name, ids)]
        why = _NOT_WHOLE if None in answers.values() else _NOT_ALL_KNOWN
        faults += [why.format(name=one_line(name), hosts=shorten(unsure)) for name in parts]
        unknown = [] if None in answers.values() else [name for name in unknown if name not in parts]
    faults += [_UNKNOWN.format(name=one_line(name)) for name in unknown]
    unclear = [host for host, answer in given.items() if not answer.get("document_is_clear")]
    if unknown and unclear:
        faults.append(_UNCLEAR.format(hosts=", ".join(unclear)))
    # A host that was not asked yet may tell of it later, or have its mark.
    later = [name for name, found in named.items() if not found and is_whole(name, ids)]
    return {"event_ids": [*(ids[key] for found in named.values() for key in found), *later], "faults": faults}


def is_whole(name: str, ids: Container[str]) -> bool:
    """Tell whether a name means one event only, whatever other events there are."""
    return len(name) >= WHOLE_ID or fold_case(name) in ids


def find_unsure(answers: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Return the hosts that may have more events than are known of them.

    :param answers: None for a host that was not asked. One that failed, or could not be reached, lists no events.
    """
    return [host for host, answer in answers.items() if not (answer and answer.get("document_is_clear"))]
