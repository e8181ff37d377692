# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a VM reads: fields, versions, dates, ids, incarnation."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

OLDEST = ["EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore"]


@pytest.mark.parametrize(
    ("version", "added"),
    [
        ("2017-03-01", []),
        ("2017-08-01", []),
        ("2017-11-01", []),
        ("2019-01-01", []),
        ("2019-04-01", ["Description"]),
        ("2019-08-01", ["Description", "EventSource"]),
        ("2020-07-01", ["Description", "EventSource", "DurationInSeconds"]),
    ],
)
def test_the_version_decides_the_fields_and_their_order(stage, version, added):
    stage.schedule(description="d", duration_seconds=9)
    assert list(stage.document(version=version)["Events"][0]) == OLDEST + added


@pytest.mark.parametrize(
    ("version", "shown"), [("2017-03-01", ["_web-2", "_web-1"]), ("2017-08-01", ["web-2", "web-1"])]
)
def test_only_the_preview_put_an_underscore_before_names(stage, version, shown):
    stage.schedule(resources=["web-2", "web-1"])
    assert stage.document(version=version)["Events"][0]["Resources"] == shown


def test_the_bytes_are_those_of_a_real_capture(stage):
    stage.schedule("Preempt", resources=["WEB-1"], event_id="9c3ee5b7-e5b5-4482-a07f-dd5c10daa97a", notice=30)
    time = stage.control("GET", "/simulator/clock")["time"]
    due = datetime.strptime(time, "%Y-%m-%dT%H:%M:%S.000Z").replace(tzinfo=timezone.utc).timestamp() + 30
    shown = datetime.fromtimestamp(due, timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    reply = stage.get()
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.body.decode("ascii") == (
        '{"DocumentIncarnation":2,"Events":[{"EventId":"9C3EE5B7-E5B5-4482-A07F-DD5C10DAA97A",'
        '"EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine","Resources":["web-1"],'
        f'"NotBefore":"{shown}","Description":"","EventSource":"Platform","DurationInSeconds":-1}}]}}'
    )


def test_an_empty_document_has_the_baseline_incarnation(stage):
    assert stage.document() == {"DocumentIncarnation": 1, "Events": []}
    stage.settings(baseline_incarnation=0)
    assert stage.document() == {"DocumentIncarnation": 0, "Events": []}


def test_the_incarnation_grows_by_one_with_each_change_of_the_scope_only(stage):
    seen = [stage.document()["DocumentIncarnation"]]
    event = stage.schedule(notice=60, started_for=10)
    seen.append(stage.document()["DocumentIncarnation"])
    stage.approve(event["event_id"])
    seen.append(stage.document()["DocumentIncarnation"])  # approved, not started yet: nothing to be seen
    stage.advance(1)
    seen.append(stage.document()["DocumentIncarnation"])
    stage.advance(10)
    seen.append(stage.document()["DocumentIncarnation"])
    assert seen == [1, 2, 2, 3, 4]
    assert stage.document("db")["DocumentIncarnation"] == 1


def test_a_reader_who_sleeps_sees_the_incarnation_skip(stage):
    stage.schedule(notice=1, started_for=1)
    stage.advance(5)
    assert stage.document() == {"DocumentIncarnation": 4, "Events": []}


def test_id_stays_and_not_before_empties_when_the_event_starts(stage):
    stage.schedule(notice=60)
    before = stage.document()["Events"][0]
    stage.advance(60)
    after = stage.document()["Events"][0]
    assert before["EventId"] == after["EventId"] == before["EventId"].upper()
    assert (before["EventStatus"], after["EventStatus"], after["NotBefore"]) == ("Scheduled", "Started", "")


def test_events_stand_in_the_order_of_their_announcement(stage):
    late = stage.schedule(after=20)
    early = stage.schedule(after=10)
    stage.advance(30)
    assert [event["EventId"] for event in stage.document()["Events"]] == [early["event_id"], late["event_id"]]


@pytest.mark.parametrize(
    ("date_format", "pattern", "true_weekday"),
    [
        ("rfc1123", "%a, %d %b %Y %H:%M:%S GMT", True),
        ("wrong_weekday", "%a, %d %b %Y %H:%M:%S GMT", False),
        ("iso8601", "%Y-%m-%dT%H:%M:%SZ", True),
    ],
)
def test_date_formats(stage, date_format, pattern, true_weekday):
    stage.settings(date_format=date_format)
    not_before = stage.schedule()["not_before"]
    shown = stage.document()["Events"][0]["NotBefore"]
    date = datetime.strptime(shown, pattern)
    assert date.strftime("%Y-%m-%dT%H:%M:%S.000Z") == not_before
    assert (date.strftime(pattern) == shown) is true_weekday


def test_lower_case_ids_are_still_the_same_event(stage):
    stage.settings(event_id_case="lower")
    event = stage.schedule()
    shown = stage.document()["Events"][0]["EventId"]
    assert shown == event["event_id"].lower() != event["event_id"]
    assert stage.approve(shown).status == 200


def test_left_out_fields(stage):
    stage.schedule()
    stage.settings(omit_fields=["Resources", "NotBefore", "DocumentIncarnation"])
    document = stage.document()
    assert list(document) == ["Events"]
    assert not {"Resources", "NotBefore"} & set(document["Events"][0])
    stage.settings(omit_fields=["Events"])
    assert stage.document() == {"DocumentIncarnation": 2}


def test_etag_and_not_modified(stage):
    assert stage.get().headers["ETag"] is None
    stage.settings(etag=True)
    etag = stage.get().headers["ETag"]
    asked = {"Metadata": "true", "If-None-Match": etag}
    reply = stage.get(headers=asked)
    assert (reply.status, reply.body) == (304, b"")
    stage.schedule()
    reply = stage.get(headers=asked)
    assert reply.status == 200
    assert reply.headers["ETag"] != etag


def test_unknown_types_and_odd_text_pass(stage):
    stage.schedule("Teleport", notice=5, description="caf\u00e9 \n\x1b[31m", event_source="Martian")
    event = stage.document()["Events"][0]
    assert (event["EventType"], event["EventSource"]) == ("Teleport", "Martian")
    assert event["Description"] == "caf\u00e9 \n\x1b[31m"
    assert json.dumps(event)
