# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The state of a host in a run, and how long to wait for it; pure. A host is a dict with exactly the keys of NEW_HOST.

Times: seconds since 1970.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Iterable, Mapping

from ...module_utils._event.document import fold_case
from ...module_utils._event.lifecycle import ENDED, STARTED
from ...module_utils._event.selection import Selection, keys, words
from .marks import base_name, find_holding, note_at_work
from .progress import (
    deletes_vm,
    follow_progress,
    is_coming,
    is_deletion,
    is_undecided,
    must_restore,
    note_deleted,
    progress_key,
    read_event,
    track_event,
    was_begun,
)
from .settings import CHECKER

Host = dict[str, Any]

SHORTEST_PAUSE = 5.0
LONGEST_PAUSE = 30.0
SHORTEST_TURN = 60.0

NEW_HOST: Host = {
    # The variables of the role by their names without event_response_; None: the host takes no part.
    "settings": None,
    # Why the variables of this host cannot be used
    "fault": None,
    "name": None,
    # The latest answer in which there may have been a document, without its events
    "answer": None,
    # The events that affect this VM, as the latest document lists them
    "listed": [],
    # The keys of those that were not wanted when they were first seen
    "left_out": [],
    # The progress of the events that this host is to respond to
    "events": [],
    "asked_at": None,
    "answered_at": None,
    "times_asked": 0,
    "no_answer": None,
    "unreachable": False,
    "lost_since": None,
    # Since when the password by which to become another user there is wrong, so that it is not waited for
    "given_up_at": None,
    "boot_id": None,
    # It fell out of the play: its connection was lost in a file of the user, or a task there ended it.
    "away": False,
    # When its checker was last asked how far it is
    "checker_asked_at": None,
    "vm_id": None,
    # The marks on the VM that count, as they were read last, and when; None before that
    "marks": None,
    "marks_read_at": None,
    # The folder in which a Windows host has them; None where it has none yet
    "marks_folder": None,
    # The states of all marks by the names of their files, and those that have hindered this run already
    "mark_states": {},
    "heeded": [],
    # The files there that may be marks and cannot be read
    "unreadable_marks": [],
    # Since and until when another run, or the checker, may prepare or restore this host: marks.note_at_work()
    "at_work": {},
    # The run that this is known by
    "run": None,
    # The files of the marks that others had on it when this run began; None until a clear document came
    "found_marks": None,
    # Whether it may be restored although an event of the VM is not over
    "open_too": False,
}


def take_answer(host: Host, answer: Mapping[str, Any], now: float) -> Host:
    """Return the known state of a host after it was asked.

    :param answer: the result of scheduled_events_info for this VM. Where the host could not be reached, or did not
        answer in time, it has ``unreachable``.
    """
    unreachable = bool(answer.get("unreachable"))
    taken = {
        **host,
        "events": follow_progress(_date_preparations(host["events"], now), answer, now),
        "asked_at": now,
        "times_asked": host["times_asked"] + 1,
        "unreachable": unreachable,
        "lost_since": (host["lost_since"] or now) if unreachable else None,
        # One that is tried again and again locks the account.
        "given_up_at": (host["given_up_at"] or now) if answer.get("wrong_password") else None,
        "no_answer": None if "document_received" in answer else answer.get("msg") or "no answer",
    }
    if not unreachable:
        # A VM that was thought to be deleted has come back.
        taken["events"] = [{**each, "gone": False} for each in taken["events"]]
    if "document_received" in answer:
        told = {name: answer.get(name) for name in ("document_received", "document_is_clear", "resource_name", "msg")}
        taken.update(
            answered_at=now,
            answer=told,
            name=answer.get("resource_name") or host["name"],
            boot_id=answer.get("boot_id"),
            vm_id=answer.get("vm_id"),
            listed=_list_events(host["listed"], answer),
        )
    # Not each answer of a Windows host has them.
    if answer.get("marks") is not None:
        states = {base_name(mark["file"]): mark["state"] or "" for mark in answer["marks"]}
        taken.update(
            marks_read_at=now,
            marks_folder=answer.get("marks_folder"),
            marks=[mark for mark in answer["marks"] if mark["counts"]],
            mark_states=states,
            # One that was there, is gone, and comes again is news.
            heeded=[name for name in host["heeded"] if name in states or name not in host["mark_states"]],
            unreadable_marks=[base_name(mark["file"]) for mark in answer["marks"] if mark["event_id"] is None],
        )
        taken["at_work"] = note_at_work(taken, now, host["marks_read_at"])
    return taken


