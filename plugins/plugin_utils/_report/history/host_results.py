# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The histories of the checkers of a fleet, as parts that can be written to a file and read again."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Mapping

from ....module_utils._errors import excerpt, one_line
from ....module_utils._event.history_row import FORMAT, complaint
from ..._failure_text import tell_failure
from ..slices import HostResult, Slice, SliceFormat, new_slice

TOLD = "told"
DAMAGED = "damaged"
NO_CHECKER = "no_checker"
OTHER_VERSION = "other_version"
UNREACHABLE = "unreachable"
FAILED = "failed"
NOT_ASKED = "not_asked"
# From good to bad
STATES = (TOLD, DAMAGED, NO_CHECKER, OTHER_VERSION, UNREACHABLE, FAILED, NOT_ASKED)

_INSTALL = "install the checker of this version"
_MOST_WARNINGS = 10

HostHistory = HostResult


def make_slice(results: Mapping[str, Any], name: str, now: datetime) -> Slice:
    """Return the answers of the hosts of a run.

    :param results: of the task that ran ``azure-maintenance history --json``, for each host.
    """
    hosts = [read_answer(str(host), result) for host, result in results.items()]
    return new_slice(SLICE_FORMAT, name, now, hosts)


def read_answer(host: str, result: Any) -> HostHistory:
    """Return the history of one host, or why there is none."""
    if not isinstance(result, dict) or not result:
        return _no_history(host, FAILED, "no_result", "The task that asks this host did not run.")
    if result.get("unreachable"):
        return _no_history(host, UNREACHABLE, "unreachable", tell_failure(result))
    if result.get("skipped"):
        return _no_history(host, NO_CHECKER, "windows", "The host runs Windows, where there is no checker.")
    # The number of "No such file". A program that ends with 2 says why.
    if result.get("rc") == 2 and not result.get("stdout") and not result.get("stderr"):
        return _no_history(host, NO_CHECKER, "no_checker", "The host has no checker: run install_checker for it.")
    if result.get("rc") != 0 or not isinstance(result.get("stdout"), str):
        return _no_history(host, FAILED, "command_failed", tell_failure(result))
    try:
        said = json.loads(result["stdout"])
    except (ValueError, RecursionError) as error:
        return _no_history(host, DAMAGED, "not_json", f"The output of the checker is not JSON ({error}).")
    return _read_history(host, said)


def _read_history(host: str, said: Any) -> HostHistory:
    if not isinstance(said, dict):
        return _no_history(host, DAMAGED, "malformed", "The output of the checker is not a dictionary.")
    form, version = said.get("history_format"), said.get("version")
    version = version if isinstance(version, str) else None
    if form is None:
        return _no_history(host, OTHER_VERSION, "no_history", f"The checker keeps no history: {_INSTALL}.")
    if form != FORMAT:
        told = f"The history of checker {one_line(version or '?')} has format {excerpt(str(form))}, not {FORMAT}"
        return _no_history(host, OTHER_VERSION, "other_format", f"{told}: {_INSTALL}.")
    name, rows, warnings = said.get("resource_name"), said.get("history"), said.get("warnings")
    if not isinstance(rows, list):
        return _no_history(host, DAMAGED, "malformed", "The output of the checker has no list of events.")
    sound = [row for row in rows if complaint(row) is None]
    messages = (
        [one_line(text) for text in warnings or () if isinstance(text, str)] if isinstance(warnings, list) else []
    )
    if len(sound) < len(rows):
        messages.append(f"{len(rows) - len(sound)} of {len(rows)} rows cannot be read.")
    return {
        "host": host,
        "state": DAMAGED if messages else TOLD,
        "reason": "damaged" if messages else None,
        "message": " ".join(messages[:_MOST_WARNINGS]) or None,
        "resource_name": name if isinstance(name, str) else None,
        "checker_version": version,
        "rows": sound,
    }


def _no_history(host: str, state: str, reason: str, message: str) -> HostHistory:
    return {
        "host": host,
        "state": state,
        "reason": reason,
        "message": message.strip(),
        "resource_name": None,
        "checker_version": None,
        "rows": [],
    }


def not_asked(host: str, left_out: list[str]) -> HostHistory:
    newer = "new enough " if left_out else ""
    message = f"No {newer}part of this history has the host: run the slice that asks it again."
    return {**_no_history(host, NOT_ASKED, "no_part", message), "asked_at": None}


def _host_complaint(told: dict[str, Any]) -> str | None:
    if not isinstance(told.get("rows"), list):
        return " has no list of rows"
    why = next((why for why in map(complaint, told["rows"]) if why is not None), None)
    return f" has a row that cannot be read: {why}" if why else None


# Raise the version with every change of the content of a part.
SLICE_FORMAT = SliceFormat(
    "fleetops.azure_maintenance.history_part",
    1,
    "fleet history",
    "histories",
    STATES,
    ("reason", "message", "resource_name", "checker_version"),
    _host_complaint,
)
