# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is written down of a document, and which responses are due when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import Event
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import records as states
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.tracker import (
    due_responses,
    may_resume,
    record_document,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    IN_15_MINUTES,
    NOW,
    make_document,
    make_event,
    make_rule,
    started,
)

pytestmark = pytest.mark.filterwarnings("error")

STEPS = {f"on_{phase}": [{"command": [phase]}] for phase in ("announced", "started", "ended")}
HOUR = 3600.0


class Watch:
    """The state under a sequence of documents, for web-1."""

    def __init__(self, state: Any, clock: Any) -> None:
        self.state = state
        self.clock = clock
        self.rules = [make_rule(**STEPS)]

    def see(self, *events: Event) -> list[str]:
        return record_document(self.state, self.rules, make_document(*events), self.clock.now(), "web-1")

    @property
    def phases(self) -> list[tuple[str, str, str | None]]:
        return [(each.event.event_id, each.phase, each.outcome) for each in self.state.all_events()]

    @property
    def responses(self) -> list[tuple[str, str]]:
        """Phase and state of every response to the events, in the order in which they were made."""
        found = [each for event in self.state.all_events() for each in self.state.responses_to(event.number)]
        return [(each.phase, each.state) for each in sorted(found)]

    def due(self) -> list[str]:
        return [response.phase for response in due_responses(self.state, self.clock.now())]

    def finish(self, result: str = states.SUCCEEDED) -> None:
        """End the first unfinished response."""
        with self.state.transaction():
            self.state.finish_response(self.state.unfinished_responses()[0].number, result, None, self.clock.now())


@pytest.fixture
def watch(state, clock):
    return Watch(state, clock)


def test_announced_started_ended(watch):
    assert watch.see(make_event()) == ["Reboot A1 announced (rule Drain)."]
    assert watch.phases == [("A1", "announced", None)]
    assert watch.due() == ["announced"]
    watch.finish()
    assert watch.see(started(make_event())) == ["Reboot A1 started."]
    assert watch.phases == [("A1", "started", None)]
    assert watch.due() == ["started"]
    watch.finish()
    assert watch.see() == ["Reboot A1 ended, completed."]
    assert watch.phases == [("A1", "ended", "completed")]
    assert watch.due() == ["ended"]
    watch.finish()
    assert watch.due() == []
    record = watch.state.all_events()[0]
    assert (record.announced_at, record.started_at, record.ended_at) == (NOW.timestamp(),) * 3


def test_s3_an_event_that_is_first_seen_started_was_never_announced(watch):
    watch.see(started(make_event()))
    assert watch.responses == [("started", "planned")]
    assert watch.state.all_events()[0].announced_at is None
    watch.see()
    assert watch.responses == [("started", "planned"), ("ended", "planned")]


def test_the_same_document_changes_nothing(watch):
    watch.see(make_event(), started(make_event("B")))
    before = watch.state.version
    assert watch.see(make_event(), started(make_event("B"))) == []
    assert watch.state.version == before


def test_started_back_to_scheduled_stays_started(watch):
    watch.see(make_event())
    watch.see(started(make_event()))
    assert watch.see(make_event(description="again")) == []
    record = watch.state.all_events()[0]
    assert (record.phase, record.event.event_status, record.event.description) == ("started", "Started", "again")
    watch.see()
    assert watch.phases == [("A1", "ended", "completed")]


def test_what_changes_of_an_event_is_kept(watch):
    watch.see(make_event())
    later = make_event(not_before=IN_15_MINUTES + timedelta(hours=1), resources=("web-1", "web-2"))
    assert watch.see(later) == []
    assert watch.state.all_events()[0].event == later


def test_s10_an_id_in_other_letter_case_is_the_same_event(watch):
    watch.see(make_event("aBc"))
    assert watch.see(started(make_event("AbC"))) == ["Reboot AbC started."]
    assert len(watch.state.all_events()) == 1


def test_an_event_that_is_listed_again_after_it_ended_is_a_new_occurrence(watch):
    watch.see(make_event())
    watch.see()
    assert watch.see(make_event()) == ["Reboot A1 announced (rule Drain)."]
    assert watch.phases == [("A1", "ended", "withdrawn"), ("A1", "announced", None)]
    # The first announcement was overtaken by the end of its event.
    assert watch.responses == [("announced", "skipped"), ("ended", "planned"), ("announced", "planned")]


def test_s18_an_event_of_other_vms_is_not_ours(watch):
    assert watch.see(make_event(resources=("web-2", "db"))) == []
    assert watch.phases == []


def test_an_event_that_leaves_us_has_ended_for_us(watch):
    watch.see(make_event(resources=("web-1", "web-2")))
    assert watch.see(make_event(resources=("web-2",))) == ["Reboot A1 ended, withdrawn."]


def test_s10_our_name_in_other_letter_case(watch):
    assert watch.see(make_event(resources=("WEB-1",))) == ["Reboot A1 announced (rule Drain)."]


