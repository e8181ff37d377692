# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock of a VM as its processes see it: it stands still, until a check that sleeps is let go on."""

from __future__ import annotations

import mmap
import time

from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.records import (
    Moment,
)

# The cells: Unix time, seconds since the boot, how many sleeps were begun, how many of them may end
_AT, _UPTIME, _BEGUN, _ENDED = range(4)
_SIZE = 4 * 8


class SharedClock:
    """In the place of the program's Clock.

    :param path: the file that all processes of a VM share; it is made where it is missing.
    """

    def __init__(self, path, boot_id=""):
        self._boot_id = boot_id
        with open(path, "a+b") as file:
            file.truncate(_SIZE)
            self._cells = memoryview(mmap.mmap(file.fileno(), _SIZE)).cast("d")

    def now(self):
        return Moment(self._cells[_AT], self._cells[_UPTIME], self._boot_id)

    def sleep(self, seconds):
        """Say that this process sleeps, and let the time pass as soon as the test lets it."""
        assert seconds >= 0
        self._cells[_BEGUN] += 1
        mine = self._cells[_BEGUN]
        while self._cells[_ENDED] < mine:
            time.sleep(0.002)
        self.advance(seconds)

    def set_to(self, at, uptime):
        self._cells[_AT], self._cells[_UPTIME] = at, uptime

    def advance(self, seconds):
        self.set_to(self._cells[_AT] + seconds, self._cells[_UPTIME] + seconds)

    def is_anyone_asleep(self):
        return self._cells[_BEGUN] > self._cells[_ENDED]

    def wake(self):
        self._cells[_ENDED] = self._cells[_BEGUN]
