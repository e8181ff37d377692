# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module on the VM; on Windows, which runs no such module, all but the HTTP exchange is done here."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ..plugin_utils._text_input import tell_empty_list
from ..plugin_utils._windows.dispatch import run_module

MODULE = "fleetops.azure_maintenance.scheduled_event_approve"
_CONDITIONS = ("event_ids", "event_id", "event_types", "event_sources")
_INCARNATION = "document_incarnation"


class ActionModule(ActionBase):
    _supports_async = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        faults = [fault for name in _CONDITIONS for fault in tell_empty_list(name, arguments.get(name))]
        if faults:
            result.update(failed=True, msg=" ".join(faults), in_doubt=False)
            return result
        if arguments.get(_INCARNATION, "") is None:
            # The answer by which the caller has decided had none, so there is no document that could be the same.
            arguments[_INCARNATION] = ""
        result.update(run_module(self, MODULE, arguments, task_vars))
        return result
