# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads and changes the policy of Azure for the scheduled events of a resource, from the controller."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ..plugin_utils._azure.set_policy import SPEC, set_policy
from ..plugin_utils._azure.task import run_on_controller


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        result.update(run_on_controller(self, SPEC, set_policy))
        return result
