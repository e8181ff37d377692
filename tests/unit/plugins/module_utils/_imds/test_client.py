# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes over the wire: requests, approvals, and the endpoints and limits that are refused."""

from __future__ import annotations

import json
import math
import re
import socket

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client as imds
from ansible_collections.fleetops.azure_maintenance.tests.instance import TARGET, compute
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import STOP

pytestmark = pytest.mark.filterwarnings("error")

DOCUMENT = b'{"DocumentIncarnation":1,"Events":[]}'
EVENTS_PATH = "/metadata/scheduledevents?api-version=2020-07-01"


def make_client(endpoint, **options):
    return imds.ImdsClient(endpoint, **{"connect_timeout": STOP, "timeout": STOP, **options})


def test_request_for_the_document(serve):
    server = serve((200, DOCUMENT))
    assert make_client(server.endpoint).get_document() == DOCUMENT
    (request,) = server.requests
    assert (request.method, request.target, request.version) == ("GET", EVENTS_PATH, "HTTP/1.1")
    # All of them: no cookie, nothing that a proxy is told, no X-Forwarded-For, which IMDS refuses.
    assert sorted(request.headers) == [
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
        ("Host", server.authority),
        ("Metadata", "true"),
    ]
    assert request.body == b""


@pytest.mark.parametrize(
    ("version", "query"),
    [
        ("2017-03-01", "2017-03-01"),
        ("2020 07&format=x", "2020%2007%26format%3Dx"),
        ("a/b?c#d%e", "a%2Fb%3Fc%23d%25e"),
        ("é\r\nX-Evil: 1", "%C3%A9%0D%0AX-Evil%3A%201"),
        ("", ""),
    ],
)
def test_api_version_is_quoted(serve, version, query):
    server = serve((200, DOCUMENT))
    make_client(server.endpoint, api_version=version).get_document()
    (request,) = server.requests
    assert request.target == f"/metadata/scheduledevents?api-version={query}"
    assert request.header("X-Evil") == []


@pytest.mark.parametrize("prefix", ["/vm/web-1", "/vm/web-1/"])
def test_endpoint_prefix_comes_first(serve, prefix):
    server = serve((200, DOCUMENT), (200, compute("web-1")), (200, b""))
    client = make_client(server.endpoint + prefix)
    client.get_document()
    client.get_identity()
    client.approve(["A"])
    assert [request.target for request in server.requests] == [
        f"/vm/web-1{EVENTS_PATH}",
        f"/vm/web-1{TARGET}",
        f"/vm/web-1{EVENTS_PATH}",
    ]
    assert client.endpoint == f"{server.endpoint}/vm/web-1"


def test_ipv6_loopback(serve):
    try:
        server = serve((200, DOCUMENT), host="::1")
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    assert make_client(server.endpoint).get_document() == DOCUMENT
    assert server.requests[0].header("Host") == [f"[::1]:{server.port}"]


def test_port_80_is_the_default(serve):
    try:
        server = serve((200, DOCUMENT), host="127.0.0.77", port=80)
    except OSError as error:
        pytest.skip(f"port 80 of 127.0.0.77 cannot be had: {error}")
    assert make_client("http://127.0.0.77").get_document() == DOCUMENT
    assert server.requests[0].header("Host") == ["127.0.0.77"]


def test_s9_proxy_variables_are_ignored(serve, monkeypatch):
    proxy = serve()
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        for spelling in (name, name.upper()):
            monkeypatch.setenv(spelling, proxy.endpoint)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = serve((200, DOCUMENT), (200, compute("web-1")), (200, b""))
    client = make_client(server.endpoint)
    assert client.get_document() == DOCUMENT
    assert client.get_identity().name == "web-1"
    client.approve(["A"])
    assert not proxy.requests
    assert [request.target[0] for request in server.requests] == ["/", "/", "/"]


