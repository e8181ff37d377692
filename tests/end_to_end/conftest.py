# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures: Ansible's programs as a user calls them, and the real simulator as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "roles" / "imds_simulator" / "files" / "imds_simulator.py"
# Where nothing listens: a forgotten endpoint must not reach 169.254.169.254, which is a real service on some networks.
NOWHERE = "http://127.0.0.1:9"
LONGEST_RUN = 300


class Run(NamedTuple):
    """How a program ended: its exit status, what it printed, and what it printed on stderr."""

    code: int
    out: str
    err: str


class Simulator:
    """A running simulator; ``url`` is where its control API is."""

    def __init__(self, process, line, stderr):
        self.url = line["url"]
        self._vms = line["vms"]
        self._process = process
        self._stderr = stderr

    def endpoint(self, vm):
        return self._vms[vm]

    def control(self, method, path, body=None):
        """One control request, such as control("POST", "/simulator/clock", {"advance": 60}), decoded."""
        payload = None if body is None else json.dumps(body).encode("ascii")
        request = urllib.request.Request(self.url + path, data=payload, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=20) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"the simulator answered HTTP {error.code}: {error.read().decode()}") from error

    def posted(self):
        """The approvals that came, as (VM, decoded body) in their order; each must have the Metadata header."""
        found = []
        for request in self.control("GET", "/simulator/journal")["requests"]:
            if request["method"] == "POST":
                headers = {name.lower(): value for name, value in request["headers"]}
                assert headers["metadata"] == "true", request
                found.append((request["vm"], json.loads(request["body"])))
        return found

    def stop(self):
        """End the process, and give what it printed on stderr."""
        self._process.terminate()
        try:
            self._process.wait(10)
        finally:
            self._process.kill()
            self._process.stdout.close()
        self._stderr.seek(0)
        return self._stderr.read().decode("utf-8", "replace")


def plain_environment():
    """This environment without the proxies, which a test sets when it is about them."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


@pytest.fixture
def simulator():
    """A factory: simulator("--vms", "web-1,web-2") starts the real program on a free port of loopback."""
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
            process.wait(10)
            process.stdout.close()
            stderr.seek(0)
            pytest.fail("the simulator did not start: " + stderr.read().decode("utf-8", "replace"))
        running.append(Simulator(process, json.loads(line), stderr))
        return running[-1]

    yield start
    printed = [one.stop() for one in running]
    assert not any(printed), "the simulator printed on stderr:\n" + "\n".join(printed)


@pytest.fixture
def ansible(tmp_path):
    """A runner: ansible("ansible-playbook", "site.yml") calls the program that PATH has, with a home of its own."""
    return runner(tmp_path / "home")


@pytest.fixture(scope="module")
def ansible_once(tmp_path_factory):
    """The same for what all tests of a module share."""
    return runner(tmp_path_factory.mktemp("shared") / "home")


def runner(home):
    home.mkdir()
    assert os.environ.get("ANSIBLE_COLLECTIONS_PATH"), "ANSIBLE_COLLECTIONS_PATH must say where the collection lies"

    def run(*argv, env=None, cwd=None):
        settings = {
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "true",
            "AZURE_IMDS_ENDPOINT": NOWHERE,
        }
        ended = subprocess.run(
            argv,
            cwd=cwd or home,
            env={**plain_environment(), **settings, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=LONGEST_RUN,
            check=False,
        )
        return Run(ended.returncode, ended.stdout, ended.stderr)

    return run
