# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Shared by the action plugins of the modules: run a module on the host, or its work on the controller for Windows."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError

from ...module_utils._module.interface import freeze_objects
from .._failure_text import tell_error
from .._unsafe import mark_unsafe

# Not where it is needed: Ansible loads an action plugin once before it makes the process for each host, and such a
# process would compile the imports anew.
from .run import run_for_windows

# Ansible imports this once, and then forks a process for each host. A garbage collection in such a process costs more
# than its task, because it writes to each object, and the kernel copies the memory that is written to.
freeze_objects()

# Points playbooks, roles and modules at a simulator.
_ENDPOINT = "azure_maintenance_endpoint"


def is_windows(action: Any) -> bool:
    """Tell whether the host of an action plugin runs Windows, by ansible-core's own test."""
    return bool(getattr(action._connection._shell, "_IS_WINDOWS", False))


def run_module(action: Any, module: str, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
    """Return the result of a module of this collection for the host of an action plugin.

    :param action: the action plugin.
    :param module: the full name of the module.
    :raises AnsibleError: Ansible cannot run a module on this host, or cannot reach it.
    """
    try:
        arguments = _with_endpoint(action, arguments, task_vars or {})
    except AnsibleError as error:
        # As a result, to which failed_when applies. Without an endpoint the real service would be asked.
        why = f"{_ENDPOINT} cannot be evaluated: {tell_error(error)}"
        told: dict[str, Any] = mark_unsafe({"failed": True, "msg": why})
        return told
    if is_windows(action):
        return run_for_windows(action, module, arguments, task_vars)
    try:
        result: dict[str, Any] = action._execute_module(
            module_name=module, module_args=arguments, task_vars=task_vars, wrap_async=action._task.async_val
        )
    except Exception:
        raise
    except BaseException:
        # The time of the task is over. Ansible would remove the folder of the module without a limit, over a connection
        # that may have died (P15).
        action._connection._shell.tmpdir = None
        raise
    return result


def _with_endpoint(action: Any, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a module, with the endpoint that the variable names where the task gives none.

    :raises AnsibleError: the variable cannot be evaluated.
    """
    if arguments.get("endpoint") or _ENDPOINT not in task_vars:
        return arguments
    endpoint = action._templar.template(task_vars[_ENDPOINT])
    return {**arguments, "endpoint": endpoint} if endpoint else arguments
