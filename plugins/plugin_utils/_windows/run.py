# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The modules' work for a Windows VM: on the controller, with the same code as on Linux, but for the HTTP exchange."""

from __future__ import annotations

import json
from typing import Any, Callable, Mapping

from ansible.constants import config
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError

from ...module_utils._approval.approve import run_approval
from ...module_utils._event.marks import tell_faults
from ...module_utils._module.info import get_info
from ...module_utils._module.interface import approve_argument_spec, end_module, info_argument_spec, make_client
from .._load_action import load_action
from .._unsafe import mark_unsafe
from .marks import find_folder, read_marks, remove_mark, update_mark, write_mark
from .transport import IN_DOUBT, INSTALL, POLL_INTERVAL, WindowsHostError, WindowsTransport, read_boot_time

_ENDPOINT = "AZURE_IMDS_ENDPOINT"
_RUNAS = "runas"
# Where the libraries of the connections have their errors; those of requests are errors of the operating system.
_OF_CONNECTIONS = ("http", "pypsrp", "requests", "requests_credssp", "spnego", "urllib3", "winrm", "xml")
# What the connection winrm says as AnsibleError, and not as AnsibleConnectionFailure
_LOST_BY_WINRM = ("winrm send_input failed", "the connection attempt timed out")

Work = Callable[["_Rim", WindowsTransport], "dict[str, Any]"]


class _Rim:
    """Stands in for AnsibleModule."""

    def __init__(self, params: dict[str, Any], check_mode: bool, tells_params: bool) -> None:
        self.params = params
        self.check_mode = check_mode
        self._tells_params = tells_params
        self.warnings: list[str] = []
        self.result: dict[str, Any] = {}

    def warn(self, warning: str) -> None:
        self.warnings.append(warning)

    def exit_json(self, **result: Any) -> None:
        self.result = {**result, "invocation": {"module_args": self.params}} if self._tells_params else result
        if self.warnings:
            self.result["warnings"] = self.warnings

    def fail_json(self, **result: Any) -> None:
        self.exit_json(failed=True, **result)


def _modules_tell_params(task_vars: dict[str, Any] | None) -> bool:
    """Return whether modules add their options to the result: since ansible-core 2.21 that is a setting."""
    setting = "INJECT_INVOCATION"
    return not config.get_configuration_definition(setting) or config.get_config_value(setting, variables=task_vars)


def _get_info(rim: _Rim, transport: WindowsTransport) -> dict[str, Any]:
    # The modules of ansible.windows that tell a boot from the next take seconds, and are used for nothing else.
    return get_info(rim.params, make_client(rim.params, transport), rim.warn, boot_id=None)


def _approve(rim: _Rim, transport: WindowsTransport) -> dict[str, Any]:
    return run_approval(rim.params, make_client(rim.params, transport), rim.warn, rim.check_mode, POLL_INTERVAL)


_WORK: dict[str, tuple[Callable[[], dict[str, Any]], Work]] = {
    "fleetops.azure_maintenance.scheduled_event_approve": (approve_argument_spec, _approve),
    "fleetops.azure_maintenance.scheduled_events_info": (info_argument_spec, _get_info),
}


