# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of Resource Graph as events: fields that are missing or odd, several rows of one event, which are wanted."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.parser import Warnings
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.events import (
    affected,
    merge,
    read_health,
    read_row,
    read_selection,
    select,
    summarize,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.resource_ids import read_resource_id

NOW = datetime(2026, 11, 21, 9, 45, tzinfo=timezone.utc)
GROUP = "/subscriptions/s-1/resourceGroups/Web/providers/Microsoft.Compute"
VM, POOL, PAIR = (
    f"{GROUP}/virtualMachines/web-1",
    f"{GROUP}/virtualMachineScaleSets/pool",
    f"{GROUP}/availabilitySets/pair",
)


def row(parent=VM, event_id="E-1", name="e-1", **properties):
    content = {
        "EventId": event_id,
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["web-1"],
        "EventStatus": "Scheduled",
        "NotBefore": "Sat, 21 Nov 2026 10:00:00 GMT",
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
        **properties,
    }
    suffix = f"/providers/Microsoft.Maintenance/scheduledevents/{event_id}"
    return {
        "id": parent.replace("resourceGroups", "resourcegroups").lower() + suffix if parent else None,
        "name": name,
        "location": "westeurope",
        "properties": {key: value for key, value in content.items() if value is not None},
    }


def read(*rows):
    """Return the events, how many rows could not be read, and the warnings."""
    warnings = Warnings()
    found = [read_row(each, number, warnings.add) for number, each in enumerate(rows, start=1)]
    return merge([each for each in found if each]), found.count(None), warnings.sentences()


def told(*rows):
    (event,), lost, warnings = read(*rows)
    assert (lost, warnings) == (0, ())
    return event.to_dict(NOW)


def test_an_event_as_users_see_it():
    assert told(row()) == {
        "event_id": "E-1",
        "event_type": "Reboot",
        "event_status": "Scheduled",
        "resource_type": "VirtualMachine",
        "resources": ["web-1"],
        "not_before": "2026-11-21T10:00:00Z",
        "not_before_raw": "Sat, 21 Nov 2026 10:00:00 GMT",
        "seconds_until_start": 900,
        "description": "Host server is undergoing maintenance.",
        "event_source": "Platform",
        "duration_seconds": 9,
        "affects_this_vm": None,
        "leader": "web-1",
        "is_leader": None,
        "outcome": None,
        "vm_resource_ids": ["/subscriptions/s-1/resourceGroups/web/providers/Microsoft.Compute/virtualMachines/web-1"],
        "target_resource_ids": [
            "/subscriptions/s-1/resourceGroups/web/providers/Microsoft.Compute/virtualMachines/web-1"
        ],
        "location": "westeurope",
    }


@pytest.mark.parametrize(
    ("status", "shown", "outcome"),
    [
        ("Completed", "Completed", "completed"),
        ("Canceled", "Canceled", "withdrawn"),
        ("Cancelled", "Canceled", "withdrawn"),
        ("CANCELLED", "Canceled", "withdrawn"),
        ("started", "Started", None),
        ("Paused", "Paused", None),
    ],
)
def test_statuses(status, shown, outcome):
    event = told(row(EventStatus=status))
    assert (event["event_status"], event["outcome"]) == (shown, outcome)
    # When it would have started is of no interest any more.
    assert (event["seconds_until_start"] is None) == (outcome is not None)


@pytest.mark.parametrize(
    ("properties", "name", "value"),
    [
        ({"NotBefore": "", "EventStatus": "Started"}, "seconds_until_start", 0),
        ({"NotBefore": None}, "not_before", None),
        ({"Description": None}, "description", None),
        ({"DurationInSeconds": -1}, "duration_seconds", None),
        ({"EventSource": None}, "event_source", None),
        ({"ScheduledEventApiVersion": "2020-07-01", "Unknown": {"a": 1}}, "event_id", "E-1"),
    ],
)
def test_fields_that_are_missing(properties, name, value):
    assert told(row(**properties))[name] == value


def test_keys_that_begin_with_a_small_letter():
    """As in the schemas of other services"""
    small = row()
    small["properties"] = {key[0].lower() + key[1:]: value for key, value in small["properties"].items()}
    assert told(small) == told(row())


def test_without_an_event_id_the_name_of_the_row_is_it():
    without = row(event_id="e-1")
    del without["properties"]["EventId"]
    assert told(without) == told(row(event_id="e-1"))


@pytest.mark.parametrize(
    "odd", [None, "text", 5, [], {}, {"properties": None}, {"properties": "{}"}, {"properties": {}}]
)
def test_a_row_that_cannot_be_read_costs_no_other(odd):
    events, lost, warnings = read(odd, row())
    assert ([each.event.event_id for each in events], lost, len(warnings)) == (["E-1"], 1, 1)


@pytest.mark.parametrize("parent", [None, "/subscriptions/s-1", f"{GROUP}/disks/web-1", f"{GROUP}/virtualMachines/a b"])
def test_a_row_without_a_resource_is_an_event_all_the_same(parent):
    (event,), lost, warnings = read(row(parent))
    assert (event.targets, event.vms, lost, len(warnings)) == ((), [], 0, 1)


def test_the_resource_may_stand_in_the_properties():
    assert told(row(None, TargetResourceId=VM))["target_resource_ids"] == [VM]


@pytest.mark.parametrize(
    ("parent", "names", "vms"),
    [
        (VM, ["web-1"], ["web-1"]),
        (PAIR, ["web-1", "web-2"], ["web-1", "web-2"]),
        (POOL, ["pool_1"], ["pool_1"]),
    ],
)
def test_vms_of_an_event(parent, names, vms):
    (event,), _lost, _warnings = read(row(parent, Resources=names))
    assert [vm.key for vm in event.vms] == [f"{GROUP}/virtualMachines/{name}".lower() for name in vms]


def test_several_rows_of_one_event_lose_no_vm():
    other = VM.replace("web-1", "web-2")
    event = told(row(), row(other, event_id="e-1", Resources=["web-2"], EventStatus="Started"))
    assert event["resources"] == ["web-2", "web-1"] or event["resources"] == ["web-1", "web-2"]
    assert event["event_status"] == "Started"
    assert len(event["target_resource_ids"]) == 2


def test_an_event_that_has_not_ended_everywhere_has_not_ended():
    other = VM.replace("web-1", "web-2")
    event = told(row(EventStatus="Completed"), row(other, Resources=["web-2"]))
    assert (event["event_status"], event["outcome"], sorted(event["resources"])) == (
        "Scheduled",
        None,
        ["web-1", "web-2"],
    )


def test_a_row_that_changed_between_two_pages_counts_as_it_came_last():
    assert told(row(), row(EventStatus="Completed"))["outcome"] == "completed"


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ["live", "over", "freeze"]),
        ({"event_statuses": ["scheduled"]}, ["live", "freeze"]),
        ({"event_statuses": ["Cancelled"]}, ["over"]),
        ({"event_statuses": ["Canceled", "Scheduled"]}, ["live", "over", "freeze"]),
        ({"event_types": ["Freeze"]}, ["freeze"]),
        ({"event_ids": ["LIVE"]}, ["live"]),
        ({"event_sources": ["User"]}, []),
        ({"due_within": 900}, ["live"]),
    ],
)
def test_selection(options, wanted):
    events, _lost, _warnings = read(
        row(event_id="live"),
        row(event_id="over", EventStatus="Cancelled"),
        row(event_id="freeze", EventType="Freeze", NotBefore="Sat, 21 Nov 2026 11:00:00 GMT"),
    )
    assert [each.event.event_id for each in select(events, read_selection(options), NOW)] == wanted


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"event_statuses": ["Done"]}, "event_statuses must be any of Scheduled, Started, Completed, Canceled"),
        ({"event_types": ["Restart"]}, "event_types must be"),
        ({"due_within": -1}, "due_within must be 0"),
    ],
)
def test_selection_by_a_typing_error(options, said):
    with pytest.raises(ValueError, match=said):
        read_selection(options)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (VM, ["of-vm", "without-names", "of-nobody"]),
        (VM.upper().replace("/SUBSCRIPTIONS", "/subscriptions"), ["of-vm", "without-names", "of-nobody"]),
        (f"{GROUP}/virtualMachines/web-2", ["of-pair", "without-names", "of-nobody"]),
        (PAIR, ["of-pair", "without-names", "of-nobody"]),
        (f"{POOL}/virtualMachines/7", ["of-pool", "without-names", "of-nobody"]),
        (POOL, ["of-pool", "without-names", "of-nobody"]),
        (VM.replace("Web", "web-old"), ["of-nobody"]),
    ],
)
def test_events_of_a_resource(asked, wanted):
    events, _lost, _warnings = read(
        row(event_id="of-vm"),
        row(PAIR, event_id="of-pair", Resources=["web-2", "web-3"]),
        row(POOL, event_id="of-pool", Resources=["pool_7"]),
        row(PAIR.replace("pair", "other"), event_id="without-names", Resources=[]),
        row(None, event_id="of-nobody"),
    )
    found = select(events, read_selection({}), NOW, [read_resource_id(asked)])
    assert [each.event.event_id for each in found] == wanted


