# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a fleet makes of an event together; pure. The role event_response asks, prepares, approves and waits by it.

Each host keeps a list of courses, one for each event that affects it. A course is a dict with exactly the keys of
COURSE; its events are as scheduled_events_info returns them. Times are seconds since 1970.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import STARTED as STATUS_STARTED
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import fold_case, parse_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._lifecycle import (
    ANNOUNCED,
    COMPLETED,
    ENDED,
    STARTED,
    WITHDRAWN,
)

COURSE: dict[str, Any] = {
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


def begin_courses(answer: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
    """Return a course for each event of a first answer that surely affects the host."""
    events = [event for event in answer["events"] if event["affects_this_vm"]]
    return [
        {**COURSE, "event": event, "phase": STARTED if _has_started(event) else ANNOUNCED, "seen_at": now}
        for event in events
    ]


def follow_courses(courses: Iterable[Mapping[str, Any]], answer: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
    """Take in a later answer of the host, for which it was asked for all of the document.

    Without a document nothing is known, and nothing has ended.
    """
    listed = {fold_case(event["event_id"]): event for event in answer.get("events") or []}
    known = answer.get("document_incarnation") is not None
    followed = [dict(course) for course in courses]
    for course in followed:
        if course["phase"] == ENDED:
            continue
        course["connection_lost"] = course["connection_lost"] or bool(answer.get("unreachable"))
        if not known:
            continue
        event = listed.get(course_key(course))
        if event is None:
            course["outcome"] = COMPLETED if _happened(course, now) else WITHDRAWN
            course["phase"] = ENDED
            course["ended_after_seconds"] = round(now - course["seen_at"])
        else:
            course["event"] = event
            course["phase"] = STARTED if _has_started(event) else course["phase"]
        if course["phase"] != ANNOUNCED and course["notice_used_seconds"] is None:
            course["notice_used_seconds"] = round(now - course["seen_at"])
    return followed


def _has_started(event: Mapping[str, Any]) -> bool:
    return bool(event["event_status"] == STATUS_STARTED)


def _happened(course: Mapping[str, Any], now: float) -> bool:
    """Tell whether an event that is gone took place: whatever Azure withdraws was never started, approved or due."""
    signs = (course["phase"] == STARTED, course["approved_by"], course["connection_lost"])
    return any(signs) or seconds_left(course["event"], now) == 0


def seconds_left(event: Mapping[str, Any], now: float) -> float | None:
    """Return the seconds until Azure may start the event, None where that is not known."""
    if not event["not_before"]:
        return None
    return max(0.0, parse_utc(str(event["not_before"])).timestamp() - now)


def mark_course(courses: Iterable[Mapping[str, Any]], event_id: str, **changes: Any) -> list[dict[str, Any]]:
    """Note something of one event; ``why``, a reason or None, is added to the reasons that were noted before.

    :raises ValueError: a course has no such key.
    """
    unknown = sorted(set(changes) - set(COURSE))
    if unknown:
        raise ValueError(f"A course has no {', '.join(unknown)}.")
    marked = [dict(course) for course in courses]
    for course in marked:
        if course_key(course) == fold_case(event_id):
            reason = changes.get("why")
            course.update(changes, why=[*course["why"], reason] if reason else course["why"])
    return marked


def settle_courses(
    courses: Iterable[Mapping[str, Any]],
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
    settled = [dict(course) for course in courses]
    for course in settled:
        plan = by_key.get(course_key(course))
        if plan is None or course["phase"] == ENDED:
            continue
        changes = {"why": plan["why"], "failed": course["failed"] or plan["held"], "stays_prepared": plan["wait"]}
        if plan["approver"]:
            changes = _judge_approval(
                plan["approver"], _approval(results.get(plan["approver"], ()), course_key(course))
            )
        if changes.get("approved_by") and course["notice_used_seconds"] is None:
            changes["notice_used_seconds"] = round(now - course["seen_at"])
        if not wait and course["phase"] == ANNOUNCED and not changes.get("approved_by"):
            changes["stays_prepared"] = False
        (course_now,) = mark_course([course], course["event"]["event_id"], **changes)
        course.update(course_now)
    return settled


def rejoin_courses(courses: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Take in that the connection to the host was lost before it could tell how far it was."""
    rejoined = [dict(course) for course in courses]
    for course in rejoined:
        course["connection_lost"] = True
        if course["prepared"] is None:
            course.update(prepared=False, failed=True, why=[*course["why"], _LOST])
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


def course_key(course: Mapping[str, Any]) -> str:
    """Return by what the event of a course is known."""
    return fold_case(course["event"]["event_id"])


def summarize(courses: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return what became of each event over all hosts, for people and for the next node of a workflow."""
    events: dict[str, dict[str, Any]] = {}
    for host, each in courses.items():
        for course in each:
            event = course["event"]
            known = events.setdefault(
                course_key(course),
                {
                    "event_id": event["event_id"],
                    "event_type": event["event_type"],
                    "phase": course["phase"],
                    "outcome": course["outcome"],
                    "approved_by": course["approved_by"],
                    "hosts": [],
                    "failed_hosts": [],
                    "why": [],
                },
            )
            known["hosts"].append(host)
            if course["failed"]:
                known["failed_hosts"].append(host)
            known["why"] += [reason for reason in course["why"] if reason not in known["why"]]
            # One VM that has seen it happen knows more than one that has not.
            if course["outcome"] == COMPLETED:
                known["outcome"] = COMPLETED
    found = list(events.values())
    return {
        "events": found,
        "approved": sum(1 for event in found if event["approved_by"]),
        "completed": sum(1 for event in found if event["outcome"] == COMPLETED),
        "withdrawn": sum(1 for event in found if event["outcome"] == WITHDRAWN),
        "failed": sum(1 for event in found if event["failed_hosts"]),
    }
