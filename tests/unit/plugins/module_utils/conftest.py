# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server on loopback that misbehaves as a test writes it down, and a clock that makes pauses short."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from http import HTTPStatus
from typing import Any, Iterator, NamedTuple

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval import approve
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Document
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.parser import parse_document
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client as imds
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import transport

# What takes longer hangs.
STOP = 600.0
# The options of the modules as Ansible gives them where a user sets none
INFO_OPTIONS = {
    "scope": "this_vm",
    **dict.fromkeys(("event_ids", "event_types", "event_statuses", "event_sources", "due_within", "resource_name")),
    "discover_endpoint": False,
}
APPROVE_OPTIONS = {
    **dict.fromkeys(("event_ids", "event_types", "event_sources", "document_incarnation", "resource_name")),
    "resources_ready": [],
    "force": False,
    "wait_for": "nothing",
    "wait_timeout": 900.0,
    "discover_endpoint": False,
}


def raw_event(event_id: Any, status: Any = "Scheduled", **fields: Any) -> dict[str, Any]:
    """Return an event of web-1 as Azure sends it, to start in a quarter of an hour; a field of ... is left out."""
    event = {
        "EventId": event_id,
        "EventStatus": status,
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["web-1"],
        "NotBefore": "Sat, 21 Nov 2026 10:15:00 GMT" if status == "Scheduled" else "",
        **fields,
    }
    return {name: value for name, value in event.items() if value is not ...}


def event(event_id: str, status: str = "Scheduled", **fields: Any) -> dict[str, Any]:
    """Return an event whose start is not known."""
    return raw_event(event_id, status, **{"NotBefore": "", **fields})


def parse(*events: Any, incarnation: Any = 1, api_version: str = "2020-07-01") -> Document:
    return parse_document({"DocumentIncarnation": incarnation, "Events": list(events)}, api_version)


def document(*events: dict[str, Any], **fields: Any) -> tuple[int, bytes]:
    """Return an answer of ScriptedServer with these events."""
    return 200, json.dumps({"DocumentIncarnation": 1, "Events": events, **fields}).encode()


class Request(NamedTuple):
    """A request as it came."""

    method: str
    target: str
    version: str
    headers: list[tuple[str, str]]
    body: bytes
    moment: float

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


