# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet for the tests of the role event_response: hosts that can be lost, and the simulator that they ask."""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
from collections import Counter
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks
from ansible_collections.fleetops.azure_maintenance.tests.beside import beside
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import LONGEST_RUN

CONNECTIONS = str(Path(__file__).with_name("connection"))
ROLE = "fleetops.azure_maintenance.event_response"
RESPOND = "fleetops.azure_maintenance.respond"
HOSTS = {"host-a": "web-1", "host-b": "web-2", "host-c": "web-3"}
# Seconds: longer than a run may take; of an event that is due, but comes only when time passes; of one that lasts
FAR_OFF = 90000
DUE = 1
LONG = 100
# By raw, which starts no Python on the host
NOTE = """
- name: Note it
  ansible.builtin.raw: echo {words} >>{{{{ story | quote }}}}
"""
PREPARE = NOTE.format(words="prepare {{ inventory_hostname }} {{ maintenance_event.event_type }}")
RESTORE = NOTE.format(
    words="restore {{ inventory_hostname }} {{ maintenance_event.event_type }} {{ maintenance_outcome or '-' }}"
)

# A Python of a host that reads its boot id from a file of the test
OTHER_BOOT_ID = """
import builtins
plain_open = builtins.open
def open(file, *arguments, **options):
    return plain_open({boot!r} if file == "/proc/sys/kernel/random/boot_id" else file, *arguments, **options)
builtins.open = open
"""


def left_by_killed_run(event, vm_id, run="0a1b"):
    """Return the file of the mark of a VM that a run has prepared before it was killed: name and content."""
    told = {"controller": "control", "user": "anna", "job": "812", "run": run, "vm_id": vm_id}
    mark = marks.new_mark(marks.RUN, event, "2026-11-21T17:32:00Z", **told)
    return marks.file_name(mark), marks.encode({**mark, "state": marks.PREPARED})


def summary_of(run):
    """Return what the run tells the next node of a workflow, where the indentation of the output is lost."""
    told = run.out.split("CUSTOM STATS", 1)[1].split("RUN: ", 1)[1]
    return json.loads(" ".join(told.split()))["event_response"]


