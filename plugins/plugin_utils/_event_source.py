# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What becomes of the events of this VM, for the event source of Event-Driven Ansible."""

from __future__ import annotations

import json
import logging
import os
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

# Relative, because the event source imports this file where ansible_collections cannot be imported.
from ..module_utils._document import (
    STARTED,
    Document,
    Event,
    decode_document,
    fold_case,
    parse_document,
)
from ..module_utils._errors import ImdsError, MalformedError
from ..module_utils._fetch import NO_RESOURCE_NAME, now_utc
from ..module_utils._imds import DEFAULT_API_VERSION, ImdsClient
from ..module_utils._imds_transport import Deadline
from ..module_utils._lifecycle import Known, Transition, find_transitions

# ansible-rulebook gives the file of a source no name of its own.
logger = logging.getLogger("fleetops.azure_maintenance.scheduled_events")

# The metadata service answers within 10 s once the feature is on (the IMDS team in go-autorest, issue 660).
_USUAL_ANSWER = 10.0
# A Preempt is announced 30 s ahead, so a fault must not silence us for long.
_LONGEST_PAUSE = 5.0
_LONGEST_RETRY_AFTER = 60.0
_NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"


def is_host_name(name: str) -> bool:
    """Tell whether Ansible takes it for one host: as a limit, other characters make a pattern or name a file."""
    return not set(name) - set(_NAME) and name[:1].isalnum()


class Seen(NamedTuple):
    """An event that has not ended, and during which boot of this VM it was first seen."""

    event: Event
    boot_id: str


class Watcher:
    """What is known of the events of this VM, and how the asking goes. Its methods may take long.

    :raises ValueError: the state file cannot be used.
    """

    def __init__(
        self, client: ImdsClient, resource_name: str | None, poll_interval: float, state_file: str | None
    ) -> None:
        self._client = client
        self._name = resource_name
        self._poll_interval = poll_interval
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        self._state = StateFile(state_file) if state_file else None
        self._seen = self._state.read() if self._state else {}
        self._before: dict[str, Seen] = {}
        self._compared = False
        self._answered = False
        self._body: bytes | None = None
        self._failures = 0
        self._failure: tuple[str, int | None] | None = None

    def poll(self) -> tuple[list[dict[str, Any]], float]:
        """Ask once, and return what is to be told and the seconds from this question to the next."""
        try:
            told = self._ask()
        except ImdsError as error:
            return [], self._fail(error)
        if self._failures:
            logger.warning("Azure answers again, after %d polls that failed.", self._failures)
        self._failures, self._failure, self._answered = 0, None, True
        return told, self._poll_interval

    def keep(self) -> None:
        """Write down what has not ended. What ended is forgotten only after it was told."""
        self._before = {}
        self._write()

    def _write(self) -> None:
        if self._state:
            self._state.write({**self._before, **self._seen})

    def _fail(self, error: ImdsError) -> float:
        failure = (error.reason, error.http_status)
        if failure != self._failure:
            logger.warning("Azure could not be asked: %s", error)
        self._failures, self._failure = self._failures + 1, failure
        growing = min(self._poll_interval * 2.0 ** min(self._failures - 1, 10), _LONGEST_PAUSE)
        return max(growing, self._poll_interval, min(error.retry_after or 0.0, _LONGEST_RETRY_AFTER))

    def _ask(self) -> list[dict[str, Any]]:
        """:raises ImdsError: there was no usable answer."""
        timeout = self._client.timeout
        deadline = Deadline(min(timeout, _USUAL_ANSWER) if self._answered else timeout)
        body = self._client.get_document(deadline)
        if body == self._body:
            return []
        content = decode_document(body)
        if content is None:
            logger.warning("Azure answered without a document, so that nothing is known; no event counts as ended.")
            self._body = body
            return []
        name = self._name = self._name or self._ask_name(deadline)
        document = parse_document(content, self._client.api_version)
        for warning in document.warnings:
            logger.warning("%s", warning)
        self._body = body
        return self._compare(document, name)

    def _ask_name(self, deadline: Deadline) -> str:
        name = self._client.get_resource_name(deadline)
        if name is None or not is_host_name(name):
            raise MalformedError(NO_RESOURCE_NAME)
        return name

    def _compare(self, document: Document, name: str) -> list[dict[str, Any]]:
        now = now_utc()
        ours = {event.key: event for event in document.events if event.affects(name) is not False}
        # The disk of a VM may be a copy of another's.
        before = {key: seen for key, seen in self._seen.items() if seen.event.affects(name) is not False}
        # After a start all that is listed is told again, for what it set off may have been cut short.
        known = [
            Known(
                seen.event,
                rebooted=seen.boot_id != self._boot_id,
                fell_due=seen.event.seconds_until_start(now) == 0,
            )
            for key, seen in before.items()
            if self._compared or key not in ours
        ]
        self._compared = True
        transitions = find_transitions(known, document._replace(events=tuple(ours.values())))
        new = {key: Seen(event, self._boot_id) for key, event in ours.items()}
        for key in new.keys() & before.keys():
            event = new[key].event
            if before[key].event.has_started:
                event = event._replace(event_status=STARTED)
            new[key] = Seen(event, before[key].boot_id)
        self._before, self._seen = before, new
        self._write()
        return [_tell(transition, name, now) for transition in transitions]


