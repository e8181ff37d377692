# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""How often the check must ask and how much it may print, P8 and P9 of the design, and how long answers are unclear."""

from __future__ import annotations

from typing import Callable

UNCLEAR_ENDS_AFTER = 300.0
SILENCE_ENDS_UNCLEAR = 60.0
MOST_SILENT = 15.0
LONGEST_RETRY_AFTER = 60.0
# Before Azure has answered in a boot
_FIRST_ANSWER = 150.0
# systemd starts it so many seconds after a failure.
_AFTER_FAILURE = 5.0
# How long the program may take from one action to the next, in a world where it takes no time but to wait
_MOMENT = 0.5
_MOST_LINES = 45

Require = Callable[[str, bool, str], None]


class PollingRules:
    """:param require: told a property, whether it holds, and why it does not.

    :ivar answered: Azure has told of events in this boot.
    """

    def __init__(self, poll_interval: float, require: Require) -> None:
        self._poll_interval = poll_interval
        self._require = require
        self._last_request = 0.0
        self._allowance = 0.0
        self._lines = 0
        self._unclear: tuple[float, float] | None = None
        self.answered = False
        self.longest_silence = 0.0

    def booted(self, now: float) -> None:
        self._last_request, self._allowance = now, 0.0
        self.answered = False
        self._unclear = None

    def killed(self) -> None:
        self._allowance += _AFTER_FAILURE + self._poll_interval + _MOMENT

    def told_to_wait(self, seconds: float) -> None:
        self._allowance += min(seconds, LONGEST_RETRY_AFTER)

    def asks(self, now: float, for_events: bool) -> None:
        silence = now - self._last_request
        most = MOST_SILENT + self._poll_interval - 1.0 + _MOMENT + self._allowance
        if not self.answered:
            most += _FIRST_ANSWER
        self.longest_silence = max(self.longest_silence, silence)
        self._require("P8", silence <= most, f"no request for {silence:.1f} s; {most:.1f} s are allowed")
        self._last_request, self._allowance = now, 0.0
        if for_events:
            self._lines = 0

    def wrote(self, text: str) -> None:
        self._lines += text.count("\n")
        self._require("P9", self._lines <= _MOST_LINES, f"{self._lines} lines between two requests")

    def note_clear(self, clear: bool, now: float) -> None:
        if clear:
            self._unclear = None
        elif self._unclear is None or now - self._unclear[1] > SILENCE_ENDS_UNCLEAR:
            self._unclear = (now, now)
        else:
            self._unclear = (self._unclear[0], now)

    def note_failure(self) -> None:
        self._unclear = None

    def is_unclear_too_long(self, now: float) -> bool:
        """Tell whether an event that may have taken place counts as ended where it is listed no more."""
        return self._unclear is not None and now - self._unclear[0] >= UNCLEAR_ENDS_AFTER
