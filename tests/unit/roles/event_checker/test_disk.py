# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that is full or read-only: reported, the state goes on in memory, responses still start, and it moves home.

The state lies on a small file system of its own, mounted where only the processes of the test see it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import time
import traceback
from contextlib import closing

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.database import (
    open_database,
    return_home,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.store import Store
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    FakeClock,
    Story,
    make_event,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.machine import Machine

CLONE_NEWNS = 0x00020000
# What the child says where it may not mount
UNABLE = 77


def with_a_disk(folder, body):
    """Run a body in a process that has mounted a small disk there."""
    report = folder.parent / "report"
    folder.mkdir()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
                os._exit(UNABLE)
            mounts = [["--make-rprivate", "/"], ["-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)]]
            if any(subprocess.run(["mount", *mount], check=False).returncode for mount in mounts):
                os._exit(UNABLE)
            body()
            code = 0
        except BaseException:
            report.write_text(traceback.format_exc())
        os._exit(code)
    code = os.WEXITSTATUS(os.waitpid(pid, 0)[1])
    if code == UNABLE:
        pytest.skip("a file system of its own needs root and leave to mount (CAP_SYS_ADMIN)")
    assert code == 0, report.read_text()


class Disk:
    """The disk on which the state of a machine lies."""

    def __init__(self, path):
        self.path = path

    def fill(self, but=0):
        """Leave only so many bytes."""
        with open(self.path / "filler", "ab", buffering=0) as filler:
            for size in (65536, 4096, 1):
                with contextlib.suppress(OSError):
                    while filler.write(b"x" * size):
                        pass
            assert not os.statvfs(self.path).f_bavail
            filler.truncate(max(0, filler.tell() - but))

    def empty(self):
        (self.path / "filler").unlink()

    def set_read_only(self):
        self.remount("ro")

    def set_writable(self):
        self.remount("rw")

    def remount(self, mode):
        # A process that was killed gives up its lock a moment before its files, and till then the disk is busy.
        for_long = time.monotonic() + 600
        while subprocess.run(["mount", "-o", f"remount,{mode}", str(self.path)], check=False).returncode:
            assert time.monotonic() < for_long, "the disk stays busy"
            time.sleep(0.05)


SPOIL = {"full": (Disk.fill, Disk.empty), "read-only": (Disk.set_read_only, Disk.set_writable)}
cases = pytest.mark.parametrize("how", SPOIL)


@pytest.fixture
def stage(simulator, tmp_path):
    """Gives a function that runs a scenario on a machine whose state lies on a disk of its own."""
    azure = simulator("--clock", "manual", "--vms", "web-1")

    def run(scenario, how):
        folder = tmp_path / "vm"
        folder.mkdir()
        spoil, mend = SPOIL[how]
        disk = Disk(folder / "state")

        def body():
            vm = Machine(folder, azure.endpoint("web-1"))
            try:
                vm.configure(vm.rule(approve="never"))
                scenario(vm, azure.control, lambda: spoil(disk), lambda: mend(disk))
            finally:
                vm.close()

        with_a_disk(disk.path, body)

    return run


def announce(control):
    return control("POST", "/simulator/events", {"event_type": "Reboot", "resources": ["web-1"]})["event_id"]


def fallback(vm):
    return vm.folder / "run" / "state.db"


def check_moved_home(vm):
    done = vm.check()
    assert "can be written again; the state has moved back there" in done.stderr
    assert not fallback(vm).exists()


@cases
def test_the_state_goes_on_in_memory_and_moves_home(stage, how):
    def scenario(vm, control, spoil, mend):
        first = announce(control)
        vm.check()
        spoil()
        second = announce(control)
        control("DELETE", f"/simulator/events/{first}")
        done = vm.check()
        assert f"{vm.folder}/state/state.db cannot be written" in done.stderr
        assert str(fallback(vm)) in done.stderr
        vm.check()
        # What was known before is known still: nothing runs twice, and putting back into service waits for the second.
        wanted = [f"prepare announced {first}", f"prepare announced {second}"]
        assert vm.ran == wanted
        assert [event["event_id"] for event in vm.status()["events"]] == [first, second]
        mend()
        check_moved_home(vm)
        control("DELETE", f"/simulator/events/{second}")
        vm.check_until_quiet()
        assert vm.ran == [*wanted, f"restore ended {first} withdrawn", f"restore ended {second} withdrawn"]
        assert [event["outcome"] for event in vm.history()["events"]] == ["withdrawn"] * 2
        assert "cannot be written" not in vm.check().stderr

    stage(scenario, how)


@cases
def test_a_disk_that_was_never_writable(stage, how):
    def scenario(vm, control, spoil, mend):
        spoil()
        event = announce(control)
        vm.check()
        vm.check()
        assert vm.ran == [f"prepare announced {event}"]
        mend()
        check_moved_home(vm)
        vm.check()
        assert vm.ran == [f"prepare announced {event}"]
        assert vm.event(event)["responses"][0]["state"] == "succeeded"

    stage(scenario, how)


def make_read_only(folder):
    for mount in (["--bind", str(folder), str(folder)], ["-o", "remount,bind,ro", str(folder)]):
        subprocess.run(["mount", *mount], check=True)
    return lambda: subprocess.run(["umount", str(folder)], check=True)


def leave_no_names(folder):
    """Mount a disk with the same files there, on which no file can be made any more."""
    names = os.listdir(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=300k,nr_inodes={len(names) + 1}", "tmpfs", folder], check=True)
    for name in names:
        (folder / name).touch()
    return lambda: subprocess.run(["umount", str(folder)], check=True)


@cases
@pytest.mark.parametrize("spoil_run", [make_read_only, leave_no_names])
def test_p8_azure_is_asked_where_no_folder_can_be_written(stage, how, spoil_run):
    """The memory is lost to the checker, too: nothing is done about an event, and a person reads of it in the log."""

    def scenario(vm, control, spoil, mend):
        vm.check()
        spoil()
        mend_run = spoil_run(vm.folder / "run")
        event = announce(control)
        done = vm.check(expected=1)
        assert "cannot be opened" in done.stderr, done
        assert "Azure is asked, but nothing is done." in done.stderr
        assert "Reboot Scheduled" in done.stderr
        assert vm.ran == []
        mend_run()
        mend()
        vm.check_until_quiet()
        assert vm.ran == [f"prepare announced {event}"]

    stage(scenario, how)


def leave_log(vm, control):
    """Prepare for an event, and crash while that is in the write-ahead log; returns the id of the event."""
    event_id = announce(control)
    vm.start("check")
    vm.wait(lambda: vm.ran and not vm.active_units(), "the response does not run")
    vm.kill_all()
    assert (vm.folder / "state" / "state.db-wal").stat().st_size
    return event_id


@cases
def test_the_state_as_a_crash_left_it(stage, how):
    """What is still in the write-ahead log when the disk fails is known too."""

    def scenario(vm, control, spoil, mend):
        first = leave_log(vm, control)
        spoil()
        control("DELETE", f"/simulator/events/{first}")
        done = vm.check()
        # This failed once on a busy machine, and nothing told why.
        assert vm.ran == [f"prepare announced {first}", f"restore ended {first} withdrawn"], (done, vm.units_log)
        mend()
        check_moved_home(vm)

    stage(scenario, how)


def test_p6_the_state_as_a_crash_left_it_without_the_index_of_its_log(stage):
    def scenario(vm, control, spoil, mend):
        first = leave_log(vm, control)
        (vm.folder / "state" / "state.db-shm").unlink()
        spoil()
        assert [event["event_id"] for event in vm.status()["events"]] == [first]
        vm.check_until_quiet()
        assert vm.ran == [f"prepare announced {first}"]
        mend()
        check_moved_home(vm)

    stage(scenario, "read-only")


@pytest.mark.parametrize("free", range(0, 240_000, 20_000))
def test_p7_a_damaged_file_on_a_disk_that_is_nearly_full_is_put_aside_once(tmp_path, free):
    disk = Disk(tmp_path / "state")
    folders = str(disk.path), str(tmp_path / "run")

    def body():
        with closing(Store(open_database(*folders, pytest.fail))) as state:
            Story(state, FakeClock()).see(make_event())
        with open(disk.path / "state.db", "ab") as file:
            file.write(bytes(100))
        disk.fill(but=free)
        warnings = []
        for number in range(2):
            with closing(Store(open_database(*folders, warnings.append))) as state:
                with state.transaction():
                    state.set_fact(f"written {number}", {"x": 1})
                assert state.fact("written 0") == {"x": 1}
        disk.empty()
        return_home(*folders, warnings.append)
        with closing(Store(open_database(*folders, warnings.append))) as state:
            assert [state.fact(f"written {number}") for number in range(2)] == [{"x": 1}] * 2
        assert sum("was put aside" in warning for warning in warnings) <= 1

    with_a_disk(disk.path, body)


@pytest.mark.parametrize("free", range(0, 240_000, 20_000))
def test_p7_a_first_start_on_a_disk_that_is_nearly_full_leaves_no_damaged_file(tmp_path, free):
    disk = Disk(tmp_path / "state")
    folders = str(disk.path), str(tmp_path / "run")

    def body():
        disk.fill(but=free)
        warnings = []
        for _number in range(2):
            open_database(*folders, warnings.append).close()
        disk.empty()
        return_home(*folders, warnings.append)
        open_database(*folders, warnings.append).close()
        assert not any("put aside" in warning for warning in warnings), warnings

    with_a_disk(disk.path, body)


def test_the_disk_fills_while_a_check_and_a_response_run(stage):
    def scenario(vm, control, spoil, mend):
        vm.configure(vm.rule(on_announced=[vm.step("first"), vm.held_step("prepare"), vm.step("last")]))
        event = announce(control)
        check = vm.start("check")
        vm.wait(lambda: len(vm.ran) == 2, "the preparation does not begin")
        spoil()
        vm.configure(vm.rule(approve="never"))
        other = control("POST", "/simulator/events", {"event_type": "Redeploy", "resources": ["web-1"]})["event_id"]
        vm.poll()
        vm.wait(lambda: f"first announced {other}" in vm.ran, "nothing new is answered any more")
        vm.release()
        vm.wait_for_units()
        vm.kill_all()
        assert check.returncode == -9
        vm.check_until_quiet()
        # The step was neither forgotten nor taken for done before it was.
        for one in (event, other):
            assert [response["state"] for response in vm.event(one)["responses"]] == ["succeeded"]
            assert [line.split()[0] for line in vm.ran if one in line] == ["first", "prepare", "last"]
        mend()
        vm.check_until_quiet()
        assert not fallback(vm).exists()
        assert len(vm.ran) == 6

    stage(scenario, "full")


def test_the_disk_is_mended_while_a_response_from_before_still_runs(stage):
    def scenario(vm, control, spoil, mend):
        vm.configure(vm.rule(match={"event_types": ["Reboot"]}, on_announced=[vm.held_step("prepare")]))
        event = announce(control)
        vm.start("check")
        vm.wait(lambda: vm.ran, "the preparation does not begin")
        spoil()
        control("POST", "/simulator/events", {"event_type": "Freeze", "resources": ["web-1"]})
        vm.poll()
        vm.wait(fallback(vm).exists, "the state does not move")
        mend()
        vm.release()
        vm.wait_for_units()
        vm.kill_all()
        vm.check_until_quiet()
        assert vm.event(event)["responses"][0]["state"] == "succeeded"
        assert vm.event(event)["approval"] == "approved"
        assert [line for line in vm.ran if line.startswith("prepare")] == [f"prepare announced {event}"]

    stage(scenario, "full")
