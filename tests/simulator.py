# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real simulator as a process, for every test that needs one."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "roles" / "imds_simulator" / "files" / "imds_simulator.py"

Reply = namedtuple("Reply", "status headers body")


class ControlError(Exception):
    """The control API refused a request; ``status`` and ``error`` say why."""

    def __init__(self, status, error):
        super().__init__(f"HTTP {status}: {error}")
        self.status = status
        self.error = error


class Simulator:
    """A running simulator: its process, the line it printed, and a small client that shares nothing with ours."""

    def __init__(self, process, line, stderr):
        self.process = process
        self.line = line
        self.url = line["url"]
        self._stderr = stderr
        self._said = ""

    def endpoint(self, vm):
        return self.line["vms"][vm]

    def control(self, method, path, body=None):
        """One control request, such as control("POST", "/simulator/clock", {"advance": 60}), decoded."""
        payload = None if body is None else json.dumps(body).encode("ascii")
        reply = self.request(method, self.url + path, payload)
        value = json.loads(reply.body)
        if reply.status >= 400:
            raise ControlError(reply.status, value["error"])
        return value

    def get(self, vm, path, headers=None):
        """A GET by a VM, raw. ``path`` begins with /metadata/; without ``headers`` there is Metadata: true."""
        return self.request(
            "GET", self.endpoint(vm) + path, headers={"Metadata": "true"} if headers is None else headers
        )

    def vm_id(self, vm):
        """The id of a VM, as its instance metadata tells it."""
        return json.loads(self.get(vm, "/metadata/instance/compute?api-version=2021-02-01").body)["vmId"]

    def post(self, vm, path, body, headers=None):
        headers = {"Metadata": "true"} if headers is None else headers
        return self.request("POST", self.endpoint(vm) + path, body, headers)

    def request(self, method, url, body=None, headers=None, timeout=600):
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        try:
            connection.request(method, url[url.index(parts.netloc) + len(parts.netloc) :], body, headers or {})
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def posted(self):
        """The approvals that came, as (VM, decoded body) in their order; each must have the Metadata header."""
        found = []
        for request in self.control("GET", "/simulator/journal")["requests"]:
            if request["method"] == "POST":
                headers = {name.lower(): value for name, value in request["headers"]}
                assert headers["metadata"] == "true", request
                found.append((request["vm"], json.loads(request["body"])))
        return found

    def asked(self):
        """The VMs that asked for the document."""
        requests = self.control("GET", "/simulator/journal")["requests"]
        return {one["vm"] for one in requests if one["method"] == "GET" and "/scheduledevents" in one["path"]}

    def announce(self, event_type, *resources, **more):
        """Announce an event, and return its id."""
        event = {"event_type": event_type, "resources": list(resources), **more}
        return self.control("POST", "/simulator/events", event)["event_id"]

    def inventory(self, vms, folder):
        """Lines of an inventory: each VM has an interpreter that sees the endpoint of this VM, as a real one would."""
        lines = ""
        for vm in vms:
            python = folder / f"python-of-{vm}"
            python.write_text(
                f'#!/bin/sh\nAZURE_IMDS_ENDPOINT={self.endpoint(vm)} exec {shlex.quote(sys.executable)} "$@"\n'
            )
            python.chmod(0o755)
            lines += f"{vm} ansible_connection=local ansible_python_interpreter={python}\n"
        return lines

    def stop(self):
        """End the process, if it still runs, and give what it printed on stderr. May be called again."""
        self.process.terminate()
        try:
            self.process.wait(600)
        finally:
            self.process.kill()
            self.process.stdout.close()
        if not self._stderr.closed:
            with self._stderr:
                self._stderr.seek(0)
                self._said = self._stderr.read().decode("utf-8", "replace")
        return self._said


def plain_environment():
    """This environment without the proxies, which a test sets when it is about them."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


@contextlib.contextmanager
def launcher():
    """Gives a function that starts simulators; ends them all, and fails when one of them printed on stderr."""
    running = []

    def start(*arguments):
        # A file, not a pipe, which would block the program once it is full.
        stderr = tempfile.TemporaryFile()  # noqa: SIM115  # pylint: disable=consider-using-with
        process = subprocess.Popen(  # pylint: disable=consider-using-with
            [sys.executable, "-B", str(PROGRAM), "--listen", "127.0.0.1:0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=plain_environment(),
        )
        line = process.stdout.readline()
        if not line:
            process.wait(600)
            process.stdout.close()
            stderr.seek(0)
            pytest.fail("the simulator did not start: " + stderr.read().decode("utf-8", "replace"))
        running.append(Simulator(process, json.loads(line), stderr))
        return running[-1]

    printed = []
    try:
        yield start
    finally:
        printed += [one.stop() for one in running]
    assert not any(printed), "the simulator printed on stderr:\n" + "\n".join(printed)
