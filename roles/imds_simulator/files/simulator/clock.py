# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two clocks: the real one, and one that stands still until it is told to move. Moments are Unix times."""

from __future__ import annotations

import time
from datetime import datetime, timezone

# The last second of the year 9999: nothing later can be written.
_LAST = 253402300799


def utc(moment):
    return datetime.fromtimestamp(min(moment, _LAST), timezone.utc)


def iso(moment):
    """A moment as the control API shows it: ISO 8601, UTC, milliseconds."""
    return None if moment is None else utc(moment).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class RealClock:
    mode = "real"

    def __init__(self, speed=1.0):
        self.speed = speed
        self.started = time.time()
        self._anchor = time.monotonic()

    def now(self):
        # Follows the monotonic clock, so that a corrected system time cannot change the order of events.
        return self.started + time.monotonic() - self._anchor

    def wait_budget(self, moment):
        """How long to sleep until a moment, in real seconds."""
        return max(0.0, moment - self.now())

    def scaled(self, seconds):
        return seconds / self.speed


class ManualClock:
    mode = "manual"
    speed = 1.0

    def __init__(self):
        # A whole second: NotBefore has no fraction, so events start exactly at the published time.
        self.started = float(int(time.time()))
        self._now = self.started

    def now(self):
        return self._now

    def move_to(self, moment):
        self._now = moment

    def wait_budget(self, moment):  # pylint: disable=unused-argument
        """None: no sleep is long enough, only a control request brings the moment nearer."""
        return None

    def scaled(self, seconds):
        return seconds
