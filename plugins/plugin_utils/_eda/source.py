# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The changes of this VM's events, for the event source of Event-Driven Ansible.

The poller polls the metadata service, and the life cycle decides how an answer changes the events. Here are the
messages about these changes, and the memory.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

# Relative, because the event source imports this file where ansible_collections cannot be imported.
from ...module_utils._errors import NotImdsError, excerpt
from ...module_utils._event.document import Event, fold_case
from ...module_utils._event.lifecycle import (
    ENDED,
    Following,
    Known,
    Transition,
    follow,
    is_of_another_kind,
    is_of_another_vm,
    phase_of,
)
from ...module_utils._imds.boot_id import read_boot_id
from ...module_utils._imds.client import ImdsClient
from ...module_utils._imds.fetch import now_utc
from ...module_utils._imds.poller import FAILED, Answer, Poller
from .._host_name import is_host_name
from .state import Seen, State, StateFile, logger, written_size

# Of the events that no answer lists any more: those that have not ended, because no answer could be read in full, and
# again those whose end waits (P9)
MOST_UNLISTED = 1000
# Bytes of all of them in the state file: so many have room there if they are as long as Azure's usually are.
LARGEST_UNLISTED = 512 * 1024


def _check_name(name: str) -> None:
    if not is_host_name(name):
        raise NotImdsError(f"The metadata service calls this VM {excerpt(name)}, which is not a host name.", 200)


class Watcher:
    """The known events of this VM. Its methods may take long.

    :param client: asks once and does not retry.
    :raises ValueError: the state file cannot be used.
    """

    def __init__(
        self, client: ImdsClient, resource_name: str | None, poll_interval: float, state_file: str | None
    ) -> None:
        self._boot_id = read_boot_id()
        self._state_file = StateFile(state_file) if state_file else None
        state = self._state_file.read() if self._state_file else State()
        self._seen = {key: seen for key, seen in state.seen.items() if seen.outcome is None}
        # In the order of their ends: those whose end waits, and those whose end is being told
        self._waiting = {key: seen for key, seen in state.seen.items() if seen.outcome is not None}
        self._ended: dict[str, Seen] = {}
        answered = self._boot_id is not None and state.answered_boot_id == self._boot_id
        self._poller = Poller(client, poll_interval, resource_name, answered, check_name=_check_name)
        self._complaints: set[str] = set()
        self._forgot: set[str] = set()

    def poll(self) -> tuple[list[dict[str, Any]], float]:
        """Ask once, and return the messages and the seconds from this question to the next."""
        told: list[dict[str, Any]] = []
        try:
            # An event of the time before a restart may be about to begin, or over.
            answer = self._poller.poll(urgent=bool(self._seen))
            for line in answer.lines:
                logger.warning("%s", line)
            if answer.kind != FAILED:
                told = self._take_in(answer)
        except Exception as error:
            # The content of one answer must not end the asking: the next one may matter.
            self._complain(error)
        return told, self._poller.pause

    def close(self) -> None:
        """Let another source have the state file. Azure may still hold an answer, which must not be written then."""
        if self._state_file:
            self._state_file.close()
            self._state_file = None

    def keep(self) -> None:
        """Write down the events whose end was not told. An ended one is forgotten only after its message."""
        self._ended = {}
        self._write()

    def _write(self) -> None:
        # close() may come in the meantime, from another thread.
        file = self._state_file
        if file:
            answered = self._boot_id if self._poller.answered else None
            file.write(State({**self._ended, **self._waiting, **self._seen}, answered))

    def _take_in(self, answer: Answer) -> list[dict[str, Any]]:
        name = self._poller.resource_name
        if name is None:
            raise AssertionError("The poller answers only where it knows the name of this VM.")
        now = now_utc()
        # The disk of a VM may be a copy of another's.
        before = {key: seen for key, seen in self._seen.items() if not is_of_another_vm(seen.event, name, seen.told)}
        known = [Known.at(now, seen.event, seen.boot_id, self._boot_id) for seen in before.values()]
        following = follow(known, answer.document, name, answer.unclear_seconds)
        news = [each for each in _find_news(following, before) if each.phase != ENDED]
        self._seen = self._bound(
            {event.key: before[event.key] for event in following.missing},
            "are missing from answers that cannot be read in full",
        )
        for key, event in following.listed.items():
            self._seen[key] = Seen(event, self._boot_id, told=True)
        ends = self._find_ends(following, before, name)
        self._ended.update(ends)
        news = [*(Transition(seen.event, ENDED, seen.outcome) for seen in ends.values()), *news]
        self._write()
        # After the write: of many events, each of the two takes much memory.
        return [_tell(transition, name, now) for transition in news]

    def _find_ends(self, following: Following, before: dict[str, Seen], name: str) -> dict[str, Seen]:
        """Return the ended events whose end may be told. The others wait: they would restore this VM while it is
        prepared for an open event (P3)."""
        ended = {
            each.event.key: before[each.event.key]._replace(outcome=each.outcome)
            for each in following.transitions
            if each.phase == ENDED
        }
        earlier = {
            key: seen
            for key, seen in self._waiting.items()
            if key not in following.listed and not is_of_another_vm(seen.event, name, seen.told)
        }
        ends = {**earlier, **ended}
        if not any(_may_be_prepared(seen.event) for seen in self._seen.values()):
            self._waiting = {}
            return ends
        self._waiting = self._bound(ends, "have ended while another one is open")
        return {}

    def _bound(self, unlisted: dict[str, Seen], why: str) -> dict[str, Seen]:
        """Return the latest of these events that are not listed any more, in their order."""
        kept: list[tuple[str, Seen]] = []
        size = 0
        for key, seen in reversed(unlisted.items()):
            short = seen._replace(event=seen.event.shortened())
            size += written_size(short)
            if len(kept) == MOST_UNLISTED or size > LARGEST_UNLISTED:
                self._tell_that_it_forgets(len(kept), why)
                break
            kept.append((key, short))
        return dict(reversed(kept))

    def _tell_that_it_forgets(self, kept: int, why: str) -> None:
        if why not in self._forgot:
            self._forgot.add(why)
            logger.warning("More than %d events %s. The oldest are forgotten, and their ends are not told.", kept, why)

    def _complain(self, error: Exception) -> None:
        complaint = f"Unexpected error: {type(error).__name__}: {excerpt(str(error))}. The source goes on asking."
        if complaint not in self._complaints and len(self._complaints) < 20:
            self._complaints.add(complaint)
            logger.error("%s", complaint, exc_info=error)


