# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Merge the answers of many VMs into one list of events, and note where they contradict each other."""

from __future__ import annotations

from datetime import datetime
from operator import itemgetter
from typing import Any, Iterable, NamedTuple, Sequence

from ....module_utils._errors import one_line
from ....module_utils._event.document import STARTED, fold_case, read_utc
from ..slices import HostResult, Slice, newest_results, report_header
from .host_results import NOT_ASKED, SLICE_FORMAT, STATES, has_own_word, no_answer

Report = dict[str, Any]

_FIELDS = ("event_type", "event_status", "not_before", "description", "event_source", "duration_seconds")
_words = itemgetter(*_FIELDS)
_MOST_NAMED = 4


def merge_slices(slices: Sequence[Slice], now: datetime, expected: Sequence[str] = (), max_age: float = 0) -> Report:
    """Return the report on a fleet.

    :param slices: checked but for those that are too old; of a host in several of them the newest result counts.
    :param expected: hosts that must be in the report: one that no slice knows is named as not asked.
    :param max_age: seconds after which a slice is left out; 0 takes all.
    """
    results, of_parts = newest_results(SLICE_FORMAT, slices, now, max_age)
    for host in expected:
        if host not in results:
            results[host] = _not_asked(host, of_parts["left_out_parts"])
    hosts = _without_older_rows(list(results.values()))
    events = merge_events(hosts, now)
    return {
        **report_header(now, hosts, of_parts),
        "counts": _count(hosts, events),
        "events": events,
        "hosts": [_without_events(result) for result in hosts],
    }


def _not_asked(host: str, left_out: list[str]) -> HostResult:
    newer = "new enough " if left_out else ""
    message = f"No {newer}part of this report has the host: run the slice that asks it again."
    return {**no_answer(host, NOT_ASKED, "no_part", message), "asked_at": None}


def _without_older_rows(hosts: Sequence[HostResult]) -> list[HostResult]:
    """Return the results without Azure's events that are over: a VM that they name told all, and not of them."""
    known: dict[str, set[str]] = {}
    for told in hosts:
        if told["resource_id"] is not None and has_own_word(told):
            known[fold_case(told["resource_id"])] = {fold_case(event["event_id"]) for event in told["events"]}

    def counts(event: dict[str, Any], own: set[str]) -> bool:
        key = fold_case(event["event_id"])
        return key not in own and all(key in known.get(fold_case(vm), (key,)) for vm in event["vm_resource_ids"])

    def without(told: HostResult) -> HostResult:
        own = {fold_case(event["event_id"]) for event in told["events"]}
        return {**told, "azure_events": [event for event in told["azure_events"] if counts(event, own)]}

    return [without(told) if told["azure_events"] else told for told in hosts]


def _without_events(result: HostResult) -> dict[str, Any]:
    """Return a result as the report shows it: the VMs of one document tell of all its events, and it has those once."""
    shown = {name: result[name] for name in ("host", "state", "reason", "message", "resource_name", "asked_at")}
    shown["event_ids"] = [event["event_id"] for event in result["events"] if event["affects_this_vm"] is not False]
    shown["warnings"] = result["warnings"]
    shown["out_of_service"] = result["out_of_service"]
    shown["told_by_azure"] = [event["event_id"] for event in result["azure_events"]]
    return shown


def _count(hosts: Sequence[HostResult], events: list[dict[str, Any]]) -> dict[str, int]:
    counts = dict.fromkeys(("asked", *STATES), 0)
    for result in hosts:
        counts[result["state"]] += 1
    counts["asked"] = len(hosts) - counts[NOT_ASKED]
    counts["events"] = len(events)
    counts["started"] = sum(event["event_status"] == STARTED for event in events)
    counts["told_by_azure"] = sum(bool(result["azure_events"]) for result in hosts)
    counts["contradictions"] = sum(bool(event["contradictions"]) for event in events)
    return counts


class _Statement(NamedTuple):
    """The same data on an event from one or more hosts, given by their numbers."""

    event: dict[str, Any]
    hosts: list[int]


