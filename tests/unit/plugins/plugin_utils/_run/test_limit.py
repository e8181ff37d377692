# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many hosts may be out of service at once, over whole histories of a fleet."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import (
    CHECKER,
    PREPARED,
    RUN,
    new_mark,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import verdict
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.limit import read_limit
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.settings import tell_wrong_words
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._run.fleet import (
    START,
    Fleet,
    FleetEvent,
)

WEB = ["web-1", "web-2", "web-3"]


def one_each(**more):
    return [FleetEvent(f"{host[-1]}A", [host], **more) for host in WEB]


def in_order(fleet):
    """Return what was approved, each with who was restored before it."""
    return [event_id for _host, event_id, _ready in fleet.posted]


@pytest.mark.parametrize(
    ("text", "hosts", "limit"),
    [("", 9, None), ("1", 9, 1), ("12", 9, 12), ("25%", 9, 2), ("1%", 9, 1), ("100%", 9, 9)],
)
def test_the_limit_is_a_number_or_a_percentage_of_at_least_one(text, hosts, limit):
    assert read_limit(text, hosts) == limit


@pytest.mark.parametrize("value", ["0", "-1", "0%", "101%", "1.5", "half", "1 %", "\u0663"])
def test_another_limit_is_refused(value):
    (fault,) = tell_wrong_words({"web-1": {"max_unavailable": value}})
    assert fault.startswith("event_response_max_unavailable must be a whole number of hosts from 1 on, or a percentage")


@pytest.mark.parametrize("value", ["", 1, "25%"])
def test_a_limit_may_be_left_empty(value):
    assert tell_wrong_words({"web-1": {"max_unavailable": value}}) == []


def test_three_events_of_the_same_minute_go_one_after_the_other_with_a_limit_of_one():
    fleet = Fleet(WEB, *one_each(notice=3600.0), max_unavailable="1").go()
    assert in_order(fleet) == ["1A", "2A", "3A"]
    assert fleet.story == {host: [f"prepare {host[-1]}A", f"restore {host[-1]}A"] for host in WEB}
    turns = [turn for turn in fleet.done if turn in ("prepare", "approve", "restore")]
    assert turns == ["prepare", "approve", "restore"] * 3
    assert "Reboot 2A of web-2 waits its turn: event_response_max_unavailable lets 1 host be out of" in fleet.said


def test_a_host_is_restored_before_its_second_event_where_that_waits_for_another_host():
    """Else the second host waits for the first, and the second event of the first for the second host."""
    events = [FleetEvent("A1", ["web-1"]), FleetEvent("B2", ["web-2"], notice=1000.0)]
    events.append(FleetEvent("C3", ["web-1"], notice=1500.0))
    fleet = Fleet(["web-1", "web-2"], *events, max_unavailable="1").go()
    assert [event for _host, event, _names in fleet.posted] == ["A1", "B2", "C3"]
    assert fleet.story["web-1"] == ["prepare A1", "restore A1", "prepare C3", "restore C3"]
    assert fleet.story["web-2"] == ["prepare B2", "restore B2"]
    assert verdict.conclude(fleet.run)["summary"]["faults"] == {}


def test_without_a_limit_all_go_together():
    fleet = Fleet(WEB, *one_each(notice=3600.0)).go()
    assert [turn for turn in fleet.done if turn in ("prepare", "approve")] == ["prepare", "approve"]


def test_a_percentage_is_one_of_the_hosts_of_the_run():
    events = one_each(notice=3600.0)
    fleet = Fleet([*WEB, "web-4"], *events, max_unavailable="50%").go()
    assert fleet.done.count("approve") == 2
    assert sorted(in_order(fleet)) == ["1A", "2A", "3A"]


def test_the_limit_holds_within_each_group():
    own = {"web-1": {"group": "front"}, "web-2": {"group": "front"}, "web-3": {"group": "back"}}
    fleet = Fleet(WEB, *one_each(notice=3600.0), max_unavailable="1", own=own).go()
    assert in_order(fleet) == ["1A", "3A", "2A"]


