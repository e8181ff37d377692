# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The life cycle of an event: what a document makes of it, and what may be done next."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Document
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    RESTORE,
    STARTED,
    UNCLEAR_ENDS_AFTER,
    WAITING,
    Known,
    Response,
    StepResult,
    TrackedEvent,
    follow,
    is_leader_of_several,
    is_obsolete,
    is_of_another_vm,
    may_approve,
    must_prepare_again,
    same_boot,
    short_name,
    why_not_now,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import parse as document
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import raw_event as raw


def known(*events: dict[str, Any], **facts: bool) -> list[Known]:
    """Return the events as they were seen, with these facts about each of them."""
    return [Known(event, **facts) for event in document(*events).events]


def told(before: list[Known], after: Document) -> list[tuple[str, str, str | None]]:
    return [(each.event.event_id, each.phase, each.outcome) for each in follow(before, after, "web-1").transitions]


A, B, C = raw("A"), raw("B"), raw("C")
A_STARTED, B_STARTED = raw("A", "Started"), raw("B", "Started")

# What was known, the document, and what became of the events.
DOCUMENTS = [
    pytest.param([], [], [], id="nothing"),
    pytest.param([], [A], [("A", "announced", None)], id="announced"),
    pytest.param([A], [A], [], id="the same document"),
    pytest.param([A], [A_STARTED], [("A", "started", None)], id="started"),
    pytest.param([], [A_STARTED], [("A", "started", None)], id="S3 straight to started"),
    pytest.param([A_STARTED], [A_STARTED], [], id="still started"),
    pytest.param([A_STARTED], [A], [], id="Started back to Scheduled is no news"),
    pytest.param([A_STARTED], [], [("A", "ended", "completed")], id="ended after it was seen started"),
    pytest.param([A], [], [("A", "ended", "withdrawn")], id="ended without a sign that it happened"),
    pytest.param([A], [B], [("A", "ended", "withdrawn"), ("B", "announced", None)], id="S17 one replaces the other"),
    pytest.param(
        [A, B_STARTED],
        [C, A_STARTED],
        [("B", "ended", "completed"), ("C", "announced", None), ("A", "started", None)],
        id="one ends, one comes, one starts",
    ),
    pytest.param([A, B], [B, A], [], id="another order"),
    pytest.param([raw("AbC-1")], [raw("aBc-1")], [], id="S10 the id in other letter case"),
    pytest.param([raw("a")], [raw("A", "STARTED")], [("A", "started", None)], id="S10 the status in capitals"),
    pytest.param([], [raw("A", "Postponed")], [("A", "announced", None)], id="an unknown status has not started"),
    pytest.param([], [raw("A", None)], [("A", "announced", None)], id="no status has not started"),
    pytest.param([A], [raw("A", "Postponed")], [], id="an unknown status after Scheduled"),
    pytest.param([A], [raw("A", NotBefore="Sat, 21 Nov 2026 11:00:00 GMT")], [], id="the start was put off"),
    pytest.param([A], [raw("A", Resources=["web-1", "web-2"])], [], id="another VM joined"),
]


@pytest.mark.parametrize(("before", "after", "expected"), DOCUMENTS)
def test_what_became_of_the_events(before, after, expected):
    assert told(known(*before), document(*after)) == expected


@pytest.mark.parametrize("incarnations", [(1, 2), (2, 2), (9, 1), ("x", None)], ids=str)
def test_s16_the_incarnation_says_nothing(incarnations):
    after = document(A_STARTED, incarnation=incarnations[1])
    before = [Known(event) for event in document(A, incarnation=incarnations[0]).events]
    assert told(before, after) == [("A", "started", None)]


