# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A runbook of docs/runbooks for hosts that are this machine, each a VM of the simulator."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import CONNECTIONS, RESPOND

RUNBOOKS = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
# For hosts that can be lost
MORTAL = {"ANSIBLE_CONNECTION_PLUGINS": CONNECTIONS, "ANSIBLE_PIPELINING": "true"}
# Seconds: an event that does not come as long as a test lasts
FAR_OFF = 900


class Nowhere:
    """In place of a simulator, where the files of a runbook are run by themselves."""

    url = "http://127.0.0.1:9"


class Runbook:
    """Runs of Ansible with the files of a runbook.

    :ivar hosts: the variables of each host; a test may change them.
    :ivar others: hosts that are no VMs, such as balancers, and their variables.
    """

    def __init__(self, ansible, azure, folder, name, hosts, others=None, env=None):
        self._ansible = ansible
        self._files = {file: str(RUNBOOKS / name / f"{file}.yml") for file in ("prepare", "restore")}
        self._env = env
        self.azure = azure
        self.folder = folder
        self.hosts = hosts
        self.others = others or {}

    def run(self, *arguments, playbook=RESPOND, **variables):
        groups = {"vms": {"hosts": self.hosts}, "others": {"hosts": self.others}}
        inventory = self.folder / "inventory.json"
        shared, role = dict(LOCAL), "rehearse"
        settings = {"target": "vms"}
        if "rehearse" not in playbook:
            role = "event_response"
            settings["event_response_wait_timeout"] = 300
            # Where a host has another name than its VM, a variable of its own counts more.
            shared["azure_maintenance_endpoint"] = self.azure.url + "/vm/{{ inventory_hostname }}"
        settings.update({f"{role}_{name}": file for name, file in self._files.items()}, **variables)
        inventory.write_text(json.dumps({"all": {"vars": shared, "children": groups}}))
        argv = ["-i", str(inventory), playbook, "--extra-vars", json.dumps(settings)]
        return self._ansible("ansible-playbook", *argv, *arguments, env=self._env)

    def rehearse(self, **variables):
        return self.run(playbook="fleetops.azure_maintenance.rehearse", **variables)

    def run_files(self, host, *names, event=(), options=(), **variables):
        """As by hand, or by the checker, without maintenance_peers."""
        told = {"event_type": "Reboot", "event_id": "A1", "not_before": None, "duration_seconds": None, **dict(event)}
        phase = "announced" if "prepare" in names else "ended"
        own = {"maintenance_event": {**told, "resources": [host]}, "maintenance_phase": phase}
        play = {"hosts": host, "gather_facts": False, "vars": own}
        play["tasks"] = [{"ansible.builtin.import_tasks": self._files[name]} for name in names]
        (self.folder / "play.json").write_text(json.dumps([play]))
        return self.run(*options, playbook=str(self.folder / "play.json"), **variables)

    @property
    def started(self):
        """The VMs whose events have started and not ended."""
        events = self.azure.control("GET", "/simulator/events")["events"]
        return {vm for event in events if event["phase"] == "started" for vm in event["resources"]}

    @property
    def approved(self):
        """The VMs that have approved, in order."""
        return [vm for vm, _body in self.azure.posted()]
