# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The approvals of a run: which host approves which event, or why none may; pure. Times: seconds since 1970."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ...module_utils._event.document import EVENT_SOURCES, EVENT_TYPES, fold_case
from ...module_utils._event.lifecycle import ANNOUNCED, ENDED, STARTED, WITHDRAWN
from ...module_utils._event.selection import keys
from .._failure_text import timed_out
from .progress import is_near, is_prepared_as_another, must_restore, progress_key, update_event
from .settings import IGNORE

# The reasons of scheduled_event_approve for a metadata service that does not answer
_SILENT = ("unreachable", "timeout")
# Azure's word on its control plane for an event that does not take place
CANCELED = "Canceled"
_FROM_OUTSIDE = "Its VM could not be asked to approve it, so it was approved from outside, by Azure's control plane."
OTHER_BATCH = "is in another batch of the play (serial)"
_CHANGED = (
    "the event has another type or source now than its hosts are prepared for. Run this again: that prepares for what "
    "it is now."
)


def plan_approval(
    key: str,
    hosts: Mapping[str, Mapping[str, Any]],
    approve: bool,
    outside_vms: str,
    max_wait: float,
    now: float,
) -> dict[str, Any]:
    """Decide whether an event is approved, once all hosts have tried to prepare.

    :param key: of the event.
    :param hosts: the known state of each host of the play, in the order of the play: ``resource_name``, ``progress``,
        ``lost``, a sentence that says why the host takes no part any more, or None, and ``marked_for``, the keys of the
        events for which earlier runs have left it out of service.
    :param approve: whether anything may be approved.
    :param outside_vms: IGNORE approves an event also where it lists a VM that is not a host of the play.
    :param max_wait: how many seconds an event may be waited for that is not approved.
    :returns: ``event``, ``approver`` (a host, or None), ``resources_ready``, ``why`` (why it is not approved, or
        None), ``blocked`` (whether there are obstacles), ``wait`` (whether to wait for its end). With an approver also
        ``event_types`` and ``event_sources``, options of scheduled_event_approve.
    """
    progress = {host: each for host, known in hosts.items() for each in known["progress"] if progress_key(each) == key}
    # The latest answer of a host may be older than that of another, and another VM may have come into it since.
    latest = next((each for each in progress.values() if each["phase"] == STARTED), None)
    announced = (each for each in progress.values() if each["phase"] == ANNOUNCED)
    event = (latest or max(announced, key=lambda each: each["listed_at"]))["event"]
    plan: dict[str, Any] = {"event": event, "approver": None, "resources_ready": [], "why": None, "blocked": False}
    if latest is not None:
        # Nobody is restored after an event for which nobody was prepared.
        begun = any(map(must_restore, progress.values())) or any(key in known["marked_for"] for known in hosts.values())
        return {**plan, "why": "It started before this run had approved it.", "wait": begun}
    ready, outside, obstacles = _check_readiness(event, progress, hosts)
    # A host that did not say which VM it is may be one of them.
    unasked = _unasked(hosts) if outside else []
    if outside and (outside_vms != IGNORE or unasked):
        one, several = "no host of this play is the VM", "no host of this play is any of the VMs"
        obstacles += [f"{one if len(outside) == 1 else several} {', '.join(outside)}", *unasked]
    if not ready and not obstacles:
        obstacles.append("it names no VM of this play")
    if obstacles or not approve:
        why = "; ".join(obstacles) if approve else "event_response_approve is false"
        return {**hold_back(event, why, progress.values(), max_wait, now), "blocked": approve}
    # The first of the resources is the leader.
    named = [*(hosts[host]["resource_name"] for host in ready), *outside]
    return {**plan, "approver": ready[0], "resources_ready": named, "wait": True, **_kind(progress[ready[0]])}


def _kind(each: Mapping[str, Any]) -> dict[str, str]:
    """Return for which type and source a host is prepared: Azure may change them just before the approval.

    A word that scheduled_event_approve does not know is no condition.
    """
    kind, source = (str((each["prepared_as"] or each["event"])[name] or "") for name in ("event_type", "event_source"))
    return {
        "event_types": kind if fold_case(kind) in keys(EVENT_TYPES) else "",
        "event_sources": source if fold_case(source) in keys(EVENT_SOURCES) else "",
    }


