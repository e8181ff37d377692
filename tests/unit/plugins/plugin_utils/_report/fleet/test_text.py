# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report in words: what is said, and that text from outside stays text in each format."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet import formats
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.text import (
    as_csv,
    as_lines,
    as_markdown,
    due_lines,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.text import (
    cell,
    clean,
    markdown,
    natural_key,
)

OFF_AZURE = {"reason": "unreachable", "msg": "Nothing answers"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Host server is undergoing maintenance.", "Host server is undergoing maintenance."),
        ("web-1 (lab)", "web-1 (lab)"),
        ("a|b", r"a\|b"),
        ("a\nb\r\n\tc", "a b   c"),
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("&lt;", "&amp;lt;"),
        ("[here](http://evil.example)", r"\[here\](http&#58;//evil.example)"),
        ("http://evil.example", "http&#58;//evil.example"),
        ("WWW.evil.example", "www&#46;evil.example"),
        ("@everyone", "&#64;everyone"),
        ("`code` *bold* _it_ ~~no~~ $x$", r"\`code\` \*bold\* \_it\_ \~\~no\~\~ \$x\$"),
        ("# head", r"\# head"),
        ("- item", r"\- item"),
        ("back\\slash", r"back\\slash"),
        ("left\u202eright\x07\x00", r"left\\u202eright\\u0007\\u0000"),
    ],
)
def test_in_markdown_text_from_outside_is_shown_as_it_is(text: str, shown: str) -> None:
    assert markdown(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "\u00a0=1",
        "\ufeff=1",
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        "\uff20A1",
        '=HYPERLINK("http://evil.example")',
    ],
)
def test_in_csv_no_text_begins_a_formula(text: str) -> None:
    assert cell(text) == f"'{clean(text)}".replace(r"'\ufeff", r"\ufeff")


def test_f4_in_csv_a_terminal_is_steered_by_nothing() -> None:
    steers = "a\x1b[31m\x9b1m\u202e\x7f\r\n\tb\u2028\0"
    assert cell(steers) == r"a\u001b[31m\u009b1m\u202e\u007f   b \u0000"


@pytest.mark.parametrize("value", ["web-1", "a=1", "", "2026-11-21T10:00:00Z", 0, 600, None])
def test_in_csv_what_is_no_formula_is_left_alone(value: Any) -> None:
    assert cell(value) == value


@pytest.mark.parametrize("form", ["json", "csv", "md", "html"])
def test_f4_no_file_keeps_a_character_that_steers_a_terminal(report_on: Any, said: Any, form: str) -> None:
    steers = "a\x1b[31m\x9b1m\u202e\x7f\r\n\tb\u2028\U000e0041"
    kinds = ("event_id", "event_type", "event_status", "event_source", "description")
    event = {**dict.fromkeys(kinds, steers), "resources": [steers], "affects_this_vm": True}
    results = {
        steers: said(steers, event, warnings=[steers]),
        "other": said("b", {**event, "event_type": steers + "2", "affects_this_vm": False}),
        "failed" + steers: {"reason": steers, "msg": steers},
        "gone" + steers: {"unreachable": True, "msg": steers},
        "quiet" + steers: said("quiet" + steers),
    }
    report = report_on(results)
    text = formats.FORMATS[form](report)
    assert {char for char in text if not char.isprintable()} <= {"\n", *("\r" if form == "csv" else "")}
    assert r"u001b[31m" in text.replace("\\[", "[")
    if form == "json":
        assert json.loads(text) == json.loads(json.dumps(report))


def rows_of(report: dict[str, Any]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(as_csv(report), newline="")))


def test_the_csv_has_a_row_for_each_vm_of_each_event_and_for_each_host_without_one(report_on: Any, said: Any) -> None:
    second = {"event_id": "B-2", "resources": ["web-1"], "event_type": "Freeze", "not_before": None}
    report = report_on({"a": said("web-1", {}, second), "quiet": said("db-1"), "laptop": OFF_AZURE})
    rows = rows_of(report)
    assert [(row["host"], row["state"], row["resource_name"], row["event_id"]) for row in rows] == [
        ("a", "affected", "web-1", "A-1"),
        ("a", "affected", "web-1", "B-2"),
        ("quiet", "quiet", "db-1", ""),
        ("laptop", "not_on_azure", "", ""),
        ("", "", "web-2", "A-1"),
    ]
    assert (rows[0]["seconds_until_start"], rows[0]["duration_seconds"]) == ("600", "9")
    assert (rows[3]["reason"], rows[3]["message"]) == ("unreachable", "Nothing answers")


