# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state file, damaged in every way, of another version, and killed while it is made."""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.report import (
    report,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.database import (
    find_put_aside,
    open_database,
    open_snapshot,
    return_home,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.schema import (
    VERSION,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.store import Store
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import conftest as builders
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import machine
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.killed import Place, kill_everywhere

tmp_path = machine.tmp_path

PAGE = 4096
EVENTS = 16
RULES = [builders.make_rule(on_announced=[{"command": ["true"]}], on_ended=[{"command": ["true"]}])]
NOW = builders.FakeClock().now()


def fill(state):
    """Write a transaction for each of many events, and one for a response to each."""
    events, story = [], builders.Story(state, builders.FakeClock())
    for number in range(EVENTS):
        events.append(builders.make_event(f"E{number}", description="x" * 200))
        story.see_by(RULES, *events)
        story.finish(state.unfinished_responses()[-1].number)


def dump(folder):
    with closing(sqlite3.connect(str(Path(folder, "state.db")))) as connection:
        return list(connection.iterdump())


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder with a state of several pages in state.db, closed in peace."""
    folder = tmp_path_factory.mktemp("original")
    state = Store(open_database(str(folder), str(folder / "run"), pytest.fail))
    fill(state)
    state.close()
    assert sorted(os.listdir(folder)) == ["state.db"]
    assert (folder / "state.db").stat().st_size > 8 * PAGE
    return folder


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """A folder with the same, as kill -9 leaves it: nearly all is in the write-ahead log."""
    folder = tmp_path_factory.mktemp("crashed")
    with closing(open_database(str(folder / "live"), str(folder / "run"), pytest.fail)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        fill(Store(connection))
        for name in ("state.db", "state.db-wal"):
            shutil.copy(folder / "live" / name, folder)
    shutil.rmtree(folder / "live")
    return folder


def files_put_aside(place):
    return [path for path in place.folder.iterdir() if ".damaged-" in path.name and path.name[-1].isdigit()]


def check_put_aside(place, state, files):
    """Nothing was deleted, one line names both files, and status finds the one that was put aside."""
    (aside,) = files_put_aside(place)
    (message,) = place.messages
    assert f"{place.path} cannot be used" in message
    assert f"was put aside as {aside}" in message
    assert find_put_aside(*place.folders) == [str(aside)]
    for suffix, content in files.items():
        assert Path(f"{aside}{suffix}").read_bytes() == content
    assert state.all_events() == []


@pytest.fixture(scope="module")
def of_five(tmp_path_factory):
    """A folder with a state of the events E1 to E5, numbered so, to each of which there was a response."""
    folder = tmp_path_factory.mktemp("of_five")
    with closing(Store(open_database(str(folder), str(folder / "run"), pytest.fail))) as state:
        story = builders.Story(state, builders.FakeClock())
        story.see_by(RULES, *(builders.make_event(f"E{number}") for number in range(1, 6)))
        for response in story.find_due():
            story.finish(response.number)
        story.set_fact("polls", {"number": 5})
    return folder


def use(state):
    """Do what a check does with it."""
    story = builders.Story(state, builders.FakeClock())
    assert story.see_by(RULES, builders.make_event("NEW")).lines
    assert state.event(story.find_due()[-1].event).event.event_id == "NEW"
    assert report(state, NOW, state.all_events())["events"][-1]["event_id"] == "NEW"


def judge(place, files, known):
    """Whatever was damaged, it is put aside, or nothing was lost by it; the checker goes on, and this tells which."""
    with closing(place.open()) as state:
        if place.messages:
            check_put_aside(place, state, files)
        else:
            assert dump(place.folder) == known
        use(state)
    told = len(place.messages)
    place.open().close()
    assert len(place.messages) == told
    return not told


def offsets(size, step):
    """Every page border with its neighbours, and many places in between."""
    borders = [border + near for border in range(0, size + 1, PAGE) for near in (-1, 0, 1)]
    return sorted({at for at in [*borders, *range(0, size, step)] if 0 <= at < size})


def test_opening_it_a_second_time_does_not_give_up_the_locks_of_the_first(original, tmp_path):
    """A process that opens and closes the file itself loses all its locks on it, and with them its log to others."""
    place = Place(tmp_path / "place", original)
    with closing(place.open()) as state:
        place.open().close()
        subprocess.run([sys.executable, "-c", LAST_ONE_OUT, str(place.path)], check=True)
        assert Path(f"{place.path}-wal").exists()
        with state.transaction():
            state.set_fact("written", {"when": "after the other had gone"})
        with closing(place.open()) as other:
            assert other.fact("written") == {"when": "after the other had gone"}
    assert place.messages == []


def look(place):
    """Return the names of the events as status reads them."""
    with closing(Store(open_snapshot(*place.folders, pytest.fail))) as state:
        return [record.event.event_id for record in state.all_events()]


def test_a_look_leaves_nothing_behind_and_gives_up_no_lock_of_the_same_process(original, tmp_path):
    place = Place(tmp_path / "place", original)
    assert len(look(place)) == EVENTS
    assert sorted(os.listdir(place.folder)) == ["state.db"]
    with closing(place.open()) as state:
        use(state)
        assert "NEW" in look(place)
        subprocess.run([sys.executable, "-c", LAST_ONE_OUT, str(place.path)], check=True)
        assert Path(f"{place.path}-wal").exists()
    assert sorted(os.listdir(place.folder)) == ["state.db"]


def test_a_look_at_what_a_crash_left_sees_its_log(crashed, tmp_path):
    place = Place(tmp_path / "place", crashed)
    assert len(look(place)) == EVENTS


@pytest.mark.parametrize("where", ["on the disk", "in the fallback folder"])
def test_p7_whoever_holds_the_state_for_itself_keeps_nobody_from_reading_it(of_five, tmp_path, where):
    place = Place(tmp_path / "place", of_five)
    held = place.path
    if where == "in the fallback folder":
        open_database(*place.folders, place.messages.append, unwritable=True).close()
        held = place.folder / "run" / "state.db"
        place.messages.clear()
    with closing(sqlite3.connect(str(held), isolation_level=None)) as other:
        for statement in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", f"user_version = {VERSION}"):
            other.execute(f"PRAGMA {statement}")
        with closing(Store(open_snapshot(*place.folders, place.messages.append))) as state:
            assert len(state.all_events()) == 5
        assert place.messages == [f"{held} may be read without its newest changes, because another program holds it."]


@pytest.mark.matrix
def test_p8_a_move_to_the_fallback_or_home_does_not_wait_for_whoever_holds_the_state(of_five, tmp_path):
    place = Place(tmp_path / "place", of_five)
    with closing(sqlite3.connect(str(place.path), isolation_level=None)) as other:
        for statement in ("locking_mode = EXCLUSIVE", f"user_version = {VERSION}"):
            other.execute(f"PRAGMA {statement}")
        with closing(Store(open_database(*place.folders, place.messages.append, unwritable=True))) as state:
            assert len(state.all_events()) == 5
        return_home(*place.folders, place.messages.append)
        assert not (place.folder / "run" / "state.db").exists()
    assert [str(place.path) in message for message in place.messages] == [True] * 3
    with closing(place.open()) as state:
        assert len(state.all_events()) == 5


def test_p6_what_only_the_log_of_a_state_has_is_read_where_the_log_cannot_be_shared(crashed, tmp_path):
    place = Place(tmp_path / "place", crashed)
    # A stand-in for a read-only disk, where the index of the log cannot be made
    Path(f"{place.path}-shm").symlink_to("state.db-shm")
    for has_fallback_folder in (False, True):
        assert len(look(place)) == EVENTS
        if not has_fallback_folder:
            os.mkdir(place.folders[1])
    assert os.listdir(place.folders[1]) == []
    with closing(Store(open_database(*place.folders, place.messages.append))) as state:
        assert len(state.all_events()) == EVENTS
        assert sorted(os.listdir(place.folders[1])) == ["state.db", "state.db-shm", "state.db-wal"]
    assert len(place.messages) == 1


def test_a_log_that_cannot_be_copied_is_told(crashed, tmp_path):
    place = Place(tmp_path / "place", crashed)
    Path(f"{place.path}-shm").symlink_to("state.db-shm")
    Path(f"{place.path}-wal").unlink()
    Path(f"{place.path}-wal").mkdir()
    open_snapshot(*place.folders, place.messages.append).close()
    (message,) = place.messages
    assert message.startswith(f"{place.path} cannot be read ([Errno {errno.EISDIR}]")


# Takes the log away with it if it believes that nobody else has the file open
LAST_ONE_OUT = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT COUNT(*) FROM event").fetchone()
connection.close()
"""


@pytest.mark.one_python
def test_a_file_truncated_at_any_byte(original, tmp_path):
    content, known = (original / "state.db").read_bytes(), dump(original)
    for at in offsets(len(content), 1021):
        place = Place(tmp_path / str(at), original)
        place.path.write_bytes(content[:at])
        assert not judge(place, {"": content[:at]}, known)
        shutil.rmtree(place.folder)


def test_a_write_ahead_log_truncated_at_any_byte(crashed, tmp_path):
    log = (crashed / "state.db-wal").read_bytes()
    counts = []
    frame = 24 + PAGE
    frames = range(32, len(log) - frame, 9 * frame)
    for at in sorted({0, 31, *(start + near for start in frames for near in (0, 23, 24, 2000, frame - 1)), len(log)}):
        place = Place(tmp_path / str(at), crashed)
        Path(f"{place.path}-wal").write_bytes(log[:at])
        with closing(place.open()) as state:
            # A transaction that was cut off never was, and all before it are there.
            assert [one.event.event_id for one in state.all_events()] == [
                f"E{number}" for number in range(len(state.all_events()))
            ]
            counts.append(len(state.all_events()))
        assert place.messages == []
        shutil.rmtree(place.folder)
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, EVENTS)


@pytest.mark.one_python
def test_a_file_truncated_at_any_byte_below_its_write_ahead_log(crashed, tmp_path):
    content = (crashed / "state.db").read_bytes()
    place = Place(tmp_path / "whole", crashed)
    with closing(place.open()):
        known = dump(place.folder)
    for at in offsets(len(content), 1021):
        place = Place(tmp_path / str(at), crashed)
        place.path.write_bytes(content[:at])
        judge(place, {"": content[:at]} if at == 0 else {}, known)
        shutil.rmtree(place.folder)


@pytest.mark.one_python
@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_any_byte_of_the_header_flipped(original, tmp_path, mask):
    content, known = (original / "state.db").read_bytes(), dump(original)
    for at in range(100):
        place = Place(tmp_path / str(at), original)
        damaged = bytearray(content)
        damaged[at] ^= mask
        place.path.write_bytes(damaged)
        judge(place, {}, known)
        shutil.rmtree(place.folder)


@pytest.mark.parametrize("index", ["sqlite_autoindex_fact_1", "sqlite_autoindex_response_1", "open_event"])
def test_p7_one_damaged_byte_of_an_index_is_found(of_five, tmp_path, index):
    content = (of_five / "state.db").read_bytes()
    with closing(sqlite3.connect(str(of_five / "state.db"))) as connection:
        page = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (index,)).fetchone()[0]
    start, end = (page - 1) * PAGE, page * PAGE
    first_cell = start + int.from_bytes(content[start + 8 : start + 10], "big")
    for at in (start, start + 3, start + 4, start + 8, first_cell, first_cell + 2, end - 1):
        place = Place(tmp_path / str(at), of_five)
        damaged = bytearray(content)
        damaged[at] ^= 0x01
        place.path.write_bytes(damaged)
        told = []
        with closing(Store(open_snapshot(*place.folders, told.append))) as state:
            assert report(state, NOW, state.all_events())["events"] == []
        assert not judge(place, {"": bytes(damaged)}, None)
        assert len(told) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 8192,
        b"SQLite format 3\0",
        b"not a database\n" * 400,
        random.Random(1).getrandbits(65536).to_bytes(8192, "big"),
    ],
    ids=["empty", "zeros", "only the magic", "text", "noise"],
)
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_garbage(original, tmp_path, content, suffix):
    place = Place(tmp_path / "place", original)
    known = dump(original)
    Path(f"{place.path}{suffix}").write_bytes(content)
    intact = judge(place, {suffix: content} if not suffix else {}, known)
    # A log that is none, beside a file that is sound, costs nothing.
    assert intact is bool(suffix)


