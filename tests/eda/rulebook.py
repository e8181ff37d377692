# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real ansible-rulebook as a process, with a playbook that writes down what it is given, and a stand-in for AWX."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from ansible_collections.fleetops.azure_maintenance.tests.quiet_handler import QuietHandler
from ansible_collections.fleetops.azure_maintenance.tests.simulator import ROOT, plain_environment

# Seconds. Ends what hangs; no test judges by it.
LONGEST_WAIT = 600
# Where nothing listens: a forgotten endpoint must not reach 169.254.169.254.
NOWHERE = "http://127.0.0.1:9"

NOTE = """
- name: Write down what the playbook is given
  hosts: all
  gather_facts: false
  tasks:
    - name: Append a line
      ansible.builtin.shell:
        cmd: cat >>"$JOURNAL"
        stdin: "{{ what | combine({'kind': 'KIND', 'host': inventory_hostname}) | to_json }}"
      environment: {JOURNAL: "{{ journal }}"}
      vars:
        what:
          maintenance_event: "{{ maintenance_event }}"
          maintenance_phase: "{{ maintenance_phase }}"
          maintenance_outcome: "{{ maintenance_outcome }}"
          whole_event: "{{ ansible_eda.event }}"
"""


FAULTS = [
    {"fault": "status", "status": 500},
    {"fault": "status", "status": 410},
    {"fault": "throttle"},
    {"fault": "empty"},
    {"fault": "garbage"},
    {"fault": "proxy_page"},
    {"fault": "truncated"},
    {"fault": "reset"},
    {"fault": "hold", "seconds": 1},
]


def inject_faults(azure, seconds):
    """Let a simulator answer with one fault after the other for so long, and then truly again."""
    choice = random.Random(1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        azure.control("POST", "/simulator/faults", {**choice.choice(FAULTS), "times": choice.randint(1, 3)})
        time.sleep(1)
    azure.control("DELETE", "/simulator/faults")


def polls(azure):
    """How often a simulator was asked for the document."""
    requests = azure.control("GET", "/simulator/journal")["requests"]
    return len([one for one in requests if "/scheduledevents" in one["path"] and one["status"] is not None])


class Rulebook:
    """An ansible-rulebook that runs."""

    def __init__(self, process, folder):
        self.process = process
        self._folder = folder

    def ran(self):
        """What the playbooks were given, in their order."""
        journal = self._folder / "journal"
        return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []

    def said(self):
        return (self._folder / "printed").read_text()

    def wait_for(self, what, condition):
        """Wait until the condition holds, and return its value."""
        end = time.monotonic() + LONGEST_WAIT
        while True:
            value = condition()
            if value:
                return value
            assert self.process.poll() is None, f"ansible-rulebook has ended, before {what}:\n{self.said()}"
            assert time.monotonic() < end, f"no {what} within {LONGEST_WAIT} s:\n{self.said()}"
            time.sleep(0.1)

    def wait_for_runs(self, number):
        return self.wait_for(f"run {number} of a playbook", lambda: len(self.ran()) >= number and self.ran())


@contextlib.contextmanager
def rulebook(folder, name, variables=None, env=None):
    """Run a rulebook, with an inventory of the VMs web-1 and web-2, until the context ends."""
    for kind in ("prepare", "restore"):
        (folder / f"{kind}.yml").write_text(NOTE.replace("KIND", kind))
    python = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    journal = f"journal={folder / 'journal'}"
    (folder / "inventory").write_text(f"web-1 {python} {journal}\nweb-2 {python} {journal}\n")
    given = {"prepare_playbook": "prepare.yml", "restore_playbook": "restore.yml", **(variables or {})}
    (folder / "variables.yml").write_text(json.dumps(given))
    (folder / "home").mkdir()
    settings = {
        "HOME": str(folder / "home"),
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
        "LC_ALL": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT.parents[2]),
        "AZURE_IMDS_ENDPOINT": NOWHERE,
        "EDA_JOB_TEMPLATE_REFRESH_DELAY": "0.5",
        "EDA_SHUTDOWN_DELAY": "2",
    }
    with open(folder / "printed", "wb") as printed:
        process = subprocess.Popen(
            ["ansible-rulebook", "-r", str(name), "-i", "inventory", "-e", "variables.yml"],
            cwd=folder,
            env={**plain_environment(), **settings, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )
    try:
        yield Rulebook(process, folder)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Awx:
    """Answers as AWX's API does, as far as the action run_job_template asks it. Every other request fails the test."""

    def __init__(self, *templates):
        self.launched = []
        self.unexpected = []
        self._templates = templates
        self._jobs = {}
        awx = self

        class Handler(QuietHandler):
            def do_GET(self):
                parts = urlsplit(self.path)
                query = {key: one for key, (one,) in parse_qs(parts.query).items()}
                self.reply(*awx._noted(self, *awx._get(parts.path, query)))

            def do_POST(self):
                self.reply(*awx._noted(self, *awx._post(self.path, self.read_json(), self.headers["Authorization"])))

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def _noted(self, handler, status, content):
        if status >= 400:
            self.unexpected.append(f"{handler.command} {handler.path}")
        return status, content

    def _get(self, path, query):
        if path == "/api/v2/config/":
            return 200, {"version": "24.6.1"}
        if path == "/api/v2/unified_job_templates/":
            found = [self._template(name) for name in self._templates if name == query["name"]]
            return 200, {"count": len(found), "next": None, "results": found}
        if path == "/api/v2/jobs/":
            jobs = [self._jobs[int(number)] for number in query["id__in"].split(",")]
            return 200, {"count": len(jobs), "next": None, "results": jobs}
        return 404, {"detail": "Not found."}

    def _template(self, name):
        number = 7 + self._templates.index(name)
        asks = {
            f"ask_{what}_on_launch": what in ("limit", "variables")
            for what in ("limit", "labels", "inventory", "variables")
        }
        return {
            "id": number,
            "type": "job_template",
            "name": name,
            "related": {"launch": f"/api/v2/job_templates/{number}/launch/"},
            "summary_fields": {"organization": {"name": "Default"}},
            **asks,
        }

    def _post(self, path, content, authorization):
        for name in self._templates:
            if path == self._template(name)["related"]["launch"] and authorization == "Bearer secret-of-awx":
                number = 41 + len(self._jobs)
                self.launched.append({"template": name, **content})
                job = {"id": number, "type": "job", "status": "successful", "created": "2026-11-21T10:00:00Z"}
                self._jobs[number] = {**job, "artifacts": {}, "url": f"/api/v2/jobs/{number}/"}
                return 201, self._jobs[number]
        return 403, {"detail": "You do not have permission to perform this action."}

    def close(self):
        self._server.shutdown()
        self._server.server_close()
