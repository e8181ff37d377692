# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read a state that may be damaged, locked, or on a disk that cannot be written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Callable, Generator, Iterator
from urllib.parse import quote

from .tables import PARENTS, RESCUED, TABLES, is_locked, is_unwritable, prepare

# Seconds to wait for the lock of another program
_PATIENCE = 1.0
_BUSY, _LOCKED = 5, 6


@contextmanager
def keep_writers_out(path: str, patience: float) -> Iterator[bool]:
    """Let nobody write to a file while it is copied and given up: the copy would lack it.

    Nothing can be done where the damage is such, or the disk cannot be written.

    :returns: False where another program is in the middle of writing for so many seconds.
    """
    is_free = True
    with ExitStack() as stack:
        try:
            uri = f"file:{quote(path)}?mode=rw"
            holder = sqlite3.connect(uri, timeout=patience, isolation_level=None, uri=True)
            stack.enter_context(closing(holder)).execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            is_free = not is_locked(error)
        yield is_free


def copy_file(path: str, target: sqlite3.Connection, spare_folder: str, warn: Callable[[str], None]) -> None:
    """Copy a file that may be read only.

    :raises sqlite3.Error: it cannot be read.
    """
    reason = None
    with closing(open_readers(path, spare_folder, warn)) as readers:
        for source in readers:
            try:
                copy_all(source, target)
            except sqlite3.Error as error:
                reason = error
                continue
            if reason is not None and _has_log(path):
                # The way that is left may be one that does not look at the log.
                warn(f"The newest changes may be missing from what is read of {path} ({reason}).")
            return
    raise reason or sqlite3.Error("no way to read it is left")


def _has_log(path: str) -> bool:
    log = f"{path}-wal"
    return os.path.exists(log) and os.path.getsize(log) > 0


