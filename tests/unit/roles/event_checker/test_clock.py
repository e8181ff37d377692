# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Somebody sets the wall clock by an hour, at any time of an event: nothing twice, nothing missing, nothing late."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    parse_config,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.poll import check
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.report import (
    history_report,
    report,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.responder import (  # noqa: E501
    Responder,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.writer import (
    Writer,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import (
    lock,
    response_lock,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import conftest as builders
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import machine

tmp_path = machine.tmp_path

# The check fires every minute here. The event is announced at 60 s, may start at 960 s, and is over at 1,080 s.
TICK = 60
ANNOUNCED, STARTS, ENDS, LAST = 60, 960, 1080, 1200
LEAD_TIME = 300
STEPS = [-3600, 3600]


def rare(*values):
    return [pytest.param(value, marks=pytest.mark.matrix) for value in values]


class Vm:
    """The checker on a VM, with an Azure whose clock is right."""

    def __init__(self, folders, recorder, clock, endpoint, lead_time, approve="never"):
        self.folders, self.recorder, self.clock = folders, recorder, clock
        self.seconds = 0
        self.ran_at = []
        phases = {f"on_{phase}": [recorder.step(phase)] for phase in ("announced", "started", "ended")}
        rule = {"name": "Drain", "lead_time": lead_time, "approve": approve, "retries": 0, **phases}
        self.config = parse_config({"endpoint": endpoint, "timeout": 600, "rules": [rule]})

    def open(self, unwritable=False, may_return=False):
        assert not unwritable
        return builders.open_state(self.folders)

    def start_unit(self, number):
        before = len(self.recorder.words)
        writer = Writer(self.open, self.folders)
        responder = Responder(writer, self.config, self.folders, self.clock)
        with closing(writer), lock(self.folders.run, response_lock(number)):
            responder.run(number)
        self.ran_at += [(word, self.seconds) for word in self.recorder.words[before:]]

    def check(self):
        checker = check.Checker(self.config, self.folders, self.clock, self.open, self.start_unit)
        assert checker.run(once=True)

    def wait(self, seconds):
        self.clock.advance(seconds)
        self.seconds += seconds


def raw_event(begun):
    """The event as Azure sends it, by a clock that is right: where a test begins it shows this time."""
    starts = begun + timedelta(seconds=STARTS)
    return {
        "EventId": "A1",
        "EventType": "Reboot",
        "EventStatus": "Scheduled",
        "Resources": ["web-1"],
        "NotBefore": starts.strftime("%a, %d %b %Y %H:%M:%S GMT"),
    }


def live(vm, answer, disturb, started=True):
    """Go through the life of one event, and let the test meddle with the clock at each firing of the timer."""
    raw = raw_event(vm.clock.now().wall)
    phases = [(0, []), (ANNOUNCED, [raw]), (ENDS, [])]
    if started:
        phases.insert(2, (STARTS, [{**raw, "EventStatus": "Started", "NotBefore": ""}]))
    while vm.seconds <= LAST:
        disturb(vm.seconds)
        answer([events for at, events in phases if at <= vm.seconds][-1])
        vm.check()
        vm.wait(TICK)


@pytest.fixture
def azure(simulator):
    """The endpoint of web-1, and a function that makes Azure answer with these events."""
    found = simulator("--clock", "manual", "--vms", "web-1")

    def answer(events):
        body = json.dumps({"DocumentIncarnation": 1, "Events": events})
        found.control("DELETE", "/simulator/faults")
        found.control("POST", "/simulator/faults", {"fault": "body", "body": body})

    return found.endpoint("web-1"), answer


@pytest.fixture
def vm(azure, folders, recorder, clock):
    return lambda **options: Vm(folders, recorder, clock, azure[0], **options)


def judge(vm, prepared_by, outcome="completed", started=True):
    phases = ["announced", "started", "ended"] if started else ["announced", "ended"]
    assert [word for word, _at in vm.ran_at] == phases
    assert vm.ran_at[0][1] <= prepared_by, "prepared too late"
    with closing(vm.open()) as state:
        now = vm.clock.now()
        events = report(state, now, state.all_events())["events"]
    assert [(event["phase"], event["outcome"]) for event in events] == [("ended", outcome)]
    assert {response["state"] for response in events[0]["responses"]} == {"succeeded"}


@pytest.mark.parametrize("lead_time", [None, LEAD_TIME])
@pytest.mark.parametrize("by", STEPS)
@pytest.mark.parametrize("at", [120, *rare(0, 60, 600, 660, 720, 960, 1080, 1140)])
def test_the_clock_is_set_once(azure, vm, clock, at, by, lead_time):
    vm = vm(lead_time=lead_time)
    live(vm, azure[1], lambda seconds: clock.set_by(by) if seconds == at else None)
    if lead_time is None:
        return judge(vm, ANNOUNCED)
    if at <= ANNOUNCED and by < 0:
        # Nobody can tell that a clock was wrong already when the event was first seen; that it runs is all there is.
        return judge_missed(vm)
    return judge(vm, STARTS - LEAD_TIME)


def judge_missed(vm):
    """It was not prepared for before its start, as the clock said there was an hour left; the rest was done."""
    assert [word for word, _at in vm.ran_at] == ["started", "ended"]


@pytest.mark.parametrize("by", STEPS)
def test_a_wrong_clock_is_put_right_after_the_event_was_seen(azure, vm, clock, by):
    vm = vm(lead_time=LEAD_TIME)
    clock.set_by(by)
    raw = raw_event(clock.now().wall - timedelta(seconds=by))
    while vm.seconds <= LAST:
        if vm.seconds == 300:
            clock.set_by(-by)
        azure[1]([raw] if ANNOUNCED <= vm.seconds < ENDS else [])
        vm.check()
        vm.wait(TICK)
    assert [word for word, _at in vm.ran_at] == ["announced", "ended"]
    assert vm.ran_at[0][1] <= STARTS - LEAD_TIME


@pytest.mark.parametrize("by", STEPS)
def test_the_clock_swings_all_the_time(azure, vm, clock, by):
    vm = vm(lead_time=LEAD_TIME)
    live(vm, azure[1], lambda seconds: clock.set_by(by if seconds % (2 * TICK) else -by))
    # It is right every other time at the least.
    judge(vm, STARTS - LEAD_TIME + TICK)


@pytest.mark.parametrize("by", STEPS)
@pytest.mark.parametrize("at", [900, *rare(120, 1080)])
def test_an_outcome_does_not_depend_on_the_wall_clock(azure, vm, clock, at, by):
    """Never seen started: it is over because its time had come, and that time comes by itself."""
    vm = vm(lead_time=None)
    live(vm, azure[1], lambda seconds: clock.set_by(by) if seconds == at else None, started=False)
    judge(vm, ANNOUNCED, started=False)


@pytest.mark.parametrize("by", STEPS)
def test_a_withdrawn_event_is_not_taken_for_completed(azure, vm, clock, by):
    vm = vm(lead_time=None)
    clock_at = {120: by}
    raw = raw_event(clock.now().wall)
    while vm.seconds <= 300:
        clock.set_by(clock_at.get(vm.seconds, 0))
        azure[1]([raw] if ANNOUNCED <= vm.seconds < 200 else [])
        vm.check()
        vm.wait(TICK)
    judge(vm, ANNOUNCED, outcome="withdrawn", started=False)


DAY = 86400
FAR = 450 * DAY


class TestWhatIsOld:
    """E3: events are kept for 30 days, their history for 400, and a clock that is wrong for a while changes nothing."""

    @pytest.fixture
    def lived(self, azure, vm):
        """A VM that has had an event."""
        found = vm(lead_time=None)
        live(found, azure[1], lambda _seconds: None)
        return found

    @staticmethod
    def kept(vm):
        """How many events are remembered, and how many rows of history."""
        with closing(vm.open()) as state:
            return len(state.all_events()), len(history_report(state, vm.clock.now(), [])["history"])

    @pytest.mark.parametrize("checks", [1, 24])
    @pytest.mark.parametrize("by", [FAR, -FAR])
    def test_a_clock_that_is_wrong_for_some_checks(self, lived, by, checks):
        lived.clock.set_by(by)
        for _hour in range(checks):
            lived.check()
            lived.wait(3600)
        lived.clock.set_by(-by)
        lived.check()
        assert self.kept(lived) == (1, 1)

    def test_a_clock_that_is_wrong_after_a_boot(self, lived):
        lived.clock.reboot(FAR)
        lived.check()
        assert self.kept(lived) == (1, 1)

    def test_a_clock_that_is_wrong_when_nothing_is_known_of_it(self, lived):
        with closing(lived.open()) as state, state.transaction():
            state.connection.execute("DELETE FROM fact")
        lived.clock.set_by(FAR)
        lived.check()
        assert self.kept(lived) == (1, 1)

    def test_a_clock_that_was_wrong_from_the_first_check_on(self, azure, vm, clock):
        clock.set_by(FAR)
        found = vm(lead_time=None)
        found.check()
        clock.set_by(-FAR)
        live(found, azure[1], lambda _seconds: None)
        assert self.kept(found) == (1, 1)

    @pytest.mark.parametrize("checks", [1, 10])
    def test_time_that_has_gone_by(self, lived, checks):
        def wait(days):
            for _number in range(checks):
                lived.wait(days * DAY / checks)
                lived.check()
            return self.kept(lived)

        assert [wait(29), wait(2), wait(368), wait(2)] == [(1, 1), (0, 1), (0, 1), (0, 0)]

    def test_a_vm_that_is_off_for_most_of_the_time(self, lived):
        """Time for which it is off is counted when it is on again."""
        for _number in range(80):
            lived.clock.reboot(DAY / 2)
            lived.wait(DAY / 2)
            lived.check()
        assert self.kept(lived) == (0, 1)