def run_for_windows(
    action: Any, module: str, arguments: Mapping[str, Any], task_vars: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the result of a module for the host of an action plugin, as the module would return it.

    :param action: the action plugin.
    :param module: the full name of the module.
    :param arguments: the options as the task has them.
    :raises AnsibleConnectionFailure: the host cannot be reached, or was lost meanwhile.
    :raises AnsibleError: Ansible cannot run a module on this host.
    """
    spec, work = _WORK[module]
    rim = _Rim({}, action._task.check_mode, _modules_tell_params(task_vars))
    runner = _Runner(action, task_vars)
    try:
        _refuse_unsupported(action)
        _validate(action, module, spec(), arguments, rim)
        transport = WindowsTransport(rim.params["endpoint"], rim.params["connect_timeout"], runner.run)
        end_module(rim, lambda: work(rim, transport))
    except (WindowsHostError, _RefusedError) as error:
        said = str(error)
        if runner.posted:
            rim.fail_json(msg=said if IN_DOUBT in said else f"{said} {IN_DOUBT}", in_doubt=True)
        else:
            rim.fail_json(msg=said)
    result: dict[str, Any] = mark_unsafe(rim.result)
    return result


def tell_boot_time(action: Any, task_vars: dict[str, Any] | None) -> dict[str, Any]:
    """Return as ``booted_at`` when the Windows host of an action plugin booted, in seconds since 1970.

    :raises AnsibleConnectionFailure: the host cannot be reached, or was lost meanwhile.
    :raises AnsibleError: Ansible cannot run a module on this host.
    """
    return _ask(action, task_vars, lambda runner: {"booted_at": read_boot_time(runner.run)})


def tell_marks(action: Any, task_vars: dict[str, Any] | None, vm_id: str | None) -> dict[str, Any]:
    """Return as ``marks`` those on the Windows host of an action plugin, with ``folder`` and ``warnings``.

    :param vm_id: of the host, None where it is not known.
    :raises AnsibleConnectionFailure: the host cannot be reached, or was lost meanwhile.
    :raises AnsibleError: Ansible cannot run a module on this host.
    """

    def ask(runner: _Runner) -> dict[str, Any]:
        folder = find_folder(runner.run)
        marks, faults = read_marks(runner.run, folder, vm_id)
        return {"marks": marks, "folder": folder, "warnings": tell_faults(faults)}

    return _ask(action, task_vars, ask)


def write_windows_mark(
    action: Any, task_vars: dict[str, Any] | None, mark: Mapping[str, Any], folder: str | None
) -> tuple[str | None, dict[str, str]]:
    """Do as write_mark() of _step/mark_files.py on a Windows host.

    :param folder: as tell_marks() returned it.
    """

    def ask(runner: _Runner) -> dict[str, Any]:
        why, others = write_mark(runner.run, runner.run_action, mark, folder)
        return {"msg": why, "others": others}

    told = _ask(action, task_vars, ask)
    return told["msg"], told.get("others", {})


def update_windows_mark(
    action: Any, task_vars: dict[str, Any] | None, mark: Mapping[str, Any]
) -> tuple[str | None, bool]:
    """Do as update_mark() of _step/mark_files.py on a Windows host."""

    def ask(runner: _Runner) -> dict[str, Any]:
        why, was_there = update_mark(runner.run, runner.run_action, mark)
        return {"msg": why, "was_there": was_there}

    told = _ask(action, task_vars, ask)
    return told["msg"], told.get("was_there", True)


def remove_windows_mark(action: Any, task_vars: dict[str, Any] | None, mark: Mapping[str, Any]) -> str | None:
    """Do as remove_marks() of _step/mark_files.py on a Windows host."""
    why: str | None = _ask(action, task_vars, lambda runner: {"msg": remove_mark(runner.run, mark)})["msg"]
    return why


def _ask(
    action: Any, task_vars: dict[str, Any] | None, question: Callable[[_Runner], dict[str, Any]]
) -> dict[str, Any]:
    try:
        _refuse_unsupported(action)
        told = question(_Runner(action, task_vars))
    except (WindowsHostError, _RefusedError) as error:
        told = {"failed": True, "msg": str(error)}
    unsafe: dict[str, Any] = mark_unsafe(told)
    return unsafe


class _RefusedError(Exception):
    """An option of the task cannot be used; the message says how to change it."""


def _refuse_unsupported(action: Any) -> None:
    if action._task.async_val:
        raise _RefusedError(
            "async cannot be used with Windows hosts, because it runs on the controller. Leave async out for them."
        )
    become = action._connection.become
    method = str(become.name).rpartition(".")[2] if become else _RUNAS
    if method != _RUNAS:
        raise _RefusedError(
            f"become_method must be {_RUNAS} on a Windows host, not {method}. The task needs no other user there: set "
            "ansible_become to false for Windows hosts, or ansible_become_method to runas."
        )


def _validate(action: Any, module: str, spec: dict[str, Any], arguments: Mapping[str, Any], rim: _Rim) -> None:
    """Give the rim the module's options, as AnsibleModule would have read them on the VM.

    :raises _RefusedError: one of them is wrong; the message is AnsibleModule's.
    """
    environment: dict[str, Any] = {}
    action._compute_environment_string(environment)
    # The environment of this process is the controller's, and not the VM's.
    endpoint = spec["endpoint"]
    del endpoint["fallback"]
    if _ENDPOINT in environment:
        endpoint["default"] = str(environment[_ENDPOINT])
    # A module gets its options as JSON.
    plain = json.loads(json.dumps(dict(arguments), default=str))
    validation = ArgumentSpecValidator(spec).validate(plain)
    for both in validation._warnings:
        rim.warn(f"Both option {both['option']} and its alias {both['alias']} are set.")
    rim.params = validation.validated_parameters
    if validation.error_messages:
        message = validation.errors.msg
        if isinstance(validation.errors[0], UnsupportedError):
            message = f"Unsupported parameters for ({module}) module: {message}"
        raise _RefusedError(message)
    if rim.params["discover_endpoint"]:
        raise _RefusedError(
            "discover_endpoint cannot be used with Windows hosts, which keep their DHCP leases where no module reads "
            "them. Set endpoint instead."
        )


class _Runner:
    """Runs modules of ansible.windows on the host of an action plugin.

    :ivar posted: an approval was sent, or may have been.
    """

    def __init__(self, action: Any, task_vars: dict[str, Any] | None) -> None:
        self._action = action
        self._task_vars = task_vars
        self.posted = False

    def run(self, module: str, options: dict[str, Any]) -> Mapping[str, Any]:
        self.posted = self.posted or options.get("url_method") == "POST"
        return self._run(
            module,
            lambda: self._action._execute_module(module_name=module, module_args=options, task_vars=self._task_vars),
        )

    def run_action(self, module: str, options: dict[str, Any]) -> Mapping[str, Any]:
        """Run a module by the action plugin of the same name."""

        def run() -> Mapping[str, Any]:
            action = load_action(self._action, module, options)
            if action is None:
                raise AnsibleError(f"There is no action plugin {module}.")
            result: Mapping[str, Any] = action.run(task_vars=self._task_vars)
            return result

        return self._run(module, run)

    def _run(self, module: str, call: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        try:
            result = call()
        except AnsibleConnectionFailure as error:
            raise self._lost(error) from error
        except AnsibleError as error:
            if str(error).startswith(_LOST_BY_WINRM):
                raise self._lost(error) from error
            if not self._is_installed(module):
                raise WindowsHostError(
                    f"Windows hosts need the collection ansible.windows on the controller, which has no {module}: "
                    f"{INSTALL}"
                ) from error
            raise
        except Exception as error:
            # Of the connections, psrp and winrm let errors of their libraries through where a host goes away.
            if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in _OF_CONNECTIONS:
                raise
            raise self._lost(error) from error
        return result

    def _is_installed(self, module: str) -> bool:
        found = self._action._shared_loader_obj.module_loader.find_plugin_with_context(module, ".ps1")
        return bool(found.resolved)

    def _lost(self, error: Exception) -> AnsibleConnectionFailure:
        sent = " after an approval had been sent, which Azure may have taken" if self.posted else ""
        return AnsibleConnectionFailure(f"The connection to this VM was lost{sent}: {error}")
