# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What headers and errors of Azure Resource Manager say, in each form in which they were seen."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.arm import (
    Answer,
    _fault,
    join_code,
    read_error,
    read_quota_reset,
    read_retry_after,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.errors import plain

# As deep as the parser of JSON lets it through
DEEP = json.loads('{"A": [' * 450 + "]}" * 450)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "-7"}, 0),
        ({"retry-after": "soon"}, 0),
        ({"retry-after": "nan"}, 0),
        ({"retry-after": "inf"}, 0),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:00 GMT", "x-ms-user-quota-resets-after": "00:00:03"}, 3),
        ({"retry-after": "2", "x-ms-user-quota-resets-after": "00:00:03"}, 2),
        # A time of day counts by the clock of the one who gave it.
        ({"retry-after": "Sat, 21 Nov 2026 10:00:00 GMT", "date": "Sat, 21 Nov 2026 09:58:30 GMT"}, 90),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:00 -0000", "date": "Sat, 21 Nov 2026 09:58:30 GMT"}, 90),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:00 GMT", "date": "Sat, 21 Nov 2026 10:00:01 GMT"}, 0),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:00 GMT", "date": "now"}, 0),
        ({"retry-after": "Sat, 99 Nov 2026 10:00:00 GMT", "date": "Sat, 21 Nov 2026 10:00:01 GMT"}, 0),
    ],
)
def test_retry_after(headers, seconds):
    assert read_retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("status", "headers", "told"),
    [
        (429, {"retry-after": "187200"}, "(429). Azure asks to wait 2 d 4 h before the next request."),
        (503, {"retry-after": "90.5"}, "Azure answered 503. Azure asks to wait 1 min 31 s before the next request."),
        (503, {"retry-after": "1e300"}, "Azure answered 503. Azure asks to wait 11574 d 1 h before the next request."),
        (429, {"x-ms-user-quota-resets-after": "01:00:00"}, "Azure asks to wait 1 h before the next request."),
        (429, {}, "Ask less often."),
        (503, {"retry-after": "0"}, "Azure answered 503."),
    ],
)
def test_p13_the_time_that_azure_asks_to_wait_is_told(status, headers, told):
    failure = _fault(Answer(status, headers, None))
    assert str(failure).endswith(told)


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("https://portal.example/?next=secret", "Azure answered 302 and names another address, at portal.example."),
        ("/portal", "Azure answered 302 and names another address."),
        ("http://[", "Azure answered 302 and names another address."),
        (None, "Azure answered 302."),
    ],
)
def test_a_redirect_is_not_followed_and_says_whose_page_it_is(location, told):
    headers = {} if location is None else {"location": location}
    advice = "" if location is None else " Check for a proxy or portal on the way."
    assert str(_fault(Answer(302, headers, None))) == told + advice


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:00:05", 5),
        ("01:02:03", 3723),
        ("00:00:04.9990000", 4),
        ("", 0),
        ("5", 0),
        ("a:b:c", 0),
        ("-1:0:0", 0),
        (f"{'9' * 400}:0:0", 0),
    ],
)
def test_quota_reset(text, seconds):
    assert read_quota_reset({"x-ms-user-quota-resets-after": text}) == seconds


@pytest.mark.parametrize(
    ("body", "code", "message", "targets"),
    [
        ({"error": {"code": "NotFound", "message": "Gone."}}, "NotFound", "Gone.", []),
        ({"Error": {"Code": "Bad", "Details": [{"Target": "e-1"}, 5]}}, "Bad", "", ["e-1"]),
        (
            {"ERROR": {"CODE": "Multi", "MESSAGE": "Some.", "details": [{"target": "e-1", "message": "Not now."}]}},
            "Multi",
            "Some. Not now.",
            ["e-1"],
        ),
        ({"error": {"code": 5, "message": {"a": 1}, "details": "text"}}, None, "", []),
        ({"error": "text"}, None, "", []),
        ({"value": "Successfully Approved"}, None, "", []),
        ("<html>", None, "", []),
        (None, None, "", []),
        ([], None, "", []),
        ({"error": {"code": "Deep", "message": "Why.", "more": DEEP}}, "Deep", "Why.", []),
    ],
)
def test_errors(body, code, message, targets):
    found, told, details = read_error(body)
    assert (found, told, [each.get("target") for each in details]) == (code, message, targets)


@pytest.mark.parametrize(
    ("code", "message", "told"),
    [("A", "Why.", "A: Why."), (None, "Why.", "Why."), ("A", "", "A"), (None, "", "")],
)
def test_a_code_and_a_message_are_told_as_far_as_there_are_any(code, message, told):
    assert join_code(code, message) == told


def test_text_of_others_steers_no_terminal_and_tells_no_secret():
    told = plain("a\n\tb \x1b[31m the-secret " + "x" * 1000, "the-secret", None, "")
    assert told.startswith(r"a b \u001b[31m ******** xxx")
    assert len(told) == 501
