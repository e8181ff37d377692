# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_history
short_description: Merge the histories of the checkers of many VMs into one
version_added: 1.1.0
description:
  - Merges parts of a fleet history. An event that several VMs saw is one event.
  - Tells for each type, each week and each VM how many events there were, the notice that Azure gave beside the one
    that Microsoft documents, how long the start took after an approval, how long events lasted, and who approved them.
  - Every host without a whole history is in the report with the reason.
  - Text from Azure is data. It is escaped as each format asks, against formulas of spreadsheets too.
extends_documentation_fragment:
  - fleetops.azure_maintenance._merge
options:
  _input:
    description:
      - The parts. Each is a result of P(fleetops.azure_maintenance.fleet_history_part#filter), or a list of two
        strings, the name of a file and its content, where a part was written as JSON.
      - Of a host in several parts the newest answer counts.
    type: list
    elements: raw
    required: true
  format:
    description:
      - V(data) returns a dictionary. V(json), V(csv), V(md) and V(html) return the content of a file of that kind.
      - V(lines) returns a list of sentences for people.
    type: str
    choices: [data, json, csv, md, html, lines]
    default: data
  simulated:
    description: Take also the events that checkers saw at another address than Azure's, as in a rehearsal.
    type: bool
    default: false
notes:
  - An id that VMs saw more than a day apart counts as that of two events.
  - Where times of a VM contradict each other, as when its clock was wrong, the event is counted and marked, and the
    durations from those times are left out.
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Show the least notice that was given for each type
  ansible.builtin.debug:
    msg: "{{ (parts | fleetops.azure_maintenance.fleet_history).types | items2dict('event_type', 'notice') }}"
  vars:
    parts: "{{ [{'web-1': history} | fleetops.azure_maintenance.fleet_history_part] }}"

- name: Write a page out of the parts in a folder
  ansible.builtin.copy:
    content: >-
      {{ files | zip(query('ansible.builtin.file', *files))
         | fleetops.azure_maintenance.fleet_history('html') | string }}
    dest: /srv/reports/history.html
    mode: "0644"
  vars:
    files: "{{ query('ansible.builtin.fileglob', '/srv/reports/history-parts/*.json') }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - The history in the wanted format.
    - As V(data) it has C(counts), C(types), C(weeks), C(vms), C(events), C(azure_events), C(azure_causes), C(hosts),
      C(generated_at), C(asked_from), C(asked_until), C(left_out_parts) and C(azure_messages). The last is null where
      the playbook did not ask Azure Resource Graph, and else has a sentence for all that it did not tell.
    - C(counts) has the number of hosts that were C(asked) and of those in each state; of C(events), C(completed),
      C(withdrawn), C(open), C(shorter), C(failed_responses), C(late) and C(doubtful), as explained below; of events
      that are left out because they were C(simulated), and of those C(told_by_azure) alone.
    - Types, weeks and VMs have C(events), of these C(completed), C(withdrawn), C(open), C(shorter) (the notice lacked
      more than a tenth of the documented one), C(late) (they began before they were prepared for) and C(doubtful);
      C(failed_responses); C(approved_by_checker), C(approved_by_other) and C(approval_unknown); and C(notice),
      C(approval_to_start), C(lasted) and C(prepare), each null or with C(least), C(quarter), C(median),
      C(three_quarters) and C(most) in seconds and C(known), the number of events of which it is known. A type has
      C(event_type) and C(documented_notice), null or with C(least) and C(most). A week has C(week) and C(event_type),
      and a VM has C(host) and C(resource_name).
    - An event has, as C(azure-maintenance history --json) tells them, C(event_id), C(event_type), C(event_source),
      C(description), C(leader), C(resources_count), C(duration_seconds), C(simulated), C(first_seen_at), C(outcome),
      C(approved_by), C(prepare_seconds) and C(late); further C(week), C(notice_seconds), C(documented_notice_seconds),
      C(shorter), C(approval_to_start_seconds), C(lasted_seconds), C(doubtful), C(failed_responses), a number,
      C(approved_on), a list of hosts, C(azure_outcome), which is the outcome where Azure Resource Graph told it, and
      C(vms).
    - Each of the C(vms) of an event has C(host) and C(resource_name), the times C(first_seen_at),
      C(not_before_first), C(not_before_last), C(approved_at), C(started_at) and C(ended_at), C(responses), a number,
      C(failed_phases), a list, and what this VM saw of C(outcome), C(approved_by), C(prepare_seconds), C(late),
      C(notice_seconds), C(shorter), C(approval_to_start_seconds), C(lasted_seconds), C(doubtful) and
      C(failed_responses).
    - C(azure_events) are events that Azure Resource Graph alone tells of, and no checker. Each has C(event_id),
      C(event_type), C(event_status), C(outcome), C(not_before), C(event_source), C(description) and C(hosts). No number
      counts them but C(told_by_azure) in C(counts).
    - C(azure_causes) are Azure's notes on the health of the VMs. Each has C(host), C(occurred_at), C(annotation),
      C(reason), C(category), C(context) and C(summary).
    - A host has C(host), C(state) (C(told), C(damaged), C(no_checker), C(other_version), C(unreachable), C(failed) or
      C(not_asked)), C(reason), C(message), C(resource_name), C(checker_version) and C(asked_at).
  type: raw
"""

from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean

from ..plugin_utils._unsafe import unsafe_filter


def fleet_history(
    parts: Any,
    format: str = "data",
    hosts: Any = (),
    max_age: float = 0,
    now: str | None = None,
    simulated: Any = False,
) -> Any:
    # With the first filter of a collection Ansible loads them all, again in the process of each task and host.
    from ..plugin_utils._report.history.formats import format_history

    if isinstance(parts, (str, dict)):
        raise AnsibleFilterError("fleet_history needs a list of parts.")
    try:
        return format_history(parts, format, hosts, max_age, now, boolean(simulated))
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(f"fleet_history: {error}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"fleet_history": unsafe_filter(fleet_history)}
