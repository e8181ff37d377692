# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Put the virtual world in the place of what the product asks of the real one; its decisions stay its own."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from signal import SIGTERM as REAL_SIGTERM
from types import SimpleNamespace
from typing import Any, Iterator, Sequence
from unittest import mock

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval import approve
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client, transport
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli, system
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config import (
    rules as matching,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report import report
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import (
    responder as respond,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import (
    copies,
    database,
    store,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import (
    marks as checker_marks,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.records import (
    SUCCEEDED,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track.changes import (
    PHASE_CHANGES,
    RESPONSE_CHANGES,
)
from ansible_collections.fleetops.azure_maintenance.tests.campaign import disk


def current() -> Any:
    """Return the VM of the history that runs now."""
    return disk.world


class _Time:
    """Stands in for the module time."""

    CLOCK_BOOTTIME = 7

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return disk.world.wall  # type: ignore[no-any-return]

    def time_ns(self) -> int:
        return int(current().wall * 1e9)

    def gmtime(self) -> time.struct_time:
        return time.gmtime(current().wall)

    def monotonic(self) -> float:
        return current().now

    def clock_gettime(self, _clock: int) -> float:
        world = disk.world
        return world.now - world.booted_at  # type: ignore[no-any-return]

    def sleep(self, seconds: float) -> None:
        current().wait(seconds)


class _Expressions:
    """Stands in for the module re where a rule looks for its expression."""

    def search(self, pattern: str, text: str) -> object:
        return current().search(pattern, text)


class _Journal:
    """Stands in for the module sys, of which the product uses stderr."""

    stderr: _Journal

    def write(self, text: str) -> None:
        current().judge.wrote(current().scheduler.current, text)

    def flush(self) -> None:
        """There is nothing to flush."""


class _Signal:
    SIGTERM = REAL_SIGTERM
    SIGHUP = SIG_IGN = None

    def getsignal(self, *_arguments: Any) -> None:
        """Nobody's terminal is closed in this world."""

    def signal(self, *_arguments: Any) -> None:
        """Whoever kills a process of this world does so by the scheduler."""


def _read_arguments(arguments: Sequence[str]) -> SimpleNamespace:
    # argparse takes longer than a poll.
    command, *numbers = arguments
    return SimpleNamespace(command=command, config=None, once=False, number=int(numbers[0]) if numbers else None)


def _run_step(*arguments: Any) -> str:
    result: str = current().run_step(*arguments)
    return result


def _publish(publisher: report.Publisher, *arguments: Any) -> None:
    if current().publishes:
        _real_publish(publisher, *arguments)
        current().judge.published()


def _read_marks(places: Sequence[str]) -> list[dict[str, Any]]:
    """Read them where one may have changed: each program reads them many times."""
    world = current()
    if world.marks is None:
        world.marks = _real_read_marks(places)
    return list(world.marks)


def _write_mark(place: str, name: str, text: str) -> None:
    _change_mark(place, current().disk is not None)
    _real_write_mark(place, name, text)


def _remove_mark(path: str) -> None:
    _change_mark(os.path.dirname(path), current().disk in ("read-only", "gone"))
    _real_remove_mark(path)


def _change_mark(place: str, is_refused: bool) -> None:
    world = current()
    world.marks = None
    if is_refused and place == world.folders.marks:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), place)


def _change_response(self: store.Store, number: int, **changes: Any) -> None:
    found = self.response(number)
    before, after = found and found.state, changes.get("state")
    if before and after and before != after and (before, after) not in _RESPONSE_CHANGES:
        current().judge.fail("P6", f"response {number} goes from {before} to {after}")
    _real_change_response(self, number, **changes)


def _change_event(self: store.Store, number: int, **changes: Any) -> None:
    found = self.event(number)
    before, after = found and found.phase, changes.get("phase")
    if before and after and (before, after) not in _PHASE_CHANGES:
        current().judge.fail("P6", f"event {number} goes from {before} to {after}")
    _real_change_event(self, number, **changes)


def _finish_step(self: store.Store, step: Any, state: str, *arguments: Any) -> None:
    if step.content == matching.APPROVE_STEP and state == SUCCEEDED:
        response = self.response(step.response)
        record = response and self.event(response.event)
        if record is not None:
            current().judge.approval_succeeds(current().scheduler.current, record.event.key)
    _real_finish_step(self, step, state, *arguments)


_RESPONSE_CHANGES = {change[:2] for change in RESPONSE_CHANGES}
_PHASE_CHANGES = {change[:2] for change in PHASE_CHANGES}
_real_read_marks = marks.read_marks
_real_write_mark = checker_marks._write
_real_remove_mark = checker_marks._remove
_real_change_response = store.Store._change_response
_real_change_event = store.Store._change_event
_real_finish_step = store.Store.finish_step
_real_publish = report.Publisher.publish


@contextlib.contextmanager
def patched() -> Iterator[None]:
    """Let the product live in the world of ``disk.world``."""
    journal = _Journal()
    journal.stderr = journal
    clock, files, sqlite = _Time(), disk.Os(), disk.Sqlite()
    places: list[tuple[Any, str, Any]] = [
        (cli, "read_config", lambda _path: current().read_config()),
        (cli, "signal", _Signal()),
        (cli, "start_unit", lambda number, **_options: current().start_unit(number)),
        (cli, "_read_arguments", _read_arguments),
        (matching, "time", clock),
        (matching, "limit", lambda seconds: current().limit_expression(seconds)),
        (matching, "re", _Expressions()),
        (system, "time", clock),
        (system, "sys", journal),
        (system, "read_boot_id", lambda: current().boot_id),
        (report, "time", clock),
        (report.Publisher, "publish", _publish),
        (respond, "run_step", _run_step),
        (store.Store, "_change_response", _change_response),
        (store.Store, "_change_event", _change_event),
        (store.Store, "finish_step", _finish_step),
        (marks, "read_marks", _read_marks),
        (checker_marks, "_write", _write_mark),
        (checker_marks, "_remove", _remove_mark),
        (copies, "sqlite3", sqlite),
        (copies, "os", files),
        (database, "sqlite3", sqlite),
        (database, "os", files),
        (database, "time", clock),
        (client, "time", clock),
        (transport, "time", clock),
        (approve, "time", clock),
    ]
    stderr = os.fstat(2)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {"JOURNAL_STREAM": f"{stderr.st_dev}:{stderr.st_ino}"}))
        for module, name, replacement in places:
            stack.enter_context(mock.patch.object(module, name, replacement))
        yield
