# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The story of a rehearsal, for people: the actions of Azure, the requests of the VMs, the notes."""

from __future__ import annotations

import textwrap
from collections import deque

# 80 columns less those that Ansible takes to show the lines as a list.
_WIDTH = 69
_LABEL = 20
_ENTRIES = 10000


def short(event_id):
    return event_id[:8]


def span(seconds):
    return f"{seconds:.1f}".rstrip("0").rstrip(".") + " s"


def printable(text):
    """Return the text with escapes for control characters and others that could disturb a terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


class Timeline:
    """Not locked by itself: the world's lock guards it. Keeps the last 10,000 entries."""

    def __init__(self, clock):
        self._clock = clock
        self._entries = deque(maxlen=_ENTRIES)
        self._polls = {}

    def add(self, actor, text, vm=None, moment=None):
        entry = {"seconds": self._seconds(moment), "vm": vm, "actor": actor, "text": text}
        self._entries.append(entry)
        return entry

    def count_poll(self, vm, fault):
        """A VM's polls are one entry, at the time of the first; a line for each would hide the story."""
        if vm not in self._polls:
            self._polls[vm] = {"count": 0, "faults": 0, "entry": self.add("vm", "", vm)}
        poll = self._polls[vm]
        poll["count"] += 1
        poll["faults"] += bool(fault)
        text = "asked once" if poll["count"] == 1 else f"asked {poll['count']} times until {self._seconds():.1f} s"
        if poll["faults"]:
            text += f", {poll['faults']} of them met a fault"
        poll["entry"]["text"] = text

    def entries(self):
        return [dict(entry) for entry in self._entries]

    def lines(self):
        labels = [printable(entry["vm"] or entry["actor"]) for entry in self._entries]
        labels = ["Azure" if label == "azure" else label for label in labels]
        labels = [label if len(label) <= _LABEL else label[: _LABEL - 1] + "…" for label in labels]
        column = max(map(len, labels), default=0)
        digits = max((len(f"{entry['seconds']:.1f}") for entry in self._entries), default=0)
        lines = []
        for entry, label in zip(self._entries, labels):
            start = f"{entry['seconds']:{digits + 2}.1f} s  {label:<{column}}  "
            text = ("> " if entry["actor"] == "note" else "") + printable(entry["text"])
            lines += textwrap.wrap(
                text,
                _WIDTH,
                initial_indent=start,
                subsequent_indent=" " * len(start),
                break_on_hyphens=False,
            ) or [start.rstrip()]
        return lines

    def _seconds(self, moment=None):
        return round((self._clock.now() if moment is None else moment) - self._clock.started, 1)
