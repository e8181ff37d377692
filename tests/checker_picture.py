# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draw what becomes of events and responses, from the tables of the checker, into the guide about watching.

    make unit
    cd build/checkout/ansible_collections/fleetops/azure_maintenance && python tests/checker_picture.py

The collection is found there. A test compares.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Sequence

sys.path[:0] = map(str, Path(__file__).absolute().parents[4:5])

from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track import (  # noqa: E402
    changes,
)

TREE = Path(__file__).resolve().parents[1]
GUIDE = TREE / "docs" / "docsite" / "rst" / "guide_watching.rst"
BEGIN = ".. Made by tests/checker_picture.py from the tables of the checker.\n\n.. code-block:: text\n\n"
END = ".. The end of what tests/checker_picture.py made.\n"
_WIDTH = 46


def draw() -> str:
    """Return the picture: a tree for the events, and one for the responses."""
    events = _tree("an event", changes.PHASE_CHANGES)
    return events + "\n" + _tree("a response", changes.RESPONSE_CHANGES)


def _tree(title: str, table: Sequence[changes.Change]) -> str:
    lines = [title]
    states = dict.fromkeys(change.before for change in table)
    for state in states:
        lines += ["|", f"+-- {state}"]
        for change in (each for each in table if each.before == state):
            first, *more = textwrap.wrap(change.when, _WIDTH)
            lines.append(f"|     +--> {change.after:10} {first}")
            lines += [f"|     |                {line}" for line in more]
    last = dict.fromkeys(change.after for change in table if change.after not in states)
    lines += ["|", *(f"+-- {state} (the end)" for state in last)]
    return "\n".join(lines) + "\n"


def make_guide(text: str) -> str:
    """Return the text of the guide with the picture of now."""
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    assert begin, f"{GUIDE} has no place for the picture"
    assert end, f"{GUIDE} does not say where the picture ends"
    picture = textwrap.indent(draw(), "   ", lambda line: line.strip() != "")
    return f"{before}{begin}{picture}\n{end}{after}"


if __name__ == "__main__":
    GUIDE.write_text(make_guide(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
