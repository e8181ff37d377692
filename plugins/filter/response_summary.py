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
  - Made for the role P(fleetops.azure_maintenance.event_response#role), which keeps the progress of each event that
    affects a host in a list.
options:
  _input:
    description: C(hostvars).
    type: dict
    required: true
  hosts:
    description: The hosts to sum up.
    type: list
    elements: str
    required: true
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
  type: dict
"""

from typing import Any, Callable

from ..plugin_utils._fleet_progress import summarize


def response_summary(hostvars: Any, hosts: Any) -> dict[str, Any]:
    return summarize({host: hostvars[host].get("__event_response_progress") or [] for host in hosts})


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_summary": response_summary}
