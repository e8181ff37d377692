# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Which events a caller selects."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Iterable, Mapping, NamedTuple

from .._errors import excerpt
from .document import EVENT_SOURCES, EVENT_STATUSES, EVENT_TYPES, Document, Event, fold_case

# The least number of characters that may stand for an id. Azure's whole ids have 36, so none begins another.
SHORTEST_BEGINNING = 4
WHOLE_ID = 36
# The options that are lists. No id, word or name of Azure has a bracket.
_LISTS = ("event_ids", "event_types", "event_statuses", "event_sources", "resources_ready")
NO_DOCUMENT = "Azure answered with an empty body, no document: whether there are events is unknown. Ask again."


def keys(words: Iterable[str]) -> frozenset[str]:
    """Return the words in the form in which they are compared."""
    return frozenset(fold_case(word) for word in words)


def words(values: Iterable[Any] | str | None) -> tuple[str, ...]:
    """Return the words of a list option, as an AWX survey may give it: empty, or a line a word.

    :param values: a string has words between commas, as Ansible reads one in the place of a list.
    """
    listed = values.split(",") if isinstance(values, str) else values or ()
    return tuple(word.strip() for value in listed for word in str(value).splitlines() if word.strip())


def find_named(names: Iterable[str], known: Iterable[str], beginnings: bool = True) -> dict[str, list[str]]:
    """Return for each id that a caller wrote the keys of its events: that of the same id, or those that begin with it.

    :param known: the keys of the events that there are.
    :param beginnings: an id that no event has may be the beginning of one.
    """
    there = dict.fromkeys(known)
    named = {}
    for key, name in {fold_case(name): name for name in names}.items():
        found = [key] if key in there else []
        if not found and beginnings and SHORTEST_BEGINNING <= len(key) < WHOLE_ID:
            found = [each for each in there if each.startswith(key)]
        named[name] = found
    return named


def check_words(params: Mapping[str, Any]) -> None:
    """Refuse a word that would match nothing, ever: one that Azure does not use, and a list that is written as text.

    :raises ValueError: names the option and the words that it takes.
    """
    for option in _LISTS:
        for word in words(params.get(option)):
            if word.startswith("["):
                raise ValueError(
                    f"{option} must be a list, or words with commas between them, not a list in a text: "
                    f"{excerpt(word)}. Leave out its brackets and quotes."
                )
    for option, known in (
        ("event_types", EVENT_TYPES),
        ("event_statuses", EVENT_STATUSES),
        ("event_sources", EVENT_SOURCES),
    ):
        for word in words(params.get(option)):
            if fold_case(word) not in keys(known):
                raise ValueError(f"{option} must be any of {', '.join(known)}, not {excerpt(word)}.")


class Selection(NamedTuple):
    """Which events are wanted; an empty set asks for no particular one. Words are held as keys() makes them."""

    event_ids: frozenset[str] = frozenset()
    event_types: frozenset[str] = frozenset()
    event_statuses: frozenset[str] = frozenset()
    event_sources: frozenset[str] = frozenset()
    due_within: int | None = None

    def matches(self, event: Event, now: datetime) -> bool:
        """Tell whether the event has every wanted property; an unknown start is never due within anything."""
        if self.event_ids and event.key not in self.event_ids:
            return False
        for wanted, value in (
            (self.event_types, event.event_type),
            (self.event_statuses, event.event_status),
            (self.event_sources, event.event_source),
        ):
            if wanted and fold_case(value or "") not in wanted:
                return False
        if self.due_within is None:
            return True
        seconds = event.seconds_until_start(now)
        return seconds is not None and seconds <= self.due_within


def select_events(document: Document, selection: Selection, now: datetime, only_for: str | None = None) -> list[Event]:
    """Return the wanted events in the document's order.

    :param only_for: leave out the events that do not affect the VM of this name. An event that names
        no VM at all is kept: it may be meant for this one.
    """
    return [
        event
        for event in document.events
        if selection.matches(event, now) and (only_for is None or event.affects(only_for) is not False)
    ]
