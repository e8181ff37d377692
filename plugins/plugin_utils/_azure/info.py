# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Read the events of Resource Graph: the work of the module resource_graph_events_info."""

from __future__ import annotations

from typing import Any, Mapping

from .events import OutsideEvent, read_selection, select, summarize
from .graph import Scope, ask_events, ask_health, scope_of
from .resource_ids import ResourceId, need_resource_id
from .task import Task

_SCOPES = ("subscriptions", "management_groups", "resource_ids")

SPEC: dict[str, Any] = {
    "argument_spec": {
        "subscriptions": {"type": "list", "elements": "str"},
        "management_groups": {"type": "list", "elements": "str"},
        "resource_ids": {"type": "list", "elements": "str"},
        "event_types": {"type": "list", "elements": "str"},
        "event_statuses": {"type": "list", "elements": "str"},
        "event_sources": {"type": "list", "elements": "str"},
        "event_ids": {"type": "list", "elements": "str"},
        "due_within": {"type": "int"},
        "cause": {"type": "bool", "default": False},
    },
    "mutually_exclusive": [_SCOPES],
}


def get_events(task: Task) -> dict[str, Any]:
    """Do the module's work.

    :raises AzureError: there was no usable answer.
    :raises ValueError: an option is wrong.
    """
    options = task.options
    selection = read_selection(options)
    empty = next((name for name in _SCOPES if options[name] == []), None)
    if empty:
        # No resources have no events. The events of the subscription would be those of other VMs.
        return {**_describe([], True), "msg": f"{empty} is empty, so nothing was asked."}
    resources = None
    if options["resource_ids"]:
        resources = [need_resource_id(each, "resource_ids") for each in options["resource_ids"]]
    scope = read_scope(options, task.subscription_id, resources)
    client = task.client()
    found = ask_events(client, scope, task.warn)
    selected = select(found.events, selection, client.now(), resources)
    result = _describe([each.to_dict(client.now()) for each in selected], found.is_complete)
    if options["cause"]:
        _add_causes(result["events"], selected, ask_health(client, scope))
    return {**result, "msg": summarize(selected, found.is_complete)}


def read_scope(
    options: Mapping[str, Any], subscription_id: str | None, resources: list[ResourceId] | None = None
) -> Scope:
    """Return the scope of the question.

    :param resources: where they are given, their subscriptions.
    :raises ValueError: no option gives one.
    """
    if resources is not None:
        return scope_of([each.subscription for each in resources])
    groups = [each.strip() for each in options.get("management_groups") or ()]
    if not all(groups):
        raise ValueError("management_groups must be names, and one of them is empty.")
    if groups:
        return Scope(management_groups=tuple(groups))
    subscriptions = options.get("subscriptions") or ([subscription_id] if subscription_id else [])
    if not subscriptions or not all(each.strip() for each in subscriptions):
        raise ValueError(
            "No subscription is given: set subscription_id, subscriptions, management_groups or "
            "resource_ids, or the variable AZURE_SUBSCRIPTION_ID."
        )
    return scope_of([each.strip() for each in subscriptions])


def _describe(events: list[dict[str, Any]], is_complete: bool) -> dict[str, Any]:
    return {"changed": False, "events": events, "is_complete": is_complete}


def _add_causes(
    told: list[dict[str, Any]], events: list[OutsideEvent], health: Mapping[str, list[dict[str, Any]]]
) -> None:
    for each, event in zip(told, events):
        each["causes"] = [said for vm in event.vms for said in health.get(vm.key, ())]
