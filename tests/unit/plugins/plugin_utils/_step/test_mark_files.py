# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands that write and remove marks, by a real shell."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks as vm_marks
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._step.mark_files import (
    remove_marks,
    update_mark,
    why_not_removable,
    write_mark,
)

VM = "02aab8a4-74ef-476e-8182-f6d2ba4166a6"
OTHER_VM = "5f3c9a10-0000-4000-8000-00000000000b"
MARK = vm_marks.new_mark(
    vm_marks.RUN, {"event_id": "C7061BAC'; reboot", "event_type": "Re'boot $(x)"}, "2026-11-21T17:32:00Z", vm_id=VM
)


class Action:
    """As an action plugin, for this machine; a user of the number that ``id`` tells, whose home ``getent`` tells."""

    def __init__(self, folder, user_id=None, home=None, **environment):
        self._environment = {**os.environ, **environment}
        self._environment.pop("XDG_RUNTIME_DIR", None)
        self.has_terminal = False
        # Another one than that of the test
        self.user = None
        if user_id is not None:
            entry = f'[ "$*" = "passwd {user_id}" ] && echo "anna:x:{user_id}:{user_id}:Anna,,,:{home}:/bin/sh"'
            (folder / "bin").mkdir()
            for name, script in (("id", f"echo {user_id}"), ("getent", entry if home else "exit 2")):
                (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
                (folder / "bin" / name).chmod(0o755)
            self._environment["PATH"] = f"{folder}/bin:{os.environ['PATH']}"

    def _compute_environment_string(self):
        return ""

    def _low_level_execute_command(self, command):
        errors = subprocess.STDOUT if self.has_terminal else subprocess.PIPE
        given = {"stdout": subprocess.PIPE, "stderr": errors, "text": True, "timeout": 60, "user": self.user}
        ended = subprocess.run(command, shell=True, env=self._environment, check=False, **given)
        return {"rc": ended.returncode, "stdout": ended.stdout, "stderr": ended.stderr or ""}


@pytest.fixture
def marks(tmp_path, monkeypatch):
    place = tmp_path / "the marks"
    monkeypatch.setenv(vm_marks.ENVIRONMENT, str(place))
    return place


def test_a_mark_is_written_read_replaced_and_removed(marks, tmp_path):
    action = Action(tmp_path)
    assert write_mark(action, MARK) == (None, {})
    assert update_mark(action, {**MARK, "state": "prepared"}) == (None, True)
    (mark,), faults = vm_marks.select_marks(vm_marks.read_marks(), VM)
    assert faults == []
    assert {word: mark[word] for word in vm_marks.WORDS} == {
        **{word: MARK[word] for word in vm_marks.WORDS},
        "state": "prepared",
    }
    (path,) = marks.iterdir()
    assert path.stat().st_mode & 0o777 == 0o644
    assert remove_marks(action, MARK, only_own=False) is None
    assert list(marks.iterdir()) == []
    assert remove_marks(action, MARK, only_own=False) is None
    # Somebody else has put the VM back.
    assert update_mark(action, MARK) == (None, False)
    assert len(list(marks.iterdir())) == 1


def test_p16_a_mark_is_on_the_disk_before_its_event_can_be_approved(marks, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sync").write_text(
        f'#!/bin/sh\nfor each do [ -s "$each" ] && echo "$each"; done >{tmp_path}/synced\n'
    )
    (tmp_path / "bin" / "sync").chmod(0o755)
    assert write_mark(Action(tmp_path, PATH=f"{tmp_path}/bin:{os.environ['PATH']}"), MARK) == (None, {})
    (path,) = marks.iterdir()
    assert (tmp_path / "synced").read_text().splitlines() == [str(path), str(marks)]


def test_p3_who_writes_a_mark_sees_those_of_others_on_this_vm(marks, tmp_path):
    action = Action(tmp_path)
    about = {"event_type": "Reboot"}
    others = {
        "A1": vm_marks.new_mark(vm_marks.RUN, {**about, "event_id": "A1"}, "", vm_id=VM),
        "A2": {**vm_marks.new_mark(vm_marks.CHECKER, {**about, "event_id": "A2"}, "", vm_id=VM), "state": "restoring"},
        "A3": {
            **vm_marks.new_mark(vm_marks.RUN, {**about, "event_id": "A3"}, "", vm_id=OTHER_VM),
            "state": "restoring",
        },
    }
    for mark in others.values():
        assert write_mark(action, mark).why is None
    assert write_mark(action, {**others["A1"], "run": "0a1b"}).why is None
    (marks / f"a4.{VM}.run.mark.json").write_text("no mark")
    (marks / f"a5.{VM}.run.mark.json").mkdir()
    own = {**MARK, "state": "restoring"}
    runs = dict.fromkeys([f"a1.{VM}.run.mark.json", f"a1.{VM}.run-0a1b.mark.json"], "preparing")
    expected = {**runs, f"a2.{VM}.checker.mark.json": "restoring", f"a4.{VM}.run.mark.json": ""}
    assert write_mark(action, own) == (None, expected)
    assert remove_marks(action, {**others["A1"], "run": "0a1b"}, only_own=True) is None
    assert len(list(marks.glob("a1.*"))) == 1
    assert remove_marks(action, {**others["A1"], "run": "0a1b"}, only_own=False) is None
    assert len(list(marks.glob("a1.*"))) == 0
    assert len(list(marks.glob("a2.*"))) == 1


@pytest.mark.parametrize(
    ("own", "others"),
    [
        # A run or a checker for which resource_name is set does not ask for the id of its VM.
        pytest.param(VM, {None: True, VM: True, OTHER_VM: False}, id="the id is known"),
        pytest.param(None, {None: True, VM: True, OTHER_VM: True}, id="the id is not known"),
    ],
)
def test_p3_a_mark_that_does_not_name_its_vm_is_one_of_this_vm(marks, tmp_path, own, others):
    action = Action(tmp_path)
    about = {"event_id": "A1", "event_type": "Reboot"}
    of_others = {}
    for vm_id, counts in others.items():
        for by, run in ((vm_marks.RUN, "0a"), (vm_marks.CHECKER, None)):
            mark = vm_marks.new_mark(by, about, "2026-11-21T17:32:00Z", run=run, vm_id=vm_id)
            assert write_mark(action, mark).why is None
            of_others.update({vm_marks.file_name(mark): "preparing"} if counts else {})
    mark = {**MARK, **about, "run": "0b", "vm_id": own}
    assert write_mark(action, mark) == (None, of_others)
    assert remove_marks(action, mark, only_own=False) is None
    left = {each["by"] for each in vm_marks.select_marks(vm_marks.read_marks(), own)[0]}
    assert left == {vm_marks.CHECKER}


def test_p3_the_mark_of_another_run_that_restores_at_this_moment_stays(marks, tmp_path):
    action = Action(tmp_path)
    states = {"0a": "restoring", "0b": "restoring", "0c": "prepared", "0d": "preparing", "0e": "restoring"}
    each = {run: {**MARK, "run": run, "state": state} for run, state in states.items()}
    for mark in each.values():
        assert write_mark(action, mark).why is None
    waited_out = [vm_marks.file_name(each["0e"]), "'; touch x; '.mark.json"]
    assert remove_marks(action, each["0a"], only_own=False, waited_out=waited_out) is None
    assert [path.name for path in marks.iterdir()] == [vm_marks.file_name(each["0b"])]


def test_where_no_mark_can_be_written_it_is_said_why(marks, tmp_path):
    marks.write_text("no folder")
    why, _others = write_mark(Action(tmp_path), MARK)
    assert "File exists" in why or "Not a directory" in why


def test_a_mark_that_cannot_be_removed_is_said(marks, tmp_path):
    action = Action(tmp_path)
    (marks / vm_marks.file_name(MARK)).mkdir(parents=True)
    assert "director" in remove_marks(action, MARK, only_own=False)


def test_p2_which_mark_a_user_cannot_remove_is_known_before_the_vm_is_restored(tmp_path_factory):
    action = Action(tmp_path_factory.mktemp("programs"))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "marks")
        action._environment[vm_marks.ENVIRONMENT] = str(place)
        assert write_mark(action, {**MARK, "run": "of another user"}).why is None
        (path,) = place.iterdir()
        assert why_not_removable(action, MARK) is None
        for each, mode in ((Path(folder), 0o755), (place, 0o555)):
            each.chmod(mode)
        # Root may write everywhere.
        action.user = 65534 if os.getuid() == 0 else None
        assert f"this user cannot remove {path}. So a run" in why_not_removable(action, MARK)
        assert why_not_removable(action, {**MARK, "event_id": "B2"}) is None
        place.chmod(0o755)


