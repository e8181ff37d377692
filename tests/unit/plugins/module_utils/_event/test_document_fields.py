# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the numbers, the names and the ids of an event come out as, and the form in which users see it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Event, format_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.parser import parse_document
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils import conftest
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import parse

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
VERSIONS = ["2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01", "2030-01-01"]


def raw_event(event_id: str = "A-1", **changes: Any) -> dict[str, Any]:
    return conftest.raw_event(event_id, **{"Resources": ["vm-1", "vm-2"], **changes})


def parse_one(api_version: str = "2020-07-01", **changes: Any) -> tuple[Event, tuple[str, ...]]:
    document = parse(raw_event(**changes), api_version=api_version)
    (event,) = document.events
    return event, document.warnings


@pytest.mark.parametrize(
    ("sent", "seconds"), [(5, 5), (0, 0), (30, 30), (10**12, 10**12), (-1, None), (None, None), (..., None)]
)
def test_a_duration_is_a_number_of_seconds_or_unknown(sent: Any, seconds: int | None) -> None:
    event, warnings = parse_one(DurationInSeconds=sent)
    assert (event.duration_seconds, warnings) == (seconds, ())


@pytest.mark.parametrize(
    "sent", [-2, -(10**30), 10**12 + 1, 10**400, "5", "", True, False, 2.5, float("nan"), float("inf"), [5], {}]
)
def test_a_duration_that_is_none_is_unknown_and_warned_of(sent: Any) -> None:
    event, warnings = parse_one(DurationInSeconds=sent)
    assert event.duration_seconds is None
    assert len(warnings) == 1
    assert "DurationInSeconds" in warnings[0]


@pytest.mark.parametrize("sent", [0, 1, 279, 10**30, "abc123", "5"])
def test_an_incarnation_is_shown_as_azure_sent_it(sent: Any) -> None:
    document = parse_document({"DocumentIncarnation": sent, "Events": []}, "2020-07-01")
    assert (document.incarnation, type(document.incarnation), document.warnings) == (sent, type(sent), ())


@pytest.mark.parametrize(
    ("content", "warned"),
    [({}, False), ({"DocumentIncarnation": None}, False)]
    + [({"DocumentIncarnation": value}, True) for value in (True, 2.5, float("nan"), [2], {"a": 2})],
)
def test_an_incarnation_that_is_none_costs_no_event(content: dict[str, Any], warned: bool) -> None:
    document = parse_document({**content, "Events": [raw_event()]}, "2020-07-01")
    assert document.incarnation is None
    assert [event.event_id for event in document.events] == ["A-1"]
    assert ["DocumentIncarnation" in warning for warning in document.warnings] == [True] * warned


@pytest.mark.parametrize(
    ("sent", "shown"), [("_vm-1", "vm-1"), ("__vm-1", "_vm-1"), ("FrontEnd_IN_0", "FrontEnd_IN_0"), ("vm_1_", "vm_1_")]
)
def test_one_leading_underscore_is_dropped_under_2017_03_01(sent: str, shown: str) -> None:
    event, warnings = parse_one("2017-03-01", Resources=[sent, "vm-2"])
    assert (event.resources, warnings) == ((shown, "vm-2"), ())


@pytest.mark.parametrize("api_version", VERSIONS)
def test_an_underscore_is_part_of_the_name_under_every_other_version(api_version: str) -> None:
    assert parse_one(api_version, Resources=["_vm-1"])[0].resources == ("_vm-1",)


@pytest.mark.parametrize(
    ("name", "resources", "affected"),
    [
        pytest.param("vm-1", ["vm-1"], True, id="the only one"),
        pytest.param("vm-2", ["vm-1", "vm-2"], True, id="one of several"),
        pytest.param("web-1", ["WEB-1"], True, id="S10 Azure writes capitals"),
        pytest.param("Web-1", ["vm-1", "wEB-1"], True, id="S10 IMDS writes capitals"),
        pytest.param("vm-1", ["vm-10"], False, id="S18 vm-1 is not vm-10"),
        pytest.param("vm-10", ["vm-1"], False, id="S18 vm-10 is not vm-1"),
        pytest.param("vm", ["vm-1", "my-vm"], False, id="S18 no part of a name"),
        pytest.param("vm-1", ["vm-1.example.org"], False, id="S18 no longer name"),
        pytest.param("vm-3", ["vm-1", "vm-2"], False, id="S18 another VM's event"),
        pytest.param("vm-1", ["vm-10", "VM-1"], True, id="S18 vm-1 beside vm-10"),
        pytest.param(None, ["vm-1"], None, id="own name unknown"),
        pytest.param("vm-1", [], None, id="no VM named"),
        pytest.param("vm-1", None, None, id="Resources null"),
        pytest.param("vm-1", ..., None, id="Resources missing"),
        pytest.param("vm-1", "vm-1", None, id="Resources a string"),
        pytest.param("vm-1", {"vm-1": "vm-1"}, None, id="Resources an object"),
        pytest.param("vm-1", [None, 7, "vm-1"], True, id="odd members beside a name"),
    ],
)
def test_whether_an_event_affects_this_vm(name: str | None, resources: Any, affected: bool | None) -> None:
    event, warnings = parse_one(Resources=resources)
    assert event.to_dict(NOW, name)["affects_this_vm"] is affected
    odd = not isinstance(resources, list) or not all(isinstance(member, str) for member in resources)
    assert bool(warnings) is (odd or not resources)


