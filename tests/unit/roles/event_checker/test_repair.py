# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records that were damaged, one at a time: nothing fails for it twice, and no other record is lost."""

from __future__ import annotations

import json
import random
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import codec
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import records as states
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.database import (
    open_database,
    open_snapshot,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.repair import repair
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report import (
    exit_status,
    history_report,
    metrics,
    needing_attention,
    public,
    report,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.retry import (
    make_due_again,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.rules import steps_for
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.status import (
    status_text,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.status_history import (
    history_text,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.store import Store
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.tables import prepare
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.tracker import (
    due_responses,
    record_answer,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import conftest as builders
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import machine

tmp_path = machine.tmp_path

RULE = builders.make_rule(
    on_announced=[{"command": ["drain", "now"]}], on_started=[{"command": ["note"]}], on_ended=[{"playbook": "a.yml"}],
    approve="when_ready", lead_time=600, retries=1,
)  # fmt: skip
OPEN = (builders.make_event("OPEN-1"), builders.make_event("OPEN-2", event_type="Freeze"))
# Columns that say which rows belong together; what is behind them is found by the number of the row alone.
NUMBERS = {("event", "number"), ("response", "number")}


def idle(_number):
    return False


def build(store, clock):
    """Ended, started and announced events, each with its responses, steps and what polling knows."""
    gone = builders.make_event("GONE")
    record_answer(store, [RULE], builders.make_document(gone), clock.now(), "web-1")
    record_answer(store, [RULE], builders.make_document(builders.started(gone)), clock.advance(10), "web-1")
    record_answer(store, [RULE], builders.make_document(*OPEN), clock.advance(10), "web-1")
    now = clock.advance(400)
    for response in due_responses(store, now, idle):
        with store.transaction():
            store.begin_response(response.number, states.RUNNING, now)
            step = store.steps(response.number)[0]
            store.begin_step(step, now)
            store.finish_step(step, states.SUCCEEDED, "Fine.", now)
    with store.transaction():
        store.set_approval(3, states.WAITING, ("web-2",), now)
        store.set_fact("polls", {"count": 7, "errors": {"timeout": 1}, "last_answer_at": now.at, "last_error": None})
        store.set_fact("resource_name", {"name": "web-1", "boot_id": now.boot_id})


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A state in a file, closed in peace, and the moment after."""
    folder = tmp_path_factory.mktemp("original")
    clock = builders.FakeClock()
    with closing(Store(open_database(str(folder), str(folder / "run"), pytest.fail))) as store:
        build(store, clock)
    return folder / "state.db", clock.now()


def copy_of(source):
    connection = prepare(sqlite3.connect(":memory:", isolation_level=None))
    with closing(sqlite3.connect(str(source))) as disk:
        disk.backup(connection)
    return Store(connection)


def use(store, now, times=2):
    """Do what status, a check and a response do; return the lines of each time."""
    told = []
    for _number in range(times):
        found = report(store, now, store.all_events())
        json.dumps(public(found))
        status_text(found, now.wall).encode("utf-8")
        exit_status(found)
        with store.transaction():
            lines = repair(store, now)
        assert not store.needs_repair
        record_answer(store, [RULE], builders.make_document(*OPEN), now, "web-1")
        due_responses(store, now, idle)
        assert not store.needs_repair
        told.append(lines)
    metrics(store, report(store, now, needing_attention(store))).encode("utf-8")
    history_text(history_report(store, now, []), now.wall)
    assert not store.needs_repair
    return told


def rows(store, table):
    return {row[0]: tuple(row) for row in store.connection.execute(f"SELECT rowid, * FROM {table}")}


def flip(value, generator):
    """Return a value with one bit flipped."""
    if isinstance(value, str):
        content = bytearray(value.encode("utf-8"))
    elif isinstance(value, float):
        content = bytearray(struct.pack(">d", value))
    else:
        content = bytearray(struct.pack(">q", value))
    content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    if isinstance(value, str):
        return bytes(content)
    return struct.unpack(">d" if isinstance(value, float) else ">q", content)[0]


def cells(store):
    """Every value of every row that is not null or empty."""
    found = []
    for table in ("event", "response", "step", "fact", "step_success"):
        for row in store.connection.execute(f"SELECT rowid, * FROM {table}"):
            for column in row.keys()[1:]:
                if row[column] not in (None, "") and column != "rowid":
                    found.append((table, row[0], column, row[column]))
    return found


def damage(store, table, rowid, column, value):
    """Write a damaged value; return False where the tables themselves refuse it."""
    store.connection.execute("PRAGMA foreign_keys = OFF")
    place = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
    try:
        store.connection.execute(f"UPDATE {table} SET {column} = {place} WHERE rowid = ?", (value, rowid))
    except sqlite3.IntegrityError:
        return False
    store.connection.execute("PRAGMA foreign_keys = ON")
    return True


@pytest.mark.one_python
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.matrix) for seed in range(1, 6))])
def test_one_flipped_bit_anywhere_in_a_row_costs_no_other_and_is_told_once(original, seed):
    """1,500 flips over all tables and columns."""
    generator = random.Random(seed)
    path, now = original
    done = 0
    while done < 250:
        with closing(copy_of(path)) as store:
            table, rowid, column, value = generator.choice(cells(store))
            damaged = flip(value, generator)
            if not damage(store, table, rowid, column, damaged):
                continue
            done += 1
            what = (table, rowid, column, value, damaged)
            before = {event.number for event in store.all_events()}
            try:
                first, second = use(store, now)
            except Exception as error:
                raise AssertionError(f"{what}: {error!r}") from error
            assert second == [], what
            if (table, column) not in NUMBERS:
                assert len(first) <= 1, (what, first)
            assert before - {event.number for event in store.all_events()} <= {rowid}, what
            if table != "event":
                assert {event.event.event_id for event in store.all_events()} == {"OPEN-1", "OPEN-2", "GONE"}, what


@pytest.mark.one_python
def test_one_flipped_bit_anywhere_in_the_file(original, tmp_path):
    """Where the damage is in what holds the rows together, what can be read of them is kept."""
    path, now = original
    generator = random.Random(7)
    content = path.read_bytes()
    folder = tmp_path / "state"
    folder.mkdir()
    for number in range(150):
        for name in folder.iterdir():
            name.unlink()
        damaged = bytearray(content)
        at = generator.randrange(100, len(content))
        damaged[at] ^= 1 << generator.randrange(8)
        (folder / "state.db").write_bytes(damaged)
        told = []
        where = f"flip {number} at {at}"
        with closing(Store(open_snapshot(str(folder), str(tmp_path / "run"), told.append))) as store:
            status_text(report(store, now, store.all_events()), now.wall)
        told.clear()
        with closing(Store(open_database(str(folder), str(tmp_path / "run"), told.append))) as store:
            try:
                use(store, now)
            except sqlite3.DatabaseError as error:
                told.append(str(error))
                store.close()
                store = Store(open_database(str(folder), str(tmp_path / "run"), told.append, damaged=True))
                use(store, now)
            except Exception as error:
                raise AssertionError(f"{where}: {error!r}") from error
            store.close()
        assert len(told) <= 2, (where, told)
        told.clear()
        with closing(Store(open_database(str(folder), str(tmp_path / "run"), told.append))) as store:
            assert use(store, now, 1) == [[]], where
        assert told == [], where


@pytest.mark.parametrize(
    ("change", "line"),
    [
        pytest.param(
            "UPDATE event SET content = 'x' WHERE number = 2",
            "The record of event open-1 was damaged: part of it is unknown now.",
            id="an event that is no JSON",
        ),
        pytest.param(
            "UPDATE event SET key = '' WHERE number = 2",
            "The record of event OPEN-1 was damaged: part of it is unknown now.",
            id="an event that only its text tells",
        ),
        pytest.param(
            "UPDATE event SET content = 'x', key = 'a' || char(10) || char(27) || '[31m' WHERE number = 2",
            "The record of event a\\u000a\\u001b[31m was damaged: part of it is unknown now.",
            id="an event with an id that would steer a terminal",
        ),
        pytest.param(
            "UPDATE fact SET value = '7', name = 'a' || char(10) || char(27) WHERE name = 'polls'",
            "What was remembered as a\\u000a\\u001b cannot be read and was put aside.",
            id="a name that would steer a terminal",
        ),
        pytest.param(
            "UPDATE event SET key = '', content = '{}' WHERE number = 2",
            "The record of event number 2 cannot be read (it has no id) and was put aside.",
            id="an event without an id",
        ),
        pytest.param(
            "UPDATE response SET phase = 'announcee' WHERE number = 4",
            "The record of response 4 cannot be read (it has the phase 'announcee') and was put aside.",
            id="a response to no phase",
        ),
        pytest.param(
            "UPDATE response SET event = 99 WHERE number = 4",
            "The record of response 4 cannot be read (its event is not known) and was put aside.",
            id="a response to no event",
        ),
        pytest.param(
            "UPDATE response SET state = 'x' WHERE number = 4",
            "The record of response 4 was damaged: it is taken for failed.",
            id="a preparation in no known state",
        ),
        pytest.param(
            "UPDATE response SET state = 'x' WHERE number = 3",
            "The record of response 3 was damaged: it is taken for due.",
            id="a restore in no known state is owed",
        ),
        pytest.param(
            "DELETE FROM step WHERE response = 4 AND position = 1",
            "Response 4: Records of its steps are lost, so it cannot be run as a whole.",
            id="a preparation that lost a step",
        ),
        pytest.param(
            "DELETE FROM step WHERE response = 4 AND position = 2",
            "Response 4: Records of its steps are lost, so it cannot be run as a whole.",
            id="a preparation that lost its last step",
        ),
        pytest.param(
            "DELETE FROM step WHERE response = 3",
            "Response 3: Records of its steps are lost, so it cannot be run as a whole.",
            id="a restore that lost all its steps does not pass for done",
        ),
        pytest.param(
            'UPDATE step SET content = \'{"commanl": ["x"]}\' WHERE response = 4 AND position = 1',
            "The record of step 1 of response 4 was damaged.",
            id="a step of an unknown kind",
        ),
        pytest.param(
            "UPDATE fact SET value = '7' WHERE name = 'polls'",
            "What was remembered as polls cannot be read and was put aside.",
            id="how the polling goes",
        ),
    ],
)
def test_what_is_damaged_is_told_by_one_line_and_kept_in_put_aside(original, change, line):
    path, now = original
    with closing(copy_of(path)) as store:
        store.connection.execute("PRAGMA foreign_keys = OFF")
        store.connection.execute(change)
        before = {table: rows(store, table) for table in ("event", "response")}
        assert use(store, now)[0] == [line]
        if "lost" not in line and "it has no id" not in line:
            assert store.connection.execute("SELECT COUNT(*) FROM put_aside").fetchone()[0] == 1
        for table, known in before.items():
            assert len(known.keys() - rows(store, table).keys()) <= 1


LOST = "Its record is lost, so whether it has run is not known."


class TestResponsesThatARescueLost:
    """The rule of an event asks for them, and no record tells of them."""

    @pytest.fixture
    def rescued(self, original, tmp_path):
        def rescued(lost):
            path, now = original
            (tmp_path / "state").mkdir()
            (tmp_path / "state" / "state.db").write_bytes(path.read_bytes())
            with closing(sqlite3.connect(tmp_path / "state" / "state.db", isolation_level=None)) as damaged:
                damaged.execute(f"DELETE FROM response WHERE number IN ({lost})")
            return Store(open_database(str(tmp_path / "state"), str(tmp_path / "run"), print, damaged=True)), now

        return rescued

    @pytest.mark.parametrize(
        ("lost", "lines"),
        [
            ("4", [f"on_announced for event OPEN-1: {LOST}"]),
            ("3", [f"on_ended for event GONE: {LOST}"]),
            ("1, 2", []),
            (
                "3, 4, 5",
                [
                    f"on_ended for event GONE: {LOST}",
                    *(f"on_announced for event {each}: {LOST}" for each in ("OPEN-1", "OPEN-2")),
                ],
            ),
        ],
        ids=["a preparation", "a restore", "responses before the end of their event", "all that matter"],
    )
    def test_are_told_and_left_to_a_person(self, rescued, lost, lines):
        store, now = rescued(lost)
        with closing(store):
            assert use(store, now) == [lines, []]
            found = report(store, now, store.all_events())
            assert status_text(found, now.wall).count("to try again: azure-maintenance retry") == len(lines)

    def test_p3_a_restore_waits_for_an_event_whose_preparation_was_lost(self, rescued):
        store, now = rescued("4")
        with closing(store):
            use(store, now)
            record_answer(store, [RULE], builders.make_document(OPEN[0]), now, "web-1")
            with store.transaction():
                for response in store.unfinished_responses():
                    if response.phase != "ended" or response.event == 1:
                        store.finish_response(response.number, states.SUCCEEDED, None, now)
            assert due_responses(store, now, idle) == []
            record_answer(store, [RULE], builders.make_document(), now, "web-1")
            assert [each.phase for each in due_responses(store, now, idle)] == ["ended"]

    def test_run_as_a_whole_when_they_are_retried(self, rescued):
        store, now = rescued("4")
        with closing(store):
            use(store, now)
            (lost,) = store.responses_to(2)
            with store.transaction():
                make_due_again(store, lost, now)
            assert [step.content for step in store.steps(lost.number)] == steps_for(RULE, "announced")

    def test_are_not_looked_for_in_a_sound_state(self, original):
        """A rule that was found late has asked for nothing in an earlier phase."""
        path, now = original
        with closing(copy_of(path)) as store:
            store.connection.execute("DELETE FROM response WHERE number = 4")
            assert use(store, now) == [[], []]


def test_a_step_that_cannot_be_read_is_never_taken_for_an_approval(original):
    path, now = original
    with closing(copy_of(path)) as store:
        store.connection.execute("UPDATE step SET content = '{\"commanl\": 1}' WHERE response = 4 AND position = 1")
        use(store, now)
        step = store.steps(4)[0]
        assert (step.state, step.message) == (states.FAILED, codec.DAMAGED)
        found = report(store, now, store.all_events())
        described = [
            each["step"] for event in found["events"] for response in event["responses"] for each in response["steps"]
            if response["number"] == 4
        ]  # fmt: skip
        assert described == ["command (its record was damaged)", "approve"]


def test_a_rule_that_cannot_be_read_leaves_the_restore_to_a_person(original):
    path, now = original
    with closing(copy_of(path)) as store:
        store.connection.execute("UPDATE event SET rule = '{' WHERE number = 3")
        with store.transaction():
            repair(store, now)
        record_answer(store, [RULE], builders.make_document(OPEN[0]), now, "web-1")
        (restore,) = [each for each in store.responses_to(3) if each.phase == "ended"]
        assert [step.state for step in store.steps(restore.number)] == [states.PENDING]
        assert store.steps(restore.number)[0].content == {"command": ["(its record was damaged)"]}


def test_an_event_of_the_year_999_of_version_1_0_is_read(original):
    """NotBefore: 1000-01-01T00:00:00+05:00. Version 1.0 wrote three digits of the year and could not read them."""
    path, now = original
    with closing(copy_of(path)) as store:
        row = store.connection.execute("SELECT content FROM event WHERE number = 2").fetchone()
        content = {**json.loads(row[0]), "not_before": "999-12-31T19:00:00Z"}
        store.connection.execute("UPDATE event SET content = ? WHERE number = 2", (json.dumps(content),))
        assert store.event(2).event.not_before.year == 999
        assert not store.event(2).damaged
        assert use(store, now) == [[], []]


def test_the_lines_of_one_repair_are_bounded(original):
    path, now = original
    with closing(copy_of(path)) as store:
        for number in range(50):
            store.add_event(builders.make_event(f"X{number}"), RULE, "announced", now, None)
        store.connection.execute("UPDATE event SET content = 'x'")
        with store.transaction():
            lines = repair(store, now)
        assert len(lines) == 11
        assert lines[-1] == "And 43 more records were damaged."
        for _number in range(3):
            store.connection.execute("UPDATE event SET content = 'x'")
            with store.transaction():
                repair(store, now)
        assert store.connection.execute("SELECT COUNT(*) FROM put_aside").fetchone()[0] == 100


def test_a_page_damaged_inside_a_table_costs_only_the_rows_on_it(tmp_path):
    folder = tmp_path / "state"
    with closing(Store(open_database(str(folder), str(tmp_path / "run"), pytest.fail))) as store:
        now = builders.FakeClock().now()
        with store.transaction():
            for number in range(100):
                event = builders.make_event(f"E{number}", description="x" * 300)
                ended = store.add_event(event, None, "announced", now, None)
                store.end_event(ended, "withdrawn", now)
    content = bytearray((folder / "state.db").read_bytes())
    leaf = content.index(b'"E50"') // 4096 * 4096
    content[leaf : leaf + 4096] = b"\xff" * 4096
    (folder / "state.db").write_bytes(bytes(content))
    told = []
    with closing(Store(open_database(str(folder), str(tmp_path / "run"), told.append))) as store:
        assert 80 < len(store.all_events()) < 100
        assert f"{len(store.all_events())} records of it were kept" in told[0]
    assert len(told) == 1
    aside = [path for path in folder.iterdir() if ".damaged-" in path.name and path.name[-1].isdigit()]
    assert Path(aside[0]).read_bytes() == bytes(content)
