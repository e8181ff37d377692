# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the filters that make a part out of the results of the hosts of a run."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  name:
    description: The name of the part, for messages.
    type: str
    default: part
  now:
    description: The time of asking, as C(2026-11-21T10:00:00Z). Now if not set.
    type: str
"""
