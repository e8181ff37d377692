# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_mark
short_description: Note something of one event of a host
version_added: 1.0.0
description:
  - Returns the progress of the events of a host, with one of them changed.
extends_documentation_fragment:
  - fleetops.azure_maintenance._progress
options:
  event_id:
    description: The event.
    type: str
    required: true
  changes:
    description: What is to be noted, such as C(prepared=true). C(why) is added to the reasons that are noted already.
    type: dict
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Note that the host is prepared
  ansible.builtin.set_fact:
    progress: "{{ progress | fleetops.azure_maintenance.response_mark(event_id, {'prepared': true}) }}"
"""

RETURN = r"""
_value:
  description: The progress of the events of the host.
  type: list
  elements: dict
"""

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._fleet_progress import mark_progress
from ..plugin_utils._unsafe import unsafe_filter


def response_mark(progress: Any, event_id: str, changes: Any) -> list[dict[str, Any]]:
    try:
        return mark_progress(progress, event_id, **changes)
    except ValueError as error:
        raise AnsibleFilterError(f"response_mark: {error}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_mark": unsafe_filter(response_mark)}
