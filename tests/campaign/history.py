# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""One history: what a seed lets happen to Azure, the VM, its disk and its people, and how it ends."""

from __future__ import annotations

import contextlib
import glob
import os
import random
import shutil
import tempfile
from functools import partial
from typing import Any, Callable, Iterator, NamedTuple, Sequence

from ansible_collections.fleetops.azure_maintenance.tests.campaign import disk
from ansible_collections.fleetops.azure_maintenance.tests.campaign.azure import OTHER, VM, Event
from ansible_collections.fleetops.azure_maintenance.tests.campaign.ending import LAST_EVENTS, Ending
from ansible_collections.fleetops.azure_maintenance.tests.campaign.rules import CONFIGURATIONS
from ansible_collections.fleetops.azure_maintenance.tests.campaign.shared_state import SharedState, leave_empty_state
from ansible_collections.fleetops.azure_maintenance.tests.campaign.vm import Machine

KINDS = ("Reboot", "Reboot", "Redeploy", "Preempt", "Freeze")
_SPOILT = ("no id", "no vm", "null vm", "no object", "odd date", "odd fields")
_ANSWERS = ("empty", "empty", "page", "junk", "text", "500", "410", "404", "429", "long 429")
_NAMES = ("junk", "page", "404", "empty", "500", "word", "no id", "sentence")
_POSTS = ("lost", "lost", "500", "410", "429", "junk")
_DELAYS = ("hold", "hold", "slow", "reset", "unreachable")


class Action(NamedTuple):
    """Something happens: ``after`` so many seconds, with numbers from 0 to 1 that decide what exactly."""

    after: float
    name: str
    a: float
    b: float
    c: float

    def __str__(self) -> str:
        return f"after {self.after:.1f} s: {self.name} ({self.a:.3f}, {self.b:.3f}, {self.c:.3f})"


class Failure(NamedTuple):
    """A property that was broken."""

    seed: int
    name: str
    why: str


def make_actions(seed: int) -> list[Action]:
    luck = random.Random(seed)
    names, weights = zip(*((name, weight) for name, (weight, _act) in ACTIONS.items()))
    found = []
    for name in ("announce", *luck.choices(names, weights, k=luck.randint(3, 10))):
        pace = luck.random()
        after = luck.uniform(0, 4 if pace < 0.5 else 20 if pace < 0.92 else 90 if pace < 0.985 else 350)
        found.append(Action(after, name, luck.random(), luck.random(), luck.random()))
    # Of its own, so that it leaves the rest of a seed as it is
    more = random.Random(f"{seed} more")
    for _number in range(more.choice((0, 0, 0, 1, 1, 2))):
        name = more.choice(("role", "role", "change", "unread"))
        action = Action(more.uniform(0, 20), name, more.random(), more.random(), more.random())
        found.insert(more.randint(1, len(found)), action)
    return found


