# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet of both systems: respond, approve and fleet_report treat it as one. The Windows VMs are stand-ins."""

from __future__ import annotations

import json
import os
import re
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows, windows_machine
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import (
    FAR_OFF,
    LONG,
    RESPOND,
    Fleet,
    summary_of,
)

pytestmark = pytest.mark.matrix

LINUX = {"host-a": "web-1", "host-b": "web-2"}
WINDOWS = {"host-c": "app-1", "host-d": "app-2"}
VMS = {**LINUX, **WINDOWS}
APPROVE = "fleetops.azure_maintenance.approve"
REPORT = "fleetops.azure_maintenance.fleet_report"


MARKS = windows_machine.MARKS
# Of a mark that another run has left
EVENT = {"event_id": "C7061BAC-AFDC-4513-B24B-AA5F13A16123", "event_type": "Reboot"}


def keep(fleet, host, files, broken=(), **more):
    """Let a Windows VM have these files, and their folders, and modules that fail."""
    folders = [folder for path in files for folder in windows_machine.parents(path)]
    machine = {"files": files, "folders": folders, "broken": broken, **more}
    (fleet.folder / f"{host}.machine").write_text(json.dumps(machine))


def files_of(fleet, host):
    return json.loads((fleet.folder / f"{host}.machine").read_text())["files"]


@pytest.fixture
def fleet(ansible, simulator, tmp_path):
    (tmp_path / "fleet").mkdir()
    fleet = Fleet(ansible, simulator, tmp_path / "fleet", VMS, VMS)
    for host in WINDOWS:
        fleet.set(host, ansible_connection="windows_stand_in", stand_in_machine=str(fleet.folder / f"{host}.machine"))
        keep(fleet, host, {})
    fleet.settings = windows.settings(windows.make_ansible_windows(tmp_path / "installed"))
    return fleet


