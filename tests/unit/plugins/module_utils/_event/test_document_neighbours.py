# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An event is never lost because its neighbour is malformed, and the malformed one is reported."""

from __future__ import annotations

import json
import random
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Document
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.parser import (
    decode_document,
    parse_document,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils._event import (
    test_document_fields as fields,
)

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
GOOD = [
    {
        "EventId": f"600D-{number}",
        "EventStatus": status,
        "EventType": event_type,
        "ResourceType": "VirtualMachine",
        "Resources": [f"vm-{number}", f"vm-{number}0"],
        "NotBefore": not_before,
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": number,
    }
    for number, (event_type, status, not_before) in enumerate(
        [
            ("Reboot", "Scheduled", "Sat, 21 Nov 2026 10:15:00 GMT"),
            ("Freeze", "Started", ""),
            ("Redeploy", "Scheduled", "2026-11-21T10:20:00Z"),
        ]
    )
]


def odd_event(**changes: Any) -> dict[str, Any]:
    """Return an event that would be good but for the changes; a change to ... takes a field away."""
    event = {**GOOD[0], "EventId": "0DD-1", **changes}
    return {field: value for field, value in event.items() if value is not ...}


# What stands among the good events, whether it is an event at all, and a word of the warning it earns.
MALFORMED = [
    pytest.param(None, False, "object", id="null"),
    pytest.param(True, False, "object", id="true"),
    pytest.param(7, False, "object", id="a number"),
    pytest.param(float("nan"), False, "object", id="not a number"),
    pytest.param("Reboot", False, "object", id="a string"),
    pytest.param([], False, "object", id="an empty list"),
    pytest.param([odd_event()], False, "object", id="an event inside a list"),
    pytest.param("\ud800", False, "object", id="half a surrogate pair"),
    pytest.param({}, False, "EventId", id="an empty object"),
    pytest.param({"Events": [odd_event()]}, False, "EventId", id="a document"),
    pytest.param(odd_event(EventId=...), False, "EventId", id="EventId missing"),
    pytest.param(odd_event(EventId=None), False, "EventId", id="EventId null"),
    pytest.param(odd_event(EventId=""), False, "EventId", id="EventId empty"),
    pytest.param(odd_event(EventId=" \n"), False, "EventId", id="EventId blank"),
    pytest.param(odd_event(EventId=123), False, "EventId", id="EventId a number"),
    pytest.param(odd_event(EventId=["600D-1"]), False, "EventId", id="EventId a list"),
    pytest.param(odd_event(EventId={"600D-1": 1}), False, "EventId", id="EventId an object"),
    pytest.param(odd_event(Resources=...), True, "Resources", id="Resources missing"),
    pytest.param(odd_event(Resources=None), True, "Resources", id="Resources null"),
    pytest.param(odd_event(Resources=[]), True, "Resources", id="Resources empty"),
    pytest.param(odd_event(Resources="vm-1"), True, "Resources", id="Resources a string"),
    pytest.param(odd_event(Resources={"vm-1": 1}), True, "Resources", id="Resources an object"),
    pytest.param(odd_event(Resources=[None]), True, "Resources", id="Resources of null"),
    pytest.param(odd_event(Resources=["vm-1", {"a": [1]}]), True, "Resources", id="Resources with an object"),
    pytest.param(odd_event(EventType=...), True, "EventType", id="EventType missing"),
    pytest.param(odd_event(EventType=["Reboot"]), True, "EventType", id="EventType a list"),
    pytest.param(odd_event(EventStatus=None), True, "EventStatus", id="EventStatus null"),
    pytest.param(odd_event(EventStatus={}), True, "EventStatus", id="EventStatus an object"),
    pytest.param(odd_event(NotBefore="Mon, 19 Foo 2016 18:29:47 GMT"), True, "NotBefore", id="no such month"),
    pytest.param(odd_event(NotBefore="0000-00-00T00:00:00Z"), True, "NotBefore", id="no such date"),
    pytest.param(odd_event(NotBefore=float("inf")), True, "NotBefore", id="NotBefore infinite"),
    pytest.param(odd_event(NotBefore=10**400), True, "NotBefore", id="NotBefore a huge number"),
    pytest.param(odd_event(DurationInSeconds="5"), True, "DurationInSeconds", id="DurationInSeconds a string"),
    pytest.param(odd_event(DurationInSeconds=float("nan")), True, "DurationInSeconds", id="DurationInSeconds NaN"),
    pytest.param(odd_event(DurationInSeconds=[[[]]]), True, "DurationInSeconds", id="DurationInSeconds a list"),
    pytest.param(odd_event(Description=5), True, "Description", id="Description a number"),
    pytest.param(odd_event(EventSource=True), True, "EventSource", id="EventSource true"),
    pytest.param(odd_event(ResourceType=1.5), True, "ResourceType", id="ResourceType a number"),
    pytest.param(odd_event(EventId="600d-1"), True, "600d-1", id="the id of a neighbour"),
    # Odd, but nothing that could not be read.
    pytest.param(odd_event(EventId="\ud800"), True, None, id="half a surrogate pair in EventId"),
    pytest.param(odd_event(Description="\x00\n\udfff"), True, None, id="control characters in Description"),
    pytest.param(odd_event(Extra={"a": [{}] * 50}), True, None, id="an extra field"),
    pytest.param(odd_event(EventType="Maintain", EventStatus="Completed"), True, None, id="unknown words"),
]


def read(*events: Any) -> Document:
    """Send the events through bytes, with control characters as they are."""
    body = json.dumps({"DocumentIncarnation": 2, "Events": events}).replace("\\n", "\n").encode()
    content = decode_document(body)
    assert content is not None
    return parse_document(content, "2020-07-01")


ALONE = read(*GOOD)


def assert_fit_for_users(document: Document) -> None:
    """Every event has exactly the keys of the contract, and all of it can be sent on as strict JSON."""
    for event in document.events:
        for resource_name in ("vm-1", None):
            shown = event.to_dict(NOW, resource_name)
            assert set(shown) == set(fields.SHOWN)
            json.dumps(shown, ensure_ascii=False, allow_nan=False).encode("utf-8")
    "".join(document.warnings).encode("utf-8")


def test_good_events_alone_earn_no_warning() -> None:
    assert [event.event_id for event in ALONE.events] == ["600D-0", "600D-1", "600D-2"]
    assert ALONE.warnings == ()
    assert_fit_for_users(ALONE)


@pytest.mark.parametrize("place", range(len(GOOD) + 1))
@pytest.mark.parametrize(("thing", "is_event", "word"), MALFORMED)
def test_a_malformed_neighbour_costs_no_event(thing: Any, is_event: bool, word: str | None, place: int) -> None:
    document = read(*GOOD[:place], thing, *GOOD[place:])
    assert document.incarnation == 2
    assert_fit_for_users(document)

    shares_an_id = isinstance(thing, dict) and thing.get("EventId") == "600d-1"
    spared = [event for event in ALONE.events if not shares_an_id or event.key != "600d-1"]
    keys_spared = {event.key for event in spared}
    assert [event for event in document.events if event.key in keys_spared] == spared
    assert document.find("600D-1") is not None
    assert len(document.events) == len(GOOD) + (is_event and not shares_an_id)

    if word is None:
        assert document.warnings == ()
    else:
        assert any(word.lower() in warning.lower() for warning in document.warnings)
        assert not any("600D-0" in warning or "600D-2" in warning for warning in document.warnings)


def test_an_event_that_is_left_out_is_named_by_its_place() -> None:
    warnings = read(GOOD[0], None, GOOD[1], {"EventId": None}).warnings
    assert len(warnings) == 2
    assert "Event 2 " in warnings[0]
    assert "Event 4 " in warnings[1]


@pytest.mark.parametrize("seed", range(20))
def test_any_crowd_of_malformed_neighbours_costs_no_event(seed: int) -> None:
    chance = random.Random(seed)
    crowd = [param.values[0] for param in MALFORMED if not str(param.id).startswith("the id of")]
    chance.shuffle(crowd)
    # From the last to the first, each somewhere before the one that follows it.
    place = len(crowd)
    for event in reversed(GOOD):
        place = chance.randint(0, place)
        crowd.insert(place, event)
    document = read(*crowd)
    assert_fit_for_users(document)
    assert tuple(event for event in document.events if event.key.startswith("600d")) == ALONE.events


def test_a_document_of_nothing_but_malformed_events_is_a_document() -> None:
    document = read(None, {}, 7, {"EventId": ""})
    assert (document.events, document.incarnation, len(document.warnings)) == ((), 2, 4)


@pytest.mark.parametrize(("thing", "is_event", "_word"), MALFORMED)
def test_p4_a_document_is_clear_only_if_every_entry_can_be_read(thing: Any, is_event: bool, _word: str | None) -> None:
    assert read(*GOOD, thing).is_clear is is_event


@pytest.mark.parametrize("length", [256, 257, 300])
def test_p4_an_id_of_more_than_256_characters_is_none(length: int) -> None:
    document = read(odd_event(EventId="A" * length))
    assert document.is_clear is (length == 256)
    assert len(document.events) == (length == 256)
    assert [warning for warning in document.warnings if f"{length} characters" in warning] == list(document.warnings)


@pytest.mark.parametrize(
    ("resources", "readable", "affects_web_1"),
    [
        (None, False, None),
        (..., False, None),
        ([], False, None),
        ("web-1", False, None),
        ([None], False, None),
        ([5], False, None),
        ([5, "web-1"], False, True),
        (["web-1", ""], False, True),
        (["web-2", ""], False, None),
        (["web-2", {"name": "web-1"}], False, None),
        (["web-2"], True, False),
        (["web-2", "WEB-1"], True, True),
    ],
)
def test_p4_an_event_with_a_vm_that_cannot_be_read_may_affect_any_vm(
    resources: Any, readable: bool, affects_web_1: bool | None
) -> None:
    document = read(odd_event(Resources=resources))
    (event,) = document.events
    assert document.is_clear
    assert event.names_its_vms is readable
    assert event.affects("web-1") is affects_web_1
    assert event.to_dict(NOW, "web-1")["affects_this_vm"] is affects_web_1
    assert bool(document.warnings) is not readable


def test_three_entries_with_one_id_are_one_event_of_the_vms_of_all() -> None:
    entries = [odd_event(Resources=["a", "b"]), odd_event(Resources=["B", "c"], EventStatus="Started")]
    document = read(*entries, odd_event(Resources=["C", "d"]))
    (event,) = document.events
    assert (event.resources, event.event_status) == (("a", "b", "c", "d"), "Started")
    assert len(document.warnings) == 2
