# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NotBefore in every form that Azure has been seen to send, and in forms that nobody should."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import (
    Event,
    format_utc,
    parse_utc,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.parser import parse_document
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.selection import Selection

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)


def parse_one(not_before: Any, status: str = "Scheduled") -> tuple[Event, tuple[str, ...]]:
    """Return the only event of a document and the warnings that came with it; ... leaves NotBefore out."""
    raw = {"EventId": "A-1", "EventType": "Reboot", "EventStatus": status, "Resources": ["vm-1"]}
    if not_before is not ...:
        raw["NotBefore"] = not_before
    document = parse_document({"Events": [raw]}, "2020-07-01")
    (event,) = document.events
    return event, document.warnings


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        pytest.param("Mon, 19 Sep 2016 18:29:47 GMT", "2016-09-19T18:29:47Z", id="RFC 1123"),
        pytest.param("Thu, 05 Dec 2019 00:31:50 GMT", "2019-12-05T00:31:50Z", id="RFC 1123, a day below ten"),
        pytest.param("Thu, 5 Dec 2019 00:31:50 GMT", "2019-12-05T00:31:50Z", id="RFC 1123, a day of one digit"),
        pytest.param("Mon, 11 Apr 2026 22:26:58 GMT", "2026-04-11T22:26:58Z", id="wrong weekday"),
        pytest.param("19 Sep 2016 18:29:47 GMT", "2016-09-19T18:29:47Z", id="no weekday"),
        pytest.param("Thu, 29 Feb 2024 23:59:59 GMT", "2024-02-29T23:59:59Z", id="29 February of a leap year"),
        pytest.param("Sat, 21 Nov 2026 10:15:00 UTC", "2026-11-21T10:15:00Z", id="RFC 1123, UTC"),
        pytest.param("Sat, 21 Nov 2026 10:15:00 +0000", "2026-11-21T10:15:00Z", id="RFC 1123, offset nought"),
        pytest.param("Sat, 21 Nov 2026 10:15:00 -0000", "2026-11-21T10:15:00Z", id="RFC 1123, offset minus nought"),
        pytest.param("Sat, 21 Nov 2026 01:15:00 +0530", "2026-11-20T19:45:00Z", id="RFC 1123, offset east"),
        pytest.param("Sat, 21 Nov 2026 23:15:00 -0330", "2026-11-22T02:45:00Z", id="RFC 1123, offset west"),
        pytest.param("2026-04-29T18:00:00Z", "2026-04-29T18:00:00Z", id="ISO 8601"),
        pytest.param("2026-04-29t18:00:00z", "2026-04-29T18:00:00Z", id="ISO 8601, lower case"),
        pytest.param("2026-04-29 18:00:00Z", "2026-04-29T18:00:00Z", id="ISO 8601, a space for the T"),
        pytest.param("2026-04-29T18:00:00", "2026-04-29T18:00:00Z", id="ISO 8601, no zone"),
        pytest.param("2026-04-29T18:00:00.5Z", "2026-04-29T18:00:00Z", id="ISO 8601, a fraction of one digit"),
        pytest.param("2026-04-29T18:00:00.999999Z", "2026-04-29T18:00:00Z", id="ISO 8601, a fraction of six"),
        pytest.param("2026-04-29T18:00:00.1234567Z", "2026-04-29T18:00:00Z", id="ISO 8601, a fraction of seven (.NET)"),
        pytest.param("2026-04-29T18:00:00.123456789+02:00", "2026-04-29T16:00:00Z", id="ISO 8601, fraction and offset"),
        pytest.param("2026-04-29T18:00:00+02:00", "2026-04-29T16:00:00Z", id="ISO 8601, offset east"),
        pytest.param("2026-04-29T18:00:00-0930", "2026-04-30T03:30:00Z", id="ISO 8601, offset without colon"),
        pytest.param(" Mon, 19 Sep 2016 18:29:47 GMT\r\n", "2016-09-19T18:29:47Z", id="white space around"),
        pytest.param("\t2026-04-29T18:00:00Z ", "2026-04-29T18:00:00Z", id="white space around ISO 8601"),
        pytest.param("1000-01-01T00:00:00+05:00", "0999-12-31T19:00:00Z", id="the year 999 in UTC"),
        pytest.param("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z", id="the last second there is"),
    ],
)
def test_a_date_is_read_as_utc_and_kept_as_sent(sent: str, shown: str) -> None:
    event, warnings = parse_one(sent)
    assert warnings == ()
    assert event.to_dict(NOW, "vm-1")["not_before"] == shown
    assert event.not_before_raw == sent
    assert event.not_before is not None
    assert event.not_before.tzinfo is timezone.utc
    assert format_utc(parse_utc(shown)) == shown
    assert Event.from_dict(event.fields()) == event
    assert Event.from_dict(event.to_dict(NOW, "vm-1")) == event