@pytest.mark.parametrize("version", [1, 99])
def test_p7_a_state_of_another_version_is_put_aside_and_said(original, tmp_path, version):
    place = Place(tmp_path / "place", original)
    with closing(sqlite3.connect(str(place.path))) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    assert not judge(place, {}, None)
    assert f"it has version {version}, and this program reads version {VERSION}" in place.messages[0]
    with closing(sqlite3.connect(str(files_put_aside(place)[0]))) as connection:
        assert connection.execute("SELECT COUNT(*) FROM event").fetchone() == (EVENTS,)


def test_a_second_damage_does_not_overwrite_what_was_put_aside(original, tmp_path):
    place = Place(tmp_path / "place", original)
    for content in (b"one", b"two"):
        place.path.write_bytes(content)
        place.open().close()
    aside = [path.read_bytes() for path in place.folder.iterdir() if ".damaged-" in path.name]
    assert sorted(aside) == [b"one", b"two"]


@pytest.mark.one_python
def test_a_kill_while_the_file_is_made(tmp_path):
    (tmp_path / "nothing").mkdir()

    def check(place):
        assert not place.path.exists() or place.path.stat().st_size > PAGE
        with closing(place.open()) as state:
            use(state)
        assert place.messages == []

    assert kill_everywhere(tmp_path, tmp_path / "nothing", Place.open, check) > 20


