# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulator whose time stands still, with shorthands for the requests that nearly every test makes."""

from __future__ import annotations

import json
import socket
import time

import pytest

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
COMPUTE = "/metadata/instance/compute?api-version=2021-02-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"


class Stage:
    """A simulator under the manual clock."""

    def __init__(self, simulator):
        self.simulator = simulator
        self.control = simulator.control

    def schedule(self, event_type="Reboot", resources=("web-1",), **more):
        body = {"event_type": event_type, "resources": list(resources), **more}
        return self.control("POST", "/simulator/events", body)

    def event(self, event_id):
        events = self.control("GET", "/simulator/events")["events"]
        return next(event for event in events if event["event_id"] == event_id)

    def document(self, vm="web-1", version="2020-07-01"):
        reply = self.simulator.get(vm, f"/metadata/scheduledevents?api-version={version}")
        assert reply.status == 200, reply
        return json.loads(reply.body)

    def statuses(self, vm="web-1"):
        return [event["EventStatus"] for event in self.document(vm)["Events"]]

    def approve(self, *event_ids, vm="web-1", **more):
        body = {"StartRequests": [{"EventId": event_id} for event_id in event_ids], **more}
        return self.simulator.post(vm, EVENTS, json.dumps(body))

    def advance(self, seconds):
        return self.control("POST", "/simulator/clock", {"advance": seconds})

    def settings(self, **changes):
        return self.control("PATCH", "/simulator/settings", changes)

    def fault(self, **fault):
        return self.control("POST", "/simulator/faults", fault)

    def get(self, vm="web-1", path=EVENTS, headers=None):
        return self.simulator.get(vm, path, headers)

    def connect(self):
        return socket.create_connection(("127.0.0.1", int(self.simulator.url.rsplit(":", 1)[1])), timeout=600)

    def send_raw(self, request):
        """Send these bytes, and return what comes until the connection is closed."""
        with self.connect() as client:
            client.sendall(request)
            with client.makefile("rb") as answer:
                return answer.read()

    def journal(self):
        return self.control("GET", "/simulator/journal")["requests"]

    def lines(self):
        return self.control("GET", "/simulator/timeline")["lines"]

    def wait_for_request(self, number=1):
        """Until so many requests have come, answered or not; the only wait on real time, and bounded."""
        deadline = time.monotonic() + 600
        while len(self.journal()) < number:
            assert time.monotonic() < deadline, "the request never came"
            time.sleep(0.01)


@pytest.fixture
def start(simulator):
    """Start a simulator with these further arguments under the manual clock."""
    return lambda *arguments: Stage(simulator("--clock", "manual", *arguments))


ARGUMENTS = ("--clock", "manual", "--vms", "web-1,web-2,db", "--scope", "back=db")


@pytest.fixture
def stage(simulator):
    return Stage(simulator(*ARGUMENTS))


@pytest.fixture(scope="module")
def untouched(lasting_simulator):
    """For requests that are refused or only look: one simulator for all of them."""
    return Stage(lasting_simulator(*ARGUMENTS))
