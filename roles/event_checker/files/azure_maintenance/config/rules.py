# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which rule answers an event, and which steps it asks for."""

from __future__ import annotations

import contextlib
import re
import time
from datetime import datetime
from typing import Any, Iterable, Iterator

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import one_line
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Event
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    RESTORE,
    STARTED,
    WAITING,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.selection import Selection, keys
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._time_limit import TimeIsUpError, limit

from .config import AT_ONCE, WHEN_READY, Rule


class RuleError(Exception):
    """The condition of a rule failed on an event."""


# Seconds that the description and the query of a rule, and of all rules together, may take in one process: polling
# waits for them, and a flood of events or of rules must not keep the check from it (P8).
MATCH_LIMIT = 1.0
_ALL_LIMIT = 3.0
# Seconds that they have taken, by the names of the rules
_spent: dict[str, float] = {}
APPROVE_STEP: dict[str, Any] = {"approve": True}
# The reason of a failed response if its record was put aside; status compares it.
RESPONSE_LOST = "Its record is lost, so whether it has run is not known."


def find_rule(rules: Iterable[Rule], event: Event, now: datetime, resource_name: str) -> tuple[Rule | None, list[str]]:
    """Return the first rule that matches, None where none does, and sentences about rules that took too long.

    An event that names no VM gets none: whether it concerns this VM is unknown, and all VMs that
    share the document would act on it at the same moment. A rule whose condition takes too long does not match, nor
    does it for any later event.

    :raises RuleError: the query of a rule cannot be applied to the event. No later rule is tried, because this rule
        may be the right one.
    """
    slow: list[str] = []
    for rule in rules if event.resources else ():
        try:
            if _matches(rule, event, now, resource_name):
                return rule, slow
        except TimeIsUpError:
            slow.append(
                f"rule {one_line(rule.name)} does not match: its description or query took more than {MATCH_LIMIT:g} "
                f"s, or those of all rules more than {_ALL_LIMIT:g} s"
            )
    return None, slow


def _matches(rule: Rule, event: Event, now: datetime, resource_name: str) -> bool:
    match = rule.match
    selection = Selection(
        event_types=keys(match.get("event_types", ())), event_sources=keys(match.get("event_sources", ()))
    )
    if not selection.matches(event, now):
        return False
    if "min_duration" in match or "max_duration" in match:
        # An unknown length is neither short nor long.
        if event.duration_seconds is None:
            return False
        if not match.get("min_duration", 0) <= event.duration_seconds <= match.get("max_duration", float("inf")):
            return False
    if "description" in match:
        with _limited(rule):
            if not re.search(match["description"], event.description or ""):
                return False
    if "query" not in match:
        return True
    import jmespath

    try:
        with _limited(rule):
            return bool(jmespath.search(match["query"], event.to_dict(now, resource_name)))
    except Exception as error:
        # jmespath lets TypeError, ValueError and others of Python through.
        why = one_line(" ".join(str(error).split()))
        raise RuleError(f"the query of rule {one_line(rule.name)} failed ({why})") from error


@contextlib.contextmanager
def _limited(rule: Rule) -> Iterator[None]:
    """:raises TimeIsUpError: the time of the rule, or of all rules, is up."""
    left = min(MATCH_LIMIT - _spent.get(rule.name, 0.0), _ALL_LIMIT - sum(_spent.values()))
    if left <= 0:
        raise TimeIsUpError
    begun = time.monotonic()
    try:
        with limit(left):
            yield
    finally:
        _spent[rule.name] = _spent.get(rule.name, 0.0) + time.monotonic() - begun


def steps_for(rule: Rule, phase: str) -> list[dict[str, Any]]:
    """Return the steps of the rule in a phase, with the approval as a step of its own."""
    if phase == ANNOUNCED:
        first = [APPROVE_STEP] if rule.approve == AT_ONCE else []
        last = [APPROVE_STEP] if rule.approve == WHEN_READY else []
        return [*first, *rule.on_announced, *last]
    steps = {WAITING: rule.on_waiting, RESTORE: rule.on_ended, STARTED: rule.on_started, ENDED: rule.on_ended}
    return list(steps[phase])
