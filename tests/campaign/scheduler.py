# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""A virtual clock, and greenlets, of which only one runs at a time: who runs next is decided by the time and the seed.

A greenlet goes on without a switch where nobody else is to run before it. That makes most waits as cheap as a call.
"""

from __future__ import annotations

import contextlib
import heapq
import zlib
from typing import Any, Callable

import greenlet

Callback = Callable[[], None]


class Killed(BaseException):
    """The process was killed, or the VM lost its power: nothing that it would have done now is done."""


class Actor:
    """A process of the VM, run in a greenlet.

    :ivar kind: check, respond or retry.
    :ivar number: that of its response, or of the activation.
    :ivar on_end: called after it has ended, by itself or not.
    """

    def __init__(self, kind: str, number: int, run: Callback, on_end: Callback) -> None:
        self.kind = kind
        self.number = number
        self.run = run
        self.on_end = on_end
        self.killed = False
        self.ended = False
        self.greenlet: Any = None
        # The one entry of the queue that counts
        self.ticket = 0
        # What other modules keep of it
        self.points = 0
        self.connections: list[object] = []

    def live(self) -> None:
        if not self.killed:
            with contextlib.suppress(Killed):
                self.run()
        self.ended = True
        self.on_end()


class Scheduler:
    """:ivar now: seconds since the history began."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.now = 0.0
        self._queue: list[tuple[float, int, int, object, int]] = []
        self._pushed = 0
        self.current: Actor | None = None
        self._director: Any = None
        self.stopping = False

    def chance(self, *key: object) -> float:
        """Return a number from 0 to 1 that depends on the seed and the key alone, so that a shortened history finds
        the same luck."""
        return zlib.crc32(repr((self._seed, key)).encode()) / 4294967296

    def at(self, when: float, item: Callback) -> None:
        """Call something at a moment."""
        self._push(max(when, self.now), item, 0)

    def spawn(self, actor: Actor) -> None:
        self._push(self.now, actor, actor.ticket)

    def wait(self, seconds: float) -> None:
        """Let so many seconds pass for the actor that runs."""
        me = self.current
        assert me is not None
        if me.killed:
            raise Killed
        # At least a moment, because a float may swallow less: whoever waits for it would wait for ever.
        when = self.now + max(seconds, 1e-6)
        if not self.stopping and (not self._queue or self._queue[0][0] > when):
            self.now = when
            return
        me.ticket += 1
        self._push(when, me, me.ticket)
        self._director.switch()
        if me.killed:
            raise Killed

    def kill(self, actor: Actor) -> None:
        """Kill an actor; it unwinds at this very moment. One that is running does so in its next wait."""
        if actor.killed or actor.ended:
            return
        actor.killed = True
        actor.ticket += 1
        self._push(self.now, actor, actor.ticket)

    def direct(self) -> None:
        """Run everything until stop() is called."""
        self._director = greenlet.getcurrent()
        while not self.stopping:
            when, _tie, _pushed, item, ticket = heapq.heappop(self._queue)
            self.now = max(self.now, when)
            if not isinstance(item, Actor):
                # What it does is not done by an actor.
                self.current = None
                item()  # type: ignore[operator]
            elif ticket == item.ticket and not item.ended:
                self.current = item
                if item.greenlet is None:
                    item.greenlet = greenlet.greenlet(item.live)
                item.greenlet.switch()

    def stop(self) -> None:
        """Let direct() return as soon as the actor that runs waits."""
        self.stopping = True

    def _push(self, when: float, item: object, ticket: int) -> None:
        self._pushed += 1
        tie = zlib.crc32(b"%d %d" % (self._seed, self._pushed))
        heapq.heappush(self._queue, (when, tie, self._pushed, item, ticket))

    def kill_all(self, actors: list[Actor]) -> None:
        """End what still runs, after direct() has returned."""
        self.stopping = False
        for actor in actors:
            self.kill(actor)
        self._queue = [entry for entry in self._queue if isinstance(entry[3], Actor)]
        heapq.heapify(self._queue)
        self._pushed += 1
        heapq.heappush(self._queue, (self.now + 1e9, 0, self._pushed, self.stop, 0))
        self.direct()
