# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a playbook ran a task, and which failed: ansible-playbook ends with status 0 as well where it ran none (P13).

A callback plugin of our own counts the tasks, because users may change Ansible's output. Each run gets a copy
in a folder of its own: Ansible imports every file of such a folder, and leaves bytecode in it.
"""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
from typing import Any

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import escape, one_line

PLUGIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "playbook_callback.py")
# By this variable the plugin knows its file.
VARIABLE = "AZURE_MAINTENANCE_TASKS"
_CALLBACK_FOLDERS = "ANSIBLE_CALLBACK_PLUGINS"
_LIST_TIMEOUT = 60.0
_FOR_THIS_VM = "Write hosts: localhost in a play of it."


def lend_plugin(folder: str) -> dict[str, str]:
    """Copy the plugin into a folder of the run, and return the variables by which ansible-playbook finds it.

    :raises OSError: there is no room for it.
    """
    plugins = os.path.join(folder, "callback_plugins")
    os.mkdir(plugins, 0o700)
    shutil.copyfile(PLUGIN, os.path.join(plugins, "azure_maintenance_checker.py"))
    return {
        _CALLBACK_FOLDERS: os.pathsep.join([plugins, *_callback_folders()]),
        VARIABLE: os.path.join(folder, "tasks.json"),
    }


def failed_task(folder: str) -> str | None:
    """Return the last failed task of a run and its message, as a sentence; None where that is unknown."""
    failed = _read(folder).get("failed")
    if failed is None:
        return None
    name = f"Task {one_line(failed['task'])} failed"
    return f"{name}; no_log hides its message." if failed["hidden"] else f"{name}: {one_line(failed['said'])}"


def _read(folder: str) -> dict[str, Any]:
    """Return the mapping that the plugin has written, an empty one where there is none."""
    try:
        with open(os.path.join(folder, "tasks.json"), encoding="ascii") as file:
            found: dict[str, Any] = json.load(file)
            return found
    except (OSError, ValueError):
        return {}


def settings_of_ansible() -> dict[str, str]:
    """Return the section ``defaults`` of the ansible.cfg that ansible-playbook takes."""
    config = _find_ansible_cfg()
    return _read_defaults(config) if config else {}


def why_no_success(folder: str, program: str) -> str | None:
    """Return why a run that ended with status 0 has not succeeded, None where a task ran."""
    found = _read(folder)
    if "ran" not in found:
        return (
            f"It ended with status 0, but which tasks ran is not known: {program} did not use the checker's callback "
            f"plugin. Let it keep the variables {_CALLBACK_FOLDERS} and {VARIABLE}, and look above for its warnings."
        )
    if found["ran"]:
        return None
    if not found["matched"]:
        return f"It ran no task on this VM: no play is for it ({_hosts(found['unmatched'])}). {_FOR_THIS_VM}"
    counts = [("skipped", found["skipped"]), ("failed and ignored", found["ignored"])]
    told = ", ".join(f"{how}: {count}" for how, count in counts if count)
    if told:
        advice = "Where there is nothing to do, let a task of ansible.builtin.debug say so."
        return f"It ran no task on this VM (tasks {told}). {advice}"
    return (
        "It ran no task on this VM: no task was left to run. Look at its tasks, and at the tags in ansible.cfg. Tasks "
        "that only gather facts, set variables or add hosts do not count."
    )


def why_failed(folder: str, program: str, ended: subprocess.CompletedProcess[bytes]) -> str | None:
    """Return why a run has not succeeded, None where it has."""
    if not ended.returncode:
        return why_no_success(folder, program)
    error = _loading_error(ended.stderr.decode("utf-8", "replace"))
    return failed_task(folder) or error or f"It ended with status {ended.returncode}."


def run_quietly(command: list[str], environment: dict[str, str], timeout: float) -> subprocess.CompletedProcess[bytes]:
    """Run ansible-playbook and return its status and what it printed.

    :param timeout: seconds.
    :raises OSError: it could not be started.
    :raises subprocess.TimeoutExpired: it was stopped.
    """
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        # So it has no terminal that it could ask for a password.
        start_new_session=True,
        timeout=timeout,
        check=False,
    )


def why_it_would_run_nothing(command: list[str], environment: dict[str, str], path: str) -> str | None:
    """Return why a playbook will run no task, or cannot be loaded; None where only a run can show that.

    :param command: the command that runs it.
    """
    try:
        listed = run_quietly([*command, "--list-hosts", "--list-tasks"], environment, _LIST_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = listed.stdout.decode("utf-8", "replace")
    if listed.returncode:
        # From 2.11 on; before that it lists no play.
        empty = b"must contain at least one play" in listed.stderr
        error = None if empty else _loading_error(listed.stderr.decode("utf-8", "replace"))
        if error is not None:
            return f"ansible-playbook cannot load {path}: {error}"
        plays = []
    else:
        # The text before the first play has the name of the playbook.
        plays = re.split(r"^  play #[0-9]+ \(", said, flags=re.MULTILINE)[1:]
        empty = not plays and f"playbook: {path}" in said
    if empty:
        return f"{path} has no play. Write one with hosts: localhost."
    if not plays:
        return None
    matching = [play for play in plays if not re.search(r"^    hosts \(0\):", play, re.MULTILINE)]
    if not matching:
        hosts = _hosts([play.partition("): ")[0] for play in plays])
        return f"no play of {path} is for this VM ({hosts}). {_FOR_THIS_VM}"
    if not any(re.search(r"^      .*\tTAGS: \[", play, re.MULTILINE) for play in matching):
        return f"no task of {path} would run. Look at its tasks, and at the tags in ansible.cfg."
    return None


def _loading_error(said: str) -> str | None:
    """Return the beginning of Ansible's error, None where a variable is missing, which the event may bring."""
    found = re.search(r"(?:ERROR!|\[ERROR\]:)\s+(.*)", said, re.DOTALL)
    if found is None or "undefined" in said or "evaluating variable" in said:
        return None
    # Behind it are lines of the playbook.
    error = re.split(r"\n\s*\n(?=[0-9]+ )|The offending line", found.group(1))[0]
    return escape(" ".join(error.split())[:400])


