# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_close
short_description: Note at the end what was not restored
version_added: 1.1.0
description:
  - Returns the progress of the events of a host, in which each event has failed that the host was prepared for, and
    after which it is not known to be restored.
extends_documentation_fragment:
  - fleetops.azure_maintenance._progress
options:
  host:
    description: The name of the host, for the reason that is noted.
    type: str
    required: true
  may_stay:
    description: Whether the host may stay prepared for an event that is still to come.
    type: bool
    default: false
  wait_timeout:
    description: How many seconds the end of an event was waited for.
    type: float
    default: 0.0
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Note what was not restored
  ansible.builtin.set_fact:
    progress: "{{ progress | fleetops.azure_maintenance.response_close(inventory_hostname, false, 3600) }}"
"""

RETURN = r"""
_value:
  description: The progress of the events of the host.
  type: list
  elements: dict
"""

from typing import Any, Callable

from ..plugin_utils._fleet_verdict import close_progress
from ..plugin_utils._unsafe import unsafe_filter


def response_close(progress: Any, host: str, may_stay: bool = False, wait_timeout: float = 0.0) -> list[dict[str, Any]]:
    return close_progress(progress, host, may_stay, wait_timeout)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_close": unsafe_filter(response_close)}
