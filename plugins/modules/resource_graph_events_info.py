# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation alone: the action plugin of the same name does the work. ansible-test finds none in a file of YAML.

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_graph_events_info
short_description: Ask Azure Resource Graph which maintenance its VMs have
version_added: 1.1.0
description:
  - Reads the Scheduled Events of whole subscriptions from Azure Resource Graph, without touching a VM.
  - Only there Azure shows which events have ended, and whether they took place.
  - Azure must have been asked to publish them there, by M(fleetops.azure_maintenance.scheduled_events_policy).
    Otherwise the answer is empty. The guide "Without touching the VMs" lists the other conditions.
  - A VM's own answer counts more. Resource Graph is late; it is unknown by how much.
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
      - This module changes nothing and asks in check mode too.
  diff_mode:
    support: N/A
    details:
      - This module changes nothing.
  idempotent:
    support: full
options:
  subscriptions:
    description:
      - Ids of the subscriptions to ask.
      - Without this, O(management_groups) and O(resource_ids) that is O(subscription_id).
      - These three exclude each other. An empty list of any of them asks nothing, and returns no event.
    type: list
    elements: str
  management_groups:
    description: Names of management groups. Their subscriptions are asked.
    type: list
    elements: str
  resource_ids:
    description:
      - Only events of these VMs, scale sets and availability sets. Their subscriptions are asked, all in one question
        a page, however many there are.
      - The ids of Azure Resource Manager, as the inventory plugins of C(azure.azcollection) give them as C(id), and
        M(fleetops.azure_maintenance.scheduled_events_info) as
        RV(fleetops.azure_maintenance.scheduled_events_info#module:resource_id).
      - An event of a set without the names of its VMs is returned for each VM in the resource group.
    type: list
    elements: str
  event_types:
    description:
      - Only events of these types. They are V(Freeze), V(Reboot), V(Redeploy), V(Preempt) and V(Terminate).
      - Another word is refused, here and in O(event_statuses) and O(event_sources), because nothing would match a
        typing error. Letter case does not matter.
    type: list
    elements: str
  event_statuses:
    description: Only events in one of these statuses. They are V(Scheduled), V(Started), V(Completed) and V(Canceled).
    type: list
    elements: str
  event_sources:
    description: Only events from these sources. They are V(Platform) and V(User).
    type: list
    elements: str
  event_ids:
    description: Only the events with these ids, which must be whole.
    type: list
    elements: str
  due_within:
    description: Only events that have started, or that Azure may start within so many seconds.
    type: int
  cause:
    description:
      - Also ask for Azure's notes on the health of the VMs, and return them as RV(events[].causes).
      - That is one more question a page.
    type: bool
    default: false
seealso:
  - module: fleetops.azure_maintenance.scheduled_events_info
  - module: fleetops.azure_maintenance.scheduled_event_acknowledge
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Ask for all events of a subscription
  fleetops.azure_maintenance.resource_graph_events_info:
    subscription_id: 5b4b650e-28b9-4790-b3ab-ddbd88d727c4
  run_once: true
  register: outside

- name: Show the coming events
  ansible.builtin.debug:
    msg: "{{ item.event_type }} of {{ item.resources | join(', ') }}, not before {{ item.not_before }}"
  loop: "{{ outside.events | selectattr('event_status', 'equalto', 'Scheduled') }}"
  loop_control:
    label: "{{ item.event_id }}"
  run_once: true

- name: Ask for the hosts of an inventory of azure.azcollection, with the causes
  fleetops.azure_maintenance.resource_graph_events_info:
    resource_ids: "{{ ansible_play_hosts_all | map('extract', hostvars, 'id') }}"
    cause: true
  run_once: true
  register: outside
"""

RETURN = r"""
events:
  description:
    - The selected events, in the order of the ids of their resources.
    - They have the same keys as RV(fleetops.azure_maintenance.scheduled_events_info#module:events), and those below.
      They are not the view of one VM, so C(affects_this_vm) and C(is_leader) are null.
  returned: success
  type: list
  elements: dict
  contains:
    event_id:
      description: The id, as Azure spells it.
      type: str
      sample: 3da1b9aa-5204-4335-8c33-c54e315dcffe
    event_status:
      description:
        - How far the event is. V(Completed) and V(Canceled) are known only from outside the VMs. V(Canceled) has
          this spelling, although Azure has two.
      type: str
      sample: Completed
    outcome:
      description: How an event ended, V(completed) or V(withdrawn). Null where it has not ended.
      type: str
      sample: completed
    vm_resource_ids:
      description:
        - The ids of the VMs in C(resources), made of the id of their resource and their names. Empty where
          Azure does not tell the resource of the event.
      type: list
      elements: str
      sample: ["/subscriptions/5b4b650e-28b9-4790-b3ab-ddbd88d727c4/resourceGroups/web\
        /providers/Microsoft.Compute/virtualMachines/web-1"]
    target_resource_ids:
      description:
        - The VM, scale set or availability set that it is an event of. By this id
          M(fleetops.azure_maintenance.scheduled_event_acknowledge) approves it.
      type: list
      elements: str
      sample: ["/subscriptions/5b4b650e-28b9-4790-b3ab-ddbd88d727c4/resourceGroups/web\
        /providers/Microsoft.Compute/availabilitySets/web"]
    location:
      description: The region. Null where Azure does not tell.
      type: str
      sample: westeurope
    causes:
      description:
        - Azure's notes on the health of the VMs, the latest first.
        - They are about a VM, and not about an event. Compare the times.
      returned: O(cause) is true
      type: list
      elements: dict
      contains:
        vm_resource_id:
          description: The VM.
          type: str
        annotation:
          description: Azure's name for the cause.
          type: str
          sample: VirtualMachineHostRebootedForMaintenance
        reason:
          description: Azure's reason.
          type: str
        category:
          description: Whether it was planned.
          type: str
          sample: Planned
        context:
          description: Its initiator, Azure or a user.
          type: str
          sample: Platform-Initiated
        summary:
          description: Azure's own words, for people.
          type: str
        occurred_at:
          description: The time, ISO 8601 in UTC.
          type: str
          sample: "2026-11-21T10:00:00Z"
is_complete:
  description:
    - Whether Azure gave all its rows and each could be read. If not, a warning says which part is missing, and
      there may be events that are not in RV(events).
  returned: success
  type: bool
  sample: true
msg:
  description: The number of events by status, or the failure, in words.
  returned: always
  type: str
  sample: Azure Resource Graph has 1 Scheduled, 12 Completed.
reason:
  description:
    - Why there is no answer, in one word.
    - V(unreachable), no connection. V(certificate), the certificate is not trusted. V(timeout), no end within
      O(timeout). V(login), the login failed. V(forbidden), the login lacks a role. V(throttled), too many requests.
      V(http_status), another status, in RV(http_status). V(malformed), the answer cannot be read. V(library), a
      Python library is missing on the controller.
  returned: failure of Azure
  type: str
  sample: forbidden
http_status:
  description: HTTP status of the last answer, null if there was none.
  returned: failure of Azure
  type: int
  sample: 403
error_code:
  description: Azure's own word for the failure, null if it gave none.
  returned: failure of Azure
  type: str
  sample: AuthorizationFailed
"""
