# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The marks on this VM: those that the checker writes and removes, and those of runs, for which it waits (P3, P16)."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks as _marks
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import (
    Event,
    fold_case,
    format_utc,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    RESTORE,
    STARTED,
)

from ..config.rules import APPROVE_STEP
from ..config.step import WEBHOOK
from ..system import Folders, read_mark_time, write_file, write_mark_time
from .records import FAILED, SUCCEEDED, EventRecord, Moment, ResponseRecord
from .store import Store

Mark = Mapping[str, Any]

_TOLD = "told"
_RESTORING_RUN = (_marks.RUN, _marks.RESTORING)


class OwnMark(NamedTuple):
    """The content of a mark of the checker.

    :ivar state: PREPARING, PREPARED, RESTORING or FAILED.
    :ivar rule: the name of the rule by which the VM was prepared, None where the mark does not have it.
    """

    event_id: str
    event_type: str | None
    state: str
    since: str | None
    boot_id: str | None
    rule: str | None

    @property
    def key(self) -> str:
        return fold_case(self.event_id)


class MarkOfRuns(NamedTuple):
    """What runs have marked for one event.

    :ivar is_newer: a mark is newer than what Azure has told the checker, which may not know the event yet.
    :ivar is_preparing: a run may prepare this VM at this moment.
    """

    is_newer: bool
    is_preparing: bool


def takes_out_of_service(phase: str, step: Mapping[str, Any]) -> bool:
    """Tell whether a step may take this VM out of service. A webhook only tells somebody."""
    return phase in (ANNOUNCED, STARTED) and step != APPROVE_STEP and WEBHOOK not in step


def puts_back(phase: str, step: Mapping[str, Any]) -> bool:
    """Tell whether a step may put this VM back into service."""
    return phase in (RESTORE, ENDED) and WEBHOOK not in step


def read_marks(store: Store, folders: Folders) -> list[dict[str, Any]]:
    """Return the marks of this VM that count, and entries for those that cannot be read."""
    return _marks.select_marks(_marks.read_marks(_places(folders)), _vm_id(store))[0]


def events_of_runs(marks: Iterable[Mark], told: float | None, now: Moment) -> dict[str, MarkOfRuns]:
    """Return the keys of the events for which runs have this VM out of service.

    :param told: the result of told_at().
    """
    found: dict[str, MarkOfRuns] = {}
    for mark in marks:
        if mark["counts"] and mark["by"] == _marks.RUN:
            key, written_at = fold_case(mark["event_id"]), _written_at(mark)
            # A clock that was set back must not make an old mark a new one for hours.
            is_past = written_at > 0.0 and _is_past(written_at, now)
            is_newer = is_past and (told is None or not _is_past(told, now) or written_at >= told)
            is_preparing = is_past and mark["state"] == _marks.PREPARING and may_be_at_work(mark, now)
            # Several runs may have marked it.
            before = found.get(key, MarkOfRuns(False, False))
            found[key] = MarkOfRuns(before.is_newer or is_newer, before.is_preparing or is_preparing)
    return found


def may_be_at_work(mark: Mark, now: Moment) -> bool:
    """Tell whether the author of a mark may work on this VM at this moment, by the limits that the author has told."""
    return now.at < _written_at(mark) + _marks.longest_work(mark)


def read_marked_by_runs(store: Store, folders: Folders, now: Moment) -> dict[str, MarkOfRuns]:
    """Return the result of events_of_runs() for the marks of now."""
    marks = read_marks(store, folders)
    date_marks_from_future(marks, now)
    return events_of_runs(marks, told_at(store, folders), now)


def date_marks_from_future(marks: Iterable[Mark], now: Moment) -> None:
    """Give the files of marks that lie in the future the time of now: the clock was set back since.

    So their authors may be at work for their own limits from now on, and not until the clock is there again (P3, P15).
    """
    # No news: such a mark is older than a document that is asked for now.
    at = now.at - 0.001
    for mark in marks:
        if mark["counts"] and not _is_past(_written_at(mark), now):
            # On a disk that cannot be written it counts for nothing.
            with contextlib.suppress(OSError):
                os.utime(mark["file"], (at, at), follow_symlinks=False)


def note_told(folders: Folders, asked_at: float) -> None:
    """Note the time for told_at()."""
    write_mark_time(folders, _TOLD, asked_at)


def told_at(store: Store, folders: Folders) -> float | None:
    """Return when the checker asked Azure for the last clear document whose events it has recorded, in seconds since
    1970; before the first one of this boot, for the last one that a whole check knew; None where there was none.
    """
    asked_at = read_mark_time(folders, _TOLD)
    return store.fact("poller").get("told_at") if asked_at is None else asked_at


def put_back_until(marks: Iterable[Mark], longest: float) -> float:
    """Return until when a run may put this VM back into service, in seconds since 1970; 0 where none does.

    :param longest: seconds that a restore may take whose mark does not tell. A run that was killed leaves such a mark,
        too.
    """
    restoring = [each for each in marks if each["counts"] and (each["by"], each["state"]) == _RESTORING_RUN]
    return max((_written_at(mark) + (_marks.longest_work(mark) or longest) for mark in restoring), default=0.0)


def _is_past(at: float, now: Moment) -> bool:
    """Tell whether a time is no later than now: a later one is of a clock that was set back since."""
    # A mark may be written at this moment.
    return at <= now.at + 1.0


