# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs that were broken off, and runs beside each other: the marks on the VMs tell one of another."""

from __future__ import annotations

import itertools
from datetime import datetime, timezone

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import (
    CHECKER,
    RESTORING,
    RUN,
    file_name,
    new_mark,
    set_state,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import verdict
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.hosts import take_answer
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.marks import (
    compare_marks,
    find_hindering,
    find_removable,
    note_at_work,
    tell_unclear,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._run.fleet import (
    START,
    Fleet,
    FleetEvent,
)


def faults(fleet):
    """Return what the run says at its end of each host that did not go well."""
    return verdict.conclude(fleet.run)["summary"]["faults"]


def test_p16_a_vm_has_a_mark_from_its_preparation_to_its_restore():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"])).stop_after(2)
    (mark,) = fleet.marks["web-1"].values()
    assert (mark["event_id"], mark["event_type"], mark["run"], mark["boot_id"]) == (
        "A1",
        "Reboot",
        fleet.run["id"],
        "boot-1",
    )
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"])).go()
    assert fleet.marks == {"web-1": {}}


@pytest.mark.parametrize(("turns", "done"), [(2, "prepare"), (3, "approve"), (4, "wait")])
def test_d1_a_run_that_was_broken_off_is_mended_by_the_next_when_the_event_is_over(turns, done):
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1", "web-2"], notice=100.0))
    fleet.stop_after(turns)
    assert fleet.done[-1] == done
    fleet.now += 5000
    fleet.boots["web-1"] = "boot-2"
    after = fleet.again().go()
    assert after.story == {"web-1": ["prepare A1", "restore A1"], "web-2": ["prepare A1", "restore A1"]}
    assert fleet.marks == {"web-1": {}, "web-2": {}}
    outcomes = {host: known["events"][0]["outcome"] for host, known in after.run["hosts"].items()}
    assert outcomes == {"web-1": "completed", "web-2": None}
    assert faults(after) == {}
    assert "web-1 is out of service since 2026-11-21T10:0" in after.said
    assert "for Reboot A1 by a run of anna on control." in after.said


def test_d1_one_that_begins_while_the_event_is_started_restores_when_it_is_over():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], lasts=400.0)).stop_after(3, 100)
    after = fleet.again().go()
    assert after.story == {"web-1": ["prepare A1", "restore A1"]}
    assert after.now >= START + 400
    assert faults(after) == {}


def test_d1_one_that_begins_before_the_event_prepares_anew():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"])).stop_after(2)
    after = fleet.again().go()
    assert after.story == {"web-1": ["prepare A1", "prepare A1", "restore A1"]}
    assert [event for _host, event, _names in after.posted] == ["A1"]
    assert fleet.marks == {"web-1": {}}


def test_d1_the_mark_of_a_run_that_was_broken_off_goes_where_the_next_prepares_nothing():
    first = Fleet(["web-1"], FleetEvent("A1", ["web-1"])).stop_after(2)
    after = first.again(prepare="nothing").go()
    assert (after.story["web-1"], faults(after)) == (["prepare A1", "restore A1"], {})
    assert first.marks == {"web-1": {}}


def test_d1_without_a_restore_file_the_vm_is_named_and_the_run_fails():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=10.0)).stop_after(2, 5000)
    after = fleet.again(restore="").go()
    (fault,) = faults(after)["web-1"]
    assert fault.startswith("web-1 is out of service since 2026-11-21T10:00:0")
    assert "has no event_response_restore" in fault
    assert len(fleet.marks["web-1"]) == 1


def test_d1_the_word_nothing_removes_the_mark():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=10.0)).stop_after(2, 5000)
    after = fleet.again(restore="nothing").go()
    assert (fleet.marks, faults(after)) == ({"web-1": {}}, {})


def test_who_may_not_be_restored_because_of_the_mark_of_another_run_is_told_so():
    events = [FleetEvent("A1", ["web-1"], notice=9000.0), FleetEvent("B2", ["web-1"], notice=9000.0)]
    first = Fleet(["web-1"], *events, event_ids=["A1"]).stop_after(2)
    after = first.again(event_ids=["B2"], approve=False, wait=False).go()
    *others, fault = faults(after)["web-1"]
    assert not [why for why in others if "not known to be restored" in why], others
    assert fault.startswith("web-1 was not restored: it is also out of service since 2026-11-21T10:0")
    assert fault.endswith(" for Reboot A1 by a run of anna on control, and that event is not known to be over.")


def test_a_restore_that_fails_again_and_again_runs_once_in_each_run_and_leaves_one_mark():
    first = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=10.0)).stop_after(2, 5000)
    # Two runs at once may each have left one.
    (mark,) = first.marks["web-1"].values()
    first.marks["web-1"]["A1 other"] = {**mark, "run": "other"}
    for _run in range(3):
        after = first.again()
        after.failing.add("restore web-1")
        after.go()
        assert after.story["web-1"].pop() == "restore A1 failed"
        assert after.story["web-1"] == ["prepare A1"]
        assert after.said.count("web-1 is out of service since") == 1
        assert "web-1 could not be restored" in faults(after)["web-1"][0]
    after = first.again().go()
    assert (after.story["web-1"], first.marks) == (["prepare A1", "restore A1"], {"web-1": {}})


