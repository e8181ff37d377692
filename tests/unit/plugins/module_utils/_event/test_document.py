# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An answer becomes a document: what is decoded, what is an error, and what each field comes out as."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import MalformedError, NotImdsError
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Event
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.parser import (
    decode_document,
    parse_document,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils import conftest
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import parse

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
EVENT_ID = "0E1F4D7A-0001-4A6B-9C2D-8B1E5F3A7C90"


def raw_event(**changes: Any) -> dict[str, Any]:
    told = {"Description": "Host server is undergoing maintenance.", "EventSource": "Platform", "DurationInSeconds": 9}
    return conftest.raw_event(EVENT_ID, **{"Resources": ["vm-1", "vm-2"], **told, **changes})


def parse_one(api_version: str = "2020-07-01", **changes: Any) -> tuple[Event, tuple[str, ...]]:
    """Return the only event of a document and the warnings that came with it."""
    document = parse(raw_event(**changes), api_version=api_version)
    (event,) = document.events
    return event, document.warnings


def body_with(field: str, literal: bytes) -> bytes:
    """Return an answer in which the JSON of one field is spelled by the test, byte for byte."""
    body = json.dumps({"DocumentIncarnation": 2, "Events": [raw_event(**{field: "@"})]}).encode()
    return body.replace(b'"@"', literal)


def decode_one(field: str, literal: bytes) -> tuple[Event, tuple[str, ...]]:
    content = decode_document(body_with(field, literal))
    assert content is not None
    document = parse_document(content, "2020-07-01")
    (event,) = document.events
    return event, document.warnings


@pytest.mark.parametrize("body", [b"", b"\n", b" \r\n\t ", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_s7_an_empty_body_is_no_document(body: bytes) -> None:
    assert decode_document(body) is None


@pytest.mark.parametrize("body", [b"<html>504</html>", b"\r\n <!DOCTYPE html>", b"\xef\xbb\xbf<?xml version='1.0'?>"])
def test_a_web_page_is_not_imds(body: bytes) -> None:
    with pytest.raises(NotImdsError) as caught:
        decode_document(body)
    assert (caught.value.reason, caught.value.http_status) == ("not_imds", 200)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"Throttle Result: Too Many Requests", id="text"),
        pytest.param(b'{"DocumentIncarnation":1,"Events":[{"EventId":"C3', id="cut short"),
        pytest.param(b'{"DocumentIncarnation":1,"Events":[]}]', id="more than one value"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'"Events"', id="a string that holds the word"),
        pytest.param(b"7", id="a number"),
        pytest.param(b"\x00", id="a zero byte"),
        pytest.param(b"{}", id="Events missing"),
        pytest.param(b'{"Events":null}', id="Events null"),
        pytest.param(b'{"Events":{}}', id="Events an object"),
        pytest.param(b'{"Events":""}', id="Events a string"),
        pytest.param(b'{"Events":0}', id="Events a number"),
        pytest.param(b'{"error":"Bad request. Required metadata header not specified"}', id="an error body"),
        pytest.param(b'{"Events":[' + b"[" * 200000 + b"]" * 200000 + b"]}", id="nested 200,000 deep"),
        pytest.param(b'{"DocumentIncarnation":' + b"9" * 5000 + b',"Events":[]}', id="a number of 5,000 digits"),
    ],
)
def test_what_is_no_document_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedError) as caught:
        decode_document(body)
    assert (caught.value.reason, caught.value.http_status, caught.value.imds_reachable) == ("malformed", 200, True)
    start = body[:20].decode().replace('"', '\\"').replace("\x00", "\\u0000")
    assert start in str(caught.value)


def test_an_error_shows_the_first_200_characters_and_no_more() -> None:
    with pytest.raises(MalformedError) as caught:
        decode_document(("€" * 200 + "§").encode())
    assert "€" * 200 + '"…' in str(caught.value)
    assert "§" not in str(caught.value)
    with pytest.raises(MalformedError) as caught:
        decode_document(("€" * 200).encode())
    assert "€" * 200 + '"' in str(caught.value)
    assert "…" not in str(caught.value)


