# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role event_response over a fleet, by real ansible-playbook: what ran where, and what the simulator got."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import wait_until
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import LONGEST_RUN
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import (
    DUE,
    FAR_OFF,
    HOSTS,
    LONG,
    NOTE,
    RESPOND,
    ROLE,
    Fleet,
    summary_of,
)

COLLECTION = Path(__file__).resolve().parents[2]
# Seconds of a notice that the test of a deletion waits for
SOON = 25
# What a playbook run by a template in the Description would leave
HOSTILE = "{{ lookup('pipe', 'touch %s') }} $(touch %s) it's"

FAIL_ON_B = """
- name: Drain
  ansible.builtin.fail:
    msg: The balancer said no.
  when: inventory_hostname == 'host-b'
"""
# What takes so long on host-b that the event starts
TAKE_LONGER = """
- name: Let the notice pass
  ansible.builtin.uri:
    url: "{{ simulator }}/simulator/clock"
    use_proxy: false
    method: POST
    body_format: json
    body: {advance: 1}
  when: inventory_hostname == 'host-b'
"""


@pytest.fixture
def make_fleet(ansible, simulator, tmp_path):
    (tmp_path / "fleet").mkdir()
    return lambda *hosts: Fleet(ansible, simulator, tmp_path / "fleet", hosts, HOSTS)


@pytest.fixture
def one(make_fleet):
    return make_fleet("host-a")


@pytest.fixture
def fleet(make_fleet):
    return make_fleet("host-a", "host-b")


@pytest.fixture
def three(make_fleet):
    return make_fleet(*HOSTS)


@pytest.mark.releases
def test_an_event_of_three_vms_is_approved_once_when_all_are_ready_by_its_leader_which_comes_last(three, tmp_path):
    marker = tmp_path / "run"
    event = three.announce("web-3", "web-1", "web-2", description=HOSTILE % (marker, marker))
    run = three.respond()
    assert run.code == 0, run.out + run.err
    assert three.approved == [("web-3", [event])]
    for host in HOSTS:
        assert three.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]
    assert f"Reboot {event} completed, approved by host-c: host-a, host-b, host-c" in run.words
    assert '"approved": 1, "completed": 1,' in " ".join(run.out.split("CUSTOM STATS", 1)[1].split())
    assert not marker.exists()


@pytest.mark.matrix
def test_an_id_that_changes_when_the_event_starts_is_prepared_for_once_and_restored_once(fleet):
    """As with Microsoft's own mock server: what was approved is gone, and another event is Started in its place."""
    fleet.azure.control("PATCH", "/simulator/settings", {"new_id_each_state": True})
    event = fleet.announce("web-1", "web-2", started_for=LONG)
    with fleet.coming("web-1", "web-2", seconds=LONG):
        run = fleet.respond()
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event])]
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]


TELL_PEERS = """
- name: Keep what is told of the others
  ansible.builtin.copy:
    content: "{{ maintenance_peers | to_json }}"
    dest: "{{ story }}.%s"
    mode: "0600"
"""


@pytest.mark.releases
def test_both_files_are_told_what_is_announced_and_marked_on_the_other_hosts(three, tmp_path):
    """Through a file that they include, too. The text of an event is data there."""
    marker = tmp_path / "run"
    words = HOSTILE % (marker, marker)
    event = three.announce("web-1", "web-2", description=words)
    three.announce("web-1", event_type="Freeze", notice=FAR_OFF)
    (three.folder / "tell.yml").write_text(TELL_PEERS % "prepared")
    include = f"- ansible.builtin.include_tasks: {three.folder / 'tell.yml'}"
    # No template may run in it, and none does where it is asked for an item of it.
    ask = """
    - ansible.builtin.assert:
        that: maintenance_peers['host-c'].free and not maintenance_peers['host-b'].free
      when: inventory_hostname == 'host-a'
    """
    run = three.respond(
        prepare=include + textwrap.dedent(ask), restore=TELL_PEERS % "restored", event_response_event_types=["Reboot"]
    )
    assert run.code == 0, run.out + run.err
    told = json.loads((three.folder / "host-b.story.prepared").read_text())
    assert {host: each["free"] for host, each in told.items()} == {"host-a": False, "host-c": True}
    assert [each["event_type"] for each in told["host-a"]["events"]] == ["Reboot", "Freeze"]
    assert told["host-a"]["events"][0]["description"] == words
    assert told["host-a"]["resource_name"] == "web-1"
    assert told["host-c"] == {"resource_name": "web-3", "events": [], "marks": [], "no_answer": None, "free": True}
    told = json.loads((three.folder / "host-b.story.restored").read_text())
    assert [mark["event_id"] for mark in told["host-a"]["marks"]] == [event]
    assert not marker.exists()


@pytest.mark.releases
def test_a_preparation_that_fails_on_one_of_two_holds_the_event_back(fleet):
    """It is due, so the other stays prepared until it is over. That is said at once, and on one line while it waits."""
    fleet.announce("web-1", "web-2", notice=DUE)
    with fleet.coming("web-1", "web-2", seconds=DUE):
        run = fleet.respond(prepare=FAIL_ON_B)
    assert run.code == 2
    assert fleet.approved == []
    assert "host-b could not be prepared: Drain: The balancer said no." in run.out
    decided = run.out.index("HELD BACK: Reboot")
    (waiting,) = re.findall("^Waiting for .*", run.out[decided:], re.MULTILINE)
    assert re.fullmatch("Waiting for host-a, host-b, .* at most: Reboot [0-9A-F]{8} may start now", waiting)
    assert "RETRYING" not in run.out
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]


