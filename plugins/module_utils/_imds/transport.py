# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""One exchange with Azure's metadata service over a socket; the only file that opens one.

It never uses a proxy, follows a redirect or keeps a cookie.
"""

from __future__ import annotations

import io
import os
import pwd
import re
import socket
import time
from typing import Any, Mapping, NamedTuple
from urllib.parse import urlsplit

from .._errors import MalformedError, NoAnswerError, NotImdsError, NoTimeError, UnreachableError, excerpt, one_line

MAX_BODY = 1024 * 1024
# Azure holds the first answer up to two minutes while it switches the feature on; an answer later than that is lost.
LONGEST_ANSWER = 125.0
# The guest proxy agent of the Metadata Security Protocol adds it to Azure's answers, and not to its own.
AGENT_HEADER = "x-ms-azure-host-authorization"


class Deadline:
    """A moment on the monotonic clock, so that a change of the wall clock neither shortens nor prolongs a wait."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the seconds that are left, never less than 0."""
        return max(0.0, self._end - time.monotonic())


class Response(NamedTuple):
    """One whole HTTP answer.

    :ivar status: the HTTP status.
    :ivar headers: the values by name in lower case; of a name that comes more than once, the last.
    :ivar body: at most 1 MiB.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class SocketTransport:
    """Exchanges HTTP requests and answers with one endpoint, each over a connection of its own.

    :param endpoint: ``http://HOST[:PORT][/PREFIX]``.
    :param connect_timeout: seconds to wait for a connection.
    :raises ValueError: the endpoint is not of that form.
    """

    def __init__(self, endpoint: str, connect_timeout: float) -> None:
        self._host, self._port, self._prefix = split_endpoint(endpoint)
        self._endpoint = endpoint.rstrip("/")
        self._connect_timeout = connect_timeout

    def exchange(self, method: str, path: str, body: bytes | None, deadline: Deadline) -> Response:
        """Send one request and return its whole answer, whatever its status.

        :param path: with the query, and without the prefix of the endpoint.
        :raises ImdsError: there was no whole HTTP answer before the deadline.
        """
        sock = self._connect(deadline)
        try:
            timed = _TimedSocket(sock, deadline)
            timed.sendall(self._request(method, self._prefix + path, body))
            return self._read(io.BufferedReader(timed))
        except socket.timeout as error:
            raise NoAnswerError(
                f"{self._endpoint} took the request and gave no complete answer in time. Azure holds the first answer "
                "up to two minutes: give timeout 150 seconds or more, or ask again."
            ) from error
        except OSError as error:
            raise NoAnswerError(
                f"{self._endpoint} broke the connection before its answer was complete ({error}). Ask again."
            ) from error
        except _NoHttpError as error:
            raise NotImdsError(
                f"The server at {self._endpoint} does not speak HTTP as IMDS does ({error}). Check the endpoint."
            ) from error
        finally:
            sock.close()

    def describe_caller(self) -> str:
        """Return the user and the program that ask, in the words of an allow list of the guest proxy agent."""
        number = os.getuid()
        try:
            user = pwd.getpwuid(number).pw_name
        except KeyError:
            user = f"of uid {number}"
        # Where the agent looks, too: not the link by which the interpreter was started.
        return f"userName {one_line(user)}, exePath {one_line(os.path.realpath('/proc/self/exe'))}"

    def _connect(self, deadline: Deadline) -> socket.socket:
        seconds = min(self._connect_timeout, deadline.remaining())
        if seconds <= 0:
            raise no_time_error(self._endpoint)
        # As text it would be taken for an international name. The tables for those take time and memory to load.
        address: Any = (self._host.encode("ascii"), self._port)
        try:
            sock = socket.create_connection(address, timeout=seconds)
        except OSError as error:
            raise UnreachableError(
                f"Nothing answers at {self._endpoint} ({error}). This machine is not an Azure VM, a firewall or a "
                "missing route keeps it from the metadata service, or the endpoint is wrong."
            ) from error
        return sock

    def _request(self, method: str, target: str, body: bytes | None) -> bytes:
        if not re.fullmatch("[!-~]+", target):
            raise _NoHttpError(f"no request can ask for {excerpt(target)}")
        host = f"[{self._host}]" if ":" in self._host else self._host
        host += "" if self._port == 80 else f":{self._port}"
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Accept-Encoding: identity", "Metadata: true"]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode("ascii") + (body or b"")

    def _read(self, source: io.BufferedReader) -> Response:
        status = _read_status(source)
        headers, length = _read_headers(source)
        while status == 100:
            status = _read_status(source)
            headers, length = _read_headers(source)
        if status < 200 or status in (204, 304):
            length = 0
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = _read_chunks(source)
        else:
            # One byte more than is allowed shows that the body is too large. A read for more could wait without need.
            wanted = MAX_BODY + 1 if length is None else min(length, MAX_BODY + 1)
            body = _read_exactly(source, wanted) if length is not None else source.read(wanted)
        if len(body) > MAX_BODY:
            raise too_large_error(self._endpoint, body, status)
        return Response(status, headers, body)


# http.client would do, but for the parser of mails below it: the check of a VM would spend more on that than on the
# rest of a poll.


class _NoHttpError(Exception):
    """The answer is not HTTP as IMDS speaks it."""


_LONGEST_LINE = 65536
_MOST_HEADERS = 100


def _read_line(source: io.BufferedReader) -> bytes:
    line = source.readline(_LONGEST_LINE + 1)
    if len(line) > _LONGEST_LINE:
        raise _NoHttpError(f"a line has more than {_LONGEST_LINE} bytes")
    return line


def _read_whole_line(source: io.BufferedReader) -> bytes:
    line = _read_line(source)
    if not line.endswith(b"\n"):
        raise ConnectionError("it ended in the middle of a line")
    return line.strip()


def _read_status(source: io.BufferedReader) -> int:
    line = _read_line(source)
    if not line:
        raise ConnectionError("it was closed without an answer")
    found = re.match(rb"HTTP/1\.[0-9] +([1-9][0-9]{2})(?![^ \r\n])", line)
    if not found:
        raise _NoHttpError(f"its first line is {excerpt(line[:200].decode('latin-1'))}")
    return int(found[1])


def _read_headers(source: io.BufferedReader) -> tuple[dict[str, str], int | None]:
    """Return the headers, and the length of the body that they tell."""
    headers: dict[str, str] = {}
    for _number in range(_MOST_HEADERS + 1):
        line = _read_whole_line(source)
        if not line:
            length = headers.get("content-length", "")
            return headers, int(length) if re.fullmatch("[0-9]{1,18}", length) else None
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    raise _NoHttpError(f"it has more than {_MOST_HEADERS} headers")


def _read_exactly(source: io.BufferedReader, count: int) -> bytes:
    body = source.read(count)
    if len(body) < count:
        raise ConnectionError(f"{len(body)} bytes of the body came, and {count - len(body)} are missing")
    return body


def _read_chunks(source: io.BufferedReader) -> bytes:
    """Return the body, or the first bytes of one that is too large."""
    body = bytearray()
    while len(body) <= MAX_BODY:
        size = _read_whole_line(source).partition(b";")[0].strip()
        if not re.fullmatch(b"[0-9a-fA-F]{1,16}", size):
            raise ConnectionError(f"a chunk has the size {excerpt(size[:40].decode('latin-1'))}")
        if not int(size, 16):
            # The trailer after the last chunk is not used, but must end in time.
            while _read_line(source).strip():
                pass
            break
        body += _read_exactly(source, min(int(size, 16), MAX_BODY + 1 - len(body)))
        if len(body) <= MAX_BODY and _read_whole_line(source):
            raise ConnectionError("a chunk is longer than its size")
    return bytes(body)


class _TimedSocket(io.RawIOBase):
    """A socket, every wait of which ends at one deadline.

    A plain socket timeout starts again with each byte, so a server that trickles would hold us for ever.
    """

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._answer_end = Deadline(LONGEST_ANSWER)

    def _limit_wait(self) -> None:
        seconds = min(self._deadline.remaining(), self._answer_end.remaining())
        if seconds <= 0:
            raise socket.timeout("timed out")
        self._sock.settimeout(seconds)

    def sendall(self, data: bytes) -> None:
        self._limit_wait()
        self._sock.sendall(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._limit_wait()
        return self._sock.recv_into(buffer)


def no_time_error(endpoint: str) -> NoTimeError:
    """Return the error for a request for which there is no time."""
    return NoTimeError(f"No time was left to ask {endpoint}. Raise timeout.")


def too_large_error(endpoint: str, body: bytes, status: int) -> MalformedError:
    """Return the error for an answer of more than MAX_BODY bytes."""
    return MalformedError(
        f"{endpoint} answered with more than 1 MiB, no scheduled events document: "
        f"{excerpt(body[:800].decode('utf-8', errors='replace'))}. Check which program serves the endpoint.",
        http_status=status,
    )


def split_endpoint(endpoint: str) -> tuple[str, int, str]:
    """Return host, port and path prefix of ``http://HOST[:PORT][/PREFIX]``.

    :raises ValueError: it is not of that form.
    """
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
        # Before an @ there may be a password, also in an address that cannot be taken apart.
        shown = "one with an @ in it; it takes no user and no password" if "@" in endpoint else excerpt(endpoint)
        raise ValueError(f"endpoint must have the form http://HOST[:PORT][/PREFIX], not {shown}.")
    return host, port, parts.path.rstrip("/")
