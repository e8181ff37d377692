# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run does next, over whole histories of a fleet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import engine, verdict
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._run.fleet import (
    START,
    Fleet,
    FleetEvent,
)

README = Path(__file__).resolve().parents[5] / "roles" / "event_response" / "README.md"


def test_an_event_goes_through_the_run_in_six_turns():
    fleet = Fleet(["web-1", "web-2", "web-3"], FleetEvent("A1", ["web-2", "web-1"], lasts=0.0)).go()
    assert fleet.done == ["ask", "prepare", "approve", "wait", "restore", "done"]
    assert fleet.posted == [("web-2", "A1", ["web-2", "web-1"])]
    assert fleet.story == {"web-1": ["prepare A1", "restore A1"], "web-2": ["prepare A1", "restore A1"], "web-3": []}


def test_a_host_is_restored_when_its_own_events_are_over_and_does_not_wait_for_others():
    first = FleetEvent("A1", ["web-1", "web-2"], lasts=0.0)
    second = FleetEvent("B2", ["web-2", "web-3"], lasts=600.0)
    fleet = Fleet(["web-1", "web-2", "web-3"], first, second).go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]
    assert fleet.story["web-2"] == ["prepare A1", "prepare B2", "restore A1", "restore B2"]
    assert fleet.done.index("restore") < len(fleet.done) - 3


def test_p2_who_was_asked_before_another_was_prepared_is_asked_again_before_the_approval():
    first, second = FleetEvent("A1", ["web-1", "web-2"]), FleetEvent("B2", ["web-2"])
    fleet = Fleet(["web-1", "web-2"], first, second).go()
    assert fleet.done[:5] == ["ask", "prepare", "prepare", "ask", "approve"]


def test_no_variable_for_all_is_read_from_a_host_on_which_it_cannot_be_evaluated():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-2"]), max_unavailable="2")
    known = fleet.run["hosts"]["web-1"]
    known.update(
        fault="event_response_wait cannot be evaluated.", settings={**dict.fromkeys(known["settings"]), "group": ""}
    )
    fleet.go()
    assert fleet.posted == [("web-2", "A1", ["web-2"])]
    assert fleet.story["web-2"] == ["prepare A1", "restore A1"]


@pytest.mark.parametrize(("seconds", "asks"), [(50.0, False), (70.0, True)])
def test_p2_an_answer_that_is_older_than_a_minute_when_the_last_has_prepared_is_not_that_of_now(seconds, asks):
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1", "web-2"]))

    def takes_long(host):
        fleet.now += seconds if host == "web-2" else 0.0

    fleet.before["prepare"] = takes_long
    fleet.go()
    assert fleet.done[2:4] == (["ask", "approve"] if asks else ["approve", "wait"])


def test_p2_who_boots_while_others_prepare_is_not_approved_by_an_answer_older_than_a_minute():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1", "web-2"], notice=90000.0))

    def takes_long(host):
        if host == "web-2":
            fleet.boots["web-1"] = "boot-2"
            fleet.now += 70.0

    fleet.before["prepare"] = takes_long
    fleet.go()
    assert fleet.posted == []
    assert "web-1 is not prepared: it booted after its preparation" in fleet.said


def test_a_host_that_comes_back_in_a_later_play_makes_no_other_answer_old():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1"]), FleetEvent("B2", ["web-2"]))
    fleet.losing.add("prepare web-1")
    fleet.go()
    assert fleet.done[:5] == ["ask", "prepare", "leave", "ask", "approve"]
    assert [event for _host, event, _names in fleet.posted] == ["B2"]


