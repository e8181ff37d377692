# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_plan
short_description: Decide which host approves which event
version_added: 1.0.0
description:
  - Looks at all hosts of a play once they have tried to prepare and been asked again, and returns for each event which
    host is to approve it and for which VMs, or why nobody may.
extends_documentation_fragment:
  - fleetops.azure_maintenance._hostvars
options:
  hosts:
    description: All hosts of the play, C(ansible_play_hosts_all).
    type: list
    elements: str
    required: true
  alive:
    description: Those of them that have not failed and can be reached, C(ansible_play_hosts).
    type: list
    elements: str
    required: true
  batch:
    description: Those of them that the play is at now, C(ansible_play_batch).
    type: list
    elements: str
    required: true
  approve:
    description: Whether anything may be approved.
    type: bool
    default: true
  outside_vms:
    description: What to do about an event that lists a VM that is not a host of the play.
    type: str
    choices: [refuse, ignore]
    default: refuse
  max_wait:
    description: How many seconds an event that is not approved may be waited for.
    type: float
    default: 0.0
  check_mode:
    description: Whether the run only tells what a real one would do, C(ansible_check_mode).
    type: bool
    default: false
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Decide
  ansible.builtin.set_fact:
    plans: "{{ hostvars | fleetops.azure_maintenance.response_plan(
      ansible_play_hosts_all, ansible_play_hosts, ansible_play_batch, outside_vms='ignore') }}"
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - For each event C(event), C(approver), C(resources_ready), C(why), C(blocked), C(wait), C(label), which
      event is approved for whom, and C(held_back), lines that tell an operator what is held back and what to do.
  type: list
  elements: dict
"""

import time
from typing import Any, Callable

from ..plugin_utils._fleet_approval import OTHER_BATCH, REFUSE, plan_response
from ..plugin_utils._fleet_progress import follow_progress, note_boot, rejoin_progress
from ..plugin_utils._fleet_words import tell_held_back, tell_plan
from ..plugin_utils._unsafe import unsafe_filter


def response_plan(
    hostvars: Any,
    hosts: Any,
    alive: Any,
    batch: Any,
    approve: bool = True,
    outside_vms: str = REFUSE,
    max_wait: float = 0.0,
    check_mode: bool = False,
) -> list[dict[str, Any]]:
    now = time.time()
    known = {}
    for host in hosts:
        # Ansible makes the variables of a host anew each time they are asked for.
        variables = hostvars[host]
        name = variables.get("__event_response_name")
        lost = None
        if host not in alive:
            lost = "failed or became unreachable"
        elif host not in batch:
            lost = OTHER_BATCH
        elif not name:
            # The playbook respond has brought it back, or the play leaves it out by a condition.
            lost = "could not be asked" if variables.get("__event_response_answer") else "was not asked"
        known[host] = {
            "resource_name": name,
            "progress": _follow(variables, host, now),
            "lost": lost,
        }
    plans = plan_response(known, approve, outside_vms, max_wait, now)
    progress = {host: known[host]["progress"] for host in hosts}
    return [
        {**plan, "label": tell_plan(plan), "held_back": tell_held_back(plan, progress, max_wait, now, check_mode)}
        for plan in plans
    ]


def _follow(variables: Any, host: str, now: float) -> list[dict[str, Any]]:
    progress = variables.get("__event_response_progress") or []
    answer = variables.get("__event_response_answer")
    if not progress or not answer:
        return progress
    boot = variables.get("__event_response_boot") or {}
    return note_boot(follow_progress(rejoin_progress(progress, host), answer, now), boot)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_plan": unsafe_filter(response_plan)}
