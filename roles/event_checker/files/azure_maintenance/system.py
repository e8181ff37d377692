# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operating system: clocks, locks, files, systemd and the journal."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import sys
import time
from typing import Iterator, NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import escape
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks as _marks
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.boot_id import read_boot_id

from .state.records import Moment

# Priorities of the journal
ERROR = 3
WARNING = 4
NOTICE = 5

# Seconds for which a response may be late before systemd takes it for hung. Much longer than a pause of the VM by Azure
# (a Freeze), by which its clock may jump, and than a slow disk.
_HUNG_AFTER = 600.0
_BOOT = "boot"
# The lock of a check
CHECK = "check"
# Seconds to wait for another program that writes this mark, which takes an instant
_BOOT_PATIENCE = 2.0


class Folders(NamedTuple):
    """The folders of the program; a test gives others."""

    config: str = "/etc/azure-maintenance/config.json"
    playbooks: str = "/etc/azure-maintenance/playbooks"
    state: str = "/var/lib/azure-maintenance"
    run: str = "/run/azure-maintenance"
    facts: str = "/etc/ansible/facts.d"
    marks: str = _marks.OF_ROOT[0]
    marks_in_memory: str = _marks.OF_ROOT[1]


def say(message: str, priority: int = NOTICE) -> None:
    """Write a message to stderr, escaped for a terminal, with the priority by which the journal knows it."""
    lines = [escape(line) for line in message.splitlines()] or [""]
    if writes_to_journal():
        lines = [f"<{priority}>{line}" for line in lines]
    # A log that cannot be written decides nothing about this VM.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()


def writes_to_journal() -> bool:
    """Tell whether stderr is the journal. A program that Azure's agent or another service has started inherits the
    variable, but that service may read its stderr itself."""
    try:
        stderr = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stderr.st_dev}:{stderr.st_ino}"


def warn(message: str) -> None:
    say(message, WARNING)


