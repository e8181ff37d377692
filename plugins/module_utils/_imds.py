# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The HTTP client for Azure's metadata service (IMDS); the only file that opens a socket.

It never uses a proxy, follows a redirect or keeps a cookie. Facts about Azure are from Microsoft's pages
"Azure Instance Metadata Service" and "Scheduled Events for Linux VMs" (azure-compute-docs).
"""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import time
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, Sequence
from urllib.parse import quote, urlsplit

from ._errors import (
    HttpStatusError,
    ImdsError,
    MalformedError,
    NoAnswerError,
    NotImdsError,
    ThrottledError,
    UnreachableError,
    excerpt,
)

DEFAULT_ENDPOINT = "http://169.254.169.254"
DEFAULT_API_VERSION = "2020-07-01"
DEFAULT_CONNECT_TIMEOUT = 3.0
DEFAULT_TIMEOUT = 150.0

# scheduledevents and instance have version lists of their own.
_INSTANCE_API_VERSION = "2021-02-01"
_MAX_BODY = 1024 * 1024
# Azure holds the first answer up to two minutes while it switches the feature on; an answer later than that is lost.
_LONGEST_ANSWER = 125.0
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
# The clock of the operating system takes no infinity and no 10^10 seconds.
_LONGEST_LIMIT = 86400


class Deadline:
    """A moment on the monotonic clock, so that a change of the wall clock neither shortens nor prolongs a wait."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the seconds that are left, never less than 0."""
        return max(0.0, self._end - time.monotonic())


class _Answer(NamedTuple):
    status: int
    body: bytes
    location: str
    retry_after: float | None


