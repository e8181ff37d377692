# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role event_response is given, and what it needs; pure."""

from __future__ import annotations

from typing import Mapping

NOTHING = "nothing"
CHECKER = "checker"
# What event_response_prepare may say instead of the name of a file
WORDS = (NOTHING, CHECKER)

_UNNAMED = (
    "event_response_prepare must be the path of a file with the tasks that prepare a host, or the word "
    f"{NOTHING} if nothing need be prepared, or {CHECKER} if the checkers of the hosts prepare; it is not set. "
    "Is its name misspelled?"
)
_NO_RESTORE = (
    "event_response_restore is not set, so the hosts stay as event_response_prepare leaves them. Is its name "
    f"misspelled? Set it to {NOTHING} if nothing need be restored."
)


def tell_wrong_input(given: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the variables of the role, a sentence each.

    :param given: the values, as text, by the names without ``event_response_``.
    """
    faults = []
    if not given.get("prepare"):
        faults.append(_UNNAMED)
    if given.get("prepare") == CHECKER and given.get("restore", "") not in ("", NOTHING):
        faults.append(
            f"event_response_restore must be empty where event_response_prepare is {CHECKER}: the checkers restore."
        )
    seconds = given.get("due_within", "")
    if seconds and not (seconds.isascii() and seconds.isdigit()):
        faults.append(f"event_response_due_within must be a whole number of seconds, not '{seconds}'.")
    return faults


def tell_doubtful_input(given: Mapping[str, str]) -> list[str]:
    """Return what may be wrong with the variables of the role, a sentence each; the run goes on.

    :param given: as for tell_wrong_input.
    """
    prepares = given.get("prepare", "") not in ("", *WORDS)
    return [_NO_RESTORE] if prepares and not given.get("restore") else []
