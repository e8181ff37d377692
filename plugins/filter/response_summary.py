# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_summary
short_description: Sum up what became of the events of a fleet
version_added: 1.0.0
description:
  - Merges what all hosts know of each event.
extends_documentation_fragment:
  - fleetops.azure_maintenance._hostvars
options:
  hosts:
    description: The hosts to sum up.
    type: list
    elements: str
    required: true
  asked_only:
    description: Whether hosts that were not asked are left out, as those in later batches of a play.
    type: bool
    default: false
  check_mode:
    description: Whether the run only says what it would do.
    type: bool
    default: false
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Sum up
  ansible.builtin.debug:
    msg: "{{ hostvars | fleetops.azure_maintenance.response_summary(ansible_play_hosts_all) }}"
"""

RETURN = r"""
_value:
  description: C(events), and how many of them were C(approved), C(completed), C(withdrawn) and C(failed).
    C(not_asked) and C(not_restored) are hosts, C(faults) says of each host what did not go as it should,
    C(failed_before) are the hosts of which an earlier batch of the play has said so, and C(lines) says all of it in
    words.
  type: dict
"""

from typing import Any, Callable

from ansible.module_utils.parsing.convert_bool import boolean

from ..plugin_utils._fleet_verdict import close_progress, find_empty, find_faults, summarize
from ..plugin_utils._fleet_words import tell_outcome
from ..plugin_utils._unsafe import unsafe_filter


def response_summary(hostvars: Any, hosts: Any, asked_only: bool = False, check_mode: bool = False) -> dict[str, Any]:
    progress: dict[str, Any] = {}
    answers = {}
    failed_before: dict[str, None] = {}
    named: Any = ()
    for host in hosts:
        variables = hostvars[host]
        failed_before.update(dict.fromkeys(variables.get("__event_response_faults") or ()))
        followed, answer = variables.get("__event_response_progress"), variables.get("__event_response_answer")
        if followed is None and answer is None and asked_only:
            continue
        answers[host] = answer
        progress[host] = None
        if followed is not None:
            settings = variables["__event_response_settings"]
            # They are the same for all hosts.
            named = settings.get("event_ids")
            waited = float(settings["wait_timeout"]) if variables.get("__event_response_over") else None
            progress[host] = close_progress(followed, host, not boolean(settings["wait"]), waited)
    faults = find_faults(progress, answers, named)
    summary = summarize(progress)
    return {
        **summary,
        "faults": faults,
        "failed_before": list(failed_before),
        "lines": tell_outcome(summary, faults, check_mode, find_empty(progress, answers)),
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_summary": unsafe_filter(response_summary)}
