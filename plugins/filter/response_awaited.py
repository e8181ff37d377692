# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_awaited
short_description: Tell which hosts of a fleet are awaited
version_added: 1.1.0
description:
  - Returns the hosts that stay prepared until an event has ended, and those that must be restored and cannot be
    reached.
extends_documentation_fragment:
  - fleetops.azure_maintenance._hostvars
options:
  hosts:
    description: The hosts of the play.
    type: list
    elements: str
    required: true
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Find out who is awaited
  ansible.builtin.set_fact:
    awaited: "{{ hostvars | fleetops.azure_maintenance.response_awaited(ansible_play_hosts) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - C(since), seconds since 1970, and C(progress), in which each host that is awaited has the progress of its events.
  type: dict
"""

import time
from typing import Any, Callable

from ..plugin_utils._fleet_progress import is_awaited
from ..plugin_utils._unsafe import unsafe_filter


def response_awaited(hostvars: Any, hosts: Any) -> dict[str, Any]:
    awaited = {}
    for host in hosts:
        variables = hostvars[host]
        progress = variables.get("__event_response_progress") or []
        # Who did not come in time is given up.
        if any(map(is_awaited, progress)) and not variables.get("__event_response_over"):
            awaited[host] = progress
    return {"since": time.time(), "progress": awaited}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_awaited": unsafe_filter(response_awaited)}
