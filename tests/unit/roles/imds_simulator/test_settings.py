# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nobody outside Azure knows can be switched; the rest of the settings is tested beside what they change."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.imds_simulator.conftest import COMPUTE

DEFAULTS = {
    "post_body": "empty",
    "unknown_event_id": 400,
    "stale_incarnation": "ignored",
    "forwarded_for": 400,
    "rate_limit": 0,
    "retry_after": None,
    "etag": False,
    "event_id_case": "upper",
    "date_format": "rfc1123",
    "omit_fields": [],
    "approval": "starts",
    "skip_started": False,
    "new_id_each_state": False,
    "other_agent_approves": [],
    "hold_first_answer": 0,
    "instance_name": "present",
    "baseline_incarnation": 1,
    "lapse_seconds": 86400,
}


def test_all_are_shown_with_their_defaults(untouched):
    assert untouched.control("GET", "/simulator/settings") == DEFAULTS


def test_a_change_changes_nothing_else(stage):
    assert stage.settings(etag=True, rate_limit=5) == {**DEFAULTS, "etag": True, "rate_limit": 5}
    assert stage.settings() == {**DEFAULTS, "etag": True, "rate_limit": 5}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("post_body", "full"),
        ("unknown_event_id", 404),
        ("unknown_event_id", "400"),
        ("stale_incarnation", 200),
        ("forwarded_for", "denied"),
        ("rate_limit", -1),
        ("rate_limit", 0.5),
        ("retry_after", "soon"),
        ("etag", 1),
        ("event_id_case", "Upper"),
        ("date_format", "rfc2822"),
        ("omit_fields", "Resources"),
        ("omit_fields", ["resources"]),
        ("approval", None),
        ("skip_started", "true"),
        ("new_id_each_state", 1),
        ("other_agent_approves", "User"),
        ("hold_first_answer", -1),
        ("instance_name", "web-1"),
        ("baseline_incarnation", True),
        ("baseline_incarnation", 2),
        ("lapse_seconds", "day"),
        ("no_such_setting", 1),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_nothing_is_changed(untouched, name, value):
    body = json.dumps({"etag": True, name: value})
    reply = untouched.simulator.request("PATCH", untouched.simulator.url + "/simulator/settings", body)
    assert reply.status == 400
    assert name in json.loads(reply.body)["error"]
    assert untouched.control("GET", "/simulator/settings") == DEFAULTS


def test_the_document_as_answer_to_an_approval(stage):
    event = stage.schedule(start_delay=0)
    stage.settings(post_body="document")
    reply = stage.approve(event["event_id"])
    assert json.loads(reply.body) == stage.document()
    assert stage.statuses() == ["Started"]


def test_unknown_ids_accepted(stage):
    stage.settings(unknown_event_id=200)
    event = stage.schedule()
    assert stage.approve("NO-SUCH-ID", event["event_id"]).status == 200
    assert stage.event(event["event_id"])["approved_by"] == "web-1"


@pytest.mark.parametrize("incarnation", [1, "1", 99, None])
def test_a_stale_incarnation_is_ignored_or_refused(stage, incarnation):
    event = stage.schedule()
    stage.settings(stale_incarnation=400)
    assert stage.approve(event["event_id"], DocumentIncarnation=incarnation).status == 400
    assert stage.approve(event["event_id"], DocumentIncarnation=2).status == 200
    assert stage.approve(event["event_id"], DocumentIncarnation="2").status == 200
    assert stage.approve(event["event_id"]).status == 200
    stage.settings(stale_incarnation="ignored")
    assert stage.approve(event["event_id"], DocumentIncarnation=incarnation).status == 200


def test_the_rate_limit_counts_each_vm_for_itself(stage):
    stage.settings(rate_limit=2)
    assert [stage.get().status, stage.get(path=COMPUTE).status, stage.get().status] == [200, 200, 429]
    assert stage.get("web-2").status == 200
    reply = stage.get()
    assert json.loads(reply.body)["error"]
    assert reply.headers["Retry-After"] is None
    stage.settings(retry_after=7)
    assert stage.get().headers["Retry-After"] == "7"
    stage.advance(1)
    assert stage.get().status == 200


def test_other_tenants_make_an_approved_event_wait_for_its_time(stage):
    stage.settings(approval="waits")
    event = stage.schedule(notice=100)
    assert stage.approve(event["event_id"]).status == 200
    stage.advance(99)
    assert stage.statuses() == ["Scheduled"]
    stage.advance(1)
    assert stage.statuses() == ["Started"]


def test_an_event_may_go_without_having_been_seen_started(stage):
    stage.settings(skip_started=True)
    event = stage.schedule(notice=10, started_for=100)
    stage.advance(10)
    assert stage.document() == {"DocumentIncarnation": 3, "Events": []}
    state = stage.event(event["event_id"])
    assert (state["outcome"], state["started_at"]) == ("completed", None)
    stage.schedule(event_status="Started")
    assert stage.statuses() == ["Started"]


def test_an_event_may_have_another_id_once_it_has_started(stage):
    stage.settings(new_id_each_state=True)
    first = stage.schedule(started_for=100)["event_id"]
    (scheduled,) = stage.document()["Events"]
    assert (scheduled["EventId"], scheduled["EventStatus"]) == (first, "Scheduled")
    assert stage.approve(first).status == 200
    stage.advance(1)
    (started,) = stage.document()["Events"]
    assert started["EventStatus"] == "Started"
    assert started["EventId"] != first
    # The old one is known no more, and the new one is.
    assert (stage.approve(first).status, stage.approve(started["EventId"]).status) == (400, 200)
    state = stage.event(first)
    assert (state["listed_id"], state["phase"], state["approved_by"]) == (started["EventId"], "started", "web-1")
    stage.advance(100)
    assert (stage.document()["Events"], stage.event(first)["outcome"]) == ([], "completed")


def test_another_agent_approves_first(stage):
    stage.settings(other_agent_approves=["User"])
    user, platform = stage.schedule(event_source="User"), stage.schedule()
    assert (user["approved_by"], platform["approved_by"]) == ("other agent", None)
    stage.advance(1)
    assert stage.statuses() == ["Started", "Scheduled"]