@pytest.mark.parametrize(
    ("number", "name"),
    list(enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], start=1)),
)
def test_every_month_is_known(number: int, name: str) -> None:
    event, _warnings = parse_one(f"Mon, 02 {name} 2026 03:04:05 GMT")
    assert event.not_before == datetime(2026, number, 2, 3, 4, 5, tzinfo=timezone.utc)


@pytest.mark.parametrize("status", ["Scheduled", "Started"])
@pytest.mark.parametrize("sent", [..., None, "", " ", "\n"], ids=["missing", "null", "empty", "a space", "a newline"])
def test_no_date_is_unknown_and_nothing_to_warn_of(sent: Any, status: str) -> None:
    event, warnings = parse_one(sent, status)
    assert (event.not_before, warnings) == (None, ())
    assert event.not_before_raw == (None if sent is ... else sent)
    assert event.seconds_until_start(NOW) == (0 if status == "Started" else None)


UNREADABLE = [
    pytest.param("20170702", id="digits only"),
    pytest.param("soon", id="a word"),
    pytest.param("Mon", id="a weekday"),
    pytest.param("null", id="the word null"),
    pytest.param("Mon, 31 Feb 2026 18:29:47 GMT", id="31 February"),
    pytest.param("2026-02-29T18:29:47Z", id="29 February of no leap year"),
    pytest.param("Mon, 00 Sep 2016 18:29:47 GMT", id="day nought"),
    pytest.param("Mon, 32 Dec 2026 18:29:47 GMT", id="day 32"),
    pytest.param("2026-13-01T00:00:00Z", id="month 13"),
    pytest.param("2026-00-01T00:00:00Z", id="month nought"),
    pytest.param("Mon, 19 Foo 2016 18:29:47 GMT", id="no month, a TypeError of email.utils on Python 3.8"),
    pytest.param("Mon, 19 09 2016 18:29:47 GMT", id="a month in digits"),
    pytest.param("Mon, Sep 19 2016 18:29:47 GMT", id="month before day"),
    pytest.param("Mon, 19 Sep 2016 24:00:00 GMT", id="hour 24"),
    pytest.param("2026-04-29T24:00:00Z", id="ISO 8601, hour 24"),
    pytest.param("2026-04-29T18:60:00Z", id="minute 60"),
    pytest.param("Mon, 19 Sep 2016 18:29:60 GMT", id="a leap second"),
    pytest.param("Mon, 01 Jan 0001 00:00:00 GMT", id="the unset date of .NET, no 2001"),
    pytest.param("0001-01-01T00:00:00Z", id="the unset date of Go"),
    pytest.param("Mon, 19 Sep 16 18:29:47 GMT", id="a year of two digits"),
    pytest.param("Mon, 19 Sep 12016 18:29:47 GMT", id="a year of five digits"),
    pytest.param("Mon, 19 Sep 2016 18:29:47 PST", id="a zone that is neither GMT nor UTC"),
    pytest.param("Mon, 19 Sep 2016 18:29:47", id="RFC 1123 without a zone"),
    pytest.param("Mon, 19 Sep 2016 18:29:47 +2400", id="RFC 1123, an offset of a day"),
    pytest.param("Mon, 19 Sep 2016 18:29:47 +0599", id="RFC 1123, an offset of 99 minutes"),
    pytest.param("2026-04-29T18:00:00+24:00", id="ISO 8601, an offset of a day"),
    pytest.param("2026-04-29T18:00:00+05:60", id="ISO 8601, an offset of 60 minutes"),
    pytest.param("9999-12-31T23:59:59-01:00", id="later than the last second"),
    pytest.param("Fri, 31 Dec 9999 23:59:59 -0100", id="RFC 1123, later than the last second"),
    pytest.param("2026-04-29", id="a day without a time"),
    pytest.param("2026-04-29T18:00:00ZZ", id="something after it"),
    pytest.param("Mon, 19 Sep 2016 18:29:47 GMT+1", id="RFC 1123, something after it"),
    pytest.param("2026-04-29T18:00:00.\uff15Z", id="a fraction in digits of another script"),
    pytest.param("2026-04-29T18:00:00Z\n2026-04-29T18:00:00Z", id="two dates"),
    pytest.param("x 2026-04-29T18:00:00Z", id="something before it"),
    pytest.param("2026-04-29T18:00:00.Z", id="a fraction without digits"),
    pytest.param("\uff12\uff10\uff12\uff16-04-29T18:00:00Z", id="digits of another script"),
    pytest.param("9" * 5000, id="5,000 digits"),
    pytest.param("\x00", id="a zero byte"),
    pytest.param(1474309787, id="a number"),
    pytest.param(0, id="nought"),
    pytest.param(float("nan"), id="not a number"),
    pytest.param(False, id="false"),
    pytest.param(["Mon, 19 Sep 2016 18:29:47 GMT"], id="a list"),
    pytest.param({"date": "2026-04-29T18:00:00Z"}, id="an object"),
]


