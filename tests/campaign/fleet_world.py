# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Azure and a fleet of VMs on a virtual clock. Nothing of the product is used here."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Protocol

START = 1_800_000_000.0
# Seconds between an approval and the start
AZURE_HESITATES = 4.0


@dataclass
class Event:
    event_id: str
    kind: str
    vms: list[str]
    appears_at: float
    not_before: float
    lasts: float
    withdrawn_at: float | None = None
    # Straight to Started, without a notice
    without_notice: bool = False
    status: str = "Scheduled"
    listed: bool = False
    over: bool = False
    approved: bool = False
    started_at: float | None = None
    told_to: dict[str, float] = field(default_factory=dict)
    # When another VM comes into it while it is Scheduled
    grows_at: float | None = None
    grows_by: str = ""
    # When it got which status, in the words of Azure's control plane, and which VMs it had then
    story: list[tuple[float, str, tuple[str, ...]]] = field(default_factory=list)


@dataclass
class Vm:
    host: str
    name: str
    boot: int = 1
    down_until: float = 0.0
    deleted: bool = False
    # A connection to it neither answers nor ends.
    hangs: bool = False
    # Its metadata service answers nothing that can be used until then.
    deaf_until: float = 0.0
    # Answers have an entry that cannot be read until then.
    unclear_until: float = 0.0
    # What is on its disk, by the ids of events and runs, and whether a Redeploy gives it a new one
    marks: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    # The runs that write a mark at this moment
    writers: set[str] = field(default_factory=set, repr=False)
    disk_is_local: bool = False
    has_lost_marks: bool = False
    takes_no_marks: bool = False
    # It gives a wrong name, as where resource_name is set to that of another VM.
    is_misnamed: bool = False


class Actor(Protocol):
    """Somebody who does something on a VM at moments of his own."""

    def next_at(self) -> float | None:
        """Return when it does so next, None where it waits for a change."""

    def act(self) -> None:
        """Do what is due."""

    def note_change(self) -> None:
        """Azure has changed an event."""


class World:
    """Azure and its VMs.

    :ivar actors: those besides Azure.
    """

    def __init__(self, vms: list[Vm], events: list[Event]) -> None:
        self.now = START
        self.vms = {vm.host: vm for vm in vms}
        self.events = events
        self.actors: list[Actor] = []

    def describe(self) -> list[str]:
        return [str(each) for each in (*self.events, *self.vms.values())]

    def vm_called(self, name: str) -> Vm | None:
        return next((vm for vm in self.vms.values() if vm.name == name), None)

    def advance(self, moment: float) -> None:
        """Let time pass, and Azure do in it what is due, in the order in which it is due."""
        while True:
            due = [(when, number) for number, each in enumerate(self.events) for when in [self._next(each)] if when]
            acts = [(when, ~number) for number, each in enumerate(self.actors) for when in [each.next_at()] if when]
            when, number = min([*due, *acts], default=(moment + 1, 0))
            if when > moment:
                break
            self.now = max(self.now, when)
            if number < 0:
                self.actors[~number].act()
                continue
            self._change(self.events[number])
            for actor in self.actors:
                actor.note_change()
        self.now = max(self.now, moment)

    def _next(self, event: Event) -> float | None:
        if event.over:
            return None
        if not event.listed:
            return event.appears_at
        if event.status == "Started":
            assert event.started_at is not None
            return event.started_at + event.lasts
        due = event.not_before
        if event.withdrawn_at and not event.approved:
            due = min(due, event.withdrawn_at)
        return due if event.grows_at is None else min(due, event.grows_at)

    def approve(self, event: Event) -> None:
        """Take an approval: Azure starts the event soon."""
        event.approved = True
        event.not_before = min(event.not_before, self.now + AZURE_HESITATES)

    def _change(self, event: Event) -> None:
        if not event.listed:
            event.listed = True
            self._tell(event, event.status)
            if event.without_notice:
                self._start(event)
        elif event.status == "Scheduled" and event.grows_at is not None and self.now >= event.grows_at:
            event.grows_at = None
            event.vms.append(event.grows_by)
            self._tell(event, event.status)
        elif event.status == "Started" or (
            event.withdrawn_at and not event.approved and self.now >= event.withdrawn_at
        ):
            event.over = True
            self._tell(event, "Completed" if event.started_at else "Canceled")
        else:
            self._start(event)

    def _tell(self, event: Event, status: str) -> None:
        event.story.append((self.now, status, tuple(event.vms)))

    def _start(self, event: Event) -> None:
        event.status, event.started_at = "Started", self.now
        self._tell(event, event.status)
        for vm in filter(None, map(self.vm_called, event.vms)):
            if event.kind in ("Reboot", "Redeploy"):
                vm.boot += 1
                if event.kind == "Redeploy" and vm.disk_is_local:
                    vm.has_lost_marks = vm.has_lost_marks or bool(vm.marks)
                    vm.marks.clear()
                vm.down_until = self.now + event.lasts / 2
            elif event.kind == "Freeze":
                vm.down_until = self.now + min(event.lasts, 10.0)
            else:
                vm.deleted = True

    def is_up(self, host: str) -> bool:
        vm = self.vms[host]
        return not vm.deleted and self.now >= vm.down_until

    def open_events(self, vm: Vm) -> list[Event]:
        return [event for event in self.events if event.listed and not event.over and vm.name in event.vms]

    def answer(self, host: str) -> dict[str, Any]:
        """Return what scheduled_events_info returns on this host, which is up."""
        vm = self.vms[host]
        if self.now < vm.deaf_until:
            return {"failed": True, "msg": "Azure answered with the HTTP status 500."}
        unclear = self.now < vm.unclear_until
        there = [] if vm.is_misnamed else self.open_events(vm)
        for event in there:
            event.told_to.setdefault(host, self.now)
        # An entry that cannot be read is missing from the events.
        return {
            "document_received": True,
            "document_is_clear": not unclear,
            "document_incarnation": 1,
            "resource_name": "other" if vm.is_misnamed else vm.name,
            "boot_id": f"{vm.name}-{vm.boot}",
            "vm_id": f"id of {vm.name}",
            "marks": [{**mark, "counts": True, "file": f"/marks/{key}"} for key, mark in vm.marks.items()],
            "events": [self._show(event, vm) for event in there[1 if unclear else 0 :]],
        }

    def _show(self, event: Event, vm: Vm) -> dict[str, Any]:
        started = event.status == "Started"
        moment = datetime.fromtimestamp(event.not_before, timezone.utc)
        return {
            "event_id": event.event_id,
            "event_type": event.kind,
            "event_status": event.status,
            "resource_type": "VirtualMachine",
            "resources": list(event.vms),
            "not_before": None if started else moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "not_before_raw": "" if started else moment.strftime("%a, %d %b %Y %H:%M:%S GMT"),
            "seconds_until_start": 0 if started else max(0, int(event.not_before - self.now)),
            "description": "",
            "event_source": "Platform",
            "duration_seconds": None,
            "affects_this_vm": True,
            "leader": event.vms[0],
            "is_leader": event.vms[0] == vm.name,
        }


