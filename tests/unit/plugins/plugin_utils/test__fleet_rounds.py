# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In which rounds a fleet waits: short ones first, then a tenth of the time waited, and never past the deadline."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._fleet_rounds import next_round_end


@pytest.mark.parametrize(
    ("now", "last_round_end", "deadline", "ends"),
    [
        pytest.param(1000, 0, 5000, 1010, id="the first"),
        pytest.param(1010, 1010, 5000, 1020, id="the second"),
        pytest.param(1100, 1100, 5000, 1110, id="a tenth of the time waited is as long"),
        pytest.param(1600, 1600, 5000, 1660, id="a tenth of the time waited is longer"),
        pytest.param(1605, 1600, 5000, 1665.5, id="the last took longer than it should"),
        pytest.param(1005, 1010, 5000, 1020, id="the last was cut short, and still this one ends later"),
        pytest.param(1600, 1600, 1630, 1630, id="the deadline is near"),
        pytest.param(2000, 1630, 1630, 1630, id="the deadline is past"),
    ],
)
def test_when_a_round_ends(now, last_round_end, deadline, ends):
    assert next_round_end(now, 1000, last_round_end, deadline) == ends


@pytest.mark.parametrize("cut_short", [True, False])
def test_an_hour_has_few_rounds(cut_short):
    now, end, rounds = 0.0, 0.0, 0
    while end < 3600:
        end = next_round_end(now, 0.0, end, 3600.0)
        now = now if cut_short else end
        rounds += 1
    assert rounds == (360 if cut_short else 48)
