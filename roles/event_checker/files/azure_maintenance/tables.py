# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of the state: make them, and bring those of another version up to date."""

from __future__ import annotations

import sqlite3

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


class UnknownTablesError(Exception):
    """The file was written by another version of this program, with tables that this one cannot use."""


# Added to the tables of version 1, which go on to be readable by version 1.0 of this program
_ADDED_COLUMNS = (
    ("event", "listed_boot", "TEXT"),
    ("event", "end_order", "INTEGER"),
    ("event", "on_waiting", "TEXT"),
)
_ADDED_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS step_success (
        response INTEGER NOT NULL REFERENCES response ON DELETE CASCADE, position INTEGER NOT NULL,
        boot_id TEXT NOT NULL, PRIMARY KEY (response, position)
    )
    """,
    "CREATE TABLE IF NOT EXISTS put_aside (name TEXT NOT NULL, content TEXT NOT NULL, at REAL NOT NULL)",
    """
    CREATE TABLE IF NOT EXISTS history (
        key TEXT NOT NULL, seen_at REAL NOT NULL, ended_at REAL, content TEXT NOT NULL, PRIMARY KEY (key, seen_at)
    )
    """,
)


TABLES = ("event", "response", "step", "fact", "step_success", "put_aside", "history")
# The name of a fact: records may be missing, because only what could be read of a damaged file was kept.
RESCUED = "rescued"
PARENTS = (("response", "event", "event"), ("step", "response", "response"), ("step_success", "response", "response"))

# What this program reads; a later version may have added to it.
_NEEDED = (
    "number, key, content, rule, phase, outcome, boot_id, seen_at, seen_uptime, announced_at, started_at, ended_at,"
    " approval, approved_at, waiting_for, note, listed_boot, end_order, on_waiting FROM event",
    "number, event, phase, state, boot_id, created_at, finished_at, message FROM response",
    "response, position, content, state, failures, interruptions, started_at, finished_at, message FROM step",
    "name, value FROM fact",
    "key, seen_at, ended_at, content FROM history",
    "response, position, boot_id FROM step_success",
    "name, content, at FROM put_aside",
)
# One statement, because it is asked at each opening
_ASK_NEEDED = f"SELECT {', '.join(f'EXISTS (SELECT {columns})' for columns in _NEEDED)} LIMIT 0"


# What SQLite says, in words because Python tells the code from 3.11 on only, when a file cannot be written.
_UNWRITABLE = ("disk is full", "readonly", "read-only", "unable to open", "disk i/o error")


def is_unwritable(error: sqlite3.Error) -> bool:
    return any(words in str(error).lower() for words in _UNWRITABLE)


def is_locked(error: sqlite3.Error) -> bool:
    """Tell whether another program holds the lock; the file and the disk are sound."""
    return isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "busy" in str(error))


def prepare(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.row_factory = sqlite3.Row
    # One byte that is not UTF-8 must not cost the whole table.
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    return connection


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables up to this version, and find out whether the file can be written.

    :raises UnknownTablesError: a later version has made tables that this one cannot use.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        # Another program holds the lock for now. What is there can be read; what is written later, waits then.
        if is_locked(error) and _complaint(connection) is None:
            return
        raise
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < len(_MIGRATIONS) or _complaint(connection) is not None:
            _add_missing(connection, version)
            problem = _complaint(connection)
            if problem is not None:
                raise UnknownTablesError(f"it has version {version}: {problem}") from problem
        # Writes even when nothing has changed, or a full disk would show only in the middle of an event.
        connection.execute(f"PRAGMA user_version = {max(version, len(_MIGRATIONS))}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _complaint(connection: sqlite3.Connection) -> sqlite3.OperationalError | None:
    """Return why this program cannot use the tables as they are, None where it can."""
    try:
        connection.execute(_ASK_NEEDED)
    except sqlite3.OperationalError as error:
        return error
    return None


def _add_missing(connection: sqlite3.Connection, version: int) -> None:
    for script in _MIGRATIONS[version:]:
        for statement in script.split(";"):
            connection.execute(statement)
    for statement in _ADDED_TABLES:
        connection.execute(statement)
    for table, column, kind in _missing(connection):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")


def _missing(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return the added columns that are not there."""
    known = {
        (table, row["name"])
        for table in {table for table, _column, _kind in _ADDED_COLUMNS}
        for row in connection.execute(f"PRAGMA table_info({table})")
    }
    return [each for each in _ADDED_COLUMNS if each[:2] not in known]
