# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The HTML of an event that the page and its timeline share."""

from __future__ import annotations

from html import escape
from typing import Any, Mapping

from ....module_utils._event.document import STARTED, read_utc
from ....module_utils._event.sentences import format_duration
from ..page_frame import spans
from ..text import clean
from .text import vm_label, vm_labels

MOST_VMS = 12
# A shorter time is shown to the second. In a longer one, seconds that change would only distract.
_SECONDS_COUNT = 120


def starts(event: Mapping[str, Any], tag: str) -> str:
    """Return when Azure may start the event, in an element that the script keeps up with the clock."""
    seconds, moment = event["seconds_until_start"], read_utc(event["not_before"] or "")
    if event["event_status"] == STARTED:
        return "started"
    if seconds is None or moment is None:
        return "start unknown"
    if seconds >= _SECONDS_COUNT:
        seconds -= seconds % 60
    text = f"in {format_duration(seconds)}" if seconds else "due"
    return f'<{tag} data-at="{int(moment.timestamp())}">{text}</{tag}>'


def name_list(event: dict[str, Any]) -> str:
    """Return the VMs of an event in natural order. One of which nothing was heard, or by Azure alone, is marked."""
    heard = {vm_label(vm): vm["host"] in event["told_by_azure"] for vm in event["vms"] if vm["host"] is not None}
    names = []
    for label in vm_labels(event):
        words = "told by Azure" if heard.get(label) else "" if label in heard else "no answer"
        mark = f' <span class="alarm">{words}</span>' if words else ""
        names.append(f"{escape(clean(label))}{mark}")
    if len(names) <= MOST_VMS:
        return spans(names) or "no VM named"
    more = f"and {len(names) - MOST_VMS} more"
    return f"{spans(names[:MOST_VMS])} <details><summary>{more}</summary>{spans(names[MOST_VMS:])}</details>"
