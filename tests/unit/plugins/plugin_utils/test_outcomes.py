# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One rule for the outcome of an event: the checker, the event source and the fleet make the same of a history."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import poller
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import Identity
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._module import info
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._eda import source
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import approval, progress
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import records
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.database import (
    open_database,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.store import Store
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track import tracker
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import INFO_OPTIONS

START = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
DUE = 900
APPROVE = "the event is approved"
NAME = "web-1"


class World:
    """The time, the boot and what the metadata service answers; stands for the client, which asks it once."""

    timeout = 150.0
    api_version = "2020-07-01"
    endpoint = "http://127.0.0.1:9"

    def __init__(self) -> None:
        self.seconds = 0.0
        self.boot_id = "boot-1"
        self.answer: Any = None

    def at(self, seconds: float, boot_id: str, answer: Any) -> None:
        self.seconds, self.boot_id, self.answer = seconds, boot_id, answer

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def deadline(self, seconds: float | None = None) -> None:
        return None

    def get_identity(self, deadline: Any) -> Identity:
        return Identity(NAME)

    def get_document(self, deadline: Any) -> bytes:
        if isinstance(self.answer, Exception):
            raise self.answer
        return bytes(self.answer)


class Checker:
    knows_approvals = True

    def __init__(self, world: World, folder: Any) -> None:
        self._world = world
        for name in ("state", "run"):
            (folder / name).mkdir()
        self._store = Store(open_database(str(folder / "state"), str(folder / "run"), pytest.fail))
        self._poller = poller.Poller(world, 1.0, monotonic=lambda: world.seconds)

    def _now(self) -> records.Moment:
        world = self._world
        return records.Moment(world.now.timestamp(), world.seconds, world.boot_id)

    def approve(self) -> None:
        (record,) = self._store.all_events()
        with self._store.transaction():
            self._store.set_approval(record.number, records.APPROVED, (), self._now())

    def ask(self) -> None:
        answer = self._poller.poll()
        if answer.kind != poller.FAILED:
            tracker.record_answer(self._store, [], answer.document, self._now(), NAME, answer.unclear_seconds)

    @property
    def outcome(self) -> str | None:
        outcomes = [record.outcome for record in self._store.all_events()]
        return outcomes[0] if outcomes else None


class Source:
    """It is started anew after a boot."""

    knows_approvals = False

    def __init__(self, world: World, monkeypatch: Any, state_file: str) -> None:
        self._world = world
        self._state_file = state_file
        self._boot_id: str | None = None
        self._watcher: Any = None
        self.outcome: str | None = None
        monkeypatch.setattr(source, "now_utc", lambda: world.now)
        monkeypatch.setattr(source, "read_boot_id", lambda: world.boot_id)
        plain = poller.Poller
        monkeypatch.setattr(
            source, "Poller", lambda *given, **more: plain(*given, monotonic=lambda: world.seconds, **more)
        )

    def approve(self) -> None:
        """Somebody else does; nothing tells the source of it."""

    def ask(self) -> None:
        if self._boot_id != self._world.boot_id:
            if self._watcher:
                self._watcher.close()
            self._watcher = source.Watcher(self._world, None, 1.0, self._state_file)
            self._boot_id = self._world.boot_id
        told, _pause = self._watcher.poll()
        for each in told:
            self.outcome = each["maintenance_outcome"] or self.outcome
        self._watcher.keep()


class Fleet:
    knows_approvals = True

    def __init__(self, world: World) -> None:
        self._world = world
        self._progress: Any = None

    def approve(self) -> None:
        (each,) = self._progress
        plan = {"event": each["event"], "approver": "host-a", "why": None, "blocked": False, "wait": True}
        result = {"item": {"event": each["event"]}, "approvals": [{"result": "approved"}]}
        now = self._world.now.timestamp()
        self._progress = approval.apply_approval_results(self._progress, [plan], {"host-a": [result]}, True, now)

    def ask(self) -> None:
        now = self._world.now.timestamp()
        try:
            answer = info.get_info(INFO_OPTIONS, self._world, lambda warning: None, self._world.boot_id)
        except _errors.UnreachableError as error:
            # The host itself is away.
            answer = {"unreachable": True, "msg": str(error)}
        except _errors.ImdsError as error:
            answer = {"failed": True, "msg": str(error)}
        if self._progress is None:
            self._progress = [progress.track_event(event, answer.get("boot_id"), now) for event in answer["events"]]
        else:
            self._progress = progress.follow_progress(self._progress, answer, now)

    @property
    def outcome(self) -> str | None:
        outcomes = [each["outcome"] for each in self._progress]
        return outcomes[0] if outcomes else None


@pytest.fixture(params=["checker", "event source", "fleet"])
def follower(request, tmp_path, monkeypatch):
    world = World()
    monkeypatch.setattr(info, "now_utc", lambda: world.now)
    if request.param == "checker":
        return world, Checker(world, tmp_path)
    if request.param == "fleet":
        return world, Fleet(world)
    return world, Source(world, monkeypatch, str(tmp_path / "state.json"))


def body(*events: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"DocumentIncarnation": 1, "Events": list(events), **more}).encode()


