# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control API: what it takes, what it shows, and how it refuses."""

from __future__ import annotations

import json

import pytest

EVENT_KEYS = [
    "event_id",
    "listed_id",
    "event_type",
    "event_status",
    "event_source",
    "description",
    "duration_seconds",
    "resources",
    "scope",
    "phase",
    "announced_at",
    "not_before",
    "approved_at",
    "approved_by",
    "started_at",
    "ended_at",
    "outcome",
]


def send(stage, method, path, body=None):
    return stage.simulator.request(method, stage.simulator.url + path, body)


def test_scheduling_answers_with_the_state_of_the_event(stage):
    body = {"event_type": "Reboot", "resources": [1, "WEB-1"], "event_id": "abc", "duration_seconds": 9}
    reply = send(stage, "POST", "/simulator/events", json.dumps(body))
    event = json.loads(reply.body)
    assert reply.status == 201
    assert list(event) == EVENT_KEYS
    assert (event["event_id"], event["resources"], event["scope"]) == ("ABC", ["web-2", "web-1"], "default")
    assert (event["event_status"], event["phase"], event["duration_seconds"]) == ("Scheduled", "announced", 9)
    assert (event["event_source"], event["description"], event["outcome"]) == ("Platform", "", None)
    assert stage.control("GET", "/simulator/events") == {"events": [event]}


def test_several_events_at_once(stage):
    events = [{"event_type": "Freeze", "resources": [0]}, {"event_type": "Reboot", "resources": [2]}]
    assert len(stage.control("POST", "/simulator/events", events)["events"]) == 2


def test_generated_ids_are_different_guids_in_capitals(stage):
    ids = {stage.schedule()["event_id"] for _number in range(3)}
    assert len(ids) == 3
    assert all(len(one) == 36 and one == one.upper() for one in ids)


def reboot(**changes):
    return {"event_type": "Reboot", "resources": [0], **changes}


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("", "no body"),
        ("nonsense", "JSON"),
        (b"\xff", "UTF-8"),
        ('"text"', "object"),
        ("{}", "event_type"),
        ({"resources": [0]}, "event_type"),
        ({"event_type": "", "resources": [0]}, "event_type"),
        ({"event_type": "Reboot"}, "resources"),
        (reboot(resources="web-1"), "resources"),
        (reboot(resources=[]), "resources"),
        (reboot(resources=[None]), "resources"),
        (reboot(resources=[True]), "resources"),
        (reboot(resources=["web-9"]), "web-9"),
        (reboot(resources=[3]), "number 3"),
        (reboot(resources=[-1]), "number -1"),
        (reboot(resources=["web-1", "WEB-1"]), "twice"),
        (reboot(resources=["web-1", "db"]), "scopes"),
        ({"event_type": "Teleport", "resources": [0]}, "notice"),
        (reboot(event_id=" "), "event_id"),
        (reboot(event_status="Completed"), "event_status"),
        (reboot(event_source=1), "event_source"),
        (reboot(description=None), "description"),
        (reboot(duration_seconds=1.5), "duration_seconds"),
        (reboot(duration_seconds=-2), "duration_seconds"),
        (reboot(notice="15m"), "notice"),
        (reboot(start_delay=-1), "start_delay"),
        (reboot(started_for=None), "started_for"),
        (reboot(after=True), "after"),
        (reboot(withdraw_after="x"), "withdraw_after"),
        ('{"event_type": "Reboot", "resources": [0], "notice": NaN}', "NaN"),
        ('{"event_type": "Reboot", "resources": [0], "notice": 1e999}', "notice"),
        (reboot(duration=9), "duration"),
        ([reboot(), reboot(resources=[9])], "event 2"),
        ([reboot(event_id="a"), reboot(event_id="A")], "event_id"),
    ],
)
def test_a_wrong_event_is_refused_and_none_is_scheduled(untouched, body, word):
    body = body if isinstance(body, (str, bytes)) else json.dumps(body)
    reply = send(untouched, "POST", "/simulator/events", body)
    assert reply.status == 400
    assert list(json.loads(reply.body)) == ["error"]
    assert word in json.loads(reply.body)["error"]
    assert untouched.control("GET", "/simulator/events") == {"events": []}


