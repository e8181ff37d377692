# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a prepare or restore file is told of the other hosts, over whole histories of a fleet."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import engine
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.hosts import NEW_HOST
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.peers import describe_hosts
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._run.fleet import Fleet, FleetEvent

WEB = ["web-1", "web-2", "web-3"]


def told(fleet, turns):
    """Return what a file is told that runs after so many turns."""
    return describe_hosts(fleet.stop_after(turns).run["hosts"])


def free(hosts):
    return [name for name, host in hosts.items() if host["free"]]


def test_hosts_of_the_same_event_of_another_event_and_without_one():
    events = [FleetEvent("A1", WEB[:2]), FleetEvent("B2", ["web-3"], event_type="Freeze")]
    hosts = told(Fleet([*WEB, "web-4"], *events), turns=1)
    assert {name: [event["event_id"] for event in host["events"]] for name, host in hosts.items()} == {
        "web-1": ["A1"],
        "web-2": ["A1"],
        "web-3": ["B2"],
        "web-4": [],
    }
    assert free(hosts) == ["web-4"]


def test_an_event_that_the_run_leaves_out_is_told_too():
    hosts = told(Fleet(WEB, FleetEvent("A1", ["web-1"], event_type="Freeze"), event_types=["Reboot"]), turns=1)
    assert free(hosts) == ["web-2", "web-3"]


def test_who_is_prepared_has_a_mark_and_is_not_free_until_restored():
    fleet = Fleet(WEB, FleetEvent("A1", ["web-1"]))
    hosts = told(fleet, turns=2)
    assert [(mark["event_id"], mark["by"]) for mark in hosts["web-1"]["marks"]] == [("A1", "run")]
    # Azure has ended the event; the restore is still to come.
    fleet.events.clear()
    hosts = {"web-1": {**fleet.run["hosts"]["web-1"], "listed": []}}
    assert free(describe_hosts(hosts)) == []
    assert free(describe_hosts(Fleet(WEB, FleetEvent("A1", ["web-1"])).go().run["hosts"])) == WEB


def test_in_check_mode_a_host_that_would_be_prepared_is_not_free():
    fleet = Fleet(WEB, FleetEvent("A1", ["web-1"]), check_mode=True)
    told(fleet, turns=2)
    assert free(describe_hosts({"web-1": {**fleet.run["hosts"]["web-1"], "listed": [], "marks": []}})) == []


@pytest.mark.parametrize(
    ("turns", "arrange", "why"),
    [
        (0, lambda fleet: None, "it was not asked"),
        (1, lambda fleet: fleet.down.update({"web-2": (0.0, 9e9)}), "The host is down."),
        (1, lambda fleet: fleet.silent.add("web-2"), "The metadata service does not answer."),
        (2, lambda fleet: fleet.losing.add("prepare web-2"), "it failed or became unreachable"),
    ],
)
def test_p13_who_is_not_known_to_be_free_is_not(turns, arrange, why):
    fleet = Fleet(WEB, FleetEvent("A1", ["web-2"]))
    arrange(fleet)
    told(fleet, turns)
    present = [name for name in WEB if name not in fleet._gone]
    run = engine.enter_play(fleet.run, "play-1", present)
    host = describe_hosts(run["hosts"])["web-2"]
    assert (host["no_answer"], host["free"]) == (why, False)


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"answer": {"document_is_clear": False}}, "part of the answer of Azure could not be read"),
        ({"settings": None}, "it was not asked"),
        ({"fault": "event_response_prepare cannot be evaluated."}, "event_response_prepare cannot be evaluated."),
        ({"unreadable_marks": ["a1.mark.json"]}, None),
        ({"marks": [{"event_id": "A1", "by": "checker"}]}, None),
    ],
)
def test_p13_an_answer_in_which_something_may_be_missing_frees_nobody(known, why):
    answered = {"settings": {}, "times_asked": 1, "answer": {"document_is_clear": True}, "marks": []}
    assert describe_hosts({"web-1": {**NEW_HOST, **answered}})["web-1"]["free"] is True
    host = describe_hosts({"web-1": {**NEW_HOST, **answered, **known}})["web-1"]
    assert (host["no_answer"], host["free"]) == (why, False)


def test_an_event_that_an_unclear_answer_has_left_out_is_told_as_it_was():
    known = {**NEW_HOST, "listed": [{"event_id": "A1", "is_missing": True}]}
    assert describe_hosts({"web-1": known})["web-1"]["events"] == [{"event_id": "A1"}]
