# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenarios that every checker should hold, on the running one: what Azure was sent, what ran, what status says.

The simulator's clock stands still unless a test moves it. The VM's own clock shows the same at the beginning, and
stands still but while a check sleeps between two polls.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import parse_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import poller
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import lock
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import machine as machine_module
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.machine import Machine

tmp_path = machine_module.tmp_path

ANSIBLE_PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")

# As it is before a test changes it
USUAL_ANSWER = poller.USUAL_ANSWER
SOON = {"notice": 600}
IN_TWO_HOURS = {"notice": 7200}
LIVE_MIGRATION = "Virtual machine is being paused because of a memory-preserving Live Migration operation."
NEVER_ANSWERS = {"description": r"^(\w+\s?)+[.]?$"}


class Azure:
    """The simulator, with shorthands for what the tests do."""

    def __init__(self, simulator):
        self.simulator = simulator
        self.control = simulator.control

    def announce(self, event_type="Reboot", resources=("web-1",), **more):
        event = self.control(
            "POST", "/simulator/events", {"event_type": event_type, "resources": list(resources), **more}
        )
        return event["event_id"]

    def withdraw(self, event_id):
        self.control("DELETE", f"/simulator/events/{event_id}")

    def advance(self, seconds):
        self.control("POST", "/simulator/clock", {"advance": seconds})

    def now(self):
        """What its clock shows, in Unix time."""
        return read_time(self.control("GET", "/simulator/clock")["time"])

    def settings(self, **changes):
        self.control("PATCH", "/simulator/settings", changes)

    def fault(self, **fault):
        self.control("POST", "/simulator/faults", fault)

    def mend(self):
        self.control("DELETE", "/simulator/faults")

    def answer(self, *events):
        """Answer with this document from now on."""
        body = json.dumps({"DocumentIncarnation": 7, "Events": events})
        self.mend()
        self.fault(fault="body", body=body, methods=["GET"])

    def requests(self, method):
        journal = self.control("GET", "/simulator/journal")["requests"]
        return [one for one in journal if one["method"] == method and "/scheduledevents" in one["path"]]

    @property
    def approved(self):
        """The ids in each POST, in order."""
        bodies = [json.loads(one["body"]) for one in self.requests("POST")]
        return [[start["EventId"] for start in body["StartRequests"]] for body in bodies]

    def polls(self):
        return len(self.requests("GET"))