def _hosts(patterns: list[str]) -> str:
    return "hosts: " + one_line(", ".join(patterns))


def _callback_folders() -> list[str]:
    """Return where Ansible looks for callback plugins by itself: the variable that names our folder replaces that."""
    given = os.environ.get(_CALLBACK_FOLDERS)
    if given is not None:
        return [given]
    config, settings = _find_ansible_cfg(), settings_of_ansible()
    found = settings.get("callback_plugins")
    if config and found is not None:
        return [_expand(folder, config) for folder in found.split(os.pathsep)]
    home = os.environ.get("ANSIBLE_HOME") or (config and _expand(settings.get("home") or "~/.ansible", config))
    return [os.path.join(home or "~/.ansible", "plugins", "callback"), "/usr/share/ansible/plugins/callback"]


def _expand(path: str, config: str) -> str:
    if "{{CWD}}" in path:
        path = path.replace("{{CWD}}", os.getcwd())
    return os.path.join(os.path.dirname(config), os.path.expanduser(os.path.expandvars(path)))


def _find_ansible_cfg() -> str | None:
    """Return the file that Ansible takes, in its order."""
    found = []
    if "ANSIBLE_CONFIG" in os.environ:
        path = os.path.abspath(os.path.expanduser(os.path.expandvars(os.environ["ANSIBLE_CONFIG"])))
        found.append(os.path.join(path, "ansible.cfg") if os.path.isdir(path) else path)
    with contextlib.suppress(OSError):
        # Not in a folder where everybody may put one
        if not os.stat(os.getcwd()).st_mode & stat.S_IWOTH:
            found.append(os.path.join(os.getcwd(), "ansible.cfg"))
    found += [os.path.expanduser("~/.ansible.cfg"), "/etc/ansible/ansible.cfg"]
    return next((path for path in found if os.access(path, os.R_OK)), None)


def _read_defaults(config: str) -> dict[str, str]:
    parser = configparser.ConfigParser(inline_comment_prefixes=(";",), interpolation=None)
    # ansible-playbook reports the fault.
    with contextlib.suppress(OSError, UnicodeDecodeError, configparser.Error):
        with open(config, encoding="utf-8") as file:
            parser.read_file(file)
        return dict(parser["defaults"]) if parser.has_section("defaults") else {}
    return {}
