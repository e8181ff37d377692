# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Events from Azure's control plane, by Resource Graph or by Event Grid; pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Callable, Collection, Iterable, Mapping, NamedTuple, Sequence

from ...module_utils._errors import excerpt
from ...module_utils._event.document import EVENT_STATUSES, Event, fold_case, format_utc
from ...module_utils._event.parser import merge_entries, parse_event
from ...module_utils._event.selection import Selection, check_words, keys, words
from .resource_ids import ResourceId, read_event_target

COMPLETED, CANCELED = "Completed", "Canceled"
# Azure's schemas have both spellings.
_STATUSES = {"completed": COMPLETED, "canceled": CANCELED, "cancelled": CANCELED}
ALL_STATUSES = (*EVENT_STATUSES, COMPLETED, CANCELED)
OUTCOMES = {COMPLETED: "completed", CANCELED: "withdrawn"}

# Names as the pages write them; the schemas of other services begin them with a small letter.
_FIELDS = {
    name.lower(): name
    for name in (
        "EventId",
        "EventType",
        "EventStatus",
        "ResourceType",
        "Resources",
        "NotBefore",
        "Description",
        "EventSource",
        "DurationInSeconds",
    )
}
# VM names have an underscore in the oldest api-version, and none here.
_NO_UNDERSCORES = ""

Warn = Callable[..., None]


class OutsideEvent(NamedTuple):
    """An event from Azure's control plane.

    :ivar targets: the resources that it is an event of; one, unless Azure sends it for several.
    :ivar location: the region, None where it is unknown.
    """

    event: Event
    targets: tuple[ResourceId, ...] = ()
    location: str | None = None

    @property
    def outcome(self) -> str | None:
        """How it ended, None where it has not."""
        return OUTCOMES.get(self.event.event_status or "")

    @property
    def vms(self) -> list[ResourceId]:
        """The VMs that it lists, as far as their resource is known."""
        listed = [target.member(name) for target in self.targets for name in self.event.resources]
        return listed if len(listed) < 2 else list({vm.key: vm for vm in listed}.values())

    def to_dict(self, now: datetime) -> dict[str, Any]:
        """Return the event as users see it, every key always present."""
        told, outcome = self.event.to_dict(now, None), self.outcome
        if outcome is not None:
            told["seconds_until_start"] = None
        told["outcome"] = outcome
        told["vm_resource_ids"] = [vm.path for vm in self.vms]
        told["target_resource_ids"] = [target.path for target in self.targets]
        told["location"] = self.location
        return told


def read_properties(content: Any, place: str, warn: Warn, event_id: Any = None) -> Event | None:
    """Return the event in the ``properties`` of a row or message, or None where it cannot be read.

    :param event_id: used where the properties have none.
    """
    if isinstance(content, dict) and "EventId" not in content:
        content = {_FIELDS.get(str(name).lower(), name): value for name, value in content.items()}
        if not content.get("EventId") and event_id:
            content["EventId"] = event_id
    event = parse_event(content, place, _NO_UNDERSCORES, warn)
    if event is None or event.event_status is None or event.event_status in ALL_STATUSES:
        return event
    status = _STATUSES.get(event.event_status.lower())
    return event if status is None else event._replace(event_status=status)


def read_row(row: Any, number: int, warn: Warn) -> OutsideEvent | None:
    """Return the event in a row of the table maintenanceresources, or None where it cannot be read."""
    place = f"Row {number} of Azure Resource Graph"
    if not isinstance(row, dict):
        warn(f"{place} is not an object and is left out: {excerpt(str(row))}.")
        return None
    content = row.get("properties")
    event = read_properties(content, place, warn, row.get("name"))
    if event is None:
        return None
    target = read_event_target(row.get("id"))
    if target is None and isinstance(content, dict):
        target = read_event_target(content.get("TargetResourceId"))
    if target is None:
        warn(f"Event {excerpt(event.event_id)} of Azure Resource Graph does not tell of which resource it is.")
    location = row.get("location")
    return OutsideEvent(event, (target,) if target else (), location if isinstance(location, str) else None)


def merge(events: Iterable[OutsideEvent]) -> list[OutsideEvent]:
    """Return one event for all rows with one id, in the order of the first ones.

    No VM is lost, and an event that has not ended everywhere has not ended.
    """
    by_id: dict[str, list[OutsideEvent]] = {}
    for each in events:
        by_id.setdefault(each.event.key, []).append(each)
    return [rows[0] if len(rows) == 1 else _merge(rows) for rows in by_id.values()]


