# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One request to another service with ``requests``, and the part of its answer that came in time."""

from __future__ import annotations

import http.client
import io
import json
import re
import threading
import time
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Iterator

# The status says whether a message was taken; the body is only shown.
_LONGEST_BODY = 10.0
# A list of jobs of AWX has some kilobytes for each.
_MAX_BODY = 2 * 1024 * 1024
_PIECE = 16 * 1024
# 30 years; of many digits a float is infinite, which no sentence can tell.
_LONGEST_PAUSE = 1e9


class Answer:
    """The answer to one request so far.

    :ivar url: the address of the request.
    :ivar status: the HTTP status, 0 as long as there is none.
    :ivar error: why there is no answer, or no whole one.
    :ivar sent: the content was sent, or has begun to be.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = 0
        self.sent = False
        self.location = ""
        self.error: Exception | None = None
        self._retry_after = ""
        self._body = b""

    def receive(self, requests: Any, options: dict[str, Any], heard: threading.Event) -> None:
        """Send the request and read the answer; the event is set as soon as its status is there."""
        try:
            with requests.Session() as session:
                # Without this, credentials would come from ~/.netrc, and certificates from wherever a variable says.
                session.trust_env = False
                # A redirect that is not followed would still be read to its end, however long it is.
                session.get_redirect_target = lambda _response: None
                with session.request(**options, allow_redirects=False, stream=True) as response:
                    self.location = response.headers.get("Location", "")
                    self._retry_after = response.headers.get("Retry-After", "").strip()
                    self.status = response.status_code
                    heard.set()
                    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                        # It was not asked for, and a few bytes may be decoded into all the memory there is.
                        return
                    # urllib3 trusts a chunk of negative size, and then reads without end.
                    self._receive_body(response.raw._fp)
        except Exception as error:
            for item in chain(error):
                # Its frames would keep sockets open.
                item.__traceback__ = None
            self.error = error
        finally:
            heard.set()

    def _receive_body(self, response: http.client.HTTPResponse) -> None:
        piece = memoryview(bytearray(_PIECE))
        try:
            while len(self._body) < _MAX_BODY:
                count = response.readinto(piece)
                if not count:
                    break
                self._body += piece[:count]
        except http.client.IncompleteRead as error:
            # A body that breaks off or never ends does not undo the status.
            self._body += error.partial

    def is_cut(self) -> bool:
        """Return whether the body was longer than what is read of one."""
        return len(self._body) >= _MAX_BODY

    def is_garbled(self) -> bool:
        """Return whether the bytes after the status are not HTTP, so that it may not be the service's own."""
        return self.status != 0 and isinstance(self.error, http.client.HTTPException)

    def may_have_been_taken(self) -> bool:
        """Return whether the service may have carried out the request, though it did not say so."""
        # By 501, 503, 505 and 507 nobody has taken it. Of other numbers, as 524 of Cloudflare, that is not known.
        lost = self.status == 0 or (self.status >= 500 and self.status not in (501, 503, 505, 507))
        return self.sent and (lost or self.is_garbled())

    def asked_pause(self) -> float:
        """Return the seconds that the service asked to wait before the next request, 0 where it did not."""
        if re.fullmatch(r"[0-9]+", self._retry_after):
            return min(float(self._retry_after), _LONGEST_PAUSE)
        try:
            moment = parsedate_to_datetime(self._retry_after)
            moment = moment.replace(tzinfo=moment.tzinfo or timezone.utc)
            return max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return 0.0

    def json(self) -> dict[str, Any]:
        """Return the body as an object, an empty one where it is none."""
        try:
            content = json.loads(self._body)
        except (ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    def said(self) -> str:
        """Return the text for people out of the body: AWX puts it in msg or detail."""
        content = self.json()
        said = content.get("msg") or content.get("detail")
        return said if isinstance(said, str) else self._body.decode("utf-8", errors="replace").strip()


class _Content(io.BytesIO):
    """The content of a request; only an open connection reads it."""

    def __init__(self, content: bytes, answer: Answer) -> None:
        super().__init__(content)
        self._answer = answer

    def read(self, size: int | None = -1) -> bytes:
        self._answer.sent = True
        return super().read(size)


def send(requests: Any, options: dict[str, Any], seconds: float) -> Answer:
    """Send one request, and return the answer so far after this time at most.

    requests limits each wait, but not their sum, and not the look-up of a name. So a thread does the waiting, and is
    left behind when its time is up.
    """
    answer = Answer(options["url"])
    if options["data"]:
        options = {**options, "data": _Content(options["data"], answer)}
    heard = threading.Event()
    thread = threading.Thread(target=answer.receive, args=(requests, options, heard), name="notify", daemon=True)
    end = time.monotonic() + seconds
    thread.start()
    heard.wait(seconds)
    thread.join(min(max(end - time.monotonic(), 0), _LONGEST_BODY))
    return answer


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Return the error, its cause, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
