# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every change that an event or a response may go through. The guide draws its picture from these tables.

The campaign of the tests compares each change in the store with them.
"""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import (
    ANNOUNCED,
    ENDED,
    STARTED,
)

from ..state.records import DUE, FAILED, PLANNED, RUNNING, SKIPPED, SUCCEEDED

# Before an event or a response is known
NEW = "new"


class Change(NamedTuple):
    """:ivar when: why it goes from one to the other, as the end of a sentence."""

    before: str
    after: str
    when: str


PHASE_CHANGES = (
    Change(NEW, ANNOUNCED, "a document lists it as Scheduled"),
    Change(NEW, STARTED, "a document lists it as Started"),
    Change(ANNOUNCED, STARTED, "a document lists it as Started"),
    Change(ANNOUNCED, ENDED, "a document that can be read as a whole leaves it out"),
    Change(STARTED, ENDED, "a document that can be read as a whole leaves it out"),
)
RESPONSE_CHANGES = (
    Change(NEW, PLANNED, "its event comes to a phase for which its rule has steps"),
    Change(PLANNED, DUE, "its time has come: for on_announced lead_time before the start, else at once"),
    Change(PLANNED, SKIPPED, "its event has gone on, so it has no use any more"),
    Change(DUE, RUNNING, "nothing stands in its way, and its unit has started"),
    Change(DUE, SKIPPED, "its event has gone on, so it has no use any more"),
    Change(RUNNING, RUNNING, "it was interrupted, and begins again with the step that ran"),
    Change(RUNNING, DUE, "another event is more urgent now than putting the VM back"),
    Change(RUNNING, SKIPPED, "its event has gone on, so it has no use any more"),
    Change(RUNNING, SUCCEEDED, "its last step succeeded"),
    Change(RUNNING, FAILED, "a step has no tries left"),
    Change(FAILED, DUE, "a person types azure-maintenance retry"),
    Change(FAILED, SKIPPED, "a person had the VM put back before the event"),
    Change(SKIPPED, DUE, "a person types azure-maintenance retry or restore"),
    Change(
        SUCCEEDED,
        DUE,
        "its approval need not wait for other VMs any more, or a person types restore again, or retry after a boot",
    ),
    Change(NEW, FAILED, "its record was lost, and nobody knows whether it has run"),
    Change(NEW, SUCCEEDED, "its record was lost, and a mark says that the VM is prepared"),
)
