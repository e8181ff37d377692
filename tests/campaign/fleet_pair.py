# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Two runs over the same fleet beside each other, and some checkers, on one virtual clock."""

from __future__ import annotations

import random
from functools import partial
from typing import Callable

import greenlet
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.settings import CHECKER, FALLBACK

from .fleet_checker import Checker
from .fleet_judge import PairJudge, Together
from .fleet_mixed import change_events, mix
from .fleet_outside import Outside
from .fleet_run import LONGEST, FleetRun, random_settings
from .fleet_world import World, random_world


class Turns:
    """Runs of which one goes on at a time: that which sleeps until the earliest moment.

    :param world: has the clock.
    """

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world, self._chance = world, chance
        self._wakes: dict[int, float] = {}

    def play(self, *runs: tuple[float, Callable[[Callable[[float], None]], None]]) -> None:
        """Run these, each from a moment on, until all have ended; each is given what lets time pass.

        :raises Exception: one of them did.
        """
        director = greenlet.getcurrent()

        def sleep(number: int, moment: float) -> None:
            self._wakes[number] = moment
            director.switch()

        lives = []
        for number, (begins, run) in enumerate(runs):
            self._wakes[number] = begins
            lives.append((greenlet.greenlet(run), partial(sleep, number)))
        while self._wakes:
            first = min(self._wakes, key=lambda number: (self._wakes[number], self._chance.random()))
            self._world.advance(self._wakes[first])
            life, sleeps = lives[first]
            if life:
                life.switch()
            else:
                life.switch(sleeps)
            if life.dead:
                del self._wakes[first]


def run_mixed_pair_history(seed: int) -> Together:
    """Return the same for hosts that differ, as each of the two runs has them."""
    return run_pair_history(seed, True)


def run_pair_history(seed: int, is_mixed: bool = False) -> Together:
    """Return what became of a fleet in one random history of two runs."""
    chance = random.Random(seed)
    world = random_world(chance)
    if is_mixed:
        change_events(chance, world)
    together = Together(world, story=[f"{'':8}  {line}" for line in world.describe()])
    # By a chance of its own, so that all else in the history of a seed stays.
    luck = random.Random(f"checkers of {seed}")
    of_runs = [mix(chance, world) for _run in (1, 2)] if is_mixed else [{}, {}]
    have_checkers = luck.random() < 0.4
    for vm in world.vms.values():
        if have_checkers or any(of_hosts and of_hosts[vm.host]["prepare"] == CHECKER for of_hosts in of_runs):
            together.checkers[vm.host] = Checker(world, vm, luck, together.note)
    world.actors += together.checkers.values()
    settings = random_settings(chance)
    outside = Outside(world, chance) if chance.random() < 0.3 else None
    settings["acknowledge"] = FALLBACK if outside else "never"
    judges = []
    runs = []
    for run_id, of_hosts in zip(("1", "2"), of_runs):
        judge = PairJudge(together, run_id, LONGEST, of_hosts)
        judges.append(judge)
        own = random.Random(chance.random())

        run = partial(FleetRun, world, judge, own, run_id, float("inf"), outside=outside, **settings)

        def play(advance: Callable[[float], None], run=run, of_hosts=of_hosts) -> None:  # type: ignore[no-untyped-def]
            run(advance=advance, checkers=together.checkers, of_hosts=of_hosts).play()

        runs.append((world.now + chance.choice((0.0, 0.0, 3.0, 40.0, 300.0)), play))
    together.story.append(f"{'':8}  settings {settings}")
    together.story += [f"{'':8}  run {run_id}: {of_hosts}" for run_id, of_hosts in zip("12", of_runs) if of_hosts]
    together.story += [outside.describe()] if outside else []
    Turns(world, chance).play(*runs)
    judges[0].both_have_ended()
    return together