def test_a_cookie_is_not_kept(serve, short_pauses):
    server = serve((503, b"", {"Set-Cookie": "a=b; Path=/"}), (200, DOCUMENT, {"Set-Cookie": "c=d"}), (200, DOCUMENT))
    client = make_client(server.endpoint)
    client.get_document()
    client.get_document()
    assert [request.header("Cookie") for request in server.requests] == [[], [], []]


@pytest.mark.parametrize(
    ("event_ids", "incarnation", "body"),
    [
        (["A-1"], None, b'{"StartRequests": [{"EventId": "A-1"}]}'),
        (["A-1", "b-2"], None, b'{"StartRequests": [{"EventId": "A-1"}, {"EventId": "b-2"}]}'),
        (["A-1"], "5", b'{"DocumentIncarnation": "5", "StartRequests": [{"EventId": "A-1"}]}'),
        (["A-1"], "", b'{"DocumentIncarnation": "", "StartRequests": [{"EventId": "A-1"}]}'),
        (['"\n\u00e9'], None, b'{"StartRequests": [{"EventId": "\\"\\n\\u00e9"}]}'),
    ],
)
def test_request_for_an_approval(serve, event_ids, incarnation, body):
    server = serve((200, b"whatever Azure says here"))
    assert make_client(server.endpoint).approve(event_ids, incarnation) is None
    (request,) = server.requests
    assert (request.method, request.target, request.body) == ("POST", EVENTS_PATH, body)
    assert sorted(request.headers) == [
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
        ("Content-Length", str(len(body))),
        ("Content-Type", "application/json"),
        ("Host", server.authority),
        ("Metadata", "true"),
    ]
    assert json.loads(request.body)["StartRequests"][0]["EventId"] == event_ids[0]


@pytest.mark.parametrize(
    ("fault", "refused", "may_pass"),
    [
        (["reset"], False, True),
        ([b"HTTP/1.1 200 OK\r\nContent-Le", "reset"], False, True),
        ((500, b"{}"), False, True),
        ((302, b"", {"Location": "http://portal"}), False, False),
        (b"SSH-2.0-OpenSSH\r\n", False, False),
        ((500, b" " * (1024 * 1024 + 1)), False, False),
        ((410, b"{}"), True, True),
        ((429, b"{}"), True, True),
        ((400, b"{}"), True, False),
        ((403, b"{}"), True, False),
        ((404, b"404 page not found"), True, False),
    ],
)
def test_p1_an_approval_is_sent_once_and_its_error_says_whether_azure_may_have_taken_it(
    serve, short_pauses, fault, refused, may_pass
):
    server = serve(fault)
    with pytest.raises(_errors.ImdsError) as caught:
        make_client(server.endpoint).approve(["A-1"], "7")
    assert (caught.value.refused, caught.value.may_pass) == (refused, may_pass)
    assert caught.value.http_status == (fault[0] if isinstance(fault, tuple) else None)
    assert [request.body for request in server.requests] == [
        b'{"DocumentIncarnation": "7", "StartRequests": [{"EventId": "A-1"}]}'
    ]


def test_an_approval_that_was_never_sent_is_not_in_doubt(dead_endpoint):
    with pytest.raises(_errors.UnreachableError) as caught:
        make_client(dead_endpoint).approve(["A-1"])
    assert caught.value.refused
    client = make_client(dead_endpoint)
    with pytest.raises(_errors.NoAnswerError) as late:
        client.approve(["A-1"], deadline=client.deadline(0))
    assert (late.value.refused, late.value.reason) == (True, "timeout")


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        " ",
        "169.254.169.254",
        "//127.0.0.1",
        "127.0.0.1:80",
        "https://127.0.0.1",
        "ftp://127.0.0.1",
        "http:127.0.0.1",
        "http://",
        "http:///metadata",
        "http://:80",
        "http://user@127.0.0.1",
        "http://user:word@127.0.0.1",
        "http://@127.0.0.1",
        "http://127.0.0.1?a=b",
        "http://127.0.0.1/?",
        "http://127.0.0.1#a",
        "http://127.0.0.1/#",
        "http://127.0.0.1:0",
        "http://127.0.0.1:65536",
        "http://127.0.0.1:-1",
        "http://127.0.0.1:http",
        "http://127.0.0.1:80:80",
        "http://::1",
        "http://[::1",
        "http://127.0.0.1 /",
        " http://127.0.0.1",
        "http://127.0.0.1\n",
        "http://127.0.0.1/\r\nX-Evil: 1",
        "http://127.0.0.1/\tx",
        "http://127.0.0.1/\x00",
        "http://127.0.0.1/é",
        "http://exämple",
        "http://a..b",
        "http://...",
        "http://" + "a" * 64,
    ],
)
def test_endpoints_that_are_refused(endpoint):
    with pytest.raises(
        ValueError, match=r"^endpoint must have the form http://HOST\[:PORT\]\[/PREFIX\], not "
    ) as caught:
        imds.ImdsClient(endpoint)
    assert str(caught.value).isprintable()
    assert not isinstance(caught.value, UnicodeError)