def _merge(rows: Sequence[OutsideEvent]) -> OutsideEvent:
    # Azure gives a row twice if it changed between two pages: the last one counts.
    last = {row.targets or number: row for number, row in enumerate(rows)}
    still_open = [row for row in last.values() if row.outcome is None]
    first, *_others = still_open or last.values()
    merged = merge_entries([first.event, *(row.event for row in last.values() if row is not first)])
    merged = merged._replace(event_status=_status([row.event for row in still_open or last.values()]))
    targets = {target.key: target for row in last.values() for target in row.targets}
    return OutsideEvent(merged, tuple(targets.values()), first.location)


def _status(events: Sequence[Event]) -> str | None:
    return next((event.event_status for event in events if event.has_started), events[0].event_status)


def read_selection(options: Mapping[str, Any]) -> Selection:
    """Return the selection of the options.

    :raises ValueError: a word is none of Azure's.
    """
    check_words({name: options.get(name) for name in ("event_ids", "event_types", "event_sources")})
    statuses = words(options.get("event_statuses"))
    for status in statuses:
        if fold_case(status) not in keys((*ALL_STATUSES, *_STATUSES)):
            raise ValueError(f"event_statuses must be any of {', '.join(ALL_STATUSES)}, not {excerpt(status)}.")
    due = options.get("due_within")
    if due is not None and due < 0:
        raise ValueError(f"due_within must be 0 seconds or more, not {due}.")
    return Selection(
        event_ids=keys(words(options.get("event_ids"))),
        event_types=keys(words(options.get("event_types"))),
        event_statuses=keys(_STATUSES.get(status.lower(), status) for status in statuses),
        event_sources=keys(words(options.get("event_sources"))),
        due_within=due,
    )


def select(
    events: Iterable[OutsideEvent], selection: Selection, now: datetime, resources: Sequence[ResourceId] | None = None
) -> list[OutsideEvent]:
    """Return the wanted events.

    :param resources: leave out events of which it is known that they affect none of these.
    """
    wanted = None if resources is None else {resource.key for resource in resources}
    return [each for each in events if _matches(each, selection, now) and (wanted is None or affected(each, wanted))]


def _matches(each: OutsideEvent, selection: Selection, now: datetime) -> bool:
    if selection.due_within is not None and each.outcome is not None:
        return False
    return selection.matches(each.event, now)


def affected(each: OutsideEvent, wanted: Collection[str]) -> dict[str, bool | None]:
    """Return those of the resources, by their keys, that an event affects; with None those that it may affect, because
    its resources are unknown.
    """
    if not each.targets:
        return dict.fromkeys(wanted)
    if not each.event.names_its_vms:
        # VMs of a set are in its resource group.
        groups = tuple(target.group_key for target in each.targets)
        return dict.fromkeys(key for key in wanted if key.startswith(groups))
    return {resource.key: True for resource in (*each.targets, *each.vms) if resource.key in wanted}


def read_health(row: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the key of the VM of a row of the table healthresources, and the cause; None where it has no VM."""
    content = row.get("properties") if isinstance(row, dict) else None
    if not isinstance(content, dict):
        return None
    vm = read_event_target(content.get("targetResourceId"))
    if vm is None:
        return None

    def text(name: str) -> str | None:
        value = content.get(name)
        return value if isinstance(value, str) and value else None

    return vm.key, {
        "vm_resource_id": str(vm),
        "annotation": text("annotationName"),
        "reason": text("reason"),
        "category": text("category"),
        "context": text("context"),
        "summary": text("summary"),
        "occurred_at": _read_time(text("occurredTime")),
    }


def _read_time(value: str | None) -> str | None:
    """Return a time as this collection writes it, or as Azure wrote it where it cannot be read."""
    if value is None:
        return None
    try:
        # Python 3.10 reads neither Z nor seven digits.
        return format_utc(datetime.fromisoformat(f"{value[:19]}+00:00"))
    except ValueError:
        return value


def summarize(events: Sequence[OutsideEvent], is_complete: bool) -> str:
    """Return in one sentence how many events there are in which status."""
    counts: dict[str, int] = {}
    for each in events:
        status = each.event.event_status or "unknown status"
        counts[status] = counts.get(status, 0) + 1
    order = {status: number for number, status in enumerate(ALL_STATUSES)}
    parts = [
        f"{counts[status]} {excerpt(status)[1:-1]}" for status in sorted(counts, key=lambda each: order.get(each, 9))
    ]
    told = f"Azure Resource Graph has {', '.join(parts[:8]) or 'no such event'}."
    return told if is_complete else f"{told} Its answer is not complete, so there may be more. Ask again."
