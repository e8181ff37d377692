# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Poll the metadata service until the next check is due, and start due responses. Nothing here may hang."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from functools import partial
from typing import Any, Callable

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import UNCLEAR_ENDS_AFTER
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.poller import (
    DOCUMENT,
    EMPTY,
    FAILED,
    Answer,
    Poller,
)

from ..config.config import Config
from ..report.report import Publisher
from ..state.history import ConfirmedTime, remove_old
from ..state.marks import (
    bring_marks_home,
    date_marks_from_future,
    read_marked_by_runs,
    read_marks,
    read_own_marks,
    remove_marks_of_restored,
)
from ..state.open_state import has_moved
from ..state.records import Moment
from ..state.recovery import repair
from ..state.schema import is_locked, is_unwritable
from ..state.store import Store
from ..system import ERROR, Clock, Folders, is_running, running_responses, say, warn
from ..track.lost_events import runs_a_stranger, take_up_lost
from ..track.situation import due_responses
from ..track.tracker import record_answer
from .memory import PollMemory, endpoint_finder
from .statistics import Polls

# A unit that was started needs a moment to take its lock.
_RESTART_AFTER = 5.0
# Seconds to wait for the lock of another program on the state. All waits together must leave a request that is held
# for 10 s, and the seconds from one check to the next, below 15 s from request to request (P8).
LOCK_WAIT = 0.5
# Seconds for systemctl, and seconds after which no further response is started before the next poll: systemd answers in
# a fraction, and Azure is not polled meanwhile (P8 again). The others are started later.
START_TIMEOUT = 2.0
_STARTING_ENDS_AFTER = 1.0

StartUnit = Callable[[int], "str | None"]


