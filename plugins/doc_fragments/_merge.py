# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the filters that merge parts."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  hosts:
    description: Hosts that the result must have. A host that no part has is named as not asked.
    type: list
    elements: str
    default: []
  max_age:
    description: Leave out parts that are older than so many seconds. 0 takes all.
    type: float
    default: 0
  now:
    description: The time of the result, as C(2026-11-21T10:00:00Z). Now if not set.
    type: str
"""
