# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How events live: notice, approval, start, end, withdrawal, scopes, and the lapse after a day."""

from __future__ import annotations

import json
import threading

import pytest


@pytest.mark.parametrize(
    ("event_type", "notice"), [("Freeze", 900), ("Reboot", 900), ("Redeploy", 600), ("Preempt", 30), ("Terminate", 300)]
)
def test_unapproved_events_start_when_their_notice_is_over(stage, event_type, notice):
    stage.schedule(event_type)
    stage.advance(notice - 1)
    assert stage.statuses() == ["Scheduled"]
    stage.advance(1)
    assert stage.statuses() == ["Started"]
    stage.advance(10)
    assert stage.statuses() == []
    event = stage.control("GET", "/simulator/events")["events"][0]
    assert (event["outcome"], event["approved_by"], event["phase"]) == ("completed", None, "ended")


def test_transitions_inside_one_advance_happen_at_their_own_times(stage):
    event = stage.schedule(after=10, notice=100, started_for=20)
    assert (event["phase"], event["announced_at"], event["not_before"]) == ("pending", None, None)
    began = stage.control("GET", "/simulator/clock")
    stage.advance(1000)
    event = stage.event(event["event_id"])
    seconds = [entry["seconds"] for entry in stage.control("GET", "/simulator/timeline")["entries"]]
    assert seconds == [10.0, 110.0, 130.0]
    assert began["seconds"] == 0.0
    assert event["announced_at"] < event["not_before"] == event["started_at"] < event["ended_at"]


def test_an_approval_starts_the_event_for_all_its_resources(stage):
    event = stage.schedule(resources=["web-1", "web-2"], start_delay=3)
    reply = stage.approve(event["event_id"].lower(), vm="web-2")
    assert (reply.status, reply.body) == (200, b"")
    assert stage.statuses() == ["Scheduled"]
    stage.advance(3)
    assert stage.statuses("web-1") == stage.statuses("web-2") == ["Started"]
    state = stage.event(event["event_id"])
    assert state["approved_by"] == "web-2"
    assert state["approved_at"] < state["started_at"] < state["not_before"]


def test_without_a_delay_the_next_document_shows_it_started(stage):
    event = stage.schedule(start_delay=0)
    stage.approve(event["event_id"])
    assert stage.statuses() == ["Started"]


def test_an_approval_never_delays_the_start(stage):
    event = stage.schedule("Preempt", notice=5, start_delay=60)
    stage.approve(event["event_id"])
    stage.advance(5)
    assert stage.statuses() == ["Started"]


def test_any_vm_of_the_scope_may_approve_and_no_other(stage):
    event = stage.schedule(resources=["web-1"])
    assert stage.approve(event["event_id"], vm="db").status == 400
    assert stage.event(event["event_id"])["approved_at"] is None
    assert stage.approve(event["event_id"], vm="web-2").status == 200
    assert stage.event(event["event_id"])["approved_by"] == "web-2"


def test_approving_again_is_fine_and_changes_nothing(stage):
    event = stage.schedule(started_for=10)
    assert stage.approve(event["event_id"]).status == 200
    first = stage.event(event["event_id"])
    stage.advance(0.5)
    assert stage.approve(event["event_id"], vm="web-2").status == 200
    assert stage.event(event["event_id"]) == first
    stage.advance(1)
    assert stage.statuses() == ["Started"]
    assert stage.approve(event["event_id"]).status == 200
    stage.advance(10)
    assert stage.approve(event["event_id"]).status == 400


def test_several_approvals_in_one_request_are_all_or_nothing(stage):
    first, second = stage.schedule(), stage.schedule("Freeze")
    assert stage.approve(first["event_id"], "UNKNOWN", second["event_id"]).status == 400
    assert stage.event(first["event_id"])["approved_at"] is None
    assert stage.approve(first["event_id"], second["event_id"]).status == 200
    stage.advance(1)
    assert stage.statuses() == ["Started", "Started"]


def test_an_unannounced_event_cannot_be_approved(stage):
    event = stage.schedule(after=10)
    assert stage.document()["Events"] == []
    assert stage.approve(event["event_id"]).status == 400


def test_scopes_keep_to_themselves(stage):
    event = stage.schedule(resources=["db"])
    assert stage.document("web-1")["Events"] == stage.document("web-2")["Events"] == []
    assert [shown["EventId"] for shown in stage.document("db")["Events"]] == [event["event_id"]]


def test_withdrawn_after_a_while(stage):
    event = stage.schedule(withdraw_after=100)
    stage.advance(100)
    assert stage.document() == {"DocumentIncarnation": 3, "Events": []}
    state = stage.event(event["event_id"])
    assert (state["outcome"], state["started_at"]) == ("withdrawn", None)


