# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The forms of HTTP that an answer may come in, how large it may be, and what is no HTTP at all."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import fetch
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.transport import (
    Deadline,
    SocketTransport,
)

pytestmark = pytest.mark.filterwarnings("error")

DOCUMENT = b'{"DocumentIncarnation":1,"Events":[]}'
MIB = 1024 * 1024
OK = b"HTTP/1.1 200 OK\r\n"


def test_a_document_of_exactly_1_mib(serve):
    body = b'{"Events":[' + b" " * (MIB - 13) + b"]}"
    assert len(body) == MIB
    client = serve((200, body)).client()
    document = fetch.read_document(client, client.deadline())
    assert document is not None
    assert document.events == ()


def chunked(*chunks):
    frames = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return OK + b"Transfer-Encoding: chunked\r\n\r\n" + frames


@pytest.mark.parametrize(
    "head",
    [
        OK + b"Content-Length: %d\r\n\r\n" % (2 * MIB),
        OK + b"\r\n",
        b"HTTP/1.0 500 Oops\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (2 * MIB),
        OK + b"Transfer-Encoding: chunked\r\n\r\n400\r\n" + b"x" * 1024 + b"\r\n%x\r\n" % (2 * MIB),
    ],
)
def test_a_body_of_2_mib_is_not_read_to_its_end(serve, short_pauses, head):
    server = serve([head, b"x" * (MIB + 1), "hold"])
    # The server complains of a client that waits for more.
    error = server.failure(_errors.MalformedError)
    assert (error.reason, error.http_status) == ("malformed", 500 if b"500" in head else 200)
    assert "more than 1 MiB" in str(error)
    assert "xxx" in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        chunked(DOCUMENT[:1], DOCUMENT[1:9], DOCUMENT[9:], b""),
        chunked(DOCUMENT) + b"0\r\nX-Trailer: 1\r\n\r\n",
        chunked(DOCUMENT) + b"0\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n25;name=value\r\n" + DOCUMENT + b"\r\n0\r\n\r\n",
        OK + b"\r\n" + DOCUMENT,
        OK + b"Content-Length: 37\r\n\r\n" + DOCUMENT + b"surplus",
        OK + b"content-length:37\r\nETag: 1\r\n\r\n" + DOCUMENT,
        OK + b"Content-Length: nonsense\r\n\r\n" + DOCUMENT,
        b"HTTP/1.1 200\r\nContent-Length: 37\r\n\r\n" + DOCUMENT,
        b"HTTP/1.0 200 OK\nContent-Length: 37\n\n" + DOCUMENT,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + OK + b"Content-Length: 37\r\n\r\n" + DOCUMENT,
        [OK + b"Content-Length: 37\r\n\r", 0.1, b"\n" + DOCUMENT[:5], 0.1, DOCUMENT[5:]],
    ],
)
def test_forms_of_a_good_answer(serve, short_pauses, answer):
    assert serve(answer).client().get_document() == DOCUMENT


@pytest.mark.parametrize("size", [0, 1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, MIB])
@pytest.mark.parametrize("framing", ["length", "chunked", "closed"])
def test_p9_a_body_of_up_to_1_mib_is_read_whole(serve, framing, size):
    body = bytes(number % 251 for number in range(size))
    answers = {
        "length": OK + b"Content-Length: %d\r\n\r\n" % size + body,
        "chunked": chunked(*filter(None, (body[:7], body[7:])), b""),
        "closed": OK + b"\r\n" + body,
    }
    transport = SocketTransport(serve(answers[framing]).endpoint, 3.0)
    assert transport.exchange("GET", "/", None, Deadline(10.0)).body == body


def test_of_a_header_that_comes_twice_the_last_counts(serve):
    head = OK + b"Retry-After: 3\r\nContent-Length: 37\r\nRetry-After: 7\r\n\r\n"
    transport = SocketTransport(serve(head + DOCUMENT).endpoint, 3.0)
    assert transport.exchange("GET", "/", None, Deadline(10.0)).headers["retry-after"] == "7"


@pytest.mark.parametrize("status", [101, 102, 103])
def test_an_interim_status_is_no_answer(serve, short_pauses, status):
    error = serve(b"HTTP/1.1 %d Wait\r\n\r\n" % status).failure(_errors.HttpStatusError)
    assert error.http_status == status


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
        b"220 mail.example.org ESMTP\r\n",
        b"\x15\x03\x01\x00\x02\x02\x50",
        b"\x00" * 20,
        b"\x9b31m\x7f\r\n",
        b"\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 99 Low\r\n\r\n",
        b"HTTP/1.1 1000 High\r\n\r\n",
        b"HTTP/1.1 -200 OK\r\n\r\n",
        DOCUMENT,
        b"HTTP/1.1 200 " + b"x" * 70000 + b"\r\n\r\n",
        OK + b"X-Long: " + b"x" * 70000 + b"\r\n\r\n" + DOCUMENT,
        OK + b"".join(b"X-%d: 1\r\n" % number for number in range(101)) + b"\r\n" + DOCUMENT,
        OK + b"Transfer-Encoding: chunked\r\n\r\n25;" + b"x" * 70000,
    ],
)
def test_what_does_not_speak_http_as_imds_does(serve, short_pauses, answer):
    error = serve(answer).failure(_errors.NotImdsError)
    assert (error.reason, error.http_status, error.imds_reachable) == ("not_imds", None, False)
    assert "does not speak HTTP as IMDS does" in str(error)
