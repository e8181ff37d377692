# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the polling goes, as it is remembered and told: pure."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.poller import EMPTY, Answer

from .codec import is_time

_LONGEST_MESSAGE = 1000
# As version 1.0 wrote them
_KEYS = ("count", "errors", "last_answer_at", "last_error")


class Polls(NamedTuple):
    """Times are in seconds since 1970, None where it never happened.

    :ivar number: how many polls there were.
    :ivar errors: how many polls failed, by reason.
    :ivar last_answer_at: when a document came last. An empty body and an error page are none.
    :ivar last_error: why the last poll told nothing: ``reason``, ``message`` and ``at``; None where it did.
    """

    number: int = 0
    errors: Mapping[str, int] = {}
    last_answer_at: float | None = None
    last_error: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, fact: Mapping[str, Any]) -> Polls:
        """Return what to_dict() wrote; what cannot be read is taken for not known."""
        number, errors, at, error = (fact.get(key) for key in _KEYS)
        if (
            not isinstance(error, dict)
            or not all(isinstance(error.get(key), str) for key in ("reason", "message"))
            or not is_time(error.get("at"))
        ):
            error = None
        return cls(
            number if isinstance(number, int) and number >= 0 else 0,
            {key: each for key, each in errors.items() if isinstance(each, int)} if isinstance(errors, dict) else {},
            float(at) if is_time(at) and at is not None else None,
            error,
        )

    def to_dict(self) -> dict[str, Any]:
        return dict(zip(_KEYS, self))

    def after(self, answer: Answer, now: float) -> tuple[Polls, bool]:
        """Return how the polling goes after one more answer, and whether more than numbers and times have changed."""
        polls = self._replace(number=self.number + 1)
        if answer.heard:
            return polls._replace(
                last_answer_at=now, last_error=None
            ), self.last_error is not None or self.last_answer_at is None
        if answer.kind == EMPTY:
            reason, message = "empty", "The answer is an empty body, which is not a document."
        else:
            assert answer.error is not None, answer.kind
            reason, message = answer.error.reason, str(answer.error)[:_LONGEST_MESSAGE]
        polls = polls._replace(errors={**self.errors, reason: self.errors.get(reason, 0) + 1})
        if self.last_error is not None and self.last_error["reason"] == reason:
            return polls, False
        return polls._replace(last_error={"reason": reason, "message": message, "at": now}), True