@pytest.mark.parametrize("restore", ["", "nothing"])
def test_a_run_without_a_restore_file_leaves_no_mark(restore):
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"]), restore=restore).go()
    assert fleet.story == {"web-1": ["prepare A1"]}
    assert fleet.marks == {"web-1": {}}


def test_d1_an_event_that_the_run_leaves_out_is_named():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=10.0)).stop_after(2, 5000)
    after = fleet.again(event_types=["Freeze"]).go()
    assert "web-1 is out of service since" in after.said
    assert after.story == {"web-1": ["prepare A1"]}


def test_d1_an_id_that_is_over_is_restored_where_the_run_is_limited_to_it():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=10.0)).stop_after(2, 5000)
    after = fleet.again(event_ids=["A1"]).go()
    assert after.story == {"web-1": ["prepare A1", "restore A1"]}
    assert faults(after) == {}


def test_d1_the_same_where_the_vm_can_be_asked_only_at_last_and_the_variables_of_another_cannot_be_evaluated():
    """Seed 10044708 of the campaign of a run that is limited to some events."""
    event = FleetEvent("C7061BAC-AFDC-4513-B24B-AA5F13A16123", ["web-1"], event_type="Freeze", lasts=10.0)
    first = Fleet(["web-1", "web-2", "web-3"], event).stop_after(3, seconds=60.0)
    after = first.again(event_ids=[event.event_id])
    after.down["web-1"] = (after.now, after.now + 1.2)
    after.run["hosts"]["web-3"].update(settings={"group": ""}, fault="event_response_prepare cannot be evaluated.")
    after.go()
    assert after.story["web-1"][-1] == f"restore {event.event_id}"


def test_d1_where_no_document_tells_whether_the_event_is_over_the_vm_is_named():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=10.0)).stop_after(2, 5000)
    after = fleet.again()
    clear = after.answer
    after.answer = lambda host: {**clear(host), "document_is_clear": False}
    after.go()
    assert after.story == {"web-1": ["prepare A1"]}
    (fault,) = tell_unclear("web-1", after.run["hosts"]["web-1"])
    assert "No clear answer of Azure told that the event is over." in fault


def test_d2_p2_who_was_restored_by_another_run_is_prepared_again_before_the_approval():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("B2", ["web-1", "web-2"], notice=9000.0)).stop_after(2)
    # A person runs a restore for web-1.
    fleet.marks["web-1"].clear()
    fleet.story["web-1"].append("restored by hand")
    fleet.now += 60
    # What this run knows of web-1 is old when it approves, so it asks again.
    fleet.run["acted_at"] = fleet.now
    fleet.go()
    assert fleet.story["web-1"] == ["prepare B2", "restored by hand", "prepare B2", "restore B2"]
    assert fleet.story["web-2"] == ["prepare B2", "restore B2"]


def test_d2_p2_who_is_restored_by_somebody_else_twice_is_not_approved():
    fleet = Fleet(["web-1"], FleetEvent("B2", ["web-1"], notice=9000.0))

    def put_back(host):
        fleet.marks[host].clear()
        fleet.now += 1
        return {"host": fleet._known(host)}

    fleet.after["prepare"] = put_back
    fleet.go()
    assert fleet.posted == []
    assert fleet.story["web-1"] == ["prepare B2", "prepare B2"]
    assert "was restored by somebody else while this run went on" in " ".join(faults(fleet)["web-1"])


@pytest.mark.parametrize(
    ("times", "approvals", "story"),
    [
        (1, 1, ["prepare A1", "restored by hand", "prepare A1", "restore A1"]),
        (2, 0, ["prepare A1", "restored by hand", "prepare A1", "restored by hand", "restore A1"]),
    ],
    ids=["once", "twice"],
)
def test_p2_who_is_put_back_while_others_still_prepare_is_prepared_again_once(times, approvals, story):
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=3000.0))

    def put_back(host):
        if fleet.story[host].count("restored by hand") == times:
            return {"was_marked": True}
        # Its mark is written anew when the last host is prepared.
        fleet.story[host].append("restored by hand")
        return {"was_marked": False}

    fleet.after["prepare"] = put_back
    fleet.go()
    assert fleet.story["web-1"] == story
    assert len(fleet.posted) == approvals
    assert fleet.marks == {"web-1": {}}
    assert "web-1 was restored by somebody else while this run went on." in " ".join(
        why for each in fleet.run["hosts"]["web-1"]["events"] for why in each["why"]
    )


