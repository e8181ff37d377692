# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The interface of the modules: their options, and results and errors as Ansible takes them.

Of a module only ``exit_json`` and ``fail_json`` are used, so that the controller can pass another object.
"""

from __future__ import annotations

import gc
from typing import Any, Callable

from ansible.module_utils.basic import env_fallback

from .._errors import ImdsError, failure_data
from .._imds.client import (
    DEFAULT_API_VERSION,
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_ENDPOINT,
    DEFAULT_TIMEOUT,
    ImdsClient,
    Transport,
)


def _imds_argument_spec() -> dict[str, Any]:
    """Return the options of every module; the doc fragment _imds is their twin."""
    return {
        "endpoint": {"type": "str", "default": DEFAULT_ENDPOINT, "fallback": (env_fallback, ["AZURE_IMDS_ENDPOINT"])},
        "api_version": {"type": "str", "default": DEFAULT_API_VERSION},
        "connect_timeout": {"type": "float", "default": DEFAULT_CONNECT_TIMEOUT},
        "timeout": {"type": "float", "default": DEFAULT_TIMEOUT},
        "discover_endpoint": {"type": "bool", "default": False},
        "resource_name": {"type": "str"},
    }


def info_argument_spec() -> dict[str, Any]:
    """Return the options of scheduled_events_info."""
    return {
        **_imds_argument_spec(),
        "scope": {"type": "str", "choices": ["this_vm", "all"], "default": "this_vm"},
        "event_types": {"type": "list", "elements": "str"},
        "event_statuses": {"type": "list", "elements": "str"},
        "event_sources": {"type": "list", "elements": "str"},
        "event_ids": {"type": "list", "elements": "str"},
        "due_within": {"type": "int"},
        "query": {"type": "str"},
    }


def approve_argument_spec() -> dict[str, Any]:
    """Return the options of scheduled_event_approve."""
    return {
        **_imds_argument_spec(),
        "event_ids": {"type": "list", "elements": "str", "aliases": ["event_id"]},
        "event_types": {"type": "list", "elements": "str"},
        "event_sources": {"type": "list", "elements": "str"},
        "resources_ready": {"type": "list", "elements": "str", "default": []},
        "force": {"type": "bool", "default": False},
        "document_incarnation": {"type": "str"},
        "wait_for": {"type": "str", "choices": ["nothing", "started", "ended"], "default": "nothing"},
        "wait_timeout": {"type": "float", "default": 900.0},
    }


def make_client(params: dict[str, Any], transport: Transport | None = None) -> ImdsClient:
    """Return the client that the options ask for.

    :param transport: carries its requests; None opens sockets.
    :raises ValueError: an option is wrong.
    """
    return ImdsClient(
        params["endpoint"], params["api_version"], params["connect_timeout"], params["timeout"], transport=transport
    )


def end_module(module: Any, work: Callable[[], dict[str, Any]]) -> None:
    """Do a module's work and end it; a failure has a reason that a playbook can read.

    :param work: returns the result, with ``failed`` where the task must fail.
    """
    try:
        result = work()
    except ImdsError as error:
        result = {"failed": True, "msg": str(error), **failure_data(error)}
    except ValueError as error:
        result = {"failed": True, "msg": str(error)}
    # Not inside the except clauses: there ansible-core 2.19 announces a traceback that nobody needs.
    if result.pop("failed", False):
        module.fail_json(**result)
    else:
        module.exit_json(**result)


def freeze_objects() -> None:
    """Exclude all objects that exist now from garbage collection.

    They are modules mostly, and are used until the process ends. To scan and free them costs as much as a request.
    """
    # PyPy has another garbage collector.
    if hasattr(gc, "freeze"):
        gc.freeze()
