# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_follow
short_description: Begin or go on to follow the events of a host
version_added: 1.0.0
description:
  - Takes what M(fleetops.azure_maintenance.scheduled_events_info) returned for a host, and returns what is known of its
    events by now.
  - An event that is no longer in the document has ended. Where there was no document, nothing has ended.
  - Made for the role P(fleetops.azure_maintenance.event_response#role), which keeps the progress of each event that
    affects a host in a list.
options:
  _input:
    description: What was known before. V(none) begins anew, with the events of the answer that list the host.
    type: list
    elements: dict
    required: true
  answer:
    description: The registered result. It must hold all events of the host's document that are followed.
    type: dict
    required: true
  event_ids:
    description: Begin with the events with these ids only. V(none) takes all.
    type: list
    elements: str
    version_added: 1.1.0
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Ask
  fleetops.azure_maintenance.scheduled_events_info:
  register: asked

- name: Begin to follow the events
  ansible.builtin.set_fact:
    progress: "{{ none | fleetops.azure_maintenance.response_follow(asked) }}"
"""

RETURN = r"""
_value:
  description: The progress of the events of the host.
  type: list
  elements: dict
"""

import time
from typing import Any, Callable

from ..plugin_utils._fleet_progress import begin_progress, follow_progress
from ..plugin_utils._unsafe import unsafe_filter


def response_follow(progress: Any, answer: Any, event_ids: Any = None) -> list[dict[str, Any]]:
    if progress is None:
        return begin_progress(answer, time.time(), event_ids)
    return follow_progress(progress, answer, time.time())


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_follow": unsafe_filter(response_follow)}
