# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is old enough to be removed, by a time that a wrong wall clock moves only slowly."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import history
from .codec import is_time
from .records import Moment
from .store import Store

# An event with the responses to it. What became of it is kept as history for longer.
RETENTION = 30 * 86400.0
_FACT = "clock"
# The confirmed time makes up for the time in which the VM was off. A clock that is wrong for a day costs two days.
_FASTEST = 2.0


class ConfirmedTime(NamedTuple):
    """A time that the wall clock has shown, and that is not later than time can have gone by.

    :ivar at: seconds since 1970.
    :ivar uptime: when it was confirmed, in seconds since this boot began.
    :ivar kernel: the boot of the kernel; a container that is started anew has the uptime of its host.
    """

    at: float
    uptime: float
    kernel: str

    def confirm(self, now: Moment) -> ConfirmedTime:
        """Follow the wall clock: back at once, because what is kept too long does no harm; forward at most twice as
        fast as the VM runs."""
        kernel = _kernel(now)
        elapsed = now.uptime - (self.uptime if kernel == self.kernel else 0.0)
        return ConfirmedTime(min(now.at, self.at + _FASTEST * elapsed), now.uptime, kernel)

    @classmethod
    def read(cls, store: Store, now: Moment) -> ConfirmedTime:
        """Return the time of an earlier check, or that of the newest event where none is known."""
        fact = store.fact(_FACT)
        words: list[Any] = [fact.get(name) for name in cls._fields]
        at, uptime, kernel = words
        if is_time(at) and is_time(uptime) and isinstance(kernel, str):
            return cls(at, uptime, kernel)
        newest: Any = history.newest(store.connection)
        return cls(now.at if newest is None else newest, now.uptime, _kernel(now))

    def write(self, store: Store) -> None:
        store.set_fact(_FACT, self._asdict())


def _kernel(now: Moment) -> str:
    return now.boot_id.partition("/")[0]


def remove_old(store: Store, time: ConfirmedTime, history_days: int) -> None:
    history.keep_missing(store.connection)
    store.forget_ended_before(time.at - RETENTION)
    history.forget(store.connection, time.at - history_days * 86400.0)
