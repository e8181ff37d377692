# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let a response that failed run again, because a person asks for it."""

from __future__ import annotations

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    WAITING,
)

from .config import ConfigError, Rule
from .records import APPROVED, DUE, FAILED, EventRecord, Moment, ResponseRecord
from .rules import APPROVE_STEP, are_whole, steps_for
from .store import Store


def make_due_again(store: Store, response: ResponseRecord, now: Moment) -> None:
    """Make a failed response due, with those of its steps whose records were lost.

    :raises ConfigError: it did not fail, its event has gone on, or its steps are not known.
    """
    if response.state != FAILED:
        raise ConfigError(f"Response {response.number} is {response.state}; only one that failed can be tried again.")
    event = store.event(response.event)
    if event is not None:
        _check_useful(response, event)
    _add_lost_steps(store, response, event.rule if event is not None else None, now)
    store.renew_failed_steps(response.number)
    store.begin_response(response.number, DUE, now)


def _check_useful(response: ResponseRecord, event: EventRecord) -> None:
    if event.phase == ENDED and response.phase != ENDED:
        raise ConfigError(
            f"The event of response {response.number} has ended, so on_{response.phase} has no use any more; "
            "only on_ended can be tried again."
        )
    if response.phase == WAITING and (event.phase != ANNOUNCED or event.approval == APPROVED):
        what = "is approved" if event.phase == ANNOUNCED else f"has {event.phase}"
        raise ConfigError(f"The event of response {response.number} {what}, so its approval waits for nobody any more.")


def _add_lost_steps(store: Store, response: ResponseRecord, rule: Rule | None, now: Moment) -> None:
    left = store.steps(response.number)
    if are_whole([step.position for step in left], rule, response.phase):
        return
    wanted = steps_for(rule, response.phase) if rule else []
    # A rule that damage has changed may ask for an approval, and for nothing before it (P2).
    is_sound = all(step.content in wanted[step.position - 1 : step.position] for step in left)
    if not is_sound or all(step == APPROVE_STEP for step in wanted):
        raise ConfigError(
            f"Records of the steps of response {response.number} are lost. Do by hand what is left to do."
        )
    store.add_steps(response.number, wanted, begun_at=now.at)
