# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Serves the stand-in for AWX of tests/awx to the VMs, with a job template for them; arguments: certificate, key.

GET /stand-in/, which AWX itself does not have, answers with the requests so far; GET /stand-in/end/ ends the jobs
before.
"""

from __future__ import annotations

import json
import sys
import threading

from ansible_collections.fleetops.azure_maintenance.tests.awx import controller


class Handler(controller.Handler):
    def do_GET(self):
        if not self.path.startswith("/stand-in/"):
            super().do_GET()
            return
        awx = self.server.awx
        awx.busy = awx.busy and self.path != "/stand-in/end/"
        jobs = [{**job, "extra_vars": json.loads(job["extra_vars"])} for job in awx.jobs]
        self.reply(200, {"requests": awx.requests, "jobs": jobs, "unexpected": awx.unexpected})


def main():
    awx = controller.Awx()
    organization = awx.add("organizations", name="Default")["id"]
    inventory = awx.add("inventories", name="web", organization=organization)["id"]
    awx.hosts[inventory] = {"web-1": "169.254.169.11", "web-2": "169.254.169.12"}
    awx.add(
        "job_templates",
        name="Respond",
        organization=organization,
        inventory=inventory,
        host_config_key="k3y-of-the-template",
        ask_variables_on_launch=True,
    )
    awx.busy = True
    with controller.serve(awx, ("", 443), Handler, sys.argv[1:]):
        threading.Event().wait()


if __name__ == "__main__":
    main()
