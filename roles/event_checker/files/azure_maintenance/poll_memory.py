# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the poller knows is remembered from one check to the next: the name of this VM, and how Azure answered."""

from __future__ import annotations

from typing import Any, NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.poller import Poller, Unclear

from .config import Config
from .records import Moment
from .store import Store
from .system import Clock, Folders, read_mark, read_mark_time, write_mark, write_mark_time

_ANSWERED = "answered"
_HEARD = "last-answer"


def last_answer_at(folders: Folders) -> float | None:
    """Return when a document came last, in seconds since 1970; None where none came in this boot.

    The state knows that only as of the end of a check.
    """
    return read_mark_time(folders, _HEARD)


class _KnownName(NamedTuple):
    """What is written down of the name of this VM.

    :ivar vm_id: the vmId that came with it, None where the name was configured.
    """

    name: str
    vm_id: str | None


class PollMemory:
    """Makes the poller of a check from what earlier ones knew, and writes down what it knows.

    :ivar changed: something must be written down.
    """

    def __init__(self, config: Config, folders: Folders, clock: Clock, store: Store) -> None:
        self._config = config
        self._folders = folders
        self._clock = clock
        self.changed = False
        # What is written down of the name of this VM; asking the store at each poll would cost more than the poll.
        self._noted = self._known_name(store)
        # Whether Azure has answered in this boot is noted where no lock and no full disk stands in the way (P8).
        self._answer_noted = read_mark(folders, _ANSWERED) == clock.now().boot_id

    def make_poller(self, store: Store) -> Poller:
        config, now = self._config, self._clock.now()
        find = None
        if config.discover_endpoint:
            from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import (
                dhcp_lease as _dhcp_lease,
            )

            find = _dhcp_lease.find_endpoint_addresses
        remembered = store.fact("poller")
        if remembered.get("boot_id") != now.boot_id:
            remembered = {}
        unclear, logged = _pair(remembered.get("unclear")), remembered.get("logged")
        if unclear is not None:
            # A check that was killed may have had a clear answer since. So a series goes on only from a check that
            # has ended by itself, which this one has not yet.
            unclear = unclear if remembered.get("whole") is True else None
            self.changed = True
        if not isinstance(logged, list) or not all(map(_pair, logged)):
            logged = []
        known = self._noted
        return Poller(
            config.client(retries=False),
            config.poll_interval,
            config.resource_name or (known and known.name),
            remembered.get("answered") is True or self._answer_noted,
            None if unclear is None else Unclear(*unclear),
            dict(logged),
            find,
            lambda: self._clock.now().uptime,
            None,
            known and known.vm_id,
        )

    def fact(self, poller: Poller, now: Moment, missing: list[str], ending: bool) -> dict[str, Any]:
        """Return what is to be remembered of the poller.

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

    def note_name(self, poller: Poller, store: Store, anew: bool = False) -> None:
        """Write the name down, unless it is there.

        :param anew: the store is another one now.
        """
        if anew:
            self._noted = None
        if poller.resource_name is None:
            return
        known = _KnownName(poller.resource_name, poller.vm_id)
        if known == self._noted:
            return
        with store.transaction():
            store.set_fact("resource_name", {**known._asdict(), **self._origin_of_name()})
        self._noted = known

    def _known_name(self, store: Store) -> _KnownName | None:
        noted = store.fact("resource_name")
        name, vm_id = noted.get("name"), noted.get("vm_id")
        if not isinstance(name, str) or not (vm_id is None or isinstance(vm_id, str)):
            return None
        known = _KnownName(name, vm_id)
        return known if noted == {**known._asdict(), **self._origin_of_name()} else None

    def _origin_of_name(self) -> dict[str, str | None]:
        """Return what a name holds for: it is another on another VM with a copy of this disk, or from a simulator."""
        return {
            "boot_id": self._clock.now().boot_id,
            "endpoint": self._config.endpoint,
            "configured": self._config.resource_name,
        }


def _pair(value: Any) -> tuple[Any, Any] | None:
    """Return two numbers that were written down, None for anything else."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(each, (int, float)) for each in value):
        return value[0], value[1]
    return None
