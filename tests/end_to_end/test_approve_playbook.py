# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/approve.yml as a person or AWX runs it: what it says, and what the simulator received."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from textwrap import indent

import pytest
from ansible.release import __version__

# Without an interpreter of its own, which would bring the endpoint of a simulated VM
ON_THIS_MACHINE = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
APPROVE = "fleetops.azure_maintenance.approve"
VMS = ("web-1", "web-2", "db-1")
CONNECTIONS = str(Path(__file__).with_name("connection"))
EMPTY_SURVEY = {
    "approve_event_ids": "",
    "approve_event_types": "",
    "approve_event_sources": "",
    "approve_resources_ready": "",
    "approve_wait_for": "",
    "approve_wait_timeout": "",
}


class Fleet:
    """Hosts that are simulated VMs."""

    def __init__(self, ansible, simulator, folder):
        self.simulator = simulator
        self._ansible = ansible
        self._inventory = folder / "hosts.ini"
        self._inventory.write_text(simulator.inventory(VMS, folder))
        self.announce = simulator.announce
        self.asked = simulator.asked

    def approve(self, *argv, env=None, **extra_vars):
        given = ["-i", str(self._inventory), APPROVE, "-e", json.dumps(extra_vars), *argv]
        return self._ansible("ansible-playbook", *given, env=env)

    def posted(self):
        """The approvals that came, as (VM, ids)."""
        approvals = []
        for vm, body in self.simulator.posted():
            assert list(body) == ["StartRequests"], body
            approvals.append((vm, [request["EventId"] for request in body["StartRequests"]]))
        return sorted(approvals)


def recap(run):
    """What PLAY RECAP says of each host: {"web-1": {"ok": 2, "changed": 1, …}}."""
    lines = re.findall(r"^(\S+)\s+: (ok=.*)$", run.out.split("PLAY RECAP", 1)[1], re.MULTILINE)
    return {host: {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", counts)} for host, counts in lines}


@pytest.fixture
def fleet(ansible, simulator, tmp_path):
    return Fleet(ansible, simulator("--vms", ",".join(VMS), "--clock", "manual"), tmp_path)


@pytest.mark.releases
@pytest.mark.matrix
def test_an_event_is_approved_by_its_id_in_any_letter_case_with_vms_that_the_caller_says_are_ready(fleet):
    wanted = fleet.announce("Reboot", "web-1", "web-2", start_delay=0, started_for=0)
    fleet.announce("Reboot", "web-1")
    run = fleet.approve(
        target="web-1", approve_event_ids=wanted.lower(), approve_resources_ready="WEB-2", approve_wait_for="ended"
    )
    assert run.code == 0, run.out
    assert fleet.posted() == [("web-1", [wanted])]
    assert f"approved {wanted}" in run.out
    assert recap(run)["web-1"]["changed"] == 1
    shown, _other = fleet.simulator.control("GET", "/simulator/events")["events"]
    assert (shown["phase"], shown["outcome"], shown["approved_by"]) == ("ended", "completed", "web-1")


@pytest.mark.release
def test_by_type_each_vm_approves_its_own_events_of_that_type_and_answers_left_empty_count_as_not_given(fleet):
    freeze_1 = fleet.announce("Freeze", "web-1")
    freeze_2 = fleet.announce("Freeze", "web-2")
    fleet.announce("Reboot", "db-1")
    run = fleet.approve(**{**EMPTY_SURVEY, "approve_event_types": ["freeze"]})
    assert run.code == 0, run.out
    assert fleet.posted() == [("web-1", [freeze_1]), ("web-2", [freeze_2])]
    assert {host: counts["changed"] for host, counts in recap(run).items()} == {"web-1": 1, "web-2": 1, "db-1": 0}
    assert "no such event" in run.out


@pytest.mark.parametrize(
    "forged",
    [
        {
            "events": [{"event_id": "X1"}],
            "approvals": [{"event_id": "X1", "result": "approved"}],
            "msg": "",
            "marks": 5,
        },
        {"events": [], "approvals": 5, "document_is_clear": True, "document_received": True},
    ],
    ids=["events that are none", "approvals that are none"],
)
def test_a_vm_that_forges_its_answers_keeps_no_other_from_approving(fleet, tmp_path, forged):
    event = fleet.announce("Reboot", "web-1")
    answer = shlex.quote(json.dumps(forged))
    (tmp_path / "python-of-db-1").write_text(f"#!/bin/sh\ncat >/dev/null\necho {answer}\n")
    run = fleet.approve(approve_event_types="Reboot")
    assert run.code == 2, run.out + run.err
    assert fleet.posted() == [("web-1", [event])]
    assert {host for host, counts in recap(run).items() if counts["failed"]} == {"db-1"}
    assert "The answer of the host cannot be used: " in run.words


@pytest.mark.release
def test_by_source_on_the_command_line_as_the_head_of_the_playbook_shows_it(fleet):
    ours = fleet.announce("Reboot", "web-1", event_source="User")
    fleet.announce("Reboot", "web-1", event_source="Platform")
    run = fleet.approve("-e", "target=web-1", "-e", "approve_event_sources=User")
    assert run.code == 0, run.out
    assert fleet.posted() == [("web-1", [ours])]


@pytest.mark.releases
def test_s4_what_the_guard_refuses_on_one_vm_fails_there_and_does_not_keep_another_from_approving(fleet):
    fleet.announce("Reboot", "web-1", "web-2")
    alone = fleet.announce("Reboot", "db-1")
    run = fleet.approve(approve_event_types="Reboot")
    assert run.code != 0
    told = "Prepare it and add its name to resources_ready (playbook approve: approve_resources_ready)."
    assert f"it waits for web-2. {told}" in run.out
    assert recap(run)["web-1"] == {**recap(run)["web-1"], "failed": 1, "changed": 0}
    assert fleet.posted() == [("db-1", [alone])]
    assert {host: counts["failed"] for host, counts in recap(run).items()} == {"web-1": 1, "web-2": 1, "db-1": 0}


@pytest.mark.releases
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"approve_ask_timeout": "5s"}, "must be whole numbers of seconds from 1 on"),
        ({"approve_wait_timeout": "abc"}, "must be whole numbers of seconds from 1 on"),
        (
            {"approve_wait_for": "Started"},
            "approve_wait_for must be nothing, started or ended; not 180, 900 and Started.",
        ),
        ({"approve_event_ids": [None]}, "event_ids must name something: each member of its list is null or empty."),
        ({"approve_event_ids": ["", " "]}, "event_ids must name something: each member of its list is null or empty."),
        ({"approve_event_id": "A1B2"}, "approve_event_id is no variable of this playbook. Are approve_event_ids,"),
        (
            {"approve_wait_fr": "ended", "approve_resorces_ready": "web-2", "approve_release": "1.2"},
            "approve_resorces_ready, approve_wait_fr is no variable of this playbook. Are",
        ),
        ({"approve_wiat_timeout": 5}, "approve_wiat_timeout is no variable of this playbook. Are"),
    ],
    ids=[
        "a time with a unit",
        "a time that is a word",
        "another word",
        "a list of null",
        "a list of nothing",
        "a typo",
        "typos of settings that are no conditions",
        "a typo of its own word",
    ],
)
def test_p14_p15_a_setting_that_would_count_as_none_approves_nothing(fleet, settings, told):
    fleet.announce("Reboot", "web-1")
    run = fleet.approve(approve_event_types=["Reboot"], **settings)
    assert run.code != 0
    assert told in " ".join(run.out.split())
    assert fleet.asked() == set()


