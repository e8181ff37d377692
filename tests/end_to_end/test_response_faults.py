# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""P13: whatever fails, and wherever a host is lost, nothing is approved that nobody prepared, and each host that was
prepared is restored, or named by a run that fails.

Most hosts here have an event of their own, so that one run shows many faults.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import beside
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import (
    FAR_OFF,
    HOSTS,
    LONG,
    NOTE,
    RESPOND,
    ROLE,
    Fleet,
    summary_of,
)

# What the tasks of a host do, by the name of the fault. What is known before a host is asked is refused at once, and is
# tested in test_event_response.py; so the names of what is included are known only later here.
FAULTS = {
    "none": "debug: {msg: It went well.}",
    "missing file": "include_tasks: \"{{ 'nothere' }}.yml\"",
    "missing role": "include_role: {name: \"{{ 'nothere' }}\"}",
    "undefined variable": 'debug: {msg: "{{ nowhere.defined }}"}',
    "undefined variable in the name": "fail: {msg: The message of the runbook.}\n  name: Stop {{ nowhere_defined }}",
    "failed command": "raw: echo no such pool >&2; exit 7",
    # B4
    "failed_when": "raw: echo pool is empty; echo no member\n  name: Look\n  failed_when: true",
    "assert": "assert: {that: \"'web' in 'db'\"}\n  name: Look",
    "timeout": "raw: sleep 600",
    "end_host": "include_tasks: \"{{ folder }}/{{ 'end_host' }}.yml\"",
    "rescued": "block: [{fail: {msg: It fails.}}]\n  rescue: [{debug: {msg: It was rescued.}}]",
    "handler": "include_role: {name: \"{{ 'with_handler' }}\"}",
    "delegated": 'raw: "true"\n  delegate_to: gone',
}
# The faults that harm nothing
HARMLESS = ("none", "rescued")
# What is said of the others
REASONS = {
    "missing file": "a file or role that it includes could not be loaded",
    "missing role": "a file or role that it includes could not be loaded",
    "undefined variable": "nowhere",
    "undefined variable in the name": "The message of the runbook.",
    "failed command": "rc=7: no such pool",
    "failed_when": "Look: failed_when is true: pool is empty no member.",
    "assert": "Look: Assertion failed: 'web' in 'db' is false.",
    # ansible-core 2.16 and 2.19 say it in other words.
    "timeout": " could not be ",
    "end_host": "output above.",
    "handler": "The handler fails.",
    "delegated": "output above.",
}
RAISE = """
- name: Come to the fault
  include_tasks: "{{ folder }}/{{ fault }}.yml"
  when: fault != 'none'
"""


@pytest.fixture
def make_fleet(ansible, simulator, tmp_path):
    def make(hosts, vms):
        (tmp_path / "fleet").mkdir()
        fleet = Fleet(ansible, simulator, tmp_path / "fleet", hosts, vms)
        for name, task in FAULTS.items():
            (fleet.folder / f"{name}.yml").write_text(f"- {task}\n")
        (fleet.folder / "end_host.yml").write_text("- meta: end_host\n")
        role = fleet.folder / "roles" / "with_handler"
        for part, tasks in (
            ("tasks", "- raw: 'true'\n  changed_when: true\n  notify: Say"),
            ("handlers", "- name: Say\n  fail: {msg: The handler fails.}"),
        ):
            (role / part).mkdir(parents=True)
            (role / part / "main.yml").write_text(tasks)
        return fleet

    return make


@pytest.fixture
def each_alone(make_fleet):
    """A factory: a fleet with a host for each of these names, and an event for each host, in their order."""

    def make(names):
        hosts = {f"host-{number}": f"web-{number}" for number in range(len(names))}
        fleet = make_fleet(hosts, hosts)
        for host in hosts:
            fleet.set(host, folder=str(fleet.folder))
        return fleet, dict(zip(names, hosts)), {host: fleet.announce(vm, notice=FAR_OFF) for host, vm in hosts.items()}

    return make


