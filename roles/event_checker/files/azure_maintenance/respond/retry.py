# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a failed response again, or a preparation that a boot took back, or on_ended before the event: a person asks."""

from __future__ import annotations

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    RESTORE,
    WAITING,
)

from ..config.rules import steps_for
from ..config.values import ConfigError
from ..state.marks import takes_out_of_service
from ..state.records import (
    APPROVED,
    DUE,
    FAILED,
    PUT_BACK,
    RUNNING,
    SENDING,
    SKIPPED,
    SUCCEEDED,
    EventRecord,
    Moment,
    ResponseRecord,
)
from ..state.store import Store


def make_due_again(store: Store, response: ResponseRecord, now: Moment) -> int:
    """Make a failed response due, or a preparation that the last boot took back, and return its number.

    :raises ConfigError: it did not fail, or its event has gone on.
    """
    event = store.event(response.event)
    if event is not None and is_undone_by_boot(response, event, now.boot_id):
        store.set_approval(event.number, None, (), now)
        store.renew_steps(response.number, lambda _step: True)
        store.begin_response(response.number, DUE, now)
        return response.number
    if response.state != FAILED and (response.state, response.message) != (SKIPPED, PUT_BACK):
        raise ConfigError(
            f"Response {response.number} has not failed (its state is {response.state}). "
            "Only a response that failed can be tried again."
        )
    restore = None
    if event is not None:
        _check_useful(response, event)
        restore = _response_of(store, event.number, RESTORE)
    if response.phase == RESTORE:
        return plan_restore(store, _response_of(store, response.event, ANNOUNCED) or response, now)
    if response.phase == ANNOUNCED and restore is not None and not restore.finished:
        raise ConfigError(f"Response {restore.number} puts this VM back into service. Wait for its end.")
    # No event is approved because of a preparation that a restore may have taken back (P2).
    is_taken_back = response.phase == ANNOUNCED and restore is not None
    store.renew_steps(response.number, lambda step: is_taken_back or step.state in (FAILED, RUNNING))
    store.begin_response(response.number, DUE, now)
    return response.number


def has_booted_since(response: ResponseRecord, event: EventRecord, boot_id: str | None) -> bool:
    """Tell whether the VM has booted since it was prepared for an event that has not started."""
    if {response.phase, event.phase} != {ANNOUNCED}:
        return False
    prepared = [each for each in response.steps if takes_out_of_service(ANNOUNCED, each.content)]
    return not {each.succeeded_boot for each in prepared} <= {boot_id, None}


def is_undone_by_boot(response: ResponseRecord, event: EventRecord, boot_id: str | None) -> bool:
    """Tell whether the VM has booted since it was prepared for an event that was not approved (P2)."""
    may_go_on = response.state == SUCCEEDED and event.approval not in (APPROVED, SENDING)
    return may_go_on and has_booted_since(response, event, boot_id)


def plan_restore(store: Store, response: ResponseRecord, now: Moment) -> int:
    """Make the response due that takes back a failed preparation, and return its number.

    :raises ConfigError: the preparation cannot be taken back now.
    """
    event = store.event(response.event)
    why = "its event is not known any more" if event is None else why_not_restore(response, event)
    if why is not None or event is None or event.rule is None:
        raise ConfigError(f"Response {response.number} cannot be taken back: {why}.")
    if _response_of(store, event.number, RESTORE) is None:
        store.add_response(event.number, RESTORE, steps_for(event.rule, RESTORE), now)
    restore = _response_of(store, event.number, RESTORE)
    if restore is None:
        raise ConfigError("The state cannot be read. The next check puts it aside. Try it again.")
    if restore.finished:
        store.renew_steps(restore.number, lambda _step: True)
    if restore.state != RUNNING:
        store.begin_response(restore.number, DUE, now)
    return restore.number


def why_not_restore(response: ResponseRecord, event: EventRecord) -> str | None:
    """Return why a response cannot be taken back before its event, None where it can."""
    if response.phase != ANNOUNCED:
        return "it is no preparation; give the number of on_announced"
    if response.state != FAILED:
        return f"its state is {response.state}, and before the event only a preparation that failed is taken back"
    if event.phase != ANNOUNCED:
        return f"the event has {event.phase}, and on_ended puts this VM back"
    if event.approval in (SENDING, APPROVED):
        return "the event was approved and may start at any moment"
    if event.rule is None or not event.rule.on_ended:
        return "no step of on_ended is known for its event"
    return None


def _response_of(store: Store, event: int, phase: str) -> ResponseRecord | None:
    return next((each for each in store.responses_to(event) if each.phase == phase), None)


def _check_useful(response: ResponseRecord, event: EventRecord) -> None:
    if event.phase == ENDED and response.phase != ENDED:
        raise ConfigError(
            f"The event of response {response.number} has ended, so on_{response.phase} has no use any more; "
            "only on_ended can be tried again."
        )
    if response.phase == WAITING and (event.phase != ANNOUNCED or event.approval == APPROVED):
        state = "is approved" if event.phase == ANNOUNCED else f"has {event.phase}"
        raise ConfigError(f"The event of response {response.number} {state}, so its approval does not wait any more.")
