# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet of both systems: respond, approve and fleet_report treat it as one. The Windows VMs are stand-ins."""

from __future__ import annotations

import json
import os
import re

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import FAR_OFF, LONG, RESPOND, Fleet

pytestmark = pytest.mark.matrix

LINUX = {"host-a": "web-1", "host-b": "web-2"}
WINDOWS = {"host-c": "app-1", "host-d": "app-2"}
VMS = {**LINUX, **WINDOWS}
APPROVE = "fleetops.azure_maintenance.approve"
REPORT = "fleetops.azure_maintenance.fleet_report"


@pytest.fixture
def fleet(ansible, simulator, tmp_path):
    (tmp_path / "fleet").mkdir()
    fleet = Fleet(ansible, simulator, tmp_path / "fleet", VMS, VMS)
    for host in WINDOWS:
        fleet.set(host, ansible_connection="windows_stand_in")
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
def test_check_mode_of_both_systems_approves_nothing(fleet):
    fleet.announce(*VMS.values())
    run = fleet.respond("--check", playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    assert fleet.approved == []


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


def test_the_strategy_free_is_refused_for_both_systems_before_anything_is_asked(fleet):
    fleet.announce(*VMS.values())
    run = fleet.respond(play={"strategy": "free"})
    assert run.code != 0
    assert "The strategy must be linear, not free" in run.words
    assert fleet.azure.asked() == set()


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
