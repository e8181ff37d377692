# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds for all tests."""

from __future__ import annotations

import importlib

# A file with this line has no other test.
ALL_MATRIX = "\npytestmark = pytest.mark.matrix\n"


def pytest_ignore_collect(collection_path, config):
    """Do not import a file of which no test is wanted: it may need a program that none of the others starts."""
    if collection_path.suffix != ".py" or not config.option.markexpr.startswith("not matrix"):
        return None
    return ALL_MATRIX in collection_path.read_text(encoding="utf-8") or None


def pytest_configure(config):
    """Let the processes of pytest-xdist take their time to end.

    On a busy machine they need more than the ten seconds after which they are killed, and what they measured is lost.
    """
    if config.pluginmanager.hasplugin("xdist"):
        importlib.import_module("xdist.workermanage").NodeManager.EXIT_TIMEOUT = 600
