# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts in files: what was written is read again, and what is none, or of another version, is refused in a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.fleetops.azure_maintenance.plugins.filter import fleet_part, fleet_report
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report import slices
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet import formats

MOMENT = "2026-11-21T10:00:00Z"
FILES = ("json", "csv", "md", "html")


def part_of(results: dict[str, Any]) -> dict[str, Any]:
    return fleet_part.fleet_part(results, "slice-1", MOMENT)


def test_a_part_that_went_through_a_file_makes_the_same_report(said: Any) -> None:
    part = part_of({"a": said("web-1", {"description": "Ünïcode \u202e \x07"}), "b": {"unreachable": True}})
    from_file = fleet_report.fleet_report([["slice-1.json", json.dumps(part)]], now=MOMENT)
    assert from_file == fleet_report.fleet_report([part], now=MOMENT)
    assert from_file["counts"]["affected"] == 1


def test_an_object_of_ansible_in_a_result_does_not_keep_the_report_from_being_written(said: Any) -> None:
    """As the registered result of a failed task has one in ansible-core 2.19 and 2.20."""
    answers = slices.plain_results({"a": said("web-1", {}), "b": {"failed": True, "exception": object(), "msg": "No."}})
    part = fleet_part.fleet_part(answers, "slice-1", MOMENT)
    assert [(each["host"], each["state"]) for each in part["hosts"]] == [("a", "affected"), ("b", "failed")]


def test_the_playbook_writes_what_the_filter_returns(said: Any) -> None:
    part = part_of({"a": said("web-1", {}), "b": said("web-2", {"event_type": "Reboot"}), "c": {"unreachable": True}})
    given, now = {"max_age": 0, "warn_after": 60}, slices.read_now(MOMENT)
    due = {**given, "mode": "report", "fail_within": "600"}
    made = formats.format_slices([part], now, ["d"], due)
    assert made.files == {
        name: fleet_report.fleet_report([part], name, ["d"], now=MOMENT, warn_after=60) for name in FILES
    }
    assert made.counts == fleet_report.fleet_report([part], hosts=["d"], now=MOMENT)["counts"]
    assert made.lines == fleet_report.fleet_report([part], "lines", ["d"], now=MOMENT)
    assert made.due == fleet_report.fleet_report([part], "due", now=MOMENT, due_within=600)
    assert made.due
    of_slice = formats.format_slices([part], now, ["d"], {**given, "mode": "part", "fail_within": ""})
    assert of_slice == (made.counts, {}, made.lines, [])


def test_half_of_a_character_does_not_keep_the_report_from_being_written(said: Any) -> None:
    part = part_of({"a": said("web-1", {"description": "\ud83d"})})
    by_hand = json.dumps(part_of({"b": said("web-1", {"description": "half"})})).replace("half", "\\ud83d")
    for name in FILES:
        fleet_report.fleet_report([part, ["by-hand.json", by_hand]], name).encode("utf-8")


@pytest.mark.parametrize("name", FILES)
def test_parts_that_are_all_too_old_make_a_report_that_says_so(said: Any, name: str) -> None:
    part = part_of({"web-1": said("web-1", {})})
    text = fleet_report.fleet_report([part], name, ["web-1"], max_age=60, now="2026-11-21T12:00:00Z")
    assert "No new enough part of this report has the host" in text
    assert "Host server is undergoing maintenance" not in text


def test_a_part_of_another_version_that_is_too_old_does_not_keep_the_others_from_being_merged(said: Any) -> None:
    old = broken(version=0, name="before the upgrade", hosts="in another form")
    new = fleet_part.fleet_part({"web-1": said("web-1")}, "after it", "2026-11-21T12:00:00Z")
    parts = [["old.json", old], ["new.json", json.dumps(new)]]
    report = fleet_report.fleet_report(parts, max_age=3600, now="2026-11-21T12:00:10Z")
    assert (report["left_out_parts"], report["counts"]["quiet"]) == (["before the upgrade"], 1)
    with pytest.raises(AnsibleFilterError, match="another version"):
        fleet_report.fleet_report(parts, max_age=7300, now="2026-11-21T12:00:10Z")


