# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of the state: how they are written and read, what is put aside, and what is forgotten."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.parser import parse_document
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    Rule,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.codec import (
    DamagedRecord,
    decode_event,
    encode_event,
    unseal,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.history import (
    RETENTION,
    ConfirmedTime,
    remove_old,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.records import (
    EventRecord,
    Moment,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.recovery import (
    repair,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.store import Store
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    HOSTILE,
    NOW,
    make_event,
    make_rule,
    started,
)

RULE = make_rule(
    match={"event_types": ["Reboot"]},
    on_announced=[{"command": ["drain"]}],
    on_started=[{"command": ["note"]}],
    on_waiting=[{"command": ["launch"]}],
    on_ended=[{"command": ["restore"]}],
    approve="when_ready",
)
MOMENT = Moment(NOW.timestamp(), 5000.0, "boot-1")


def read(record: EventRecord, text: str) -> EventRecord:
    return decode_event(record.number, record.event.key, record.ended_at, record.end_order, text)


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
    record = EventRecord(7, event, RULE._replace(match={}), "announced", MOMENT, waiting_for=("web-2",), note="x")
    assert read(record, encode_event(record)) == record


@pytest.mark.parametrize("rule", [None, RULE, Rule("Only a name"), make_rule(lead_time=300, timeout=1.5, retries=7)])
def test_a_rule_is_read_as_it_was_written_but_for_its_conditions(rule):
    record = EventRecord(7, make_event(), rule, "announced", MOMENT)
    assert read(record, encode_event(record)).rule == (rule and rule._replace(match={}))


@pytest.mark.parametrize("text", ["", "{", "7", "00000000 {}", "[" * 100_000, None, 7, b"\xff", "12345678"])
def test_what_was_not_written_as_a_record_is_none(text):
    with pytest.raises(DamagedRecord):
        unseal(text)


def test_half_a_pair_of_surrogates_is_replaced():
    record = EventRecord(7, make_event(description="\ud83d x"), None, "announced", MOMENT)
    read(record, encode_event(record)).event.description.encode("utf-8")


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
    record = EventRecord(7, event, None, "announced", MOMENT)
    text = encode_event(record)
    assert len(text) < 100_000
    assert read(record, text).event.affects("web-1") is not False


def test_the_names_that_are_waited_for_are_bounded():
    names = ("x" * 900_000,) * 1000
    assert len(encode_event(EventRecord(7, make_event(), None, "announced", MOMENT, waiting_for=names))) < 110_000


def forget_ended_before(state: Store, at: float) -> None:
    remove_old(state, ConfirmedTime(at + RETENTION, 0.0, ""), 3660)


def withdraw_events(state: Store, clock: Any, count: int) -> None:
    """So many events are announced and withdrawn, and the state is told to forget what it need not keep."""
    with state.transaction():
        for number in range(count):
            added = state.add_event(make_event(f"E{number}"), None, "announced", clock.now(), None)
            state.end_event(added, "withdrawn", clock.now())
        forget_ended_before(state, 0.0)


def test_however_many_events_end_the_state_keeps_a_thousand(state, clock):
    withdraw_events(state, clock, 1010)
    assert len(state.all_events()) == 1000
    assert isinstance(state, Store)


def end_with_restore(story: Any, result: str) -> int:
    """An event ends, and its restore too; return the number of that response."""
    for events in ([make_event()], [started(make_event())], []):
        story.see_by([RULE], *events)
    (restore,) = [each.number for each in story.state.responses_to(1) if each.phase == "ended"]
    for each in story.state.responses_to(1):
        story.finish(each.number, result if each.number == restore else "failed")
    return restore


@pytest.mark.parametrize(("result", "kept"), [("failed", True), ("succeeded", False), ("skipped", False)])
def test_p3_an_event_whose_restore_failed_is_kept_until_it_is_tried_again_even_if_the_clock_is_set(
    story, state, clock, result, kept
):
    restore = end_with_restore(story, result)
    clock.set_by(40 * 86400)
    with state.transaction():
        forget_ended_before(state, clock.now().at - RETENTION)
    assert [each.event.key for each in state.all_events()] == (["a1"] if kept else [])
    with state.transaction():
        state.finish_response(restore, "succeeded", None, clock.now())
        forget_ended_before(state, clock.now().at - RETENTION)
    assert state.all_events() == []


def test_p9_however_many_restores_fail_the_state_keeps_a_thousand(story, state, clock):
    end_with_restore(story, "failed")
    withdraw_events(state, clock, 1000)
    assert len(state.all_events()) == 1000
    assert state.event(1) is None


@pytest.fixture
def prepared(story):
    """One event is prepared for and started, another is prepared for and over."""
    for document in (
        [make_event("A"), make_event("B")],
        [make_event("B"), started(make_event("A"))],
        [make_event("B")],
    ):
        story.see_by([RULE], *document)
        for response in story.state.unfinished_responses():
            if response.phase != "ended":
                story.finish(response.number)
    story.set_fact("polls", {"number": 7})
    return story


@pytest.mark.parametrize("seed", range(40))
def test_p7_one_flipped_bit_of_a_record_costs_no_other_and_is_told_once(prepared, state, seed):
    luck = random.Random(seed)
    table, column = luck.choice(
        [("event", "content"), ("response", "content"), ("response", "state"), ("fact", "name")]
    )
    rows = state.connection.execute(f"SELECT rowid, CAST({column} AS BLOB) FROM {table}").fetchall()
    rowid, value = luck.choice(rows)
    spoilt = bytearray(value)
    spoilt[luck.randrange(len(value))] ^= 1 << luck.randrange(8)
    state.connection.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE rowid = ?", (bytes(spoilt), rowid))
    others = {each.number for each in state.all_events()} - ({rowid} if table == "event" else set())
    with state.transaction():
        (line,) = repair(state, MOMENT, {"a"})
    assert line.startswith(f"A record of {table} ")
    assert line.endswith("and was put aside.")
    assert {each.number for each in state.all_events()} == others
    with state.transaction():
        assert repair(state, MOMENT, {"a"}) == []
    assert len(state.connection.execute("SELECT * FROM put_aside").fetchall()) == 1
    assert prepared.see_by([RULE], make_event("B")) is not None


@pytest.mark.parametrize(
    ("phase", "marked", "becomes"),
    [
        ("announced", {"a"}, "failed"),
        ("started", {"a"}, "failed"),
        # A mark says that the VM is out of service still.
        ("ended", {"a"}, "planned"),
        ("ended", set(), "failed"),
    ],
)
def test_p7_a_response_whose_record_is_put_aside_is_not_forgotten(prepared, state, phase, marked, becomes):
    state.connection.execute("UPDATE response SET content = 'x' WHERE event = 1 AND phase = ?", (phase,))
    with state.transaction():
        repair(state, MOMENT, marked)
    (again,) = [each for each in state.responses_to(1) if each.phase == phase]
    assert again.state == becomes
    assert [step.state for step in again.steps] == ["pending"] * len(again.steps)


def test_p3_a_restore_waits_for_an_event_whose_preparation_was_lost(prepared, state):
    state.connection.execute("UPDATE response SET content = 'x' WHERE event = 2 AND phase = 'announced'")
    with state.transaction():
        repair(state, MOMENT, set())
    assert prepared.find_due() == []
    prepared.see_by([RULE])
    assert [each.phase for each in prepared.find_due()] == ["ended"]


def test_p9_the_lines_and_the_records_that_are_put_aside_are_bounded(state):
    with state.transaction():
        for number in range(250):
            state.set_fact(f"fact {number}", {})
        state.connection.execute("UPDATE fact SET content = 'x'")
        lines = repair(state, MOMENT, set())
    assert len(lines) == 11
    assert lines[-1] == "And 240 more records were damaged."
    assert state.connection.execute("SELECT COUNT(*) FROM put_aside").fetchone()[0] == 100