@pytest.mark.releases
@pytest.mark.parametrize("task", ["Look which events may be approved", "Decide which host approves which events"])
def test_p14_a_run_that_begins_after_the_checks_approves_nothing_where_undefined_variables_are_no_error(fleet, task):
    fleet.announce("Reboot", "web-1")
    # Later releases of Ansible ignore the setting, and warn of it.
    settings = {"ANSIBLE_ERROR_ON_UNDEFINED_VARS": "false"} if __version__ < "2.19" else {}
    run = fleet.approve("--start-at-task", task, env=settings, approve_event_types=["Reboot"])
    assert run.code == 2, run.out
    assert "Nothing was approved. Start the run without --tags, --skip-tags and --start-at-task." in run.words
    assert fleet.asked() == set()


@pytest.mark.releases
def test_a_survey_left_empty_fails_clearly_before_any_vm_is_asked(fleet):
    fleet.announce("Reboot", "web-1")
    run = fleet.approve(**EMPTY_SURVEY)
    assert run.code != 0
    options = "set approve_event_ids, approve_event_types or approve_event_sources."
    reason = f"Nothing says which events to approve: {options}"
    assert run.out.count(f'"msg": "{reason}"') == len(VMS), run.out
    assert fleet.asked() == set()


@pytest.mark.releases
@pytest.mark.matrix
def test_check_mode_says_what_it_would_do_and_fails_where_the_guard_would_refuse_and_sends_nothing(fleet):
    fleet.announce("Reboot", "web-1", "web-2")
    event = fleet.announce("Reboot", "db-1")
    run = fleet.approve(
        "--check", "--diff", target="web-1,db-1", approve_event_types="Reboot", approve_wait_for="ended"
    )
    assert run.code != 0
    assert "it waits for web-2" in run.out
    assert [recap(run)[host]["failed"] for host in ("web-1", "db-1")] == [1, 0]
    assert recap(run)["db-1"]["changed"] == 1
    assert f'-    "{event}": "Scheduled"' in run.out
    assert f'+    "{event}": "approved"' in run.out
    assert fleet.posted() == []