class Fleet:
    """Hosts of an inventory, each a VM of the simulator, and what the play made of them.

    The simulator's time stands still: an event that is approved is over at once, unless it is announced otherwise, and
    any other comes when the test lets time pass.
    """

    def __init__(self, ansible, simulator, folder, hosts, vms):
        self._ansible = ansible
        self.folder = folder
        self.settings = {}
        self.azure = simulator("--vms", ",".join(vms.values()), "--clock", "manual")
        inventory = {
            host: {
                "ansible_connection": "mortal",
                "ansible_python_interpreter": sys.executable,
                "up_file": str(folder / f"{host}.up"),
                "story": str(folder / f"{host}.story"),
                "simulator": self.azure.url,
                "azure_maintenance_endpoint": self.azure.endpoint(vms[host]),
            }
            for host in hosts
        }
        for host in hosts:
            (folder / f"{host}.up").touch()
        self.inventory = folder / "inventory.json"
        self.inventory.write_text(json.dumps({"all": {"hosts": inventory}}))

    def set(self, host, **variables):
        """Give a host these variables, also one that is new."""
        inventory = json.loads(self.inventory.read_text())
        inventory["all"]["hosts"].setdefault(host, {}).update(variables)
        self.inventory.write_text(json.dumps(inventory))

    def put_into(self, group, *hosts):
        """Put these hosts into a group of the inventory."""
        inventory = json.loads(self.inventory.read_text())
        inventory[group] = {"hosts": {host: {} for host in hosts}}
        self.inventory.write_text(json.dumps(inventory))

    def give_boot_id(self, host):
        """Let this host have a boot id of its own; returns the file that holds it."""
        boot = self.folder / f"{host}.boot"
        boot.write_text("boot-1\n")
        modules = self.folder / f"{host}.modules"
        modules.mkdir()
        (modules / "sitecustomize.py").write_text(OTHER_BOOT_ID.format(boot=str(boot)))
        python = self.folder / f"{host}.python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={modules} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        self.set(host, ansible_python_interpreter=str(python))
        return boot

    def announce(self, *resources, event_type="Reboot", **more):
        return self.azure.announce(event_type, *resources, **{"start_delay": 0, "started_for": 0, **more})

    def respond(self, *arguments, prepare="", restore="", play=None, playbook=None, **variables):
        """Run a play with the role, or a playbook, with further tasks of prepare and restore; returns the run."""
        settings = self.write_files(prepare, restore, **variables)
        content = {"hosts": "all", "gather_facts": False, "roles": [ROLE], **(play or {})}
        (self.folder / "play.json").write_text(json.dumps([content]))
        return self.run(playbook or str(self.folder / "play.json"), "--extra-vars", json.dumps(settings), *arguments)

    def respond_in_turn(self, *plays):
        """Run a playbook of these plays; where one is a mapping without hosts, respond with these variables."""
        plays = [
            play if "hosts" in play else {"import_playbook": RESPOND, "vars": self.write_files(**play)}
            for play in plays
        ]
        (self.folder / "site.json").write_text(json.dumps(plays))
        return self.run(str(self.folder / "site.json"))

    def write_files(self, prepare="", restore="", **variables):
        """Write the files of tasks, with these further ones; returns the variables of the role."""
        (self.folder / "prepare.yml").write_text(PREPARE + textwrap.dedent(prepare))
        (self.folder / "restore.yml").write_text(RESTORE + textwrap.dedent(restore))
        return {
            "event_response_prepare": str(self.folder / "prepare.yml"),
            "event_response_restore": str(self.folder / "restore.yml"),
            "event_response_wait_timeout": LONGEST_RUN,
            "event_response_reconnect_timeout": 1,
            **variables,
        }

    def run(self, *arguments):
        env = {
            "ANSIBLE_CONNECTION_PLUGINS": CONNECTIONS,
            "ANSIBLE_SHOW_CUSTOM_STATS": "true",
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_ROLES_PATH": str(self.folder / "roles"),
            **self.settings,
        }
        return self._ansible("ansible-playbook", "-i", str(self.inventory), *arguments, env=env)

    def pass_time(self, seconds):
        self.azure.control("POST", "/simulator/clock", {"advance": seconds})

    @contextlib.contextmanager
    def meanwhile(self, condition, act):
        """Do this, beside the run, as soon as the condition holds; it must hold before the run is over."""

        def live(over):
            while not done and not over.wait(0.1):
                if condition():
                    act()
                    done.append(True)

        done = []
        with beside(live):
            yield
        assert done, "it did not come to that"

    @contextlib.contextmanager
    def coming(self, *vms, seconds):
        """Let time pass whenever each of these VMs has asked once more, from the third time on.

        A VM asks before it prepares, before the decision and while it waits; one whose answer came too late asks again.
        """

        def live(over):
            passed = 0
            while not over.wait(0.1):
                requests = self.azure.control("GET", "/simulator/journal")["requests"]
                asked = Counter(one["vm"] for one in requests if "/metadata/scheduledevents" in one["path"])
                if min(asked[vm] for vm in vms) - 2 > passed:
                    self.pass_time(seconds)
                    passed += 1

        with beside(live):
            yield

    def is_one_started(self):
        """Tell whether Azure has started an event that is not over."""
        return "started" in {event["phase"] for event in self.azure.control("GET", "/simulator/events")["events"]}

    @contextlib.contextmanager
    def rebooting(self, *hosts):
        """Take these hosts down when their event starts; it ends, and they come up, when each was missed."""
        ups = [self.folder / f"{host}.up" for host in hosts]
        missed = [self.folder / f"{host}.up.missed" for host in hosts]

        def go_down():
            for up in ups:
                up.unlink()

        def come_up():
            self.pass_time(LONG)
            for up in ups:
                up.touch()

        all_missed = self.meanwhile(lambda: all(path.exists() for path in missed), come_up)
        with self.meanwhile(self.is_one_started, go_down), all_missed:
            yield

    def story(self, host):
        path = self.folder / f"{host}.story"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def approved(self):
        """Who approved what, in order."""
        return [(vm, [each["EventId"] for each in body["StartRequests"]]) for vm, body in self.azure.posted()]