def _tell(transition: Transition, name: str, now: datetime) -> dict[str, Any]:
    """Return what ansible-rulebook gets."""
    event, phase = transition.event, transition.phase
    what = f"fleetops.azure_maintenance/{fold_case(name)}/{event.key}/{phase}"
    return {
        "maintenance_event": event.to_dict(now, name),
        "maintenance_phase": phase,
        "maintenance_outcome": transition.outcome,
        "resource_name": name,
        "meta": {"hosts": [name], "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, what))},
    }


class StateFile:
    """The events that have not ended, in the form of Azure's document and with the boot of each.

    It is checked that it can be written, for later on nobody is there to be told.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._written: str | None = None
        self._failed = False

    def read(self) -> dict[str, Seen]:
        """:raises ValueError: it is no such file, or cannot be used."""
        try:
            body = self._path.read_bytes() if self._path.exists() else b'{"Events": []}'
            content = decode_document(body) or {"Events": None}
            boots = [(raw["EventId"], str(raw["BootId"])) for raw in content["Events"]]
            events = parse_document(content, DEFAULT_API_VERSION)
            seen = {event.key: Seen(event, dict(boots)[event.event_id]) for event in events.events}
        except (ImdsError, KeyError, TypeError) as error:
            raise ValueError(f"state_file {self._path} was not written by this source. Remove it.") from error
        except OSError as error:
            raise ValueError(f"state_file {self._path} cannot be read: {error.strerror}.") from error
        if not os.access(self._path.parent, os.W_OK | os.X_OK):
            raise ValueError(f"state_file {self._path} cannot be written. Its folder must exist and be writable.")
        return seen

    def write(self, seen: dict[str, Seen]) -> None:
        """Replace the file, if anything changes; one that cannot be written is said once and costs no event."""
        text = json.dumps({"Events": [_as_azure_does(each) for each in seen.values()]}, indent=2) + "\n"
        if text == self._written:
            return
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            with open(beside, "w", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._path)
        except OSError as error:
            if not self._failed:
                logger.error("state_file %s cannot be written: %s.", self._path, error.strerror)
            self._failed = True
            return
        self._written, self._failed = text, False


def _as_azure_does(seen: Seen) -> dict[str, Any]:
    event = seen.event
    return {
        "EventId": event.event_id,
        "EventType": event.event_type,
        "EventStatus": event.event_status,
        "ResourceType": event.resource_type,
        "Resources": list(event.resources),
        "NotBefore": event.not_before_raw,
        "Description": event.description,
        "EventSource": event.event_source,
        "DurationInSeconds": event.duration_seconds,
        "BootId": seen.boot_id,
    }