def test_one_event_of_both_systems_is_prepared_approved_once_and_restored(fleet):
    event = fleet.announce(*VMS.values())
    run = fleet.respond(playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    assert [ids for _vm, ids in fleet.approved] == [[event]]
    assert {host: fleet.story(host) for host in VMS} == {
        host: [f"prepare {host} Reboot", f"restore {host} Reboot completed"] for host in VMS
    }


@pytest.mark.release
def test_a_windows_vm_that_is_lost_holds_the_event_back(fleet):
    fleet.announce(*VMS.values())
    fleet.announce("web-1")
    (fleet.folder / "host-d.up").unlink()
    run = fleet.respond(playbook=RESPOND)
    assert run.code != 0
    assert [vm for vm, _ids in fleet.approved] == ["web-1"]
    assert "host-d could not be asked: " in run.words
    assert "no host of this play is the VM app-2; host-d could not be asked" in run.words


def test_a_windows_vm_that_reboots_is_waited_for_and_restored_also_where_its_restore_reboots_it(fleet):
    """The reboots cut the connection in the middle of a task, which win_uri and win_ping do not survive."""
    fleet.announce("app-1", "web-1", started_for=LONG)
    fleet.set("host-c", stand_in_breaks="reset")
    up, away = fleet.folder / "host-c.up", fleet.folder / "host-c.away"
    missed = fleet.folder / "host-c.up.missed"
    restore = f"""
    - name: Boot once more
      ansible.builtin.raw: rm {missed}; mv {up} {away}
      when: inventory_hostname == 'host-c'
    - name: Wait until it can be reached again
      ansible.builtin.wait_for_connection:
        timeout: 600
    """
    back = fleet.meanwhile(lambda: away.exists() and missed.exists(), up.touch)
    with fleet.rebooting("host-c"), back:
        run = fleet.respond(restore=restore, playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    for host in ("host-a", "host-c"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]


def test_a_windows_vm_that_is_to_be_prepared_by_its_checker_is_told_that_there_is_none(fleet):
    fleet.announce("app-1", notice=FAR_OFF)
    words = {"event_response_prepare": "checker", "event_response_restore": "", "event_response_wait": False}
    run = fleet.respond(playbook=RESPOND, **words)
    assert run.code == 2, run.out + run.err
    assert fleet.approved == []
    why = "There is no checker for Windows: give this host a file that prepares it."
    assert f"host-c could not be prepared: {why}" in run.words


@pytest.mark.release
def test_p2_a_windows_vm_that_booted_after_its_preparation_or_does_not_tell_holds_its_event_back(fleet):
    other = fleet.announce("web-1")
    fleet.announce("app-1", notice=FAR_OFF)
    fleet.announce("app-2", notice=FAR_OFF)
    booted = fleet.folder / "booted"
    booted.touch()
    os.utime(booted, (0, 0))
    fleet.set("host-c", stand_in_booted=str(booted))
    fleet.set("host-d", stand_in_booted=str(fleet.folder / "nobody knows"))
    boot = f"""
    - name: Boot, and be back soon
      ansible.builtin.raw: touch {booted}
      when: inventory_hostname == 'host-c'
    """
    run = fleet.respond(prepare=boot, playbook=RESPOND)
    assert run.code == 2, run.out + run.err
    assert fleet.approved == [("web-1", [other])]
    assert "host-c is not prepared: it booted after its preparation" in run.words
    assert "host-d could not be asked again: ansible.windows.setup did not tell since when this host runs" in run.words
    for host in WINDOWS:
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot -"]


def test_an_approval_from_a_windows_vm(fleet):
    event = fleet.announce("app-1")
    run = fleet.run(APPROVE, "-e", json.dumps({"approve_event_types": "Reboot"}))
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("app-1", [event])]


@pytest.mark.release
def test_the_report_and_the_table_have_both_systems(fleet):
    fleet.settings.update(ANSIBLE_STDOUT_CALLBACK="fleetops.azure_maintenance.fleet", COLUMNS="160")
    event = fleet.announce(*VMS.values(), start_delay=LONG)
    (fleet.folder / "host-d.up").unlink()
    folder = fleet.folder / "report"
    settings = {"fleet_report_dir": str(folder)}
    run = fleet.run(REPORT, "-e", json.dumps(settings))
    assert run.code == 0, run.out + run.err
    assert "4 hosts asked: 3 affected, 0 quiet, 1 unreachable, 0 not on Azure." in run.out
    (report,) = folder.glob("*.json")
    said = json.loads(report.read_text())
    (told,) = said["events"]
    assert sorted(told["resources"]) == sorted(VMS.values())
    (row,) = [line for line in run.out.splitlines() if f"  {event}  " in line]
    assert row.split(event)[1].strip() == "app-1 (host-c), app-2, web-1 (host-a), web-2 (host-b)"
    assert re.search(r"^ +host-d +unreachable: .*The host is down[.]$", run.out, re.MULTILINE), run.out


@pytest.mark.matrix
def test_p16_a_windows_vm_carries_a_mark_while_it_is_out_of_service(fleet):
    event = fleet.announce("app-1", "web-1", notice=FAR_OFF)
    look = """
    - name: Look
      ansible.builtin.raw: cp {{ stand_in_machine }} {{ story }}.%s
      when: stand_in_machine is defined
    """
    run = fleet.respond(playbook=RESPOND, prepare=look % "prepare", restore=look % "restore")
    assert run.code == 0, run.out + run.err
    for stage in ("prepare", "restore"):
        kept = json.loads((fleet.folder / f"host-c.story.{stage}").read_text())["files"]
        ((path, content),) = kept.items()
        mark = json.loads(content)
        assert path.startswith(f"{MARKS}\\{event.lower()}.")
        assert (mark["event_id"], mark["by"], mark["vm_id"]) == (event, "run", fleet.azure.vm_id("app-1"))
        assert mark["controller"]
        assert mark["run"]
        assert mark["state"] == {"prepare": "preparing", "restore": "restoring"}[stage]
    assert files_of(fleet, "host-c") == files_of(fleet, "host-d") == {}


@pytest.mark.parametrize(("fails", "state"), [(False, "prepared"), (True, "failed")])
def test_p16_the_mark_of_a_windows_vm_says_how_far_the_run_was(fleet, fails, state):
    fleet.announce("app-1", notice=FAR_OFF)
    fail = "- ansible.builtin.fail:" if fails else ""
    run = fleet.respond(playbook=RESPOND, prepare=fail, restore=fail, event_response_wait=False)
    assert run.code == (2 if fails else 0), run.out + run.err
    (content,) = files_of(fleet, "host-c").values()
    assert json.loads(content)["state"] == state


@pytest.mark.parametrize("playbook", ["respond", "restore"])
def test_d1_a_windows_vm_that_a_run_has_left_prepared_is_restored_once(fleet, playbook):
    own, of_another_vm = (
        windows.left_by_killed_run(EVENT, fleet.azure.vm_id(vm), run=run)
        for vm, run in (("app-1", "3f0c"), ("app-2", "3f0d"))
    )
    others = {
        **of_another_vm,
        f"{MARKS}\\half.mark.json": next(iter(own.values()))[:100],
        f"{MARKS}\\readme.txt": "no mark",
    }
    keep(fleet, "host-c", {**own, **others})
    run = fleet.respond(playbook=f"fleetops.azure_maintenance.{playbook}")
    assert run.code == 0, run.out + run.err
    assert "host-c is out of service since 2026-11-21T17:32:00Z for Reboot C7061BAC by AWX job 812" in run.words
    # Older releases wrap a warning also behind a hyphen.
    assert "".join(f"A mark on this VM: {MARKS}\\half.mark.json: {marks.NO_MARK}".split()) in "".join(run.err.split())
    assert fleet.story("host-c") == ["restore host-c Reboot -"]
    assert fleet.story("host-d") == []
    assert files_of(fleet, "host-c") == others


def test_where_no_mark_can_be_written_a_windows_vm_is_not_prepared(fleet):
    fleet.announce("app-1", notice=FAR_OFF)
    keep(fleet, "host-c", {"C:\\ProgramData\\azure-maintenance": "a file"})
    run = fleet.respond(playbook=RESPOND, event_response_wait_timeout=60)
    assert run.code == 2, run.out + run.err
    assert (fleet.story("host-c"), fleet.approved) == ([], [])
    assert "The mark of this VM could not be written: " in run.words
    assert "Das Verzeichnis wurde nicht gefunden." in run.words


def test_p16_a_windows_vm_that_is_not_prepared_because_its_mark_cannot_be_checked_has_none(fleet):
    fleet.announce("app-1", notice=FAR_OFF)
    keep(fleet, "host-c", {}, ["ansible.windows.win_find"])
    run = fleet.respond(playbook=RESPOND, event_response_wait=False)
    assert run.code == 2, run.out + run.err
    assert "The mark of this VM could not be written: ansible.windows.win_find could not" in run.words
    assert fleet.story("host-c") == []
    assert files_of(fleet, "host-c") == {}


def test_where_the_marks_of_a_windows_vm_cannot_be_read_it_is_neither_prepared_nor_restored(fleet):
    fleet.announce("app-1", notice=FAR_OFF)
    keep(fleet, "host-c", windows.left_by_killed_run(EVENT, None), ["ansible.windows.win_find"])
    run = fleet.respond(playbook=RESPOND)
    assert run.code == 2, run.out + run.err
    assert (fleet.story("host-c"), fleet.approved) == ([], [])
    assert "host-c could not be asked: ansible.windows.win_find could not read the marks of this VM" in run.words


def test_p2_a_windows_vm_that_somebody_else_restores_after_its_preparation_is_prepared_again(fleet):
    event = fleet.announce("app-1", notice=FAR_OFF)
    restore_once = """
    - name: Be restored by another run, once
      ansible.builtin.raw: "[ -e {{ story }}.once ] || { touch {{ story }}.once; echo '{}' >{{ stand_in_machine }}; }"
    """
    run = fleet.respond(playbook=RESPOND, prepare=restore_once)
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("app-1", [event])]
    assert fleet.story("host-c") == [
        "prepare host-c Reboot",
        "prepare host-c Reboot",
        "restore host-c Reboot completed",
    ]
    assert files_of(fleet, "host-c") == {}