def test_p2_who_is_put_back_while_it_is_prepared_for_an_id_that_azure_uses_anew_is_prepared_again():
    first = FleetEvent("A1", ["web-1"])
    anew = FleetEvent("A1", ["web-1"], announced_after=900.0, notice=3000.0)
    fleet = Fleet(["web-1", "web-2"], first, anew, FleetEvent("B2", ["web-2"], lasts=1500.0))

    def put_back(host):
        if fleet.story[host].count("prepare A1") == 2:
            fleet.story[host].append("restored by hand")
            return {"was_marked": False}
        return None

    fleet.after["prepare"] = put_back
    fleet.go()
    both = ["prepare A1", "restore A1", "prepare A1", "restored by hand", "prepare A1", "restore A1"]
    assert fleet.story == {"web-1": both, "web-2": ["prepare B2", "restore B2"]}
    assert [event_id for _host, event_id, _ready in fleet.posted] == ["A1", "B2", "A1"]
    assert fleet.marks == {"web-1": {}, "web-2": {}}


@pytest.mark.parametrize("announced_after", [850.0, 900.0, 950.0])
def test_p2_an_id_that_azure_uses_anew_before_all_are_restored_is_not_held_back(announced_after):
    """web-1 stays out of service for B2, and is restored and prepared again after it."""
    first = FleetEvent("A1", ["web-1", "web-2"], event_type="Freeze")
    anew = FleetEvent("A1", ["web-1", "web-2"], announced_after=announced_after, notice=3000.0)
    fleet = Fleet(["web-1", "web-2"], first, anew, FleetEvent("B2", ["web-1"], notice=300.0, lasts=1500.0)).go()
    assert "HELD BACK" not in fleet.said
    assert [event_id for _host, event_id, _ready in fleet.posted] == ["A1", "B2", "A1"]
    assert fleet.story["web-1"] == ["prepare A1", "prepare B2", "restore A1", "prepare A1", "restore B2", "restore A1"]
    assert fleet.story["web-2"] == ["prepare A1", "restore A1"] * 2


@pytest.mark.parametrize("set_by", [0.0, -3600.0], ids=["", "and the clock of this controller was set back"])
def test_p2_who_is_put_back_by_another_is_known_by_the_next_answer(set_by):
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=3000.0)).stop_after(2)
    fleet.marks["web-1"].clear()
    fleet.now += 2
    known = take_answer(fleet.run["hosts"]["web-1"], fleet.answer("web-1"), fleet.now + set_by)
    assert [each["prepared"] for each in known["events"]] == [True]
    assert [each["prepared"] for each in compare_marks("web-1", known)["events"]] == [None]


def test_p2_who_is_put_back_after_one_of_its_events_by_name_is_prepared_again_for_the_other():
    """By the playbook restore with restore_open=true and event_response_event_ids."""
    first = FleetEvent("A1", ["web-1"], notice=3000.0, lasts=9000.0)
    second = FleetEvent("B2", ["web-1"], notice=20000.0, announced_after=60.0)
    fleet = Fleet(["web-1"], first, second, wait_timeout=20000)

    def put_back(host):
        if fleet.story[host][-1] == "prepare B2" and "restored by hand" not in fleet.story[host]:
            fleet.story[host].append("restored by hand")
            fleet.marks[host] = {key: mark for key, mark in fleet.marks[host].items() if mark["event_id"] != "A1"}
        return {"host": fleet._known(host)}

    fleet.after["prepare"] = put_back
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "prepare B2", "restored by hand", "prepare B2", "restore B2"]
    assert [event_id for _host, event_id, _ready in fleet.posted] == ["A1", "B2"]
    assert fleet.marks == {"web-1": {}}


@pytest.mark.parametrize("clock", [0.0, -7200.0], ids=["", "whose clock is behind"])
def test_p2_who_is_put_back_by_another_at_this_moment_is_prepared_again_before_the_approval(clock):
    """By the playbook restore with restore_open=true."""
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=3000.0)).stop_after(2)
    (mark,) = fleet.marks["web-1"].values()
    fleet.now += 2
    moment = datetime.fromtimestamp(fleet.now + clock, timezone.utc)
    fleet.marks["web-1"]["A1 other"] = set_state({**mark, "run": "other"}, RESTORING, moment, 60.0)
    # What this run knows of web-1 is old.
    fleet.run["acted_at"] = fleet.now
    told, ends = fleet.answer, fleet.now + 30

    def end_restore(host):
        if fleet.now > ends and "A1 other" in fleet.marks[host]:
            fleet.marks[host].clear()
            fleet.story[host].append("restored by another")
        return told(host)

    fleet.answer = end_restore
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "restored by another", "prepare A1", "restore A1"]
    assert (len(fleet.posted), fleet.marks) == (1, {"web-1": {}})


