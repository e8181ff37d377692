# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What each VM of a fleet said, as parts that can be written to a file and read again: one look a host."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any, Iterable, Mapping

from ..module_utils._document import format_utc
from ..module_utils._errors import excerpt, one_line
from ..module_utils._selection import NO_DOCUMENT

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

_TEXTS = ("event_type", "event_status", "not_before", "description", "event_source")

Look = dict[str, Any]
Part = dict[str, Any]


class PartError(ValueError):
    """A part cannot be used; the message is one sentence that says which, why, and what to do."""


def make_part(results: Mapping[str, Any], name: str, now: datetime) -> Part:
    """Return what a run got from its hosts.

    :param results: for each host what scheduled_events_info returned, whether it failed or not.
    """
    hosts = [look_at(str(host), result) for host, result in results.items()]
    return {"format": PART, "version": VERSION, "name": name, "asked_at": format_utc(now), "hosts": hosts}


def look_at(host: str, result: Any) -> Look:
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
    if result.get("document_incarnation") is None and not events and message == NO_DOCUMENT:
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


def no_answer(host: str, state: str, reason: str, message: str) -> Look:
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
        try:
            texts = [event[name] for name in _TEXTS]
            event_id, resources, duration = event["event_id"], event["resources"], event["duration_seconds"]
            affects = event["affects_this_vm"]
        except KeyError as error:
            return f"an event lacks {error}, as from another version of the collection"
        if not isinstance(event_id, str) or not event_id:
            return "an event has no event_id"
        for text in texts:
            if text is not None and not isinstance(text, str):
                return f"event {one_line(event_id)} has something else where a text belongs"
        if duration is not None and (isinstance(duration, bool) or not isinstance(duration, int) or duration < 0):
            return f"event {one_line(event_id)} has a duration that is no number of seconds"
        if not isinstance(resources, list) or not all(isinstance(name, str) for name in resources):
            return f"event {one_line(event_id)} has resources that are not a list of names"
        if affects is not None and not isinstance(affects, bool):
            return f"event {one_line(event_id)} has an affects_this_vm that is neither true nor false"
        if event["not_before"] is not None and read_utc(event["not_before"]) is None:
            return f"event {one_line(event_id)} has a not_before that is no time"
    return None


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


def decode_part(name: str, text: str) -> Any:
    """Return what was written as JSON, yet to be checked.

    :raises PartError: it is no JSON.
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
        raise PartError(f"Part {one_line(name)} is no part of a fleet report: {again}.")
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
    for look in hosts:
        complaint = _look_complaint(look)
        if complaint:
            raise PartError(f"Part {one_line(name)} cannot be merged ({complaint}): {again}.")


def _look_complaint(look: Any) -> str | None:
    if not isinstance(look, dict) or not isinstance(look.get("host"), str) or look.get("state") not in STATES:
        return "it has an entry that is no host"
    for name in ("reason", "message", "resource_name"):
        if name not in look or not isinstance(look[name], (str, type(None))):
            return f"host {one_line(look['host'])} has a {name} that is no text"
    if not isinstance(look.get("events"), list) or not _are_texts(look.get("warnings")):
        return f"host {one_line(look['host'])} has no lists of events and warnings"
    complaint = _complaint(look["events"], look["resource_name"])
    return f"host {one_line(look['host'])}: {complaint}" if complaint else None


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def newest_looks(parts: Iterable[Part]) -> dict[str, Look]:
    """Return for each host the look of the newest part that has it, with the time of that part."""
    looks: dict[str, Look] = {}
    for part in parts:
        for look in part["hosts"]:
            known = looks.get(look["host"])
            if known is None or known["asked_at"] <= part["asked_at"]:
                looks[look["host"]] = {**look, "asked_at": part["asked_at"]}
    return looks