@pytest.mark.parametrize(
    ("phase", "faults"),
    [
        pytest.param("prepare", ["none", "missing file", "end_host"], id="some while preparing"),
        pytest.param("prepare", list(FAULTS), id="all while preparing", marks=pytest.mark.matrix),
        pytest.param("restore", list(FAULTS), id="all while restoring", marks=pytest.mark.matrix),
    ],
)
@pytest.mark.releases
def test_a_file_fails_in_each_way_that_ansible_knows(each_alone, phase, faults):
    fleet, hosts, events = each_alone(faults)
    for fault, host in hosts.items():
        fleet.set(host, fault=fault)
    fleet.set("gone", ansible_connection="mortal", up_file=str(fleet.folder / "gone.up"))
    files = {phase: RAISE, f"event_response_{phase}_timeout": 3}
    run = fleet.respond("--limit", "host-*,localhost", playbook=RESPOND, **files)
    assert run.code == 2, run.out + run.err
    summary = summary_of(run)
    well = [host for fault, host in hosts.items() if fault in HARMLESS]
    assert sorted(summary["faults"]) == sorted(set(hosts.values()) - set(well))
    approved = sorted(well if phase == "prepare" else hosts.values())
    assert sorted(event for _vm, ids in fleet.approved for event in ids) == sorted(events[host] for host in approved)
    for fault, host in hosts.items():
        told = " ".join(summary["faults"].get(host, []))
        assert REASONS.get(fault, "") in told, (fault, told)
        begun = [f"prepare {host} Reboot"]
        done = "completed" if host in approved else "-"
        # A restore is tried in each play that has the host again, where it was lost in its middle.
        tries = 3 if phase == "restore" and fault in ("end_host", "delegated") else 1
        assert fleet.story(host) == begun + [f"restore {host} Reboot {done}"] * tries, (fault, run.out)
    left = [] if phase == "prepare" else set(hosts.values()) - set(well)
    assert sorted(summary["not_restored"]) == sorted(left)


# Which use of the connection of a host finds it down: what it is for. Where the host is back for the next use: whether
# the event is approved, whether the host has a fault, and the story. Where it is gone for good: the same.
LOSSES = [
    # It is asked once more before the end.
    ("asked", (True, False, "prepare restore"), (False, True, "")),
    ("marked", (False, True, ""), (False, True, "")),
    ("prepared", (False, True, "restore"), (False, True, "")),
    ("marked as prepared", (True, False, "prepare restore"), (False, True, "prepare")),
    ("asked again", (False, True, "prepare restore"), (False, True, "prepare")),
    # Nobody knows whether it was approved, so its end is waited for.
    ("told to approve", (False, False, "prepare restore"), (False, True, "prepare")),
    ("asked whether it is over", (True, False, "prepare restore"), (True, True, "prepare")),
    ("marked as being put back", (True, False, "prepare restore"), (True, True, "prepare")),
    ("restored", (True, False, "prepare restore"), (True, True, "prepare")),
    ("its mark removed", (True, True, "prepare restore"), (True, True, "prepare restore")),
]


@pytest.mark.matrix
@pytest.mark.parametrize("back_after", [1, 0], ids=["for a moment", "for good"])
def test_a_host_is_lost_in_each_task_that_needs_it(each_alone, back_after):
    fleet, hosts, events = each_alone([task for task, *_ends in LOSSES])
    for number, host in enumerate(hosts.values()):
        fleet.set(host, mortal_dies_at=number + 1, mortal_back_after=back_after)
    wait, reconnect = (600, 300) if back_after else (20, 1)
    timeouts = {"event_response_wait_timeout": wait, "event_response_reconnect_timeout": reconnect}
    unsure = hosts["told to approve"]
    withdraw = f"/simulator/events/{events[unsure]}"
    missed = fleet.folder / f"{unsure}.up.missed"
    with fleet.meanwhile(missed.exists, lambda: fleet.azure.control("DELETE", withdraw)):
        run = fleet.respond(playbook=RESPOND, **timeouts)
    assert run.code == 2, run.out + run.err
    summary = summary_of(run)
    approved = {event for _vm, ids in fleet.approved for event in ids}
    ends = {hosts[task]: for_a_moment if back_after else for_good for task, for_a_moment, for_good in LOSSES}
    told = {
        host: (
            events[host] in approved,
            host in summary["faults"],
            " ".join(line.split()[0] for line in fleet.story(host)),
        )
        for host in ends
    }
    assert told == ends, run.out
    lost = [host for host, (_approved, _fault, story) in ends.items() if story == "prepare"]
    # Nobody knows whether they got their mark, or began to prepare.
    lost += [hosts["marked"], hosts["prepared"]]
    assert sorted(summary["not_restored"]) == ([] if back_after else sorted(lost))
    assert summary["not_asked"] == ([] if back_after else [hosts["asked"]])


@pytest.mark.releases
@pytest.mark.parametrize(
    ("playbook", "play"),
    [
        pytest.param(None, {"any_errors_fatal": True}, id="the role alone"),
        pytest.param(RESPOND, None, id="the playbook", marks=pytest.mark.matrix),
    ],
)
@pytest.mark.release
def test_an_error_while_asking_that_is_not_a_lost_connection_leaves_nobody_unrestored(each_alone, playbook, play):
    """Such as a prompt of sudo that does not come while a host goes down."""
    fleet, hosts, events = each_alone(["asked again", "once while it waits", "twice while it waits", "none"])
    for task, use, times in (("asked again", 5, 1), ("once while it waits", 7, 1), ("twice while it waits", 7, 2)):
        fleet.set(hosts[task], mortal_dies_at=use, mortal_back_after=times, mortal_error="plain")
    run = fleet.respond(playbook=playbook, play=play)
    assert run.code == 2, run.out + run.err
    held_back = hosts["asked again"]
    summary = summary_of(run)
    assert list(summary["faults"]) == [held_back]
    assert f"{held_back} could not be asked again: " in summary["faults"][held_back][0]
    assert sorted(ids for _vm, ids in fleet.approved) == sorted([events[host]] for host in events if host != held_back)
    for host in events:
        outcome = "-" if host == held_back else "completed"
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot {outcome}"], run.out


