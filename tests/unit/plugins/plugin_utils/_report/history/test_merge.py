# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the checkers of a fleet remember, merged: which rows are one event, and what is told of types, weeks and VMs."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.history_row import ROW
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.history.host_results import (
    AZURE_EVENT,
    SLICE_FORMAT,
    make_slice,
    read_answer,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.history.merge import merge_slices
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.slices import check_slice

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)


def at(seconds):
    """Return a time so many seconds after the event was announced, which was a day ago."""
    return None if seconds is None else format_utc(NOW + timedelta(seconds=seconds - 86400))


def row(event_id="A1", seen=0, notice=900, approved=None, started=None, ended=None, **more):
    return {
        **dict.fromkeys(ROW),
        "event_id": event_id,
        "event_type": "Reboot",
        "resource_name": "web-1",
        "first_seen_at": at(seen),
        "not_before_first": None if notice is None else at(seen + notice),
        "approved_at": at(approved),
        "approved_by": None if approved is None else "checker",
        "started_at": at(started),
        "ended_at": at(ended),
        "outcome": None if ended is None else "withdrawn" if started is None else "completed",
        "responses": 1,
        "failed_responses": [],
        "late": False,
        "simulated": False,
        **more,
    }


def printed(text):
    return {"rc": 0, "stdout": text}


def said(*rows, name="web-1", **more):
    usual = {"history_format": 1, "version": "1.1.0", "warnings": []}
    return printed(json.dumps({"resource_name": name, **usual, "history": list(rows), **more}))


def merge(hosts, **options):
    return merge_slices([make_slice(hosts, "whole", NOW)], NOW, **options)


def test_a_preparation_of_less_than_a_second_is_known():
    hosts = {"host-a": said(row(prepare_seconds=0)), "host-b": said(row(prepare_seconds=None), name="web-2")}
    report = merge(hosts)
    assert report["events"][0]["prepare_seconds"] == 0
    assert report["types"][0]["prepare"] == report["vms"][0]["prepare"]


def test_what_several_vms_saw_of_an_event_is_one_event():
    report = merge(
        {
            "host-a": said(row(seen=5, notice=895, approved=60, started=65, ended=300, prepare_seconds=30)),
            "host-b": said(row("a1", started=66, ended=310, late=True, failed_responses=["announced"]), name="web-2"),
        }
    )
    (event,) = report["events"]
    assert (event["event_id"], event["first_seen_at"], event["week"]) == ("a1", at(0), "2026-W47")
    # The VM that saw it first had the notice that Azure gave.
    assert (event["notice_seconds"], event["documented_notice_seconds"], event["shorter"]) == (900, 900, False)
    assert (event["approved_by"], event["approved_on"]) == ("checker", ["host-a"])
    assert (event["approval_to_start_seconds"], event["lasted_seconds"], event["prepare_seconds"]) == (5, 235, 30)
    assert (event["failed_responses"], event["late"], event["outcome"]) == (1, True, "completed")
    assert [vm["host"] for vm in event["vms"]] == ["host-b", "host-a"]
    assert [(vm["host"], vm["resource_name"], vm["events"], vm["late"]) for vm in report["vms"]] == [
        ("host-a", "web-1", 1, 0),
        ("host-b", "web-2", 1, 1),
    ]


@pytest.mark.parametrize(
    ("rows", "events"),
    [
        pytest.param([row("A1"), row("B2")], 2, id="two ids"),
        pytest.param([row("A1"), row("a1", seen=3600)], 1, id="an id in other letters, an hour later"),
        pytest.param([row(), row(seen=-3 * 86400)], 2, id="an id that was given again days later"),
        pytest.param([row(), row(seen=86400), row(seen=-86400)], 1, id="a chain of VMs that were off"),
        pytest.param([row(), row(first_seen_at="1970-01-01T00:00:10Z")], 1, id="a VM whose clock was not set yet"),
        pytest.param([row(), row(first_seen_at="2099-01-01T00:00:10Z")], 1, id="a VM whose clock was ahead"),
    ],
)
def test_which_rows_are_one_event(rows, events):
    report = merge({f"host-{number}": said(each) for number, each in enumerate(rows)})
    assert len(report["events"]) == events == report["counts"]["events"]
    assert sum(len(event["vms"]) for event in report["events"]) == len(rows)


def test_an_id_that_a_vm_was_given_again_within_a_day_is_another_event():
    rows = [row(ended=60), row(seen=3600, started=3700, ended=3800)]
    later = [row(seen=5, ended=70), row(seen=3605, started=3700, ended=3800)]
    unset = row(first_seen_at="1970-01-01T00:00:10Z")
    report = merge({"host-a": said(*rows, unset), "host-b": said(*later)})
    told = [(event["outcome"], [vm["host"] for vm in event["vms"]]) for event in report["events"]]
    assert told == [("completed", ["host-a", "host-b"]), ("withdrawn", ["host-a", "host-b"]), (None, ["host-a"])]


