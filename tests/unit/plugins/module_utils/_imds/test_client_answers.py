# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole answers that are no document: statuses, other services, throttling."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client as imds
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import fetch
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import STOP

pytestmark = pytest.mark.filterwarnings("error")

# The folder in which ansible_collections lies
ROOT = Path(_errors.__file__).parents[5]
MIB = 1024 * 1024
DOCUMENT = b'{"DocumentIncarnation":1,"Events":[]}'
PAGE = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>"


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            400,
            b'{"error": "Bad request. api-version is invalid or was not specified in the request.",'
            b' "newest-versions": ["2025-04-07", "2024-07-17", "2024-03-15"]}',
            ["api_version was 1999-01-01", "Azure offers 2025-04-07, 2024-07-17, 2024-03-15.", "2020-07-01"],
        ),
        (400, b'{"error": "Bad request.", "newest-versions": "2025-04-07"}', ["Azure offers 2025-04-07."]),
        (400, b'{"newest-versions": [1, null]}', ["Azure offers 1, None."]),
        (400, b'{"error":"Bad request. Required metadata header not specified"}', ["'Metadata: true'"]),
        (400, b'{"error":"Bad request. Required Metadata Header not specified"}', ["'Metadata: true'"]),
        (400, b"400 Bad Request, Required metadata header not specified", ["'Metadata: true'"]),
        (400, b'{"error": {"code": 7}}', ['{\\"error\\": {\\"code\\": 7}}', "Check endpoint and api_version"]),
        (400, b'{"error": null}', ['HTTP 400: "{\\"error\\": null}".']),
        (400, b'{"error": "Bad\nrequest", "newest-versions": []}', ['HTTP 400: "Bad\\nrequest".', "Azure offers"]),
        (400, b'["error", "newest-versions"]', ["Check endpoint and api_version"]),
        (400, b'"error"', ["Check endpoint and api_version"]),
        (400, b"", ['HTTP 400: ""', "Check endpoint and api_version"]),
        (401, b"", ["HTTP 401"]),
        (403, b"Forbidden by policy", ["Forbidden by policy", "Metadata Security Protocol"]),
        (404, b'{ "error": "Not found" }', ["Not found", "Check endpoint and api_version"]),
        (405, b'{"error":"Method not allowed"}', ["HTTP 405", "Check endpoint and api_version"]),
        (204, b"", ["HTTP 204"]),
        (206, DOCUMENT, ["HTTP 206"]),
        (400, b"\xff\x00\x1b[31m\r\n" + b"x" * 5000, ["HTTP 400", "…"]),
        (400, b"[" * 100000, ["HTTP 400", "…"]),
    ],
)
def test_refusals_that_are_final(serve, short_pauses, status, body, words):
    error = serve((status, body)).failure(_errors.HttpStatusError, api_version="1999-01-01")
    assert (error.reason, error.http_status, error.imds_reachable) == ("http_status", status, True)
    assert all(word in str(error) for word in words), str(error)


@pytest.mark.parametrize(
    "offered",
    [
        ["\x1b[31mred\x07"],
        "2025-04-07\n" * 3,
        [f"line {number}\n" for number in range(3000)],
        ["x" * 40000],
        "x" * 40000,
        [[[[1] * 2000]]],
        {"a": list(range(2000))},
        ["\ud800"],
    ],
    ids=["for a terminal", "lines", "many", "a long one", "a long one alone", "lists", "an object", "half a character"],
)
def test_p9_versions_that_are_none_are_told_on_one_short_line(serve, short_pauses, offered):
    body = json.dumps({"error": "Bad request.", "newest-versions": offered}).encode()
    error = serve((400, body)).failure(_errors.HttpStatusError)
    assert "api_version was 2020-07-01; Azure offers " in str(error)


def test_an_api_version_that_is_empty_is_called_so(serve, short_pauses):
    body = b'{"newest-versions": ["2020-07-01"]}'
    error = serve((400, body)).failure(_errors.HttpStatusError, api_version="")
    assert "api_version was empty; Azure offers 2020-07-01." in str(error)


def test_p9_of_many_versions_ten_are_told(serve, short_pauses):
    body = json.dumps({"newest-versions": list(range(101, 121))}).encode()
    error = serve((400, body)).failure(_errors.HttpStatusError)
    assert "Azure offers 101, 102, 103, 104, 105, 106, 107, 108, 109, 110." in str(error)


