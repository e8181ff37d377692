# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Run an action plugin from another one."""

from __future__ import annotations

from typing import Any, Mapping


def load_action(action: Any, name: str, options: Mapping[str, Any]) -> Any:
    """Return the action plugin of this name for the host and the task of another one, None where there is none.

    Where the time of the task is over, Ansible removes the folder of a module that the task itself has run, without a
    limit and over a connection that may have died. It leaves that of such a plugin (P15).
    """
    task = action._task.copy()
    task.args = options
    return action._shared_loader_obj.action_loader.get(
        name,
        task=task,
        connection=action._connection,
        play_context=action._play_context,
        loader=action._loader,
        templar=action._templar,
        shared_loader_obj=action._shared_loader_obj,
    )
