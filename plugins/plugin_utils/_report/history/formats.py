# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""From slices, as files or data, to a fleet history in its formats."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Callable, Iterable, Sequence

from ..settings import PART, Settings
from ..slices import Formatted, Slice, gc_paused, merge_given, replace_lone_surrogates
from .host_results import SLICE_FORMAT
from .merge import Report, merge_slices
from .page import as_html
from .text import as_csv, as_json, as_lines, as_markdown

FILES = ("json", "csv", "md", "html")
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

    :raises TypeError, ValueError: an argument cannot be used.
    """
    if form not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {form!r}.")
    with gc_paused():
        report = merge_given(SLICE_FORMAT, merge_slices, parts, now, hosts, max_age, simulated)
        return _format(report, form)


def format_slices(slices: Sequence[Slice], now: datetime, hosts: Sequence[str], settings: Settings) -> Formatted:
    """Merge slices, checked but for those that are too old, and return the files and the lines of a run."""
    report = merge_slices(slices, now, hosts, settings["max_age"], settings["simulated"])
    forms = () if settings["mode"] == PART else FILES
    return Formatted(report["counts"], {form: _format(report, form) for form in forms}, as_lines(report), [])


def _format(report: Report, form: str) -> Any:
    shown = FORMATS[form](report)
    return replace_lone_surrogates(shown) if isinstance(shown, str) else shown
