# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event filter event_grid, loaded as ansible-rulebook loads it, and run by the real one."""

from __future__ import annotations

import json
import runpy

import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.tests.eda.conftest import EDA
from ansible_collections.fleetops.azure_maintenance.tests.eda.event_grid import (
    FIRST,
    FORMS,
    GROUP,
    as_captured,
    cloud_event,
    of_the_page,
    properties,
)
from ansible_collections.fleetops.azure_maintenance.tests.eda.rulebook import rulebook
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program

FILTER = EDA / "plugins" / "event_filter" / "event_grid.py"
RULEBOOK = EDA / "rulebooks" / "event_grid_service_bus.yml"
SECOND = "3da1b9aa-5204-4335-8c33-c54e315dcffe"


@pytest.fixture
def read():
    """The filter, as it is at the start of a rulebook."""
    return runpy.run_path(str(FILTER))["main"]


def told(events):
    return [
        (each["maintenance_event"]["event_id"], each["maintenance_phase"], each["maintenance_outcome"])
        for each in events
    ]


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_the_same_event(read, form):
    (event,) = read({"body": form(), "meta": {"message_id": "of-the-bus"}})
    maintenance = event["maintenance_event"]
    assert told([event]) == [(FIRST, "announced", None)]
    assert event["meta"] == {"message_id": "of-the-bus", "hosts": ["web-1"]}
    assert (maintenance["resources"], maintenance["not_before"]) == (["web-1"], "2039-09-19T18:29:47Z")
    assert (maintenance["event_type"], maintenance["duration_seconds"]) == ("Reboot", None)
    assert (maintenance["affects_this_vm"], maintenance["leader"]) == (None, "web-1")


@pytest.mark.parametrize(
    ("form", "vms", "location"),
    [
        (of_the_page, [f"{GROUP}/virtualMachines/web-1"], "eastus"),
        (as_captured, [f"{GROUP}/virtualMachines/web-1"], "westus2"),
        (FORMS[2], [], None),
    ],
)
def test_of_which_vms_it_is(read, form, vms, location):
    (event,) = read({"body": form()})
    assert [each.lower() for each in event["maintenance_event"]["vm_resource_ids"]] == [each.lower() for each in vms]
    assert event["maintenance_event"]["location"] == location


@pytest.mark.parametrize("delivered", [lambda messages: messages, json.dumps])
def test_messages_about_something_else_in_the_same_delivery_are_passed_on(read, delivered):
    other = {"id": "m-0", "eventType": "Microsoft.Storage.BlobCreated", "data": {"url": "{{ now() }}"}}
    unreadable = of_the_page("m-2", event_id=SECOND, status="Considered")
    meta = {"message_id": "of-the-bus"}
    event, rest = read({"body": delivered([other, of_the_page(), unreadable]), "meta": meta})
    assert told([event]) == [(FIRST, "announced", None)]
    assert [each["id"] for each in rest["body"]] == ["m-0", "m-2"]
    assert rest["body"][0]["data"]["url"] == "{ { now() }}"
    assert rest["meta"] == meta


@pytest.mark.parametrize(
    ("status", "phase", "outcome"),
    [
        ("Scheduled", "announced", None),
        ("Started", "started", None),
        ("Completed", "ended", "completed"),
        ("Canceled", "ended", "withdrawn"),
        ("Cancelled", "ended", "withdrawn"),
    ],
)
def test_phases(read, status, phase, outcome):
    assert told(read({"body": as_captured(status=status)})) == [(FIRST, phase, outcome)]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda message: {"body": message},
        lambda message: {"body": [message]},
        lambda message: {"body": json.dumps(message)},
        lambda message: {"payload": [message], "meta": {}},
        lambda message: message,
    ],
)
def test_what_sources_deliver(read, wrap):
    assert told(read(wrap(cloud_event()))) == [(FIRST, "announced", None)]


def test_a_list_of_messages_is_several_events(read):
    found = read({"body": [of_the_page("m-1"), of_the_page("m-2", event_id=SECOND, status="Started")]})
    assert told(found) == [(FIRST, "announced", None), (SECOND, "started", None)]


def test_a_message_that_comes_twice_is_told_once(read):
    assert len(read({"body": of_the_page("m-1")})) == 1
    assert read({"body": of_the_page("m-1")}) == []
    assert len(read({"body": of_the_page("m-2", NotBefore="Mon, 19 Sep 2039 19:00:00 GMT")})) == 1


def test_no_event_goes_back(read):
    statuses = ["Scheduled", "Started", "Scheduled", "Completed", "Started", "Scheduled"]
    found = [read({"body": of_the_page(f"m-{number}", status=each)}) for number, each in enumerate(statuses)]
    assert [each["maintenance_phase"] for events in found for each in events] == ["announced", "started", "ended"]


