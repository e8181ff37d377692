# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation alone: the action plugin of the same name does the work. ansible-test finds none in a file of YAML.

from __future__ import annotations

DOCUMENTATION = r"""
module: report_step
short_description: A step of the playbooks fleet_report and fleet_history
version_added: 1.1.0
description:
  - Made for the playbooks C(fleetops.azure_maintenance.fleet_report) and C(fleetops.azure_maintenance.fleet_history),
    and for nobody else. It may change in any release.
  - Everything happens on the controller.
seealso:
  - plugin: fleetops.azure_maintenance.fleet_report
    plugin_type: filter
  - plugin: fleetops.azure_maintenance.fleet_history
    plugin_type: filter
attributes:
  action:
    description: Is an action plugin.
    support: full
  async:
    description: Can be used with C(async).
    support: none
  check_mode:
    description: Can run in C(check_mode) and tell what it would change, without changing it.
    support: full
  diff_mode:
    description: Tells in diff mode what has changed, or would change in C(check_mode).
    support: none
options:
  step:
    description:
      - V(check) reads the variables of the playbook and creates the folder, before any host is asked.
      - V(ask_azure) asks Azure Resource Graph, from the controller, once for all hosts.
      - V(write) writes the files.
    type: str
    required: true
    choices: [check, ask_azure, write]
  playbook:
    description: Which of the two playbooks it is.
    type: str
    required: true
    choices: [fleet_report, fleet_history]
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Write the report
  fleetops.azure_maintenance.report_step:
    step: write
    playbook: fleet_report
  delegate_to: localhost
  run_once: true
  register: __fleet_report_written
"""

RETURN = r"""
settings:
  description: The variables of the playbook as they were when it began.
  returned: by the step check
  type: dict
hosts:
  description: For each host the id of its VM and the events that Azure Resource Graph has for it.
  returned: by the step ask_azure
  type: dict
is_complete:
  description: Whether Azure Resource Graph gave all its rows and each could be read.
  returned: by the step ask_azure
  type: bool
lines:
  description: The main facts of the report or history, for a person to read.
  returned: by the step write
  type: list
  elements: str
failure:
  description: The sentence that names the events that are due and make the run fail. Empty if no event does.
  returned: by the step write
  type: str
"""