def read_time(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()


def raw_event(event_id="A1", **changes):
    return {
        "EventId": event_id,
        "EventType": "Reboot",
        "EventStatus": "Scheduled",
        "ResourceType": "VirtualMachine",
        "Resources": ["web-1"],
        "NotBefore": "Sat, 21 Nov 2099 10:15:00 GMT",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
        **changes,
    }


@pytest.fixture
def azure(simulator):
    return Azure(simulator("--clock", "manual", "--vms", "web-1,web-2"))


@pytest.fixture
def machines(tmp_path):
    made = []

    def make(azure, resource_name, name="vm"):
        made.append(Machine(tmp_path / "machines" / name, azure.simulator.endpoint(resource_name), azure.now()))
        return made[-1]

    yield make
    for machine in made:
        machine.close()


@pytest.fixture
def vm(azure, machines):
    """The VM web-1 with a rule for everything."""
    machine = machines(azure, "web-1")
    machine.configure(machine.rule())
    return machine


def begin_restore(azure, vm, *more, **rule):
    """Withdraw an event that was prepared for; its restore has begun, and hangs until it is released."""
    vm.configure(vm.rule(on_ended=[vm.held_step("restore"), *more], **rule))
    event = azure.announce()
    vm.check()
    azure.withdraw(event)
    vm.check_until_ran(2)
    return event


def test_s1_a_failed_preparation_is_not_approved(azure, vm):
    vm.configure(vm.rule(on_announced=[vm.step("prepare", "false")]))
    event = azure.announce()
    vm.check()
    vm.check()
    assert azure.approved == []
    assert vm.ran == [f"prepare announced {event}"]
    assert [(one["phase"], one["state"]) for one in vm.event(event)["responses"]] == [("announced", "failed")]
    assert [one["state"] for one in vm.responses()[0]["steps"]] == ["failed", "pending"]
    assert "retry 1" in vm.run("status").stdout


@pytest.mark.skipif(not ANSIBLE_PLAYBOOK.exists(), reason="a target's Python has no ansible-core")
def test_b1_p13_a_playbook_that_ran_nothing_here_is_not_approved_until_it_does(azure, vm):
    drain = vm.folder / "playbooks" / "drain.yml"
    drain.write_text("- hosts: web\n  tasks: [{ansible.builtin.debug: {msg: drained}}]\n")
    rule = vm.rule(on_announced=[{"playbook": str(drain)}])
    vm.configure(rule, ansible_playbook=str(ANSIBLE_PLAYBOOK))
    event = azure.announce()
    vm.check()
    assert azure.approved == []
    (response,) = vm.responses()
    assert "hosts: web" in response["message"]
    drain.write_text("- hosts: localhost\n  gather_facts: false\n  tasks: [{ansible.builtin.debug: {msg: drained}}]\n")
    vm.retry(1)
    assert azure.approved == [[event]]


def test_s1_the_retry_that_succeeds_approves(azure, vm):
    good = vm.folder / "good"
    vm.configure(vm.rule(on_announced=[vm.step("first"), vm.step("prepare", f"test -e '{good}'")]))
    event = azure.announce()
    vm.check()
    good.touch()
    vm.retry(1)
    assert azure.approved == [[event]]
    assert vm.ran == [f"first announced {event}", f"prepare announced {event}", f"prepare announced {event}"]
    assert vm.responses()[0]["state"] == "succeeded"


def test_p2_a_preparation_that_waits_for_the_fleet_is_retried_once_after_a_boot(azure, vm):
    vm.configure(vm.rule(on_announced=[vm.step("first"), vm.step("prepare")]))
    event = azure.announce(resources=["web-1", "web-2"], notice=3600)
    vm.check()
    prepared = [f"first announced {event}", f"prepare announced {event}"]
    assert vm.run("retry", "1").returncode == 2
    vm.boot()
    vm.check()
    assert vm.ran == prepared
    vm.retry(1)
    assert vm.ran == [*prepared, *prepared]
    (response,) = vm.status()["events"][0]["responses"]
    assert (response["state"], [step["in_this_boot"] for step in response["steps"]]) == ("succeeded", [True] * 3)
    assert vm.event(event)["waiting_for"] == ["web-2"]
    assert vm.run("retry", "1").returncode == 2
    assert azure.approved == []


def test_s2_of_two_events_only_the_due_one_is_acted_on(azure, vm):
    vm.configure(vm.rule(lead_time=900))
    later, due = azure.announce(**IN_TWO_HOURS), azure.announce(**SOON)
    vm.check()
    assert azure.approved == [[due]]
    assert vm.ran == [f"prepare announced {due}"]
    assert [one["state"] for one in vm.event(later)["responses"]] == ["planned"]


def test_s3_a_started_event_is_neither_approved_nor_answered_twice(azure, vm):
    event = azure.announce(event_status="Started")
    for _number in range(3):
        vm.check()
    assert azure.approved == []
    assert vm.ran == [f"note started {event}"]
    azure.advance(60)
    vm.check()
    assert vm.ran == [f"note started {event}", f"restore ended {event} completed"]


def test_s3_an_event_that_starts_while_it_is_prepared_for_is_not_approved(azure, vm):
    vm.configure(vm.rule(on_announced=[vm.held_step("prepare")]))
    event = azure.announce(notice=60, started_for=600)
    vm.check_until_ran(1)
    azure.advance(61)
    vm.release()
    vm.wait_for_units()
    vm.check()
    assert azure.approved == []
    assert vm.ran == [f"prepare announced {event}", f"note started {event}"]
    assert vm.event(event)["approval"] is None


def test_s4_an_event_of_two_vms_is_left_to_the_fleet(azure, vm):
    event = azure.announce(resources=["web-1", "web-2"])
    vm.check()
    vm.check()
    assert azure.approved == []
    assert vm.ran == [f"prepare announced {event}"]
    found = vm.status()["events"][0]
    assert (found["approval"], found["waiting_for"]) == ("waiting", ["web-2"])


def test_s5_kill_9_in_the_middle_of_a_step(azure, vm):
    vm.configure(vm.rule(on_announced=[vm.step("first"), vm.held_step("prepare")]))
    event = azure.announce(started_for=600)
    check = vm.start("check")
    vm.wait(lambda: len(vm.ran) == 2, "the preparation does not begin")
    vm.kill_all()
    assert check.returncode == -9
    vm.release()
    vm.check_until_quiet()
    # The step that was interrupted ran again, the one that had finished did not.
    assert vm.ran == [f"first announced {event}", f"prepare announced {event}", f"prepare announced {event}"]
    assert azure.approved == [[event]]
    azure.advance(2)
    vm.check_until_quiet()
    assert vm.ran[3:] == [f"note started {event}"]


def test_d4_a_vm_is_not_put_back_while_another_event_of_it_is_started(azure, vm):
    first = azure.announce()
    vm.check()
    second = azure.announce(event_status="Started", started_for=600)
    vm.check()
    azure.withdraw(first)
    vm.check()
    vm.check()
    assert vm.ran == [f"prepare announced {first}", f"note started {second}"]
    assert f"waits for the end of Reboot {second[:8]}," in " ".join(vm.run("status").stdout.split())
    azure.advance(700)
    vm.check_until_quiet()
    assert vm.ran[2:] == [f"restore ended {first} completed", f"restore ended {second} completed"]


def test_d3_what_takes_out_of_service_waits_until_what_puts_back_has_stopped(azure, vm):
    first = begin_restore(azure, vm, vm.step("more"))
    second = azure.announce(event_status="Started", started_for=600)
    assert vm.run("check", "--once").returncode == 0
    assert vm.run("check", "--once").returncode == 0
    assert vm.ran[1:] == [f"restore ended {first} completed"]
    vm.release()
    vm.wait_for_units()
    vm.check()
    vm.check()
    # What is left of the restore waits for the end of the second event.
    assert vm.ran[2:] == [f"note started {second}"]
    azure.advance(700)
    vm.check_until_quiet()
    assert vm.ran[3] == f"more ended {first} completed"


def test_s5_the_reboot_itself(azure, vm):
    event = azure.announce(started_for=30)
    vm.check()
    assert azure.approved == [[event]]
    vm.boot()
    azure.advance(60)
    vm.check_until_quiet()
    vm.check()
    assert vm.ran == [f"prepare announced {event}", f"restore ended {event} completed"]
    assert azure.approved == [[event]]


def test_s5_a_reboot_in_the_middle_of_the_preparation_that_ends_the_event(azure, vm):
    vm.configure(vm.rule(on_announced=[vm.held_step("prepare")]))
    event = azure.announce(notice=60, started_for=30)
    vm.check_until_ran(1)
    vm.boot()
    vm.release()
    azure.advance(300)
    for _number in range(3):
        vm.check()
    # What was to be prepared for is over, so it is put back into service and not prepared again.
    assert vm.ran == [f"prepare announced {event}", f"restore ended {event} completed"]
    assert azure.approved == []


def test_s6_an_error_with_a_json_body_is_no_answer(azure, vm):
    event = azure.announce()
    vm.check()
    azure.fault(fault="status", status=500, body='{"DocumentIncarnation": 9, "Events": []}', methods=["GET"])
    vm.check(expected=1)
    status = vm.status()
    assert status["poll_errors"] == {"http_status": 1}
    assert "500" in status["last_error"]["message"]
    assert [(one["event_id"], one["phase"]) for one in status["events"]] == [(event, "announced")]
    azure.mend()
    vm.check()
    assert vm.status()["last_error"] is None
    assert vm.ran == [f"prepare announced {event}"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"fault": "proxy_agent"}, "http_status"),
        ({"fault": "proxy_agent", "status": 403}, "http_status"),
        ({"fault": "proxy_agent", "status": 403, "by_azure": True}, "http_status"),
        ({"fault": "silent"}, "timeout"),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_g1_p4_a_proxy_agent_that_refuses_and_a_silent_service_end_nothing(azure, vm, fault, reason):
    event = azure.announce()
    vm.check()
    # A try has to end in the time of the test; the others may take theirs.
    vm.configure(vm.rule(), timeout=2)
    azure.fault(**fault, methods=["GET"])
    vm.check(expected=1)
    status = vm.status()
    assert status["poll_errors"] == {reason: 1}
    assert status["last_error"]["reason"] == reason
    assert vm.event(event)["phase"] == "announced"
    vm.configure(vm.rule())
    azure.mend()
    vm.check()
    assert vm.status()["last_error"] is None
    assert vm.ran == [f"prepare announced {event}"]


