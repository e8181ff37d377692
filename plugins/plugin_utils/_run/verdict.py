# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The verdict on a run: the results of its events, and the faults; pure.

It comes from the known progress of each host, and not from Ansible's state of it.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from ...module_utils._errors import escape
from ...module_utils._event.document import fold_case
from ...module_utils._event.lifecycle import COMPLETED, ENDED, WITHDRAWN
from ...module_utils._event.marks import tell_mark
from ...module_utils._event.selection import words
from .._failure_text import tell_failure
from .hosts import Host, is_of_checker
from .marks import find_holding, tell_unclear
from .messages import format_outcome, merge_reasons, name_event
from .progress import is_coming, must_restore, progress_key, state_of, was_begun
from .settings import as_boolean

# Of each host, None for one that was never told its events
Progress = Mapping[str, "list[Mapping[str, Any]] | None"]

_UNCLEAR = "{host} was given an answer that could not be read as a whole, so an event may be missing. Run this again."


def conclude(run: Mapping[str, Any], in_one_play: bool = False) -> dict[str, Any]:
    """Return the verdict on a run.

    :param run: of engine.new_run().
    :param in_one_play: whether a host without variables takes no part: it may be in a later batch, or left out by a
        condition.
    :returns: ``summary``, of all hosts; ``results``, of each host; ``away``, the hosts with a fault that cannot say so
        themselves, because they fell out of the play.
    """
    hosts = {host: known for host, known in run["hosts"].items() if known["settings"] is not None or not in_one_play}
    answers = {host: _answer(known) for host, known in hosts.items()}
    progress: Progress = {host: _close(run, host, known) for host, known in hosts.items()}
    if run["refused"]:
        # No host had an order.
        faults = {host: list(run["refused"]) for host in hosts}
    else:
        named = next((known["settings"]["event_ids"] for known in hosts.values() if known["answer"]), ())
        faults = find_faults(progress, answers, named if run["all_asked"] else ())
        for host, known in hosts.items():
            unclear = list(map(tell_reason, tell_unclear(host, known)))
            faults.update({host: [*faults.get(host, ()), *unclear]} if unclear else {})
    if run["check_mode"]:
        progress = as_check_mode(progress)
    summary = summarize(progress)
    told = {tell_reason(why) for followed in progress.values() for each in followed or () for why in each["why"]}
    staying = [host for host, followed in progress.items() if any(map(_stays_prepared, followed or ()))]
    with_checker = [
        host
        for host, followed in progress.items()
        if any(each["prepared"] and is_of_checker(hosts[host], each) for each in followed or ())
    ]
    staying = [host for host in staying if host not in with_checker]
    empty, modes = find_empty(progress, answers), (run["only_marked"], run["check_mode"])
    lines = format_outcome(summary, faults, told, empty, staying, *modes, with_checker)
    away = [host for host in faults if run["hosts"][host]["away"] or host not in run["batch"]]
    return {
        "summary": {**summary, "faults": faults, "failed_before": run["failed_before"], "lines": lines},
        "results": {
            host: [{**each, "state": state_of(each)} for each in followed or ()] for host, followed in progress.items()
        },
        "away": [host for host in away if host not in run["failed_before"]],
    }


def _answer(known: Host) -> Mapping[str, Any]:
    why = known["fault"] or (None if known["answer"] else known["no_answer"])
    return {"msg": why} if why else known["answer"] or {}


def _close(run: Mapping[str, Any], host: str, known: Host) -> list[Mapping[str, Any]] | None:
    if known["answer"] is None or not run["all_asked"]:
        return None
    settings = known["settings"]
    waited = float(settings["wait_timeout"]) if run["done"] and not known["away"] else None
    held = [tell_mark(mark) for mark in find_holding(known)]
    may_stay = not as_boolean(settings["wait"])
    return list(note_unrestored(known["events"], host, may_stay, waited, held, known["no_answer"]))


