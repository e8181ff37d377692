# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A limit for what has none of its own, such as a connection or a regular expression (P15)."""

from __future__ import annotations

import contextlib
import signal
from typing import Any, Iterator


class TimeIsUpError(BaseException):
    """As Ansible's own: nothing that a connection or a library does about errors may keep it back."""


@contextlib.contextmanager
def limit(seconds: float) -> Iterator[None]:
    """End what goes on inside after some seconds. It works in the main thread of a process only.

    :raises TimeIsUpError: the time is up. Python looks for signals within a regular expression, too.
    """

    def end(_signal: int, _frame: Any) -> None:
        raise TimeIsUpError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
