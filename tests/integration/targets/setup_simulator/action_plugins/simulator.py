# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls the control API of the simulator, for the tasks of this role.

From the controller, which is the machine the simulator runs on: a test makes hundreds of these calls, and each costs a
twentieth of what ansible.builtin.uri would.
"""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Options: url, and calls, a list of {method, path, body}. Returns the decoded answers."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        server = urlsplit(self._task.args["url"]).netloc
        result["answers"] = [self._call(server, **call) for call in self._task.args["calls"]]
        return result

    def _call(self, server: str, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection(server, timeout=30)
        try:
            content = None if body is None else json.dumps(body).encode("ascii")
            connection.request(method, "/simulator/" + quote(path), content)
            answer = connection.getresponse()
            told = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status >= 400:
            raise AnsibleActionFail(f"{method} /simulator/{path}: HTTP {answer.status}, {told['error']}")
        return told