@pytest.mark.parametrize(
    "endpoint",
    ["http://me:s3cret@127.0.0.1", "https://s3cret@127.0.0.1/", "http://me:s3cret@[::1", "me:s3cret@127.0.0.1"],
)
def test_a_password_in_an_endpoint_is_not_repeated(endpoint):
    with pytest.raises(ValueError, match="user") as caught:
        imds.ImdsClient(endpoint)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint", ["HTTP://127.0.0.1", "http://127.0.0.1:", "http://127.0.0.1:8181//", "http://a.b."]
)
def test_endpoints_that_are_taken(endpoint):
    assert imds.ImdsClient(endpoint).endpoint == endpoint.rstrip("/")


@pytest.mark.parametrize("name", ["connect_timeout", "timeout"])
@pytest.mark.parametrize("seconds", [0, 0.0, -0.0, -1, -1e300, math.nan, math.inf, -math.inf, 1e300])
def test_limits_that_are_refused(name, seconds):
    with pytest.raises(ValueError, match=rf"^{name} must be .*seconds.*, not {re.escape(str(seconds))}\.$"):
        imds.ImdsClient("http://127.0.0.1", **{name: seconds})


def test_the_longest_limits_work(serve):
    server = serve((200, DOCUMENT))
    assert make_client(server.endpoint, connect_timeout=86400, timeout=86400).get_document() == DOCUMENT


def test_defaults():
    client = imds.ImdsClient()
    assert (client.endpoint, client.api_version, client.timeout) == ("http://169.254.169.254", "2020-07-01", 150)
    assert imds.DEFAULT_CONNECT_TIMEOUT == 3


def test_at_keeps_everything_but_the_endpoint(serve, deaf_endpoint):
    server = serve((200, DOCUMENT))
    client = make_client("http://127.0.0.1:1", api_version="2019-08-01", connect_timeout=0.3, timeout=4)
    other = client.at(server.endpoint)
    assert (other.endpoint, other.api_version, other.timeout) == (server.endpoint, "2019-08-01", 4)
    other.get_document()
    assert server.requests[0].target.endswith("api-version=2019-08-01")
    with pytest.raises(_errors.UnreachableError):
        client.at(deaf_endpoint).get_document()


def test_nothing_listens(dead_endpoint):
    with pytest.raises(_errors.UnreachableError, match=r"Nothing answers at .*not an Azure VM") as caught:
        make_client(dead_endpoint).get_document()
    assert (caught.value.reason, caught.value.http_status, caught.value.imds_reachable) == ("unreachable", None, False)


@pytest.mark.parametrize("limits", [{"connect_timeout": 0.5}, {"timeout": 0.5}])
def test_a_connection_that_is_never_taken(deaf_endpoint, limits):
    with pytest.raises(_errors.UnreachableError, match="timed out"):
        make_client(deaf_endpoint, **limits).get_document()


def test_a_host_that_cannot_be_looked_up(monkeypatch):
    def fail(*_args, **_kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(_errors.UnreachableError, match="Name or service not known"):
        make_client("http://no-such-host").get_document()
