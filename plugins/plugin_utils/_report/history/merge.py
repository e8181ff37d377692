# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Merge the histories of many VMs: each event once, with summaries by type, by week and by VM."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import lru_cache
from operator import itemgetter
from statistics import median_low
from typing import Any, Callable, Iterable, NamedTuple, Sequence

from ....module_utils._event.document import EVENT_TYPES, fold_case
from ....module_utils._event.history_row import (
    CHECKER,
    DOCUMENTED_NOTICE,
    OTHER,
    Course,
    documented_notice,
    is_shorter,
    known_type,
    read_course,
)
from ....module_utils._event.lifecycle import COMPLETED, WITHDRAWN
from ..slices import Slice, newest_results, report_header
from .host_results import NOT_ASKED, SLICE_FORMAT, STATES, HostHistory, not_asked

Report = dict[str, Any]

OTHER_TYPES = "Other"
UNKNOWN_WEEK = "unknown"
# The VMs of an event see it within minutes; one that was off, when it is on again.
_SAME_EVENT = 86400.0
# Scheduled Events began in 2016. A VM with an earlier time had not set its clock yet.
_FIRST_YEAR = datetime(2016, 1, 1, tzinfo=timezone.utc).timestamp()
_OF_THE_EVENT = (
    "event_id", "event_type", "event_source", "description", "leader", "resources_count", "duration_seconds",
    "simulated",
)  # fmt: skip


_LISTS = ("rows", "azure_events", "azure_causes")


class Seen(NamedTuple):
    """An event as one VM saw it.

    :ivar seen: seconds since 1970.
    :ivar plausible: the clock may have been right.
    """

    row: dict[str, Any]
    host: str
    seen: float
    plausible: bool
    course: Course


def merge_slices(
    slices: Sequence[Slice], now: datetime, expected: Sequence[str] = (), max_age: float = 0, simulated: bool = False
) -> Report:
    """Return the history of a fleet.

    :param slices: checked but for those that are too old; of a host in several of them the newest counts.
    :param expected: hosts that must be in it: one that no slice knows is named as not asked.
    :param max_age: seconds after which a slice is left out; 0 takes all.
    :param simulated: take also the events that simulators announced.
    """
    results, of_parts = newest_results(SLICE_FORMAT, slices, now, max_age)
    for host in expected:
        if host not in results:
            results[host] = not_asked(host, of_parts["left_out_parts"])
    hosts = list(results.values())
    of_vms, number_simulated = _read_rows(hosts, now, simulated)
    events = _merge_events(seen for vm in of_vms.values() for seen in vm)
    azure_events = _of_azure(hosts, events)
    types = _of_types(events)
    return {
        **report_header(now, hosts, of_parts),
        "counts": {**_count(hosts, types), "simulated": number_simulated, "told_by_azure": len(azure_events)},
        "types": types,
        "weeks": _of_weeks(events),
        "vms": _of_vms(hosts, events),
        "events": events,
        "azure_events": azure_events,
        "azure_causes": [{"host": host["host"], **cause} for host in hosts for cause in host["azure_causes"]],
        "hosts": [{key: value for key, value in result.items() if key not in _LISTS} for result in hosts],
    }