def test_an_id_is_taken_once(stage):
    stage.schedule(event_id="a")
    reply = send(stage, "POST", "/simulator/events", '{"event_type": "Reboot", "resources": [0], "event_id": "A"}')
    assert reply.status == 400
    assert "taken" in json.loads(reply.body)["error"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/simulator", None, 404),
        ("GET", "/simulator/nothing", None, 404),
        ("PUT", "/simulator/events", None, 405),
        ("GET", "/simulator/events/ABC", None, 405),
        ("DELETE", "/simulator/events/ABC", None, 404),
        ("DELETE", "/simulator/clock", None, 405),
        ("POST", "/simulator/clock", "{}", 400),
        ("POST", "/simulator/clock", '{"advance": -1}', 400),
        ("POST", "/simulator/clock", '{"advance": 1, "to": 2}', 400),
        ("POST", "/simulator/settings", "{}", 405),
        ("POST", "/simulator/notes", "{}", 400),
        ("POST", "/simulator/notes", '{"text": ""}', 400),
        ("POST", "/simulator/notes", '{"vm": "nobody", "text": "x"}', 400),
        ("GET", "/simulator/stop", None, 405),
    ],
)
def test_wrong_requests_are_refused_in_a_sentence(untouched, method, path, body, status):
    reply = send(untouched, method, path, body)
    assert reply.status == status
    assert json.loads(reply.body)["error"].endswith(".")


def test_an_id_with_odd_characters_can_be_withdrawn(stage):
    stage.schedule(event_id="a/b ?")
    assert stage.control("DELETE", "/simulator/events/a%2Fb%20%3F")["outcome"] == "withdrawn"


def test_the_real_clock_cannot_be_moved(simulator):
    real = simulator("--vms", "a")
    reply = real.request("POST", real.url + "/simulator/clock", '{"advance": 1}')
    assert reply.status == 409
    assert "--clock manual" in json.loads(reply.body)["error"]


def test_the_manual_clock_moves_only_when_told(stage):
    first = stage.control("GET", "/simulator/clock")
    assert (first["mode"], first["seconds"], first["speed"]) == ("manual", 0.0, 1.0)
    assert stage.advance(90.5)["seconds"] == 90.5
    assert stage.control("GET", "/simulator/clock")["seconds"] == 90.5


def test_a_time_beyond_the_last_that_can_be_written_stops_nothing(stage):
    stage.schedule(after=1e9, notice=1e9)
    for _each in range(260):
        stage.advance(1e9)
    assert stage.control("GET", "/simulator/clock")["time"] == "9999-12-31T23:59:59.000Z"
    late = stage.schedule(notice=1)
    assert late["not_before"] == "9999-12-31T23:59:59.000Z"
    (event,) = stage.document()["Events"]
    assert event["NotBefore"] == "Fri, 31 Dec 9999 23:59:59 GMT"


def test_the_journal_has_each_request_as_it_came(stage):
    event = stage.schedule()
    path = "/metadata/scheduledevents?api-version=2020-07-01&x=%41"
    stage.simulator.request(
        "POST",
        stage.simulator.endpoint("web-2") + path,
        json.dumps({"StartRequests": [{"EventId": event["event_id"]}]}),
        {"METADATA": "true", "X-b": "2", "X-A": "1"},
    )
    entry = stage.journal()[0]
    assert (entry["method"], entry["path"], entry["vm"]) == ("POST", "/vm/web-2" + path, "web-2")
    assert entry["headers"][-3:] == [["METADATA", "true"], ["X-b", "2"], ["X-A", "1"]]
    assert json.loads(entry["body"])["StartRequests"]
    assert entry["status"] == 200
    assert entry["fault"] is None
    assert entry["seconds"] == 0.0
    assert entry["time"].endswith("Z")
    assert entry["address"] == "127.0.0.1"
    assert stage.control("DELETE", "/simulator/journal") == {"requests": []} == {"requests": stage.journal()}


