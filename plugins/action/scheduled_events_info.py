# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asks the VM, and applies ``query`` to the answer on the controller, so that VMs need no JMESPath library."""

from __future__ import annotations

import json
import sys
from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._errors import escape
from ..plugin_utils._unsafe import mark_unsafe
from ..plugin_utils._windows.dispatch import run_module

MODULE = "fleetops.azure_maintenance.scheduled_events_info"
# The keys that Ansible adds to a result
_ADDED_BY_ANSIBLE = ("warnings", "deprecations")


class QueryError(Exception):
    """The query cannot be used; the message says why."""


class ActionModule(ActionBase):
    _supports_async = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        query = arguments.pop("query", None)
        # A result with the fault, not an exception: Ansible applies failed_when to results only.
        try:
            compiled = self._compile(query) if query not in (None, "") else None
        except QueryError as error:
            result.update(failed=True, msg=mark_unsafe(str(error)))
            return result
        result.update(run_module(self, MODULE, arguments, task_vars))
        if compiled is not None and not result.get("failed"):
            try:
                result["query_result"] = mark_unsafe(self._apply(compiled, query, result))
            except QueryError as error:
                result.update(failed=True, msg=mark_unsafe(str(error)))
        return result

    def _compile(self, query: Any) -> Any:
        """Return the compiled query; its faults are found before the VM is asked."""
        if not isinstance(query, str):
            raise QueryError(f"query must be a string that holds a JMESPath expression, not {query!r}.")
        try:
            # Every worker loads the plugin anew, and most tasks have no query.
            import jmespath
        except ImportError as error:
            raise QueryError(
                f"query needs the Python library jmespath on the controller: install it for {sys.executable}."
            ) from error
        if self._task.async_val:
            raise QueryError("query cannot be used with async: leave it out, and query the result of the job.")
        try:
            return jmespath.compile(query)
        except jmespath.exceptions.JMESPathError as error:
            raise QueryError(f"query must be a JMESPath expression, not {query!r}: {error}") from error

    def _apply(self, compiled: Any, query: str, result: dict[str, Any]) -> Any:
        # JMESPath knows plain types only. Newer ansible-core has its own types for strings, and objects for warnings.
        answer = {name: result[name] for name in result if not name.startswith("_") and name not in _ADDED_BY_ANSIBLE}
        plain = json.loads(json.dumps(answer))
        try:
            return compiled.search(plain)
        except Exception as error:
            # The library lets errors of Python through, and its messages repeat the whole answer.
            raise QueryError(f"query {query!r} cannot be applied to the answer: {escape(str(error)[:200])}") from error