@pytest.mark.releases
@pytest.mark.matrix
def test_an_approval_whose_answer_was_lost_with_the_connection_leaves_the_hosts_prepared(make_fleet):
    """The event has started, and this run does not wait for its end."""
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    event = fleet.announce("web-1", "web-2", notice=FAR_OFF, started_for=LONG)
    # Asked, marked, prepared, marked as prepared, asked again, told to approve
    fleet.set("host-a", mortal_cut_at=6)
    run = fleet.respond(playbook=RESPOND, event_response_wait=False)
    assert run.code == 2, run.out + run.err
    assert fleet.approved == [("web-1", [event])]
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot"], run.out
    assert "Whether host-a approved it is not known: its connection was lost." in run.words
    assert sorted(summary_of(run)["faults"]) == ["host-a", "host-b"]


@pytest.mark.parametrize(
    ("hosts", "lost"),
    [
        pytest.param(["host-a", "host-b"], "host-b", id="one of the affected"),
        pytest.param(["host-a", "host-b"], "host-a host-b", id="all hosts of the play"),
        pytest.param(list(HOSTS), "host-b", id="beside one that takes no part", marks=pytest.mark.matrix),
        pytest.param(list(HOSTS), "host-a host-b", id="all affected", marks=pytest.mark.matrix),
    ],
)
@pytest.mark.release
def test_a_host_whose_connection_drops_while_it_is_prepared_is_restored(make_fleet, hosts, lost):
    fleet = make_fleet(hosts, HOSTS)
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    for host in lost.split():
        fleet.set(host, mortal_dies_at=4, mortal_back_after=2)
    still = """
    - name: Go on
      raw: "true"
    """
    run = fleet.respond(playbook=RESPOND, prepare=still, event_response_reconnect_timeout=300)
    assert run.code == 2, run.out + run.err
    assert fleet.approved == []
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot -"], run.out
        assert (f"The preparation of {host} was cut short" in run.out) is (host in lost)
    assert fleet.story("host-c") == []


@pytest.mark.matrix
@pytest.mark.parametrize("phase", ["prepare", "restore"])
@pytest.mark.release
def test_a_file_ends_the_play(make_fleet, phase):
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    event = fleet.announce("web-1", "web-2", notice=FAR_OFF)
    (fleet.folder / "end_play.yml").write_text("- meta: end_play\n")
    end = {phase: "- include_tasks: \"{{ inventory_file | dirname }}/{{ 'end_play' }}.yml\"\n"}
    run = fleet.respond(playbook=RESPOND, **end)
    assert run.code == 2, run.out + run.err
    assert fleet.approved == ([] if phase == "prepare" else [("web-1", [event])])
    summary = summary_of(run)
    assert sorted(summary["faults"]) == ["host-a", "host-b"]
    assert summary["not_restored"] == ([] if phase == "prepare" else ["host-a", "host-b"])


@pytest.mark.matrix
@pytest.mark.release
def test_a_role_alone_names_who_ended_in_a_later_batch(make_fleet):
    """Ansible takes it for a host with which all went well, and the first host of the play is not in that batch."""
    hosts = {f"host-{name}": f"web-{number}" for number, name in enumerate("abcd")}
    fleet = make_fleet(hosts, hosts)
    fleet.announce("web-3", notice=FAR_OFF)
    fleet.set("host-d", folder=str(fleet.folder), fault="end_host")
    run = fleet.respond(play={"serial": 2}, prepare=RAISE)
    assert run.code == 2, run.out + run.err
    assert summary_of(run)["not_restored"] == ["host-d"]
    assert "host-d is not known to be restored" in run.out


@pytest.mark.releases
@pytest.mark.parametrize("phase", ["prepare", pytest.param("restore", marks=pytest.mark.matrix)])
@pytest.mark.release
def test_p13_a_later_batch_fails_once_for_who_ended_alone_in_an_earlier_one(make_fleet, phase):
    """Ansible counts it among the hosts of the play again. The batches are a, b with c, and d."""
    hosts = {f"host-{name}": f"web-{number}" for number, name in enumerate("abcd")}
    fleet = make_fleet(hosts, hosts)
    fleet.announce("web-0", notice=FAR_OFF)
    of_d = fleet.announce("web-3", notice=FAR_OFF)
    for host in hosts:
        fleet.set(host, folder=str(fleet.folder), fault="end_host" if host == "host-a" else "none")
    run = fleet.respond(play={"serial": [1, 2, 1]}, **{phase: RAISE})
    assert run.code == 2, run.out + run.err
    assert re.findall(r"fatal: \[(.*?)\].*host-a is not known to be restored", run.out) == ["host-b"]
    assert summary_of(run)["not_restored"] == ["host-a"]
    assert fleet.approved[-1:] == [("web-3", [of_d])]
    assert fleet.story("host-d") == ["prepare host-d Reboot", "restore host-d Reboot completed"]