@pytest.mark.one_python
def test_p7_a_kill_while_a_damaged_file_is_put_aside(original, tmp_path):
    def put_aside(place):
        open_database(*place.folders, place.messages.append, damaged=True).close()

    def check(place):
        with closing(place.open()) as state:
            # As it was before, or new, with the old one beside it
            assert (len(state.all_events()), len(files_put_aside(place))) in ((EVENTS, 0), (0, 1))
            use(state)

    assert kill_everywhere(tmp_path, original, put_aside, check) > 20


def test_p6_the_numbers_of_a_new_file_are_none_that_a_response_has_had_in_this_boot(original, tmp_path):
    place = Place(tmp_path / "place", original)
    os.mkdir(place.folder / "run")
    for name in ("respond-17.lock", "respond-9.lock", "check.lock", "respond-x.lock"):
        (place.folder / "run" / name).touch()
    place.path.write_bytes(b"garbage")
    with closing(place.open()) as state:
        use(state)
        assert [response.number for response in state.all_responses()] == [18]


@pytest.mark.one_python
def test_a_kill_while_the_state_moves_to_the_fallback(original, tmp_path):
    def move(place):
        return open_database(*place.folders, place.messages.append, unwritable=True)

    def check(place):
        with closing(Store(move(place))) as state:
            assert len(state.all_events()) == EVENTS
        assert not any("put aside" in message for message in place.messages), place.messages

    assert kill_everywhere(tmp_path, original, move, check) > 10