def test_an_id_that_changes_with_the_state_is_two_events_and_the_vm_is_put_back_after_both(azure, vm):
    """As Microsoft's own mock server has it. P3: nothing puts the VM back while the second is Started."""
    azure.settings(new_id_each_state=True)
    first = azure.announce(started_for=600)
    vm.check()
    assert azure.approved == [[first]]
    azure.advance(1)
    vm.check()
    vm.check()
    second = azure.control("GET", "/simulator/events")["events"][0]["listed_id"]
    assert vm.ran == [f"prepare announced {first}", f"note started {second}"]
    azure.advance(600)
    vm.check_until_quiet()
    assert vm.ran[2:] == [f"restore ended {first} completed", f"restore ended {second} completed"]
    assert azure.approved == [[first]]


def test_s7_an_empty_answer_begins_and_ends_nothing(azure, vm):
    azure.fault(fault="empty", times=1)
    vm.check()
    assert vm.history()["events"] == []
    event = azure.announce()
    vm.check()
    azure.fault(fault="empty", methods=["GET"])
    vm.check()
    vm.check()
    assert vm.event(event)["phase"] == "announced"
    assert vm.ran == [f"prepare announced {event}"]
    assert vm.status()["poll_errors"] == {"empty": 3}


def test_s8_a_raw_newline_inside_a_string(azure, vm):
    body = json.dumps({"DocumentIncarnation": 7, "Events": [raw_event(Description="one@two")]}).replace("@", "\n")
    azure.fault(fault="body", body=body, methods=["GET"])
    vm.check()
    assert vm.event("A1")["description"] == "one\ntwo"
    assert vm.ran == ["prepare announced A1"]