@pytest.mark.parametrize(
    ("event", "facts", "outcome"),
    [
        pytest.param(A, {}, "withdrawn", id="nothing happened"),
        pytest.param(A_STARTED, {}, "completed", id="it was seen started"),
        pytest.param(A, {"approved": True}, "completed", id="it had been approved"),
        pytest.param(A, {"rebooted": True}, "completed", id="the VM booted meanwhile"),
        pytest.param(A, {"fell_due": True}, "completed", id="its time had come"),
    ],
)
def test_the_outcome_of_an_event_that_is_gone(event, facts, outcome):
    assert told(known(event, **facts), document()) == [("A", "ended", outcome)]


def test_the_facts_count_for_their_own_event_only():
    before = [*known(A, rebooted=True), *known(B)]
    assert told(before, document()) == [("A", "ended", "completed"), ("B", "ended", "withdrawn")]


def test_an_ended_event_is_told_as_it_was_last_seen_and_others_as_they_are_now():
    before = known(raw("A", Description="old"), raw("B", Description="old"))
    ended, announced = follow(before[:1], document(raw("C", Description="new")), "web-1").transitions
    assert (ended.event.description, announced.event.description) == ("old", "new")
    (begun,) = follow(before[1:], document(raw("B", "Started", Description="new")), "web-1").transitions
    assert begun.event.description == "new"


def test_an_event_that_is_listed_again_after_it_ended_is_announced_anew():
    first = document(A)
    assert told([], first) == [("A", "announced", None)]
    assert told(known(A), document()) == [("A", "ended", "withdrawn")]
    assert told([], first) == [("A", "announced", None)]


# What an answer that is not a clear document makes of events that were known: those that end, those that are missing.
UNCLEAR = [
    pytest.param(None, 0.0, {}, [], ["A"], id="an empty body ends nothing"),
    pytest.param(None, UNCLEAR_ENDS_AFTER - 1, {"approved": True}, [], ["A"], id="nor does one of many, for a while"),
    pytest.param(None, UNCLEAR_ENDS_AFTER, {"approved": True}, ["A"], [], id="approved"),
    pytest.param(None, UNCLEAR_ENDS_AFTER, {"fell_due": True}, ["A"], [], id="due"),
    pytest.param(None, UNCLEAR_ENDS_AFTER, {"rebooted": True}, ["A"], [], id="the VM booted"),
    pytest.param(None, UNCLEAR_ENDS_AFTER * 9, {}, [], ["A"], id="only announced, however long"),
    pytest.param([None], 0.0, {"approved": True}, [], ["A"], id="the entry that cannot be read may be it"),
    pytest.param([None], UNCLEAR_ENDS_AFTER, {"approved": True}, ["A"], [], id="unreadable for long"),
    pytest.param([None, A], UNCLEAR_ENDS_AFTER, {"approved": True}, [], [], id="listed beside one that is unreadable"),
    pytest.param([raw(None)], 0.0, {"approved": True}, [], ["A"], id="EventId null"),
]


@pytest.mark.parametrize(("events", "seconds", "facts", "ended", "missing"), UNCLEAR)
def test_p4_an_unclear_answer(events, seconds, facts, ended, missing):
    after = None if events is None else document(*events)
    found = follow(known(A, **facts), after, "web-1", seconds)
    assert [(each.event.event_id, each.phase, each.outcome) for each in found.transitions] == [
        (name, ENDED, "completed") for name in ended
    ]
    assert [each.event_id for each in found.missing] == missing


# The VMs that an event listed before and lists now, and what becomes of it on web-1.
VMS = [
    (None, ["web-1"], "announced"),
    (None, ["WEB-1"], "announced"),
    (None, ["web-2"], None),
    (None, ["web-10"], None),
    (None, [], "announced"),
    (["web-1"], ["web-1", "web-2"], None),
    (["web-1"], ["web-2"], "ended"),
    (["web-1"], [], None),
    ([], ["web-2"], "ended"),
    ([], ["web-1"], None),
]


