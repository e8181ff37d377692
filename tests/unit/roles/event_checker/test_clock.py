# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""E3: events are kept for 30 days, their history for 400, and a clock that is wrong for a while changes nothing.

When a response is due by a clock that somebody sets is in test_tracker.
"""

from __future__ import annotations

from contextlib import closing

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    parse_config,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.poll import check
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.report import (
    history_report,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import conftest as builders
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import machine

tmp_path = machine.tmp_path

DAY = 86400
FAR = 450 * DAY


class Vm:
    """A VM that only notes what it sees."""

    def __init__(self, azure, folders, clock):
        self.azure, self.folders, self.clock = azure, folders, clock
        self.config = parse_config({"endpoint": azure.endpoint("web-1"), "timeout": 600})

    def check(self):
        opened = builders.open_state(self.folders)
        assert check.Checker(self.config, self.folders, self.clock, lambda **_why: opened, pytest.fail).run(once=True)

    def live(self):
        """Have an event, which is over at the end."""
        event_id = self.azure.announce("Reboot", "web-1")
        self.check()
        self.azure.control("DELETE", f"/simulator/events/{event_id}")
        self.clock.advance(60)
        self.check()

    @property
    def kept(self):
        """How many events are remembered, and how many rows of history."""
        with closing(builders.open_state(self.folders)) as state:
            return len(state.all_events()), len(history_report(state, self.clock.now(), [])["history"])


@pytest.fixture
def vm(simulator, folders, clock):
    return Vm(simulator("--clock", "manual", "--vms", "web-1"), folders, clock)


@pytest.fixture
def lived(vm):
    """A VM that has had an event."""
    vm.live()
    assert vm.kept == (1, 1)
    return vm


@pytest.mark.parametrize("checks", [1, 24])
@pytest.mark.parametrize("by", [FAR, -FAR])
def test_a_clock_that_is_wrong_for_some_checks(lived, by, checks):
    lived.clock.set_by(by)
    for _hour in range(checks):
        lived.check()
        lived.clock.advance(3600)
    lived.clock.set_by(-by)
    lived.check()
    assert lived.kept == (1, 1)


def test_a_clock_that_is_wrong_after_a_boot(lived):
    lived.clock.reboot(FAR)
    lived.check()
    assert lived.kept == (1, 1)


def test_a_clock_that_is_wrong_when_nothing_is_known_of_it(lived):
    with closing(builders.open_state(lived.folders)) as state, state.transaction():
        state.connection.execute("DELETE FROM fact")
    lived.clock.set_by(FAR)
    lived.check()
    assert lived.kept == (1, 1)


def test_a_clock_that_was_wrong_from_the_first_check_on(vm):
    vm.clock.set_by(FAR)
    vm.check()
    vm.clock.set_by(-FAR)
    vm.live()
    assert vm.kept == (1, 1)


@pytest.mark.parametrize("checks", [1, 10])
def test_time_that_has_gone_by(lived, checks):
    def wait(days):
        for _number in range(checks):
            lived.clock.advance(days * DAY / checks)
            lived.check()
        return lived.kept

    assert [wait(29), wait(2), wait(368), wait(2)] == [(1, 1), (0, 1), (0, 1), (0, 0)]


def test_a_vm_that_is_off_for_most_of_the_time(lived):
    """Time for which it is off is counted when it is on again."""
    for _number in range(80):
        lived.clock.reboot(DAY / 2)
        lived.clock.advance(DAY / 2)
        lived.check()
    assert lived.kept == (0, 1)
