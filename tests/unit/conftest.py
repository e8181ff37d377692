# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for all unit tests: the real simulator as a process, and no way out to the network."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
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

    def post(self, vm, path, body, headers=None):
        headers = {"Metadata": "true"} if headers is None else headers
        return self.request("POST", self.endpoint(vm) + path, body, headers)

    def request(self, method, url, body=None, headers=None, timeout=20):
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        try:
            connection.request(method, url[url.index(parts.netloc) + len(parts.netloc) :], body, headers or {})
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def stop(self):
        """End the process, if it still runs, and give what it printed on stderr."""
        self.process.terminate()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.stdout.close()
        self._stderr.seek(0)
        return self._stderr.read().decode("utf-8", "replace")


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
            env={name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
        )
        line = process.stdout.readline()
        if not line:
            process.wait(10)
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


@pytest.fixture
def simulator():
    """A factory: simulator("--vms", "web-1,web-2") starts the real program on a free port of loopback."""
    with launcher() as start:
        yield start


@pytest.fixture(scope="module")
def lasting_simulator():
    """The same for tests that leave no trace in the simulator: what it starts lives as long as the test module."""
    with launcher() as start:
        yield start


class NoNetworkError(AssertionError):
    """A test tried to leave this machine."""


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """No unit test may leave this machine: 169.254.169.254 is a real service on some networks."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
    attempts = []

    def check(sock, address):
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        host = address[0]
        try:
            inside = ipaddress.ip_address(host.partition("%")[0]).is_loopback
        except ValueError:
            inside = host == "localhost"
        if not inside:
            attempts.append(address)
            raise NoNetworkError(f"a unit test tried to connect to {address!r}; only loopback is allowed")

    def guarded_connect(self, address):
        check(self, address)
        return connect(self, address)

    def guarded_connect_ex(self, address):
        check(self, address)
        return connect_ex(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    yield attempts
    # Code under test may have caught the exception.
    assert not attempts, f"a unit test tried to connect to {attempts}; only loopback is allowed"
