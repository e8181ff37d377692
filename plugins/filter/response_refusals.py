# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_refusals
short_description: Tell which events are held back because their approval was refused
version_added: 1.1.0
description:
  - Returns lines that tell an operator of each event whose approval was certainly refused, by Azure or by the module,
    what is held back and what to do, as P(fleetops.azure_maintenance.response_plan#filter) does of the others.
  - Made for the role P(fleetops.azure_maintenance.event_response#role).
options:
  _input:
    description: What P(fleetops.azure_maintenance.response_plan#filter) returned.
    type: list
    elements: dict
    required: true
  hostvars:
    description: C(hostvars), as for P(fleetops.azure_maintenance.response_settle#filter).
    type: dict
    required: true
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
- name: Say what was refused
  ansible.builtin.debug:
    msg: "{{ plans | fleetops.azure_maintenance.response_refusals(hostvars, 3600) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

import time
from typing import Any, Callable

from ..plugin_utils._fleet_settle import hold_back_refused, read_approvals
from ..plugin_utils._fleet_words import tell_held_back
from ..plugin_utils._unsafe import unsafe_filter


def response_refusals(plans: Any, hostvars: Any, max_wait: float = 0.0, check_mode: bool = False) -> list[str]:
    now = time.time()
    refused = hold_back_refused(plans, read_approvals(plans, hostvars), max_wait, now)
    return [
        line
        for before, plan in zip(plans, refused)
        if before["approver"] and not plan["approver"]
        for line in tell_held_back(plan, {}, max_wait, now, check_mode)
    ]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_refusals": unsafe_filter(response_refusals)}