@pytest.mark.one_python
@pytest.mark.parametrize("is_read", [False, True])
def test_a_kill_while_the_state_moves_home(original, tmp_path, is_read):
    source = Place(tmp_path / "source", original)
    fallback = open_database(*source.folders, lambda message: None, unwritable=True)
    with closing(Store(fallback)) as state:
        use(state)

    def home(place):
        return_home(*place.folders, place.messages.append)

    def home_beside_a_reader(place):
        # As long as somebody has it open, its log stays, with all that was written last.
        with closing(sqlite3.connect(str(place.folder / "run" / "state.db"), isolation_level=None)) as reader:
            reader.execute("INSERT INTO put_aside VALUES ('the latest', '', 0)")
            home(place)

    def check(place):
        is_latest = "the latest" in str(dump(place.folder))
        if not (place.folder / "run" / "state.db").exists():
            # The disk fails again.
            open_database(*place.folders, place.messages.append, unwritable=True).close()
            assert len(look(place)) == EVENTS + 1
        home(place)
        assert "the latest" in str(dump(place.folder)) or not is_latest
        assert not (place.folder / "run" / "state.db").exists()
        with closing(place.open()) as state:
            assert len(state.all_events()) == EVENTS + 1
        assert not any("put aside" in message for message in place.messages), place.messages

    assert kill_everywhere(tmp_path, source.folder, home_beside_a_reader if is_read else home, check) > 10
