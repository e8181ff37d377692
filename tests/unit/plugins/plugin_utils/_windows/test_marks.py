# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The marks on a Windows VM, which is a stand-in: see tests/end_to_end/windows_machine.py."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._windows import marks as windows_marks
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._windows.marks import (
    find_folder,
    remove_mark,
    update_mark,
    write_mark,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._windows.transport import WindowsHostError
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows_machine

VM = "02aab8a4-74ef-476e-8182-f6d2ba4166a6"
MARK = marks.new_mark(
    marks.RUN, {"event_id": "C7061BAC'; $(x)", "event_type": "Re'boot\n{{ 1 }}"}, "2026-11-21T17:32:00Z", vm_id=VM
)
FOLDER = "C:\\ProgramData\\azure-maintenance\\marks"
PATH = f"{FOLDER}\\{marks.file_name(MARK)}"
FAILED = {"failed": True, "changed": False, "msg": "Zugriff\x1b verweigert"}


class Machine:
    """A Windows VM, some modules of which answer as they are told."""

    def __init__(self, path, answers=None):
        self.path = path
        self.answers = answers or {}
        self.asked = []
        self.keep({})

    def keep(self, files):
        folders = [folder for path in files for folder in windows_machine.parents(path)]
        self.path.write_text(json.dumps({"files": files, "folders": folders}))

    @property
    def files(self):
        return json.loads(self.path.read_text())["files"]

    def run(self, module, options):
        self.asked.append(module.rpartition(".")[2])
        assert set(options) <= windows_machine.OPTIONS[module]
        if module in self.answers:
            return self.answers[module]
        return windows_machine.run(self.path, module, options, False, {})

    def run_action(self, module, options):
        assert module == "ansible.windows.win_copy"
        self.asked.append("win_copy")
        if module in self.answers:
            return self.answers[module]
        single = {"_copy_mode": "single", "dest": options["dest"], "src": "C:\\x", "_original_basename": "tmp1"}
        return windows_machine.run(self.path, module, single, False, {"C:\\x": options["content"]})


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "machine")


def read_marks(run, vm_id):
    return windows_marks.read_marks(run, find_folder(run), vm_id)


def test_a_mark_is_written_read_replaced_and_removed(machine):
    assert read_marks(machine.run, VM) == ([], [])
    # No folder is one question.
    assert machine.asked == ["win_stat"]
    assert write_mark(machine.run, machine.run_action, {**MARK, "run": "an earlier one"}, None) == (None, {})
    assert write_mark(machine.run, machine.run_action, MARK, FOLDER) == (None, {})
    assert list(machine.files) == [PATH]
    (mark,), faults = read_marks(machine.run, VM)
    assert faults == []
    assert mark == {**{word: MARK[word] for word in marks.WORDS}, "file": PATH, "counts": True, "fault": None}
    assert read_marks(machine.run, VM.replace("02", "03")) == ([], [])
    assert remove_mark(machine.run, MARK) is None
    assert machine.files == {}
    assert remove_mark(machine.run, MARK) is None


@pytest.mark.parametrize(
    ("folder", "asked"),
    [(None, ["win_file", "win_copy", "win_stat", "win_find"]), (FOLDER, ["win_copy", "win_find"])],
    ids=["the first one", "another"],
)
def test_p3_to_write_a_mark_and_see_the_others_takes_two_modules_but_for_the_first_on_a_vm(machine, folder, asked):
    if folder:
        machine.keep({f"{FOLDER}\\x": ""})
    assert write_mark(machine.run, machine.run_action, MARK, folder) == (None, {})
    assert machine.asked == asked


def test_p3_the_marks_of_others_are_seen_when_a_mark_is_written(machine):
    own, event = {**MARK, "run": "1"}, {"event_id": "a1", "event_type": "Freeze"}

    def other(run, state, **more):
        told = marks.new_mark(marks.RUN, event, "2026-11-21T17:32:00Z", vm_id=VM, run=run)
        return {**told, "state": state, **more}

    written = {
        marks.file_name(mark): marks.encode(mark).decode()
        for mark in [
            other("2", marks.RESTORING),
            other("1", marks.PREPARED),
            other("4", marks.PREPARED, vm_id=VM.replace("0", "1")),
        ]
    }
    # It is written at this moment.
    half = marks.file_name(other("3", ""))
    machine.keep({f"{FOLDER}\\{name}": content for name, content in {**written, half: '{"version": 1'}.items()})
    why, others = write_mark(machine.run, machine.run_action, own, FOLDER)
    assert why is None
    assert others == {marks.file_name(other("2", "")): "restoring", half: ""}
    # None but those of others is read.
    assert machine.asked == ["win_copy", "win_find", "slurp", "slurp"]
    # Where a disk is full, a VM is put back all the same, but not beside others.
    machine.answers["ansible.windows.win_copy"] = {"changed": True}
    why, then = write_mark(machine.run, machine.run_action, {**own, "event_id": "b2"}, FOLDER)
    assert "does not have the content that was written" in why
    assert then == others