@pytest.mark.parametrize(("before", "now", "expected"), VMS)
def test_the_vms_of_an_event(before, now, expected):
    earlier = [] if before is None else known(raw("A", Resources=before))
    found = follow(earlier, document(raw("A", Resources=now)), "web-1")
    assert [each.phase for each in found.transitions] == ([expected] if expected else [])
    if before and not now:
        assert found.listed["a"].resources == tuple(before)


@pytest.mark.parametrize(
    ("resources", "listed", "expected"),
    [
        (["web-2"], False, True),
        (["web-2"], True, False),
        (["web-1"], False, False),
        (["web-1", "web-2"], False, False),
        ([], False, False),
    ],
)
def test_an_event_that_came_with_a_copy_of_a_disk(resources, listed, expected):
    assert is_of_another_vm(known(raw("A", Resources=resources))[0].event, "web-1", listed) is expected


@pytest.mark.parametrize(("one", "other", "expected"), [("a", "a", True), ("a", "b", False), (None, "b", True)])
def test_the_same_boot(one, other, expected):
    assert same_boot(one, other) is expected
    assert same_boot(other, one) is expected


def tracked(number: int, phase: str, *responses: Response, listed: bool = True, end: int | None = None) -> TrackedEvent:
    return TrackedEvent(number, f"event {number}", phase, listed, responses, end)


def response(number: int, phase: str, state: str) -> Response:
    """Return a response that is planned, due, begun (its process died), running or finished (after it had begun)."""
    return Response(
        number,
        phase,
        finished=state == "finished",
        due=state != "planned",
        begun=state in ("begun", "running", "finished"),
        running=state == "running",
    )


# The phase of an event, the state of its preparation, and whether what is left of that is of no use.
OVERTAKEN = [
    (ANNOUNCED, "due", False),
    (STARTED, "due", False),
    (STARTED, "begun", False),
    (ENDED, "planned", True),
    (ENDED, "due", True),
    (ENDED, "begun", True),
    (ENDED, "running", True),
    (ENDED, "finished", False),
]


@pytest.mark.parametrize(("phase", "state", "expected"), OVERTAKEN)
def test_a_preparation_that_is_obsolete(phase, state, expected):
    prepare = response(1, ANNOUNCED, state)
    assert is_obsolete(prepare, tracked(1, phase, prepare)) is expected
    restore = response(2, ENDED, state)
    assert not is_obsolete(restore, tracked(1, phase, restore))
    for before in (WAITING, RESTORE):
        waiting = response(3, before, state)
        assert is_obsolete(waiting, tracked(1, phase, waiting)) is (state != "finished" and phase != ANNOUNCED)
        approved = tracked(1, phase, waiting)._replace(approved=True)
        assert is_obsolete(waiting, approved) is (state != "finished")


# The states of the preparation, of on_started and of on_ended of one event, and which of them may begin now.
ONE_EVENT = [
    (("due",), [1]),
    (("begun",), [1]),
    (("due", "due"), [1]),
    (("running", "due", "due"), []),
    (("begun", "due", "due"), [1]),
    (("finished", "due", "due"), [2]),
    (("finished", "running", "due"), []),
    (("finished", "finished", "due"), [3]),
    # A failed one that is tried again by hand runs beside nothing.
    (("due", "running"), []),
    (("due", "finished", "running"), []),
]


@pytest.mark.parametrize(("states", "expected"), ONE_EVENT)
def test_p6_the_responses_of_one_event_never_overlap(states, expected):
    responses = [
        response(number, (ANNOUNCED, STARTED, ENDED)[number - 1], state) for number, state in enumerate(states, 1)
    ]
    phase = responses[-1].phase
    mine = tracked(1, phase, *responses, end=1 if phase == ENDED else None)
    waiting = [each for each in responses if not each.finished and not each.running]
    assert [each.number for each in waiting if why_not_now(each, mine, []) is None] == expected