class ImdsClient:
    """Asks one IMDS endpoint.

    :param endpoint: ``http://HOST[:PORT][/PREFIX]``.
    :param api_version: version of ``/metadata/scheduledevents``.
    :param connect_timeout: seconds to wait for a connection; off Azure this ends the attempt.
    :param timeout: seconds for one whole operation with its retries, unless a deadline is given.
    :param retries: whether to ask again after a fault that may pass; a caller that polls asks again by itself.
    :raises ValueError: the endpoint is not of that form, or a limit is not more than 0 and at most a day.
    """

    def __init__(
        self,
        endpoint: str = DEFAULT_ENDPOINT,
        api_version: str = DEFAULT_API_VERSION,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        timeout: float = DEFAULT_TIMEOUT,
        retries: bool = True,
    ) -> None:
        self._host, self._port, self._prefix = _split_endpoint(endpoint)
        for name, seconds in (("connect_timeout", connect_timeout), ("timeout", timeout)):
            if not 0 < seconds <= _LONGEST_LIMIT:
                raise ValueError(f"{name} must be more than 0 and at most {_LONGEST_LIMIT} seconds, not {seconds}.")
        self.endpoint = endpoint.rstrip("/")
        self.api_version = api_version
        self._connect_timeout = connect_timeout
        self.timeout = timeout
        self._retries = retries

    def at(self, endpoint: str) -> ImdsClient:
        """Return a client like this one for another endpoint."""
        return ImdsClient(endpoint, self.api_version, self._connect_timeout, self.timeout, self._retries)

    def deadline(self) -> Deadline:
        """Return a deadline that gives several operations the client's timeout together."""
        return Deadline(self.timeout)

    def get_document(self, deadline: Deadline | None = None) -> bytes:
        """Return the body of ``/metadata/scheduledevents``.

        :raises ImdsError: there was no answer with status 200.
        """
        return self._request("GET", self._events_path(), None, deadline)

    def approve(
        self, event_ids: Sequence[str], document_incarnation: str | None = None, deadline: Deadline | None = None
    ) -> None:
        """POST a StartRequest for the events: Azure may start them now, for all their VMs.

        It is repeated after faults like a GET: Azure answers 200 however often an event is approved.

        :param event_ids: ids as Azure spelled them.
        :param document_incarnation: sent along if given; the pages of 2017 ask for it, as a string.
        :raises ImdsError: there was no answer with status 200; 400 where an id is not in the document.
        """
        content: dict[str, Any] = {"StartRequests": [{"EventId": event_id} for event_id in event_ids]}
        if document_incarnation is not None:
            content = {"DocumentIncarnation": document_incarnation, **content}
        self._request("POST", self._events_path(), json.dumps(content).encode(), deadline)

    def get_resource_name(self, deadline: Deadline | None = None) -> str | None:
        """Return the name by which Resources calls this VM, None where IMDS has none (classic VMs).

        :raises ImdsError: there was no usable answer.
        """
        path = f"/metadata/instance/compute/name?api-version={_INSTANCE_API_VERSION}&format=text"
        try:
            body = self._request("GET", path, None, deadline)
        except ImdsError as error:
            if error.http_status == http.client.NOT_FOUND:
                return None
            raise
        name = body.decode("utf-8", errors="replace").strip()
        if len(name) > 256 or "<" in name or not name.isprintable():
            raise NotImdsError(f"{self.endpoint} gave no VM name: {excerpt(name)}. Set resource_name.", http_status=200)
        return name or None

    def _events_path(self) -> str:
        return f"/metadata/scheduledevents?api-version={quote(self.api_version, safe='')}"

    def _request(self, method: str, path: str, body: bytes | None, deadline: Deadline | None) -> bytes:
        """Ask until there is an answer with status 200, an error that asking again cannot mend, or no time left."""
        deadline = deadline or self.deadline()
        pause = _FIRST_PAUSE
        error: ImdsError | None = None
        while True:
            least: float | None = None
            try:
                answer = self._exchange(method, path, body, deadline)
                if answer.status == http.client.OK:
                    return answer.body
                error = self._refusal(answer)
                error.retry_after = least = answer.retry_after
                again = answer.status in (410, 429) or answer.status >= 500
            except (NoAnswerError, UnreachableError) as failure:
                if error is None and isinstance(failure, UnreachableError):
                    raise
                # What an earlier try was told says more than a connection that failed, or had no time, later on.
                error, again = error or failure, True
            wait = max(pause, least or 0.0)
            if not again or not self._retries or wait >= deadline.remaining():
                raise error
            time.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _exchange(self, method: str, path: str, body: bytes | None, deadline: Deadline) -> _Answer:
        """Send one request and read its whole answer."""
        sock = self._connect(deadline)
        try:
            timed = _TimedSocket(sock, deadline)
            connection = _Connection(self._host, self._port, timed)
            headers = {"Metadata": "true", "Connection": "close"}
            if body is not None:
                headers["Content-Type"] = "application/json"
            connection.request(method, self._prefix + path, body=body, headers=headers)
            response = connection.getresponse()
            if timed.ended:
                # http.client takes headers that end early for whole ones, and then there is no body to miss.
                raise http.client.IncompleteRead(b"")
            return self._read(response)
        except socket.timeout as error:
            raise NoAnswerError(
                f"{self.endpoint} took the request and gave no complete answer in time. Azure holds the first answer "
                "up to two minutes: give timeout 150 seconds or more, or ask again."
            ) from error
        except (OSError, http.client.IncompleteRead) as error:
            raise NoAnswerError(
                f"{self.endpoint} broke the connection before its answer was complete ({error}). Ask again."
            ) from error
        except http.client.HTTPException as error:
            raise NotImdsError(
                f"What answers at {self.endpoint} does not speak HTTP as IMDS does ({type(error).__name__}: "
                f"{excerpt(str(error))}). Check the endpoint."
            ) from error
        finally:
            sock.close()

    def _connect(self, deadline: Deadline) -> socket.socket:
        seconds = min(self._connect_timeout, deadline.remaining())
        if seconds <= 0:
            raise NoAnswerError(f"No time was left to ask {self.endpoint}. Raise timeout.")
        # As text it would be taken for an international name, whose tables take time and memory to load.
        address: Any = (self._host.encode("ascii"), self._port)
        try:
            sock = socket.create_connection(address, timeout=seconds)
        except OSError as error:
            raise UnreachableError(
                f"Nothing answers at {self.endpoint} ({error}). This machine is no Azure VM, a firewall or a missing "
                "route keeps it from the metadata service, or the endpoint is wrong."
            ) from error
        # http.client sends a body apart from its headers, and would wait for the first to be acknowledged.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _read(self, response: http.client.HTTPResponse) -> _Answer:
        # read(amount) trusts a chunk of negative size, and then reads without end.
        buffer = memoryview(bytearray(_MAX_BODY + 1))
        body = bytes(buffer[: response.readinto(buffer)])
        if len(body) > _MAX_BODY:
            raise MalformedError(
                f"{self.endpoint} answered with more than 1 MiB, no scheduled events document: "
                f"{excerpt(body[:800].decode('utf-8', errors='replace'))}. Check what serves the endpoint.",
                http_status=response.status,
            )
        if response.length:
            # readinto says nothing of a body that ends early.
            raise http.client.IncompleteRead(body, response.length)
        return _Answer(
            response.status,
            body,
            response.getheader("Location") or "",
            _parse_retry_after(response.getheader("Retry-After")),
        )

    def _refusal(self, answer: _Answer) -> ImdsError:
        """Return the error for an answer that is not 200."""
        status = answer.status
        text = answer.body.decode("utf-8", errors="replace")
        reply = _json_object(text)
        said = str(reply["error"]) if reply and "error" in reply else text
        what = f"{self.endpoint} answered HTTP {status}: {excerpt(said)}."
        if 300 <= status < 400:
            return NotImdsError(
                f"{self.endpoint} redirects (HTTP {status}) to {excerpt(answer.location)}, which IMDS never does. "
                "Check for a proxy or portal between this VM and the endpoint.",
                status,
            )
        if status == 404 and (reply is None or "error" not in reply):
            return NotImdsError(f"{what} It is not Azure's metadata service; this may be another cloud.", status)
        if status == 429:
            return ThrottledError(
                f"{what} Azure allows 5 requests a second for all programs of a VM together. Ask less often.", status
            )
        return HttpStatusError(f"{what} {self._advice(status, said, reply or {})}", status)

    def _advice(self, status: int, said: str, reply: dict[str, Any]) -> str:
        if status == 400 and "newest-versions" in reply:
            offered = reply["newest-versions"]
            versions = ", ".join(map(str, offered)) if isinstance(offered, list) else str(offered)
            return (
                f"api_version was {self.api_version}; Azure offers {versions}. {DEFAULT_API_VERSION} is the usual one."
            )
        if status == 400 and "metadata header" in said.lower():
            return "Something between this VM and the endpoint dropped the header 'Metadata: true'."
        if status in (401, 403):
            return "Access is filtered: check the Metadata Security Protocol's allow list, or whether this is Azure."
        if status == 410 or status >= 500:
            return "The metadata service is out of order for the moment. Ask again in a minute."
        return "Check endpoint and api_version."


