# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file that holds the state: open it, bring it up to date, and go on where it is damaged or cannot be written."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Callable
from urllib.parse import quote

_NAME = "state.db"
_SMALLEST_PAGE = 512
_MIGRATIONS = (
    """
    CREATE TABLE event (
        number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, content TEXT NOT NULL, rule TEXT,
        phase TEXT NOT NULL, outcome TEXT, boot_id TEXT NOT NULL, seen_at REAL NOT NULL, seen_uptime REAL NOT NULL,
        announced_at REAL, started_at REAL, ended_at REAL,
        approval TEXT, approved_at REAL, waiting_for TEXT NOT NULL DEFAULT '[]', note TEXT
    );
    CREATE UNIQUE INDEX open_event ON event (key) WHERE ended_at IS NULL;
    CREATE TABLE response (
        number INTEGER PRIMARY KEY AUTOINCREMENT, event INTEGER NOT NULL REFERENCES event ON DELETE CASCADE,
        phase TEXT NOT NULL, state TEXT NOT NULL, boot_id TEXT NOT NULL, created_at REAL NOT NULL,
        finished_at REAL, message TEXT, UNIQUE (event, phase)
    );
    CREATE TABLE step (
        response INTEGER NOT NULL REFERENCES response ON DELETE CASCADE, position INTEGER NOT NULL,
        content TEXT NOT NULL, state TEXT NOT NULL, failures INTEGER NOT NULL DEFAULT 0,
        interruptions INTEGER NOT NULL DEFAULT 0, started_at REAL, finished_at REAL, message TEXT,
        PRIMARY KEY (response, position)
    );
    CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    """,
)
# What SQLite says, in words because Python tells the code from 3.11 on only, when a file cannot be written.
_UNWRITABLE = ("disk is full", "readonly", "read-only", "unable to open", "disk i/o error")


class NewerStateError(Exception):
    """The file was written by a later version of this program."""


def cannot_be_written(error: sqlite3.Error) -> bool:
    return any(words in str(error).lower() for words in _UNWRITABLE)


def open_database(
    folder: str, fallback_folder: str, warn: Callable[[str], None], unwritable: bool = False
) -> sqlite3.Connection:
    """Open ``state.db``, or what has to do in its place.

    A damaged file is put aside. Where the folder cannot be written the state goes on in the fallback folder, in
    memory, until return_home() finds the disk mended.

    :param warn: told in a sentence what was wrong.
    :param unwritable: the folder has been found to be so.
    :raises sqlite3.Error: not even the fallback folder can be written.
    """
    path, fallback = os.path.join(folder, _NAME), os.path.join(fallback_folder, _NAME)
    if os.path.exists(fallback):
        return _open_sound(fallback, warn)
    reason: Exception | str = "a write failed"
    if not unwritable:
        try:
            return _open_sound(path, warn)
        except (sqlite3.OperationalError, OSError) as error:
            if isinstance(error, sqlite3.Error) and not cannot_be_written(error):
                raise
            reason = error
    warn(
        f"{path} cannot be written ({reason}). The state is kept in {fallback}, in memory: it is lost if the VM loses "
        "power. Make room, or make the disk writable."
    )
    os.makedirs(fallback_folder, mode=0o700, exist_ok=True)
    _copy_readable(path, fallback, warn)
    return _open_sound(fallback, warn)


def return_home(folder: str, fallback_folder: str, warn: Callable[[str], None]) -> None:
    """Bring the state back from the fallback folder, if it is there and the disk can be written again.

    Nothing else may use either file meanwhile.
    """
    path, fallback = os.path.join(folder, _NAME), os.path.join(fallback_folder, _NAME)
    if not os.path.exists(fallback):
        return
    try:
        target, source = _open_sound(path, warn), _open_sound(fallback, warn)
        try:
            source.backup(target)
        finally:
            source.close()
            target.close()
    except (sqlite3.OperationalError, OSError):
        # The check that finds it so says it; there is nothing new to tell.
        return
    _unlink(fallback)
    warn(f"{path} can be written again; the state has moved back there.")


def _copy_readable(path: str, target: str, warn: Callable[[str], None]) -> None:
    """Take over what can be read of a file that cannot be written."""
    if not os.path.exists(path):
        return
    # Complete before it has its name, like a state that is made.
    new = f"{target}.new"
    # Without a writable folder SQLite cannot share a file that has a write-ahead log, unless told that nobody writes.
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        _unlink(new)
        copy = sqlite3.connect(new)
        try:
            source = sqlite3.connect(f"file:{quote(path)}?{mode}", uri=True)
            try:
                source.backup(copy)
            finally:
                source.close()
            copy.close()
            os.replace(new, target)
            return
        except sqlite3.Error as error:
            reason = error
        finally:
            copy.close()
    _unlink(new)
    warn(f"{path} cannot be read either ({reason}): what was known of events before now is not known.")


def _open_sound(path: str, warn: Callable[[str], None]) -> sqlite3.Connection:
    """Open a file, after putting a damaged one aside and making a missing one."""
    if os.path.exists(path):
        try:
            return _open(path)
        except (sqlite3.DatabaseError, NewerStateError) as error:
            # All else that stands in the way of opening comes of what is in the file.
            if isinstance(error, sqlite3.OperationalError) and (cannot_be_written(error) or "locked" in str(error)):
                raise
            aside = put_aside(path)
            warn(
                f"{path} cannot be used ({error}) and was put aside as {aside}. What was known of events is lost: "
                "those that Azure still lists are taken for new, and their responses run again."
            )
    # Complete before it has its name, so that an empty file by that name always tells of damage.
    new = f"{path}.new"
    _unlink(new)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    _connect(new).close()
    os.replace(new, path)
    return _open(path)


def _open(path: str) -> sqlite3.Connection:
    if os.path.getsize(path) < _SMALLEST_PAGE:
        # SQLite takes so short a file for an empty one, and would begin it anew.
        raise sqlite3.DatabaseError("file is cut short")
    try:
        return _connect(path)
    except sqlite3.OperationalError as error:
        # With other numbers in its header SQLite takes a sound file for a read-only one, and the disk would be blamed.
        # Nobody reads the file without SQLite before that: closing it would give up the locks of this process.
        if cannot_be_written(error) and not _has_sound_header(path):
            raise sqlite3.DatabaseError("file is damaged") from error
        raise


def _has_sound_header(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(20)[18:] in (b"\1\1", b"\2\2")


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        # With less, a power cut could take back that a step was begun.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if os.path.getsize(path) % connection.execute("PRAGMA page_size").fetchone()[0]:
            # SQLite takes what is missing of a page for zeros.
            raise sqlite3.DatabaseError("file ends in the middle of a page")
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables up to this version, and find out whether the file can be written."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > len(_MIGRATIONS):
            raise NewerStateError(f"it has version {version}, and this program knows {len(_MIGRATIONS)}")
        for script in _MIGRATIONS[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        # Writes even when nothing has changed, or a full disk would show only in the middle of an event.
        connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def put_aside(path: str) -> str:
    """Rename a file with all that SQLite keeps beside it, and return its new name."""
    aside = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{time.time_ns()}"
    for suffix in ("", "-wal", "-shm"):
        file = path + suffix
        if os.path.exists(file):
            os.replace(file, aside + suffix)
    return aside


def _unlink(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        file = path + suffix
        if os.path.exists(file):
            os.unlink(file)
