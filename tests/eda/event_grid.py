# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Event Grid's messages about scheduled events in the forms in which they were seen."""

from __future__ import annotations

GROUP = "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/web/providers/Microsoft.Compute"
FIRST = "743c15d8-a994-46fc-93af-b84ee33f9a14"
_EVENTS = "/providers/microsoft.maintenance/scheduledevents"


def properties(event_id=FIRST, status="Scheduled", names=("web-1",), **more):
    return {
        "EventId": event_id,
        "EventStatus": status,
        "EventType": "Reboot",
        "EventSource": "Platform",
        "NotBefore": "" if status != "Scheduled" else "Mon, 19 Sep 2039 18:29:47 GMT",
        "DurationInSeconds": -1,
        "Description": "Virtual machine is undergoing maintenance",
        "ResourceType": "VirtualMachine",
        "Resources": list(names),
        **more,
    }


def of_the_page(message_id="m-1", **event):
    """As Microsoft's page has it: the subject ends with the event."""
    content = properties(**event)
    name = content["EventId"]
    place = f"{GROUP}/virtualMachineScaleSets/pool{_EVENTS}/{name}"
    info = {"id": place, "name": name, "type": "microsoft.maintenance/scheduledEvents", "location": "eastus"}
    return {
        "id": message_id,
        "topic": "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955",
        "subject": place,
        "data": {"resourceInfo": {**info, "properties": content}, "apiVersion": "2024-07-01"},
        "eventType": "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted",
        "dataVersion": "3.0",
        "metadataVersion": "1",
        "eventTime": "2026-06-26T18:41:00.9584103Z",
    }


def as_captured(message_id="m-1", **event):
    """As a user captured it in 2024: the subject is the VM."""
    content = properties(**event)
    name = content["EventId"]
    vm = f"{GROUP.lower()}/virtualmachines/web-1"
    info = {"id": f"{vm}{_EVENTS}/{name}", "location": "westus2", "name": name, "tags": {}}
    return {
        "data": {
            "apiVersion": "2020-03-01",
            "operationalInfo": {"resourceEventTime": "2026-12-04T18:01:13.2675752Z"},
            "resourceInfo": {**info, "type": "microsoft.maintenance/scheduledevents", "properties": content},
        },
        "dataVersion": "1",
        "eventTime": "2026-12-04T18:01:13.2675752Z",
        "eventType": "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted",
        "id": message_id,
        "metadataVersion": "1",
        "subject": vm,
        "topic": "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955",
    }


def internal(message_id="m-1", **event):
    """As samples of Azure's own services have it: a list of resources, by aliases."""
    content = properties(**event)
    alias = "/providers/microsoft.idmapping/aliases/default/namespaces/microsoft.compute/types/virtualmachines"
    place = (
        f"{alias}/identifiers/vmssidorvmid/values/b182bb9d-3376-4f30-81df-a25fd77c97c8{_EVENTS}/{content['EventId']}"
    )
    resource = {"id": place, "name": content["EventId"], "type": "microsoft.maintenance/scheduledevents"}
    return {
        "id": message_id,
        "topic": "System",
        "subject": place,
        "eventType": "microsoft.maintenance/scheduledevents/write",
        "eventTime": "2026-03-21T18:19:00.58629+00:00",
        "data": {
            "resourcesContainer": "Inline",
            "publisherInfo": "microsoft.maintenance",
            "resources": [{"resourceId": place, "armResource": {**resource, "zones": None, "properties": content}}],
        },
    }


def cloud_event(message_id="m-1", **event):
    """The same in the schema of CloudEvents."""
    message = of_the_page(message_id, **event)
    return {
        "specversion": "1.0",
        "id": message_id,
        "source": message["topic"],
        "subject": message["subject"],
        "type": message["eventType"],
        "time": message["eventTime"],
        "data": message["data"],
    }


FORMS = (of_the_page, as_captured, internal, cloud_event)