def test_s9_no_proxy_is_asked(azure, vm):
    event = azure.announce()
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.listen(5)
        proxy.setblocking(False)
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        variables = {f"{name}_proxy": address for name in ("http", "https", "all", "HTTP", "HTTPS", "ALL")}
        vm.check(**variables)
        with pytest.raises(BlockingIOError):
            proxy.accept()
    assert azure.approved == [[event]]


@pytest.mark.parametrize("listed", ["WEB-1", "Web-1"])
def test_s10_a_name_in_other_letters_is_still_this_vm(azure, vm, listed):
    azure.answer(raw_event(Resources=[listed]))
    vm.check()
    assert vm.ran == ["prepare announced A1"]
    assert azure.approved[0] == ["A1"]


def test_s10_an_id_in_other_letters_is_still_the_event(azure, vm):
    event = azure.announce()
    vm.check()
    azure.settings(event_id_case="lower")
    vm.check()
    assert vm.ran == [f"prepare announced {event}"]
    assert len(vm.history()["events"]) == 1


def test_s11_a_response_that_hangs_holds_up_nothing_else(azure, vm):
    hangs = {"name": "Hangs", "match": {"event_types": ["Redeploy"]}, "on_announced": [vm.held_step("prepare")]}
    vm.configure(vm.rule(**hangs), vm.rule())
    hanging = azure.announce("Redeploy")
    vm.start("check")
    vm.wait(lambda: vm.ran, "the response that is to hang does not begin")
    event = azure.announce()
    vm.poll()
    vm.wait(lambda: azure.approved, "the other event is not handled")
    assert azure.approved == [[event]]
    before = azure.polls()
    vm.poll(4)
    assert azure.polls() == before + 4
    vm.wait(lambda: len(vm.active_units()) == 1, "the other response does not end")
    assert vm.event(hanging)["responses"][0]["state"] == "running"
    assert vm.ran == [f"prepare announced {hanging}", f"prepare announced {event}"]
    # Nor does it hang for ever.
    vm.kill_all()
    vm.configure(vm.rule(**hangs, timeout=0.2))
    endless = azure.announce("Redeploy")
    vm.run("check", "--once")
    vm.wait(lambda: vm.event(endless)["responses"][0]["state"] == "failed", "the response is not stopped")
    assert "0.2 s" in vm.event(endless)["responses"][0]["message"]