@pytest.mark.parametrize("max_age", [7200, 10**15, float("inf"), 0])
def test_any_number_of_seconds_can_be_the_age(said: Any, max_age: float) -> None:
    report = fleet_report.fleet_report([part_of({"a": said("web-1")})], max_age=max_age, now="2026-11-21T12:00:00Z")
    assert report["counts"]["quiet"] == 1


def broken(**changes: Any) -> str:
    return json.dumps({**part_of({}), **changes})


HOST = {
    "host": "a",
    "state": "quiet",
    "reason": None,
    "message": None,
    "resource_name": None,
    "events": [],
    "warnings": [],
    "out_of_service": [],
    "document_is_clear": True,
    "resource_id": None,
    "azure_events": [],
}
ID_ALONE = {"event_id": "A-1"}
OF_AZURE = {
    **dict.fromkeys(("event_type", "event_status", "not_before", "description", "event_source", "duration_seconds")),
    "event_id": "A-1",
    "resources": [],
    "affects_this_vm": None,
}


def test_p13_a_part_of_a_machine_whose_clock_is_ahead_hides_no_later_answer(said: Any) -> None:
    ahead = fleet_part.fleet_part({"web-1": said("web-1")}, "slice-1", "2026-11-21T12:06:00Z")
    with pytest.raises(
        AnsibleFilterError, match=r"Part .* was made in the future \(2026-11-21T12:06:00Z\): set the clock"
    ):
        fleet_report.fleet_report([ahead, part_of({"web-1": said("web-1")})], now="2026-11-21T12:00:00Z")


