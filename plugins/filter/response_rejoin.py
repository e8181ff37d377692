# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_rejoin
short_description: Note as failed a preparation in which the host was lost
version_added: 1.0.0
description:
  - Returns the progress of the events of a host, of which a preparation that was begun and neither succeeded nor failed
    is noted as failed, and which is brought up to date by a new answer.
extends_documentation_fragment:
  - fleetops.azure_maintenance._progress
options:
  host:
    description: The name of the host, for the reason that is noted.
    type: str
    required: true
  answer:
    description: What M(fleetops.azure_maintenance.scheduled_events_info) returned for it since, as for
      P(fleetops.azure_maintenance.response_follow#filter).
    type: dict
    required: true
  boot:
    description: What M(fleetops.azure_maintenance.response_boot) returned for it since, if it was asked.
    type: dict
    default: {}
    version_added: 1.1.0
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Note as failed a preparation in which this host was lost
  ansible.builtin.set_fact:
    progress: "{{ progress | fleetops.azure_maintenance.response_rejoin(inventory_hostname, asked) }}"
"""

RETURN = r"""
_value:
  description: The progress of the events of the host.
  type: list
  elements: dict
"""

import time
from typing import Any, Callable

from ..plugin_utils._fleet_progress import follow_progress, note_boot, rejoin_progress
from ..plugin_utils._unsafe import unsafe_filter


def response_rejoin(progress: Any, host: str, answer: Any, boot: Any = None) -> list[dict[str, Any]]:
    return note_boot(follow_progress(rejoin_progress(progress, host), answer, time.time()), boot or {})


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_rejoin": unsafe_filter(response_rejoin)}
