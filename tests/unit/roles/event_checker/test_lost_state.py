# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of the state is lost while an event is prepared: the marks tell what is still to be restored (P7)."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import test_scenarios as scenarios

azure, machines, tmp_path, vm = scenarios.azure, scenarios.machines, scenarios.tmp_path, scenarios.vm
pytestmark = pytest.mark.filterwarnings("error")


def garble(vm):
    for suffix in ("-wal", "-shm"):
        vm.folder.joinpath("state", f"state.db{suffix}").unlink(missing_ok=True)
    vm.folder.joinpath("state", "state.db").write_bytes(b"no database\n" * 1000)


def remove(vm):
    for path in vm.folder.joinpath("state").iterdir():
        path.unlink()


def damage_the_record(vm):
    vm.sql("UPDATE event SET content = 'x'")


LOSSES = pytest.mark.parametrize("lose", [garble, remove, damage_the_record])


@LOSSES
def test_p13_whether_an_event_was_approved_is_not_known_from_a_mark(azure, vm, lose):
    azure.announce(resources=["web-1", "web-2"])
    vm.check_until_quiet()
    lose(vm)
    vm.check_until_quiet()
    told = vm.run("status").stdout
    assert "     approve   unknown, its record was lost\n" in told
    assert "succeeded approve" not in told


@LOSSES
def test_p7_a_vm_that_was_prepared_is_restored_once_and_not_prepared_again(azure, vm, lose):
    event_id = azure.announce()
    vm.check_until_quiet()
    assert vm.ran == [f"prepare announced {event_id}"]
    approvals = len(azure.approved)
    lose(vm)
    vm.check_until_quiet()
    assert vm.ran == [f"prepare announced {event_id}"]
    assert len(azure.approved) == approvals == 1
    (mark,) = vm.status()["marks"]
    assert mark["event_id"] == event_id
    azure.advance(900)
    vm.check_until_quiet()
    azure.advance(3600)
    vm.check_until_quiet()
    vm.check_until_quiet()
    assert [line for line in vm.ran if not line.startswith("note")] == [
        f"prepare announced {event_id}",
        f"restore ended {event_id} completed",
    ]
    assert vm.status()["marks"] == []


@LOSSES
def test_p7_two_marks_of_one_event_are_taken_up_as_one(azure, vm, lose):
    """Seed 4000521 of the campaign: the first was written while the id of the VM was not known."""
    vm.configure(vm.rule(approve="never"))
    event_id = azure.announce()
    vm.check_until_quiet()
    (path,) = (vm.folder / "marks").iterdir()
    mark = json.loads(path.read_text())
    (vm.folder / "marks" / f"{event_id.lower()}.vm.checker.mark.json").write_text(
        json.dumps({**mark, "vm_id": None, "state": "preparing"})
    )
    lose(vm)
    vm.check_until_quiet()
    assert [event["event_id"] for event in vm.status()["events"]] == [event_id]
    azure.withdraw(event_id)
    vm.check_until_quiet()
    assert vm.ran == [f"prepare announced {event_id}", f"restore ended {event_id} withdrawn"]
    assert vm.status()["marks"] == []


@LOSSES
def test_p7_a_vm_that_was_prepared_is_restored_where_the_event_is_over_by_then(azure, vm, lose):
    event_id = azure.announce()
    vm.check_until_quiet()
    lose(vm)
    azure.advance(900)
    azure.advance(3600)
    vm.boot()
    for _number in range(2):
        vm.check_until_quiet()
    assert vm.ran == [f"prepare announced {event_id}", f"restore ended {event_id} completed"]
    assert vm.status()["marks"] == []


def lose_with_the_rule(azure, vm, lose):
    """Lose the state of a prepared VM, and its rule; return the event."""
    event_id = azure.announce()
    vm.check_until_quiet()
    lose(vm)
    vm.configure(vm.rule(name="Another"), metrics_dir=str(vm.folder))
    vm.check_until_quiet()
    return event_id


@LOSSES
def test_p16_a_vm_that_must_be_restored_by_hand_keeps_its_mark_after_the_event(azure, vm, lose):
    event_id = lose_with_the_rule(azure, vm, lose)
    (event,) = vm.status()["events"]
    assert "restore this VM by hand, and remove the file of the mark after that" in event["note"]
    azure.withdraw(event_id)
    for _number in range(2):
        vm.check_until_quiet()
    assert vm.ran == [f"prepare announced {event_id}"]
    assert [mark["event_id"] for mark in vm.status()["marks"]] == [event_id]


