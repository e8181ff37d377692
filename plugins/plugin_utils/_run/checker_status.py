# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the checker of a VM has prepared it for an event in this boot, by its status; pure."""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple

from ...module_utils._event.document import fold_case
from ...module_utils._event.lifecycle import ANNOUNCED, ENDED

_SUCCEEDED, _FAILED = "succeeded", "failed"
_BECOME = {_FAILED: "failed", "skipped": "was skipped"}
_UNFINISHED = ("planned", "due", "running")


class CheckerVerdict(NamedTuple):
    """The verdict on the checker of a VM about an event.

    :ivar why_not: why the VM does not count as prepared by its checker, as a sentence; empty where it does.
    :ivar preparing: it may be prepared soon.
    """

    why_not: str = ""
    preparing: bool = False


def read_checker(answer: str, event_id: str) -> CheckerVerdict:
    """Return whether the checker has prepared its VM for this event in this boot.

    :param answer: the output of ``azure-maintenance status --json`` on the VM.
    """
    try:
        status = json.loads(answer)
        if not status["heard_lately"]:
            return CheckerVerdict("its checker has not heard the metadata service lately.")
        # An id may come back; the preparation for an ended event is taken back, or was to be.
        found = [
            event
            for event in status["events"]
            if fold_case(event["event_id"]) == fold_case(event_id) and event["phase"] != ENDED
        ]
        if not found:
            # It polls once a second, and is started anew each minute.
            return CheckerVerdict("its checker does not know the event.", preparing=True)
        return _judge(found[-1])
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        return CheckerVerdict(f"the status of its checker cannot be read ({type(error).__name__}: {error}).")


def _judge(event: Mapping[str, Any]) -> CheckerVerdict:
    preparations = [response for response in event["responses"] if response["phase"] == ANNOUNCED]
    if not preparations:
        return CheckerVerdict("its checker has no preparation for the event.")
    latest = max(preparations, key=lambda response: int(response["number"]))
    state, number = latest["state"], latest["number"]
    if state != _SUCCEEDED:
        become = _BECOME.get(state, f"is {state}")
        return CheckerVerdict(f"response {number} of its checker {become}.", state in _UNFINISHED)
    for step in latest["steps"]:
        if step["state"] == _FAILED:
            # Its rule ignores the failure, or the response would have failed. The checker approves then, too.
            continue
        if step["state"] != _SUCCEEDED:
            return CheckerVerdict(f"a step of response {number} of its checker is {step['state']}.")
        # The clock of the VM may have been set since, so no time shows whether it was before the boot.
        if "in_this_boot" not in step:
            return CheckerVerdict(
                "its checker does not tell in which boot it prepared it: install the checker of this version."
            )
        if step["in_this_boot"] is not True:
            return CheckerVerdict("its checker prepared it before the last boot.")
    return CheckerVerdict()
