# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role event_response with event_response_acknowledge: who approves where the VM that was to approve is lost."""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.azure.stand_in import EVENT, GROUP
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import runner
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import FAR_OFF, RESPOND, Fleet, summary_of
from ansible_collections.fleetops.azure_maintenance.tests.simulator import launcher

SET = f"{GROUP}/availabilitySets/web"
VMS = {"host-a": "web-1", "host-b": "web-2"}
ASKED = "/providers/microsoft.resourcegraph/resources"
# Asked, marked, prepared, marked as prepared, asked again, told to approve
APPROVAL = 6


@pytest.fixture
def fleet(principal, tmp_path):
    """Two VMs of one event; at Azure the same event, whose approval starts and ends it."""
    with launcher() as start:
        fleet = Fleet(runner(tmp_path / "home"), start, tmp_path, list(VMS), VMS)
        fleet.announce("web-1", "web-2", event_id=EVENT, notice=FAR_OFF)
        principal.add_event(EVENT, SET, ["web-1", "web-2"])
        for host, vm in VMS.items():
            fleet.set(host, id=f"{GROUP}/virtualMachines/{vm}")
        begin = json.dumps({"StartRequests": [{"EventId": EVENT}]}).encode()
        path = "/metadata/scheduledevents?api-version=2020-07-01"
        principal.after_approval = lambda _row: fleet.azure.post("web-2", path, begin)
        yield fleet


def lose_approver(fleet, **more):
    fleet.set("host-a", mortal_dies_at=APPROVAL, mortal_back_after=1, **more)


def respond(fleet, *arguments, code=0, **variables):
    variables.setdefault("event_response_acknowledge", "fallback")
    run = fleet.respond(*arguments, playbook=RESPOND, **variables)
    assert run.code == code, run.out + run.err
    return run


def test_a_vm_that_is_lost_at_its_approval_is_replaced_by_the_control_plane(principal, fleet):
    lose_approver(fleet)
    run = respond(fleet)
    assert principal.approved == [(SET, EVENT)]
    for host in VMS:
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"], run.out
    (event,) = summary_of(run)["events"]
    assert (event["approved_by"], event["outcome"], event["failed_hosts"]) == ("host-a", "completed", [])
    assert "it was approved from outside, by Azure's control plane." in run.words


@pytest.mark.parametrize(
    ("is_lost", "acknowledge"), [(False, "fallback"), (True, "never")], ids=["approved from inside", "never"]
)
def test_azure_is_not_asked(principal, fleet, is_lost, acknowledge):
    if is_lost:
        lose_approver(fleet)
    code = 2 if is_lost else 0
    respond(fleet, code=code, event_response_acknowledge=acknowledge, event_response_wait_timeout=1)
    assert principal.journal == []


def test_p1_another_vm_in_the_event_is_not_approved(principal, fleet):
    principal.rows[0]["properties"]["Resources"].append("web-9")
    lose_approver(fleet)
    run = respond(fleet, code=2, event_response_wait_timeout=1)
    assert principal.approved == []
    assert principal.requests("/acknowledge") == []
    assert "From outside: " in run.words
    assert "it waits for web-9" in run.words


def test_p2_where_a_host_is_not_prepared_nothing_is_sent(principal, fleet):
    lose_approver(fleet)
    fail = """
    - name: Fail
      ansible.builtin.fail:
      when: inventory_hostname == 'host-b'
    """
    respond(fleet, code=2, prepare=fail, event_response_wait_timeout=1)
    assert principal.journal == []


def test_an_event_that_azure_calls_canceled_is_withdrawn(principal, fleet):
    principal.rows[0]["properties"]["EventStatus"] = "Cancelled"
    lose_approver(fleet)

    def withdraw():
        fleet.azure.control("DELETE", f"/simulator/events/{EVENT}")

    with fleet.meanwhile(lambda: principal.requests(ASKED), withdraw):
        run = respond(fleet)
    assert principal.approved == []
    (event,) = summary_of(run)["events"]
    assert (event["outcome"], event["approved_by"]) == ("withdrawn", None)
    for host in VMS:
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot withdrawn"], run.out


def test_check_mode_sends_nothing(principal, fleet):
    # Asked, told to approve
    fleet.set("host-a", mortal_dies_at=2, mortal_back_after=1)
    run = respond(fleet, "--check", event_response_prepare="nothing", event_response_restore="nothing")
    assert (principal.approved, principal.requests("/acknowledge")) == ([], [])
    assert len(principal.requests(ASKED)) == 1
    assert summary_of(run)["would_be_approved"] == 1


def test_p15_an_azure_that_hangs_costs_its_time_only(principal, fleet):
    principal.add_fault(ASKED, "hang", times=9)
    lose_approver(fleet)
    began = time.monotonic()
    run = respond(fleet, code=2, event_response_ask_timeout=10, event_response_wait_timeout=1)
    assert time.monotonic() - began < 90
    assert "Whether host-a approved it is not known: its connection was lost. From outside: " in run.words


def test_a_host_whose_id_is_a_template_has_the_subscription_of_its_id(principal, fleet, monkeypatch):
    monkeypatch.delenv("AZURE_SUBSCRIPTION_ID")
    for host, vm in VMS.items():
        fleet.set(host, azure_group=GROUP, id="{{ azure_group }}/virtualMachines/" + vm)
    lose_approver(fleet)
    respond(fleet)
    assert principal.approved == [(SET, EVENT)]
