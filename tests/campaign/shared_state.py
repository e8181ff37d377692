# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""One state in memory for many histories, one after the other.

To make a file, to open it and to lock it takes more time than most of what a history does. Only one process of a VM
runs at a time, and none of them waits within a transaction, so all of them can use one connection.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from typing import Any

from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.database import (
    open_database,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.schema import (
    prepare,
)
from ansible_collections.fleetops.azure_maintenance.tests.campaign.disk import Rows

_TABLES = ("response", "event", "fact", "put_aside", "history", "sqlite_sequence")
_empty_state: list[bytes] = []


def leave_empty_state(folder: str) -> None:
    """The program has run before, and nothing happened."""
    path = os.path.join(folder, "state.db")
    if not _empty_state:
        open_database(folder, os.path.join(folder, "run"), lambda _line: None).close()
        with open(path, "rb") as made:
            _empty_state.append(made.read())
    with open(path, "wb") as file:
        file.write(_empty_state[0])


class SharedState:
    """:param folder: where the file is to be, alone.

    :ivar connection: the state, None once this history goes on with the file.
    :ivar users: the connections of the product that use it.
    :ivar files: how many histories have gone on with the file.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.path = os.path.join(folder, "state.db")
        self.connection: sqlite3.Connection | None = None
        self.users: list[Any] = []
        self.files = 0
        self._memory: sqlite3.Connection | None = None
        # What was read since the last change, because most is read again and again; and the count of changes by then
        self._read: dict[tuple[str, Any], Rows] = {}
        self._changes = 0

    def begin(self) -> None:
        """Empty the state for the next history. The file lies there all the time, because its place is asked for."""
        if self.connection is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.makedirs(self.folder)
            leave_empty_state(self.folder)
        if self._memory is None:
            self._memory = prepare(sqlite3.connect(":memory:", isolation_level=None, cached_statements=1000))
            source = sqlite3.connect(self.path)
            source.backup(self._memory)
            source.close()
            self._memory.execute("PRAGMA foreign_keys = ON")
        self.connection = self._memory
        self.forget()
        self.connection.execute("BEGIN")
        for table in _TABLES:
            self.connection.execute(f"DELETE FROM {table}")
        self.connection.execute("COMMIT")

    def read(self, sql: str, parameters: Any) -> Rows:
        """Return the answer to a query, from before where nothing has changed since."""
        assert self.connection is not None
        changes = self.connection.total_changes
        if changes != self._changes:
            self.forget()
            self._changes = changes
        found = self._read.get((sql, parameters))
        if found is None:
            found = self._read[sql, parameters] = Rows(self.connection.execute(sql, parameters))
        return found

    def forget(self) -> None:
        """Read anew what is asked for next: a change was taken back, which SQLite does not count."""
        self._read.clear()

    def become_file(self) -> None:
        """Go on with the file until the history ends, because it is about to be moved or copied."""
        if self.connection is None:
            return
        target = self._open()
        self.connection.backup(target)
        target.close()
        self.connection = None
        self.files += 1
        for user in self.users:
            user.use(self._open())
        self.users.clear()

    def _open(self) -> sqlite3.Connection:
        connection = prepare(sqlite3.connect(self.path, timeout=0, isolation_level=None))
        for setting in ("journal_mode = WAL", "synchronous = OFF", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")
        return connection

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
