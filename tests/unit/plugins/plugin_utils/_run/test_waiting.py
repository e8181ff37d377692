# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a fleet that waits asks: seldom where it has waited long, and in turns where Ansible has too few forks."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.hosts import (
    longest_files,
    pause_between,
    turn_length,
)


@pytest.mark.parametrize(("waited", "pause"), [(0, 5), (50, 5), (100, 10), (3600, 30)])
def test_the_pause_is_a_tenth_of_the_time_waited_within_bounds(waited, pause):
    assert pause_between(waited) == pause


@pytest.mark.parametrize(
    ("hosts", "forks", "waited", "length"),
    [
        pytest.param(5, 5, 0, None, id="a fork for each"),
        pytest.param(6, 5, 0, 30, id="two turns in a minute"),
        pytest.param(40, 5, 0, 7.5, id="eight turns in a minute"),
        pytest.param(40, 5, 3000, 37.5, id="eight turns in a tenth of the time waited"),
    ],
)
def test_how_long_a_host_may_wait_before_it_is_the_turn_of_another(hosts, forks, waited, length):
    assert turn_length(hosts, forks, waited) == length


@pytest.mark.parametrize(
    ("files", "forks", "longest"),
    [
        pytest.param([("a", 40), ("a", 30)], 5, 40, id="side by side"),
        pytest.param([("a", 40), ("a", 40), ("a", 30)], 2, 80, id="too few forks"),
        pytest.param([("a", 40), ("b", 30)], 5, 70, id="different files"),
        pytest.param([("", 40), ("a", 30)], 5, 30, id="nothing to do for one"),
        pytest.param([("", 40)], 5, 0, id="nothing to do"),
    ],
)
def test_p3_how_long_the_files_of_all_hosts_may_take_together(files, forks, longest):
    assert longest_files(files, forks) == longest
