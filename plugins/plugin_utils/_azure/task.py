# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The rim of the modules that ask Azure from outside the VMs: their options, results and errors for Ansible."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Mapping

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError

from .._unsafe import mark_unsafe
from .arm import ArmClient
from .credentials import AUTH_SOURCES, read_login
from .errors import AzureError, plain

Warn = Callable[[str], None]
Work = Callable[["Task"], "dict[str, Any]"]


class Task:
    """The input for the work of a task.

    :ivar options: as validated.
    :ivar subscription_id: the one that comes with the login, None where it names none.
    :ivar check_mode: nothing may be changed.
    """

    def __init__(self, options: Mapping[str, Any], check_mode: bool, warn: Warn) -> None:
        self.options = options
        self.check_mode = check_mode
        self.warn = warn
        self._login = read_login(options, os.environ, Path.home())
        self.subscription_id = self._login.subscription_id

    def client(self) -> ArmClient:
        return ArmClient(self._login, self.options["timeout"], self.warn)


def azure_argument_spec() -> dict[str, Any]:
    """Return the options that these modules share; the doc fragment _azure is their twin."""
    return {
        "auth_source": {"type": "str", "choices": list(AUTH_SOURCES), "default": "auto"},
        "profile": {"type": "str"},
        "subscription_id": {"type": "str"},
        "client_id": {"type": "str"},
        "secret": {"type": "str", "no_log": True},
        "tenant": {"type": "str"},
        "x509_certificate_path": {"type": "path"},
        "cloud_environment": {"type": "str"},
        "timeout": {"type": "float", "default": 120.0},
    }


def run_on_controller(action: Any, spec: Mapping[str, Any], work: Work) -> dict[str, Any]:
    """Return the result of a task that asks Azure from the controller; its host does not matter.

    :param action: the action plugin.
    :param spec: the arguments of ArgumentSpecValidator; those of azure_argument_spec() are added.
    :param work: returns the result, with ``failed`` where the task must fail.
    """
    task = action._task
    return run_task(dict(task.args), task.action, bool(task.check_mode), spec, work)


def run_task(
    options: Mapping[str, Any], action: str, check_mode: bool, spec: Mapping[str, Any], work: Work
) -> dict[str, Any]:
    """Return the result of run_on_controller() for a task with these options.

    :param action: its name, for messages.
    """
    warnings: list[str] = []
    # As a module gets its options. Ansible has types of its own for strings.
    given = json.loads(json.dumps(options, default=str))
    if "auth_source" not in given and os.environ.get("ANSIBLE_AZURE_AUTH_SOURCE"):
        given["auth_source"] = os.environ["ANSIBLE_AZURE_AUTH_SOURCE"]
    secret = given.get("secret")
    try:
        validation = ArgumentSpecValidator(
            {**azure_argument_spec(), **spec["argument_spec"]}, mutually_exclusive=spec.get("mutually_exclusive")
        ).validate(given)
        if validation.error_messages:
            message = validation.errors.msg
            if isinstance(validation.errors[0], UnsupportedError):
                message = f"Unsupported parameters for ({action}) module: {message}"
            raise ValueError(message)
        result = work(Task(validation.validated_parameters, check_mode, warnings.append))
    except AzureError as error:
        result = {"failed": True, "msg": str(error), **error.data()}
    except ValueError as error:
        result = {"failed": True, "msg": plain(error, secret if isinstance(secret, str) else None)}
    if warnings:
        result["warnings"] = list(dict.fromkeys(warnings))
    told: dict[str, Any] = mark_unsafe(result)
    return told
