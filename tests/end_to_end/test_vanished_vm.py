# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A1, P15 over a real ssh, with Ansible's own arguments: the network namespace of a VM is destroyed under it.

test_dead_connections.py shows the same in every task of a run, with a program in place of ssh.
"""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import LONG, RESPOND, Fleet, summary_of
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.ssh_vms import SshVms

pytestmark = pytest.mark.matrix

HOSTS = {"dies": "web-1", "lives": "web-2"}
# Seconds. A busy machine needs some for what answers.
LIMIT = 20


@pytest.fixture
def fleet(ansible, simulator, tmp_path):
    folder = tmp_path / "fleet"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        vms = SshVms(folder, stack)
        fleet = Fleet(ansible, lambda *words: simulator("--listen", f"{vms.address}:0", *words), folder, HOSTS, HOSTS)
        fleet.settings.update(vms.environment)
        fleet.vms = vms
        for host in HOSTS:
            fleet.set(host, **vms.start(host))
        yield fleet


def is_asked_in_vain(fleet):
    """Tell whether a module runs on the host that is to die, and waits for Azure."""
    requests = fleet.azure.control("GET", "/simulator/journal")["requests"]
    return any(one["fault"] == "silent" for one in requests)


def test_a1_a_vm_that_vanishes_under_a_module_is_named_and_the_others_are_restored(fleet):
    events = [fleet.announce("web-1", started_for=LONG), fleet.announce("web-2")]
    keep_silent = {"fault": "silent", "vms": ["web-1"], "methods": ["GET"]}
    then_silent = fleet.meanwhile(
        lambda: "web-1" in [vm for vm, _ids in fleet.approved],
        lambda: fleet.azure.control("POST", "/simulator/faults", keep_silent),
    )
    then_gone = fleet.meanwhile(lambda: is_asked_in_vain(fleet), lambda: fleet.vms.vanish("dies"))
    begun = time.monotonic()
    with then_silent, then_gone:
        run = fleet.respond(playbook=RESPOND, event_response_ask_timeout=LIMIT, event_response_wait_timeout=40)
    assert run.code == 2, run.out + run.err
    assert time.monotonic() - begun < 300
    assert sorted(ids for _vm, ids in fleet.approved) == sorted([event] for event in events)
    assert [line.split()[0] for line in fleet.story("dies")] == ["prepare"]
    assert [line.split()[0] for line in fleet.story("lives")] == ["prepare", "restore"]
    summary = summary_of(run)
    assert (list(summary["faults"]), summary["not_restored"]) == (["dies"], ["dies"])
    assert "dies was not restored: it could not be reached: " in run.words


LONG_PREPARATION = """
- name: Last for long on the VM that is to die
  ansible.builtin.command: sh -c "echo began >>{{ story | quote }}; sleep 600"
  when: inventory_hostname == 'dies'
"""


def test_a1_a_vm_that_vanishes_under_a_module_of_the_users_files_does_not_keep_the_others(fleet):
    """Without pipelining, Ansible removes the folder of a module after the limit of its task, without an end."""
    events = [fleet.announce("web-1"), fleet.announce("web-2")]
    fleet.settings["ANSIBLE_PIPELINING"] = "false"
    begun = time.monotonic()
    with fleet.meanwhile(lambda: "began" in fleet.story("dies"), lambda: fleet.vms.vanish("dies")):
        limits = {"event_response_ask_timeout": LIMIT, "event_response_wait_timeout": 40}
        run = fleet.respond(playbook=RESPOND, prepare=LONG_PREPARATION, **limits, event_response_prepare_timeout=120)
    assert time.monotonic() - begun < 240
    assert run.code == 2, run.out + run.err
    assert [ids for _vm, ids in fleet.approved] == [[events[1]]]
    assert [line.split()[0] for line in fleet.story("lives")] == ["prepare", "restore"]
    assert list(summary_of(run)["faults"]) == ["dies"]


def test_a1_a_report_is_made_though_the_connection_that_ssh_keeps_is_dead(fleet, tmp_path):
    fleet.announce("web-1", "web-2")
    assert fleet.run("fleetops.azure_maintenance.fleet_report", "-e", f"fleet_report_dir={tmp_path}/before").code == 0
    fleet.vms.vanish("dies")
    given = {"fleet_report_ask_timeout": LIMIT, "fleet_report_dir": str(tmp_path / "after")}
    begun = time.monotonic()
    run = fleet.run("fleetops.azure_maintenance.fleet_report", "-e", json.dumps(given))
    assert time.monotonic() - begun < 200
    report = json.loads((tmp_path / "after" / "report.json").read_text())
    states = {each["host"]: each["state"] for each in report["hosts"]}
    assert states == {"dies": "failed", "lives": "affected"}, run.out + run.err
    assert report["hosts"][0]["reason"] == "timeout"
    assert "Timed out after" in report["hosts"][0]["message"]


def test_i2_the_hosts_of_an_own_inventory_are_rehearsed_over_ssh(fleet):
    hosts = json.loads(fleet.inventory.read_text())
    for host in HOSTS:
        del hosts["all"]["hosts"][host]["azure_maintenance_endpoint"]
    fleet.inventory.write_text(json.dumps(hosts))
    files = fleet.write_files()
    given = {
        "target": "all",
        "rehearse_listen": f"{fleet.vms.address}:0",
        "rehearse_prepare": files["event_response_prepare"],
        "rehearse_restore": files["event_response_restore"],
    }
    run = fleet.run("fleetops.azure_maintenance.rehearse", "-e", json.dumps(given))
    assert run.code == 0, run.out + run.err
    for host in HOSTS:
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]
    assert fleet.azure.asked() == set()
