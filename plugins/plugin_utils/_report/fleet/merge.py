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
from .host_results import NOT_ASKED, SLICE_FORMAT, STATES

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
    results, left_out = newest_results(SLICE_FORMAT, slices, now, max_age)
    for host in expected:
        if host not in results:
            results[host] = _not_asked(host, left_out)
    hosts = list(results.values())
    events = merge_events(hosts, now)
    return {
        **report_header(now, hosts, left_out),
        "counts": _count(hosts, events),
        "events": events,
        "hosts": [_without_events(result) for result in hosts],
    }


def _not_asked(host: str, left_out: list[str]) -> HostResult:
    newer = "new enough " if left_out else ""
    return {
        "host": host,
        "state": NOT_ASKED,
        "reason": "no_part",
        "message": f"No {newer}part of this report has the host: run the slice that asks it again.",
        "resource_name": None,
        "asked_at": None,
        "events": [],
        "warnings": [],
        "out_of_service": [],
    }


def _without_events(result: HostResult) -> dict[str, Any]:
    """Return a result as the report shows it: the VMs of one document tell of all its events, and it has those once."""
    shown = {name: result[name] for name in ("host", "state", "reason", "message", "resource_name", "asked_at")}
    shown["event_ids"] = [event["event_id"] for event in result["events"] if event["affects_this_vm"] is not False]
    shown["warnings"] = result["warnings"]
    shown["out_of_service"] = result["out_of_service"]
    return shown


def _count(hosts: Sequence[HostResult], events: list[dict[str, Any]]) -> dict[str, int]:
    counts = dict.fromkeys(("asked", *STATES), 0)
    for result in hosts:
        counts[result["state"]] += 1
    counts["asked"] = len(hosts) - counts[NOT_ASKED]
    counts["events"] = len(events)
    counts["started"] = sum(event["event_status"] == STARTED for event in events)
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


def merge_events(hosts: Sequence[HostResult], now: datetime) -> list[dict[str, Any]]:
    """Return each event once: started ones first, then by start, at the end those with an unknown start."""
    statements_by_id: dict[str, _EventStatements] = {}
    named: dict[str, list[int]] = {}
    for number, result in enumerate(hosts):
        if result["resource_name"] is not None:
            named.setdefault(fold_case(result["resource_name"]), []).append(number)
        for event in result["events"]:
            key = fold_case(event["event_id"])
            told = statements_by_id.get(key)
            if told is None:
                told = statements_by_id[key] = _EventStatements({}, {})
            words = (*_words(event), *event["resources"])
            statement = told.statements.get(words)
            if statement is None:
                statement = told.statements[words] = _Statement(event, [])
            statement.hosts.append(number)
            told.affects[number] = event["affects_this_vm"]
    return sorted((_merge_event(told, hosts, named, now) for told in statements_by_id.values()), key=_order)


def _order(event: dict[str, Any]) -> tuple[Any, ...]:
    return (event["event_status"] != STARTED, event["not_before"] or "~", fold_case(event["event_id"]))


def _merge_event(
    told: _EventStatements, hosts: Sequence[HostResult], named: dict[str, list[int]], now: datetime
) -> dict[str, Any]:
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
    event["resources"] = _union(one.event["resources"] for one in statements)
    event["leader"] = best["resources"][0] if best["resources"] else None
    vms, silent = _vms(event["resources"], told.affects, hosts, named)
    event["vms"] = vms
    event["told_by"] = _names(told.affects, hosts)
    event["contradictions"] = _contradictions(statements, hosts) if len(statements) > 1 else []
    if silent:
        in_document = {"in the document": list(told.affects), "not in the document": silent}
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
    resources: list[str], affects: dict[int, bool | None], hosts: Sequence[HostResult], named: dict[str, list[int]]
) -> tuple[list[dict[str, str | None]], list[int]]:
    """Return the VMs of an event with their hosts, and the hosts that should have told of it and did not.

    Names are unique in a resource group only, so of two namesakes the one is meant that told of the event.
    """
    vms: list[dict[str, str | None]] = []
    silent: list[int] = []
    for name in resources:
        namesakes = named.get(fold_case(name), [])
        meant = [number for number in namesakes if number in affects]
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
            vms.append({"resource": hosts[number]["resource_name"], "host": hosts[number]["host"]})
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
