# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What each VM of a fleet said, as parts that can be written to a file and read again: one result a host."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any, Callable, Iterable, Mapping, Sequence

from ..module_utils._document import format_utc
from ..module_utils._errors import excerpt, one_line

PART = "fleetops.azure_maintenance.fleet_part"
# Raise it with every change of what a part holds: parts may come from machines with another version of the collection.
VERSION = 1

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

_SSH_ENDS = re.compile(r"(Shared c|C)onnection to \S+ closed\.")


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


# What an event must have, beside its id: key, test, and what it has where the test fails.
_FIELDS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    *(
        (name, lambda value: value is None or isinstance(value, str), "something else where a text belongs")
        for name in ("event_type", "event_status", "not_before", "description", "event_source")
    ),
    ("duration_seconds", lambda value: value is None or _is_count(value), "a duration that is not a number of seconds"),
    ("resources", _are_texts, "resources that are not a list of names"),
    (
        "affects_this_vm",
        lambda value: value is None or isinstance(value, bool),
        "an affects_this_vm that is neither true nor false",
    ),
    ("not_before", lambda value: value is None or read_utc(value) is not None, "a not_before that is not a time"),
)

HostResult = dict[str, Any]
Part = dict[str, Any]


class PartError(ValueError):
    """A part cannot be used; the message is one sentence that says which, why, and what to do."""


def make_part(results: Mapping[str, Any], name: str, now: datetime) -> Part:
    """Return what a run got from its hosts.

    :param results: for each host what scheduled_events_info returned, whether it failed or not.
    """
    hosts = [read_result(str(host), result) for host, result in results.items()]
    return {"format": PART, "version": VERSION, "name": name, "asked_at": format_utc(now), "hosts": hosts}


def read_result(host: str, result: Any) -> HostResult:
    """Return what one result of scheduled_events_info says, whether it failed or not."""
    if not isinstance(result, dict) or not result:
        return no_answer(host, FAILED, "no_result", "The task that asks this host did not run.")
    reason, message = result.get("reason"), result.get("msg")
    message = message if isinstance(message, str) and message else "The host gave no reason."
    if result.get("unreachable"):
        return no_answer(host, UNREACHABLE, "unreachable", message)
    if reason in _REASONS_OFF_AZURE:
        return no_answer(host, NOT_ON_AZURE, reason, message)
    events = result.get("events")
    if isinstance(reason, str) or not isinstance(events, list):
        reason = reason if isinstance(reason, str) else "module_failed"
        return no_answer(host, FAILED, reason, _with_output(message, result))
    if result.get("document_received") is False:
        return no_answer(host, FAILED, "no_document", message)
    complaint = _complaint(events, result.get("resource_name"))
    if complaint:
        return no_answer(host, FAILED, "malformed", f"What the host returned cannot be used: {complaint}.")
    # An event that names no VM may be meant for this one.
    affected = any(event["affects_this_vm"] is not False for event in events)
    return {
        "host": host,
        "state": AFFECTED if affected else QUIET,
        "reason": None,
        "message": None,
        "resource_name": result.get("resource_name"),
        "events": events,
        "warnings": [str(text) for text in result.get("warnings") or () if isinstance(text, str)],
    }


def no_answer(host: str, state: str, reason: str, message: str) -> HostResult:
    return {
        "host": host,
        "state": state,
        "reason": reason,
        "message": message.strip(),
        "resource_name": None,
        "events": [],
        "warnings": [],
    }


def _with_output(message: str, result: dict[str, Any]) -> str:
    printed = what_was_printed(result)
    return f"{message.splitlines()[0]} ({one_line(printed)})" if printed else message


def what_was_printed(result: Mapping[str, Any]) -> str:
    """Return the line that a module printed in place of a result: without a Python only that tells what happened."""
    texts = [result.get(name) for name in ("module_stderr", "module_stdout")]
    lines = [line.strip() for text in texts if isinstance(text, str) for line in text.splitlines()]
    # Over ssh with a terminal the words of the shell are in stdout, and in stderr is how ssh takes its leave.
    lines = [line for line in lines if line and not _SSH_ENDS.fullmatch(line)]
    return (lines[-1] if lines[0].startswith("Traceback") else lines[0]) if lines else ""


def _complaint(events: list[Any], resource_name: Any) -> str | None:
    """Return what is wrong with a list of events, None if nothing is: it may come from anywhere."""
    if resource_name is not None and not isinstance(resource_name, str):
        return "resource_name is not a string"
    for event in events:
        if not isinstance(event, dict):
            return "an event is not a dictionary"
        missing = [name for name in ("event_id", *(name for name, _test, _complaint in _FIELDS)) if name not in event]
        if missing:
            return f"an event lacks {missing[0]!r}, as from another version of the collection"
        if not isinstance(event["event_id"], str) or not event["event_id"]:
            return "an event has no event_id"
        for name, is_good, complaint in _FIELDS:
            if not is_good(event[name]):
                return f"event {one_line(event['event_id'])} has {complaint}"
    return None


def read_answer(host: str, result: Mapping[str, Any], failed: bool = False) -> HostResult:
    """Return what a result of scheduled_events_info says, also that of a loop."""
    if isinstance(result.get("results"), list):
        items = [item for item in result["results"] if not item.get("skipped")]
        return _all_of(host, [read_answer(host, item, bool(item.get("failed"))) for item in items])
    told = read_result(host, dict(result))
    if told["state"] not in (QUIET, AFFECTED):
        # Of what the host returned and cannot be used, the result itself says nothing.
        return told if told["reason"] == "malformed" else {**told, "message": tell_failure(result)}
    return {**told, "state": FAILED, "message": tell_failure(result)} if failed else told


