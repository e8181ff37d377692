# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A group of processes that stands for a VM: it can be frozen, go on, and vanish as in a power cut."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def can_be_made():
    """Return whether this machine lets a control group be made."""
    try:
        with group():
            return True
    except OSError:
        return False


class Group:
    """A control group, of the old kind or the new one."""

    def __init__(self, path):
        self._path = path
        self._is_old = (path / "freezer.state").exists()

    def enter(self):
        """Put this process, and all that it starts, into the group; for preexec_fn."""
        (self._path / "cgroup.procs").write_text(str(os.getpid()))

    def take(self, *numbers):
        """Put processes that run, and those that they have started, into the group."""
        for number in numbers:
            (self._path / "cgroup.procs").write_text(str(number))
            children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
            self.take(*map(int, children))

    def freeze(self):
        self._set(True)

    def thaw(self):
        self._set(False)

    def kill(self):
        """End all at the same moment, so that none sees another end."""
        self.freeze()
        for number in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.thaw()
        end = time.monotonic() + 60
        while self._processes:
            assert time.monotonic() < end, "processes that were killed go on"
            time.sleep(0.01)

    @property
    def _processes(self):
        return [int(line) for line in (self._path / "cgroup.procs").read_text().split()]

    def _set(self, frozen):
        file, words = ("freezer.state", ("THAWED", "FROZEN")) if self._is_old else ("cgroup.freeze", ("0", "1"))
        told, key = ("freezer.state", "FROZEN") if self._is_old else ("cgroup.events", "frozen 1")
        (self._path / file).write_text(words[frozen])
        end = time.monotonic() + 60
        while (key in (self._path / told).read_text()) != frozen:
            assert time.monotonic() < end, "the group is not frozen"
            time.sleep(0.01)

    def remove(self):
        self.kill()
        self._path.rmdir()


@contextlib.contextmanager
def group():
    """Make a group, and leave no process of it behind."""
    parent = _ROOT / "freezer" if (_ROOT / "freezer").exists() else _ROOT
    made = Group(Path(tempfile.mkdtemp(prefix="azure-maintenance-", dir=parent)))
    try:
        yield made
    finally:
        made.remove()
