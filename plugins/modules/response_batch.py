#!/usr/bin/python
# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Everything happens in the action plugin of the same name, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: response_batch
short_description: Tell which batch of which play this is
version_added: 1.1.0
description:
  - Tells which play this is, and which hosts are in its batch, so that a later task can find out what an earlier batch
    of the same play has noted. No host is asked.
  - Made for the role P(fleetops.azure_maintenance.event_response#role).
extends_documentation_fragment:
  - fleetops.azure_maintenance._response
  - fleetops.azure_maintenance._attributes
attributes:
  action_group:
    support: none
    membership: []
  platform: {}
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Find out which batch of which play this is
  fleetops.azure_maintenance.response_batch:
  register: batch
"""

RETURN = r"""
play:
  description: A mark that no other play of the run has.
  returned: success
  type: str
hosts:
  description: The hosts of the batch that are in the play now.
  returned: success
  type: list
  elements: str
"""
