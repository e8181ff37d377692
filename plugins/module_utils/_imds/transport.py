# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""One exchange with Azure's metadata service over a socket; the only file that opens one.

It never uses a proxy, follows a redirect or keeps a cookie.
"""

from __future__ import annotations

import http.client
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
# Bytes of a body that are read at once; most bodies have fewer.
_PIECE = 16 * 1024
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
                f"{self._endpoint} took the request and gave no complete answer in time. Azure holds the first answer "
                "up to two minutes: give timeout 150 seconds or more, or ask again."
            ) from error
        except (OSError, http.client.IncompleteRead) as error:
            raise NoAnswerError(
                f"{self._endpoint} broke the connection before its answer was complete ({error}). Ask again."
            ) from error
        except http.client.HTTPException as error:
            raise NotImdsError(
                f"The server at {self._endpoint} does not speak HTTP as IMDS does ({type(error).__name__}: "
                f"{excerpt(str(error))}). Check the endpoint."
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
        # http.client sends a body apart from its headers, and would wait for the first to be acknowledged.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _read(self, response: http.client.HTTPResponse) -> Response:
        # read(amount) trusts a chunk of negative size, and then reads without end.
        piece, received = memoryview(bytearray(_PIECE)), bytearray()
        while len(received) <= MAX_BODY:
            # One byte more than is allowed shows that the body is too large. A read for more could wait without need.
            count = response.readinto(piece[: MAX_BODY + 1 - len(received)])
            if not count:
                break
            received += piece[:count]
        body = bytes(received)
        if len(body) > MAX_BODY:
            raise too_large_error(self._endpoint, body, response.status)
        if response.length:
            # readinto says nothing of a body that ends early.
            raise http.client.IncompleteRead(body, response.length)
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Response(response.status, headers, body)


class _Connection(http.client.HTTPConnection):
    """HTTP on a socket that is connected already, so that no proxy or tunnel setting can come between."""

    def __init__(self, host: str, port: int, timed: _TimedSocket) -> None:
        super().__init__(host, port)
        self.sock: Any = timed


class _TimedSocket:
    """The part of a socket that http.client uses, every wait of which ends at one deadline.

    A plain socket timeout starts again with each byte, so a server that trickles would hold us for ever.
    """

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._answer_end = Deadline(LONGEST_ANSWER)
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
        """Keep the socket: http.client closes it before the answer is read; SocketTransport closes it afterwards."""


class _SocketReader(io.RawIOBase):
    def __init__(self, timed: _TimedSocket) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.recv_into(buffer)


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
