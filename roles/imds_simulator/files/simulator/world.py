# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of the simulated Azure: VMs, scopes, events, and how time moves them."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass

from simulator.checks import Refused, show
from simulator.events import read_event
from simulator.settings import Settings
from simulator.timeline import Timeline, short, span

OTHER_AGENT = "other agent"


@dataclass
class Scope:
    """The VMs that share a document, and whether scheduled events are switched on for them."""

    name: str
    vms: list[str]
    changes: int = 0
    enabled: bool = False
    ready_at: float = 0.0
    last_request_at: float = 0.0


def find_vm(vms, name):
    """Return the name in the spelling of the VM; names are compared without regard to case."""
    return next((vm for vm in vms if vm.lower() == name.lower()), None)


def choose_vm(vms, item, where):
    """The VM that a name or a number, counted from 0, stands for."""
    known = ", ".join(vms)
    if isinstance(item, int):
        if not 0 <= item < len(vms):
            raise Refused(
                f"{where} asks for VM number {item}, counted from 0, of {len(vms)} ({known});"
                " name more VMs or choose another number."
            )
        return vms[item]
    name = find_vm(vms, item)
    if name is None:
        raise Refused(f"{where}: no VM is named {show(item)}; there are {known}.")
    return name


class World:
    """Nothing here runs by itself: the first caller carries out everything that is due, at its own time.

    Take ``lock`` around every use; ``settle`` first, then look.
    """

    def __init__(self, clock, vms, scopes):
        """The order of ``vms`` is the one in which numbers stand for them; ``scopes`` maps names to VMs."""
        self.lock = threading.Condition()
        self.clock = clock
        self.settings = Settings()
        self.timeline = Timeline(clock)
        self.scopes = [Scope(name, vms) for name, vms in scopes.items()]
        self._events = {}
        self._scope_of = {vm: scope for scope in self.scopes for vm in scope.vms}
        self._vms = list(vms)

    @property
    def vms(self):
        return list(self._vms)

    def vm_named(self, item, where):
        return choose_vm(self._vms, item, where)

    def scope_of(self, vm):
        return self._scope_of[vm]

    def events(self):
        return list(self._events.values())

    def listed(self, scope):
        """The events of a scope's document, in the order in which they were announced."""
        events = [event for event in self._events.values() if event.scope is scope and event.listed]
        return sorted(events, key=lambda event: event.announced_at)

    def incarnation(self, scope):
        return self.settings.baseline_incarnation + scope.changes

    # --- time ---------------------------------------------------------------------------------------------------

    def settle(self, until=None):
        """Carry out everything that is due, in the order of time."""
        until = self.clock.now() if until is None else until
        while True:
            step = self._next_step()
            if step is None or step[0] > until:
                return
            moment, _number, act, subject = step
            act(subject, moment)

    def advance(self, seconds):
        if self.clock.mode != "manual":
            raise Refused("the clock is the real one; start the simulator with --clock manual to move it.", 409)
        target = self.clock.now() + seconds
        self.settle(target)
        self.clock.move_to(target)
        self.lock.notify_all()

    def wait_until(self, moment):
        """Sleep until the clock shows a moment; the lock is free meanwhile."""
        while self.clock.now() < moment:
            self.lock.wait(self.clock.wait_budget(moment))
        self.settle()

    def _next_step(self):
        acts = {
            "announce": self._announce,
            "start": self._start,
            "end": self._end,
            "withdraw": self.withdraw,
        }
        steps = []
        for number, event in enumerate(self._events.values()):
            step = event.next_step()
            if step is not None:
                steps.append((step[0], number, acts[step[1]], event))
        lapse = self.settings.lapse_seconds
        for number, scope in enumerate(self.scopes, start=len(self._events)):
            if scope.enabled:
                steps.append((scope.last_request_at + lapse, number, self._lapse, scope))
        return min(steps, default=None, key=lambda step: step[:2])

    # --- Azure's side -------------------------------------------------------------------------------------------

    def schedule(self, values, where):
        """All of the events or, when one of them is wrong, none."""
        self.settle()
        events = []
        taken = set(self._events)
        for number, value in enumerate(values):
            place = f"{where} {number + 1}" if len(values) > 1 else where
            event = read_event(value, place, self)
            if event.event_id in taken:
                raise Refused(f"{place}: event_id {show(event.event_id)} is taken; ids are compared without case.")
            taken.add(event.event_id)
            events.append(event)
        self._events.update((event.event_id, event) for event in events)
        self.settle()
        return events

    def _announce(self, event, moment):
        event.announced_at = moment
        event.scope.changes += 1
        names = ", ".join(event.resources)
        told = f"{event.event_source}: {event.description}" if event.description else event.event_source
        if event.straight_to_started:
            event.started_at = moment
            self._tell(f"started {_label(event)} for {names} at once, unannounced ({told})", moment)
            return
        event.not_before = event.start_at = moment + event.notice
        self._tell(f"scheduled {_label(event)} for {names} in {span(event.notice)} ({told})", moment)
        if event.event_source in self.settings.other_agent_approves:
            self._approve(event, OTHER_AGENT, moment)
            self._tell(f"another agent approved {_label(event)}", moment)

    def approve(self, vm, event):
        """An approval speaks for all resources of the event, whichever VM of the scope sends it."""
        if event.started_at is not None:
            told = ", which had started"
        elif event.approved_at is not None:
            told = " again"
        else:
            told = ""
            self._approve(event, vm, self.clock.now())
        self.timeline.add("vm", f"approved {_label(event)}{told}", vm)

    def _approve(self, event, by, moment):
        event.approved_at, event.approved_by = moment, by
        if self.settings.approval == "starts":
            event.start_at = min(event.not_before, moment + event.start_delay)

    def _start(self, event, moment):
        event.scope.changes += 1
        why = f"approved by {event.approved_by}" if event.approved_by else "nobody approved it: its time had come"
        if self.settings.skip_started:
            event.ended_at, event.outcome = moment, "completed"
            self._tell(f"completed {_label(event)} without showing it as started ({why})", moment)
            return
        event.started_at = moment
        if self.settings.new_id_each_state:
            event.started_id = str(uuid.uuid4()).upper()
            why += f"; its id is {short(event.started_id)} now"
        self._tell(f"started {_label(event)} ({why})", moment)

    def _end(self, event, moment):
        event.ended_at, event.outcome = moment, "completed"
        event.scope.changes += 1
        self._tell(f"completed {_label(event)}", moment)

    def withdraw(self, event, moment=None):
        moment = self.clock.now() if moment is None else moment
        event.scope.changes += event.listed
        event.ended_at, event.outcome = moment, "withdrawn"
        self._tell(f"withdrew {_label(event)}", moment)

    def event_to_withdraw(self, event_id):
        event = self._events.get(event_id.upper())
        if event is None:
            raise Refused(f"no event has the id {show(event_id)}; GET /simulator/events lists them.", 404)
        if event.phase in ("started", "ended"):
            raise Refused(f"event {show(event.event_id)} has {event.phase}; it cannot be withdrawn any more.", 409)
        return event

    def _tell(self, text, moment):
        self.timeline.add("azure", text, moment=moment)

    # --- scheduled events switched on and off -------------------------------------------------------------------

    def touch(self, scope):
        """Note a request; the first one switches scheduled events on, which takes Azure its time."""
        now = self.clock.now()
        scope.last_request_at = now
        if not scope.enabled:
            scope.enabled = True
            scope.ready_at = now + self.settings.hold_first_answer
        return scope.ready_at

    def _lapse(self, scope, moment):
        scope.enabled = False
        # Incarnations begin again; a document that lists events already differs from the empty one.
        scope.changes = 1 if self.listed(scope) else 0
        quiet = span(self.settings.lapse_seconds)
        self._tell(f"switched scheduled events off for scope {scope.name}: no request for {quiet}", moment)


def _label(event):
    return f"{event.event_type} {short(event.event_id)}"
