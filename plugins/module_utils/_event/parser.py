# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Read a document of ``/metadata/scheduledevents``: a fault in one event never costs another event.

Facts about Azure are from Microsoft's page "Scheduled Events for Linux VMs"
(azure-compute-docs, linux/scheduled-events.md) unless another source is named.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Callable, Sequence

from .._errors import MalformedError, NotImdsError, excerpt, one_line
from .document import EVENT_SOURCES, EVENT_STATUSES, EVENT_TYPES, Document, Event, fold_case, is_count

# Microsoft's own client (go.goms.io/aks/imds) notes that the case of these values is not fixed.
_AZURE_SPELLING = {word.lower(): word for word in (*EVENT_TYPES, *EVENT_STATUSES, *EVENT_SOURCES, "VirtualMachine")}
_KEYWORDS = ("EventType", "EventStatus", "ResourceType", "EventSource")

# Strict, because a guessed date could make an event due at once: email.utils takes the year 1 of an unset date
# (in .NET and Go) for 2001, and on Python 3.8 fails in a way of its own over an unknown month.
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Compiled when first needed: an Ansible module starts again for each task, and compiling is a good part of its start.
_RFC1123 = (
    r"(?:[A-Za-z]{3}, *)?(\d{1,2}) ([A-Za-z]{3}) ([1-9]\d{3}) (\d{2}:\d{2}:\d{2}) (?:GMT|UTC|([+-]\d{2})([0-5]\d))"
)
_ISO8601 = r"([1-9]\d{3}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.\d+)?(?:[Zz]|([+-]\d{2}):?([0-5]\d))?"

# Each escape in a JSON string; half of a surrogate pair is the first group.
_ESCAPES = r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)"

_MOST_WARNINGS = 10
# Many times the number that Azure lists; an answer of 1 MiB has room for half a million.
_MOST_BRACKETS = 100000
_MOST_ENTRIES = 20000
_MOST_RESOURCES = 2000
# Azure's ids are GUIDs of 36 characters.
_LONGEST_ID = 256
# Longer ones are no words of Azure and no dates, and nothing long is kept.
_LONGEST_WORD = 64

Warn = Callable[..., None]


