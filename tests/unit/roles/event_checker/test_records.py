# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How records are written and read, by this version, by version 1.0, and by later ones."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.history_row import Course, course_of
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.parser import parse_document
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import history
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import records as states
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.codec import (
    decode_event,
    decode_rule,
    encode_event,
    encode_names,
    encode_rule,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config import Rule
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.records import Moment
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.repair import repair
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.retention import (
    RETENTION,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.store import Store
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.tracker import (
    due_responses,
    record_answer,
)
from ansible_collections.fleetops.azure_maintenance.tests.tables_1_0 import TABLES_1_0
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    HOSTILE,
    NOW,
    make_document,
    make_event,
    make_rule,
    open_state,
    started,
)

# As version 1.0 wrote them
EVENT_KEYS_1_0 = {
    "event_id", "event_type", "event_status", "resource_type", "resources", "not_before", "not_before_raw",
    "description", "event_source", "duration_seconds",
}  # fmt: skip
RULE_KEYS_1_0 = {
    "name", "match", "lead_time", "on_announced", "on_started", "on_ended", "approve", "timeout", "retries",
    "retry_delay",
}  # fmt: skip
COLUMNS_1_0 = {"response": 8, "step": 9, "fact": 2}
RULE = make_rule(
    on_announced=[{"command": ["drain"]}, {"command": ["flush"]}], on_ended=[{"playbook": "restore.yml"}],
    approve="when_ready", retries=0,
)  # fmt: skip
AT = NOW.timestamp()


def event_of_1_0(event):
    content = {**event._asdict(), "not_before": "2026-11-21T10:15:00Z" if event.not_before else None}
    del content["names_its_vms"]
    return json.dumps(content)


@pytest.fixture
def upgraded(folders):
    """The state of version 1.0 in the middle of a preparation, opened by this version."""
    os.makedirs(folders.state, 0o700)
    rule = json.dumps({key: value for key, value in RULE._replace(match={})._asdict().items() if key in RULE_KEYS_1_0})
    with closing(sqlite3.connect(os.path.join(folders.state, "state.db"))) as old:
        old.executescript(TABLES_1_0)
        insert = "INSERT INTO event (key, content, rule, phase, outcome, boot_id, seen_at, seen_uptime, announced_at,"
        insert += " started_at, ended_at, approval, approved_at) VALUES (?, ?, ?, ?, ?, 'boot-1', ?, ?, ?, ?, ?, ?, ?)"
        gone = ("gone", event_of_1_0(started(make_event("GONE"))), rule, "ended", "completed")
        old.execute(insert, (*gone, AT - 900, 4100.0, AT - 900, AT - 600, AT - 300, "approved", AT - 700))
        coming = ("a1", event_of_1_0(make_event()), rule, "announced", None)
        old.execute(insert, (*coming, AT - 60, 4940.0, AT - 60, None, None, None, None))
        response = (
            "INSERT INTO response (event, phase, state, boot_id, created_at, finished_at) VALUES (?, ?, ?, ?, ?, ?)"
        )
        old.execute(response, (1, "announced", "succeeded", "boot-1", AT - 900, AT - 700))
        old.execute(response, (1, "ended", "succeeded", "boot-1", AT - 300, AT - 290))
        old.execute(response, (2, "announced", "running", "boot-1", AT - 60, None))
        step = (
            "INSERT INTO step (response, position, content, state, started_at, finished_at) VALUES (?, ?, ?, ?, ?, ?)"
        )
        old.execute(step, (1, 1, '{"command": ["drain"]}', "succeeded", AT - 800, AT - 790))
        old.execute(step, (2, 1, '{"playbook": "restore.yml"}', "succeeded", AT - 300, AT - 290))
        old.execute(step, (3, 1, '{"command": ["drain"]}', "succeeded", AT - 50, AT - 40))
        old.execute(step, (3, 2, '{"command": ["flush"]}', "running", AT - 40, None))
        old.execute(step, (3, 3, '{"approve": true}', "pending", None, None))
        polls = {"count": 70, "errors": {"timeout": 1}, "last_answer_at": AT - 1, "last_error": None}
        old.execute("INSERT INTO fact VALUES ('polls', ?)", (json.dumps(polls),))
        old.commit()
    state = open_state(folders)
    yield state
    state.close()


class TestUpgrade:
    """A state of version 1.0."""

    def test_nothing_that_it_knows_is_lost(self, upgraded):
        gone, coming = upgraded.all_events()
        assert (gone.event, gone.phase, gone.outcome) == (started(make_event("GONE")), "ended", "completed")
        assert (gone.approval, gone.started_at, gone.ended_at) == (states.APPROVED, AT - 600, AT - 300)
        assert (coming.event, coming.phase, coming.rule) == (make_event(), "announced", RULE._replace(match={}))
        assert coming.seen == Moment(AT - 60, 4940.0, "boot-1")
        assert [each.state for each in upgraded.steps(3)] == [states.SUCCEEDED, states.RUNNING, states.PENDING]
        assert upgraded.fact("polls")["count"] == 70
        with upgraded.transaction():
            assert repair(upgraded, Moment(AT, 5000.0, "boot-1")) == []

    def test_the_preparation_goes_on_and_the_event_is_not_taken_for_new(self, upgraded):
        now = Moment(AT, 5000.0, "boot-1")
        assert due_responses(upgraded, now, lambda _number: False) == []
        assert record_answer(upgraded, [RULE], make_document(make_event()), now, "web-1").lines == []
        (due,) = due_responses(upgraded, now, lambda _number: False)
        assert due.number == 3
        assert [each.state for each in upgraded.steps(3)] == [states.SUCCEEDED, states.RUNNING, states.PENDING]

    def test_it_is_restored_when_the_event_has_ended(self, upgraded):
        now = Moment(AT, 5000.0, "boot-1")
        record_answer(upgraded, [RULE], make_document(make_event()), now, "web-1")
        record_answer(upgraded, [RULE], make_document(), now, "web-1")
        (due,) = due_responses(upgraded, now, lambda _number: False)
        assert (due.event, due.phase) == (2, "ended")

    def test_the_history_begins_with_the_events_that_it_still_knows(self, upgraded):
        with upgraded.transaction():
            history.keep_missing(upgraded.connection)
            upgraded.forget_ended_before(AT)
        rows, damaged = history.read_rows(upgraded.connection, None)
        assert [(row["event_id"], row["ended_at"], row["approved_by"], row["late"]) for row in rows] == [
            ("GONE", "2026-11-21T09:55:00Z", "checker", False),
            ("A1", None, None, False),
        ]
        assert damaged == 0
        assert [row["prepare_seconds"] for row in rows] == [10, None]
        assert course_of(rows[0]) == Course(None, 100, 300, False)

    def test_version_1_0_can_go_on_with_it(self, upgraded):
        """The number of the schema stays, columns are only added, and only to the table that it reads by name."""
        now = Moment(AT, 5000.0, "boot-1")
        event = make_event("B2", resources=("web-1", "x"), names_its_vms=False)
        record_answer(upgraded, [RULE], make_document(make_event(), event), now, "web-1")
        connection = upgraded.connection
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 1
        for table, columns in COLUMNS_1_0.items():
            assert len(connection.execute(f"PRAGMA table_info({table})").fetchall()) == columns
        for row in connection.execute("SELECT content, rule FROM event"):
            assert json.loads(row["content"]).keys() == EVENT_KEYS_1_0
            assert row["rule"] is None or json.loads(row["rule"]).keys() <= RULE_KEYS_1_0
        # What it inserts has none of the added columns.
        with closing(sqlite3.connect(":memory:")) as fresh:
            fresh.executescript(TABLES_1_0)
            old = {row[1] for row in fresh.execute("PRAGMA table_info(event)")}
        added = [row for row in connection.execute("PRAGMA table_info(event)") if row["name"] not in old]
        assert len(added) == 3
        assert not any(row["notnull"] for row in added)


@pytest.mark.parametrize(
    "event",
    [
        make_event(),
        started(make_event("B" * 256)),
        make_event(event_type=None, event_status=None, resource_type=None, not_before=None, not_before_raw=None),
        make_event(description=HOSTILE.format(marker="/tmp/x"), duration_seconds=9),
        make_event(not_before=NOW.replace(year=999)),
        make_event(resources=(), names_its_vms=False),
    ],
)
def test_an_event_is_read_as_it_was_written(event):
    assert decode_event(encode_event(event), event.key) == (event, True)


@pytest.mark.parametrize("rule", [RULE, Rule("Only a name"), make_rule(lead_time=300, timeout=1.5, retries=7)])
def test_a_rule_is_read_as_it_was_written_but_for_its_conditions(rule):
    assert decode_rule(encode_rule(rule)) == (rule._replace(match={}), True)


def test_no_rule_is_no_rule():
    assert decode_rule(None) == (None, True)


def test_a_key_more_or_less_of_another_version_is_no_damage():
    event, rule = json.loads(encode_event(make_event())), json.loads(encode_rule(RULE))
    assert decode_event(json.dumps({**event, "severity": {"x": 1}}), "a1") == (make_event(), True)
    assert decode_rule(json.dumps({**rule, "cooldown": 5})) == (RULE._replace(match={}), True)
    del event["duration_seconds"], event["description"], rule["approve"]
    assert decode_event(json.dumps(event), "a1") == (make_event(description=None), True)
    assert decode_rule(json.dumps(rule)) == (RULE._replace(match={}, approve="never"), True)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", '"x"', "[" * 100_000, None, 7, b"\xff", '{"event_id": 7}']
)
def test_of_a_text_that_cannot_be_read_the_key_is_left(text):
    event, sound = decode_event(text, "a1")
    assert (event.event_id, event.affects("web-1"), sound) == ("a1", None, False)


@pytest.mark.parametrize("text", ['"\\ud83d"', '"\\udfff x"'])
def test_half_a_pair_of_surrogates_is_replaced(text):
    content = encode_event(make_event()).replace('"Host server is undergoing maintenance."', text)
    event, sound = decode_event(content, "a1")
    assert sound
    assert "\N{REPLACEMENT CHARACTER}" in event.description.replace("?", "\N{REPLACEMENT CHARACTER}")
    event.description.encode("utf-8")


@pytest.mark.parametrize(
    "changes",
    [
        {"Description": "x" * 900_000},
        {"EventType": "x" * 900_000},
        {"Resources": ["web-1"] * 100_000},
        {"Resources": ["web-1", "x" * 900_000]},
        {"NotBefore": "x" * 900_000},
    ],
)
def test_what_is_kept_of_an_event_is_bounded_and_it_stays_one_of_this_vm(changes):
    raw = {"EventId": "A1", "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["web-1"], **changes}
    (event,) = parse_document({"DocumentIncarnation": 1, "Events": [raw]}, "2020-07-01").events
    text = encode_event(event)
    assert len(text) < 100_000
    kept, sound = decode_event(text, "a1")
    assert sound
    assert kept.affects("web-1") is not False


def test_the_names_that_are_waited_for_are_bounded():
    assert len(encode_names(["x" * 900_000] * 1000)) < 110_000


def withdraw_events(state: Store, clock: Any, count: int) -> None:
    """So many events are announced and withdrawn, and the state is told to forget what it need not keep."""
    with state.transaction():
        for number in range(count):
            added = state.add_event(make_event(f"E{number}"), None, "announced", clock.now(), None)
            state.end_event(added, "withdrawn", clock.now())
        state.forget_ended_before(0.0)


def test_however_many_events_end_the_state_keeps_a_thousand(state, clock):
    withdraw_events(state, clock, 1010)
    assert len(state.all_events()) == 1000
    assert isinstance(state, Store)


def end_with_restore(state: Store, clock: Any, result: str) -> int:
    """An event ends, and its restore too; return the number of that response."""
    record_answer(state, [RULE], make_document(make_event()), clock.now(), "web-1")
    record_answer(state, [RULE], make_document(started(make_event())), clock.now(), "web-1")
    record_answer(state, [RULE], make_document(), clock.now(), "web-1")
    (restore,) = [each.number for each in state.responses_to(1) if each.phase == "ended"]
    with state.transaction():
        for each in state.responses_to(1):
            state.finish_response(each.number, result if each.number == restore else "failed", None, clock.now())
    return restore


@pytest.mark.parametrize(("result", "kept"), [("failed", True), ("succeeded", False), ("skipped", False)])
def test_p3_an_event_whose_restore_failed_is_kept_until_it_is_tried_again_even_if_the_clock_is_set(
    state, clock, result, kept
):
    restore = end_with_restore(state, clock, result)
    clock.set_by(40 * 86400)
    with state.transaction():
        state.forget_ended_before(clock.now().at - RETENTION)
    assert [each.event.key for each in state.all_events()] == (["a1"] if kept else [])
    with state.transaction():
        state.finish_response(restore, "succeeded", None, clock.now())
        state.forget_ended_before(clock.now().at - RETENTION)
    assert state.all_events() == []


def test_p9_however_many_restores_fail_the_state_keeps_a_thousand(state, clock):
    end_with_restore(state, clock, "failed")
    withdraw_events(state, clock, 1000)
    assert len(state.all_events()) == 1000
    assert state.event(1) is None


def test_version_1_0_is_shown_no_option_that_it_does_not_know(state):
    rule = RULE._replace(on_waiting=({"command": ["launch"]},))
    now = Moment(AT, 5000.0, "boot-1")
    record_answer(state, [rule], make_document(make_event()), now, "web-1")
    (record,) = state.all_events()
    assert record.rule == rule._replace(match={})
    (text,) = state.connection.execute("SELECT rule FROM event").fetchone()
    assert json.loads(text).keys() <= RULE_KEYS_1_0


@pytest.mark.parametrize("text", ["", "7", "[7]", '{"command": ["x"]}', "[{}]"])
def test_on_waiting_that_cannot_be_read_is_left_out_and_costs_nothing_else(state, text):
    rule = RULE._replace(on_waiting=({"command": ["launch"]},))
    now = Moment(AT, 5000.0, "boot-1")
    record_answer(state, [rule], make_document(make_event()), now, "web-1")
    state.connection.execute("UPDATE event SET on_waiting = ?", (text,))
    assert state.all_events()[0].rule == RULE._replace(match={})
    with state.transaction():
        assert len(repair(state, now)) == 1
        assert repair(state, now) == []