@pytest.mark.parametrize("sent", UNREADABLE)
def test_s12_an_unreadable_date_keeps_the_event_and_is_never_due(sent: Any) -> None:
    event, warnings = parse_one(sent)
    assert (event.event_id, event.resources) == ("A-1", ("vm-1",))
    assert len(warnings) == 1
    assert "A-1" in warnings[0]
    assert "NotBefore" in warnings[0]
    shown = event.to_dict(NOW, "vm-1")
    assert (shown["not_before"], shown["seconds_until_start"]) == (None, None)
    assert shown["not_before_raw"] == (sent if isinstance(sent, str) else None)
    for due_within in (0, 900, 10**12):
        assert not Selection(due_within=due_within).matches(event, NOW)
    assert Selection().matches(event, NOW)


@pytest.mark.parametrize("sent", ["soon", "20170702", 0])
def test_an_event_that_started_is_due_whatever_its_date(sent: Any) -> None:
    event, warnings = parse_one(sent, "Started")
    assert event.seconds_until_start(NOW) == 0
    assert Selection(due_within=0).matches(event, NOW)
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("sent", "status", "seconds"),
    [
        ("Sat, 21 Nov 2026 10:00:01 GMT", "Scheduled", 1),
        ("Sat, 21 Nov 2026 10:14:59 GMT", "Scheduled", 899),
        ("2026-11-21T11:15:00+01:00", "Scheduled", 900),
        ("Sat, 28 Nov 2026 10:00:00 GMT", "Scheduled", 7 * 86400),
        ("Sat, 21 Nov 2026 10:00:00 GMT", "Scheduled", 0),
        ("Sat, 21 Nov 2026 09:59:59 GMT", "Scheduled", 0),
        ("Mon, 19 Sep 2016 18:29:47 GMT", "Scheduled", 0),
        ("Sat, 21 Nov 2026 10:15:00 GMT", "started", 0),
        ("Sat, 21 Nov 2026 10:15:00 GMT", "Completed", 900),
    ],
)
def test_seconds_until_start_are_never_negative(sent: str, status: str, seconds: int) -> None:
    assert parse_one(sent, status)[0].to_dict(NOW, "vm-1")["seconds_until_start"] == seconds


def test_seconds_until_start_are_whole_and_never_more_than_are_left() -> None:
    left = parse_one("Sat, 21 Nov 2026 10:00:10 GMT")[0].seconds_until_start(NOW.replace(microsecond=1))
    assert (left, type(left)) == (9, int)
