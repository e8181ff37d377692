# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file that holds the state: open it, bring it up to date, and go on where it is damaged or cannot be written."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from typing import Callable

from .readers import copy_all, copy_file, keep_writers_out, rescue
from .tables import UnknownTablesError, is_locked, is_unwritable, migrate, prepare

_NAME = "state.db"
# Added to the name of a file that has all that could be read of a damaged one, and is to take its place
_RESCUED = ".rescued"
_SMALLEST_PAGE = 512


def open_database(
    folder: str,
    fallback_folder: str,
    warn: Callable[[str], None],
    unwritable: bool = False,
    damaged: bool = False,
    busy_timeout: float = 30.0,
) -> sqlite3.Connection:
    """Open ``state.db``, or what has to do in its place.

    A damaged file is put aside, and what can be read of it is kept. Where the folder cannot be written the state goes
    on in the fallback folder, in memory, until return_home() finds the disk mended.

    :param warn: told in a sentence what was wrong.
    :param unwritable: the folder has been found to be so.
    :param damaged: the file has been found to be so, though it can be opened.
    :param busy_timeout: seconds to wait for the lock of another program.
    :raises sqlite3.Error: not even the fallback folder can be written.
    """
    path, fallback = os.path.join(folder, _NAME), os.path.join(fallback_folder, _NAME)
    # Whoever puts a damaged one aside may have been killed.
    if os.path.exists(fallback) or os.path.exists(fallback + _RESCUED):
        return _open_sound(fallback, warn, busy_timeout, damaged)
    reason: Exception | str = "a write failed"
    if not unwritable:
        try:
            return _open_sound(path, warn, busy_timeout, damaged)
        except (sqlite3.OperationalError, OSError) as error:
            if isinstance(error, sqlite3.Error) and not is_unwritable(error):
                raise
            reason = error
    warn(
        f"{path} cannot be written ({reason}). The state is kept in {fallback}, in memory: it is lost if the VM loses "
        "power. Make room, or make the disk writable."
    )
    os.makedirs(fallback_folder, mode=0o700, exist_ok=True)
    # A kill may have left the log of the file that was there before.
    _unlink(fallback)
    # Whoever holds the lock for long must not keep the state from going on.
    with keep_writers_out(path, busy_timeout):
        _copy_readable(path, fallback, warn)
    return _open_sound(fallback, warn)


def locate(folder: str, fallback_folder: str) -> tuple[str, int, int] | None:
    """Identify the file that holds the state now: another one once the state has moved, or was put aside.

    :raises OSError: whoever asks may not look there.
    """
    for each in (fallback_folder, folder):
        path = os.path.join(each, _NAME)
        try:
            found = os.stat(path)
        except FileNotFoundError:
            continue
        return path, found.st_dev, found.st_ino
    return None


def return_home(folder: str, fallback_folder: str, warn: Callable[[str], None]) -> None:
    """Bring the state back from the fallback folder, if it is there and the disk can be written again.

    Nothing else may use either file meanwhile.
    """
    path, fallback = os.path.join(folder, _NAME), os.path.join(fallback_folder, _NAME)
    if not os.path.exists(fallback):
        return
    try:
        # Whoever holds its lock has it for now; the next check tries again.
        with closing(_open_sound(path, warn, 0.1)) as target, closing(_open_sound(fallback, warn)) as source:
            # Whether the lock is free is asked for before anything is copied.
            target.execute("BEGIN IMMEDIATE")
            target.execute("ROLLBACK")
            copy_all(source, target)
    except (sqlite3.OperationalError, OSError):
        # The check that finds it so says it; there is nothing new to tell.
        return
    _unlink(fallback)
    warn(f"{path} can be written again; the state has moved back there.")


def _copy_readable(path: str, target: str, warn: Callable[[str], None]) -> None:
    """Take over what can be read of a file that cannot be written."""
    path = _choose(path)
    if not os.path.exists(path):
        return
    # Complete before it has its name, like a state that is made.
    new = f"{target}.new"
    _unlink(new)
    copy = sqlite3.connect(new)
    try:
        copy_file(path, copy, os.path.dirname(target), warn)
        copy.close()
        os.replace(new, target)
        return
    except sqlite3.Error as error:
        reason = error
    finally:
        copy.close()
    _unlink(new)
    warn(f"{path} cannot be read either ({reason}): what was known of events before now is not known.")


def open_snapshot(
    folder: str, fallback_folder: str, warn: Callable[[str], None], damage: sqlite3.Error | None = None
) -> sqlite3.Connection:
    """Return a copy in memory of what is known now, for those who only read: nobody's lock stands in their way.

    :param warn: told in a sentence what was wrong.
    :param damage: what reading such a copy has met.
    :raises OSError: whoever asks may not look there.
    """
    found = _locate_readable(folder, fallback_folder)
    copy = _open_memory()
    if found is not None:
        try:
            if damage is not None:
                raise damage
            copy_file(found, copy, fallback_folder, warn)
            _check(copy)
            migrate(copy)
            return copy
        except (sqlite3.Error, UnknownTablesError) as error:
            reason = error
        copy.close()
        copy = _open_memory()
    migrate(copy)
    if found is not None:
        count = rescue(found, copy, fallback_folder, warn)
        warn(f"{found} cannot be read as a whole ({reason}). What follows is made of the {count} records that can.")
    return copy