def test_an_event_whose_time_comes_is_prepared_for_at_once_and_not_approved_before_its_turn():
    first, second = FleetEvent("1A", ["web-1"], notice=500.0, lasts=300.0), FleetEvent("2A", ["web-2"], notice=550.0)
    fleet = Fleet(WEB, first, second, max_unavailable="1").go()
    assert fleet.done[1:3] == ["prepare", "approve"]
    assert fleet.story["web-2"] == ["prepare 2A", "restore 2A"]
    assert in_order(fleet) == ["1A", "2A"]
    assert "is prepared for now, because Azure may start it soon, and not approved" in fleet.said


@pytest.mark.parametrize("seconds", [0.0, 90.0])
@pytest.mark.parametrize(("boots", "posted"), [(False, ["2A"]), (True, [])])
def test_p2_who_was_asked_before_a_restore_of_another_is_asked_again_before_the_approval(seconds, boots, posted):
    first, second = FleetEvent("1A", ["web-1"], notice=500.0), FleetEvent("2A", ["web-2"], notice=550.0)
    first.withdrawn_at = START + 2.0
    fleet = Fleet(WEB, first, second, max_unavailable="1")

    def takes_long(host):
        if host == "web-1":
            fleet.now += seconds
            fleet.boots["web-2"] = "boot-2" if boots else "boot-1"

    fleet.before["restore"] = takes_long
    fleet.go()
    assert fleet.done[:4] == ["ask", "prepare", "restore", "ask"]
    assert in_order(fleet) == posted


@pytest.mark.parametrize(("seconds", "posted"), [(50.0, ["2A"]), (70.0, [])])
def test_p2_who_boots_during_a_long_wait_is_not_approved_by_an_answer_older_than_a_minute(seconds, posted):
    """More hosts wait than Ansible has forks, so this one has its turn first; then the VM before it is back."""
    sudden, second = FleetEvent("1A", ["web-1"], notice=0.0, lasts=seconds), FleetEvent("2A", ["web-2"], notice=550.0)
    fleet = Fleet(["web-1", "web-2"], sudden, second, max_unavailable="1")
    wait = fleet._wait

    def wait_in_waves(orders):
        if fleet.boots["web-2"] != "boot-1":
            return wait(orders)
        fleet.now += 1.0
        early = {"host": fleet._known("web-2")}
        fleet.boots["web-2"] = "boot-2"
        fleet.now += seconds
        return {"web-1": {"host": fleet._known("web-1")}, "web-2": early}

    fleet._wait = wait_in_waves
    fleet.go()
    assert in_order(fleet) == posted, fleet.done


def test_who_is_waited_for_is_named_in_the_order_of_the_play():
    events = [FleetEvent(f"{number}A", [f"web-{number}"], notice=5000.0 + number, lasts=60.0) for number in (1, 2, 3)]
    fleet = Fleet(["web-1", "web-2", "web-3"], *events, max_unavailable="1")
    wait, awaited = fleet._wait, []

    def note(orders):
        awaited.append(list(orders))
        return wait(orders)

    fleet._wait = note
    fleet.go()
    assert awaited[0] == ["web-1", "web-2", "web-3"]


def test_an_event_that_azure_starts_before_its_turn_was_prepared_for():
    first, second = FleetEvent("1A", ["web-1"], notice=500.0, lasts=900.0), FleetEvent("2A", ["web-2"], notice=550.0)
    fleet = Fleet(WEB, first, second, max_unavailable="1").go()
    assert in_order(fleet) == ["1A"]
    assert fleet.story["web-2"] == ["prepare 2A", "restore 2A"]


def test_one_event_that_takes_more_hosts_than_that_is_said_before_and_waits_for_the_others_only():
    both, single = FleetEvent("B", ["web-1", "web-2"], notice=3600.0), FleetEvent("S", ["web-3"], notice=4000.0)
    fleet = Fleet(WEB, both, single, max_unavailable="1").go()
    assert in_order(fleet) == ["B", "S"]
    assert "Reboot B of web-1, web-2 takes 2 hosts out of service at once, and no more than 1 may be" in fleet.said