def note_unrestored(
    progress: Iterable[Mapping[str, Any]],
    host: str,
    may_stay: bool,
    waited: float | None,
    held: Sequence[str] = (),
    no_answer: str | None = None,
) -> list[dict[str, Any]]:
    """Return the progress of a host at the end of a run; a host that is not known to be restored has failed.

    :param may_stay: whether the host may stay prepared for an event that is still to come.
    :param waited: how many seconds the host waited for the end of its events, None where the run ended for it before.
    :param held: of each mark of others for an event that is not known to be over, the result of tell_mark().
    :param no_answer: why the host gave no answer when it was asked last, None where it did.
    """
    closed = []
    followed = list(progress)
    for each in followed:
        others = [other for other in followed if other is not each and is_coming(other)]
        why = _why_left(each, others, host, may_stay, waited, held, no_answer)
        known = why is None or why in each["why"]
        closed.append({**each} if known else {**each, "failed": True, "why": [*each["why"], why]})
    return closed


def _why_left(
    each: Mapping[str, Any],
    others: list[Mapping[str, Any]],
    host: str,
    may_stay: bool,
    waited: float | None,
    held: Sequence[str],
    no_answer: str | None,
) -> str | None:
    """Return why a host is still prepared for an event, None where it is not, or is meant to be.

    :param others: the other events for which the host stays prepared.
    """
    if not must_restore(each):
        return None
    cut_short = each["prepared"] is False and not each["failed"]
    coming = each["stays_prepared"] and each["phase"] != ENDED and not cut_short
    if coming and may_stay:
        return None
    if each["unreachable"]:
        return f"{host} was not restored: it could not be reached: {no_answer or 'no answer'}"
    other = name_event(others[0]["event"]) if others else ""
    if other and may_stay:
        return f"{host} was not restored: it stays prepared for its other event {other}."
    if no_answer and waited is not None:
        return f"{host} was not restored: it could not be asked any more: {no_answer}"
    if coming and waited is not None:
        return f"{host} was not restored: the event did not end within {waited:g} s."
    if other and waited is not None:
        return f"{host} was not restored: its other event {other} did not end within {waited:g} s."
    if held and waited is not None:
        return f"{host} was not restored: it is also out of service {held[0]}, and that event is not known to be over."
    return (
        f"{host} is not known to be restored: the run ended for it, or its connection was lost, before that was done; "
        "see the output above."
    )


def as_check_mode(
    progress: Mapping[str, Iterable[Mapping[str, Any]] | None],
) -> dict[str, list[Mapping[str, Any]] | None]:
    """Return the progress of a run in check mode for its report: an approval becomes one that would have been sent."""
    return {
        host: None if followed is None else [_as_check_mode(each) for each in followed]
        for host, followed in progress.items()
    }


def _as_check_mode(each: Mapping[str, Any]) -> Mapping[str, Any]:
    if not each["approved_by"]:
        return each
    return {**each, "approved_by": None, "would_be_approved_by": each["approved_by"], "notice_used_seconds": None}


def find_faults(
    progress: Mapping[str, Iterable[Mapping[str, Any]] | None],
    answers: Mapping[str, Mapping[str, Any] | None],
    named: Iterable[Any] | str | None = (),
) -> dict[str, list[str]]:
    """Return the faults of each host that has one, a sentence each.

    :param progress: of each host the result of note_unrestored(), None for one that was never told its events.
    :param answers: the latest answer to each host, None for one that was not asked.
    :param named: the ids of the events that the run is limited to; empty for all.
    """
    events = {progress_key(each): each["event"] for followed in progress.values() for each in followed or ()}
    wanted = [events.get(fold_case(name)) for name in words(named)]
    faults = {}
    for host, followed in progress.items():
        if followed is None:
            found = [_tell_not_asked(host, answers.get(host))]
        elif _is_unclear(followed, answers.get(host), wanted):
            found = [_UNCLEAR.format(host=host)]
        else:
            found = [why for each in followed if each["failed"] for why in each["why"]]
        if found:
            # Ansible shows the message of a failed task as it is.
            faults[host] = list(dict.fromkeys(map(tell_reason, found)))
    return faults