@pytest.mark.matrix
def test_an_approval_that_azure_refuses_holds_the_event_back(fleet):
    """It is far off, so the hosts are restored at once."""
    event = fleet.announce("web-1", "web-2", notice=FAR_OFF)
    fleet.azure.control("POST", "/simulator/faults", {"fault": "status", "status": 403, "methods": ["POST"]})
    run = fleet.respond(event_response_wait_timeout=15)
    assert run.code == 2, run.out + run.err
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot -"], run.out
    held = run.words[run.words.index(f"HELD BACK: Reboot {event}") :]
    assert "Not approved: host-a: http://" in held
    assert "Waiting for" not in run.out


@pytest.mark.matrix
def test_p2_the_module_ends_before_the_time_of_its_task_and_approves_nothing_afterwards(fleet):
    """Ansible stops waiting then, and lets the module on the VM go on while a host may be restored."""
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    fleet.azure.control("POST", "/simulator/faults", {"fault": "status", "status": 503, "methods": ["POST"]})
    run = fleet.respond(event_response_ask_timeout=30, event_response_wait=False)
    assert run.code == 2, run.out + run.err
    assert "answered HTTP 503" in run.words
    assert "Timed out" not in run.words


@pytest.mark.matrix
def test_a_host_that_becomes_unreachable_before_the_approval_holds_it_back(fleet):
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    run = fleet.respond(
        prepare="""
        - name: Go down after all else
          ansible.builtin.raw: rm {{ up_file | quote }}
          when: inventory_hostname == 'host-b'
        """
    )
    assert run.code != 0
    assert fleet.approved == []
    assert "host-b became unreachable" in run.out
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot -"]


@pytest.mark.matrix
@pytest.mark.parametrize("boots", [True, False])
def test_a_host_that_booted_after_its_preparation_holds_it_back(fleet, boots):
    event = fleet.announce("web-1", "web-2", notice=FAR_OFF)
    boot = fleet.give_boot_id("host-b")
    run = fleet.respond(
        prepare=f"""
        - name: Boot, and be back soon
          ansible.builtin.raw: echo {"boot-2" if boots else "boot-1"} >{boot}
          when: inventory_hostname == 'host-b'
        """
    )
    assert run.code == (2 if boots else 0), run.out + run.err
    assert fleet.approved == ([] if boots else [("web-1", [event])])
    assert ("host-b is not prepared: it booted after its preparation" in run.out) is boots


@pytest.mark.matrix
@pytest.mark.parametrize("withdrawn", [True, False])
def test_p13_a_lost_vm_counts_as_deleted_only_where_its_deletion_took_place(one, withdrawn):
    """Where the deletion is withdrawn, another event takes the VM down, and it does not come back."""
    deletion = one.announce("web-1", event_type="Preempt", notice=SOON, started_for=LONG)
    prepare = ""
    if withdrawn:
        one.announce("web-1", notice=FAR_OFF, started_for=LONG)
        prepare = f"""
        - ansible.builtin.uri:
            url: "{{{{ simulator }}}}/simulator/events/{deletion}"
            method: DELETE
            status_code: [200, 204]
          when: maintenance_event.event_type == 'Preempt'
        """

    # Longer than the notice of the deletion, so that its time has come when the run ends
    timeouts = {"event_response_wait_timeout": SOON + 20, "event_response_reconnect_timeout": SOON}
    with one.meanwhile(one.is_one_started, (one.folder / "host-a.up").unlink):
        run = one.respond(playbook=RESPOND, prepare=prepare, **timeouts)
    assert run.code == (2 if withdrawn else 0), run.out + run.err
    summary = summary_of(run)
    assert summary["not_restored"] == (["host-a"] if withdrawn else [])
    assert list(summary["faults"]) == (["host-a"] if withdrawn else [])


@pytest.mark.matrix
def test_p4_p13_a_vm_whose_metadata_service_fails_is_not_lost_and_not_taken_for_deleted(one):
    """It can be reached all the time. The reason in the report is that of its metadata service."""
    one.announce("web-1", event_type="Preempt", started_for=LONG)
    fails = {"fault": "status", "status": 500, "methods": ["GET"]}
    timeouts = {"ask_timeout": 30, "reconnect_timeout": 1, "wait_timeout": 30}
    with one.meanwhile(one.is_one_started, lambda: one.azure.control("POST", "/simulator/faults", fails)):
        run = one.respond(playbook=RESPOND, **{f"event_response_{name}": value for name, value in timeouts.items()})
    assert run.code == 2, run.out + run.err
    assert [line.split()[0] for line in one.story("host-a")] == ["prepare"]
    assert summary_of(run)["not_restored"] == ["host-a"]
    assert "answered HTTP 500" in run.words
    assert "no answer within" not in run.words


@pytest.mark.matrix
def test_the_approver_itself_reboots(fleet):
    event = fleet.announce("web-1", "web-2", started_for=LONG)
    with fleet.rebooting("host-a", "host-b"):
        run = fleet.respond()
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event])]
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]


