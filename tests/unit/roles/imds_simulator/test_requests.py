# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which requests IMDS takes, which it refuses and how, and how a VM is told apart."""

from __future__ import annotations

import json
import uuid

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.imds_simulator.conftest import COMPUTE, NAME

EVENTS = "/metadata/scheduledevents"
V = "?api-version=2020-07-01"
INSTANCE = "/metadata/instance?api-version=2021-02-01"


@pytest.mark.parametrize("value", ["true", "True", "TRUE"])
@pytest.mark.parametrize("name", ["Metadata", "metadata"])
def test_the_metadata_header_in_any_case(untouched, name, value):
    assert untouched.get(headers={name: value}).status == 200


@pytest.mark.parametrize("headers", [{}, {"Metadata": "false"}, {"Metadata": ""}, {"Metadata": "1"}])
@pytest.mark.parametrize(
    "path", [EVENTS + "?api-version=2017-08-01", EVENTS + V, EVENTS, INSTANCE, NAME, "/metadata/versions"]
)
def test_without_the_header_everything_newer_than_the_preview_is_refused(untouched, path, headers):
    reply = untouched.get(path=path, headers=headers)
    assert reply.status == 400
    assert json.loads(reply.body) == {"error": "Bad request. Required metadata header not specified"}


def test_the_preview_needs_no_header(stage):
    event = stage.schedule()
    path = EVENTS + "?api-version=2017-03-01"
    assert stage.get(path=path, headers={}).status == 200
    body = json.dumps({"DocumentIncarnation": "2", "StartRequests": [{"EventId": event["event_id"]}]})
    assert stage.simulator.post("web-1", path, body, headers={}).status == 200


def test_a_post_needs_the_header_too(stage):
    body = json.dumps({"StartRequests": [{"EventId": stage.schedule()["event_id"]}]})
    assert stage.simulator.post("web-1", EVENTS + V, body, headers={}).status == 400
    assert stage.control("GET", "/simulator/events")["events"][0]["approved_at"] is None


@pytest.mark.parametrize(
    ("path", "newest"),
    [
        (EVENTS, ["2020-07-01", "2019-08-01", "2019-04-01"]),
        (EVENTS + "?api-version=", ["2020-07-01", "2019-08-01", "2019-04-01"]),
        (EVENTS + "?api-version=latest", ["2020-07-01", "2019-08-01", "2019-04-01"]),
        (EVENTS + "?api-version=2021-02-01", ["2020-07-01", "2019-08-01", "2019-04-01"]),
        ("/metadata/instance", ["2025-04-07", "2024-07-17", "2024-03-15"]),
        ("/metadata/instance?api-version=2020-07-01", ["2025-04-07", "2024-07-17", "2024-03-15"]),
    ],
)
def test_a_missing_or_unknown_version_is_answered_with_the_newest(untouched, path, newest):
    reply = untouched.get(path=path)
    assert reply.status == 400
    assert json.loads(reply.body) == {
        "error": "Bad request. api-version is invalid or was not specified in the request. "
        "For more information refer to aka.ms/azureimds",
        "newest-versions": newest,
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", EVENTS + V, 405),
        ("DELETE", EVENTS + V, 405),
        ("PATCH", EVENTS + V, 405),
        ("HEAD", EVENTS + V, 405),
        ("OPTIONS", EVENTS + V, 405),
        ("PROPFIND", EVENTS + V, 405),
        ("POST", INSTANCE, 405),
        ("POST", NAME, 405),
        ("POST", "/metadata/versions", 405),
        ("GET", "/metadata/nothing?api-version=2020-07-01", 404),
        ("GET", "/metadata/2017-03-01/scheduledevents", 404),
        ("GET", "/", 404),
        ("GET", EVENTS + V + "&api-version=2020-07-01", 400),
        ("GET", EVENTS + V + "&a=1&A=2", 400),
        ("GET", EVENTS + V + "&format=json", 200),
        ("GET", "/metadata/instance/compute/name?api-version=2021-02-01", 400),
        ("GET", "/metadata/instance/compute/name?api-version=2021-02-01&format=json", 400),
        ("GET", INSTANCE + "&format=text", 400),
        ("GET", INSTANCE + "&format=json", 200),
    ],
)
def test_routes_and_verbs(untouched, method, path, status):
    url = untouched.simulator.endpoint("web-1") + path
    reply = untouched.simulator.request(method, url, headers={"Metadata": "true"})
    assert reply.status == status
    if status >= 400 and method != "HEAD":
        assert json.loads(reply.body)["error"]
        assert reply.headers["Content-Type"] == "application/json"


def test_forwarded_requests_are_refused_unless_allowed(stage):
    headers = {"Metadata": "true", "X-Forwarded-For": "10.0.0.9"}
    assert stage.get(headers=headers).status == 400
    assert stage.get(path=NAME, headers=headers).status == 400
    stage.settings(forwarded_for="allowed")
    assert stage.get(headers=headers).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b"[" * 100000,
        b"[]",
        b"{}",
        b'{"StartRequests": {}}',
        b'{"StartRequests": []}',
        b'{"StartRequests": [1]}',
        b'{"StartRequests": [{}]}',
        b'{"StartRequests": [{"EventId": 7}]}',
    ],
)
def test_a_malformed_approval_is_refused(stage, body):
    stage.schedule()
    reply = stage.simulator.post("web-1", EVENTS + V, body)
    assert reply.status == 400
    assert json.loads(reply.body)["error"]
    assert stage.control("GET", "/simulator/events")["events"][0]["approved_at"] is None