@pytest.mark.parametrize(
    ("wrong", "unknown"),
    [
        pytest.param({"ended": 5, "started": 65}, "lasted_seconds", id="ended before it started"),
        pytest.param({"notice": -60}, "notice_seconds", id="a start that was past when it was seen"),
        pytest.param({"approved": 100, "started": 65}, "approval_to_start_seconds", id="started before the approval"),
    ],
)
def test_times_that_contradict_each_other_are_marked_and_left_out(wrong, unknown):
    report = merge({"host-a": said(row(**wrong))})
    (event,) = report["events"]
    assert (event["doubtful"], event[unknown]) == (True, None)
    assert (report["counts"]["doubtful"], report["counts"]["events"]) == (1, 1)


def test_of_a_vm_whose_clock_cannot_have_been_right_the_week_is_unknown():
    report = merge({"host-a": said(row(first_seen_at="1970-01-01T00:00:10Z"))})
    assert [(week["week"], week["events"]) for week in report["weeks"]] == [("unknown", 1)]
    assert report["events"][0]["doubtful"]


def test_types_weeks_and_spreads():
    rows = [
        row(f"E{number}", notice=notice, started=10, ended=20) for number, notice in enumerate((900, 700, 880, 890))
    ]
    rows += [row("W", ended=50), row("F", event_type="freeze", notice=None), row("X", event_type="Hibernate")]
    rows += [row("OLD", seen=-7 * 86400, approved_by="other")]
    report = merge({"host-a": said(*rows)})
    types = {each["event_type"]: each for each in report["types"]}
    assert list(types) == ["Freeze", "Reboot", "Other"]
    reboot = types["Reboot"]
    assert (reboot["events"], reboot["completed"], reboot["withdrawn"], reboot["open"]) == (6, 4, 1, 1)
    spread = {"known": 6, "least": 700, "quarter": 880, "median": 890, "three_quarters": 900, "most": 900}
    assert reboot["notice"] == spread
    assert (reboot["shorter"], reboot["lasted"]["median"], reboot["approval_to_start"]) == (1, 10, None)
    assert (reboot["approved_by_checker"], reboot["approved_by_other"], reboot["approval_unknown"]) == (0, 1, 5)
    assert (types["Freeze"]["notice"], types["Other"]["documented_notice"]) == (None, None)
    assert [(each["week"], each["event_type"], each["events"]) for each in report["weeks"]] == [
        ("2026-W47", "Freeze", 1),
        ("2026-W47", "Reboot", 5),
        ("2026-W47", "Other", 1),
        ("2026-W46", "Reboot", 1),
    ]


def test_what_simulators_announced_is_left_out_unless_it_is_asked_for():
    hosts = {"host-a": said(row("A"), row("B", simulated=True))}
    report = merge(hosts)
    assert ([event["event_id"] for event in report["events"]], report["counts"]["simulated"]) == (["A"], 1)
    assert len(merge(hosts, simulated=True)["events"]) == 2


def test_of_a_host_in_two_parts_the_newest_counts_and_who_is_in_none_is_named():
    old = make_slice({"host-a": said(row("OLD"))}, "old", NOW - timedelta(hours=2))
    new = make_slice({"host-a": said(row("NEW"))}, "new", NOW)
    report = merge_slices([new, old], NOW, ["host-a", "host-b"])
    assert [event["event_id"] for event in report["events"]] == ["NEW"]
    assert [(host["host"], host["state"]) for host in report["hosts"]] == [("host-a", "told"), ("host-b", "not_asked")]
    report = merge_slices([old], NOW, ["host-a"], max_age=3600)
    assert (report["left_out_parts"], report["hosts"][0]["state"]) == (["old"], "not_asked")


TIMED_OUT = "Timed out after 60 second(s)."
NO_KEY = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"


