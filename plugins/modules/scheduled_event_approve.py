#!/usr/bin/python
# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: scheduled_event_approve
short_description: Let Azure start a maintenance event now
version_added: 1.0.0
description:
  - Approves Scheduled Events of an Azure VM through its metadata service, so that Azure may start them before the
    time announced.
  - An approval counts for B(all) the VMs of an event, and cannot be taken back. So an event is approved only when
    each of its VMs is this VM or is in O(resources_ready).
  - Azure may still wait, for instance for other customers on the same host. Azure starts the event at C(NotBefore)
    even without an approval.
  - Runs on a VM that sees the event. The metadata service cannot be reached from elsewhere.
extends_documentation_fragment:
  - fleetops.azure_maintenance._imds
  - fleetops.azure_maintenance._attributes
attributes:
  action_group: {}
  check_mode:
    support: full
    details:
      - Asks the metadata service, names the events that it would approve or refuse, and approves nothing. It does not
        wait for O(wait_for).
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - Nothing is sent for an event that has started or is gone.
      - Azure does not tell whether an event that is still Scheduled has been approved before. The module approves it
        again. Azure takes that, and the task reports a change again.
  action:
    description: Has an action plugin of the same name, so that some options are handled on the controller.
    support: full
    details:
      - The action plugin runs the module, and does its work for a Windows host.
  async:
    description: Can be used with C(async).
    support: partial
    details:
      - C(async) cannot be used with Windows hosts.
options:
  event_ids:
    description:
      - Approve the events with these ids, whichever VMs they list.
      - The beginning of an id, of 4 characters or more, is enough if only one event of the document has it. Tables
        show 8 characters. Where several events have it, or an entry of the document cannot be read and may have it, the
        task fails and approves nothing. In a playbook that runs by itself write whole ids.
      - At least one of O(event_ids), O(event_types) and O(event_sources) is needed. An event is selected when it meets
        all that are given. Letter case does not matter.
      - An empty list of ids, types or sources selects nothing. So the result of a search that found nothing approves
        nothing. An empty string, as an empty answer in an AWX survey gives it, counts as not given. A list is refused
        in which each member is null or empty.
      - An id that the document does not have is reported as V(not_found) with a warning. It is neither a
        change nor a failure.
    type: list
    elements: str
    aliases: [event_id]
  event_types:
    description:
      - Approve events of these types. They are V(Freeze), V(Reboot), V(Redeploy), V(Preempt) and V(Terminate).
      - Another word is refused, here and in O(event_sources).
      - Without O(event_ids) only those events are selected that list this VM or one of O(resources_ready), or
        name no VM at all. Of the others, one with a name that cannot be read is refused, or with O(force) left alone.
        The rest are left alone.
    type: list
    elements: str
  event_sources:
    description:
      - Approve events from these sources. They are V(Platform) and V(User).
      - Without O(event_ids) selected as for O(event_types).
    type: list
    elements: str
  resources_ready:
    description: Resource names of the other VMs of the event that are prepared too.
    type: list
    elements: str
    default: []
  force:
    description:
      - Approve whichever VMs the event lists, even if they are not ready or the event names none.
      - O(document_incarnation) is checked even then.
    type: bool
    default: false
  document_incarnation:
    description:
      - Refuse to approve unless the document still has this DocumentIncarnation, as
        M(fleetops.azure_maintenance.scheduled_events_info) returned it. So only the document of your decision is
        approved.
      - Null and an empty string, as from an answer without a document, are no DocumentIncarnation that a document could
        have. To approve any document, leave the option out.
      - It is then sent along with the approval, as it always is with the api-versions of 2017.
    type: str
  wait_for:
    description:
      - The state of the events that the task waits for.
      - V(started), until each has started or is gone from the document. V(ended), until each is gone.
      - On a VM that the event reboots the task is lost with its connection. Wait on another VM that sees the event.
      - Asks every second, and a Windows host every 5 seconds, because there each time is a run of a module.
    type: str
    choices: [nothing, started, ended]
    default: nothing
  wait_timeout:
    description: Seconds to wait at most. The task fails after that; the approval stands.
    type: float
    default: 900.0
notes:
  - When one selected event is refused, none is approved.
  - When the metadata service fails while O(wait_for) waits, the task goes on waiting. Only a document in which every
    entry can be read shows that an event is gone, however long there is none. The checker on a VM has to go on by
    itself. After 300 seconds of such answers it counts an event that took place as ended. This task leaves that to you.
  - The document is read after the name of this VM is known, and again before an approval is sent again. An event that
    got another VM meanwhile is refused.
  - When the answer to an approval is lost, and the next document has the event as started or does not list it, the task
    reports a change and warns that Azure may have taken the approval. Where there is no such document, it fails.
    In both cases RV(in_doubt) is true.
