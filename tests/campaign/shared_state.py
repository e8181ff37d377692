# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""One file of state for many histories, one after the other, and connections to it that stay open.

To make a file, to open it and to prepare every statement anew takes more time than all else in a history.
"""

from __future__ import annotations

import os
import shutil
import sqlite3

from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.database import (
    open_database,
)

_TABLES = ("step_success", "step", "response", "event", "fact", "put_aside", "history", "sqlite_sequence")
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

    :ivar serial: another one for each file that has stood there.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.path = os.path.join(folder, "state.db")
        self.serial = 0
        self._is_made = False
        self._idle: list[sqlite3.Connection] = []

    def begin(self) -> None:
        """Empty the tables for the next history, or make the file where it has been moved or is new."""
        if self._is_made and self._idle:
            connection = self._idle[-1]
            connection.execute("BEGIN")
            for table in _TABLES:
                connection.execute(f"DELETE FROM {table}")
            connection.execute("COMMIT")
            return
        self.leave()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        leave_empty_state(self.folder)
        self._is_made = True

    def take(self) -> sqlite3.Connection | None:
        """Return a connection that a process of this or an earlier history has closed."""
        return self._idle.pop() if self._idle else None

    def give_back(self, connection: sqlite3.Connection, serial: int) -> None:
        """Take over a connection to the file of this serial number, in the place of closing it."""
        if serial == self.serial:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def leave(self) -> None:
        """Whoever opens the file from now on may find another one."""
        self.serial += 1
        self._is_made = False
        self.close()