@pytest.mark.releases
@pytest.mark.parametrize(
    ("order", "first"),
    [("reverse_inventory", "host-b"), pytest.param("inventory", "host-a", marks=pytest.mark.matrix)],
)
@pytest.mark.release
def test_p13_batches_in_another_order_forget_nobody(make_fleet, order, first):
    """The variables of Ansible have the hosts of the play in the order of the inventory, whatever that of the play."""
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    events = {host: fleet.announce(HOSTS[host], notice=FAR_OFF) for host in ("host-a", "host-b")}
    for host in events:
        fleet.set(host, folder=str(fleet.folder), fault="end_host" if host == first else "none")
    (last,) = set(events) - {first}
    run = fleet.respond(play={"serial": 1, "order": order}, prepare=RAISE)
    assert run.code == 2, run.out + run.err
    assert f"{first} is not known to be restored" in run.out
    assert summary_of(run)["not_restored"] == [first]
    assert fleet.approved == [(HOSTS[last], [events[last]])]


@pytest.mark.releases
@pytest.mark.release
def test_p13_somebody_fails_for_a_host_that_is_gone_where_a_condition_leaves_out_the_first_one(make_fleet):
    fleet = make_fleet(list(HOSTS), HOSTS)
    for vm in HOSTS.values():
        fleet.announce(vm, notice=FAR_OFF)
    for host in HOSTS:
        fleet.set(host, folder=str(fleet.folder), fault="end_host" if host == "host-c" else "none")
    given = fleet.write_files(prepare=RAISE)
    include = {"include_role": {"name": ROLE}, "vars": given, "when": "inventory_hostname != 'host-a'"}
    (fleet.folder / "site.json").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [include]}]))
    run = fleet.run(str(fleet.folder / "site.json"))
    assert run.code == 2, run.out + run.err
    assert re.findall(r"fatal: \[(.*?)\].*host-c is not known to be restored", run.out) == ["host-b"]
    assert fleet.story("host-a") == []
    assert fleet.story("host-b") == ["prepare host-b Reboot", "restore host-b Reboot completed"]


@pytest.mark.parametrize("ended", ["host-a", pytest.param("host-b", marks=pytest.mark.matrix)])
@pytest.mark.release
def test_p13_somebody_fails_for_a_host_for_which_a_file_ends_the_role(make_fleet, ended):
    """Ansible leaves it in the play, and it does not come to the verdict."""
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    (fleet.folder / "end_role.yml").write_text("- meta: end_role\n")
    for host in ("host-a", "host-b"):
        fleet.announce(HOSTS[host], notice=FAR_OFF)
        fleet.set(host, folder=str(fleet.folder), fault="end_role" if host == ended else "none")
    (other,) = {"host-a", "host-b"} - {ended}
    run = fleet.respond(prepare=RAISE)
    assert run.code == 2, run.out + run.err
    assert re.findall(rf"fatal: \[(.*?)\].*{ended} is not known to be restored", run.out) == [other]
    assert fleet.story(other) == [f"prepare {other} Reboot", f"restore {other} Reboot completed"]


@pytest.mark.releases
@pytest.mark.parametrize("playbook", [RESPOND, None], ids=["playbook", "role"])
def test_p2_p3_a_handler_that_a_failed_file_has_notified_runs_before_the_next_file_and_not_after_it(
    make_fleet, playbook
):
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    role = fleet.folder / "roles" / "service"
    for part, tasks in (
        ("tasks", "- raw: 'true'\n  notify: Stop\n- fail:\n  when: inventory_hostname == 'host-b'"),
        ("handlers", f"- name: Stop{NOTE.format(words='stopped').partition('Note it')[2]}"),
    ):
        (role / part).mkdir(parents=True)
        (role / part / "main.yml").write_text(tasks)
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    run = fleet.respond(
        prepare="- include_role: {name: service}", restore=NOTE.format(words="started"), playbook=playbook
    )
    assert run.code == 2, run.out + run.err
    assert fleet.approved == []
    assert [line.split()[0] for line in fleet.story("host-b")] == ["prepare", "stopped", "restore", "started"]
    assert [line.split()[0] for line in fleet.story("host-a")] == ["prepare", "stopped", "restore", "started"]
    assert summary_of(run)["not_restored"] == []