class Clock:
    """Tells the moment, and waits.

    :param folders: where a mark is kept that tells one boot from the next, should the system not tell it.
    """

    def __init__(self, folders: Folders) -> None:
        self._boot_id = read_boot_id() or _marked_boot(folders)

    def now(self) -> Moment:
        return Moment(time.time(), _uptime(), self._boot_id)

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds."""
        time.sleep(seconds)


def _uptime() -> float:
    # This clock goes on while the VM is frozen, and nobody can set it.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _marked_boot(folders: Folders) -> str:
    """Return a stand-in where the system hides its boot id: a mark in the folder in memory, another one in each boot.

    A folder that is not in memory may have kept the mark of an earlier boot; a clock that has gone back tells of one.
    """
    with lock(folders.run, _BOOT, patience=_BOOT_PATIENCE) as free:
        if not free:
            # The program that holds it was stopped: to write a mark takes an instant.
            held = os.path.join(folders.run, f"{_BOOT}.lock")
            raise OSError(errno.ETIMEDOUT, "another program holds this lock and does not end", held)
        uptime, _space, mark = (read_mark(folders, _BOOT) or "").partition(" ")
        try:
            if mark and float(uptime) <= _uptime():
                return mark
        except ValueError:
            # Somebody else wrote it.
            pass
        mark = f"mark-{os.urandom(8).hex()}"
        write_mark(folders, _BOOT, f"{_uptime()} {mark}")
    warn(
        "The boot id of this system cannot be read (/proc/sys/kernel/random/boot_id). A mark in "
        f"{os.path.join(folders.run, _BOOT)} takes its place. It must be gone after a boot, so {folders.run} must be "
        "in memory."
    )
    return mark


@contextlib.contextmanager
def lock(folder: str, name: str, patience: float = 0.0) -> Iterator[bool]:
    """Hold a lock that ends with the process at the latest; yield False where another process holds it.

    :param patience: seconds for which to try, where the other may hold it for an instant only.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor = os.open(os.path.join(folder, f"{name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free = True
                break
            except BlockingIOError:
                free = False
                if time.monotonic() >= end:
                    break
                time.sleep(0.02)
        yield free
    finally:
        os.close(descriptor)


def response_lock(number: int) -> str:
    return f"respond-{number}"


def is_running(folders: Folders, number: int) -> bool:
    """Tell whether a process runs the response now."""
    return is_held(folders.run, response_lock(number))


def is_held(folder: str, name: str) -> bool:
    """Tell whether a process holds a lock. Only reads, and holds it for an instant at most."""
    try:
        descriptor = os.open(os.path.join(folder, f"{name}.lock"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def running_responses(folders: Folders) -> list[int]:
    """Return the numbers of the responses that a process runs now."""
    found = (re.fullmatch(r"respond-([0-9]+)\.lock", name) for name in os.listdir(folders.run))
    return [int(each[1]) for each in found if each and is_running(folders, int(each[1]))]


def start_unit(number: int, timeout: float = 30.0) -> str | None:
    """Start the unit of a response without waiting for it; return why that failed, or None.

    :param timeout: seconds for systemctl.
    """
    # Imported when needed: a check that has nothing to start is to cost next to nothing.
    import subprocess

    unit = f"azure-maintenance-respond@{number}.service"
    try:
        ended = subprocess.run(
            ["systemctl", "start", "--no-block", unit],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{unit} could not be started: {error}."
    if ended.returncode:
        said = " ".join(ended.stdout.decode("utf-8", errors="replace").split())
        return f"{unit} could not be started: {said or f'systemctl ended with {ended.returncode}'}."
    return None


def prolong_time(seconds: float) -> None:
    """Tell systemd that this unit is at work, and says no more for so many seconds; much later it is hung.

    systemd measures that by the clock by which steps have their time, so that no jump of it ends a step that has time.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    seconds = max(seconds, 0.0)
    times = {"EXTEND_TIMEOUT_USEC": seconds, "WATCHDOG_USEC": seconds + _HUNG_AFTER}
    lines = [*(f"{name}={int(value * 1_000_000)}" for name, value in times.items()), "WATCHDOG=1"]
    notifier = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    # Where another service has started this, its socket may be gone.
    with notifier, contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
        notifier.sendto("\n".join(lines).encode(), "\0" + address[1:] if address.startswith("@") else address)


def read_mark(folders: Folders, name: str) -> str | None:
    """Return the text of write_mark() in this boot, None for nothing."""
    try:
        with open(os.path.join(folders.run, name), encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def write_mark(folders: Folders, name: str, text: str) -> None:
    """Write a text down until the next boot; this needs no lock, and no room on the disk."""
    os.makedirs(folders.run, mode=0o700, exist_ok=True)
    write_file(os.path.join(folders.run, name), text, 0o600)


def read_mark_time(folders: Folders, name: str) -> float | None:
    """Return the time that write_mark_time() has noted last, None for nothing."""
    try:
        return os.stat(os.path.join(folders.run, name)).st_mtime
    except FileNotFoundError:
        return None


def write_mark_time(folders: Folders, name: str, at: float) -> None:
    """Note when something happened last, cheap enough for each poll: only the time of a file changes."""
    path = os.path.join(folders.run, name)
    try:
        os.utime(path, (at, at))
    except FileNotFoundError:
        write_mark(folders, name, "")
        os.utime(path, (at, at))


def write_file(path: str, text: str, mode: int, durable: bool = False) -> None:
    """Replace a file in one step, so that nobody ever reads half of it.

    The folder may belong to somebody else: the new file has a name that cannot be guessed and did not exist before,
    so that no link and no FIFO is opened (P11).

    :param durable: the file is there and whole after a loss of power, too. This waits for the disk.
    """
    new = f"{path}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(new, flags, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(descriptor, mode)
            if durable:
                os.fsync(descriptor)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
    if durable:
        _sync_folder(os.path.dirname(path))


def _sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