def _date_preparations(events: list[dict[str, Any]], now: float) -> list[dict[str, Any]]:
    """Return the events. A preparation that began in the future, by a clock that was set back since, began just now:
    the marks of this answer are newer, and tell whether somebody else has put the VM back (P2)."""
    return [
        {**each, "prepared_since": now - 0.001} if (each["prepared_since"] or 0.0) > now else each for each in events
    ]


def _list_events(before: list[dict[str, Any]], answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the events that affect the VM: only a document in which all can be read shows that one is gone (P4)."""
    listed = [event for event in answer["events"] if event["affects_this_vm"]]
    if not answer.get("document_is_clear"):
        there = {fold_case(event["event_id"]) for event in listed}
        missing = [event for event in before if fold_case(event["event_id"]) not in there]
        listed += [{**event, "is_missing": True} for event in missing]
    return listed


def is_wanted(host: Host, event: Mapping[str, Any], wanted: list[str] | None, now: float) -> bool:
    """Tell whether the variables of a host select an event.

    :param wanted: the keys of the only events that are wanted; None for all.
    """
    if wanted is not None and fold_case(event["event_id"]) not in wanted:
        return False
    settings = host["settings"]
    within = settings["due_within"]
    selection = Selection(
        event_types=keys(words(settings["event_types"])),
        event_sources=keys(words(settings["event_sources"])),
        due_within=None if within in (None, "") else int(within),
    )
    return selection.matches(read_event(event), datetime.fromtimestamp(now, timezone.utc))


def track_events(host: Host, wanted: list[str] | None, now: float) -> tuple[Host, list[dict[str, Any]]]:
    """Begin to follow the events that are wanted; return also those that are new and left out.

    Azure may make an event one of another type. Where it is not wanted any more, and nothing was begun for it, it is
    left out.

    :param wanted: as for is_wanted().
    """
    kept = [
        each
        for each in host["events"]
        if was_begun(each) or not is_undecided(each) or is_wanted(host, each["event"], wanted, now)
    ]
    host = {**host, "events": kept}
    tracked = {progress_key(each) for each in host["events"] if is_tracked(each)}
    listed = [event for event in host["listed"] if not event.get("is_missing")]
    new = [event for event in listed if fold_case(event["event_id"]) not in tracked]
    chosen = [event for event in new if is_wanted(host, event, wanted, now)]
    left_out = [event for event in new if event not in chosen and fold_case(event["event_id"]) not in host["left_out"]]
    events = [*host["events"], *(track_event(event, host["boot_id"], host["answered_at"]) for event in chosen)]
    names = [*host["left_out"], *(fold_case(event["event_id"]) for event in left_out)]
    return {**host, "events": events, "left_out": names}, left_out


def is_tracked(each: Mapping[str, Any]) -> bool:
    """Tell whether a listed event is this one: Azure may use an id anew when an event is over.

    A VM that counts as deleted has listed nothing since.
    """
    return each["phase"] != ENDED or must_restore(each) or each["gone"]


def lost_at(host: Host) -> float | None:
    """Return when a host that cannot be reached has been lost for as long as a boot may take, None for another."""
    return None if host["lost_since"] is None else float(host["lost_since"]) + seconds(host, "reconnect_timeout")


def note_deletion(host: Host) -> Host:
    """Note that Azure has deleted the VM, where its event says so and it could not be reached for long enough.

    The latest question counts: nobody may have asked for a long time, while others were prepared.
    """
    gone_at, asked_at = lost_at(host), host["asked_at"] or 0.0
    if gone_at is None or asked_at < gone_at or not any(deletes_vm(each, asked_at) for each in host["events"]):
        return host
    return {**host, "events": note_deleted(host["events"], asked_at)}


def seconds(host: Host, name: str) -> float:
    return float(host["settings"][name])


def others_end_at(host: Host, state: str | None = None) -> float:
    """Return until when another run or the checker may be at work on a host. A run that was killed leaves such marks.

    :param state: PREPARING or RESTORING; both where it is not given.
    """
    told = host["at_work"].items()
    return max((each["until"] for key, each in told if state in (None, key.partition(" ")[0])), default=0.0)


def is_usable(host: Host) -> bool:
    """Tell whether the variables of a host are known; those that cannot be evaluated have no value."""
    return host["settings"] is not None and not host["fault"]


def is_present(host: Host) -> bool:
    """Tell whether a host can get an order."""
    return is_usable(host) and not host["away"]


def shared(hosts: Mapping[str, Host], name: str) -> Any:
    """Return a variable of the role that is the same for all hosts."""
    return next((host["settings"][name] for host in hosts.values() if is_usable(host)), None)


def restores(host: Host, check_mode: bool = False) -> list[dict[str, Any]]:
    """Return the progress of the events after which a host is to be restored now, in the order of their ends.

    None, while one of its events is to come (P3) that does not wait its turn, any event of the VM is Started, somebody
    else has prepared it for one, or it cannot be reached. Where its checker restores, nothing is done there, and none
    of this matters.
    """
    left = [each for each in host["events"] if must_restore(each)]
    if check_mode:
        return left
    if host["unreachable"] or (not host["open_too"] and (_is_kept(host) or started(host) or find_holding(host))):
        left = [each for each in left if is_of_checker(host, each) and not is_coming(each)]
    return sorted(left, key=lambda each: (each["ended_after_seconds"] or 0) + each["seen_at"])


def _is_kept(host: Host) -> bool:
    """Tell whether a host must stay prepared for an event to come. For one that waits its turn nothing was begun, and
    its turn may come only when this host is back in service.
    """
    return any(is_coming(each) and (was_begun(each) or each["settled"]) for each in host["events"])


def is_of_checker(host: Host, each: Mapping[str, Any]) -> bool:
    """Tell whether the checker of a host prepares it for an event, and restores it."""
    return (host["settings"] or {}).get("prepare") == CHECKER and not each["marked"]


def started(host: Host) -> list[dict[str, Any]]:
    """Return the events of a VM that are Started now, also those that the run leaves alone."""
    ended = {progress_key(each) for each in host["events"] if each["phase"] == ENDED}
    return [
        event
        for event in host["listed"]
        if read_event(event).has_started
        # The life cycle may end an event that no document lists any more.
        and not (event.get("is_missing") and fold_case(event["event_id"]) in ended)
    ]


def awaited_until(host: Host, wait_timeout: float, is_in_the_way: bool) -> float | None:
    """Return until when a host is waited for, None where it is not.

    It is, while one of its events is to come, or while it must be restored and cannot be.

    :param is_in_the_way: other hosts wait until it is back in service. Then it is waited for until all its events are
        over, also those for which it was not prepared.
    """
    until = _events_awaited_until(host, wait_timeout, is_in_the_way)
    return until if until is None or host["given_up_at"] is None else min(until, host["given_up_at"])


def _events_awaited_until(host: Host, wait_timeout: float, is_in_the_way: bool) -> float | None:
    coming = [each for each in host["events"] if is_coming(each) and each["waits_since"] is not None]
    if coming:
        return float(max(each["waits_since"] for each in coming)) + wait_timeout
    waiting = [each for each in host["events"] if must_restore(each) or (is_in_the_way and each["phase"] == STARTED)]
    if not waiting:
        return None
    if host["unreachable"]:
        return float(host["lost_since"]) + min(wait_timeout, seconds(host, "reconnect_timeout"))
    if started(host) or find_holding(host):
        since = max(each["waits_since"] or each["seen_at"] for each in waiting)
        return float(since) + wait_timeout
    return None


def news(before: Host, after: Host) -> bool:
    """Tell whether there is news with which a run may go on."""

    def known(host: Host) -> Any:
        phases = [(progress_key(each), each["phase"]) for each in host["events"]]
        listed = [(fold_case(event["event_id"]), read_event(event).has_started) for event in host["listed"]]
        # A host that goes down for its event is expected to come back, unless Azure deletes it.
        stays_prepared = any(map(is_coming, host["events"]))
        is_lost = host["unreachable"] and (not stays_prepared or any(map(is_deletion, host["events"])))
        return phases, sorted(listed), is_lost, host["given_up_at"], sorted(host["at_work"])

    return bool(known(before) != known(after))


def pause_between(waited: float) -> float:
    """Return how long to pause before a host is asked again: a tenth of the time that it waited, within bounds."""
    return min(LONGEST_PAUSE, max(SHORTEST_PAUSE, waited / 10))


def turn_length(hosts: int, forks: int, waited: float) -> float | None:
    """Return for how long each host may wait before it is another one's turn, None for as long as it takes.

    Ansible runs a task on so many hosts at the same time as it has forks. Where more are awaited they take turns, which
    together last a minute or a tenth of the time waited, whichever is longer.
    """
    if hosts <= forks:
        return None
    waves = -(-hosts // forks)
    return max(SHORTEST_TURN, waited / 10) / waves


def longest_files(files: Iterable[tuple[str, float]], forks: int) -> float:
    """Return for how many seconds the hosts of a turn may be at work: each waits for the others.

    Ansible runs different files one after the other, and a file on so many hosts at the same time as it has forks.

    :param files: of each host the path of its file, empty for none, and its time-out.
    """
    limits: dict[str, list[float]] = {}
    for path, seconds_of_file in files:
        if path:
            limits.setdefault(path, []).append(seconds_of_file)
    return sum(max(each) * -(-len(each) // forks) for each in limits.values())