def event(status: str = "Scheduled", **changes: Any) -> dict[str, Any]:
    return {
        "EventId": "A1",
        "EventType": "Reboot",
        "EventStatus": status,
        "ResourceType": "VirtualMachine",
        "Resources": [NAME, "web-2"],
        "NotBefore": "Sat, 21 Nov 2026 10:15:00 GMT" if status == "Scheduled" else "",
        **changes,
    }


SCHEDULED, STARTED, GONE, EMPTY = body(event()), body(event("Started")), body(), b""
UNREADABLE = body({"EventId": None})
NO_INCARNATION = b'{"Events": []}'
FAILURE = _errors.HttpStatusError("HTTP 500", 500)
LOST = _errors.UnreachableError("Nothing takes connections.", None)


def during(first: int, last: int, answer: Any) -> list[tuple[float, str, Any]]:
    """An answer every 50 s, so that there is no minute of silence."""
    return [(seconds, "boot-1", answer) for seconds in range(first, last + 1, 50)]


def calm(*steps: tuple[float, Any]) -> list[tuple[float, str, Any]]:
    return [(0, "boot-1", SCHEDULED), *((seconds, "boot-1", answer) for seconds, answer in steps)]


BOOTED = [(0, "boot-1", SCHEDULED), (60, "boot-2", GONE)]
# Its owner booted the VM, and after that the event is still to come.
LISTED_AFTER_BOOT = [(0, "boot-1", SCHEDULED), (60, "boot-2", SCHEDULED)]
OTHERS = body(event(Resources=["web-2"]))

HISTORIES = [
    pytest.param(calm((10, SCHEDULED)), None, id="listed"),
    pytest.param(calm((10, GONE)), "withdrawn", id="gone"),
    pytest.param(calm((10, NO_INCARNATION)), "withdrawn", id="gone from a document without incarnation"),
    pytest.param(calm((10, OTHERS)), "withdrawn", id="it concerns other VMs now"),
    pytest.param(calm((10, STARTED), (20, GONE)), "completed", id="seen started"),
    pytest.param(calm((10, STARTED), (20, SCHEDULED), (30, GONE)), "completed", id="started stays started"),
    pytest.param(calm((DUE - 1, GONE)), "withdrawn", id="gone a second before it is due"),
    pytest.param(calm((DUE - 0.5, GONE)), "completed", id="gone half a second before it is due"),
    pytest.param(calm((DUE, GONE)), "completed", id="gone when it is due"),
    pytest.param(BOOTED, "completed", id="the VM booted"),
    pytest.param([*LISTED_AFTER_BOOT, (70, "boot-2", GONE)], "withdrawn", id="E1 listed after the boot"),
    pytest.param(
        [(0, "boot-1", SCHEDULED), (60, "boot-2", EMPTY), *LISTED_AFTER_BOOT[1:], (70, "boot-2", GONE)],
        "withdrawn",
        id="E1 an empty body after the boot, and then listed",
    ),
    pytest.param([*LISTED_AFTER_BOOT, (70, "boot-3", GONE)], "completed", id="E1 another boot after that"),
    pytest.param([*LISTED_AFTER_BOOT, (65, "boot-2", APPROVE), (70, "boot-2", GONE)], "completed", id="E1 approved"),
    pytest.param([*LISTED_AFTER_BOOT, (DUE, "boot-2", GONE)], "completed", id="E1 its time had come"),
    pytest.param(
        [(0, "boot-1", STARTED), *LISTED_AFTER_BOOT[1:], (70, "boot-2", GONE)], "completed", id="E1 seen started"
    ),
    pytest.param(calm((5, APPROVE), (10, GONE)), "completed", id="approved"),
    pytest.param(calm((60, FAILURE), (120, GONE)), "withdrawn", id="gone after failures"),
    pytest.param(calm((60, LOST), (120, GONE)), "withdrawn", id="a lost connection is no evidence"),
    pytest.param(calm((DUE, FAILURE), (DUE + 600, FAILURE)), None, id="a failure ends nothing"),
    pytest.param(calm((10, EMPTY)), None, id="an empty body ends nothing"),
    pytest.param(calm((10, STARTED), (20, UNREADABLE)), None, id="nor does an entry that cannot be read"),
    pytest.param([*calm((10, STARTED)), *during(50, 300, EMPTY)], None, id="unclear for less than five minutes"),
    pytest.param([*calm((10, STARTED)), *during(50, 350, EMPTY)], "completed", id="empty for five minutes"),
    pytest.param([*calm((10, STARTED)), *during(50, 350, UNREADABLE)], "completed", id="unreadable for five minutes"),
    pytest.param([*calm(), *during(50, 500, EMPTY)], None, id="unclear, and only announced"),
]


@pytest.mark.parametrize(("history", "outcome"), HISTORIES)
def test_all_three_make_the_same_of_a_history(follower, history, outcome):
    world, follows = follower
    if any(answer is APPROVE for _seconds, _boot_id, answer in history) and not follows.knows_approvals:
        # Documented: Azure does not tell who approved an event.
        outcome = "withdrawn"
    for seconds, boot_id, answer in history:
        world.at(seconds, boot_id, answer)
        if answer is APPROVE:
            follows.approve()
        else:
            follows.ask()
    assert follows.outcome == outcome
