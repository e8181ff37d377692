#!/usr/bin/python
# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduled_events_info
short_description: Ask an Azure VM which maintenance is coming
version_added: 1.0.0
description:
  - Reads the Scheduled Events of an Azure VM from its metadata service, C(/metadata/scheduledevents).
  - Asking switches the feature on for the VM and all that share its document (availability set, placement group),
    until nobody has asked for 24 hours. While it is on, your own restarts of these VMs wait for an approval
    or up to 15 minutes.
  - Runs on the VM itself. The metadata service cannot be reached from elsewhere.
extends_documentation_fragment:
  - fleetops.azure_maintenance._imds
  - fleetops.azure_maintenance._attributes
attributes:
  action_group: {}
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
  action:
    description: Has an action plugin of the same name, so that some options are handled on the controller.
    support: full
    details:
      - The action plugin applies O(query). JMESPath need not be installed on the VM.
      - For a Windows host it does the work of the module.
  async:
    description: Can be used with C(async).
    support: partial
    details:
      - O(query) cannot be used with C(async), and C(async) not with Windows hosts.
options:
  scope:
    description:
      - Which events to return.
      - V(this_vm) returns those that list this VM, and those that may affect it because they name no VM or a name in
        them cannot be read.
      - V(all) returns the whole document. VMs of one availability set or placement group see each other's events.
    type: str
    choices: [this_vm, all]
    default: this_vm
  event_types:
    description:
      - Only events of these types. They are V(Freeze), V(Reboot), V(Redeploy), V(Preempt) and V(Terminate).
      - Another word is refused, here and in O(event_statuses) and O(event_sources), because nothing would match a
        typing error. An event of a type that Azure invents later is found without this option, or by O(query).
      - Letter case does not matter here, nor in O(event_statuses), O(event_sources) and O(event_ids).
    type: list
    elements: str
  event_statuses:
    description: Only events in one of these statuses. They are V(Scheduled) and V(Started).
    type: list
    elements: str
  event_sources:
    description: Only events from these sources. They are V(Platform) and V(User).
    type: list
    elements: str
  event_ids:
    description:
      - Only the events with these ids, which must be whole. An empty list selects all events.
      - M(fleetops.azure_maintenance.scheduled_event_approve) differs. It takes unique beginnings of ids too, and
        approves nothing for an empty list.
    type: list
    elements: str
  due_within:
    description:
      - Only events that have started, or that Azure may start within so many seconds.
      - An event with an unknown start is never due.
    type: int
  query:
    description:
      - A JMESPath expression over the whole result of this module. Its own result is in RV(query_result).
      - Needs the Python library C(jmespath) on the controller.
      - An empty string counts as not set.
    type: str
notes:
  - An empty answer of the metadata service, which some VMs give, is not a document. RV(document_received) is
    then false, RV(events) is empty and a warning says that nothing is known.
  - A fault in one event never costs another event. Each fault gives a warning. After ten, one more counts the others.
  - When two entries of a document have the same id they are returned as one event that lists the VMs of both.
seealso:
  - module: fleetops.azure_maintenance.scheduled_event_approve
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Ask for the events of this VM
  fleetops.azure_maintenance.scheduled_events_info:
  register: maintenance

- name: Show the events in one sentence
  ansible.builtin.debug:
    msg: "{{ maintenance.msg }}"

- name: Ask for reboots that Azure may start within the next 15 minutes
  fleetops.azure_maintenance.scheduled_events_info:
    event_types: [Reboot, Redeploy]
    event_statuses: [Scheduled]
    due_within: 900
  register: reboots

- name: Stop taking new work before a reboot
  ansible.builtin.file:
    path: /run/maintenance
    state: touch
    mode: "0644"
  when: reboots.events | length > 0

- name: Ask for the ids of every event in the document, also those of other VMs
  fleetops.azure_maintenance.scheduled_events_info:
    scope: all
    query: events[].event_id
  register: all_events

- name: Show the ids
  ansible.builtin.debug:
    var: all_events.query_result

- name: Go on where there is no metadata service
  fleetops.azure_maintenance.scheduled_events_info:
    connect_timeout: 1
  register: maintenance
  failed_when:
    - maintenance is failed
    - maintenance.reason | default('') not in ['unreachable', 'not_imds']