def test_d2_p3_nobody_is_restored_while_another_run_has_the_vm_prepared_for_an_open_event():
    first = FleetEvent("A1", ["web-1"], lasts=10.0)
    second = FleetEvent("B2", ["web-1"], event_type="Freeze", notice=9000.0)
    slow = Fleet(["web-1"], first, second, event_types=["Freeze"], approve=False, wait=False)
    slow.stop_after(2)
    quick = slow.again(event_types=["Reboot"], wait_timeout=600)
    quick.go()
    assert quick.story["web-1"] == ["prepare B2", "prepare A1"]
    assert "web-1 is out of service since 2026-11-21T10:00:02Z for Freeze B2" in quick.said
    assert list(faults(quick)) == ["web-1"]


def restored_by_another_run(fleet, until, longest=None):
    """Let another run restore web-1 after an event that is over, until a moment.

    :param longest: seconds that this may take by its mark.
    """
    about = {"event_id": "A1", "event_type": "Freeze"}
    mark = new_mark(RUN, about, "2026-11-21T09:50:00Z", run="another run", vm_id="id-of-web-1", boot_id="boot-1")
    mark.update(state=RESTORING, state_since=None)
    if longest is not None:
        mark = set_state(mark, RESTORING, datetime.fromtimestamp(START, timezone.utc), longest)
    fleet.marks["web-1"]["A1"] = mark
    answer, fleet.prepared_at = fleet.answer, []

    def answer_by_then(host):
        if fleet.now >= until and fleet.marks["web-1"].get("A1", {}).get("run") == "another run":
            del fleet.marks["web-1"]["A1"]
        return answer(host)

    fleet.answer = answer_by_then
    fleet.before["prepare"] = lambda host: fleet.prepared_at.append(fleet.now - START)


def test_p3_a_vm_that_another_run_puts_back_at_this_moment_is_prepared_afterwards():
    fleet = Fleet(["web-1"], FleetEvent("B2", ["web-1"], notice=9000.0))
    restored_by_another_run(fleet, START + 200)
    fleet.go()
    assert fleet.story["web-1"] == ["prepare B2", "restore B2"]
    assert fleet.prepared_at[0] >= 200
    assert faults(fleet) == {}


@pytest.mark.parametrize(("longest", "prepared_at"), [(900, 900), (60, 60)])
def test_p3_p15_another_run_is_waited_for_as_long_as_its_own_limits_say(longest, prepared_at):
    fleet = Fleet(["web-1"], FleetEvent("B2", ["web-1"], notice=9000.0), restore_timeout=300)
    restored_by_another_run(fleet, float("inf"), longest)
    fleet.go()
    assert prepared_at <= fleet.prepared_at[0] < prepared_at + 100


def test_p15_a_run_that_was_killed_while_it_put_a_vm_back_is_waited_for_as_long_as_a_restore_may_take():
    fleet = Fleet(["web-1"], FleetEvent("B2", ["web-1"], notice=9000.0), restore_timeout=300)
    restored_by_another_run(fleet, float("inf"))
    fleet.go()
    assert fleet.story["web-1"] == ["prepare B2", "restore A1", "restore B2"]
    assert 300 <= fleet.prepared_at[0] < 400
    assert fleet.marks == {"web-1": {}}


@pytest.mark.parametrize("tells", [True, False], ids=["then it tells", "it never tells"])
def test_p13_who_an_earlier_run_has_left_is_waited_for_where_another_vm_tells_first_that_the_event_has_started(tells):
    """The earlier run was killed while it put web-1 back, so nobody prepares that for the event meanwhile."""
    event = FleetEvent("A1", ["web-1", "web-2"], event_type="Freeze", notice=120.0, lasts=20.0)
    fleet = Fleet(["web-1", "web-2"], event)
    restored_by_another_run(fleet, float("inf"))
    fleet.no_marks.add("web-2")
    started, answer = START + 120.0, fleet.answer

    def answer_late(host):
        late = host == "web-1" and fleet.now >= started and (not tells or fleet.now < started + 15.0)
        return {**answer(host), "events": [event.told("web-1", START)]} if late else answer(host)

    fleet.answer = answer_late
    fleet.go()
    assert fleet.story["web-1"] == (["restore A1"] if tells else [])
    assert sorted(faults(fleet)) == (["web-2"] if tells else ["web-1", "web-2"])


