# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a fleet makes of an event together; pure. The role event_response asks, prepares, approves and waits by it.

Each host keeps a list with the progress of each event that affects it: dicts with exactly the keys of
NEW_PROGRESS; its events are as scheduled_events_info returns them. Times are seconds since 1970.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Iterable, Mapping

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import STARTED as STATUS_STARTED
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import Document, Event, fold_case
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._lifecycle import (
    ANNOUNCED,
    ENDED,
    STARTED,
    Known,
    follow,
    phase_of,
    same_boot,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._selection import keys

from ._parts import read_utc

NEW_PROGRESS: dict[str, Any] = {
    "event": {},
    "phase": ANNOUNCED,
    "outcome": None,
    "prepared": None,
    "restored": None,
    "approved_by": None,
    "may_be_approved": False,
    "failed": False,
    "why": [],
    "stays_prepared": True,
    "connection_lost": False,
    "unreachable": False,
    "no_answer": None,
    "boot_id": None,
    "rebooted": False,
    "unclear_since": None,
    "seen_at": 0.0,
    "notice_used_seconds": None,
    "ended_after_seconds": None,
}

_CUT_SHORT = (
    "The preparation of {host} was cut short: the connection was lost, or a task ended it for this host; "
    "see the output above."
)


def begin_progress(
    answer: Mapping[str, Any], now: float, event_ids: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """Return the progress of each event of a first answer that surely affects the host.

    ``boot_id`` is that of the preparation, which comes next: a boot in its middle undoes what was done before.

    :param event_ids: only the events with these ids; None takes all.
    """
    wanted = None if event_ids is None else keys(event_ids)
    seen = {**NEW_PROGRESS, "boot_id": answer.get("boot_id"), "seen_at": now}
    events = [
        event
        for event in answer["events"]
        if event["affects_this_vm"] and (wanted is None or fold_case(event["event_id"]) in wanted)
    ]
    return [{**seen, "event": event, "phase": phase_of(_read_event(event))} for event in events]


def follow_progress(
    progress: Iterable[Mapping[str, Any]], answer: Mapping[str, Any], now: float
) -> list[dict[str, Any]]:
    """Follow the events by a later answer of the host, for which it was asked for all of the document.

    What has become of the events is decided by the life cycle; only an answer of the metadata service can end one.
    """
    followed = [{**each, "unreachable": bool(answer.get("unreachable"))} for each in progress]
    pending = [each for each in followed if each["phase"] != ENDED]
    for each in pending:
        _note_answer(each, answer, now)
    if "document_received" not in answer:
        return followed
    document = _read_document(answer)
    name = answer.get("resource_name")
    moment = datetime.fromtimestamp(now, timezone.utc)
    for each in pending:
        known = _known(each, moment, answer.get("boot_id"))
        following = follow([known], document, name, _unclear_seconds(each, now))
        listed = following.listed.get(known.event.key)
        if listed is not None:
            each["event"] = listed.to_dict(moment, name)
        for transition in following.transitions:
            if transition.event.key == known.event.key:
                each["phase"], each["outcome"] = transition.phase, transition.outcome
        if each["phase"] == ENDED:
            each["ended_after_seconds"] = round(now - each["seen_at"])
        if each["phase"] != ANNOUNCED and each["notice_used_seconds"] is None:
            each["notice_used_seconds"] = round(now - each["seen_at"])
    return followed


def _note_answer(each: dict[str, Any], answer: Mapping[str, Any], now: float) -> None:
    """Note what an answer tells besides the events: whether there was one, during which boot, whether it is clear."""
    each["connection_lost"] = each["connection_lost"] or each["unreachable"]
    answered = "document_received" in answer
    each["no_answer"] = None if answered else str(answer.get("msg") or "no answer")
    each["rebooted"] = each["rebooted"] or not same_boot(each["boot_id"], answer.get("boot_id"))
    if not answered or answer.get("document_is_clear"):
        each["unclear_since"] = None
    elif each["unclear_since"] is None:
        each["unclear_since"] = now


def note_boot(progress: Iterable[Mapping[str, Any]], said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Note what a host that has no boot id said of its boot.

    :param said: the result of response_boot; empty or skipped where the host was not asked.
    """
    noted = [dict(each) for each in progress]
    for each in noted:
        if said.get("unreachable"):
            each.update(unreachable=True, connection_lost=True)
        elif said.get("booted_at") is not None:
            # The preparation came after the event was seen.
            each["rebooted"] = each["rebooted"] or float(said["booted_at"]) >= each["seen_at"]
        elif said and not said.get("skipped") and "booted_at" not in said:
            each["no_answer"] = str(said.get("msg") or "no answer")
    return noted


def _unclear_seconds(each: Mapping[str, Any], now: float) -> float:
    return 0.0 if each["unclear_since"] is None else now - float(each["unclear_since"])


def _known(each: Mapping[str, Any], moment: datetime, boot_id: str | None) -> Known:
    event = _read_event(each["event"])
    if each["phase"] == STARTED:
        event = event._replace(event_status=STATUS_STARTED)
    approved = bool(each["approved_by"] or each["may_be_approved"])
    # A boot that was noticed stays evidence, also where the boot id of now is not known.
    known = Known.at(moment, event, each["boot_id"], boot_id, approved)
    return known._replace(rebooted=known.rebooted or each["rebooted"])


def _read_document(answer: Mapping[str, Any]) -> Document | None:
    if not answer["document_received"]:
        return None
    events = tuple(_read_event(event) for event in answer["events"])
    return Document(answer.get("document_incarnation"), events, (), bool(answer.get("document_is_clear")))


def _read_event(event: Mapping[str, Any]) -> Event:
    """Return the event of which scheduled_events_info made this."""
    # A date that cannot be read is an unknown start; it must not stop what becomes of the event.
    moment = event["not_before"] if read_utc(str(event["not_before"] or "")) else None
    read = Event.from_dict({**event, "not_before": moment})
    # The VM itself could tell whether it is listed only where every name could be read.
    return read._replace(names_its_vms=read.names_its_vms and event["affects_this_vm"] is not None)


def seconds_left(event: Mapping[str, Any], now: float) -> int | None:
    """Return the seconds until Azure may start the event, None where that is not known."""
    return _read_event(event).seconds_until_start(datetime.fromtimestamp(now, timezone.utc))


def is_near(event: Mapping[str, Any], max_wait: float, now: float) -> bool:
    """Tell whether an event that is not approved is waited for: Azure starts it at NotBefore even without an approval,
    and what is prepared stays so, if that is not far off."""
    left = seconds_left(event, now)
    return left is not None and left <= max_wait


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


def begin_preparation(progress: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Note that the preparation for the next event begins; who is lost in its middle is known to have begun it."""
    begun = [dict(each) for each in progress]
    for each in begun:
        if each["phase"] == ANNOUNCED and each["prepared"] is None:
            each["prepared"] = False
            break
    return begun


def rejoin_progress(progress: Iterable[Mapping[str, Any]], host: str) -> list[dict[str, Any]]:
    """Note as failed a preparation that was begun and neither succeeded nor failed: the host was lost in its middle."""
    rejoined = [dict(each) for each in progress]
    for each in rejoined:
        if each["prepared"] is False and not each["failed"]:
            each.update(connection_lost=True, failed=True, why=[*each["why"], _CUT_SHORT.format(host=host)])
    return rejoined


def is_coming(each: Mapping[str, Any]) -> bool:
    """Tell whether the host stays prepared until this event has ended."""
    return bool(each["phase"] != ENDED and each["stays_prepared"])


def is_awaited(each: Mapping[str, Any]) -> bool:
    """Tell whether the event of the host is to come, or the host must come back to be restored."""
    return is_coming(each) or (must_restore(each) and bool(each["unreachable"]))


def must_restore(each: Mapping[str, Any]) -> bool:
    """Tell whether a preparation was begun that nothing has taken back."""
    return each["prepared"] is not None and each["restored"] is None


def progress_key(each: Mapping[str, Any]) -> str:
    """Return the key of the event of a progress, or of a plan."""
    return fold_case(each["event"]["event_id"])