def _may_be_prepared(event: Event) -> bool:
    """Tell whether a rule may have this VM out of service for an open event. Few do for a Freeze, and Azure may
    announce it days before."""
    return event.has_started or fold_case(event.event_type or "") != "freeze"


def _find_news(following: Following, before: dict[str, Seen]) -> list[Transition]:
    """Return the messages about an answer.

    After a start all listed events are told again, because their reactions may have been cut short. An event with
    another type or source is told again, because another rule may be meant for it.
    """
    again = [
        Transition(event, phase_of(event))
        for key, event in following.listed.items()
        if key in before and (not before[key].told or is_of_another_kind(before[key].event, event))
    ]
    told_anyway = {transition.event.key for transition in following.transitions}
    return [*following.transitions, *(each for each in again if each.event.key not in told_anyway)]


def _tell(transition: Transition, name: str, now: datetime) -> dict[str, Any]:
    """Return the event for ansible-rulebook."""
    event, phase = transition.event, transition.phase
    kind = "/".join(fold_case(word or "") for word in (event.event_type, event.event_source))
    identity = f"fleetops.azure_maintenance/{fold_case(name)}/{event.key}/{phase}/{kind}"
    return {
        "maintenance_event": event.to_dict(now, name),
        "maintenance_phase": phase,
        "maintenance_outcome": transition.outcome,
        "resource_name": name,
        "meta": {"hosts": [name], "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, identity))},
    }
