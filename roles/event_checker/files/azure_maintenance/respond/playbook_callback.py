# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A callback plugin of Ansible that writes down which tasks ran and which failed; playbook_evidence.py reads that.

It is never part of the program: ansible-playbook imports it, which may be any release from 2.10 on.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

try:
    # Only in ansible-core 2.22 and newer; older ones leave no secret in a result.
    from ansible.module_utils.secrets import mask_secrets
except ImportError:

    def mask_secrets(value: str) -> str:
        return value


DOCUMENTATION = r"""
name: azure_maintenance_checker
type: notification
short_description: Write down which tasks ran, and which failed
description:
  - Used by the checker of the collection fleetops.azure_maintenance for the playbooks that it runs.
"""

# Actions that do nothing on the VM: facts, variables, hosts, and includes of other tasks.
_PREPARES_THE_RUN = {
    *("gather_facts", "setup", "package_facts", "service_facts", "mount_facts", "set_fact", "include_vars"),
    *("add_host", "group_by", "meta", "include", "include_tasks", "include_role", "import_tasks", "import_role"),
}
_BUILTIN = ("ansible.builtin.", "ansible.legacy.")
# Characters of a name, and of a line that a task has printed
_LONGEST = 1000
# The words of ansible-core 2.19 and later where a module has none of its own
_NO_REASON = "Task failed: Action failed: Unknown error."


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types.
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "azure_maintenance_checker"
    ANSIBLE_SUPPORTS_MASKING = True

    def __init__(self) -> None:
        super().__init__()
        # An ansible-playbook that a task starts must not write into the same file.
        self._path = os.environ.pop("AZURE_MAINTENANCE_TASKS", None)
        self.disabled = self._path is None
        self._ran = self._skipped = self._ignored = self._matched = 0
        self._unmatched: list[str] = []
        self._found: dict[str, Any] = {}
        self._item = ("", "")
        self._hosts = ""

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._hosts = ", ".join(map(str, play.hosts)) if isinstance(play.hosts, list) else str(play.hosts)
        self._matched += 1

    def v2_playbook_on_no_hosts_matched(self) -> None:
        self._matched -= 1
        self._unmatched.append(self._hosts)

    def v2_runner_on_ok(self, result: Any) -> None:
        task = result._task
        action = str(task.action)
        for prefix in _BUILTIN:
            action = action[len(prefix) :] if action.startswith(prefix) else action
        if action not in _PREPARES_THE_RUN and task.check_mode is not True:
            self._ran += 1

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._skipped += 1

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if ignore_errors:
            self._ignored += 1
        else:
            self._note_failure(result)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        # The message of a whole loop only says that an item failed.
        self._item = (result._task._uuid, _last_line(result._result))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._note_failure(result)

    def _note_failure(self, result: Any) -> None:
        """Write it down at once: Ansible may give up without coming to its statistics."""
        task, told = result._task, result._result
        hidden = bool(task.no_log) or "censored" in told
        said = self._item[1] if self._item[0] == task._uuid else _last_line(told)
        failed = {
            "task": mask_secrets(str(task.get_name()))[:_LONGEST],
            "hidden": hidden,
            "said": "" if hidden else said[:_LONGEST],
        }
        self._write({"failed": failed})

    def v2_playbook_on_stats(self, stats: Any) -> None:
        found = {
            "ran": self._ran,
            "skipped": self._skipped,
            "ignored": self._ignored,
            "matched": self._matched,
            "unmatched": self._unmatched,
        }
        self._write(found)

    def _write(self, found: dict[str, Any]) -> None:
        self._found.update(found)
        with open(str(self._path), "w", encoding="ascii") as file:
            json.dump(self._found, file)


def _last_line(told: dict[str, Any]) -> str:
    """Return the last line that a program of a task printed, else the first of the message of its module."""
    # With until, the program may have succeeded each time.
    attempts = told.get("attempts")
    printed = ("stderr", "stdout") if told.get("rc") or told.get("failed_when_result") or attempts else ()
    for names, line in (((*printed, "module_stderr"), -1), (("msg", "censored"), 0)):
        for name in names:
            # Before the cut: a secret is known only as a whole.
            lines: list[str] = mask_secrets(str(told.get(name) or "")).strip().splitlines()
            if lines and lines != [_NO_REASON]:
                return lines[line].strip() + (f" (gave up after attempt {attempts})" if attempts else "")
    return f"It gave up after attempt {attempts}." if attempts else "It said nothing."
