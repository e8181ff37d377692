# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in answers Microsoft's own clients, and refuses what Azure might let through."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.acknowledge import SPEC, acknowledge
from ansible_collections.fleetops.azure_maintenance.tests.azure import stand_in
from ansible_collections.fleetops.azure_maintenance.tests.azure.stand_in import EVENT, VM
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.identity import ClientSecretCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.maintenance import MaintenanceManagementClient
from azure.mgmt.resourcegraph import ResourceGraphClient
from azure.mgmt.resourcegraph.models import QueryRequest, QueryRequestOptions

SCALE_SET = VM.replace("virtualMachines/web-1", "virtualMachineScaleSets/pool")
AVAILABILITY_SET = VM.replace("virtualMachines/web-1", "availabilitySets/pair")
FIRST, SECOND = EVENT, "743c15d8-a994-46fc-93af-b84ee33f9a14"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
GOOD = "resources?api-version=2021-03-01"
QUERY = """maintenanceresources
| where type == "microsoft.maintenance/scheduledevents"
| project id, name, properties
| order by id asc"""


@pytest.fixture
def options(azure, certificate):
    """What each of Microsoft's clients is given."""
    tls = {"connection_verify": str(certificate.with_suffix(".crt"))}
    credential = ClientSecretCredential(
        stand_in.TENANT,
        stand_in.CLIENT_ID,
        stand_in.SECRET,
        authority=azure.url,
        disable_instance_discovery=True,
        **tls,
    )
    scopes = [f"{stand_in.AUDIENCE}/.default"]
    return {"credential": credential, "base_url": azure.url, "credential_scopes": scopes, "retry_total": 0, **tls}


@pytest.fixture
def maintenance(options):
    """Microsoft's client for the approval of events."""
    return MaintenanceManagementClient(subscription_id=stand_in.SUBSCRIPTION, **options).scheduled_events


def test_resource_graph_in_pages(azure, options):
    for number in range(5):
        azure.add_event(f"{number:08}{FIRST[8:]}", VM, ["web-1"])
    azure.page_size = 2
    client = ResourceGraphClient(**options)
    names, token, pages = [], None, 0
    while pages == 0 or token:
        asked = QueryRequestOptions(top=1000, skip_token=token)
        page = client.resources(QueryRequest(query=QUERY, subscriptions=[stand_in.SUBSCRIPTION], options=asked))
        names += [row["name"][:8] for row in page.data]
        token, pages = page.skip_token, pages + 1
        assert page.total_records == 5
        assert page.result_truncated == "false"
    assert (pages, names) == (3, [f"{number:08}" for number in range(5)])


def test_acknowledge(azure, maintenance):
    azure.add_event(FIRST, VM, ["web-1"])
    answer = maintenance.acknowledge("web", "virtualMachines", "web-1", FIRST)
    assert answer.value == "Successfully Approved"
    assert [event_id for _parent, event_id in azure.approved] == [FIRST]


def test_scheduled_event_acknowledge_sends_the_same(principal, run, maintenance):
    for each in (FIRST, SECOND):
        principal.add_event(each, VM, ["web-1"])
    for event_ids in ([FIRST], [FIRST, SECOND]):
        run(SPEC, acknowledge, event_ids=event_ids, resources_ready=["web-1"])
    maintenance.acknowledge("web", "virtualMachines", "web-1", FIRST)
    maintenance.acknowledge_list("web", "virtualMachines", "web-1", {"value": [FIRST, SECOND]})
    posts = principal.requests("/scheduledevents")
    sent = [(each["method"], each["path"].lower(), each["query"], each["body"]) for each in posts]
    assert sent[:2] == sent[2:]


@pytest.mark.parametrize(
    ("event_id", "status", "said"),
    [
        pytest.param(UNKNOWN, 404, "Scheduled event not found", id="an unknown event"),
        pytest.param("first", 400, "ScheduledEventId has to be GUID", id="no GUID"),
    ],
)
def test_acknowledge_of_what_is_no_event(maintenance, event_id, status, said):
    with pytest.raises(HttpResponseError, match=said) as told:
        maintenance.acknowledge("web", "virtualMachines", "web-1", event_id)
    assert told.value.status_code == status


def test_acknowledge_of_several(azure, maintenance):
    for event_id in (FIRST, SECOND):
        azure.add_event(event_id, SCALE_SET, ["pool_1"])
    arguments = ("web", "virtualMachineScaleSets", "pool")
    assert maintenance.acknowledge_list(*arguments, {"value": [FIRST, SECOND]}).value
    with pytest.raises(HttpResponseError) as told:
        # To this client a 207 is no success either.
        maintenance.acknowledge_list(*arguments, {"value": [FIRST, UNKNOWN]})
    assert told.value.status_code == 207
    assert [each.target for each in told.value.error.details] == [UNKNOWN]


def test_policies(azure, options):
    azure.add_resource(VM)
    azure.add_resource(SCALE_SET)
    azure.add_resource(AVAILABILITY_SET)
    client = ComputeManagementClient(subscription_id=stand_in.SUBSCRIPTION, polling_interval=0, **options)
    policy = {"userInitiatedReboot": {"automaticallyApprove": True}}
    found = client.virtual_machines.get("web", "web-1")
    change = {"properties": {"scheduledEventsPolicy": policy}}
    kept = {"etag": found.etag, "match_condition": MatchConditions.IfNotModified}
    azure.asynchronous = "Succeeded"
    client.virtual_machines.begin_update("web", "web-1", change, **kept).result()
    azure.asynchronous = False
    assert azure.resources[VM.lower()]["properties"]["scheduledEventsPolicy"] == policy
    with pytest.raises(HttpResponseError) as told:
        client.virtual_machines.begin_update("web", "web-1", change, **kept)
    assert told.value.status_code == 412
    client.availability_sets.update("web", "pair", change)
    assert azure.resources[AVAILABILITY_SET.lower()]["properties"]["scheduledEventsPolicy"] == policy
    with pytest.raises(HttpResponseError) as told:
        client.virtual_machine_scale_sets.begin_update("web", "pool", {"properties": {}})
    assert told.value.status_code == 428


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("resources?api-version=2018-09-01-preview", {"query": QUERY}, 400, "InvalidApiVersionParameter"),
        ("resources", {"query": QUERY}, 400, "MissingApiVersionParameter"),
        (GOOD, {"query": QUERY, "subscriptions": ["s"], "top": 5}, 400, "InvalidRequestContent"),
        (GOOD, {"query": QUERY}, 400, "BadRequest"),
        (GOOD, {"query": "resources", "subscriptions": ["s"]}, 400, "BadRequest"),
    ],
)
def test_stricter_than_azure(azure, options, certificate, path, body, status, code):
    token = options["credential"].get_token(*options["credential_scopes"]).token
    url = f"{azure.url}/providers/Microsoft.ResourceGraph/{path}"
    assert _ask(url, token, body, certificate) == (status, code)


def test_a_token_for_another_audience_is_refused(azure, options, certificate):
    token = options["credential"].get_token("https://vault.stand-in.example/.default").token
    url = f"{azure.url}/providers/Microsoft.ResourceGraph/{GOOD}"
    body = {"query": QUERY, "subscriptions": [stand_in.SUBSCRIPTION]}
    assert _ask(url, token, body, certificate) == (401, "InvalidAuthenticationTokenAudience")


def _ask(url, token, body, certificate):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    context = ssl.create_default_context(cafile=certificate.with_suffix(".crt"))
    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.urlopen(request, context=context, timeout=10)
    return told.value.code, json.load(told.value)["error"]["code"]
