# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import pwd
from functools import partial
from types import SimpleNamespace

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks as vm_marks

VM = "02aab8a4-74ef-476e-8182-f6d2ba4166a6"
EVENT = {"event_id": "C7061BAC-AFDC-4513-B24B-AA5F13A16123", "event_type": "Reboot"}
SINCE = "2026-11-21T17:32:00Z"


def make_mark(**more):
    told = {"controller": "control", "user": "anna", "run": "3f0c", "boot_id": "boot-1", "vm_id": VM, **more}
    return vm_marks.new_mark(vm_marks.RUN, EVENT, SINCE, **told)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder of the marks, with one mark of this VM."""
    monkeypatch.setenv(vm_marks.ENVIRONMENT, str(tmp_path))
    (tmp_path / vm_marks.file_name(make_mark())).write_bytes(vm_marks.encode(make_mark()))
    return tmp_path


def test_a_mark_says_who_prepared_this_vm_for_which_event(place):
    (mark,), faults = vm_marks.select_marks(vm_marks.read_marks(), VM)
    assert faults == []
    told = {
        name: mark[name] for name in ("event_id", "event_type", "by", "controller", "user", "job", "since", "state")
    }
    assert told == {
        **EVENT,
        "by": "run",
        "controller": "control",
        "user": "anna",
        "job": None,
        "since": SINCE,
        "state": "preparing",
    }
    assert (mark["counts"], mark["fault"]) == (True, None)
    assert vm_marks.tell_mark(mark) == f"since {SINCE} for Reboot C7061BAC by a run of anna on control"
    assert vm_marks.tell_author({**mark, "job": "812"}) == "AWX job 812 of anna on control"
    assert vm_marks.tell_author({**mark, "by": "checker"}) == "its checker"


def test_the_marks_of_a_disk_that_was_copied_to_another_vm_count_for_nothing(place):
    assert vm_marks.select_marks(vm_marks.read_marks(), "11111111-74ef-476e-8182-f6d2ba4166a6") == ([], [])
    assert len(vm_marks.select_marks(vm_marks.read_marks(), VM.upper())[0]) == 1
    assert len(vm_marks.select_marks(vm_marks.read_marks(), None)[0]) == 1


@pytest.mark.parametrize("mounted", ["ext4", "nfs4"])
def test_p16_root_is_told_of_the_marks_of_other_users_but_asks_no_network(tmp_path, monkeypatch, mounted):
    folder = tmp_path / "home/anna" / vm_marks.OF_USER[0]
    folder.mkdir(parents=True)
    path = folder / vm_marks.file_name(make_mark())
    path.write_bytes(vm_marks.encode(make_mark()))
    if os.getuid() == 0:
        os.chown(path, 4711, 4711)
    (tmp_path / "mounts").write_text(f"server:/anna {tmp_path}/home/anna {mounted} rw 0 0\n")
    places = [str(tmp_path / name) for name in ("home", "run", "mounts")]
    monkeypatch.delenv(vm_marks.ENVIRONMENT, raising=False)
    monkeypatch.setattr(vm_marks, "_folders_of_users", partial(vm_marks._folders_of_users, *places))
    monkeypatch.setattr(os, "getuid", lambda: 0)
    found, faults = vm_marks.select_marks(vm_marks.read_marks(), VM)
    assert [(mark["file"], mark["counts"]) for mark in found] == ([(str(path), False)] if mounted == "ext4" else [])
    assert all("Another user wrote it (uid " in fault for fault in faults)
    assert len(faults) == len(found)
    monkeypatch.setattr(os, "getuid", lambda: 4712)
    assert vm_marks.select_marks(vm_marks.read_marks(), VM) == ([], [])


def test_each_event_vm_and_kind_of_program_has_a_file_of_its_own():
    mark = make_mark()
    others = [{**mark, "event_id": "x"}, {**mark, "vm_id": None}, {**mark, "by": "checker"}]
    assert len({vm_marks.file_name(each) for each in [mark, *others]}) == 4
    assert vm_marks.file_name({**mark, "event_id": EVENT["event_id"].lower()}) == vm_marks.file_name(mark)


@pytest.mark.parametrize("event_id", ["../../etc/passwd", "a b", "$(reboot)", "x" * 65, "é", "\ud800", ""])
def test_an_id_that_could_be_a_path_or_a_command_is_no_part_of_a_name(event_id):
    name = vm_marks.file_name({**make_mark(), "event_id": event_id, "vm_id": "../x; reboot"})
    assert name.replace(".vm.run-3f0c.mark.json", "").isalnum()
    assert name.isascii()


def test_what_could_not_be_found_again_is_not_written():
    with pytest.raises(ValueError, match="more than 200 characters"):
        vm_marks.encode({**make_mark(), "event_id": "x" * 201})
    assert len(json.loads(vm_marks.encode(make_mark(user="x" * 1000)))["user"]) == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 10000,
        json.dumps({**make_mark(), "version": 2}).encode(),
        json.dumps({**make_mark(), "by": "somebody"}).encode(),
        json.dumps({**make_mark(), "event_id": None}).encode(),
        json.dumps({**make_mark(), "user": 7}).encode(),
        json.dumps({**make_mark(), "user": "x" * 300}).encode(),
        json.dumps({**make_mark(), "more": "x" * 20000}).encode(),
    ],
)
def test_a_mark_that_cannot_be_read_or_is_of_a_version_to_come_is_named_and_counts_for_nothing(place, content):
    (place / "odd.mark.json").write_bytes(content)
    marks, (fault,) = vm_marks.select_marks(vm_marks.read_marks(), VM)
    assert [mark["counts"] for mark in sorted(marks, key=lambda mark: mark["counts"])] == [False, True]
    assert fault.startswith(f"{place}/odd.mark.json: ")
    assert "may be out of service" in fault


def test_p11_a_pipe_a_link_or_a_folder_in_the_place_of_a_mark_stops_nobody(place):
    os.mkfifo(place / "pipe.mark.json")
    (place / "link.mark.json").symlink_to("/etc/passwd")
    (place / "folder.mark.json").mkdir()
    (place / ".new.1234").write_text("a mark that is being written")
    marks, faults = vm_marks.select_marks(vm_marks.read_marks(), VM)
    assert sorted(mark["counts"] for mark in marks) == [False, False, False, True]
    assert len(faults) == 3


def test_a_mark_of_another_user_is_told_and_counts_for_nothing(place, monkeypatch):
    owner = os.getuid() or 4711
    if os.getuid() == 0:
        os.chown(next(place.iterdir()), owner, owner)
    else:
        # Only root can give a file away.
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    (mark,), (fault,) = vm_marks.select_marks(vm_marks.read_marks(), VM)
    assert not mark["counts"]
    assert f"Another user wrote it (uid {owner})" in fault


def test_no_folder_is_no_mark(tmp_path, monkeypatch):
    monkeypatch.setenv(vm_marks.ENVIRONMENT, str(tmp_path / "nowhere"))
    assert vm_marks.select_marks(vm_marks.read_marks(), VM) == ([], [])


def test_root_and_others_have_places_of_their_own(monkeypatch):
    assert vm_marks.folders({}, 0) == ["/var/lib/azure-maintenance-marks", "/run/azure-maintenance-marks"]
    assert vm_marks.folders({"HOME": "/home/other"}, 1000)[1] == "/run/user/1000/azure-maintenance/marks"


@pytest.mark.parametrize(
    ("entry", "home"),
    [
        pytest.param("/home/anna", "/home/anna", id="its own"),
        pytest.param("", "/home/other", id="without a home"),
        pytest.param(None, "/home/other", id="not in the user database"),
    ],
)
def test_p16_the_home_of_the_user_database_counts_and_not_home_that_a_play_may_set(monkeypatch, entry, home):
    users = {} if entry is None else {1000: SimpleNamespace(pw_dir=entry)}
    monkeypatch.setattr(pwd, "getpwuid", users.__getitem__)
    assert vm_marks.folders({"HOME": "/home/other"}, 1000)[0] == f"{home}/.local/state/azure-maintenance/marks"