def test_s12_an_unreadable_start_is_unknown_and_never_due(azure, vm):
    vm.configure(vm.rule(lead_time=86400))
    azure.answer(raw_event(NotBefore="as soon as possible"))
    done = vm.check()
    assert "NotBefore" in done.stderr
    assert (vm.event("A1")["phase"], vm.event("A1")["seconds_until_start"]) == ("announced", None)
    assert vm.ran == []
    azure.answer(raw_event(NotBefore="Sat, 21 Nov 2020 10:15:00 GMT"))
    vm.check()
    assert vm.ran == ["prepare announced A1"]


@pytest.mark.parametrize("version", ["2017-03-01", "2017-11-01", "2019-01-01"])
def test_s13_a_document_of_an_old_version(azure, vm, version):
    vm.configure(vm.rule(), api_version=version)
    event = azure.announce(started_for=10)
    vm.check()
    azure.advance(5)
    vm.check()
    azure.advance(20)
    vm.check()
    found = vm.event(event)
    assert (found["event_source"], found["duration_seconds"]) == (None, None)
    assert vm.ran == [f"prepare announced {event}", f"note started {event}", f"restore ended {event} completed"]
    assert azure.approved == [[event]]


@pytest.mark.parametrize("rules", [0, 1])
def test_s14_detection_only(azure, vm, rules):
    vm.configure(*[{"name": "Only noted"}][:rules], metrics_dir=str(vm.folder / "facts"))
    event = azure.announce()
    vm.check()
    azure.withdraw(event)
    vm.check()
    assert (vm.event(event)["phase"], vm.event(event)["outcome"]) == ("ended", "withdrawn")
    assert vm.event(event)["responses"] == []
    assert azure.approved == []
    assert "azure_maintenance_polls_total 2" in (vm.folder / "facts" / "azure_maintenance.prom").read_text()


@pytest.mark.parametrize(
    "fault",
    [
        {"fault": "reset"},
        {"fault": "truncated"},
        {"fault": "garbage"},
        {"fault": "proxy_page"},
        {"fault": "redirect"},
        {"fault": "throttle"},
        {"fault": "oversize"},
        {"fault": "status", "status": 404},
        {"fault": "body", "body": '{"Events": null}'},
    ],
    ids=lambda fault: fault.get("body") or fault.get("status") or fault["fault"],
)
def test_s15_a_poll_that_fails_ends_nothing(azure, vm, fault):
    event = azure.announce()
    vm.check()
    azure.fault(times=1, **fault)
    vm.check(expected=1)
    vm.check()
    assert vm.event(event)["phase"] == "announced"
    assert vm.ran == [f"prepare announced {event}"]
    assert sum(vm.status()["poll_errors"].values()) == 1


def test_s16_the_incarnation_begins_anew(azure, vm):
    first = azure.announce(started_for=1)
    vm.check()
    azure.advance(60)
    vm.check()

    def incarnation():
        reply = azure.simulator.get("web-1", "/metadata/scheduledevents?api-version=2020-07-01")
        return json.loads(reply.body)["DocumentIncarnation"]

    before = incarnation()
    azure.advance(90000)
    assert incarnation() < before
    second = azure.announce()
    vm.check()
    assert vm.ran == [f"prepare announced {first}", f"restore ended {first} completed", f"prepare announced {second}"]
    assert azure.approved == [[first], [second]]


def test_s17_from_scheduled_to_started_under_one_id(azure, vm):
    vm.configure(vm.rule(approve="never"))
    event = azure.announce(notice=60, started_for=600)
    vm.check()
    azure.advance(61)
    vm.check()
    vm.check()
    assert vm.ran == [f"prepare announced {event}", f"note started {event}"]
    assert vm.event(event)["phase"] == "started"
    assert azure.approved == []


