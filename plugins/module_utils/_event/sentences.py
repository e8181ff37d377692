# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""One sentence about events, for people who read it on one line."""

from __future__ import annotations

from datetime import datetime
from typing import Sequence

from .._errors import one_line
from .document import Document, Event

_MOST_LISTED = 4


def summarize(events: Sequence[Event], document: Document, now: datetime, resource_name: str | None) -> str:
    """Return the coming events and their times: ``web-1: Reboot Scheduled, may start in 14 min 59 s (web-1, web-2)``.

    :param events: those of the document that were selected.
    """
    told = _first([_describe(event, now) for event in events], "; ") or _tell_none(document)
    if not document.is_clear:
        more = "one more" if events else "one"
        told += f", but an entry of the document cannot be read and may be {more}. Ask again."
    return f"{one_line(resource_name or 'document')}: {told}"


def _tell_none(document: Document) -> str:
    """Return the words for no selected event. They must not read as if there were no event at all."""
    if document.events:
        return f"no such events ({len(document.events)} others in the document)"
    return "no events" if document.is_clear else "no event that can be read"


def _first(parts: Sequence[str], separator: str) -> str:
    """Join the parts; of many only the first ones, with the number of the others."""
    more = [f"{len(parts) - _MOST_LISTED} more"] if len(parts) > _MOST_LISTED else []
    return separator.join([*parts[:_MOST_LISTED], *more])


def _describe(event: Event, now: datetime) -> str:
    words = [f"{one_line(event.event_type or 'unknown event')} {one_line(event.event_status or 'in unknown status')}"]
    seconds = event.seconds_until_start(now)
    if not event.has_started:
        words.append(_when(seconds))
    return f"{', '.join(words)} ({_first([one_line(name) for name in event.resources], ', ') or 'no VM named'})"


def _when(seconds: int | None) -> str:
    if seconds is None:
        return "start unknown"
    return f"may start in {format_duration(seconds)}" if seconds else "may start now"


def format_duration(seconds: int) -> str:
    """Return the two largest units of a number of seconds, as in ``2 h 5 min``."""
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    parts = []
    for unit, size in units:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
