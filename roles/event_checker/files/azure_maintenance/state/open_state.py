# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Open the store where the state is now, and tell whether it is still there."""

from __future__ import annotations

import sqlite3

from ..system import Folders, lock, running_responses, warn
from .database import locate, open_database, return_home
from .store import Store


def open_store(
    folders: Folders,
    unwritable: bool = False,
    damaged: bool = False,
    may_return: bool = False,
    busy_timeout: float = 30.0,
) -> Store:
    """Open the store, while nobody moves it from one place to the other.

    :param unwritable: go on in memory; the disk was found to be unwritable.
    :param damaged: put the file aside.
    :param may_return: move back to the disk where that is possible again.
    :param busy_timeout: seconds to wait for the lock of another program.
    :raises sqlite3.OperationalError: another program opens it, and does not end.
    """
    with lock(folders.run, "state", patience=busy_timeout) as free:
        if not free:
            raise sqlite3.OperationalError("database is locked: another program opens it and does not end")
        if may_return and not running_responses(folders):
            return_home(folders.state, folders.run, warn)
        # The next program that opens it must not wait behind this one for the lock of another.
        connection = open_database(folders.state, folders.run, warn, unwritable, damaged, min(busy_timeout, 1.0))
        store = Store(connection, locate(folders.state, folders.run))
    store.wait_for_lock(busy_timeout)
    return store


def has_moved(store: Store, folders: Folders) -> bool:
    """Tell whether another file than that of this store holds the state now: it was moved, or put aside.

    :raises OSError: this user may not look there.
    """
    return locate(folders.state, folders.run) != store.place
