# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for all unit tests: the real simulator as a process, and no way out to the network."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.simulator import launcher


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
            # http.client closes it after an OSError only.
            sock.close()
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