@pytest.mark.parametrize(
    ("before", "told", "ends"),
    [
        pytest.param((-900, 200), (-900, 200), -700, id="by the limits of its author"),
        pytest.param((-900, 200), (-10, 200), 190, id="P3: it was tried again, or a sign of life came"),
        pytest.param((-900, 200), (-900, None), -300, id="the mark does not tell how long: by those of this run"),
        pytest.param(None, (None, None), 600, id="the mark tells nothing, and is seen for the first time"),
        pytest.param((None, 600), (None, None), 600, id="the mark tells nothing, and was seen before"),
        pytest.param(None, (3600, 200), 200, id="by a clock that is ahead"),
        pytest.param((3600, -40), (3600, 200), -40, id="P15: by a clock that is ahead, and seen before"),
        pytest.param((3600, -40), (3700, 200), 200, id="P3: by a clock that is ahead, and a sign of life came"),
        pytest.param((-10, -40), (-10, 200), -40, id="P15: by a clock that was ahead when it was seen before"),
        pytest.param((3600, 3800), (3600, 200), 200, id="P15: seen before the clock of this controller was set back"),
        pytest.param(None, (-10, -5), 590, id="a time that cannot be"),
    ],
)
def test_until_when_another_may_be_at_work_on_a_vm(before, told, ends):
    """Seconds from now: since when, by the mark, and how long; in what was known before, until when."""

    def moment(seconds):
        return None if seconds is None else format_utc(datetime.fromtimestamp(START + seconds, timezone.utc))

    mark = new_mark(CHECKER, {"event_id": "A1", "event_type": "Reboot"}, "2026-11-21T09:00:00Z")
    since, longest = told
    until = None if longest is None else moment(since + longest)
    mark.update(state=RESTORING, state_since=moment(since), state_until=until, file="a1.vm.checker.mark.json")
    key = "restoring a1.vm.checker.mark.json"
    known = {key: {"since": moment(before[0]), "until": START + before[1]}} if before else {}
    host = {"run": "r1", "marks": [mark], "at_work": known, "settings": {"restore_timeout": "600"}}
    assert note_at_work(host, START) == {key: {"since": moment(since), "until": START + ends}}


@pytest.mark.parametrize(
    ("read_at", "ends"),
    [pytest.param(-20, 280, id="it began after the last answer"), pytest.param(None, -6900, id="it may be an old one")],
)
def test_p3_a_mark_that_is_news_is_no_old_one_whatever_its_clock_says(read_at, ends):
    mark = new_mark(CHECKER, {"event_id": "A1", "event_type": "Reboot"}, "2026-11-21T09:00:00Z")
    began = datetime.fromtimestamp(START - 7200, timezone.utc)
    mark = {**set_state(mark, RESTORING, began, 300.0), "file": "a1.vm.checker.mark.json"}
    known = {"run": "r1", "marks": [mark], "settings": {"restore_timeout": "600"}}
    at_work = {}
    for passed in (0.0, 100.0):
        at_work = note_at_work({**known, "at_work": at_work}, START + passed, read_at and START + read_at + passed)
        assert [work["until"] for work in at_work.values()] == [START + ends]


def test_p15_nobody_is_waited_for_longer_where_the_clock_of_the_controller_is_set_back():
    mark = new_mark(CHECKER, {"event_id": "A1", "event_type": "Reboot"}, "2026-11-21T09:00:00Z")
    began = datetime.fromtimestamp(START, timezone.utc)
    mark = {**set_state(mark, RESTORING, began, 300.0), "file": "a1.vm.checker.mark.json"}
    known = {"run": "r1", "marks": [mark], "settings": {"restore_timeout": "600"}}
    at_work = note_at_work({**known, "at_work": {}}, START + 3600.0, START + 3590.0)
    for now in (START + 10.0, START + 200.0):
        at_work = note_at_work({**known, "at_work": at_work}, now, now - 10.0)
        assert [work["until"] for work in at_work.values()] == [START + 310.0]


@pytest.mark.parametrize("phase", ["prepare", "restore"])
def test_p3_who_finds_another_run_at_work_asks_again_before_it_goes_on(phase):
    fleet = Fleet(["web-1"], FleetEvent("B2", ["web-1"], notice=9000.0))
    if phase == "restore":
        fleet.stop_after(3)
    fleet.hindered_by["web-1"] = ["a1.vm.run.mark.json"]
    fleet.go()
    assert fleet.done.count(phase) == 2
    assert fleet.story["web-1"] == ["prepare B2", "restore B2"]
    assert fleet.marks == {"web-1": {}}


def test_p16_a_vm_whose_second_mark_cannot_be_written_loses_the_first_because_nothing_was_prepared():
    fleet = Fleet(["web-1"], FleetEvent("B2", ["web-1"], notice=9000.0))
    fleet.hindered_by["web-1"] = ["a1.vm.run.mark.json"]
    fleet.stop_after(2)
    assert [mark["event_id"] for mark in fleet.marks["web-1"].values()] == ["B2"]
    fleet.no_marks.add("web-1")
    fleet.go()
    assert fleet.story["web-1"] == ["mark removed B2"]
    assert fleet.marks == {"web-1": {}}
    assert "web-1 could not be prepared: The disk is full." in str(faults(fleet))


def test_p16_a_vm_that_is_lost_while_its_mark_is_written_loses_it_when_it_is_back():
    """The mark may be there, and nothing was prepared."""
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1", "web-2"]))

    def lose(host):
        if host == "web-2":
            return None
        fleet.down[host] = (fleet.now, fleet.now + 20)
        return {"host": fleet._known(host), "reached": False, "began": False, "why": "The connection was lost."}

    fleet.after["prepare"] = lose
    fleet.stop_after(2)
    assert len(fleet.marks["web-1"]) == 1
    fleet.go()
    assert fleet.story["web-1"][1:] == ["mark removed A1"]
    assert fleet.marks == {"web-1": {}, "web-2": {}}
    assert "web-1 could not be prepared: The connection was lost." in str(faults(fleet))