def test_s18_the_event_of_another_vm_is_left_alone(simulator, machines):
    azure = Azure(simulator("--clock", "manual", "--vms", "vm-1,vm-10"))
    one, ten = machines(azure, "vm-1", "one"), machines(azure, "vm-10", "ten")
    for machine in (one, ten):
        machine.configure(machine.rule())
    event = azure.announce(resources=["vm-10"])
    one.check()
    assert one.history()["events"] == []
    assert (one.ran, azure.approved) == ([], [])
    ten.check()
    assert (ten.ran, azure.approved) == ([f"prepare announced {event}"], [[event]])
    other = azure.announce(resources=["vm-1"])
    ten.check()
    assert [one["event_id"] for one in ten.history()["events"]] == [event]
    one.check()
    assert one.ran == [f"prepare announced {other}"]


def test_azure_is_silent_for_long_and_comes_back(azure, vm):
    vm.configure(vm.rule(), timer_interval=3600)
    event = azure.announce(started_for=3600)
    check = vm.start("check")
    vm.wait(lambda: azure.approved, "the event is not handled")
    azure.fault(fault="status", status=503, methods=["GET"])
    before, silent_at = azure.polls(), vm.clock.now().at
    while vm.clock.now().at < silent_at + 120:
        vm.poll()
    # Never more than five seconds apart
    assert azure.polls() - before >= 24
    assert (vm.event(event)["phase"], vm.status()["last_error"]["reason"]) == ("announced", "http_status")
    azure.advance(2)
    azure.mend()
    # It looks for what is due twice a second, and asks every five.
    vm.poll(10)
    vm.wait(lambda: len(vm.ran) == 2, "what happened meanwhile is not seen")
    assert vm.status()["last_error"] is None
    assert vm.ran == [f"prepare announced {event}", f"note started {event}"]
    assert check.poll() is None
    check.terminate()
    stderr = check.communicate()[1]
    # One line for the whole outage, and one for its end
    assert stderr.count("The metadata service could not be asked") == 1
    assert stderr.count("The metadata service answers again") == 1


def test_nothing_listens_where_azure_should_be(vm):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        vm.endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        vm.configure(vm.rule())
        done = vm.check(expected=1)
    assert vm.endpoint in done.stderr
    assert vm.status()["poll_errors"] == {"unreachable": 1}


def test_what_is_due_does_not_wait_for_a_held_answer(azure, vm):
    """After a crash, IMDS being slow must not keep the restoring waiting; the usual 10 s are its limit."""
    assert USUAL_ANSWER == 10
    event = begin_restore(azure, vm)
    vm.kill_all()
    vm.release()
    # Longer than any test may take
    azure.fault(fault="hold", seconds=3600, methods=["GET"])
    vm.usual_answer = 0.2
    vm.check(expected=1)
    assert vm.ran[1:] == [f"restore ended {event} completed"] * 2


def test_two_checks_at_once(azure, vm):
    event = azure.announce()
    first = vm.start("check")
    vm.wait(lambda: azure.approved, "the event is not handled")
    done = vm.run("check", "--once")
    assert (done.returncode, "Another check is running" in done.stderr) == (0, True)
    assert first.poll() is None
    assert vm.ran == [f"prepare announced {event}"]


def test_many_checks_begun_at_one_moment(azure, vm):
    event = azure.announce()
    for process in [vm.start("check", "--once") for _number in range(6)]:
        assert process.wait() == 0
    vm.wait_for_units()
    vm.check_until_quiet()
    assert vm.ran == [f"prepare announced {event}"]
    assert azure.approved == [[event]]


def test_the_own_restarts_are_approved_at_once(azure, vm):
    own = vm.rule(
        name="Our own", match={"event_sources": ["User"]}, approve="at_once", on_announced=[vm.held_step("prepare")]
    )
    vm.configure(own, vm.rule(approve="never"))
    mine, theirs = azure.announce(event_source="User"), azure.announce()
    assert vm.run("check", "--once").returncode == 0
    # Before its own preparation has ended
    vm.wait(lambda: azure.approved, "it is not approved")
    vm.release()
    vm.check_until_quiet()
    assert azure.approved == [[mine]]
    assert sorted(vm.ran) == sorted([f"prepare announced {mine}", f"prepare announced {theirs}"])


