# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_named
short_description: Find the events that a run is limited to
version_added: 1.1.0
description:
  - Finds the events that are named by an id or by the beginning of one, among those that all hosts of a play were told.
extends_documentation_fragment:
  - fleetops.azure_maintenance._hostvars
options:
  hosts:
    description: All hosts of the play, C(ansible_play_hosts_all).
    type: list
    elements: str
    required: true
  event_ids:
    description: The ids, or their beginnings.
    type: list
    elements: str
    required: true
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Find the events that are named
  ansible.builtin.set_fact:
    named: "{{ hostvars | fleetops.azure_maintenance.response_named(ansible_play_hosts_all, ['c7061bac']) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: >-
    C(event_ids), the whole ids, null where O(event_ids) is empty; C(faults), a sentence for each id that names no event
    or several.
  type: dict
"""

from typing import Any, Callable

from ..plugin_utils._fleet_named import find_wanted
from ..plugin_utils._unsafe import unsafe_filter


def response_named(hostvars: Any, hosts: Any, event_ids: Any) -> dict[str, Any]:
    return find_wanted(event_ids, {host: hostvars[host].get("__event_response_answer") for host in hosts})


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_named": unsafe_filter(response_named)}
