# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_round
short_description: Tell when the next round of waiting ends
version_added: 1.1.0
description:
  - Hosts of a play wait for each other, so the end of events is waited for in rounds, which grow with the time waited.
  - Made for the role P(fleetops.azure_maintenance.event_response#role). All times are in seconds since 1970.
options:
  _input:
    description: When the first round began.
    type: float
    required: true
  last_round_end:
    description: When the last round was to end, 0 before the first.
    type: float
    required: true
  deadline:
    description: When the waiting ends.
    type: float
    required: true
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Begin a round
  ansible.builtin.set_fact:
    round_end: "{{ waits_since | fleetops.azure_maintenance.response_round(round_end, deadline) }}"
"""

RETURN = r"""
_value:
  description: When the next round ends.
  type: float
"""

import time
from typing import Any, Callable

from ..plugin_utils._fleet_rounds import next_round_end
from ..plugin_utils._unsafe import unsafe_filter


def response_round(waits_since: Any, last_round_end: Any, deadline: Any) -> float:
    return next_round_end(time.time(), float(waits_since), float(last_round_end), float(deadline))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_round": unsafe_filter(response_round)}
