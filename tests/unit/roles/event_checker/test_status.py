# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status and the history as a person reads them, and the report that they are made of."""

from __future__ import annotations

import json
import textwrap
from datetime import timedelta
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.history_text import (  # noqa: E501
    history_text,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.report import (
    BesideState,
    exit_status,
    history_report,
    report,
    status_report,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.status_text import (  # noqa: E501
    status_text,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import (
    records as states,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    HOSTILE,
    NOW,
    Story,
    make_event,
    make_rule,
    started,
)

pytestmark = pytest.mark.filterwarnings("error")

DRAIN, RESTORE = {"playbook": "drain.yml"}, {"command": ["/usr/local/bin/restore", "now"]}


class Scene(Story):
    """What happens, and what status says of it."""

    def __init__(self, state: Any, clock: Any) -> None:
        super().__init__(state, clock)
        self.polls(last_answer_at=clock.now().at)
        self.name("web-1")

    def polls(self, **changes: Any) -> None:
        self.set_fact("polls", {"number": 5, "errors": {}, "last_answer_at": None, "last_error": None, **changes})

    def name(self, name: str) -> None:
        self.set_fact("resource_name", {"name": name, "boot_id": self.clock.now().boot_id})

    def see(self, *events: Any, name: str = "Drain before a reboot", **rule: Any) -> None:
        self.see_by([make_rule(name, **rule)] if rule else [], *events)
        self.find_due()

    def run(self, number: int = 1, *results: tuple[str, str | None]) -> None:
        """Write down what came of the steps of a response: for each its state and message."""
        now = self.clock.now()
        with self.state.transaction():
            self.state.begin_response(number, states.RUNNING, now)
            for step, (result, message) in zip(self.state.steps(number), results):
                self.state.begin_step(step, now)
                if result != states.RUNNING:
                    self.state.finish_step(step, result, message, now)

    @property
    def report(self) -> dict[str, Any]:
        return status_report(self.state, self.clock.now(), ())

    @property
    def status(self) -> str:
        return self._fit(status_text(self.report, self.clock.now().wall))

    @property
    def history(self) -> str:
        now = self.clock.now()
        return self._fit(history_text(history_report(self.state, now, []), now.wall))

    @staticmethod
    def _fit(text: str) -> str:
        """Whatever it says must fit a screen of 80 columns, and hold nothing that steers it."""
        for line in text.split("\n"):
            assert len(line) <= 79
            assert line.isprintable()
            assert line == line.rstrip()
        assert text.endswith("\n")
        return text


@pytest.fixture
def scene(state, clock):
    return Scene(state, clock)


def test_before_the_first_answer(state, clock):
    found = status_report(state, clock.now(), [])
    told = "This VM: whether maintenance is announced is unknown. Azure has never answered.\n"
    assert status_text(found, NOW) == told
    assert history_text(history_report(state, clock.now(), []), NOW) == "The history has no event.\n"
    assert found == {
        "resource_name": None,
        "heard_lately": False,
        "unclear_seconds": 0,
        "last_answer_at": None,
        "last_error": None,
        "polls": 0,
        "poll_errors": {},
        "events": [],
        "marks": [],
        "marks_left": [],
        "state_put_aside": [],
        "warnings": [],
    }


# What happens, and what status says then.
def nothing(scene: Scene) -> None:
    scene.clock.advance(3)


def coming(scene: Scene) -> None:
    scene.see(make_event(), on_announced=[DRAIN], lead_time=300)
    scene.clock.advance(60)


def two_events(scene: Scene) -> None:
    scene.see(make_event(), started(make_event("B2", event_type="Freeze", event_source=None)), retries=1)
    scene.clock.advance(2)


def running(scene: Scene) -> None:
    scene.see(make_event(), on_announced=[DRAIN, RESTORE], approve="when_ready")
    scene.run(1, (states.SUCCEEDED, "It ended with status 0."), (states.RUNNING, None))


def failed(scene: Scene) -> None:
    scene.see(make_event(), on_announced=[DRAIN, RESTORE])
    for _number in range(3):
        scene.run(1, (states.FAILED, "It ended with status 2."))
    scene.finish(1, states.FAILED, "Step 1 (playbook drain.yml): It ended with status 2.")
    scene.clock.advance(120)


def waiting_for_others(scene: Scene) -> None:
    scene.see(make_event(resources=("web-1", "web-2", "db")), approve="when_ready")
    scene.run(1, (states.SUCCEEDED, "Left to a runbook for the fleet."))
    scene.finish()
    scene.approve(states.WAITING, "web-2", "db")


def approved(scene: Scene) -> None:
    scene.see(make_event(), approve="at_once")
    scene.run(1, (states.SUCCEEDED, "Azure may start the event now."))
    scene.approve(states.APPROVED)
    scene.finish()
    scene.clock.advance(5)


def start_unknown(scene: Scene) -> None:
    scene.see(make_event(not_before=None), on_announced=[DRAIN], lead_time=300)


def due_by_now(scene: Scene) -> None:
    scene.see(make_event(), retries=1)
    scene.clock.advance(1000)


def started_while_it_is_prepared(scene: Scene) -> None:
    scene.see(make_event(), on_announced=[DRAIN], on_started=[RESTORE])
    scene.run(1, (states.RUNNING, None))
    scene.see(started(make_event()))
    scene.clock.advance(1)


def unanswered(scene: Scene) -> None:
    error = {"reason": "unreachable", "message": "Nothing answers at http://169.254.169.254: " + "x " * 60, "at": 1.0}
    scene.polls(last_answer_at=NOW.timestamp(), last_error=error)
    scene.clock.advance(7200)


def no_rule(scene: Scene) -> None:
    scene.see(make_event())


def no_vm_named(scene: Scene) -> None:
    scene.see(make_event(resources=(), names_its_vms=False), on_announced=[DRAIN])


def unclear(scene: Scene) -> None:
    """No answer can be read as a whole, and none that can be read lists one of the two events."""
    scene.see(make_event(), make_event("B2"), on_announced=[DRAIN], lead_time=0)
    now = scene.clock.now()
    scene.set_fact("poller", {"boot_id": now.boot_id, "unclear": [now.uptime, now.uptime], "missing": ["b2"]})
    scene.polls(last_answer_at=scene.clock.advance(240).at)


def unclear_before_the_boot(scene: Scene) -> None:
    scene.set_fact("poller", {"boot_id": "boot-0", "unclear": [1.0, 2.0], "missing": ["b2"]})


def failed_and_overtaken(scene: Scene) -> None:
    failed(scene)
    scene.see()


def ended_and_restored(scene: Scene) -> None:
    scene.see(make_event(), on_ended=[RESTORE])
    scene.see()
    scene.run(1, (states.SUCCEEDED, "It ended with status 0."))
    scene.finish()


def failed_and_restored(scene: Scene) -> None:
    scene.see(make_event(), on_announced=[DRAIN], on_ended=[RESTORE])
    scene.run(1, (states.FAILED, "It ended with status 2."))
    scene.finish(1, states.FAILED, "Step 1 (playbook drain.yml): It ended with status 2.")
    scene.see(started(make_event()))
    scene.see()
    scene.run(2, (states.SUCCEEDED, "It ended with status 0."))
    scene.finish(2)


def ended_and_not_restored(scene: Scene) -> None:
    scene.see(make_event(), on_announced=[DRAIN], lead_time=0, on_ended=[RESTORE])
    scene.clock.advance(900)
    scene.see(started(make_event()))
    scene.see()
    scene.run(2, (states.FAILED, "It was ended by signal 9."))
    scene.finish(2, states.FAILED, "Step 1")
    scene.clock.advance(86400)


SITUATIONS = [
    (nothing, "web-1: no maintenance is announced. Azure answered 3 s ago."),
    (
        coming,
        """\
        web-1: 1 event. Azure answered 1 min ago.

        Reboot A1 may start in 14 min
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot
          response 1, on_announced: due in 9 min
             pending   playbook drain.yml""",
    ),
    (
        two_events,
        """\
        web-1: 2 events. Azure answered 2 s ago.

        Reboot A1 may start in 14 min 58 s
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot

        Freeze B2 started 2 s ago
          web-1: Host server is undergoing maintenance.
          rule: Drain before a reboot""",
    ),
    (
        running,
        """\
        web-1: 1 event. Azure answered just now.

        Reboot A1 may start in 15 min
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot
          response 1, on_announced: running
             succeeded playbook drain.yml
             running   command /usr/local/bin/restore now, begun just now
             pending   approve""",
    ),
    (
        failed,
        """\
        web-1: 1 event. Azure answered 2 min ago.

        Reboot A1 may start in 13 min
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot
          !! response 1, on_announced: failed 2 min ago
             failed    playbook drain.yml, 3 tries: It ended with status 2.
             pending   command /usr/local/bin/restore now
             its output: journalctl -u azure-maintenance-respond@1
             to try again: azure-maintenance retry 1""",
    ),
    (
        waiting_for_others,
        """\
        web-1: 1 event. Azure answered just now.

        Reboot A1 may start in 15 min
          web-1, web-2, db from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot
          response 1, on_announced: succeeded just now
             approve   left to the fleet
          approval: waits for web-2, db; a runbook for the fleet approves it""",
    ),
    (
        approved,
        """\
        web-1: 1 event. Azure answered 5 s ago.

        Reboot A1 may start in 14 min 55 s
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot
          response 1, on_announced: succeeded 5 s ago
             succeeded approve
          approved 5 s ago""",
    ),
    (
        start_unknown,
        """\
        web-1: 1 event. Azure answered just now.

        Reboot A1 announced, start unknown
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot
          response 1, on_announced: waits for a start time that can be read
             pending   playbook drain.yml""",
    ),
    (
        due_by_now,
        """\
        web-1: 1 event. No document since 16 min 40 s.

        Reboot A1 may start now
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot""",
    ),
    (
        started_while_it_is_prepared,
        """\
        web-1: 1 event. Azure answered 1 s ago.

        Reboot A1 started 1 s ago
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot
          response 1, on_announced: running
             running   playbook drain.yml, begun 1 s ago
          response 2, on_started: waits for response 1 to the same event
             pending   command /usr/local/bin/restore now""",
    ),
    (
        unanswered,
        """\
        web-1: whether maintenance is announced is unknown. No document since 2 h.
        !! Nothing answers at http://169.254.169.254: x x x x x x x x x x x x x x x x x
          x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x
          x x x x""",
    ),
    (
        no_rule,
        """\
        web-1: 1 event. Azure answered just now.

        Reboot A1 may start in 15 min
          web-1 from Platform: Host server is undergoing maintenance.
          !! No rule matches; nothing is done.""",
    ),
    (
        no_vm_named,
        """\
        web-1: 1 event. Azure answered just now.

        Reboot A1 may start in 15 min
          names no VM from Platform: Host server is undergoing maintenance.
          !! It lists no VM, so whether it concerns this one is unknown; nothing is
            done.""",
    ),
    (
        unclear,
        """\
        web-1: 2 events. Azure answered just now.
        !! No answer of the last 4 min could be read as a whole, so no event ends.

        Reboot A1 may start in 11 min
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot
          response 1, on_announced: due in 11 min
             pending   playbook drain.yml

        Reboot B2 may start in 11 min
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot
          !! Not in the last answer, which could not be read as a whole. It ends with a
            document that can be.
          response 2, on_announced: due in 11 min
             pending   playbook drain.yml""",
    ),
    (unclear_before_the_boot, "web-1: no maintenance is announced. Azure answered just now."),
    (ended_and_restored, "web-1: no maintenance is announced. Azure answered just now."),
    (failed_and_restored, "web-1: no maintenance is announced. Azure answered just now."),
    (
        ended_and_not_restored,
        """\
        web-1: whether maintenance is announced is unknown. No document since 1 d 15
          min.

        Ended, but with a response that failed or is not finished:

        Reboot A1 completed 1 d ago
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot
          response 1, on_announced: skipped 1 d ago
             skipped   playbook drain.yml
             The event started before this was due.
          !! response 2, on_ended: failed 1 d ago
             failed    command /usr/local/bin/restore now: It was ended by signal 9.
             its output: journalctl -u azure-maintenance-respond@2
             to try again: azure-maintenance retry 2""",
    ),
]


@pytest.mark.parametrize(("happens", "told"), SITUATIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_what_status_says(scene, happens, told):
    happens(scene)
    assert scene.status == textwrap.dedent(told) + "\n"


EXIT_STATUSES = [
    (nothing, 0),
    (coming, 0),
    (ended_and_restored, 0),
    (unclear, 0),
    (failed_and_overtaken, 0),
    (failed, 1),
    (waiting_for_others, 1),
    (no_rule, 1),
    (no_vm_named, 1),
    (unanswered, 3),
    (ended_and_not_restored, 3),
]


@pytest.mark.parametrize(("happens", "expected"), EXIT_STATUSES, ids=lambda value: getattr(value, "__name__", ""))
def test_the_exit_status_for_monitoring(scene, happens, expected):
    happens(scene)
    assert exit_status(scene.report) == expected


def test_p13_a_state_that_could_not_be_read_is_no_all_clear(scene):
    scene.polls(last_answer_at=NOW.timestamp())
    found = status_report(scene.state, scene.clock.now(), ["The state cannot be read."])
    assert exit_status(found) == 1
    told = status_text(found, NOW)
    assert "whether maintenance is announced is unknown" in told
    assert "\n!! The state cannot be read.\n" in told
    scene.state.needs_repair = True
    found = status_report(scene.state, scene.clock.now(), [])
    assert found["warnings"] == ["Records of the state are damaged, and are left out."]
    assert exit_status(found) == 1


@pytest.mark.parametrize(("seconds", "expected"), [(299, 0), (300, 0), (301, 3)])
def test_the_exit_status_when_nothing_was_heard_for_some_time(scene, seconds, expected):
    scene.polls(last_answer_at=NOW.timestamp())
    scene.clock.advance(seconds)
    assert exit_status(scene.report) == expected


def test_a_response_that_is_written_down_and_not_yet_begun(scene):
    """What status may see between two looks of the check."""
    scene.see_by([make_rule(on_announced=[DRAIN])], make_event())
    assert "response 1, on_announced: due now\n" in scene.status


def test_the_name_of_a_rule_keeps_its_capitals_in_a_note(scene):
    pytest.importorskip("jmespath", reason="not part of a target's Python")
    scene.see(make_event(), name="Our VMs", match={"query": "abs(event_id)"})
    assert "!! The query of rule Our VMs failed (" in scene.status


def test_history_has_the_newest_first_and_forgets_nothing(scene):
    scene.see(make_event(), on_ended=[RESTORE])
    scene.see()
    scene.run(1, (states.SUCCEEDED, "It ended with status 0."))
    scene.finish()
    scene.clock.advance(600)
    scene.see(make_event("B2"))
    assert scene.history == textwrap.dedent(
        """\
        Reboot B2 may start in 5 min
          web-1 from Platform: Host server is undergoing maintenance.
          !! No rule matches; nothing is done.
          notice 5 min (documented: 15 min)

        Reboot A1 withdrawn 10 min ago
          web-1 from Platform: Host server is undergoing maintenance.
          rule: Drain before a reboot
          response 1, on_ended: succeeded 10 min ago
             succeeded command /usr/local/bin/restore now
          notice 15 min (documented: 15 min)

        In all:
          Reboot: 2 events, 1 withdrawn; notice 5 min to 15 min (documented: 15 min)
        """
    )


def test_the_clock_may_have_been_set_back(scene):
    scene.see(started(make_event()))
    scene.clock.set_by(-60)
    assert "Azure answered just now." in scene.status
    # Whether Azure has answered since is not known, and it may be dead (P13).
    scene.clock.set_by(-5 * 3600)
    assert "No document since the clock was set back." in scene.status
    assert "started just now" in scene.status
    assert report(scene.state, scene.clock.now(), [])["heard_lately"] is False


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HOSTILE.format(marker="/tmp/x"), id="hostile"),
        pytest.param("x" * 500, id="one long word"),
        pytest.param("é🚧 " * 300, id="beyond ASCII"),
        pytest.param("\x1b[2J" * 100, id="escapes"),
        pytest.param("a\u2028b\u202ec\x85d\u200be", id="what steers a terminal without being a control character"),
        pytest.param(" ", id="a space"),
    ],
)
def test_text_from_outside_can_neither_steer_the_terminal_nor_leave_the_screen(scene, text):
    scene.name(text)
    event = make_event(event_id=text, event_type=text, description=text, event_source=text, resources=("web-1", text))
    scene.see(event, name=text, on_announced=[{"command": [text, text]}])
    for _number in range(2):
        scene.run(1, (states.FAILED, f"{text} could not be started."))
    scene.finish(1, states.FAILED, "Step 1")
    scene.approve(states.WAITING, text)
    for shown in (scene.status, scene.history):
        assert "azure-maintenance retry 1\n" in shown


def test_a_long_description_is_cut_and_says_so(scene):
    scene.see(make_event(description="word " * 100))
    assert "…\n" in scene.status


def test_p13_status_does_not_say_that_a_response_runs_whose_program_has_ended(scene):
    scene.see(make_event(), on_announced=[DRAIN, RESTORE])
    scene.run(1, (states.RUNNING, None))
    scene.clock.advance(60)
    found = status_report(scene.state, scene.clock.now(), (), BesideState(is_running=lambda _number: False))
    assert (
        "  response 1, on_announced: waits for the next check, which begins it again\n"
        "     cut off   playbook drain.yml, begun 1 min ago\n"
        "     pending   command /usr/local/bin/restore now\n"
        "     why it was interrupted: journalctl -u azure-maintenance-respond@1\n"
    ) in status_text(found, scene.clock.now().wall)


@pytest.mark.parametrize(
    ("times", "told"),
    [(1, ", interrupted once, begun just now"), (2, ", 2 tries, interrupted twice, begun just now")],
)
def test_status_says_that_a_step_was_interrupted_and_where_the_reason_is(scene, times, told):
    scene.see(make_event(), on_announced=[DRAIN])
    scene.run(1, (states.RUNNING, None))
    for _time in range(times):
        with scene.state.transaction():
            scene.state.interrupt_step(scene.state.steps(1)[0])
        scene.run(1, (states.RUNNING, None))
    assert (
        "  response 1, on_announced: running\n"
        f"     running   playbook drain.yml{told}\n"
        "     why it was interrupted: journalctl -u azure-maintenance-respond@1\n"
    ) in scene.status
    assert [step["interruptions"] for step in scene.report["events"][0]["responses"][0]["steps"]] == [times]


def test_the_report_for_programs(scene):
    scene.see(make_event(resources=("web-1", "web-2")), on_announced=[DRAIN], lead_time=900, approve="when_ready")
    scene.run(1, (states.FAILED, "It ended with status 2."))
    scene.clock.advance(60)
    scene.run(1, (states.SUCCEEDED, "It ended with status 0."), (states.SUCCEEDED, "Left to a runbook."))
    scene.finish()
    scene.approve(states.WAITING, "web-2")
    found = report(scene.state, scene.clock.now(), scene.state.all_events())
    step = {
        "state": "succeeded",
        "started_at": "2026-11-21T10:01:00Z",
        "finished_at": "2026-11-21T10:01:00Z",
        "in_this_boot": True,
        "interruptions": 0,
    }
    (event,) = found["events"]
    assert event == {
        **make_event(resources=("web-1", "web-2")).to_dict(NOW + timedelta(seconds=60), "web-1"),
        "phase": "announced",
        "outcome": None,
        "announced_at": "2026-11-21T10:00:00Z",
        "started_at": None,
        "ended_at": None,
        "rule": "Drain before a reboot",
        "lead_time": 900,
        "note": None,
        "missing": False,
        "approval": "waiting",
        "approval_rule": "when_ready",
        "approved_at": None,
        "waiting_for": ["web-2"],
        "responses": [
            {
                "number": 1,
                "phase": "announced",
                "state": "succeeded",
                "message": None,
                "waits": None,
                "restorable": False,
                "booted_since": False,
                "undone_by_boot": False,
                "created_at": "2026-11-21T10:00:00Z",
                "finished_at": "2026-11-21T10:01:00Z",
                "steps": [
                    {**step, "step": "playbook drain.yml", "tries": 2, "message": "It ended with status 0."},
                    {**step, "step": "approve", "tries": 1, "message": "Left to a runbook."},
                ],
            }
        ],
    }
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("approval", "happens", "is_told"),
    [
        pytest.param(states.WAITING, "reboot", True, id="P2 it waits, and the VM has booted"),
        pytest.param(None, "reboot", True, id="P2 nobody is to approve it, and the VM has booted"),
        pytest.param(states.WAITING, "set_by", False, id="no boot"),
        pytest.param(states.APPROVED, "reboot", False, id="it was approved"),
        pytest.param(states.SENDING, "reboot", False, id="it may have been approved"),
    ],
)
def test_status_says_that_a_boot_took_a_preparation_back(scene, approval, happens, is_told):
    scene.see(make_event(resources=["web-1", "web-2"]), on_announced=[DRAIN])
    scene.run(1, (states.SUCCEEDED, "It ended with status 0."))
    scene.finish()
    if approval:
        scene.approve(approval, "web-2")
    getattr(scene.clock, happens)(60)
    said = (
        "  !! response 1, on_announced: succeeded 1 min ago\n"
        "     succeeded playbook drain.yml\n"
        "     This VM has booted since, so it may be in service again.\n"
        "     to prepare it again: azure-maintenance retry 1\n"
    )
    assert (said in scene.status) == is_told
    assert ("!! response" in scene.status) == is_told
    is_repeated = "This VM has booted since. An event that is approved is not prepared again." not in scene.status
    assert is_repeated == (approval != states.APPROVED)
    assert exit_status(scene.report) == (is_told or approval == states.WAITING)


