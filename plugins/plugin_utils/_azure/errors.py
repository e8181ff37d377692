# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Azure from outside the VMs: its one error, also for a missing library."""

from __future__ import annotations

import sys
from typing import Any, Mapping

from ...module_utils._errors import escape

UNREACHABLE, TIMEOUT, LOGIN, FORBIDDEN = "unreachable", "timeout", "login", "forbidden"
THROTTLED, HTTP_STATUS, MALFORMED, LIBRARY = "throttled", "http_status", "malformed", "library"
CERTIFICATE = "certificate"

_LONGEST = 500


class AzureError(Exception):
    """Azure's control plane gave no usable answer.

    ``str(error)`` is one message with the failure and the next step.

    :ivar reason: one word for programs, one of this module's.
    :ivar http_status: of the last answer, None where there was none.
    :ivar code: Azure's own word for it, None where it gave none.
    :ivar details: Azure's errors for single targets.
    :ivar retry_after: the seconds that Azure asked to wait before the next request.
    """

    def __init__(
        self,
        message: str,
        reason: str,
        http_status: int | None = None,
        code: str | None = None,
        details: tuple[Mapping[str, Any], ...] = (),
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.http_status = http_status
        self.code = code
        self.details = details
        self.retry_after = 0.0
        # The next request logs in anew.
        self.login_was_old = False

    @property
    def may_pass(self) -> bool:
        """Whether asking again may help."""
        status = self.http_status
        passes = status in (408, 429) or (status is not None and status >= 500)
        return passes or self.login_was_old or self.reason in (UNREACHABLE, TIMEOUT)

    @property
    def refused(self) -> bool:
        """Whether Azure has certainly not carried out the request: it said so, or did not get it."""
        if self.http_status is None:
            return self.reason in (LOGIN, LIBRARY, CERTIFICATE)
        return 400 <= self.http_status < 500 and self.http_status != 408

    def data(self) -> dict[str, Any]:
        """Return the facts about Azure that every failed task has."""
        return {"reason": self.reason, "http_status": self.http_status, "error_code": self.code}


def missing_library(error: ImportError) -> AzureError:
    """Return the error for a library that is missing on the controller."""
    return AzureError(
        f"The Python library {error.name or error} is missing on the controller. "
        f"Run: {sys.executable} -m pip install azure-identity requests",
        LIBRARY,
    )


def plain(text: Any, *secrets: str | None) -> str:
    """Return text of a library or of Azure for a message: short, on one line and without secrets."""
    told = str(text)
    for secret in secrets:
        if secret:
            told = told.replace(secret, "********")
    told = escape(" ".join(told.split()))
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"