@pytest.mark.releases
@pytest.mark.matrix
def test_a_host_lost_in_the_middle_of_its_preparation_is_restored_by_the_playbook(fleet):
    fleet.announce("web-1", "web-2", notice=DUE, started_for=LONG)
    still = """
    - name: Go on until the connection is lost
      ansible.builtin.raw: "true"
      register: never
      until: never is failed
      retries: 600
      delay: 1
      when: inventory_hostname == 'host-b'
    """
    # The event starts, and takes host-b away, while this goes on there.
    begun = fleet.meanwhile(lambda: fleet.story("host-b"), lambda: fleet.pass_time(DUE))
    with begun, fleet.rebooting("host-b"):
        run = fleet.respond(prepare=still, playbook=RESPOND)
    assert run.code == 2, run.out + run.err
    assert fleet.approved == []
    assert "The preparation of host-b was cut short: the connection was lost" in run.out
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]


@pytest.mark.matrix
def test_a_vm_that_is_no_host_of_the_play(one):
    one.announce("web-1", "web-2", notice=FAR_OFF)
    run = one.respond()
    assert run.code == 2
    assert one.approved == []
    assert "no host of this play is the VM web-2" in run.out


@pytest.mark.matrix
@pytest.mark.release
def test_a_vm_that_is_no_host_of_the_play_may_be_ignored(fleet):
    event = fleet.announce("web-1", "web-2")
    run = fleet.respond("--limit", "host-a", event_response_outside_vms="ignore")
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event])]


@pytest.mark.parametrize(
    ("variable", "playbook"),
    [
        pytest.param(
            {"azure_maintenance_endpoint": "http://127.0.0.1:9"}, None, id="not on Azure", marks=pytest.mark.release
        ),
        pytest.param({"up_file": "{{ inventory_file }}.gone"}, RESPOND, id="unreachable", marks=pytest.mark.releases),
        pytest.param(
            {"event_response_due_within": "{{ typo }}"},
            RESPOND,
            id="a setting that cannot be told",
            marks=pytest.mark.release,
        ),
    ],
)
@pytest.mark.matrix
def test_p2_a_host_that_could_not_be_asked_may_be_a_vm_that_no_host_says_it_is_so_it_is_not_ignored(
    fleet, variable, playbook
):
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    fleet.set("host-b", **variable)
    run = fleet.respond(playbook=playbook, event_response_outside_vms="ignore")
    assert run.code == 2, run.out + run.err
    assert fleet.approved == []
    assert "no host of this play is the VM web-2; host-b could not be asked." in run.words


@pytest.mark.releases
def test_check_mode_prepares_nothing_and_approves_nothing(three):
    event = three.announce("web-1", "web-2")
    three.announce("web-3", event_type="Redeploy")
    run = three.respond("--check")
    assert run.code == 0, run.out + run.err
    assert three.approved == []
    assert three.story("host-a") == []
    assert f"Reboot {event} announced, would be approved by host-a" in run.words
    # H8: the next node of a workflow goes by these.
    sums = run.out.split("CUSTOM STATS", 1)[1]
    assert ('"approved": 0' in sums, '"would_be_approved": 2' in sums) == (True, True), sums
    # Both files ran, as check mode lets them, and each of them for all hosts at once.
    assert run.out.count("Note it]") == 2


@pytest.mark.matrix
def test_without_waiting_an_approved_event_is_left_prepared(one):
    event = one.announce("web-1")
    run = one.respond(event_response_wait=False)
    assert run.code == 0, run.out + run.err
    assert one.approved == [("web-1", [event])]
    assert one.story("host-a") == ["prepare host-a Reboot"]


@pytest.mark.matrix
def test_hosts_in_another_batch_hold_an_event_back(fleet):
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    run = fleet.respond(play={"serial": 1})
    assert run.code == 2
    assert fleet.approved == []
    assert "hosts in later batches of the play were not asked" in run.out


@pytest.mark.matrix
@pytest.mark.release
def test_any_errors_fatal_still_restores_what_was_prepared(fleet):
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    run = fleet.respond(prepare=FAIL_ON_B, play={"any_errors_fatal": True})
    assert run.code == 2
    assert fleet.approved == []
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot -"]


@pytest.mark.matrix
@pytest.mark.releases
def test_p2_step_by_which_a_person_may_leave_out_a_preparation_is_refused(fleet, ansible):
    fleet.announce("web-1", notice=FAR_OFF)
    fleet._ansible = lambda *argv, env: ansible("sh", "-c", f"yes | {shlex.join(argv)}", env=env)
    run = fleet.respond("--step", playbook=RESPOND)
    assert run.code == 2, run.out + run.err
    assert "With --step a task of a preparation or restore can be left out, and the host would count as" in run.words
    assert fleet.azure.asked() == set()


@pytest.mark.releases
def test_the_strategy_free_is_refused_before_anything_is_done(fleet):
    fleet.announce("web-1", "web-2")
    run = fleet.respond(play={"strategy": "free"})
    assert run.code != 0
    assert "The strategy must be linear, not free" in run.words
    assert fleet.approved == []
    assert [fleet.story(host) for host in HOSTS] == [[], [], []]