# The phase of what still runs for an event that ended, and of what is due for the next event with the same id.
@pytest.mark.parametrize("running", [ANNOUNCED, STARTED])
@pytest.mark.parametrize("phase", [ANNOUNCED, STARTED, ENDED])
def test_p6_an_id_that_is_used_anew_waits_for_what_still_runs(running, phase):
    old = tracked(1, ENDED, response(1, running, "running"), response(2, ENDED, "due"), end=1)._replace(key="a")
    due = response(3, phase, "due")
    new = tracked(2, phase, due, end=2 if phase == ENDED else None)._replace(key="a")
    assert why_not_now(due, new, [old]) is not None
    stopped = old._replace(responses=(response(1, running, "finished"),))
    assert why_not_now(due, new, [stopped]) is None


@pytest.mark.parametrize(
    ("phase", "expected"), [(ANNOUNCED, False), (WAITING, False), (RESTORE, False), (STARTED, True), (ENDED, True)]
)
def test_p5_only_what_comes_before_the_event_waits_until_its_event_is_listed_in_this_boot(phase, expected):
    due = response(1, phase, "due")
    assert (why_not_now(due, tracked(1, phase, due, listed=False), []) is None) is expected


# Another event, and whether the on_ended of this one, which ended second, may run or go on beside it.
BESIDE = [
    pytest.param(tracked(2, ANNOUNCED), True, id="without any response"),
    pytest.param(tracked(2, ANNOUNCED, response(3, ANNOUNCED, "planned")), True, id="not prepared for yet"),
    pytest.param(tracked(2, ANNOUNCED, response(3, ANNOUNCED, "due")), False, id="about to be prepared for"),
    pytest.param(
        tracked(2, ANNOUNCED, response(3, ANNOUNCED, "due"), listed=False), True, id="it may be over after a boot"
    ),
    pytest.param(
        tracked(2, ANNOUNCED, response(3, ANNOUNCED, "begun"), listed=False), False, id="prepared before a boot"
    ),
    pytest.param(tracked(2, ANNOUNCED, response(3, ANNOUNCED, "running")), False, id="being prepared for"),
    pytest.param(tracked(2, ANNOUNCED, response(3, ANNOUNCED, "finished")), False, id="prepared for"),
    pytest.param(tracked(2, STARTED, response(3, ANNOUNCED, "finished")), False, id="prepared for and started"),
    pytest.param(tracked(2, STARTED, response(3, STARTED, "due")), False, id="D4: started, and never prepared for"),
    pytest.param(tracked(2, STARTED), False, id="D4: started, without any response"),
    pytest.param(tracked(2, STARTED, listed=False), False, id="D4: started before a boot"),
    pytest.param(
        tracked(2, ENDED, response(3, STARTED, "running"), end=3), False, id="ended later, its on_started still runs"
    ),
    pytest.param(
        tracked(2, ENDED, response(3, ANNOUNCED, "running"), response(4, ENDED, "due"), end=3),
        False,
        id="ended later, its preparation still runs",
    ),
    pytest.param(tracked(2, ENDED, response(4, ENDED, "due"), end=3), True, id="ended later"),
    pytest.param(tracked(2, ENDED, response(4, ENDED, "due"), end=1), False, id="ended earlier"),
    pytest.param(tracked(2, ENDED, response(4, ENDED, "finished"), end=1), True, id="ended earlier and restored"),
    pytest.param(tracked(2, ENDED, response(4, ENDED, "running"), end=3), False, id="its on_ended runs"),
]


@pytest.mark.parametrize(("other", "expected"), BESIDE)
def test_p3_on_ended_beside_another_event(other, expected):
    restore = response(2, ENDED, "due")
    mine = tracked(1, ENDED, response(1, ANNOUNCED, "finished"), restore, end=2)
    assert (why_not_now(restore, mine, [other]) is None) is expected