class Checker:
    """One activation of the check.

    :param open_store: opens the store, and may move it back to the disk at first; with ``unwritable`` its stand-in in
        memory; with ``damaged`` a new one.
    :param start_unit: starts the unit of a response; returns why that failed, or None.
    """

    def __init__(
        self,
        config: Config,
        folders: Folders,
        clock: Clock,
        open_store: Callable[..., Store],
        start_unit: StartUnit,
    ) -> None:
        self._config = config
        self._folders = folders
        self._clock = clock
        self._open_store = open_store
        self._start_unit = start_unit
        self._store = open_store(may_return=True)
        self._publisher = Publisher(config.metrics_dir, folders)
        self._polls_changed = self._locked = False
        # Open events that an unclear answer does not list
        self._missing: list[str] = []
        self._time: ConfirmedTime | None = None
        try:
            self._recall()
        except sqlite3.DatabaseError as error:
            if is_locked(error) or is_unwritable(error):
                raise
            # A file that opens and then fails to be read is damaged inside.
            self._store.close()
            self._store = open_store(damaged=True)
            self._recall()
        self._started: dict[int, float] = {}
        self._complaints: set[str] = set()
        # The version of the store in which no response was unfinished
        self._nothing_due: tuple[int, int] | None = None

    def _recall(self) -> None:
        self._polls = Polls(**self._store.fact("polls"))
        self._memory = PollMemory(self._config, self._folders, self._clock, self._store)
        self._poller = self._memory.make_poller(self._store)

    def run(self, once: bool) -> bool:
        """Poll until the next check is due, and tell whether the last poll was answered."""
        begun = self._clock.now().uptime
        interval = self._config.poll_interval
        end = begun + self._config.timer_interval
        self._guarded(self._tidy)
        self._guarded(self._remove_marks)
        next_request = begun
        last = False
        while not last:
            tick = self._clock.now().uptime
            if self._locked:
                self._locked = False
                self._store.wait_for_lock(LOCK_WAIT)
            self._guarded(self._follow)
            if tick >= next_request:
                self._poll()
                next_request = tick + self._poller.pause
            self._guarded(self._start_due)
            # While Azure has asked for a pause, due responses are still started; the next check then begins on time.
            last = once or next_request > end - interval / 2
            if last and not once and next_request - interval > self._clock.now().uptime + interval:
                last = False
            self._guarded(self._tell_all if last else self._tell)
            if not once:
                following = next_request - interval if last else min(next_request, tick + interval)
                self._clock.sleep(max(0.0, following - self._clock.now().uptime))
        self._store.close()
        return self._poller.failures == 0

    def _poll(self) -> None:
        """Ask once, and record the answer. Polling goes on after any error."""
        asked_at = self._clock.now().at
        try:
            answer = self._poller.poll(urgent=not self._poller.answered and self._has_work())
            self._note(answer)
            recorded = True
            if answer.kind == DOCUMENT or answer.unclear_seconds >= UNCLEAR_ENDS_AFTER:
                recorded = self._guarded(lambda: self._record(answer))
            elif answer.kind == EMPTY:
                self._poller.accept()
            is_told = answer.document is not None and answer.document.is_clear
            if recorded and (is_told or answer.unclear_seconds >= UNCLEAR_ENDS_AFTER):
                self._guarded(lambda: self._memory.note_told(asked_at))
        except Exception as error:
            # Data must never end the polling (P7).
            self._complain(error)

    def _has_work(self) -> bool:
        found: list[Any] = []
        self._guarded(lambda: found.extend(self._store.unfinished_responses()))
        return bool(found)

    def _note(self, answer: Answer) -> None:
        for line in answer.lines:
            warn(line)
        polls, changed = self._polls.after(answer, self._clock.now().at)
        self._polls, self._polls_changed = polls, self._polls_changed or changed
        self._guarded(lambda: self._memory.note_answer(self._poller, answer.heard))
        if answer.kind != FAILED:
            self._guarded(lambda: self._memory.note_name(self._poller, self._store))

    def _record(self, answer: Answer) -> None:
        name = self._poller.resource_name
        assert name is not None
        # A record that cannot be read would block a new one of the same event or phase.
        self._store.read_pending()
        if self._store.needs_repair:
            self._repair()
        rules, now = self._config.rules, self._clock.now()
        document, taken_up = take_up_lost(self._store, self._folders, rules, answer.document, now, name)
        for line in taken_up:
            warn(line)
        recorded = record_answer(self._store, rules, document, now, name, answer.unclear_seconds)
        for line in (*self._poller.limit(recorded.lines), *self._poller.select_new(recorded.left_out)):
            say(line)
        missing = [event.key for event in recorded.missing]
        self._polls_changed = self._polls_changed or missing != self._missing
        self._missing = missing
        if not recorded.left_out and document is answer.document:
            self._poller.accept()

    def _tell(self, ending: bool = False) -> None:
        """Write down the statistics, facts and metrics, if they have changed."""
        now = self._clock.now()
        if self._polls_changed or self._memory.changed:
            with self._store.transaction():
                self._store.set_fact("polls", self._polls._asdict())
                self._store.set_fact("poller", self._memory.fact(self._poller, now, self._missing, ending))
                if self._time is not None:
                    self._time.write(self._store)
            self._polls_changed = self._memory.changed = False
        self._publisher.publish(self._store, now)

    def _tell_all(self) -> None:
        """Do the same before the end, when the number of polls is worth telling."""
        self._polls_changed = True
        self._tell(ending=True)

    def _guarded(self, action: Callable[[], None]) -> bool:
        """Do something with the store and, if its file fails, do it again with its replacement.

        :returns: whether it was done. If not, a line says so, and the next poll tries again.
        """
        try:
            action()
            return True
        except sqlite3.DatabaseError as error:
            problem = error
        except Exception as error:
            self._complain(error)
            return False
        if is_locked(problem):
            self._note_lock()
            return False
        self._say_once(f"The state failed: {str(problem).rstrip('.')}.")
        try:
            self._replace_store(unwritable=is_unwritable(problem))
            try:
                action()
            except sqlite3.DatabaseError as error:
                if is_locked(error) or is_unwritable(error):
                    raise
                self._replace_store(damaged=True)
                action()
            return True
        except Exception as error:
            if isinstance(error, sqlite3.Error) and is_locked(error):
                self._note_lock()
            else:
                self._complain(error)
            return False

    def _note_lock(self) -> None:
        # Nothing else waits for it again before the next poll.
        self._locked = True
        self._store.wait_for_lock(0.0)
        self._say_once(f"{self._folders.state}/state.db is locked by another program. Polling goes on.")

    def _follow(self) -> None:
        """Open the store anew if a response has moved it to memory, or has put a damaged file aside."""
        if has_moved(self._store, self._folders):
            self._replace_store()

    def _replace_store(self, **why: bool) -> None:
        self._store.close()
        self._store = self._open_store(**why)
        self._nothing_due = None
        # The replacement may lack this document and the VM's name; process both again.
        self._poller.forget()
        if self._poller.resource_name:
            self._memory.note_name(self._poller, self._store, anew=True)

    def _complain(self, error: Exception) -> None:
        """Say an unexpected error, with the line of the program."""
        place, at = "", error.__traceback__
        while at is not None:
            place = f" in {os.path.basename(at.tb_frame.f_code.co_filename)}, line {at.tb_lineno}"
            at = at.tb_next
        text = " ".join(str(error).split())[:300]
        self._say_once(f"Unexpected error{place}: {type(error).__name__}: {text}. Polling goes on.")

    def _say_once(self, complaint: str) -> None:
        if complaint not in self._complaints and len(self._complaints) < 20:
            self._complaints.add(complaint)
            say(complaint, ERROR)

    def _tidy(self) -> None:
        self._repair()
        with self._store.transaction():
            now = self._clock.now()
            self._time = ConfirmedTime.read(self._store, now).confirm(now)
            remove_old(self._store, self._time, self._config.history_days)

    def _remove_marks(self) -> None:
        """Remove marks where the response was killed after its last step, or a rule has no on_ended, and bring the
        others back to the disk."""
        date_marks_from_future(read_marks(self._store, self._folders), self._clock.now())
        try:
            remove_marks_of_restored(self._store, self._folders)
        except OSError as error:
            self._say_once(f"A mark of an event that is over cannot be removed: {error.filename}: {error.strerror}.")
        if not running_responses(self._folders):
            with contextlib.suppress(OSError):
                bring_marks_home(self._store, self._folders)

    def _repair(self) -> None:
        marked = {mark.key for mark in read_own_marks(self._store, self._folders)}
        with self._store.transaction():
            lines = repair(self._store, self._clock.now(), marked)
        for line in lines:
            warn(line)

    def _start_due(self) -> None:
        # Most polls find nothing due, and nothing can become due until somebody writes to the store.
        if self._store.version == self._nothing_due:
            return
        begun = self._clock.now().uptime
        running, now = partial(is_running, self._folders), self._clock.now()
        due = due_responses(self._store, now, running, partial(read_marked_by_runs, self._store, self._folders, now))
        # Taken first: what another program writes meanwhile is looked at by the next poll.
        version = self._store.version
        self._nothing_due = None if self._store.unfinished_responses() else version
        if due and runs_a_stranger(self._store, self._folders):
            # It may take the VM out of service, or put it back.
            return
        for response in due:
            if self._clock.now().uptime - begun > _STARTING_ENDS_AFTER:
                return
            last = self._started.get(response.number)
            if last is not None and self._clock.now().uptime - last < _RESTART_AFTER:
                continue
            self._started[response.number] = self._clock.now().uptime
            failure = self._start_unit(response.number)
            if failure:
                self._say_once(failure)


