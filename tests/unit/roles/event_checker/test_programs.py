# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""C1, C2, P6: what lives on of a try of a step and what does not, with real processes that try to get away."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import programs
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.programs import (  # noqa: E501
    StepError,
    run_program,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import (
    is_running,
    lock,
    response_lock,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import ended_with

pytestmark = pytest.mark.filterwarnings("error")

STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# What takes longer hangs.
STOP = 600

# Starts another process in one of these ways, and ends or hangs. Each of the two writes its number once it is at work.
PROGRAM = """
import os, signal, sys, time
folder, way, end = sys.argv[1:]

def at_work(name):
    with open(os.path.join(folder, "new " + name), "w") as file:
        file.write(str(os.getpid()))
    os.rename(os.path.join(folder, "new " + name), os.path.join(folder, name))

def another():
    if way in ("session", "deaf"):
        # As setsid and nohup do, and Ansible for async
        if os.fork():
            os._exit(0)
        os.setsid()
        if os.fork():
            os._exit(0)
    else:
        os.setpgid(0, 0)
    if way == "deaf":
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    if way == "reborn":
        # Told to end, it goes on as another process.
        signal.signal(signal.SIGTERM, lambda *_: os.fork() and os._exit(0))
    at_work("left")
    while True:
        time.sleep(1)

if os.fork() == 0:
    another()
if way == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
while not os.path.exists(os.path.join(folder, "left")):
    time.sleep(0.01)
at_work("program")
if end == "hangs":
    while True:
        time.sleep(1)
os._exit(int(end))
"""
WAYS = ("group", "session", "deaf", "reborn")


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", program, *arguments]


def run(program: str, *arguments: str, text: str | None = None, timeout: float = STOP) -> str:
    with run_program(python(program, *arguments), text, dict(os.environ), timeout) as message:
        return message


def is_alive(number: int) -> bool:
    """Tell whether a process runs; one that has ended may still wait for its parent to ask."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Crowd:
    """The processes that a program has started; each has the folder in its command line, by which it is found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def alive(self) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if str(self.folder).encode() in (path / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(path.name))
        return list(filter(is_alive, found))

    def wait_for(self, name: str) -> None:
        end = time.monotonic() + STOP
        while not (self.folder / name).exists():
            assert time.monotonic() < end, f"{name} never came up"
            time.sleep(0.01)

    def number_of(self, name: str) -> int:
        return int((self.folder / name).read_text())


@pytest.fixture
def crowd(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "_GRACE", 0.3)
    found = Crowd(tmp_path)
    yield found
    for number in found.alive:
        os.kill(number, signal.SIGKILL)


@pytest.mark.parametrize("way", WAYS)
def test_c1_what_a_program_that_succeeded_leaves_running_lives_on(crowd, way):
    assert run(PROGRAM, str(crowd.folder), way, "0") == ended_with(0)
    left = [crowd.number_of("left")]
    assert crowd.alive == left
    # Nor does it go with a later step.
    with pytest.raises(StepError):
        run("raise SystemExit(1)")
    assert crowd.alive == left


@pytest.mark.parametrize("way", WAYS)
def test_c2_p6_nothing_lives_of_a_try_that_failed(crowd, way):
    with pytest.raises(StepError, match="status 3"):
        run(PROGRAM, str(crowd.folder), way, "3")
    assert crowd.alive == []
    assert crowd.number_of("left")


@pytest.mark.parametrize("way", WAYS)
def test_c2_p6_nothing_lives_of_a_try_that_took_too_long(crowd, way):
    # Busy machines need longer until both are there.
    for seconds in (0.5, 5, 50, 500):
        with pytest.raises(StepError, match=f"did not end within {seconds:g} seconds and was stopped") as caught:
            run(PROGRAM, str(crowd.folder), way, "hangs", timeout=seconds)
        assert not caught.value.permanent
        assert crowd.alive == []
        if (crowd.folder / "program").exists():
            return
    raise AssertionError("the program never came up")


def test_p15_a_step_that_stops_the_processes_of_python_is_ended_in_its_time(crowd):
    with pytest.raises(StepError, match="did not end within 1 seconds"):
        run(
            "import os, signal, time; os.kill(os.getppid(), signal.SIGSTOP); time.sleep(600)",
            str(crowd.folder),
            timeout=1,
        )
    assert crowd.alive == []


def test_p6_a_parent_is_ended_before_its_children():
    """Else a shell of which the child is gone runs its next line, after the time of the step was over."""
    # A set would give 8 before 7, and 16 before 8.
    assert programs._below(4, {4: [7, 5], 7: [8], 8: [16], 1: [4, 2]}) == [7, 5, 8, 16]


@pytest.mark.parametrize("ignored", ["", "trap '' TERM; "], ids=["SIGTERM", "SIGKILL"])
def test_p6_a_step_that_is_stopped_does_not_run_its_next_line(crowd, ignored):
    line = 'if [ $2 -gt 1 ]; then sh -c "$0" "$0" "$1" $(($2 - 1)); else sleep 600; fi; : >"$1/next"'
    command = ["sh", "-c", ignored + line, line, str(crowd.folder), "40"]
    with pytest.raises(StepError, match="was stopped"), run_program(command, None, dict(os.environ), 0.5):
        pass
    assert not (crowd.folder / "next").exists()


def test_p13_nothing_lives_of_a_try_whose_success_is_not_believed(crowd):
    with pytest.raises(StepError, match="no task"), run_program(
        python(PROGRAM, str(crowd.folder), "session", "0"), None, dict(os.environ), STOP
    ):
        raise StepError("It ran no task.")
    assert crowd.alive == []
    assert crowd.number_of("left")


@pytest.mark.parametrize("way", WAYS)
def test_c2_p6_a_response_that_is_killed_counts_as_running_until_nothing_lives(crowd, folders, way):
    """kill -9, or TimeoutStopSec is over: the next run of the response must not run the step beside it."""
    response = os.fork()
    if not response:
        with contextlib.suppress(BaseException), lock(folders.run, response_lock(1)):
            run(PROGRAM, str(crowd.folder), way, "hangs")
        os._exit(1)
    crowd.wait_for("program")
    assert is_running(folders, 1)
    assert len(crowd.alive) == 2
    os.kill(response, signal.SIGKILL)
    os.waitpid(response, 0)
    end = time.monotonic() + STOP
    while is_running(folders, 1):
        assert time.monotonic() < end, "it never ended"
        time.sleep(0.005)
    assert crowd.alive == []


def test_p6_where_the_supervisor_is_killed_a_person_must_look(crowd):
    with pytest.raises(StepError, match="may still run") as caught:
        run("import os, sys, time; os.kill(os.getppid(), 9); time.sleep(600)", str(crowd.folder))
    assert caught.value.permanent


class Stopped(BaseException):
    """What the program raises when it is told to end."""


@pytest.fixture
def stopped():
    """Raise Stopped at whatever tells the response to end."""

    def stop(_number, _frame):
        raise Stopped

    before = {number: signal.signal(number, stop) for number in STOPS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPS)
def test_a_response_that_is_told_to_end_ends_its_program(stopped, crowd, number):
    watcher = os.fork()
    if not watcher:
        with contextlib.suppress(BaseException):
            crowd.wait_for("program")
            os.kill(os.getppid(), number)
        os._exit(0)
    with pytest.raises(Stopped):
        run(PROGRAM, str(crowd.folder), "session", "hangs")
    os.waitpid(watcher, 0)
    assert crowd.alive == []


@pytest.mark.parametrize("number", STOPS)
def test_a_stop_that_comes_while_a_program_starts_ends_that_program_too(stopped, crowd, monkeypatch, number):
    fork = os.fork

    def fork_and_stop():
        child = fork()
        if child:
            os.kill(os.getpid(), number)
        return child

    monkeypatch.setattr(os, "fork", fork_and_stop)
    with pytest.raises(Stopped):
        run(PROGRAM, str(crowd.folder), "session", "hangs")
    assert crowd.alive == []


def test_p6_who_is_told_to_end_twice_leaves_no_program_behind(stopped, crowd, monkeypatch):
    """Its lock is free then, and the next run of the response would run the step beside it."""
    # Nor is a program that tidies up waited for after its end.
    monkeypatch.setattr(programs, "_GRACE", STOP)
    # It tells us a second time while it tidies up.
    program = (
        "import os, signal, sys, time\n"
        "folder, response = sys.argv[1:]\n"
        "def tidy(*_):\n"
        "    os.kill(int(response), signal.SIGINT)\n"
        "    time.sleep(0.3)\n"
        "    open(os.path.join(folder, 'tidied'), 'w').close()\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, tidy)\n"
        "os.kill(int(response), signal.SIGTERM)\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(Stopped):
        run(program, str(crowd.folder), str(os.getpid()))
    assert (crowd.folder / "tidied").exists()
    assert crowd.alive == []


# What the program does with its input, of which there is more than a pipe holds
READERS = {
    "all": "import sys; raise SystemExit(len(sys.stdin.read()) != 500_000)",
    "nothing": "",
    "closed": "import os, time; os.close(0); time.sleep(0.2)",
    # Whoever has it open keeps a writer waiting for as long as it lives.
    "left to another": "import os, sys, time; os.fork() or time.sleep(600)",
}


@pytest.mark.parametrize("program", READERS.values(), ids=READERS)
def test_c1_it_need_not_read_its_input(crowd, program):
    assert run(program, str(crowd.folder), text="x" * 500_000) == ended_with(0)


def test_it_is_stopped_while_it_does_not_read_its_input(crowd):
    with pytest.raises(StepError, match="was stopped"):
        run("import time; time.sleep(600)", str(crowd.folder), text="x" * 500_000, timeout=0.5)
    assert crowd.alive == []
