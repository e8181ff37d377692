# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The errors of talking to Azure's metadata service, one small family."""

from __future__ import annotations

import json
from typing import Any


class ImdsError(Exception):
    """No usable answer from IMDS.

    ``str(error)`` is one message that says what happened and what to do next.

    :ivar reason: one word for programs, the same for every error of a class.
    :ivar http_status: the HTTP status of the last answer, or None where there was none.
    :ivar retry_after: the seconds that the last answer asked to wait before the next request, None where it did not.
    :ivar imds_reachable: whether something that may be IMDS took the connection.
    """

    reason = "unreachable"
    imds_reachable = False

    def __init__(self, message: str, http_status: int | None = None) -> None:
        super().__init__(message)
        self.http_status = http_status
        self.retry_after: float | None = None

    @property
    def refused(self) -> bool:
        """Whether it is certain that IMDS did not carry out the request: it said so, or did not get the request."""
        return self.http_status is not None and 400 <= self.http_status < 500

    @property
    def may_pass(self) -> bool:
        """Whether asking again may help: 410 and 429 ask for it in Microsoft's table of answers, 5xx are faults.

        421 comes from the guest proxy agent: it did not find the program of this connection. The next may work.
        """
        status = self.http_status
        return status in (410, 421, 429) or (status is not None and status >= 500)


class UnreachableError(ImdsError):
    """Nothing takes connections at the endpoint."""

    refused = True


class NotImdsError(ImdsError):
    """Something answers at the endpoint, but it is not Azure's metadata service."""

    reason = "not_imds"
    may_pass = False


class NoIdentityError(NotImdsError):
    """The answer does not say which VM this is. Azure's own answer may come later."""

    may_pass = True


class NoAnswerError(ImdsError):
    """The endpoint takes connections, but gave no complete answer in time."""

    reason = "timeout"
    imds_reachable = True
    may_pass = True


class NoTimeError(NoAnswerError):
    """No time was left to send the request."""

    refused = True
    may_pass = False


class HttpStatusError(ImdsError):
    """IMDS refused the request, or could not serve it."""

    reason = "http_status"
    imds_reachable = True


class ThrottledError(ImdsError):
    """IMDS kept answering 429: too many requests from this VM."""

    reason = "throttled"
    imds_reachable = True


class MalformedError(ImdsError):
    """IMDS answered 200 with something that is not a scheduled events document."""

    reason = "malformed"
    imds_reachable = True
    may_pass = False


def failure_data(error: ImdsError) -> dict[str, Any]:
    """Return the facts about the metadata service that every failed task has."""
    return {"reason": error.reason, "http_status": error.http_status, "imds_reachable": error.imds_reachable}


def one_line(text: str) -> str:
    """Return text from outside, such as a name, so that it can stand in a sentence: on one line and not too long."""
    return text if text.isprintable() and len(text) <= 200 else excerpt(text)


def excerpt(text: str) -> str:
    """Return the first 200 characters as a quoted string in which control characters are escaped."""
    # JSON leaves those above ASCII as they are, and some of them steer a terminal too.
    return escape(json.dumps(text[:200], ensure_ascii=False) + ("…" if len(text) > 200 else ""))


def escape(text: str) -> str:
    """Return the text with every character escaped that would steer a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
