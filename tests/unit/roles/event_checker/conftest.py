# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builders for the checker's tests: events, a state and folders of their own, a clock, a command that leaves traces."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Document, Event
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import poller
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    Rule,
    parse_rule,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.database import (
    locate,
    open_database,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.records import (
    SUCCEEDED,
    Moment,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.store import Store
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import Folders
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track.situation import (
    due_responses,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track.tracker import (
    record_answer,
)

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
IN_15_MINUTES = NOW + timedelta(minutes=15)

# What must stay plain text wherever it comes to; {marker} is a file that would tell of the contrary.
HOSTILE = (
    "{{{{ lookup('pipe', 'touch {marker}') }}}} {{% if true %}} $(touch {marker}) `touch {marker}` ; touch {marker} &"
    " \"x\" 'y' \\ \\n # : !unsafe *a &b - \r\n\t next: line\n\x1b[31m\x7f\x85\u2028\u2029\ufeff\u200b é 🚧 \U0010ffff"
)


def make_event(event_id: str = "A1", **changes: Any) -> Event:
    """Return a Reboot of web-1 that Azure may start in a quarter of an hour."""
    return Event(
        event_id=event_id,
        event_type="Reboot",
        event_status="Scheduled",
        resource_type="VirtualMachine",
        resources=("web-1",),
        not_before=IN_15_MINUTES,
        not_before_raw="Sat, 21 Nov 2026 10:15:00 GMT",
        description="Host server is undergoing maintenance.",
        event_source="Platform",
        duration_seconds=None,
    )._replace(**changes)


def started(event: Event) -> Event:
    return event._replace(event_status="Started", not_before=None, not_before_raw="")


def make_document(*events: Event) -> Document:
    return Document(1, events, ())


def make_rule(name: str = "Drain", **options: Any) -> Rule:
    """Return a rule as config.json spells it."""
    return parse_rule({"name": name, **options}, "rule 1")


class FakeClock:
    """A clock that only a test moves: time passes, somebody sets the wall clock, the VM boots."""

    def __init__(self) -> None:
        self._now = Moment(NOW.timestamp(), 5000.0, "boot-1")

    def now(self) -> Moment:
        return self._now

    def advance(self, seconds: float) -> Moment:
        self._now = self._now._replace(at=self._now.at + seconds, uptime=self._now.uptime + seconds)
        return self._now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.advance(seconds)

    def set_by(self, seconds: float) -> Moment:
        self._now = self._now._replace(at=self._now.at + seconds)
        return self._now

    def reboot(self, seconds: float = 60.0) -> Moment:
        """Boot anew, which takes so long."""
        boots = int(self._now.boot_id.rpartition("-")[2])
        self._now = Moment(self._now.at + seconds, 10.0, f"boot-{boots + 1}")
        return self._now


class Call(NamedTuple):
    """One run of the recorder: its arguments, its variables AZURE_EVENT_* and what it read."""

    arguments: list[str]
    variables: dict[str, str]
    stdin: str


def ended_with(status: int) -> str:
    """What is said of a step whose program ended so."""
    return f"It ended with status {status}."


_RECORDER = """
import json, os, sys
folder, arguments = sys.argv[1], sys.argv[2:]
variables = {key: value for key, value in os.environ.items() if key.startswith("AZURE_EVENT_")}
call = {"arguments": arguments, "variables": variables, "stdin": sys.stdin.read()}
with open(os.path.join(folder, "calls"), "a") as file:
    file.write(json.dumps(call) + "\\n")
with open(os.path.join(folder, "failures"), "r+") as file:
    left = int(file.read())
    file.seek(0)
    file.write(str(max(left - 1, 0)) + " ")
sys.exit(1 if left else 0)
"""


class Recorder:
    """A real program for steps, which writes down how it was called, and fails as often as it was told to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / "program.py").write_text(_RECORDER)
        (folder / "calls").touch()
        self.fail(0)

    def fail(self, times: int) -> None:
        """Make the next runs end with status 1."""
        (self._folder / "failures").write_text(str(times))

    def step(self, *arguments: str) -> dict[str, Any]:
        program = str(self._folder / "program.py")
        return {"command": [sys.executable, "-I", "-S", "-B", program, str(self._folder), *arguments]}

    @property
    def calls(self) -> list[Call]:
        return [Call(**json.loads(line)) for line in (self._folder / "calls").read_text().splitlines()]

    @property
    def words(self) -> list[str]:
        """The arguments of each run, joined."""
        return [" ".join(call.arguments) for call in self.calls]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no check take a busy machine for an Azure that does not answer."""
    monkeypatch.setattr(poller, "USUAL_ANSWER", 600.0)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Folders of this test alone; the one for facts is there already, as on a VM with the role."""
    found = Folders(
        config=str(tmp_path / "config.json"),
        playbooks=str(tmp_path / "playbooks"),
        state=str(tmp_path / "state"),
        run=str(tmp_path / "run"),
        facts=str(tmp_path / "facts.d"),
        marks=str(tmp_path / "marks"),
        marks_in_memory=str(tmp_path / "marks-in-memory"),
    )
    for folder in (found.playbooks, found.run, found.facts):
        Path(folder).mkdir(0o700)
    return found


def open_state(folders: Folders) -> Store:
    """Open the state as the program does, where nothing may be wrong with it."""

    def warn(message: str) -> None:
        raise AssertionError(message)

    connection = open_database(folders.state, folders.run, warn)
    return Store(connection, locate(folders.state, folders.run))


@pytest.fixture
def state(folders: Folders) -> Iterator[Store]:
    state = open_state(folders)
    yield state
    state.close()


class Story:
    """What happens to web-1, written down in its state as the program does it."""

    def __init__(self, state: Store, clock: FakeClock) -> None:
        self.state = state
        self.clock = clock

    def see(self, *events: Event, **rule: Any) -> None:
        """Take in a document with these events, by one rule."""
        self.see_by([make_rule(**rule)], *events)

    def see_by(self, rules: list[Rule], *events: Event) -> Any:
        """The same by several rules or none; return the news."""
        return record_answer(self.state, rules, make_document(*events), self.clock.now(), "web-1")

    def find_due(self) -> list[Any]:
        """Make due what is due by now, and return it; no response is running."""
        return due_responses(self.state, self.clock.now(), lambda _number: False)

    def finish(self, number: int = 1, result: str = SUCCEEDED, message: str | None = None) -> None:
        with self.state.transaction():
            self.state.finish_response(number, result, message, self.clock.now())

    def approve(self, approval: str, *waiting_for: str, number: int = 1) -> None:
        with self.state.transaction():
            self.state.set_approval(number, approval, waiting_for, self.clock.now())

    def set_fact(self, name: str, value: Any) -> None:
        with self.state.transaction():
            self.state.set_fact(name, value)


@pytest.fixture
def story(state: Store, clock: FakeClock) -> Story:
    return Story(state, clock)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "recorder")