seealso:
  - module: fleetops.azure_maintenance.scheduled_events_info
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Approve the restarts that our own people asked for
  fleetops.azure_maintenance.scheduled_event_approve:
    event_sources: [User]

- name: Ask which reboots are coming
  fleetops.azure_maintenance.scheduled_events_info:
    event_types: [Reboot]
    event_statuses: [Scheduled]
  register: reboots

- name: Approve exactly these events, and wait until Azure starts them
  fleetops.azure_maintenance.scheduled_event_approve:
    event_ids: "{{ reboots.events | map(attribute='event_id') }}"
    document_incarnation: "{{ reboots.document_incarnation }}"
    wait_for: started
    wait_timeout: 300
  when: reboots.events | length > 0

- name: Approve an event of several VMs once all of them are prepared
  block:
    - name: Approve it
      fleetops.azure_maintenance.scheduled_event_approve:
        event_id: C7061BAC-AFDC-4513-B24B-AA5F13A16123
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
  description: The result for each event that was selected or listed.
  returned: success, refusal, and failure while waiting
  type: list
  elements: dict
  contains:
    event_id:
      description: The id, as Azure spells it. As you wrote it if the document does not have it, or has several
        that begin with it.
      type: str
      sample: C7061BAC-AFDC-4513-B24B-AA5F13A16123
    result:
      description:
        - V(approved), Azure took the approval, or would be given it in check mode.
        - V(already_started), the event had started, so nothing was sent.
        - V(not_found), the document does not have the event, so nothing was sent. A warning says whether the event is
          gone, or whether it may be an entry of the document that cannot be read.
        - V(refused), the event, or another one of this task, must not be approved, so nothing was sent.
      type: str
      sample: approved
    waiting_for:
      description: The VMs of the event that are neither this VM nor in O(resources_ready).
      type: list
      elements: str
      sample: [web-2]
    event_status:
      description: The status that the event was last seen with, null when it is not in the document.
      type: str
      sample: Scheduled
events:
  description: The events of RV(approvals) that are in the document, with the same keys as
    RV(fleetops.azure_maintenance.scheduled_events_info#module:events).
  returned: success, refusal, and failure while waiting
  type: list
  elements: dict
  version_added: 1.1.0
in_doubt:
  description:
    - Whether the answer to an approval was lost, so that Azure may have taken the approval although
      RV(approvals[].result) is not V(approved), or although the task failed.
    - When this is false, and C(changed) is not true, Azure has certainly taken no approval of the task.
    - When it is missing though the options were right, that is not known. The connection was lost, or the module did
      not come to its end.
  returned: always, but where an option is wrong
  type: bool
  sample: false
  version_added: 1.1.0
document_received:
  description: Whether the answer held a document, as in M(fleetops.azure_maintenance.scheduled_events_info).
  returned: success, refusal, and failure while waiting
  type: bool
  sample: true
  version_added: 1.1.0
document_is_clear:
  description:
    - Whether there was a document and each of its entries could be read, as in
      M(fleetops.azure_maintenance.scheduled_events_info). Where it is false, an event that is V(not_found) may still be
      there.
  returned: success, refusal, and failure while waiting
  type: bool
  sample: true
  version_added: 1.1.0
diff:
  description: >-
    The status of each event before this task, and after it: V(approved) for those that this task approves, V(not_found)
    for one that has vanished meanwhile.
  returned: success, refusal, and failure while waiting
  type: dict
  sample:
    before: {C7061BAC-AFDC-4513-B24B-AA5F13A16123: Scheduled}
    after: {C7061BAC-AFDC-4513-B24B-AA5F13A16123: approved}
msg:
  description:
    - The result in words, in check mode the expected result, or the error.
    - Where no event was selected and the answer was empty or had an entry that cannot be read, it says so.
  returned: always
  type: str
  sample: "approved C7061BAC-AFDC-4513-B24B-AA5F13A16123"
reason:
  description: Why there is no answer, as in M(fleetops.azure_maintenance.scheduled_events_info).
  returned: failure of the metadata service
  type: str
  sample: unreachable
http_status:
  description: HTTP status of the last answer, null if there was none.
  returned: failure of the metadata service
  type: int
  sample: 400
imds_reachable:
  description: Whether something that may be the metadata service took the connection.
  returned: failure of the metadata service
  type: bool
  sample: true
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._approval.approve import run_approval
from ..module_utils._module.interface import approve_argument_spec, end_module, freeze_objects, make_client


def main() -> None:
    module = AnsibleModule(argument_spec=approve_argument_spec(), supports_check_mode=True)
    params = module.params
    end_module(module, lambda: run_approval(params, make_client(params), module.warn, module.check_mode))


if __name__ == "__main__":
    freeze_objects()
    main()