@pytest.mark.matrix
def test_limit_and_target_leave_the_other_vms_unasked(fleet):
    fleet.announce("Freeze", "web-1")
    event = fleet.announce("Freeze", "web-2")
    fleet.announce("Freeze", "db-1")
    run = fleet.approve("--limit", "web-2,db-1", target="web-*", approve_event_types="Freeze")
    assert run.code == 0, run.out
    assert fleet.asked() == {"web-2"}
    assert fleet.posted() == [("web-2", [event])]


@pytest.mark.release
def test_an_id_that_no_vm_has_seen_fails_the_run_and_does_not_keep_another_from_being_approved(fleet):
    gone, ours = fleet.announce("Reboot", "web-1"), fleet.announce("Reboot", "web-1")
    fleet.simulator.control("DELETE", f"/simulator/events/{gone}")
    run = fleet.approve(target="web-1,web-2", approve_event_ids=[gone, ours], approve_resources_ready="web-1")
    assert run.code != 0
    said = f"No VM that was asked lists event {gone}. It has ended, was withdrawn, or the id is wrong."
    assert said in run.words
    assert f"Event {gone} is not in the document" in re.sub(r"\s+", " ", run.err)
    assert fleet.posted() == [("web-1", [ours])]


@pytest.mark.release
def test_a_beginning_that_is_too_short_is_told_so(fleet):
    event = fleet.announce("Reboot", "web-1")
    run = fleet.approve(target="web-1", approve_event_ids=event[:3])
    assert run.code != 0
    wrong = f"No VM that was asked lists event {event[:3]}. It has ended, was withdrawn, or the id is wrong."
    assert f"{wrong} The beginning of an id needs at least 4 characters." in run.words
    assert fleet.posted() == []


@pytest.mark.release
def test_an_empty_list_selects_nothing_and_is_no_mistake(fleet):
    fleet.announce("Reboot", "web-1")
    run = fleet.approve(target="web-1", approve_event_ids=[])
    assert run.code == 0, run.out
    assert fleet.posted() == []


@pytest.mark.matrix
def test_an_id_is_named_by_the_characters_that_a_table_shows(fleet):
    wanted, other = fleet.announce("Reboot", "web-1"), fleet.announce("Reboot", "web-1")
    assert wanted[:8] != other[:8]
    run = fleet.approve(target="web-1", approve_event_ids=wanted[:8].lower())
    assert run.code == 0, run.out
    assert fleet.posted() == [("web-1", [wanted])]


def test_one_vm_sends_the_approval_and_no_host_outside_the_event_reports_a_change(fleet):
    event = fleet.announce("Reboot", "web-2", "web-1")
    for argv, posted in (("--check",), []), ((), [("web-2", [event])]):
        run = fleet.approve(*argv, approve_event_types="Reboot", approve_resources_ready="web-1\nweb-2")
        assert run.code == 0, run.out
        assert fleet.posted() == posted
        assert {host: counts["changed"] for host, counts in recap(run).items()} == {"web-1": 0, "web-2": 1, "db-1": 0}
        assert f"web-2 answers for {event}." in run.out
        assert (f"would be approved: {event}" in run.out) is bool(argv)
        assert (f"approved {event}" in run.out) is not bool(argv)


@pytest.mark.matrix
def test_a_host_that_is_no_azure_vm_fails_in_words_and_the_others_go_on(fleet, tmp_path):
    event = fleet.announce("Reboot", "web-1")
    with open(tmp_path / "hosts.ini", "a", encoding="utf-8") as inventory:
        inventory.write(f"laptop {ON_THIS_MACHINE}\n")
    run = fleet.approve(target="web-1,laptop", approve_event_types="Reboot")
    assert run.code != 0
    assert "Nothing answers at http://127.0.0.1:9" in run.out
    assert '"reason": "unreachable"' in run.out
    assert fleet.posted() == [("web-1", [event])]


