# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation alone: the action plugin of the same name does the work. ansible-test finds none in a file of YAML.

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduled_events_policy
short_description: Set Azure's policy for the maintenance events of a VM, a scale set or an availability set
version_added: 1.1.0
description:
  - Reads and changes the C(scheduledEventsPolicy) of a resource, by which Azure publishes its events to Event Grid and
    Resource Graph and approves some of them itself, and the notices before a termination and before a new OS image.
  - A setting without an option here is never changed. Without any option the module only reads.
extends_documentation_fragment:
  - fleetops.azure_maintenance._azure
  - fleetops.azure_maintenance._attributes
attributes:
  action_group:
    support: none
    membership: []
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  resource_id:
    description:
      - The id of the VM, scale set or availability set in Azure Resource Manager.
      - A VM of a set inherits the policy of the set, and cannot have one of its own. It can have notices.
    type: str
    required: true
  publish:
    description: Whether Azure publishes the events to Event Grid and Resource Graph.
    type: bool
  publish_api_version:
    description: The version of C(/metadata/scheduledevents) whose form published events have, such as V(2020-07-01).
    type: str
  approve_user_reboot:
    description: Whether Azure approves at once a reboot that a user of the subscription asks for.
    type: bool
  approve_user_redeploy:
    description: Whether Azure approves at once a redeployment that a user of the subscription asks for.
    type: bool
  approve_all_instances_down:
    description:
      - The setting C(allInstancesDown.automaticallyApprove). Microsoft's pages do not say its meaning.
    type: bool
  terminate_notice:
    description: Whether Azure announces before it deletes a VM. Not for availability sets.
    type: bool
  terminate_notice_minutes:
    description: How many minutes before, from 5 to 15. Not for availability sets.
    type: int
  os_image_notice:
    description: Whether Azure announces before it puts a new OS image on a VM. Not for availability sets.
    type: bool
notes:
  - Azure takes the policy of a scale set only with the whole scale set, as C(PUT). It is sent as it was read but for
    the change, and only with its ETag, so that Azure refuses it where somebody else changed the scale set meanwhile.
    Such a change is read and kept. Everything else is sent as C(PATCH).
  - Azure does not show passwords and protected settings of extensions, so the C(PUT) of a scale set does not have them.
    The Azure CLI changes scale sets in the same way. Try it first on a scale set that may be lost.
  - The login needs the right to write the resource, such as the role Virtual Machine Contributor.
  - After a change the resource is read again. The task fails where Azure does not show the settings.
seealso:
  - module: fleetops.azure_maintenance.resource_graph_events_info
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Publish the events of each VM to Resource Graph
  fleetops.azure_maintenance.scheduled_events_policy:
    resource_id: "{{ id }}"
    publish: true
    publish_api_version: "2020-07-01"

- name: See the settings of a scale set
  fleetops.azure_maintenance.scheduled_events_policy:
    resource_id: "/subscriptions/5b4b650e-28b9-4790-b3ab-ddbd88d727c4/resourceGroups/web\
      /providers/Microsoft.Compute/virtualMachineScaleSets/pool"
  register: pool
"""

RETURN = r"""
policy:
  description:
    - All settings as they are after the task, or would be in check mode. Null where Azure has none.
    - The keys are O(publish), O(publish_api_version), O(approve_user_reboot), O(approve_user_redeploy),
      O(approve_all_instances_down), O(terminate_notice), O(terminate_notice_minutes) and O(os_image_notice).
  returned: success
  type: dict
  sample:
    publish: true
    publish_api_version: "2020-07-01"
    approve_user_reboot: null
    approve_user_redeploy: null
    approve_all_instances_down: null
    terminate_notice: true
    terminate_notice_minutes: 10
    os_image_notice: null
diff:
  description: RV(policy) before and after the task.
  returned: success
  type: dict
msg:
  description: The settings that were changed, or would be in check mode, or the failure, in words.
  returned: always
  type: str
  sample: "web-1: set: publish=True."
reason:
  description: Why Azure gave no usable answer, as in M(fleetops.azure_maintenance.resource_graph_events_info).
  returned: failure of Azure
  type: str
  sample: forbidden
http_status:
  description: HTTP status of the answer that failed, null if there was none.
  returned: failure of Azure
  type: int
  sample: 403
error_code:
  description: Azure's own word for the failure, null if it gave none.
  returned: failure of Azure
  type: str
  sample: AuthorizationFailed
"""
