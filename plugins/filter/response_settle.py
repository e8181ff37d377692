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
  max_wait:
    description: How many seconds an event may be waited for whose approval was refused.
    type: float
    default: 0.0
    version_added: 1.1.0
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

from ..plugin_utils._fleet_progress import progress_key
from ..plugin_utils._fleet_settle import read_approvals, settle_progress
from ..plugin_utils._unsafe import unsafe_filter


def response_settle(
    progress: Any, plans: Any, hostvars: Any, wait: bool = True, max_wait: float = 0.0
) -> list[dict[str, Any]]:
    own = {progress_key(each) for each in progress}
    plans = [plan for plan in plans if progress_key(plan) in own]
    return settle_progress(progress, plans, read_approvals(plans, hostvars), wait, time.time(), max_wait)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_settle": unsafe_filter(response_settle)}
