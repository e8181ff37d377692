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
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils import _fleet_parts

MOMENT = "2026-11-21T10:00:00Z"


def part_of(results: dict[str, Any]) -> dict[str, Any]:
    return fleet_part.fleet_part(results, "slice-1", MOMENT)


def test_a_part_that_went_through_a_file_makes_the_same_report(said: Any) -> None:
    part = part_of({"a": said("web-1", {"description": "Ünïcode \u202e \x07"}), "b": {"unreachable": True}})
    from_file = fleet_report.fleet_report([["slice-1.json", json.dumps(part)]], now=MOMENT)
    assert from_file == fleet_report.fleet_report([part], now=MOMENT)
    assert from_file["counts"]["affected"] == 1


def test_half_of_a_character_does_not_keep_the_report_from_being_written(said: Any) -> None:
    part = part_of({"a": said("web-1", {"description": "\ud83d"})})
    for name in ("json", "csv", "md", "html"):
        fleet_report.fleet_report([part], name).encode("utf-8")


def broken(**changes: Any) -> str:
    return json.dumps({**part_of({}), **changes})


HOST = {"host": "a", "state": "quiet", "reason": None, "message": None, "events": [], "warnings": []}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("{", "Part slice-1.json is not JSON", id="not JSON"),
        pytest.param("[]", "Part slice-1.json is no part of a fleet report", id="not an object"),
        pytest.param("{}", "Part slice-1.json is no part of a fleet report", id="something else"),
        pytest.param(
            broken(version=0),
            'Part slice-1.json holds results of another version of the collection (format "0", this one reads 1): '
            "run that slice again with the same version as the merge.",
            id="an older version",
        ),
        pytest.param(broken(version=None), "of another version of the collection", id="no version"),
        pytest.param(broken(hosts={}), "Part slice-1.json is damaged", id="no list of hosts"),
        pytest.param(broken(asked_at="today"), "Part slice-1.json is damaged", id="no time"),
        pytest.param(broken(hosts=[{**HOST, "state": "odd"}]), "it has an entry that is no host", id="a state"),
        pytest.param(broken(hosts=[{**HOST, "message": 1}]), "host a has a message that is no text", id="a message"),
        pytest.param(broken(hosts=[{**HOST, "warnings": [1]}]), "no lists of events and warnings", id="warnings"),
        pytest.param(
            broken(hosts=[{**HOST, "events": [{"event_id": "A-1"}]}]),
            "Part slice-1.json cannot be merged (host a: an event lacks 'event_type', as from another version",
            id="an event of an older version",
        ),
    ],
)
def test_a_part_that_cannot_be_used_is_refused_in_one_sentence(text: str, complaint: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        fleet_report.fleet_report([["slice-1.json", text]])
    assert complaint in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_part_in_memory_is_checked_too() -> None:
    with pytest.raises(AnsibleFilterError, match="Part 2 is no part"):
        fleet_report.fleet_report([part_of({}), {}])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (([], "xml"), "format must be one of data, json, csv, md, html, lines, not 'xml'"),
        (({},), "needs a list of parts"),
        (("text",), "needs a list of parts"),
        (([], "data", (), 0, "noon"), "now must be a time such as"),
        (([], "data", (), "an hour"), "could not convert"),
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
    found = _fleet_parts.parse_utc(fleet_report.fleet_report([])["generated_at"])
    assert found is not None
    assert found.year >= 2026
