# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = """
name: keep_results
author: fleetops contributors
type: aggregate
short_description: Write down what the modules of this collection return
description:
  - Appends a line of JSON with the host, the name of the task and its result to a file, in the order in which the tasks
    end.
options:
  path:
    description: The file.
    type: path
    required: true
    env:
      - name: KEEP_RESULTS
"""

import json

from ansible.plugins.callback import CallbackBase

MODULES = ("scheduled_events_info", "scheduled_event_approve")


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "keep_results"
    CALLBACK_NEEDS_ENABLED = True

    def _keep(self, result, **_options):
        if str(result._task.resolved_action).rpartition(".")[2] in MODULES:
            said = json.loads(self._dump_results(result._result, keep_invocation=True))
            # From ansible-core 2.21 on the name of the role stands before that of the task.
            line = json.dumps([result._host.get_name(), result.task_name.rpartition(" : ")[2], said])
            with open(self.get_option("path"), "a", encoding="utf-8") as file:
                file.write(line + "\n")

    v2_runner_on_ok = v2_runner_on_failed = v2_runner_on_unreachable = _keep