def _all_of(host: str, results: Sequence[HostResult]) -> HostResult:
    """Return the answers of one host as one. What went wrong in one of them is not covered by the others."""
    if not results:
        return read_result(host, {"events": []})
    worst = max(results, key=lambda told: STATES.index(told["state"]))
    name = next((told["resource_name"] for told in results if told["resource_name"]), None)
    return {**worst, "resource_name": name, "events": [event for told in results for event in told["events"]]}


def tell_failure(result: Mapping[str, Any]) -> str:
    """Return on one line what a result that is no success says of itself, in the words of its module."""
    items = result.get("results")
    if isinstance(result.get("failed_modules"), dict):
        # Of several modules, as for facts, the message has the names alone.
        items = list(result["failed_modules"].values())
    if isinstance(items, list):
        told = [tell_failure(item) for item in items if item.get("failed") or item.get("unreachable")]
        if told:
            return "; ".join(dict.fromkeys(told))
    words = [str(result.get("msg") or result.get("censored") or "")]
    # The message of a command that failed says no more than that.
    if result.get("rc"):
        words += [f"rc={result['rc']}", str(result.get("stderr") or result.get("stdout") or "")]
    words.append(what_was_printed(result))
    lines = [line for line in (" ".join(text.split()) for text in words) if line]
    told_first = [line.removesuffix(".") for line in lines[:-1]]
    return ": ".join([*told_first, *lines[-1:]]) or "no answer and no reason in the result"


def read_utc(text: str) -> datetime | None:
    """Read what format_utc writes; None for anything else."""
    if not text.endswith("Z"):
        return None
    try:
        # With the strptime() of parse_utc() a large report takes a fifth longer.
        moment = datetime.fromisoformat(text[:-1] + "+00:00")
    except ValueError:
        return None
    return moment.astimezone(timezone.utc)


def plain_data(value: Any) -> Any:
    """Return a value without the types of Ansible's own, and without halves of characters that no file can hold."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def read_now(text: str | None) -> datetime:
    if not text:
        return datetime.now(timezone.utc)
    moment = read_utc(text)
    if moment is None:
        raise ValueError(f"now must be a time such as 2026-11-21T10:00:00Z, not {text!r}.")
    return moment


def decode_part(name: str, text: str) -> Any:
    """Return what was written as JSON, yet to be checked.

    :raises PartError: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PartError(f"Part {one_line(name)} is not JSON ({error}): delete it, and run that slice again.") from error


def is_too_old(part: Any, now: datetime, max_age: float) -> bool:
    """Whether a part, checked or not, was made more than so many seconds ago. With 0 seconds none is.

    After an upgrade the parts of the version before must not hinder a merge that leaves them out anyway.
    """
    if not max_age or not isinstance(part, dict) or part.get("format") != PART or not isinstance(part.get("name"), str):
        return False
    asked_at = read_utc(part["asked_at"]) if isinstance(part.get("asked_at"), str) else None
    return asked_at is not None and (now - asked_at).total_seconds() > max_age


def check_part(name: str, part: Any) -> None:
    """Check that a part is whole and of this version.

    :raises PartError: it is not.
    """
    again = "delete it, and run that slice again"
    if not isinstance(part, dict) or part.get("format") != PART:
        raise PartError(f"Part {one_line(name)} is not a part of a fleet report: {again}.")
    version = part.get("version")
    if version != VERSION:
        raise PartError(
            f"Part {one_line(name)} holds results of another version of the collection (format "
            f"{excerpt(str(version))}, this one reads {VERSION}): "
            "delete it, and run that slice again with the same version as the merge."
        )
    hosts, asked_at = part.get("hosts"), part.get("asked_at")
    known = isinstance(part.get("name"), str) and isinstance(asked_at, str) and read_utc(asked_at) is not None
    if not known or not isinstance(hosts, list):
        raise PartError(f"Part {one_line(name)} is damaged: {again}.")
    for told in hosts:
        complaint = _result_complaint(told)
        if complaint:
            raise PartError(f"Part {one_line(name)} cannot be merged ({complaint}): {again}.")


def _result_complaint(told: Any) -> str | None:
    if not isinstance(told, dict) or not isinstance(told.get("host"), str) or told.get("state") not in STATES:
        return "it has an entry that is not a host"
    for name in ("reason", "message", "resource_name"):
        if name not in told or not isinstance(told[name], (str, type(None))):
            return f"host {one_line(told['host'])} has a {name} that is not a text"
    if not isinstance(told.get("events"), list) or not _are_texts(told.get("warnings")):
        return f"host {one_line(told['host'])} has no lists of events and warnings"
    complaint = _complaint(told["events"], told["resource_name"])
    return f"host {one_line(told['host'])}: {complaint}" if complaint else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def newest_results(parts: Iterable[Part]) -> dict[str, HostResult]:
    """Return for each host the result of the newest part that has it, with the time of that part."""
    results: dict[str, HostResult] = {}
    for part in parts:
        for told in part["hosts"]:
            known = results.get(told["host"])
            if known is None or known["asked_at"] <= part["asked_at"]:
                results[told["host"]] = {**told, "asked_at": part["asked_at"]}
    return results
