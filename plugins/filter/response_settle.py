# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_settle
short_description: Note which events of a host were approved
version_added: 1.0.0
description:
  - Returns the progress of the events of a host with what became of the plans for its events.
extends_documentation_fragment:
  - fleetops.azure_maintenance._progress
options:
  plans:
    description: What P(fleetops.azure_maintenance.response_plan#filter) returned.
    type: list
    elements: dict
    required: true
  hostvars:
    description: C(hostvars), in which each host has what M(fleetops.azure_maintenance.scheduled_event_approve)
      returned in a loop over its plans.
    type: dict
    required: true
  wait:
    description: Whether the end of the events is waited for.
    type: bool
    default: true
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Note what was approved
  ansible.builtin.set_fact:
    progress: "{{ progress | fleetops.azure_maintenance.response_settle(plans, hostvars) }}"
"""

RETURN = r"""
_value:
  description: The progress of the events of the host.
  type: list
  elements: dict
"""

import time
from typing import Any, Callable

from ..plugin_utils._fleet_progress import progress_key, settle_progress
from ..plugin_utils._unsafe import unsafe_filter


def response_settle(progress: Any, plans: Any, hostvars: Any, wait: bool = True) -> list[dict[str, Any]]:
    own = {progress_key(each) for each in progress}
    approvers = {plan["approver"] for plan in plans if plan["approver"] and progress_key(plan) in own}
    results = {host: (hostvars[host].get("__event_response_approvals") or {}).get("results", ()) for host in approvers}
    return settle_progress(progress, plans, results, wait, time.time())


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_settle": unsafe_filter(response_settle)}
