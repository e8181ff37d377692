# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a fleet that waits for the end of its events asks, and for how long each host may; pure. In seconds."""

from __future__ import annotations

SHORTEST_PAUSE = 5.0
LONGEST_PAUSE = 30.0
SHORTEST_TURN = 60.0


def pause_between(waited: float) -> float:
    """Return how long to pause before a host is asked again: a tenth of the time that it waited, within bounds."""
    return min(LONGEST_PAUSE, max(SHORTEST_PAUSE, waited / 10))


def turn_length(hosts: int, forks: int, waited: float) -> float | None:
    """Return for how long each host may wait before it is another one's turn, None for as long as it takes.

    Ansible runs a task on so many hosts at the same time as it has forks. Where more are awaited they take turns, which
    together last a minute or a tenth of the time waited, whichever is longer.
    """
    if hosts <= forks:
        return None
    waves = -(-hosts // forks)
    return max(SHORTEST_TURN, waited / 10) / waves