def test_a_strategy_of_ansible_cfg_does_not_count_for_the_playbook_respond(fleet):
    fleet.announce("web-1", notice=FAR_OFF)
    fleet.settings["ANSIBLE_STRATEGY"] = "free"
    run = fleet.respond(playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot completed"]


@pytest.mark.releases
@pytest.mark.matrix
def test_p13_max_fail_percentage_of_the_play_is_refused_before_anything_is_done(fleet):
    """Ansible would end the play when one host fails to be restored, while the other waits for its event."""
    fleet.announce("web-1")
    run = fleet.respond(play={"max_fail_percentage": "{{ 40 }}"})
    assert run.code == 2, run.out + run.err
    assert "max_fail_percentage must not be set for the play" in run.words
    assert "It is 40. Leave it out. No host was asked." in run.words
    assert fleet.azure.control("GET", "/simulator/journal")["requests"] == []


@pytest.mark.releases
@pytest.mark.matrix
def test_i12_a_task_that_waits_for_a_change_does_not_wait_in_check_mode_with_the_retries_of_the_guide(one):
    guide = (COLLECTION / "docs/docsite/rst/guide_prepare_and_restore.rst").read_text()
    (retries,) = re.findall("write ``(retries: [^`]*)``", guide)
    one.announce("web-1", notice=FAR_OFF)
    wait = f"""
    - name: Wait until nobody is connected
      ansible.builtin.command: echo 1
      check_mode: false
      changed_when: false
      register: connected
      until: connected.stdout == "0"
      {retries}
      delay: {LONGEST_RUN}
    """
    run = one.respond("--check", prepare=wait, playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    assert "Wait until nobody is connected" in run.words
    assert "FAILED - RETRYING" not in run.words


@pytest.mark.parametrize(("own", "arguments"), [(True, []), (False, ["--check"])])
@pytest.mark.matrix
def test_a_check_mode_that_is_not_that_of_the_run_is_refused_before_anything_is_done(one, own, arguments):
    """What is not prepared would count as prepared; or what is approved would be restored at once."""
    one.announce("web-1", notice=FAR_OFF)
    run = one.respond(*arguments, play={"check_mode": own}, event_response_wait_timeout=1)
    assert run.code == 2, run.out + run.err
    assert "check_mode must be the same for the response and for the run" in run.out
    assert one.azure.control("GET", "/simulator/journal")["requests"] == []
    assert one.story("host-a") == []


@pytest.mark.releases
@pytest.mark.release
def test_module_defaults_of_the_play_hide_no_event_that_goes_on_and_do_not_wait_while_approving(fleet):
    """The event of host-a starts while it is prepared, and that of host-b when it is approved. Neither ends in time."""
    fleet.announce("web-1", notice=DUE, started_for=FAR_OFF)
    of_b = fleet.announce("web-2", notice=FAR_OFF, started_for=FAR_OFF)
    module = "fleetops.azure_maintenance.scheduled_event"
    defaults = {
        f"{module}s_info": {"event_statuses": ["Scheduled"]},
        f"{module}_approve": {"wait_for": "ended", "wait_timeout": 1},
    }
    run = fleet.respond(prepare=TAKE_LONGER, play={"module_defaults": defaults}, event_response_wait_timeout=1)
    assert run.code == 2, run.out + run.err
    for host in ("host-a", "host-b"):
        assert f"{host} was not restored: the event did not end within 1 s." in run.words
        assert fleet.story(host) == [f"prepare {host} Reboot"]
    # Whether it is seen to start within that second is left to the machine.
    assert re.search(rf"Reboot {of_b} \w+, approved by host-b: host-b", run.words)


def test_p1_p2_an_event_that_is_of_another_type_by_the_time_of_its_approval_is_held_back(fleet, simulator):
    """The approval asks another simulator, as Azure may change an event after the last question."""
    later = simulator("--vms", "web-1,web-2", "--clock", "manual")
    event = fleet.announce("web-1", "web-2", event_type="Freeze", notice=FAR_OFF)
    later.announce("Reboot", "web-1", "web-2", event_id=event, notice=FAR_OFF)
    defaults = {"fleetops.azure_maintenance.scheduled_event_approve": {"endpoint": later.endpoint("web-1")}}
    run = fleet.respond(play={"module_defaults": defaults})
    assert run.code == 2, run.out + run.err
    assert fleet.azure.posted() + later.posted() == []
    assert (
        "Not approved: host-a: the event has another type or source now than its hosts are prepared for." in run.words
    )
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Freeze", f"restore {host} Freeze -"]


UNNAMED = "event_response_prepare must be the path of a file with the tasks that prepare a host, or the word nothing"
BAD_INPUT = [
    ({"event_response_prepare": ""}, UNNAMED),
    (
        {"event_response_prepare": "checker", "event_response_restore": "refill.yml"},
        "event_response_restore must be empty where event_response_prepare is checker: the checkers restore.",
    ),
    ({"event_response_prepare": "/nowhere/drain.yml"}, "event_response_prepare: there is no file /nowhere/drain.yml"),
    ({"event_response_restore": "/nowhere/refill.yml"}, "event_response_restore: there is no file"),
    ({"event_response_outside_vms": "allow"}, "event_response_outside_vms"),
    ({"event_response_wait": "perhaps"}, "event_response_wait"),
    ({"event_response_wait_timeout": "soon"}, "event_response_wait_timeout"),
    (
        {"event_response_wait_timeout": 0},
        "event_response_wait_timeout must be a whole number of seconds from 1 to 100000000, not '0'.",
    ),
    (
        {"event_response_restore_timeout": "-1"},
        "event_response_restore_timeout must be a whole number of seconds from 1 to 100000000, not '-1'.",
    ),
    ({"event_response_prepare_timeout": 1000000000}, "event_response_prepare_timeout must be a whole number of"),
    ({"event_response_reconnect_timeout": -1}, "event_response_reconnect_timeout must be a whole number of seconds"),
    ({"event_response_due_within": "soon"}, "event_response_due_within must be a whole number of seconds, not 'soon'."),
    ({"event_response_event_types": {"a": 1}}, "event_response_event_types"),
]
# What a file holds, and what is said of it; %s is the path of its folder
BAD_FILES = [
    ("- name: a: b", "bad-0.yml, line 1: YAML parsing failed"),
    ("name: x", "bad-1.yml: The file must hold a list of tasks, not a mapping."),
    ("- just words", "bad-2.yml: Each member of the list must be a task, not 'just words'."),
    ("- nowhere.at.all:", "bad-3.yml, line 1: couldn't resolve module/action 'nowhere.at.all'"),
    ("- debug: {}\n  wenn: x", "bad-4.yml, line 1: conflicting action statements: debug, wenn."),
    ("- include_tasks: gone.yml", "bad-5.yml: include_tasks: there is no file gone.yml (looked in %s)."),
    ("- block: [{include_tasks: sub/bad.yml}]", "bad.yml, line 1: couldn't resolve module/action 'nope'"),
    ("- import_tasks: gone.yml", "gone.yml"),
    ("- include_role: {name: gone}", "role 'gone' was not found"),
    ("- block: [{debug: {}}]\n  rescue: [{meta: end_play}]", "bad-9.yml: meta: end_play must not be used"),
    ("- debug: {}\n  run_once: yes", "bad-10.yml: run_once: true must not be used"),
    ("- block: [{debug: {}}]\n  run_once: true", "bad-11.yml: run_once: true must not be used"),
    ("- import_tasks: sub/once.yml\n  run_once: true", "bad-12.yml: run_once: true must not be used"),
    ("- include_tasks: {file: sub/once.yml, apply: {run_once: true}}", "bad-13.yml: run_once: true must not be used"),
    ("- include_role: {name: once}", "roles/once/tasks/more.yml: run_once: true must not be used"),
    ("- include_role: {name: once, tasks_from: even}", "roles/once: run_once: true must not be used"),
    ("- include_role: {name: ends}", "roles/ends: meta: end_host must not be used"),
    ("- debug: {}\n  any_errors_fatal: yes", "bad-17.yml: any_errors_fatal: true must not be used"),
    (
        "# - debug: {}",
        "bad-18.yml: the file has no task. Write the tasks into it. To do nothing, set the variable to `nothing`",
    ),
    ("[]", "bad-19.yml: the file has no task."),
    ("- block: [{pause: {seconds: 5}, when: false}]", "bad-20.yml: pause must not be used: Ansible runs it for the"),
    ("- import_role: {name: once, tasks_from: even}", "roles/once: run_once: true must not be used"),
    ("- include_role: {name: imports}", "roles/once: run_once: true must not be used"),
    ("- include_role: {name: once, tasks_from: adds}", "roles/once: ansible.builtin.add_host must not be used"),
    (
        "- command: 'true'\n  notify: Stop the app",
        "bad-24.yml: handler Stop the app, which it notifies: run_once: true must not be used",
    ),
    (
        "- include_role: {name: tells}",
        "bad-25.yml: handler Wait, which it notifies: pause must not be used: Ansible runs it for the first host only",
    ),
    ("- meta: clear_host_errors", "bad-26.yml: meta: clear_host_errors must not be used: Ansible forgets which hosts"),
    (
        "- command: 'true'\n  notify: Start the app",
        "bad-27.yml: handler Start the app, which it notifies, must have a timeout: it is a handler of the play",
    ),
    (
        "- command: 'true'\n  async: 60",
        "bad-28.yml: async must have poll: 0: with any other value Ansible asks without",
    ),
]
# The play that responds has these handlers, and a role with others.
HANDLERS = [
    {"name": "Stop the app", "debug": {}, "run_once": True, "timeout": 60},
    {"name": "Start the app", "debug": {}},
]
# The roles that these files include
BAD_ROLES = {
    "once/tasks/main.yml": "- include_tasks: more.yml",
    "once/tasks/more.yml": "- debug: {}\n  run_once: true",
    "once/tasks/even.yml": "- command: 'true'\n  notify: Say",
    "once/tasks/adds.yml": "- ansible.builtin.add_host: {name: spare}",
    "once/handlers/main.yml": "- name: Say\n  debug: {}\n  run_once: true",
    "ends/meta/main.yml": "dependencies: [once_ended]",
    "ends/tasks/main.yml": "- debug: {}",
    "imports/tasks/main.yml": "- import_role: {name: once, tasks_from: even}",
    "once_ended/tasks/main.yml": "- meta: end_host",
    "app/handlers/main.yml": "- name: Wait\n  pause: {seconds: 1}\n  listen: app stopped\n  timeout: 60",
    "tells/tasks/main.yml": "- command: 'true'\n  notify: app stopped",
}


def refuse_each(one, folder, cases, **more):
    """Run the role with each of these variables in one play, which has more; returns what was said in each case."""
    usual = {"event_response_prepare": "nothing"}
    tasks = [
        {
            "vars": {**usual, **variables},
            "block": [{"ansible.builtin.include_role": {"name": ROLE}}, {"ansible.builtin.meta": "end_play"}],
            "rescue": [{"ansible.builtin.debug": {"msg": f"case {number} was refused"}}],
        }
        for number, variables in enumerate(cases)
    ]
    (folder / "play.json").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks, **more}]))
    run = one.run(str(folder / "play.json"))
    said = re.split(r"case \d+ was refused", run.out)
    assert len(said) == len(cases) + 1, run.out + run.err
    assert one.azure.control("GET", "/simulator/journal")["requests"] == []
    return said


