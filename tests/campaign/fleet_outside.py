# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Azure's control plane beside a fleet of VMs: its rows are late, contradict the VMs, or do not come.

The product asks it by its own code. Only the client is this one, with a virtual clock.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any, Callable, Mapping, Sequence

from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure import acknowledge
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.arm import Answer
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.errors import (
    FORBIDDEN,
    HTTP_STATUS,
    TIMEOUT,
    AzureError,
)

from .fleet_world import Event, World

GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
SET = f"{GROUP}/availabilitySets/fleet"
OF_EVENT = "/providers/Microsoft.Maintenance/scheduledevents/"
# How a row contradicts the VMs
CANCELED, COMPLETED, ONE_MORE, ANOTHERS, NAMELESS = "canceled", "completed", "one more", "another's", "nameless"
LIES = (CANCELED, COMPLETED, ONE_MORE, ANOTHERS, NAMELESS)
# What becomes of a request
HANGS, FAILS, REFUSED, ANSWER_LOST = "hangs", "fails", "refused", "answer lost"


@dataclass
class Asked:
    """What Azure has told of an event when a run approves it."""

    # Its row in the last answer before the approval, None where there was none, or an approval was sent since
    row: Mapping[str, Any] | None
    resources_ready: Sequence[str]

    @property
    def names(self) -> Sequence[str]:
        """The VMs that the row lists."""
        return self.row["Resources"] if self.row else ()


class Outside:
    """Azure's control plane.

    :ivar lag: seconds after which a change is in a row.
    :ivar lies: how the rows of some events contradict the VMs, by the ids of the events.
    """

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.lag = chance.choice((0.0, 0.0, 5.0, 60.0, 300.0))
        self.lies = {event.event_id: chance.choice(LIES) for event in world.events if chance.random() < 0.35}
        for event in world.events:
            others = [vm.name for vm in world.vms.values() if vm.name not in event.vms]
            if others and chance.random() < 0.3:
                event.grows_by = chance.choice(others)
                event.grows_at = chance.uniform(event.appears_at, min(event.not_before, event.appears_at + 120.0))
        self.faults = chance.choice((0.0, 0.0, 0.0, 0.4, 0.4, 1.0))

    def describe(self) -> str:
        return f"Azure's rows are {self.lag:.0f} s late; faults {self.faults}; lies {self.lies}"

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for event in self.world.events:
            known = [each for each in event.story if each[0] <= self.world.now - self.lag]
            if known:
                found.append(self._row(event, *known[-1][1:], self.lies.get(event.event_id)))
        return found

    def _row(self, event: Event, status: str, vms: Sequence[str], lie: str | None) -> dict[str, Any]:
        names = list(vms)
        if lie in (CANCELED, COMPLETED):
            status = {CANCELED: "Cancelled", COMPLETED: "Completed"}[lie]
        elif lie == ONE_MORE:
            names.append("one-more")
        elif lie == ANOTHERS:
            names = ["one-more"]
        elif lie == NAMELESS:
            names = []
        start = datetime.fromtimestamp(event.not_before, timezone.utc)
        return {
            "id": f"{SET}{OF_EVENT}{event.event_id}",
            "name": event.event_id.lower(),
            "location": "westeurope",
            "properties": {
                "EventId": event.event_id,
                "EventType": event.kind,
                "ResourceType": "VirtualMachine",
                "Resources": names,
                "EventStatus": status,
                "NotBefore": format_datetime(start, usegmt=True) if status == "Scheduled" else "",
                "Description": "",
                "EventSource": "Platform",
                "DurationInSeconds": -1,
            },
        }


class Client:
    """Stands in for ArmClient.

    :param advance: lets time pass until a moment.
    :param approves: is called with each approval that Azure takes.
    """

    def __init__(
        self,
        outside: Outside,
        chance: random.Random,
        timeout: float,
        advance: Callable[[float], None],
        approves: Callable[[Event, Asked], None],
        resources_ready: Sequence[str],
    ) -> None:
        self._outside, self._chance, self._advance, self._approves = outside, chance, advance, approves
        self._ends = outside.world.now + timeout
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._ready = resources_ready

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._outside.world.now, timezone.utc)

    def pause(self, seconds: float, reason: AzureError | None = None) -> None:
        if self._outside.world.now + seconds >= self._ends:
            raise reason or AzureError("The time is up.", TIMEOUT)
        self._advance(self._outside.world.now + seconds)

    def send(
        self, method: str, path: str, _version: str, body: Any = None, headers: Any = None, again: Any = True
    ) -> Answer:
        world = self._outside.world
        fault = self._fault()
        if fault == HANGS:
            self._advance(max(self._ends, world.now))
            raise AzureError("There was no end of it.", TIMEOUT)
        self._advance(world.now + 1.0)
        if fault == REFUSED:
            raise AzureError("This login has not the right for it.", FORBIDDEN, 403)
        if fault == FAILS:
            raise AzureError("Azure answered 500.", HTTP_STATUS, 500)
        if path.endswith("/resources"):
            rows = self._outside.rows()
            self._rows = {row["properties"]["EventId"].lower(): row["properties"] for row in rows}
            return Answer(200, {}, {"data": rows, "resultTruncated": "false"})
        return self._take(path, fault == ANSWER_LOST)

    def _fault(self) -> str | None:
        if self._chance.random() >= self._outside.faults:
            return None
        return self._chance.choice((HANGS, FAILS, REFUSED, ANSWER_LOST))

    def _take(self, path: str, is_lost: bool) -> Answer:
        """Take an approval; the service itself is never late."""
        event_id = path.removeprefix(f"{SET}{OF_EVENT}").removesuffix("/acknowledge").lower()
        open_ = (each for each in self._outside.world.events if each.listed and not each.over)
        event = next((each for each in open_ if each.event_id.lower() == event_id), None)
        row = self._rows.pop(event_id, None)
        if event is None:
            raise AzureError("InvalidScheduledEventId: Scheduled event not found", HTTP_STATUS, 404)
        self._approves(event, Asked(row, self._ready))
        self._outside.world.approve(event)
        if is_lost:
            raise AzureError("Azure answered 502.", HTTP_STATUS, 502)
        return Answer(200, {}, {"value": "Successfully Approved"})


def approve(client: Client, event_id: str, resources_ready: Sequence[str]) -> dict[str, Any]:
    """Return what scheduled_event_acknowledge returns."""
    task = SimpleNamespace(
        options={
            "event_ids": [event_id],
            "subscriptions": ["s"],
            "management_groups": None,
            "resources_ready": list(resources_ready),
            "force": False,
        },
        check_mode=False,
        subscription_id=None,
        warn=lambda _text: None,
        client=lambda: client,
    )
    return acknowledge.acknowledge(task)  # type: ignore[arg-type]
