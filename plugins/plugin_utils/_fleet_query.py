# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What the hosts of a fleet answered, as one list of events and one count of hosts."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from ..module_utils._decisions import NO_DOCUMENT

QUIET = "quiet"
AFFECTED = "affected"
UNREACHABLE = "unreachable"
NOT_ON_AZURE = "not on Azure"
FAILED = "failed"
STATES = (QUIET, AFFECTED, UNREACHABLE, NOT_ON_AZURE, FAILED)

_NOT_ON_AZURE_REASONS = ("unreachable", "not_imds")


class Answer(NamedTuple):
    """What one host answered."""

    host: str
    state: str
    reason: str = ""
    """Why the state is not QUIET or AFFECTED, in words."""
    resource_name: str | None = None
    events: Sequence[Mapping[str, Any]] = ()


class Row(NamedTuple):
    """One event, as all hosts together tell it."""

    event_id: str
    event_type: str | None
    event_status: str | None
    event_source: str | None
    duration_seconds: int | None
    not_before: str | None
    seconds_until_start: int | None
    vms: Sequence[str]

    @property
    def has_started(self) -> bool:
        return _is(self.event_status, "started")

    @property
    def is_scheduled(self) -> bool:
        return _is(self.event_status, "scheduled")


def _is(status: str | None, word: str) -> bool:
    return (status or "").casefold() == word


def read_answer(host: str, result: Mapping[str, Any], failed: bool = False) -> Answer:
    """Return what a result of scheduled_events_info says, also that of a loop."""
    if isinstance(result.get("results"), list):
        items = [item for item in result["results"] if not item.get("skipped")]
        return _all_of(host, [read_answer(host, item, bool(item.get("failed"))) for item in items])
    words = tell_failure(result)
    if result.get("unreachable"):
        return Answer(host, UNREACHABLE, words)
    if result.get("reason") in _NOT_ON_AZURE_REASONS:
        return Answer(host, NOT_ON_AZURE, words)
    events = result.get("events")
    if events is None:
        return Answer(host, FAILED, words)
    name = result.get("resource_name")
    if failed or result.get("msg") == NO_DOCUMENT:
        return Answer(host, FAILED, words, name, events)
    # None, not only True: an event that names no VM may mean this one.
    affected = any(event["affects_this_vm"] is not False for event in events)
    return Answer(host, AFFECTED if affected else QUIET, "", name, events)


def _all_of(host: str, answers: Sequence[Answer]) -> Answer:
    """Return the answers of one host as one. What went wrong in one of them is not covered by the others."""
    if not answers:
        return Answer(host, QUIET)
    worst = max(answers, key=lambda answer: STATES.index(answer.state))
    name = next((answer.resource_name for answer in answers if answer.resource_name), None)
    return worst._replace(resource_name=name, events=[event for answer in answers for event in answer.events])


def tell_failure(result: Mapping[str, Any]) -> str:
    """Return on one line what a result that is no success says of itself, in the words of its module."""
    items = result.get("results")
    if isinstance(items, list):
        told = [tell_failure(item) for item in items if item.get("failed") or item.get("unreachable")]
        if told:
            return "; ".join(dict.fromkeys(told))
    words = [str(result.get("msg") or result.get("censored") or "")]
    # The message of a command that failed says no more than that.
    if result.get("rc"):
        words += [f"rc={result['rc']}", str(result.get("stderr") or result.get("stdout") or "")]
    words.append(str(result.get("module_stderr") or ""))
    lines = [" ".join(text.split()) for text in words]
    return ": ".join(line for line in lines if line) or "no answer and no reason in the result"


def count(answers: Iterable[Answer]) -> dict[str, int]:
    """Return how many hosts are in each state."""
    counts = dict.fromkeys(STATES, 0)
    for answer in answers:
        counts[answer.state] += 1
    return counts


def merge(answers: Iterable[Answer]) -> list[Row]:
    """Return each event once, whoever told it: what has started first, then by start, at the end the unknown."""
    told: dict[str, list[tuple[Answer, Mapping[str, Any]]]] = {}
    for answer in answers:
        for event in answer.events:
            told.setdefault(event["event_id"].casefold(), []).append((answer, event))
    return sorted((_row(tellers) for tellers in told.values()), key=_order)


def _row(tellers: Sequence[tuple[Answer, Mapping[str, Any]]]) -> Row:
    events = [event for _answer, event in tellers]
    # The hosts are not asked in the same moment: what one of them has seen start has started.
    started = [event for event in events if _is(event["event_status"], "started")]
    shown = (started or events)[0]

    def earliest(field: str) -> Any:
        return min((event[field] for event in events if event[field] is not None), default=None)

    return Row(
        event_id=shown["event_id"],
        event_type=shown["event_type"],
        event_status=shown["event_status"],
        event_source=shown["event_source"],
        duration_seconds=shown["duration_seconds"],
        not_before=earliest("not_before"),
        seconds_until_start=earliest("seconds_until_start"),
        vms=_vms(tellers),
    )


def _vms(tellers: Sequence[tuple[Answer, Mapping[str, Any]]]) -> list[str]:
    """Return the VMs by their resource names, and beside them what the inventory calls those that differ."""
    hosts = {answer.resource_name.casefold(): answer.host for answer, _event in tellers if answer.resource_name}
    names: dict[str, str] = {}
    for _answer, event in tellers:
        for name in event["resources"]:
            names.setdefault(name.casefold(), name)
    return [name if hosts.get(key, name).casefold() == key else f"{name} ({hosts[key]})" for key, name in names.items()]


def _order(row: Row) -> tuple[int, str, str]:
    if row.has_started:
        return (0, "", row.event_id)
    # Not the seconds, for these are counted from the moment a host was asked.
    return (1, row.not_before, row.event_id) if row.not_before else (2, "", row.event_id)