@pytest.mark.releases
@pytest.mark.release
def test_bad_input_stops_before_any_host_is_asked(one, tmp_path):
    one.announce("web-1")
    said = refuse_each(one, tmp_path, [variables for variables, _words in BAD_INPUT])
    for (_variables, words), part in zip(BAD_INPUT, said):
        assert words in part.replace("\n", " ")


@pytest.mark.releases
@pytest.mark.release
def test_a_file_that_ansible_could_not_load_stops_before_any_host_is_asked(one, tmp_path):
    one.announce("web-1")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "bad.yml").write_text("- nope:")
    (tmp_path / "sub" / "once.yml").write_text("- debug: {}")
    for name, content in BAD_ROLES.items():
        path = one.folder / "roles" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    cases = []
    for number, (content, _words) in enumerate(BAD_FILES):
        path = tmp_path / f"bad-{number}.yml"
        path.write_text(content)
        cases.append({f"event_response_{('prepare', 'restore')[number % 2]}": str(path)})
    said = refuse_each(one, tmp_path, cases, handlers=HANDLERS, roles=["app"])
    for (_content, words), part in zip(BAD_FILES, said):
        (sentence,) = set(re.findall(r'"msg": "(event_response_.*)"', part))
        assert words.replace("%s", str(tmp_path)) in sentence, sentence
        assert sentence.endswith("No host was asked.")


