# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The progress of one event on one host in a run; pure.

A host has a dict with exactly the keys of NEW_PROGRESS for each event that it is to respond to; its events are as
scheduled_events_info returns them. Times are seconds since 1970.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from ...module_utils._event.document import STARTED as STATUS_STARTED
from ...module_utils._event.document import Document, Event, fold_case, read_utc
from ...module_utils._event.lifecycle import (
    ANNOUNCED,
    COMPLETED,
    ENDED,
    STARTED,
    Known,
    follow,
    is_of_another_kind,
    phase_of,
    same_boot,
)

NEW_PROGRESS: dict[str, Any] = {
    "event": {},
    "phase": ANNOUNCED,
    "outcome": None,
    # None: no preparation was begun. False: one was begun, and is not known to have succeeded.
    "prepared": None,
    "restored": None,
    "approved_by": None,
    # In check mode, in place of approved_by
    "would_be_approved_by": None,
    "may_be_approved": False,
    # Whether the run has approved it, or has decided not to.
    "settled": False,
    "failed": False,
    "why": [],
    "stays_prepared": True,
    # The checker of the host has prepared it, and restores it: the run has nothing left to do there.
    "with_checker": False,
    # Azure has deleted the VM.
    "gone": False,
    # The VM has answered since it told that the event is over.
    "outlived": False,
    "connection_lost": False,
    "unreachable": False,
    "no_answer": None,
    # The boot in which a document last listed it, and when
    "boot_id": None,
    "listed_at": 0.0,
    "prepared_boot_id": None,
    "prepared_since": None,
    # Its type and source then: the files may do more for another one.
    "prepared_as": None,
    # The run whose mark the VM has for it, and whether it has nothing but that yet
    "marked": None,
    "only_marked": False,
    # The phase of an event that is not over, and for which an earlier run has the VM out of service: it is restored all
    # the same, or named
    "open_phase": None,
    # Since it was last listed, which shows that it took place; since its preparation, which undoes that
    "booted": False,
    "rebooted": False,
    "unclear_since": None,
    "seen_at": 0.0,
    "waits_since": None,
    "notice_used_seconds": None,
    "ended_after_seconds": None,
}
# The types by which Azure deletes a VM
_DELETING = ("terminate", "preempt")
_CUT_SHORT = (
    "The preparation of {host} was cut short: the connection was lost, or a task ended it for this host; "
    "see the output above."
)


def track_event(event: Mapping[str, Any], boot_id: str | None, now: float) -> dict[str, Any]:
    """Return the progress of an event that a host has just told of."""
    return {
        **NEW_PROGRESS,
        "why": [],
        "event": event,
        "phase": phase_of(read_event(event)),
        "boot_id": boot_id,
        "listed_at": now,
        "seen_at": now,
    }


def follow_progress(
    progress: Iterable[Mapping[str, Any]], answer: Mapping[str, Any], now: float
) -> list[dict[str, Any]]:
    """Follow the events by a later answer of the host.

    The life cycle decides the phases; only an answer of the metadata service can end an event.
    """
    followed = [{**each, "unreachable": bool(answer.get("unreachable"))} for each in progress]
    pending = [each for each in followed if each["phase"] != ENDED]
    for each in pending:
        _note_answer(each, answer, now)
    if "document_received" not in answer:
        return followed
    for each in followed:
        each["outlived"] = each["phase"] == ENDED
    document = _read_document(answer)
    name = answer.get("resource_name")
    moment = datetime.fromtimestamp(now, timezone.utc)
    for each in pending:
        known = _known(each, moment, answer.get("boot_id"))
        following = follow([known], document, name, _unclear_seconds(each, now))
        listed = following.listed.get(known.event.key)
        if listed is not None:
            each["event"] = listed.to_dict(moment, name)
            each.update(boot_id=answer.get("boot_id"), listed_at=now, booted=False)
        for transition in following.transitions:
            if transition.event.key == known.event.key:
                each["phase"], each["outcome"] = transition.phase, transition.outcome
        _note_times(each, now)
    return followed


def _note_times(each: dict[str, Any], now: float) -> None:
    if each["phase"] == ENDED:
        each["ended_after_seconds"] = round(now - each["seen_at"])
    if each["phase"] != ANNOUNCED and each["notice_used_seconds"] is None:
        each["notice_used_seconds"] = round(now - each["seen_at"])


