# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run one step of a response: a playbook, a command, or a message to another system.

Text from Azure is data here: a playbook gets it marked unsafe, so that it is not a template, and a command gets it in
its environment and on stdin, never in its arguments.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from typing import Any, Iterator, NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import Event, format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._lifecycle import WAITING

from . import notify, playbook_evidence
from .codec import DAMAGED, DAMAGED_STEP
from .config import AWX_CALLBACK, AWX_JOB, COMMAND, PLAYBOOK, WEBHOOK, Config
from .printed import Printed
from .records import Moment
from .system import Folders

# For a program that was told to end
_GRACE = 10.0
# What tells a response to end: systemd, a terminal that is closed, and Ctrl-C
_STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class StepError(Exception):
    """A step failed; ``permanent`` says that trying again cannot mend it."""

    def __init__(self, message: str, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class ProgramError(StepError):
    """A program failed.

    :ivar how: how it ended, a sentence.
    """

    def __init__(self, how: str, last_line: str) -> None:
        super().__init__(how + last_line)
        self.how = how


class StepContext(NamedTuple):
    """What a response answers.

    :ivar mark: tells this step of this response, in this boot, from all others.
    :ivar again: whether the step was begun before.
    :ivar tries: of this step, where it is a callback.
    """

    event: Event
    phase: str
    outcome: str | None
    resource_name: str
    mark: str
    again: bool
    tries: notify.CallbackTries | None = None

    def variables(self, now: Moment) -> dict[str, Any]:
        """Return what playbooks and job templates get."""
        found: dict[str, Any] = {
            "maintenance_event": self.event.to_dict(now.wall, self.resource_name),
            "maintenance_phase": self.phase,
            "maintenance_outcome": self.outcome,
        }
        if self.phase == WAITING:
            # What is launched is the playbook respond, for this event only. A survey of AWX takes text, and no list.
            found["event_response_event_ids"] = self.event.event_id
        return found

    def payload(self, now: Moment) -> dict[str, Any]:
        """Return what webhooks and commands get."""
        return {**self.variables(now), "resource_name": self.resource_name}

    def environment(self) -> dict[str, str]:
        """Return what commands get as variables; what is unknown is empty."""
        event = self.event
        values = {
            "ID": event.event_id,
            "TYPE": event.event_type,
            "STATUS": event.event_status,
            "SOURCE": event.event_source,
            "DESCRIPTION": event.description,
            "RESOURCES": ",".join(event.resources),
            "NOT_BEFORE": format_utc(event.not_before),
            "DURATION_SECONDS": event.duration_seconds,
            "PHASE": self.phase,
            "OUTCOME": self.outcome,
        }
        texts = {f"AZURE_EVENT_{name}": "" if value is None else str(value) for name, value in values.items()}
        # The environment of a program cannot hold this one character, nor a variable of more than 128 KiB.
        return {name: text.replace("\0", "\N{REPLACEMENT CHARACTER}")[:30_000] for name, text in texts.items()}


def run_step(
    step: dict[str, Any], context: StepContext, config: Config, folders: Folders, now: Moment, timeout: float
) -> str:
    """Run a step that is not an approval, and return a sentence of what it came to.

    :param timeout: seconds after which it is stopped.
    :raises StepError: it failed.
    """
    if step == DAMAGED_STEP:
        raise StepError(DAMAGED, permanent=True)
    if PLAYBOOK in step:
        return _run_playbook(step[PLAYBOOK], context, config, folders, now, timeout)
    if COMMAND in step:
        text = json.dumps(context.payload(now))
        return _run_program(step[COMMAND], text, {**os.environ, **context.environment()}, timeout)
    options: dict[str, Any] = {key: value for key, value in step.items() if key.endswith("_file")}
    try:
        if WEBHOOK in step:
            return notify.webhook(step[WEBHOOK], context.payload(now), timeout, **options)
        if AWX_CALLBACK in step:
            options.update(tries=context.tries)
            return notify.awx_callback(step[AWX_CALLBACK], context.variables(now), timeout, **options)
        options.update(mark=context.mark, again=context.again)
        return notify.awx_job(step[AWX_JOB], step["template"], context.variables(now), timeout, **options)
    except notify.NotifyError as error:
        raise StepError(str(error), error.permanent) from error


def find_ansible_playbook(config: Config) -> str | None:
    """Return the program that runs playbooks, None where there is none."""
    return shutil.which(config.ansible_playbook or "ansible-playbook")


def no_ansible_playbook(config: Config) -> str:
    program = config.ansible_playbook or "ansible-playbook"
    return f"{program} was not found. Install ansible-core on the VM, or let the role do it with event_checker_venv."


def playbook_path(name: str, folders: Folders) -> str:
    return os.path.join(folders.playbooks, name)


def _run_playbook(
    name: str, context: StepContext, config: Config, folders: Folders, now: Moment, timeout: float
) -> str:
    program = find_ansible_playbook(config)
    if program is None:
        raise StepError(no_ansible_playbook(config), permanent=True)
    path = playbook_path(name, folders)
    if not os.path.isfile(path):
        raise StepError(f"There is no playbook {path}.", permanent=True)
    with _folder_of_run(folders.run) as folder:
        variables = os.path.join(folder, "variables.yml")
        try:
            with open(variables, "w", encoding="ascii") as file:
                file.write(unsafe_yaml(context.variables(now)))
            lent = playbook_evidence.lend_plugin(folder)
        except OSError as error:
            raise _no_room(folders.run, error) from error
        command = playbook_command(program, path, "--extra-vars", f"@{variables}")
        try:
            message = _run_program(command, None, {**playbook_environment(), **lent}, timeout)
        except ProgramError as error:
            task = playbook_evidence.failed_task(folder)
            if task is None:
                raise
            raise StepError(f"{error.how} {task}") from error
        why = playbook_evidence.why_no_success(folder, program)
    if why is not None:
        raise StepError(why)
    return message


def playbook_command(program: str, path: str, *options: str) -> list[str]:
    """Return what runs a playbook for this VM alone."""
    return [program, "--inventory", "localhost,", "--connection", "local", *options, path]


def playbook_environment() -> dict[str, str]:
    quiet = {
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_PYTHON_INTERPRETER": "auto_silent",
    }
    return {**quiet, **os.environ}


@contextlib.contextmanager
def _folder_of_run(parent: str) -> Iterator[str]:
    """Make a folder into which nobody else may look, for as long as a playbook runs."""
    try:
        folder = tempfile.mkdtemp(dir=parent)
    except OSError as error:
        raise _no_room(parent, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _no_room(folder: str, error: OSError) -> StepError:
    return StepError(f"Its files could not be written to {folder}: {error.strerror or error}.")


def unsafe_yaml(value: Any) -> str:
    """Return YAML in which text carries the tag by which Ansible takes it for data, never for a template.

    Words and numbers are no template and go without it: from 2.19 on Ansible would take text such as "2026-11-21",
    "yes" or "" for a date, true or null if it were tagged.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {unsafe_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(unsafe_yaml, value)) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    # JSON escapes characters beyond the first 65,536 as a pair, which YAML reads as two.
    chars = (json.dumps(char)[1:-1] if ord(char) < 0x10000 else f"\\U{ord(char):08x}" for char in value)
    tag = "" if re.fullmatch(r"[-+.:~<=\w\s]*", value, re.ASCII) else "!unsafe "
    return f'{tag}"{"".join(chars)}"'


def _run_program(command: list[str], text: str | None, environment: dict[str, str], timeout: float) -> str:
    """Run a program in a process group of its own; what it prints goes to the journal of the unit."""
    process = None
    printed = Printed()
    try:
        # A stop that arrives while the program starts must wait until it is known which process to end.
        with _held_stops():
            process = _start(command, text is not None, environment, printed.descriptor)
            printed.follow()
        # A program that does not read its input gets no more of it, and that is no error: communicate() forgives it.
        process.communicate(None if text is None else text.encode(), timeout=timeout)
    except BaseException as error:
        if process is not None:
            _end(process)
        printed.finish()
        if isinstance(error, subprocess.TimeoutExpired):
            why = f"It did not end within {timeout:g} seconds and was stopped."
            raise ProgramError(why, printed.last_line()) from error
        raise
    printed.finish()
    if process.returncode < 0:
        raise ProgramError(f"It was ended by signal {-process.returncode}.", printed.last_line())
    if process.returncode:
        raise ProgramError(f"It ended with status {process.returncode}.", printed.last_line())
    return "It ended with status 0."


def _start(command: list[str], has_input: bool, environment: dict[str, str], output: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={key: value for key, value in environment.items() if key != "NOTIFY_SOCKET"},
            start_new_session=True,
        )
    except OSError as error:
        raise StepError(f"{command[0]} could not be started: {error.strerror or error}.", permanent=True) from error


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and all that it has started in its group."""
    # Whoever is told to end twice must not leave the program behind, beside which the next try would run.
    with _held_stops():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


@contextlib.contextmanager
def _held_stops() -> Iterator[None]:
    """Hold back what tells this program to end, and let it through afterwards."""
    came: list[int] = []
    handlers = {stop: signal.signal(stop, lambda number, _frame: came.append(number)) for stop in _STOPS}
    try:
        yield
    finally:
        for stop, handler in handlers.items():
            signal.signal(stop, handler)
        for number in came:
            os.kill(os.getpid(), number)