@pytest.mark.matrix
@pytest.mark.release
def test_a_file_whose_includes_are_found_where_ansible_finds_them_is_taken(one):
    """Beside the file, in its folder tasks, in a role, and by a name that is known only later.

    The play has a handler that the file does not notify, and that would be refused.
    """
    one.announce("web-1")
    role = one.folder / "roles" / "drain" / "tasks"
    for folder in (role, one.folder / "tasks"):
        folder.mkdir(parents=True)
    (one.folder / "beside.yml").write_text("- include_tasks: tasks/deeper.yml")
    (one.folder / "tasks" / "deeper.yml").write_text("- debug: msg=deeper")
    (one.folder / "last.yml").write_text("- debug: msg=last")
    # A role may have files for other systems.
    (role / "main.yml").write_text(
        "- include_tasks: more.yml\n- include_tasks: '{{ item }}'\n  loop: []\n"
        "- include_tasks: windows.yml\n  when: false\n- include_tasks: gone.yml\n  when: false\n"
        "- include_role: {name: gone}\n  when: false"
    )
    (role / "more.yml").write_text("- debug: msg=in-the-role\n  changed_when: true\n  notify: Say")
    (role / "windows.yml").write_text("- nowhere.at.all:")
    (role.parent / "handlers").mkdir()
    (role.parent / "handlers" / "main.yml").write_text("- name: Say\n  include_tasks: say.yml")
    (role.parent / "handlers" / "say.yml").write_text("- debug: msg=in-a-handler")
    run = one.respond(
        prepare="""
        - include_tasks: beside.yml
          run_once: false
        - import_tasks: beside.yml
        - include_role: {name: drain}
        - import_role: {name: drain}
        - include_tasks: "{{ later }}"
          vars: {later: beside.yml}
        """,
        play={"handlers": HANDLERS},
        restore="- import_tasks: last.yml",
    )
    assert run.code == 0, run.out + run.err
    assert run.out.count('"msg": "deeper"') == 3
    assert run.out.count('"msg": "last"') == 1
    assert run.out.count('"msg": "in-the-role"') == 2
    assert run.out.count('"msg": "in-a-handler"') == 1


@pytest.mark.parametrize("prepare", ["event_respons_prepare", None])
def test_nothing_is_asked_where_nobody_says_how_to_prepare(one, prepare):
    """P14: a typing error approves nothing."""
    one.announce("web-1")
    variables = {prepare: str(one.folder / "prepare.yml")} if prepare else {}
    run = one.run(RESPOND, "--extra-vars", json.dumps(variables))
    assert run.code == 2
    assert UNNAMED in run.out
    assert one.azure.control("GET", "/simulator/journal")["requests"] == []


# For the first time it says the state that stands behind it: the checker has not finished.
CHECKER = """#!/bin/sh
[ -e {status}.asked ] && cat {status} || sed s/succeeded/running/ {status}
touch {status}.asked
exit 1
"""


