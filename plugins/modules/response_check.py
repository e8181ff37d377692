#!/usr/bin/python
# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Everything happens in the action plugin of the same name, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: response_check
short_description: Check what the role event_response is given
version_added: 1.1.0
description:
  - Loads the files with the tasks of prepare and restore as a whole, with the files and roles they include by a literal
    name, and fails with a sentence for each fault. No host is asked.
  - Runs once for all hosts of a play, and is refused under the strategy free.
  - Made for the role P(fleetops.azure_maintenance.event_response#role) and the playbook C(rehearse).
extends_documentation_fragment:
  - fleetops.azure_maintenance._response
  - fleetops.azure_maintenance._attributes
attributes:
  action_group:
    support: none
    membership: []
  platform: {}
options:
  prepare:
    description: The file with the tasks that prepare a host, or the word V(nothing) or V(checker).
    type: str
  restore:
    description: The file with the tasks that restore a host, or the word V(nothing).
    type: str
  due_within:
    description: A number of seconds, or nothing.
    type: str
  prefix:
    description: What stands before V(_prepare) and V(_restore) in the name of the variable that a fault begins with.
    type: str
    default: event_response
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Check the task files
  fleetops.azure_maintenance.response_check:
    prepare: drain.yml
    restore: refill.yml
"""

RETURN = r"""
msg:
  description: What is wrong.
  returned: failure
  type: str
"""