@pytest.mark.parametrize("how", ["the connection was lost", "the time was up"])
@pytest.mark.releases
@pytest.mark.matrix
def test_p13_an_approval_whose_answer_was_lost_is_told_as_one_that_azure_may_have_taken(
    ansible, simulator, tmp_path, how
):
    """As where the event that begins takes its VM down while the run waits for its end."""
    imds, given = simulator("--vms", "web-1,web-2"), {"approve_event_types": "Reboot"}
    event = imds.announce("Reboot", "web-1", started_for=3600)
    other = imds.announce("Reboot", "web-2", started_for=3600)
    first, second = imds.inventory(("web-1", "web-2"), tmp_path).splitlines()
    if how == "the connection was lost":
        (tmp_path / "up").touch()
        # The first use looks, the second approves.
        first = f"{first} ansible_connection=mortal up_file={tmp_path / 'up'} mortal_cut_at=2"
    else:
        imds.control("POST", "/simulator/faults", {"fault": "silent", "vms": ["web-1"], "methods": ["POST"]})
        given["approve_ask_timeout"] = 12
    (tmp_path / "hosts.ini").write_text(f"{first}\n{second}\n")
    env = {"ANSIBLE_CONNECTION_PLUGINS": CONNECTIONS, "ANSIBLE_PIPELINING": "true"}
    command = ("ansible-playbook", "-i", str(tmp_path / "hosts.ini"), APPROVE, "-e", json.dumps(given))
    run = ansible(*command, env=env)
    assert run.code == 2, run.out + run.err
    assert f"web-1: whether Azure took the approval of {event} is not known." in run.words
    assert f"approved {other}" in run.out
    assert {host: counts["failed"] for host, counts in recap(run).items()} == {"web-1": 1, "web-2": 0}


@pytest.mark.matrix
def test_p15_the_module_ends_before_the_time_of_its_task_and_sends_nothing_afterwards(fleet):
    """Ansible stops waiting then, and lets the module on the VM go on."""
    event = fleet.announce("Reboot", "web-1")
    fleet.simulator.control("POST", "/simulator/faults", {"fault": "status", "status": 503, "methods": ["POST"]})
    run = fleet.approve(target="web-1", approve_event_types="Reboot", approve_ask_timeout=30)
    assert run.code == 2, run.out + run.err
    assert f"web-1: whether Azure took the approval of {event} is not known. http://127.0.0.1:" in run.words
    assert "answered HTTP 503" in run.words


@pytest.mark.releases
@pytest.mark.release
def test_p14_an_event_of_a_vm_that_was_refused_makes_a_beginning_ambiguous(ansible, simulator, tmp_path):
    """Both VMs are asked at services of their own, and each knows one event."""
    one, other = simulator("--vms", "web-1"), simulator("--vms", "web-2,web-9")
    one.announce("Reboot", "web-1", event_id="AAAA1111-0000-0000-0000-000000000001")
    other.announce("Reboot", "web-2", "web-9", event_id="AAAA2222-0000-0000-0000-000000000002")
    endpoints = {"web-1": one.endpoint("web-1"), "web-2": other.endpoint("web-2")}
    lines = [f"{vm} {ON_THIS_MACHINE} azure_maintenance_endpoint={endpoint}" for vm, endpoint in endpoints.items()]
    (tmp_path / "hosts.ini").write_text("\n".join(lines))
    run = ansible("ansible-playbook", "-i", str(tmp_path / "hosts.ini"), APPROVE, "-e", "approve_event_ids=AAAA")
    assert run.code != 0
    assert "Several events begin with AAAA, so nothing is approved: write more of the id." in run.words
    assert one.posted() + other.posted() == []


NOT_ALL = "{} is not the whole id of an event, and not all events of {} are known, so another one may begin so"


@pytest.mark.matrix
def test_p14_a_beginning_approves_nothing_where_a_vm_does_not_tell_all_its_events(fleet, tmp_path):
    event = fleet.announce("Reboot", "web-1")
    fleet.simulator.control("POST", "/simulator/faults", {"fault": "empty", "times": 9, "vms": ["db-1"]})
    with open(tmp_path / "hosts.ini", "a", encoding="utf-8") as inventory:
        inventory.write(f"laptop {ON_THIS_MACHINE}\n")
    given = {"approve_event_ids": event[:8], "approve_resources_ready": "web-1"}
    run = fleet.approve(**given)
    assert run.code != 0
    assert NOT_ALL.format(event[:8], "db-1, laptop") + ": nothing is approved. Give whole ids." in run.words
    assert fleet.posted() == []
    assert fleet.approve(target="web-*", **given).code == 0
    assert fleet.posted() == [("web-1", [event])]


EMPTY = {"fault": "empty"}
UNREADABLE = {"fault": "body", "body": '{"DocumentIncarnation": 1, "Events": [17]}'}


