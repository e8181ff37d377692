# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""How many hosts of a run may be out of service at once, and which event is next; pure. Times: seconds since 1970."""

from __future__ import annotations

from typing import Any, Mapping

from ...module_utils._event.document import fold_case
from ...module_utils._event.lifecycle import ENDED
from .hosts import Host, is_present, seconds, shared, started
from .marks import find_foreign
from .progress import is_undecided, must_restore, progress_key, seconds_left

# The permissions of an event
BOTH, PREPARE_ONLY, NEITHER = "both", "prepare", "neither"


def read_limit(text: str, hosts: int) -> int | None:
    """Return how many of so many hosts may be out of service at once, None for all.

    :param text: a number, or a percentage, of which at least one host is left.
    """
    if not text:
        return None
    return max(1, hosts * int(text[:-1]) // 100) if text.endswith("%") else int(text)


def queue_events(hosts: Mapping[str, Host], now: float) -> dict[str, dict[str, Any]]:
    """Return the permission of each event that is still to be prepared or approved, in the order of their starts.

    :param hosts: all hosts of the run.
    :returns: by the key of the event: ``may`` (one of BOTH, PREPARE_ONLY, NEITHER), ``behind`` (the hosts that must be
        back before), ``unknown`` (those of them that only count because they cannot be asked), ``limit`` (the number
        that is kept, or cannot be), ``is_too_large`` (it takes more hosts out of service by itself than may be),
        ``event``, ``hosts``.
    """
    own = {host: known for host, known in hosts.items() if known["settings"] is not None}
    waiting = _find_waiting(own)
    # Those that are out of service for another event, or by another run or the checker
    taken = {host for host, known in own.items() if find_foreign(known) or _is_taken(known, waiting)}
    # Nobody knows that they are in service.
    lost = {host for host, known in own.items() if _cannot_be_asked(known)}
    taken |= lost
    queue = {}
    for key, entry in sorted(waiting.items(), key=lambda item: _start(item[1]["event"], now)):
        names = set(entry["hosts"])
        found = [
            _look_at_group(group, own, names, taken) for group in dict.fromkeys(_group(own[host]) for host in names)
        ]
        behind = {host for full in found if full for host in full["behind"]}
        urgent = any(_is_urgent(entry["event"], own[host], now) for host in names)
        queue[key] = {
            **entry,
            "may": BOTH if not behind else PREPARE_ONLY if urgent else NEITHER,
            "behind": [host for host in own if host in behind],
            "unknown": [host for host in own if host in behind & lost and not any(map(_is_out, own[host]["events"]))],
            "limit": min((full["limit"] for full in found if full), default=None),
            "is_too_large": any(full["is_too_large"] for full in found if full),
        }
        # Where it waits, those behind it wait too.
        taken |= names
    return queue


def _is_taken(known: Host, waiting: Mapping[str, Any]) -> bool:
    """Tell whether a host is out of service for an event that does not wait; Azure may have taken it down itself."""
    keys = [progress_key(each) for each in known["events"] if _is_out(each)]
    if not any(each["gone"] for each in known["events"]):
        keys += [fold_case(event["event_id"]) for event in started(known)]
    return any(key not in waiting for key in keys)


def _is_out(each: Mapping[str, Any]) -> bool:
    """Tell whether an event has its host out of service, for all that is known."""
    return must_restore(each) or (each["restored"] is False and not each["gone"])


def _cannot_be_asked(known: Host) -> bool:
    """Tell whether a host did not answer when it was last asked, or never did. A VM that was deleted never will."""
    is_silent = known["asked_at"] is not None and known["answered_at"] is None
    is_lost = not is_present(known) or known["unreachable"]
    return (is_silent or is_lost) and not any(each["gone"] for each in known["events"])


def _find_waiting(hosts: Mapping[str, Host]) -> dict[str, dict[str, Any]]:
    """Return the events that are to be prepared or approved, with all their hosts: one may know more than another."""
    waiting: dict[str, dict[str, Any]] = {}
    followed = [(host, each) for host, known in hosts.items() for each in known["events"]]
    for _host, each in followed:
        if is_undecided(each):
            waiting.setdefault(progress_key(each), {"event": each["event"], "hosts": []})
    for host, each in followed:
        if progress_key(each) in waiting and (each["phase"] != ENDED or _is_out(each)):
            waiting[progress_key(each)]["hosts"].append(host)
    return waiting


def _look_at_group(group: str, hosts: Mapping[str, Host], names: set[str], taken: set[str]) -> dict[str, Any] | None:
    """Return why these hosts may not be taken out of service too, None where they may."""
    members = {host for host, known in hosts.items() if _group(known) == group}
    limit = read_limit(str(shared(hosts, "max_unavailable") or ""), len(members))
    if limit is None or len((taken | names) & members) <= limit:
        return None
    return {"limit": limit, "behind": (taken - names) & members, "is_too_large": len(names & members) > limit}


def _group(known: Host) -> str:
    return str(known["settings"]["group"])


def _start(event: Mapping[str, Any], now: float) -> float:
    left = seconds_left(event, now)
    return float("inf") if left is None else float(left)


def _is_urgent(event: Mapping[str, Any], known: Host, now: float) -> bool:
    """Tell whether Azure may start an event before a preparation that begins later has ended."""
    left = seconds_left(event, now)
    return left is None or left <= seconds(known, "prepare_timeout")


def next_urgent(queue: Mapping[str, Mapping[str, Any]], hosts: Mapping[str, Host], now: float) -> float | None:
    """Return when the next event in the queue is to be prepared although it is not its turn."""
    moments = [
        now + _start(entry["event"], now) - seconds(hosts[host], "prepare_timeout")
        for entry in queue.values()
        if entry["may"] == NEITHER
        for host in entry["hosts"]
    ]
    return min(moments, default=None)
