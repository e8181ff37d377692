# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the modules share: options, the look at IMDS, and the rim where exceptions become fail_json with data."""

from __future__ import annotations

from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ._document import EVENT_SOURCES, EVENT_STATUSES, EVENT_TYPES, fold_case
from ._errors import ImdsError, excerpt
from ._fetch import FetchResult, FindAddresses, fetch
from ._imds import DEFAULT_API_VERSION, DEFAULT_CONNECT_TIMEOUT, DEFAULT_ENDPOINT, DEFAULT_TIMEOUT, ImdsClient
from ._selection import keys


def imds_argument_spec() -> dict[str, Any]:
    """Return the options of every module; the doc fragment _imds is their twin."""
    return {
        "endpoint": {"type": "str", "default": DEFAULT_ENDPOINT, "fallback": (env_fallback, ["AZURE_IMDS_ENDPOINT"])},
        "api_version": {"type": "str", "default": DEFAULT_API_VERSION},
        "connect_timeout": {"type": "float", "default": DEFAULT_CONNECT_TIMEOUT},
        "timeout": {"type": "float", "default": DEFAULT_TIMEOUT},
        "discover_endpoint": {"type": "bool", "default": False},
        "resource_name": {"type": "str"},
    }


def look_at_imds(module: AnsibleModule) -> FetchResult:
    """Ask for the document and the name of this VM, as the module's options say.

    :raises ImdsError: there was no usable answer.
    """
    params = module.params
    client = ImdsClient(params["endpoint"], params["api_version"], params["connect_timeout"], params["timeout"])
    find_addresses: FindAddresses | None = None
    if params["discover_endpoint"]:
        # Every module run reads its imports anew, and few runs need this one.
        from ._dhcp_lease import find_endpoint_addresses as find_addresses
    found = fetch(client, params["resource_name"], find_addresses)
    for warning in found.warnings:
        module.warn(warning)
    return found


def words(values: list[str] | None) -> tuple[str, ...]:
    """Return the words of a list option, as an AWX survey may give it: empty, or a line a word."""
    return tuple(word.strip() for value in values or () for word in value.splitlines() if word.strip())


def warn_of_unknown_words(module: AnsibleModule) -> None:
    """Warn of a word that Azure is not known to use: taken for a typing error it explains why nothing matches."""
    for option, known in (
        ("event_types", EVENT_TYPES),
        ("event_statuses", EVENT_STATUSES),
        ("event_sources", EVENT_SOURCES),
    ):
        for word in words(module.params.get(option)):
            if fold_case(word) not in keys(known):
                module.warn(f"{option}: Azure is not known to use {excerpt(word)}; it uses {', '.join(known)}.")


def no_resource_name(found: FetchResult) -> str:
    return (
        f"{found.client.endpoint} does not tell the name of this VM, as on classic VMs. "
        "Set resource_name to the name that the events' resources call it by."
    )


def run_guarded(module: AnsibleModule, run: Callable[[AnsibleModule], None]) -> None:
    """Run a module's work; what went wrong ends as fail_json with a reason that a playbook can read."""
    try:
        run(module)
        return
    except ImdsError as error:
        message, data = str(error), failure_data(error)
    except ValueError as error:
        message, data = str(error), {}
    # Not inside the except clauses: there ansible-core 2.19 announces a traceback that nobody needs.
    module.fail_json(msg=message, **data)


def failure_data(error: ImdsError) -> dict[str, Any]:
    """Return what every failed task says of IMDS."""
    return {"reason": error.reason, "http_status": error.http_status, "imds_reachable": error.imds_reachable}
