# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module on the VM; on Windows, which runs no such module, all but the HTTP exchange is done here."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ..plugin_utils._windows.dispatch import run_module

MODULE = "fleetops.azure_maintenance.scheduled_event_approve"


class ActionModule(ActionBase):
    _supports_async = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result.update(run_module(self, MODULE, dict(self._task.args), task_vars))
        return result
