# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Which events a run of event_response is limited to, by ids or their beginnings; pure."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ..module_utils._document import fold_case
from ..module_utils._errors import one_line
from ..module_utils._selection import SHORTEST_BEGINNING, find_named, words

_AMBIGUOUS = "event_response_event_ids: {count} events have an id that begins with {name}: write more of it."
_UNKNOWN = (
    "event_response_event_ids: no host is affected by an event with the id {name}, or with one that begins so "
    f"({SHORTEST_BEGINNING} characters at least): it is over or was withdrawn, names no VM, is left out by other "
    "variables, or has another id."
)
_UNCLEAR = "What Azure answered to {hosts} was empty or could not be read as a whole: run this again."


def find_wanted(names: Iterable[Any] | str | None, answers: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """Find the events that are named, over all hosts: hosts that share no document see different events.

    :param names: ids or their beginnings, as the user wrote them.
    :param answers: what each host of the play was answered, None for one that has not been asked yet.
    :returns: ``event_ids``, the whole ids, None where all events are wanted; ``faults``, what is wrong with the names,
        a sentence each. An id that nobody knows is a fault only when all hosts have been asked.
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
    unknown = [] if None in answers.values() else [name for name, found in named.items() if not found]
    faults += [_UNKNOWN.format(name=one_line(name)) for name in unknown]
    unclear = [host for host, answer in given.items() if not answer.get("document_is_clear")]
    if unknown and unclear:
        faults.append(_UNCLEAR.format(hosts=", ".join(unclear)))
    return {"event_ids": [ids[key] for found in named.values() for key in found], "faults": faults}
