# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""What must never happen in a run over a fleet, by POSTs, by what the files of the user did, and by what was said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping, Sequence

from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.settings import CHECKER, NOTHING

from .fleet_checker import Checker
from .fleet_outside import Asked
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


# How many of some hosts may be out of service at once
Limits = Sequence[tuple[set[str], int]]
# Seconds: a minute, and a question to another host whose connection hangs
OLDEST_ANSWER = 90.0
# Before an approval from outside, also the VM that does not answer, and Azure, each until its limit
OLDEST_BEFORE_OUTSIDE = OLDEST_ANSWER + 60.0


def check_answer(require: Callable[[str, bool, str], None], event: Event, asked: Asked, is_answered: bool) -> None:
    """Judge an approval from outside by Azure's last answer before it."""
    what = f"{event.event_id} is acknowledged"
    require("P1", not is_answered, f"{what}, and Azure has taken an approval of this run")
    require("P1", asked.row is not None, f"{what} without asking anew")
    row = asked.row or {"EventStatus": "Scheduled", "Resources": []}
    require("P1", row["EventStatus"] == "Scheduled", f"{what}, and its row says {row['EventStatus']}")
    ready = bool(row["Resources"]) and set(row["Resources"]) <= set(asked.resources_ready)
    require("P2", asked.row is None or ready, f"{what}, and its row lists {row['Resources']}")


