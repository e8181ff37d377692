# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A system that hides its boot id: what is prepared in one process is known in the next, and not after a boot."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import system


@pytest.fixture
def boot_id(monkeypatch, folders):
    """Return the boot id that a new process sees, while the system has been up for so many seconds."""
    monkeypatch.setattr(system, "read_boot_id", lambda: None)

    def boot_id(uptime=100.0):
        monkeypatch.setattr(system, "_uptime", lambda: uptime)
        return system.Clock(folders).now().boot_id

    return boot_id


def test_p2_every_process_of_a_boot_sees_the_same(boot_id, capfd):
    first = boot_id()
    assert "boot id of this system cannot be read" in capfd.readouterr().err
    assert [boot_id(), boot_id(5000.0)] == [first, first]
    # It is said once.
    assert capfd.readouterr().err == ""


def test_p5_a_boot_empties_the_folder_in_memory(boot_id, folders):
    first = boot_id()
    shutil.rmtree(folders.run)
    assert boot_id() != first


def test_p5_a_folder_that_is_not_in_memory_keeps_no_boot_alive(boot_id):
    first = boot_id(100.0)
    second = boot_id(20.0)
    assert first != second
    assert boot_id(21.0) == second


@pytest.mark.parametrize("content", [b"", b"100.0", b"x y", b"\xff\xfe z", b"nan mark"])
def test_a_mark_that_cannot_be_read_is_made_anew(boot_id, folders, content):
    Path(folders.run, "boot").write_bytes(content)
    first = boot_id()
    assert first.startswith("mark-")
    assert boot_id() == first


def test_a_boot_id_that_can_be_read_needs_no_mark(monkeypatch, folders):
    monkeypatch.setattr(system, "read_boot_id", lambda: "boot-7")
    assert system.Clock(folders).now().boot_id == "boot-7"
    assert not list(Path(folders.run).iterdir())


def test_p15_a_program_that_is_stopped_while_it_writes_the_mark_is_not_waited_for_without_an_end(
    boot_id, folders, monkeypatch
):
    monkeypatch.setattr(system, "_BOOT_PATIENCE", 0.1)
    with system.lock(folders.run, "boot"), pytest.raises(OSError, match="another program holds this lock"):
        boot_id()
