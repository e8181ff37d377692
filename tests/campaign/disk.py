# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""The disk under the state: full, read-only, locked by another program, and rows in which a bit has flipped.

The files are real ones in memory. Only what the disk answers is played: by a class of connections that asks the world
before it lets a statement through, and by a stand-in for the module os.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sqlite3
from typing import Any, Iterator

_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "ALTER", "PRAGMA user_version =", "PRAGMA journal_mode")
_ERRORS = {
    "full": ("database or disk is full", errno.ENOSPC),
    "read-only": ("attempt to write a readonly database", errno.EROFS),
}


class Rows(list[Any]):
    """Stands in for a cursor that has read all its rows."""

    def fetchone(self) -> Any:
        return self[0] if self else None

    def fetchall(self) -> list[Any]:
        return self


# What a connection that has been used before need not be asked again, and the answer
_SETTLED = {
    "PRAGMA journal_mode = WAL": Rows([("wal",)]),
    "PRAGMA foreign_keys = ON": Rows(),
    "PRAGMA integrity_check(1)": Rows([("ok",)]),
}

_KINDS = {
    "BEGIN": "begin",
    "COMMIT": "commit",
    "ROLLBACK": "rollback",
    "PRAGMA busy_timeout =": "patience",
    "PRAGMA synchronous = FULL": "sync",
    **dict.fromkeys((*_WRITES, *_SETTLED), "other"),
}

# The VM of the history that runs now (vm.Machine)
world: Any = None


@functools.lru_cache(maxsize=None)
def _kind(sql: str) -> str:
    return next((kind for words, kind in _KINDS.items() if sql.lstrip().startswith(words)), "read")


class Connection:
    """A connection of the product. Behind it is a real one, alone or with others: see SharedState."""

    def __init__(self, path: str, timeout: float = 5.0, **options: Any) -> None:
        name = path.partition("?")[0].replace("file:", "")
        self.on_disk = name.startswith(world.state_folder)
        self._lockable = self.on_disk and not name.endswith(".new")
        self._patience = timeout
        if self.on_disk and world.disk == "gone" and "immutable" not in path:
            raise sqlite3.OperationalError("unable to open database file")
        shared = world.shared_state if world.shared_state and world.shared_state.path == name else None
        self._shared = shared if shared and shared.connection else None
        self._settled = self._shared is not None
        if self._shared:
            self._shared.users.append(self)
        # Whoever holds a lock waits in virtual time; see _begin().
        self.__dict__["_real"] = self._shared.connection if self._shared else sqlite3.connect(path, 0, **options)
        self._begun = False
        world.opened(self)

    def use(self, real: sqlite3.Connection) -> None:
        """Go on with another real connection, which is of this one alone."""
        assert not self._begun
        self._real, self._shared = real, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("row_factory", "text_factory") and not self._shared:
            setattr(self._real, name, value)
        self.__dict__[name] = value

    @property
    def in_transaction(self) -> bool:
        return self._begun if self._shared else self._real.in_transaction

    def close(self) -> None:
        if not world.is_killed():
            self.end()

    def end(self) -> None:
        """The process has ended; if it was killed, it may have been in the middle of something."""
        if not isinstance(self._real, _Closed):
            if self.in_transaction:
                self.execute("ROLLBACK")
            self._release()

    def _release(self) -> None:
        real, self._real = self._real, _Closed()
        if self._shared:
            self._shared.users.remove(self)
            self._shared = None
        else:
            real.close()

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor | Rows:
        kind = _kind(sql)
        if kind == "read":
            return self._shared.read(sql, parameters) if self._shared else self._real.execute(sql, parameters)
        if kind == "begin":
            return self._begin(sql)
        if kind == "commit":
            return self._commit(sql)
        if kind == "rollback":
            self._begun = False
            if self._shared:
                self._shared.forget()
            return self._real.execute(sql)
        if kind == "patience":
            self._patience = int(sql.rpartition("=")[2]) / 1000
            return self._real.execute("SELECT 1")
        if kind == "sync":
            # The power fails between two statements, never between two blocks of the disk.
            return self._real.execute("PRAGMA synchronous = OFF")
        if self.on_disk and world.disk is not None and sql.lstrip().startswith(_WRITES) and not self._is_begun(sql):
            raise sqlite3.OperationalError(_ERRORS[world.disk][0])
        if self._settled and sql in _SETTLED:
            return _SETTLED[sql]
        return self._real.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any) -> sqlite3.Cursor:
        return self._real.executemany(sql, parameters)

    def backup(self, target: Any, **options: Any) -> None:
        world.touch()
        if isinstance(target, Connection) and target.on_disk and world.disk is not None:
            raise sqlite3.OperationalError(_ERRORS[world.disk][0])
        self._real.backup(getattr(target, "_real", target), **options)
        world.touch()

    def _is_begun(self, sql: str) -> bool:
        # A log that is there is written without room being asked for until the transaction ends.
        return world.disk == "full" and (self.in_transaction or sql.startswith("PRAGMA journal_mode"))

    def _begin(self, sql: str) -> sqlite3.Cursor:
        world.began()
        end = world.now + self._patience
        while True:
            try:
                if self.on_disk:
                    if world.disk == "read-only":
                        raise sqlite3.OperationalError(_ERRORS["read-only"][0])
                    if self._lockable and world.now < world.locked_until:
                        raise sqlite3.OperationalError("database is locked")
                cursor = self._real.execute(sql)
                self._begun = True
                return cursor
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or world.now >= end:
                    raise
            world.wait(min(1.0, end - world.now))

    def _commit(self, sql: str) -> sqlite3.Cursor:
        world.touch()
        if self.on_disk and world.disk is not None:
            raise sqlite3.OperationalError(_ERRORS[world.disk][0])
        cursor = self._real.execute(sql)
        self._begun = False
        world.committed()
        return cursor


