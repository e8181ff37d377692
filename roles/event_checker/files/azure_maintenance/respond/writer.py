# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write to the state for one response, wherever the check moves it meanwhile."""

from __future__ import annotations

import sqlite3
from typing import Callable, TypeVar

from ..state.open_state import has_moved
from ..state.records import ResponseRecord
from ..state.schema import is_unwritable
from ..state.store import Store
from ..system import ERROR, Folders, say

Result = TypeVar("Result")


class Writer:
    """The store as a response uses it.

    :param open_store: opens the store anew; told that the disk cannot be written, its stand-in in memory.
    :ivar response: the response that is run, once it is known.
    """

    def __init__(self, open_store: Callable[..., Store], folders: Folders) -> None:
        self._open_store = open_store
        self._folders = folders
        self.store = open_store()
        self.response: ResponseRecord | None = None

    def close(self) -> None:
        self.store.close()

    def write(self, change: Callable[[Store], Result]) -> Result:
        """Do something in a transaction, even if the disk has become unwritable or the check has moved the store."""
        self.follow()
        try:
            return self._write_once(change)
        except sqlite3.DatabaseError as error:
            say(f"The state failed: {error}.", ERROR)
            self._reopen(is_unwritable(error))
            return self._write_once(change)

    def _write_once(self, change: Callable[[Store], Result]) -> Result:
        with self.store.transaction():
            # A program that puts a file aside, or moves it, may have held the lock for which this transaction waited.
            if not has_moved(self.store, self._folders):
                return change(self.store)
        self._reopen()
        with self.store.transaction():
            return change(self.store)

    def follow(self) -> None:
        """Open the store anew if the check has moved it while a step ran."""
        if has_moved(self.store, self._folders):
            self._reopen()

    def _reopen(self, unwritable: bool = False) -> None:
        store = self._open_store(unwritable=unwritable)
        before = self.response
        found = before and store.response(before.number)
        # The file that took the place of a lost one does not know the response, which goes on by the lost one.
        if before and found and (found.phase, found.created_at) == (before.phase, before.created_at):
            store, self.store = self.store, store
        store.close()