def copy_all(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """:raises sqlite3.Error: one of them cannot be used, or another program holds its lock."""
    source.backup(target, progress=_raise_if_locked)


def _raise_if_locked(status: int, _remaining: int, _total: int) -> None:
    # backup() itself would wait without end, where not even a signal reaches it.
    if status in (_BUSY, _LOCKED):
        raise sqlite3.OperationalError("database is locked")


def open_readers(
    path: str, spare_folder: str, warn: Callable[[str], None]
) -> Generator[sqlite3.Connection, None, None]:
    """Open a file in one way after the other in which one can be read that may not be written.

    :param spare_folder: where a copy may lie meanwhile.
    :param warn: told in a sentence what may be missing.
    :raises sqlite3.Error: no way is left.
    """
    log = f"{path}-wal"
    # Without a writable folder SQLite cannot share a file that has a write-ahead log, unless told that nobody writes.
    shared, alone = "mode=ro", "mode=ro&immutable=1"
    if not os.path.exists(log):
        # Nobody has the file open, and sharing it would leave an empty log behind.
        shared, alone = alone, shared
    failure = None
    try:
        with _open(path, shared) as source:
            yield source
    except sqlite3.Error as error:
        failure = error
    missing = f"The newest changes may be missing from what is read of {path}"
    if failure is not None and is_locked(failure):
        warn(f"{missing}, because another program holds it.")
    elif failure is not None and _has_log(path):
        # Who is told that nobody writes does not look at the log.
        try:
            with _open_copy(path, spare_folder) as source:
                yield source
        except (sqlite3.Error, OSError) as error:
            warn(f"{missing}, because its log cannot be read ({error}).")
    with _open(path, alone) as source:
        yield source


@contextmanager
def _open_copy(path: str, spare_folder: str) -> Iterator[sqlite3.Connection]:
    """:raises OSError: it cannot be copied."""
    folder = spare_folder if os.access(spare_folder, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=folder) as place:
        copy = os.path.join(place, "copy.db")
        for suffix in ("", "-wal"):
            # Reading a file gives up the locks of this process on it. Whoever has one could have been shared with.
            shutil.copyfile(path + suffix, copy + suffix)
        with _open(copy, "mode=rw") as source:
            yield source


@contextmanager
def _open(path: str, mode: str) -> Iterator[sqlite3.Connection]:
    """:raises sqlite3.OperationalError: it cannot be opened, or another program holds its lock."""
    with closing(sqlite3.connect(f"file:{quote(path)}?{mode}", timeout=_PATIENCE, uri=True)) as source:
        try:
            # Connecting does not look at the file.
            source.execute("PRAGMA schema_version").fetchone()
        except sqlite3.DatabaseError as error:
            # What is damaged, whoever reads it meets.
            if isinstance(error, sqlite3.OperationalError):
                raise
        yield prepare(source)


def rescue(path: str, target: sqlite3.Connection, spare_folder: str, warn: Callable[[str], None]) -> int:
    """Copy every record that can be read, and return their number.

    :raises sqlite3.Error: there is no room for them.
    """
    count = 0
    # Has no effect within a transaction
    target.execute("PRAGMA foreign_keys = OFF")
    # If each record were written by itself, each would wait for the disk.
    target.execute("BEGIN")
    with closing(open_readers(path, spare_folder, warn)) as readers:
        for source in readers:
            for table in TABLES:
                count += _copy_table(source, table, target)
            if count:
                break
    for table, column, parent in PARENTS:
        target.execute(f"DELETE FROM {table} WHERE {column} NOT IN (SELECT number FROM {parent})")
    target.execute("REPLACE INTO fact (name, value) VALUES (?, '{}')", (RESCUED,))
    target.execute("COMMIT")
    target.execute("PRAGMA foreign_keys = ON")
    return count


def _copy_table(source: sqlite3.Connection, table: str, target: sqlite3.Connection) -> int:
    copied = set()
    count = 0
    for row in _readable_rows(source, table):
        if tuple(row) not in copied:
            copied.add(tuple(row))
            try:
                count += _copy_row(row, table, target)
            except sqlite3.Error as error:
                # It is not for this row alone, and may have taken back all rows before it.
                if is_unwritable(error) or not target.in_transaction:
                    raise
    return count


def _readable_rows(source: sqlite3.Connection, table: str) -> Iterator[sqlite3.Row]:
    """Yield each row that can be read, most of them more than once.

    Where one direction meets what is unreadable, the other may reach what is behind. A cursor is at the next row
    before it hands out the one it has read, so a damaged row costs its neighbours: read by its key, each row stands
    alone. But a damaged key hides others from whoever looks for them by theirs.
    """
    for is_forward in (True, False):
        order = "ASC" if is_forward else "DESC"
        # The name of a column may be what is damaged.
        with suppress(sqlite3.Error, UnicodeDecodeError):
            yield from source.execute(f"SELECT * FROM {table} ORDER BY rowid {order}")
        for key in _keys(source, table, is_forward):
            with suppress(sqlite3.Error, UnicodeDecodeError):
                yield from source.execute(f"SELECT * FROM {table} WHERE rowid = ?", (key,))


def _keys(source: sqlite3.Connection, table: str, is_forward: bool) -> Iterator[int]:
    # Without the index, because it may be damaged too
    ask = f"SELECT rowid FROM {table} NOT INDEXED WHERE rowid"
    ask += " > ? ORDER BY rowid ASC LIMIT 1" if is_forward else " < ? ORDER BY rowid DESC LIMIT 1"
    last = -(2**63) if is_forward else 2**63 - 1
    with suppress(sqlite3.Error, UnicodeDecodeError):
        row = source.execute(ask, (last,)).fetchone()
        # Among damaged pages the next key may be one from before, and the walk would never end.
        while row is not None and (row[0] > last if is_forward else row[0] < last):
            last = row[0]
            yield last
            row = source.execute(ask, (last,)).fetchone()


def _copy_row(row: sqlite3.Row, table: str, target: sqlite3.Connection) -> int:
    known = {column["name"] for column in target.execute(f"PRAGMA table_info({table})")}
    values = {key: row[key] for key in row.keys() if key in known}  # noqa: SIM118 - a Row has no items
    places = ", ".join("?" * len(values))
    copied = target.execute(
        f"INSERT OR IGNORE INTO {table} ({', '.join(values)}) VALUES ({places})", tuple(values.values())
    )
    return copied.rowcount