def test_what_is_behind_a_host_that_cannot_be_restored_is_held_back_and_named():
    fleet = Fleet(WEB, *one_each(notice=3600.0), max_unavailable="1")
    fleet.failing.add("restore web-1")
    fleet.go()
    assert in_order(fleet) == ["1A"]
    assert fleet.story["web-2"] == fleet.story["web-3"] == []
    for host in ("web-2", "web-3"):
        (each,) = fleet.run["hosts"][host]["events"]
        assert each["failed"]
        assert "web-1" in each["why"][-1]
    assert "HELD BACK: Reboot 2A" in fleet.said


def test_a_run_that_does_not_wait_approves_what_the_limit_allows_and_names_the_others():
    fleet = Fleet(WEB, *one_each(notice=3600.0), max_unavailable="2", wait=False).go()
    assert in_order(fleet) == ["1A", "2A"]
    assert fleet.run["hosts"]["web-3"]["events"][0]["failed"]


FOREVER = START + 1e6


def with_unasked(how, **settings):
    """Return a fleet with an event of web-1, in which web-3 cannot be asked."""
    fleet = Fleet(WEB, FleetEvent("1A", ["web-1"], notice=7200.0), **settings)
    if how == "down":
        fleet.down["web-3"] = (START, FOREVER)
    elif how == "its service is silent":
        fleet.silent.add("web-3")
    else:
        fleet.run["hosts"]["web-3"]["fault"] = "event_response_prepare cannot be evaluated."
    return fleet


@pytest.mark.parametrize("how", ["down", "its service is silent", "its variables cannot be used"])
def test_a_host_that_cannot_be_asked_counts_as_out_of_service_and_is_named(how):
    fleet = with_unasked(how, max_unavailable="1").go()
    assert fleet.posted == []
    assert fleet.story["web-1"] == []
    assert (
        "Reboot 1A of web-1 waits its turn: event_response_max_unavailable lets 1 host be out of service at once, and "
        "web-3 must be back first (cannot be asked, so it counts as out of service: web-3)." in fleet.said
    )
    assert "HELD BACK: Reboot 1A" in fleet.said
    assert in_order(with_unasked(how, max_unavailable="2").go()) == ["1A"]


@pytest.mark.parametrize("own", [{"web-3": {"group": "back"}}, {}])
def test_a_host_that_cannot_be_asked_counts_in_its_own_group(own):
    assert in_order(with_unasked("down", max_unavailable="1", own=own).go()) == (["1A"] if own else [])


def test_a_host_that_answers_when_it_is_asked_again_lets_the_others_go_on():
    fleet = with_unasked("down", max_unavailable="1")
    fleet.down["web-3"] = (START, START + 2.0)
    assert in_order(fleet.go()) == ["1A"]


@pytest.mark.parametrize(("back_after", "approved"), [(1e6, ["1A"]), (700.0, ["1A", "2A"])])
def test_a_host_without_an_event_that_is_lost_meanwhile_is_asked_again_before_the_others_are_held_back(
    back_after, approved
):
    first, second = (FleetEvent(f"{host[-1]}A", [host], notice=7200.0, lasts=720.0) for host in WEB[:2])
    fleet = Fleet(WEB, first, second, max_unavailable="1")
    fleet.down["web-3"] = (START + 100.0, START + back_after)
    assert in_order(fleet.go()) == approved
    assert fleet.said.count("waits its turn: event_response_max_unavailable lets 1 host be out of") == 2
    assert "(cannot be asked, so it counts as out of service: web-3)" in fleet.said


def test_a_host_that_is_lost_while_it_is_prepared_stays_out_of_service():
    fleet = Fleet(WEB, *one_each(notice=7200.0)[:2], max_unavailable="1", plays=1)
    fleet.losing.add("prepare web-1")
    assert fleet.go().posted == []
    assert fleet.story["web-2"] == []
    assert "HELD BACK: Reboot 2A" in fleet.said
    assert "and web-1 must be back first. Azure starts" in fleet.said
    assert "cannot be asked" not in fleet.said


