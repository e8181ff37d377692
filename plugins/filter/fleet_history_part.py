# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_history_part
short_description: Keep the histories of the checkers of some hosts for a fleet history
version_added: 1.1.0
description:
  - Makes a part of a fleet history out of the output of C(azure-maintenance history --json) on each host.
  - A part can be written to a file as JSON, and read again by
    P(fleetops.azure_maintenance.fleet_history#filter) in another run, as the slices of an AWX job need.
  - A host without a checker, with one of another version, or with a damaged state is kept with the reason.
extends_documentation_fragment:
  - fleetops.azure_maintenance._slice
options:
  _input:
    description: For each host, by its name in the inventory, the registered result of the command.
    type: dict
    required: true
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Read the checker's history
  ansible.builtin.command: /usr/local/sbin/azure-maintenance history --json
  become: true
  register: history
  changed_when: false
  failed_when: false
  ignore_unreachable: true

- name: Keep the part
  ansible.builtin.copy:
    content: "{{ results | fleetops.azure_maintenance.fleet_history_part(name='web') | to_json }}"
    dest: /srv/reports/web.json
    mode: "0644"
  vars:
    results: >-
      {{ dict(ansible_play_hosts_all | zip(ansible_play_hosts_all | map('extract', hostvars, 'history'))) }}
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
_value:
  description: The part. Its format may change in any release, so it has a version number.
  type: dict
"""

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._unsafe import unsafe_filter


def fleet_history_part(results: Any, name: str = "part", now: str | None = None) -> dict[str, Any]:
    # With the first filter of a collection Ansible loads them all, again in the process of each task and host.
    from ..plugin_utils._report.history.host_results import make_slice
    from ..plugin_utils._report.slices import plain_results, read_now

    try:
        return make_slice(plain_results(results), name, read_now(now))
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(f"fleet_history_part: {error}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"fleet_history_part": unsafe_filter(fleet_history_part)}
