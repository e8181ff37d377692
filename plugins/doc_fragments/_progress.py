# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the filters of the role event_response for one host are given and made for."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  _input:
    description: The progress of the events of a host.
    type: list
    elements: dict
    required: true
notes:
  - Made for the role P(fleetops.azure_maintenance.event_response#role), which keeps the progress of each event that
    affects a host in a list.
"""
