# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Documents of ``/metadata/scheduledevents`` and their events, as everything here knows them; parser.py reads them.

Facts about Azure are from Microsoft's page "Scheduled Events for Linux VMs"
(azure-compute-docs, linux/scheduled-events.md) unless another source is named.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Mapping, NamedTuple, Union

SCHEDULED = "Scheduled"
STARTED = "Started"

EVENT_TYPES = ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
EVENT_STATUSES = (SCHEDULED, STARTED)
EVENT_SOURCES = ("Platform", "User")

# Seconds. A larger number is no duration: dates and column widths are computed from it.
LONGEST_DURATION = 10**12

# Characters. Azure's texts must not fill the memory or the disk of a VM (P9).
_LONGEST_TEXT = 1000
_LONGEST_NAMES = 20_000

_UTC = "%Y-%m-%dT%H:%M:%SZ"
Incarnation = Union[int, str]


def fold_case(name: str) -> str:
    """Return the same text for all spellings of one event id, VM name or keyword: Azure mixes letter case."""
    return name.lower()


def is_count(value: Any) -> bool:
    """Tell whether a value is a number of seconds or of things that can be true: whole, not negative, not too large."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LONGEST_DURATION


class Event(NamedTuple):
    """One member of ``Events``.

    Fields that Azure left out, or that cannot be read, are None (``resources``: empty).
    ``not_before`` is in UTC; ``duration_seconds`` is None where Azure says -1, unknown.

    :ivar names_its_vms: every entry of Resources could be read, and there was one. Otherwise the event may affect
        any VM.
    """

    event_id: str
    event_type: str | None
    event_status: str | None
    resource_type: str | None
    resources: tuple[str, ...]
    not_before: datetime | None
    not_before_raw: str | None
    description: str | None
    event_source: str | None
    duration_seconds: int | None
    names_its_vms: bool = True

    @property
    def key(self) -> str:
        """The id in the form in which ids are compared."""
        return fold_case(self.event_id)

    @property
    def has_started(self) -> bool:
        return self.event_status == STARTED

    @property
    def leader(self) -> str | None:
        """The first name in Resources: all VMs of an event see the same one, so one VM can act for all."""
        return self.resources[0] if self.resources else None

    def seconds_until_start(self, now: datetime) -> int | None:
        """Return whole seconds until Azure may start the event: 0 when started or due, None when unknown."""
        if self.has_started:
            return 0
        if self.not_before is None:
            return None
        return max(0, int((self.not_before - now).total_seconds()))

    def affects(self, resource_name: str | None) -> bool | None:
        """Tell whether Resources lists the VM; None where the VM's name, or a name in Resources, is not known."""
        if resource_name is None or not self.resources:
            return None
        listed = fold_case(resource_name) in map(fold_case, self.resources)
        return listed if listed or self.names_its_vms else None

    def shortened(self) -> Event:
        """Return the event with its texts cut where they are too long to be kept.

        The id stays whole. Without its names, an event may affect any VM.
        """
        cut: dict[str, Any] = {
            name: value[:_LONGEST_TEXT]
            for name, value in self._asdict().items()
            if isinstance(value, str) and name != "event_id"
        }
        if sum(map(len, self.resources)) > _LONGEST_NAMES:
            return self._replace(**cut, resources=(), names_its_vms=False)
        return self._replace(**cut)

    def fields(self) -> dict[str, Any]:
        """Return Azure's fields of the event, ready for JSON; from_dict() reads them."""
        return {**self._asdict(), "resources": list(self.resources), "not_before": format_utc(self.not_before)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Event:
        """Return the event from the result of its to_dict() or fields().

        :raises KeyError, ValueError: it is not such a result.
        """
        moment = content["not_before"]
        known = {name: content[name] for name in cls._fields if name != "names_its_vms"}
        known.update(resources=tuple(content["resources"]), not_before=None if moment is None else parse_utc(moment))
        return cls(**known, names_its_vms=content.get("names_its_vms", bool(known["resources"])))

    def to_dict(self, now: datetime, resource_name: str | None) -> dict[str, Any]:
        """Return the event as users see it, every key always present.

        :param now: aware datetime that ``seconds_until_start`` counts from.
        :param resource_name: the name of this VM, None where it is unknown.
        """
        # Each field by its name takes longer, and a large answer has ten thousands of events.
        event_id, kind, status, resource_type, resources, start, start_raw, description, source, duration, _all = self
        leader = resources[0] if resources else None
        leads = None
        if resource_name is not None and leader is not None:
            leads = fold_case(leader) == fold_case(resource_name)
        return {
            "event_id": event_id,
            "event_type": kind,
            "event_status": status,
            "resource_type": resource_type,
            "resources": [*resources],
            "not_before": format_utc(start),
            "not_before_raw": start_raw,
            "seconds_until_start": self.seconds_until_start(now),
            "description": description,
            "event_source": source,
            "duration_seconds": duration,
            "affects_this_vm": self.affects(resource_name),
            "leader": leader,
            "is_leader": leads,
        }


class Document(NamedTuple):
    """One answer of ``/metadata/scheduledevents``.

    :ivar incarnation: DocumentIncarnation as Azure sent it; it may go back, so compare for equality only.
    :ivar warnings: a sentence for everything in the answer that could not be read, ten at most.
    :ivar is_clear: every entry of Events could be read, so that an event which is not listed is gone.
    """

    incarnation: Incarnation | None
    events: tuple[Event, ...]
    warnings: tuple[str, ...]
    is_clear: bool = True

    def find(self, event_id: str) -> Event | None:
        wanted = fold_case(event_id)
        return next((event for event in self.events if event.key == wanted), None)


def format_utc(moment: datetime | None) -> str | None:
    """Return ``2026-11-21T10:00:00Z``, or None for None."""
    if moment is None:
        return None
    # Not strftime, which is slow, and writes a year before 1000 with three digits, which strptime refuses.
    return f"{moment.astimezone(timezone.utc).isoformat()[:19]}Z"


def parse_utc(text: str) -> datetime:
    """Return the moment that format_utc() wrote.

    :raises ValueError: it is not such a text.
    """
    return datetime.strptime(text, _UTC).replace(tzinfo=timezone.utc)


def read_utc(text: str) -> datetime | None:
    """Read a text of format_utc(); None for anything else."""
    # fromisoformat() takes any character between the date and the time, and dates without one.
    if len(text) != 20 or text[10] != "T" or text[-1] != "Z":
        return None
    try:
        # With the strptime() of parse_utc() a large report takes a fifth longer.
        moment = datetime.fromisoformat(text[:-1] + "+00:00")
    except ValueError:
        return None
    return moment.astimezone(timezone.utc)
