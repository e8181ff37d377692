# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the playbook respond whenever a checker calls AWX or ansible-rulebook.

AWX is the stand-in of tests/awx, and ansible-runner runs its jobs. Arguments: a folder with a certificate and an
inventory, in which jobs leave their output; a network namespace. All ends when that has been removed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.awx import controller

PROJECT = Path(controller.__file__).parents[2] / "examples" / "awx_project"


class Awx(controller.Awx):
    """Runs its jobs, number N in the folder job-N."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder

    def start(self, item, given, **more):
        job, headers = super().start(item, given, **more)
        private = self._folder / f"job-{len(self.jobs)}"
        (private / "env").mkdir(parents=True)
        (private / "env" / "extravars").write_text(job["extra_vars"])
        (private / "inventory").symlink_to(self._folder / "inventory")
        (private / "project").symlink_to(PROJECT)
        run("ansible-runner", "run", private, "--playbook", item["playbook"], "--ident", "run", "--quiet")
        return job, headers


def run(*command):
    subprocess.Popen(command, stdin=subprocess.DEVNULL)


def new_awx(folder):
    awx = Awx(folder)
    organization = awx.add("organizations", name="Default")["id"]
    inventory = awx.add("inventories", name="vms", organization=organization)["id"]
    template = awx.add(
        "job_templates",
        name="Respond",
        organization=organization,
        inventory=inventory,
        playbook="respond.yml",
        extra_vars=json.dumps({"target": "vms", "event_response_prepare": "checker", "event_response_restore": ""}),
        survey_enabled=True,
    )
    question = {"variable": "event_response_event_ids", "type": "textarea", "required": False}
    awx.surveys[template["id"]] = {"spec": [question]}
    return awx


def main():
    folder, network = map(Path, sys.argv[1:])
    os.setsid()
    tls = {"webhook_certfile": str(folder / "tls.pem"), "webhook_keyfile": str(folder / "tls.key")}
    variables = folder / "variables.json"
    variables.write_text(json.dumps({"target": "vms", "webhook_token": controller.TOKEN, **tls}))
    rulebook = "fleetops.azure_maintenance.checker_webhook_respond"
    run("ansible-rulebook", "--rulebook", rulebook, "--inventory", folder / "inventory", "--vars", variables)
    with controller.serve(new_awx(folder), ("", 8052), certificate=tls.values()):
        while network.exists():
            time.sleep(1)
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
