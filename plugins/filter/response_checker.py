# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_checker
short_description: Tell whether a host is prepared by its own checker
version_added: 1.1.0
description:
  - Reads what the checker of a host says of an event.
  - Made for the role P(fleetops.azure_maintenance.event_response#role), which keeps the progress of each event that
    affects a host in a list.
options:
  _input:
    description: What C(azure-maintenance status --json) printed on the host.
    type: str
    required: true
  event_id:
    description: The event.
    type: str
    required: true
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Show why this host is not prepared
  ansible.builtin.debug:
    msg: "{{ (said.stdout | fleetops.azure_maintenance.response_checker(event.event_id)).why_not }}"
"""

RETURN = r"""
_value:
  description: >-
    C(why_not), why the host does not count as prepared for the event in this boot, as a sentence, an empty string where
    it does; C(preparing), whether it may be prepared soon.
  type: dict
"""

from typing import Any, Callable

from ..plugin_utils._fleet_checker import read_checker
from ..plugin_utils._unsafe import unsafe_filter


def response_checker(answer: Any, event_id: Any) -> dict[str, Any]:
    return read_checker(str(answer), str(event_id))._asdict()


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_checker": unsafe_filter(response_checker)}
