# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In which rounds a fleet waits for the end of its events; pure. Times are seconds since 1970."""

from __future__ import annotations

SHORTEST_ROUND = 10.0


def next_round_end(now: float, waits_since: float, last_round_end: float, deadline: float) -> float:
    """Return when the next round ends.

    Hosts wait for each other: one whose events have ended is restored when the round is over, so after at most a tenth
    more of the time that it waited. Each round ends later than the one before, also if that was cut short: one includes
    the next, and that must not go on for ever.

    :param waits_since: when the first round began.
    :param last_round_end: when the last round was to end, 0 before the first.
    :param deadline: when the waiting ends.
    """
    length = max(SHORTEST_ROUND, (now - waits_since) / 10)
    return min(deadline, max(last_round_end, now) + length)