def test_health():
    properties = {
        "targetResourceId": VM.lower(),
        "annotationName": "VirtualMachineHostRebootedForMaintenance",
        "category": "Planned",
        "context": "Platform-Initiated",
        "reason": "",
        "summary": 5,
        "occurredTime": "2026-11-21T10:00:00.1234567Z",
    }
    key, said = read_health({"properties": properties})
    assert key == VM.lower()
    assert said["occurred_at"] == "2026-11-21T10:00:00Z"
    assert (said["category"], said["reason"], said["summary"]) == ("Planned", None, None)


@pytest.mark.parametrize("odd", [None, {}, {"properties": []}, {"properties": {"targetResourceId": "/somewhere"}}])
def test_health_of_nobody(odd):
    assert read_health(odd) is None


@pytest.mark.parametrize(
    ("rows", "is_complete", "said"),
    [
        ([], True, "Azure Resource Graph has no such event."),
        (
            [row(), row(event_id="E-2", EventStatus="Completed")],
            True,
            "Azure Resource Graph has 1 Scheduled, 1 Completed.",
        ),
        ([row()], False, "Azure Resource Graph has 1 Scheduled. Its answer is not complete, so there may be more."),
    ],
)
def test_summary(rows, is_complete, said):
    events, _lost, _warnings = read(*rows)
    assert summarize(events, is_complete).startswith(said)


@pytest.mark.parametrize(
    ("parent", "names", "keys"),
    [
        (VM, ["web-1"], {VM.lower(): True}),
        (PAIR, ["WEB-1", "web-2"], {VM.lower(): True, f"{GROUP}/virtualMachines/web-2".lower(): True}),
        # Which VMs a set has is not known.
        (PAIR, [], {VM.lower(): None, f"{GROUP}/virtualMachines/web-2".lower(): None}),
        (None, ["web-1"], "all"),
    ],
)
def test_which_resources_are_affected_and_which_may_be(parent, names, keys):
    other = "/subscriptions/s-1/resourcegroups/db/providers/microsoft.compute/virtualmachines/web-1"
    wanted = {VM.lower(), f"{GROUP}/virtualMachines/web-2".lower(), other}
    event = read_row(row(parent, Resources=names), 1, Warnings().add)
    assert affected(event, wanted) == (dict.fromkeys(wanted) if keys == "all" else keys)