def test_a_boot_takes_back_no_message_to_somebody(scene):
    scene.see(make_event(), on_announced=[{"webhook": "https://hooks.example/"}])
    scene.run(1, (states.SUCCEEDED, "It answered with 200."))
    scene.finish()
    scene.clock.reboot(60)
    assert "booted since" not in scene.status
    scene.approve(states.APPROVED)
    assert "booted since" not in scene.status
    assert exit_status(scene.report) == 0


@pytest.mark.parametrize(
    ("happens", "in_this_boot"),
    [
        pytest.param([("set_by", -86400)], True, id="somebody set the clock back"),
        pytest.param([("set_by", 86400)], True, id="somebody set the clock forward"),
        pytest.param([("reboot", 60)], False, id="a boot"),
        pytest.param([("set_by", -86400), ("reboot", 60)], False, id="P2: a boot after the clock was set back"),
        pytest.param([("reboot", -86400)], False, id="P2: a boot that set the clock back"),
    ],
)
def test_whether_a_step_succeeded_in_this_boot_is_told_by_the_boot_and_not_by_a_clock(scene, happens, in_this_boot):
    scene.see(make_event(), on_announced=[DRAIN, RESTORE])
    scene.run(1, (states.SUCCEEDED, None), (states.FAILED, "It ended with status 2."))
    for name, seconds in happens:
        getattr(scene.clock, name)(seconds)
    (event,) = report(scene.state, scene.clock.now(), scene.state.all_events())["events"]
    assert [step["in_this_boot"] for step in event["responses"][0]["steps"]] == [in_this_boot, False]
