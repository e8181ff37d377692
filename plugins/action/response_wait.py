# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asks a host again and again until its events have ended, without a line of output for each time."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.plugins.connection import ConnectionBase
from ansible.utils.display import Display

from ..plugin_utils._fleet_progress import follow_progress, is_awaited
from ..plugin_utils._fleet_rounds import pause_between, turn_length
from ..plugin_utils._fleet_words import tell_waiting
from ..plugin_utils._unsafe import mark_unsafe

QUERY = "fleetops.azure_maintenance.scheduled_events_info"
_OWN = ("progress", "awaited", "waits_since", "deadline")
_SECONDS_BETWEEN_LINES = 60

display = Display()


class ActionModule(ActionBase):
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        arguments = {name: value for name, value in self._task.args.items() if name not in _OWN and value != ""}
        result["progress"] = mark_unsafe(self._wait(arguments, task_vars))
        result["changed"] = False
        return result

    def _wait(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> list[dict[str, Any]]:
        own = self._task.args
        awaited = {host: list(progress) for host, progress in own["awaited"]["progress"].items()}
        waits_since, deadline = float(own["waits_since"]), float(own["deadline"])
        host = task_vars["inventory_hostname"]
        # All hosts of a round know this one; who is done makes it, and the others return to let that one be restored.
        somebody_is_done = Path(C.DEFAULT_LOCAL_TMP) / f"response_wait_{own['awaited']['since']}"
        length = turn_length(len(awaited), _forks(), time.time() - waits_since)
        turn_ends = deadline if length is None else min(deadline, time.time() + length)
        progress = list(own["progress"])
        while True:
            progress = follow_progress(progress, self._ask(arguments, task_vars), time.time())
            if not any(map(is_awaited, progress)):
                somebody_is_done.touch()
                return progress
            awaited[host] = progress
            if host == next(iter(awaited)):
                _tell(tell_waiting(awaited, deadline, time.time()))
            pause_ends = min(turn_ends, time.time() + pause_between(time.time() - waits_since))
            while time.time() < pause_ends and not somebody_is_done.exists():
                time.sleep(min(1.0, max(0.0, pause_ends - time.time())))
            if time.time() >= turn_ends or somebody_is_done.exists():
                return progress

    def _ask(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        task = self._task.copy()
        task.args = {**arguments, "scope": "all"}
        action = self._shared_loader_obj.action_loader.get(
            QUERY,
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        try:
            answer: dict[str, Any] = action.run(task_vars=task_vars)
        except AnsibleConnectionFailure as error:
            self._leave_connection()
            return {"unreachable": True, "msg": str(error)}
        except AnsibleError as error:
            # A host that goes down or comes up has more ways to fail, such as a prompt of sudo that does not come.
            self._leave_connection()
            return {"failed": True, "msg": str(error)}
        return answer

    def _leave_connection(self) -> None:
        """A host that comes back from a reboot has no connection and no temporary folder of ours."""
        self._connection._shell.tmpdir = None
        if type(self._connection).reset is ConnectionBase.reset:
            # That one does nothing but print a warning.
            return
        try:
            self._connection.reset()
        except AnsibleError as error:
            display.vvv(f"The connection could not be reset: {error}")


def _forks() -> int:
    return int(context.CLIARGS.get("forks") or C.DEFAULT_FORKS)


def _tell(line: str) -> None:
    """Show a line, unless there was one less than a minute ago."""
    last = Path(C.DEFAULT_LOCAL_TMP) / "response_wait_told"
    if last.exists() and time.time() - os.stat(last).st_mtime < _SECONDS_BETWEEN_LINES:
        return
    last.touch()
    display.display(line)
