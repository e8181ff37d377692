# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The answers of the VMs of a fleet, as parts that can be written to a file and read again: one result a host."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Mapping, Sequence

from ....module_utils._errors import one_line
from ....module_utils._event.marks import tell_mark
from ..._answer_form import UNUSABLE, are_texts, find_event_fault, find_mark_fault, is_text
from ..._failure_text import are_results, tell_failure, timed_out, what_was_printed
from ..._masking import mask_secrets
from ..outside import azure_messages, without_ids
from ..slices import HostResult, Slice, SliceFormat, new_slice

AFFECTED = "affected"
QUIET = "quiet"
UNREACHABLE = "unreachable"
NOT_ON_AZURE = "not_on_azure"
FAILED = "failed"
NOT_ASKED = "not_asked"
# From good to bad
STATES = (QUIET, AFFECTED, UNREACHABLE, NOT_ON_AZURE, FAILED, NOT_ASKED)

# The reasons of scheduled_events_info for a machine where nothing, or something else, answers in Azure's place.
_REASONS_OFF_AZURE = ("unreachable", "not_imds")

_UNCLEAR = "An entry of its document cannot be read and may be an event of this VM. Ask again."
# For an answer that cannot be used and has no reason of its own
_TOLD_HERE = ("malformed", "unclear_document")


def make_slice(results: Mapping[str, Any], name: str, now: datetime, azure: Mapping[str, Any] | None = None) -> Slice:
    """Return the answers of the hosts of a run.

    :param results: of scheduled_events_info for each host, failed or not.
    :param azure: the result of the question to Resource Graph, failed or not; None where it was not asked.
    """
    hosts = [read_result(str(host), result) for host, result in results.items()]
    messages = None if azure is None else _add_azure(hosts, azure)
    return new_slice(SLICE_FORMAT, name, now, hosts, messages)


def _add_azure(hosts: Sequence[HostResult], azure: Mapping[str, Any]) -> list[str]:
    """Add the events that Resource Graph has for hosts without a word of their own; return what it does not tell."""
    messages = azure_messages(azure)
    found = azure.get("hosts", {})
    without_id = []
    for told in hosts:
        of_host = found.get(told["host"])
        if of_host is not None:
            told["resource_id"] = of_host["resource_id"]
        if has_own_word(told):
            continue
        if of_host is not None:
            told["azure_events"] = [event for event in of_host["events"] if event["outcome"] is None]
        elif not messages:
            without_id.append(told["host"])
    return [*messages, *without_ids(without_id)]


def has_own_word(told: Mapping[str, Any]) -> bool:
    """Tell whether a VM told all that it knows, so that Azure's word for it counts for nothing."""
    return told["state"] in (AFFECTED, QUIET) and bool(told["document_is_clear"])


def read_result(host: str, result: Any) -> HostResult:
    """Return the answer in one result of scheduled_events_info, failed or not."""
    if not isinstance(result, dict) or not result:
        return no_answer(host, FAILED, "no_result", "The task that asks this host did not run.")
    reason, message = result.get("reason"), result.get("msg")
    message = mask_secrets(message) if isinstance(message, str) and message.strip() else "The host gave no reason."
    if result.get("unreachable"):
        return no_answer(host, UNREACHABLE, "unreachable", message)
    if reason in _REASONS_OFF_AZURE:
        return no_answer(host, NOT_ON_AZURE, reason, message)
    events = result.get("events")
    if isinstance(reason, str) or not isinstance(events, list):
        reason = reason if isinstance(reason, str) else "timeout" if timed_out(result) else "module_failed"
        return no_answer(host, FAILED, reason, _with_output(message, result))
    if result.get("document_received") is False:
        return no_answer(host, FAILED, "no_document", message)
    fault = None if is_text(result.get("resource_name")) else "resource_name is not a text"
    fault = fault or find_event_fault(events) or find_mark_fault(result.get("marks"))
    if fault:
        return no_answer(host, FAILED, "malformed", UNUSABLE.format(fault=fault))
    warnings = result.get("warnings")
    affected = _is_affected(events)
    state, reason, message = AFFECTED if affected else QUIET, None, None
    if not affected and result.get("document_is_clear") is False:
        state, reason, message = FAILED, "unclear_document", _UNCLEAR
    return {
        "host": host,
        "state": state,
        "reason": reason,
        "message": message,
        "resource_name": result.get("resource_name"),
        "events": events,
        "warnings": [text for text in warnings if isinstance(text, str)] if isinstance(warnings, list) else [],
        "out_of_service": _out_of_service(result.get("marks")),
        "document_is_clear": result.get("document_is_clear") is not False,
        "resource_id": None,
        "azure_events": [],
    }