"""

RETURN = r"""
events:
  description: The selected events, in Azure's order.
  returned: success
  type: list
  elements: dict
  contains:
    event_id:
      description: The id, as Azure spells it. It stays the same from Scheduled to Started.
      type: str
      sample: C7061BAC-AFDC-4513-B24B-AA5F13A16123
    event_type:
      description:
        - The action of Azure. Null if Azure did not say.
        - Words that Azure is known to use are in Azure's own spelling, here and in RV(events[].event_status) and
          RV(events[].event_source). Other words are passed on as they came.
      type: str
      sample: Reboot
    event_status:
      description: How far the event is. Null if Azure did not say.
      type: str
      sample: Scheduled
    resource_type:
      description: The type of the affected resources, null if Azure did not say.
      type: str
      sample: VirtualMachine
    resources:
      description: The resource names of the VMs that the event affects.
      type: list
      elements: str
      sample: [web-1, web-2]
    not_before:
      description:
        - The time before which Azure does not start the event unless it is approved. ISO 8601 in UTC.
        - Null when the event has started, and when Azure gave no time or one that cannot be read.
      type: str
      sample: "2026-11-21T10:00:00Z"
    not_before_raw:
      description: The time as Azure wrote it.
      type: str
      sample: Sat, 21 Nov 2026 10:00:00 GMT
    seconds_until_start:
      description: Seconds until RV(events[].not_before), 0 when the event has started or is due, null when unknown.
      type: int
      sample: 899
    description:
      description: Azure's own words, for people. Null where the api-version has none.
      type: str
      sample: Host server is undergoing maintenance.
    event_source:
      description:
        - Who asked for it, Azure (V(Platform)) or a user of the subscription (V(User)). Null where the
          api-version lacks it.
      type: str
      sample: Platform
    duration_seconds:
      description: How long the interruption is expected to last, null when Azure does not know or say.
      type: int
      sample: 9
    affects_this_vm:
      description:
        - Whether RV(events[].resources) lists this VM.
        - Null when the name of this VM is unknown, the event names no VM, or a name in it cannot be read.
      type: bool
      sample: true
    leader:
      description: The first of RV(events[].resources), null if there is none.
      type: str
      sample: web-1
    is_leader:
      description: Whether this VM is the leader, null when unknown.
      type: bool
      sample: true
document_received:
  description:
    - Whether Azure answered with a document.
    - When it is false, whether there are events is unknown. It does not mean that there are none.
  returned: success
  type: bool
  sample: true
  version_added: 1.1.0
document_is_clear:
  description:
    - Whether there was a document and each of its entries could be read.
    - An event that a clear document does not list is over. When it is false, an event that is missing may be the one
      that could not be read, and a warning says so.
  returned: success
  type: bool
  sample: true
  version_added: 1.1.0
document_incarnation:
  description:
    - The document's DocumentIncarnation. Null when the answer had none, or was no document.
    - It changes with the document, and may go back. Compare it for equality only.
  returned: success
  type: raw
  sample: 2
resource_name:
  description: The name of this VM. Null only with O(scope=all) where the metadata service has no name.
  returned: success
  type: str
  sample: web-1
vm_id:
  description:
    - The vmId of this VM in Azure, a UUID. A VM that has a copy of its disk has another one.
    - Null where O(resource_name) is given, because nobody asks then, and on classic VMs, of which the metadata service
      knows nothing.
  returned: success
  type: str
  sample: 02aab8a4-74ef-476e-8182-f6d2ba4166a6
  version_added: 1.1.0
resource_id:
  description:
    - The id of this VM in Azure Resource Manager.
    - Null where RV(vm_id) is null, and where the metadata service does not give it.
  returned: success
  type: str
  sample: "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/web\
    /providers/Microsoft.Compute/virtualMachines/web-1"
  version_added: 1.1.0
boot_id:
  description:
    - The operating system's id of the current boot of this VM. It differs after a reboot.
    - Where systemd runs, it differs after C(systemctl soft-reboot) too.
    - Null where the system has none, and for Windows hosts. Compare it for equality only. On Linux it begins with the
      content of C(/proc/sys/kernel/random/boot_id).
  returned: success
  type: str
  sample: 4f6a5a2e-0f3c-4c55-9d7b-0a7c1ad5f0d1/12
  version_added: 1.1.0