def random_world(chance: random.Random) -> World:
    """Return a fleet with some maintenance to come."""
    vms = [Vm(f"host-{letter}", f"host-{letter}" if chance.random() < 0.5 else f"vm{letter}") for letter in "abcd"]
    vms = vms[: chance.randint(1, 4)]
    names = [vm.name for vm in vms] + (["stranger"] if chance.random() < 0.15 else [])
    events = []
    for number in range(chance.choice((1, 1, 2, 2, 3, 4))):
        appears_at = START + (0.0 if number == 0 or chance.random() < 0.5 else chance.uniform(1.0, 400.0))
        notice = chance.choice((30.0, 120.0, 300.0, 900.0))
        event = Event(
            event_id=f"{number}{chance.randrange(16**7):07X}-0000-4000-8000-000000000000",
            kind=chance.choice(("Reboot", "Reboot", "Redeploy", "Freeze", "Terminate", "Preempt")),
            vms=chance.sample(names, chance.randint(1, min(2, len(names)))),
            appears_at=appears_at,
            not_before=appears_at + notice,
            lasts=chance.choice((6.0, 20.0, 90.0)),
            without_notice=chance.random() < 0.1,
        )
        if chance.random() < 0.2:
            event.withdrawn_at = appears_at + chance.uniform(1.0, notice)
        events.append(event)
    for vm in vms:
        if chance.random() < 0.1:
            vm.hangs = True
        if chance.random() < 0.1:
            vm.down_until = START + chance.choice((5.0, 60.0, 5000.0))
        if chance.random() < 0.08:
            vm.deaf_until = START + chance.choice((5.0, 120.0, 5000.0))
        # Who says that a VM outside may be ignored has said so of a host that only its own word tells.
        vm.is_misnamed = vm.host == vm.name and chance.random() < 0.08
        if chance.random() < 0.08:
            vm.unclear_until = START + chance.choice((20.0, 200.0))
        vm.disk_is_local = chance.random() < 0.2
        vm.takes_no_marks = chance.random() < 0.04
    return World(vms, events)
