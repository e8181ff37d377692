# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that go wrong on purpose, as a client meets them."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.imds_simulator.conftest import (
    COMPUTE,
    EVENTS,
    NAME,
)


@pytest.mark.parametrize(
    ("fault", "status", "content_type", "body"),
    [
        ({"fault": "status", "status": 500}, 500, "application/json", b'{"error":"Simulated fault"}'),
        ({"fault": "status", "status": 410, "body": "gone"}, 410, "application/json", b"gone"),
        ({"fault": "status", "status": 503, "body": "x", "content_type": "text/plain"}, 503, "text/plain", b"x"),
        ({"fault": "status", "status": 204}, 204, "application/json", b""),
        ({"fault": "empty"}, 200, "application/json", b""),
        ({"fault": "garbage", "body": "{]"}, 200, "application/json", b"{]"),
        ({"fault": "body", "body": '{"Events": 7}'}, 200, "application/json", b'{"Events": 7}'),
        ({"fault": "body", "body": "raw \udcff byte"}, 200, "application/json", b"raw \xff byte"),
        ({"fault": "body", "body": ""}, 200, "application/json", b""),
        ({"fault": "throttle"}, 429, "application/json", b'{"error":"Too many requests"}'),
        ({"fault": "redirect"}, 302, "application/json", b""),
        ({"fault": "redirect", "status": 307}, 307, "application/json", b""),
    ],
)
def test_answers_in_place_of_imds(stage, fault, status, content_type, body):
    stage.fault(**fault)
    reply = stage.get()
    assert (reply.status, reply.headers["Content-Type"], reply.body) == (status, content_type, body)
    assert stage.journal()[-1]["fault"] == fault["fault"]
    assert stage.journal()[-1]["status"] == status


def test_garbage_is_no_text_and_no_json(stage):
    stage.fault(fault="garbage")
    with pytest.raises(UnicodeDecodeError):
        json.loads(stage.get().body.decode("utf-8"))


def test_oversize_is_json_of_two_mebibytes(stage):
    stage.fault(fault="oversize")
    body = stage.get().body
    assert len(body) > 2 * 1024 * 1024
    assert json.loads(body)["Events"] == []


@pytest.mark.parametrize(
    ("more", "status", "header"),
    [
        ({}, 421, None),
        ({"status": 421}, 421, None),
        ({"status": 403}, 403, None),
        ({"status": 403, "by_azure": True}, 403, "value"),
    ],
)
def test_the_guest_proxy_agent_refuses(stage, more, status, header):
    stage.fault(fault="proxy_agent", **more)
    reply = stage.get()
    assert (reply.status, reply.body, reply.headers["Connection"]) == (status, b"", "close")
    assert reply.headers["x-ms-azure-host-authorization"] == header


