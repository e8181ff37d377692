# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the program of one try of a step. After a try that failed none of its processes lives; after a success they may.

Each try has a supervisor: a process forked from the response, which starts the program and is the *child subreaper* of
all that the program starts (prctl(2)). A process can leave its group and session (setsid, nohup, an async task of a
playbook) and its cgroup (systemd-run --scope, a session that PAM opens for su), but not the tree below its subreaper.

- The try failed, took too long, or the response is told to end: the supervisor gets SIGTERM, ends all that is below
  it, and the response waits until it has.
- The response itself is killed: the kernel sends the same signal. The supervisor has the lock of the response by its
  birth, so that the response counts as running, and is not begun again, until nothing of the try lives.
- The try succeeded: the supervisor is killed, and its processes belong to init. The unit has KillMode=process, so
  that they live on when the response is over.

A cgroup or a scope of systemd for each try would do less: processes leave both, there is none without systemd, and the
output of a step would not be in the journal of its response.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, Iterable, Iterator, Mapping, NoReturn

# Seconds for processes to end after SIGTERM, and for the system to remove them after SIGKILL
_GRACE = 10.0
_PAUSE = 0.05
# The signals that end a response: from systemd, from a closed terminal, and Ctrl-C
_STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# The signals for which a supervisor waits
_HEARD = (signal.SIGCHLD, *_STOPS)
# Of <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