def test_p15_a_host_whose_password_is_wrong_is_named_and_not_tried_for_the_whole_time():
    """A wrong password that is tried again and again locks the account."""
    events = [FleetEvent("A1", ["web-1"], lasts=100.0), FleetEvent("B2", ["web-2"], lasts=1000.0)]
    fleet = Fleet(["web-1", "web-2"], *events)
    fleet.refusing["web-1"] = (START + 20.0, START + 1e9, True)
    fleet.go()
    assert fleet.story == {"web-1": ["prepare A1"], "web-2": ["prepare B2", "restore B2"]}
    assert fleet.now - START < 1100
    assert len(fleet.refused) <= 5
    assert fleet.said.count("web-1 is not waited for any more: Not allowed.") == 1
    summary = verdict.conclude(fleet.run)["summary"]
    assert summary["not_restored"] == ["web-1"]
    assert summary["faults"] == {"web-1": ["web-1 was not restored: it could not be asked any more: Not allowed."]}
    alone = Fleet(["web-1"], FleetEvent("A1", ["web-1"], lasts=100.0))
    alone.refusing["web-1"] = (START + 20.0, START + 1e9, True)
    alone.go()
    assert alone.now - START < 50.0


@pytest.mark.parametrize("wrong_password", [True, False])
def test_a_host_that_can_be_asked_again_is_restored(wrong_password):
    events = [FleetEvent("A1", ["web-1"], lasts=100.0), FleetEvent("B2", ["web-2"], lasts=1000.0)]
    fleet = Fleet(["web-1", "web-2"], *events)
    fleet.refusing["web-1"] = (START + 20.0, START + 250.0, wrong_password)
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]
    assert list(verdict.conclude(fleet.run)["summary"]["faults"]) == []


def test_p15_p4_where_azure_does_not_answer_a_host_is_waited_for_all_the_time():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], lasts=100.0))
    answer = fleet.answer

    def answer_for_azure(host):
        is_silent = START + 20.0 <= fleet.now < START + 900.0
        return {"msg": "HTTP 503", "reason": "http_status"} if is_silent else answer(host)

    fleet.answer = answer_for_azure
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]


@pytest.mark.parametrize("event_type", ["Terminate", "Preempt"])
def test_a4_a_vm_that_azure_deletes_is_done_when_it_is_gone(event_type):
    event = FleetEvent("A1", ["web-1"], event_type=event_type)
    fleet = Fleet(["web-1", "web-2"], event)
    fleet.down["web-1"] = (START + 5, START + 1e9)
    fleet.go()
    (each,) = fleet.run["hosts"]["web-1"]["events"]
    assert (each["outcome"], each["gone"], each["failed"]) == ("completed", True, False)
    assert 300 <= fleet.now - START < 400


def test_a4_a_vm_that_comes_back_is_restored():
    event = FleetEvent("A1", ["web-1"], event_type="Preempt", lasts=10.0)
    other = FleetEvent("B2", ["web-2"], lasts=1000.0)
    fleet = Fleet(["web-1", "web-2"], event, other)
    fleet.down["web-1"] = (START + 5, START + 500)
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]


def test_a4_a_vm_that_azure_only_announced_to_delete_is_not_taken_for_gone():
    event = FleetEvent("A1", ["web-1", "web-2"], event_type="Terminate", notice=2000.0, lasts=10.0)
    fleet = Fleet(["web-1", "web-2"], event)
    fleet.down["web-2"] = (START + 1.5, START + 1000)
    fleet.losing.add("prepare web-2")
    fleet.go()
    assert fleet.story["web-2"][-1].startswith("restore")


def test_a4_a_vm_whose_deletion_was_withdrawn_is_not_taken_for_gone_when_it_is_lost_for_another_event():
    """Seed 3002947 of the campaign with Azure as one more voice."""
    deletion = FleetEvent("D1", ["web-1"], event_type="Preempt", notice=30.0)
    deletion.withdrawn_at = START + 2.0
    reboot = FleetEvent("R1", ["web-1"], notice=600.0, lasts=60.0)
    fleet = Fleet(["web-1"], deletion, reboot)
    fleet.down["web-1"] = (START + 20.0, START + 1e6)
    fleet.go()
    assert fleet.posted == [("web-1", "R1", ["web-1"])]
    summary = verdict.conclude(fleet.run)["summary"]
    assert summary["not_restored"] == ["web-1"]
    assert list(summary["faults"]) == ["web-1"]


