# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The marks on a VM: for which events it was prepared, by whom, and has not been restored since (P16).

A mark is a small file in JSON, one for each event and each run or checker that prepares. All users may read it, so it
holds no secret (P12).
"""

from __future__ import annotations

import json
import os
import pwd
import re
import stat
from datetime import datetime, timedelta
from typing import Any, Iterable, Mapping, Sequence

from .._errors import escape, one_line
from .document import fold_case, format_utc, read_utc

RUN, CHECKER = "run", "checker"
PREPARING, PREPARED, RESTORING, FAILED = "preparing", "prepared", "restoring", "failed"
# The states in which somebody works on the VM, or was killed there
AT_WORK = (PREPARING, RESTORING)
# Names the folder of the marks in place of the usual ones: a rehearsal must not touch those of the machine it runs on.
ENVIRONMENT = "AZURE_MAINTENANCE_MARKS"
OF_ROOT = ("/var/lib/azure-maintenance-marks", "/run/azure-maintenance-marks")
# Below the home and the folder that systemd makes for the sessions of a user
OF_USER = (".local/state/azure-maintenance/marks", "azure-maintenance/marks")
VERSION = 1

# The keys of a mark, in this order
WORDS = (
    *("event_id", "event_type", "by", "controller", "user", "job", "run", "since", "boot_id", "vm_id"),
    *("state", "state_since", "state_until"),
)
ENDING = ".mark.json"
# In the name of a file
_UNKNOWN_VM = "vm"
LARGEST = 16 * 1024
# A VM has a few open events at a time.
MOST_MARKS = 100
_LONGEST_WORD = 200
_MOST_FAULTS = 10
# Where the homes of ordinary users are
HOMES = "/home"
_MOST_USERS = 200
# Types of file systems that ask another machine or program
_DISTANT = ("nfs", "cifs", "smb", "autofs", "fuse", "ceph", "gluster", "lustre", "afs", "9p")
# No words of a mark
NO_MARK = "This is no mark that this version can read. The VM may be out of service."


def new_mark(by: str, event: Mapping[str, Any], since: str, **more: str | None) -> dict[str, Any]:
    """Return the content of a mark, whose author begins to prepare.

    :param by: RUN or CHECKER.
    :param event: as scheduled_events_info returns it.
    :param since: ISO 8601 in UTC.
    :param more: the other words.
    """
    mark: dict[str, Any] = dict.fromkeys(WORDS)
    mark.update(event_id=event["event_id"], event_type=event["event_type"], by=by, since=since)
    mark.update(state=PREPARING, state_since=since, **more)
    return {"version": VERSION, **mark}


def set_state(mark: Mapping[str, Any], state: str, now: datetime, longest: float) -> dict[str, Any]:
    """Return a mark in another state.

    :param longest: seconds for which its author may work on the VM in this state, by the author's own limits. Others
        wait for so long, and then take the author for killed (P3, P15).
    """
    until = now + timedelta(seconds=longest) if state in AT_WORK else None
    return {**mark, "state": state, "state_since": format_utc(now), "state_until": format_utc(until)}


def longest_work(mark: Mapping[str, Any]) -> float:
    """Return the seconds for which the author of a mark may work on the VM in its state; 0 where the mark tells none.

    Both times are by the same clock, which may be wrong.
    """
    since, until = (read_utc(str(mark[name] or "")) for name in ("state_since", "state_until"))
    return 0.0 if since is None or until is None else max(0.0, (until - since).total_seconds())


def file_name(mark: Mapping[str, Any]) -> str:
    """Return the name of the file of a mark: each run has its own, so that none overwrites another's.

    A disk that was copied to another VM holds the marks of the first.
    """
    run = str(mark["run"] or "")
    run = f"-{run}" if re.fullmatch(r"[a-z0-9]{1,64}", run) else ""
    return f"{_of_event(mark)}{run}{ENDING}"


def is_of_run(name: str, run: Any) -> bool:
    """Tell whether the file with this name is a mark of a run."""
    return name.endswith(f"-{run}{ENDING}")


def patterns_of_event(mark: Mapping[str, Any]) -> list[str]:
    """Return patterns of a shell for the names of all marks of that kind for the event of a mark on this VM."""
    return [f"{_key(mark)}.{vm}.{mark['by']}*{ENDING}" for vm in _vms(mark)]


def patterns_on_vm(mark: Mapping[str, Any]) -> list[str]:
    """Return patterns of a shell for the names of all marks on the VM of a mark."""
    return [f"*.{vm}.*{ENDING}" for vm in _vms(mark)]


def _vms(mark: Mapping[str, Any]) -> list[str]:
    """Return the names of VMs in the names of the marks of this VM, as select_marks() knows them: one that is not known
    may be any.
    """
    vm = _vm(mark)
    return ["*"] if vm == _UNKNOWN_VM else [vm, _UNKNOWN_VM]


def _of_event(mark: Mapping[str, Any]) -> str:
    return f"{_key(mark)}.{_vm(mark)}.{mark['by']}"


def _key(mark: Mapping[str, Any]) -> str:
    key = fold_case(str(mark["event_id"]))
    # An id is a UUID as far as anybody has seen; any other could be a path.
    if not re.fullmatch(r"[a-z0-9-]{1,64}", key):
        # The check of each minute imports this file, and hashlib takes some milliseconds.
        import hashlib

        key = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return key


def _vm(mark: Mapping[str, Any]) -> str:
    vm = str(mark["vm_id"] or "").lower()
    return vm if re.fullmatch(r"[a-f0-9-]{1,64}", vm) else _UNKNOWN_VM


def folders(environment: Mapping[str, str], user_id: int) -> list[str]:
    """Return where marks of a user may be, the usual place first, and the place while the disk cannot be written."""
    given = environment.get(ENVIRONMENT)
    if given:
        return [given]
    if user_id == 0:
        return list(OF_ROOT)
    home = _home(user_id) or environment.get("HOME") or os.path.expanduser("~")
    session = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{user_id}"
    return [os.path.join(home, OF_USER[0]), os.path.join(session, OF_USER[1])]


def _home(user_id: int) -> str | None:
    """Return the home of a user in the user database: a play may set HOME, and the next may not (P16)."""
    try:
        return pwd.getpwuid(user_id).pw_dir
    except KeyError:
        return None


def read_marks(places: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the marks that the user of this process may see. A copied disk holds those of another VM too.

    :param places: folders; those of root and of the user where none is given.
    """
    user_id = os.getuid()
    if not places:
        places = list(dict.fromkeys([*folders(os.environ, 0), *folders(os.environ, user_id)]))
        # Those of others count for nothing, and are told.
        places += _folders_of_users() if user_id == 0 and not os.environ.get(ENVIRONMENT) else []
    return [mark for place in places for mark in _read_folder(place, user_id)]


