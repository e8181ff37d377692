# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of the state, and the errors of SQLite that only their text tells apart."""

from __future__ import annotations

import sqlite3
from functools import partial

# Raise it with every change of the tables or of the meaning of a row.
VERSION = 2
# The data of a row is in its content; the other columns are for finding it.
_TABLES = """
CREATE TABLE event (
    number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, ended_at REAL, end_order INTEGER, content TEXT NOT NULL
);
CREATE UNIQUE INDEX open_event ON event (key) WHERE ended_at IS NULL;
CREATE TABLE response (
    number INTEGER PRIMARY KEY AUTOINCREMENT, event INTEGER NOT NULL REFERENCES event ON DELETE CASCADE,
    phase TEXT NOT NULL, state TEXT NOT NULL, content TEXT NOT NULL, UNIQUE (event, phase)
);
CREATE TABLE fact (name TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE history (
    key TEXT NOT NULL, seen_at REAL NOT NULL, ended_at REAL, content TEXT NOT NULL, PRIMARY KEY (key, seen_at)
);
CREATE TABLE put_aside (name TEXT NOT NULL, content TEXT NOT NULL, at REAL NOT NULL)
"""
# SQLite's texts for a file that cannot be written: Python has the error code from 3.11 on only.
_UNWRITABLE = ("disk is full", "readonly", "read-only", "unable to open", "disk i/o error")


def is_unwritable(error: sqlite3.Error) -> bool:
    return any(words in str(error).lower() for words in _UNWRITABLE)


def is_locked(error: sqlite3.Error) -> bool:
    """Tell whether another program holds the lock; the file and the disk are sound."""
    return isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "busy" in str(error))


def prepare(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.row_factory = sqlite3.Row
    # One byte that is not UTF-8 must not cost the whole table.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def make_tables(connection: sqlite3.Connection, first_number: int = 1) -> None:
    """Make the tables in an empty file.

    :param first_number: that the first response gets.
    """
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('response', ?)", (first_number - 1,))
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def check(connection: sqlite3.Connection) -> None:
    """:raises sqlite3.DatabaseError: the file is damaged, or of another version of this program."""
    # PRAGMA quick_check does not look at the indexes, by which most is read.
    verdict = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict.splitlines()[-1])
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise sqlite3.DatabaseError(f"it has version {version}, and this program reads version {VERSION}")