class StepError(Exception):
    """A step failed; ``permanent`` says that trying again cannot mend it."""

    def __init__(self, message: str, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class ProgramError(StepError):
    """The program of a step did not end with status 0 in its time."""


@contextlib.contextmanager
def run_program(command: list[str], text: str | None, environment: dict[str, str], timeout: float) -> Iterator[str]:
    """Run a program and yield a sentence of how it ended; its output goes to the journal of the unit.

    If the body is left by an error, or the program did not succeed, nothing that it started lives. Else it lives on.

    :param text: for its stdin.
    :param timeout: seconds after which it is stopped.
    :raises StepError: it did not succeed.
    """
    supervisor = None
    try:
        # A stop that arrives while the supervisor starts waits until the supervisor is known.
        with _held_stops():
            supervisor = _Supervisor(command, text, environment)
        yield supervisor.wait(timeout)
    except BaseException:
        if supervisor is not None:
            # A second signal to end must not leave the program behind.
            with _held_stops():
                supervisor.end(signal.SIGTERM)
        raise
    # Not after the success was written down: a stop in between would end an application that nobody starts again.
    with _held_stops():
        supervisor.end(signal.SIGKILL)


class _Supervisor:
    """The supervisor, as the response sees it."""

    def __init__(self, command: list[str], text: str | None, environment: dict[str, str]) -> None:
        self._name = command[0]
        self._text = (text or "").encode()
        their_input, our_input = os.pipe()
        our_outcome, their_outcome = os.pipe()
        self._input, self._outcome = io.FileIO(our_input, "w"), io.FileIO(our_outcome)
        response = os.getpid()
        # From its first moment on, the supervisor gets a signal only when it waits for one.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
        try:
            # A thread may still wait for a service that did not answer. It holds nothing that the supervisor needs.
            self._pid = os.fork()
            if not self._pid:
                # A program that reads until the end would wait for it as long as this is open.
                self._input.close()
                _be_supervisor(response, command, environment, mask, their_input, their_outcome)
        except OSError as error:
            raise StepError(f"{self._name} could not be started: {error.strerror or error}.") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(their_input)
        os.close(their_outcome)

    def wait(self, timeout: float) -> str:
        """Give the program its text, and return a sentence of how it ended."""
        end = time.monotonic() + timeout
        left, readers = self._text, [self._input]
        while True:
            seconds = max(0.0, end - time.monotonic())
            ended, reads, _exceptional = select.select([self._outcome], readers, [], seconds)
            if ended:
                return self._sentence(self._outcome.read(100).split())
            if not reads:
                raise ProgramError(f"It did not end within {timeout:g} seconds and was stopped.")
            try:
                left = left[self._input.write(left[: select.PIPE_BUF]) :]
            except BrokenPipeError:
                # A program that does not read its input gets no more of it, and that is no error.
                left = b""
            if not left:
                self._input.close()
                readers = []

    def _sentence(self, outcome: list[bytes]) -> str:
        if not outcome:
            raise StepError(
                "The process that supervises it ended too early, so its programs may still run. End them by hand "
                "before you try the response again.",
                permanent=True,
            )
        error, status = map(int, outcome)
        if error:
            raise StepError(f"{self._name} could not be started: {os.strerror(error)}.", permanent=True)
        if os.WIFSIGNALED(status):
            raise ProgramError(f"It was ended by signal {os.WTERMSIG(status)}.")
        if os.WEXITSTATUS(status):
            raise ProgramError(f"It ended with status {os.WEXITSTATUS(status)}.")
        return "It ended with status 0."

    def end(self, number: int) -> None:
        """End it, by SIGTERM together with all that it supervises."""
        os.kill(self._pid, number)
        # A step that stops processes of Python has stopped this one, too.
        os.kill(self._pid, signal.SIGCONT)
        os.waitpid(self._pid, 0)
        self._input.close()
        self._outcome.close()


def _be_supervisor(response: int, *arguments: Any) -> NoReturn:
    """Supervise a try in the process that was forked for it; nothing of the response runs there."""
    try:
        # Ctrl-C is for the response alone.
        os.setsid()
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        # It may have been killed before the kernel knew that it is to tell.
        if os.getppid() == response:
            _supervise(*arguments)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _supervise(command: list[str], environment: dict[str, str], mask: Iterable[int], text: int, outcome: int) -> None:
    """Start the program, tell how it ended, and wait until it is killed or told to end all."""
    try:
        program = subprocess.Popen(
            command,
            stdin=text,
            # The response itself has no other output, and the journal shows stdout below its own lines.
            stdout=sys.stderr,
            stderr=sys.stderr,
            env={key: value for key, value in environment.items() if key != "NOTIFY_SOCKET"},
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
        )
    except OSError as error:
        os.write(outcome, f"{error.errno} 0".encode())
        return
    # Where nobody reads it any more, the response is to learn that.
    os.close(text)
    while signal.sigwait(_HEARD) == signal.SIGCHLD:
        status = _reap().get(program.pid)
        if status is not None:
            os.write(outcome, f"0 {status}".encode())
    _end_all()


def _end_all() -> None:
    """End all that is left of the try, and return when nothing of it lives."""
    for pid in _find_all():
        _send(pid, signal.SIGTERM)
    end = time.monotonic() + _GRACE
    while _find_all() and time.monotonic() < end:
        time.sleep(_PAUSE)
    killed: set[int] = set()
    while True:
        found = _find_all()
        if not killed.issuperset(found):
            end = time.monotonic() + _GRACE
        elif not found or time.monotonic() > end:
            # A process that is still there after SIGKILL waits for a device, and does nothing any more.
            return
        for pid in found:
            _send(pid, signal.SIGKILL)
        killed.update(found)
        time.sleep(_PAUSE)


def _find_all() -> list[int]:
    """Return all processes below this one, a parent always before its children."""
    _reap()
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        # It may end meanwhile. That cannot hide those below it: a child of this process stays until it is reaped.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{name}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    return _below(os.getpid(), children)


def _below(process: int, children: Mapping[int, list[int]]) -> list[int]:
    """A shell whose child is ended first would run its next line, after the time of the step is over."""
    found = [process]
    for each in found:
        found += children.get(each, ())
    return found[1:]


def _reap() -> dict[int, int]:
    """Remove the children that have ended, and return their statuses."""
    found = {}
    # There are no children any more.
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            found[pid] = status
    return found


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


@contextlib.contextmanager
def _held_stops() -> Iterator[None]:
    """Hold back the signals that end this program, and let them through afterwards."""
    came: list[int] = []
    handlers = {stop: signal.signal(stop, lambda number, _frame: came.append(number)) for stop in _STOPS}
    try:
        yield
    finally:
        for stop, handler in handlers.items():
            signal.signal(stop, handler)
        for number in came:
            os.kill(os.getpid(), number)
