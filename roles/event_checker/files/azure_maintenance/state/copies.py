# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copy a file of the state that may be locked, or on a disk that cannot be written."""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Callable, Iterator
from urllib.parse import quote

from .schema import is_locked, is_unwritable

NAME = "state.db"
# Seconds for which a reader waits for the lock of another program
_READ_LOCK_WAIT = 1.0
_BUSY, _LOCKED = 5, 6

Warn = Callable[[str], None]


def copy_file(path: str, target: str, warn: Warn) -> None:
    """Put a copy of a file in the place of another.

    :raises sqlite3.Error, OSError: it cannot be read, or the copy cannot be written.
    """
    # Complete before it has its name, like a new state.
    new = f"{target}.new"
    unlink(new)
    try:
        with closing(sqlite3.connect(new)) as copy:
            read_into(copy, path, os.path.dirname(target), warn)
        # SQLite would use an old log for the copy.
        unlink(target, "-wal", "-shm")
        os.replace(new, target)
    except (sqlite3.Error, OSError):
        unlink(new)
        raise


def read_into(target: sqlite3.Connection, path: str, spare_folder: str, warn: Warn) -> None:
    """Copy a file that may be locked, or on a disk that cannot be written.

    :param spare_folder: where another copy may lie meanwhile.
    :raises sqlite3.Error, OSError: it cannot be read.
    """
    try:
        # SQLite makes the index of a log that is not there, and leaves it behind, unless told that nobody writes.
        how = "mode=ro" if os.path.exists(f"{path}-wal") else "mode=ro&immutable=1"
        _read_by(target, path, how)
        return
    except sqlite3.OperationalError as error:
        if not (is_locked(error) or is_unwritable(error)):
            raise
        if is_locked(error):
            warn(f"{path} may be read without its newest changes, because another program holds it.")
    # Imported when needed: together they take longer than many polls.
    import shutil
    import tempfile

    folder = spare_folder if os.access(spare_folder, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=folder) as place:
        copy = os.path.join(place, NAME)
        for suffix in ("", "-wal"):
            # Reading a file gives up the locks of this process on it, so this is only for a file that cannot be locked.
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, copy + suffix)
        _read_by(target, copy, "mode=rw")


def _read_by(target: sqlite3.Connection, path: str, how: str) -> None:
    """:raises sqlite3.Error: one of them cannot be used, or another program holds its lock."""
    uri = f"file:{quote(path)}?{how}"
    with closing(sqlite3.connect(uri, timeout=_READ_LOCK_WAIT, uri=True)) as source:
        source.backup(target, progress=_raise_if_locked)


def _raise_if_locked(status: int, _remaining: int, _total: int) -> None:
    # backup() itself would wait without end, where not even a signal reaches it.
    if status in (_BUSY, _LOCKED):
        raise sqlite3.OperationalError("database is locked")


@contextmanager
def keep_writers_out(path: str, busy_timeout: float) -> Iterator[None]:
    """Let nobody write to a file while it is copied and given up: the copy would lack it.

    This is not possible if the disk cannot be written, or another program writes for so long.
    """
    with ExitStack() as stack:
        with suppress(sqlite3.Error):
            holder = sqlite3.connect(f"file:{quote(path)}?mode=rw", busy_timeout, uri=True)
            stack.enter_context(closing(holder)).execute("BEGIN IMMEDIATE")
        yield


def unlink(path: str, *suffixes: str) -> None:
    # The file first: without its log it would pass for a state, and an older one.
    for suffix in suffixes or ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)