def test_the_turn_of_an_event_comes_when_the_one_before_is_held_back_and_nobody_was_prepared_for_it():
    outside, second = FleetEvent("1A", ["web-1", "web-9"], notice=7200.0), FleetEvent("2A", ["web-2"], notice=7300.0)
    fleet = Fleet(WEB, outside, second, max_unavailable="1", prepare="nothing", restore="nothing").go()
    assert in_order(fleet) == ["2A"]


def test_hosts_for_which_nothing_is_to_be_done_go_one_after_the_other_too():
    fleet = Fleet(WEB, *one_each(notice=3600.0), max_unavailable="1", prepare="nothing", restore="nothing").go()
    assert in_order(fleet) == ["1A", "2A", "3A"]
    assert "HELD BACK" not in fleet.said


def test_a_host_that_its_checker_has_not_put_back_yet_counts_also_after_the_run_has_restored_it():
    first, second = one_each(notice=7200.0)[:2]
    fleet = Fleet(WEB, first, second, max_unavailable="1")
    mark = new_mark(CHECKER, first.told("web-1", START), "2026-11-21T09:59:00Z")
    fleet.marks["web-1"]["1A checker"] = {**mark, "state": PREPARED, "counts": True}
    fleet.go()
    assert fleet.story["web-1"] == ["prepare 1A", "restore 1A"]
    assert in_order(fleet) == ["1A"]
    assert "web-1 must be back first" in fleet.said


def test_a_host_that_another_run_has_not_put_back_yet_counts_also_after_this_one_has_taken_its_mark_away():
    first, second = FleetEvent("1A", ["web-1"], notice=7200.0), FleetEvent("2A", ["web-2"], notice=7300.0)
    fleet = Fleet(WEB, first, second, max_unavailable="1")
    fleet.hindered_by["web-1"] = ["of-another-run"]
    mark = new_mark(RUN, first.told("web-1", START), "2026-11-21T09:59:00Z", controller="control", user="ben", run="b")

    def let_another_prepare(host):
        if host == "web-1":
            first.withdrawn_at = fleet.now
            fleet.marks[host]["1A other"] = {**mark, "state": PREPARED, "counts": True}

    fleet.before["prepare"] = let_another_prepare
    fleet.go()
    assert fleet.story["web-1"] == ["mark removed 1A"]
    assert in_order(fleet) == []
    assert "web-1 must be back first" in fleet.said


def test_a_vm_that_azure_takes_down_without_a_notice_counts_until_it_is_back_and_is_waited_for():
    sudden, second = FleetEvent("1A", ["web-1"], notice=0.0, lasts=120.0), FleetEvent("2A", ["web-2"], notice=7200.0)
    fleet = Fleet(WEB, sudden, second, max_unavailable="1")
    fleet.down["web-1"] = (START + 10.0, START + 60.0)
    assert in_order(fleet.go()) == ["2A"]
    assert second.started_at >= START + 120.0
    assert "web-1 must be back first" in fleet.said
    assert fleet.story == {"web-1": [], "web-2": ["prepare 2A", "restore 2A"], "web-3": []}


def test_a_vm_that_azure_takes_down_and_that_does_not_come_back_is_not_waited_for_longer_than_for_a_boot():
    sudden, second = FleetEvent("1A", ["web-1"], notice=0.0, lasts=1200.0), FleetEvent("2A", ["web-2"], notice=7200.0)
    fleet = Fleet(WEB, sudden, second, max_unavailable="1")
    fleet.down["web-1"] = (START + 10.0, FOREVER)
    assert in_order(fleet.go()) == []
    assert START + 300.0 <= fleet.now <= START + 500.0
    assert "web-1 must be back first" in fleet.said


def test_nobody_waits_for_a_vm_that_azure_has_deleted():
    events = one_each(notice=7200.0, event_type="Terminate", lasts=60.0)[:2]
    fleet = Fleet(WEB, *events, max_unavailable="1")
    fleet.down["web-1"] = (START + 10.0, FOREVER)
    assert in_order(fleet.go()) == ["1A", "2A"]
