# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The merge: one event for what many VMs said of it, and every host accounted for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.selection import NO_DOCUMENT
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet import host_results
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.merge import (
    describe_contradiction,
    merge_slices,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.text import vm_label
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils.conftest import NOW

UNREACHABLE = {"unreachable": True, "msg": "No route to host"}
OFF_AZURE = {"reason": "unreachable", "msg": "Nothing answers", "http_status": None, "imds_reachable": False}
PORTAL = {"reason": "not_imds", "msg": "A web page"}
EMPTY = {"events": [], "document_received": False, "resource_name": "web-1", "msg": NO_DOCUMENT}
NO_PYTHON = {"msg": "It failed.\nSee stdout", "module_stdout": "\nsh: no python\n", "rc": 127}
SSH_ENDS = "Shared connection to vm closed.\r\n"
OVER_SSH = {"msg": "It failed.", "module_stdout": "sh: no python\r\n", "module_stderr": SSH_ENDS}
CANNOT_BE_USED = "The answer of the host cannot be used"


@pytest.mark.parametrize(
    ("result", "state", "reason", "message"),
    [
        pytest.param(UNREACHABLE, "unreachable", "unreachable", "No route to host", id="Ansible cannot connect"),
        pytest.param(OFF_AZURE, "not_on_azure", "unreachable", "Nothing answers", id="nothing answers"),
        pytest.param(PORTAL, "not_on_azure", "not_imds", "A web page", id="a portal answers"),
        pytest.param({"reason": "timeout", "msg": "Too slow"}, "failed", "timeout", "Too slow", id="IMDS too slow"),
        pytest.param({"reason": "throttled", "msg": "429"}, "failed", "throttled", "429", id="throttled"),
        pytest.param(EMPTY, "failed", "no_document", NO_DOCUMENT, id="an empty answer is not no events"),
        pytest.param(NO_PYTHON, "failed", "module_failed", "It failed. (sh: no python)", id="no Python"),
        pytest.param(
            OVER_SSH, "failed", "module_failed", "It failed. (sh: no python)", id="no Python, over ssh with a terminal"
        ),
        pytest.param({"failed": True}, "failed", "module_failed", "The host gave no reason.", id="failed in silence"),
        pytest.param({"unreachable": True, "msg": " \n"}, *["unreachable"] * 2, "The host gave no reason.", id="blank"),
        pytest.param({}, "failed", "no_result", "The task that asks this host did not run.", id="no result"),
        pytest.param(None, "failed", "no_result", "The task that asks this host did not run.", id="not even a result"),
        pytest.param(
            {"events": [], "resource_name": 7},
            "failed",
            "malformed",
            f"{CANNOT_BE_USED}: resource_name is not a text.",
            id="a name that is none",
        ),
        pytest.param(
            {"events": ["Reboot"]},
            "failed",
            "malformed",
            f"{CANNOT_BE_USED}: an event is not a dictionary.",
            id="an event that is none",
        ),
    ],
)
def test_a_host_that_gave_no_answer_is_named_with_the_reason(
    report_on: Any, result: Any, state: str, reason: str, message: str
) -> None:
    report = report_on({"web-1": result})
    (host,) = report["hosts"]
    assert (host["state"], host["reason"], host["message"]) == (state, reason, message)
    assert report["counts"] == {**dict.fromkeys(report["counts"], 0), "asked": 1, state: 1}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"event_id": ""}, "an event has no event_id"),
        ({"event_id": 7}, "an event has no event_id"),
        ({"event_type": ["Reboot"]}, "event A-1 has something else where a text belongs"),
        ({"description": {}}, "event A-1 has something else where a text belongs"),
        ({"duration_seconds": "9"}, "event A-1 has a duration that is not a number of seconds"),
        ({"duration_seconds": True}, "event A-1 has a duration that is not a number of seconds"),
        ({"duration_seconds": -1}, "event A-1 has a duration that is not a number of seconds"),
        ({"resources": "web-1"}, "event A-1 has resources that are not a list of names"),
        ({"resources": [None]}, "event A-1 has resources that are not a list of names"),
        ({"affects_this_vm": "yes"}, "event A-1 has an affects_this_vm that is neither true nor false"),
        ({"not_before": "soon"}, "event A-1 has a not_before that is not a time"),
        ({"not_before": "2026-13-41T10:00:00Z"}, "event A-1 has a not_before that is not a time"),
    ],
)
def test_a_vm_that_returns_what_no_module_returns_cannot_spoil_the_report(
    report_on: Any, said: Any, changes: dict[str, Any], complaint: str
) -> None:
    report = report_on({"bad": said("web-1", changes), "web-2": said("web-2", {})})
    assert report["hosts"][0]["message"] == f"{CANNOT_BE_USED}: {complaint}."
    assert [event["told_by"] for event in report["events"]] == [["web-2"]]


