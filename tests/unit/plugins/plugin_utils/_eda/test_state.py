# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state file of the event source: what can be read of it, and what becomes of one that cannot be read."""

from __future__ import annotations

import logging
import os
import re

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.parser import parse_document
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._eda import state as eda_state
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._eda.state import Seen, State, StateFile

EVENT = {"EventId": "A1", "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["web-1"], "NotBefore": ""}


def make_state(*changes):
    """What is remembered of events that Azure sends so, each given by how it differs from the usual one."""
    events = parse_document({"Events": [{**EVENT, **each} for each in changes]}, "2020-07-01").events
    return State({event.key: Seen(event, "boot-1/22") for event in events}, "boot-1/22")


@pytest.fixture
def small(monkeypatch):
    """As if 600 bytes were the most that is read of the file."""
    monkeypatch.setattr(eda_state, "_LARGEST_FILE", 600)


def test_p9_a_state_file_that_is_too_large_is_put_aside(small, tmp_path, caplog):
    path = tmp_path / "state.json"
    StateFile(str(path)).write(make_state({}, {"EventId": "B2"}))
    written = path.read_bytes()
    assert len(written) > 600
    with caplog.at_level(logging.WARNING):
        assert StateFile(str(path)).read() == State()
    (aside,) = tmp_path.glob("*.damaged-*")
    assert re.fullmatch(r"state\.json\.damaged-[0-9a-f]{16}", aside.name)
    assert aside.read_bytes() == written
    assert caplog.messages == [
        f"state_file {path} is too large. It was renamed to {aside.name}, and no earlier event is remembered."
    ]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(bytes(700), id="zeros"),
        pytest.param(b'{"log": "' + b"x" * 700 + b'"}', id="JSON"),
        pytest.param(b'{"Events": ["' + b"x" * 700 + b'"]}', id="events of another program"),
        pytest.param(b"x" * 700, id="text"),
    ],
)
def test_p9_a_large_file_of_another_program_stays_where_it_is(small, tmp_path, content):
    path = tmp_path / "daemon.json"
    path.write_bytes(content)
    said = re.escape(f"state_file {path} was not written by this source. Name another one.")
    with pytest.raises(ValueError, match=f"^{said}$"):
        StateFile(str(path)).read()
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("daemon.json", content)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 99_997, id="as many brackets as an answer may have"),
        pytest.param("{" * 500_000, id="more than it may have"),
        pytest.param('"\\\x01\x7f', id="what JSON escapes"),
        pytest.param("\N{WINE GLASS}\ufffd", id="not ASCII"),
    ],
)
def test_p4_an_event_is_remembered_whatever_its_texts_are(tmp_path, caplog, text):
    path = str(tmp_path / "state.json")
    state = make_state({"Description": text})
    StateFile(path).write(state)
    with caplog.at_level(logging.WARNING):
        assert StateFile(path).read() == state
    assert caplog.messages == []


def test_p7_a_wrong_byte_in_a_text_costs_no_event_and_leaves_what_can_be_written(tmp_path, caplog):
    """Half a surrogate pair, a byte that is not UTF-8, and a control character."""
    path = tmp_path / "state.json"
    StateFile(str(path)).write(make_state({"Description": "\N{WINE GLASS} ab"}))
    written = path.read_bytes()
    for right, wrong in ((rb"\udf77", rb"?udf77"), (b" a", b" \xff"), (b"b", b"\x01")):
        assert right in written
        path.write_bytes(written.replace(right, wrong))
        (seen,) = StateFile(str(path)).read().seen.values()
        assert seen.event.event_id == "A1"
        seen.event.description.encode("utf-8")
    assert caplog.messages == []


LEFT = "state.json.0123456789abcdef.new"


@pytest.mark.parametrize("exists", [True, False])
def test_p9_what_a_source_left_that_was_killed_while_it_wrote_is_removed_at_the_next_start(tmp_path, exists):
    path = tmp_path / "state.json"
    if exists:
        StateFile(str(path)).write(make_state({}))
    for number in range(3):
        (tmp_path / f"state.json.{number:016x}.new").write_text('{"Events": [')
    assert len(StateFile(str(path)).read().seen) == exists
    assert sorted(each.name for each in tmp_path.iterdir()) == [*["state.json"] * exists, "state.json.lock"]


def test_p11_nothing_else_in_the_folder_is_removed(tmp_path):
    others = [
        "other.json.0123456789abcdef.new",
        "state_json.0123456789abcdef.new",
        "state.json.0123456789ABCDEF.new",
        "state.json.0123456789abcde.new",
        "state.json.0123456789abcdef0.new",
        "state.json.0123456789abcdef.new\n",
        "state.json.0123456789abcdef.new.bak",
        "state.json.damaged-0123456789abcdef",
        "state.json.lock",
        "state.json.new",
        "xstate.json.0123456789abcdef.new",
    ]
    for name in others:
        (tmp_path / name).write_text("")
    (tmp_path / LEFT).symlink_to("other.json.0123456789abcdef.new")
    (tmp_path / LEFT.replace("0", "1")).mkdir()
    os.mkfifo(tmp_path / LEFT.replace("0", "2"))
    before = sorted(each.name for each in tmp_path.iterdir())
    assert len(before) == len(others) + 3
    assert StateFile(str(tmp_path / "state.json")).read() == State()
    assert sorted(each.name for each in tmp_path.iterdir()) == before


def test_p11_beside_a_file_of_another_program_nothing_is_removed(tmp_path):
    path = tmp_path / "state.json"
    path.write_text('{"log-driver": "journald"}')
    (tmp_path / LEFT).write_text("")
    with pytest.raises(ValueError, match="was not written by this source"):
        StateFile(str(path)).read()
    assert (tmp_path / LEFT).exists()
