# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guard that keeps unit tests on this machine."""

from __future__ import annotations

import http.client
import socket

import pytest


@pytest.mark.parametrize("address", [("169.254.169.254", 80), ("10.0.0.1", 80), ("example.org", 80)])
def test_only_loopback_can_be_reached(no_network, address):
    for method in ("connect", "connect_ex"):
        with socket.socket() as sock, pytest.raises(AssertionError, match="only loopback"):
            getattr(sock, method)(address)
    assert no_network == [address, address]
    # Seen and wanted here; anywhere else what is left in this list fails the test.
    no_network.clear()


def test_higher_layers_are_guarded_too(no_network):
    client = http.client.HTTPConnection("169.254.169.254", timeout=1)
    with pytest.raises(AssertionError):
        client.request("GET", "/")
    no_network.clear()


def test_loopback_and_local_sockets_are_free(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=600).close()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        path = str(tmp_path / "s")
        server.bind(path)
        server.listen()
        client.connect(path)