class History:
    """Runs the actions of a seed, or some of them, in a folder that is empty.

    :param shared_state: used where neither the actions nor the seed ask for a file of its own.
    """

    def __init__(
        self,
        seed: int,
        actions: Sequence[Action],
        folder: str,
        tell: bool = False,
        shared_state: SharedState | None = None,
    ) -> None:
        luck = random.Random(f"{seed} settings")
        poll_interval = luck.choice((1.0, *[5.0] * 9, *[10.0] * 40))
        knows_name = luck.random() < 0.3
        timer_interval = luck.choice((60.0, 60.0, 180.0))
        self._is_first = luck.random() < 0.05
        alone = self._is_first or luck.random() < 0.04
        shared_state = None if alone else shared_state
        self.machine = Machine(seed, folder, poll_interval, knows_name, timer_interval, shared_state)
        self.machine.configure(random.Random(f"{seed} rules").choice((0, 0, 0, 1, 1, 2)))
        self.azure = self.machine.azure
        self._seed = seed
        self._actions = actions
        self._luck = luck
        # What is answered in the place of the name in the first seconds
        nameless = luck.choice(("word", "word", "word", "no id", "sentence", "page"))
        self._nameless = nameless if luck.random() < 0.2 else None
        hasty, last = luck.random() < 0.95, luck.choice((*LAST_EVENTS, *[None] * 15))
        if self._nameless and not last:
            last = LAST_EVENTS[0]
        self._ending = Ending(self.machine, self.azure, hasty, last)
        # What others read of the state takes a good part of the time; one history in forty writes it.
        self.machine.publishes = seed % 40 == 0 or self._nameless in ("no id", "sentence")
        if tell:
            self.machine.judge.story = []

    def run(self) -> Failure | None:
        machine = self.machine
        disk.world = machine
        at = machine.scheduler.at
        if machine.shared_state:
            machine.shared_state.begin()
        elif not self._is_first:
            leave_empty_state(machine.state_folder)
        if self._nameless:
            self.azure.break_until("names", self._nameless, self._luck.uniform(1.0, 40.0))
        at(0.0, machine.start)
        moment = 1.0
        for action in self._actions:
            moment += action.after
            at(moment, lambda action=action: self._do(action))  # type: ignore[misc]
        at(moment + self._luck.choice((5.0, 40.0, 70.0)), self._ending.begin)
        try:
            machine.scheduler.direct()
        finally:
            machine.over = True
            machine.scheduler.kill_all(list(machine.actors))
        broken = machine.judge.broken
        return Failure(self._seed, *broken) if broken else None

    def _do(self, action: Action) -> None:
        if action.name == "nothing":
            return
        self.machine.judge.note(f"--- {action.name} {action.a:.3f} {action.b:.3f} {action.c:.3f}")
        ACTIONS[action.name][1](self, action)

    # What may happen

    def _pick(self, luck: float) -> Event | None:
        events = self.azure.open
        return events[int(luck * len(events))] if events else None

    def _start(self, event: Event) -> None:
        self.machine.judge.note(f"Azure starts {event.id}")
        self.azure.start(event)

    def announce(self, action: Action, again: Event | None = None) -> Event:
        machine, at = self.machine, self.machine.scheduler.at
        kind = again.kind if again else KINDS[int(action.a * len(KINDS))]
        # A fault of the hardware comes without a notice.
        notice = 30.0 if kind == "Preempt" else 0.0 if action.b < 0.2 else 20.0 + 500.0 * action.b * action.b
        name = again.id if again else f"{kind[:3]}-{len(self.azure.events) + 1}"
        resources = [OTHER, VM] if action.c > 0.9 else [VM, OTHER] if action.c > 0.7 else [VM]
        event = self.azure.announce(name, kind, resources, machine.now, notice)
        event.describe(machine.chance("words", event.serial))
        luck = machine.chance("fate", event.serial)
        if action.c > 0.1:
            at(machine.now + notice + (30.0 * luck if notice else 0.0), lambda: self._start_by_plan(event, luck))
        self._watch_approval(event, luck)
        machine.judge.note(f"Azure announces {name} for {resources}, in {notice:.0f} s")
        return event

    def _watch_approval(self, event: Event, luck: float) -> None:
        """An approved event is started before its time."""
        machine = self.machine

        def look() -> None:
            if event.taken and not event.ended and not machine.sound:
                machine.scheduler.at(machine.now + 12.0 * luck, lambda: self._start_by_plan(event, luck))
            elif not event.ended:
                machine.scheduler.at(machine.now + 5.0, look)

        look()

    def _start_by_plan(self, event: Event, luck: float) -> None:
        machine, at = self.machine, self.machine.scheduler.at
        if event.ended or event.started or machine.sound:
            return
        self._start(event)
        if event.kind != "Freeze" and luck < 0.6 and VM in event.resources:
            at(machine.now + 10.0 * luck, lambda: None if machine.sound else machine.reboot(5.0 + 40.0 * luck))
        at(machine.now + 5.0 + 60.0 * luck, lambda: self.azure.end(event))


def _reuse(history: History, action: Action) -> None:
    if action.b < 0.6:
        # It is withdrawn while it is prepared for, and is there again soon.
        event = history.announce(action._replace(b=0.5))
        _follow_up(history, event, 10.0 + 30.0 * action.b, 11.0 + 10.0 * action.c, event)
        return
    taken = {event.id for event in history.azure.open}
    free = [event for event in history.azure.events if event.id not in taken]
    history.announce(action, free[int(action.c * len(free))] if free else None)


def _follow_up(history: History, event: Event, ends_in: float, comes_after: float, again: Event | None = None) -> None:
    """The event ends, and a next one comes so many seconds after that, which may be before it."""
    at, now = history.machine.scheduler.at, history.machine.now

    def announce() -> None:
        taken = again is not None and any(each.id == again.id for each in history.azure.open)
        if not history.machine.sound and not taken:
            luck = history.machine.chance("next", event.serial)
            history.announce(Action(0.0, "next", luck, 0.1, 0.5), again)

    at(now + ends_in, lambda: history.azure.end(event))
    at(now + max(0.0, ends_in + comes_after), announce)


def _chain(history: History, action: Action) -> None:
    """The host fails while the VM comes back from another event, or shortly before."""
    event = history._pick(action.a) or history.announce(action)
    history._start_by_plan(event, action.b)
    _follow_up(history, event, 15.0 + 10.0 * action.b, 40.0 * action.c - 22.0)


def _resources(history: History, action: Action) -> None:
    event = history._pick(action.a)
    if event is not None:
        event.resources = [[VM, OTHER], [VM], [OTHER, VM], [OTHER]][int(action.b * 3.3)]