def hold_back(
    event: Mapping[str, Any], why: str, progress: Iterable[Mapping[str, Any]], max_wait: float, now: float
) -> dict[str, Any]:
    """Return the plan, as plan_approval() does, of an event that is not approved.

    :param progress: of the event, on its hosts.
    """
    # A run in which nobody is ready for the event has nothing to wait for.
    prepared = any(each["prepared"] and must_restore(each) for each in progress)
    plan: dict[str, Any] = {
        "event": event,
        "approver": None,
        "resources_ready": [],
        "blocked": True,
        "why": f"Not approved: {why}.",
    }
    return {**plan, "wait": prepared and is_near(event, max_wait, now)}


def _unasked(hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return which hosts did not say which VM they are, and why not."""
    nameless = {host: known["lost"] for host, known in hosts.items() if not known["resource_name"]}
    lost = [f"{host} {why}" for host, why in nameless.items() if why not in (None, OTHER_BATCH)]
    # In a large fleet these are many, and the event is not theirs.
    later = ["hosts in later batches of the play were not asked"] if OTHER_BATCH in nameless.values() else []
    return lost + later


def _check_readiness(
    event: Mapping[str, Any],
    progress: Mapping[str, Mapping[str, Any]],
    hosts: Mapping[str, Mapping[str, Any]],
) -> tuple[list[str], list[str], list[str]]:
    """Return the hosts that are ready for an event, the VMs that are none of the hosts, and the obstacles."""
    ready: list[str] = []
    outside: list[str] = []
    obstacles: list[str] = []
    for name in event["resources"]:
        found = [host for host, known in hosts.items() if fold_case(known["resource_name"] or "") == fold_case(name)]
        namesakes = [host for host in hosts if _is_called(host, name)]
        if len(found) > 1:
            obstacles.append(f"{' and '.join(found)} both say that they are {name}")
        elif found:
            each = progress.get(found[0])
            # The type is that of the latest answer. The source is its own: older versions of the API have none.
            latest = each and {**each, "event": {**each["event"], "event_type": event["event_type"]}}
            obstacle = _obstacle(found[0], hosts[found[0]], latest)
            if obstacle:
                obstacles.append(obstacle)
            else:
                ready.append(found[0])
        elif namesakes:
            # Its own word is wrong, or another VM has its name: nobody can vouch for either.
            said = hosts[namesakes[0]]["resource_name"]
            told = f"says that it is {said}" if said else hosts[namesakes[0]]["lost"] or "did not say which VM it is"
            obstacles.append(f"the VM {name} has the name of the host {namesakes[0]}, which {told}")
        else:
            outside.append(name)
    return ready, outside, obstacles


def _is_called(host: str, name: str) -> bool:
    """Tell whether a host of the inventory has the name of a VM, with or without a domain."""
    return fold_case(name) in (fold_case(host), fold_case(host.partition(".")[0]))


def _obstacle(host: str, known: Mapping[str, Any], each: Mapping[str, Any] | None) -> str | None:
    """Return why a host does not let an event begin, None where it does."""
    if known["lost"]:
        return f"{host} {known['lost']}"
    if each is None:
        return f"{host} has not seen it"
    if each["phase"] == ENDED:
        return f"{host} does not see it any more"
    if each["connection_lost"]:
        return f"{host} became unreachable"
    if each["no_answer"]:
        return f"{host} could not be asked again: {each['no_answer']}"
    if each["rebooted"]:
        return f"{host} is not prepared: it booted after its preparation"
    if not each["prepared"]:
        return f"{host} is not prepared"
    if each["restored"] is not None:
        return f"{host} is not prepared: it was restored after its preparation"
    if is_prepared_as_another(each):
        return f"{host} is not prepared: it was prepared for {_name_kind(each)}"
    return None


def _name_kind(each: Mapping[str, Any]) -> str:
    kind, source = (str(each["prepared_as"][name] or "") for name in ("event_type", "event_source"))
    if fold_case(kind) == fold_case(str(each["event"]["event_type"])):
        return f"an event from {source or 'an unknown source'}"
    return f"a {kind}" if kind else "an event of unknown type"


def apply_approval_results(
    progress: Iterable[Mapping[str, Any]],
    plans: Iterable[Mapping[str, Any]],
    results: Mapping[str, Iterable[Mapping[str, Any]]],
    wait: bool,
    now: float,
) -> list[dict[str, Any]]:
    """Note the results of the plans.

    :param plans: after hold_back_refused().
    :param results: of each host that was to approve, the result of scheduled_event_approve for each of its plans.
    :param wait: whether the end of the events is waited for.
    """
    by_key = {progress_key(plan): plan for plan in plans}
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
    """Return the changes of a plan and its result to one event of one host."""
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
    """Return the plans; an event that was certainly refused is held back, as if no host could approve it.

    :param max_wait: as for plan_approval().
    """
    held = []
    for plan in plans:
        approver = plan["approver"]
        why = _why_refused(_approval(results.get(approver, ()), progress_key(plan))) if approver else None
        if why:
            wait = is_near(plan["event"], max_wait, now)
            why = f"Not approved: {approver}: {why}"
            was_tried = not why.endswith(_CHANGED)
            plan = {**plan, "approver": None, "why": why, "blocked": True, "wait": wait, "was_tried": was_tried}
        held.append(plan)
    return held


def could_not_be_asked(result: Mapping[str, Any]) -> bool:
    """Tell whether a VM could not be asked to approve: it was lost, or its metadata service was silent before anything
    was sent. A refusal of Azure is an answer.
    """
    if result.get("unreachable") or timed_out(result):
        return True
    return result.get("in_doubt") is False and result.get("reason") in _SILENT


def take_acknowledgement(result: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of an approval with that of the approval from outside, which was tried after it.

    :param said: of scheduled_event_acknowledge.
    """
    approval = (said.get("approvals") or [{}])[0]
    if approval.get("result") == "approved":
        return {**result, "approvals": [approval], "in_doubt": False, "from_outside": True}
    if approval.get("event_status") == CANCELED:
        # A document tells that it is over (P4). Nothing was approved before, so it counts as withdrawn then.
        return {**result, "approvals": [{"result": WITHDRAWN}], "in_doubt": False}
    in_doubt = _is_in_doubt(result) or _is_in_doubt(said)
    return {**result, "in_doubt": in_doubt, "outside": f" From outside: {said.get('msg') or 'no answer.'}"}


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
    if _is_in_doubt(approval) or result in ("approved", "already_started", WITHDRAWN):
        return None
    if result == "not_found":
        clear = approval.get("document_is_clear")
        return None if clear else "no document told whether the event is still there."
    if approval.get("approvals") == []:
        # It is listed, or it would be not_found.
        return _CHANGED
    return f"{approval.get('msg') or 'it gave no answer'}{approval.get('outside', '')}"


def _judge_approval(approver: str, approval: Mapping[str, Any], wait: bool) -> dict[str, Any]:
    """Return the changes of a result of scheduled_event_approve for one event, for each of its hosts."""
    in_doubt = _is_in_doubt(approval)
    cases: dict[Any, dict[str, Any]] = {
        "approved": {"approved_by": approver, "why": _FROM_OUTSIDE if approval.get("from_outside") else None},
        WITHDRAWN: {"stays_prepared": wait},
        "already_started": {"phase": STARTED, "may_be_approved": in_doubt},
        # It is over, so the hosts need not stay prepared for it.
        "not_found": {"may_be_approved": in_doubt, "stays_prepared": wait},
    }
    known = cases.get(approval.get("result"))
    if known is not None:
        return known
    lost = bool(approval.get("unreachable") or timed_out(approval))
    # The approved event itself may have cut the connection.
    said = "its connection was lost." if lost else approval.get("msg") or "it gave no answer"
    why = f"Whether {approver} approved it is not known: {said}{approval.get('outside', '')}"
    changes: dict[str, Any] = {"may_be_approved": True, "failed": not lost or not wait, "why": why}
    if not wait:
        changes["why"] += " Azure may start it at any time, so each host that is prepared for it stays prepared."
    if lost:
        changes["connection_lost"] = True
    return changes


def _is_in_doubt(approval: Mapping[str, Any]) -> bool:
    """Tell whether Azure may have taken an approval: only the module itself can tell that it has not."""
    return approval.get("in_doubt") is not False
