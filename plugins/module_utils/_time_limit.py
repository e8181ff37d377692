# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A time limit for operations that have none, such as a connection or a regular expression (P15)."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import Any, Iterator


class TimeIsUpError(BaseException):
    """A BaseException, as Ansible's own: a connection or a library that catches Exception must not catch it."""


@contextlib.contextmanager
def limit(seconds: float) -> Iterator[None]:
    """End the block after some seconds. It works in the main thread of a process only.

    A limit that is there already, such as the keyword timeout of a task, goes on.

    :raises TimeIsUpError: the time is up. Python looks for signals within a regular expression, too.
    """
    outer = signal.getitimer(signal.ITIMER_REAL)[0]
    if 0 < outer <= seconds:
        # It ends this sooner.
        yield
        return

    def end(_signal: int, _frame: Any) -> None:
        raise TimeIsUpError

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            # Not 0, which would be no limit
            signal.setitimer(signal.ITIMER_REAL, max(outer - (time.monotonic() - began), 0.001))