def test_what_two_vms_say_of_one_event_is_one_event_whatever_the_letter_case_of_its_id(
    report_on: Any, said: Any
) -> None:
    report = report_on({"a": said("web-1", {}), "b": said("WEB-2", {"event_id": "a-1", "affects_this_vm": True})})
    (event,) = report["events"]
    assert event["event_id"] == "A-1"
    assert event["vms"] == [{"resource": "web-1", "host": "a"}, {"resource": "web-2", "host": "b"}]
    assert event["told_by"] == ["a", "b"]
    assert event["contradictions"] == []
    assert event["leader"] == "web-1"
    counts = {name: count for name, count in report["counts"].items() if count}
    assert counts == {"asked": 2, "affected": 2, "events": 1}


def test_an_event_has_the_vms_that_any_of_those_who_tell_it_know(report_on: Any, said: Any) -> None:
    first, second = {"event_id": "ABC"}, {"event_id": "abc", "resources": ["WEB-2", "web-3"], "affects_this_vm": True}
    (event,) = report_on({"web-1": said("web-1", first), "web-2": said("web-2", second)})["events"]
    assert (event["event_id"], list(map(vm_label, event["vms"]))) == ("ABC", ["web-1", "web-2", "web-3"])


def test_a_vm_that_the_inventory_calls_otherwise_is_shown_by_both_names(report_on: Any, said: Any) -> None:
    told = {"resources": ["VM-4", "web-2", "web-3"], "affects_this_vm": True}
    (event,) = report_on({"10.0.0.4": said("vm-4", told), "WEB-2": said("web-2", told)})["events"]
    assert list(map(vm_label, event["vms"])) == ["VM-4 (10.0.0.4)", "web-2", "web-3"]


def test_a_vm_that_only_sees_the_event_of_another_is_quiet(report_on: Any, said: Any) -> None:
    report = report_on({"db-1": said("db-1", {})})
    assert report["hosts"][0]["state"] == "quiet"
    assert report["hosts"][0]["event_ids"] == []
    # web-1 and web-2 were not asked, and are still in the report.
    assert report["events"][0]["vms"] == [{"resource": "web-1", "host": None}, {"resource": "web-2", "host": None}]


def test_an_event_that_names_no_vm_may_mean_each_that_was_told_of_it(report_on: Any, said: Any) -> None:
    report = report_on({"a": said("web-1", {"resources": [], "affects_this_vm": None})})
    assert report["hosts"][0]["state"] == "affected"
    assert report["events"][0]["vms"] == [{"resource": "web-1", "host": "a"}]
    assert report["events"][0]["leader"] is None


def test_a_vm_that_does_not_know_its_name_is_shown_by_its_host(report_on: Any, said: Any) -> None:
    report = report_on({"classic": said(None, {"resources": ["web-1"], "affects_this_vm": None})})
    assert report["events"][0]["vms"] == [{"resource": "web-1", "host": None}, {"resource": None, "host": "classic"}]


def test_of_two_vms_with_one_name_the_one_is_meant_that_was_told_of_the_event(report_on: Any, said: Any) -> None:
    report = report_on({"eu": said("web-1"), "us": said("web-1", {"resources": ["web-1"]})})
    (event,) = report["events"]
    assert event["vms"] == [{"resource": "web-1", "host": "us"}]
    assert event["contradictions"] == []


HAS_STARTED = {"event_status": "Started", "not_before": None}
STARTED = {**HAS_STARTED, "seconds_until_start": 0}
USUAL = {"event_source": "Platform", "description": "Host server is undergoing maintenance."}
FIVE_S, NO_TIME = {"duration_seconds": 5}, {"duration_seconds": 0}
THREE = {"resources": ["web-1", "web-2", "web-3"]}


