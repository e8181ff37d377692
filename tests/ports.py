# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports of loopback, for programs that must be told one."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket

# Below those that the kernel gives to whoever asks for any port
_FIRST, _COUNT = 10000, 20000
_numbers = itertools.count()


def free_port():
    """Return a port on which nobody listens; tests in other processes, which run at the same time, get others."""
    while True:
        port = _FIRST + (os.getpid() * 50 + next(_numbers)) % _COUNT
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("127.0.0.1", port))
            return port