def _folders_of_users(homes: str = HOMES, sessions: str = "/run/user", mounts: str = "/proc/self/mounts") -> list[str]:
    """Return the folders of marks of ordinary users, which only root may read. A home on a network is left out: a
    server that is away would keep everybody waiting (P15).
    """
    distant = _distant_places(mounts)
    found = []
    for above, below in ((homes, OF_USER[0]), (sessions, OF_USER[1])):
        try:
            users = [] if above in distant else sorted(os.listdir(above))[:_MOST_USERS]
        except OSError:
            continue
        places = (os.path.join(above, user) for user in users)
        found += [os.path.join(place, below) for place in places if place not in distant]
    return found


def _distant_places(mounts: str) -> set[str]:
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            lines = [line.split() for line in file]
    except OSError:
        return set()
    return {words[1] for words in lines if len(words) > 2 and words[2].startswith(_DISTANT)}


def select_marks(found: Iterable[dict[str, Any]], vm_id: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    """Return those of the marks that were found which are of a VM, and their faults.

    :param vm_id: of the VM, None where it is not known: a mark of another VM counts for nothing.
    """
    own = [mark for mark in found if vm_id is None or mark["vm_id"] is None or _same(mark["vm_id"], vm_id)]
    faults = [f"{escape(mark['file'])}: {mark['fault']}" for mark in own if mark["fault"]]
    return sorted(own, key=lambda mark: (mark["since"] or "", mark["file"])), faults


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def _read_folder(place: str, user_id: int) -> list[dict[str, Any]]:
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(ENDING))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        return [unreadable(place, error.strerror or "cannot be read")]
    return [_read_file(os.path.join(place, name), user_id) for name in names[:MOST_MARKS]]


