# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the action plugins and the modules share."""

from __future__ import annotations

import gc

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._module import keep_imports


def test_the_collector_passes_over_what_is_there():
    before = gc.get_freeze_count()
    try:
        keep_imports()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


def test_a_python_with_another_collector_such_as_pypy_runs_a_module_too(monkeypatch):
    monkeypatch.delattr(gc, "freeze")
    keep_imports()
