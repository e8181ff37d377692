# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connections that break, stall or trickle: every wait ends at its limit, and no half answer passes for a whole one."""

from __future__ import annotations

import errno
import socket

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client as imds
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import transport as imds_transport
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import STOP

pytestmark = pytest.mark.filterwarnings("error")

DOCUMENT = b'{"DocumentIncarnation":1,"Events":[]}'
OK = b"HTTP/1.1 200 OK\r\n"
HEAD = OK + b"Content-Type: application/json\r\nContent-Length: 37\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BROKEN = [
    ["reset"],
    b"",
    [OK, "reset"],
    [HEAD, "reset"],
    [HEAD + DOCUMENT[:20], "reset"],
    [HEAD + DOCUMENT[:20], 0.1, "reset"],
    HEAD + DOCUMENT[:20],
    HEAD + DOCUMENT[:36],
    HEAD,
    CHUNKED,
    CHUNKED + b"25",
    CHUNKED + b"25\r\n" + DOCUMENT[:20],
    CHUNKED + b"25\r\n" + DOCUMENT,
    CHUNKED + b"25\r\n" + DOCUMENT + b"\r\n",
    CHUNKED + b"zz\r\n" + DOCUMENT + b"\r\n0\r\n\r\n",
    CHUNKED + b"-1\r\n" + DOCUMENT + b"\r\n0\r\n\r\n",
    CHUNKED + b"-5\r\n" + DOCUMENT + b"\r\n0\r\n\r\n",
]


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_answer_and_then_a_good_one(serve, short_pauses, fault):
    server = serve(fault, fault, (200, DOCUMENT))
    assert server.client().get_document() == DOCUMENT
    assert len(server.requests) == 3


@pytest.mark.parametrize("fault", BROKEN)
def test_an_answer_that_always_breaks(serve, one_try, fault):
    error = serve(fault).failure(_errors.NoAnswerError)
    assert (error.reason, error.http_status, error.imds_reachable) == ("timeout", None, True)
    assert "broke the connection before its answer was complete" in str(error)


@pytest.mark.parametrize("frame", [HEAD + DOCUMENT, CHUNKED + b"25\r\n" + DOCUMENT + b"\r\n"])
@pytest.mark.parametrize("last", [[], ["reset"]])
def test_an_answer_cut_anywhere_is_never_taken_for_a_whole_one(serve, one_try, frame, last):
    server = serve(*[[frame[:length], *last] for length in range(len(frame))])
    for length in range(len(frame)):
        # A cut status line cannot be told from what is no HTTP.
        with pytest.raises((_errors.NoAnswerError, _errors.NotImdsError)) as caught:
            server.client().get_document()
        assert isinstance(caught.value, _errors.NoAnswerError) or length < len(OK)


def test_a_chunk_of_negative_size_does_not_fill_the_memory(serve, one_try):
    server = serve([CHUNKED + b"-1\r\n" + b"x" * (8 * 1024 * 1024), "hold"])
    server.failure(_errors.NoAnswerError)


def trickle(before, slowly, seconds):
    """Send the first part at once, the second byte by byte."""
    return [before, *(step for byte in slowly for step in (bytes([byte]), seconds))]


@pytest.mark.parametrize(
    "answer",
    [
        trickle(b"", HEAD, 1.0),
        trickle(OK, HEAD, 1.0),
        trickle(HEAD, DOCUMENT, 1.0),
        trickle(HEAD, DOCUMENT, 0.05),
        trickle(CHUNKED, b"25\r\n" + DOCUMENT, 0.1),
        trickle(CHUNKED + b"1;", DOCUMENT, 0.1),
        trickle(CHUNKED + b"0\r\n", b"X-Trailer: 1\r\n", 0.2),
        trickle(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 9, 0.02),
    ],
)
def test_an_answer_that_trickles_stays_inside_the_limit(serve, answer):
    # All of it together takes longer than the limit, and no single wait does.
    error = serve(answer).failure(_errors.NoAnswerError, timeout=1.0)
    assert "gave no complete answer in time" in str(error)
    assert (error.reason, error.http_status, error.imds_reachable) == ("timeout", None, True)


@pytest.mark.parametrize(
    "steps", [["hold"], [OK, "hold"], [HEAD, "hold"], [HEAD + DOCUMENT[:9], "hold"], [OK, 0.1, "hold"]]
)
def test_a_held_answer_ends_at_the_limit(serve, steps):
    error = serve(steps).failure(_errors.NoAnswerError, timeout=0.5)
    assert "up to two minutes" in str(error)


@pytest.mark.parametrize("event_id", ["A", "A" * 16 * 1024 * 1024])
def test_a_server_that_never_reads(event_id):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4)
        client = imds.ImdsClient(f"http://127.0.0.1:{listener.getsockname()[1]}", connect_timeout=30, timeout=0.5)
        with pytest.raises(_errors.NoAnswerError, match="in time"):
            client.approve([event_id])


