# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Carry out what the engine of a run decides, in the order of the tasks of event_response, on a virtual clock."""

from __future__ import annotations

import contextlib
import copy
import random
from datetime import datetime, timezone
from typing import Any, Callable, Mapping

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import (
    FAILED,
    PREPARED,
    PREPARING,
    RESTORING,
    RUN,
    new_mark,
    set_state,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import engine, hosts, verdict
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.approval import (
    could_not_be_asked,
    take_acknowledgement,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.checker_status import read_checker
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.hosts import NEW_HOST, news, take_answer
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.marks import find_hindering, has_older
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.progress import must_restore
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.settings import FALLBACK, NOTHING

from . import fleet_outside
from .fleet_checker import Checker
from .fleet_judge import Judge, Limits, PairJudge
from .fleet_world import Event, World, random_world

SETTINGS: dict[str, Any] = {
    "event_types": [],
    "event_sources": [],
    "event_ids": [],
    "due_within": None,
    "prepare": "drain.yml",
    "restore": "refill.yml",
    "approve": True,
    "wait": True,
    "outside_vms": "refuse",
    "acknowledge": "never",
    "prepare_timeout": 100,
    "wait_timeout": 1200,
    "reconnect_timeout": 120,
    "ask_timeout": 30,
    "restore_timeout": 600,
    "max_unavailable": "",
    "group": "",
}
# Seconds after which a question ends to a host whose connection hangs
ASK_LIMIT = float(SETTINGS["ask_timeout"])
# Far more than what a run with four events may take: each may be waited for in turn.
LONGEST = 6 * SETTINGS["wait_timeout"]
# Decisions after which a run is taken to go round in circles
MOST_TURNS = 2000
PLAYS = (("1", False), ("2", True), ("3", True), ("4", False))


class BrokenOffError(Exception):
    """Ansible was killed."""


class FleetRun:
    """One run of the playbook respond.

    :param chance: decides which files fail, how long they take, and which connections are lost.
    :param most_steps: after so many questions and files it is broken off.
    :param advance: lets time pass until a moment, in which another run may go on.
    :param checkers: of the hosts that have one.
    :param of_hosts: the variables of some hosts, in place of the settings.
    :param check_mode: neither Azure nor a VM is changed.
    """

    def __init__(
        self,
        world: World,
        judge: Judge | PairJudge,
        chance: random.Random,
        run_id: str,
        most_steps: float,
        advance: Callable[[float], None] | None = None,
        outside: fleet_outside.Outside | None = None,
        only_marked: bool = False,
        checkers: Mapping[str, Checker] | None = None,
        of_hosts: Mapping[str, Mapping[str, Any]] | None = None,
        check_mode: bool = False,
        **settings: Any,
    ) -> None:
        self._check_mode = check_mode
        self._id, self._steps_left = run_id, most_steps
        self.world, self.judge, self._chance = world, judge, chance
        self._advance = advance or world.advance
        self._outside = outside
        self.settings = {**SETTINGS, **settings}
        self.hosts = list(world.vms)
        self.run = engine.new_run(1, PLAYS[0][0], self.hosts, None, check_mode, run_id, only_marked)
        self.run["batch"] = list(self.hosts)
        self._checkers = checkers or {}
        for host in self.hosts:
            own = {**self.settings, **(of_hosts or {}).get(host, {})}
            self.run["hosts"][host] = {**NEW_HOST, "settings": own, "run": run_id}
        # By a chance of its own, so that all else in the history of a seed stays.
        luck = random.Random(f"{self.hosts} {self.settings} {world.now}")
        if luck.random() < 0.1:
            # To read another variable of this host raises KeyError.
            unlucky = self.run["hosts"][luck.choice(self.hosts)]
            without = {"group": unlucky["settings"]["group"]}
            unlucky.update(settings=without, fault="event_response_prepare cannot be evaluated.")
        # Where the hosts have several files, who ends the own one does not wait for the others.
        self._has_one_file = luck.random() < 0.5
        self._luck = luck
        self._lost: set[str] = set()
        # The events of which this run knows that Azure has taken an approval, and for which VMs
        self._approved: dict[str, set[str]] = {}

    def play(self) -> None:
        begun_at = self.world.now
        for play, returns in PLAYS[1:]:
            self._lost = set()
            self._take_turns(play, returns)
            self.judge.require("P13", play != PLAYS[-1][0] or self.run["done"], "the run ends before it is done")
        self._judge_marks()
        self.judge.ends(begun_at, self._conclude(in_one_play=False), bool(self.settings["wait"]))

    def play_in_batches(self) -> None:
        """Run the role in a play with serial, to which no lost host comes back."""
        begun_at, first, faults = self.world.now, self.run["hosts"], {}
        size = self._chance.randint(1, len(self.hosts))
        known: dict[str, Any] = {}
        for start in range(0, len(self.hosts), size):
            self.run = engine.new_run(self.run["serial"] + 1, PLAYS[0][0], self.hosts, known, run_id=self._id)
            self.run["batch"] = self.hosts[start : start + size]
            self.run["hosts"].update({host: first[host] for host in self.run["batch"]})
            self._take_turns(*PLAYS[0])
            faults.update(self._conclude(in_one_play=True))
            known = self.run["hosts"]
        self._judge_marks()
        self.judge.ends(begun_at, faults, bool(self.settings["wait"]))

    def _judge_marks(self) -> None:
        """A mark of this run that is left is that of a host that is known not to be restored; who stays so is named."""
        for host, vm in self.world.vms.items():
            followed = self.run["hosts"][host]["events"]
            known = {each["event"]["event_id"] for each in followed if must_restore(each) or each["restored"] is False}
            # A VM that does not come back after such an event counts as deleted.
            known |= {each["event"]["event_id"] for each in followed if each["gone"]}
            left = [event_id for event_id, run_id in vm.marks if run_id == self._id and event_id not in known]
            self.judge.require("P16", vm.deleted or not left, f"{host} has a mark for {left}, and nobody knows of it")

    def _take_turns(self, play: str, returns: bool) -> None:
        reports: dict[str, Any] = {}
        while not self.run["done"] and not self.judge.broken:
            run = engine.take_reports(self.run, reports, self.world.now)
            run = engine.enter_play(run, play, [host for host in self.hosts if host not in self._lost])
            self.run = engine.decide(run, self.world.now, returns)
            self.judge.said += self.run["lines"]
            self.run = {**self.run, "lines": []}
            self.judge.require("P15", self.run["turn"] < MOST_TURNS, "the run goes round in circles")
            if self.run["do"] == engine.LEAVE:
                break
            reports = self._carry_out()

    def _conclude(self, in_one_play: bool) -> dict[str, Any]:
        """Return the faults of the hosts."""
        summary = verdict.conclude(self.run, in_one_play)["summary"]
        self.judge.said += [*summary["lines"], *(event["event_id"] for event in summary["events"])]
        self.judge.tells(summary["events"])
        faults: dict[str, Any] = summary["faults"]
        return faults

    # The tasks

    def _carry_out(self) -> dict[str, Any]:
        do, begun_at = self.run["do"], self.world.now
        if do == engine.REFUSE:
            return {}
        if do == engine.WAIT:
            return self._wait()
        steps = {
            engine.ASK: self._ask_step,
            engine.PREPARE: self._prepare,
            engine.CHECK: self._check,
            engine.APPROVE: self._approve,
            engine.RESTORE: self._restore,
        }
        reports = {}
        ends = begun_at
        # All hosts begin together, and the one that ends last ends the task.
        for host, order in sorted(self.run["orders"].items(), key=lambda _: self._chance.random()):
            said = steps[do](host, order)
            if said is not None and do == engine.PREPARE and not self._has_one_file:
                said = self._end_preparation(host, said)
            if said is not None:
                reports[host] = said
            ends = max(ends, self.world.now)
        if do == engine.PREPARE and self._has_one_file:
            # The next task begins when the last host has ended its file.
            reports = {host: self._end_preparation(host, said) for host, said in reports.items()}
        return reports

    def _reach_next_step(self) -> None:
        """Let another run be the one that comes first."""
        if self._advance != self.world.advance:
            self._advance(self.world.now + self._chance.uniform(0.0, 2.0))

    def _take_step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise BrokenOffError

    def _question(self, host: str) -> dict[str, Any]:
        self._take_step()
        vm = self.world.vms[host]
        self._let_person_restore(host, self._chance, 0.01)
        if not self.world.is_up(host):
            self._advance(self.world.now + (ASK_LIMIT if vm.hangs else 3.0))
            return {"unreachable": True, "msg": "Connection refused"}
        self._advance(self.world.now + 1.0)
        if not self.world.is_up(host):
            return {"unreachable": True, "msg": "Connection reset"}
        answer = self.world.answer(host)
        if "events" in answer:
            self.judge.told(host, answer, self.run["all_asked"])
        return answer

    def _asked(self, host: str, known: Mapping[str, Any]) -> dict[str, Any]:
        return take_answer(dict(known), self._question(host), self.world.now)

    def _ask_step(self, host: str, order: Mapping[str, Any]) -> dict[str, Any]:
        return {"host": self._asked(host, self.run["hosts"][host])}

    def _file_goes_through(self, host: str) -> bool:
        """Let a file of the user run, and tell whether the host was there all the time."""
        boot = self.world.vms[host].boot
        if not self.world.is_up(host):
            return False
        self._take_step()
        self._advance(self.world.now + self._chance.choice((1.0, 10.0, 60.0, 95.0)))
        return self.world.is_up(host) and boot == self.world.vms[host].boot and self._chance.random() > 0.03

    def _prepare(self, host: str, order: Mapping[str, Any]) -> dict[str, Any] | None:
        event_id = order["event_id"]
        self.judge.is_to_prepare(host, event_id)
        if self.world.is_up(host):
            if self.world.vms[host].takes_no_marks and not self._check_mode:
                return {"reached": False, "began": False, "why": "No space left on device."}
            hindered = [] if self._check_mode else self._mark(host, order, PREPARING)
            if not self._check_mode and self._luck.random() < 0.03:
                # The answer is lost with the connection.
                self.world.vms[host].down_until = self.world.now + self._luck.choice((0.0, 20.0, 200.0))
                return {"reached": False, "began": False, "why": "Connection reset"}
            if hindered:
                # Its disk is full when it tries again.
                self.world.vms[host].takes_no_marks = self._luck.random() < 0.2
                return {"reached": False, "began": False, "why": "Another run.", "hindered": hindered}
            self.judge.prepare_begins(host, event_id)
        if not self._file_goes_through(host):
            self.judge.loses(host)
            self._lost.add(host)
            return None
        fails = self._chance.random() < 0.07
        self.judge.prepare_ends(host, event_id, fails)
        return {"reached": not fails, "why": "Drain: it failed." if fails else None}

    def _end_preparation(self, host: str, said: dict[str, Any]) -> dict[str, Any]:
        """Note in the mark of a host how its preparation ended, and ask."""
        self._let_person_restore(host, self._luck, 0.05)
        if self.world.is_up(host) and said.get("began", True) and not self._check_mode:
            self._reach_next_step()
            vm, order = self.world.vms[host], self.run["orders"][host]
            said["was_marked"] = (order["event_id"], self._id) in vm.marks
            self._write_mark(host, order, PREPARED if said["reached"] else FAILED)
        return {**said, "host": self._asked(host, self.run["hosts"][host])}

    def _let_person_restore(self, host: str, chance: random.Random, often: float) -> None:
        vm = self.world.vms[host]
        comes = vm.marks and self.world.is_up(host) and chance.random() < often
        # Who takes marks away while a run writes its own hides that one from the others.
        if comes and not vm.writers and self.judge.may_person_restore(host):
            vm.marks.clear()
            self.judge.person_restores(host)

    def _check(self, host: str, order: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the checker of a host, as the step for it does."""
        report: dict[str, Any] = {"reached": False, "why": "Connection refused"}
        if self.world.is_up(host):
            told = read_checker(self._checkers[host].status(), order["event_id"])
            report = {"reached": not told.why_not, "why": told.why_not}
            if told.preparing and not order["last"]:
                report = {"reached": None, "why": None}
        return {**report, "host": self._asked(host, self.run["hosts"][host])}

    def _mark(self, host: str, order: Mapping[str, Any], state: str) -> list[str]:
        """Write a mark, and return those of others that are in the way."""
        self._reach_next_step()
        vm = self.world.vms[host]
        own = self._write_mark(host, order, state)
        if self._advance != self.world.advance and self._luck.random() < 0.5:
            # To write to a disk takes its time.
            vm.writers.add(self._id)
            self._advance(self.world.now + self._luck.uniform(0.0, 1.0))
            vm.writers.discard(self._id)
        others = {str(each): mark["state"] for each, mark in vm.marks.items() if mark is not own}
        known = self.run["hosts"][host]["mark_states"]
        hindering = find_hindering(others, state == RESTORING, known, order["heeded"])
        if hindering and state == RESTORING:
            own["state"] = PREPARED
        return hindering

    def _write_mark(self, host: str, order: Mapping[str, Any], state: str) -> dict[str, Any]:
        vm = self.world.vms[host]
        now = datetime.fromtimestamp(self.world.now, timezone.utc)
        told = {"run": self._id, "boot_id": f"{vm.name}-{vm.boot}", "vm_id": f"id of {vm.name}"}
        mark = new_mark(RUN, order["event"], now.strftime("%Y-%m-%dT%H:%M:%SZ"), **told)
        limit = self.settings["prepare_timeout" if state == PREPARING else "restore_timeout"]
        own = vm.marks[order["event_id"], self._id] = set_state(mark, state, now, float(limit))
        return own

    def _restore(self, host: str, order: Mapping[str, Any]) -> dict[str, Any] | None:
        event_id = order["event_id"]
        if self.world.is_up(host) and order["is_marked"] and not self._check_mode:
            hindered = self._mark(host, order, RESTORING)
            if hindered:
                return {"reached": False, "why": "Another run.", "hindered": hindered}
        if order["only_marked"]:
            self.world.vms[host].marks.pop((event_id, self._id), None)
            return {"reached": True, "why": None}
        if self.world.is_up(host):
            self.judge.restore_begins(host, event_id)
        has_file = self.run["hosts"][host]["settings"]["restore"] not in ("", NOTHING)
        if has_file and not self._file_goes_through(host):
            self.judge.loses(host)
            self._lost.add(host)
            return None
        fails = has_file and self._chance.random() < 0.05
        self.judge.restore_ends(host, event_id, fails)
        own = self.world.vms[host].marks.get((event_id, self._id))
        if fails and own:
            if has_older(self.run["hosts"][host], own):
                del self.world.vms[host].marks[event_id, self._id]
            else:
                own["state"] = FAILED
        if not fails and order["is_marked"] and not self._check_mode:
            marks = self.world.vms[host].marks
            for key in [key for key, mark in marks.items() if key[0] == event_id and mark["by"] == RUN]:
                at_work = marks[key]["state"] == RESTORING and str(key) not in order["waited_out"]
                if key[1] == self._id or not at_work:
                    del marks[key]
        return {"reached": not fails, "why": "Refill: it failed." if fails else None}

    def _approve(self, host: str, orders: list[Mapping[str, Any]]) -> dict[str, Any]:
        results: list[Mapping[str, Any]] = [{"item": order, **self._approval(host, order)} for order in orders]
        if self._outside and self.settings["acknowledge"] == FALLBACK:
            results = [self._fall_back(host, each) if could_not_be_asked(each) else each for each in results]
        return {"results": results}

    def _fall_back(self, host: str, result: Mapping[str, Any]) -> Mapping[str, Any]:
        assert self._outside
        order = result["item"]

        def approves(event: Event, asked: fleet_outside.Asked) -> None:
            self.judge.acknowledges(event, asked, self._has_approved(event))
            self.judge.approves(host, event, self.settings["outside_vms"] == "ignore", self._limits(), asked)

        ready, event_id = order["resources_ready"], order["event"]["event_id"]
        client = fleet_outside.Client(self._outside, self._chance, ASK_LIMIT, self._advance, approves, ready)
        said = {"in_doubt": False, **fleet_outside.approve(client, event_id, ready)}
        self.judge.note(f"Azure says of {event_id[:8]}: {said.get('msg')}")
        if any(each["result"] == "approved" for each in said.get("approvals", ())):
            self._approved[event_id] = set(ready)
        return take_acknowledgement(result, said)

    def _has_approved(self, event: Event) -> bool:
        """Tell whether it was approved for all its VMs: another one may have come into it since (seed 70013208)."""
        return set(event.vms) <= self._approved.get(event.event_id, set())

    def _approval(self, host: str, order: Mapping[str, Any]) -> dict[str, Any]:
        """Return what scheduled_event_approve returns."""
        if not self.world.is_up(host):
            return {"unreachable": True, "msg": "Connection refused"}
        if self._outside and self._chance.random() < 0.6:
            return {"unreachable": True, "msg": "Connection timed out"}
        self._advance(self.world.now + 1.0)
        if self.world.now < self.world.vms[host].deaf_until:
            return {"failed": True, "msg": "No answer.", "reason": "timeout", "in_doubt": False}
        name = self.world.vms[host].name
        open_events = self.world.open_events(self.world.vms[host])
        event = next((each for each in open_events if each.event_id == order["event"]["event_id"]), None)
        known = {"document_is_clear": True, "in_doubt": False}
        if event is None:
            return {**known, "approvals": [{"result": "not_found"}]}
        if event.status == "Started":
            return {**known, "approvals": [{"result": "already_started"}]}
        if not set(event.vms) <= {name, *order["resources_ready"]}:
            return {**known, "failed": True, "msg": "It waits for other VMs.", "approvals": [{"result": "refused"}]}
        self.judge.require("P1", not self._has_approved(event), f"{event.event_id} is approved again")
        self.judge.approves(host, event, self.settings["outside_vms"] == "ignore", self._limits())
        if not self._check_mode:
            self.world.approve(event)
        if self._chance.random() < 0.05:
            return {"unreachable": True, "msg": "Connection reset"}
        self._approved[event.event_id] = set(event.vms)
        return {**known, "changed": True, "approvals": [{"result": "approved"}]}

    def _limits(self) -> list[tuple[set[str], int]]:
        """Return how many hosts of each group may be out of service at once."""
        groups: dict[str, set[str]] = {}
        for host, known in self.run["hosts"].items():
            if known["settings"] is not None:
                groups.setdefault(known["settings"]["group"], set()).add(host)
        given = self.settings["max_unavailable"]
        return [
            (hosts, {"": len(hosts), "50%": max(1, len(hosts) // 2)}.get(given) or int(given))
            for hosts in groups.values()
        ]

    def _wait(self) -> dict[str, Any]:
        orders = self.run["orders"]
        before = {host: self.run["hosts"][host] for host in orders}
        known = dict(before)
        waiting = set(orders)
        since = self.world.now
        while waiting:
            for host in sorted(waiting):
                known[host] = self._asked(host, known[host])
            if any(news(before[host], known[host]) for host in waiting):
                break
            pause = hosts.pause_between(self.world.now - since)
            until = {host: orders[host]["until"] for host in waiting}
            self._advance(min(self.world.now + pause, max(until.values())))
            waiting = {host for host in waiting if self.world.now < until[host]}
        return {host: {"host": known[host]} for host in orders}


def random_settings(chance: random.Random) -> dict[str, Any]:
    return {
        "approve": chance.random() < 0.95,
        "wait": chance.random() < 0.9,
        "outside_vms": chance.choice(("refuse", "refuse", "refuse", "ignore")),
        "max_unavailable": chance.choice(("", "1", "1", "2", "50%")),
    }


def run_outside_history(seed: int) -> Judge:
    """Return the judge of one random history in which VMs are lost when they are to approve, and Azure is asked."""
    return run_history(seed, True)


def run_history_in_batches(seed: int) -> Judge:
    """Return the judge of one random history in which the role is run in one play, with serial."""
    return run_history(seed, play=FleetRun.play_in_batches)


# As playbooks/restore.yml sets them
_RESTORE = {"prepare": "nothing", "approve": False, "wait": False, "only_marked": True}


def run_restore_history(seed: int) -> Judge:
    """Return the judge of one random history in which the playbook restore follows a run that was broken off."""
    return run_history(seed, restores=True)


def run_limited_history(seed: int) -> Judge:
    """Return the judge of one random history of a run that is limited to one event, or to one type."""
    return run_history(seed, is_limited=True)


class CheckJudge(Judge):
    """Looks at a run in check mode: the files of the user do nothing, and no approval is sent."""

    def may_person_restore(self, host: str) -> bool:
        """Nobody else may change the marks that are looked at."""
        return False

    def is_to_prepare(self, host: str, event_id: str) -> None:
        """The host stays as it is."""

    def prepare_begins(self, host: str, event_id: str) -> None:
        self.note(f"{host} would prepare for {event_id[:8]}")

    def prepare_ends(self, host: str, event_id: str, fails: bool) -> None:
        """The host stays as it is."""

    def approves(
        self, host: str, event: Event, outside_ignored: bool, limits: Limits, asked: fleet_outside.Asked | None = None
    ) -> None:
        self.approvals += 1
        self.note(f"{host} would approve {event.event_id[:8]}")

    def restore_begins(self, host: str, event_id: str) -> None:
        self.note(f"{host} would restore after {event_id[:8]}")

    def restore_ends(self, host: str, event_id: str, fails: bool) -> None:
        self.restores += not fails


def run_check_history(seed: int) -> Judge:
    """Return the judge of one random history of a run in check mode, after one that was broken off in half of them."""
    chance = random.Random(seed)
    world = random_world(chance)
    settings = random_settings(chance)
    judge = CheckJudge(world, LONGEST)
    for line in (f"settings {settings}", *world.describe()):
        judge.note(line)
    world.advance(world.now)
    if chance.random() < 0.5:
        with contextlib.suppress(BrokenOffError):
            FleetRun(world, Judge(world, LONGEST), chance, "1", chance.randint(1, 25), **settings).play()
        world.advance(world.now + chance.choice((1.0, 60.0, 600.0, 3000.0)))
    before = {host: copy.deepcopy(vm.marks) for host, vm in world.vms.items()}
    FleetRun(world, judge, chance, "2", float("inf"), check_mode=True, **settings).play()
    for host, vm in world.vms.items():
        is_same = vm.marks == before[host] or vm.has_lost_marks
        judge.require("check mode", is_same, f"the marks of {host} have changed")
    return judge


def run_history(
    seed: int,
    is_asked: bool = False,
    is_limited: bool = False,
    restores: bool = False,
    play: Callable[[FleetRun], None] = FleetRun.play,
) -> Judge:
    """Return the judge of one random history.

    :param is_asked: Azure's control plane is asked where a VM cannot be.
    :param restores: the run is broken off, and the playbook restore follows.
    """
    chance = random.Random(seed)
    world = random_world(chance)
    judge = Judge(world, LONGEST)
    settings = random_settings(chance)
    judge.is_limited = is_limited
    if is_limited:
        event = chance.choice(world.events)
        settings.update(chance.choice(({"event_ids": [event.event_id]}, {"event_types": [event.kind]})))
    judge.note(f"settings {settings}")
    outside = None
    if is_asked:
        outside = fleet_outside.Outside(world, chance)
        settings["acknowledge"] = FALLBACK
        judge.note(outside.describe())
    for line in world.describe():
        judge.note(line)
    world.advance(world.now)
    try:
        most = float("inf") if chance.random() < 0.6 and not restores else chance.randint(1, 25)
        play(FleetRun(world, judge, chance, "1", most, outside=outside, **settings))
    except BrokenOffError:
        judge.breaks_off()
        judge.only_restores = restores
        settings.update(_RESTORE if restores else {})
        world.advance(world.now + chance.choice((1.0, 60.0, 600.0, 3000.0)))
        play(FleetRun(world, judge, chance, "2", float("inf"), outside=outside, **settings))
    return judge