@pytest.mark.parametrize(("own", "seen"), [(VM, [None, VM]), (None, [None, VM, VM.replace("0", "1")])])
def test_p3_a_mark_that_does_not_name_its_vm_is_one_of_this_vm(machine, own, seen):
    each = {
        vm_id: marks.new_mark(marks.RUN, {"event_id": "a1", "event_type": "Freeze"}, "", vm_id=vm_id, run="2")
        for vm_id in (None, VM, VM.replace("0", "1"))
    }
    machine.keep({f"{FOLDER}\\{marks.file_name(mark)}": marks.encode(mark).decode() for mark in each.values()})
    told = write_mark(machine.run, machine.run_action, {**MARK, "run": "1", "vm_id": own}, FOLDER)
    assert told == (None, {marks.file_name(each[vm_id]): "preparing" for vm_id in seen})


def test_how_far_a_run_is_takes_two_modules_and_tells_whether_somebody_has_put_the_vm_back(machine):
    assert write_mark(machine.run, machine.run_action, MARK, None) == (None, {})
    machine.asked.clear()
    assert update_mark(machine.run, machine.run_action, {**MARK, "state": marks.FAILED}) == (None, True)
    assert machine.asked == ["win_stat", "win_copy"]
    ((mark,), _faults) = read_marks(machine.run, VM)
    assert mark["state"] == "failed"
    assert remove_mark(machine.run, MARK) is None
    assert update_mark(machine.run, machine.run_action, MARK) == (None, False)
    assert len(read_marks(machine.run, VM)[0]) == 1


@pytest.mark.parametrize(
    ("file", "slurped"),
    [
        (marks.encode(MARK).decode()[:-20], None),
        ("x" * (marks.LARGEST + 1), None),
        ("", None),
        ("", FAILED),
    ],
    ids=["half of one", "too large", "empty", "in use"],
)
def test_a_mark_that_cannot_be_read_is_named_and_counts_for_nothing(machine, file, slurped):
    machine.keep({f"{FOLDER}\\odd.mark.json": file, f"{FOLDER}\\readme.txt": "no mark"})
    if slurped:
        machine.answers["ansible.windows.slurp"] = slurped
    (mark,), (fault,) = read_marks(machine.run, VM)
    assert not mark["counts"]
    assert mark["event_id"] is None
    assert fault.startswith(f"{FOLDER}\\odd.mark.json: ")
    assert fault.isprintable()
    assert ("slurp" in machine.asked) == (len(file) <= marks.LARGEST)


@pytest.mark.parametrize("answer", [FAILED, {"changed": False}], ids=["failed", "nothing told"])
@pytest.mark.parametrize("module", ["win_stat", "win_find"])
def test_where_nobody_knows_which_marks_there_are_that_is_said(machine, module, answer):
    machine.keep({PATH: ""})
    machine.answers[f"ansible.windows.{module}"] = answer
    with pytest.raises(WindowsHostError, match=f"{module} could not read the marks of this VM: "):
        read_marks(machine.run, VM)


@pytest.mark.parametrize(
    ("files", "answers", "why"),
    [
        ({"C:\\ProgramData\\azure-maintenance": ""}, {}, "Das Verzeichnis"),
        ({FOLDER: ""}, {}, "is not a directory"),
        ({f"{PATH}\\x": ""}, {}, "does not have the content that was written"),
        ({}, {"ansible.windows.win_copy": FAILED}, "Zugriff"),
        ({f"{FOLDER}\\x": ""}, {"ansible.windows.win_copy": {"changed": True}}, "does not have the content"),
        ({PATH: "{"}, {"ansible.windows.win_copy": {"changed": True}}, "does not have the content that was written"),
    ],
)
def test_where_a_mark_is_not_there_as_it_was_written_it_is_said_why(machine, files, answers, why):
    machine.keep(files)
    machine.answers = answers
    said, others = write_mark(machine.run, machine.run_action, MARK, None)
    assert why in said
    assert said.isprintable()
    assert others == {}


def test_what_could_not_be_found_again_is_not_written(machine):
    said, _others = write_mark(machine.run, machine.run_action, {**MARK, "event_id": "x" * 201}, None)
    assert "more than 200 characters" in said
    assert machine.asked == []


def test_a_mark_that_cannot_be_removed_is_said(machine):
    machine.answers[windows_marks.CHANGE] = FAILED
    assert "verweigert" in remove_mark(machine.run, MARK)