def _is_unclear(
    followed: Iterable[Mapping[str, Any]],
    answer: Mapping[str, Any] | None,
    wanted: Sequence[Mapping[str, Any] | None],
) -> bool:
    """Tell whether the latest answer may have had an event of the host that could not be read. Where there is one to
    follow, the run has followed it.

    :param wanted: the events that the run is limited to, None for one that no host told of; empty for all.
    """
    if not answer or not answer.get("document_received") or answer.get("document_is_clear") or list(followed):
        return False
    name = fold_case(answer.get("resource_name") or "")
    return not wanted or any(event is None or name in map(fold_case, event["resources"]) for event in wanted)


def find_empty(
    progress: Mapping[str, Iterable[Mapping[str, Any]] | None], answers: Mapping[str, Mapping[str, Any] | None]
) -> list[str]:
    """Return the hosts to which Azure gave an empty answer, which does not tell whether there are events.

    On some VMs it always does while there is none, so that this is no fault.
    """
    return [
        host
        for host, followed in progress.items()
        if followed is not None and not list(followed) and (answers.get(host) or {}).get("document_received") is False
    ]


def tell_reason(why: str) -> str:
    """Return a reason, in which there may be names from outside, so that it can be shown on a terminal."""
    return escape(" ".join(why.split()))


def _tell_not_asked(host: str, answer: Mapping[str, Any] | None) -> str:
    if not answer:
        return f"{host} was not asked: see the output above."
    return f"{host} could not be asked: {tell_failure(answer)}"


def summarize(progress: Mapping[str, Iterable[Mapping[str, Any]] | None]) -> dict[str, Any]:
    """Return the result of each event over all hosts, for people and for the next node of a workflow.

    :param progress: of each host the result of note_unrestored(), None for one that was never told its events.
    """
    events: dict[str, dict[str, Any]] = {}
    reasons: dict[str, list[tuple[str, str]]] = {}
    for host, followed in progress.items():
        for each in followed or ():
            event = each["event"]
            known = events.setdefault(
                progress_key(each),
                {
                    "event_id": event["event_id"],
                    "event_type": event["event_type"],
                    "phase": each["open_phase"] or each["phase"],
                    "outcome": each["outcome"],
                    "approved_by": each["approved_by"],
                    "would_be_approved_by": each["would_be_approved_by"],
                    "hosts": [],
                    "failed_hosts": [],
                    "why": [],
                },
            )
            reasons.setdefault(progress_key(each), []).extend((host, tell_reason(why)) for why in each["why"])
            # A restore that failed, and was tried again for the mark of an earlier run, is followed twice.
            for name in ("hosts", "failed_hosts") if each["failed"] else ("hosts",):
                if host not in known[name]:
                    known[name].append(host)
            # A VM that saw the event is right against one that did not.
            if each["outcome"] == COMPLETED:
                known["outcome"] = COMPLETED
    for key, event in events.items():
        event["why"] = merge_reasons(reasons[key])
    found = list(events.values())
    return {
        "events": found,
        "approved": sum(1 for event in found if event["approved_by"]),
        "would_be_approved": sum(1 for event in found if event["would_be_approved_by"]),
        "completed": sum(1 for event in found if event["outcome"] == COMPLETED),
        "withdrawn": sum(1 for event in found if event["outcome"] == WITHDRAWN),
        "failed": sum(1 for event in found if event["failed_hosts"]),
        "not_asked": [host for host, followed in progress.items() if followed is None],
        "not_restored": [host for host, followed in progress.items() if any(map(_is_left, followed or ()))],
    }


def _stays_prepared(each: Mapping[str, Any]) -> bool:
    """Tell whether a host is meant to stay prepared when the run is over. Without a mark no file has prepared it."""
    return bool(must_restore(each) and each["marked"] and not each["failed"])


def _is_left(each: Mapping[str, Any]) -> bool:
    """Tell whether a preparation was begun and is not known to be taken back, as it should be."""
    return bool(each["failed"] and was_begun(each) and each["restored"] is not True and not each["with_checker"])