def begin_check(
    config: Config,
    folders: Folders,
    clock: Clock,
    open_store: Callable[..., Store],
    start_unit: StartUnit,
    once: bool = False,
) -> Checker:
    """Make the checker, as soon as its state can be opened. Until then Azure is asked all the same (P8).

    :param once: ask once, and do not wait for the state.
    :raises sqlite3.Error, OSError: the state cannot be opened until the next check is due.
    """
    poller = None
    end = clock.now().uptime + config.timer_interval
    while True:
        try:
            return Checker(config, folders, clock, open_store, start_unit)
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.Error) and not (is_locked(error) or is_unwritable(error)):
                raise
            if poller is None:
                # Nothing is done about the events, so the name of this VM is not asked for. A first answer is not
                # waited for: the state may be free before.
                client, finder = config.client(retries=False), endpoint_finder(config)
                poller = Poller(client, config.poll_interval, "", True, find_addresses=finder)
                warn(f"The state in {folders.state} cannot be opened ({error}). Azure is asked, but nothing is done.")
            _ask_without_state(poller, clock.now())
            if once or clock.now().uptime + poller.pause >= end:
                raise
        clock.sleep(poller.pause)


def _ask_without_state(poller: Poller, now: Moment) -> None:
    from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.sentences import summarize

    answer = poller.poll()
    for line in answer.lines:
        warn(line)
    if answer.kind == DOCUMENT and answer.document is not None:
        poller.accept()
        warn(f"{summarize(answer.document.events, answer.document, now.wall, None)}.")