@pytest.mark.matrix
def test_who_is_prepared_by_its_checker_in_this_boot_counts_as_prepared_and_nobody_else(three):
    """host-a and host-c are; the checker of host-b failed. The events are those of a, of b and a, and of c."""
    of_a, of_b, of_c = (
        three.announce("web-1"),
        three.announce("web-2", "web-1", notice=FAR_OFF),
        three.announce("web-3"),
    )
    for host, states in {"host-a": {of_a: "succeeded", of_b: "succeeded"}, "host-b": {of_b: "failed"}}.items():
        steps = {event: [{"state": state, "in_this_boot": True}] for event, state in states.items()}
        events = [
            {
                "event_id": event,
                "phase": "announced",
                "responses": [{"number": 1, "phase": "announced", "state": state, "steps": steps[event]}],
            }
            for event, state in states.items()
        ]
        status = three.folder / f"{host}.status"
        status.write_text(json.dumps({"heard_lately": True, "events": events}))
        program = three.folder / f"{host}.checker"
        program.write_text(CHECKER.format(status=status))
        program.chmod(0o755)
    checker = f"{three.folder}/{{{{ inventory_hostname }}}}.checker"
    words = {"event_response_prepare": "checker", "event_response_restore": "", "__event_response_checker": checker}
    run = three.respond(playbook=RESPOND, **words)
    assert run.code == 2, run.out + run.err
    assert three.approved == [("web-1", [of_a])]
    assert "host-b could not be prepared: response 1 of its checker failed." in run.out
    assert "host-c could not be prepared: The host has no checker: run install_checker for it." in run.out
    assert of_c in run.out


# The program of the role event_checker, which keeps all in a folder of the test
PROGRAM = """#!/bin/sh
PATH={folder}/bin:$PATH PYTHONPATH={collections} exec {python} -B -c '
import sys
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli, system
sys.exit(cli.main(sys.argv[1:], system.Folders(*{folders})))
' "$@"
"""
SYSTEMCTL = """#!/bin/sh
number=${{3#azure-maintenance-respond@}}
setsid {program} respond ${{number%.service}} </dev/null >>{log} 2>&1 &
"""


def install_checker(fleet, host, vm, marks):
    """Give a host the real checker; returns its program."""
    folder = fleet.folder / f"{host}-checker"
    for name in ("bin", "run", "facts", "playbooks"):
        (folder / name).mkdir(parents=True)
    step = {
        phase: [{"command": ["sh", "-c", f"echo {word} >>{fleet.folder}/{host}.story"]}]
        for phase, word in (("on_announced", "prepare"), ("on_ended", "restore"))
    }
    rule = {"name": "Drain", **step, "approve": "when_ready", "retries": 0}
    config = {"endpoint": fleet.azure.endpoint(vm), "rules": [rule], "poll_interval": 0.5, "timer_interval": 300}
    (folder / "config.json").write_text(json.dumps(config))
    names = ("config.json", "playbooks", "state", "run", "facts")
    folders = json.dumps([*(str(folder / name) for name in names), str(marks), str(folder / "marks-in-memory")])
    program, systemctl = folder / "azure-maintenance", folder / "bin" / "systemctl"
    collections = os.environ["ANSIBLE_COLLECTIONS_PATH"]
    program.write_text(PROGRAM.format(folder=folder, collections=collections, python=sys.executable, folders=folders))
    systemctl.write_text(SYSTEMCTL.format(program=program, log=folder / "log"))
    for each in (program, systemctl):
        each.chmod(0o755)
    return program


@pytest.mark.matrix
def test_p13_real_checkers_prepare_and_restore_around_the_approval_of_the_run(fleet, tmp_path):
    marks = tmp_path / "home" / "marks"
    event = fleet.announce("web-1", "web-2", notice=FAR_OFF, started_for=LONG)
    with contextlib.ExitStack() as stack:
        for host in ("host-a", "host-b"):
            program = install_checker(fleet, host, HOSTS[host], marks)
            checker = subprocess.Popen([program, "check"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(checker.wait, LONGEST_RUN)
            stack.callback(checker.terminate)
        words = {"__event_response_checker": f"{fleet.folder}/{{{{ inventory_hostname }}}}-checker/azure-maintenance"}
        words.update(event_response_prepare="checker", event_response_restore="")
        with fleet.meanwhile(fleet.is_one_started, lambda: fleet.pass_time(LONG)):
            run = fleet.respond(playbook=RESPOND, **words)
        wait_until(lambda: len(fleet.story("host-a") + fleet.story("host-b")) == 4 and not list(marks.iterdir()))
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event])]
    summary = summary_of(run)
    assert (summary["faults"], summary["not_restored"]) == ({}, [])
    assert "The checkers of host-a, host-b restore them when the event is over." in run.words
    assert fleet.story("host-a") == fleet.story("host-b") == ["prepare", "restore"]


@pytest.mark.matrix
def test_who_need_not_prepare_says_so(one):
    event = one.announce("web-1")
    run = one.respond(event_response_prepare="nothing")
    assert run.code == 0, run.out + run.err
    assert one.approved == [("web-1", [event])]
    assert one.story("host-a") == ["restore host-a Reboot completed"]


@pytest.mark.releases
@pytest.mark.matrix
def test_nothing_is_coming(one):
    run = one.respond()
    assert run.code == 0, run.out + run.err
    assert "No event." in run.out
    assert one.approved == []


@pytest.mark.releases
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("wait", "{{ lookup('ansible.builtin.file', flag) | bool }}"),
        ("restore", "{{ restore_file if lookup('ansible.builtin.file', flag) | bool else '' }}"),
    ],
)
@pytest.mark.matrix
def test_p13_a_variable_that_the_preparation_changes_counts_as_it_was_checked(one, name, value):
    one.announce("web-1", notice=FAR_OFF)
    flag = one.folder / "flag"
    flag.write_text("true")
    one.set("host-a", flag=str(flag), restore_file=str(one.folder / "restore.yml"))
    run = one.respond(
        prepare=NOTE.format(words="prepared") + "- raw: echo false >{{ flag | quote }}\n",
        **{f"event_response_{name}": value},
    )
    assert run.code == 0, run.out + run.err
    assert one.story("host-a") == ["prepare host-a Reboot", "prepared", "restore host-a Reboot completed"]