def test_an_event_that_names_no_vm_is_noted_and_nothing_is_done(watch):
    (line,) = watch.see(make_event(resources=()))
    assert line.startswith("Reboot A1 announced: it names no VM")
    record = watch.state.all_events()[0]
    assert record.rule is None
    assert "names no VM" in record.note
    assert watch.responses == []
    assert watch.see() == ["Reboot A1 ended, withdrawn."]
    assert watch.responses == []


def test_an_event_that_no_rule_matches_is_noted(watch):
    watch.rules = [make_rule(match={"event_types": ["Freeze"]}, **STEPS)]
    assert watch.see(make_event()) == ["Reboot A1 announced: no rule matches; nothing is done."]
    assert watch.responses == []


def test_an_event_on_which_a_query_fails_gets_no_response_and_the_note_says_so(watch):
    pytest.importorskip("jmespath", reason="not part of a target's Python")
    watch.rules = [make_rule("Odd", match={"query": "seconds_until_start < 'soon'"}, **STEPS), make_rule(**STEPS)]
    watch.see(make_event())
    record = watch.state.all_events()[0]
    assert record.rule is None
    assert record.note.startswith("the query of rule Odd failed (")
    assert record.note.endswith("; nothing is done")
    assert watch.responses == []


def test_the_rule_is_decided_when_the_event_is_first_seen_and_kept(watch):
    watch.see(make_event())
    watch.rules = [make_rule("New", on_ended=[{"command": ["other"]}])]
    watch.see()
    record = watch.state.all_events()[0]
    assert record.rule == make_rule(**STEPS)
    ended = watch.state.responses_to(record.number)[-1]
    assert [step.content for step in watch.state.steps(ended.number)] == [{"command": ["ended"]}]


def test_text_from_azure_is_escaped_in_the_log(watch):
    (line,) = watch.see(make_event("A\n<3>\x1b[31m", event_type="Re\nboot"))
    assert line.isprintable()


@pytest.mark.parametrize(
    ("between", "outcome"),
    [
        pytest.param(lambda watch: None, "withdrawn", id="nothing"),
        pytest.param(lambda watch: watch.see(started(make_event())), "completed", id="it was seen started"),
        pytest.param(lambda watch: watch.clock.reboot(), "completed", id="the VM booted"),
        pytest.param(lambda watch: approve(watch, states.APPROVED), "completed", id="it had been approved"),
        pytest.param(lambda watch: approve(watch, states.WAITING), "withdrawn", id="its approval waits for others"),
        pytest.param(lambda watch: watch.clock.advance(900), "completed", id="its time had come"),
        pytest.param(lambda watch: watch.clock.advance(899), "withdrawn", id="its time had nearly come"),
        pytest.param(lambda watch: watch.clock.set_by(HOUR), "withdrawn", id="somebody set the clock forward"),
        pytest.param(
            lambda watch: (watch.clock.advance(900), watch.clock.set_by(-HOUR)),
            "completed",
            id="its time had come, by a clock set back",
        ),
    ],
)
def test_the_outcome(watch, between, outcome):
    watch.see(make_event())
    between(watch)
    watch.see()
    assert watch.phases == [("A1", "ended", outcome)]
    assert watch.responses[-1] == ("ended", "planned")