OLDER = (
    'Part slice-1.json holds results of another version of the collection (format "0", this one reads 3): delete it, '
    "and run that slice again with the same version as the merge."
)
NO_VMS = "host a: an event from Azure has no list of VMs"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("{", "Part slice-1.json is not JSON", id="not JSON"),
        pytest.param("[]", "Part slice-1.json is not a part of a fleet report", id="not an object"),
        pytest.param("{}", "Part slice-1.json is not a part of a fleet report", id="something else"),
        pytest.param(broken(version=0), OLDER, id="an older version"),
        pytest.param(broken(version=None), "of another version of the collection", id="no version"),
        pytest.param(broken(asked_at="2026-11-21\u009b10:00:00Z"), "is damaged", id="a time that steers a terminal"),
        pytest.param(broken(asked_at="2026-11-21Z"), "is damaged", id="a day without a time"),
        pytest.param(broken(hosts={}), "Part slice-1.json is damaged", id="no list of hosts"),
        pytest.param(broken(asked_at="today"), "Part slice-1.json is damaged", id="no time"),
        pytest.param(broken(asked_at="9999-12-31T23:59:59Z"), "Part slice-1.json is damaged", id="the end of time"),
        pytest.param(broken(name=None), "Part slice-1.json is damaged", id="no name"),
        pytest.param(broken(hosts=[{"host": "a", "state": "quiet"}]), "host a has a reason that is no", id="halves"),
        pytest.param(broken(hosts=[{**HOST, "resource_name": 1}]), "host a has a resource_name that is", id="resource"),
        pytest.param(broken(hosts=[{**HOST, "state": "odd"}]), "it has an entry that is not a host", id="a state"),
        pytest.param(broken(hosts=[{**HOST, "message": 1}]), "host a has a message that is not a text", id="a message"),
        pytest.param(broken(hosts=[{**HOST, "warnings": [1]}]), "no lists of events and warnings", id="warnings"),
        pytest.param(broken(hosts=[{**HOST, "out_of_service": [1]}]), "why it is out of service", id="out of service"),
        pytest.param(broken(azure_messages="x"), "Part slice-1.json is damaged", id="messages of Azure"),
        pytest.param(broken(hosts=[{**HOST, "resource_id": 1}]), "host a has a resource_id that is", id="resource id"),
        pytest.param(broken(hosts=[{**HOST, "document_is_clear": 1}]), "does not tell of its document", id="document"),
        pytest.param(broken(hosts=[{**HOST, "azure_events": {}}]), "no list of events from Azure", id="Azure's events"),
        pytest.param(
            broken(hosts=[{**HOST, "azure_events": [ID_ALONE]}]),
            "host a: an event lacks 'event_type'",
            id="an event of Azure of another version",
        ),
        pytest.param(broken(hosts=[{**HOST, "azure_events": [OF_AZURE]}]), NO_VMS, id="an event of Azure without VMs"),
        pytest.param(
            broken(hosts=[{**HOST, "events": [ID_ALONE]}]),
            "Part slice-1.json cannot be merged (host a: an event lacks 'event_type', as from another version",
            id="an event of an older version",
        ),
        pytest.param(broken(hosts=[{**HOST, "state": "affected"}]), "host a does not tell of the ev", id="no event"),
        pytest.param(broken(hosts=[{**HOST, "events": [OF_AZURE]}]), "host a does not tell of the ev", id="P13 quiet"),
        pytest.param(broken(hosts=[{**HOST, "state": "failed"}]), "host a does not tell why it gave", id="no reason"),
    ],
)
def test_a_part_that_cannot_be_used_is_refused_in_one_sentence(text: str, complaint: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        fleet_report.fleet_report([["slice-1.json", text]])
    assert complaint in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_part_in_memory_is_checked_too() -> None:
    with pytest.raises(AnsibleFilterError, match="Part 2 is not a part"):
        fleet_report.fleet_report([part_of({}), {}])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (([], "xml"), "format must be one of data, json, csv, md, html, lines, due, not 'xml'"),
        (({},), "fleet_report needs a list of parts"),
        (("text",), "fleet_report needs a list of parts"),
        (([], "data", (), 0, "noon"), "now must be a time such as"),
        (([], "data", "web-1"), "hosts must be a list of names, not 'web-1'."),
        (([], "data", (), "an hour"), "could not convert"),
        (([], "html", (), 0, None, 0, "nan"), "warn_after must be 0 to 100000000 seconds, not nan."),
        (([], "html", (), 0, None, 0, -1), "warn_after must be 0 to 100000000 seconds, not -1."),
    ],
)
def test_a_wrong_argument_is_told(arguments: tuple[Any, ...], complaint: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        fleet_report.fleet_report(*arguments)
    assert complaint in str(caught.value)


def test_results_that_are_no_dictionary_are_told() -> None:
    with pytest.raises(AnsibleFilterError, match="dictionary of hosts"):
        fleet_part.fleet_part([])


def test_the_time_is_the_present_unless_given() -> None:
    found = slices.read_utc(fleet_report.fleet_report([])["generated_at"])
    assert found is not None
    assert found.year >= 2026


def test_p16_a_mark_that_counts_is_in_every_form_of_the_report():
    mark = {
        "event_id": "C7061BAC-AFDC",
        "event_type": "Reboot",
        "by": "run",
        "since": "2026-11-21T17:32:00Z",
        "controller": "control|<b>",
        "user": "anna",
        "job": "812",
        "run": "5d1c0a9be2f4c3d7",
        "boot_id": None,
        "vm_id": None,
        "state": "prepared",
        "state_since": "2026-11-21T17:33:00Z",
        "state_until": None,
        "counts": True,
        "file": "/m.mark.json",
    }
    other = {**mark, "job": "999", "counts": False}
    answer = {"events": [], "resource_name": "web-1", "document_is_clear": True, "marks": [mark, other]}
    why = "since 2026-11-21T17:32:00Z for Reboot C7061BAC by AWX job 812 of anna on control|<b>"
    parts = [part_of({"web-1": answer})]
    merged = fleet_report.fleet_report(parts)
    assert merged["hosts"][0]["out_of_service"] == [why]
    assert "Out of service on our account: web-1" in fleet_report.fleet_report(parts, "lines")
    page = fleet_report.fleet_report(parts, "html")
    assert "Out of service" in page
    assert "AWX job 812 of anna on control|&lt;b&gt;" in page
    assert "job 999" not in page
    assert "AWX job 812 of anna on control\\|" in fleet_report.fleet_report(parts, "md")
    assert fleet_report.fleet_report(parts, "csv").endswith(f",{why}\r\n")
