# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Which host of a run sends the approval of an event that several may send; pure."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ...module_utils._approval.guard import ALREADY_STARTED, APPROVED, NOT_FOUND
from ...module_utils._event.document import fold_case
from ...module_utils._event.selection import find_named, words
from .._answer_form import UNUSABLE, find_answer_fault, find_approval_fault
from .event_ids import find_unsure, is_whole


def share_approvals(results: Mapping[str, Mapping[str, Any]], named: Iterable[str] | str = ()) -> dict[str, Any]:
    """Give each event to one host: its leader, else the first of its VMs, else the first that may approve it.

    :param results: of scheduled_event_approve in check mode, for each host. One that failed approves nothing, but its
        events count.
    :param named: the ids that were asked for, or their beginnings. VMs that share no document may each have seen
        another event that begins so.
    :returns: ``event_ids``, the events that each host is to approve; ``left_to``, for each host a sentence for each
        event that another one approves; ``not_found``, the ids that were asked for and that no host has seen;
        ``ambiguous``, those that several events begin with; ``unsure``, the hosts that may have more events than are
        known; ``incomplete``, those that are no whole ids, while there is such a host; ``unclear``, the hosts that may
        list more of the wanted events, because an entry cannot be read; ``empty``, those that got an empty answer;
        ``unusable``, why the answer of a host cannot be used, for each such host.
    """
    named = words(named)
    faults = {host: _find_fault(result) for host, result in results.items()}
    unusable = {host: UNUSABLE.format(fault=fault) for host, fault in faults.items() if fault}
    results = {host: {} if host in unusable else result for host, result in results.items()}
    seen: dict[str, dict[str, tuple[int, str]]] = {}
    listed = {fold_case(event["event_id"]) for result in results.values() for event in result.get("events", ())}
    answered = {host: result for host, result in results.items() if not result.get("failed") and "events" in result}
    for host, result in answered.items():
        known = {event["event_id"]: event for event in result["events"]}
        for each in _approvals_with_result(result, APPROVED, ALREADY_STARTED):
            rank = _rank(known[each["event_id"]])
            seen.setdefault(fold_case(each["event_id"]), {})[host] = (rank, each["event_id"])
    event_ids: dict[str, list[str]] = {host: [] for host in results}
    left_to: dict[str, list[str]] = {host: [] for host in results}
    for hosts in seen.values():
        chosen = min(hosts, key=lambda host: hosts[host][0])
        for host, (_rank_of_host, event_id) in hosts.items():
            if host == chosen:
                event_ids[host].append(event_id)
            else:
                left_to[host].append(f"{chosen} answers for {event_id}.")
    ambiguous = [name for name, found in find_named(named, listed).items() if len(found) > 1]
    unsure = find_unsure(results)
    incomplete = [name for name in find_named(named, listed) if unsure and not is_whole(name, listed)]
    # A host that lists an event with its whole id has all data on it.
    may_list_more = not named or any(fold_case(name) not in listed for name in named)
    doubtful = [host for host, result in answered.items() if may_list_more and not result["document_is_clear"]]
    empty = [host for host in doubtful if answered[host]["document_received"] is False]
    return {
        "event_ids": event_ids,
        "left_to": left_to,
        "not_found": _find_missed(results),
        "ambiguous": ambiguous,
        "unsure": unsure,
        "incomplete": incomplete,
        "empty": empty,
        "unclear": [host for host in doubtful if host not in empty],
        "unusable": unusable,
    }


def _find_fault(result: Mapping[str, Any]) -> str | None:
    """Return the fault of an answer that scheduled_event_approve does not give, None for a sound one."""
    if not ("events" in result or "approvals" in result):
        # It failed, or there is none.
        return None
    fault = find_approval_fault(result) or (find_answer_fault(result) if "events" in result else None)
    if fault:
        return fault
    known = {event["event_id"] for event in result.get("events", ())}
    approved = _approvals_with_result(result, APPROVED, ALREADY_STARTED)
    return None if all(each["event_id"] in known for each in approved) else "an approval is of an unknown event"


def _find_missed(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the ids that no host has seen of those that looked."""
    missed = [
        {fold_case(each["event_id"]): each["event_id"] for each in _approvals_with_result(result, NOT_FOUND)}
        for result in results.values()
        if "approvals" in result
    ]
    return [name for key, name in missed[0].items() if all(key in each for each in missed)] if missed else []


def _approvals_with_result(result: Mapping[str, Any], *words: str) -> list[Mapping[str, Any]]:
    return [each for each in result["approvals"] if each["result"] in words]


def _rank(event: Mapping[str, Any]) -> int:
    if event.get("is_leader"):
        return 0
    return 1 if event["affects_this_vm"] else 2
