# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = """
name: keep_depth
author: fleetops contributors
type: aggregate
short_description: Write down how deep the files of the rounds of waiting include each other
description:
  - Appends a line with the number of includes around it for each task that waits, in the order of the tasks.
options:
  path:
    description: The file.
    type: path
    required: true
    env:
      - name: KEEP_DEPTH
"""

from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "keep_depth"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_task_start(self, task, is_conditional):
        if not task.get_name().endswith("Wait, and ask until something changes"):
            return
        depth, parent = 0, task._parent
        while parent is not None:
            depth += isinstance(parent, TaskInclude)
            parent = parent._parent
        with open(self.get_option("path"), "a", encoding="ascii") as file:
            file.write(f"{depth}\n")
