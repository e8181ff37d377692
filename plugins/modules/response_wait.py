#!/usr/bin/python
# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Everything happens in the action plugin of the same name, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: response_wait
short_description: Wait until the events of a host have ended
version_added: 1.1.0
description:
  - Asks again and again, and tells once a minute who is awaited. Returns early when another host is done.
  - Made for the role P(fleetops.azure_maintenance.event_response#role).
extends_documentation_fragment:
  - fleetops.azure_maintenance._response
  - fleetops.azure_maintenance._imds
  - fleetops.azure_maintenance._attributes
attributes:
  action_group: {}
  platform: {}
options:
  progress:
    description: The progress of the events of this host.
    type: list
    elements: dict
    required: true
  awaited:
    description: What P(fleetops.azure_maintenance.response_awaited#filter) returned.
    type: dict
    required: true
  waits_since:
    description: When the waiting began, in seconds since 1970.
    type: float
    required: true
  deadline:
    description: When the waiting ends, in seconds since 1970.
    type: float
    required: true
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Wait until the events have ended
  fleetops.azure_maintenance.response_wait:
    progress: "{{ progress }}"
    awaited: "{{ awaited }}"
    waits_since: "{{ now().timestamp() }}"
    deadline: "{{ now().timestamp() + 3600 }}"
  register: waited
"""

RETURN = r"""
progress:
  description: The progress of the events of this host by now.
  returned: success
  type: list
  elements: dict
"""
