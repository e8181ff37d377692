# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A damaged state is put aside, or moves, while responses go on, and what it costs on the disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.database import (
    open_database,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.readers import rescue
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.store import Store
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.tracker import (
    record_answer,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    FakeClock,
    make_document,
    make_event,
    make_rule,
)

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
        with closing(sqlite3.connect(path)) as other, other:
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
