# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A person has a VM put back into service whose preparation failed, while its event is still to come."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks as vm_marks
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import machine as machine_module
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import test_scenarios

tmp_path = machine_module.tmp_path
azure, machines, vm = test_scenarios.azure, test_scenarios.machines, test_scenarios.vm


@pytest.fixture
def half(azure, vm):
    """The VM, half drained: its drain succeeded, and the step behind it fails until the file good is there."""
    vm.good = vm.folder / "good"
    vm.configure(vm.rule(on_announced=[vm.step("drain"), vm.step("fence", f"test -e '{vm.good}'")]))
    vm.reboot_event = azure.announce(notice=3600)
    vm.check()
    return vm


def restore(vm, number="1"):
    done = vm.run("restore", number)
    vm.wait_for_units()
    return done


def ran(vm):
    return [line.split(" ")[0] for line in vm.ran]


def states(vm, event_id):
    return {response["phase"]: response["state"] for response in vm.event(event_id)["responses"]}


def marks(vm):
    return vm_marks.read_marks([str(vm.folder / "marks")])


def test_status_says_that_it_stays_half_drained_and_names_the_command(half):
    told = " ".join(half.run("status").stdout.split())
    assert "Until the event ends, this VM stays as these steps have left it." in told
    assert "to put it back now: azure-maintenance restore 1" in told


def test_what_puts_back_runs_and_the_vm_is_free(half):
    assert len(marks(half)) == 1
    done = restore(half)
    assert (done.returncode, done.stderr.startswith("Response 2 ")) == (0, True)
    assert half.ran == [
        f"drain announced {half.reboot_event}",
        f"fence announced {half.reboot_event}",
        f"restore ended {half.reboot_event}",
    ]
    assert states(half, half.reboot_event) == {"announced": "skipped", "restore": "succeeded"}
    assert marks(half) == []
    status = half.run("status")
    assert status.returncode == 0
    assert "response 2, restore: succeeded" in status.stdout
    assert "A person had this VM put back into service." in status.stdout


def test_p2_nothing_is_approved_on_the_ground_of_the_old_preparation(azure, half):
    restore(half)
    half.check()
    half.check()
    assert azure.approved == []
    half.good.touch()
    half.retry(1)
    # Prepared anew, from the first step
    assert ran(half) == ["drain", "fence", "restore", "drain", "fence"]
    assert azure.approved == [[half.reboot_event]]
    assert len(marks(half)) == 1


def test_p2_after_a_restore_that_failed_the_preparation_begins_anew_too(azure, vm):
    good = vm.folder / "good"
    vm.configure(
        vm.rule(
            on_announced=[vm.step("drain"), vm.step("fence", f"test -e '{good}'")],
            on_ended=[vm.step("open"), vm.step("restore", "false")],
        )
    )
    event = azure.announce(notice=3600)
    vm.check()
    restore(vm)
    assert states(vm, event) == {"announced": "failed", "restore": "failed"}
    assert len(marks(vm)) == 1
    good.touch()
    vm.retry(1)
    assert ran(vm) == ["drain", "fence", "open", "restore", "drain", "fence"]
    # What was prepared is not taken back by a retry of the old restore.
    done = vm.run("retry", "2")
    assert (done.returncode, done.stderr.split(":")[0]) == (2, "Response 1 cannot be taken back")


def test_a_restore_that_failed_is_tried_again(azure, half):
    fails = half.folder / "fails"
    fails.touch()
    half.configure(
        half.rule(on_announced=[half.step("drain", "false")], on_ended=[half.step("restore", f"test ! -e '{fails}'")])
    )
    event = azure.announce("Redeploy", notice=3600)
    half.check()
    number = str(half.event(event)["responses"][0]["number"])
    # Each waits for the other event, until both are to be taken back.
    assert f"waits for the end of Redeploy {event[:8]}, for" in restore(half).stderr
    restore(half, number)
    failed = str(half.event(event)["responses"][1]["number"])
    assert states(half, event) == {"announced": "failed", "restore": "failed"}
    assert f"azure-maintenance retry {failed}" in half.run("status").stdout
    fails.unlink()
    half.retry(failed)
    half.check_until_quiet()
    assert states(half, event) == {"announced": "skipped", "restore": "succeeded"}
    assert states(half, half.reboot_event) == {"announced": "skipped", "restore": "succeeded"}


def test_on_ended_runs_at_the_end_of_the_event_all_the_same(azure, half):
    restore(half)
    azure.advance(3600)
    half.check_until_quiet()
    azure.advance(3600)
    half.check_until_quiet()
    assert ran(half) == ["drain", "fence", "restore", "note", "restore"]
    assert half.ran[-1] == f"restore ended {half.reboot_event} completed"
    assert states(half, half.reboot_event)["ended"] == "succeeded"
    assert azure.approved == []


