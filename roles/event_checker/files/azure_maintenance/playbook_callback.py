# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A callback plugin of Ansible that writes down which tasks ran; playbook_evidence.py lends it to a run and reads that.

It is never part of the program: ansible-playbook imports it, which may be any release from 2.10 on.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: azure_maintenance_checker
type: notification
short_description: Write down which tasks ran
description:
  - Used by the checker of the collection fleetops.azure_maintenance for the playbooks that it runs.
"""

# What prepares the run itself and does nothing on the VM: facts, variables, hosts, and what brings other tasks.
_PREPARES_THE_RUN = {
    *("gather_facts", "setup", "package_facts", "service_facts", "mount_facts", "set_fact", "include_vars"),
    *("add_host", "group_by", "meta", "include", "include_tasks", "include_role", "import_tasks", "import_role"),
}
_BUILTIN = ("ansible.builtin.", "ansible.legacy.")


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types.
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "azure_maintenance_checker"

    def __init__(self) -> None:
        super().__init__()
        # An ansible-playbook that a task starts must not write into the same file.
        self._path = os.environ.pop("AZURE_MAINTENANCE_TASKS", None)
        self.disabled = self._path is None
        self._ran = self._skipped = self._ignored = self._matched = 0
        self._unmatched: list[str] = []
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

    def v2_playbook_on_stats(self, stats: Any) -> None:
        found = {
            "ran": self._ran,
            "skipped": self._skipped,
            "ignored": self._ignored,
            "matched": self._matched,
            "unmatched": self._unmatched,
        }
        with open(str(self._path), "w", encoding="ascii") as file:
            json.dump(found, file)