def test_an_error_shows_control_characters_escaped() -> None:
    with pytest.raises(MalformedError) as caught:
        decode_document("\x07\x1b[2J\x7f\x9b2J\u2028\u202e".encode())
    assert str(caught.value).isprintable()
    assert "\\u001b[2J\\u007f\\u009b2J\\u2028\\u202e" in str(caught.value)


@pytest.mark.parametrize("character", ["\n", "\r\n", "\t", "\x00", "\x1b"])
def test_s8_a_raw_control_character_in_a_string_is_kept(character: str) -> None:
    event, warnings = decode_one("Description", f'"two{character}lines"'.encode())
    assert (event.description, warnings) == (f"two{character}lines", ())


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        pytest.param(b'"caf\xc3\xa9"', "café", id="UTF-8"),
        pytest.param(b'"caf\xe9"', "caf\ufffd", id="a byte that is not UTF-8"),
        pytest.param(rb'"\ud83d\ude00"', "😀", id="a surrogate pair"),
        pytest.param(rb'"\ud83d"', "?", id="the first half of a pair"),
        pytest.param(rb'"\uDE00"', "?", id="the second half of a pair, upper case"),
        pytest.param(rb'"\ude00 \ud83d\ude00 \ud83d"', "? 😀 ?", id="halves beside a pair"),
        pytest.param(rb'"C:\\udata\\ud83d"', r"C:\udata\ud83d", id="a backslash before ud is no surrogate"),
    ],
)
def test_odd_characters_cost_no_event_and_can_be_sent_on(literal: bytes, value: str) -> None:
    event, warnings = decode_one("Description", literal)
    assert (event.description, event.resources, warnings) == (value, ("vm-1", "vm-2"), ())
    json.dumps(event.to_dict(NOW, "vm-1"), ensure_ascii=False).encode("utf-8")


def test_half_a_surrogate_pair_changes_nothing_else() -> None:
    before = {"DocumentIncarnation": 2, "Events": [raw_event(Extra=[None, True, 1.5, 10**30, "\n\\ä", {}])]}
    after = decode_document(json.dumps({**before, "Odd": "\ud800"}).encode())
    assert after == {**before, "Odd": "?"}


def test_a_byte_order_mark_is_no_part_of_the_document() -> None:
    assert decode_document(b'\xef\xbb\xbf{"DocumentIncarnation":0,"Events":[]}\n') == {
        "DocumentIncarnation": 0,
        "Events": [],
    }


DEEP_DOCUMENTS = [
    pytest.param(b'{"DocumentIncarnation":2,"Events":[@,%b]}', id="an event"),
    pytest.param(b'{"DocumentIncarnation":2,"Events":[{"EventId":"odd","Resources":[@]},%b]}', id="a resource"),
    pytest.param(b'{"DocumentIncarnation":2,"Events":[{"EventId":"odd","NotBefore":@},%b]}', id="a date"),
    pytest.param(b'{"DocumentIncarnation":@,"Events":[%b]}', id="the incarnation"),
]


@pytest.mark.parametrize("template", DEEP_DOCUMENTS)
def test_deep_nesting_is_one_clear_error_or_costs_one_event(template: bytes) -> None:
    """Just below the depth that the interpreter can read, where showing the value in a warning may fail."""

    def read(depth: int) -> dict[str, Any] | None:
        deep = b"[" * depth + b"]" * depth
        return decode_document(template.replace(b"@", deep) % json.dumps(raw_event()).encode())

    readable, unreadable = 1, 200000
    while unreadable - readable > 1:
        depth = (readable + unreadable) // 2
        try:
            read(depth)
            readable = depth
        except MalformedError:
            unreadable = depth
    for depth in range(max(1, readable - 20), readable + 1):
        content = read(depth)
        assert content is not None
        document = parse_document(content, "2020-07-01")
        assert document.find(EVENT_ID) == parse(raw_event()).events[0]
        assert document.warnings


def test_every_field_comes_out() -> None:
    event, warnings = parse_one()
    assert warnings == ()
    assert event == Event(
        event_id=EVENT_ID,
        event_type="Reboot",
        event_status="Scheduled",
        resource_type="VirtualMachine",
        resources=("vm-1", "vm-2"),
        not_before=datetime(2026, 11, 21, 10, 15, 0, tzinfo=timezone.utc),
        not_before_raw="Sat, 21 Nov 2026 10:15:00 GMT",
        description="Host server is undergoing maintenance.",
        event_source="Platform",
        duration_seconds=9,
    )


