# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation alone: the action plugin of the same name does the work. ansible-test finds none in a file of YAML.

from __future__ import annotations

DOCUMENTATION = r"""
module: event_response_step
short_description: A step of the role event_response
version_added: 1.1.0
description:
  - Made for the role P(fleetops.azure_maintenance.event_response#role), and for nobody else. It may change in any
    release.
  - Everything happens on the controller, but for the question which events affect a host, and for the mark of a VM.
extends_documentation_fragment:
  - fleetops.azure_maintenance._attributes
attributes:
  action_group: {}
  platform: {}
  action:
    description: Is an action plugin.
    support: full
  async:
    description: Can be used with C(async).
    support: none
  check_mode:
    support: full
    details:
      - In check mode no mark is written or removed.
  diff_mode:
    support: N/A
    details:
      - This action changes no more than the mark of a VM.
  idempotent:
    support: full
options:
  step:
    description: Which step it is.
    type: str
    required: true
    choices: [read, check, begin, decide, mark, ask, acknowledge, note, report, fail]
  returns:
    description: Whether a later play brings back the hosts that fall out of this one.
    type: bool
    default: false
  reached:
    description: Whether the file of the user was run to its end.
    type: bool
  checker:
    description: Whether the checker of the host was asked.
    type: bool
    default: false
  prepare:
    description: A file to check.
    type: str
  restore:
    description: A file to check.
    type: str
  prefix:
    description: How the names of the variables with these files begin.
    type: str
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Decide
  fleetops.azure_maintenance.event_response_step:
    step: decide
  run_once: true
  register: __event_response
"""

RETURN = r"""
state:
  description: The state of the run.
  returned: by the steps that are run once
  type: str
report:
  description: The report of the host.
  returned: by the steps of a host
  type: str
"""
