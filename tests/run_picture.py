# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draw how a run decides, and through which states an event goes on a host, into the guide about prepare and restore:
the first from the table of rules of its engine, the second from its table of states and what its campaign has seen.

    make unit
    cd build/checkout/ansible_collections/fleetops/azure_maintenance && python tests/run_picture.py

The collection is found there. Tests compare.
"""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any, Callable
from unittest import mock

sys.path[:0] = map(str, Path(__file__).absolute().parents[4:5])

from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import engine  # noqa: E402
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.progress import (  # noqa: E402
    STATES,
    progress_key,
    state_of,
)

TREE = Path(__file__).resolve().parents[1]
GUIDE = TREE / "docs" / "docsite" / "rst" / "guide_prepare_and_restore.rst"
RULES = ".. Made by tests/run_picture.py from the engine of the run.\n\n"
STATES_FOLLOW = ".. Made by tests/run_picture.py from the states of the run.\n\n"
END = ".. The end of what tests/run_picture.py made.\n"
# Those that end the run, or the play
LAST = (engine.REFUSE, engine.LEAVE)
_THE_END = " (the end)"
_WIDTH = 56
# What is seen less often than so many times in so many histories is left out: a picture of all shows nothing.
_HISTORIES, _LEAST = 1000, 4


def draw() -> str:
    """Return the picture of the rules: one line, or more, for each, in the order in which they are tried."""
    lines = ["+-> decide: the first that is true", "|   |"]
    for number, rule in enumerate(engine.RULES, 1):
        first, *more = textwrap.wrap(f"{rule.when}{_THE_END if rule.do in LAST else ''}", _WIDTH)
        lines.append(f"|   +-{number:2} {rule.do:8} {first}")
        lines += [f"|   |             {line}" for line in more]
    lines += [f"|   +-   done     nothing of that: the verdict{_THE_END}", "|"]
    lines += ["+-- the hosts do it, each within its limit, and report"]
    return "\n".join(lines) + "\n"


def follow_states() -> Counter[tuple[str, str]]:
    """Return how often which state has followed which in the histories of the campaign."""
    from ansible_collections.fleetops.azure_maintenance.tests.campaign.fleet_run import run_history

    seen: Counter[tuple[str, str]] = Counter()

    def states(run: engine.Run) -> dict[tuple[str, str], str]:
        hosts = run["hosts"].items()
        return {(host, progress_key(each)): state_of(each) for host, known in hosts for each in known["events"]}

    def watch(step: Callable[..., engine.Run]) -> Callable[..., engine.Run]:
        def watched(run: engine.Run, *more: Any) -> engine.Run:
            after = step(run, *more)
            before = states(run)
            # What is announced is decided about in the same turn.
            changes = [(before.get(key, "announced"), state) for key, state in states(after).items()]
            seen.update(change for change in changes if change[0] != change[1])
            return after

        return watched

    with mock.patch.multiple(engine, decide=watch(engine.decide), take_reports=watch(engine.take_reports)):
        for seed in range(_HISTORIES):
            run_history(seed)
    return seen


def draw_states() -> str:
    """Return the picture of the states, in the order in which most events go through them."""
    seen, lines = follow_states(), []
    names = [state.name for state in reversed(STATES)]
    for state in reversed(STATES):
        following = [name for name in names if seen[state.name, name] >= _LEAST]
        lines += [f"{state.name:13} {state.means}", *([f"  +-> {', '.join(following)}"] if following else [])]
    return "\n".join(lines) + "\n"


def make_guide(text: str, begin: str, picture: str) -> str:
    """Return the text of the guide with the picture of now.

    :param begin: the line before the picture.
    """
    before, found, rest = text.partition(begin)
    _old, end, after = rest.partition(END)
    assert found, f"{GUIDE} has no place for the picture"
    assert end, f"{GUIDE} does not say where the picture ends"
    block = textwrap.indent(picture, "   ", lambda _line: True)
    return f"{before}{begin}.. code-block:: text\n\n{block}\n{END}{after}"


if __name__ == "__main__":
    guide = make_guide(GUIDE.read_text(encoding="utf-8"), RULES, draw())
    GUIDE.write_text(make_guide(guide, STATES_FOLLOW, draw_states()), encoding="utf-8")
