# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tells on the controller which batch of which play a response is for."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ..plugin_utils._unsafe import mark_unsafe


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        # No variable tells two plays of one name and the same hosts apart.
        play = self._task.get_play()._uuid
        result.update(changed=False, play=play, hosts=mark_unsafe(list((task_vars or {})["ansible_play_batch"])))
        return result
