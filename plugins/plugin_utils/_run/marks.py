# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The marks on the VMs, as a run uses them; pure (P2, P3 and P16 over all runs and checkers)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Mapping, Sequence

from ...module_utils._event.document import fold_case, read_utc
from ...module_utils._event.lifecycle import ANNOUNCED, COMPLETED, ENDED, phase_of, same_boot
from ...module_utils._event.marks import AT_WORK, CHECKER, PREPARING, RESTORING, RUN, file_name, longest_work, tell_mark
from ...module_utils._event.selection import keys, words
from .progress import NEW_PROGRESS, is_coming, is_undecided, must_restore, progress_key, read_event, update_event

Host = dict[str, Any]

_NO_RESTORE = (
    "{host} is out of service {mark}. The event is over, and this run has no event_response_restore. Give it the file "
    "that puts the VM back, or the word nothing if nothing need be put back."
)
_OPEN = (
    "{host} is out of service {mark}. The event is not over, so the VM stays as it is. Run this again when it is over, "
    "or with restore_open=true."
)
_UNCLEAR = "{host} is out of service {mark}. No clear answer of Azure told that the event is over. Run this again."
_RESTORED = "{host} was restored by somebody else while this run went on."
_TIMEOUTS = {PREPARING: "prepare_timeout", RESTORING: "restore_timeout"}


def is_own(host: Host, mark: Mapping[str, Any]) -> bool:
    """Tell whether this run wrote a mark, or has taken it up."""
    key = fold_case(mark["event_id"])
    if mark["run"] == host["run"]:
        return bool(mark["by"] == RUN)
    return any(progress_key(each) == key and each["marked"] == mark["run"] for each in host["events"])


def find_foreign(host: Host) -> list[Mapping[str, Any]]:
    """Return the marks on a VM of which another run or a checker takes care."""
    return [mark for mark in host["marks"] or () if mark["by"] == CHECKER or not is_own(host, mark)]


def find_left(host: Host) -> list[Mapping[str, Any]]:
    """Return the marks on a VM that runs before this one have left, and that it has not taken up."""
    found = host["found_marks"]
    return [mark for mark in find_foreign(host) if mark["by"] == RUN and (found is None or mark["file"] in found)]


def keys_left(host: Host) -> set[str]:
    """Return the keys of the events of the marks that find_left() returns."""
    return {fold_case(mark["event_id"]) for mark in find_left(host)}


def find_holding(host: Host) -> list[Mapping[str, Any]]:
    """Return the marks of others for events that are not known to be over: until they are nobody restores (P3, P4)."""
    listed = {fold_case(event["event_id"]) for event in host["listed"]}
    is_clear = host["answer"] is not None and host["answer"]["document_is_clear"]
    return [mark for mark in find_foreign(host) if not is_clear or fold_case(mark["event_id"]) in listed]


def has_newer(host: Host, marks: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]) -> bool:
    """Tell whether a mark may be newer than a document that was read before it, and does not list its event: that event
    would be taken for ended (P3).

    :param host: as it was known when the document was asked for.
    """
    before = {mark["file"] for mark in host["marks"] or ()}
    listed = {fold_case(event["event_id"]) for event in answer["events"]}
    new = [mark for mark in marks if mark["counts"] and mark["run"] != host["run"] and mark["file"] not in before]
    return any(fold_case(mark["event_id"]) not in listed for mark in new)


def base_name(path: str) -> str:
    """Return the name of a file on a host, which may be one of Windows."""
    return re.split(r"[/\\]", path)[-1]


def find_at_work(host: Host) -> list[Mapping[str, Any]]:
    """Return the marks of others who prepare or restore a VM at this moment, or were broken off in that."""
    own = host["run"]
    return [mark for mark in host["marks"] or () if mark["run"] != own and mark["state"] in AT_WORK]