@pytest.mark.releases
@pytest.mark.parametrize("playbook", [RESPOND, None], ids=["playbook", "role"])
def test_p15_connection_variables_of_the_first_host_that_cannot_be_evaluated_cost_only_that_host(make_fleet, playbook):
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    inventory = json.loads(fleet.inventory.read_text())
    inventory["all"]["hosts"]["host-a"]["ansible_remote_tmp"] = "{{ lookup('ansible.builtin.file', '/none') }}"
    fleet.inventory.write_text(json.dumps(inventory))
    fleet.announce("web-2", notice=FAR_OFF)
    run = fleet.respond(playbook=playbook)
    assert run.code == 2, run.out + run.err
    assert [line.split()[0] for line in fleet.story("host-b")] == ["prepare", "restore"]
    assert len(fleet.approved) == 1
    # In a play of one's own it has failed before the role knows of it, as Ansible says.
    assert playbook is None or "host-a was not asked" in run.words


def test_extra_variables_that_replace_what_the_files_are_given_are_told(make_fleet):
    fleet = make_fleet(["host-a"], HOSTS)
    fleet.announce("web-1", notice=FAR_OFF)
    run = fleet.respond(maintenance_phase="announced", maintenance_outcome=None)
    assert run.code == 0, run.out + run.err
    words = " ".join((run.out + run.err).split())
    assert "files of tasks are given for each host: maintenance_outcome, maintenance_phase." in words


def test_p13_a_handler_of_the_play_that_fails_before_the_role_is_a_failure_of_the_play(make_fleet):
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    handler = {"name": "Reload", "ansible.builtin.fail": {"msg": "no reload"}, "when": "inventory_hostname == 'host-b'"}
    tasks = [{"ansible.builtin.command": "true", "notify": "Reload"}, {"ansible.builtin.include_role": {"name": ROLE}}]
    play = {"handlers": [{**handler, "timeout": 20}], "roles": [], "tasks": tasks}
    run = fleet.respond(prepare=NOTE.format(words="stopped"), restore=NOTE.format(words="started"), play=play)
    assert run.code == 2, run.out + run.err
    assert "no reload" in run.out
    assert (fleet.approved, fleet.story("host-b")) == ([], [])


@pytest.mark.releases
@pytest.mark.parametrize(
    "forged",
    [
        {"events": [{"event_id": "A1", "affects_this_vm": True}], "document_received": True, "document_is_clear": True},
        {"changed": False},
        {"failed": True, "msg": {"No": 1}, "document_received": True, "events": 5},
    ],
    ids=["an event without keys", "nothing", "a failure with parts of an answer"],
)
def test_a_vm_that_forges_its_answers_is_named_and_costs_only_its_own(make_fleet, forged):
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    event = fleet.announce("web-1", notice=FAR_OFF)
    python = fleet.folder / "forger"
    python.write_text(f"#!/bin/sh\ncat >/dev/null\necho {shlex.quote(json.dumps(forged))}\n")
    python.chmod(0o755)
    fleet.set("host-b", ansible_python_interpreter=str(python))
    run = fleet.respond(playbook=RESPOND)
    assert run.code == 2, run.out + run.err
    assert "Traceback" not in run.out + run.err
    assert fleet.approved == [("web-1", [event])]
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot completed"]
    assert [line for line in summary_of(run)["faults"]["host-b"] if "The answer of the host cannot be used" in line]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--tags", "drain"),
        ("--start-at-task", "Ask"),
        ("--start-at-task", "Decide the next step of each host"),
        ("--start-at-task", "Say the news"),
        ("--start-at-task", "Do it"),
        ("--start-at-task", "Take more turns"),
        ("--start-at-task", "Show the result of each event"),
        ("--start-at-task", "Keep the results of this host's events"),
        ("--start-at-task", "Fail where there is a fault"),
        ("--skip-tags", "untagged"),
    ],
    ids=" ".join,
)
def test_p13_a_run_of_which_ansible_leaves_out_the_tasks_says_so(make_fleet, arguments):
    """B1: it would end as a run that found no event."""
    fleet = make_fleet(["host-a"], HOSTS)
    fleet.announce("web-1", notice=FAR_OFF)
    run = fleet.respond(*arguments, playbook=RESPOND)
    assert run.code == 2, run.out + run.err
    assert "The run did not begin, so no host was asked. Was it started with --tags" in run.words
    assert "No event." not in run.out
    assert fleet.story("host-a") == []


def test_p13_a_run_whose_report_would_be_left_out_is_refused(make_fleet):
    fleet = make_fleet(["host-a"], HOSTS)
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    run = fleet.respond("--skip-tags", "always", playbook=RESPOND)
    assert run.code == 2, run.out + run.err
    assert "With --skip-tags always Ansible leaves out the report of the run" in run.words
    assert fleet.azure.asked() == set()