def _of_azure(hosts: Sequence[HostHistory], events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the events the outcomes that Azure tells: only there it does. Return the events that no checker saw.

    :param events: the newest first. Azure tells no times, so of two with one id the newest is meant.
    """
    told: dict[str, dict[str, Any]] = {}
    for host in hosts:
        for event in host["azure_events"]:
            told.setdefault(fold_case(event["event_id"]), {**event, "hosts": []})["hosts"].append(host["host"])
    for event in events:
        by_azure = told.pop(fold_case(event["event_id"]), None) if told and not event["simulated"] else None
        event["azure_outcome"] = None if by_azure is None else by_azure["outcome"]
        for each in (event, *event["vms"]) if event["azure_outcome"] else ():
            each["outcome"] = event["azure_outcome"]
    return list(told.values())


def _count(hosts: Sequence[HostHistory], types: list[dict[str, Any]]) -> dict[str, int]:
    counts = dict.fromkeys(("asked", *STATES), 0)
    for result in hosts:
        counts[result["state"]] += 1
    counts["asked"] = len(hosts) - counts[NOT_ASKED]
    names = ("events", "completed", "withdrawn", "open", "shorter", "failed_responses", "late", "doubtful")
    return {**counts, **{name: sum(one[name] for one in types) for name in names}}


def _read_rows(hosts: Sequence[HostHistory], now: datetime, simulated: bool) -> tuple[dict[str, list[Seen]], int]:
    """Return the events that each VM saw, and the number that was left out as of a simulator."""
    last = now.timestamp() + 86400
    found: dict[str, list[Seen]] = {}
    left_out = 0
    for result in hosts:
        host, of_host = result["host"], []
        for row in result["rows"]:
            if row["simulated"] and not simulated:
                left_out += 1
                continue
            seen, course = read_course(row)
            plausible = _FIRST_YEAR <= seen <= last
            if not plausible:
                course = course._replace(doubtful=True)
            of_host.append(Seen(row, host, seen, plausible, course))
        found[host] = of_host
    return found, left_out


def _merge_events(rows: Iterable[Seen]) -> list[dict[str, Any]]:
    by_id: dict[str, list[Seen]] = {}
    for seen in rows:
        by_id.setdefault(fold_case(seen.row["event_id"]), []).append(seen)
    events = [_merge_event(group) for same_id in by_id.values() for group in _groups(same_id)]
    # The newest first; among equals the order of the ids, so that every merge gives the same.
    events.sort(key=lambda event: fold_case(event["event_id"]))
    events.sort(key=lambda event: event["first_seen_at"], reverse=True)
    return events


def _groups(rows: list[Seen]) -> list[list[Seen]]:
    """Separate rows with one id on days far from each other, or of one VM: Azure may use an id again."""
    if len(rows) == 1:
        return [rows]
    groups: list[list[Seen]] = []
    hosts: set[str] = set()
    for seen in sorted(rows, key=lambda each: (not each.plausible, each.seen)):
        is_near = groups and (not seen.plausible or seen.seen - groups[-1][-1].seen <= _SAME_EVENT)
        if not is_near or seen.host in hosts:
            groups.append([])
            hosts.clear()
        groups[-1].append(seen)
        hosts.add(seen.host)
    return groups


def _merge_event(group: list[Seen]) -> dict[str, Any]:
    # Who saw it first on a clock that may be right.
    first = group[0]
    event = {name: first.row[name] for name in _OF_THE_EVENT}
    for name, value in event.items():
        if value is None and len(group) > 1:
            event[name] = next((each.row[name] for each in group if each.row[name] is not None), None)
    documented = documented_notice(event["event_type"])
    approvers = [each for each in group if each.row["approved_by"] == CHECKER]
    outcomes = {each.row["outcome"] for each in group}
    courses = [each.course for each in group]
    notices = [course.notice for course in courses if course.notice is not None]
    lengths = [course.lasted for course in courses if course.lasted is not None]
    starts = [course.approval_to_start for course in courses if course.approval_to_start is not None]
    preparations = [each.row["prepare_seconds"] for each in group if each.row["prepare_seconds"] is not None]
    notice = max(notices, default=None)
    event.update(
        week=_week(first),
        first_seen_at=first.row["first_seen_at"],
        # Who lost sight of it does not know; one VM that saw it completed is enough.
        outcome=next((each for each in (COMPLETED, WITHDRAWN) if each in outcomes), None),
        # The VM that saw it first had the notice that Azure gave.
        notice_seconds=notice,
        documented_notice_seconds=documented and documented.least,
        shorter=notice is not None and is_shorter(event["event_type"], notice),
        approved_by=CHECKER if approvers else OTHER if any(each.row["approved_by"] for each in group) else None,
        approved_on=[each.host for each in approvers],
        approval_to_start_seconds=min(starts, default=None),
        lasted_seconds=median_low(lengths) if lengths else None,
        prepare_seconds=max(preparations, default=None),
        failed_responses=sum(len(each.row["failed_responses"]) for each in group),
        late=any(each.row["late"] for each in group),
        doubtful=any(each.course.doubtful for each in group),
        vms=[_vm(each) for each in group],
    )
    return event


def _vm(seen: Seen) -> dict[str, Any]:
    """Return the fields of an event as one VM saw it, without those that are the same for all."""
    row, course = seen.row, seen.course
    # In a dictionary of its own, those of one event lie beside each other in memory, and are written twice as fast.
    vm = row.copy()
    for name in _OF_THE_EVENT:
        del vm[name]
    vm["shorter"] = course.notice is not None and is_shorter(row["event_type"], course.notice)
    vm["failed_phases"] = row["failed_responses"]
    vm["failed_responses"] = len(row["failed_responses"])
    vm["host"] = seen.host
    vm["notice_seconds"] = course.notice
    vm["approval_to_start_seconds"] = course.approval_to_start
    vm["lasted_seconds"] = course.lasted
    vm["doubtful"] = course.doubtful
    return vm


def _week(seen: Seen) -> str:
    if not seen.plausible:
        return UNKNOWN_WEEK
    return _week_of_day(int(seen.seen // 86400))


@lru_cache(maxsize=4096)
def _week_of_day(day: int) -> str:
    """:param day: days since 1970."""
    year, week, _day = datetime.fromtimestamp(day * 86400, timezone.utc).isocalendar()
    return f"{year}-W{week:02}"


def _spread(values: Iterable[int | None]) -> dict[str, int] | None:
    """Return how values are spread, each number being one of them; None where none is known."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    last = len(known) - 1
    names = ("least", "quarter", "median", "three_quarters", "most")
    return {"known": len(known), **{name: known[round(last * part / 4)] for part, name in enumerate(names)}}


_summarized = itemgetter(
    "outcome", "approved_by", "notice_seconds", "approval_to_start_seconds", "lasted_seconds", "prepare_seconds",
    "shorter", "failed_responses", "late", "doubtful",
)  # fmt: skip


def _summary(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of one or more events, or of one VM's views of them."""
    outcomes, by, notices, starts, lengths, preparations, *numbers = zip(*map(_summarized, events))
    completed, withdrawn = outcomes.count(COMPLETED), outcomes.count(WITHDRAWN)
    shorter, failed_responses, late, doubtful = map(sum, numbers)
    return {
        "events": len(events),
        "completed": completed,
        "withdrawn": withdrawn,
        "open": len(events) - completed - withdrawn,
        "notice": _spread(notices),
        "shorter": shorter,
        "approval_to_start": _spread(starts),
        "lasted": _spread(lengths),
        "prepare": _spread(preparations),
        "approved_by_checker": by.count(CHECKER),
        "approved_by_other": by.count(OTHER),
        "approval_unknown": by.count(None),
        "failed_responses": failed_responses,
        "late": late,
        "doubtful": doubtful,
    }


def _type(event: dict[str, Any]) -> str:
    return known_type(event["event_type"]) or OTHER_TYPES


def _grouped(events: Iterable[dict[str, Any]], key: Callable[[dict[str, Any]], Any]) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for event in events:
        found.setdefault(key(event), []).append(event)
    return found


def _of_types(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a summary of each type that there was; unknown types count as one."""
    by_type = _grouped(events, _type)
    return [
        {"event_type": name, "documented_notice": _documented(name), **_summary(by_type[name])}
        for name in (*EVENT_TYPES, OTHER_TYPES)
        if name in by_type
    ]


def _documented(name: str) -> dict[str, int] | None:
    found = DOCUMENTED_NOTICE.get(name)
    return None if found is None else found._asdict()


def _of_weeks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a summary for each week and type, the newest week first."""
    order = {name: place for place, name in enumerate((*EVENT_TYPES, OTHER_TYPES))}
    by_week = _grouped(events, lambda event: (event["week"], _type(event)))
    keys = sorted(by_week, key=lambda key: order[key[1]])
    keys.sort(key=lambda key: "" if key[0] == UNKNOWN_WEEK else key[0], reverse=True)
    return [{"week": week, "event_type": name, **_summary(by_week[week, name])} for week, name in keys]


def _of_vms(hosts: Sequence[HostHistory], events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a summary for each VM that saw an event."""
    by_host = _grouped((vm for event in events for vm in event["vms"]), itemgetter("host"))
    return [
        {"host": host["host"], "resource_name": host["resource_name"], **_summary(by_host[host["host"]])}
        for host in hosts
        if host["host"] in by_host
    ]


def all_weeks(first: str, last: str) -> list[str]:
    """Return every week from one to the other, such as 2026-W47."""
    moment, weeks = datetime.strptime(f"{first}-1", "%G-W%V-%u"), []
    end = datetime.strptime(f"{last}-1", "%G-W%V-%u")
    while moment <= end:
        year, week, _day = moment.isocalendar()
        weeks.append(f"{year}-W{week:02}")
        moment += timedelta(days=7)
    return weeks