def test_control_requests_are_not_in_the_journal_but_lost_ones_are(stage):
    stage.control("GET", "/simulator/state")
    send(stage, "GET", "/metadata/scheduledevents")
    assert [(entry["vm"], entry["status"]) for entry in stage.journal()] == [(None, 404)]


def test_the_journal_file_has_the_same_as_lines(start, tmp_path):
    path = tmp_path / "journal.jsonl"
    stage = start("--vms", "a", "--journal", str(path))
    stage.get("a")
    stage.simulator.post("a", "/metadata/scheduledevents?api-version=2020-07-01", b"\xff\n")
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == stage.journal()
    assert stage.journal()[1]["body"] == "\\xff\n"


def test_state_shows_everything(stage):
    event = stage.schedule()
    stage.fault(fault="empty")
    state = stage.control("GET", "/simulator/state")
    assert state["vms"] == stage.simulator.line["vms"]
    assert state["url"] == stage.simulator.url
    assert state["pid"] == stage.simulator.process.pid
    assert "--vms" in state["arguments"]
    assert state["scopes"] == [
        {"name": "back", "vms": ["db"], "document_incarnation": 1, "enabled": False},
        {"name": "default", "vms": ["web-1", "web-2"], "document_incarnation": 2, "enabled": False},
    ]
    assert state["events"] == [event]
    assert state["settings"] == stage.control("GET", "/simulator/settings")
    assert state["faults"] == stage.control("GET", "/simulator/faults")["faults"]
    assert state["clock"] == stage.control("GET", "/simulator/clock")


def test_the_timeline_tells_the_story(stage):
    why = "Host server is undergoing maintenance."
    event = stage.schedule(resources=["web-1", "web-2"], event_id="3a5b91c2-0000", description=why)
    for _poll in range(3):
        stage.advance(1)
        stage.get("web-2")
    stage.control("POST", "/simulator/notes", {"vm": "WEB-1", "text": "drained"})
    stage.control("POST", "/simulator/notes", {"text": "all hands ready"})
    stage.approve(event["event_id"], vm="web-2")
    stage.approve("other", vm="web-2")
    stage.advance(20)
    assert stage.lines() == [
        "   0.0 s  Azure  scheduled Reboot 3A5B91C2 for web-1, web-2 in 900 s",
        "                 (Platform: Host server is undergoing maintenance.)",
        "   1.0 s  web-2  asked 3 times until 3.0 s",
        "   3.0 s  web-1  > drained",
        "   3.0 s  note   > all hands ready",
        "   3.0 s  web-2  approved Reboot 3A5B91C2",
        "   3.0 s  web-2  sent an approval that was refused: Bad request.",
        "                 EventId other is not in the document.",
        "   4.0 s  Azure  started Reboot 3A5B91C2 (approved by web-2)",
        "  14.0 s  Azure  completed Reboot 3A5B91C2",
    ]
    entries = stage.control("GET", "/simulator/timeline")["entries"]
    assert entries[0]["vm"] is None
    assert entries[0]["actor"] == "azure"
    assert entries[1] == {"seconds": 1.0, "vm": "web-2", "actor": "vm", "text": "asked 3 times until 3.0 s"}
    assert entries[2] == {"seconds": 3.0, "vm": "web-1", "actor": "note", "text": "drained"}


def test_lines_fit_a_terminal_and_control_characters_do_not_reach_it(start):
    name = "a-very-long-resource-name-of-a-vm_123"
    stage = start("--vms", name)
    hostile = "one\ntwo\r\x9b31m\u202e " + "z" * 200
    stage.schedule(resources=[0], event_id="\x1b]0;x\x07" + "y" * 300, description=hostile)
    stage.control("POST", "/simulator/notes", {"vm": name, "text": "\x1b[2J" + "long " * 100})
    stage.advance(604800)
    lines = stage.lines()
    assert all(len(line) <= 80 for line in lines)
    assert all(line.isprintable() for line in lines)
    assert "one\\ntwo\\r\\x9b31m\\u202e" in " ".join(lines)
    assert any("\\x1b[2J" in line for line in lines)


def test_stop_ends_the_process(stage):
    assert stage.control("POST", "/simulator/stop") == {"stopping": True}
    assert stage.simulator.process.wait(5) == 0
