# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Azure as a VM sees it: events with their resources, and a metadata service with its faults.

A model of its own, which shares nothing with the collection. It knows what it told, so that others can judge by it.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any, Callable, NamedTuple

from ansible_collections.fleetops.azure_maintenance.tests.campaign.rules import Words

VM = "web-1"
OTHER = "web-2"
_IDENTITY = {"vmId": "5f0c8a3e-37a1-4c7e-9f7b-1f1b9d0c6a11", "resourceId": f"/subscriptions/s/virtualMachines/{VM}"}
# When the history begins, on a wall clock that is right
EPOCH = 1_790_000_000.0

# What an entry does not have
_LEFT_OUT = object()
PLAIN = "Host server is undergoing maintenance."
# Those of PROTOCOL.md, none, and text that must stay text
_DESCRIPTIONS = (
    PLAIN,
    "Host Server infrastructure is undergoing maintenance.",
    "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
    "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
    "Virtual machine is going to be restarted as requested by authorized user.",
    "Virtual machine is going to be redeployed as requested by authorized user.",
    "Virtual machine has encountered a failure.",
    "Host server is undergoing an emergency repair.",
    "Virtual machine is undergoing maintenance",
    "",
    None,
    _LEFT_OUT,
    "{{ lookup('pipe', 'id') }} %n {0} \x1b]0;t\x07\x1b[31m",
    "Ma\u00dfnahme \ud83d\ude00 " * 400,
)
_SOURCES = ("Platform", "Platform", "Platform", "Platform", "platform", "User", "USER", "", None, _LEFT_OUT)
_DURATIONS = (-1, -1, -1, 0, 5, 9, 30, 600, 3600, None, _LEFT_OUT)


class Event:
    """An event of Azure; ``serial`` tells two with one id apart."""

    def __init__(self, serial: int, event_id: str, kind: str, resources: list[str], not_before: float) -> None:
        self.serial = serial
        self.id = event_id
        self.kind = kind
        self.resources = resources
        self.not_before = not_before
        self.source: Any = "Platform"
        self.seconds: Any = -1
        self.description: Any = PLAIN
        self.started = False
        self.ended = False
        self.taken = False
        # How its entry is spoilt, if it is
        self.spoilt: str | None = None

    def describe(self, luck: float) -> None:
        """Let it have one of all descriptions, sources and durations."""
        self.description = _DESCRIPTIONS[int(luck * len(_DESCRIPTIONS))]
        self.source = _SOURCES[int(luck * 1e3 % 1.0 * len(_SOURCES))]
        self.seconds = _DURATIONS[int(luck * 1e6 % 1.0 * len(_DURATIONS))]


class Entry(NamedTuple):
    """What a document says of an event.

    :ivar resources: empty where they cannot be read.
    :ivar not_before: minus infinity where the date is of long ago.
    """

    event: Event
    status: str
    resources: tuple[str, ...]
    not_before: float
    words: Words


class Told(NamedTuple):
    """What Azure answered, as it knows it itself.

    :ivar what: document, empty, error, name, no name or taken.
    :ivar entries: those that can be read, by id in lower case.
    :ivar clear: every entry can be read.
    """

    what: str
    entries: dict[str, Entry] = {}  # noqa: RUF012 - never changed
    clear: bool = True
    retry_after: float = 0.0


class Reply(NamedTuple):
    """An answer; without a status the connection is reset. The answer may be held for longer than anybody waits."""

    delay: float
    status: int | None
    headers: dict[str, str]
    body: bytes
    told: Told


_PAGE = b"<html><body>Please log in</body></html>"
_JUNK = {
    "page": (200, {}, _PAGE),
    "junk": (200, {}, b'{"error": "not now"}'),
    "text": (200, {}, b"out of order"),
    "500": (500, {}, b'{"error": "internal"}'),
    "410": (410, {}, b""),
    "404": (404, {}, b'{"error": "not found"}'),
    "429": (429, {"retry-after": "20"}, b""),
    "long 429": (429, {"retry-after": "300"}, b""),
}
_NAMES = {
    "junk": (200, b'{"error": "not now"}'),
    "page": (200, _PAGE),
    "404": (404, b'{"error": "not found"}'),
    "empty": (200, b""),
    # These could be a name for a reader who is less strict.
    "word": (200, b"Unavailable"),
    "no id": (200, b'{"name": "Unavailable"}'),
    "sentence": (200, json.dumps({**_IDENTITY, "name": "Service Unavailable"}).encode()),
    "500": (500, b""),
}