def test_the_guest_proxy_agent_closes_the_connection(stage):
    stage.fault(fault="proxy_agent")
    answer = stage.send_raw(f"GET /vm/web-1{EVENTS} HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_silent_takes_the_request_and_never_answers(stage, method):
    event = stage.schedule()
    stage.fault(fault="silent", methods=[method], times=1)
    body = json.dumps({"StartRequests": [{"EventId": event["event_id"]}]}) if method == "POST" else None
    with pytest.raises(socket.timeout):
        stage.simulator.request(method, stage.simulator.endpoint("web-1") + EVENTS, body, {"Metadata": "true"}, 0.2)
    (entry,) = stage.journal()
    assert (entry["method"], entry["status"], entry["fault"]) == (method, None, "silent")
    assert stage.event(event["event_id"])["approved_at"] is None
    assert any("its approval met the fault" in line for line in stage.lines()) == (method == "POST")
    assert stage.get().status == 200


@pytest.mark.parametrize(("more", "status"), [({}, 200), ({"status": 504}, 504)])
def test_a_proxy_answers_with_its_page(stage, more, status):
    stage.fault(fault="proxy_page", **more)
    reply = stage.get()
    assert (reply.status, reply.headers["Content-Type"]) == (status, "text/html")
    assert b"<html>" in reply.body


def test_who_follows_the_redirect_is_found_out(stage):
    stage.fault(fault="redirect")
    location = stage.get().headers["Location"]
    assert location == "/simulator/redirected"
    assert len(stage.journal()) == 1
    reply = stage.simulator.request("GET", stage.simulator.url + location)
    assert json.loads(reply.body) == {"DocumentIncarnation": 1, "Events": []}
    assert stage.journal()[-1]["path"] == location


def test_throttling_says_when_to_come_back_if_it_is_set_so(stage):
    stage.settings(retry_after=3)
    stage.fault(fault="throttle")
    assert stage.get().headers["Retry-After"] == "3"


def test_headers_are_added_or_replaced(stage):
    stage.fault(fault="throttle", headers={"Retry-After": "9", "content-type": "text/x"})
    reply = stage.get()
    assert (reply.headers["Retry-After"], reply.headers.get_all("Content-Type")) == ("9", ["text/x"])


def test_truncated_breaks_off_below_the_length_it_promised(stage):
    stage.fault(fault="truncated")
    with pytest.raises(http.client.IncompleteRead):
        stage.get()


def test_reset_breaks_the_connection(stage):
    stage.fault(fault="reset", times=5)
    for _number in range(5):
        with pytest.raises(ConnectionResetError):
            stage.get()
    assert stage.get().status == 200


@pytest.mark.parametrize("kind", ["reset", "truncated"])
def test_a_spoiled_answer_to_an_approval_has_had_its_effect(stage, kind):
    event = stage.schedule()
    stage.settings(post_body="document")
    stage.fault(fault=kind, methods=["POST"])
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        stage.approve(event["event_id"])
    assert stage.event(event["event_id"])["approved_by"] == "web-1"


@pytest.mark.parametrize("fault", [{"fault": "status", "status": 500}, {"fault": "empty"}])
def test_an_approval_that_met_a_fault_in_its_way_has_none(stage, fault):
    event = stage.schedule()
    stage.fault(**fault, methods=["POST"])
    stage.approve(event["event_id"])
    assert stage.event(event["event_id"])["approved_at"] is None
    assert any("its approval met the fault" in line for line in stage.lines())


def test_slow_sends_byte_by_byte(stage):
    stage.fault(fault="slow", seconds=0.002)
    started = time.monotonic()
    body = stage.get().body
    assert json.loads(body)["Events"] == []
    assert time.monotonic() - started >= 0.002 * len(body)


def test_hold_answers_late_with_what_is_true_then(stage):
    stage.fault(fault="hold", seconds=0.2)
    started = time.monotonic()
    assert stage.get().status == 200
    assert time.monotonic() - started >= 0.2


@pytest.mark.parametrize(
    "fault", [{"fault": "hold", "seconds": 1000}, {"fault": "slow", "seconds": 100}, {"fault": "silent"}]
)
def test_a_stopping_simulator_does_not_wait_for_a_held_answer(stage, fault):
    stage.fault(**fault)

    def ask():
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            stage.get()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    stage.wait_for_request()
    stage.control("POST", "/simulator/stop")
    assert stage.simulator.process.wait(600) == 0
    thread.join(600)
    assert not thread.is_alive()


def test_times_are_counted_down(stage):
    stage.fault(fault="empty", times=2)
    assert stage.control("GET", "/simulator/faults")["faults"][0]["times"] == 2
    assert [stage.get().body == b"" for _number in range(3)] == [True, True, False]
    assert stage.control("GET", "/simulator/faults") == {"faults": []}


def test_times_hold_for_many_clients_at_once(stage):
    stage.fault(fault="empty", times=10)
    bodies = []
    threads = [threading.Thread(target=lambda: bodies.append(stage.get().body)) for _number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(body == b"" for body in bodies) == [False] * 20 + [True] * 10


def test_the_first_match_wins(stage):
    faults = [{"fault": "status", "status": status, "times": 1} for status in (500, 410)]
    stage.control("POST", "/simulator/faults", faults)
    assert [stage.get().status for _number in range(3)] == [500, 410, 200]


def test_faults_pick_their_vm_method_and_path(stage):
    event = stage.schedule(resources=["web-1", "web-2"])
    fault = {"fault": "status", "status": 500}
    stage.fault(**fault, vms=["WEB-1"])
    assert (stage.get("web-1").status, stage.get("web-2").status) == (500, 200)
    assert stage.get("web-1", NAME).status == 200
    stage.control("DELETE", "/simulator/faults")
    assert stage.get("web-1").status == 200

    stage.fault(**fault, methods=["POST"])
    assert (stage.get().status, stage.approve(event["event_id"]).status) == (200, 500)
    stage.control("DELETE", "/simulator/faults")

    stage.fault(**fault, path="instance")
    assert [stage.get(path=path).status for path in (EVENTS, COMPUTE, NAME)] == [200, 500, 500]
    assert stage.get(path="/metadata/versions").status == 200
    stage.control("DELETE", "/simulator/faults")

    stage.fault(**fault, path="any")
    assert {stage.get(path=path).status for path in (COMPUTE, NAME, "/metadata/versions")} == {500}


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ({}, "fault"),
        ({"fault": "flood"}, "flood"),
        ({"fault": "status"}, "status"),
        ({"fault": "status", "status": 99}, "status"),
        ({"fault": "status", "status": "500"}, "status"),
        ({"fault": "hold"}, "seconds"),
        ({"fault": "hold", "seconds": -1}, "seconds"),
        ({"fault": "hold", "seconds": True}, "seconds"),
        ({"fault": "slow"}, "seconds"),
        ({"fault": "body"}, "body"),
        ({"fault": "body", "body": {"Events": []}}, "body"),
        ({"fault": "body", "body": "\ud800"}, "body"),
        ({"fault": "empty", "body": "x"}, "body"),
        ({"fault": "empty", "times": 0}, "times"),
        ({"fault": "empty", "vms": "web-1"}, "vms"),
        ({"fault": "empty", "vms": ["web-9"]}, "web-9"),
        ({"fault": "empty", "methods": ["FETCH"]}, "FETCH"),
        ({"fault": "empty", "path": "/"}, "path"),
        ({"fault": "empty", "headers": {"A": 1}}, "headers.A"),
        ({"fault": "empty", "headers": {"A": "x\r\nB: y"}}, "headers.A"),
        ({"fault": "empty", "headers": {"A\r\nB": "x"}}, "header"),
        ({"fault": "redirect", "status": 200}, "status"),
        ({"fault": "proxy_agent", "status": 502}, "status"),
        ({"fault": "proxy_agent", "by_azure": True}, "by_azure"),
        ({"fault": "proxy_agent", "status": 403, "by_azure": "yes"}, "by_azure"),
        ({"fault": "silent", "seconds": 1}, "seconds"),
        ({"fault": "empty", "colour": "red"}, "colour"),
        ([{"fault": "empty"}, {"fault": "emtpy"}], "fault 2"),
        ("empty", "object"),
    ],
)
def test_a_wrong_fault_is_refused_and_none_is_set(untouched, fault, word):
    reply = untouched.simulator.request("POST", untouched.simulator.url + "/simulator/faults", json.dumps(fault))
    assert reply.status == 400
    assert word in json.loads(reply.body)["error"]
    assert untouched.control("GET", "/simulator/faults") == {"faults": []}
