# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_restores
short_description: Tell after which events a host is to be restored now
version_added: 1.1.0
description:
  - Returns the part of the progress of a host after whose events it is to be restored now. None, while one of its
    events is to come or it cannot be reached.
extends_documentation_fragment:
  - fleetops.azure_maintenance._progress
options:
  check_mode:
    description: Whether the run only says what it would do, and waits for nothing.
    type: bool
    default: false
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Show after which events this host is to be restored
  ansible.builtin.debug:
    msg: "{{ progress | fleetops.azure_maintenance.response_restores }}"
"""

RETURN = r"""
_value:
  description: The progress of these events.
  type: list
  elements: dict
"""

from typing import Any, Callable

from ..plugin_utils._fleet_progress import is_awaited, must_restore
from ..plugin_utils._unsafe import unsafe_filter


def response_restores(progress: Any, check_mode: bool = False) -> list[dict[str, Any]]:
    if not check_mode and any(map(is_awaited, progress)):
        return []
    return [each for each in progress if must_restore(each)]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_restores": unsafe_filter(response_restores)}