def note_at_work(host: Host, now: float, read_at: float | None = None) -> dict[str, dict[str, Any]]:
    """Return by state and file since when others are at work on a VM, as their marks tell it, and until when they may
    be. One that is killed leaves such a mark.

    :param read_at: when the marks were read before, None where they were not. One that has changed was written since,
        also where the clock of its author is behind.
    """
    found = {}
    for mark in find_at_work(host):
        key, told = f"{mark['state']} {mark['file']}", mark["state_since"]
        before = host["at_work"].get(key)
        is_known = before is not None and before["since"] == told
        not_before = before.get("not_before") if before and is_known else read_at
        since = read_utc(str(told or ""))
        begun = now if since is None else min(now, max(since.timestamp(), not_before or 0.0))
        until = begun + _longest(host, mark)
        if before and is_known:
            # By a clock that is ahead it began in the future: its time counts from when it was first seen.
            until = min(until, before["until"])
        found[key] = {"since": told, "until": until}
        if not_before is not None:
            found[key]["not_before"] = not_before
    return found


def _longest(host: Host, mark: Mapping[str, Any]) -> float:
    """Return for how many seconds the author of a mark may be at work: by its own limits, else by those of this run."""
    return longest_work(mark) or float(host["settings"][_TIMEOUTS[mark["state"]]])


def find_hindering(
    others: Mapping[str, str], restores: bool, known: Mapping[str, str], heeded: Sequence[str]
) -> list[str]:
    """Return the marks of others that forbid a host to begin (P3): that of a restore; to restore, each that is news.

    To prepare, each that was not there before: the files are to know of it, and by the answer they would not.
    One that cannot be read, and is news, may be that of a restore: on Windows, while it is written.

    Each writes its own mark before it looks at those of others. So of two that begin at once one sees the other.

    :param others: their states, by the names of their files.
    :param restores: whether this host is to be restored.
    :param known: the same, as the latest answer told.
    :param heeded: those that have hindered this run before, or are left by one that was killed. Where the latest answer
        told another state than that of a restore, it begins at this moment, and hinders again.
    """

    def hinders(name: str, state: str) -> bool:
        if state == RESTORING:
            begins = known.get(name, RESTORING) != RESTORING
            return begins or name not in heeded
        return name not in heeded and (name not in known or ((restores or not state) and known[name] != state))

    return [name for name, state in others.items() if hinders(name, state)]


def has_older(host: Host, mark: Mapping[str, Any]) -> bool:
    """Tell whether an earlier run has left a mark for an event: where the restore fails, that one is enough.

    :param mark: of this run for the event.
    """
    key = fold_case(mark["event_id"])
    others = (each for each in host["marks"] or () if each["by"] == RUN and each["run"] != mark["run"])
    return any(fold_case(each["event_id"]) == key and each["state"] not in AT_WORK for each in others)