def _with_event(act: Callable[[History, Event, Action], Any]) -> Callable[[History, Action], None]:
    def do(history: History, action: Action) -> None:
        event = history._pick(action.a)
        if event is not None:
            act(history, event, action)

    return do


def _spoil(history: History, event: Event, action: Action) -> None:
    event.spoilt = _SPOILT[int(action.b * len(_SPOILT))]
    history.machine.scheduler.at(history.machine.now + _length(action.c), lambda: setattr(event, "spoilt", None))


def _length(luck: float) -> float:
    """Return for how many seconds a fault lasts: seldom for long."""
    return 2.0 + 60.0 * luck if luck < 0.85 else 330.0 + 200.0 * (luck - 0.85)


def _break_names(history: History, action: Action) -> None:
    how = _NAMES[int(action.a * len(_NAMES))]
    history.azure.break_until("names", how, history.machine.now + _length(action.b))
    if action.c < 0.5:
        # It is asked for after a boot only.
        history.machine.reboot(1.0 + 20.0 * action.c)


def _fault(part: str, hows: Sequence[str]) -> Callable[[History, Action], None]:
    def do(history: History, action: Action) -> None:
        how = hows[int(action.a * len(hows))]
        history.azure.break_until(part, how, history.machine.now + _length(action.b))

    return do


def _delay(history: History, action: Action) -> None:
    _fault("delays", _DELAYS)(history, action)
    if action.c < 0.5:
        # How long an answer is waited for is decided anew by each check.
        history.machine.kill("check")


def _posts(history: History, action: Action) -> None:
    _fault("posts", _POSTS)(history, action)
    if action.c < 0.5:
        # What is prepared already is not yet approved.
        history.machine.scheduler.at(history.machine.now + 80.0 * action.c, lambda: _reboot(history, action))


def _reboot(history: History, action: Action) -> None:
    if not history.machine.sound:
        history.machine.reboot(1.0 + 60.0 * action.a)


def _arm(history: History, action: Action) -> None:
    machine = history.machine
    kind = ("check", "respond", "respond", "any")[int(action.a * 4)]
    points = 1 + int(action.b * action.b * 60)
    if action.c < 0.3:
        machine.arm(kind, points, lambda: machine.reboot(2.0 + 100.0 * action.c))
    else:
        machine.arm(kind, points, machine.kill_current)


def _disk(history: History, action: Action) -> None:
    history.machine.disk = "full" if action.a < 0.5 else "read-only"
    history.machine.judge.note(f"the disk is {history.machine.disk}")
    history.machine.scheduler.at(history.machine.now + _length(action.b), lambda: _mend_disk(history))


def _mend_disk(history: History) -> None:
    history.machine.judge.note("the disk is mended")
    history.machine.disk = None


def _lock(history: History, action: Action) -> None:
    history.machine.locked_until = history.machine.now + _length(action.a)


def _flip(history: History, action: Action) -> None:
    machine = history.machine
    path = f"{machine.state_folder}/state.db"
    if os.path.exists(path) and machine.disk is None:
        found = disk.flip(path, action.a, action.b)
        if found is not None:
            machine.judge.damaged(*found)


def _lose(history: History, action: Action) -> None:
    """The file of the state is removed, or garbage stands in its place."""
    machine = history.machine
    path = f"{machine.state_folder}/state.db"
    if not os.path.exists(path) or machine.disk is not None or os.path.exists(f"{machine.folders.run}/state.db"):
        return
    if machine.shared_state:
        machine.shared_state.become_file()
    for name in glob.glob(f"{path}-*"):
        os.unlink(name)
    if action.a < 0.5:
        os.unlink(path)
    else:
        with open(path, "r+b") as file:
            file.write(b"garbage " * 1000)
    machine.judge.lost_state()


def _prepare_by_run(history: History, action: Action) -> None:
    """A run over the fleet takes the VM out of service, and puts it back later, or is broken off."""
    event = history._pick(action.a)
    if event is None or action.b > 0.5:
        # The lead time of the checker's rule has not come.
        event = history.announce(action._replace(a=KINDS.index("Redeploy") / len(KINDS), b=0.9))
        history.machine.scheduler.at(history.machine.now + 12.0, lambda: _take_out_by_run(history, event, action))
        if action.a < 0.5:
            # Another event of this VM comes and goes meanwhile.
            other = history.announce(action._replace(b=0.1, c=0.5))
            _follow_up(history, other, 20.0 + 20.0 * action.a, 15.0)
    else:
        _take_out_by_run(history, event, action)