UNREADABLE = {"fault": "body", "body": '{"DocumentIncarnation": 1, "Events": [17]}'}


@pytest.mark.releases
@pytest.mark.parametrize(
    ("fault", "code", "told"),
    [
        (UNREADABLE, 2, "host-a was given an answer that could not be read as a whole, so an event may be missing."),
        ({"fault": "empty"}, 0, "Azure gave an empty answer to host-a: whether there are events is unknown."),
    ],
)
@pytest.mark.matrix
def test_p13_a_first_answer_that_tells_nothing_is_not_told_as_no_event(one, fault, code, told):
    one.announce("web-1", notice=FAR_OFF)
    one.azure.control("POST", "/simulator/faults", {**fault, "times": 1, "path": "scheduledevents"})
    run = one.respond(playbook=RESPOND)
    assert run.code == code, run.out + run.err
    assert told in " ".join(" ".join(summary_of(run)["lines"]).split())
    assert "No event." not in run.out
    assert one.story("host-a") == []


@pytest.mark.matrix
def test_p13_an_answer_that_tells_nothing_of_the_event_that_is_wanted_is_no_failure(fleet):
    event = fleet.announce("web-1", notice=FAR_OFF)
    fleet.azure.control("POST", "/simulator/faults", {**UNREADABLE, "path": "scheduledevents", "vms": ["web-2"]})
    run = fleet.respond(playbook=RESPOND, event_response_event_ids=[event])
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event])]
    assert fleet.respond(playbook=RESPOND).code == 2


@pytest.mark.matrix
def test_a_survey_left_empty_means_all_events(one):
    names = ("event_types", "event_sources", "event_ids", "due_within", "restore")
    one.announce("web-1")
    empty = {f"event_response_{name}": "" for name in names} | {"event_response_prepare": "nothing"}
    run = one.respond("--check", playbook=RESPOND, **empty)
    assert run.code == 0, run.out + run.err
    assert "would be approved" in run.words


@pytest.mark.matrix
def test_an_id_may_be_shortened_and_one_that_names_no_event_stops_the_run_before_it_prepares(one):
    named, _other = one.announce("web-1"), one.announce("web-1", notice=900)
    run = one.respond(event_response_event_ids=[named[:8].lower(), "nowhere"])
    assert run.code == 2, run.out + run.err
    assert "event_response_event_ids: no host is affected by an event with the id nowhere, or" in run.words
    assert "No host was prepared." in run.words
    assert one.story("host-a") == []
    run = one.respond(event_response_event_ids=f"{named[:8].lower()}\n", event_response_restore="")
    assert run.code == 0, run.out + run.err
    assert "event_response_restore is not set, so the hosts stay as event_response_prepare leaves them." in " ".join(
        (run.out + run.err).split()
    )
    assert one.approved == [("web-1", [named])]
    assert one.story("host-a") == ["prepare host-a Reboot"]


@pytest.mark.matrix
def test_p14_in_batches_a_beginning_names_no_event_because_a_later_batch_may_have_another_that_begins_so(fleet):
    fleet.announce("web-1", event_id="AAAA1111-0000-0000-0000-000000000001")
    fleet.announce("web-2", event_id="AAAA2222-0000-0000-0000-000000000002")
    run = fleet.respond(play={"serial": 1}, event_response_event_ids="aaaa")
    assert run.code == 2, run.out + run.err
    assert "aaaa is not the whole id of an event, and a host that was not asked" in run.words
    assert fleet.approved == []
    assert (fleet.story("host-a"), fleet.story("host-b")) == ([], [])


@pytest.mark.matrix
def test_p14_a_beginning_names_no_event_while_a_host_does_not_tell_all_its_events(three):
    """host-b gets an empty answer, and host-c is down. The whole id is taken."""
    event = three.announce("web-1", event_id="AAAA1111-0000-0000-0000-000000000001")
    three.announce("web-3", event_id="AAAA2222-0000-0000-0000-000000000002")
    three.azure.control("POST", "/simulator/faults", {"fault": "empty", "times": 9, "vms": ["web-2"]})
    (three.folder / "host-c.up").unlink()
    run = three.respond(playbook=RESPOND, event_response_event_ids="aaaa1")
    assert run.code != 0, run.out + run.err
    assert "aaaa1 is not the whole id of an event, and not all events of host-b, host-c are known" in run.words
    assert (three.approved, three.story("host-a")) == ([], [])
    three.respond(playbook=RESPOND, event_response_event_ids=event.lower())
    assert three.approved == [("web-1", [event])]


@pytest.mark.matrix
def test_only_the_wanted_events_are_answered_and_the_lines_of_a_survey_are_the_words_of_a_list(one):
    reboot, freeze = one.announce("web-1"), one.announce("web-1", event_type="Freeze", duration_seconds=5)
    one.announce("web-1", event_type="Redeploy", notice=900)
    run = one.respond(event_response_event_types="Reboot\n Freeze\n", event_response_due_within="900000")
    assert run.code == 0, run.out + run.err
    assert sorted(event for _vm, events in one.approved for event in events) == sorted([reboot, freeze])
    assert one.story("host-a") == [
        "prepare host-a Reboot",
        "prepare host-a Freeze",
        "restore host-a Reboot completed",
        "restore host-a Freeze completed",
    ]
