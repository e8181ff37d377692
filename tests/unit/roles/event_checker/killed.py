# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kills whoever does something with the state at each of its accesses, to a copy of the state for each."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3

from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.database import (
    open_database,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.store import Store


class Place:
    """A folder with a copy of a state, to be damaged and opened."""

    def __init__(self, folder, source):
        self.folder = folder
        shutil.copytree(source, folder)
        self.path = folder / "state.db"
        self.messages = []

    @property
    def folders(self):
        """Where its state lies, and where it goes when it cannot be written there."""
        return str(self.folder), str(self.folder / "run")

    def open(self):
        return Store(open_database(*self.folders, self.messages.append))


def kill_at(number, action):
    """Do something in a process of its own that dies by SIGKILL at its so manieth access; tell whether it did."""
    pid = os.fork()
    if pid == 0:
        count = [0]

        def tick():
            count[0] += 1
            if count[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)

        class Connection(sqlite3.Connection):
            def execute(self, *arguments):
                tick()
                try:
                    return super().execute(*arguments)
                finally:
                    tick()

            def close(self):
                tick()
                super().close()
                tick()

        def connect(*arguments, **options):
            tick()
            return real_connect(*arguments, factory=Connection, **options)

        def replace(*names):
            tick()
            real_replace(*names)
            tick()

        def unlink(name):
            tick()
            real_unlink(name)
            tick()

        real_connect, real_replace, real_unlink = sqlite3.connect, os.replace, os.unlink
        sqlite3.connect, os.replace, os.unlink = connect, replace, unlink
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def kill_everywhere(tmp_path, source, action, check):
    number = 0
    killed = True
    while killed:
        number += 1
        place = Place(tmp_path / str(number), source)
        killed = kill_at(number, lambda place=place: action(place))
        check(place)
        shutil.rmtree(place.folder)
    return number
