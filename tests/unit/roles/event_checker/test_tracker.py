# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is written down of a document, and which responses are due when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Event
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import (
    records as states,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track.situation import (
    due_responses,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track.tracker import (
    MOST_OPEN,
    MOST_PENDING,
    record_answer,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    IN_15_MINUTES,
    NOW,
    Story,
    make_document,
    make_event,
    make_rule,
    started,
)

pytestmark = pytest.mark.filterwarnings("error")

STEPS = {f"on_{phase}": [{"command": [phase]}] for phase in ("announced", "started", "ended")}
HOUR = 3600.0


class Watch(Story):
    """The state under a sequence of documents, for web-1."""

    def __init__(self, state: Any, clock: Any) -> None:
        super().__init__(state, clock)
        self.rules = [make_rule(**STEPS)]
        # The responses that a process runs now
        self.running: set[int] = set()

    def see(self, *events: Event, name: str = "web-1") -> list[str]:
        return self.hear(make_document(*events), name=name)

    def hear(self, document: Any, unclear_seconds: float = 0.0, name: str = "web-1") -> list[str]:
        """Take in any answer; None is an empty body."""
        told = record_answer(self.state, self.rules, document, self.clock.now(), name, unclear_seconds)
        return [*told.lines, *told.left_out]

    @property
    def phases(self) -> list[tuple[str, str, str | None]]:
        return [(each.event.event_id, each.phase, each.outcome) for each in self.state.all_events()]

    @property
    def responses(self) -> list[tuple[str, str]]:
        """Phase and state of every response to the events, in the order in which they were made."""
        found = [each for event in self.state.all_events() for each in self.state.responses_to(event.number)]
        return [(each.phase, each.state) for each in sorted(found)]

    def due(self) -> list[str]:
        return [response.phase for response in self.due_records()]

    def due_records(self) -> list[Any]:
        return due_responses(self.state, self.clock.now(), lambda number: number in self.running)

    def begin(self) -> int:
        """Run the first response that is due, up to the middle of its first step, and return its number."""
        response = self.due_records()[0]
        with self.state.transaction():
            self.state.begin_response(response.number, states.RUNNING, self.clock.now())
            self.state.begin_step(self.state.steps(response.number)[0], self.clock.now())
        self.running.add(response.number)
        return response.number

    def end(self, number: int, result: str = states.SUCCEEDED) -> None:
        """End a response that was begun."""
        self.running.discard(number)
        self.finish(number, result)

    def finish_first(self) -> None:
        """End the first unfinished response."""
        self.finish(self.state.unfinished_responses()[0].number)


@pytest.fixture
def watch(state, clock):
    return Watch(state, clock)


def test_announced_started_ended(watch):
    assert watch.see(make_event()) == ["Reboot A1 announced (rule Drain)."]
    assert watch.phases == [("A1", "announced", None)]
    assert watch.due() == ["announced"]
    watch.finish_first()
    assert watch.see(started(make_event())) == ["Reboot A1 started."]
    assert watch.phases == [("A1", "started", None)]
    assert watch.due() == ["started"]
    watch.finish_first()
    assert watch.see() == ["Reboot A1 ended, completed."]
    assert watch.phases == [("A1", "ended", "completed")]
    assert watch.due() == ["ended"]
    watch.finish_first()
    assert watch.due() == []
    record = watch.state.all_events()[0]
    assert (record.announced_at, record.started_at, record.ended_at) == (NOW.timestamp(),) * 3


def test_the_same_document_changes_nothing(watch):
    watch.see(make_event(), started(make_event("B")))
    before = watch.state.version
    assert watch.see(make_event(), started(make_event("B"))) == []
    assert watch.state.version == before


def test_what_changes_of_an_event_is_kept(watch):
    watch.see(make_event())
    later = make_event(not_before=IN_15_MINUTES + timedelta(hours=1), resources=("web-1", "web-2"))
    assert watch.see(later) == []
    assert watch.state.all_events()[0].event == later


def test_an_event_that_is_listed_again_after_it_ended_is_a_new_occurrence(watch):
    watch.see(make_event())
    watch.see()
    assert watch.see(make_event()) == ["Reboot A1 announced (rule Drain)."]
    assert watch.phases == [("A1", "ended", "withdrawn"), ("A1", "announced", None)]
    # The first announcement was overtaken by the end of its event.
    assert watch.responses == [("announced", "skipped"), ("ended", "planned"), ("announced", "planned")]


def test_an_event_that_names_no_vm_is_noted_and_nothing_is_done(watch):
    (line,) = watch.see(make_event(resources=(), names_its_vms=False))
    assert line.startswith("Reboot A1 announced: ")
    record = watch.state.all_events()[0]
    assert (record.rule, bool(record.note)) == (None, True)
    assert watch.responses == []
    assert watch.see() == ["Reboot A1 ended, withdrawn."]
    assert watch.responses == []


def test_an_event_that_no_rule_matches_is_noted(watch):
    watch.rules = [make_rule(match={"event_types": ["Freeze"]}, **STEPS)]
    (line,) = watch.see(make_event())
    assert line.startswith("Reboot A1 announced: ")
    assert watch.state.all_events()[0].note
    assert watch.responses == []


def test_an_event_on_which_a_query_fails_gets_no_response_and_the_note_says_so(watch):
    pytest.importorskip("jmespath", reason="not part of a target's Python")
    watch.rules = [make_rule("Odd", match={"query": "seconds_until_start < 'soon'"}, **STEPS), make_rule(**STEPS)]
    watch.see(make_event())
    record = watch.state.all_events()[0]
    assert record.rule is None
    assert record.note.startswith("the query of rule Odd failed (")
    assert watch.responses == []


def test_the_rule_is_decided_when_the_event_is_first_seen_and_kept(watch):
    watch.see(make_event())
    watch.rules = [make_rule("New", on_ended=[{"command": ["other"]}])]
    watch.see()
    record = watch.state.all_events()[0]
    assert record.rule == make_rule(**STEPS)
    ended = watch.state.responses_to(record.number)[-1]
    assert [step.content for step in watch.state.steps(ended.number)] == [{"command": ["ended"]}]


class TestAnEventThatChanges:
    """E2: while nothing was begun for an event, its rule is looked for anew when its type or source changes."""

    FREEZE = make_event(event_type="Freeze")
    NO_VM = make_event(resources=(), names_its_vms=False)
    WAS_FREEZE = "Reboot A1 was a Freeze from Platform (rule Drain)."

    @pytest.fixture(autouse=True)
    def _rules(self, watch):
        watch.rules = [
            make_rule("Noted", match={"event_types": ["Freeze"]}, on_started=[{"command": ["note"]}]),
            make_rule("Ours", match={"event_sources": ["User"]}, lead_time=300, **STEPS),
            make_rule("Drain", match={"event_types": ["Reboot"]}, **STEPS),
        ]

    @pytest.mark.parametrize(
        ("before", "after", "line", "due"),
        [
            pytest.param(FREEZE, make_event(), WAS_FREEZE, ["announced"], id="type"),
            pytest.param(
                make_event(event_source="User"),
                make_event(),
                "Reboot A1 was a Reboot from User (rule Drain).",
                ["announced"],
                id="source, with a preparation that was planned",
            ),
            pytest.param(
                make_event(),
                make_event(event_type="Redeploy"),
                "Redeploy A1 was a Reboot from Platform: ",
                [],
                id="no rule any more",
            ),
            pytest.param(FREEZE, started(make_event()), WAS_FREEZE, ["started"], id="and starts"),
            pytest.param(started(FREEZE), started(make_event()), None, ["started"], id="and had started"),
            pytest.param(NO_VM, started(make_event()), None, ["started"], id="its VMs, when it starts"),
        ],
    )
    def test_before_anything_was_begun(self, watch, before, after, line, due):
        watch.see(before)
        lines = watch.see(after)
        assert line is None or lines[0].startswith(line)
        (record,) = watch.state.all_events()
        assert [each.phase for each in watch.due_records()] == due
        assert (record.rule.name if record.rule else None) == ("Drain" if due else None)
        steps = [step.content for each in watch.due_records() for step in watch.state.steps(each.number)]
        assert steps == [{"command": due}] * len(due)
        assert watch.see(after) == []

    @pytest.mark.parametrize("result", [None, states.SUCCEEDED, states.FAILED, states.SKIPPED])
    def test_after_something_was_begun_its_rule_stays(self, watch, result):
        watch.see(make_event())
        number = watch.begin()
        if result:
            watch.end(number, result)
        (line,) = watch.see(self.FREEZE)
        assert (
            line == "Freeze A1 was a Reboot from Platform. A response to it was begun, so its rule stays (rule Drain)."
        )
        assert watch.see(self.FREEZE) == []
        watch.running.clear()
        watch.see()
        responses = [(each.number, each.phase) for each in watch.state.responses_to(1)]
        assert responses == [(number, "announced"), (number + 1, "ended")]

    @pytest.mark.parametrize(
        "after",
        [
            pytest.param(make_event(event_type="REBOOT", event_source="platform"), id="letter case"),
            pytest.param(make_event(event_type=None, event_source=None), id="left out"),
        ],
    )
    def test_what_is_no_change(self, watch, after):
        watch.see(make_event())
        watch.rules = []
        assert watch.see(after) == []
        assert watch.due() == ["announced"]


def test_text_from_azure_is_escaped_in_the_log(watch):
    (line,) = watch.see(make_event("A\n<3>\x1b[31m", event_type="Re\nboot"))
    assert line.isprintable()


@pytest.mark.parametrize(
    ("between", "outcome"),
    [
        pytest.param(
            lambda watch: (watch.clock.reboot(), watch.see(make_event())),
            "withdrawn",
            id="E1: the VM booted, and a document of that boot lists it",
        ),
        pytest.param(
            lambda watch: watch.approve(states.WAITING, "web-2"), "withdrawn", id="its approval waits for others"
        ),
        pytest.param(lambda watch: watch.clock.set_by(HOUR), "withdrawn", id="somebody set the clock forward"),
        pytest.param(
            lambda watch: (watch.clock.advance(900), watch.clock.set_by(-HOUR)),
            "completed",
            id="its time had come, by a clock set back",
        ),
    ],
)
def test_the_outcome(watch, between, outcome):
    """Others are in test_outcomes.py, for the fleet and the event source, too."""
    watch.see(make_event())
    between(watch)
    watch.see()
    assert watch.phases == [("A1", "ended", outcome)]
    assert watch.responses[-1] == ("ended", "planned")


@pytest.mark.parametrize("known_as", ["withdrawn", "completed"])
def test_an_unknown_start_never_falls_due(watch, known_as):
    watch.see(make_event(not_before=None))
    watch.clock.advance(10 * HOUR)
    if known_as == "completed":
        watch.see(started(make_event()))
    watch.see()
    assert watch.phases == [("A1", "ended", known_as)]


class TestLeadTime:
    """A response that is due when so many seconds are left, with no change of the document."""

    @pytest.fixture(autouse=True)
    def _lead_time(self, watch):
        watch.rules = [make_rule(lead_time=300, **STEPS)]

    # The lead time, and what happens: the event is seen with so many seconds of notice, time passes, somebody sets the
    # clock, the VM boots. Then whether the response is due.
    @pytest.mark.parametrize(
        ("lead_time", "happens", "due"),
        [
            pytest.param(300, [("see", 900), ("advance", 599)], False, id="a second too early"),
            pytest.param(300, [("see", 900), ("advance", 599), ("advance", 1)], True, id="by the clock"),
            pytest.param(300, [("see", 900), ("advance", 700)], True, id="a while ago"),
            pytest.param(None, [("see", None)], True, id="without a lead time at once"),
            pytest.param(0, [("see", 900), ("advance", 899)], False, id="0, before Azure may start"),
            pytest.param(0, [("see", 900), ("advance", 900)], True, id="0, when Azure may start"),
            pytest.param(300, [("see", 30)], True, id="less notice than lead time"),
            pytest.param(300, [("see", None), ("advance", 100 * HOUR)], False, id="the start is unknown"),
            pytest.param(300, [("see", None), ("see", 299)], True, id="the start becomes known"),
            pytest.param(300, [("see", 900), ("see", 900 + HOUR), ("advance", 900)], False, id="it is put off"),
            pytest.param(300, [("see", 900), ("see", 900 + HOUR), ("advance", 600 + HOUR)], True, id="and comes near"),
            # Too early does less harm than too late: the clock that says so first counts.
            pytest.param(300, [("see", 900), ("set_by", HOUR)], True, id="a clock set forward"),
            pytest.param(300, [("see", 900), ("set_by", -HOUR), ("advance", 599)], False, id="a clock set back"),
            pytest.param(300, [("see", 900), ("set_by", -HOUR), ("advance", 600)], True, id="set back, and by uptime"),
            pytest.param(
                300,
                [("set_by", -HOUR), ("see", 900), ("advance", 300), ("set_by", HOUR + 300)],
                True,
                id="a clock that was wrong when the event was seen, and is set right",
            ),
            # After a boot the wall clock alone counts.
            pytest.param(300, [("see", 900), ("reboot", 300), ("see", 900)], False, id="a boot"),
            pytest.param(300, [("see", 900), ("reboot", 300), ("see", 900), ("advance", 300)], True, id="after a boot"),
        ],
    )
    def test_when_it_is_due(self, watch, lead_time, happens, due):
        watch.rules = [make_rule(lead_time=lead_time, **STEPS)]
        for what, seconds in happens:
            if what == "see":
                watch.see(make_event(not_before=None if seconds is None else NOW + timedelta(seconds=seconds)))
            else:
                getattr(watch.clock, what)(seconds)
            found = watch.due()
        assert found == (["announced"] if due else [])
        assert watch.responses == [("announced", "due" if due else "planned")]

    @pytest.mark.parametrize(
        ("then", "why"), [((started(make_event()),), "started"), ((), "ended")], ids=["started", "ended"]
    )
    def test_what_is_overtaken_is_skipped(self, watch, then, why):
        watch.see(make_event())
        watch.see(*then)
        skipped, following = watch.state.responses_to(1)
        assert (skipped.phase, skipped.state) == ("announced", "skipped")
        assert f"The event {why} " in skipped.message
        assert [step.state for step in watch.state.steps(skipped.number)] == ["skipped"]
        assert following.phase == why
        assert watch.due() == [why]

    def test_what_is_due_already_is_not_skipped(self, watch):
        watch.see(make_event())
        watch.clock.advance(600)
        assert watch.due() == ["announced"]
        watch.see(started(make_event()))
        assert watch.due() == ["announced"]
        assert watch.responses == [("announced", "due"), ("started", "due")]


def test_the_clocks_of_a_record(watch):
    watch.see(make_event())
    record = watch.state.all_events()[0]
    watch.clock.advance(60)
    assert record.nows(watch.clock.now()) == [NOW + timedelta(seconds=60)] * 2
    watch.clock.set_by(-HOUR)
    assert record.nows(watch.clock.now()) == [NOW + timedelta(seconds=60 - HOUR), NOW + timedelta(seconds=60)]
    watch.clock.reboot(10)
    assert record.nows(watch.clock.now()) == [NOW + timedelta(seconds=70 - HOUR)]


class TestPuttingBackIntoService:
    """P3: on_ended waits while another event is open for which this VM was prepared."""

    def test_of_one_event_while_another_is_prepared_for_and_pending(self, watch):
        watch.see(make_event("Freeze"), make_event("Reboot"))
        for _number in range(2):
            watch.end(watch.begin())
        watch.see(make_event("Reboot"))
        assert watch.due() == []
        watch.see()
        # In the order of their ends, one after the other
        first = watch.begin()
        assert watch.state.response(first).event == 1
        assert watch.due() == []
        watch.end(first)
        assert [each.event for each in watch.due_records()] == [2]

    def test_a_preparation_waits_while_it_runs_and_goes_before_one_that_has_not_begun(self, watch):
        watch.see(make_event("A"))
        watch.end(watch.begin())
        watch.see()
        restoring = watch.begin()
        watch.see(make_event("B"))
        assert watch.due() == []
        # Its process yielded, or died.
        watch.running.discard(restoring)
        assert [(each.event, each.phase) for each in watch.due_records()] == [(2, "announced")]

    def test_a_preparation_that_failed_after_it_had_begun_counts_too(self, watch):
        watch.see(make_event("A"), make_event("B"))
        watch.end(watch.begin())
        watch.end(watch.begin(), states.FAILED)
        watch.see(make_event("B"))
        assert watch.due() == []
        watch.see()
        assert [each.event for each in watch.due_records()] == [1]


class TestUnclearAnswers:
    """P4: only a document in which every entry can be read ends an event."""

    def test_an_unreadable_entry_ends_nothing(self, watch):
        watch.see(make_event())
        watch.end(watch.begin())
        unclear = make_document()._replace(is_clear=False)
        watch.hear(unclear)
        assert watch.phases == [("A1", "announced", None)]
        watch.see(make_event())
        assert watch.responses == [("announced", "succeeded")]
        watch.see()
        assert watch.phases == [("A1", "ended", "withdrawn")]

    def test_after_five_minutes_those_that_took_place_end(self, watch):
        events = [make_event(name) for name in ("seen", "started", "approved", "due")]
        events[3] = events[3]._replace(not_before=NOW + timedelta(seconds=100))
        watch.see(*events)
        watch.see(events[0], started(events[1]), *events[2:])
        watch.approve(states.APPROVED, number=3)
        watch.clock.advance(200)
        watch.hear(None, 299.0)
        assert {phase for _name, phase, _outcome in watch.phases} == {"announced", "started"}
        watch.hear(None, 300.0)
        assert watch.phases == [
            ("seen", "announced", None),
            *[(name, "ended", "completed") for name in ("started", "approved", "due")],
        ]

    def test_an_event_without_vms_gets_its_rule_as_soon_as_it_lists_them(self, watch):
        watch.see(make_event(resources=(), names_its_vms=False))
        assert watch.due() == []
        (line,) = watch.see(make_event())
        assert line == "Reboot A1 lists this VM now (rule Drain)."
        assert watch.due() == ["announced"]
        watch.end(watch.begin())
        watch.see()
        assert watch.due() == ["ended"]

    def test_vms_that_are_missing_once_change_nothing(self, watch):
        watch.see(make_event())
        assert watch.see(make_event(resources=(), names_its_vms=False)) == []
        assert watch.state.all_events()[0].event.resources == ("web-1",)


def test_a_disk_that_was_copied_with_an_open_event_restores_nothing_on_the_other_vm(watch):
    watch.see(make_event())
    watch.end(watch.begin())
    watch.clock.reboot()
    lines = watch.see(make_event(), name="web-2")
    assert [line.startswith("Reboot A1: ") for line in lines] == [True]
    assert watch.phases == [("A1", "ended", "withdrawn")]
    assert watch.due() == []
    assert watch.responses == [("announced", "succeeded")]


def test_more_events_than_any_vm_has_are_said_and_not_followed(watch):
    lines = watch.see(*[make_event(f"E{number}") for number in range(MOST_OPEN + 20)])
    assert len(watch.phases) == MOST_OPEN
    assert len(lines) == 12
    assert "Further ones are not followed" in lines[-1]
    # It is told for as long as it holds, and the caller says it once.
    assert watch.see(*[make_event(f"E{number}") for number in range(MOST_OPEN + 30)]) == lines[-1:]


def test_p9_events_that_ended_and_wait_for_another_one_are_bounded_too(watch):
    """Their on_ended waits while another event is open that was prepared for, which may be for days."""
    watch.see(make_event("A1"))
    watch.end(watch.begin())
    for number in range(20):
        watch.see(make_event("A1"), *[make_event(f"E{number}-{each}", event_type="Freeze") for each in range(20)])
    assert len(watch.state.pending_events()) == MOST_PENDING
    assert watch.phases[0] == ("A1", "announced", None)


def test_p9_events_that_ended_and_wait_leave_room_for_new_ones(watch):
    watch.see(make_event("A1"))
    watch.end(watch.begin())
    watch.see(make_event("A1"), *[make_event(f"E{number}", event_type="Freeze") for number in range(MOST_OPEN - 1)])
    watch.see(make_event("A1"))
    assert len(watch.state.pending_events()) == MOST_OPEN
    assert watch.see(make_event("A1"), make_event("P1", event_type="Preempt")) == ["Preempt P1 announced (rule Drain)."]


def test_p9_the_event_that_comes_when_a_hundred_others_end_is_followed_at_once(watch):
    watch.see(*[make_event(f"E{number}") for number in range(MOST_OPEN)])
    lines = watch.see(make_event("R1"))
    assert watch.phases[-1] == ("R1", "announced", None)
    assert "Further ones are not followed" not in "".join(lines)


@pytest.mark.parametrize("phase", ["announced", "started", "ended"])
def test_p5_after_a_boot_the_preparation_waits_for_a_document_that_lists_its_event(watch, phase):
    watch.see(started(make_event()) if phase == "started" else make_event())
    if phase == "ended":
        watch.see()
    assert watch.due() == [phase]
    watch.clock.reboot()
    assert watch.due() == ([] if phase == "announced" else [phase])
    # An empty body lists nothing.
    watch.hear(None)
    assert watch.due() == ([] if phase == "announced" else [phase])
    if phase == "announced":
        watch.see(make_event())
        assert watch.due() == [phase]


def test_p5_a_preparation_whose_time_comes_after_a_boot_waits_too(watch):
    watch.rules = [make_rule(lead_time=300, **STEPS)]
    watch.see(make_event())
    watch.clock.reboot(600)
    assert watch.due() == []
    watch.see(make_event())
    assert watch.due() == ["announced"]


def test_a_document_is_written_down_whole_or_not_at_all(watch, monkeypatch):
    watch.see(make_event())

    def fail(*_arguments: Any) -> None:
        raise OSError

    monkeypatch.setattr(watch.state, "add_response", fail)
    with pytest.raises(OSError):  # noqa: PT011 - that of above
        watch.see(started(make_event()), make_event("B"))
    monkeypatch.undo()
    assert watch.phases == [("A1", "announced", None)]
    watch.see(started(make_event()), make_event("B"))
    assert watch.phases == [("A1", "started", None), ("B", "announced", None)]
    assert watch.responses == [("announced", "skipped"), ("started", "planned"), ("announced", "planned")]