def _written_at(mark: Mark) -> float:
    """Return the time of the file, 0 where it is gone. The time in the mark is by the clock of the controller."""
    try:
        return os.stat(mark["file"]).st_mtime
    except OSError:
        return 0.0


def is_marked(store: Store, folders: Folders, event: Event) -> bool:
    """Tell whether the checker has marked this VM for an event."""
    return _marks.find_mark(read_marks(store, folders), event.event_id, _marks.CHECKER) is not None


def read_own_marks(store: Store, folders: Folders) -> list[OwnMark]:
    """Return the marks of the checker."""
    return [
        OwnMark(mark["event_id"], mark["event_type"], mark["state"], mark["since"], mark["boot_id"], _read_rule(mark))
        for mark in read_marks(store, folders)
        if mark["counts"] and mark["by"] == _marks.CHECKER
    ]


def _read_rule(mark: Mark) -> str | None:
    """Return the name of the rule, which only the checker writes into a mark."""
    try:
        with open(os.open(mark["file"], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            name = json.loads(file.read(_marks.LARGEST)).get("rule")
    except (OSError, ValueError):
        return None
    return name if isinstance(name, str) else None


def write_mark(
    store: Store, folders: Folders, record: EventRecord, state: str, now: Moment, longest: float = 0.0
) -> None:
    """Write the mark that this VM is out of service for an event, unless it is there.

    While the checker works on the VM it is written anew before each try of a step: runs wait for so long (P3).

    :param longest: seconds until it is written again at the latest.
    :raises OSError: it can be written nowhere.
    :raises ValueError: the id of the event is too long.
    """
    event, vm_id = record.event, _vm_id(store)
    before = _marks.find_mark(read_marks(store, folders), event.event_id, _marks.CHECKER)
    is_there = before and (before["state"], before["boot_id"], before["vm_id"]) == (state, now.boot_id, vm_id)
    if is_there and state not in _marks.AT_WORK:
        return
    since = (before and before["since"]) or format_utc(now.wall) or ""
    about = {"event_id": event.event_id, "event_type": event.event_type}
    mark = _marks.new_mark(_marks.CHECKER, about, since, boot_id=now.boot_id, vm_id=vm_id)
    mark = _marks.set_state(mark, state, now.wall, longest)
    # The rule by which to restore the VM if the state is lost
    mark["rule"] = record.rule.name if record.rule else None
    text, name = _marks.encode(mark).decode(), _marks.file_name(mark)
    disk, memory = _places(folders)
    try:
        _write(disk, name, text)
    except OSError:
        # As the state: in memory while the disk is full or cannot be written
        _write(memory, name, text)


def _write(place: str, name: str, text: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.makedirs(place)
        # All may read it, whatever the mask of this process.
        os.chmod(place, 0o755)
    # Azure may take the power from the VM as soon as the event is approved.
    write_file(os.path.join(place, name), text, 0o644, durable=True)


def remove_marks_of_restored(store: Store, folders: Folders) -> None:
    """Remove the marks of the checker for events that are over, or for which this VM was put back before, if no
    response to them is left.

    :raises OSError: one cannot be removed.
    """
    own = [mark for mark in read_marks(store, folders) if mark["counts"] and mark["by"] == _marks.CHECKER]
    if not own:
        return
    events = store.all_events()
    for mark in own:
        key = fold_case(mark["event_id"])
        known = [(each, store.responses_to(each.number)) for each in events if each.event.key == key]
        # Azure may use an id again. An event without a response, as where its rule is lost, puts no VM back.
        answered = [(record, responses) for record, responses in known if responses]
        if not answered:
            continue
        record, responses = answered[-1]
        if record.ended_at is None and not _is_put_back(responses):
            continue
        if all(each.finished and (each.phase, each.state) != (ENDED, FAILED) for each in responses):
            _remove(mark["file"])


def bring_marks_home(store: Store, folders: Folders) -> None:
    """Move the marks of the checker from memory to the disk where that can be written again: a boot would take them.

    No response may run meanwhile: it writes marks, too.

    :raises OSError: it cannot be written yet.
    """
    disk, memory = _places(folders)
    for mark in read_marks(store, folders):
        place, name = os.path.split(mark["file"])
        if place == memory and mark["counts"] and mark["by"] == _marks.CHECKER:
            with open(mark["file"], encoding="utf-8") as file:
                text = file.read()
            # The disk may have an older one, or a newer one.
            if _written_at({"file": os.path.join(disk, name)}) < _written_at(mark):
                _write(disk, name, text)
            _remove(mark["file"])


def _remove(path: str) -> None:
    """Remove a mark, and what a program that was killed while it wrote the mark has left beside it."""
    place, name = os.path.split(path)
    for each in [name, *(other for other in os.listdir(place) if other.startswith(f"{name}."))]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(place, each))


def _is_put_back(responses: Sequence[ResponseRecord]) -> bool:
    """Tell whether a person had this VM put back before the event, and nothing was begun for it since."""
    steps = [step for each in responses if each.phase in (ANNOUNCED, STARTED) for step in each.steps]
    restored = any((each.phase, each.state) == (RESTORE, SUCCEEDED) for each in responses)
    return restored and all(step.started_at is None for step in steps)


def _places(folders: Folders) -> tuple[str, str]:
    return folders.marks, folders.marks_in_memory


def _vm_id(store: Store) -> str | None:
    vm_id = store.fact("resource_name").get("vm_id")
    return vm_id if isinstance(vm_id, str) else None