@LOSSES
def test_p16_status_asks_for_a_person_until_a_vm_that_must_be_restored_by_hand_has_no_mark(azure, vm, lose):
    event_id = lose_with_the_rule(azure, vm, lose)
    for path in vm.folder.joinpath("state").glob("*.damaged-*"):
        path.unlink()
    azure.withdraw(event_id)
    for _number in range(2):
        vm.check_until_quiet()
    (mark,) = (vm.folder / "marks").iterdir()
    run = vm.run("status")
    told, path = " ".join(run.stdout.split()), f"{mark.parent}/{event_id[:8].lower()}*.checker.mark.json"
    found = vm.status()
    assert (run.returncode, found["events"], found["marks_left"]) == (1, [], [str(mark)])
    assert "azure_maintenance_marks_left 1\n" in (vm.folder / "azure_maintenance.prom").read_text()
    assert f"and no response is left that puts it back. Restore this VM by hand, then: rm {path}" in told
    assert list(mark.parent.glob(path.rpartition("/")[2])) == [mark]
    mark.unlink()
    assert vm.run("status").returncode == 0


@LOSSES
def test_p2_a_preparation_of_which_nobody_knows_whether_it_ended_is_not_approved(azure, vm, lose):
    vm.configure(vm.rule(on_announced=[vm.step("prepare"), vm.step("fail", "exit 1")]))
    event_id = azure.announce()
    vm.check_until_quiet()
    lose(vm)
    before = vm.ran
    vm.check_until_quiet()
    assert (vm.ran, len(azure.approved)) == (before, 0)
    (response,) = vm.responses()
    assert response["state"] == "failed"
    assert "is lost" in response["message"]
    azure.withdraw(event_id)
    vm.check_until_quiet()
    assert vm.ran == [*before, f"restore ended {event_id} withdrawn"]


@LOSSES
def test_p2_after_a_boot_the_event_is_prepared_again_and_then_approved(azure, vm, lose):
    vm.configure(vm.rule(on_announced=[vm.step("prepare"), vm.step("fail", "exit 1")]))
    event_id = azure.announce()
    vm.check_until_quiet()
    lose(vm)
    vm.boot()
    vm.configure(vm.rule())
    assert len(azure.approved) == 0
    vm.check_until_quiet()
    assert vm.ran[-1] == f"prepare announced {event_id}"
    assert len(azure.approved) == 1


def test_p3_a_response_of_the_lost_file_goes_on_and_nothing_runs_beside_it(azure, vm):
    vm.configure(vm.rule(on_announced=[vm.held_step("prepare")]))
    event_id = azure.announce()
    vm.run("check", "--once")
    vm.wait(lambda: vm.ran, "nothing is prepared")
    garble(vm)
    for _number in range(2):
        vm.run("check", "--once")
    assert vm.ran == [f"prepare announced {event_id}"]
    assert vm.history()["events"] == []
    vm.release()
    vm.wait_for_units()
    vm.check_until_quiet()
    assert vm.ran == [f"prepare announced {event_id}"]
    assert [event["event_id"] for event in vm.history()["events"]] == [event_id]


def test_status_tells_of_a_file_that_was_put_aside_until_it_is_moved_away(azure, vm):
    vm.check_until_quiet()
    assert vm.run("status").returncode == 0
    garble(vm)
    said = vm.check().stderr
    assert said.count("was put aside as") == 1
    for _number in range(2):
        told = vm.run("status")
        assert told.returncode == 1
        assert "The state could not be read and was put aside as" in " ".join(told.stdout.split())
        assert "put aside" not in vm.check().stderr
    (path,) = vm.status()["state_put_aside"]
    assert Path(path).read_bytes().startswith(b"no database")
    Path(path).unlink()
    assert vm.run("status").returncode == 0
    assert vm.status()["state_put_aside"] == []


def test_p13_status_gives_no_all_clear_after_a_loss_until_azure_has_answered(azure, vm):
    vm.check_until_quiet()
    garble(vm)
    vm.configure(vm.rule(), endpoint="http://127.0.0.1:9")
    vm.check(expected=1)
    told = " ".join(vm.run("status").stdout.split())
    assert "no maintenance is announced" not in told
    assert "whether maintenance is announced is unknown" in told
    assert "Azure has not answered since the state was put aside" in told
    vm.configure(vm.rule())
    # The name of the file that was put aside is by the machine's own clock.
    vm.clock.set_to(time.time() + 1.0, vm.clock.now().uptime)
    vm.check()
    told = " ".join(vm.run("status").stdout.split())
    assert "no maintenance is announced" in told
    assert "Azure has not answered since" not in told


def test_p13_status_gives_the_all_clear_again_where_the_clock_was_ahead_when_the_state_was_lost(azure, vm):
    vm.check_until_quiet()
    garble(vm)
    vm.configure(vm.rule(), endpoint="http://127.0.0.1:9")
    vm.check(expected=1)
    vm.clock.set_to(time.time() - 3600.0, vm.clock.now().uptime)
    assert "Azure has not answered since the state was put aside" in " ".join(vm.run("status").stdout.split())
    vm.configure(vm.rule())
    vm.check()
    told = " ".join(vm.run("status").stdout.split())
    assert "no maintenance is announced" in told
    assert "Azure has not answered since" not in told