def test_what_has_started_is_not_withdrawn_after_a_while(stage):
    event = stage.schedule(withdraw_after=100, started_for=200)
    stage.approve(event["event_id"])
    stage.advance(150)
    assert stage.statuses() == ["Started"]
    stage.advance(100)
    assert stage.event(event["event_id"])["outcome"] == "completed"


def test_withdrawn_by_request(stage):
    event = stage.schedule()
    gone = stage.control("DELETE", f"/simulator/events/{event['event_id'].lower()}")
    assert gone["outcome"] == "withdrawn"
    assert stage.statuses() == []


def test_an_event_withdrawn_before_its_announcement_was_never_there(stage):
    event = stage.schedule(after=10)
    stage.control("DELETE", f"/simulator/events/{event['event_id']}")
    stage.advance(100)
    assert stage.document() == {"DocumentIncarnation": 1, "Events": []}


@pytest.mark.parametrize("seconds", [900, 2000])
def test_what_has_started_or_ended_cannot_be_withdrawn(stage, seconds):
    event = stage.schedule()
    stage.advance(seconds)
    reply = stage.simulator.request("DELETE", f"{stage.simulator.url}/simulator/events/{event['event_id']}")
    assert reply.status == 409
    assert event["event_id"] in json.loads(reply.body)["error"]


def test_straight_to_started(stage):
    event = stage.schedule(event_status="Started", started_for=7)
    shown = stage.document()
    assert shown["DocumentIncarnation"] == 2
    assert (shown["Events"][0]["EventStatus"], shown["Events"][0]["NotBefore"]) == ("Started", "")
    stage.advance(7)
    assert stage.event(event["event_id"])["outcome"] == "completed"
    # Without a notice even an unknown type is complete.
    stage.schedule("Teleport", event_status="Started")
    assert stage.statuses() == ["Started"]


def test_the_day_without_a_request_switches_off_and_starts_the_count_anew(stage):
    stage.schedule(notice=10, started_for=1)
    stage.advance(20)
    assert stage.document()["DocumentIncarnation"] == 4
    stage.advance(86399)
    assert stage.document()["DocumentIncarnation"] == 4
    stage.advance(86400)
    assert stage.document()["DocumentIncarnation"] == 1
    assert any("switched scheduled events off" in line for line in stage.lines())


def test_after_the_lapse_a_listed_event_is_the_first_change(stage):
    for _number in range(3):
        stage.control("DELETE", f"/simulator/events/{stage.schedule()['event_id']}")
    stage.schedule(notice=604800)
    assert stage.document()["DocumentIncarnation"] == 8
    stage.advance(90000)
    assert stage.document()["DocumentIncarnation"] == 2


def test_one_vm_keeps_the_whole_scope_on(stage):
    stage.schedule(notice=604800)
    for _hour in range(3):
        stage.document("web-2")
        stage.advance(80000)
    assert not any("switched scheduled events off" in line for line in stage.lines())


def held_get(stage, vm="web-1"):
    """A GET in the background; its answer is put into the list that is given back."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(stage.get(vm)), daemon=True)
    thread.start()
    return thread, answers


def test_the_first_answer_is_held_and_again_after_a_lapse(stage):
    stage.settings(hold_first_answer=120, lapse_seconds=1000)
    for requests in (1, 4):
        thread, answers = held_get(stage)
        stage.wait_for_request(requests)
        stage.advance(119)
        assert stage.journal()[-1]["status"] is None
        assert not answers
        stage.advance(1)
        thread.join(10)
        assert answers[0].status == 200
        # Now it is on, and nobody waits any more; for the other VM of the scope neither.
        assert stage.get("web-2").status == stage.get("web-1").status == 200
        stage.advance(1000)


def test_an_approval_is_not_held(stage):
    event = stage.schedule()
    stage.settings(hold_first_answer=120)
    assert stage.approve(event["event_id"]).status == 200


def test_speed_shortens_what_is_scheduled_and_not_before_stays_true(simulator):
    fast = simulator("--vms", "a", "--speed", "900")
    event = fast.control("POST", "/simulator/events", {"event_type": "Reboot", "resources": ["a"], "notice": 900000})
    seconds = [int(event[key][17:19]) + 60 * int(event[key][14:16]) for key in ("announced_at", "not_before")]
    assert (seconds[1] - seconds[0]) % 3600 == 1000
    assert fast.control("GET", "/simulator/clock")["speed"] == 900


def test_under_the_real_clock_time_passes_by_itself(simulator):
    real = simulator("--vms", "a")
    event = {"event_type": "Reboot", "resources": ["a"], "notice": 0.05, "started_for": 0.05}
    real.control("POST", "/simulator/events", event)
    answer = {"outcome": None}
    for _number in range(10000):
        answer = real.control("GET", "/simulator/events")["events"][0]
        if answer["outcome"]:
            break
    assert answer["outcome"] == "completed"
