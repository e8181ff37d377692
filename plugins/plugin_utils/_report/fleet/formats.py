# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""From slices, as files or data, to a report in its formats."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Callable, Iterable, Sequence

from ..settings import LONGEST_SECONDS, PART, Settings
from ..slices import Formatted, Slice, clean_json, gc_paused, merge_given, replace_lone_surrogates
from .host_results import SLICE_FORMAT
from .merge import Report, merge_slices
from .page import WARN_AFTER, as_html
from .text import as_csv, as_lines, as_markdown, due_lines

DUE = "due"
HTML = "html"
FILES = ("json", "csv", "md", HTML)
FORMATS: dict[str, Callable[[Report], Any]] = {
    "data": lambda report: report,
    "json": lambda report: clean_json(json.dumps(report, ensure_ascii=False, indent=2)) + "\n",
    "csv": as_csv,
    "md": as_markdown,
    HTML: as_html,
    "lines": as_lines,
}


def format_report(
    parts: Iterable[Any],
    form: str,
    hosts: Any,
    max_age: Any,
    now: str | None,
    due_within: Any = 0,
    warn_after: Any = WARN_AFTER,
) -> Any:
    """Merge the parts and return the report in this format; the options are those of the filter fleet_report.

    :raises TypeError, ValueError: an argument cannot be used.
    """
    forms = (*FORMATS, DUE)
    if form not in forms:
        raise ValueError(f"format must be one of {', '.join(forms)}, not {form!r}.")
    limit = float(warn_after)
    if not 0 <= limit <= LONGEST_SECONDS:
        raise ValueError(f"warn_after must be 0 to {LONGEST_SECONDS} seconds, not {warn_after}.")
    with gc_paused():
        report = merge_given(SLICE_FORMAT, merge_slices, parts, now, hosts, max_age)
        if form == DUE:
            return due_lines(report, float(due_within))
        return _format(report, form, limit)


def format_slices(slices: Sequence[Slice], now: datetime, hosts: Sequence[str], settings: Settings) -> Formatted:
    """Merge slices, checked but for those that are too old, and return the files and the lines of a run."""
    within = settings["fail_within"]
    report = merge_slices(slices, now, hosts, settings["max_age"])
    forms = () if settings["mode"] == PART else FILES
    return Formatted(
        report["counts"],
        {form: _format(report, form, settings["warn_after"]) for form in forms},
        as_lines(report),
        due_lines(report, float(within)) if within else [],
    )


def _format(report: Report, form: str, warn_after: float) -> Any:
    shown = as_html(report, warn_after) if form == HTML else FORMATS[form](report)
    return replace_lone_surrogates(shown) if isinstance(shown, str) else shown