class ScriptedServer:
    """Answers each connection with the next answer of its script, one connection after the other.

    An answer is ``bytes``, a tuple ``(status, body)`` or ``(status, body, headers)`` that is made an HTTP/1.1 answer,
    or a list of steps: bytes and tuples are sent, a float is a pause in seconds, a function is called, ``"hold"`` says
    nothing until the client hangs up, ``"reset"`` ends the connection with a RST. After any other last step the server
    ends the answer and waits until the client has closed the connection too.

    :param then: the answer to every connection after the scripted ones; None allows no further one.
    """

    def __init__(self, answers: tuple[Any, ...], then: Any, host: str, port: int) -> None:
        self.requests: list[Request] = []
        self._answers = deque(answers)
        self._then = then
        self._complaints: list[str] = []
        self._listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((host, port))
        except OSError:
            self._listener.close()
            raise
        self._listener.listen(16)
        self.port = self._listener.getsockname()[1]
        self.authority = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.endpoint = f"http://{self.authority}"
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def client(self, **options: Any) -> imds.ImdsClient:
        """Return a client whose limits are only there to stop what hangs, unless told otherwise."""
        return imds.ImdsClient(self.endpoint, **{"connect_timeout": STOP, "timeout": STOP, **options})

    def failure(self, error_class: type, **options: Any) -> Any:
        """Return the error of asking, which must be of exactly this class and fit to be shown."""
        with pytest.raises(_errors.ImdsError) as caught:
            self.client(**options).get_document()
        error = caught.value
        assert error.__class__ is error_class
        assert self.endpoint in str(error)
        assert str(error).isprintable()
        assert len(str(error)) < 700
        return error

    def stop(self) -> list[str]:
        """Stop, and return what did not go by the script."""
        self._stop.close()
        self._thread.join(STOP)
        if self._thread.is_alive():
            return ["the scripted server hangs"]
        self._stopped.close()
        self._listener.close()
        return self._complaints + [f"no request came for the answer {str(answer)[:99]}" for answer in self._answers]

    def _run(self) -> None:
        while True:
            ready, _unused, _unused = select.select([self._listener, self._stopped], [], [])
            if self._listener in ready:
                connection, _address = self._listener.accept()
                connection.settimeout(STOP)
                with connection, contextlib.suppress(ConnectionError):
                    self._serve(connection)
            else:
                # Only now, so that a connection nobody waited for is seen too.
                return

    def _serve(self, connection: socket.socket) -> None:
        request = self._receive(connection)
        if request is None:
            # At the end of its time a client may give up between connecting and asking.
            if self._then is None:
                self._complaints.append("a connection brought no request")
            return
        self.requests.append(request)
        if self._answers:
            answer = self._answers.popleft()
        elif self._then is not None:
            answer = self._then
        else:
            self._complaints.append(f"unexpected request {request.method} {request.target}")
            return
        self._play(connection, answer if isinstance(answer, list) else [answer])

    def _receive(self, connection: socket.socket) -> Request | None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._receive_more(connection)
            if not data:
                return None
        head, _blank, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, version = first.split(" ")
        headers = [(name, value.strip()) for name, _colon, value in (line.partition(":") for line in lines)]
        request = Request(method, target, version, headers, b"", time.monotonic())
        length = int((request.header("Content-Length") or ["0"])[0])
        while len(body) < length:
            body += self._receive_more(connection)
        return request._replace(body=body)

    def _receive_more(self, connection: socket.socket) -> bytes:
        try:
            return connection.recv(65536)
        except socket.timeout:
            self._complaints.append("the client sent no whole request")
            raise ConnectionError from None

    def _play(self, connection: socket.socket, steps: list[Any]) -> None:
        for step in steps:
            if step == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            if step == "hold":
                self._expect_hang_up(connection)
                return
            if callable(step):
                step()
            elif isinstance(step, float):
                if self._hung_up_within(connection, step):
                    return
            else:
                connection.sendall(step if isinstance(step, bytes) else _http_answer(*step))
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        self._expect_hang_up(connection)

    def _expect_hang_up(self, connection: socket.socket) -> None:
        if not self._hung_up_within(connection, STOP):
            self._complaints.append("the client left its connection open")

    def _hung_up_within(self, connection: socket.socket, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while True:
            ready, _unused, _unused = select.select([connection, self._stopped], [], [], max(0, end - time.monotonic()))
            if connection not in ready:
                return False
            try:
                extra = connection.recv(65536)
            except ConnectionError:
                return True
            if not extra:
                return True
            self._complaints.append(f"the client sent more than one request: {extra[:99]!r}")


def _http_answer(status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    known = {item.value: item.phrase for item in HTTPStatus}
    fields = {"Content-Length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {known.get(status, 'Unknown')}\r\n{head}\r\n".encode("latin-1") + body


def _open_sockets() -> int:
    """Count the sockets of this process; where there is no /proc, ResourceWarning alone must tell."""
    count = 0
    for number in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
        with contextlib.suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
    return count


@pytest.fixture
def serve() -> Iterator[Any]:
    """Start scripted servers; afterwards everything must have gone by the script, and no socket be left open."""
    before = _open_sockets()
    servers: list[ScriptedServer] = []

    def start(*answers: Any, then: Any = None, host: str = "127.0.0.1", port: int = 0) -> ScriptedServer:
        servers.append(ScriptedServer(answers, then, host, port))
        return servers[-1]

    yield start
    complaints = [complaint for server in servers for complaint in server.stop()]
    assert not complaints
    assert _open_sockets() <= before, "a socket was left open"


@pytest.fixture
def dead_endpoint() -> Iterator[str]:
    """An endpoint where nothing listens, on a port that nobody else can get meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{holder.getsockname()[1]}"


@pytest.fixture
def deaf_endpoint() -> Iterator[str]:
    """An endpoint that never takes a connection: its queue is full, so the kernel drops what knocks."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _number in range(8):
            knocker = stack.enter_context(socket.socket())
            knocker.settimeout(0.3)
            try:
                knocker.connect(listener.getsockname())
            except socket.timeout:
                break
        else:
            pytest.skip("this kernel takes connections beyond the backlog")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


class Clock:
    """In the place of the module time: the real clock, but each pause is over at once.

    :ivar pauses: the seconds of each pause.
    """

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._skipped = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self._skipped

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.skip(seconds)

    def skip(self, seconds: float) -> None:
        """Let so many seconds have passed."""
        self._skipped += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let the client and the wait for events pause on this clock."""
    clock = Clock()
    for module in (imds, transport, approve):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the first pause longer than any limit here: what would be asked again fails at once."""
    monkeypatch.setattr(imds, "_FIRST_PAUSE", 100 * STOP)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the pauses so short that a second try shows at once."""
    monkeypatch.setattr(imds, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(imds, "_LONGEST_PAUSE", 0.05)
