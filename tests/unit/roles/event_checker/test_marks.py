# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""P16: a VM that its checker has out of service carries a mark; P3: nor does it restore what a run has prepared."""

from __future__ import annotations

import json
import os
import stat

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks as vm_marks
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import format_utc
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.marks import (
    events_of_runs,
    write_mark,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.records import (
    EventRecord,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import test_scenarios as scenarios
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import FakeClock, make_event

azure, machines, tmp_path, vm = scenarios.azure, scenarios.machines, scenarios.tmp_path, scenarios.vm


def marks(vm):
    """The marks of the disk of this VM, by the id of their events."""
    found = (json.loads(path.read_text()) for path in (vm.folder / "marks").glob("*"))
    return {mark["event_id"]: mark for mark in found}


def waits(vm):
    """What each response waits for."""
    return [response["waits"] for each in vm.status()["events"] for response in each["responses"]]


@pytest.fixture
def event(azure, vm):
    """An event for which the VM is prepared."""
    event = azure.announce()
    vm.check_until_quiet()
    return event


def end(azure, vm, event):
    """Let the event be over, and the VM be restored."""
    azure.withdraw(event)
    vm.check_until_quiet()


def mark_by_a_run(vm, event, age=3600, run="r1"):
    """Write the mark of a run; its age is in seconds."""
    about = {"event_id": event, "event_type": "Reboot"}
    author = {"controller": "bastion", "user": "ops", "run": run, "vm_id": None}
    mark = vm_marks.new_mark(vm_marks.RUN, about, "2026-11-21T10:00:00Z", **author)
    (vm.folder / "marks").mkdir(exist_ok=True)
    path = vm.folder / "marks" / vm_marks.file_name(mark)
    path.write_bytes(vm_marks.encode(mark))
    os.utime(path, (vm.clock.now().at - age,) * 2)
    return path


def test_p16_a_vm_is_marked_from_before_its_preparation_until_it_is_restored(azure, vm):
    seen = vm.folder / "seen"
    look = f"cat '{vm.folder}'/marks/* >'{seen}'"
    vm.configure(vm.rule(on_announced=[vm.step("prepare", look)], on_ended=[vm.step("restore", f"{look}.ended")]))
    event = azure.announce()
    vm.check_until_quiet()
    mark = json.loads(seen.read_text())
    assert (mark["event_id"], mark["event_type"], mark["by"]) == (event, "Reboot", "checker")
    assert (mark["state"], mark["boot_id"]) == ("preparing", "boot-1")
    assert marks(vm)[event]["state"] == "prepared"
    (path,) = (vm.folder / "marks").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    end(azure, vm, event)
    assert json.loads((vm.folder / "seen.ended").read_text())["state"] == "restoring"
    assert marks(vm) == {}


def test_p16_a_mark_is_on_the_disk_before_it_gets_its_name_and_then_the_name_is(state, folders, monkeypatch):
    order = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (order.append(os.readlink(f"/proc/self/fd/{file}")), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda new, path: (order.append("named"), replace(new, path)))
    now = FakeClock().now()
    record = EventRecord(number=1, event=make_event(), rule=None, phase="announced", seen=now)
    write_mark(state, folders, record, vm_marks.PREPARED, now)
    assert order == [f"{folders.marks}/{order[0].rpartition('/')[2]}", "named", folders.marks]


def test_p3_a_run_sees_that_on_ended_runs_also_where_nothing_was_prepared(azure, vm):
    """Seed 2000253 of the campaign: a run prepared the VM for another event beside it."""
    seen = vm.folder / "seen"
    vm.configure(
        vm.rule(
            on_announced=[],
            on_started=[],
            approve="never",
            on_ended=[vm.step("restore", f"cat '{vm.folder}'/marks/* >'{seen}'")],
        )
    )
    event = azure.announce(notice=0, started_for=10)
    vm.check_until_quiet()
    assert marks(vm) == {}
    azure.advance(60)
    vm.check_until_quiet()
    mark = json.loads(seen.read_text())
    assert (mark["event_id"], mark["state"]) == (event, "restoring")
    assert marks(vm) == {}


def test_p16_a_mark_keeps_its_beginning_over_a_boot(azure, vm):
    vm.configure(vm.rule(approve="never", on_started=[vm.step("again")]))
    event = azure.announce(notice=60, started_for=3600)
    vm.check_until_quiet()
    since = marks(vm)[event]["since"]
    azure.advance(600)
    vm.boot()
    vm.check_until_quiet()
    assert (marks(vm)[event]["since"], marks(vm)[event]["boot_id"]) == (since, "boot-2")


def test_p3_a_mark_tells_since_when_the_checker_does_what_it_does(azure, vm):
    """A run waits for a checker that restores, for as long as that may take since then."""
    told = vm.folder / "told"
    look = f"cat '{vm.folder}'/marks/* >'{told}'"
    steps = {"on_announced": [vm.step("prepare", look)], "on_ended": [vm.step("restore", f"{look}.ended")]}
    vm.configure(vm.rule(approve="never", **steps))
    event = azure.announce(notice=7200)
    begun = format_utc(vm.clock.now().wall)
    vm.check_until_quiet()
    azure.withdraw(event)
    vm.clock.advance(3600)
    ended = format_utc(vm.clock.now().wall)
    vm.check_until_quiet()
    preparing, restoring = (json.loads((vm.folder / name).read_text()) for name in ("told", "told.ended"))
    assert (preparing["since"], preparing["state_since"]) == (begun, begun)
    assert (restoring["since"], restoring["state_since"]) == (begun, ended)


@pytest.mark.parametrize("phase", ["on_announced", "on_ended"])
def test_p3_each_step_of_the_checker_tells_runs_that_it_is_at_work_and_until_when_at_most(azure, vm, phase):
    """Together they may take longer than a run would wait for the first."""
    looks = [f"cat '{vm.folder}'/marks/* >'{vm.folder}/{name}'" for name in ("first", "second")]
    steps = [{**vm.step("a", looks[0]), "timeout": 900}, {**vm.step("b", looks[1]), "timeout": 100}]
    rule = {"on_announced": [vm.step("prepare")], phase: steps}
    vm.configure(vm.rule(approve="never", retry_delay=40, **rule))
    event = azure.announce(notice=7200)
    vm.check_until_quiet()
    end(azure, vm, event)
    first, second = (json.loads((vm.folder / name).read_text()) for name in ("first", "second"))
    assert [vm_marks.longest_work(each) for each in (first, second)] == [900 + 40 + 60, 100 + 40 + 60]


def test_where_no_mark_can_be_written_nothing_is_prepared_or_approved(azure, vm):
    for name in ("marks", "marks_in_memory"):
        (vm.folder / name).write_text("no folder")
    event = azure.announce()
    vm.check()
    assert vm.ran == []
    assert azure.approved == []
    assert "The mark of this VM could not be written" in vm.event(event)["responses"][0]["message"]


def test_while_the_disk_cannot_be_written_the_mark_is_in_memory_and_goes_with_the_restore(azure, vm):
    (vm.folder / "marks").write_text("no folder")
    event = azure.announce()
    vm.check_until_quiet()
    assert len(list((vm.folder / "marks_in_memory").iterdir())) == 1
    end(azure, vm, event)
    assert list((vm.folder / "marks_in_memory").iterdir()) == []


@pytest.mark.parametrize("older", [True, False])
def test_p16_a_mark_in_memory_goes_to_the_disk_as_soon_as_it_can_be_written_because_a_boot_would_take_it(
    azure, vm, older
):
    (vm.folder / "marks").write_text("no folder")
    event = azure.announce()
    vm.check_until_quiet()
    (path,) = (vm.folder / "marks_in_memory").iterdir()
    (vm.folder / "marks").unlink()
    if older:
        (vm.folder / "marks").mkdir()
        failed = {**json.loads(path.read_text()), "state": "failed"}
        (vm.folder / "marks" / path.name).write_bytes(vm_marks.encode(failed))
        os.utime(vm.folder / "marks" / path.name, (path.stat().st_mtime - 60,) * 2)
    vm.check()
    assert {key: mark["state"] for key, mark in marks(vm).items()} == {event: "prepared"}
    assert list((vm.folder / "marks_in_memory").iterdir()) == []


def test_a_mark_goes_with_the_next_check_where_a_kill_came_before_it_was_removed(azure, vm, event):
    (path,) = (vm.folder / "marks").iterdir()
    content = path.read_bytes()
    end(azure, vm, event)
    path.write_bytes(content)
    vm.check()
    assert marks(vm) == {}


def test_p16_nothing_is_left_of_a_mark_that_was_written_when_its_program_was_killed(azure, vm, event):
    (path,) = (vm.folder / "marks").iterdir()
    (path.parent / f"{path.name}.5abac11006e9e522").write_text("{")
    end(azure, vm, event)
    assert list(path.parent.iterdir()) == []


def test_a_restore_that_fails_leaves_the_mark_until_it_is_tried_again(azure, vm):
    broken = vm.folder / "broken"
    broken.touch()
    vm.configure(vm.rule(on_ended=[vm.step("restore", f"test ! -e '{broken}'")]))
    event = azure.announce()
    vm.check_until_quiet()
    end(azure, vm, event)
    assert {event: mark["state"] for event, mark in marks(vm).items()} == {event: "failed"}
    broken.unlink()
    assert vm.run("retry", "2").returncode == 0
    vm.check_until_quiet()
    assert marks(vm) == {}


def test_a_rule_without_on_ended_leaves_no_mark_behind(azure, vm):
    vm.configure(vm.rule(on_ended=[]))
    event = azure.announce()
    vm.check_until_quiet()
    assert set(marks(vm)) == {event}
    end(azure, vm, event)
    vm.check()
    assert marks(vm) == {}


def test_status_asks_for_nobody_while_the_next_check_still_has_to_remove_a_mark(azure, vm):
    vm.configure(vm.rule(on_ended=[]))
    event = azure.announce()
    vm.check_until_quiet()
    azure.withdraw(event)
    # The check removes marks at its beginning.
    vm.check()
    assert set(marks(vm)) == {event}
    assert vm.status()["marks_left"] == []
    assert vm.run("status").returncode == 0


def test_a_step_that_only_tells_somebody_takes_no_vm_out_of_service(azure, vm):
    vm.configure(vm.rule(on_announced=[{"webhook": azure.simulator.url}], on_started=[], approve="never"))
    azure.announce()
    vm.check()
    assert marks(vm) == {}


def test_p16_status_asks_for_a_person_where_a_run_has_not_put_the_vm_back_an_hour_after_the_event(azure, vm):
    vm.configure({"name": "Of the fleet"})
    event = azure.announce()
    vm.check()
    path = mark_by_a_run(vm, event)

    def left():
        vm.check()
        run = vm.run("status")
        assert run.returncode == len(vm.status()["marks_left"])
        return vm.status()["marks_left"], " ".join(run.stdout.split())

    vm.clock.advance(4000)
    assert left()[0] == []
    azure.withdraw(event)
    assert left()[0] == []
    vm.clock.advance(3500)
    assert left()[0] == []
    vm.clock.advance(200)
    files, told = left()
    assert files == [str(path)]
    assert f"!! Out of service since 2026-11-21T10:00:00Z for Reboot {event[:8]} by a run of ops on bastion;" in told
    assert "Run the playbook restore for this VM." in told
    mark = vm_marks.set_state(json.loads(path.read_text()), vm_marks.RESTORING, vm.clock.now().wall, 600)
    path.write_bytes(vm_marks.encode(mark))
    os.utime(path, (vm.clock.now().at,) * 2)
    assert left()[0] == []
    vm.clock.advance(601)
    assert left()[0] == [str(path)]
    path.unlink()
    assert left()[0] == []


@pytest.mark.parametrize("open_too", [True, False])
def test_p3_a_checker_waits_with_its_restore_for_a_run_that_has_prepared_another_open_event(azure, vm, event, open_too):
    vm.configure({"name": "Of the fleet"})
    other = azure.announce() if open_too else "of-long-ago"
    vm.check()
    path = mark_by_a_run(vm, other)
    azure.withdraw(event)
    vm.check()
    vm.check()
    restored = f"restore ended {event} completed"
    assert (restored in vm.ran) is not open_too
    if open_too:
        assert f"for the end of Reboot {other[:8]}, for which a preparation was begun" in waits(vm)
        # A run that waits for the end of a restore goes on.
        assert marks(vm)[event]["state"] == "prepared"
        path.unlink()
        vm.check_until_quiet()
        assert restored in vm.ran


@pytest.mark.parametrize("ending", ["it has prepared", "it was killed"])
def test_p3_on_ended_waits_for_a_run_that_still_prepares_the_vm_when_the_event_is_over(azure, vm, event, ending):
    path = mark_by_a_run(vm, event, age=60)
    mark = vm_marks.set_state(json.loads(path.read_text()), vm_marks.PREPARING, vm.clock.now().wall, 600)
    path.write_bytes(vm_marks.encode(mark))
    os.utime(path, (vm.clock.now().at - 60,) * 2)
    azure.withdraw(event)
    vm.check()
    vm.check()
    restored = f"restore ended {event} completed"
    assert restored not in vm.ran
    assert "for a run that prepares this VM at this moment for an event that is not open" in waits(vm)
    if ending == "it was killed":
        vm.clock.advance(600)
    else:
        path.write_bytes(vm_marks.encode({**mark, "state": vm_marks.PREPARED, "state_until": None}))
    vm.check_until_quiet()
    assert restored in vm.ran


@pytest.mark.parametrize(
    ("events", "goes_on"),
    [
        pytest.param([{"EventId": "B1"}], False, id="which lists the event"),
        pytest.param([{"EventId": None}], False, id="of which an entry cannot be read"),
        pytest.param([], True, id="which has no event"),
    ],
)
def test_p3_on_ended_waits_for_the_document_after_the_mark_of_a_run(azure, vm, events, goes_on):
    """A run knows an event before the checker, and prepares the VM for it while on_ended of another has begun."""
    mark = mark_by_a_run(vm, "B1", age=0)
    aside = vm.folder / "aside"
    mark.rename(aside)
    older = mark_by_a_run(vm, "B1", run="r2")
    steps = [vm.step("first", f"cp --preserve=timestamps '{aside}' '{mark}'"), vm.step("second")]
    vm.configure(vm.rule(match={"event_types": ["Reboot"]}, on_ended=steps))
    event = azure.announce()
    vm.check_until_quiet()
    azure.answer()
    vm.check()
    azure.fault(fault="status", status=500)
    vm.check()
    first, second = (f"{name} ended {event} completed" for name in ("first", "second"))
    assert first in vm.ran
    assert second not in vm.ran
    assert any("for Azure's next document: a run has this VM out of service" in (why or "") for why in waits(vm))
    azure.answer(*({**scenarios.raw_event(EventType="Freeze"), **event} for event in events))
    vm.clock.advance(1)
    vm.check()
    assert (second in vm.ran) is goes_on
    mark.unlink()
    older.unlink()
    vm.check()
    assert second in vm.ran


@pytest.mark.parametrize(
    ("written", "told", "is_newer"),
    [
        (-1, None, True),
        (-1, -2, True),
        (-2, -1, False),
        pytest.param(-1, 3600, True, id="the clock was set back since Azure told"),
    ],
)
def test_p3_a_mark_is_news_unless_azure_told_of_its_events_after_it_was_written(vm, written, told, is_newer):
    path, now = mark_by_a_run(vm, "B1", age=-written), vm.clock.now()
    marks = vm_marks.read_marks([str(path.parent)])
    assert events_of_runs(marks, told and now.at + told, now)["b1"].is_newer is is_newer


def test_a_mark_of_a_run_from_the_future_holds_nothing_back(azure, vm, event):
    # The clock was set back since.
    mark_by_a_run(vm, "of-long-ago", age=-3600)
    azure.withdraw(event)
    vm.check()
    assert f"restore ended {event} completed" in vm.ran


@pytest.mark.parametrize("set_back_by", [60, 3600, 10**7])
def test_p3_p15_a_run_that_prepares_is_waited_for_by_its_own_limit_where_the_clock_was_set_back(
    azure, vm, event, set_back_by
):
    path = mark_by_a_run(vm, event)
    mark = vm_marks.set_state(json.loads(path.read_text()), vm_marks.PREPARING, vm.clock.now().wall, 600)
    path.write_bytes(vm_marks.encode(mark))
    os.utime(path, (vm.clock.now().at + set_back_by,) * 2)
    azure.withdraw(event)
    vm.check()
    restored = f"restore ended {event} completed"
    for _minute in range(9):
        vm.clock.advance(60)
        vm.check()
        assert restored not in vm.ran
        assert "for a run that prepares this VM at this moment for an event that is not open" in waits(vm)
    vm.clock.advance(61)
    vm.check()
    assert restored in vm.ran


def test_p16_status_asks_for_a_person_where_the_clock_was_set_back_since_the_event(azure, vm):
    vm.configure({"name": "Of the fleet"})
    event = azure.announce()
    vm.check()
    path = mark_by_a_run(vm, event)
    azure.withdraw(event)
    vm.check()
    vm.clock.set_to(vm.clock.now().at - 86400.0, vm.clock.now().uptime)
    vm.clock.advance(3700)
    vm.check()
    assert vm.status()["marks_left"] == [str(path)]


def test_p16_status_asks_for_a_person_an_hour_after_the_event_where_the_clock_was_set_back_since_the_mark(azure, vm):
    vm.configure({"name": "Of the fleet"})
    event = azure.announce()
    vm.check()
    path = mark_by_a_run(vm, event)
    mark = vm_marks.set_state(json.loads(path.read_text()), vm_marks.RESTORING, vm.clock.now().wall, 600)
    path.write_bytes(vm_marks.encode(mark))
    os.utime(path, (vm.clock.now().at + 10**7,) * 2)
    azure.withdraw(event)
    vm.check()
    vm.clock.advance(3700)
    vm.check()
    assert vm.status()["marks_left"] == [str(path)]


def test_status_says_who_has_the_vm_out_of_service(azure, vm):
    event = azure.announce()
    mark_by_a_run(vm, event)
    (vm.folder / "marks" / "x.mark.json").write_text("no mark")
    vm.check_until_quiet()
    printed = " ".join(vm.run("status").stdout.split())
    assert f"Out of service since 2026-11-21T10:00:00Z for Reboot {event[:8]} by a run of ops on bastion." in printed
    assert f"for Reboot {event[:8]} by its checker." in printed
    assert "This is no mark that this version can read. The VM may be out of service." in printed
    facts = json.loads((vm.folder / "facts" / "azure_maintenance.fact").read_text())
    assert "marks" not in facts


def test_a_mark_of_a_disk_that_was_copied_counts_for_nothing(azure, vm, event):
    path = mark_by_a_run(vm, event)
    mark = json.loads(path.read_text())
    path.write_text(json.dumps({**mark, "vm_id": "00000000-0000-4000-8000-000000000000"}))
    assert "by a run" not in vm.run("status").stdout
    assert os.path.exists(path)
