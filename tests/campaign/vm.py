# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""A VM on a virtual clock, on which the real program runs: it boots, its processes are killed, its steps take time."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
from datetime import datetime, timezone
from typing import Any, Callable

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import NoAnswerError, UnreachableError
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import ImdsClient
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.transport import Deadline, Response
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._time_limit import TimeIsUpError
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config import (
    rules as matching,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    Config,
    parse_config,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.steps import (
    StepError,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import Folders
from ansible_collections.fleetops.azure_maintenance.tests.campaign import patches
from ansible_collections.fleetops.azure_maintenance.tests.campaign.azure import EPOCH, VM, Azure, Told
from ansible_collections.fleetops.azure_maintenance.tests.campaign.disk import Connection
from ansible_collections.fleetops.azure_maintenance.tests.campaign.properties import Judge
from ansible_collections.fleetops.azure_maintenance.tests.campaign.rules import CONFIGURATIONS, ENDLESS, is_endless
from ansible_collections.fleetops.azure_maintenance.tests.campaign.scheduler import Actor, Killed, Scheduler
from ansible_collections.fleetops.azure_maintenance.tests.campaign.shared_state import SharedState

_CONFIGS = [
    parse_config({"endpoint": "http://127.0.0.1:9", "rules": [rule.content for rule in rules]})
    for rules in CONFIGURATIONS
]


class Machine:
    """One VM through one history.

    :param poll_interval: of its checker.
    :param knows_name: its name is in the configuration.
    :param timer_interval: of its checker.
    :param shared_state: where its state is, None for a file of its own.
    """

    def __init__(
        self,
        seed: int,
        folder: str,
        poll_interval: float,
        knows_name: bool,
        timer_interval: float = 60.0,
        shared_state: SharedState | None = None,
    ) -> None:
        self.scheduler = Scheduler(seed)
        self.chance = self.scheduler.chance
        self.azure = Azure(self.chance)
        self.folder = folder
        self.shared_state = shared_state
        self.state_folder = shared_state.folder if shared_state else f"{folder}/state"
        self.folders = Folders(
            f"{folder}/config",
            folder,
            self.state_folder,
            f"{folder}/run",
            folder,
            f"{folder}/marks",
            f"{folder}/marks-in-memory",
        )
        self.judge = Judge(self, poll_interval, knows_name)
        self._settings = {
            "poll_interval": poll_interval,
            "timer_interval": timer_interval,
            "resource_name": VM if knows_name else None,
        }
        self.configure(0)
        self.timer_interval = timer_interval
        self.clock_was_set = False
        # The keys of the events after which a run puts the VM back at this moment
        self.restored_by_run: set[str] = set()
        # Those for which a run prepares the VM at this moment
        self.prepared_by_run: set[str] = set()
        # Those whose marks say that a run puts it back: such a run may still wait for the checker
        self.restoring_runs: set[str] = set()
        # As they were read last, None where one may have changed since; see patches._read_marks()
        self.marks: list[dict[str, Any]] | None = None
        self.publishes = True
        self.disk: str | None = None
        self.locked_until = 0.0
        self.wall_offset = 0.0
        self._bad_luck: tuple[float, ...] = ()
        self.boot = 0
        self.booted_at = 0.0
        self.up = False
        self.over = False
        # From here on steps succeed, and nothing is killed any more
        self.sound = False
        self.seconds_of_steps = 0.6
        self.actors: list[Actor] = []
        # When a process that is no check last began or ended, or the VM booted
        self.busy_at = 0.0
        self._armed: tuple[str, int, Callable[[], None]] | None = None
        self._activations = 0
        # The boots in which a person has had which responses tried again
        self.retried: set[tuple[int, int]] = set()
        self._tries: dict[tuple[str, str, str], int] = {}
        os.makedirs(self.state_folder, exist_ok=True)

    def configure(self, configuration: int) -> None:
        """Let processes that begin from now on have these rules."""
        self.configuration = configuration
        self.config = _CampaignConfig(*_CONFIGS[configuration]._replace(**self._settings))

    def read_config(self) -> Config:
        actor = self.scheduler.current
        actor.configuration = self.configuration  # type: ignore[union-attr]
        return self.config

    # Marks

    def write_mark_of_run(self, event_id: str, state: str = "prepared", longest: float | None = None) -> None:
        os.makedirs(self.folders.marks, exist_ok=True)
        since, until = (
            None
            if seconds is None
            else datetime.fromtimestamp(self.wall + seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            for seconds in (0.0, longest)
        )
        mark = {"version": 1, "event_id": event_id, "by": "run", "run": "r", "since": since}
        mark.update(state=state, state_since=since, state_until=until)
        path = f"{self.folders.marks}/{event_id.lower()}.vm.run.mark.json"
        with open(path, "w", encoding="ascii") as file:
            json.dump(mark, file)
        self.marks = None
        os.utime(path, (self.wall, self.wall))

    def prepare_by_run(self, event_id: str, seconds: float, is_killed: bool) -> None:
        """Let a run prepare the VM for so long. One that is killed leaves its mark, which counts until then."""
        self.write_mark_of_run(event_id, "preparing", seconds if is_killed else seconds + 10.0)
        self.prepared_by_run.add(event_id)
        end = self.prepared_by_run.discard if is_killed else self._end_preparation_by_run
        # A mark tells whole seconds.
        self.scheduler.at(self.now + seconds - 1.0, lambda: end(event_id))

    def _end_preparation_by_run(self, event_id: str) -> None:
        if event_id in self.prepared_by_run:
            self.prepared_by_run.discard(event_id)
            self.write_mark_of_run(event_id)

    def restore_by_run(self, event_id: str, seconds: float) -> None:
        """Let a run put the VM back, unless it sees that the checker is at work there after it has written its mark."""
        if self.sound:
            # It was broken off.
            return
        # All runs write the same mark.
        self.prepared_by_run.discard(event_id)
        self.write_mark_of_run(event_id, "restoring")
        self.restoring_runs.add(event_id)
        if "preparing" not in self.marks_of_checker().values():
            self.restored_by_run.add(event_id.lower())
        self.scheduler.at(self.now + seconds, lambda: self.remove_mark_of_run(event_id))

    def end_runs(self) -> None:
        for event_id in sorted(self.prepared_by_run):
            self._end_preparation_by_run(event_id)
        for event_id in sorted(self.restoring_runs):
            self.remove_mark_of_run(event_id)

    def remove_mark_of_run(self, event_id: str) -> None:
        self.restoring_runs.discard(event_id)
        self.restored_by_run.discard(event_id.lower())
        self.judge.restored_by_run(event_id.lower())
        self.marks = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.folders.marks}/{event_id.lower()}.vm.run.mark.json")

    def has_mark_of_run(self) -> bool:
        return any(".run." in name for name in os.listdir(self.folders.marks))

    def marks_of_checker(self) -> dict[str, str]:
        """Return for which events its checker has it out of service, as its marks say, and how far it is with each."""
        found = {}
        for place in (self.folders.marks, self.folders.marks_in_memory):
            for path in glob.glob(f"{place}/*.checker.mark.json"):
                with open(path, encoding="utf-8") as file:
                    mark = json.load(file)
                    found[mark["event_id"].lower()] = mark["state"]
        return found

    # What the disk and the stand-ins for modules ask

    @property
    def now(self) -> float:
        return self.scheduler.now

    @property
    def wall(self) -> float:
        return EPOCH + self.now + self.wall_offset

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boot}"

    def touch(self) -> None:
        actor = self.scheduler.current
        if actor is None:
            return
        if actor.killed:
            raise Killed
        actor.points += 1
        if self._armed is None:
            return
        kind, left, action = self._armed
        if kind not in ("any", actor.kind):
            return
        self._armed = (kind, left - 1, action)
        if left <= 1:
            self._armed = None
            action()
            if actor.killed:
                raise Killed

    def wait(self, seconds: float) -> None:
        if self.scheduler.current is None:
            return
        self.touch()
        self.scheduler.wait(seconds)

    def began(self) -> None:
        actor = self.scheduler.current
        self.touch()
        if actor is not None and not self.sound and actor.kind != "check":
            luck = self.chance("slow disk", actor.kind, actor.number, actor.points)
            if luck < 0.12:
                self.scheduler.wait(10 * luck)

    def committed(self) -> None:
        self.touch()

    def is_killed(self) -> bool:
        actor = self.scheduler.current
        return actor is not None and actor.killed

    def opened(self, connection: Connection) -> None:
        if self.scheduler.current is not None:
            self.scheduler.current.connections.append(connection)

    # Boots and processes

    def start(self) -> None:
        self.boot += 1
        self.booted_at = self.busy_at = self.now
        self.up = True
        for place in (self.folders.run, self.folders.marks_in_memory):
            shutil.rmtree(place, ignore_errors=True)
        self.marks = None
        self.judge.booted()
        self._start_check(0.5)

    def reboot(self, seconds: float) -> None:
        """Lose the power; the VM boots after so many seconds."""
        if not self.up:
            return
        self.up = False
        self.judge.lost_power(os.path.exists(f"{self.folders.run}/state.db"))
        for actor in self._alive():
            self.scheduler.kill(actor)
        self.scheduler.at(self.now + seconds, self.start)

    def arm(self, kind: str, points: int, action: Callable[[], None]) -> None:
        """Do something when a process of this kind has come by so many of the points at which it may be killed."""
        self._armed = (kind, points, action)

    def disarm(self) -> None:
        self._armed = None

    def kill(self, kind: str) -> None:
        """Kill -9 the processes of a kind that run."""
        for actor in self._alive():
            if kind in ("any", actor.kind):
                self.scheduler.kill(actor)

    def kill_current(self) -> None:
        actor = self.scheduler.current
        if actor is not None:
            self.scheduler.kill(actor)

    def _alive(self) -> list[Actor]:
        return [actor for actor in self.actors if not actor.ended]

    def _start_check(self, delay: float) -> None:
        boot = self.boot
        self._activations += 1
        number = self._activations

        def start() -> None:
            if self.up and self.boot == boot and not self.over:
                self._spawn("check", number, ["check"])

        self.scheduler.at(self.now + delay, start)

    def start_unit(self, number: int) -> str | None:
        boot = self.boot
        luck = self.chance("unit", number, self.boot, len(self.actors), *self._bad_luck)
        if luck < 0.03 and not self.sound:
            # The next try has other luck.
            self._bad_luck += (luck,)
            return f"azure-maintenance-respond@{number}.service could not be started: out of luck."

        def start() -> None:
            running = any(each.kind == "respond" and each.number == number for each in self._alive())
            if self.up and self.boot == boot and not self.over and not running:
                self._spawn("respond", number, ["respond", str(number)])

        self.scheduler.at(self.now + 0.3 * luck, start)
        return None

    def retry(self, number: int) -> None:
        """A person types azure-maintenance retry."""
        if self.up:
            self.retried.add((self.boot, number))
            self._spawn("retry", number, ["retry", str(number)])

    def _spawn(self, kind: str, number: int, arguments: list[str]) -> None:
        begun, boot = self.now, self.boot

        def run() -> None:
            if kind == "check":
                # Of the process before
                matching._spent.clear()
            try:
                actor.status = cli.main(arguments, self.folders)
            except Killed:
                raise
            except BaseException as error:
                self.judge.crashed(actor, error)

        def end() -> None:
            self.actors.remove(actor)
            for connection in actor.connections:
                connection.end()  # type: ignore[attr-defined]
            if kind != "check":
                self.busy_at = self.now
            self.judge.ended(actor, begun)
            if kind == "check" and self.up and self.boot == boot:
                # systemd waits 5 s after a failure, then the timer begins to count.
                failed = actor.killed or actor.status != 0
                self._start_check(self.config.poll_interval + (5.0 if failed else 0.0))

        actor = Process(kind, number, run, end)
        self.actors.append(actor)
        self.scheduler.spawn(actor)

    def limit_expression(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        """Stands in for limit(): it gives the process so many seconds for an expression."""
        self.scheduler.current.given_up = self.now + seconds  # type: ignore[union-attr]
        return contextlib.nullcontext()

    def search(self, pattern: str, text: str) -> object:
        """Stands in for re.search(): one expression does not end on some texts."""
        if pattern != ENDLESS or not is_endless(text):
            return re.search(pattern, text)
        actor = self.scheduler.current
        assert isinstance(actor, Process)
        # It keeps the only CPU, and holds the lock of the state.
        self.scheduler.now += min(actor.given_up - self.now, 300.0)
        actor.given_up = float("inf")
        raise TimeIsUpError

    # What a process asks of the world

    def exchange(self, method: str, path: str, body: bytes | None, deadline: Deadline) -> Response:
        actor = self.scheduler.current
        assert actor is not None
        remaining = deadline.remaining()
        if remaining <= 0:
            raise NoAnswerError("No time was left.")
        self.touch()
        self.judge.asks(actor, method, path, body)
        if self.azure.fault("delays", self.now) == "unreachable":
            self.scheduler.wait(min(3.0, remaining))
            self.judge.heard(actor, Told("error"))
            raise UnreachableError("Nothing answers.")
        reply = self.azure.answer(method, path, body, self.now)
        self.scheduler.wait(min(reply.delay, remaining))
        if reply.delay >= remaining:
            self.judge.heard(actor, Told("error"))
            raise NoAnswerError("It took the request and gave no answer in time.")
        self.judge.heard(actor, reply.told)
        self.touch()
        if reply.status is None:
            raise NoAnswerError("It broke the connection.")
        return Response(reply.status, reply.headers, reply.body)

    def run_step(self, content: Any, context: Any, _config: Any, _folders: Any, _now: Any, timeout: float) -> str:
        """Stands in for run_step(): what the step does is luck."""
        actor = self.scheduler.current
        assert actor is not None
        _program, rule, label = content["command"]
        key = (context.event.event_id.lower(), context.phase, label)
        number = self._tries[key] = self._tries.get(key, 0) + 1
        luck, length = self.chance("step", key, number), self.chance("length", key, number)
        self.judge.step_begins(actor, context, rule, label)
        done = permanent = False
        try:
            if self.sound:
                luck = 1.0
            seconds = 70.0 * length if luck > 0.3 and length > 0.65 else 6.0 * length
            if self.sound:
                seconds = self.seconds_of_steps
            if luck < 0.04:
                self.wait(timeout)
                raise StepError(f"It took longer than {timeout:g} s.")
            self.wait(min(seconds, timeout))
            if luck < 0.16:
                permanent = luck < 0.06
                raise StepError("It failed.", permanent)
            done = True
        finally:
            self.judge.step_ends(actor, context, label, done, permanent)
        return "It is done."


class Process(Actor):
    """:ivar status: its exit status.
    :ivar configuration: which it has read.
    :ivar given_up: when the expression that it looks at must have come to its end.
    """

    status = 1
    configuration = 0
    given_up = float("inf")


class _CampaignConfig(Config):
    """Makes clients that ask the Azure of the history."""

    def client(self, retries: bool, timeout: float | None = None) -> ImdsClient:
        transport = patches.current()
        return ImdsClient(self.endpoint, self.api_version, 3.0, timeout or self.timeout, retries, transport)