def test_a_held_answer_that_comes_in_time(serve):
    server = serve([0.5, HEAD, 0.2, DOCUMENT])
    assert server.client(connect_timeout=0.3).get_document() == DOCUMENT


def test_an_answer_that_is_lost_is_asked_for_again(serve, monkeypatch, short_pauses):
    monkeypatch.setattr(imds_transport, "LONGEST_ANSWER", 0.3)
    # On a busy machine the good answer may be too late as well, and then it comes again.
    server = serve(["hold"], trickle(HEAD, DOCUMENT, 0.1), then=(200, DOCUMENT))
    assert server.client().get_document() == DOCUMENT


def test_azure_may_hold_an_answer_for_two_minutes():
    assert 120 < imds_transport.LONGEST_ANSWER < imds.DEFAULT_TIMEOUT


def test_one_deadline_for_several_operations(serve, clock):
    client = serve((200, DOCUMENT), ["hold"]).client(timeout=10 * STOP)
    deadline = client.deadline()
    assert client.get_document(deadline) == DOCUMENT
    clock.skip(deadline.remaining() - 0.5)
    # The server gives up, and complains, long before a deadline of its own would end.
    with pytest.raises(_errors.NoAnswerError):
        client.get_identity(deadline)
    assert deadline.remaining() == 0


def test_nothing_is_sent_when_no_time_is_left(serve):
    server = serve()
    for ask in (server.client().get_document, server.client().get_identity):
        with pytest.raises(_errors.NoAnswerError, match="No time was left"):
            ask(imds_transport.Deadline(0))
    with pytest.raises(_errors.NoAnswerError, match="No time was left"):
        server.client().approve(["A"], deadline=imds_transport.Deadline(-1))


class _LostRoute(socket.socket):
    """A connected socket whose network goes away, which loopback never does."""

    def recv_into(self, *_args):
        raise OSError(errno.EHOSTUNREACH, "No route to host")


class _Roaming(imds_transport.SocketTransport):
    """A transport whose first connection loses its route."""

    roams = True

    def _connect(self, deadline):
        sock = super()._connect(deadline)
        if self.roams:
            self.roams = False
            return _LostRoute(fileno=sock.detach())
        return sock


def test_a_network_that_goes_away_while_the_answer_is_awaited(serve, short_pauses):
    server = serve(["hold"], (200, DOCUMENT))
    transport = _Roaming(server.endpoint, 3)
    assert imds.ImdsClient(server.endpoint, timeout=STOP, transport=transport).get_document() == DOCUMENT


class _RestartingService(imds_transport.SocketTransport):
    """A transport that finds nothing listening at these of its tries."""

    tries = 0

    def __init__(self, endpoint, refused):
        super().__init__(endpoint, 3)
        self.refused = refused

    def _connect(self, deadline):
        self.tries += 1
        if self.tries in self.refused:
            raise _errors.UnreachableError("Connection refused")
        return super()._connect(deadline)


def test_a_service_that_restarts_between_two_tries_is_asked_again(serve, short_pauses):
    server = serve((500, b"{}"), (200, DOCUMENT))
    transport = _RestartingService(server.endpoint, refused=range(2, 3))
    assert imds.ImdsClient(server.endpoint, timeout=STOP, transport=transport).get_document() == DOCUMENT


def test_a_connection_refused_later_on_does_not_hide_what_was_answered_before(serve, clock):
    server = serve((500, b"{}"))
    transport = _RestartingService(server.endpoint, refused=range(2, 1000))
    client = imds.ImdsClient(server.endpoint, timeout=STOP, transport=transport)
    with pytest.raises(_errors.HttpStatusError) as caught:
        client.get_document()
    assert caught.value.http_status == 500


@pytest.mark.parametrize(
    ("fault", "error_class", "seconds", "pauses"),
    [
        pytest.param(["reset"], _errors.NoAnswerError, 115, [0.5, 1, 2, 4, 8, 16, 30, 30], id="resets"),
        pytest.param((500, b"{}"), _errors.HttpStatusError, 58, [0.5, 1, 2, 4, 8, 16], id="errors"),
    ],
)
def test_pauses_grow_and_end_before_the_limit(serve, clock, fault, error_class, seconds, pauses):
    server = serve(then=fault)
    server.failure(error_class, timeout=seconds)
    # The next, 30 seconds, would pass the limit and is not begun.
    assert clock.pauses == pauses
    assert len(server.requests) == len(pauses) + 1


def test_pauses_do_not_grow_for_ever(serve, clock):
    server = serve(*[(500, b"{}")] * 10, (200, DOCUMENT))
    assert server.client().get_document() == DOCUMENT
    assert clock.pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
