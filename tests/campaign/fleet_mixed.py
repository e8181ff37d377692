# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""A run over hosts that differ: in their files, in their groups, and some have checkers."""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Mapping

from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.settings import CHECKER, FALLBACK, NOTHING

from .fleet_checker import Checker
from .fleet_judge import Judge, Prepared
from .fleet_outside import Outside
from .fleet_run import LONGEST, BrokenOffError, FleetRun, random_settings
from .fleet_world import Vm, World, random_world


class MixedJudge(Judge):
    """Judges also those VMs for which no file of a run is run.

    :param checkers: of the hosts that have one.
    :param of_hosts: the variables of the hosts.
    """

    def __init__(
        self, world: World, longest: float, checkers: Mapping[str, Checker], of_hosts: Mapping[str, Mapping[str, Any]]
    ) -> None:
        super().__init__(world, longest)
        self.is_limited = True
        self._checkers, self._of_hosts = checkers, of_hosts

    def _is_ready(self, vm: Vm, done: Prepared | None, event_id: str) -> bool:
        prepare = self._of_hosts[vm.host]["prepare"]
        if prepare == NOTHING:
            return True
        if prepare != CHECKER:
            return super()._is_ready(vm, done, event_id)
        response = self._checkers[vm.host].known.get(event_id)
        return response is not None and response.is_ready(int(self._told[vm.host]["boot_id"].rpartition("-")[2]))

    def _is_out(self, host: str) -> bool:
        if super()._is_out(host):
            return True
        told = self._told[host]
        of_checker = [mark["event_id"] for mark in told["marks"] if mark["by"] == CHECKER]
        # A host for which nothing is prepared is out of service from the approval on.
        ready = [each["event_id"] for each in told["events"]] if self._of_hosts[host]["prepare"] == NOTHING else []
        return not self._world.vms[host].deleted and any(
            (event.event_id in of_checker and event.status == "Started")
            or (event.event_id in (*of_checker, *ready) and event.approved)
            for event in self._world.events
        )

    def may_person_restore(self, host: str) -> bool:
        """Who takes away the marks of a checker hides it from the run."""
        return host not in self._checkers

    def restore_begins(self, host: str, event_id: str) -> None:
        super().restore_begins(host, event_id)
        held = self._checkers[host].find_held() if host in self._checkers else None
        self.require("P3", held is None, f"{host} restores while its checker has it prepared for {held}")


def mix(chance: random.Random, world: World) -> dict[str, dict[str, Any]]:
    """Return the variables of the hosts, by their names."""
    has_groups = chance.random() < 0.4
    mixed = {}
    for host in world.vms:
        prepare = chance.choice(("drain.yml", "drain.yml", "drain.yml", CHECKER, CHECKER, NOTHING))
        restores = {NOTHING: (NOTHING,), CHECKER: ("",)}
        mixed[host] = {
            "prepare": prepare,
            "restore": chance.choice(restores.get(prepare, ("refill.yml", "refill.yml", NOTHING, ""))),
            "group": chance.choice(("a", "b")) if has_groups else "",
            "event_types": ["Reboot", "Terminate"] if chance.random() < 0.1 else [],
        }
    return mixed


def change_events(chance: random.Random, world: World) -> None:
    """Let VMs come into some events, and let some that are withdrawn come again with another id."""
    for event in list(world.events):
        others = [vm.name for vm in world.vms.values() if vm.name not in event.vms]
        if others and chance.random() < 0.25:
            event.grows_by = chance.choice(others)
            event.grows_at = chance.uniform(event.appears_at, min(event.not_before, event.appears_at + 120.0))
        if event.withdrawn_at and chance.random() < 0.4:
            later = event.withdrawn_at + chance.choice((0.0, 5.0, 100.0)) - event.appears_at
            world.events.append(
                dataclasses.replace(
                    event,
                    event_id=f"A{event.event_id[1:]}",
                    vms=list(event.vms),
                    appears_at=event.appears_at + later,
                    not_before=event.not_before + later,
                    withdrawn_at=None,
                    grows_at=None,
                    told_to={},
                    story=[],
                )
            )


def run_mixed_history(seed: int) -> Judge:
    """Return the judge of one random history."""
    chance = random.Random(seed)
    world = random_world(chance)
    change_events(chance, world)
    of_hosts = mix(chance, world)
    checkers: dict[str, Checker] = {}
    judge = MixedJudge(world, LONGEST, checkers, of_hosts)
    for host, own in of_hosts.items():
        if own["prepare"] == CHECKER or chance.random() < 0.3:
            checkers[host] = Checker(world, world.vms[host], random.Random(chance.random()), judge.note)
    world.actors += checkers.values()
    settings = {**random_settings(chance), "due_within": chance.choice((None, None, None, 100, 400))}
    if chance.random() < 0.2:
        settings["event_ids"] = [chance.choice(world.events).event_id]
    outside = Outside(world, chance) if chance.random() < 0.2 else None
    settings["acknowledge"] = FALLBACK if outside else "never"
    play = FleetRun.play_in_batches if chance.random() < 0.2 else FleetRun.play
    given = {"checkers": checkers, "of_hosts": of_hosts, "outside": outside, **settings}
    for line in (f"settings {settings}", *map(str, of_hosts.items()), *world.describe()):
        judge.note(line)
    world.advance(world.now)
    try:
        most = float("inf") if chance.random() < 0.6 else chance.randint(1, 25)
        play(FleetRun(world, judge, chance, "1", most, **given))
    except BrokenOffError:
        judge.breaks_off()
        world.advance(world.now + chance.choice((1.0, 60.0, 600.0, 3000.0)))
        play(FleetRun(world, judge, chance, "2", float("inf"), **given))
    return judge
