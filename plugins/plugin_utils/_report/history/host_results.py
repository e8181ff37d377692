# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The histories of the checkers of a fleet, as parts that can be written to a file and read again."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Mapping, Sequence

from ....module_utils._errors import one_line
from ....module_utils._event.history_row import FORMAT, ROW, complaint
from ..._failure_text import tell_failure, timed_out
from ..outside import azure_messages, without_ids
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

# Of an event and of a cause that Azure Resource Graph tells; each is a text or null.
AZURE_EVENT = ("event_id", "event_type", "event_status", "outcome", "not_before", "event_source", "description")
AZURE_CAUSE = ("occurred_at", "annotation", "reason", "category", "context", "summary")

_INSTALL = "install the checker of this version"
_MOST_WARNINGS = 10

HostHistory = HostResult


def make_slice(results: Mapping[str, Any], name: str, now: datetime, azure: Mapping[str, Any] | None = None) -> Slice:
    """Return the answers of the hosts of a run.

    :param results: of the task that ran ``azure-maintenance history --json``, for each host.
    :param azure: the result of the question to Resource Graph, failed or not; None where it was not asked.
    """
    hosts = [read_answer(str(host), result) for host, result in results.items()]
    messages = None if azure is None else _add_azure(hosts, azure)
    return new_slice(SLICE_FORMAT, name, now, hosts, messages)


def _add_azure(hosts: Sequence[HostHistory], azure: Mapping[str, Any]) -> list[str]:
    """Add what Resource Graph has for each host; return what it does not tell."""
    messages = azure_messages(azure)
    found = azure.get("hosts", {})
    for told in hosts:
        of_host = found.get(told["host"])
        if of_host is not None:
            told["azure_events"] = [{name: each[name] for name in AZURE_EVENT} for each in of_host["events"]]
            told["azure_causes"] = [{name: each[name] for name in AZURE_CAUSE} for each in of_host["causes"]]
    return messages or without_ids([told["host"] for told in hosts if told["host"] not in found])


def read_answer(host: str, result: Any) -> HostHistory:
    """Return the history of one host, or why there is none."""
    if not isinstance(result, dict) or not result:
        return _no_history(host, FAILED, "no_result", "The task that asks this host did not run.")
    if result.get("unreachable"):
        return _no_history(host, UNREACHABLE, "unreachable", tell_failure(result))
    if result.get("skipped"):
        return _no_history(host, NO_CHECKER, "windows", "The host runs Windows, where there is no checker.")
    if timed_out(result):
        return _no_history(host, FAILED, "timeout", tell_failure(result))
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
        told = f"The history of checker {one_line(version or '?')} has format {one_line(str(form)[:40])}, not {FORMAT}"
        return _no_history(host, OTHER_VERSION, "other_format", f"{told}: {_INSTALL}.")
    name, rows, warnings = said.get("resource_name"), said.get("history"), said.get("warnings")
    if not isinstance(rows, list):
        return _no_history(host, DAMAGED, "malformed", "The output of the checker has no list of events.")
    sound = [_known_fields(row) for row in rows if complaint(row) is None]
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
        "azure_events": [],
        "azure_causes": [],
    }


def _known_fields(row: dict[str, Any]) -> dict[str, Any]:
    # What another version adds may be anything, also what cannot be written as JSON again.
    return row if len(row) == len(ROW) else {name: row[name] for name in ROW}


def _no_history(host: str, state: str, reason: str, message: str) -> HostHistory:
    return {
        "host": host,
        "state": state,
        "reason": reason,
        "message": message.strip(),
        "resource_name": None,
        "checker_version": None,
        "rows": [],
        "azure_events": [],
        "azure_causes": [],
    }


def not_asked(host: str, left_out: list[str]) -> HostHistory:
    newer = "new enough " if left_out else ""
    message = f"No {newer}part of this history has the host: run the slice that asks it again."
    return {**_no_history(host, NOT_ASKED, "no_part", message), "asked_at": None}


def _host_complaint(told: dict[str, Any]) -> str | None:
    if not isinstance(told.get("rows"), list):
        return " has no list of rows"
    why = next((why for why in map(complaint, told["rows"]) if why is not None), None)
    if why:
        return f" has a row that cannot be read: {why}"
    for key, names in (("azure_events", AZURE_EVENT), ("azure_causes", AZURE_CAUSE)):
        if not isinstance(told.get(key), list) or not all(_has_texts(each, names) for each in told[key]):
            return f" has {key} that cannot be read"
    return None if all(event["event_id"] for event in told["azure_events"]) else " has an event of Azure without an id"


def _has_texts(value: Any, names: Sequence[str]) -> bool:
    return isinstance(value, dict) and all(
        name in value and isinstance(value[name], (str, type(None))) for name in names
    )


# Raise the version with every change of the content of a part.
SLICE_FORMAT = SliceFormat(
    "fleetops.azure_maintenance.history_part",
    2,
    "fleet history",
    "histories",
    STATES,
    ("reason", "message", "resource_name", "checker_version"),
    _host_complaint,
)