@pytest.mark.parametrize(
    ("event_type", "expected"),
    [("Reboot", "Reboot FFB0A026"), (None, "event FFB0A026"), ("Re\nboot", '"Re\\nboot" FFB0A026')],
)
def test_a_reason_names_another_event_by_its_type_and_the_first_characters_of_its_id(event_type, expected):
    event = known(raw("FFB0A026-1E9D-4C3B-8F2A-6B5D4C3E2F1A", EventType=event_type))[0].event
    restore = response(2, ENDED, "due")
    other = tracked(2, STARTED)._replace(name=short_name(event))
    why = why_not_now(restore, tracked(1, ENDED, restore, end=2), [other])
    assert why == f"for the end of {expected}, which has started"


def test_p6_on_waiting_runs_behind_the_preparation_and_before_on_started():
    prepare, waiting, begun = (response(at, phase, "due") for at, phase in enumerate((ANNOUNCED, WAITING, STARTED), 1))
    mine = tracked(1, ANNOUNCED, prepare, waiting, begun)
    assert [why_not_now(each, mine, []) is None for each in mine.responses] == [True, False, False]
    mine = mine._replace(responses=(response(1, ANNOUNCED, "finished"), waiting, begun))
    assert [why_not_now(each, mine, []) is None for each in (waiting, begun)] == [True, False]


# Another event, and whether this VM may be put back for this one, which is still announced, beside it.
BESIDE_A_RESTORE = [
    pytest.param(tracked(2, ANNOUNCED, response(3, ANNOUNCED, "planned")), True, id="not prepared for yet"),
    pytest.param(tracked(2, ANNOUNCED, response(3, ANNOUNCED, "finished")), False, id="prepared for"),
    pytest.param(tracked(2, ANNOUNCED, response(3, ANNOUNCED, "due")), False, id="about to be prepared for"),
    pytest.param(
        tracked(2, ANNOUNCED, response(3, ANNOUNCED, "finished"), response(4, RESTORE, "due")), True, id="put back too"
    ),
    pytest.param(
        tracked(2, ANNOUNCED, response(3, ANNOUNCED, "finished"), response(4, RESTORE, "running")),
        False,
        id="being put back too",
    ),
    pytest.param(tracked(2, STARTED), False, id="started"),
    pytest.param(tracked(2, STARTED, response(4, RESTORE, "due")), False, id="started, and to be put back before"),
    pytest.param(tracked(2, ENDED, response(3, ENDED, "running"), end=1), False, id="its on_ended runs"),
    # It waits for this one, and so this one must not wait for it.
    pytest.param(tracked(2, ENDED, response(3, ENDED, "due"), end=1), True, id="ended, and its on_ended waits"),
]


@pytest.mark.parametrize(("other", "expected"), BESIDE_A_RESTORE)
def test_p3_a_restore_before_its_event_beside_another_event(other, expected):
    restore = response(2, RESTORE, "due")
    mine = tracked(1, ANNOUNCED, response(1, ANNOUNCED, "finished"), restore)
    assert (why_not_now(restore, mine, [other]) is None) is expected


def test_p3_a_restore_before_its_event_waits_for_a_run_that_prepared_for_the_same_event():
    restore = response(2, RESTORE, "due")
    mine = tracked(1, ANNOUNCED, response(1, ANNOUNCED, "finished"), restore)._replace(marked=True)
    assert "for the run" in (why_not_now(restore, mine, []) or "")


@pytest.mark.parametrize("phase", [ANNOUNCED, STARTED])
def test_p3_nothing_takes_out_of_service_beside_a_restore_before_an_event(phase):
    prepare = response(1, phase, "due")
    other = tracked(2, ANNOUNCED, response(2, RESTORE, "running"))
    assert why_not_now(prepare, tracked(1, phase, prepare), [other]) is not None


