# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""What must never happen in a run over a fleet, by POSTs, by what the files of the user did, and by what was said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from .fleet_world import Event, Vm, World


@dataclass
class Prepared:
    """What a file of the user did on one VM for one event."""

    begun: int = 0
    # The boot in which a preparation was finished that nothing has taken back
    in_boot: str | None = None
    finished_at: float = 0.0
    restored: int = 0
    restore_failed: bool = False
    # A person has put the VM back since
    by_person: bool = False
    # Of a run that was broken off
    first_begun: int = 0


class Judge:
    def __init__(self, world: World, longest: float) -> None:
        self._world = world
        self._longest = longest
        self.broken: tuple[str, str] | None = None
        self.story: list[str] = []
        self.said: list[str] = []
        self.approvals = 0
        self.files: dict[tuple[str, str], Prepared] = {}
        # What each host told last
        self._told: dict[str, Mapping[str, Any]] = {}
        self._restored_at: dict[str, float] = {}
        self._new: set[tuple[str, str]] = set()
        self.restores = 0
        self.is_second = False

    def note(self, text: str) -> None:
        self.story.append(f"{self._world.now - 1_800_000_000.0:8.1f}  {text}")

    def require(self, name: str, holds: bool, why: str) -> None:
        if not holds and self.broken is None:
            self.note(f"BROKEN {name}: {why}")
            self.broken = (name, why)

    def told(self, host: str, answer: Mapping[str, Any], all_asked: bool) -> None:
        self._told[host] = answer
        for event in answer["events"]:
            if all_asked and (host, event["event_id"]) not in self.files:
                self._new.add((host, event["event_id"]))

    def _may_list(self, host: str, event_id: str) -> bool:
        told = self._told.get(host, {"document_is_clear": False})
        return not told["document_is_clear"] or any(event["event_id"] == event_id for event in told["events"])

    def prepare_begins(self, host: str, event_id: str) -> None:
        self.note(f"{host} prepares for {event_id[:8]}")
        done = self.files.setdefault((host, event_id), Prepared())
        self.require("P6", done.begun == 0, f"{host} prepares for {event_id} again")
        done.begun += 1
        done.restored, done.by_person = 0, False

    def person_restores(self, host: str) -> None:
        self.note(f"A person restores {host}")
        self._restored_at[host] = self._world.now
        for (name, _event), done in self.files.items():
            if name == host:
                done.by_person = done.begun + done.first_begun > 0
                done.begun = done.first_begun = 0

    def breaks_off(self) -> None:
        """The next run may prepare anew."""
        self.note("The run is broken off")
        self.is_second = True
        self._new.clear()
        self._told.clear()
        for done in self.files.values():
            done.first_begun, done.begun = done.begun + done.first_begun, 0

    def is_to_prepare(self, host: str, event_id: str) -> None:
        """A host that is lost before its first task may have begun, for all that is known."""
        self.files.setdefault((host, event_id), Prepared())

    def prepare_ends(self, host: str, event_id: str, fails: bool) -> None:
        done = self.files[host, event_id]
        done.in_boot = None if fails else self._told[host]["boot_id"]
        done.finished_at = self._world.now

    def approves(self, host: str, event: Event, outside_ignored: bool, limit: int) -> None:
        self.approvals += 1
        self.note(f"{host} approves {event.event_id[:8]} of {', '.join(event.vms)}")
        self.require("P1", event.status == "Scheduled", f"{event.event_id} has started")
        for name in event.vms:
            vm = self._world.vm_called(name)
            if vm is None:
                self.require("P2", outside_ignored, f"{event.event_id} is approved for {name}, which is no host")
                continue
            done = self.files.get((vm.host, event.event_id))
            self.require("P2", self._is_ready(vm, done), f"{event.event_id} is approved, and {vm.host} is not prepared")

        # Of a VM that has not answered a run knows nothing.
        out = {name for name in self._told if self._is_out(name)}
        own = {vm.host for vm in map(self._world.vm_called, event.vms) if vm}
        # One event may take more hosts than that by itself.
        few = own <= out or not out - own or len(out | own) <= limit
        self.require("limit", few, f"{event.event_id} is approved while {', '.join(sorted(out))} is out of service")

    def _is_out(self, host: str) -> bool:
        """Tell whether a host was taken out of service for an event that Azure was let start, or has started."""
        begun = {
            e
            for (name, e), done in self.files.items()
            if name == host and (done.begun or done.first_begun) and not done.restored and not done.by_person
        }
        return not self._world.vms[host].deleted and any(
            event.event_id in begun and (event.approved or event.status == "Started") for event in self._world.events
        )

    def _is_ready(self, vm: Vm, done: Prepared | None) -> bool:
        if done is None or done.finished_at <= self._restored_at.get(vm.host, 0.0):
            return False
        # A boot after the last question cannot be known.
        return done.in_boot == self._told[vm.host]["boot_id"]

    def restore_begins(self, host: str, event_id: str) -> None:
        self.note(f"{host} restores after {event_id[:8]}")
        done = self.files.get((host, event_id))
        self.require("P3", done is not None, f"{host} restores after {event_id} and has not prepared for it")
        if done:
            self.require("P6", done.restored == 0, f"{host} restores after {event_id} again")
        self._restored_at[host] = self._world.now
        for event in self._told[host]["events"]:
            started = event["event_status"] == "Started"
            self.require("P3", not started, f"{host} restores while {event['event_id']} is Started")

    def restore_ends(self, host: str, event_id: str, fails: bool) -> None:
        done = self.files[host, event_id]
        self.restores += not fails
        done.restored += not fails
        done.restore_failed = fails

    def ends(self, begun_at: float, faults: Mapping[str, Any], waits: bool) -> None:
        """Judge the whole run when it has ended."""
        for host, why in faults.items():
            self.note(f"fault of {host}: {' '.join(why)}")
        took = self._world.now - begun_at
        self.require("P15", took <= self._longest, f"the run takes {took:.0f} s")
        for (host, event_id), done in self.files.items():
            vm = self._world.vms[host]
            if not (done.begun or done.first_begun) or vm.deleted or host in faults or done.restored == 1:
                continue
            # A new disk tells the second run nothing, and nor does a VM that has another name by then.
            if done.by_person or (self.is_second and not done.begun and vm.has_lost_marks):
                continue
            stays = not waits and self._may_list(host, event_id)
            self.require("P13", stays, f"{host} is left prepared for {event_id}, and nobody says so")
        text = "\n".join([*self.said, *(" ".join(why) for why in faults.values())])
        for host, event_id in self._new:
            named = event_id in text or (host, event_id) in self.files or host in faults
            self.require("P16", named, f"nothing is said of {event_id}, which arrived for {host} during the run")
