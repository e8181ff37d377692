# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation alone: the action plugin of the same name does the work. ansible-test finds none in a file of YAML.

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduled_event_acknowledge
short_description: Let Azure start a maintenance event now, without touching a VM
version_added: 1.1.0
description:
  - Approves Scheduled Events by Azure's control plane, so that Azure may start them before the time announced. For VMs
    that cannot be reached.
  - The events are read from Azure Resource Graph, where Azure must have been asked to publish them. The guide
    "Without touching the VMs" shows how.
  - An approval counts for B(all) the VMs of an event, and cannot be taken back. So an event is approved only when each
    of its VMs is in O(resources_ready), by the rule of M(fleetops.azure_maintenance.scheduled_event_approve).
    That module is the better one wherever a VM of the event can be reached, because Resource Graph is late.
extends_documentation_fragment:
  - fleetops.azure_maintenance._azure
  - fleetops.azure_maintenance._attributes
attributes:
  action_group:
    support: none
    membership: []
  check_mode:
    support: full
    details:
      - Asks Resource Graph and says which events it would approve or refuse, and approves nothing.
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - Nothing is sent for an event that has started or ended.
      - Azure does not tell whether an event that is still Scheduled has been approved before. It is approved again, and
        the task reports a change again.
options:
  event_ids:
    description:
      - The ids of the events to approve, which must be whole. Letter case does not matter.
      - An empty list approves nothing.
      - An id that Resource Graph does not have is reported as V(not_found) with a warning. It is neither a change nor a
        failure.
    type: list
    elements: str
    required: true
    aliases: [event_id]
  subscriptions:
    description: Ids of the subscriptions in which the events are looked for, by default O(subscription_id).
    type: list
    elements: str
  management_groups:
    description: Names of management groups. The events are looked for in their subscriptions.
    type: list
    elements: str
  resources_ready:
    description: Resource names of the VMs of the events that are prepared.
    type: list
    elements: str
    default: []
  force:
    description:
      - Approve an event even if its VMs are not ready, or it names none.
      - If Azure does not tell the resource of an event, it cannot be approved even so.
    type: bool
    default: false
notes:
  - When one event is refused, none is approved.
  - Where the answer to an approval is lost, or is a fault that may pass, Resource Graph is asked anew, and the approval
    is sent again only if the answer still allows it. If an event has changed meanwhile, it is not sent again.
seealso:
  - module: fleetops.azure_maintenance.resource_graph_events_info
  - module: fleetops.azure_maintenance.scheduled_event_approve
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Ask which events wait for an approval
  fleetops.azure_maintenance.resource_graph_events_info:
    event_statuses: [Scheduled]
  run_once: true
  register: outside

- name: Approve an event of two VMs that are prepared and cannot be reached any more
  run_once: true
  block:
    - name: Approve it
      fleetops.azure_maintenance.scheduled_event_acknowledge:
        event_id: 3da1b9aa-5204-4335-8c33-c54e315dcffe
        resources_ready: [web-1, web-2]
      register: approval
  rescue:
    # A refusal is a failure of the task.
    - name: Fail with the names of the VMs that are not prepared
      ansible.builtin.fail:
        msg: "It waits for {{ approval.approvals | default([]) | map(attribute='waiting_for') | flatten | join(', ')
          | default('no other VM', true) }}. {{ approval.msg }}"
"""

RETURN = r"""
approvals:
  description: The result for each event.
  returned: success, refusal, and failure after something was sent
  type: list
  elements: dict
  contains:
    event_id:
      description: The id, as Azure spells it, or as you wrote it where Resource Graph does not have it.
      type: str
      sample: 3da1b9aa-5204-4335-8c33-c54e315dcffe
    result:
      description:
        - V(approved), Azure took the approval, or would be given it in check mode.
        - V(already_started), the event had started, so nothing was sent.
        - V(ended), the event is Completed or Canceled, so nothing was sent.
        - V(not_found), Resource Graph does not have the event.
        - V(refused), the event, or another one of this task, must not be approved, so nothing was sent.
        - V(failed), Azure did not take the approval, or had not confirmed it when the time was up.
      type: str
      sample: approved
    waiting_for:
      description: The VMs of the event that are not in O(resources_ready).
      type: list
      elements: str
      sample: [web-2]
    event_status:
      description: The status that Resource Graph had last, null where it does not have the event.
      type: str
      sample: Scheduled
    error_code:
      description: Azure's own word for a failure, null where there was none.
      type: str
      sample: NotImplemented
    message:
      description: Why the event was not approved, null where it was, or had started.
      type: str
in_doubt:
  description:
    - Whether the answer to an approval was lost, or only some resources of an event have taken it, so that Azure may
      begin the event although RV(approvals[].result) is not V(approved).
  returned: always, but where an option is wrong
  type: bool
  sample: false
diff:
  description: The status of each event before this task and after it, V(approved) for those that this task approves.
  returned: success, refusal, and failure after something was sent
  type: dict
  sample:
    before: {3da1b9aa-5204-4335-8c33-c54e315dcffe: Scheduled}
    after: {3da1b9aa-5204-4335-8c33-c54e315dcffe: approved}
msg:
  description: The approvals, in check mode those that would be sent, or the failure, in words.
  returned: always
  type: str
  sample: "approved: 3da1b9aa-5204-4335-8c33-c54e315dcffe."
reason:
  description: Why Azure gave no usable answer, as in M(fleetops.azure_maintenance.resource_graph_events_info).
  returned: failure of Azure
  type: str
  sample: http_status
http_status:
  description: HTTP status of the answer that failed, null if there was none.
  returned: failure of Azure
  type: int
  sample: 405
error_code:
  description: Azure's own word for the failure, null if it gave none.
  returned: failure of Azure
  type: str
  sample: NotImplemented
"""