@pytest.mark.parametrize("odd", [None, 7, True, "", 1.5, [], ["vm-1"], {"name": "vm-1"}])
def test_a_member_that_is_no_name_stays_a_resource_that_nobody_is(odd: Any) -> None:
    event, warnings = parse_one(Resources=["vm-1", odd, "vm-2"])
    assert (len(event.resources), event.resources[0], event.resources[2]) == (3, "vm-1", "vm-2")
    assert event.resources[1] not in ("", "vm-1", "7", "null", "None")
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("name", "resources", "leader", "leads"),
    [
        ("vm-1", ["vm-1", "vm-2"], "vm-1", True),
        ("VM-1", ["vm-1", "vm-2"], "vm-1", True),
        ("vm-2", ["vm-1", "vm-2"], "vm-1", False),
        ("vm-1", ["vm-10"], "vm-10", False),
        (None, ["vm-1"], "vm-1", None),
        ("vm-1", [], None, None),
        ("vm-1", None, None, None),
    ],
)
def test_the_leader_is_the_first_name(name: str | None, resources: Any, leader: str | None, leads: bool | None) -> None:
    shown = parse_one(Resources=resources)[0].to_dict(NOW, name)
    assert (shown["leader"], shown["is_leader"]) == (leader, leads)


def test_an_event_is_found_by_its_whole_id_in_any_letter_case() -> None:
    document = parse(raw_event("ABC-1"), raw_event("abc-10"))
    found = [document.find(event_id) for event_id in ("abc-1", "ABC-10", "ABC", "abc-100")]
    assert [event and event.event_id for event in found] == ["ABC-1", "abc-10", None, None]


@pytest.mark.parametrize("turn", [1, -1], ids=["started last", "started first"])
@pytest.mark.parametrize("other_id", ["A-1", "a-1"], ids=["same spelling", "other letter case"])
def test_two_events_with_one_id_are_one_that_loses_no_vm_and_has_started(other_id: str, turn: int) -> None:
    entries = [
        raw_event("A-1", Resources=["vm-1", "vm-2"]),
        raw_event(other_id, Resources=["VM-2", "vm-3"], EventStatus="Started", NotBefore=""),
    ][::turn]
    document = parse(raw_event("B-2"), *entries, raw_event("C-3"))
    assert [event.key for event in document.events] == ["b-2", "a-1", "c-3"]
    event = document.events[1]
    assert event.has_started
    assert {name.lower() for name in event.resources} == {"vm-1", "vm-2", "vm-3"}
    assert len(event.resources) == 3
    assert event.leader == entries[0]["Resources"][0]
    assert len(document.warnings) == 1
    assert "a-1" in document.warnings[0].lower()


def test_of_two_events_with_one_id_and_status_the_first_is_shown() -> None:
    for status in ("Scheduled", "Started"):
        document = parse(*(raw_event(EventStatus=status, Description=text) for text in ("first", "second", "third")))
        (event,) = document.events
        assert (event.description, event.resources) == ("first", ("vm-1", "vm-2"))
        assert len(document.warnings) == 2


SHOWN = {
    "event_id": "A-1",
    "event_type": "Reboot",
    "event_status": "Scheduled",
    "resource_type": "VirtualMachine",
    "resources": ["vm-1", "vm-2"],
    "not_before": "2026-11-21T10:15:00Z",
    "not_before_raw": "Sat, 21 Nov 2026 10:15:00 GMT",
    "seconds_until_start": 900,
    "description": "",
    "event_source": "User",
    "duration_seconds": None,
    "affects_this_vm": True,
    "leader": "vm-1",
    "is_leader": False,
}


def test_to_dict_is_what_users_see() -> None:
    event, _warnings = parse_one(Description="", EventSource="user", DurationInSeconds=-1)
    assert event.to_dict(NOW, "VM-2") == SHOWN


def test_to_dict_of_an_event_with_nothing_but_an_id_has_every_key() -> None:
    shown = parse({"EventId": "A-1"}).events[0].to_dict(NOW, None)
    assert json.loads(json.dumps(shown)) == {**dict.fromkeys(SHOWN), "event_id": "A-1", "resources": []}


def test_a_moment_of_another_zone_is_shown_in_utc() -> None:
    assert format_utc(datetime.fromisoformat("2026-11-21T10:00:00+05:30")) == "2026-11-21T04:30:00Z"
    assert format_utc(None) is None