def decode_document(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object in an answer with status 200, or None for an empty body: no document.

    Some VMs answer 200 with nothing in it (aks-node-termination-handler, issue 70), which tells neither
    that there are events nor that there are none.

    :raises NotImdsError: the body is a page of something else.
    :raises MalformedError: the body is not a JSON object with a list ``Events``.
    """
    # A byte that is not UTF-8 must not cost us the event it stands in.
    text = body.decode("utf-8-sig", errors="replace").strip()
    if not text:
        return None
    if text.startswith("<"):
        raise NotImdsError(
            "The endpoint answered with a web page, not with a scheduled events document: "
            f"{excerpt(text)}. Check for a proxy or portal between this VM and the endpoint.",
            http_status=200,
        )
    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        # Each makes an object in memory, of up to fifty times its size in the text.
        raise _malformed(f"has more than {_MOST_BRACKETS} lists and objects", text)
    try:
        content = load_json(text)
    except ValueError as error:
        raise _malformed(f"is not JSON ({error})", text) from error
    if not isinstance(content, dict):
        raise _malformed("is not a JSON object", text)
    if not isinstance(content.get("Events"), list):
        raise _malformed("has no list 'Events'", text)
    return content


def load_json(text: str) -> Any:
    """Return the content of JSON, with ? for half a surrogate pair.

    :raises ValueError: it is not JSON, or goes too deep.
    """
    if "\\ud" in text or "\\uD" in text:
        # Half a surrogate pair cannot be written as UTF-8, and Ansible refuses a whole answer that holds one.
        text = re.sub(_ESCAPES, lambda found: "?" if found[1] else found[0], text, flags=re.ASCII | re.DOTALL)
    try:
        # strict=False: IMDS has been seen to leave control characters unescaped inside strings.
        return json.loads(text, strict=False)
    except RecursionError as error:
        raise ValueError(str(error)) from error


def _malformed(fault: str, text: str) -> MalformedError:
    return MalformedError(
        f"The scheduled events document {fault}: {excerpt(text)}. Ask again; if it stays so, check the endpoint.",
        http_status=200,
    )


def parse_document(content: dict[str, Any], api_version: str) -> Document:
    """Model a decoded document; a fault in one event never costs another event.

    :param content: the result of decode_document().
    :param api_version: the version that was asked for; 2017-03-01 puts an underscore before VM names.
    """
    warnings = Warnings()
    incarnation = content.get("DocumentIncarnation")
    if isinstance(incarnation, bool) or not isinstance(incarnation, (int, str, type(None))):
        warnings.add("DocumentIncarnation is neither a number nor a string: ", incarnation)
        incarnation = None
    events: dict[str, Event] = {}
    twins: dict[str, list[Event]] = {}
    entries = content["Events"]
    is_clear = len(entries) <= _MOST_ENTRIES
    if not is_clear:
        warnings.add(f"The document has {len(entries)} entries. Only the first {_MOST_ENTRIES} are read.")
    for number, raw in enumerate(entries[:_MOST_ENTRIES], start=1):
        event = parse_event(raw, f"Event {number} of the document", api_version, warnings.add)
        if event is None:
            is_clear = False
            continue
        first = events.setdefault(event.key, event)
        if first is not event:
            warnings.add(f"The document lists event {one_line(event.event_id)} twice; the two are taken for one.")
            twins.setdefault(event.key, [first]).append(event)
    events.update((key, merge_entries(entries_of_one)) for key, entries_of_one in twins.items())
    return Document(incarnation, tuple(events.values()), warnings.sentences(), is_clear)


class Warnings:
    """The first warnings, and the number of the others: one answer may cause half a million."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._more = 0

    def add(self, *parts: Any) -> None:
        """Add a sentence: its whole text, or its text and the unreadable value that ends it."""
        if len(self._first) >= _MOST_WARNINGS:
            # The others are only counted: to show half a million values takes time and memory.
            self._more += 1
        elif len(parts) == 1:
            self._first.append(parts[0])
        else:
            text, value = parts
            self._first.append(f"{text}{_show(value)}.")

    def sentences(self) -> tuple[str, ...]:
        return (*self._first, *([f"And {self._more} more warnings of this document."] if self._more else []))


def merge_entries(entries: Sequence[Event]) -> Event:
    """Return one event for several entries with one id: no VM is lost, and started means started."""
    base = next((event for event in entries if event.has_started), entries[0])
    if not all(event.resources for event in entries):
        # Which VMs it affects is not known then, so that readiness cannot be confirmed.
        return base._replace(resources=(), names_its_vms=False)
    names: dict[str, str] = {}
    for event in entries:
        for name in event.resources:
            names.setdefault(fold_case(name), name)
    known_all = all(event.names_its_vms for event in entries)
    return base._replace(resources=tuple(names.values()), names_its_vms=known_all)


def parse_event(raw: Any, place: str, api_version: str, warn: Warn) -> Event | None:
    """Return one member of Events, or None where it cannot be read.

    :param place: names it in a warning.
    :param warn: is called as Warnings.add.
    """
    if not isinstance(raw, dict):
        warn(f"{place} is not an object and is left out: ", raw)
        return None
    event_id = raw.get("EventId")
    if not isinstance(event_id, str) or not event_id.strip():
        warn(f"{place} has no EventId and is left out: ", raw)
        return None
    if len(event_id) > _LONGEST_ID:
        warn(f"{place} has an EventId of {len(event_id)} characters, not of {_LONGEST_ID} at most, and is left out.")
        return None
    not_before_raw = _read_text(raw, "NotBefore", event_id, warn)
    description = _read_text(raw, "Description", event_id, warn)
    resources, names_its_vms = _parse_resources(raw.get("Resources"), event_id, api_version, warn)
    try:
        words = _spell_all(*map(raw.get, _KEYWORDS))
    except TypeError:
        words = tuple(_spell(_read_text(raw, field, event_id, warn)) for field in _KEYWORDS)
    event_type, event_status, resource_type, event_source = words
    if not event_type:
        warn(f"{_name(event_id)} has no EventType.")
    if not event_status:
        warn(f"{_name(event_id)} has no EventStatus.")
    not_before = _parse_not_before(not_before_raw, event_id, warn) if not_before_raw else None
    return Event(
        event_id=event_id,
        event_type=event_type,
        event_status=event_status,
        resource_type=resource_type,
        resources=resources,
        not_before=not_before,
        not_before_raw=not_before_raw,
        description=description,
        event_source=event_source,
        duration_seconds=_parse_duration(raw.get("DurationInSeconds"), event_id, warn),
        names_its_vms=names_its_vms,
    )


def _name(event_id: str) -> str:
    return f"Event {one_line(event_id)}"


def _read_text(raw: dict[str, Any], field: str, event_id: str, warn: Warn) -> str | None:
    value = raw.get(field)
    if value is None or isinstance(value, str):
        return value
    warn(f"{_name(event_id)}: {field} is not a string: ", value)
    return None


def _spell(word: str | None) -> str | None:
    """Return one of Azure's words in its own spelling."""
    return _AZURE_SPELLING.get(fold_case(word), word) if word else word


# A large answer has thousands of events, and few words in them.
@lru_cache(maxsize=256)
def _spell_all(*words: str | None) -> tuple[str | None, ...]:
    """Return the words as _spell() does.

    :raises TypeError: one of them is none.
    """
    if not all(word is None or (isinstance(word, str) and len(word) <= _LONGEST_WORD) for word in words):
        raise TypeError(words)
    return tuple(map(_spell, words))


def _parse_resources(value: Any, event_id: str, api_version: str, warn: Warn) -> tuple[tuple[str, ...], bool]:
    """Return the names of the VMs, and whether all of them could be read."""
    if not isinstance(value, list) or not value:
        told = "lists no VM, so it may affect this one and readiness cannot be confirmed. Resources is "
        warn(f"{_name(event_id)} {told}", value)
        return (), False
    names = []
    readable = len(value) <= _MOST_RESOURCES
    if not readable:
        warn(f"{_name(event_id)} lists {len(value)} VMs. Only the first {_MOST_RESOURCES} are read.")
        value = value[:_MOST_RESOURCES]
    for name in value:
        if not isinstance(name, str) or not name.strip():
            warn(f"{_name(event_id)}: Resources holds something that is not a VM name: ", name)
            # Kept, because an event that also affects an unknown VM must not pass the guard.
            name, readable = _show(name), False
        names.append(name)
    if api_version == "2017-03-01":
        names = [name[1:] if name.startswith("_") else name for name in names]
    return tuple(names), readable


def _parse_not_before(value: str, event_id: str, warn: Warn) -> datetime | None:
    """Read RFC 1123 or ISO 8601; Azure leaves the field empty once the event has started."""
    text = value.strip()
    if not text:
        return None
    try:
        if len(text) > _LONGEST_WORD:
            raise ValueError(text)
        return _parse_date(text)
    except (ValueError, OverflowError):
        warn(f"{_name(event_id)}: NotBefore cannot be read as a date, so its start is unknown: ", value)
        return None


# Events of one maintenance have one start.
@lru_cache(maxsize=1024)
def _parse_date(value: str) -> datetime:
    rfc = re.fullmatch(_RFC1123, value, re.ASCII)
    iso = None if rfc else re.fullmatch(_ISO8601, value, re.ASCII)
    if rfc:
        # The weekday is not checked: Microsoft's own samples have it wrong.
        number, month, year, clock, hours, minutes = rfc.groups()
        day = f"{year}-{_MONTHS.index(month.lower()) + 1:02}-{number:0>2}"
    elif iso:
        day, clock, hours, minutes = iso.groups()
    else:
        raise ValueError(value)
    return datetime.fromisoformat(f"{day}T{clock}{hours or '+00'}:{minutes or '00'}").astimezone(timezone.utc)


def _parse_duration(value: Any, event_id: str, warn: Warn) -> int | None:
    """Read DurationInSeconds, where -1 stands for unknown."""
    if value is None or value == -1:
        return None
    if not is_count(value):
        warn(f"{_name(event_id)}: DurationInSeconds is not a number of seconds: ", value)
        return None
    return int(value)


def _show(value: Any) -> str:
    return excerpt(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