def _locate_readable(folder: str, fallback_folder: str) -> str | None:
    """Find what locate() finds, or what is to take its place because it is damaged.

    :raises OSError: whoever asks may not look there.
    """
    for each in (fallback_folder, folder):
        path = _choose(os.path.join(each, _NAME))
        with suppress(FileNotFoundError):
            os.stat(path)
            return path
    return None


def _choose(path: str) -> str:
    """Return the file that has the state: the rescued one only where the damaged one is gone.

    As long as it is there, a response may have written to it since the rescue.
    """
    with suppress(OSError):
        if os.path.getsize(path) >= _SMALLEST_PAGE:
            return path
    return path + _RESCUED if os.path.exists(path + _RESCUED) else path


def _open_memory() -> sqlite3.Connection:
    return prepare(sqlite3.connect(":memory:", isolation_level=None))


def _check(connection: sqlite3.Connection) -> None:
    """:raises sqlite3.DatabaseError: the file is damaged."""
    # PRAGMA quick_check does not look at the indexes, by which most is read.
    verdict = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict.splitlines()[-1])


def _open_sound(
    path: str, warn: Callable[[str], None], busy_timeout: float = 30.0, damaged: bool = False
) -> sqlite3.Connection:
    """Open a file, after putting a damaged one aside and making a missing one."""
    if _choose(path) != path:
        # Whoever put the damaged one aside was killed.
        warn(f"{path} was damaged and was put aside as {_take_place(path)}. What could be read of it was kept.")
    damage: Exception | None = None
    if os.path.exists(path):
        try:
            if damaged:
                raise sqlite3.DatabaseError("part of it is damaged")
            connection = _open(path, busy_timeout)
            # Whoever took it for damaged was killed.
            _unlink(path + _RESCUED)
            return connection
        except (sqlite3.DatabaseError, UnknownTablesError) as error:
            # All else that stands in the way of opening comes of what is in the file.
            if isinstance(error, sqlite3.DatabaseError) and (is_unwritable(error) or is_locked(error)):
                raise
            damage = error
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    if damage is None:
        _make(path, warn)
    else:
        with keep_writers_out(path, busy_timeout) as is_free:
            if not is_free:
                raise sqlite3.OperationalError("database is locked") from damage
            count = _make(path + _RESCUED, warn, path)
            aside = _take_place(path)
        warn(
            f"{path} cannot be used ({damage}) and was put aside as {aside}. {count} records of it were kept. An event "
            "that Azure still lists and that is not among them is taken for new."
        )
    return _open(path, busy_timeout)


def _make(path: str, warn: Callable[[str], None], damaged: str | None = None) -> int:
    """Make a file, and return how many records it has of a damaged one.

    It is complete before it has its name, so that an empty file by that name always tells of damage.
    """
    new = f"{path}.new"
    _unlink(new)
    try:
        with closing(_connect(new)) as made:
            # A log would need as much room again, and closing it would not tell that there is none. What a kill leaves
            # is made anew, so that no journal has to be on the disk either.
            made.execute("PRAGMA journal_mode = MEMORY")
            count = 0 if damaged is None else rescue(damaged, made, os.path.dirname(path), warn)
    except sqlite3.Error:
        with suppress(OSError):
            _unlink(new)
        raise
    os.replace(new, path)
    return count


def _take_place(path: str) -> str:
    """Put a damaged file aside, let the rescued one take its place, and return the new name of the damaged one."""
    aside = put_aside(path)
    os.replace(path + _RESCUED, path)
    return aside


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
        raise


def _has_sound_header(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(20)[18:] in (b"\1\1", b"\2\2")


def _connect(path: str, busy_timeout: float = 30.0) -> sqlite3.Connection:
    connection = prepare(sqlite3.connect(path, timeout=busy_timeout, isolation_level=None))
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # With less, a power cut could take back that a step was begun.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if os.path.getsize(path) % connection.execute("PRAGMA page_size").fetchone()[0]:
            # SQLite takes what is missing of a page for zeros.
            raise sqlite3.DatabaseError("file ends in the middle of a page")
        _check(connection)
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def put_aside(path: str) -> str:
    """Rename a file with all that SQLite keeps beside it, and return its new name."""
    aside = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{time.time_ns()}"
    for suffix in ("", "-wal", "-shm"):
        file = path + suffix
        if os.path.exists(file):
            os.replace(file, aside + suffix)
    return aside


def _unlink(path: str) -> None:
    # The file first: without its log it would pass for a state, and an older one.
    for suffix in ("", "-wal", "-shm"):
        file = path + suffix
        if os.path.exists(file):
            os.unlink(file)