@pytest.mark.parametrize(
    ("first", "second", "merged", "told"),
    [
        pytest.param({}, {}, {"event_status": "Scheduled"}, [], id="both say the same"),
        pytest.param({}, HAS_STARTED, STARTED, ["event_status: Scheduled (a), Started (b)"], id="started for one"),
        pytest.param(
            {**HAS_STARTED, "event_status": "STARTED"},
            {},
            STARTED,
            ["event_status: STARTED (a), Scheduled (b)"],
            id="started for one, in capitals",
        ),
        pytest.param(
            {},
            {"not_before": "2026-11-21T10:05:00Z"},
            {"not_before": "2026-11-21T10:05:00Z", "seconds_until_start": 300},
            ["not_before: 2026-11-21T10:10:00Z (a), 2026-11-21T10:05:00Z (b)"],
            id="the earlier time counts",
        ),
        pytest.param(
            {"not_before": None}, {}, {"not_before": "2026-11-21T10:10:00Z"}, [], id="a time that one could not read"
        ),
        pytest.param(
            {"event_type": "Freeze"}, {}, {"event_type": "Freeze"}, ["event_type: Freeze (a), Reboot (b)"], id="type"
        ),
        pytest.param(dict.fromkeys(USUAL), {}, USUAL, [], id="an older api-version contradicts nobody"),
        pytest.param(FIVE_S, {"duration_seconds": None}, FIVE_S, [], id="a length that only one knows"),
        pytest.param(NO_TIME, FIVE_S, NO_TIME, ["duration_seconds: 0 (a), 5 (b)"], id="lengths"),
        pytest.param(THREE, {}, THREE, ["resources: web-1, web-2, web-3 (a), web-1, web-2 (b)"], id="VMs"),
        pytest.param(
            {},
            {"resources": ["web-2", "web-1"]},
            {"resources": ["web-1", "web-2"], "leader": "web-1"},
            ["leader: web-1 (a), web-2 (b)"],
            id="leader",
        ),
        pytest.param({}, {"resources": ["WEB-1", "web-2"]}, {"resources": ["web-1", "web-2"]}, [], id="letter case"),
    ],
)
def test_a_contradiction_is_told_and_decided_with_care(
    report_on: Any, said: Any, first: dict[str, Any], second: dict[str, Any], merged: dict[str, Any], told: list[str]
) -> None:
    (event,) = report_on({"a": said("web-1", first), "b": said("web-2", second)})["events"]
    assert {name: event[name] for name in merged} == merged
    assert [describe_contradiction(one) for one in event["contradictions"]] == told


@pytest.mark.parametrize("backwards", [False, True])
def test_in_whatever_order_the_vms_answer_the_later_word_counts(report_on: Any, said: Any, backwards: bool) -> None:
    answers = [
        ("a", said("web-1", {"event_id": "A-1"}, {"event_id": "B", "not_before": "2026-11-21T10:00:05Z"})),
        ("b", said("web-2", {"event_id": "b", "event_status": "STARTED", "not_before": None})),
    ]
    events = report_on(dict(answers[::-1] if backwards else answers))["events"]
    shown = [(event["event_id"].upper(), event["event_status"], event["seconds_until_start"]) for event in events]
    assert shown == [("B", "Started", 0), ("A-1", "Scheduled", 600)]


def test_what_most_vms_say_counts(report_on: Any, said: Any) -> None:
    odd, usual = {"description": "odd"}, {"description": "usual"}
    report = report_on({"a": said("web-1", odd), "b": said("web-2", usual), "c": said("db-1", usual)})
    assert report["events"][0]["description"] == "usual"


def test_a_vm_that_is_listed_but_was_not_told_is_a_contradiction(report_on: Any, said: Any) -> None:
    report = report_on({"a": said("web-1", {}), "b": said("web-2")})
    (event,) = report["events"]
    assert [describe_contradiction(one) for one in event["contradictions"]] == [
        "event: in the document (a), not in the document (b)"
    ]
    assert event["vms"][1] == {"resource": "web-2", "host": "b"}
    assert report["counts"]["contradictions"] == 1


def test_of_many_hosts_that_say_the_same_four_are_named() -> None:
    told = [{"value": "Started", "hosts": [f"vm-{number}" for number in range(7)]}]
    said = describe_contradiction({"field": "event_status", "told": told})
    assert said == "event_status: Started (vm-0, vm-1, vm-2, vm-3, 3 more)"


