# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: response_begin
short_description: Note that the preparation for an event begins
version_added: 1.1.0
description:
  - Returns the progress of the events of a host, of which the next one to prepare for is noted as begun.
extends_documentation_fragment:
  - fleetops.azure_maintenance._progress
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Note that the preparation for the first event begins
  ansible.builtin.set_fact:
    progress: "{{ progress | fleetops.azure_maintenance.response_begin }}"
"""

RETURN = r"""
_value:
  description: The progress of the events of the host.
  type: list
  elements: dict
"""

from typing import Any, Callable

from ..plugin_utils._fleet_progress import begin_preparation
from ..plugin_utils._unsafe import unsafe_filter


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"response_begin": unsafe_filter(begin_preparation)}
