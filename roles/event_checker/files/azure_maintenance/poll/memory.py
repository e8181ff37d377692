# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory of the poller from one check to the next: the name of this VM, and how Azure answered."""

from __future__ import annotations

from typing import Any

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.fetch import FindAddresses
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.poller import Poller, Unclear

from ..config.config import Config
from ..state.marks import note_told, told_at
from ..state.records import Moment
from ..state.store import Store
from ..system import Clock, Folders, read_mark, read_mark_time, write_mark, write_mark_time

_ANSWERED = "answered"
_HEARD = "last-answer"


def last_answer_at(folders: Folders) -> float | None:
    """Return when a document came last, in seconds since 1970; None where none came in this boot.

    The state has that only as of the end of a check.
    """
    return read_mark_time(folders, _HEARD)


def endpoint_finder(config: Config) -> FindAddresses | None:
    """Return where to look for another endpoint, None where nobody is to look for one."""
    if not config.discover_endpoint:
        return None
    from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import dhcp_lease

    return dhcp_lease.find_endpoint_addresses


class PollMemory:
    """Makes the poller of a check from the memory of earlier ones, and writes its memory down.

    :ivar changed: something must be written down.
    """

    def __init__(self, config: Config, folders: Folders, clock: Clock, store: Store) -> None:
        self._config = config
        self._folders = folders
        self._clock = clock
        self.changed = False
        # The stored name of this VM; to ask the store at each poll would cost more than the poll.
        noted = store.fact("resource_name")
        self._noted = noted if noted == self._name_fact(noted.get("name"), noted.get("vm_id")) else {}
        # This note needs no lock, and no room on the disk (P8).
        self._answer_noted = read_mark(folders, _ANSWERED) == clock.now().boot_id
        self._told_at = told_at(store, folders)

    def make_poller(self, store: Store) -> Poller:
        config, now = self._config, self._clock.now()
        remembered = store.fact("poller")
        if remembered.get("boot_id") != now.boot_id:
            remembered = {}
        unclear = remembered.get("unclear")
        if unclear is not None:
            # A check that was killed may have had a clear answer since. So a series goes on only from a check that
            # has ended by itself, which this one has not yet.
            unclear = unclear if remembered["whole"] else None
            self.changed = True
        known = self._noted
        return Poller(
            config.client(retries=False),
            config.poll_interval,
            config.resource_name or known.get("name"),
            remembered.get("answered", False) or self._answer_noted,
            None if unclear is None else Unclear(*unclear),
            dict(remembered.get("logged", ())),
            endpoint_finder(config),
            lambda: self._clock.now().uptime,
            None,
            known.get("vm_id"),
        )

    def fact(self, poller: Poller, now: Moment, missing: list[str], ending: bool) -> dict[str, Any]:
        """Return the poller's memory for the next check.

        :param missing: open events that an unclear answer does not list.
        :param ending: the check ends by itself.
        """
        return {
            "boot_id": now.boot_id,
            "answered": poller.answered,
            "unclear": poller.unclear and list(poller.unclear),
            "whole": ending,
            "logged": [list(each) for each in poller.logged.items()],
            "missing": missing,
            "told_at": self._told_at,
            "timer_interval": self._config.timer_interval,
        }

    def note_answer(self, poller: Poller, heard: bool) -> None:
        """Note that Azure has answered in this boot.

        :param heard: the answer was a document.
        """
        if heard:
            write_mark_time(self._folders, _HEARD, self._clock.now().at)
        if poller.answered and not self._answer_noted:
            self._answer_noted = True
            write_mark(self._folders, _ANSWERED, self._clock.now().boot_id)

    def note_told(self, asked_at: float) -> None:
        """Note that all events are recorded that Azure had when it was asked at this time, in seconds since 1970."""
        self._told_at = asked_at
        note_told(self._folders, asked_at)

    def note_name(self, poller: Poller, store: Store, anew: bool = False) -> None:
        """Write the name down, unless it is there.

        :param anew: the store is another one now.
        """
        known = None if anew else (self._noted.get("name"), self._noted.get("vm_id"))
        if poller.resource_name is None or known == (poller.resource_name, poller.vm_id):
            return
        fact = self._name_fact(poller.resource_name, poller.vm_id)
        with store.transaction():
            store.set_fact("resource_name", fact)
        self._noted = fact

    def _name_fact(self, name: str | None, vm_id: str | None) -> dict[str, str | None]:
        """Return a name with its conditions: another VM with a copy of this disk has another one, and so has a
        simulator."""
        return {
            "name": name,
            "vm_id": vm_id,
            "boot_id": self._clock.now().boot_id,
            "endpoint": self._config.endpoint,
            "configured": self._config.resource_name,
        }
