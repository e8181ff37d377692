# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules, and their action plugins, do at their start."""

from __future__ import annotations

import gc

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._module.interface import freeze_objects


def test_what_was_imported_is_excluded_from_garbage_collection():
    before = gc.get_freeze_count()
    try:
        freeze_objects()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


def test_a_python_without_gc_freeze_such_as_pypy_runs_a_module_too(monkeypatch):
    monkeypatch.delattr(gc, "freeze")
    freeze_objects()