def test_a4_a_vm_that_answered_after_its_deletion_was_over_is_not_taken_for_gone_when_it_is_lost_later():
    """Seed 5150868 of the campaign."""
    deletion = FleetEvent("D1", ["web-1"], event_type="Preempt", notice=30.0, lasts=10.0)
    fleet = Fleet(["web-1"], deletion, FleetEvent("R1", ["web-1"], notice=600.0, lasts=1000.0))
    fleet.down["web-1"] = (START + 100.0, START + 1e6)
    fleet.go()
    assert list(verdict.conclude(fleet.run)["summary"]["faults"]) == ["web-1"]


def test_a4_a_vm_that_nobody_has_asked_for_a_while_is_asked_again_before_it_counts_as_deleted():
    """Seed 100051164 of the campaign: lost for its reboot, its deletion was withdrawn while another host prepared."""
    deletion = FleetEvent("D1", ["web-1", "web-2"], event_type="Terminate", notice=120.0)
    deletion.withdrawn_at = START + 80.0
    reboot = FleetEvent("R1", ["web-1", "web-3"], notice=30.0, lasts=20.0)
    hosts = ["web-1", "web-2", "web-3"]
    fleet = Fleet(hosts, reboot, deletion, max_unavailable="2", prepare_timeout=100, reconnect_timeout=120)

    def takes_long(host):
        fleet.now += 200.0 if host == "web-2" else 0.0

    fleet.before["prepare"] = takes_long
    fleet.down["web-1"] = (START + 4.0, START + 30.0)
    fleet.go()
    assert fleet.story["web-1"] == ["prepare R1", "restore R1"]
    assert verdict.conclude(fleet.run)["summary"]["faults"] == {}


def test_a_vm_that_was_deleted_is_told_once_with_each_of_its_events():
    deletion, other = FleetEvent("D1", ["web-1"], event_type="Terminate"), FleetEvent("R1", ["web-2"], lasts=1000.0)
    fleet = Fleet(["web-1", "web-2"], deletion, other)
    fleet.down["web-1"] = (START + 5.0, START + 1e9)
    results = verdict.conclude(fleet.go().run)["results"]
    assert [each["phase"] for each in results["web-1"]] == ["ended"]


def test_b5_a_vm_outside_that_is_called_like_a_host_of_the_play_is_not_outside():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1", "web-2"]), outside_vms="ignore")
    fleet.names["web-2"] = "Unavailable"
    fleet.go()
    assert fleet.posted == []
    assert "which says that it is Unavailable" in fleet.said


def test_d4_nobody_is_restored_while_an_event_of_the_vm_is_started_that_the_run_leaves_alone():
    event = FleetEvent("A1", ["web-1"], lasts=30.0)
    other = FleetEvent("B2", ["web-1"], event_type="Freeze", notice=10.0, lasts=500.0)
    fleet = Fleet(["web-1"], event, other, event_types=["Reboot"]).go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]
    assert fleet.now - START > 510


def test_d5_an_event_that_arrives_while_the_run_goes_on_enters_it():
    first = FleetEvent("A1", ["web-1"], lasts=300.0)
    second = FleetEvent("B2", ["web-1"], event_type="Redeploy", announced_after=100.0, lasts=50.0)
    third = FleetEvent("C3", ["web-2"], announced_after=150.0, lasts=50.0)
    fleet = Fleet(["web-1", "web-2"], first, second, third).go()
    assert fleet.story["web-1"] == ["prepare A1", "prepare B2", "restore B2", "restore A1"]
    assert fleet.story["web-2"] == ["prepare C3", "restore C3"]
    assert [event for _host, event, _names in fleet.posted] == ["A1", "B2", "C3"]


def test_d5_a_vm_that_azure_adds_to_an_event_just_before_its_approval_is_asked_and_prepared():
    event = FleetEvent("A1", ["web-1", "web-2"])
    fleet = Fleet(["web-1", "web-2", "web-3"], event)

    def takes_long(host):
        fleet.now += 70.0 if host == "web-2" else 0.0

    def grows(host):
        if fleet.done.count("ask") == 2:
            event.vms = ["web-1", "web-2", "web-3"]

    fleet.before = {"prepare": takes_long, "ask": grows}
    fleet.go()
    assert fleet.story == {host: ["prepare A1", "restore A1"] for host in ("web-1", "web-2", "web-3")}
    assert fleet.posted == [("web-1", "A1", ["web-1", "web-2", "web-3"])]
    # Nor is it held back before.
    assert fleet.lines == []