def _is_affected(events: list[dict[str, Any]]) -> bool:
    # An event that names no VM may be meant for this one.
    return any(event["affects_this_vm"] is not False for event in events)


def _out_of_service(marks: list[dict[str, Any]] | None) -> list[str]:
    """Return since when, for which event and by which run or checker the VM is out of service: for each mark."""
    return [tell_mark(mark) for mark in marks or () if mark["counts"] and mark["event_id"]]


def no_answer(host: str, state: str, reason: str, message: str) -> HostResult:
    return {
        "host": host,
        "state": state,
        "reason": reason,
        "message": message.strip(),
        "resource_name": None,
        "events": [],
        "warnings": [],
        "out_of_service": [],
        "document_is_clear": False,
        "resource_id": None,
        "azure_events": [],
    }


def _with_output(message: str, result: dict[str, Any]) -> str:
    printed = what_was_printed(result)
    return f"{message.splitlines()[0]} ({one_line(printed)})" if printed else message


def read_answer(host: str, result: Mapping[str, Any], failed: bool = False) -> HostResult:
    """Return the answer in a result of scheduled_events_info, also in that of a loop."""
    if are_results(result.get("results")):
        items = [item for item in result["results"] if not item.get("skipped")]
        return _all_of(host, [read_answer(host, item, bool(item.get("failed"))) for item in items])
    told = read_result(host, dict(result))
    if told["state"] not in (QUIET, AFFECTED):
        return told if told["reason"] in _TOLD_HERE else {**told, "message": tell_failure(result)}
    return {**told, "state": FAILED, "message": tell_failure(result)} if failed else told


def _all_of(host: str, results: Sequence[HostResult]) -> HostResult:
    """Return the answers of one host as one. A failure in one of them is not hidden by the others."""
    if not results:
        return read_result(host, {"events": []})
    worst = max(results, key=lambda told: STATES.index(told["state"]))
    name = next((told["resource_name"] for told in results if told["resource_name"]), None)
    events = [event for told in results for event in told["events"]]
    out_of_service = list(dict.fromkeys(why for told in results for why in told["out_of_service"]))
    return {**worst, "resource_name": name, "events": events, "out_of_service": out_of_service}


def _result_complaint(told: dict[str, Any]) -> str | None:
    if not isinstance(told.get("events"), list) or not are_texts(told.get("warnings")):
        return " has no lists of events and warnings"
    if not are_texts(told.get("out_of_service")):
        return " has no list that tells why it is out of service"
    if not isinstance(told.get("document_is_clear"), bool) or not isinstance(told.get("azure_events"), list):
        return " does not tell of its document, or has no list of events from Azure"
    fault = find_event_fault(told["events"]) or find_event_fault(told["azure_events"])
    if fault is None and not all(are_texts(event.get("vm_resource_ids")) for event in told["azure_events"]):
        fault = "an event from Azure has no list of VMs"
    if fault:
        return f": {fault}"
    if _is_affected(told["events"]) is not (told["state"] == AFFECTED):
        return " does not tell of the events that its state is about"
    is_silent = told["state"] not in (QUIET, AFFECTED)
    return " does not tell why it gave no answer" if is_silent and told["message"] is None else None


# Raise the version with every change of the content of a part.
SLICE_FORMAT = SliceFormat(
    "fleetops.azure_maintenance.fleet_part",
    3,
    "fleet report",
    "results",
    STATES,
    ("reason", "message", "resource_name", "resource_id"),
    _result_complaint,
)