class Judge:
    def __init__(self, world: World, longest: float) -> None:
        self._world = world
        self._longest = longest
        self.broken: tuple[str, str] | None = None
        self.story: list[str] = []
        self.said: list[str] = []
        self.approvals = 0
        # Those from outside, which are in the approvals, too
        self.acknowledged = 0
        self.files: dict[tuple[str, str], Prepared] = {}
        # What each host told last, and when
        self._told: dict[str, Mapping[str, Any]] = {}
        self._told_at: dict[str, float] = {}
        self._restored_at: dict[str, float] = {}
        self._new: set[tuple[str, str]] = set()
        # What a run that is limited to some events need not name: the others, of which it knows from the beginning
        self._left_out: set[tuple[str, str]] = set()
        self.is_limited = self.only_restores = False
        self.restores = 0
        self.is_second = False

    def note(self, text: str) -> None:
        self.story.append(f"{self._world.now - 1_800_000_000.0:8.1f}  {text}")

    def require(self, name: str, holds: bool, why: str) -> None:
        if not holds and self.broken is None:
            self.note(f"BROKEN {name}: {why}")
            self.broken = (name, why)

    def told(self, host: str, answer: Mapping[str, Any], all_asked: bool) -> None:
        self._told[host], self._told_at[host] = answer, self._world.now
        for event in answer["events"]:
            key = (host, event["event_id"])
            if not all_asked and self.is_limited:
                self._left_out.add(key)
            elif all_asked and key not in self.files and key not in self._left_out:
                self._new.add(key)

    def _may_list(self, host: str, event_id: str) -> bool:
        told = self._told.get(host, {"document_is_clear": False})
        return not told["document_is_clear"] or any(event["event_id"] == event_id for event in told["events"])

    def prepare_begins(self, host: str, event_id: str) -> None:
        self.note(f"{host} prepares for {event_id[:8]}")
        done = self.files.setdefault((host, event_id), Prepared())
        self.require("P6", done.begun == 0, f"{host} prepares for {event_id} again")
        done.begun += 1
        done.restored, done.by_person = 0, False

    def may_person_restore(self, host: str) -> bool:
        return True

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
        self._left_out.clear()
        self._told.clear()
        for done in self.files.values():
            done.first_begun, done.begun = done.begun + done.first_begun, 0

    def is_to_prepare(self, host: str, event_id: str) -> None:
        """A host that is lost before its first task may have begun, for all that is known: it is restored once more."""
        self.files.setdefault((host, event_id), Prepared()).restored = 0

    def loses(self, host: str) -> None:
        """A file of the user was broken off there."""

    def prepare_ends(self, host: str, event_id: str, fails: bool) -> None:
        done = self.files[host, event_id]
        done.in_boot = None if fails else self._told[host]["boot_id"]
        done.finished_at = self._world.now

    def acknowledges(self, event: Event, asked: Asked, is_answered: bool) -> None:
        """Judge an approval from outside by what was told of the event: Azure may know better by now, and refuses."""
        self.acknowledged += 1
        self.note(f"Azure is told to start {event.event_id[:8]}; ready: {', '.join(asked.resources_ready)}")
        check_answer(self.require, event, asked, is_answered)
        what = f"{event.event_id} is acknowledged"
        for vm in filter(None, map(self._world.vm_called, asked.names)):
            told = self._told.get(vm.host)
            known = told and next((each for each in told["events"] if each["event_id"] == event.event_id), None)
            may_list = vm.host in self._told and self._may_list(vm.host, event.event_id)
            self.require("P1", may_list, f"{what}, and {vm.host} does not list it")
            if known:
                started = known["event_status"] == "Started"
                self.require("P1", not started, f"{what}, and {vm.host} has told that it started")
                ready = set(known["resources"]) <= set(asked.resources_ready)
                self.require("P2", ready, f"{what}, and {vm.host} lists {known['resources']}")

    def approves(
        self, host: str, event: Event, outside_ignored: bool, limits: Limits, asked: Asked | None = None
    ) -> None:
        self.approvals += 1
        self.note(f"{host} approves {event.event_id[:8]} of {', '.join(event.vms)}")
        self.require("P1", bool(asked) or event.status == "Scheduled", f"{event.event_id} has started")
        oldest = OLDEST_BEFORE_OUTSIDE if asked else OLDEST_ANSWER
        # A VM that came into it since the last row was written cannot be known.
        for name in asked.names if asked else event.vms:
            vm = self._world.vm_called(name)
            if vm is None:
                self.require("P2", outside_ignored, f"{event.event_id} is approved for {name}, which is no host")
                continue
            done = self.files.get((vm.host, event.event_id))
            is_ready = self._is_ready(vm, done, event.event_id)
            self.require("P2", is_ready, f"{event.event_id} is approved, and {vm.host} is not prepared")
            age = self._world.now - self._told_at[vm.host]
            self.require("P2", age <= oldest, f"{event.event_id} is approved by an answer {age:.0f} s old")

        # Of a VM that has not answered a run knows nothing.
        out = {name for name in self._told if self._is_out(name)}
        own = {vm.host for vm in map(self._world.vm_called, asked.names if asked else event.vms) if vm}
        what = f"{event.event_id} is approved while {', '.join(sorted(out))} is out of service"
        for members, most in limits:
            # One event may take more hosts than that by itself.
            others, taken = (out - own) & members, (out | own) & members
            self.require("limit", not (own - out) & members or not others or len(taken) <= most, what)

    def _is_out(self, host: str) -> bool:
        """Tell whether a host was taken out of service for an event that Azure was let start, or has started."""
        if self._world.vms[host].deleted:
            return False
        if any(event["event_status"] == "Started" for event in self._told[host]["events"]):
            return True
        # A new disk tells the second run nothing of the first.
        knows_first = not self._world.vms[host].has_lost_marks
        begun = {
            e
            for (name, e), done in self.files.items()
            if name == host
            and (done.begun or (done.first_begun and knows_first))
            and not done.restored
            and not done.by_person
        }
        return any(
            event.event_id in begun and (event.approved or event.status == "Started") for event in self._world.events
        )

    def _is_ready(self, vm: Vm, done: Prepared | None, event_id: str) -> bool:
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

    def tells(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Judge what is said of the events: only a document ends one, whatever Azure's rows say."""
        taken = {event.event_id for event in self._world.events if event.approved}
        for event in events:
            self.require(
                "P13", len(event["hosts"]) == len(set(event["hosts"])), f"{event['event_id']} names a host twice"
            )
            known = not event["approved_by"] or event["event_id"] in taken
            self.require("P13", known, f"{event['event_id']} is called approved, and Azure has taken no approval")
            asked = [host for host in event["hosts"] if host in self._told]
            last = max(asked, key=self._told_at.__getitem__, default=None)
            if event["outcome"] == "withdrawn" and last and self._told[last]["document_is_clear"]:
                listed = any(each["event_id"] == event["event_id"] for each in self._told[last]["events"])
                self.require("P13", not listed, f"{event['event_id']} is called withdrawn, and {last} lists it")

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
            named = self.only_restores or event_id in text or (host, event_id) in self.files or host in faults
            self.require("P16", named, f"nothing is said of {event_id}, which arrived for {host} during the run")


@dataclass
class Together:
    """What two runs beside each other do to the VMs."""

    world: World
    checkers: dict[str, Checker] = field(default_factory=dict)
    broken: tuple[str, str] | None = None
    story: list[str] = field(default_factory=list)
    # What each run does on each host at this moment, and since which boot
    busy: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    # By which runs and in which boot a VM was prepared for an event, until anybody puts it back
    ready: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    # When a person last put a host back
    by_person: dict[str, float] = field(default_factory=dict)
    # What nobody has put back, and the faults of both runs
    out: set[tuple[str, str]] = field(default_factory=set)
    faults: set[str] = field(default_factory=set)
    stays: set[tuple[str, str]] = field(default_factory=set)
    approvals: int = 0
    restores: int = 0

    def note(self, text: str) -> None:
        self.story.append(f"{self.world.now - 1_800_000_000.0:8.1f}  {text}")


class PairJudge:
    """Looks at one of two runs, with what is known of both.

    A run may prepare what the other has prepared, of which it knows a mark and no more; so nothing is said of P6.

    :param of_hosts: the variables of the hosts, where they differ.
    """

    def __init__(
        self, together: Together, run_id: str, longest: float, of_hosts: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._all, self._run, self._longest, self._of_hosts = together, run_id, longest, of_hosts
        self._told: dict[str, Mapping[str, Any]] = {}
        self._told_at: dict[str, float] = {}
        self.said: list[str] = []

    @property
    def broken(self) -> tuple[str, str] | None:
        return self._all.broken

    def note(self, text: str) -> None:
        self._all.note(f"run {self._run}: {text}")

    def require(self, name: str, holds: bool, why: str) -> None:
        if not holds and self._all.broken is None:
            self.note(f"BROKEN {name}: {why}")
            self._all.broken = (name, why)

    def told(self, host: str, answer: Mapping[str, Any], all_asked: bool) -> None:
        self._told[host] = answer
        self._told_at[host] = self._all.world.now

    def _begin(self, host: str, what: str) -> None:
        boot = self._all.world.vms[host].boot
        # A boot ends what runs there.
        busy = self._all.busy.setdefault(host, {})
        others = [does for run, (does, in_boot) in busy.items() if run != self._run and in_boot == boot]
        self.require("P3", all(does == what for does in others), f"{host} is to {what} while another run does {others}")
        busy[self._run] = (what, boot)

    def loses(self, host: str) -> None:
        self._all.busy.get(host, {}).pop(self._run, None)

    def is_to_prepare(self, host: str, event_id: str) -> None:
        """Nothing is known by it."""

    def prepare_begins(self, host: str, event_id: str) -> None:
        self.note(f"{host} prepares for {event_id[:8]}")
        self._begin(host, "prepare")
        self._all.out.add((host, event_id))

    def prepare_ends(self, host: str, event_id: str, fails: bool) -> None:
        self.note(f"{host} has prepared for {event_id[:8]}{' in vain' if fails else ''}")
        self.loses(host)
        if not fails:
            by_run = self._all.ready.setdefault((host, event_id), {})
            by_run[self._run] = self._all.world.vms[host].boot

    def restore_begins(self, host: str, event_id: str) -> None:
        self.note(f"{host} restores after {event_id[:8]}")
        self._begin(host, "restore")
        world = self._all.world
        for event in world.open_events(world.vms[host]):
            ready = self._all.ready.get((host, event.event_id), {})
            others = [run for run, boot in ready.items() if run != self._run and boot == world.vms[host].boot]
            self.require("P3", not others, f"{host} restores while another run has it prepared for {event.event_id}")
        for told in self._told[host]["events"]:
            started = told["event_status"] == "Started"
            self.require("P3", not started, f"{host} restores while {told['event_id']} is Started")
        checker = self._all.checkers.get(host)
        held = checker.find_held() if checker else None
        self.require("P3", held is None, f"{host} restores while its checker has it prepared for {held}")
        self._put_back(host)

    def restore_ends(self, host: str, event_id: str, fails: bool) -> None:
        self.loses(host)
        self._put_back(host)
        if not fails:
            self._all.restores += 1
            self._all.out.discard((host, event_id))

    def _put_back(self, host: str) -> None:
        for key in [key for key in self._all.ready if key[0] == host]:
            del self._all.ready[key]

    def may_person_restore(self, host: str) -> bool:
        """Who takes marks away by hand while a run is at work there, or its checker, hides it from the others."""
        return not self._all.busy.get(host) and host not in self._all.checkers

    def person_restores(self, host: str) -> None:
        self.note(f"A person restores {host}")
        self._all.by_person[host] = self._all.world.now
        self._put_back(host)
        self._all.out = {key for key in self._all.out if key[0] != host}

    def acknowledges(self, event: Event, asked: Asked, is_answered: bool) -> None:
        check_answer(self.require, event, asked, is_answered)

    def tells(self, events: Iterable[Mapping[str, Any]]) -> None:
        """The other run may have another answer."""

    def approves(
        self, host: str, event: Event, outside_ignored: bool, limits: Limits, asked: Asked | None = None
    ) -> None:
        self.note(f"{host} approves {event.event_id[:8]} of {', '.join(event.vms)}")
        self._all.approvals += 1
        self.require("P1", bool(asked) or event.status == "Scheduled", f"{event.event_id} has started")
        # A VM that came into it since the last row was written cannot be known.
        for name in asked.names if asked else event.vms:
            vm = self._all.world.vm_called(name)
            if vm is None:
                self.require("P2", outside_ignored, f"{event.event_id} is approved for {name}, which is no host")
                continue
            is_ready = self._is_ready(vm, event.event_id)
            self.require("P2", is_ready, f"{event.event_id} is approved, and {vm.host} is not prepared")

    def _is_ready(self, vm: Vm, event_id: str) -> bool:
        prepare = self._of_hosts.get(vm.host, {}).get("prepare")
        boot = self._told[vm.host]["boot_id"]
        if prepare == CHECKER:
            response = self._all.checkers[vm.host].known.get(event_id)
            return response is not None and response.is_ready(int(boot.rpartition("-")[2]))
        boots = self._all.ready.get((vm.host, event_id), {}).values()
        # A boot after the last question cannot be known, nor what a person does then.
        is_ready = boot in [f"{vm.name}-{each}" for each in boots]
        return prepare == NOTHING or is_ready or self._all.by_person.get(vm.host, 0.0) >= self._told_at[vm.host]

    def ends(self, begun_at: float, faults: Mapping[str, Any], waits: bool) -> None:
        for host, why in faults.items():
            self.note(f"fault of {host}: {' '.join(why)}")
        self._all.faults |= set(faults)
        took = self._all.world.now - begun_at
        self.require("P15", took <= 2 * self._longest, f"the run takes {took:.0f} s")
        if not waits:
            self._all.stays |= self._all.out

    def both_have_ended(self) -> None:
        for host, event_id in self._all.out - self._all.stays:
            vm = self._all.world.vms[host]
            is_known = host in self._all.faults or vm.deleted or vm.has_lost_marks
            self.require("P13", is_known, f"{host} is left prepared for {event_id}, and nobody says so")