# The peak of a process that getrusage() tells includes that of the one which started it.
CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client
try:
    client.ImdsClient(sys.argv[2], retries=False).get_document()
except _errors.ImdsError as error:
    message = str(error)
with open("/proc/self/status") as file:
    peak = next(line for line in file if line.startswith("VmHWM")).split()[1]
print(peak, len(message), message.isprintable())
"""


def error_page(item, before):
    """Return an answer of 1 MiB that repeats the item in the list "error"."""
    head, end = before.encode(), b"]}"
    return head + b",".join([item] * ((MIB - len(head) - len(end) + 1) // (len(item) + 1))) + end


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a process")
@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("before", ['{"error":["😀",', '{"newest-versions":['], ids=["error", "versions"])
@pytest.mark.parametrize("item", [b'{"":0}', b'{"":' * 900 + b"0" + b"}" * 900], ids=["wide", "deep"])
def test_p9_an_error_page_of_1_mib_takes_little_memory(serve, status, before, item):
    body = error_page(item, before)
    assert MIB - 10_000 < len(body) <= MIB
    command = [sys.executable, "-c", CHILD, str(ROOT), serve((status, body)).endpoint]
    run = subprocess.run(command, stdout=subprocess.PIPE, timeout=STOP, check=True)
    peak, length, printable = run.stdout.split()
    # The rest of the 64 MiB is for the program around the client.
    assert int(peak) <= 40 * 1024, f"{int(peak) // 1024} MiB"
    assert int(length) < 700
    assert printable == b"True"


@pytest.mark.parametrize(
    "body",
    [
        b"404 page not found\n",
        PAGE,
        b'<?xml version="1.0" encoding="iso-8859-1"?><html><title>404 - Not Found</title></html>',
        b"",
        b"[]",
        b'{"message": "no such path"}',
    ],
)
def test_404_of_another_cloud(serve, short_pauses, body):
    error = serve((404, body)).failure(_errors.NotImdsError)
    assert (error.reason, error.http_status, error.imds_reachable) == ("not_imds", 404, False)
    assert "may be another cloud" in str(error)


@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308])
def test_a_redirect_is_refused_and_not_followed(serve, short_pauses, status):
    elsewhere = serve()
    server = serve((status, PAGE if status != 304 else b"", {"Location": f"{elsewhere.endpoint}/login\x1b[31m"}))
    error = server.failure(_errors.NotImdsError)
    assert (error.reason, error.http_status) == ("not_imds", status)
    assert f"{elsewhere.endpoint}/login" in str(error)
    assert "proxy or portal" in str(error)
    assert not elsewhere.requests


def test_an_approval_is_not_redirected(serve, short_pauses):
    elsewhere = serve()
    server = serve((307, b"", {"Location": elsewhere.endpoint}))
    with pytest.raises(_errors.NotImdsError):
        server.client().approve(["A"])


@pytest.mark.parametrize("status", [410, 429, 500, 502, 503, 504])
def test_statuses_that_are_asked_again(serve, short_pauses, status):
    server = serve((status, PAGE), (status, b"{}"), (200, DOCUMENT))
    assert server.client().get_document() == DOCUMENT
    assert len({request.target for request in server.requests}) == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *[(410, b""), (500, b'{"error": "Retry"}'), (503, PAGE), (504, b"Zscaler"), (599, b"")],
        pytest.param(500, DOCUMENT, id="S6 500 with a document"),
    ],
)
def test_an_error_that_stays(serve, one_try, status, body):
    error = serve((status, body)).failure(_errors.HttpStatusError)
    assert (error.reason, error.http_status, error.imds_reachable) == ("http_status", status, True)
    assert "out of order for the moment. Ask again" in str(error)


def test_429_that_stays_is_throttled(serve, one_try):
    error = serve((429, b'{"error":"Too many requests"}')).failure(_errors.ThrottledError)
    assert (error.reason, error.http_status, error.imds_reachable) == ("throttled", 429, True)
    assert "5 requests a second" in str(error)


@pytest.mark.parametrize(
    ("status", "asked", "told"),
    [
        (410, "172800", "for the moment. Ask again in 172800 s."),
        (429, "172800", "Ask less often. Ask again in 172800 s."),
        (503, "172800", "for the moment. Ask again in 172800 s."),
        (503, "9" * 400, "for the moment. Ask again in 1000000000 s."),
        (503, "60", "for the moment. Ask again in a minute."),
        (429, "60", "together. Ask less often."),
    ],
)
def test_p13_the_time_that_azure_asks_to_wait_is_told(serve, one_try, status, asked, told):
    kind = _errors.ThrottledError if status == 429 else _errors.HttpStatusError
    error = serve((status, b"", {"Retry-After": asked})).failure(kind)
    assert str(error).endswith(told)


def test_the_last_error_is_the_one_that_is_told(serve, monkeypatch):
    monkeypatch.setattr(imds, "_FIRST_PAUSE", 0.01)
    server = serve((503, b""), (429, b"", {"Retry-After": "6000"}))
    server.failure(_errors.ThrottledError)
    server = serve((429, b""), (403, b""))
    server.failure(_errors.HttpStatusError)


def http_date(seconds, zone="GMT"):
    moment = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    return format_datetime(moment).replace("+0000", zone)


@pytest.mark.parametrize(("status", "retry_after", "least"), [(503, "1 ", 1.0), (410, http_date, 0.9)])
def test_retry_after_is_waited_for(serve, clock, status, retry_after, least):
    seconds = 1
    if callable(retry_after):
        # Of a date some is over when it arrives.
        seconds = 10000
        retry_after = retry_after(seconds)
    server = serve((status, b"", {"Retry-After": retry_after}), (200, DOCUMENT))
    assert server.client(timeout=86400).get_document() == DOCUMENT
    (pause,) = clock.pauses
    assert least * seconds <= pause <= seconds


@pytest.mark.parametrize(
    "retry_after",
    [
        "",
        " ",
        "\x0b",
        "soon",
        "-600",
        "+600",
        "600.5",
        "600, 600",
        "\xb2",
        "6_0_0",
        "Fri, 31 Dec 99999999999999999999 23:59:59 GMT",
        "Fri, 31 Dec 2100 23:59:59 +99999999999999999999",
        "Dec - , 99999999999 -99",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "0",
    ],
)
@pytest.mark.parametrize("status", [429, 500])
def test_retry_after_that_asks_for_no_longer_wait(serve, clock, status, retry_after):
    server = serve((status, b"", {"Retry-After": retry_after}), (200, DOCUMENT, {"Retry-After": retry_after}))
    assert server.client().get_document() == DOCUMENT
    assert clock.pauses == [0.5]


def test_retry_after_does_not_shorten_a_pause(serve, clock, monkeypatch):
    monkeypatch.setattr(imds, "_FIRST_PAUSE", 1.3)
    server = serve((429, b"", {"Retry-After": "1"}), (200, DOCUMENT))
    assert server.client().get_document() == DOCUMENT
    assert clock.pauses == [1.3]


@pytest.mark.parametrize(
    "retry_after",
    [
        "6",
        "70",
        "999999999",
        "9999999999",
        "9" * 400,
        pytest.param(lambda: http_date(600), id="a date"),
        pytest.param(lambda: http_date(600, "-0000"), id="a date of no zone"),
    ],
)
@pytest.mark.parametrize(("status", "reason"), [(429, "throttled"), (503, "http_status"), (410, "http_status")])
def test_retry_after_beyond_the_limit_fails_at_once(serve, clock, status, reason, retry_after):
    if callable(retry_after):
        # Made only now: the id of a test must not differ from one process to the next.
        retry_after = retry_after()
    server = serve((status, b"", {"Retry-After": retry_after}))
    with pytest.raises(_errors.ImdsError) as caught:
        server.client(timeout=5).get_document()
    assert (caught.value.reason, caught.value.http_status) == (reason, status)
    assert clock.pauses == []


@pytest.mark.parametrize(
    ("body", "error_class", "reason"),
    [
        (PAGE, _errors.NotImdsError, "not_imds"),
        (b"\n  <html>", _errors.NotImdsError, "not_imds"),
        (b"OK", _errors.MalformedError, "malformed"),
        (b"[]", _errors.MalformedError, "malformed"),
        (b"null", _errors.MalformedError, "malformed"),
        (b'{"Events": null}', _errors.MalformedError, "malformed"),
        (DOCUMENT[:-1], _errors.MalformedError, "malformed"),
    ],
)
def test_200_with_something_else(serve, short_pauses, body, error_class, reason):
    server = serve((200, body))
    client = server.client()
    with pytest.raises(error_class) as caught:
        fetch.read_document(client, client.deadline())
    assert (caught.value.reason, caught.value.http_status) == (reason, 200)
