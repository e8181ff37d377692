# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""azure.azcollection at the stand-in, with the variables that our modules read: an inventory by it is one for them."""

from __future__ import annotations

import json
import os
import sys

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.azure.conftest import run_playbook
from ansible_collections.fleetops.azure_maintenance.tests.azure.stand_in import EVENT, VM

pytestmark = pytest.mark.release

OTHER = VM.replace("web-1", "web-2")
OURS = "fleetops.azure_maintenance."
# azure.azcollection 3.12 asks the Azure CLI for the cloud at an address by a function that azure-cli-core 2.75, which
# it requires, does not have any more.
_CLOUD = """
from azure.cli.core import cloud

def get_cloud_from_metadata_endpoint(url):
    places = ("management", "resource_manager", "active_directory", "active_directory_resource_id")
    return cloud.Cloud("StandIn", endpoints=cloud.CloudEndpoints(**dict.fromkeys(places, url)))

cloud.get_cloud_from_metadata_endpoint = get_cloud_from_metadata_endpoint
"""


@pytest.fixture
def play(principal, tmp_path, monkeypatch):
    """play(TASKS) runs them once for the VMs that the inventory plugin finds, and returns their results."""
    (tmp_path / "sitecustomize.py").write_text(_CLOUD)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    # Nobody on loopback can tell whether the login endpoint is one of Microsoft's.
    monkeypatch.setenv("AZURE_DISABLE_INSTANCE_DISCOVERY", "true")
    monkeypatch.setenv("ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED", "true")
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "ansible.builtin.json")
    # Microsoft's own control plane has its address as its audience; azure.azcollection knows no other.
    principal.audiences.append(principal.url)
    for vm in (VM, OTHER):
        principal.add_resource(
            vm,
            vmId="3f2c7a51-6d0b-4c8e-9a44-0d6f1e2b7c90",
            networkProfile={"networkInterfaces": []},
            storageProfile={"osDisk": {"osType": "Linux"}},
        )
    inventory = tmp_path / "azure_rm.yml"
    inventory.write_text(
        json.dumps({"plugin": "azure.azcollection.azure_rm", "plain_host_names": True, "batch_fetch": False})
    )

    def run(*tasks):
        book = tmp_path / "book.yml"
        tasks = [{**task, "name": str(number), "run_once": True} for number, task in enumerate(tasks)]
        book.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
        ended = run_playbook(inventory, book)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        (told,) = json.loads(ended.stdout)["plays"]
        return [next(iter(task["hosts"].values())) for task in told["tasks"]]

    return run


def test_hosts_of_its_inventory_are_asked_for_as_they_are(principal, play):
    principal.add_event(EVENT, VM, ["web-1"])
    principal.add_event("743c15d8-a994-46fc-93af-b84ee33f9a14", VM.replace("web-1", "db-1"), ["db-1"])
    ids = "{{ ansible_play_hosts_all | map('extract', hostvars, 'id') }}"
    (outside,) = play({OURS + "resource_graph_events_info": {"resource_ids": ids}})
    assert [each["event_id"] for each in outside["events"]] == [EVENT]
    # One query, however many hosts there are
    assert len(principal.requests("/providers/microsoft.resourcegraph")) == 1


def test_its_modules_and_ours_change_the_same_vm_by_the_same_login(principal, play):
    policy = {"approve_user_reboot": True}
    ours, theirs = play(
        {OURS + "scheduled_events_policy": {"resource_id": VM, **policy}},
        {
            "azure.azcollection.azure_rm_resource_info": {"url": VM, "api_version": "2025-04-01"},
            # Such modules run on the hosts, which are not there.
            "delegate_to": "localhost",
            "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
        },
    )
    assert ours["changed"]
    (vm,) = theirs["response"]
    assert vm["properties"]["scheduledEventsPolicy"]["userInitiatedReboot"] == {"automaticallyApprove": True}