def test_d5_an_event_that_arrives_and_is_not_wanted_is_named():
    first = FleetEvent("A1", ["web-1"], lasts=300.0)
    second = FleetEvent("B2", ["web-1"], event_type="Freeze", announced_after=100.0, notice=60.0, lasts=5.0)
    there = FleetEvent("C3", ["web-1"], event_type="Freeze", lasts=5.0)
    fleet = Fleet(["web-1"], first, second, there, event_types=["Reboot"]).go()
    said = " ".join(fleet.lines)
    assert said.count("Freeze B2 of web-1 was announced while this run goes on.") == 1
    assert "C3" not in said
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]


def test_h3_a_run_that_holds_everything_back_and_in_which_nobody_is_prepared_ends_at_once():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1", "web-2"]))
    fleet.failing = {"prepare web-1", "prepare web-2"}
    fleet.go()
    assert fleet.now - START < 10
    assert fleet.story["web-1"] == ["prepare A1 failed", "restore A1"]
    assert "wait" not in fleet.done


def test_h3_where_somebody_is_prepared_the_run_waits_for_an_event_that_is_near():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1", "web-2"]))
    fleet.failing = {"prepare web-1"}
    fleet.go()
    assert fleet.now - START > 900
    assert fleet.story == {"web-1": ["prepare A1 failed", "restore A1"], "web-2": ["prepare A1", "restore A1"]}


def test_e2_p2_an_event_that_becomes_one_of_another_type_after_its_preparation_is_not_approved():
    """The files may do less for a Freeze, and the conditions of the run may leave a Reboot out."""
    event = FleetEvent("A1", ["web-1"], event_type="Freeze", notice=90000.0)
    fleet = Fleet(["web-1"], event, event_types=["Freeze"])
    fleet.before = {"prepare": lambda host: setattr(event, "event_type", "Reboot")}
    fleet.go()
    assert fleet.posted == []
    assert "web-1 is not prepared: it was prepared for a Freeze." in fleet.said
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]
    assert [event_id for _host, event_id, _ready in fleet.again().go().posted] == ["A1"]


def test_p1_p2_an_event_that_becomes_one_of_another_type_just_before_its_approval_is_held_back():
    event = FleetEvent("A1", ["web-1"], event_type="Freeze", notice=90000.0)
    fleet = Fleet(["web-1"], event)
    fleet.before = {"approve": lambda host: setattr(event, "event_type", "Reboot")}
    fleet.go()
    assert fleet.posted == []
    assert "web-1: the event has another type or source now than its hosts are prepared for." in fleet.said
    assert "although a VM is not prepared" in fleet.said
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]
    assert [event_id for _host, event_id, _ready in fleet.again().go().posted] == ["A1"]


def test_e2_an_event_that_is_not_wanted_any_more_when_its_turn_comes_is_left_out():
    first, second = (FleetEvent(name, [vm], event_type="Freeze") for name, vm in (("A1", "web-1"), ("B2", "web-2")))
    fleet = Fleet(["web-1", "web-2"], first, second, event_types=["Freeze"], max_unavailable="1")
    fleet.before = {"prepare": lambda host: setattr(second, "event_type", "Reboot")}
    fleet.go()
    assert [event_id for _host, event_id, _ready in fleet.posted] == ["A1"]
    assert fleet.story["web-2"] == []
    assert "Reboot B2 of web-2 was announced while this run goes on." in fleet.said
    assert list(verdict.conclude(fleet.run)["summary"]["faults"]) == []


def test_a1_a_host_that_never_answers_is_asked_again_once_and_the_others_go_on():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1"], lasts=0.0))
    fleet.down["web-2"] = (0.0, START + 1e9)
    fleet.go()
    assert fleet.story["web-1"] == ["prepare A1", "restore A1"]
    assert fleet.run["hosts"]["web-2"]["times_asked"] == 2
    assert sum("web-2 could not be asked: The host is down." in line for line in fleet.lines) == 1