def _note_answer(each: dict[str, Any], answer: Mapping[str, Any], now: float) -> None:
    """Note the facts of an answer besides the events: whether there was one, during which boot, whether it is clear."""
    each["connection_lost"] = each["connection_lost"] or each["unreachable"]
    answered = "document_received" in answer
    each["no_answer"] = answer.get("boot_fault") if answered else str(answer.get("msg") or "no answer")
    each["booted"] = each["booted"] or _has_booted(each["boot_id"], each["listed_at"], answer)
    if each["prepared"] is not None:
        each["rebooted"] = each["rebooted"] or _has_booted(each["prepared_boot_id"], each["prepared_since"], answer)
    if not answered or answer.get("document_is_clear"):
        each["unclear_since"] = None
    elif each["unclear_since"] is None:
        each["unclear_since"] = now


def _has_booted(boot_id: str | None, since: float, answer: Mapping[str, Any]) -> bool:
    """Tell whether the host has booted since a moment in this boot. A Windows host tells when, and has no boot id."""
    if answer.get("booted_at") is not None:
        return float(answer["booted_at"]) >= float(since)
    return not same_boot(boot_id, answer.get("boot_id"))


def _unclear_seconds(each: Mapping[str, Any], now: float) -> float:
    return 0.0 if each["unclear_since"] is None else now - float(each["unclear_since"])


def _known(each: Mapping[str, Any], moment: datetime, boot_id: str | None) -> Known:
    event = read_event(each["event"])
    if each["phase"] == STARTED:
        event = event._replace(event_status=STATUS_STARTED)
    approved = bool(each["approved_by"] or each["may_be_approved"])
    # A boot that was noticed stays evidence, also where the boot id of now is not known.
    known = Known.at(moment, event, each["boot_id"], boot_id, approved)
    return known._replace(rebooted=known.rebooted or each["booted"])


def _read_document(answer: Mapping[str, Any]) -> Document | None:
    if not answer["document_received"]:
        return None
    events = tuple(read_event(event) for event in answer["events"])
    return Document(answer.get("document_incarnation"), events, (), bool(answer.get("document_is_clear")))


def read_event(event: Mapping[str, Any]) -> Event:
    """Return the event from a result of scheduled_events_info."""
    # A date that cannot be read is an unknown start; the event is followed all the same.
    moment = event["not_before"] if read_utc(str(event["not_before"] or "")) else None
    read = Event.from_dict({**event, "not_before": moment})
    # The VM itself could tell whether it is listed only where every name could be read.
    return read._replace(names_its_vms=read.names_its_vms and event["affects_this_vm"] is not None)


def is_prepared_as_another(each: Mapping[str, Any]) -> bool:
    """Tell whether the type or the source of the event has changed since its preparation began."""
    if each["prepared_as"] is None:
        return False
    return is_of_another_kind(read_event({**each["event"], **each["prepared_as"]}), read_event(each["event"]))


def seconds_left(event: Mapping[str, Any], now: float) -> int | None:
    """Return the seconds until Azure may start the event, None where that is not known."""
    return read_event(event).seconds_until_start(datetime.fromtimestamp(now, timezone.utc))


def is_near(event: Mapping[str, Any], max_wait: float, now: float) -> bool:
    """Tell whether to wait for an event that is not approved: Azure starts it at NotBefore even without an approval,
    and if that is soon, prepared hosts stay so."""
    left = seconds_left(event, now)
    return left is not None and left <= max_wait


def update_event(progress: Iterable[Mapping[str, Any]], event_id: str, **changes: Any) -> list[dict[str, Any]]:
    """Change the progress of one event; ``why``, a reason or None, is added to the earlier reasons.

    :raises ValueError: there is no such key.
    """
    unknown = sorted(set(changes) - set(NEW_PROGRESS))
    if unknown:
        raise ValueError(f"The progress of an event has no {', '.join(unknown)}.")
    updated = [dict(each) for each in progress]
    for each in updated:
        if progress_key(each) == fold_case(event_id):
            reason = changes.get("why")
            each.update(changes, why=[*each["why"], reason] if reason else each["why"])
    return updated


def start_preparation(
    progress: Sequence[Mapping[str, Any]], event_id: str, boot_id: str | None, now: float, marked: str | None = None
) -> list[dict[str, Any]]:
    """Note that the preparation for an event begins, so that a host that is lost in it is restored later.

    :param marked: the run whose mark the VM gets, None where it gets none.
    """
    # Azure may use an id anew: the last is the event of now.
    found = [each["event"] for each in progress if progress_key(each) == fold_case(event_id)][-1]
    return update_event(
        progress,
        event_id,
        prepared=False,
        prepared_boot_id=boot_id,
        prepared_since=now,
        prepared_as={name: found[name] for name in ("event_type", "event_source")},
        marked=marked,
        only_marked=False,
        rebooted=False,
        connection_lost=False,
    )