def test_hostile_text_stays_in_its_cell(report_on: Any, said: Any) -> None:
    hostile = '=1+1","x\r\ny'
    (row, _neighbour) = rows_of(report_on({"a": said("web-1", {"description": hostile})}))
    assert row["description"] == "'" + hostile.replace("\r\n", "  ")


def test_the_markdown_has_events_contradictions_and_hosts_without_an_answer(report_on: Any, said: Any) -> None:
    second = {"event_type": "Freeze|", "description": "a\nb"}
    report = report_on({"a": said("web-1", {}), "b": said("web-2", second), "laptop": OFF_AZURE})
    lines = as_markdown(report).splitlines()
    assert "3 hosts asked: 2 affected, 0 quiet, 0 unreachable, 1 not on Azure." in lines[2]
    (row,) = [line for line in lines if line.startswith("| Reboot")]
    assert row.startswith("| Reboot | Scheduled | 2026-11-21T10:10:00Z | in 10 min | 9 s | web-1 (a), web-2 (b) | Plat")
    assert r"- A-1: event\_type: Reboot (a), Freeze\| (b)" in lines
    assert "| laptop | not on Azure | nothing listens | Nothing answers |" in lines


@pytest.mark.parametrize(
    ("results", "said_of_none"),
    [
        ({"laptop": OFF_AZURE}, "No VM answered, so nothing is known of any maintenance."),
        ({}, "No VM answered, so nothing is known of any maintenance."),
    ],
)
def test_no_answer_is_not_told_as_no_maintenance(report_on: Any, results: Any, said_of_none: str) -> None:
    report = report_on(results)
    assert said_of_none in as_lines(report)
    assert said_of_none in as_markdown(report)


def test_a_quiet_fleet_is_told_to_be_quiet(report_on: Any, said: Any) -> None:
    assert as_lines(report_on({"web-1": said("web-1")})) == [
        "1 host asked: 0 affected, 1 quiet, 0 unreachable, 0 not on Azure.",
        "No maintenance is announced to the VMs that answered.",
    ]


def test_the_terminal_is_told_what_matters_on_few_lines(report_on: Any, said: Any) -> None:
    many = [f"web-{number}" for number in range(1, 7)]
    events = [{"event_id": f"E-{number:02}", "resources": many} for number in range(22)]
    events[0].update(event_status="Started", event_type="Freeze\x1b[31m")
    events[1].update(not_before="2026-11-21T09:00:00Z")
    lines = as_lines(report_on({"web-1": said("web-1", *events), "web-2": said("web-2")}))
    assert lines[1] == '"Freeze\\u001b[31m" started: web-1, web-2, web-3, web-4 and 2 more'
    assert lines[2] == "Reboot due: web-1, web-2, web-3, web-4 and 2 more"
    assert lines[3].startswith("Reboot in 10 min: ")
    assert lines[21:] == ["and 2 more events", "VMs contradict each other about 22 events."]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "Reboot E-1 in 10 min: web-1, web-2"),
        ({"not_before": "2026-11-21T10:10:01Z"}, None),
        ({"not_before": "2026-11-21T09:00:00Z"}, "Reboot E-1 due: web-1, web-2"),
        ({"not_before": None}, None),
        ({"not_before": None, "event_status": "Started"}, "Reboot E-1 started: web-1, web-2"),
        ({"event_type": None, "resources": []}, "unknown event E-1 in 10 min: no VM named"),
        ({"event_type": "Freeze\x1b[31m"}, '"Freeze\\u001b[31m" E-1 in 10 min: web-1, web-2'),
    ],
)
def test_what_is_due_within_some_time(report_on: Any, said: Any, changes: dict[str, Any], line: str | None) -> None:
    changes = {"event_id": "E-1", **changes}
    report = report_on({"web-1": said("web-1", changes), "web-2": said("web-2")})
    assert due_lines(report, 600) == ([line] if line else [])


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (["web-10", "web-2", "web-1"], ["web-1", "web-2", "web-10"]),
        (["b", "A", "10", "9a"], ["9a", "10", "A", "b"]),
        (["vm" + "9" * 5000, "vm10", "vm\u0663", "vm"], ["vm", "vm10", "vm" + "9" * 5000, "vm\u0663"]),
        (["web-2-b", "web-02-a", "web"], ["web", "web-02-a", "web-2-b"]),
    ],
)
def test_names_are_in_the_order_in_which_people_count(names: list[str], ordered: list[str]) -> None:
    assert sorted(names, key=natural_key) == ordered