def find_removable(
    host: Host, mark: Mapping[str, Any], only_own: bool, waited_out: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the marks of runs for an event that may be removed when the host is restored: those that say that another
    run restores it at this moment must stay (P3).

    :param mark: of this run for the event.
    :param only_own: this run has not prepared the host, so the marks of all other runs stay.
    :param waited_out: the names of marks that say so, and are taken for left by a run that was killed.
    """
    key = fold_case(mark["event_id"])
    found = [each for each in host["marks"] or () if each["by"] == RUN and fold_case(each["event_id"]) == key]
    own = [each for each in found if each["run"] == mark["run"]]
    if only_own:
        return own
    may_go = (each for each in found if each["state"] != RESTORING or base_name(each["file"]) in waited_out)
    return [*own, *(each for each in may_go if each not in own)]


def take_up_marks(
    name: str, host: Host, wanted: Sequence[str] | None, run: Mapping[str, Any], now: float
) -> tuple[Host, list[str]]:
    """Take up the events of runs that were broken off; say at first which run or checker has this VM out of service.

    A mark that is there when this run begins may be left by such a run; one that comes later belongs to a run at work.

    An event that is over is to be restored; one that has started is restored when it is over. One that is to come is
    prepared anew, because it is unknown how far that run was, with which file, and whether it goes on; its mark stays
    until the VM is restored.

    :param name: of the host.
    :param wanted: the keys of the only events that are wanted; None for all.
    :param run: ``check_mode`` and ``only_marked`` as for engine.new_run().
    :returns: the known state of the host then, and sentences.
    """
    first = host["found_marks"] is None
    found = [mark["file"] for mark in find_foreign(host)] if first else host["found_marks"]
    events, told = list(host["events"]), []
    listed = {fold_case(event["event_id"]) for event in host["listed"]}
    for mark in find_foreign(host):
        key = fold_case(mark["event_id"])
        if first:
            told.append(f"{name} is out of service {tell_mark(mark)}.")
        own = [each for each in events if progress_key(each) == key]
        if mark["by"] == CHECKER or mark["file"] not in found or any(each["marked"] == mark["run"] for each in own):
            continue
        if any(each["restored"] is False for each in own):
            # The restore file runs once for each event, also where several runs have left marks.
            continue
        before = next((each for each in own if each["restored"] is None), None)
        if before is not None:
            if before["phase"] != ANNOUNCED and not must_restore(before):
                events = update_event(events, key, prepared=True, **_preparation(mark))
        elif not _is_wanted(host, mark, wanted):
            continue
        elif key not in listed or host["open_too"]:
            events.append(_take_up_ended(name, host, mark, run["check_mode"], now))
        elif run["only_marked"]:
            why = _OPEN.format(host=name, mark=tell_mark(mark))
            events.append({**_take_up_ended(name, host, mark, True, now), **_left(why)})
    return {**host, "events": events, "found_marks": found}, list(dict.fromkeys(told))


def tell_unclear(name: str, host: Host) -> list[str]:
    """Return for which marks of earlier runs no document told that their events are over, a sentence each."""
    waits = {progress_key(each) for each in host["events"] if is_coming(each) and each["prepared"] is None}
    left = [mark for mark in find_left(host) if host["found_marks"] is None or fold_case(mark["event_id"]) in waits]
    return [_UNCLEAR.format(host=name, mark=tell_mark(mark)) for mark in left]


def _left(why: str) -> dict[str, Any]:
    return {"restored": False, "failed": True, "why": [why]}


def _is_wanted(host: Host, mark: Mapping[str, Any], wanted: Sequence[str] | None) -> bool:
    """Tell whether the variables of a host select an event that is over, of which its mark alone tells."""
    if wanted is not None and fold_case(mark["event_id"]) not in wanted:
        return False
    types = keys(words(host["settings"]["event_types"]))
    return not types or fold_case(mark["event_type"] or "") in types


def _preparation(mark: Mapping[str, Any]) -> dict[str, Any]:
    since = read_utc(str(mark["since"] or ""))
    return {
        "marked": mark["run"],
        "prepared_boot_id": mark["boot_id"],
        "prepared_since": since.timestamp() if isinstance(since, datetime) else 0.0,
    }


def _take_up_ended(name: str, host: Host, mark: Mapping[str, Any], check_mode: bool, now: float) -> dict[str, Any]:
    booted = not same_boot(mark["boot_id"], host["boot_id"])
    key = fold_case(mark["event_id"])
    listed = next((event for event in host["listed"] if fold_case(event["event_id"]) == key), None)
    each = {
        **NEW_PROGRESS,
        **_preparation(mark),
        "event": listed or event_of(mark, host["name"]),
        "phase": ENDED,
        "open_phase": listed and phase_of(read_event(listed)),
        # Without a boot nobody knows whether it took place.
        "outcome": COMPLETED if booted and not listed else None,
        "prepared": True,
        "settled": True,
        "stays_prepared": False,
        "boot_id": mark["boot_id"],
        "booted": booted,
        "seen_at": now,
        "waits_since": now,
        "ended_after_seconds": 0,
        "why": [],
    }
    if not host["settings"]["restore"] and not check_mode:
        each.update(_left(_NO_RESTORE.format(host=name, mark=tell_mark(mark))))
    return each


def event_of(mark: Mapping[str, Any], resource_name: str | None) -> dict[str, Any]:
    """Return the event of a mark as scheduled_events_info would have returned it; Azure tells no more of it."""
    unknown = ("event_status", "resource_type", "not_before", "not_before_raw", "seconds_until_start", "description")
    return {
        **dict.fromkeys((*unknown, "event_source", "duration_seconds", "leader", "is_leader")),
        "event_id": mark["event_id"],
        "event_type": mark["event_type"],
        "resources": [resource_name] if resource_name else [],
        "affects_this_vm": True,
    }


def compare_marks(name: str, host: Host) -> Host:
    """Note which preparations of this run somebody else has taken back since.

    A mark that is missing after a boot proves nothing: the disk may be a new one. Nor does one that cannot be read.

    Who was put back after one event, as restore_open=true lets a person do by its id, is not prepared for another one.

    :param name: of the host.
    """
    events = []
    read_at = host["marks_read_at"]
    # A restore of others is waited for by its own limit. When that is up it was killed before this host was prepared.
    is_put_back = any(read_at < work["until"] for key, work in host["at_work"].items() if key.startswith(RESTORING))
    names = [(fold_case(mark["event_id"]), mark["run"]) for mark in host["marks"] or ()]
    for each in host["events"]:
        is_missing = (progress_key(each), each["marked"]) not in names and not _is_unreadable(host, each)
        if _is_marked_before(each, read_at) and is_missing and _is_in_boot_of_preparation(host, each):
            each = _note_restored(name, each)
            is_put_back = True
        events.append(each)
    for index, each in enumerate(events):
        if is_put_back and _is_marked_before(each, read_at) and is_undecided(each):
            # Its mark is there, so that it is restored whatever becomes of it.
            events[index] = {**_note_restored(name, each), "marked": each["marked"]}
    return {**host, "events": _note_own_left(host, events)}


def _is_marked_before(each: Mapping[str, Any], read_at: float | None) -> bool:
    """Tell whether a host that is prepared had its mark for that before the marks were read."""
    is_newer = read_at is not None and read_at > (each["prepared_since"] or 0.0)
    return bool(each["marked"] and each["prepared"] and must_restore(each) and is_newer)


def note_without_mark(name: str, host: Host, event_id: str) -> Host:
    """Note that a preparation has ended, and that its mark was gone then: somebody else has restored the VM meanwhile,
    while others were still prepared. It is prepared again, once (P2).

    Tasks of the preparation may have run after that restore, so the VM has its mark again, and is restored whatever
    becomes of it. After a boot a mark that is gone proves nothing, as in compare_marks().

    :param name: of the host.
    """
    why = _RESTORED.format(host=name)
    # Azure may use an id anew: the last is the event of now.
    each = [each for each in host["events"] if progress_key(each) == fold_case(event_id)][-1]
    changes: dict[str, Any]
    if not _is_in_boot_of_preparation(host, each):
        changes = {"prepared": True}
    elif why in each["why"]:
        changes = {"prepared": False, "failed": True}
    else:
        changes = {"prepared": None, "why": why}
    return {**host, "events": update_event(host["events"], event_id, **changes)}


def _is_in_boot_of_preparation(host: Host, each: Mapping[str, Any]) -> bool:
    return same_boot(each["prepared_boot_id"], host["boot_id"]) and not each["rebooted"]


def _note_own_left(host: Host, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events, of which one is to lose a mark of this run that it is not known to have.

    Such a mark would say for good that the VM is out of service: another run has put it back meanwhile, and left this
    one, or it was written although its writer was told that it could not be.
    """
    for mark in host["marks"] or ():
        own = [each for each in events if progress_key(each) == fold_case(mark["event_id"])]
        is_left = own and all(each["restored"] and each["marked"] != host["run"] for each in own)
        if is_left and mark["by"] == RUN and mark["run"] == host["run"]:
            events = update_event(events, mark["event_id"], restored=None, marked=host["run"], only_marked=True)
    return events


def _is_unreadable(host: Host, each: Mapping[str, Any]) -> bool:
    """Tell whether there is a file that may be the mark of this run, and cannot be read."""
    own = {"event_id": each["event"]["event_id"], "vm_id": host["vm_id"], "by": RUN, "run": each["marked"]}
    return file_name(own) in host["unreadable_marks"]


def _note_restored(name: str, each: Mapping[str, Any]) -> dict[str, Any]:
    """A host that was put back before its event was approved is prepared again, once (P2)."""
    why = _RESTORED.format(host=name)
    again = is_undecided(each)
    changes: dict[str, Any] = {"restored": True, "failed": each["failed"] or again}
    if again and why not in each["why"]:
        changes = {"prepared": None, "marked": None}
    noted: dict[str, Any] = update_event([each], progress_key(each), why=why, **changes)[0]
    return noted