def test_a1_a_host_whose_metadata_service_gives_no_answer_at_first_is_asked_again_too():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1"], lasts=0.0), FleetEvent("B2", ["web-2"], lasts=0.0))
    answer, silent = fleet.answer, {"msg": "no complete answer within 24 s", "reason": "timeout"}
    fleet.answer = lambda host: silent if host == "web-2" and fleet.now < START + 2 else answer(host)
    fleet.go()
    assert fleet.story == {"web-1": ["prepare A1", "restore A1"], "web-2": ["prepare B2", "restore B2"]}


def test_a_host_with_a_wrong_password_is_not_asked_again_where_it_has_never_answered():
    """Each try counts where accounts are locked."""
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1"], lasts=0.0))
    fleet.refusing["web-2"] = (0.0, START + 1e9, True)
    fleet.go()
    assert fleet.run["hosts"]["web-2"]["times_asked"] == 1


def test_a1_a_host_that_answers_later_enters_the_run():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1"], lasts=0.0), FleetEvent("B2", ["web-2"], lasts=0.0))
    fleet.down["web-2"] = (0.0, START + 2)
    fleet.go()
    assert fleet.story == {"web-1": ["prepare A1", "restore A1"], "web-2": ["prepare B2", "restore B2"]}


def test_a_host_that_is_lost_in_its_preparation_is_returned_by_a_later_play_and_restored():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1", "web-2"], notice=90000.0))
    fleet.losing.add("prepare web-2")
    fleet.go()
    assert fleet.posted == []
    assert fleet.story["web-2"] == ["prepare A1 lost", "restore A1"]
    assert "leave" in fleet.done


def test_in_one_play_a_host_that_is_lost_stays_away():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1", "web-2"], notice=90000.0), plays=1)
    fleet.losing.add("prepare web-2")
    fleet.go()
    assert fleet.story == {"web-1": ["prepare A1", "restore A1"], "web-2": ["prepare A1 lost"]}


def test_without_waiting_what_was_approved_stays_prepared_and_what_was_held_back_is_restored():
    events = FleetEvent("A1", ["web-1"]), FleetEvent("B2", ["web-2", "web-9"])
    fleet = Fleet(["web-1", "web-2"], *events, wait=False).go()
    assert fleet.story == {"web-1": ["prepare A1"], "web-2": ["prepare B2", "restore B2"]}


@pytest.mark.parametrize(("prepare", "is_said"), [("prepare.yml", True), ("nothing", False)])
def test_p13_only_a_host_that_was_prepared_by_a_file_is_said_to_stay_out_of_service(prepare, is_said):
    """Nothing has taken the other one out of service, and the playbook restore finds no mark there."""
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"]), prepare=prepare, wait=False).go()
    lines = verdict.conclude(fleet.run)["summary"]["lines"]
    assert any("web-1 stays out of service." in line for line in lines) is is_said


def test_in_check_mode_nothing_is_waited_for():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"]), check_mode=True).go()
    assert fleet.story == {"web-1": ["prepare A1", "restore A1"]}
    assert fleet.done == ["ask", "prepare", "approve", "restore", "done"]


def test_an_event_that_does_not_end_in_time_leaves_its_hosts_prepared():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], lasts=90000.0), wait_timeout=600).go()
    assert fleet.story == {"web-1": ["prepare A1"]}
    assert 600 <= fleet.now - START < 620


def test_an_event_that_starts_while_its_hosts_prepare_is_not_approved_and_waited_for():
    event = FleetEvent("A1", ["web-1", "web-2"], notice=1.5, lasts=60.0)
    fleet = Fleet(["web-1", "web-2"], event).go()
    assert fleet.posted == []
    assert [len(story) for story in fleet.story.values()] in ([2, 2], [2, 0], [0, 2])


def test_nobody_waits_for_an_event_that_was_started_when_the_run_began():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"], notice=0.0, lasts=5000.0)).go()
    assert fleet.story == {"web-1": []}
    assert fleet.now - START < 10


def test_while_others_are_waited_for_hosts_without_an_event_are_asked_every_five_minutes():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1"], lasts=1500.0)).go()
    assert 4 <= fleet.run["hosts"]["web-2"]["times_asked"] <= 7


