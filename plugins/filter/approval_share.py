# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: approval_share
short_description: Decide which host of a run sends the approval of an event
version_added: 1.1.0
description:
  - Where several hosts may approve an event, one of them is enough. It is the leader of the event, else the first of
    its VMs, else the first host that may approve it.
  - Made for the playbook C(fleetops.azure_maintenance.approve).
options:
  _input:
    description:
      - The result of M(fleetops.azure_maintenance.scheduled_event_approve) in check mode for each host, by its name in
        the inventory, also where it failed. Such a host approves nothing, but the events that it lists count.
    type: dict
    required: true
  named:
    description: The ids that were asked for, or their beginnings.
    type: list
    elements: str
    default: []
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Decide which host approves which events
  ansible.builtin.set_fact:
    share: "{{ dict(ansible_play_hosts_all | zip(ansible_play_hosts_all | map('extract', hostvars, 'looked')))
      | fleetops.azure_maintenance.approval_share }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: >-
    C(event_ids), the ids that each host is to approve; C(left_to), for each host a sentence for each event that another
    one approves; C(not_found), the ids that were asked for and that no host has seen; C(ambiguous), those of O(named)
    that several events begin with; C(unsure), the hosts that may have more events than are known, because they failed,
    could not be reached, or their document was empty or could not be read as a whole; C(incomplete), those of O(named)
    that are not the whole id of an event, while there is such a host; C(unclear), the hosts that may list more
    events that were asked for, because an entry of their document cannot be read; C(empty), those that may because
    their answer was empty, as always on some VMs while there is no event; C(unusable), for each host whose answer has
    another form than that of the module, a sentence that says in which part.
  type: dict
"""

from typing import Any, Callable

from ..plugin_utils._run.approval_share import share_approvals
from ..plugin_utils._unsafe import unsafe_filter


def approval_share(results: Any, named: Any = ()) -> dict[str, Any]:
    return share_approvals(results, named)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"approval_share": unsafe_filter(approval_share)}