class Azure:
    """:param chance: tells a number from 0 to 1 for a key."""

    def __init__(self, chance: Callable[..., float]) -> None:
        self._chance = chance
        self.events: list[Event] = []
        self._faults: dict[str, tuple[str, float]] = {}
        self._requests = 0
        self._incarnation = 1
        # The ids, in lower case, in all approvals that it took, or answered with 200
        self.accepted: set[str] = set()

    def announce(self, event_id: str, kind: str, resources: list[str], now: float, notice: float) -> Event:
        event = Event(len(self.events) + 1, event_id, kind, resources, now + notice)
        self.events.append(event)
        return event

    @property
    def open(self) -> list[Event]:
        return [event for event in self.events if not event.ended]

    def start(self, event: Event) -> None:
        if not event.ended:
            event.started = True

    def end(self, event: Event) -> None:
        event.ended = True

    def break_until(self, part: str, how: str, until: float) -> None:
        """Let a part of the service fail in a way: answers, delays, names, posts, order, flood."""
        self._faults[part] = (how, until)

    def mend(self) -> None:
        self._faults.clear()
        for event in self.events:
            event.spoilt = None

    def fault(self, part: str, now: float) -> str | None:
        how, until = self._faults.get(part, (None, 0.0))
        return how if now < until else None

    def answer(self, method: str, path: str, body: bytes | None, now: float) -> Reply:
        """Return what is answered to a request that comes now."""
        self._requests += 1
        delay = 0.004 + 0.01 * self._chance("delay", self._requests)
        held = self.fault("delays", now)
        if held == "hold":
            delay = 400.0
        elif held == "slow":
            delay = 9.0 * self._chance("slow", self._requests)
        if held == "reset":
            return Reply(delay, None, {}, b"", Told("error"))
        if "/instance/" in path:
            return self._answer_name(delay, now)
        if method == "POST":
            return self._answer_post(delay, body or b"", now)
        return self._answer_document(delay, now)

    def _answer_name(self, delay: float, now: float) -> Reply:
        how = self.fault("names", now)
        if how is None:
            return Reply(delay, 200, {}, json.dumps({**_IDENTITY, "name": VM}).encode(), Told("name"))
        status, body = _NAMES[how]
        return Reply(delay, status, {}, body, Told("no name"))

    def _answer_post(self, delay: float, body: bytes, now: float) -> Reply:
        how = self.fault("posts", now)
        asked = {str(each["EventId"]).lower() for each in json.loads(body)["StartRequests"]}
        if how in _JUNK:
            status, headers, text = _JUNK[how]
            if status == 200:
                self.accepted |= asked
            return Reply(delay, status, headers, text, Told("error"))
        found = [event for event in self.open if event.id.lower() in asked and not event.started]
        if {event.id.lower() for event in found} != asked:
            return Reply(delay, 400, {}, b'{"error": "no such event"}', Told("error"))
        self.accepted |= asked
        for event in found:
            event.taken = True
        if how == "lost":
            return Reply(delay, None, {}, b"", Told("error"))
        return Reply(delay, 200, {}, b"", Told("taken"))

    def _answer_document(self, delay: float, now: float) -> Reply:
        how = self.fault("answers", now)
        if how == "empty":
            return Reply(delay, 200, {}, b"", Told("empty"))
        if how in _JUNK:
            status, headers, text = _JUNK[how]
            wait = float(headers.get("retry-after", 0))
            return Reply(delay, status, headers, text, Told("error", retry_after=wait))
        entries: dict[str, Entry] = {}
        listed: list[object] = []
        clear = True
        for event in self.open:
            started = event.started
            if self.fault("order", now) and self._chance("order", self._requests) < 0.5:
                started = False
            status = "Started" if started else "Scheduled"
            listed.append(_write(event, status))
            if event.spoilt in ("no id", "no object"):
                clear = False
            else:
                readable = event.spoilt not in ("no vm", "null vm")
                not_before = float("-inf") if event.spoilt == "odd date" else event.not_before
                resources = tuple(event.resources) if readable else ()
                entries[event.id.lower()] = Entry(event, status, resources, not_before, _read(event))
        flood = self.fault("flood", now)
        if flood == "junk":
            clear = False
            listed += [{"EventId": None, "Resources": [number]} for number in range(300)]
        elif flood == "events":
            listed += [_noise(number) for number in range(130)]
        body = json.dumps({"DocumentIncarnation": len(self.events), "Events": listed}).encode()
        return Reply(delay, 200, {}, body, Told("document", entries, clear))


def _write(event: Event, status: str) -> object:
    if event.spoilt == "no object":
        return 17
    moment = datetime.fromtimestamp(EPOCH + event.not_before, timezone.utc)
    entry = {
        "EventId": event.id,
        "EventType": event.kind,
        "EventStatus": status,
        "ResourceType": "VirtualMachine",
        "Resources": event.resources,
        "NotBefore": "" if status == "Started" else moment.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "Description": event.description,
        "EventSource": event.source,
        "DurationInSeconds": event.seconds,
    }
    entry = {field: value for field, value in entry.items() if value is not _LEFT_OUT}
    if event.spoilt == "no id":
        entry["EventId"] = None
    elif event.spoilt == "no vm":
        entry["Resources"] = []
    elif event.spoilt == "null vm":
        entry["Resources"] = [None]
    elif event.spoilt == "odd date":
        entry["NotBefore"] = "1000-01-01T00:00:00+05:00"
    elif event.spoilt == "odd fields":
        entry.update(EventType=None, Description=["x"], DurationInSeconds="long")
    return entry


def _read(event: Event) -> Words:
    """Return what a reader can know of an event."""
    given = (event.source, event.seconds, event.description)
    source, seconds, description = (None if value is _LEFT_OUT else value for value in given)
    odd = event.spoilt == "odd fields"
    return Words(
        kind=None if odd else event.kind,
        source=source and source.capitalize(),
        seconds=None if odd or seconds == -1 else seconds,
        description=None if odd else description,
    )


def _noise(number: int) -> object:
    return {
        "EventId": f"noise-{number}",
        "EventType": "Unheard",
        "EventStatus": "Scheduled",
        "Resources": [VM],
        "NotBefore": "",
    }
