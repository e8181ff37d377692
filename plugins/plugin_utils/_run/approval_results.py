# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What becomes of the plans of a run, by what scheduled_event_approve returned; pure. Times: seconds since 1970."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ...module_utils._event.lifecycle import ANNOUNCED, ENDED, STARTED
from .progress import is_near, progress_key, update_event


def apply_approval_results(
    progress: Iterable[Mapping[str, Any]],
    plans: Iterable[Mapping[str, Any]],
    results: Mapping[str, Iterable[Mapping[str, Any]]],
    wait: bool,
    now: float,
    max_wait: float = 0.0,
) -> list[dict[str, Any]]:
    """Note what became of the plans.

    :param results: of each host that was to approve, what scheduled_event_approve returned for each of its plans.
    :param wait: whether the end of the events is waited for.
    :param max_wait: how many seconds an event may be waited for whose approval was refused.
    """
    by_key = {progress_key(plan): plan for plan in hold_back_refused(plans, results, max_wait, now)}
    settled = []
    for each in progress:
        plan = by_key.get(progress_key(each))
        if plan is not None and each["phase"] != ENDED:
            changes = {**_settle(each, plan, results, wait, now), "settled": True, "waits_since": now}
            settled += update_event([each], each["event"]["event_id"], **changes)
        else:
            settled.append(dict(each))
    return settled


def _settle(
    each: Mapping[str, Any],
    plan: Mapping[str, Any],
    results: Mapping[str, Iterable[Mapping[str, Any]]],
    wait: bool,
    now: float,
) -> dict[str, Any]:
    """Return what a plan and its result change of one event of one host."""
    approver = plan["approver"]
    if approver:
        changes = _judge_approval(approver, _approval(results.get(approver, ()), progress_key(each)), wait)
    else:
        changes = {"why": plan["why"], "failed": each["failed"] or plan["blocked"], "stays_prepared": plan["wait"]}
    if changes.get("approved_by") and each["notice_used_seconds"] is None:
        changes["notice_used_seconds"] = round(now - each["seen_at"])
    may_start = changes.get("approved_by") or changes.get("may_be_approved")
    if not wait and changes.get("phase", each["phase"]) == ANNOUNCED and not may_start:
        changes["stays_prepared"] = False
    return changes


def hold_back_refused(
    plans: Iterable[Mapping[str, Any]],
    results: Mapping[str, Iterable[Mapping[str, Any]]],
    max_wait: float,
    now: float,
) -> list[Mapping[str, Any]]:
    """Return the plans; what was certainly refused is held back, as if nobody had been to approve it."""
    held = []
    for plan in plans:
        approver = plan["approver"]
        why = _why_refused(_approval(results.get(approver, ()), progress_key(plan))) if approver else None
        if why:
            wait = is_near(plan["event"], max_wait, now)
            why = f"Not approved: {approver}: {why}"
            plan = {**plan, "approver": None, "why": why, "blocked": True, "wait": wait}
        held.append(plan)
    return held


def _approval(results: Iterable[Mapping[str, Any]], key: str) -> Mapping[str, Any]:
    """Return the result for one event, an empty one where there is none."""
    for result in results:
        if progress_key(result["item"]) == key:
            approvals = result.get("approvals") or [{}]
            return {**result, **approvals[0]}
    return {}


def _why_refused(approval: Mapping[str, Any]) -> str | None:
    """Return why Azure has certainly taken no approval of an event that is not known to be gone or to have started."""
    result = approval.get("result")
    if _is_in_doubt(approval) or result in ("approved", "already_started"):
        return None
    if result == "not_found":
        clear = approval.get("document_is_clear")
        return None if clear else "no document told whether the event is still there."
    return str(approval.get("msg") or "it gave no answer")


def _judge_approval(approver: str, approval: Mapping[str, Any], wait: bool) -> dict[str, Any]:
    """Return what the result of scheduled_event_approve for one event changes, for each of its hosts."""
    in_doubt = _is_in_doubt(approval)
    cases: dict[Any, dict[str, Any]] = {
        "approved": {"approved_by": approver},
        "already_started": {"phase": STARTED, "may_be_approved": in_doubt},
        # It is over, so nothing is to come that the hosts must stay prepared for.
        "not_found": {"may_be_approved": in_doubt, "stays_prepared": wait},
    }
    known = cases.get(approval.get("result"))
    if known is not None:
        return known
    lost = bool(approval.get("unreachable") or timed_out(approval))
    # The very event that was approved may have cut the connection.
    said = "its connection was lost." if lost else approval.get("msg") or "it gave no answer"
    why = f"Whether {approver} approved it is not known: {said}"
    changes: dict[str, Any] = {"may_be_approved": True, "failed": not lost or not wait, "why": why}
    if not wait:
        changes["why"] += " Azure may start it at any time, so each host that is prepared for it stays prepared."
    if lost:
        changes["connection_lost"] = True
    return changes


def timed_out(result: Mapping[str, Any]) -> bool:
    """Tell whether Ansible has stopped a task at its time limit, as each release of ansible-core says it."""
    return "timedout" in result or "failed to execute in the expected time frame" in str(result.get("msg"))


def _is_in_doubt(approval: Mapping[str, Any]) -> bool:
    """Tell whether Azure may have taken an approval: only the module itself can tell that it has not."""
    return approval.get("in_doubt") is not False
