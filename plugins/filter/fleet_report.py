# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_report
short_description: Merge the answers of many VMs about maintenance into one report
version_added: 1.0.0
description:
  - Merges parts of a fleet report by the id of the events, and notes where VMs contradict each other.
  - Every host that gave no answer is in the report with the reason.
  - Text from Azure is data. It is escaped as each format asks, against formulas of spreadsheets too.
extends_documentation_fragment:
  - fleetops.azure_maintenance._merge
options:
  _input:
    description:
      - The parts. Each is a result of P(fleetops.azure_maintenance.fleet_part#filter), or a list of two strings, the
        name of a file and its content, where a part was written as JSON.
      - Of a host in several parts the newest answer counts.
    type: list
    elements: raw
    required: true
  format:
    description:
      - V(data) returns a dictionary. V(json), V(csv), V(md) and V(html) return the content of a file of that kind.
      - V(lines) returns a list of sentences for people.
      - V(due) returns a list with a line for each event that has started, or may start within O(due_within) seconds.
        It exists since 1.1.0. An event with an unknown start is not due.
    type: str
    choices: [data, json, csv, md, html, lines, due]
    default: data
  due_within:
    description: Seconds from the time of the report, for V(due) as O(format).
    type: float
    default: 0
    version_added: 1.1.0
  warn_after:
    description:
      - Seconds for V(html) as O(format). The page says across its top that it is out of date, once the oldest answer on
        it is older. With 0 it never does.
      - The default is the notice that Azure gives of a Reboot. An older answer may miss a Reboot that has started.
    type: float
    default: 900
    version_added: 1.1.0
notes:
  - The start of an event is the earliest time that any VM was told. An event has started if any VM says so.
  - A part that another version of the collection wrote is refused, unless it is older than O(max_age).
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Show which hosts gave no answer
  ansible.builtin.debug:
    msg: "{{ (parts | fleetops.azure_maintenance.fleet_report).hosts | selectattr('reason') }}"
  vars:
    parts: "{{ [{'web-1': asked} | fleetops.azure_maintenance.fleet_part] }}"

- name: Write a page out of the parts in a folder
  ansible.builtin.copy:
    content: >-
      {{ files | zip(query('ansible.builtin.file', *files))
         | fleetops.azure_maintenance.fleet_report('html') | string }}
    dest: /srv/reports/report.html
    mode: "0644"
  vars:
    files: "{{ query('ansible.builtin.fileglob', '/srv/reports/parts/*.json') }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
_value:
  description:
    - The report in the wanted format.
    - As V(data) it has C(counts) (numbers of hosts C(asked), C(affected), C(quiet), C(unreachable), C(not_on_azure),
      C(failed) and C(not_asked), of hosts C(told_by_azure) alone, of C(events), of these C(started) and with
      C(contradictions)), C(events), C(hosts), C(generated_at), C(asked_from), C(asked_until), C(left_out_parts) and
      C(azure_messages). The last is null where the playbook did not ask Azure Resource Graph, and else has a sentence
      for all that it did not tell.
    - An event has C(event_id), C(event_type), C(event_status), C(not_before), C(seconds_until_start),
      C(duration_seconds), C(event_source), C(description), C(resources) and C(leader), as
      M(fleetops.azure_maintenance.scheduled_events_info) returns them; C(vms), each with its C(resource) and the
      C(host) of the inventory, null if no host that answered has this name; C(told_by), the hosts that told of it;
      C(told_by_azure), the hosts that gave no whole answer, and for which Azure Resource Graph told of it; and
      C(contradictions), each with a C(field) and in C(told) each C(value) with the C(hosts) that told it.
    - A host has C(host), C(state) (one of the words above), C(reason) and C(message) if it gave no answer,
      C(resource_name), C(asked_at), C(event_ids) of the events that may affect it, C(told_by_azure) with the ids of
      those that Azure Resource Graph alone told of it, C(warnings), and C(out_of_service), which has a text for each
      mark on the VM. It tells since when, for which event and by which run or checker.
  type: raw
"""

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._unsafe import unsafe_filter


def fleet_report(
    parts: Any,
    format: str = "data",
    hosts: Any = (),
    max_age: float = 0,
    now: str | None = None,
    due_within: float = 0,
    warn_after: float = 900,
) -> Any:
    # With the first filter of a collection Ansible loads them all, again in the process of each task and host.
    from ..plugin_utils._report.fleet.formats import format_report

    if isinstance(parts, (str, dict)):
        raise AnsibleFilterError("fleet_report needs a list of parts.")
    try:
        return format_report(parts, format, hosts, max_age, now, due_within, warn_after)
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(f"fleet_report: {error}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"fleet_report": unsafe_filter(fleet_report)}