def test_p16_a_run_that_made_way_removes_its_mark_where_the_other_removes_no_more_than_its_own():
    first = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=10.0)).stop_after(2, 5000)
    after = first.again()
    restore = after._restore

    def make_way(host, order):
        (mark,) = first.marks[host].values()
        # The other one has put it back meanwhile.
        first.marks[host] = {f"A1 {after.run['id']}": {**mark, "run": after.run["id"], "state": "prepared"}}
        after._restore = restore
        return {"reached": False, "hindered": ["other"]}

    after._restore = make_way
    after.go()
    assert after.story["web-1"] == ["prepare A1", "mark removed A1"]
    assert (first.marks["web-1"], faults(after)) == ({}, {})


OTHER = "a1.vm.run-2.mark.json"


@pytest.mark.parametrize(
    ("state", "restores", "known", "heeded", "hinders"),
    [
        pytest.param("restoring", False, None, [], True, id="a restore forbids a preparation"),
        pytest.param("restoring", False, "restoring", [], True, id="also one that was known"),
        pytest.param("restoring", False, "restoring", [OTHER], False, id="but not one of a run that was killed"),
        pytest.param("restoring", False, "prepared", [OTHER], True, id="one that has ended, and begins again, does"),
        pytest.param("restoring", True, "prepared", [OTHER], True, id="also where both have made way for each other"),
        pytest.param("restoring", True, None, [OTHER], False, id="one that no answer tells is no hindrance for ever"),
        pytest.param("preparing", False, "preparing", [], False, id="two may prepare beside each other"),
        pytest.param("preparing", False, "prepared", [], False, id="also where one begins anew"),
        pytest.param("prepared", False, "preparing", [], False, id="one that has ended forbids nothing"),
        pytest.param("preparing", False, None, [], True, id="but one that is news is asked about: its files know it"),
        pytest.param("prepared", False, None, [], True, id="also one that has ended meanwhile"),
        pytest.param("prepared", False, None, [OTHER], False, id="once"),
        pytest.param("", False, None, [], True, id="one that cannot be read, and is news, may be that of a restore"),
        pytest.param("", False, "prepared", [], True, id="also one that could be read before"),
        pytest.param("", False, "", [], False, id="one that could not be read before forbids nothing"),
        pytest.param("preparing", True, None, [], True, id="a preparation that is news forbids a restore"),
        pytest.param("prepared", True, None, [], True, id="also one that has ended meanwhile"),
        pytest.param("prepared", True, "preparing", [], True, id="or has come to its end"),
        pytest.param("prepared", True, "prepared", [], False, id="one that was known was decided about"),
        pytest.param("prepared", True, None, [OTHER], False, id="what has hindered before is asked about, once"),
        pytest.param("restoring", True, "restoring", [], True, id="two that restore do so one after the other"),
    ],
)
def test_p3_which_mark_of_another_forbids_to_begin(state, restores, known, heeded, hinders):
    before = {} if known is None else {OTHER: known}
    assert find_hindering({OTHER: state}, restores, before, heeded) == ([OTHER] if hinders else [])


def test_p3_a_mark_that_has_hindered_before_is_news_where_it_was_gone_meanwhile():
    """Seed 10000616 of the campaign of two runs: a person puts the VM back, and the other run prepares it anew."""
    fleet = Fleet(["web-1"])
    told = {"run": "another run", "vm_id": "id-of-web-1", "boot_id": "boot-1"}
    mark = new_mark(RUN, {"event_id": "A1", "event_type": "Freeze"}, "2026-11-21T10:00:00Z", **told)
    host, heeded = {**fleet.run["hosts"]["web-1"], "heeded": ["A1"]}, []
    for is_there in (True, False, True):
        fleet.marks["web-1"] = {"A1": mark} if is_there else {}
        host = take_answer(host, fleet.answer("web-1"), fleet.now)
        heeded.append(host["heeded"])
    assert heeded == [["A1"], [], []]
    assert find_hindering({"A1": "preparing"}, True, {}, host["heeded"]) == ["A1"]


@pytest.mark.parametrize("does", [("prepare", "restore"), ("restore", "prepare"), ("restore", "restore")])
def test_p3_of_two_that_begin_at_once_the_second_to_look_sees_the_first(does):
    """Each writes its mark, then looks at those of others. Both orders of the four steps are tried."""
    states = {"prepare": "preparing", "restore": RESTORING}
    steps = [(0, "write"), (0, "look"), (1, "write"), (1, "look")]
    for order in itertools.permutations(steps):
        if any(order.index((run, "look")) < order.index((run, "write")) for run in (0, 1)):
            continue
        marks, goes_on = {}, []
        for run, step in order:
            if step == "write":
                marks[run] = states[does[run]]
                continue
            others = {str(other): state for other, state in marks.items() if other != run}
            # Neither had begun when they were asked.
            if find_hindering(others, does[run] == "restore", {}, []):
                # A preparation that does not begin leaves its mark; who does not restore takes back what it says.
                marks[run] = "prepared" if does[run] == "restore" else marks[run]
            else:
                goes_on.append(run)
        assert len(goes_on) < 2, order


