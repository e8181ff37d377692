# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The form of the results that VMs return; pure.

A VM in the hands of somebody else may return anything. That must cost no other VM its preparation or its restore.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from ..module_utils._errors import one_line
from ..module_utils._event.document import is_count, read_utc
from ..module_utils._event.marks import WORDS

UNUSABLE = "The answer of the host cannot be used: {fault}."


def is_text(value: Any) -> bool:
    """Tell whether a value is a text, or is not there."""
    return value is None or isinstance(value, str)


def are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


# The fields of an event, beside its id: key, test, and the value where the test fails.
_FIELDS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    *(
        (name, is_text, "something else where a text belongs")
        for name in ("event_type", "event_status", "not_before", "description", "event_source")
    ),
    ("duration_seconds", lambda value: value is None or is_count(value), "a duration that is not a number of seconds"),
    ("resources", are_texts, "resources that are not a list of names"),
    (
        "affects_this_vm",
        lambda value: value is None or isinstance(value, bool),
        "an affects_this_vm that is neither true nor false",
    ),
    ("not_before", lambda value: value is None or read_utc(value) is not None, "a not_before that is not a time"),
)
_TEXTS = ("resource_name", "boot_id", "vm_id", "msg")
_FACTS = ("document_received", "document_is_clear")
# Of an event, beside those that a report needs
_MORE_TEXTS = ("resource_type", "not_before_raw")
_OF_APPROVAL = ("event_id", "result")


def find_answer_fault(answer: Mapping[str, Any]) -> str | None:
    """Return the fault of a result of scheduled_events_info, or of one of scheduled_event_approve; None for a sound
    one."""
    events = answer.get("events")
    if not isinstance(events, list):
        return "it has no list of events"
    for name in _FACTS:
        if not isinstance(answer.get(name), bool):
            return f"{name} is neither true nor false"
    for name in _TEXTS:
        if not is_text(answer.get(name)):
            return f"{name} is not a text"
    fault = find_event_fault(events) or find_mark_fault(answer.get("marks"))
    if fault is None and not all(name in event and is_text(event[name]) for event in events for name in _MORE_TEXTS):
        fault = "an event lacks a key, as from another version of the collection"
    return fault


def find_event_fault(events: list[Any]) -> str | None:
    """Return the fault of a list of events, which may come from anywhere; None for a sound one."""
    for event in events:
        if not isinstance(event, dict):
            return "an event is not a dictionary"
        missing = [name for name in ("event_id", *(name for name, _test, _fault in _FIELDS)) if name not in event]
        if missing:
            return f"an event lacks {missing[0]!r}, as from another version of the collection"
        if not isinstance(event["event_id"], str) or not event["event_id"]:
            return "an event has no event_id"
        for name, is_good, fault in _FIELDS:
            if not is_good(event[name]):
                return f"event {one_line(event['event_id'])} has {fault}"
    return None


def find_mark_fault(marks: Any) -> str | None:
    """Return the fault of the marks of an answer, None for sound ones, and where there are none."""
    if marks is not None and not isinstance(marks, list):
        return "marks is not a list"
    for mark in marks or ():
        if not isinstance(mark, dict) or any(name not in mark for name in ("counts", "file", *WORDS)):
            return "a mark lacks a key, as from another version of the collection"
        if not all(is_text(mark[name]) for name in WORDS) or not isinstance(mark["file"], str):
            return "a mark has a key that is not a text"
        if mark["counts"] and not mark["event_id"]:
            return "a mark has no event_id"
    return None


def find_approval_fault(result: Mapping[str, Any]) -> str | None:
    """Return the fault of what a result of scheduled_event_approve says of its approvals, None for a sound one."""
    approvals = result.get("approvals")
    if not isinstance(approvals, list) or not all(isinstance(each, dict) for each in approvals):
        return "approvals is not a list of dictionaries"
    if not all(isinstance(each.get(name), str) for each in approvals for name in _OF_APPROVAL):
        return "an approval has no event_id or no result"
    if not all(is_text(each.get(name)) for each in (result, *approvals) for name in ("msg", "event_status")):
        return "an approval has something else where a text belongs"
    return None