def approve(watch: Watch, approval: str) -> None:
    with watch.state.transaction():
        watch.state.set_approval(watch.state.open_events()[0].number, approval, ("web-2",), watch.clock.now())


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

    def test_it_is_due_by_the_clock(self, watch):
        watch.see(make_event())
        assert watch.due() == []
        watch.clock.advance(599)
        assert watch.due() == []
        assert watch.responses == [("announced", "planned")]
        watch.clock.advance(1)
        assert watch.due() == ["announced"]
        assert watch.responses == [("announced", "due")]
        watch.clock.advance(100)
        assert watch.due() == ["announced"]

    def test_without_lead_time_it_is_due_at_once(self, watch):
        watch.rules = [make_rule(**STEPS)]
        watch.see(make_event(not_before=None))
        assert watch.due() == ["announced"]

    def test_a_lead_time_of_0_is_due_when_azure_may_start(self, watch):
        watch.rules = [make_rule(lead_time=0, **STEPS)]
        watch.see(make_event())
        watch.clock.advance(899)
        assert watch.due() == []
        watch.clock.advance(1)
        assert watch.due() == ["announced"]

    def test_less_notice_than_lead_time_is_due_at_once(self, watch):
        watch.see(make_event(not_before=NOW + timedelta(seconds=30)))
        assert watch.due() == ["announced"]

    def test_an_unknown_start_is_never_due(self, watch):
        watch.see(make_event(not_before=None))
        watch.clock.advance(100 * HOUR)
        assert watch.due() == []

    def test_a_start_that_becomes_known_counts(self, watch):
        watch.see(make_event(not_before=None))
        watch.see(make_event(not_before=NOW + timedelta(seconds=299)))
        assert watch.due() == ["announced"]

    def test_a_start_that_is_put_off_counts(self, watch):
        watch.see(make_event())
        watch.see(make_event(not_before=IN_15_MINUTES + timedelta(hours=1)))
        watch.clock.advance(900)
        assert watch.due() == []
        watch.clock.advance(HOUR - 300)
        assert watch.due() == ["announced"]

    @pytest.mark.parametrize("stepped", [HOUR, -HOUR])
    def test_the_clock_is_stepped_by_an_hour(self, watch, stepped):
        """Too early does less harm than too late: the clock that says so first counts."""
        watch.see(make_event())
        watch.clock.set_by(stepped)
        assert watch.due() == (["announced"] if stepped > 0 else [])
        watch.clock.advance(599)
        assert watch.due() == (["announced"] if stepped > 0 else [])
        watch.clock.advance(1)
        assert watch.due() == ["announced"]

    def test_the_clock_was_wrong_when_the_event_was_seen_and_is_set_right(self, watch):
        watch.clock.set_by(-HOUR)
        watch.see(make_event())
        assert watch.due() == []
        watch.clock.advance(300)
        watch.clock.set_by(HOUR + 300)
        assert watch.due() == ["announced"]

    def test_after_a_boot_the_wall_clock_alone_counts(self, watch):
        watch.see(make_event())
        watch.clock.reboot(300)
        assert watch.due() == []
        watch.clock.advance(300)
        assert watch.due() == ["announced"]

    @pytest.mark.parametrize(
        ("then", "why"), [((started(make_event()),), "started"), ((), "ended")], ids=["started", "ended"]
    )
    def test_what_is_overtaken_is_skipped(self, watch, then, why):
        watch.see(make_event())
        watch.see(*then)
        skipped, following = watch.state.responses_to(1)
        assert (skipped.phase, skipped.state) == ("announced", "skipped")
        assert skipped.message == f"The event {why} before this was due."
        assert [step.state for step in watch.state.steps(skipped.number)] == ["skipped"]
        assert following.phase == why
        assert watch.due() == [why]

    def test_what_is_due_already_is_not_skipped(self, watch):
        watch.see(make_event())
        watch.clock.advance(600)
        assert watch.due() == ["announced"]
        watch.see(started(make_event()))
        assert watch.due() == ["announced"]
        assert watch.responses == [("announced", "due"), ("started", "planned")]


def test_the_clocks_of_a_record(watch):
    watch.see(make_event())
    record = watch.state.all_events()[0]
    watch.clock.advance(60)
    assert record.nows(watch.clock.now()) == [NOW + timedelta(seconds=60)] * 2
    watch.clock.set_by(-HOUR)
    assert record.nows(watch.clock.now()) == [NOW + timedelta(seconds=60 - HOUR), NOW + timedelta(seconds=60)]
    watch.clock.reboot(10)
    assert record.nows(watch.clock.now()) == [NOW + timedelta(seconds=70 - HOUR)]


def test_the_responses_to_one_event_run_one_after_the_other(watch):
    watch.see(make_event(), make_event("B"))
    assert watch.due() == ["announced", "announced"]
    watch.see(started(make_event()), make_event("B"))
    watch.see(make_event("B"))
    assert watch.due() == ["announced", "announced"]
    # The next one follows however the one before it ended.
    watch.finish(states.FAILED)
    assert watch.due() == ["announced", "started"]
    # That of B
    watch.finish()
    assert watch.due() == ["started"]
    watch.finish()
    assert watch.due() == ["ended"]
    watch.finish()
    assert watch.due() == []


def test_a_response_that_is_running_is_still_due(watch):
    """The check asks the lock whether it runs; one that died is started again."""
    watch.see(make_event())
    (response,) = due_responses(watch.state, watch.clock.now())
    with watch.state.transaction():
        watch.state.begin_response(response.number, states.RUNNING, watch.clock.now())
    assert watch.due() == ["announced"]


@pytest.mark.parametrize(
    ("phase", "rebooted", "answered", "expected"),
    [
        ("announced", False, False, True),
        ("announced", False, True, True),
        ("announced", True, False, False),
        ("announced", True, True, True),
        ("started", True, False, True),
        ("ended", True, False, True),
    ],
)
def test_after_a_boot_the_preparation_waits_until_azure_has_answered(watch, phase, rebooted, answered, expected):
    watch.see(started(make_event()) if phase == "started" else make_event())
    if phase == "ended":
        watch.see()
    (response,) = due_responses(watch.state, watch.clock.now())
    assert response.phase == phase
    if rebooted:
        watch.clock.reboot()
    assert may_resume(response, watch.clock.now(), answered) is expected


def test_a_response_that_becomes_due_after_a_boot_belongs_to_this_boot(watch):
    watch.rules = [make_rule(lead_time=300, **STEPS)]
    watch.see(make_event())
    watch.clock.reboot(600)
    (response,) = due_responses(watch.state, watch.clock.now())
    assert may_resume(response, watch.clock.now(), answered=False)


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