@pytest.mark.parametrize(("begun", "expected"), [(True, False), (False, True)])
def test_p3_on_ended_of_another_event_waits_until_the_preparation_was_taken_back(begun, expected):
    due = response(2, ENDED, "due")
    mine = tracked(1, ENDED, due, end=1)
    prepare = response(3, ANNOUNCED, "finished")._replace(begun=begun)
    other = tracked(2, ANNOUNCED, prepare, response(4, RESTORE, "finished"))
    assert (why_not_now(due, mine, [other]) is None) is expected


def test_p3_on_waiting_prepares_nothing():
    restore = response(2, ENDED, "due")
    mine = tracked(1, ENDED, response(1, ANNOUNCED, "finished"), restore, end=2)
    assert why_not_now(restore, mine, [tracked(2, ANNOUNCED, response(3, WAITING, "finished"))]) is None


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (["web-1", "web-2"], True),
        (["WEB-1", "web-2"], True),
        (["web-2", "web-1"], False),
        (["web-1"], False),
        (["web-1", "WEB-1"], False),
        (["web-1", None], False),
        ([], False),
    ],
)
def test_the_leader_of_several_vms_speaks_for_all(resources, expected):
    assert is_leader_of_several(known(raw("A", Resources=resources))[0].event, "web-1") is expected


@pytest.mark.parametrize("phase", [ANNOUNCED, STARTED])
@pytest.mark.parametrize(
    ("state", "expected"), [("due", True), ("begun", True), ("running", False), ("finished", True)]
)
def test_d3_p3_what_takes_out_of_service_waits_only_for_an_on_ended_that_runs(phase, state, expected):
    prepare = response(1, phase, "due")
    other = tracked(2, ENDED, response(2, ENDED, state), end=1)
    assert (why_not_now(prepare, tracked(1, phase, prepare), [other]) is None) is expected


def test_p3_events_do_not_wait_for_each_other_in_a_circle():
    """Of any number of events in any states, something may run, unless all wait for an open event or a process."""
    states = ("due", "begun", "finished")
    ends = [tracked(number, ENDED, response(number, ENDED, "due"), end=9 - number) for number in range(1, 4)]
    for state in states:
        for phase in (ANNOUNCED, ENDED):
            prepared = tracked(5, phase, response(5, ANNOUNCED, state), end=1 if phase == ENDED else None)
            courses = [*ends, prepared]
            free = [
                each.number
                for one in courses
                for each in one.responses
                if not each.finished and not is_obsolete(each, one)
                if why_not_now(each, one, [other for other in courses if other is not one]) is None
            ]
            if phase == ENDED:
                assert free == [3]
            else:
                assert free == ([] if state == "finished" else [5])


# The boot in which each step succeeded and whether it approves, whether the event was approved, and what follows:
# prepare again, may approve.
STEPS = [
    pytest.param("b1 b1 approve:", False, False, True, id="all in this boot"),
    pytest.param("b0 b0 approve:", False, True, False, id="all in the boot before"),
    pytest.param("b0 b1 approve:", False, True, False, id="one in the boot before"),
    pytest.param("b0 - approve:", False, True, False, id="interrupted by the boot"),
    pytest.param("b1 - approve:", False, False, False, id="one is left"),
    pytest.param("- - approve:", False, False, False, id="none yet"),
    pytest.param("b0 b0 approve:", True, False, False, id="approved already, which a kill kept from being noted"),
    pytest.param("b0 approve:b0 -", False, False, False, id="the approval succeeded before the boot"),
    pytest.param("approve: -", False, False, True, id="at once"),
    pytest.param("b0 -", False, False, False, id="nothing to approve"),
]


@pytest.mark.parametrize(("steps", "approved", "again", "may"), STEPS)
def test_p2_what_was_prepared_before_a_boot(steps, approved, again, may):
    results = [
        StepResult(word.startswith("approve:"), word.replace("approve:", "").strip("-") or None)
        for word in steps.split()
    ]
    assert must_prepare_again(results, "b1", approved) is again
    assert may_approve(results, "b1") is may