class _EventStatements(NamedTuple):
    """All that was told of one event, and for each host that told it whether it is affected."""

    statements: dict[tuple[Any, ...], _Statement]
    affects: dict[int, bool | None]

    def add(self, event: dict[str, Any], number: int) -> None:
        words = (*_words(event), *event["resources"])
        statement = self.statements.get(words)
        if statement is None:
            statement = self.statements[words] = _Statement(event, [])
        statement.hosts.append(number)
        self.affects[number] = event["affects_this_vm"]


def merge_events(hosts: Sequence[HostResult], now: datetime) -> list[dict[str, Any]]:
    """Return each event once: started ones first, then by start, at the end those with an unknown start."""
    by_vms: dict[str, _EventStatements] = {}
    by_azure: dict[str, _EventStatements] = {}
    named: dict[str, list[int]] = {}
    named_by_azure: dict[str, list[int]] = {}
    for number, result in enumerate(hosts):
        if result["resource_name"] is not None:
            named.setdefault(fold_case(result["resource_name"]), []).append(number)
        elif result["azure_events"]:
            named_by_azure.setdefault(fold_case(vm_name(result) or ""), []).append(number)
        for events, told in ((result["events"], by_vms), (result["azure_events"], by_azure)):
            for event in events:
                key = fold_case(event["event_id"])
                statements = told.get(key)
                if statements is None:
                    statements = told[key] = _EventStatements({}, {})
                statements.add(event, number)
    none = _EventStatements({}, {})
    names = _Names(named, named_by_azure)
    merged = (
        _merge_event(by_vms.get(key, none), by_azure.get(key, none), hosts, names, now)
        for key in {**by_vms, **by_azure}
    )
    return sorted(merged, key=_order)


class _Names(NamedTuple):
    """The numbers of the hosts by their names, as the VMs told them or, where they told nothing, by their ids."""

    told: dict[str, list[int]]
    by_azure: dict[str, list[int]]


def vm_name(result: HostResult) -> str | None:
    """Return the name of the VM of a host, as the VM told it or else by its id."""
    name: str | None = result["resource_name"]
    return result["resource_id"].rsplit("/", 1)[-1] if name is None and result["resource_id"] else name


def _order(event: dict[str, Any]) -> tuple[Any, ...]:
    return (event["event_status"] != STARTED, event["not_before"] or "~", fold_case(event["event_id"]))


def _merge_event(
    by_vms: _EventStatements, by_azure: _EventStatements, hosts: Sequence[HostResult], names: _Names, now: datetime
) -> dict[str, Any]:
    # The VMs' own word counts more.
    told = by_vms if by_vms.statements else by_azure
    # The answer of most VMs comes first; among equals that of the first host of the inventory.
    statements = sorted(told.statements.values(), key=lambda statement: -len(statement.hosts))
    best = statements[0].event
    event = {"event_id": best["event_id"]}
    for field in _FIELDS:
        event[field] = next((one.event[field] for one in statements if one.event[field] is not None), None)
    if any(_has_started(one.event) for one in statements):
        event.update(event_status=STARTED, not_before=None)
    elif event["not_before"] is not None:
        # The notice is a maximum: prepare for the earliest time that any VM was told.
        event["not_before"] = min(filter(None, (one.event["not_before"] for one in statements)))
    event["seconds_until_start"] = _seconds_until_start(event, now)
    event["resources"] = _union(
        one.event["resources"] for one in (*statements, *(by_azure.statements.values() if told is by_vms else ()))
    )
    event["leader"] = best["resources"][0] if best["resources"] else None
    vms, silent = _vms(event["resources"], {**by_vms.affects, **by_azure.affects}, hosts, names)
    event["vms"] = vms
    event["told_by"] = _names(by_vms.affects, hosts)
    event["told_by_azure"] = _names(by_azure.affects, hosts)
    event["contradictions"] = _contradictions(statements, hosts) if len(statements) > 1 else []
    if silent:
        known = "in the document" if told is by_vms else "in Azure Resource Graph"
        in_document = {known: list(told.affects), "not in the document": silent}
        event["contradictions"].append(_contradiction("event", in_document, hosts))
    return event