def test_p3_a_restore_of_a_windows_vm_that_begins_between_the_question_and_the_mark_is_waited_for(fleet):
    fleet.announce("app-1", notice=FAR_OFF)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    restoring = {"state": marks.RESTORING, "state_since": now}
    left = windows.left_by_killed_run(EVENT, fleet.azure.vm_id("app-1"))
    mark = {path: json.dumps({**json.loads(content), **restoring}) for path, content in left.items()}
    keep(fleet, "host-c", {}, behind_copy=mark)
    before = []

    def begun():
        requests = fleet.azure.control("GET", "/simulator/journal")["requests"]
        looks = [one for one in requests if one["vm"] == "app-1" and "/metadata/scheduledevents" in one["path"]]
        return len(looks) >= 3 and set(mark) <= set(files_of(fleet, "host-c"))

    def end_the_restore():
        before.extend(fleet.story("host-c"))
        keep(fleet, "host-c", {path: file for path, file in files_of(fleet, "host-c").items() if path not in mark})

    with fleet.meanwhile(begun, end_the_restore):
        run = fleet.respond(playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    assert before == []
    assert fleet.story("host-c") == ["prepare host-c Reboot", "restore host-c Reboot completed"]
    assert "Another run, or the checker, is at work on this host at this moment." in run.words


def test_p3_a_windows_vm_stays_as_it_is_while_another_run_has_it_prepared(fleet):
    """That run comes while this one waits."""
    fleet.announce("app-1", notice=FAR_OFF, started_for=LONG)
    other = fleet.announce("app-1", event_type="Freeze", notice=FAR_OFF)
    vm_id = fleet.azure.vm_id("app-1")

    def be_prepared_for_the_other():
        own = files_of(fleet, "host-c")
        mark = windows.left_by_killed_run({"event_id": other, "event_type": "Freeze"}, vm_id)
        keep(fleet, "host-c", {**own, **mark})
        fleet.pass_time(LONG)

    with fleet.meanwhile(fleet.is_one_started, be_prepared_for_the_other):
        run = fleet.respond(playbook=RESPOND, event_response_event_types="Reboot", event_response_wait_timeout=30)
    assert run.code == 2, run.out + run.err
    assert fleet.story("host-c") == ["prepare host-c Reboot"]
    assert summary_of(run)["not_restored"] == ["host-c"]
    assert len(files_of(fleet, "host-c")) == 2
