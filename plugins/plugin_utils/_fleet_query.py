# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What one host of a fleet query answered, as a look of the fleet report, with its message in the words of any task."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from ._fleet_parts import AFFECTED, FAILED, QUIET, STATES, Look, look_at, what_was_printed


def read_answer(host: str, result: Mapping[str, Any], failed: bool = False) -> Look:
    """Return what a result of scheduled_events_info says, also that of a loop."""
    if isinstance(result.get("results"), list):
        items = [item for item in result["results"] if not item.get("skipped")]
        return _all_of(host, [read_answer(host, item, bool(item.get("failed"))) for item in items])
    look = look_at(host, dict(result))
    if look["state"] not in (QUIET, AFFECTED):
        # Of what the host returned and cannot be used, the result itself says nothing.
        return look if look["reason"] == "malformed" else {**look, "message": tell_failure(result)}
    return {**look, "state": FAILED, "message": tell_failure(result)} if failed else look


def _all_of(host: str, looks: Sequence[Look]) -> Look:
    """Return the answers of one host as one. What went wrong in one of them is not covered by the others."""
    if not looks:
        return look_at(host, {"events": []})
    worst = max(looks, key=lambda look: STATES.index(look["state"]))
    name = next((look["resource_name"] for look in looks if look["resource_name"]), None)
    return {**worst, "resource_name": name, "events": [event for look in looks for event in look["events"]]}


def tell_failure(result: Mapping[str, Any]) -> str:
    """Return on one line what a result that is no success says of itself, in the words of its module."""
    items = result.get("results")
    if isinstance(result.get("failed_modules"), dict):
        # Of several modules, as for facts, the message has the names alone.
        items = list(result["failed_modules"].values())
    if isinstance(items, list):
        told = [tell_failure(item) for item in items if item.get("failed") or item.get("unreachable")]
        if told:
            return "; ".join(dict.fromkeys(told))
    words = [str(result.get("msg") or result.get("censored") or "")]
    # The message of a command that failed says no more than that.
    if result.get("rc"):
        words += [f"rc={result['rc']}", str(result.get("stderr") or result.get("stdout") or "")]
    words.append(what_was_printed(result))
    lines = [line for line in (" ".join(text.split()) for text in words) if line]
    told_first = [line.removesuffix(".") for line in lines[:-1]]
    return ": ".join([*told_first, *lines[-1:]]) or "no answer and no reason in the result"
