# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""From parts, as files or data, to a fleet history in one of its formats."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Callable, Iterable, Iterator

from ._history_merge import Report, merge_parts
from ._history_page import as_html
from ._history_parts import KIND
from ._history_text import as_csv, as_json, as_lines, as_markdown
from ._parts import checked_parts, decode_part, named_part, read_now, without_halves

FORMATS: dict[str, Callable[[Report], Any]] = {
    "data": lambda report: report,
    "json": as_json,
    "csv": as_csv,
    "md": as_markdown,
    "html": as_html,
    "lines": as_lines,
}


def format_history(
    parts: Iterable[Any], form: str, hosts: Any, max_age: Any, now: str | None, simulated: bool = False
) -> Any:
    """Merge the parts and return the history in this format; the options are those of the filter fleet_history.

    :raises TypeError, ValueError: something of what was given cannot be used.
    """
    if form not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {form!r}.")
    given, names = list(parts), tuple(str(host) for host in hosts)
    if now and all(isinstance(part, (list, tuple)) and len(part) == 2 for part in given):
        # The four files of a report are made of the same texts in the same process, one after the other.
        report = _merge_texts(
            tuple((str(name), str(text)) for name, text in given), now, names, float(max_age), simulated
        )
    else:
        report = _merge(
            [named_part(place, part) for place, part in enumerate(given, 1)], now, names, max_age, simulated
        )
    with _no_collection():
        shown = FORMATS[form](report)
    return without_halves(shown) if isinstance(shown, str) else shown


@lru_cache(maxsize=1)
def _merge_texts(
    parts: tuple[tuple[str, str], ...], now: str, hosts: tuple[str, ...], max_age: float, simulated: bool
) -> Report:
    with _no_collection():
        named = [(name, decode_part(name, text)) for name, text in parts]
    return _merge(named, now, hosts, max_age, simulated)


def _merge(
    named: list[tuple[str, Any]], now: str | None, hosts: Iterable[str], max_age: Any, simulated: bool
) -> Report:
    moment, seconds = read_now(now), float(max_age)
    with _no_collection():
        return merge_parts(checked_parts(KIND, named, moment, seconds), moment, list(hosts), seconds, simulated)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from going through a large history again and again: there are no cycles in it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