def test_p4_p5_an_empty_answer_after_a_boot_begins_nothing_and_is_not_heard(azure, vm):
    vm.configure(vm.rule(on_announced=[vm.held_step("prepare")]))
    event = azure.announce()
    vm.check_until_ran(1)
    heard = vm.status()["last_answer_at"]
    vm.boot()
    vm.release()
    vm.clock.advance(100)
    azure.fault(fault="empty", methods=["GET"], path="scheduledevents")
    vm.check()
    vm.check()
    assert vm.ran == [f"prepare announced {event}"]
    assert vm.status()["last_answer_at"] == heard
    assert vm.status()["last_error"]["reason"] == "empty"
    azure.mend()
    vm.check_until_quiet()
    assert vm.ran == [f"prepare announced {event}"] * 2
    assert azure.approved == [[event]]
    assert vm.status()["last_error"] is None


def test_e5_while_a_check_polls_status_knows_the_last_answer_and_no_poll_writes_to_the_disk(azure, vm):
    vm.configure()
    vm.start("check")
    vm.poll(2)

    def written():
        return sorted((path.name, path.stat().st_mtime_ns) for path in (vm.folder / "state").iterdir())

    def seconds_since_answer(moment):
        # To ask for the status wakes the check, which may poll once more.
        return moment - parse_utc(vm.status()["last_answer_at"]).timestamp()

    before = written()
    vm.poll(200)
    assert written() == before
    assert -1 <= seconds_since_answer(vm.clock.now().at) <= 2
    # As above: by the clock of the test that poll may have been a second ago.
    assert re.search(r"Azure answered (just now|[12] s ago)\.", vm.run("status").stdout)
    azure.fault(fault="empty", methods=["GET"], path="scheduledevents")
    silent_since = vm.clock.now().at
    vm.poll(100)
    assert -2 <= seconds_since_answer(silent_since) <= 2


@pytest.mark.parametrize(
    ("why", "after", "expected"),
    [
        pytest.param("stopped", 60, 0, id="a minute after the timer was stopped"),
        pytest.param("stopped", 600, 3, id="ten minutes after"),
        pytest.param("stopped", 86400, 3, id="a day after"),
        pytest.param("running", 600, 3, id="a check runs, and notes nothing"),
        pytest.param("unanswered", 600, 3, id="Azure does not answer"),
    ],
)
def test_p13_status_says_that_no_check_runs(azure, vm, why, after, expected):
    vm.check()
    vm.clock.advance(after)
    if why == "unanswered":
        azure.fault(fault="status", status=500)
        vm.check(expected=1)
    with lock(str(vm.folder / "run"), "check") if why == "running" else contextlib.nullcontext():
        told = vm.run("status")
    no_check = "!! The check does not run: systemctl status azure-maintenance-check.timer"
    assert (told.returncode, no_check in told.stdout) == (expected, why == "stopped" and expected == 3)


def test_p4_answers_that_stay_empty_end_what_was_approved_after_five_minutes(azure, vm):
    event, other = azure.announce(started_for=3600), azure.announce(resources=["web-1", "web-2"])
    vm.check_until_quiet()
    assert azure.approved == [[event]]
    azure.fault(fault="empty", methods=["GET"])
    # Each activation goes on counting where the last one ended.
    for _number in range(10):
        vm.check()
        assert vm.event(event)["phase"] == "announced"
        vm.clock.advance(30)
    vm.check()
    assert (vm.event(event)["phase"], vm.event(event)["outcome"]) == ("ended", "completed")
    assert vm.event(other)["phase"] == "announced"


def test_p4_a_404_for_the_name_does_not_stop_what_is_due(azure, vm):
    event = begin_restore(azure, vm)
    vm.boot()
    vm.release()
    azure.fault(fault="status", status=404, path="instance")
    vm.check(expected=1)
    assert vm.ran[1:] == [f"restore ended {event} completed"] * 2