def test_p3_it_waits_while_another_event_is_prepared_for(azure, half):
    half.configure(half.rule(approve="never"))
    other = azure.announce("Redeploy", notice=3600)
    half.check()
    done = restore(half)
    assert done.returncode == 0
    assert "Response 3 is due" in done.stderr
    assert f"Until then it waits for the end of Redeploy {other[:8]}, for which" in done.stderr
    half.check()
    assert "restore" not in ran(half)
    azure.withdraw(other)
    half.check_until_quiet()
    assert ran(half).count("restore") == 2
    assert states(half, half.reboot_event) == {"announced": "skipped", "restore": "succeeded"}


def test_p2_a_restore_that_makes_way_for_another_event_makes_no_prepared_vm_of_it(azure, vm):
    """If the state is lost, the mark is all that tells of the preparation, which failed."""
    vm.configure(
        vm.rule(on_announced=[vm.step("drain", "exit 1")], on_ended=[vm.held_step("restore"), vm.step("more")])
    )
    first = azure.announce(notice=3600)
    vm.check()
    assert vm.run("restore", "1").returncode == 0
    vm.wait(lambda: "restore" in ran(vm), "the restore does not begin")
    azure.announce(event_status="Started", started_for=600)
    vm.run("check", "--once")
    vm.release()
    vm.wait_for_units()
    assert "more" not in ran(vm)
    assert [mark["state"] for mark in marks(vm) if mark["event_id"] == first] == ["failed"]


def test_a_restore_that_is_due_when_the_event_starts_is_left_to_on_ended(azure, half):
    half.configure(half.rule(approve="never"))
    other = azure.announce("Redeploy", notice=7200)
    half.check()
    restore(half)
    azure.advance(3600)
    half.check()
    assert states(half, half.reboot_event)["restore"] == "skipped"
    assert "restore" not in ran(half)
    azure.advance(600)
    azure.withdraw(other)
    half.check_until_quiet()
    assert ran(half).count("restore") == 2


def test_it_may_be_asked_for_again_after_the_next_preparation_failed(half):
    restore(half)
    half.retry(1)
    assert len(marks(half)) == 1
    assert restore(half).returncode == 0
    assert ran(half) == ["drain", "fence", "restore", "drain", "fence", "restore"]
    assert marks(half) == []


def test_p6_no_preparation_is_tried_again_while_it_is_taken_back(azure, half):
    half.configure(half.rule(approve="never"))
    azure.announce("Redeploy", notice=3600)
    half.check()
    restore(half)
    done = half.run("retry", "1")
    assert (done.returncode, done.stderr) == (2, "Response 3 puts this VM back into service. Wait for its end.\n")


@pytest.mark.parametrize(
    ("kind", "number", "why"),
    [
        ("restored", "1", "its state is skipped, and before the event only a preparation that failed is taken back"),
        ("restored", "2", "it is no preparation; give the number of on_announced"),
        ("started", "1", "the event has started, and on_ended puts this VM back"),
        ("ended", "1", "the event has ended, and on_ended puts this VM back"),
    ],
)
def test_what_cannot_be_taken_back_is_refused(azure, half, kind, number, why):
    if kind == "restored":
        restore(half)
    if kind in ("started", "ended"):
        azure.advance(3600)
        half.check()
    if kind == "ended":
        azure.advance(3600)
        half.check()
    before = half.ran
    done = restore(half, number)
    assert (done.returncode, done.stderr) == (2, f"Response {number} cannot be taken back: {why}.\n")
    assert half.ran == before


def test_an_event_that_was_approved_is_not_taken_back(azure, vm):
    azure.settings(approval="waits")
    vm.configure(vm.rule(approve="at_once", on_announced=[vm.step("drain", "false")]))
    azure.announce(notice=3600)
    vm.check()
    done = restore(vm)
    why = "the event was approved and may start at any moment"
    assert (done.returncode, done.stderr) == (2, f"Response 1 cannot be taken back: {why}.\n")
    assert "restore 1" not in vm.run("status").stdout


def test_without_a_step_of_on_ended_there_is_nothing_that_puts_back(azure, vm):
    vm.configure(vm.rule(on_announced=[vm.step("drain", "false")], on_ended=[]))
    azure.announce(notice=3600)
    vm.check()
    done = restore(vm)
    assert "no step of on_ended is known for its event" in done.stderr
    assert "restore 1" not in vm.run("status").stdout
