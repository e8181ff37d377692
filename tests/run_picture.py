# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draw how a run decides, from the table of its engine, into the guide about prepare and restore.

    make unit
    cd build/checkout/ansible_collections/fleetops/azure_maintenance && python tests/run_picture.py

The collection is found there. A test compares.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

sys.path[:0] = map(str, Path(__file__).absolute().parents[4:5])

from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import engine  # noqa: E402

TREE = Path(__file__).resolve().parents[1]
GUIDE = TREE / "docs" / "docsite" / "rst" / "guide_prepare_and_restore.rst"
BEGIN = ".. Made by tests/run_picture.py from the engine of the run.\n\n.. code-block:: text\n\n"
END = ".. The end of what tests/run_picture.py made.\n"
# Those that end the run, or the play
LAST = (engine.REFUSE, engine.LEAVE)
_THE_END = " (the end)"
_WIDTH = 56


def draw() -> str:
    """Return the picture: one line, or more, for each rule, in the order in which they are tried."""
    lines = ["+-> decide: the first that is true", "|   |"]
    for number, rule in enumerate(engine.RULES, 1):
        first, *more = textwrap.wrap(f"{rule.when}{_THE_END if rule.do in LAST else ''}", _WIDTH)
        lines.append(f"|   +-{number:2} {rule.do:8} {first}")
        lines += [f"|   |             {line}" for line in more]
    lines += [f"|   +-   done     nothing of that: the verdict{_THE_END}", "|"]
    lines += ["+-- the hosts do it, each within its limit, and report"]
    return "\n".join(lines) + "\n"


def make_guide(text: str) -> str:
    """Return the text of the guide with the picture of now."""
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    assert begin, f"{GUIDE} has no place for the picture"
    assert end, f"{GUIDE} does not say where the picture ends"
    return f"{before}{begin}{textwrap.indent(draw(), '   ', lambda _line: True)}\n{end}{after}"


if __name__ == "__main__":
    GUIDE.write_text(make_guide(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