@pytest.mark.releases
@pytest.mark.parametrize(
    ("tags", "arguments", "is_refused"),
    [
        ("never", (), True),
        ("slow", ("--skip-tags", "slow"), True),
        ("{{ 'slow' }}", ("--skip-tags", "slow"), True),
        ("slow", ("--tags", "maintenance"), False),
        ("slow", ("--tags", "maintenance", "--skip-tags", "slow"), True),
        ("slow", (), False),
    ],
)
def test_p13_a_file_of_which_tags_leave_nothing_to_run_is_refused(make_fleet, tags, arguments, is_refused):
    fleet = make_fleet(["host-a"], HOSTS)
    fleet.announce("web-1", notice=FAR_OFF)
    file = fleet.folder / "tagged.yml"
    file.write_text(NOTE.format(words="drained") + f'  tags: "{tags}"\n')
    play = {"roles": [{"role": ROLE, "tags": ["maintenance"]}]}
    run = fleet.respond(*arguments, play=play, event_response_prepare=str(file))
    assert (run.code != 0) == is_refused, run.out + run.err
    assert (f"{file}: no task is left of the file, because of its tags" in run.words) == is_refused
    assert len(fleet.approved) == (0 if is_refused else 1)
    assert fleet.story("host-a") == ([] if is_refused else ["drained", "restore host-a Reboot completed"])


@pytest.mark.releases
def test_p13_a_file_of_which_the_tags_of_a_run_leave_out_a_task_is_refused(make_fleet):
    fleet = make_fleet(["host-a"], HOSTS)
    fleet.announce("web-1", notice=FAR_OFF)
    note = NOTE.format(words="drained")
    file = fleet.folder / "tagged.yml"
    file.write_text(f"{note}{note}  tags: [slow]\n{note}  tags: [never, debug]\n")
    run = fleet.respond("--skip-tags", "slow", playbook=RESPOND, event_response_prepare=str(file))
    assert run.code == 2, run.out + run.err
    assert f"{file}: --tags or --skip-tags leaves out tasks of the file (Note it), so" in run.words
    assert (fleet.approved, fleet.story("host-a")) == ([], [])
    assert fleet.respond(playbook=RESPOND, event_response_prepare=str(file)).code == 0
    assert fleet.story("host-a")[:2] == ["drained", "drained"]


@pytest.mark.matrix
def test_a_file_may_have_a_name_that_ansible_would_take_for_an_option(make_fleet):
    fleet = make_fleet(["host-a"], HOSTS)
    fleet.announce("web-1", notice=FAR_OFF)
    path = fleet.folder / "my web=1.yml"
    path.write_text(NOTE.format(words="drained"))
    run = fleet.respond(event_response_prepare=str(path))
    assert run.code == 0, run.out + run.err
    assert fleet.story("host-a")[0] == "drained"


def test_p15_who_has_throttle_in_the_play_does_not_make_one_host_wait_for_the_event_of_another(make_fleet):
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    fleet.announce("web-1", notice=FAR_OFF, started_for=LONG)
    fleet.announce("web-2", notice=FAR_OFF, started_for=10)

    def is_waiting():
        """Both events have started, and at least one of the hosts asks whether its own is over."""
        methods = [one["method"] for one in fleet.azure.control("GET", "/simulator/journal")["requests"]]
        return methods.count("POST") == 2 and len(methods) - methods[::-1].index("POST") + 10 < len(methods)

    def is_restored():
        return len(fleet.story("host-b")) == 2

    second = fleet.meanwhile(is_restored, lambda: fleet.pass_time(LONG))
    with fleet.meanwhile(is_waiting, lambda: fleet.pass_time(12)), second:
        run = fleet.respond(play={"throttle": 1}, event_response_wait_timeout=60)
    assert run.code == 0, run.out + run.err


@pytest.mark.releases
@pytest.mark.matrix
def test_what_no_log_hides_is_told_nowhere(make_fleet):
    """By a task, a block around it, and a template; in a loop, and in both files."""
    hosts = {f"host-{name}": f"web-{number}" for number, name in enumerate("abc")}
    fleet = make_fleet(hosts, hosts)
    for vm in hosts.values():
        fleet.announce(vm, notice=FAR_OFF)
    fail = "raw: echo PASS{{ 'WORD' }} >&2; exit 7"
    log_in = f"""
    - name: Log in
      {fail}
      no_log: true
      when: inventory_hostname == 'host-a'
    - when: inventory_hostname == 'host-b'
      no_log: true
      block:
        - name: Log in
          {fail}
          loop: [1, 2]
    - name: Log in
      {fail}
      no_log: "{{{{ true }}}}"
      when: inventory_hostname == 'host-c'
    """
    run = fleet.respond(playbook=RESPOND, prepare=log_in, restore=log_in)
    assert run.code == 2, run.out + run.err
    assert "PASSWORD" not in run.out + run.err
    for host in hosts:
        for done in ("prepared", "restored"):
            assert f"{host} could not be {done}: Log in: the task has no_log, so its reason is hidden." in run.words