def _has_started(event: dict[str, Any]) -> bool:
    return fold_case(event["event_status"] or "") == fold_case(STARTED)


def _names(numbers: Iterable[int], hosts: Sequence[HostResult]) -> list[str]:
    return [hosts[number]["host"] for number in sorted(numbers)]


def _seconds_until_start(event: dict[str, Any], now: datetime) -> int | None:
    if event["event_status"] == STARTED:
        return 0
    not_before = read_utc(event["not_before"] or "")
    return None if not_before is None else max(0, int((not_before - now).total_seconds()))


def _union(lists: Iterable[list[str]]) -> list[str]:
    names: dict[str, str] = {}
    for some in lists:
        for name in some:
            names.setdefault(fold_case(name), name)
    return list(names.values())


def _vms(
    resources: list[str], affects: dict[int, bool | None], hosts: Sequence[HostResult], names: _Names
) -> tuple[list[dict[str, str | None]], list[int]]:
    """Return the VMs of an event with their hosts, and the hosts that should have told of it and did not.

    Names are unique in a resource group only, so of two namesakes the one is meant that told of the event.
    """
    vms: list[dict[str, str | None]] = []
    silent: list[int] = []
    for name in resources:
        key = fold_case(name)
        namesakes = names.told.get(key, [])
        meant = [number for number in (*namesakes, *names.by_azure.get(key, ())) if number in affects]
        if not meant:
            silent.extend(namesakes)
            # Of several silent namesakes nobody can say which is meant.
            meant = namesakes if len(namesakes) == 1 else []
        vms.extend({"resource": name, "host": hosts[number]["host"]} for number in meant)
        if not meant:
            vms.append({"resource": name, "host": None})
    # An event that names no VM, or a VM that does not know its own name, may mean any that told of it.
    for number, affected in affects.items():
        if affected is None:
            vms.append({"resource": vm_name(hosts[number]), "host": hosts[number]["host"]})
    return vms, silent


def _contradictions(statements: list[_Statement], hosts: Sequence[HostResult]) -> list[dict[str, Any]]:
    """Return the fields of one event in which hosts differ. A host without the field contradicts no other."""
    found = []
    for field in _FIELDS:
        told: dict[Any, list[int]] = {}
        for event, numbers in statements:
            # Azure blanks the time of a started event.
            if event[field] is not None and not (field == "not_before" and _has_started(event)):
                told.setdefault(event[field], []).extend(numbers)
        if len(told) > 1:
            found.append(_contradiction(field, told, hosts))
    lists: dict[Any, list[int]] = {}
    leaders: dict[Any, list[int]] = {}
    for event, numbers in statements:
        if event["resources"]:
            lists.setdefault(", ".join(sorted(map(fold_case, event["resources"]))), []).extend(numbers)
            leaders.setdefault(fold_case(event["resources"][0]), []).extend(numbers)
    for field, told in (("resources", lists), ("leader", leaders)):
        if len(told) > 1:
            found.append(_contradiction(field, told, hosts))
    return found


def _contradiction(field: str, told: dict[Any, list[int]], hosts: Sequence[HostResult]) -> dict[str, Any]:
    return {"field": field, "told": [{"value": value, "hosts": _names(told[value], hosts)} for value in told]}


def describe_contradiction(contradiction: dict[str, Any]) -> str:
    """Return ``event_status: Scheduled (web-1, web-2), Started (web-3)``."""
    told = [f"{one_line(str(one['value']))} ({_first_names(one['hosts'])})" for one in contradiction["told"]]
    return f"{contradiction['field']}: {', '.join(told)}"


def _first_names(names: list[str]) -> str:
    more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return ", ".join([*map(one_line, names[:_MOST_NAMED]), *more])