marks:
  description:
    - The events for which this VM was prepared and has not been restored since, and the author of each preparation.
      A run of the role P(fleetops.azure_maintenance.event_response#role) leaves such a mark while the VM is out of
      service.
    - The marks of root and of the user of the task count. Others are listed too, with a warning.
    - Null for Windows hosts, where a run of the role reads the marks by itself.
  returned: success
  type: list
  elements: dict
  contains:
    event_id:
      description:
        - The event. Null where the mark cannot be read, as all but RV(marks[].file), RV(marks[].counts) and
          RV(marks[].fault).
      type: str
      sample: C7061BAC-AFDC-4513-B24B-AA5F13A16123
    event_type:
      description: Its type.
      type: str
      sample: Reboot
    by:
      description:
        - The program that prepared the VM. V(run) is a run of the role.
        - V(checker) is the checker of the VM. RV(marks[].controller), RV(marks[].user), RV(marks[].job) and
          RV(marks[].run) are null then.
      type: str
      sample: run
    controller:
      description: The machine on which the run was started.
      type: str
      sample: awx-task-6c5f
    user:
      description: Who started it.
      type: str
      sample: anna
    job:
      description: The number of the job in AWX, null where AWX did not start the run.
      type: str
      sample: "812"
    run:
      description: The id of the run.
      type: str
      sample: 3f0c9be1d7a24c55
    since:
      description: When the preparation began. ISO 8601 in UTC.
      type: str
      sample: "2026-11-21T17:32:00Z"
    boot_id:
      description: The boot in which it began, as RV(boot_id), or in which a restore has begun since.
      type: str
      sample: 4f6a5a2e-0f3c-4c55-9d7b-0a7c1ad5f0d1/12
    vm_id:
      description: The VM for which it was written. A mark of another VM, from a copied disk, is not listed.
      type: str
      sample: 02aab8a4-74ef-476e-8182-f6d2ba4166a6
    state:
      description:
        - V(preparing), V(prepared), V(restoring), or V(failed) where a task of either failed. With V(preparing) and
          V(restoring) somebody works on this VM, or was interrupted.
      type: str
      sample: prepared
    state_since:
      description: Since when, by the clock of the machine on which the run was started, or of the VM where its checker
        wrote the mark. A checker at work notes the begin of each step. ISO 8601 in UTC.
      type: str
      sample: "2026-11-21T17:34:00Z"
    state_until:
      description: With V(preparing) and V(restoring), until when that may last by the limits of the run or checker that
        wrote the mark, by the same clock. Other runs take it for killed after that. ISO 8601 in UTC.
      type: str
      sample: "2026-11-21T17:44:00Z"
    file:
      description: The file of the mark on the VM.
      type: str
      sample: "/var/lib/azure-maintenance-marks/c7061bac-afdc-4513-b24b-aa5f13a16123\
        .02aab8a4-74ef-476e-8182-f6d2ba4166a6.run-3f0c9be1d7a24c55.mark.json"
    counts:
      description: Whether the collection uses it.
      type: bool
      sample: true
    fault:
      description: Why it does not count, null where it counts.
      type: str
      sample: null
  version_added: 1.1.0
endpoint:
  description: The endpoint that answered.
  returned: success
  type: str
  sample: http://169.254.169.254
api_version:
  description: The version that was asked for.
  returned: success
  type: str
  sample: "2020-07-01"
query_result:
  description: The result of O(query).
  returned: success and O(query) is given
  type: raw
  sample: [C7061BAC-AFDC-4513-B24B-AA5F13A16123]
msg:
  description:
    - The answer in words, or the error.
    - Where an entry of the document cannot be read, it says so, because that entry may be an event.
  returned: always
  type: str
  sample: "web-1: Reboot Scheduled, may start in 14 min 59 s (web-1, web-2)"
reason:
  description:
    - Why there is no answer, in one word.
    - V(unreachable), nothing takes connections at the endpoint. V(not_imds), something else answers there.
      V(timeout), no complete answer in time, or, on a Windows host, a connection that was taken without a usable
      answer. V(http_status), the metadata service refused or failed, or the guest proxy agent of the Metadata
      Security Protocol in front of it, with RV(http_status). V(throttled), too many requests from this VM.
      V(malformed), the answer is no document.
  returned: failure of the metadata service
  type: str
  sample: unreachable
http_status:
  description: HTTP status of the last answer, null if there was none.
  returned: failure of the metadata service
  type: int
  sample: 500
imds_reachable:
  description: Whether something that may be the metadata service took the connection.
  returned: failure of the metadata service
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._event.marks import read_marks
from ..module_utils._imds.boot_id import read_boot_id
from ..module_utils._module.info import get_info
from ..module_utils._module.interface import end_module, freeze_objects, info_argument_spec, make_client


def main() -> None:
    module = AnsibleModule(argument_spec=info_argument_spec(), supports_check_mode=True)
    params = module.params
    if params["query"]:
        module.fail_json(
            msg="query is applied on the controller: "
            "call the module as fleetops.azure_maintenance.scheduled_events_info."
        )
    end_module(module, lambda: get_info(params, make_client(params), module.warn, read_boot_id(), read_marks))


if __name__ == "__main__":
    freeze_objects()
    main()