def note_interrupted_preparation(
    progress: Iterable[Mapping[str, Any]], event_id: str, host: str
) -> list[dict[str, Any]]:
    """Note as failed a preparation that neither succeeded nor failed: the host was lost in its middle."""
    why = _CUT_SHORT.format(host=host)
    return update_event(progress, event_id, connection_lost=True, failed=True, why=why)


def note_deleted(progress: Iterable[Mapping[str, Any]], now: float) -> list[dict[str, Any]]:
    """Note that Azure has deleted the VM, which has nothing to be restored any more."""
    noted = [dict(each) for each in progress]
    for each in noted:
        each["gone"] = True
        if each["phase"] != ENDED:
            each.update(phase=ENDED, outcome=COMPLETED)
            _note_times(each, now)
    return noted


def deletes_vm(each: Mapping[str, Any], now: float) -> bool:
    """Tell whether Azure deletes the VM by this event, and has begun to, or may have: a lost connection is no sign."""
    if not is_deletion(each):
        return False
    if each["phase"] == ENDED:
        # The VM has told that it is over, and whether it took place does not change any more.
        return bool(each["outcome"] == COMPLETED and not each["outlived"])
    return _known(each, datetime.fromtimestamp(now, timezone.utc), None).took_place


def is_deletion(each: Mapping[str, Any]) -> bool:
    """Tell whether Azure deletes the VM by this event."""
    return fold_case(each["event"]["event_type"] or "") in _DELETING


class State(NamedTuple):
    """A state of an event on a host.

    :ivar means: for the picture in the guide.
    """

    name: str
    means: str
    holds: Callable[[Mapping[str, Any]], bool]


# The first that holds counts. Most events go through them from the last to the first.
STATES = (
    State("deleted", "Azure has deleted the VM", lambda each: bool(each["gone"])),
    State("restored", "the host is back in service", lambda each: each["restored"] is True),
    State("not_restored", "the restore has failed", lambda each: each["restored"] is False),
    State("with_checker", "the checker of the host restores it, not the run", lambda each: bool(each["with_checker"])),
    State(
        "to_restore",
        "the event is over; the host is to be restored",
        lambda each: each["phase"] == ENDED and must_restore(each),
    ),
    State("ended", "the event is over; no preparation was begun", lambda each: bool(each["phase"] == ENDED)),
    State("started", "Azure has started the event", lambda each: bool(each["phase"] == STARTED)),
    State(
        "approved",
        "the event is approved, or may be: the answer was lost",
        lambda each: bool(each["approved_by"] or each["may_be_approved"]),
    ),
    State("held_back", "the event is not approved", lambda each: bool(each["settled"])),
    State("prepared", "the host is prepared", lambda each: bool(each["prepared"])),
    State("not_prepared", "the preparation has failed", lambda each: each["prepared"] is False and each["failed"]),
    State("preparing", "the preparation has begun", lambda each: each["prepared"] is False),
    State("announced", "Azure has announced the event", lambda each: True),
)


def state_of(each: Mapping[str, Any]) -> str:
    """Return the name of the state that an event of a host is in."""
    return next(state.name for state in STATES if state.holds(each))


def is_undecided(each: Mapping[str, Any]) -> bool:
    """Tell whether the event has not begun, and the run has neither approved it nor held it back."""
    return bool(each["phase"] == ANNOUNCED and not each["settled"])


def is_coming(each: Mapping[str, Any]) -> bool:
    """Tell whether the host stays prepared until this event has ended."""
    return bool(each["phase"] != ENDED and each["stays_prepared"])


def must_restore(each: Mapping[str, Any]) -> bool:
    """Tell whether a preparation was begun, by this run or an earlier one, that nothing has taken back, and that is no
    checker's to take back.
    """
    return was_begun(each) and each["restored"] is None and not each["gone"] and not each["with_checker"]


def was_begun(each: Mapping[str, Any]) -> bool:
    return each["prepared"] is not None or each["marked"] is not None


def progress_key(each: Mapping[str, Any]) -> str:
    """Return the key of the event of a progress, or of a plan."""
    return fold_case(each["event"]["event_id"])