def test_p6_a_preparation_that_is_tried_again_runs_beside_nothing(azure, vm):
    good = vm.folder / "good"
    vm.configure(vm.rule(on_announced=[vm.step("prepare", f"test -e '{good}'")], on_started=[vm.held_step("note")]))
    event = azure.announce(notice=60, started_for=600)
    vm.check()
    azure.advance(61)
    vm.check_until_ran(2)
    good.touch()
    done = vm.run("retry", "1")
    assert (done.returncode, "it waits for response 2" in done.stderr) == (0, True), done
    assert vm.run("check", "--once").returncode == 0
    assert vm.ran == [f"prepare announced {event}", f"note started {event}"]
    vm.release()
    vm.check_until_quiet()
    assert vm.ran == [f"prepare announced {event}", f"note started {event}", f"prepare announced {event}"]


def test_p6_what_failed_before_the_end_is_not_tried_again_after_it(azure, vm):
    event = begin_restore(azure, vm, on_announced=[vm.step("prepare", "false")])
    done = vm.run("retry", "1")
    assert (done.returncode, "The event of response 1 has ended" in done.stderr) == (2, True), done
    assert vm.event(event)["responses"][0]["state"] == "failed"


@contextlib.contextmanager
def state_locked(vm):
    with contextlib.closing(sqlite3.connect(str(vm.folder / "state" / "state.db"), isolation_level=None)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        yield
        foreign.execute("ROLLBACK")


@contextlib.contextmanager
def opening_stopped(vm):
    """A program that opens the state was stopped while it holds the lock for that."""
    hold = "import fcntl, sys; lock = open(sys.argv[1]); fcntl.flock(lock, fcntl.LOCK_EX); print(flush=True); input()"
    argv = [sys.executable, "-c", hold, str(vm.folder / "run" / "state.lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        holder.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            holder.kill()


@pytest.mark.parametrize(
    ("held", "told_once"),
    [
        (state_locked, ["is locked by another program. Polling goes on."]),
        (opening_stopped, ["cannot be opened", "Reboot Scheduled"]),
    ],
)
def test_p8_another_program_that_holds_the_state_does_not_stop_the_polling(azure, vm, held, told_once):
    vm.check()
    with held(vm):
        check = vm.start("check")
        event = azure.announce()
        before = azure.polls()
        vm.poll(4)
        assert azure.polls() - before >= 4
        assert vm.ran == []
    vm.poll()
    vm.wait(lambda: azure.approved, "what was seen meanwhile is not recorded")
    assert vm.ran == [f"prepare announced {event}"]
    check.terminate()
    stderr = check.communicate()[1]
    assert [stderr.count(text) for text in told_once] == [1] * len(told_once)
    assert "cannot be written" not in stderr


def test_p8_many_slow_rules_keep_the_check_from_polling_for_no_more_than_15_s(azure, vm):
    vm.configure(*({"name": f"Slow {number}", "match": NEVER_ANSWERS} for number in range(20)), vm.rule())
    azure.announce(description=LIVE_MIGRATION)
    begun = time.monotonic()
    done = vm.check()
    assert time.monotonic() - begun < 15
    assert [f"rule Slow {number} does not match" in done.stderr for number in (0, 19)] == [True, True]


def test_a2_a_condition_that_never_answers_holds_up_nothing_and_is_told(azure, vm):
    vm.configure({"name": "Live", "match": NEVER_ANSWERS}, vm.rule())
    event = azure.announce(description=LIVE_MIGRATION)
    done = vm.check()
    assert f"Reboot {event} announced (rule Drain): rule Live " in done.stderr
    assert azure.approved == [[event]]
    printed = vm.run("status").stdout
    assert "!! Rule Live " in printed
    assert "rule: Drain" in printed


def test_a3_a_service_that_takes_the_connection_and_never_answers_does_not_keep_the_vm_from_being_drained(azure, vm):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hook = {"webhook": f"http://127.0.0.1:{silent.getsockname()[1]}/hook", "timeout": 0.5}
        vm.configure(vm.rule(on_announced=[hook, vm.step("drain")]))
        event = azure.announce("Preempt", notice=30)
        vm.check()
    assert vm.ran == [f"drain announced {event}"]
    assert azure.approved == [[event]]
    (response,) = vm.event(event)["responses"]
    assert [step["state"] for step in response["steps"]] == ["failed", "succeeded", "succeeded"]