@pytest.mark.parametrize(
    ("state", "run", "waited_out", "removable"),
    [
        ("prepared", "2", [], True),
        ("preparing", "2", [], True),
        (RESTORING, "2", [], False),
        (RESTORING, "2", [OTHER], True),
        (RESTORING, "1", [], True),
    ],
)
def test_p3_the_mark_of_another_run_that_restores_at_this_moment_stays(state, run, waited_out, removable):
    own = {"event_id": "A1", "by": "run", "run": "1"}
    other = {**own, "run": run, "state": state, "file": f"/marks/{OTHER}"}
    of_checker = {**other, "by": "checker", "state": "prepared"}
    another = {**other, "event_id": "B2", "state": "prepared"}
    known = {"marks": [other, of_checker, another]}
    assert find_removable(known, own, False, waited_out) == ([other] if removable else [])
    assert find_removable(known, own, True, waited_out) == ([other] if run == "1" else [])


def test_p13_who_was_not_prepared_because_of_another_run_loses_its_mark_and_no_more():
    fleet = Fleet(["web-1"], FleetEvent("B2", ["web-1"], notice=60.0))
    fleet.hindered_by["web-1"] = ["a1.vm.run.mark.json"]
    restored_by_another_run(fleet, START + 500)
    fleet.marks["web-1"]["A1"]["state"] = "prepared"
    fleet.before["prepare"] = lambda host: fleet.marks[host]["A1"].update(state=RESTORING)
    fleet.go()
    assert fleet.story["web-1"] == ["mark removed B2"]
    assert fleet.marks == {"web-1": {}}


def test_d6_p3_a_run_whose_preparation_fails_leaves_out_of_service_what_another_has_prepared():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=9000.0)).stop_after(2)
    other = fleet.again(wait_timeout=600)
    other.failing.add("prepare web-1")
    other.go()
    assert other.story["web-1"] == ["prepare A1", "prepare A1 failed"]
    assert "web-1 is out of service since 2026-11-21T10:00:02Z for Reboot A1 by a run of anna on control" in other.said
    assert list(faults(other)) == ["web-1"]
    assert len(fleet.marks["web-1"]) == 2


def test_d6_p6_of_two_runs_that_have_prepared_for_an_event_one_restores():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=9000.0)).stop_after(2)
    other = fleet.again().go()
    assert other.story["web-1"] == ["prepare A1", "prepare A1", "restore A1"]
    assert other.marks == {"web-1": {}}
    fleet.now, fleet.marks = other.now + 1, other.marks
    fleet.run["acted_at"] = fleet.now
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "prepare A1", "restore A1"]


def test_p3_a_checker_that_has_the_vm_prepared_for_an_open_event_keeps_it_out_of_service():
    first, second = FleetEvent("A1", ["web-1"], lasts=10.0), FleetEvent("B2", ["web-1"], notice=400.0, lasts=10.0)
    fleet = Fleet(["web-1"], first, second, event_ids=["A1"])
    told = second.told("web-1", START)
    fleet.marks["web-1"]["B2"] = {**new_mark(CHECKER, told, "2026-11-21T09:59:00Z"), "counts": True}
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]
    assert fleet.now >= START + 400
    assert "web-1 is out of service since 2026-11-21T09:59:00Z for Reboot B2 by its checker." in fleet.said


def test_where_no_mark_can_be_written_the_preparation_does_not_begin():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"]))
    fleet.no_marks.add("web-1")
    fleet.go()
    assert (fleet.story["web-1"], fleet.posted) == ([], [])
    assert "web-1 could not be prepared: The disk is full." in " ".join(faults(fleet)["web-1"])


def test_a_mark_that_cannot_be_removed_is_named():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"])).stop_after(2)
    fleet.no_marks.add("web-1")
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]
    assert "its mark could not be removed: The disk is read-only." in " ".join(faults(fleet)["web-1"])


def test_after_a_boot_a_mark_that_is_missing_proves_no_restore():
    """The disk of a VM that was redeployed may be a new one."""
    event = FleetEvent("A1", ["web-1"], event_type="Redeploy", lasts=100.0)
    fleet = Fleet(["web-1"], event).stop_after(3)
    fleet.marks["web-1"].clear()
    fleet.boots["web-1"] = "boot-2"
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]


