# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history as a person reads it on 80 columns: each event, and a summary of each type."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Iterable

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import one_line
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.history_row import (
    CHECKER,
    Course,
    course_of,
    documented_notice,
    known_type,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import WITHDRAWN
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.sentences import format_duration

from .status_text import ago, event_lines, fold, title_lines

_OTHER_TYPES = "Other types"


def history_text(found: dict[str, Any], now: datetime) -> str:
    """Return the events, the newest first, and a sentence on each type.

    :param found: the result of history_report().
    """
    kept = {(event["event_id"], event["ended_at"]): event for event in found["events"]}
    shown = []
    for row in reversed(found["history"]):
        event = kept.pop((row["event_id"], row["ended_at"]), None)
        lines = _old_lines(row, now) if event is None else event_lines(event, now)
        shown.append([*lines, *_course_lines(row)])
    # Of a copied disk, or of a damaged row
    shown += [event_lines(event, now) for event in kept.values()]
    if not shown:
        return "The history has no event.\n"
    return "\n\n".join("\n".join(lines) for lines in [*shown, *_in_all(found["history"])]) + "\n"


def _old_lines(row: dict[str, Any], now: datetime) -> list[str]:
    about = one_line(row["leader"] or "names no VM")
    if (row["resources_count"] or 0) > 1:
        about += f" and {row['resources_count'] - 1} more"
    state = "is not known to have ended" if row["ended_at"] is None else f"{row['outcome']} {ago(row['ended_at'], now)}"
    return title_lines(row, about, state)


def _course_lines(row: dict[str, Any]) -> list[str]:
    course = course_of(row)
    told = []
    if course.notice is not None:
        told.append(f"notice {format_duration(course.notice)}{_documented(row['event_type'])}")
    if row["approved_by"] == CHECKER:
        later = course.approval_to_start
        told.append("approved" if later is None else f"started {format_duration(later)} after the approval")
    elif row["approved_by"] is not None:
        told.append("approved by somebody else")
    if course.lasted is not None:
        told.append(f"lasted {format_duration(course.lasted)}")
    told += ["prepared too late"] if row["late"] else []
    told += ["its times contradict each other, so the clock was wrong"] if course.doubtful else []
    told += ["of a simulator"] if row["simulated"] else []
    return fold(f"{'; '.join(told)}", "  ") if told else []


def _documented(event_type: str | None) -> str:
    documented = documented_notice(event_type)
    if documented is None:
        return ""
    least, most = map(format_duration, documented)
    return f" (documented: {least})" if least == most else f" (documented: {least} to {most})"


def _in_all(rows: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return the sentences on the types. Events of a simulator are left out: they say nothing about Azure."""
    types: dict[str, list[tuple[dict[str, Any], Course]]] = {}
    for row in rows:
        if not row["simulated"]:
            types.setdefault(known_type(row["event_type"]) or _OTHER_TYPES, []).append((row, course_of(row)))
    lines = []
    for name, found in sorted(types.items(), key=lambda each: (each[0] == _OTHER_TYPES, each[0])):
        withdrawn = sum(row["outcome"] == WITHDRAWN for row, _course in found)
        failed = sum(len(row["failed_responses"]) for row, _course in found)
        late = sum(row["late"] for row, _course in found)
        told = [
            f"{name}: {len(found)} event{'' if len(found) == 1 else 's'}, {withdrawn} withdrawn",
            *_range("notice", (course.notice for _row, course in found), _documented(name)),
            *_range("approval to start", (course.approval_to_start for _row, course in found)),
            *_range("lasted", (course.lasted for _row, course in found)),
            f"{failed} failed response{'' if failed == 1 else 's'}" if failed else "",
            f"{late} prepared too late" if late else "",
        ]
        lines += fold("; ".join(each for each in told if each), "  ")
    return [["In all:", *lines]] if lines else []


def _range(name: str, seconds: Iterable[int | None], more: str = "") -> list[str]:
    known = [each for each in seconds if each is not None]
    if not known:
        return []
    least, most = format_duration(min(known)), format_duration(max(known))
    return [f"{name} {least if least == most else f'{least} to {most}'}{more}"]
