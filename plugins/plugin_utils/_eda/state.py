# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The event source's memory of the events whose end was not told, and its state file."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import secrets
import stat
import weakref
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple

# Relative, because the event source imports this file where ansible_collections cannot be imported.
from ...module_utils._errors import excerpt
from ...module_utils._event.document import Event
from ...module_utils._event.lifecycle import COMPLETED, WITHDRAWN
from ...module_utils._event.parser import load_json, parse_document
from ...module_utils._imds.client import DEFAULT_API_VERSION

# ansible-rulebook gives the file of a source no name of its own.
logger = logging.getLogger("fleetops.azure_maintenance.scheduled_events")

_MOST_LINES = 10
# Many times the file for the largest document, of 1 MiB.
_LARGEST_FILE = 64 * 1024 * 1024
# One wrong byte spoils one of them only.
_OUR_NAMES = (b'"Events"', b'"EventId"', b'"AnsweredBootId"')


class Seen(NamedTuple):
    """An event that has not ended, or whose end is still to be told.

    :ivar boot_id: the boot of this VM in which it was last listed, None where the system has no boot id.
    :ivar told: it was listed, and told, since the source was started.
    :ivar outcome: that of one that has ended, else None.
    """

    event: Event
    boot_id: str | None
    told: bool = False
    outcome: str | None = None


class State(NamedTuple):
    """The memory.

    :ivar seen: the events, by key.
    :ivar answered_boot_id: the boot in which the metadata service last answered.
    """

    seen: Mapping[str, Seen] = {}
    answered_boot_id: str | None = None


