# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet history in each of its formats: what stands there, and that text from outside stays text."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.fleetops.azure_maintenance.plugins.filter.fleet_history import fleet_history
from ansible_collections.fleetops.azure_maintenance.plugins.filter.fleet_history_part import fleet_history_part
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._report.history.test_merge import (
    row,
    said,
)

MOMENT = "2026-11-21T10:00:00Z"
FORMATS = ("data", "json", "csv", "md", "html", "lines")
HOSTILE = "=1+1 <script>alert(1)</script> | {{ 7*7 }} \x1b[31m \u202e `x` www.example.com \ud83d \x00\r\n\"'&"
TEXTS = ("event_id", "event_type", "event_source", "description", "leader", "resource_name", "outcome", "approved_by")


def part(hosts):
    return fleet_history_part(hosts, "whole", MOMENT)


def shown(hosts, form, **options):
    return fleet_history([part(hosts)], form, now=MOMENT, **options)


@pytest.fixture
def fleet():
    first = row(approved=60, started=65, ended=300, event_source="Platform", prepare_seconds=30)
    return {
        "host-a": said(first, row("B2", event_type="Freeze", ended=20)),
        "host-b": {"unreachable": True, "msg": "No route to host"},
    }


def test_lines(fleet):
    assert shown(fleet, "lines") == [
        "2 hosts asked: 1 with a history, 0 without a checker, 1 unreachable.",
        "2 events: 1 completed, 1 withdrawn, 0 open.",
        "Freeze: 1 event; notice 15 min (documented: 15 min)",
        "Reboot: 1 event; notice 15 min (documented: 15 min); lasted 3 min 55 s",
        "host-b: No route to host",
    ]


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (said(), "No VM that answered remembers an event."),
        ({"unreachable": True, "msg": "No route to host"}, "No VM told its history, so nothing is known."),
        (said(warnings=["The state was put aside."]), "No VM told its history, so nothing is known."),
    ],
)
def test_p13_silence_is_told_apart_from_no_event(answer, known):
    assert shown({"host-a": answer}, "lines")[2] == known
    assert f"\n{known}\n" in shown({"host-a": answer}, "md")
    assert known in shown({"host-a": answer}, "html")


def test_a_line_has_the_least_and_the_most_where_they_differ():
    rows = (row(started=65, ended=300), row("B2", notice=600, started=65, ended=100))
    assert "Reboot: 2 events; notice 10 min to 15 min (documented: 15 min); lasted 35 s to 3 min 55 s" in shown(
        {"host-a": said(*rows)}, "lines"
    )


def test_json_is_the_data(fleet):
    assert json.loads(shown(fleet, "json")) == shown(fleet, "data")


def test_csv_has_a_row_for_each_vm_of_each_event_and_each_other_host_and_quotes_every_field(fleet):
    text = shown(fleet, "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(each["host"], each["event_id"]) for each in rows] == [("host-a", "A1"), ("host-a", "B2"), ("host-b", "")]
    assert rows[0]["lasted_seconds"] == "235"
    assert all(re.fullmatch(r'"[^"]*"(,"[^"]*")*', line) for line in text.splitlines())


def test_markdown(fleet):
    text = shown(fleet, "md")
    assert (
        "| Reboot | 15 min | 1 | 0 | 15 min | 15 min | 0 | 5 s | 3 min 55 s | 3 min 55 s | 30 s | 1, 0, 0 | 0 | 0 |"
        in text
    )
    assert "| host-b | unreachable | unreachable | No route to host |" in text


def test_the_page_breaks_no_name_at_its_hyphens(fleet):
    assert '<td data-label="VMs" class="text words"><span class="vm">web-1</span></td>' in shown(fleet, "html")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "hosts",
    [{}, {"host-a": said()}, {"host-a": None}, {"host-a": said(row(notice=None))}],
    ids=["none", "quiet", "silent", "unknown"],
)
def test_where_next_to_nothing_is_known(hosts, form):
    assert shown(hosts, form) is not None


def test_hostile_text_in_every_field_stays_text():
    rows = [row(**{name: HOSTILE}) for name in TEXTS]
    rows += [row(**{**dict.fromkeys(TEXTS, HOSTILE), "failed_responses": [HOSTILE]})]
    fleet = {HOSTILE: said(*rows, name=HOSTILE, version=HOSTILE, warnings=[HOSTILE]), "b": {"rc": 1, "stderr": HOSTILE}}
    html, markdown, text = (shown(fleet, form) for form in ("html", "md", "csv"))
    assert "<script" not in html
    for file in (html, markdown, text.replace("\r\n", "\n"), shown(fleet, "json")):
        assert {char for char in file if not char.isprintable()} <= {"\n"}
        assert "u001b" in file
    assert "<script" not in markdown
    for line in markdown.splitlines():
        assert len(re.findall(r"(?<!\\)\|", line)) in (0, 5, 14, 15)
    for each in csv.reader(io.StringIO(text, newline="")):
        assert not any(re.match(r"\s*[=+@-]", value) for value in each), each
    for form in FORMATS:
        json.dumps(shown(fleet, form)).encode()


@pytest.mark.matrix
def test_fifty_thousand_events_of_as_many_types_make_a_page_as_small_as_any():
    rows = [row(f"E{number}", event_type=f"Type {number}", started=60, ended=60 + number) for number in range(50_000)]
    given = [part({"host-a": said(*rows)})]
    page = fleet_history(given, "html", now=MOMENT)
    assert len(page.encode()) < 200_000
    assert "49,950 more events are in history.csv and history.json." in page
    data = fleet_history(given, "data", now=MOMENT)
    assert (len(data["events"]), len(data["types"])) == (50_000, 1)


def test_a_part_may_be_the_text_of_a_file(fleet):
    text = json.dumps(part(fleet))
    for form in FORMATS:
        assert fleet_history([("whole.json", text)], form, now=MOMENT) == shown(fleet, form)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ("text", {}, "needs a list of parts"),
        ([("a.json", "{")], {}, "Part a.json is not JSON"),
        ([("a.json", "[]")], {}, "Part a.json is not a part of a fleet history: delete it"),
        ([{"format": "fleetops.azure_maintenance.fleet_part"}], {}, "Part 1 is not a part of a fleet history"),
        ([{**part({}), "version": 1}], {}, 'another version of the collection (format "1", this one reads 2)'),
        ([{**part({}), "hosts": None}], {}, "Part 1 is damaged"),
        ([{**part({}), "hosts": [7]}], {}, "it has an entry that is not a host"),
        ([{**part({"a": None}), "asked_at": "today"}], {}, "Part 1 is damaged"),
        ([], {"format": "pdf"}, "format must be one of data, json, csv, md, html, lines, not 'pdf'."),
        ([], {"now": "today"}, "now must be a time such as"),
    ],
)
def test_what_cannot_be_used_is_told(given, options, message):
    with pytest.raises(AnsibleFilterError, match=re.escape(message)):
        fleet_history(given, **options)


@pytest.mark.parametrize("wrong", [{"rows": None}, {"message": 7}, {"state": "fine"}, {"rows": [row(late=7)]}])
def test_a_part_that_was_changed_is_refused(wrong):
    given = part({"host-a": said(row())})
    given["hosts"][0].update(wrong)
    with pytest.raises(AnsibleFilterError, match="cannot be merged"):
        fleet_history([given])


def test_only_a_dictionary_of_hosts_makes_a_part():
    with pytest.raises(AnsibleFilterError, match="a dictionary of hosts"):
        fleet_history_part(["host-a"])