@pytest.mark.parametrize(
    ("api_version", "missing"),
    [
        ("2017-08-01", ["Description", "EventSource", "DurationInSeconds"]),
        ("2019-01-01", ["Description", "EventSource", "DurationInSeconds"]),
        ("2019-04-01", ["EventSource", "DurationInSeconds"]),
        ("2019-08-01", ["DurationInSeconds"]),
    ],
)
def test_s13_fields_that_an_old_version_lacks_are_null(api_version: str, missing: list[str]) -> None:
    event, warnings = parse_one(api_version, **dict.fromkeys(missing, ...))
    assert warnings == ()
    shown = event.to_dict(NOW, "vm-1")
    names = {"Description": "description", "EventSource": "event_source", "DurationInSeconds": "duration_seconds"}
    assert {field for field, name in names.items() if shown[name] is None} == set(missing)


@pytest.mark.parametrize(
    ("field", "attribute", "sent", "shown"),
    [
        ("EventType", "event_type", "FREEZE", "Freeze"),
        ("EventType", "event_type", "reboot", "Reboot"),
        ("EventType", "event_type", "ReDeploy", "Redeploy"),
        ("EventType", "event_type", "preempt", "Preempt"),
        ("EventType", "event_type", "TERMINATE", "Terminate"),
        ("EventType", "event_type", "Hibernate", "Hibernate"),
        ("EventStatus", "event_status", "scheduled", "Scheduled"),
        ("EventStatus", "event_status", "STARTED", "Started"),
        ("EventStatus", "event_status", "completed", "completed"),
        ("EventSource", "event_source", "platform", "Platform"),
        ("EventSource", "event_source", "USER", "User"),
        ("EventSource", "event_source", "robot", "robot"),
        ("ResourceType", "resource_type", "virtualmachine", "VirtualMachine"),
        ("ResourceType", "resource_type", "Disk", "Disk"),
    ],
)
def test_words_are_shown_in_azures_spelling_and_unknown_ones_unharmed(
    field: str, attribute: str, sent: str, shown: str
) -> None:
    event, warnings = parse_one(**{field: sent})
    assert (getattr(event, attribute), warnings) == (shown, ())


def test_a_description_is_no_keyword_and_extra_fields_do_no_harm() -> None:
    event, warnings = parse_one(Description="reboot", RetirementPolicy={"EventId": None})
    assert (event.description, event.event_id, warnings) == ("reboot", EVENT_ID, ())


@pytest.mark.parametrize("value", [7, True, ["Reboot"], {"a": 1}])
@pytest.mark.parametrize("field", ["EventType", "EventStatus", "ResourceType", "EventSource", "Description"])
def test_a_field_that_is_no_string_is_null_and_warned_of(field: str, value: Any) -> None:
    event, warnings = parse_one(**{field: value})
    names = {"EventType": "event_type", "EventStatus": "event_status", "ResourceType": "resource_type"}
    names.update({"EventSource": "event_source", "Description": "description"})
    assert getattr(event, names[field]) is None
    assert any(EVENT_ID in warning and field in warning for warning in warnings)


@pytest.mark.parametrize(
    ("not_before", "shown"),
    [("demain à 8 h", '"demain à 8 h"'), ("a\nb", '"a\\nb"'), ("é" * 201, '"' + "é" * 200 + '"…')],
    ids=["as sent", "a newline escaped", "no more than 200 characters"],
)
def test_a_warning_shows_what_could_not_be_read(not_before: str, shown: str) -> None:
    (warning,) = parse_one(NotBefore=not_before)[1]
    assert f": {shown}." in warning
    (warning,) = parse_one(DurationInSeconds=["é"])[1]
    assert "é" in warning


@pytest.mark.parametrize("field", ["EventType", "EventStatus"])
@pytest.mark.parametrize("value", [..., None, ""], ids=["missing", "null", "empty"])
def test_an_event_without_type_or_status_is_kept_and_warned_of(field: str, value: Any) -> None:
    event, warnings = parse_one(**{field: value})
    assert event.resources == ("vm-1", "vm-2")
    assert not event.has_started
    assert len(warnings) == 1
    assert field in warnings[0]