def _take_out_by_run(history: History, event: Event, action: Action) -> None:
    if event.ended or history.machine.sound:
        return
    machine, key = history.machine, event.id.lower()
    if machine.restoring_runs:
        # It waits for that run.
        return
    machine.write_mark_of_run(event.id, "preparing")
    if "restoring" in machine.marks_of_checker().values():
        # It asks again, and waits.
        machine.remove_mark_of_run(event.id)
        return
    machine.judge.prepared_by_run(key)
    seconds = 2.0 + 60.0 * action.a
    machine.prepare_by_run(event.id, seconds, action.c < 0.1)
    if action.c > 0.2:
        begins_at = machine.now + seconds + 5.0 + 150.0 * action.b
        # The checker waits for a minute, which it counts from a whole second on.
        restore = partial(machine.restore_by_run, event.id, 58.0 * action.a)
        meets = action.c > 0.4
        machine.scheduler.at(begins_at, partial(_meet_a_start, history, action, restore) if meets else restore)


def _meet_a_start(history: History, action: Action, restore: Callable[[], None]) -> None:
    """The run restores at the moment at which the checker answers the start of an event."""
    other = history._pick(action.a)
    if other is not None:
        history._start_by_plan(other, 0.9)
    # Between the last look of the response at what others do, and its step
    history.machine.arm("respond", 17 + int(17.0 * action.a), restore)


def _change(_history: History, event: Event, action: Action) -> None:
    """Azure calls it otherwise from now on: FIELD.md, E2."""
    event.describe(action.c)
    if action.b < 0.6:
        event.kind = KINDS[int(action.b / 0.6 * len(KINDS))]


def _unread(history: History, action: Action) -> None:
    """An entry cannot be read from a moment on in which the VM is prepared for its event: FIELD.md, B3."""
    machine = history.machine
    event = history._pick(action.a) or history.announce(action._replace(a=0.0, b=0.9, c=0.5))

    def look() -> None:
        view = machine.judge.views.get(event.id.lower())
        if machine.sound or event.ended or event.taken:
            return
        if view is None or not view.prepared:
            machine.scheduler.at(machine.now + 1.0, look)
            return
        event.spoilt = "no id"
        machine.scheduler.at(machine.now + 5.0 + 60.0 * action.b, lambda: setattr(event, "spoilt", None))

    look()


def _role(history: History, action: Action) -> None:
    """The role installs other rules, and starts the check anew some time later."""
    machine = history.machine
    machine.judge.configured()
    machine.configure(int(action.a * len(CONFIGURATIONS)))
    machine.scheduler.at(machine.now + 5.0 * action.b, lambda: None if machine.sound else machine.kill("check"))


def _clock(history: History, action: Action) -> None:
    history.machine.wall_offset += (action.a - 0.5) * 10.0 ** (1 + 6 * action.b)
    history.machine.clock_was_set = True


def _retry(history: History, action: Action) -> None:
    history.machine.judge.retries += 1
    history.machine.retry(1 + int(action.a * action.a * 9))


ACTIONS: dict[str, tuple[float, Callable[[History, Action], None]]] = {
    "announce": (6, History.announce),
    "reuse": (6, _reuse),
    "chain": (4.5, _chain),
    "resources": (2.5, _resources),
    "withdraw": (2, _with_event(lambda history, event, _action: history.azure.end(event))),
    "start": (2, _with_event(lambda history, event, action: history._start_by_plan(event, action.b))),
    "spoil": (3.5, _with_event(_spoil)),
    "answers": (4, _fault("answers", _ANSWERS)),
    "names": (1.5, _break_names),
    "posts": (5, _posts),
    "delays": (5, _delay),
    "order": (0.7, _fault("order", ("mixed",))),
    "flood": (0.015, _fault("flood", ("junk", "events"))),
    "reboot": (2, _reboot),
    "kill": (1.5, lambda history, action: history.machine.kill(("check", "respond", "any")[int(action.a * 3)])),
    "arm": (4, _arm),
    "disk": (1, _disk),
    "lock": (0.7, _lock),
    "flip": (2, _flip),
    "lose": (0.8, _lose),
    "clock": (0.8, _clock),
    "run": (4, _prepare_by_run),
    "retry": (2.5, _retry),
    # These are drawn apart; see make_actions().
    "role": (0, _role),
    "change": (0, _with_event(_change)),
    "unread": (0, _unread),
}


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    memory = "/dev/shm"
    folder = tempfile.mkdtemp(prefix="campaign-", dir=memory if os.access(memory, os.W_OK) else None)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_history(
    seed: int, keep: Sequence[int] | None = None, tell: bool = False, shared_state: SharedState | None = None
) -> tuple[Failure | None, list[str]]:
    """Run the history of a seed, or only these of its actions, and return what was broken, and the story if asked."""
    actions = make_actions(seed)
    if keep is not None:
        # The others do nothing, but their time passes.
        kept = set(keep)
        actions = [each if at in kept else each._replace(name="nothing") for at, each in enumerate(actions)]
    with temporary_folder() as folder:
        history = History(seed, actions, folder, tell, shared_state)
        failure = history.run()
        return failure, history.machine.judge.story or []