class _Connection(http.client.HTTPConnection):
    """HTTP on a socket that is connected already, so that no proxy or tunnel setting can come between."""

    def __init__(self, host: str, port: int, timed: _TimedSocket) -> None:
        super().__init__(host, port)
        self.sock: Any = timed


class _TimedSocket:
    """The part of a socket that http.client uses, every wait of which ends at one deadline.

    A plain socket timeout starts anew with each byte, so a server that trickles would hold us for ever.
    """

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._answer_end = Deadline(_LONGEST_ANSWER)
        self.ended = False

    def _limit_wait(self) -> None:
        seconds = min(self._deadline.remaining(), self._answer_end.remaining())
        if seconds <= 0:
            raise socket.timeout("timed out")
        self._sock.settimeout(seconds)

    def sendall(self, data: bytes) -> None:
        self._limit_wait()
        self._sock.sendall(data)

    def recv_into(self, buffer: Any) -> int:
        self._limit_wait()
        count = self._sock.recv_into(buffer)
        self.ended = not count
        return count

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_SocketReader(self))

    def close(self) -> None:
        """Keep the socket: http.client closes it before the answer is read; ImdsClient closes it afterwards."""


class _SocketReader(io.RawIOBase):
    def __init__(self, timed: _TimedSocket) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.recv_into(buffer)


def _split_endpoint(endpoint: str) -> tuple[str, int, str]:
    """Return host, port and path prefix of ``http://HOST[:PORT][/PREFIX]``."""
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", 80 if parts.port is None else parts.port
    except ValueError:
        host, port, parts = "", 0, urlsplit("")
    # A look-up would stumble over an empty or overlong label.
    if not all(0 < len(label) < 64 for label in host[: -1 if host.endswith(".") else None].split(".")):
        host = ""
    # Printable ASCII, but no '#' and no '?'.
    plain = re.fullmatch(r'[!"$->@-~]+', endpoint) and "@" not in parts.netloc
    if parts.scheme != "http" or not host or not port or not plain:
        raise ValueError(f"endpoint must have the form http://HOST[:PORT][/PREFIX], not {excerpt(endpoint)}.")
    return host, port, parts.path.rstrip("/")


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        content = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _parse_retry_after(value: str | None) -> float | None:
    """Return the seconds a Retry-After header asks for, None where there is none that can be read."""
    if value is None:
        return None
    if re.fullmatch(r"\d{1,9}", value.strip(), re.ASCII):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())