@pytest.mark.parametrize(
    ("result", "state", "reason", "message"),
    [
        (None, "failed", "no_result", "The task that asks this host did not run."),
        ({}, "failed", "no_result", "The task that asks this host did not run."),
        ({"unreachable": True, "msg": "No route to host"}, "unreachable", "unreachable", "No route to host"),
        ({"skipped": True}, "no_checker", "windows", "The host runs Windows, where there is no checker."),
        (
            {"rc": 2, "msg": "Error executing command.", "stdout": "", "stderr": ""},
            "no_checker",
            "no_checker",
            "The host has no checker: run install_checker for it.",
        ),
        (
            {"rc": 1, "msg": "non-zero return code", "stderr": "state.db: Permission denied.", "stdout": ""},
            "failed",
            "command_failed",
            "non-zero return code: rc=1: state.db: Permission denied.",
        ),
        ({"msg": TIMED_OUT, "timedout": {"period": 60}}, "failed", "timeout", TIMED_OUT),
        (printed("{"), "damaged", "not_json", f"The output of the checker is not JSON ({NO_KEY})."),
        (printed("[]"), "damaged", "malformed", "The output of the checker is not a dictionary."),
        (
            printed('{"events": []}'),
            "other_version",
            "no_history",
            "The checker keeps no history: install the checker of this version.",
        ),
        (
            said(history_format=2, version="9.0"),
            "other_version",
            "other_format",
            "The history of checker 9.0 has format 2, not 1: install the checker of this version.",
        ),
        (said(history={}), "damaged", "malformed", "The output of the checker has no list of events."),
        (said(warnings=["Half of it is lost."]), "damaged", "damaged", "Half of it is lost."),
        (said(row(), {**row(), "late": 7}, 7), "damaged", "damaged", "2 of 3 rows cannot be read."),
        # Times of ISO 8601 that are as long as those of the checker
        (said({**row(), "ended_at": "2026-11-21T10+01:00Z"}), "damaged", "damaged", "1 of 1 rows cannot be read."),
        (said({**row(), "ended_at": "2026-W47-6T10:00:00Z"}), "damaged", "damaged", "1 of 1 rows cannot be read."),
        (printed("[" * 100_000), "damaged", "not_json", None),
    ],
)
def test_a_host_without_a_whole_history_is_named_with_the_reason(result, state, reason, message):
    told = read_answer("host-a", result)
    assert (told["state"], told["reason"]) == (state, reason)
    if message is not None:
        assert told["message"] == message


@pytest.mark.parametrize("odd", ["NaN", "1e999", "[" * 900 + "]" * 900])
def test_what_another_version_adds_to_a_row_is_left_out(odd):
    history = said({**row(), "added": 1})["stdout"].replace('"added": 1', f'"added": {odd}')
    told = read_answer("host-a", printed(history))
    assert (told["state"], told["rows"]) == ("told", [row()])


def test_a_damaged_history_counts_as_far_as_it_can_be_read():
    report = merge({"host-a": said(row("A"), 7)})
    assert (report["counts"]["damaged"], report["counts"]["events"]) == (1, 1)


def of_azure(host, **changes):
    event = {**dict.fromkeys(AZURE_EVENT), "event_id": "a1", "event_status": "Completed", "outcome": "completed"}
    return {"hosts": {host: {"events": [{**event, **changes}], "causes": []}}, "is_complete": True}


@pytest.mark.parametrize(
    ("azure", "outcomes", "alone"),
    [
        # Azure tells no times: of two events with one id the newest is meant.
        (of_azure("host-a"), ["completed", "withdrawn"], 0),
        (of_azure("host-a", event_status="Scheduled", outcome=None), ["withdrawn", "withdrawn"], 0),
        (of_azure("host-a", event_id="other"), ["withdrawn", "withdrawn"], 1),
        (None, ["withdrawn", "withdrawn"], 0),
    ],
)
def test_the_outcome_of_azure_counts_where_it_tells_one(azure, outcomes, alone):
    week = 7 * 86400
    rows = (row(seen=0, ended=60), row(seen=-week, ended=60 - week))
    report = merge_slices([make_slice({"host-a": said(*rows)}, "whole", NOW, azure)], NOW)
    assert [event["outcome"] for event in report["events"]] == outcomes
    assert [vm["outcome"] for event in report["events"] for vm in event["vms"]] == outcomes
    assert (report["counts"]["completed"], len(report["azure_events"])) == (outcomes.count("completed"), alone)


def test_an_event_of_a_simulator_is_none_of_azures():
    part = make_slice({"host-a": said(row(simulated=True, ended=60))}, "whole", NOW, of_azure("host-a"))
    report = merge_slices([part], NOW, simulated=True)
    assert (report["events"][0]["outcome"], len(report["azure_events"])) == ("withdrawn", 1)


@pytest.mark.parametrize(
    "changes", [{"azure_events": None}, {"azure_events": [{}]}, {"azure_causes": [{"summary": 1}]}, {"azure_causes": 1}]
)
def test_a_part_with_odd_words_of_azure_is_refused(changes):
    part = make_slice({"host-a": said()}, "whole", NOW, of_azure("host-a"))
    part["hosts"][0].update(changes)
    with pytest.raises(ValueError, match="cannot be merged"):
        check_slice(SLICE_FORMAT, "whole", part)
