# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a fleet makes of an event together; pure. The role event_response asks, prepares, approves and waits by it.

Each host keeps a list with the progress of each event that affects it: dicts with exactly the keys of
NEW_PROGRESS; its events are as scheduled_events_info returns them. Times are seconds since 1970.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import STARTED as STATUS_STARTED
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import fold_case
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._lifecycle import (
    ANNOUNCED,
    COMPLETED,
    ENDED,
    STARTED,
    WITHDRAWN,
)

from ._fleet_parts import read_utc

NEW_PROGRESS: dict[str, Any] = {
    "event": {},
    "phase": ANNOUNCED,
    "outcome": None,
    "prepared": None,
    "restored": None,
    "approved_by": None,
    "failed": False,
    "why": [],
    "stays_prepared": True,
    "connection_lost": False,
    "seen_at": 0.0,
    "notice_used_seconds": None,
    "ended_after_seconds": None,
}

_LOST = "The connection was lost before it was prepared."


def begin_progress(answer: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
    """Return the progress of each event of a first answer that surely affects the host."""
    events = [event for event in answer["events"] if event["affects_this_vm"]]
    return [
        {**NEW_PROGRESS, "event": event, "phase": STARTED if _has_started(event) else ANNOUNCED, "seen_at": now}
        for event in events
    ]


def follow_progress(
    progress: Iterable[Mapping[str, Any]], answer: Mapping[str, Any], now: float
) -> list[dict[str, Any]]:
    """Take in a later answer of the host, for which it was asked for all of the document.

    Without a document nothing is known, and nothing has ended.
    """
    listed = {fold_case(event["event_id"]): event for event in answer.get("events") or []}
    known = bool(answer.get("document_received"))
    followed = [dict(each) for each in progress]
    for each in followed:
        if each["phase"] == ENDED:
            continue
        each["connection_lost"] = each["connection_lost"] or bool(answer.get("unreachable"))
        if not known:
            continue
        event = listed.get(progress_key(each))
        if event is None:
            each["outcome"] = COMPLETED if _happened(each, now) else WITHDRAWN
            each["phase"] = ENDED
            each["ended_after_seconds"] = round(now - each["seen_at"])
        else:
            each["event"] = event
            each["phase"] = STARTED if _has_started(event) else each["phase"]
        if each["phase"] != ANNOUNCED and each["notice_used_seconds"] is None:
            each["notice_used_seconds"] = round(now - each["seen_at"])
    return followed


def _has_started(event: Mapping[str, Any]) -> bool:
    return bool(event["event_status"] == STATUS_STARTED)


def _happened(each: Mapping[str, Any], now: float) -> bool:
    """Tell whether an event that is gone took place: whatever Azure withdraws was never started, approved or due."""
    signs = (each["phase"] == STARTED, each["approved_by"], each["connection_lost"])
    return any(signs) or seconds_left(each["event"], now) == 0


def seconds_left(event: Mapping[str, Any], now: float) -> float | None:
    """Return the seconds until Azure may start the event, None where that is not known."""
    not_before = read_utc(str(event["not_before"] or ""))
    return None if not_before is None else max(0.0, not_before.timestamp() - now)


def mark_progress(progress: Iterable[Mapping[str, Any]], event_id: str, **changes: Any) -> list[dict[str, Any]]:
    """Note something of one event; ``why``, a reason or None, is added to the reasons that were noted before.

    :raises ValueError: there is no such key.
    """
    unknown = sorted(set(changes) - set(NEW_PROGRESS))
    if unknown:
        raise ValueError(f"The progress of an event has no {', '.join(unknown)}.")
    marked = [dict(each) for each in progress]
    for each in marked:
        if progress_key(each) == fold_case(event_id):
            reason = changes.get("why")
            each.update(changes, why=[*each["why"], reason] if reason else each["why"])
    return marked


def settle_progress(
    progress: Iterable[Mapping[str, Any]],
    plans: Iterable[Mapping[str, Any]],
    results: Mapping[str, Iterable[Mapping[str, Any]]],
    wait: bool,
    now: float,
) -> list[dict[str, Any]]:
    """Take in what became of the plans.

    :param results: of each host that was to approve, what scheduled_event_approve returned for each of its plans.
    :param wait: whether the end of the events is waited for.
    """
    by_key = {fold_case(plan["event"]["event_id"]): plan for plan in plans}
    settled = [dict(each) for each in progress]
    for each in settled:
        plan = by_key.get(progress_key(each))
        if plan is None or each["phase"] == ENDED:
            continue
        changes = {"why": plan["why"], "failed": each["failed"] or plan["blocked"], "stays_prepared": plan["wait"]}
        if plan["approver"]:
            changes = _judge_approval(
                plan["approver"], _approval(results.get(plan["approver"], ()), progress_key(each))
            )
        if changes.get("approved_by") and each["notice_used_seconds"] is None:
            changes["notice_used_seconds"] = round(now - each["seen_at"])
        if not wait and each["phase"] == ANNOUNCED and not changes.get("approved_by"):
            changes["stays_prepared"] = False
        (changed,) = mark_progress([each], each["event"]["event_id"], **changes)
        each.update(changed)
    return settled


def rejoin_progress(progress: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Take in that the connection to the host was lost before it could tell how far it was."""
    rejoined = [dict(each) for each in progress]
    for each in rejoined:
        each["connection_lost"] = True
        if each["prepared"] is None:
            each.update(prepared=False, failed=True, why=[*each["why"], _LOST])
    return rejoined


def _approval(results: Iterable[Mapping[str, Any]], key: str) -> Mapping[str, Any]:
    """Return the result for one event, an empty one where there is none."""
    for result in results:
        if fold_case(result["item"]["event"]["event_id"]) == key:
            approvals = result.get("approvals") or [{}]
            return {**result, **approvals[0]}
    return {}


def _judge_approval(approver: str, approval: Mapping[str, Any]) -> dict[str, Any]:
    said = approval.get("result")
    if said == "approved":
        return {"approved_by": approver}
    if said in ("already_started", "not_found"):
        return {}
    if approval.get("unreachable"):
        # The very event that was approved may have cut the connection.
        return {
            "connection_lost": True,
            "why": f"Whether {approver} approved it is not known: its connection was lost.",
        }
    return {"failed": True, "why": f"Not approved: {approver}: {approval.get('msg') or 'it gave no answer'}"}


def progress_key(each: Mapping[str, Any]) -> str:
    """Return the key of the event."""
    return fold_case(each["event"]["event_id"])


def summarize(progress: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return what became of each event over all hosts, for people and for the next node of a workflow."""
    events: dict[str, dict[str, Any]] = {}
    for host, followed in progress.items():
        for each in followed:
            event = each["event"]
            known = events.setdefault(
                progress_key(each),
                {
                    "event_id": event["event_id"],
                    "event_type": event["event_type"],
                    "phase": each["phase"],
                    "outcome": each["outcome"],
                    "approved_by": each["approved_by"],
                    "hosts": [],
                    "failed_hosts": [],
                    "why": [],
                },
            )
            known["hosts"].append(host)
            if each["failed"]:
                known["failed_hosts"].append(host)
            known["why"] += [reason for reason in each["why"] if reason not in known["why"]]
            # One VM that has seen it happen knows more than one that has not.
            if each["outcome"] == COMPLETED:
                known["outcome"] = COMPLETED
    found = list(events.values())
    return {
        "events": found,
        "approved": sum(1 for event in found if event["approved_by"]),
        "completed": sum(1 for event in found if event["outcome"] == COMPLETED),
        "withdrawn": sum(1 for event in found if event["outcome"] == WITHDRAWN),
        "failed": sum(1 for event in found if event["failed_hosts"]),
    }
