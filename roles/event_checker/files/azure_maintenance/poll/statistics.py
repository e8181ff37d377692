# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Statistics of the polling: pure."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.poller import EMPTY, Answer

_LONGEST_MESSAGE = 1000


class Polls(NamedTuple):
    """Times are in seconds since 1970, None where it never happened.

    :ivar number: how many polls there were.
    :ivar errors: how many polls failed, by reason.
    :ivar last_answer_at: when a document came last. An empty body and an error page are none.
    :ivar last_error: why the last poll had no answer: ``reason``, ``message`` and ``at``; None where it had one.
    """

    number: int = 0
    errors: Mapping[str, int] = {}
    last_answer_at: float | None = None
    last_error: Mapping[str, Any] | None = None

    def after(self, answer: Answer, now: float) -> tuple[Polls, bool]:
        """Return the statistics with one more answer, and whether more than numbers and times have changed."""
        polls = self._replace(number=self.number + 1)
        if answer.heard:
            changed = self.last_error is not None or self.last_answer_at is None
            return polls._replace(last_answer_at=now, last_error=None), changed
        if answer.kind == EMPTY:
            reason, message = "empty", "The answer is an empty body, which is not a document."
        else:
            assert answer.error is not None, answer.kind
            reason, message = answer.error.reason, str(answer.error)[:_LONGEST_MESSAGE]
        polls = polls._replace(errors={**self.errors, reason: self.errors.get(reason, 0) + 1})
        if self.last_error is not None and self.last_error["reason"] == reason:
            return polls, False
        return polls._replace(last_error={"reason": reason, "message": message, "at": now}), True
