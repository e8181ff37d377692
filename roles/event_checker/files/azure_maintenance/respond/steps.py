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
import subprocess
import tempfile
from typing import Any, Iterator, NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Event, format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import WAITING

from ..config.config import Config
from ..config.step import AWX_CALLBACK, AWX_JOB, COMMAND, PLAYBOOK, WEBHOOK
from ..state.records import Moment
from ..system import Folders, lock, response_lock
from . import notify, playbook_evidence
from .programs import ProgramError, StepError, run_program

# No default of ansible.cfg that a playbook may overrule, such as its tags or become, makes it fail.
_TRIAL = """
- hosts: localhost
  gather_facts: false
  become: false
  tasks:
    - ansible.builtin.ping:
      tags: always
"""
_TRIAL_TIMEOUT = 120.0


class StepContext(NamedTuple):
    """The event of a response, for its steps.

    :ivar response: the number of the response, whose lock is held.
    :ivar mark: tells this step of this response, in this boot, from all others.
    :ivar again: whether the step was begun before.
    :ivar tries: of this step, where it is a callback.
    :ivar planned_at: when the response was planned, by the clock of this VM.
    """

    response: int
    event: Event
    phase: str
    outcome: str | None
    resource_name: str
    mark: str
    again: bool
    tries: notify.CallbackTries | None = None
    planned_at: float = 0

    def variables(self, now: Moment) -> dict[str, Any]:
        """Return the variables for playbooks and job templates."""
        found: dict[str, Any] = {
            "maintenance_event": self.event.to_dict(now.wall, self.resource_name),
            "maintenance_phase": self.phase,
            "maintenance_outcome": self.outcome,
        }
        if self.phase == WAITING:
            # The template runs the playbook respond, for this event only. A survey of AWX takes text, and no list.
            found["event_response_event_ids"] = self.event.event_id
        return found

    def payload(self, now: Moment) -> dict[str, Any]:
        """Return the content for webhooks and commands."""
        return {**self.variables(now), "resource_name": self.resource_name}

    def environment(self) -> dict[str, str]:
        """Return the environment for commands; an unknown value is empty."""
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
        # An environment cannot hold this character, nor a variable of more than 128 KiB.
        return {name: text.replace("\0", "\N{REPLACEMENT CHARACTER}")[:30_000] for name, text in texts.items()}


def run_step(
    step: dict[str, Any], context: StepContext, config: Config, folders: Folders, now: Moment, timeout: float
) -> str:
    """Run a step that is not an approval, and return a sentence with its result.

    :param timeout: seconds after which it is stopped.
    :raises StepError: it failed.
    """
    if PLAYBOOK in step:
        return _run_playbook(step[PLAYBOOK], context, config, folders, now, timeout)
    if COMMAND in step:
        text = json.dumps(context.payload(now))
        with run_program(step[COMMAND], text, {**os.environ, **context.environment()}, timeout) as message:
            return message
    options: dict[str, Any] = {key: value for key, value in step.items() if key.endswith("_file")}
    try:
        if WEBHOOK in step:
            return notify.webhook(step[WEBHOOK], context.payload(now), timeout, **options)
        if AWX_CALLBACK in step:
            options.update(tries=context.tries)
            return notify.awx_callback(step[AWX_CALLBACK], context.variables(now), timeout, **options)
        options.update(mark=context.mark, again=context.again, since=context.planned_at)
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
    with _folder_of_run(folders.run, context.response) as folder:
        variables = os.path.join(folder, "variables.yml")
        try:
            with open(variables, "w", encoding="ascii") as file:
                file.write(unsafe_yaml(context.variables(now)))
            lent = playbook_evidence.lend_plugin(folder)
        except OSError as error:
            raise _no_room(folders.run, error) from error
        command = playbook_command(program, path, "--extra-vars", f"@{variables}")
        try:
            with run_program(command, None, {**playbook_environment(), **lent}, timeout) as message:
                why = playbook_evidence.why_no_success(folder, program)
                if why is not None:
                    raise StepError(why)
                return message
        except ProgramError as error:
            task = playbook_evidence.failed_task(folder)
            raise StepError(f"{error} {task}") if task else error from error


def playbook_command(program: str, path: str, *options: str) -> list[str]:
    """Return the command that runs a playbook for this VM alone."""
    return [program, "--inventory", "localhost,", "--connection", "local", *options, path]


def playbook_environment() -> dict[str, str]:
    quiet = {
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "0",
    }
    if "interpreter_python" not in playbook_evidence.settings_of_ansible():
        quiet["ANSIBLE_PYTHON_INTERPRETER"] = "auto_silent"
    return {**quiet, **os.environ}


def why_no_playbook_runs(program: str) -> list[str]:
    """Run a playbook that changes nothing, as a step would; return a sentence with why it failed, if it did.

    Only a run shows that ansible.cfg names a callback plugin, a strategy or a Python that is not there.
    """
    with tempfile.TemporaryDirectory(prefix="azure-maintenance-") as folder:
        # Not beside the plugin: Ansible finds plugins beside a playbook by itself.
        path = os.path.join(folder, "trial", "playbook.yml")
        os.mkdir(os.path.dirname(path))
        with open(path, "w", encoding="ascii") as file:
            file.write(_TRIAL)
        environment = {**playbook_environment(), **playbook_evidence.lend_plugin(folder)}
        try:
            ended = playbook_evidence.run_quietly(playbook_command(program, path), environment, _TRIAL_TIMEOUT)
        except subprocess.TimeoutExpired:
            why: str | None = f"It did not end within {_TRIAL_TIMEOUT:g} seconds."
        except OSError as error:
            why = f"It could not be started: {error.strerror or error}."
        else:
            why = playbook_evidence.why_failed(folder, program, ended)
    return [] if why is None else [f"{program} cannot run a playbook on this VM, not even one that does nothing. {why}"]


@contextlib.contextmanager
def _folder_of_run(parent: str, response: int) -> Iterator[str]:
    """Make a folder into which nobody else may look, for as long as a playbook runs."""
    try:
        folder = tempfile.mkdtemp(prefix=f"playbook-{response}-", dir=parent)
    except OSError as error:
        raise _no_room(parent, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_folders_of_killed_runs(folders: Folders) -> None:
    """Remove the folders of playbooks that were killed with their response; the caller holds no lock of a response.

    The supervisor of a try holds the lock of its response as long as anything of the try lives.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(folders.run):
            found = re.fullmatch(r"playbook-([0-9]+)-.*", name)
            if found is None:
                continue
            with lock(folders.run, response_lock(int(found[1]))) as free:
                if free:
                    shutil.rmtree(os.path.join(folders.run, name), ignore_errors=True)


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