def test_an_event_that_is_named_by_an_id_that_nobody_knows_stops_the_run_before_anybody_prepares():
    fleet = Fleet(["web-1"], FleetEvent("A1234567", ["web-1"]), event_ids=["nowhere"]).go()
    assert fleet.done == ["ask", "refuse"]
    assert fleet.run["refused"][-1] == "No host was prepared."


def test_p14_a_fault_in_an_id_is_not_forgotten_where_a_host_must_be_asked_again_for_an_event_of_another():
    # Azure announces it between the answers of the two.
    event = FleetEvent("A1234567", ["web-1", "web-2"], announced_after=1.15)
    fleet = Fleet(["web-1", "web-2"], event, event_ids=["A1234567", "nowhere"]).go()
    assert fleet.done == ["ask", "refuse"]
    assert fleet.story == {"web-1": [], "web-2": []}


def test_p16_an_event_for_which_a_host_cannot_be_reached_any_more_is_held_back_when_nothing_is_left_to_wait_for():
    first, second = FleetEvent("A1", ["web-2"]), FleetEvent("B2", ["web-1", "web-2"], notice=90000.0)
    fleet = Fleet(["web-1", "web-2"], first, second, wait_timeout=600)

    def goes_down(host):
        if host == "web-2":
            fleet.down[host] = (fleet.now, START + 1e9)
        return {"host": fleet._known(host)}

    fleet.after["prepare"] = goes_down
    fleet.go()
    assert "HELD BACK: Reboot B2" in fleet.said
    assert fleet.story["web-1"] == ["prepare B2", "restore B2"]


def test_the_readme_of_the_role_tells_what_hosts_do_in_each_turn():
    (table,) = re.findall(r"^\| turn \|.*?\n\n", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    told = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    own = (engine.ASK, engine.PREPARE, engine.CHECK, engine.APPROVE, engine.RESTORE, engine.WAIT)
    assert told == {*own, engine.LEAVE, engine.REFUSE, engine.DONE}


@pytest.mark.parametrize(
    "word", [engine.ASK, engine.PREPARE, engine.CHECK, engine.APPROVE, engine.RESTORE, engine.WAIT]
)
def test_there_is_a_file_of_tasks_for_each_turn(word):
    assert (README.parent / "tasks" / f"run_{word}.yml").is_file()


CHECKERS = {"prepare": "checker", "restore": ""}


def test_p13_what_a_checker_restores_is_not_told_as_restored_by_the_run():
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1", "web-2"]), **CHECKERS).go()
    assert fleet.posted == [("web-1", "A1", ["web-1", "web-2"])]
    told = verdict.conclude(fleet.run)
    assert told["summary"]["faults"] == {}
    assert {each["state"] for found in told["results"].values() for each in found} == {"with_checker"}
    assert {each["restored"] for found in told["results"].values() for each in found} == {None}
    assert told["summary"]["lines"][-1] == "The checkers of web-1, web-2 restore them when the event is over."


@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("wait", [True, False])
def test_a_run_neither_restores_nor_waits_for_a_host_whose_checker_has_prepared_it_for_what_is_held_back(wait, approve):
    """The event is far off, and the checker of web-2 failed."""
    event = FleetEvent("A1", ["web-1", "web-2"], notice=90000.0)
    fleet = Fleet(["web-1", "web-2"], event, **CHECKERS, wait=wait, approve=approve)
    fleet.failing.add("prepare web-2")
    fleet.go()
    assert fleet.now - START < 60.0
    assert fleet.posted == []
    told = verdict.conclude(fleet.run)["summary"]
    assert told["not_restored"] == []
    assert not any("restored" in why for found in told["faults"].values() for why in found)
    assert told["lines"][-1] == "The checker of web-1 restores it when the event is over."
    assert "It restores each host" not in fleet.said


def test_p16_a_run_that_does_not_wait_says_that_the_checkers_restore():
    fleet = Fleet(["web-1"], FleetEvent("A1", ["web-1"]), **CHECKERS, wait=False).go()
    told = verdict.conclude(fleet.run)["summary"]
    assert told["faults"] == {}
    assert told["lines"] == [
        "Reboot A1 announced, approved by web-1: web-1",
        "The checker of web-1 restores it when the event is over.",
    ]