@pytest.mark.parametrize("home", ["home", None], ids=["in the user database", "not there"])
def test_a_user_who_is_not_root_has_marks_at_home(tmp_path, home):
    """P16: ``environment`` of a play may set HOME, and the next run has another play."""
    given = {"home": tmp_path / "home", "HOME": str(tmp_path / "other")} if home else {"HOME": str(tmp_path / "home")}
    action = Action(tmp_path, user_id=1000, **given)
    assert write_mark(action, MARK) == (None, {})
    (path,) = (tmp_path / "home/.local/state/azure-maintenance/marks").iterdir()
    assert path.name == vm_marks.file_name(MARK)
    assert remove_marks(action, MARK, only_own=False) is None
    assert not path.exists()


@pytest.mark.parametrize("has_terminal", [False, True])
def test_where_the_disk_takes_none_the_mark_is_in_memory(tmp_path, has_terminal):
    """As the state of the checker; a home that is a file takes no folder. Over ssh there is a terminal without
    pipelining, and its complaints are no marks of others (P3)."""
    (tmp_path / "home").write_text("")
    session = {"HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path / "session")}
    action = Action(tmp_path, user_id=1000)
    action._environment.update(session)
    action.has_terminal = has_terminal
    assert write_mark(action, MARK) == (None, {})
    assert len(list((tmp_path / "session/azure-maintenance/marks").iterdir())) == 1
    assert remove_marks(action, MARK, only_own=False) is None
    assert list((tmp_path / "session/azure-maintenance/marks").iterdir()) == []
