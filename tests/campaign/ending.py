# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""How every history ends: all is well again, and then a last event must be noticed, prepared for and restored.

Each part of the end begins as soon as the one before has come to rest, which saves most of the polls. In one history of
twenty each part takes its full time, so that what comes late is seen too.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Any, Callable

from ansible_collections.fleetops.azure_maintenance.tests.campaign import disk
from ansible_collections.fleetops.azure_maintenance.tests.campaign.azure import OTHER, VM, Azure, Event
from ansible_collections.fleetops.azure_maintenance.tests.campaign.vm import Machine

PROBE = "probe"
LAST_EVENTS = ("plain", "no vm", "two vms", "interrupted", "interrupted")
# Seconds that each part may take at most
_SETTLE, _RESTORE, _RETRY = 120.0, 120.0, 30.0
_LOOK = 2.0


class Ending:
    """:param hasty: a part ends as soon as it has come to rest.
    :param last: one of LAST_EVENTS, what the last event is like; None for no such event.
    """

    def __init__(self, machine: Machine, azure: Azure, hasty: bool, last: str | None) -> None:
        self._last = last
        self._machine = machine
        self._azure = azure
        self._hasty = hasty
        # The last event was started while it rightly waited
        self._held_up = False
        # Until then nothing has come to rest
        self._restless_until = 0.0
        self._documents = 0

    def begin(self) -> None:
        machine = self._machine
        machine.judge.note("=== everything is sound from here on")
        machine.sound = True
        machine.disarm()
        # The checker rightly waits for one, and the last event would start meanwhile.
        machine.end_runs()
        machine.disk, machine.locked_until, machine.wall_offset = None, 0.0, 0.0
        self._azure.mend()
        if machine.judge.blind:
            machine.reboot(5.0)
        self._await(_SETTLE, self._is_idle, self._end_all)

    def _await(self, seconds: float, holds: Callable[[], bool], then: Callable[[], None]) -> None:
        """Do something after so many seconds, or when something holds."""
        machine = self._machine
        self._documents = machine.judge.documents
        end = machine.now + seconds

        def look() -> None:
            if machine.now >= end or (self._hasty and holds()):
                then()
            else:
                self._at(min(_LOOK, end - machine.now), look)

        look()

    def _at(self, seconds: float, action: Callable[[], Any]) -> None:
        self._machine.scheduler.at(self._machine.now + seconds, action)

    def _is_idle(self) -> bool:
        """Tell whether the check has heard a document, and nothing else runs."""
        machine = self._machine
        return machine.judge.documents > self._documents and all(actor.kind == "check" for actor in machine.actors)

    def _is_at_rest(self) -> bool:
        """Tell whether the check has heard two documents, and has started nothing for longer than from one to the
        next."""
        machine = self._machine
        quiet = machine.now - max(machine.busy_at, self._restless_until) > machine.config.poll_interval + 1.5
        return quiet and self._is_idle() and machine.judge.documents >= self._documents + 2

    def _end_all(self) -> None:
        for event in self._azure.open:
            if event.serial % 2:
                self._azure.start(event)
                self._at(15.0, lambda event=event: self._azure.end(event))  # type: ignore[misc]
                self._restless_until = self._machine.now + 15.0
            else:
                self._azure.end(event)
        self._await(_RESTORE, self._is_at_rest, lambda: self._retry_restores(_RETRY))

    def _retry_restores(self, seconds: float) -> None:
        """A person looks into status, and tries again what failed."""
        machine = self._machine
        failed = self._failed_restores()
        for number in failed:
            machine.judge.retries += 1
            machine.retry(number)
        if failed and seconds:
            self._await(seconds, self._is_at_rest, lambda: self._retry_restores(0.0))
        elif self._hasty and not failed:
            self._announce_last()
        else:
            self._at(seconds or _RETRY, self._announce_last)

    def _failed_restores(self) -> list[int]:
        for folder in (self._machine.folders.run, self._machine.state_folder):
            path = os.path.join(folder, "state.db")
            if os.path.exists(path):
                break
        else:
            return []
        sql = "SELECT number FROM response WHERE phase = 'ended' AND state = 'failed'"
        try:
            with disk.open_beside(path) as connection:
                return [row[0] for row in connection.execute(sql).fetchall()]
        except sqlite3.DatabaseError:
            # It was lost a moment ago.
            return []

    def _queue(self) -> float:
        """Return how long the restores take that are left: one begins with each poll."""
        return self._machine.judge.unrestored() * self._machine.config.poll_interval

    def _announce_last(self) -> None:
        if self._last is None:
            self._await(_RESTORE + self._queue(), lambda: self._machine.judge.is_finished(None), self._finish)
            return
        machine = self._machine
        event = self._azure.announce(PROBE, "Reboot", [VM], machine.now, 900.0)
        if self._last == "no vm":
            # At first it lists no VM; it must be noticed when it does.
            event.spoilt = "no vm"
            self._at(15.0, lambda: setattr(event, "spoilt", None))
        if self._last == "two vms":
            # Its approval waits for another VM at first, and must be sent when that one is listed no more.
            event.resources = [VM, OTHER]
            self._at(25.0, lambda: setattr(event, "resources", [VM]))
        self._await(60.0, lambda: event.taken, lambda: self._start_probe(event))

    def _start_probe(self, event: Event) -> None:
        machine = self._machine
        self._held_up = machine.judge.is_held_up()
        self._azure.start(event)

        def end() -> None:
            self._azure.end(event)
            # What is in memory goes with the power, and nothing could be asked for then. Nor is it known then that the
            # event is over for which a run has marked the VM.
            is_in_memory = os.path.exists(f"{machine.folders.run}/state.db")
            if self._last == "interrupted" and not is_in_memory and not machine.has_mark_of_run():
                # The VM reboots in its restore, and Azure has no name for it from then on.
                machine.arm("respond", 12, lambda: machine.reboot(5.0))
                self._azure.break_until("names", "404", machine.now + 100.0)
            self._await(65.0 + self._queue(), lambda: machine.judge.is_finished(PROBE), self._finish)

        self._at(12.0 if self._hasty else 25.0, end)

    def _finish(self) -> None:
        self._machine.judge.finish(PROBE if self._last else None, self._held_up)
        self._check_bounds()
        self._machine.scheduler.stop()

    def _check_bounds(self) -> None:
        # The check may not have looked at a file yet that was lost a moment ago.
        with contextlib.suppress(sqlite3.DatabaseError):
            self._check_state()

    def _check_state(self) -> None:
        path = os.path.join(self._machine.state_folder, "state.db")
        if not os.path.exists(path):
            # It was lost while the disk could not be written, and the state in memory has not moved home yet.
            return
        with disk.open_beside(path) as connection:
            for sql, most in (
                ("SELECT COUNT(*) FROM event WHERE ended_at IS NULL", 100),
                ("SELECT COUNT(*) FROM put_aside", 100),
                ("SELECT MAX(LENGTH(content)) FROM fact", 10000),
            ):
                count = connection.execute(sql).fetchone()[0] or 0
                if count > most:
                    self._machine.judge.fail("P9", f"{sql} gives {count}")
