# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""The checker of a VM beside a run, as far as the run can tell. Nothing of the product is used here.

The checker itself has its own campaign: history.py.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Callable

from .fleet_world import Event, Vm, World

PLANNED, RUNNING, SUCCEEDED, FAILED, SKIPPED = "planned", "running", "succeeded", "failed", "skipped"
_PREPARE, _RESTORE = "prepare", "restore"
# Seconds after which a mark of a run counts as left by one that was killed
_LONGEST_AT_WORK = 700.0
# Seconds that a preparation or restore takes at most
_LONGEST_STEP = 200.0


@dataclass
class Response:
    """The response of a checker to one event.

    :ivar state: of the preparation; empty where none is due, because the checker saw the event first as Started.
    :ivar boot: of the VM when it was prepared.
    """

    state: str
    boot: int = 0
    restored: bool = False

    def is_ready(self, boot: int) -> bool:
        return self.state == SUCCEEDED and self.boot == boot and not self.restored

    def is_running(self, boot: int) -> bool:
        return self.state == RUNNING and self.boot == boot

    def is_out(self) -> bool:
        return self.state in (RUNNING, SUCCEEDED, FAILED) and not self.restored


class Checker:
    """One that does one thing at a time.

    :param note: takes what it does.
    :ivar look_at: when it next looks at the document, None until something changes.
    """

    def __init__(self, world: World, vm: Vm, chance: random.Random, note: Callable[[str], None]) -> None:
        self._world, self.vm, self._chance, self._note = world, vm, chance, note
        self.look_at: float | None = world.now + 1.0
        self.known: dict[str, Response] = {}
        # The part of a response that runs, and when it ends
        self._busy: tuple[str, str, float, int] | None = None

    def next_at(self) -> float | None:
        when = self._busy[2] if self._busy else self.look_at
        return None if when is None or self.vm.deleted else max(when, self.vm.down_until)

    def note_change(self) -> None:
        """Look at the document soon."""
        soon = self._world.now + 1.0
        self.look_at = soon if self.look_at is None else min(self.look_at, soon)

    def act(self) -> None:
        if self._busy:
            self._end(*self._busy)
            self._busy = None
        blind_until = max(self.vm.deaf_until, self.vm.unclear_until)
        self.look_at = blind_until if self._world.now < blind_until else None
        if self.look_at is None:
            self._look()

    def _look(self) -> None:
        listed = {} if self.vm.is_misnamed else {e.event_id: e for e in self._world.open_events(self.vm)}
        for event in listed.values():
            self.known.setdefault(event.event_id, Response(PLANNED if event.status == "Scheduled" else ""))
        for event_id, response in self.known.items():
            if response.state == PLANNED and (event_id not in listed or listed[event_id].status == "Started"):
                response.state = SKIPPED
        planned = [event_id for event_id, response in self.known.items() if response.state == PLANNED]
        if planned:
            if self._at_work("restoring"):
                self.look_at = self._world.now + 5.0
            else:
                self._begin(_PREPARE, planned[0], self._chance.choice((2.0, 20.0, 90.0)), listed[planned[0]])
            return
        over = [event_id for event_id, response in self.known.items() if event_id not in listed and response.is_out()]
        if over:
            ready = [each for each in listed if self.known[each].is_out()]
            of_runs = [key for key in self.vm.marks if key[0] in listed and key[1] != "checker"]
            if ready or of_runs or self._at_work("preparing", "restoring"):
                self.look_at = self._world.now + 10.0
            else:
                self._begin(_RESTORE, over[0], self._chance.choice((2.0, 20.0, 90.0)))

    def _at_work(self, *states: str) -> bool:
        """Tell whether a run prepares or restores the VM at this moment, for all that its marks say."""
        oldest = self._utc(self._world.now - _LONGEST_AT_WORK)
        return any(
            mark["state"] in states and mark["state_since"] > oldest
            for (_event, run), mark in self.vm.marks.items()
            if run != "checker"
        )

    def _begin(self, what: str, event_id: str, seconds: float, event: Event | None = None) -> None:
        self._note(f"the checker of {self.vm.host} begins to {what} for {event_id[:8]}")
        self._busy = (what, event_id, self._world.now + seconds, self.vm.boot)
        response = self.known[event_id]
        if event:
            response.state, response.boot = RUNNING, self.vm.boot
            self._mark(event, "preparing")
        else:
            self._set_mark(event_id, "restoring")

    def _end(self, what: str, event_id: str, _until: float, boot: int) -> None:
        response = self.known[event_id]
        is_done = boot == self.vm.boot and self._chance.random() > 0.07
        self._note(f"the checker of {self.vm.host} has {'' if is_done else 'not '}ended its {what} for {event_id[:8]}")
        if what == _PREPARE:
            response.state = SUCCEEDED if is_done else FAILED
            self._set_mark(event_id, "prepared" if is_done else "failed")
        elif is_done:
            response.restored = True
            self.vm.marks.pop((event_id, "checker"), None)
        else:
            self._set_mark(event_id, "failed")

    def _mark(self, event: Event, state: str) -> None:
        """Write its mark, in memory where the disk takes none."""
        since = self._utc(self._world.now)
        nobody = dict.fromkeys(("run", "controller", "user", "job"))
        self.vm.marks[event.event_id, "checker"] = nobody | {
            "event_id": event.event_id,
            "event_type": event.kind,
            "by": "checker",
            "since": since,
            "boot_id": f"{self.vm.name}-{self.vm.boot}",
            "vm_id": f"id of {self.vm.name}",
            "state": state,
            **self._times(),
        }

    def _set_mark(self, event_id: str, state: str) -> None:
        mark = self.vm.marks.get((event_id, "checker"))
        if mark:
            mark.update(state=state, **self._times())

    def _times(self) -> dict[str, str]:
        longest = _LONGEST_STEP + (self._world.now % 600)
        return {"state_since": self._utc(self._world.now), "state_until": self._utc(self._world.now + longest)}

    @staticmethod
    def _utc(moment: float) -> str:
        return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def find_held(self) -> str | None:
        """Return the id of an open event for which it prepares the VM, or has prepared it in this boot."""
        for event in self._world.open_events(self.vm):
            response = self.known.get(event.event_id)
            if response and (response.is_ready(self.vm.boot) or response.is_running(self.vm.boot)):
                return event.event_id
        return None

    def status(self) -> str:
        """Return what ``azure-maintenance status --json`` prints, as far as a run reads it."""
        listed = [event.event_id for event in self._world.open_events(self.vm)]
        events = []
        for event_id, response in self.known.items():
            step: dict[str, Any] = {"state": response.state, "in_this_boot": response.boot == self.vm.boot}
            told = {"number": 1, "phase": "announced", "state": response.state, "steps": [step]}
            phase = "announced" if event_id in listed else "ended"
            events.append({"event_id": event_id, "phase": phase, "responses": [told] if response.state else []})
        is_deaf = self._world.now < self.vm.deaf_until
        return json.dumps({"heard_lately": not is_deaf, "events": events})
