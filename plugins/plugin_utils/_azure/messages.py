# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Event Grid's messages about scheduled events, in each form in which they were seen; pure."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from datetime import datetime
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from ...module_utils._errors import excerpt, one_line
from ...module_utils._event.document import SCHEDULED
from ...module_utils._event.document import STARTED as STATUS_STARTED
from ...module_utils._event.lifecycle import ANNOUNCED, ENDED, STARTED
from .._host_name import is_host_name
from .events import CANCELED, COMPLETED, OutsideEvent, read_properties
from .resource_ids import read_event_target

Warn = Callable[..., None]

_TYPE = "microsoft.maintenance/scheduledevents"
_PHASES = {SCHEDULED: ANNOUNCED, STATUS_STARTED: STARTED, COMPLETED: ENDED, CANCELED: ENDED}
_ORDER = (ANNOUNCED, STARTED, ENDED)
_SECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?=[.\d]*(Z|\+00:00)$)", re.ASCII)


class Message(NamedTuple):
    """An event from a message.

    :ivar message_id: the same in a message that comes twice.
    :ivar published: the second of the message in UTC, which can be compared as text; empty where it is not known.
    """

    told: OutsideEvent
    phase: str
    message_id: str
    published: str = ""

    def to_dict(self, now: datetime) -> dict[str, Any]:
        """Return it in the form of the event source scheduled_events."""
        return {
            "maintenance_event": self.told.to_dict(now),
            "maintenance_phase": self.phase,
            "maintenance_outcome": self.told.outcome,
            "meta": {"hosts": list(self.told.event.resources)},
        }


def read_messages(content: Any, warn: Warn) -> list[Message] | None:
    """Return the events in the messages of a source, or None where there is none that can be read.

    :param content: one message, or a list of them.
    """
    found: list[Message] = []
    for message in content if isinstance(content, list) else [content]:
        for resource in _resources(message):
            read = _read(message, resource, warn)
            # One that cannot be read is warned of, and costs no other its place.
            found += [read] if read else []
    return found or None


def _resources(message: Any) -> Iterator[Mapping[str, Any]]:
    """Return the scheduled events in a message, as Azure Resource Manager has them.

    Event Grid's own schema and that of CloudEvents have the same ``data``. The form with a list of resources is
    Azure's internal one.
    """
    data = message.get("data") if isinstance(message, dict) else None
    if not isinstance(data, dict):
        return
    entries = [data.get("resourceInfo")]
    if isinstance(data.get("resources"), list):
        entries += [entry.get("armResource") for entry in data["resources"] if isinstance(entry, dict)]
    for entry in entries:
        if isinstance(entry, dict) and (
            str(entry.get("type")).lower() == _TYPE or f"/{_TYPE}/" in str(entry.get("id")).lower()
        ):
            yield entry


def _read(message: Mapping[str, Any], resource: Mapping[str, Any], warn: Warn) -> Message | None:
    event = read_properties(resource.get("properties"), "An event of Event Grid", warn, resource.get("name"))
    if event is None:
        return None
    phase = _PHASES.get(event.event_status or "")
    if phase is None:
        warn(
            f"Event {one_line(event.event_id)} of Event Grid has an unknown status: {excerpt(str(event.event_status))}."
        )
        return None
    if not event.names_its_vms or not all(map(is_host_name, event.resources)):
        # A playbook would run on other hosts than those of the event.
        warn(f"Event {one_line(event.event_id)} of Event Grid lists something that is no name of a VM.")
        return None
    target = read_event_target(resource.get("id")) or read_event_target(message.get("subject"))
    location = resource.get("location")
    told = OutsideEvent(event, (target,) if target else (), location if isinstance(location, str) else None)
    # Each schema wants an id. Two messages without one are the same if they say the same.
    message_id = message.get("id") or json.dumps([message.get("subject"), resource], sort_keys=True, default=str)
    # CloudEvents has another name for it.
    published = _SECOND.match(str(message.get("eventTime") or message.get("time")))
    return Message(told, phase, f"{message_id}/{event.key}", published[0] if published else "")


class Latest:
    """The latest messages, so that no message is passed on twice, and no event goes back."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._messages: OrderedDict[str, None] = OrderedDict()
        self._phases: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def is_news(self, message: Message) -> bool:
        """Tell whether the message is new and not older than the last one of its event, and keep it."""
        # Azure may send an event for each of its VMs.
        key = " ".join([message.told.event.key, *(target.key for target in message.told.targets)])
        known_phase, known_published = self._phases.get(key, (ANNOUNCED, ""))
        # Azure may list an event again that it has withdrawn.
        is_anew = (message.phase, known_phase) == (ANNOUNCED, ENDED) and message.published > known_published > ""
        is_older = _ORDER.index(message.phase) < _ORDER.index(known_phase) and not is_anew
        if message.message_id in self._messages or is_older:
            return False
        self._messages[message.message_id] = None
        self._phases[key] = (message.phase, message.published)
        self._phases.move_to_end(key)
        for kept in (self._messages, self._phases):
            while len(kept) > self._most:
                kept.popitem(last=False)
        return True
