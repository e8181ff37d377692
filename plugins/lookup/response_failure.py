# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_failure
short_description: Tell in a rescue which task failed, and why
version_added: 1.1.0
description:
  - Returns one sentence with the name of the task that failed and its reason, of a command what it wrote to stderr.
  - Of a task with C(no_log) it tells no reason.
  - A lookup, because naming C(ansible_failed_task) in a template runs the templates of that task anew. Of an include
    that could not be loaded Ansible keeps nothing, so that the sentence refers to the output.
  - Made for the role P(fleetops.azure_maintenance.event_response#role).
options:
  _terms:
    description: Names of tasks that the sentence leaves out, because the reason says enough.
    type: list
    elements: str
    default: []
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Prepare, or say why not
  block:
    - name: Fail
      ansible.builtin.command: "false"
  rescue:
    - name: Say why not
      ansible.builtin.debug:
        msg: "{{ lookup('fleetops.azure_maintenance.response_failure') }}"
"""

RETURN = r"""
_raw:
  description: The sentence.
  type: list
  elements: str
"""

from typing import Any

from ansible.plugins.lookup import LookupBase

from ..plugin_utils._fleet_parts import tell_failure
from ..plugin_utils._unsafe import mark_unsafe

_LONGEST = 500
_HIDDEN = "the task has no_log, so its reason is hidden."
_UNKNOWN = "a file or role that it includes could not be loaded, or Ansible told nothing; see the output above."


class LookupModule(LookupBase):
    def run(self, terms: Any, variables: Any = None, **kwargs: Any) -> list[str]:
        task = (variables or {}).get("ansible_failed_task") or {}
        result = (variables or {}).get("ansible_failed_result") or {}
        if not result:
            return [mark_unsafe(_UNKNOWN)]
        name = str(task.get("name") or "")
        reason = _HIDDEN if _is_hidden(task, result) else tell_failure(result)
        told = ": ".join(part for part in ("" if name in terms else name, reason) if part)
        told = told[:_LONGEST] + ("…" if len(told) > _LONGEST else "")
        # Another sentence may follow.
        return [mark_unsafe(told if told.endswith((".", "!", "?", "…")) else f"{told}.")]


def _is_hidden(task: Any, result: Any) -> bool:
    """Tell whether no_log hides the result, also where it is a template, which is not evaluated anew."""
    no_log = str(task.get("no_log") or "").strip().lower()
    return bool(result.get("_ansible_no_log")) or no_log not in ("", "false", "no", "off", "n", "f", "0")