@pytest.mark.parametrize(("form", "key"), [(of_the_page, "eventTime"), (cloud_event, "time")])
@pytest.mark.parametrize(
    ("later", "phases"),
    [
        ("2026-07-01T10:00:01.5Z", ["announced", "ended", "announced"]),
        # The announcement comes late, or nobody knows when it was made.
        ("2026-07-01T09:59:59.5Z", ["announced", "ended"]),
        ("soon", ["announced", "ended"]),
        (None, ["announced", "ended"]),
    ],
)
def test_p16_an_event_that_is_announced_anew_after_its_end_is_told(read, form, key, later, phases):
    """Azure may withdraw an event, and list it again with the same id."""
    found = []
    for number, (status, time) in enumerate(
        [("Scheduled", "2026-07-01T09:00:00Z"), ("Canceled", "2026-07-01T10:00:00Z"), ("Scheduled", later)]
    ):
        found += read({"body": {**form(f"m-{number}", status=status), key: time}})
    assert [each["maintenance_phase"] for each in found] == phases


@pytest.mark.parametrize("bad", [as_captured(status="Paused"), as_captured(names=["web*"]), {"text": "another"}])
@pytest.mark.parametrize("order", [1, -1])
def test_p7_a_message_that_cannot_be_read_costs_no_other(read, bad, order):
    messages = [bad, of_the_page("m-2", event_id=SECOND)][::order]
    event, rest = read({"body": messages})
    assert told([event]) == [(SECOND, "announced", None)]
    assert rest == {"body": [bad]}


def test_messages_without_an_id_are_not_taken_for_each_other(read):
    messages = [
        {**as_captured(status=status), "id": None} for status in ("Scheduled", "Started", "Started", "Completed")
    ]
    found = [each["maintenance_phase"] for message in messages for each in read({"body": message})]
    assert found == ["announced", "started", "ended"]


def of_one_vm(vm, status):
    """A message of an event that is sent for each of its VMs."""
    text = json.dumps(as_captured(f"{vm}-{status}", names=[vm], status=status))
    return json.loads(text.replace("virtualmachines/web-1", f"virtualmachines/{vm}"))


def test_an_event_that_is_sent_for_each_of_its_vms_has_phases_for_each(read):
    found = [
        (vm, each["maintenance_phase"])
        for vm in ("web-1", "web-2")
        for status in ("Scheduled", "Started", "Completed")
        for each in read({"body": of_one_vm(vm, status)})
    ]
    assert found == [(vm, phase) for vm in ("web-1", "web-2") for phase in ("announced", "started", "ended")]


def test_p9_its_memory_is_bounded(read):
    for number in range(20_050):
        read({"body": {**as_captured(f"m-{number}", event_id=f"{number:08}{FIRST[8:]}")}})
    latest = read.__globals__["_latest"]
    assert (len(latest._messages), len(latest._phases)) == (10_000, 10_000)


OTHERS = [
    {"body": "text"},
    {"body": "{"},
    {"body": {"data": None}},
    {"body": [{"eventType": "Microsoft.EventGrid.SubscriptionValidationEvent", "data": {"validationCode": "c"}}]},
    {"payload": {"maintenance_phase": "announced"}},
    {"meta": None},
    {"body": {"data": {"resourceInfo": {"type": "microsoft.compute/virtualmachines", "properties": properties()}}}},
    # About maintenance, and of no use to a playbook
    {"body": as_captured(status="Paused")},
    {"body": as_captured(names=[])},
    {"body": as_captured(names=["web-1", "all"])},
    {"body": as_captured(names=["web*"])},
    {"body": as_captured(names=["!web-1"])},
    {"body": as_captured(event_id="")},
]


@pytest.mark.parametrize("event", OTHERS)
def test_what_is_no_event_is_passed_on(read, event):
    assert read(event) == [event]


@pytest.mark.hostile_text
def test_p10_text_is_no_template(read):
    text = "{{ lookup('pipe', 'id') }}"
    (event,) = read({"body": of_the_page(Description=text, EventType=text)})
    assert "{{" not in json.dumps(event)
    (other,) = read({"body": {"text": text}})
    assert "{{" not in json.dumps(other)


def test_the_real_ansible_rulebook_prepares_and_restores(tmp_path):
    """The shipped rulebook with the messages of another source: a Service Bus needs Azure."""
    need_program("java", package="default-jre-headless")
    rules = yaml.safe_load(RULEBOOK.read_text())
    messages = [
        as_captured("m-1"),
        as_captured("m-1"),
        of_one_vm("web-2", "Scheduled"),
        of_the_page("m-2", event_id=SECOND, names=["web-1", "web-2"], status="Completed"),
        as_captured("m-3", status="Started"),
        cloud_event("m-4", status="Cancelled"),
    ]
    payload = [{"body": message, "meta": {"message_id": message["id"]}} for message in messages]
    ((source,), filters) = rules[0]["sources"], rules[0]["sources"][0]["filters"]
    rules[0]["sources"] = [
        {
            "name": source["name"],
            "eda.builtin.generic": {"payload": payload, "event_delay": 1, "shutdown_after": 300},
            "filters": filters,
        }
    ]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    with rulebook(tmp_path, tmp_path / "rules.yml") as running:
        runs = running.wait_for_runs(5)
    found = {
        (run["kind"], run["maintenance_event"]["event_id"], run["maintenance_outcome"], run["host"]) for run in runs
    }
    assert found == {
        ("prepare", FIRST, None, "web-1"),
        ("prepare", FIRST, None, "web-2"),
        ("restore", SECOND, "completed", "web-1"),
        ("restore", SECOND, "completed", "web-2"),
        ("restore", FIRST, "withdrawn", "web-1"),
    }
