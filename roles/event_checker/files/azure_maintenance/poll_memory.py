# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the poller knows is remembered from one check to the next: the name of this VM, and how Azure answered."""

from __future__ import annotations

from typing import Any, NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._poller import Doubt, Poller, Unclear

from .config import Config
from .records import Moment
from .store import Store
from .system import Clock, Folders, read_mark, write_mark

_ANSWERED = "answered"


class _KnownName(NamedTuple):
    """What is written down of the name of this VM.

    :ivar doubted: no event has listed it in its boot, so it may be wrong.
    """

    name: str
    doubted: bool


class PollMemory:
    """Makes the poller of a check from what earlier ones knew, and writes down what it knows.

    :ivar changed: something must be written down.
    """

    def __init__(self, config: Config, folders: Folders, clock: Clock, store: Store) -> None:
        self._config = config
        self._folders = folders
        self._clock = clock
        self.changed = self._doubted = False
        # What is written down of the name of this VM; asking the store at each poll would cost more than the poll.
        self._noted = self._known_name(store)
        former = self._known_name(store, of_any_boot=True)
        # No event has listed a doubted one in its boot, so to be given it again proves nothing.
        self._former_name = former.name if former and not former.doubted else None
        # Whether Azure has answered in this boot is noted where no lock and no full disk stands in the way (P8).
        self._answer_noted = read_mark(folders, _ANSWERED) == clock.now().boot_id

    def make_poller(self, store: Store) -> Poller:
        config, now = self._config, self._clock.now()
        find = None
        if config.discover_endpoint:
            from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _dhcp_lease

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
        name, doubt = self._start_name(remembered, now.uptime)
        self._doubted = doubt is not None
        return Poller(
            config.client(retries=False),
            config.poll_interval,
            name,
            remembered.get("answered") is True or self._answer_noted,
            None if unclear is None else Unclear(*unclear),
            dict(logged),
            find,
            lambda: self._clock.now().uptime,
            None,
            doubt,
            self._former_name,
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
            "doubted": poller.doubt
            and {"name": poller.resource_name, **self._origin_of_name(), "doubt": list(poller.doubt)},
            "logged": [list(each) for each in poller.logged.items()],
            "missing": missing,
            "timer_interval": self._config.timer_interval,
        }

    def note_answer(self, poller: Poller) -> None:
        """Note that Azure has answered in this boot, and whether the name may be wrong."""
        if (poller.doubt is not None) != self._doubted:
            self._doubted = not self._doubted
            self.changed = True
        if poller.answered and not self._answer_noted:
            self._answer_noted = True
            write_mark(self._folders, _ANSWERED, self._clock.now().boot_id)

    def note_name(self, poller: Poller, store: Store, anew: bool = False) -> None:
        """Write the name down, unless it is there, or may be wrong while there is one of an earlier boot.

        :param anew: the store is another one now.
        """
        name = poller.resource_name
        if anew:
            self._noted = None
        if name is None or (self._former_name is not None and not poller.name_is_sure):
            return
        known = _KnownName(name, poller.doubt is not None)
        if known == self._noted:
            return
        # The doubt about the name is noted with it.
        self.changed = True
        with store.transaction():
            store.set_fact("resource_name", {**known._asdict(), **self._origin_of_name()})
        self._noted = known

    def _start_name(self, remembered: dict[str, Any], now: float) -> tuple[str | None, Doubt | None]:
        """Return the name to begin with, and the doubt about it."""
        if self._config.resource_name:
            return self._config.resource_name, None
        doubted = remembered.get("doubted")
        if isinstance(doubted, dict) and all(doubted.get(key) == each for key, each in self._origin_of_name().items()):
            name, doubt = doubted.get("name"), _pair(doubted.get("doubt"))
            if isinstance(name, str) and doubt is not None:
                return name, Doubt(*doubt)
        if self._noted is None:
            return None, None
        # Since when a name is doubted is not known after damage, or where the check was killed.
        return self._noted.name, Doubt(now) if self._noted.doubted else None

    def _known_name(self, store: Store, of_any_boot: bool = False) -> _KnownName | None:
        # Version 1.0 took any word for the name.
        noted = {"doubted": True, **store.fact("resource_name")}
        name, doubted, origin = noted.get("name"), noted["doubted"], self._origin_of_name()
        if of_any_boot:
            origin["boot_id"] = noted.get("boot_id")
        if not isinstance(name, str) or noted != {"name": name, "doubted": doubted, **origin}:
            return None
        return _KnownName(name, doubted is not False)

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
