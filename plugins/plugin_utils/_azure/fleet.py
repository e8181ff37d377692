# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Ask Resource Graph once for the hosts of an inventory, and tell for each of them what it has."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from ansible.errors import AnsibleError

from .events import affected
from .graph import ask_events, ask_health, scope_of
from .resource_ids import VM, ResourceId, read_resource_id
from .task import Task


def read_vm_id(given: Iterable[Any]) -> ResourceId | None:
    """Return the first of the values that is the id of a VM; None where none is."""
    found = map(read_resource_id, given)
    return next((resource for resource in found if resource is not None and resource.kind == VM), None)


def ids_of_host(hostvars: Any, host: str) -> Iterator[Any]:
    """Yield the variables of a host that may be the id of its VM; one that is a template also as its value."""
    raw = hostvars.raw_get(host)
    for name in ("resource_id", "id"):
        value = raw.get(name)
        yield value
        if isinstance(value, str) and "{" in value:
            try:
                yield hostvars[host].get(name)
            except AnsibleError:
                continue


def ask_for_hosts(task: Task, resources: Mapping[str, ResourceId], with_causes: bool) -> dict[str, Any]:
    """Return for each host the events that affect its VM or may do so, ended ones too.

    :param with_causes: add Azure's notes on the health of the VMs.
    :raises AzureError: there was no usable answer.
    :raises ValueError: the login lacks something.
    """
    told: dict[str, dict[str, Any]] = {
        host: {"resource_id": str(resource), "events": [], "causes": []} for host, resource in resources.items()
    }
    by_key: dict[str, list[str]] = {}
    for host, resource in resources.items():
        by_key.setdefault(resource.key, []).append(host)
    is_complete = True
    if resources:
        client = task.client()
        scope = scope_of([each.subscription for each in resources.values()])
        found = ask_events(client, scope, task.warn)
        is_complete = found.is_complete
        now = client.now()
        for each in found.events:
            keys = affected(each, by_key)
            shown = each.to_dict(now) if keys else {}
            for key, is_affected in keys.items():
                for host in by_key[key]:
                    told[host]["events"].append({**shown, "affects_this_vm": is_affected})
        health = ask_health(client, scope) if with_causes else {}
        for host, resource in resources.items():
            told[host]["causes"] = health.get(resource.key, [])
    return {"changed": False, "hosts": told, "is_complete": is_complete}
