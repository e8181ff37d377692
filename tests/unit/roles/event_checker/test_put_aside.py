# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A damaged state is put aside, or moves, while responses go on, and what it costs on the disk."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config import Config
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.database import (
    open_database,
    open_snapshot,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.opening import (
    open_store,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.readers import rescue
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.records import (
    DUE,
    FAILED,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import Responder
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.store import Store
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.tracker import (
    due_responses,
    record_answer,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    FakeClock,
    make_document,
    make_event,
    make_rule,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.killed import kill_everywhere

RULES = [make_rule(on_announced=[{"command": ["true"]}], on_ended=[{"command": ["true"]}])]


def fill(folders, events):
    """Make a state with so many events, numbered from 1."""
    with closing(Store(open_database(folders.state, folders.run, pytest.fail))) as state:
        document = make_document(*(make_event(f"E{number}") for number in range(1, events + 1)))
        record_answer(state, RULES, document, FakeClock().now(), "web-1")


class TestTheCostOfARescue:
    @pytest.fixture
    def commits(self, monkeypatch):
        """What was committed so far, each of which waits for the disk."""
        commits = []

        class Connection(sqlite3.Connection):
            written = 0

            def execute(self, *arguments):
                cursor = super().execute(*arguments)
                if not self.in_transaction and self.total_changes != self.written:
                    self.written = self.total_changes
                    commits.append(arguments[0])
                return cursor

        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda *names, **how: connect(*names, factory=Connection, **how))
        return commits

    def test_p8_it_does_not_wait_for_the_disk_at_each_record(self, folders, commits):
        fill(folders, 40)
        commits.clear()
        told = []
        with closing(Store(open_database(folders.state, folders.run, told.append, damaged=True))) as state:
            assert len(state.all_events()) == 40
        assert len(told) == 1
        assert len(commits) == 1, commits

    def test_p7_a_row_that_cannot_be_kept_costs_no_other(self, folders, tmp_path):
        fill(folders, 3)
        path = f"{folders.state}/state.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            # SQLite refuses this number where the number of the row is one.
            other.executescript("PRAGMA foreign_keys = OFF; CREATE TABLE changed AS SELECT * FROM event")
            other.executescript("UPDATE changed SET number = 'x' WHERE number = 2; DROP TABLE event")
            other.executescript("ALTER TABLE changed RENAME TO event")
        target = open_database(str(tmp_path / "other"), folders.run, pytest.fail)
        with closing(target):
            assert rescue(path, target, folders.run, pytest.fail) == 2 + 3 + 3 + 3
            assert [row["number"] for row in target.execute("SELECT number FROM event")] == [1, 3]
            assert [row["event"] for row in target.execute("SELECT event FROM response")] == [1, 3]
            with pytest.raises(sqlite3.IntegrityError):
                target.execute("UPDATE response SET event = 9")

    def test_p7_where_there_is_no_room_for_all_records_none_passes_for_all(self, folders, tmp_path):
        fill(folders, 100)
        with closing(open_database(str(tmp_path / "small"), folders.run, pytest.fail)) as target:
            pages = target.execute("PRAGMA page_count").fetchone()[0]
            target.execute(f"PRAGMA max_page_count = {pages + 3}")
            with pytest.raises(sqlite3.OperationalError, match="full"):
                rescue(f"{folders.state}/state.db", target, folders.run, pytest.fail)


PAGE = 4096
DAMAGED_INDEX = "sqlite_autoindex_fact_1"


def damage(path):
    """Flip a byte of an index that no response uses."""
    with closing(sqlite3.connect(str(path))) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = other.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (DAMAGED_INDEX,)).fetchone()[0]
    content = bytearray(Path(path).read_bytes())
    # The name of a fact in its first cell, of which the place is told behind the header of 8 bytes
    start = (page - 1) * PAGE
    content[start + int.from_bytes(content[start + 8 : start + 10], "big") + 3] ^= 0x01
    Path(path).write_bytes(content)


def states_of_steps(folders):
    """What the steps are recorded as, without a look at what else is wrong with the state."""
    with closing(Store(open_database(folders.state, folders.run, lambda _line: None))) as state:
        return [(row["response"], row["state"]) for row in state.connection.execute("SELECT * FROM step")]


# Tries to write, as another process does
ANOTHER = """
import sqlite3, sys
try:
    connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    print("free")
except sqlite3.OperationalError as error:
    print(error)
"""


def try_to_write(path):
    done = subprocess.run([sys.executable, "-I", "-S", "-c", ANOTHER, path], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().strip()


class TestWhatAResponseWritesMeanwhile:
    @pytest.mark.one_python
    @pytest.mark.parametrize("is_damaged", [False, True])
    @pytest.mark.release
    def test_p6_what_it_writes_after_a_kill_is_kept(self, folders, tmp_path, is_damaged):
        fill(folders, 2)
        if is_damaged:
            damage(f"{folders.state}/state.db")
        written = []

        def put_aside(place):
            run = str(place.folder / "run")
            open_database(str(place.folder), run, place.messages.append, damaged=True).close()

        def check(place):
            here = folders._replace(state=str(place.folder), run=str(place.folder / "run"))
            if place.path.exists():
                # A response has the file open since before.
                with closing(sqlite3.connect(str(place.path), isolation_level=None)) as response:
                    response.execute("UPDATE step SET state = 'succeeded' WHERE rowid = 1")
                written.append(place.folder.name)
                with closing(Store(open_snapshot(here.state, here.run, place.messages.append))) as state:
                    assert [state.steps(number)[0].state for number in (1, 2)] == ["succeeded", "pending"]
                assert states_of_steps(here) == [(1, "succeeded"), (2, "pending")]
                assert not Path(f"{place.path}.rescued").exists()
            assert len(states_of_steps(here)) == 2

        assert kill_everywhere(tmp_path, Path(folders.state), put_aside, check) > 20
        assert len(written) > 20

    @pytest.mark.one_python
    @pytest.mark.release
    def test_p6_what_it_writes_after_a_kill_moves_to_the_fallback_too(self, folders, tmp_path):
        fill(folders, 2)

        def put_aside(place):
            run = str(place.folder / "run")
            open_database(str(place.folder), run, place.messages.append, damaged=True).close()

        def check(place):
            here = str(place.folder), str(place.folder / "run")
            is_there = place.path.exists()
            if is_there:
                with closing(sqlite3.connect(str(place.path), isolation_level=None)) as response:
                    response.execute("UPDATE step SET state = 'succeeded' WHERE rowid = 1")
            with closing(Store(open_database(*here, place.messages.append, unwritable=True))) as state:
                wanted = "succeeded" if is_there else "pending"
                assert [state.steps(number)[0].state for number in (1, 2)] == [wanted, "pending"]

        assert kill_everywhere(tmp_path, Path(folders.state), put_aside, check) > 20

    def test_p7_an_empty_file_does_not_take_the_place_of_what_was_rescued(self, folders):
        fill(folders, 2)
        path = Path(folders.state, "state.db")
        path.rename(f"{path}.rescued")
        path.touch()
        told = []
        with closing(Store(open_snapshot(folders.state, folders.run, told.append))) as state:
            assert len(state.all_events()) == 2
        assert told == []
        with closing(Store(open_database(folders.state, folders.run, told.append))) as state:
            assert len(state.all_events()) == 2
        assert len(told) == 1
        assert "What could be read of it was kept" in told[0]

    @pytest.mark.parametrize("how", ["damaged", "unwritable"])
    def test_p6_nobody_writes_to_a_state_while_its_records_are_copied(self, folders, monkeypatch, how):
        fill(folders, 2)
        path, replace, tried = f"{folders.state}/state.db", os.replace, []

        def replace_after_a_try(source, target):
            if os.path.exists(path):
                tried.append(try_to_write(path))
            replace(source, target)

        monkeypatch.setattr(os, "replace", replace_after_a_try)
        open_database(folders.state, folders.run, lambda _line: None, **{how: True}).close()
        # The rescued one gets its name, and the damaged one loses its; or the copy in memory gets its name.
        assert tried[: 1 + (how == "damaged")] == ["database is locked"] * (1 + (how == "damaged"))
        assert try_to_write(path) == "free"

    def test_p6_a_state_that_another_writes_to_is_not_put_aside_before_that_is_done(self, folders):
        fill(folders, 2)
        with closing(sqlite3.connect(f"{folders.state}/state.db", isolation_level=None)) as response:
            response.execute("BEGIN IMMEDIATE")
            response.execute("UPDATE step SET state = 'succeeded' WHERE rowid = 1")
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                open_database(folders.state, folders.run, pytest.fail, damaged=True, busy_timeout=0.0)
            response.execute("COMMIT")
        open_database(folders.state, folders.run, lambda _line: None, damaged=True).close()
        assert states_of_steps(folders) == [(1, "succeeded"), (2, "pending")]


class TestWhatHasWaitedForTheLock:
    """The file was put aside between the look where it is and the beginning of the transaction."""

    @pytest.fixture
    def put_aside(self, folders, monkeypatch):
        """Gives a function that puts the state aside before the next transaction that meets a condition."""
        transaction = Store.transaction

        def put_aside(condition):
            done = []

            @contextmanager
            def wait(store):
                if not done and condition():
                    done.append(True)
                    open_store(folders, damaged=True).close()
                with transaction(store):
                    yield

            monkeypatch.setattr(Store, "transaction", wait)

        return put_aside

    def test_p6_a_response_writes_it_to_the_file_that_has_taken_the_place(self, folders, clock, recorder, put_aside):
        rule = make_rule(on_announced=[recorder.step("first"), recorder.step("second")])
        with closing(open_store(folders)) as state:
            record_answer(state, [rule], make_document(make_event()), clock.now(), "web-1")
            (response,) = due_responses(state, clock.now(), lambda _number: False)
        put_aside(lambda: recorder.words == ["first"])
        config = Config(resource_name="web-1")
        with closing(Responder(partial(open_store, folders), config, folders, clock)) as responder:
            assert responder.run(response.number)
        assert recorder.words == ["first", "second"]
        assert states_of_steps(folders) == [(1, "succeeded"), (1, "succeeded")]

    def test_a_retry_says_that_it_is_to_be_tried_again(self, folders, clock, put_aside, capfd, monkeypatch):
        monkeypatch.setattr(cli, "start_unit", lambda _number: None)
        fill(folders, 1)
        with closing(open_store(folders)) as state, state.transaction():
            state.finish_response(1, FAILED, None, clock.now())
        put_aside(lambda: True)
        assert cli.main(["retry", "1"], folders) == cli.UNUSABLE
        assert "The state was put aside or moved meanwhile. Try it again." in capfd.readouterr().err
        with closing(open_store(folders)) as state:
            assert state.response(1).state == FAILED
        assert cli.main(["retry", "1"], folders) == cli.FINE
        with closing(open_store(folders)) as state:
            assert state.response(1).state == DUE