def test_events_are_in_the_order_in_which_they_start_and_unknown_starts_come_last(report_on: Any, said: Any) -> None:
    events = [
        {"event_id": "unknown", "not_before": None},
        {"event_id": "late", "not_before": "2026-11-21T11:00:00Z"},
        {"event_id": "due", "not_before": "2026-11-21T09:59:00Z"},
        {"event_id": "running", "event_status": "Started", "not_before": None},
    ]
    report = report_on({"web-1": said("web-1", *events)})
    assert [(event["event_id"], event["seconds_until_start"]) for event in report["events"]] == [
        ("running", 0),
        ("due", 0),
        ("late", 3600),
        ("unknown", None),
    ]


def parts(*ages_and_results: tuple[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        host_results.make_slice(results, f"part-{age}", NOW - timedelta(seconds=age))
        for age, results in ages_and_results
    ]


def test_of_a_host_in_two_parts_the_newest_answer_counts(said: Any) -> None:
    merged = merge_slices(parts((60, {"a": said("web-1")}), (3000, {"a": UNREACHABLE, "b": OFF_AZURE})), NOW)
    assert [(host["host"], host["state"]) for host in merged["hosts"]] == [("a", "quiet"), ("b", "not_on_azure")]
    assert (merged["asked_from"], merged["asked_until"]) == ("2026-11-21T09:10:00Z", "2026-11-21T09:59:00Z")


def test_a_part_that_is_too_old_is_left_out_and_its_hosts_are_named(said: Any) -> None:
    old = parts((60, {"a": said("web-1")}), (3601, {"b": said("web-2")}))
    merged = merge_slices(old, NOW, expected=["a", "b"], max_age=3600)
    assert merged["left_out_parts"] == ["part-3601"]
    assert merged["hosts"][1]["state"] == "not_asked"
    assert merged["hosts"][1]["message"].startswith("No new enough part of this report has the host")
    assert (merged["counts"]["asked"], merged["counts"]["not_asked"]) == (1, 1)


def test_a_host_that_no_slice_asked_is_named(said: Any) -> None:
    merged = merge_slices(parts((60, {"a": said("web-1")})), NOW, expected=["a", "b"])
    assert (merged["hosts"][1]["host"], merged["hosts"][1]["reason"]) == ("b", "no_part")


def test_a_fleet_of_no_host_is_a_report_too() -> None:
    merged = merge_slices([], NOW)
    assert (merged["events"], merged["hosts"], merged["asked_from"]) == ([], [], None)
    assert set(merged["counts"].values()) == {0}


ID = "/subscriptions/s-1/resourceGroups/web/providers/Microsoft.Compute/virtualMachines/"
LOST = {**UNREACHABLE, "changed": False}


def of_azure(host: str, *events: Any) -> dict[str, Any]:
    return {"hosts": {host: {"resource_id": f"{ID}{host}", "events": list(events)}}, "is_complete": True}


@pytest.mark.parametrize("is_clear", [True, False], ids=["a clear document", "an entry that cannot be read"])
@pytest.mark.parametrize("same_part", [True, False], ids=["one part", "two parts"])
def test_rows_that_are_older_than_the_word_of_a_vm_count_for_nothing(
    said: Any, event: Any, same_part: bool, is_clear: bool
) -> None:
    row = event("", event_id="E-1", resources=["web-1", "web-3"], affects_this_vm=True, outcome=None)
    row["vm_resource_ids"] = [f"{ID}web-1", f"{ID}web-3"]
    answer = said("web-1", {"event_id": "E-2", "resources": ["web-1"]}, document_is_clear=is_clear)
    azure = [of_azure("web-1", row), of_azure("web-3", row)]
    if same_part:
        both = {"hosts": {**azure[0]["hosts"], **azure[1]["hosts"]}, "is_complete": True}
        parts = [host_results.make_slice({"web-1": answer, "web-3": LOST}, "a", NOW, both)]
    else:
        parts = [
            host_results.make_slice({"web-1": answer}, "a", NOW, azure[0]),
            host_results.make_slice({"web-3": LOST}, "b", NOW, azure[1]),
        ]
    report = merge_slices(parts, NOW)
    told = {one["event_id"]: one["told_by_azure"] for one in report["events"]}
    assert told == {"E-2": [], **({} if is_clear else {"E-1": ["web-1", "web-3"]})}