def _read_file(path: str, user_id: int) -> dict[str, Any]:
    try:
        # Another user may own the folder and put a pipe there: without O_NONBLOCK, open() would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            content = file.read(LARGEST + 1) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        return unreadable(path, error.strerror or "cannot be read")
    mark = decode(path, content)
    if mark["counts"] and status.st_uid not in (0, user_id):
        fault = f"Another user wrote it (uid {status.st_uid}), so it counts for nothing."
        mark.update(counts=False, fault=fault)
    return mark


def decode(path: str, content: bytes) -> dict[str, Any]:
    """Return the mark that a file holds, as scheduled_events_info returns it."""
    mark = _decode(content)
    return {**mark, "file": path, "counts": True, "fault": None} if mark else unreadable(path, NO_MARK)


def unreadable(path: str, why: str) -> dict[str, Any]:
    """Return the entry for a file that may be a mark, and cannot be read."""
    return {**dict.fromkeys(WORDS), "file": path, "counts": False, "fault": why}


def _decode(content: bytes) -> dict[str, Any] | None:
    """Return the words of a mark, None where it is none."""
    try:
        told = json.loads(content.decode("utf-8", "replace")) if len(content) <= LARGEST else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or told.get("version") != VERSION:
        return None
    mark = {word: told.get(word) for word in WORDS}
    words = [word for word in mark.values() if word is not None]
    if any(not isinstance(word, str) or len(word) > _LONGEST_WORD for word in words):
        return None
    return mark if mark["event_id"] and mark["by"] in (RUN, CHECKER) else None


def encode(mark: Mapping[str, Any]) -> bytes:
    """Return the content of the file of a mark.

    :raises ValueError: the id of its event is so long that it could not be read again.
    """
    if len(mark["event_id"]) > _LONGEST_WORD:
        raise ValueError(f"The id of the event has more than {_LONGEST_WORD} characters.")
    cut = {word: value[:_LONGEST_WORD] if isinstance(value, str) else value for word, value in mark.items()}
    return (json.dumps(cut, indent=1) + "\n").encode()


def tell_faults(faults: Sequence[str]) -> list[str]:
    """Return the warnings for faulty marks."""
    told = [f"A mark on this VM: {fault}" for fault in faults[:_MOST_FAULTS]]
    more = len(faults) - _MOST_FAULTS
    return [*told, f"{more} more marks on this VM are faulty."] if more > 0 else told


def find_mark(marks: Iterable[Mapping[str, Any]], event_id: str, by: str) -> Mapping[str, Any] | None:
    """Return the mark that a kind of program left for an event, None where there is none that counts."""
    key = fold_case(event_id)
    return next(
        (mark for mark in marks if mark["counts"] and mark["by"] == by and fold_case(mark["event_id"]) == key), None
    )


def tell_mark(mark: Mapping[str, Any]) -> str:
    """Return since when a VM is out of service, for which event and by which program, as the end of a sentence."""
    event = f"{one_line(mark['event_type'] or 'an event')} {one_line(mark['event_id'])[:8]}"
    return f"since {one_line(mark['since'] or 'an unknown time')} for {event} by {tell_author(mark)}"


def tell_author(mark: Mapping[str, Any]) -> str:
    """Return who prepared a VM."""
    if mark["by"] == CHECKER:
        return "its checker"
    job = f"AWX job {one_line(mark['job'])}" if mark["job"] else "a run"
    user = f" of {one_line(mark['user'])}" if mark["user"] else ""
    return f"{job}{user} on {one_line(mark['controller'] or 'an unknown controller')}"