@pytest.mark.releases
def test_b4_a_host_without_a_python_is_named_with_the_words_of_its_shell(each_alone):
    fleet, hosts, events = each_alone(["well", "without a Python"])
    shim = fleet.folder / "python3"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    fleet.set(hosts["without a Python"], ansible_python_interpreter=str(shim))
    run = fleet.respond("--limit", "host-*,localhost", playbook=RESPOND)
    assert run.code == 2
    faults = summary_of(run)["faults"]
    assert list(faults) == [hosts["without a Python"]]
    assert "pyenv: python3.13: command not found" in faults[hosts["without a Python"]][0]
    assert [ids for _vm, ids in fleet.approved] == [[events[hosts["well"]]]]


@pytest.mark.matrix
def test_a_role_alone_names_who_was_lost(make_fleet):
    """Ansible does not bring it back in the same play; the others go on."""
    fleet = make_fleet(list(HOSTS), HOSTS)
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    fleet.set("host-b", mortal_dies_at=3)
    run = fleet.respond()
    assert run.code != 0
    assert fleet.approved == []
    assert "host-b is not known to be restored" in run.out
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot -"]


@pytest.mark.releases
@pytest.mark.matrix
def test_the_first_host_may_have_no_value_of_the_variables_that_are_the_same_for_all(make_fleet):
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    event = fleet.announce("web-2", notice=FAR_OFF)
    fleet.set("host-a", broken="{{ nowhere }}")
    same = {"wait": "true", "wait_timeout": "3600", "approve": "true", "event_ids": "''", "max_unavailable": "2"}
    of_host = "{{{{ broken if inventory_hostname == 'host-a' else {} }}}}"
    run = fleet.respond(playbook=RESPOND, **{f"event_response_{name}": of_host.format(same[name]) for name in same})
    assert run.code == 2, run.out + run.err
    assert "host-a could not be asked: event_response_event_ids cannot be evaluated: " in run.words
    assert fleet.approved == [("web-2", [event])]
    assert fleet.story("host-b") == ["prepare host-b Reboot", "restore host-b Reboot completed"]


@pytest.mark.releases
@pytest.mark.release
def test_a_response_believes_nothing_of_an_earlier_one_in_the_same_run(make_fleet):
    """The first is about the Freeze of each host, the second about its Reboot.

    Then host-a is out of it, as it was lost in a play between them, host-b is lost when it is asked, and asked again,
    host-c while it is restored, and a variable of host-d cannot be evaluated.
    """
    hosts = {f"host-{name}": f"web-{number}" for number, name in enumerate("abcd")}
    fleet = make_fleet(hosts, hosts)
    for vm in hosts.values():
        fleet.announce(vm, event_type="Freeze", notice=FAR_OFF)
    reboots = {host: fleet.announce(vm, notice=FAR_OFF) for host, vm in hosts.items()}
    # A response asks, marks, prepares, marks as prepared, asks again, approves, waits, marks as restoring, restores and
    # removes the mark.
    for host, use in {"host-a": 11, "host-b": 11, "host-c": 19}.items():
        fleet.set(host, mortal_dies_at=use, mortal_back_after=1)
    fleet.set("host-d", second_due_within="{{ nowhere }}")
    # Were all hosts of that play lost, it would be the last one.
    between = {"raw": "true", "when": "inventory_hostname == 'host-a'"}
    run = fleet.respond_in_turn(
        {"event_response_event_types": ["Freeze"]},
        {"hosts": "host-a,host-d", "gather_facts": False, "tasks": [between]},
        {
            "event_response_event_types": ["Reboot"],
            "event_response_due_within": "{{ second_due_within if inventory_hostname == 'host-d' else '' }}",
        },
    )
    assert run.code != 0, run.out + run.err
    summary = summary_of(run)
    assert summary["not_asked"] == ["host-a", "host-d"], run.out
    assert summary["not_restored"] == []
    again = [reboots["host-b"], reboots["host-c"]]
    assert [event["event_id"] for event in summary["events"]] == again
    assert sorted(ids[0] for _vm, ids in fleet.approved[4:]) == sorted(again)
    assert sorted(summary["faults"]) == ["host-a", "host-d"]
    freeze = "prepare {0} Freeze", "restore {0} Freeze completed"
    reboot = "prepare {0} Reboot", "restore {0} Reboot completed"
    for host in hosts:
        more = reboot if host in ("host-b", "host-c") else ()
        assert fleet.story(host) == [line.format(host) for line in (*freeze, *more)]