@pytest.mark.parametrize("content_type", [None, "application/json", "application/x-www-form-urlencoded"])
def test_the_content_type_of_an_approval_does_not_matter(stage, content_type):
    headers = {"Metadata": "true", **({"Content-Type": content_type} if content_type else {})}
    body = json.dumps({"StartRequests": [{"EventId": stage.schedule()["event_id"]}]})
    assert stage.simulator.post("web-1", EVENTS + V, body, headers).status == 200


def test_instance_metadata(untouched):
    name = untouched.get(path=NAME)
    assert (name.status, name.body, name.headers["Content-Type"]) == (200, b"web-1", "text/plain")
    instance = json.loads(untouched.get(path=INSTANCE).body)
    compute = json.loads(untouched.get(path=COMPUTE).body)
    assert instance["compute"] == compute
    assert compute["name"] == "web-1"
    assert str(uuid.UUID(compute["vmId"])) == compute["vmId"]
    assert compute["resourceId"].endswith("/providers/Microsoft.Compute/virtualMachines/web-1")
    assert compute["osProfile"]["computerName"] == "web-1"
    old = json.loads(untouched.get(path="/metadata/instance/compute?api-version=2017-03-01").body)
    assert not {"vmId", "resourceId", "osProfile", "placementGroupId"} & set(old)
    assert old["name"] == "web-1"
    versions = json.loads(untouched.get(path="/metadata/versions").body)["apiVersions"]
    assert versions[0] == "2017-03-01"
    assert versions[-1] == "2025-04-07"
    assert "2020-07-01" not in versions


def test_each_vm_has_an_id_of_its_own_which_stays(simulator):
    ids = []
    for _start in range(2):
        azure = simulator("--vms", "web-1,web-2")
        ids.append([json.loads(azure.get(vm, COMPUTE).body)["vmId"] for vm in ("web-1", "web-2")])
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2


def test_vms_of_a_scope_share_a_placement_group(untouched):
    groups = {vm: json.loads(untouched.get(vm, COMPUTE).body)["placementGroupId"] for vm in ("web-1", "web-2", "db")}
    assert groups["web-1"] == groups["web-2"] != groups["db"]


def test_a_classic_vm_has_no_name(stage):
    stage.settings(instance_name="missing")
    assert stage.get(path=NAME).status == 404
    assert stage.get(path=COMPUTE).status == 404
    assert "compute" not in json.loads(stage.get(path=INSTANCE).body)
    assert stage.get().status == 200


def test_the_name_in_the_path_is_compared_without_case_and_answered_in_its_own(untouched):
    url = untouched.simulator.url + "/vm/WEB%2D1" + NAME
    reply = untouched.simulator.request("GET", url, headers={"Metadata": "true"})
    assert reply.body == b"web-1"


@pytest.mark.parametrize("path", ["/vm/web-3" + EVENTS + V, "/vm/web" + EVENTS + V, EVENTS + V, "/vm//x", "/vm/", "/"])
def test_who_cannot_be_told_is_told_how(untouched, path):
    reply = untouched.simulator.request("GET", untouched.simulator.url + path, headers={"Metadata": "true"})
    assert reply.status == 404
    assert "/vm/NAME" in json.loads(reply.body)["error"]
    assert "--by-address" in json.loads(reply.body)["error"]


@pytest.mark.parametrize(
    ("vms", "addresses", "name"),
    [
        pytest.param("alone", [], b"alone", id="a single VM needs no prefix"),
        pytest.param("web-1,web-2", ["127.0.0.1=WEB-2", "10.0.0.9=web-1"], b"web-2", id="VMs told apart by address"),
        pytest.param("alone", ["10.0.0.9=alone"], None, id="with an address table a stranger is nobody"),
    ],
)
def test_who_asks_without_a_prefix(start, vms, addresses, name):
    stage = start("--vms", vms, *(word for address in addresses for word in ("--by-address", address)))
    reply = stage.simulator.request("GET", stage.simulator.url + NAME, headers={"Metadata": "true"})
    assert (reply.status, reply.body if name else None) == (200 if name else 404, name)


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"rubbish\r\n\r\n", b"400"),
        (b"POST /x HTTP/1.1\r\nContent-Length: many\r\n\r\n", b"400"),
        (b"POST /x HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        (b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"GET /x" + b"y" * 70000 + b" HTTP/1.1\r\n\r\n", b"414"),
    ],
)
def test_broken_http_is_refused_in_json(untouched, request_text, status):
    head, _blank, body = untouched.send_raw(request_text).partition(b"\r\n\r\n")
    assert head.split()[1] == status
    assert json.loads(body)["error"]


def test_a_connection_serves_several_requests(untouched):
    request = f"GET /vm/web-1{EVENTS}{V} HTTP/1.1\r\nMetadata: true\r\n".encode("ascii")
    answer = untouched.send_raw(request + b"\r\n" + request + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 2


def test_a_client_that_leaves_in_the_middle_does_no_harm(untouched):
    with untouched.connect() as client:
        client.sendall(b"POST /vm/web-1/metadata/scheduledevents HTTP/1.1\r\nContent-Length: 50\r\n\r\n{")
    assert untouched.document()["Events"] == []
