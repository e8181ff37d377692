# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file that holds the state: open it, and go on where it cannot be read or cannot be written."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing

from .copies import NAME, Warn, copy_file, keep_writers_out, read_into, unlink
from .schema import VERSION, check, is_locked, is_unwritable, make_tables, prepare

_ASIDE = ".damaged-"
_SMALLEST_PAGE = 512


def open_database(
    folder: str,
    fallback_folder: str,
    warn: Warn,
    unwritable: bool = False,
    damaged: bool = False,
    busy_timeout: float = 30.0,
) -> sqlite3.Connection:
    """Open ``state.db``, or its stand-in.

    A file that cannot be read, or is of another version, is put aside as a whole. Where the folder cannot be written
    the state goes on in the fallback folder, in memory, until return_home() finds the disk mended.

    :param warn: called with a sentence for each fault.
    :param unwritable: a write to the folder has failed.
    :param damaged: a read of the file has failed, though it can be opened.
    :param busy_timeout: seconds to wait for the lock of another program.
    :raises sqlite3.Error: not even the fallback folder can be written.
    """
    path, fallback = os.path.join(folder, NAME), os.path.join(fallback_folder, NAME)
    if os.path.exists(fallback):
        return _open_or_replace(fallback, fallback_folder, warn, busy_timeout, damaged)
    reason: Exception | str = "a write failed"
    if not unwritable:
        try:
            return _open_or_replace(path, fallback_folder, warn, busy_timeout, damaged)
        except (sqlite3.OperationalError, OSError) as error:
            if isinstance(error, sqlite3.Error) and not is_unwritable(error):
                raise
            reason = error
    warn(
        f"{path} cannot be written ({reason}). The state is kept in {fallback}, in memory: it is lost if the VM loses "
        "power. Make room, or make the disk writable."
    )
    os.makedirs(fallback_folder, mode=0o700, exist_ok=True)
    if os.path.exists(path):
        # A program that holds the lock for long must not stop the checker.
        with keep_writers_out(path, busy_timeout):
            try:
                copy_file(path, fallback, warn)
            except (sqlite3.Error, OSError) as error:
                warn(f"{path} cannot be read either ({error}). The marks on this VM show what must still be restored.")
    return _open_or_replace(fallback, fallback_folder, warn)


def locate(folder: str, fallback_folder: str) -> tuple[str, int, int] | None:
    """Identify the file that holds the state now: another one once the state has moved, or was put aside.

    :raises OSError: this user may not look there.
    """
    for each in (fallback_folder, folder):
        path = os.path.join(each, NAME)
        try:
            found = os.stat(path)
        except FileNotFoundError:
            continue
        return path, found.st_dev, found.st_ino
    return None


def find_put_aside(folder: str, fallback_folder: str) -> list[str]:
    """Return the files that were put aside, which stay until a person has seen to them."""
    return [
        os.path.join(each, name)
        for each in (folder, fallback_folder)
        for name in _list(each)
        if name.startswith(NAME + _ASIDE) and not name.endswith(("-wal", "-shm"))
    ]


def put_aside_at(path: str) -> float:
    """Return when a file of find_put_aside() was put aside, in seconds since 1970: its name says so."""
    moment = path.rpartition("-")[2]
    return int(moment) / 1e9 if moment.isdigit() else 0.0


