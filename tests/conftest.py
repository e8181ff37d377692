# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds for all tests."""

from __future__ import annotations

import importlib


def pytest_configure(config):
    """Let the processes of pytest-xdist take their time to end.

    On a busy machine they need more than the ten seconds after which they are killed, and what they measured is lost.
    """
    if config.pluginmanager.hasplugin("xdist"):
        importlib.import_module("xdist.workermanage").NodeManager.EXIT_TIMEOUT = 600
