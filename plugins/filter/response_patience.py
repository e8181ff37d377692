# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_patience
short_description: Tell for how long a host is awaited
version_added: 1.1.0
description:
  - Returns for how many seconds an event of the host is awaited, or the host itself where it must be restored and
    cannot be reached; 0 where nothing is awaited.
extends_documentation_fragment:
  - fleetops.azure_maintenance._progress
options:
  wait_timeout:
    description: Seconds for an event.
    type: float
    required: true
  reconnect_timeout:
    description: Seconds for a host none of whose events is awaited.
    type: float
    required: true
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Show for how long this host is awaited
  ansible.builtin.debug:
    msg: "{{ progress | fleetops.azure_maintenance.response_patience(3600, 300) }}"
"""

RETURN = r"""
_value:
  description: The seconds.
  type: float
"""

from typing import Any, Callable

from ..plugin_utils._fleet_progress import is_awaited, is_coming
from ..plugin_utils._unsafe import unsafe_filter


def response_patience(progress: Any, wait_timeout: float, reconnect_timeout: float) -> float:
    if any(map(is_coming, progress)):
        return wait_timeout
    return min(wait_timeout, reconnect_timeout) if any(map(is_awaited, progress)) else 0.0


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_patience": unsafe_filter(response_patience)}