class StateFile:
    """The state as JSON, with the events in the form of Azure's document and with the boot of each.

    It is read as leniently as can be, and checked that it can be written, because later on nobody is there to be told.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._written: State | None = None
        self._failed = False
        # Releases the lock, as the end of this object does.
        self.close: Callable[[], Any] = lambda: None

    def read(self) -> State:
        """Return the readable part. A damaged file is put aside; events that are listed later are not lost.

        :raises ValueError: the path is that of something else, or cannot be used.
        """
        # A file of another program gets no lock beside it.
        self._read_ours()
        try:
            self._take_lock()
            os.unlink(_write_beside(self._path, {}))
        except OSError as error:
            raise ValueError(
                f"state_file {self._path} cannot be written: {error.strerror}. Its folder must exist and be writable."
            ) from error
        body = self._read_ours()
        self._remove_unfinished()
        if body is None:
            return State()
        if len(body) > _LARGEST_FILE:
            self._put_aside("is too large")
            return State()
        content = _decode(body)
        if content is None:
            self._put_aside("is damaged")
            return State()
        answered = content.get("AnsweredBootId")
        return State(self._read_records(content["Events"]), answered if isinstance(answered, str) else None)

    def _read_ours(self) -> bytes | None:
        """:raises ValueError: the path is that of something else, or cannot be read."""
        try:
            body = self._read_bytes()
        except OSError as error:
            raise ValueError(f"state_file {self._path} cannot be read: {error.strerror}.") from error
        if body is not None and not (_is_surely_ours(body) if len(body) > _LARGEST_FILE else _may_be_ours(body)):
            raise ValueError(f"state_file {self._path} was not written by this source. Name another one.")
        return body

    def _take_lock(self) -> None:
        """Keep other sources from the file until close(): each would replace the events of the other.

        :raises ValueError: another source has it.
        :raises OSError: the file of the lock cannot be written.
        """
        lock = self._path.with_name(f"{self._path.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.close = weakref.finalize(self, os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise ValueError(
                f"state_file {self._path} is in use by another source. Give each source a file of its own."
            ) from error
        except OSError as error:
            # Some network file systems know no locks.
            logger.warning("state_file %s cannot be locked: %s.", self._path, error.strerror)

    def _read_bytes(self) -> bytes | None:
        """Return the content, of one that is too large the beginning; None where there is no file.

        A link or a FIFO was put there by somebody else. It is not opened, or not waited for, and put aside.

        :raises OSError: it cannot be read.
        """
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            return None
        except OSError as error:
            # A link, and a socket
            if error.errno not in (errno.ELOOP, errno.ENXIO):
                raise
            self._put_aside("is not a regular file")
            return None
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            os.close(descriptor)
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        with open(descriptor, "rb") as file:
            if stat.S_ISREG(mode):
                return file.read(_LARGEST_FILE + 1)
        if not stat.S_ISFIFO(mode):
            raise OSError(errno.EINVAL, "It is a device")
        self._put_aside("is not a regular file")
        return None

    def _remove_unfinished(self) -> None:
        """Remove the files that a killed source has left beside the file."""
        unfinished = re.compile(rf"{re.escape(self._path.name)}\.[0-9a-f]{{16}}\.new")
        # It does no harm where it cannot be removed.
        with contextlib.suppress(OSError), os.scandir(self._path.parent) as entries:
            for entry in entries:
                if unfinished.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    os.unlink(entry)

    def _put_aside(self, fault: str) -> None:
        aside = self._path.with_name(f"{self._path.name}.damaged-{secrets.token_hex(8)}")
        try:
            os.rename(self._path, aside)
            where = f"It was renamed to {aside.name}"
        except OSError as error:
            where = f"It cannot be renamed ({error.strerror})"
        logger.error("state_file %s %s. %s, and no earlier event is remembered.", self._path, fault, where)

    def _read_records(self, records: list[Any]) -> dict[str, Seen]:
        seen = {}
        unreadable = 0
        for number, raw in enumerate(records, start=1):
            events = parse_document({"Events": [raw]}, DEFAULT_API_VERSION).events
            if events:
                seen[events[0].key] = _read_record(events[0], raw)
                continue
            unreadable += 1
            if unreadable <= _MOST_LINES:
                fault = f"event {number} cannot be read and is left out: {excerpt(json.dumps(raw))}"
                logger.error("state_file %s: %s.", self._path, fault)
        if unreadable > _MOST_LINES:
            logger.error("state_file %s: and %d more events.", self._path, unreadable - _MOST_LINES)
        return seen

    def write(self, state: State) -> None:
        """Replace the file, if anything changes; one that cannot be written is said once and costs no event."""
        if state == self._written:
            return
        content = {
            "Events": [_as_azure_does(each) for each in state.seen.values()],
            "AnsweredBootId": state.answered_boot_id,
        }
        try:
            _replace(self._path, content)
        except OSError as error:
            if not self._failed:
                logger.error("state_file %s cannot be written: %s.", self._path, error.strerror)
            self._failed = True
            return
        self._written, self._failed = state, False


def _decode(body: bytes) -> dict[str, Any] | None:
    """Return the content, None where it is damaged.

    Not decode_document(): it has the limits of an answer, and the file is many times as long.
    """
    try:
        content = load_json(body.decode("utf-8-sig", errors="replace"))
    except ValueError:
        return None
    return content if isinstance(content, dict) and isinstance(content.get("Events"), list) else None


def _may_be_ours(body: bytes) -> bool:
    """Tell a state file, also one that is empty, cut off or has some wrong bytes, from a file with another purpose.

    A typing error in state_file must not rename another file.
    """
    text = body.strip(b"\0 \t\r\n")
    if not text or any(name in text for name in _OUR_NAMES):
        return True
    return text.startswith(b"{") and not _is_whole(text)


def _is_surely_ours(beginning: bytes) -> bool:
    """Tell a state file that is too large to be read, in which all names occur often, from any other large file."""
    return b'"EventId"' in beginning and b'"BootId"' in beginning


def _is_whole(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _read_record(event: Event, raw: Mapping[str, Any]) -> Seen:
    stored = raw.get("BootId")
    names_its_vms = event.names_its_vms and raw.get("NamesItsVms") is not False
    outcome = raw.get("Outcome")
    return Seen(
        event._replace(names_its_vms=names_its_vms),
        stored if isinstance(stored, str) else None,
        outcome=outcome if outcome in (COMPLETED, WITHDRAWN) else None,
    )


def written_size(seen: Seen) -> int:
    """Return how many bytes an event takes in the state file, but for the indentation."""
    return len(json.dumps(_as_azure_does(seen)))


def _as_azure_does(seen: Seen) -> dict[str, Any]:
    event = seen.event
    return {
        "EventId": event.event_id,
        "EventType": event.event_type,
        "EventStatus": event.event_status,
        "ResourceType": event.resource_type,
        "Resources": list(event.resources),
        "NotBefore": event.not_before_raw,
        "Description": event.description,
        "EventSource": event.event_source,
        "DurationInSeconds": event.duration_seconds,
        "NamesItsVms": event.names_its_vms,
        "BootId": seen.boot_id,
        "Outcome": seen.outcome,
    }


def _replace(path: Path, content: Any) -> None:
    """Replace a file by one with this as JSON, in one step.

    :raises OSError: it cannot be written.
    """
    beside = _write_beside(path, content)
    try:
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _write_beside(path: Path, content: Any) -> Path:
    """Write a new file beside another one, and return its path.

    The folder may belong to somebody else: the new file has a name that cannot be guessed and did not exist before,
    so that no link and no FIFO is opened.

    :raises OSError: it cannot be written.
    """
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            # Not dumps(), which takes many times the memory of its text.
            json.dump(content, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    return beside
