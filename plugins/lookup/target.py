# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: target
short_description: Refuse a pattern of hosts that is empty or matches no host
version_added: 1.1.0
description:
  - Returns the given pattern, for C(hosts) of a play. It fails where the pattern is empty, or where no host of the
    inventory matches it, so that the run ends before any host is asked.
  - Ansible itself takes an empty pattern for all hosts, and skips a play that no host matches. The run is then a
    success.
  - C(--limit) counts. With C(--syntax-check), which needs no inventory, C(all) is returned, whatever was given.
  - The playbooks of this collection read the variable C(target) with it.
options:
  _terms:
    description:
      - The pattern, or a list of patterns.
      - Without it the variable C(target) is read, and C(all) counts where there is none. A C(target) that uses a
        variable that is not defined is an error. With the filter C(default) it would mean all hosts. An extra variable
        with a similar name, such as C(targets), is an error where there is no C(target).
      - It must be text. One that Ansible has read as a number or as a boolean is an error, because another host may be
        called so. AWX gives such an answer without quotes.
    type: raw
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Ask the hosts that the person who starts the run names
  hosts: "{{ query('fleetops.azure_maintenance.target') }}"
  gather_facts: false
  tasks:
    - name: Ask
      fleetops.azure_maintenance.scheduled_events_info:
"""

RETURN = r"""
_raw:
  description:
    - The patterns, as they were given. Patterns that only exclude hosts, such as C(!db), get C(all) in front.
  type: list
  elements: str
"""

import re
from difflib import get_close_matches
from typing import Any

from ansible import context
from ansible.errors import AnsibleError, AnsibleLookupError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars

from ..module_utils._errors import one_line
from ..plugin_utils._text_input import tell_not_text

_EMPTY = "target is empty: name the hosts, such as target=web, or target=all for every host of the inventory."
_MISSPELLED = "{name} is given, and target is not: is target meant? For every host say target=all. No host was asked."


class LookupModule(LookupBase):
    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        if context.CLIARGS.get("syntax"):
            return ["all"]
        terms = terms or [self._read_target(variables)]
        members = [each for term in terms for each in (term if isinstance(term, (list, tuple)) else [term])]
        patterns = ["" if each is None else each for each in members]
        for fault in tell_not_text("target", patterns):
            raise AnsibleLookupError(f"{fault} No host was asked.")
        # Ansible takes a pattern without a name in it for all hosts.
        if not any(re.search(r"[^\s,:&!]", pattern) for pattern in patterns):
            raise AnsibleLookupError(_EMPTY)
        limit = variables.get("ansible_limit")
        if not self._matches(patterns, limit, variables["groups"]):
            among = f"that --limit {limit} leaves" if limit else "of the inventory"
            raise AnsibleLookupError(f"target: no host {among} matches '{','.join(patterns)}'. No host was asked.")
        # Patterns that only exclude hosts mean all others. With another pattern beside them they no longer do.
        leaves_out = all(each.startswith(("!", "&")) for each in split_host_pattern(patterns) if each)
        return ["all", *patterns] if leaves_out else patterns

    def _read_target(self, variables: Any) -> Any:
        if "target" not in variables:
            for name in get_close_matches("target", map(str, load_extra_vars(self._loader)), n=1, cutoff=0.8):
                raise AnsibleLookupError(_MISSPELLED.format(name=one_line(name)))
            return "all"
        self._templar.available_variables = variables
        return self._templar.template(variables["target"])

    def _matches(self, patterns: list[str], limit: str | None, groups: dict[str, list[str]]) -> bool:
        manager = InventoryManager(self._loader, parse=False)
        for group, hosts in groups.items():
            manager.add_group(group)
            for host in hosts:
                manager.add_host(host, group=group)
        try:
            manager.subset(limit)
            return bool(manager.get_hosts(patterns))
        except AnsibleError as error:
            raise AnsibleLookupError(f"target: {error}") from error
