# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the checker remembers of an event when the event itself is forgotten."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import history_row
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.history_text import (  # noqa: E501
    history_text,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.report import (
    history_report,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import (
    history,
    store,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import (
    records as states,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.recovery import (
    repair,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    HOSTILE,
    NOW,
    Story,
    make_event,
    make_rule,
    started,
)

DRAIN, RESTORE = {"command": ["drain"]}, {"command": ["restore"]}
RULE = make_rule(on_announced=[DRAIN], on_ended=[RESTORE], approve="when_ready", retries=0)
NOTED = make_rule()
AZURE = "http://169.254.169.254"


class VM(Story):
    """What happens to a VM, and what its history has then."""

    def __init__(self, state: Any, clock: Any) -> None:
        super().__init__(state, clock)
        self.call("web-1")

    def call(self, name: str, endpoint: str = AZURE) -> None:
        self.set_fact("resource_name", {"name": name, "endpoint": endpoint})

    def see(self, *events: Any, rule: Any = RULE) -> None:
        self.see_by([rule], *events)
        self.find_due()

    def run(self, number: int, result: str = states.SUCCEEDED) -> None:
        """A response runs for 20 s and ends so."""
        with self.state.transaction():
            self.state.begin_response(number, states.RUNNING, self.clock.now())
            (step, *_approve) = self.state.steps(number)
            self.state.begin_step(step, self.clock.now())
            self.clock.advance(20)
            self.state.finish_step(step, result, None, self.clock.now())
            self.state.finish_response(number, result, None, self.clock.now())

    def forget_events(self) -> None:
        """So many events have ended since that these are forgotten."""
        with mock.patch.object(store, "_MOST_ENDED", 0), self.state.transaction():
            history.remove_old(self.state, history.ConfirmedTime(0.0, 0.0, ""), 400)

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = history_report(self.state, self.clock.now(), [])["history"]
        return found

    def row(self) -> dict[str, Any]:
        (found,) = self.rows()
        return found


@pytest.fixture
def vm(state, clock):
    return VM(state, clock)


def live(vm: VM) -> None:
    """An event that is prepared for, approved, postponed meanwhile, begins, and is over."""
    vm.see(make_event(duration_seconds=9, resources=("web-1", "web-2")))
    vm.clock.advance(10)
    vm.see(make_event(duration_seconds=9, resources=("web-1", "web-2"), not_before=NOW + timedelta(minutes=20)))
    vm.run(1)
    vm.approve(states.APPROVED)
    vm.clock.advance(5)
    vm.see(started(make_event(duration_seconds=9, resources=("web-1", "web-2"))))
    vm.clock.advance(240)
    vm.see()
    vm.run(2, states.FAILED)


LIVED = {
    "event_id": "A1",
    "event_type": "Reboot",
    "event_source": "Platform",
    "description": "Host server is undergoing maintenance.",
    "resources_count": 2,
    "leader": "web-1",
    "resource_name": "web-1",
    "simulated": False,
    "first_seen_at": "2026-11-21T10:00:00Z",
    "not_before_first": "2026-11-21T10:15:00Z",
    "not_before_last": "2026-11-21T10:20:00Z",
    "started_at": "2026-11-21T10:00:35Z",
    "ended_at": "2026-11-21T10:04:35Z",
    "outcome": "completed",
    "duration_seconds": 9,
    "approved_at": "2026-11-21T10:00:30Z",
    "approved_by": "checker",
    "responses": 2,
    "failed_responses": ["ended"],
    "late": False,
    "prepare_seconds": 20,
}


def test_what_became_of_an_event(vm):
    live(vm)
    assert vm.row() == LIVED
    assert set(LIVED) == set(history_row.ROW)
    assert history_row.course_of(LIVED) == history_row.Course(900, 5, 240, False)


def test_it_is_remembered_when_the_event_is_forgotten(vm):
    live(vm)
    vm.forget_events()
    assert vm.state.all_events() == []
    assert vm.row() == LIVED
    shown = history_text(history_report(vm.state, vm.clock.now(), []), vm.clock.now().wall)
    assert shown == (
        "Reboot A1 completed 20 s ago\n"
        "  web-1 and 1 more from Platform: Host server is undergoing maintenance.\n"
        "  notice 15 min (documented: 15 min); started 5 s after the approval; lasted 4\n"
        "    min\n"
        "\n"
        "In all:\n"
        "  Reboot: 1 event, 0 withdrawn; notice 15 min (documented: 15 min); approval to\n"
        "    start 5 s; lasted 4 min; 1 failed response\n"
    )


def test_the_days_and_the_number_of_events_for_which_it_remembers(vm, monkeypatch):
    monkeypatch.setattr(history, "MOST_ROWS", 3)
    for number in range(5):
        vm.see(make_event(f"E{number}"), rule=NOTED)
        vm.clock.advance(60)
        vm.see()
    vm.forget_events()

    def remembered(days):
        with vm.state.transaction():
            history.remove_old(vm.state, history.ConfirmedTime(vm.clock.now().at, 0.0, ""), days)
        return [row["event_id"] for row in vm.rows()]

    assert remembered(400) == ["E2", "E3", "E4"]
    vm.clock.advance(399 * 86400)
    assert remembered(400) == ["E2", "E3", "E4"]
    vm.clock.advance(86400 - 30)
    assert remembered(400) == ["E4"]


def test_an_open_event_is_never_forgotten(vm):
    vm.see(make_event())
    vm.clock.advance(500 * 86400)
    with vm.state.transaction():
        history.remove_old(vm.state, history.ConfirmedTime(vm.clock.now().at, 0.0, ""), 400)
    assert vm.row()["ended_at"] is None


def test_however_much_azure_says_a_row_is_small(vm):
    long = "🚧" * 100_000
    names = ("x" * 15_000, "web-1")
    vm.see(make_event("B" * 256, description=long, event_type=long, event_source=long, resources=names), rule=NOTED)
    vm.see()
    vm.forget_events()
    (found,) = vm.state.connection.execute("SELECT content FROM history").fetchall()
    assert len(found["content"]) < 20_000
    assert (vm.row()["resources_count"], vm.row()["leader"]) == (2, "x" * 200)


def send_approval_again(vm):
    vm.run(1)
    with vm.state.transaction():
        vm.state.renew_steps(1, lambda step: step.content == {"approve": True})
        vm.state.begin_response(1, states.DUE, vm.clock.now())
    vm.clock.advance(60)


def start_before_it_ends(vm):
    vm.see(started(make_event()))
    vm.clock.advance(1)
    vm.run(1)


@pytest.mark.parametrize(
    ("happens", "starts", "outcome", "late"),
    [
        pytest.param(lambda vm: vm.run(1), True, "completed", False, id="prepared in time"),
        pytest.param(lambda vm: None, True, "completed", True, id="begun too early for it"),
        pytest.param(lambda vm: vm.run(1, states.FAILED), True, "completed", True, id="failed"),
        pytest.param(lambda vm: vm.run(1, states.FAILED), False, "withdrawn", False, id="failed, and withdrawn"),
        pytest.param(start_before_it_ends, True, "completed", True, id="prepared after the start"),
        pytest.param(send_approval_again, True, "completed", False, id="prepared, and the approval is sent once more"),
        pytest.param(lambda vm: vm.clock.advance(1000), False, "completed", True, id="it fell due unseen before that"),
    ],
)
def test_a_preparation_that_is_late(vm, happens, starts, outcome, late):
    vm.see(make_event())
    happens(vm)
    if starts:
        vm.see(started(make_event()))
        assert vm.row()["late"] is late
    vm.see()
    assert (vm.row()["outcome"], vm.row()["late"]) == (outcome, late)


@pytest.mark.parametrize(("more", "seconds"), [({}, 20), ({"ignore_errors": False}, None)])
def test_a_preparation_with_a_failure_that_the_rule_ignores_has_a_length(vm, more, seconds):
    hook = {"webhook": "https://eda.example.com:5000/azure", **more}
    vm.see(make_event(), rule=make_rule(on_announced=[hook, DRAIN], approve="when_ready"))
    with vm.state.transaction():
        vm.state.begin_response(1, states.RUNNING, vm.clock.now())
        for step, result in zip(vm.state.steps(1), (states.FAILED, states.SUCCEEDED)):
            vm.state.begin_step(step, vm.clock.now())
            vm.clock.advance(10)
            vm.state.finish_step(step, result, None, vm.clock.now())
    vm.clock.advance(60)
    vm.see(started(make_event()))
    assert (vm.row()["prepare_seconds"], vm.row()["late"]) == (seconds, seconds is None)


def test_an_event_that_somebody_else_approved(vm):
    vm.see(make_event())
    vm.clock.advance(60)
    vm.see(started(make_event()))
    assert (vm.row()["approved_by"], vm.row()["approved_at"]) == ("other", None)


def test_an_event_of_a_simulator_is_told_from_those_of_azure(vm):
    vm.call("web-1", "http://127.0.0.1:8181/vm/web-1")
    vm.see(make_event())
    vm.call("web-1")
    vm.see(make_event(), make_event("B2"))
    assert [row["simulated"] for row in vm.rows()] == [True, False]
    shown = history_text(history_report(vm.state, vm.clock.now(), []), vm.clock.now().wall)
    assert "of a simulator" in shown
    assert "Reboot: 1 event, 0 withdrawn" in shown


def test_the_history_of_the_vm_of_whose_disk_this_one_has_a_copy_is_not_shown(vm):
    vm.see(make_event())
    vm.see()
    vm.call("web-2")
    assert vm.rows() == []
    vm.call("WEB-1")
    assert vm.row()["event_id"] == "A1"


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "null",
        '"\\ud83d"',
        json.dumps(LIVED),
        None,
        b"\xff",
    ],
)
def test_a_row_that_cannot_be_read_is_put_aside_alone(vm, damage):
    for number in range(3):
        vm.see(make_event(f"E{number}"), rule=NOTED)
        vm.see()
    vm.forget_events()
    content = "" if damage is None else damage
    vm.state.connection.execute("UPDATE history SET content = ? WHERE key = 'e1'", (content,))
    found = history_report(vm.state, vm.clock.now(), [])
    assert [row["event_id"] for row in found["history"]] == ["E0", "E2"]
    assert found["warnings"] == ["Records of the state are damaged, and are left out."]
    vm.state.needs_repair = False
    with vm.state.transaction():
        (line,) = repair(vm.state, vm.clock.now(), set())
    assert line.startswith("A record of history e1 cannot be read (")
    found = history_report(vm.state, vm.clock.now(), [])
    assert ([row["event_id"] for row in found["history"]], found["warnings"]) == (["E0", "E2"], [])


def test_a_start_that_is_told_later_is_the_first(vm):
    vm.see(make_event(not_before=None))
    vm.see(make_event(not_before=None, description="again"))
    vm.see(make_event())
    vm.see(make_event(not_before=NOW + timedelta(hours=9)))
    assert vm.row()["not_before_first"] == "2026-11-21T10:15:00Z"


def test_hostile_text_stays_text(vm):
    text = HOSTILE.format(marker="/tmp/x")
    event = make_event(text[:256], event_type=text, event_source=text, description=text, resources=("web-1", text))
    vm.see(event, rule=NOTED)
    vm.see()
    vm.forget_events()
    assert vm.row()["description"] == text[:200]
    for line in history_text(history_report(vm.state, vm.clock.now(), []), NOW).splitlines():
        assert line.isprintable()
        assert len(line) <= 79


def test_for_programs_the_report_names_the_form_of_the_history_and_what_is_wrong(vm):
    vm.see(make_event())
    found = history_report(vm.state, vm.clock.now(), ["It was damaged."])
    assert (found["history_format"], found["warnings"]) == (1, ["It was damaged."])
    assert found["version"]
    assert found["events"][0]["event_id"] == "A1"
    json.dumps(found)