@pytest.mark.parametrize("file", ["C:\\marks\\{name}", "/var/lib/marks/{name}"])
def test_p16_a_mark_that_cannot_be_read_proves_no_restore(file):
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], lasts=100.0)).stop_after(2)
    (mark,) = fleet.marks["web-1"].values()
    unreadable = {**dict.fromkeys(mark), "file": file.format(name=file_name(mark)), "counts": False}
    told = fleet.answer
    fleet.answer = lambda host: {**told(host), "marks": [unreadable]}
    # What it knows of the marks is old.
    fleet.run["acted_at"] = fleet.now
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]
    assert faults(fleet) == {}


def test_p16_after_a_boot_of_a_windows_vm_a_mark_that_is_missing_proves_no_restore():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], event_type="Redeploy", lasts=100.0))
    fleet.boots["web-1"] = None
    fleet.stop_after(3)
    fleet.marks["web-1"].clear()
    told, booted_at = fleet.answer, fleet.now + 50
    fleet.answer = lambda host: {**told(host), "booted_at": booted_at}
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]


def test_what_is_known_of_the_marks_of_a_windows_vm_is_of_the_latest_answer_that_has_them():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"]))
    told = fleet.answer
    # From its preparation on each answer is without them: those of before say nothing of it.
    fleet.answer = lambda host: {**told(host), "marks": None if fleet.story[host] else []}
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]
    first, second = FleetEvent("A1", ["web-1"], lasts=10.0), FleetEvent("B2", ["web-1"], notice=400.0, lasts=10.0)
    fleet = Fleet(["web-1"], first, second, event_ids=["A1"])
    fleet.marks["web-1"]["B2"] = {**new_mark(CHECKER, second.told("web-1", START), "2026-11-21T09:59:00Z")}
    seen = fleet.answer
    fleet.answer = lambda host: {**seen(host), **({"marks": None} if fleet.story[host] else {})}
    fleet.go()
    assert fleet.now >= START + 400


ONLY_MARKED = {"only_marked": True, "prepare": "nothing", "approve": False, "wait": False}


def broken_off(**more):
    """Return a fleet with a VM that a run left prepared, and a second event."""
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1"], **more), FleetEvent("B2", ["web-2"], notice=9000.0))
    fleet.run["hosts"]["web-2"]["settings"]["event_types"] = ["Freeze"]
    fleet.stop_after(2)
    return fleet


def test_restore_puts_back_what_is_marked_and_over_and_does_nothing_else():
    fleet = broken_off(notice=10.0)
    fleet.now += 5000
    after = fleet.again(**ONLY_MARKED).go()
    assert after.story == {"web-1": ["prepare A1", "restore A1"], "web-2": []}
    assert (after.posted, fleet.marks["web-1"], faults(after)) == ([], {}, {})


@pytest.mark.parametrize(
    ("notice", "later", "phase"), [(900.0, 10, "announced"), (10.0, 20, "started")], ids=["Scheduled", "Started"]
)
def test_restore_leaves_a_vm_whose_event_is_not_over_and_names_it(notice, later, phase):
    fleet = broken_off(notice=notice)
    fleet.now += later
    after = fleet.again(**ONLY_MARKED).go()
    assert after.story["web-1"] == ["prepare A1"]
    (fault,) = faults(after)["web-1"]
    assert "The event is not over, so the VM stays as it is." in fault
    assert [event["phase"] for event in verdict.conclude(after.run)["summary"]["events"]] == [phase]
    assert len(fleet.marks["web-1"]) == 1
    told = fleet.again(**ONLY_MARKED, open_too=True).go()
    assert told.story["web-1"] == ["prepare A1", "restore A1"]
    assert [event["phase"] for event in verdict.conclude(told.run)["summary"]["events"]] == [phase]
    assert (fleet.marks["web-1"], faults(told)) == ({}, {})


def test_d1_an_event_that_comes_before_its_turn_leaves_no_vm_that_an_earlier_run_prepared():
    """The limit keeps the second run from preparing it anew."""
    first = FleetEvent("A1", ["web-1", "web-2"], notice=3000.0, lasts=20.0)
    second = FleetEvent("B2", ["web-2"], event_type="Freeze", notice=900.0, lasts=5.0)
    fleet = Fleet(["web-1", "web-2"], first, second).stop_after(3)
    assert {mark["event_id"] for mark in fleet.marks["web-2"].values()} == {"A1", "B2"}
    after = fleet.again(max_unavailable="1", approve=False, prepare_timeout=60).go()
    assert fleet.marks == {"web-1": {}, "web-2": {}}
    assert sorted(after.story["web-2"])[-2:] == ["restore A1", "restore B2"]


def test_p2_who_was_put_back_while_its_event_is_held_back_is_not_approved_later():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1", "web-2"], notice=3000.0, lasts=20.0))
    fleet.names["web-2"] = None
    fleet.stop_after(3)
    assert fleet.done[-1] != "approve"
    fleet.marks["web-1"].clear()
    fleet.names["web-2"] = "web-2"
    fleet.go()
    assert fleet.posted == []