def _list(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def return_home(folder: str, fallback_folder: str, warn: Warn) -> None:
    """Bring the state back from the fallback folder, if it is there and the disk can be written again.

    Nothing else may use either file meanwhile.
    """
    path, fallback = os.path.join(folder, NAME), os.path.join(fallback_folder, NAME)
    if not os.path.exists(fallback):
        return
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with keep_writers_out(fallback, 0.1):
            copy_file(fallback, path, warn)
            unlink(fallback)
    except (sqlite3.Error, OSError):
        # The check that opens it says so.
        return
    warn(f"{path} can be written again; the state has moved back there.")


def open_snapshot(folder: str, fallback_folder: str, warn: Warn) -> sqlite3.Connection:
    """Return a copy of the state in memory, for readers: they need not wait for a lock.

    :param warn: called with a sentence for each fault.
    :raises OSError: this user may not look there.
    """
    found = locate(folder, fallback_folder)
    if found is not None:
        copy = _open_memory()
        try:
            read_into(copy, found[0], fallback_folder, warn)
            check(copy)
            return copy
        except (sqlite3.Error, OSError) as error:
            todo = " The next check puts it aside." if isinstance(error, sqlite3.Error) else ""
            warn(f"{found[0]} cannot be read ({error}). Its events are missing here.{todo}")
            copy.close()
    copy = _open_memory()
    make_tables(copy)
    return copy


def _open_memory() -> sqlite3.Connection:
    return prepare(sqlite3.connect(":memory:", isolation_level=None))


def _open_or_replace(
    path: str, run_folder: str, warn: Warn, busy_timeout: float = 30.0, damaged: bool = False
) -> sqlite3.Connection:
    """Open a file, after putting one aside that cannot be read, and making a missing one."""
    if os.path.exists(path):
        try:
            if damaged:
                raise sqlite3.DatabaseError("part of it is damaged")
            return _open(path, busy_timeout)
        except sqlite3.DatabaseError as error:
            # All other errors come from the content of the file.
            if is_unwritable(error) or is_locked(error):
                raise
            damage = error
        aside = _put_aside(path)
        warn(
            f"{path} cannot be used ({damage}) and was put aside as {aside}. The marks on this VM show what must "
            "still be restored. azure-maintenance status warns until that file is moved away."
        )
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    _make(path, _first_free_number(run_folder))
    return _open(path, busy_timeout)


def _first_free_number(run_folder: str) -> int:
    """Return the number of a response that none has had in this boot: one of the lost file may still run."""
    words = (name[len("respond-") : -len(".lock")] for name in _list(run_folder) if name.startswith("respond-"))
    return max((int(word) for word in words if word.isdecimal()), default=0) + 1


def _make(path: str, first_number: int) -> None:
    """Make a file. It is complete before it has its name, so that an empty file by that name is always damaged."""
    new = f"{path}.new"
    unlink(new)
    try:
        with closing(prepare(sqlite3.connect(new, isolation_level=None))) as made:
            # A log would need as much room again, and closing it would not report a full disk. No journal on the disk
            # either: after a kill the file is made again.
            made.execute("PRAGMA journal_mode = MEMORY")
            make_tables(made, first_number)
    except sqlite3.Error:
        unlink(new)
        raise
    os.replace(new, path)


def _open(path: str, busy_timeout: float) -> sqlite3.Connection:
    if os.path.getsize(path) < _SMALLEST_PAGE:
        # SQLite takes so short a file for an empty one, and would begin it anew.
        raise sqlite3.DatabaseError("file is cut short")
    try:
        return _connect(path, busy_timeout)
    except sqlite3.OperationalError as error:
        # With other numbers in its header SQLite takes a sound file for a read-only one, and the disk would be blamed.
        # Nobody reads the file without SQLite before that: closing it would give up the locks of this process.
        if is_unwritable(error) and not _has_sound_header(path):
            raise sqlite3.DatabaseError("file is damaged") from error
        if is_unwritable(error) or is_locked(error):
            raise
        raise sqlite3.DatabaseError(str(error)) from error


def _has_sound_header(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(20)[18:] in (b"\1\1", b"\2\2")


def _connect(path: str, busy_timeout: float) -> sqlite3.Connection:
    connection = prepare(sqlite3.connect(path, timeout=busy_timeout, isolation_level=None))
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # With less, a power cut could take back that a step was begun.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if os.path.getsize(path) % connection.execute("PRAGMA page_size").fetchone()[0]:
            # SQLite reads the missing part of a page as zeros.
            raise sqlite3.DatabaseError("file ends in the middle of a page")
        check(connection)
        _check_writable(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_writable(connection: sqlite3.Connection) -> None:
    """Write something: a full disk must show now, not in the middle of an event.

    :raises sqlite3.Error: the file cannot be written.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        # Another program holds the lock for now. The file can be read; a later write waits.
        if is_locked(error):
            return
        raise
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _put_aside(path: str) -> str:
    """Rename a file with all that SQLite keeps beside it, and return its new name."""
    aside = f"{path}{_ASIDE}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{time.time_ns()}"
    for suffix in ("", "-wal", "-shm"):
        file = path + suffix
        if os.path.exists(file):
            os.replace(file, aside + suffix)
    return aside