@pytest.mark.parametrize(
    ("fault", "selected", "told"),
    [
        pytest.param(UNREADABLE, {"approve_event_types": "Reboot"}, "fails", id="an entry that cannot be read"),
        pytest.param(
            UNREADABLE, {"approve_event_ids": "EEEE1111"}, "", id="by the whole id of an event that another VM lists"
        ),
        pytest.param(EMPTY, {"approve_event_types": "Reboot"}, "says so", id="empty", marks=pytest.mark.releases),
        pytest.param(EMPTY, {"approve_event_ids": "EEEE1111"}, "", id="empty, by a whole id"),
    ],
)
@pytest.mark.release
def test_p4_a_vm_whose_answer_is_not_clear_does_not_count_as_one_without_events(fleet, fault, selected, told):
    """Some VMs always answer empty while they have no event, so that this alone is no failure."""
    event = fleet.announce("Reboot", "web-1", event_id="EEEE1111")
    fleet.simulator.control("POST", "/simulator/faults", {**fault, "times": 9, "vms": ["db-1"]})
    run = fleet.approve(approve_resources_ready="web-1", **selected)
    fails = told == "fails"
    assert (run.code != 0) is fails, run.out + run.err
    assert fleet.posted() == [("web-1", [event])]
    assert {host: counts["failed"] for host, counts in recap(run).items()} == {"web-1": 0, "web-2": 0, "db-1": fails}
    assert ("db-1: part of Azure's answer could not be read, so a selected event may be missing." in run.words) is fails
    assert '"no such event"' not in run.out
    said = "Azure gave an empty answer to db-1: whether there are events is unknown."
    assert run.out.count(said) == (told == "says so"), run.out


@pytest.mark.release
def test_p4_an_id_that_may_be_on_a_vm_whose_answer_is_not_clear_is_not_called_gone(fleet):
    fleet.simulator.control("POST", "/simulator/faults", {"fault": "empty", "times": 9, "vms": ["db-1"]})
    event = "EEEE1111-0000-0000-0000-000000000001"
    run = fleet.approve(approve_event_ids=event)
    assert run.code != 0
    assert (
        f"No VM that was asked lists event {event}. A VM that could not be asked, or gave no clear answer, may"
        in run.words
    )
    assert "It has ended" not in run.words


@pytest.mark.releases
@pytest.mark.parametrize(
    "name",
    [
        "azure_maintenance_endpoint",
        "approve_event_ids",
        "approve_event_types",
        "approve_event_sources",
        "approve_resources_ready",
    ],
)
@pytest.mark.release
def test_a_setting_that_cannot_be_told_approves_nothing(fleet, name):
    """It is not one that was left out: without it, more would be approved, or at Azure's own address."""
    fleet.announce("Reboot", "web-1")
    given = {"approve_event_types": "Reboot", "approve_event_sources": "Platform", name: "{{ typo }}"}
    run = fleet.approve(target="web-1", **given)
    assert run.code == 2, run.out
    assert "'typo' is undefined" in run.out + run.err
    assert fleet.posted() == []


@pytest.mark.matrix
def test_p13_where_the_metadata_service_fails_its_words_are_told_and_not_those_of_the_time_limit(fleet):
    fleet.simulator.control("POST", "/simulator/faults", {"fault": "status", "status": 500})
    run = fleet.approve(target="web-1", approve_event_types="Reboot", approve_ask_timeout=8)
    assert run.code == 2, run.out + run.err
    assert "answered HTTP 500" in run.words
    assert "Timed out" not in run.words


@pytest.mark.parametrize("vms", [VMS, VMS[:2]], ids=["waits", "is ready"])
def test_the_example_of_the_module_tells_which_vms_an_event_waits_for(fleet, ansible, tmp_path, vms):
    """A refusal is a failure of the task, and a task behind it would not run."""
    module = "fleetops.azure_maintenance.scheduled_event_approve"
    documented = json.loads(ansible("ansible-doc", "--json", module).out)[module]["examples"]
    tasks = documented[documented.index("- name: Approve an event of several VMs") :]
    tasks = tasks.replace("C7061BAC-AFDC-4513-B24B-AA5F13A16123", fleet.announce("Reboot", *vms))
    (tmp_path / "site.yml").write_text(f"- hosts: web-1\n  gather_facts: false\n  tasks:\n{indent(tasks, '    ')}")
    run = ansible("ansible-playbook", "-i", str(tmp_path / "hosts.ini"), str(tmp_path / "site.yml"))
    assert len(fleet.posted()) == (vms != VMS)
    assert (f"It waits for {VMS[-1]}. Event " in run.out) is (vms == VMS), run.out + run.err
    assert (run.code != 0) is (vms == VMS)
