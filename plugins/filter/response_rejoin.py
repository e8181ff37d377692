# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_rejoin
short_description: Take in that a host was lost while it was prepared
version_added: 1.0.0
description:
  - Returns the courses of a host to which the connection was lost before it could tell how far it was.
  - Made for the role P(fleetops.azure_maintenance.event_response#role), which keeps a list of courses for each host,
    one for each event that affects it.
options:
  _input:
    description: The courses of a host.
    type: list
    elements: dict
    required: true
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Take in that this host was lost on the way
  ansible.builtin.set_fact:
    courses: "{{ courses | fleetops.azure_maintenance.response_rejoin }}"
"""

RETURN = r"""
_value:
  description: The list of courses.
  type: list
  elements: dict
"""

from typing import Any, Callable

from ..plugin_utils._response import rejoin_courses
from ..plugin_utils._unsafe import unsafe_filter


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_rejoin": unsafe_filter(rejoin_courses)}