@pytest.mark.matrix
@pytest.mark.release
def test_a_response_believes_nothing_of_an_earlier_one_in_the_same_play(make_fleet):
    """The second is for host-a alone: host-b was lost after its preparation for the first one."""
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    for host in ("host-a", "host-b"):
        fleet.announce(HOSTS[host], event_type="Freeze", notice=FAR_OFF)
    reboot = fleet.announce("web-1", "web-2", notice=FAR_OFF)
    fleet.set("host-b", mortal_dies_at=3)
    given = fleet.write_files()
    respond = [
        {
            "block": [{"include_role": {"name": ROLE}, "vars": {**given, "event_response_event_types": [event_type]}}],
            "rescue": [{"debug": {"msg": "It did not go well."}}],
        }
        for event_type in ("Freeze", "Reboot")
    ]
    (fleet.folder / "site.json").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": respond}]))
    run = fleet.run(str(fleet.folder / "site.json"))
    assert run.code != 0, run.out + run.err
    summary = summary_of(run)
    assert (summary["not_asked"], summary["not_restored"]) == ([], [])
    assert [event["event_id"] for event in summary["events"]] == [reboot]
    assert f"{HOSTS['host-b']}; host-b failed or became unreachable" in run.words


@pytest.mark.releases
@pytest.mark.release
def test_a_play_that_ignores_errors_still_knows_who_is_prepared_and_who_is_restored(each_alone):
    """host-0 fails while it is prepared, host-1 is lost then, and host-2 fails while it is restored."""
    fleet, hosts, events = each_alone(["fails", "is lost", "is not restored", "goes well"])
    failing, lost, unrestored, well = hosts.values()
    fleet.set(failing, prepare_fault="failed command")
    fleet.set(lost, mortal_dies_at=3, mortal_back_after=1)
    fleet.set(unrestored, restore_fault="failed command")
    files = {
        phase: RAISE.replace("fault }}", f"{phase}_fault }}}}").replace("fault != 'none'", f"{phase}_fault is defined")
        for phase in ("prepare", "restore")
    }
    ignore = {"ignore_errors": True, "ignore_unreachable": True}
    nowhere = fleet.respond(play=ignore, event_response_prepare="/nowhere/drain.yml")
    wrong = fleet.respond(play=ignore, event_response_wait="ture", event_response_outside_vms="allow")
    assert "event_response_wait must be true or false, not 'ture'." in wrong.words
    assert "event_response_outside_vms must be refuse or ignore, not 'allow'." in wrong.words
    assert 0 not in (nowhere.code, wrong.code)
    assert fleet.azure.control("GET", "/simulator/journal")["requests"] == []
    run = fleet.respond(play=ignore, **files)
    assert run.code != 0, run.out + run.err
    assert sorted(ids for _vm, ids in fleet.approved) == sorted([events[host]] for host in (unrestored, well))
    summary = summary_of(run)
    assert sorted(summary["faults"]) == [failing, lost, unrestored]
    assert summary["not_restored"] == [lost, unrestored]
    assert fleet.story(well) == [f"prepare {well} Reboot", f"restore {well} Reboot completed"]


@pytest.mark.releases
@pytest.mark.release
def test_many_rounds_of_waiting_are_not_as_many_includes_deep(make_fleet):
    """Ansible breaks down where some hundred files include each other. Each round ends when a host is restored."""
    hosts = {f"host-{number}": f"web-{number}" for number in range(10)}
    fleet = make_fleet(hosts, hosts)
    for number, vm in enumerate(hosts.values(), start=1):
        fleet.announce(vm, notice=FAR_OFF, started_for=LONG * number)
    depths = fleet.folder / "depths"
    fleet.settings.update(
        ANSIBLE_CALLBACK_PLUGINS=str(Path(__file__).with_name("callback")),
        ANSIBLE_CALLBACKS_ENABLED="keep_depth",
        KEEP_DEPTH=str(depths),
    )

    def end_one_after_the_other(over):
        ended = 0
        while not over.wait(0.1):
            restored = sum(len(fleet.story(host)) > 1 for host in hosts)
            if len(fleet.approved) == len(hosts) and restored == ended:
                fleet.pass_time(LONG)
                ended += 1

    with beside(end_one_after_the_other):
        run = fleet.respond("--forks", "10", playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    for host in hosts:
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]
    rounds = list(map(int, depths.read_text().split()))
    assert len(rounds) >= len(hosts)
    assert max(rounds) - min(rounds) < 7


def test_p14_a_misspelled_condition_lets_nothing_be_prepared_or_approved(make_fleet):
    fleet = make_fleet(["host-a"], HOSTS)
    run = fleet.respond("-e", "event_response_event_type=Freeze")
    assert run.code != 0
    assert "event_response_event_type is no variable of the role event_response." in run.words
    assert "Is event_response_event_types meant?" in run.words
    assert fleet.azure.control("GET", "/simulator/journal")["requests"] == []


def test_p14_a_misspelled_condition_of_a_host_costs_that_host(make_fleet):
    fleet = make_fleet(["host-a", "host-b"], HOSTS)
    fleet.azure.announce("Reboot", "web-1")
    fleet.set("host-a", event_response_event_type="Freeze", event_response_owner="anna")
    fleet.set("host-b", event_response_owner="anna")
    run = fleet.respond()
    assert run.code != 0
    said = "host-a could not be asked: event_response_event_type is no variable of the role event_response."
    assert said in run.words
    assert (fleet.story("host-a"), fleet.approved) == ([], [])