class _Closed:
    """Stands in for a connection that was closed."""

    def __getattr__(self, _name: str) -> Any:
        raise sqlite3.ProgrammingError("Cannot operate on a closed database.")

    def close(self) -> None:
        """It is closed already."""


class Sqlite:
    """Stands in for the module sqlite3 in the product."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)

    @staticmethod
    def connect(path: str, timeout: float = 5.0, isolation_level: str | None = "", uri: bool = False) -> Connection:
        return Connection(path, timeout, isolation_level=isolation_level, uri=uri)


class Os:
    """Stands in for the module os where the product handles the files of the state."""

    # Asked for at each poll
    path, stat = os.path, staticmethod(os.stat)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def replace(self, source: str, target: str) -> None:
        self._change(target)
        os.replace(source, target)
        world.touch()

    def unlink(self, path: str) -> None:
        self._change(path)
        os.unlink(path)
        world.touch()

    def makedirs(self, path: str, mode: int = 0o777, exist_ok: bool = False) -> None:
        self._change(path, exist_ok and os.path.isdir(path))
        os.makedirs(path, mode=mode, exist_ok=exist_ok)

    @staticmethod
    def _change(path: str, is_there: bool = False) -> None:
        world.touch()
        if world.shared_state:
            world.shared_state.become_file()
        if world.disk is not None and path.startswith(world.state_folder) and not is_there:
            if world.disk == "full" and not path.endswith(".new"):
                return
            number = _ERRORS[world.disk][1]
            raise OSError(number, os.strerror(number), path)


_COLUMNS = (
    *[("event", "content")] * 4,
    *[("response", "content")] * 4,
    ("response", "phase"),
    ("response", "state"),
    ("fact", "content"),
    ("fact", "name"),
)


@contextlib.contextmanager
def open_beside(path: str) -> Iterator[sqlite3.Connection]:
    """Open the state for somebody who is no process of the VM."""
    shared = world.shared_state
    if shared and shared.connection and shared.path == path:
        yield shared.connection
        return
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def flip(path: str, pick: float, bit: float) -> tuple[str, str | None] | None:
    """Flip one bit of one value, and return its table and the id of the event whose record it is of; None where there
    was nothing to flip."""
    table, column = _COLUMNS[int(pick * len(_COLUMNS)) % len(_COLUMNS)]
    try:
        with open_beside(path) as connection:
            return _flip(connection, table, column, bit)
    except sqlite3.DatabaseError:
        return None


def _flip(connection: sqlite3.Connection, table: str, column: str, bit: float) -> tuple[str, str | None] | None:
    rows = connection.execute(f"SELECT rowid, CAST({column} AS BLOB) FROM {table}").fetchall()
    rows = [row for row in rows if row[1]]
    if not rows:
        return None
    rowid, value = rows[int(bit * 997) % len(rows)]
    at = int(bit * 8 * len(value)) % (8 * len(value))
    spoilt = bytearray(value)
    spoilt[at // 8] ^= 1 << (at % 8)
    owner = {
        "event": "SELECT key FROM event WHERE rowid = ?",
        "response": "SELECT key FROM event JOIN response ON event = event.number WHERE response.rowid = ?",
    }.get(table)
    key = owner and connection.execute(owner, (rowid,)).fetchone()
    connection.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE rowid = ?", (bytes(spoilt), rowid))
    return table, key[0] if key else None
