# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role event_response over a fleet, by real ansible-playbook: what ran where, and what the simulator got."""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import beside

CONNECTIONS = str(Path(__file__).with_name("connection"))
HOSTS = {"host-a": "web-1", "host-b": "web-2", "host-c": "web-3"}
# What a playbook run by a template in the Description would leave
HOSTILE = "{{ lookup('pipe', 'touch %s') }} $(touch %s) it's"

PREPARE = """
- name: Note it
  ansible.builtin.lineinfile:
    path: "{{ story }}"
    line: "prepare {{ inventory_hostname }} {{ maintenance_event.event_type }}"
    create: true
    mode: "0644"
    regexp: ^never$
"""
RESTORE = """
- name: Note it
  ansible.builtin.lineinfile:
    path: "{{ story }}"
    line: "restore {{ inventory_hostname }} {{ maintenance_event.event_type }} {{ maintenance_outcome }}"
    create: true
    mode: "0644"
    regexp: ^never$
"""
FAIL_ON_B = """
- name: Drain
  ansible.builtin.fail:
    msg: The balancer said no.
  when: inventory_hostname == 'host-b'
"""


class Fleet:
    """Hosts of an inventory, each a VM of the simulator, and what the play made of them."""

    def __init__(self, ansible, simulator, folder, hosts):
        self._ansible = ansible
        self.folder = folder
        self.azure = simulator("--vms", ",".join(hosts.values()))
        inventory = {
            host: {
                "ansible_connection": "mortal",
                "ansible_python_interpreter": sys.executable,
                "up_file": str(folder / f"{host}.up"),
                "story": str(folder / f"{host}.story"),
                "simulator": self.azure.url,
                "event_response_endpoint": self.azure.endpoint(name),
            }
            for host, name in hosts.items()
        }
        for host in hosts:
            (folder / f"{host}.up").touch()
        self.inventory = folder / "inventory.json"
        self.inventory.write_text(json.dumps({"all": {"hosts": inventory}}))

    def announce(self, *resources, event_type="Reboot", **more):
        event = {"event_type": event_type, "resources": list(resources), "started_for": 2, **more}
        return self.azure.control("POST", "/simulator/events", event)["event_id"]

    def respond(self, *arguments, prepare="", restore="", play=None, playbook=None, **variables):
        """Run a play with the role, or a playbook, with further tasks of prepare and restore; returns the run."""
        (self.folder / "prepare.yml").write_text(PREPARE + textwrap.dedent(prepare))
        (self.folder / "restore.yml").write_text(RESTORE + textwrap.dedent(restore))
        settings = {
            "event_response_prepare": str(self.folder / "prepare.yml"),
            "event_response_restore": str(self.folder / "restore.yml"),
            "event_response_wait_timeout": 60,
            **variables,
        }
        content = {
            "hosts": "all",
            "gather_facts": False,
            "roles": ["fleetops.azure_maintenance.event_response"],
            **(play or {}),
        }
        (self.folder / "play.json").write_text(json.dumps([content]))
        env = {
            "ANSIBLE_CONNECTION_PLUGINS": CONNECTIONS,
            "ANSIBLE_SHOW_CUSTOM_STATS": "true",
            "ANSIBLE_PIPELINING": "true",
        }
        extra = ["--extra-vars", json.dumps(settings)]
        what = playbook or str(self.folder / "play.json")
        return self._ansible("ansible-playbook", "-i", str(self.inventory), what, *extra, *arguments, env=env)

    @contextlib.contextmanager
    def rebooting(self, host):
        """Take the host down as soon as Azure has started an event, and bring it up when it has completed it."""

        def live(over):
            up = self.folder / f"{host}.up"
            while not over.wait(0.1):
                phases = {event["phase"] for event in self.azure.control("GET", "/simulator/events")["events"]}
                if "started" in phases:
                    up.unlink(missing_ok=True)
                elif "ended" in phases:
                    up.touch()

        with beside(live):
            yield

    def story(self, host):
        path = self.folder / f"{host}.story"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def approved(self):
        """Who approved what, in order."""
        return [(vm, [each["EventId"] for each in body["StartRequests"]]) for vm, body in self.azure.posted()]


@pytest.fixture
def hundred(ansible, simulator, tmp_path):
    (tmp_path / "fleet").mkdir()
    return Fleet(ansible, simulator, tmp_path / "fleet", {f"host-{n:02}": f"web-{n:02}" for n in range(100)})


@pytest.fixture
def fleet(ansible, simulator, tmp_path):
    (tmp_path / "fleet").mkdir()
    return Fleet(ansible, simulator, tmp_path / "fleet", HOSTS)


def test_an_event_of_three_vms_is_approved_once_when_all_are_ready(fleet, tmp_path):
    marker = tmp_path / "run"
    event = fleet.announce("web-1", "web-2", "web-3", description=HOSTILE % (marker, marker))
    run = fleet.respond()
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event])]
    for host in HOSTS:
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]
    assert f"Reboot {event} completed, approved by host-a: host-a, host-b, host-c" in run.out
    assert '"approved": 1, "completed": 1,' in " ".join(run.out.split("CUSTOM STATS", 1)[1].split())
    assert not marker.exists()


def test_the_leader_approves_even_if_it_comes_last_in_the_play(fleet):
    event = fleet.announce("web-3", "web-1")
    run = fleet.respond()
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-3", [event])]
    assert fleet.story("host-b") == []


def test_a_preparation_that_fails_on_one_of_three_holds_the_event_back(fleet):
    """It comes all the same in 12 s, so the others stay prepared until it is over."""
    fleet.announce("web-1", "web-2", "web-3", notice=25)
    run = fleet.respond(prepare=FAIL_ON_B)
    assert run.code == 2
    assert fleet.approved == []
    assert "host-b could not be prepared: Drain: The balancer said no." in run.out
    for host in HOSTS:
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]


def test_an_event_held_back_that_is_far_off_is_not_waited_for(fleet):
    fleet.announce("web-1", "web-2", notice=900)
    run = fleet.respond(prepare=FAIL_ON_B)
    assert run.code == 2
    assert fleet.approved == []
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot "]


def test_a_host_that_becomes_unreachable_before_the_approval_holds_it_back(fleet):
    fleet.announce("web-1", "web-2", notice=900)
    run = fleet.respond(
        prepare="""
        - name: Go down after all else
          ansible.builtin.file:
            path: "{{ up_file }}"
            state: absent
          delegate_to: localhost
          connection: local
          when: inventory_hostname == 'host-b'
        """,
        event_response_wait_timeout=20,
    )
    assert run.code != 0
    assert fleet.approved == []
    assert "host-b became unreachable" in run.out
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot "]


def test_an_event_that_starts_before_all_are_ready_is_not_approved(fleet):
    fleet.announce("web-1", "web-2", notice=15, started_for=10)
    run = fleet.respond(
        prepare="""
        - name: Take longer than there is notice
          ansible.builtin.uri:
            url: "{{ simulator }}/simulator/events"
            use_proxy: false
          register: asked
          until: asked.json.events[0].phase == 'started'
          retries: 60
          delay: 1
          when: inventory_hostname == 'host-b'
        """
    )
    assert run.code == 0, run.out + run.err
    assert fleet.approved == []
    assert "It started before it was approved." in run.out
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]


def test_an_event_withdrawn_while_it_is_prepared_for_is_restored_after_and_not_approved(fleet):
    fleet.announce("web-1", "web-2")
    run = fleet.respond(
        prepare="""
        - name: Withdraw it
          ansible.builtin.uri:
            url: "{{ simulator }}/simulator/events/{{ maintenance_event.event_id }}"
            use_proxy: false
            method: DELETE
          when: inventory_hostname == 'host-b'
        """
    )
    assert run.code == 0, run.out + run.err
    assert fleet.approved == []
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot withdrawn"]


def test_the_approver_itself_reboots(fleet):
    event = fleet.announce("web-1", "web-2", start_delay=0, started_for=8)
    with fleet.rebooting("host-a"), fleet.rebooting("host-b"):
        run = fleet.respond()
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event])]
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]


def test_a_freeze_does_not_cut_the_connection(fleet):
    event = fleet.announce("web-1", event_type="Freeze", duration_seconds=5)
    run = fleet.respond()
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event])]
    assert fleet.story("host-a") == ["prepare host-a Freeze", "restore host-a Freeze completed"]


def test_a_host_lost_in_the_middle_of_its_preparation_is_restored_by_the_playbook(fleet):
    fleet.announce("web-1", "web-2", notice=15, started_for=8)
    with fleet.rebooting("host-b"):
        run = fleet.respond(
            prepare="""
            - name: Take longer than there is notice
              ansible.builtin.command: "true"
              register: never
              until: never is failed
              retries: 60
              delay: 1
              when: inventory_hostname == 'host-b'
            """,
            playbook="fleetops.azure_maintenance.respond",
        )
    assert run.code == 2, run.out + run.err
    assert fleet.approved == []
    assert "The connection was lost before it was prepared." in run.out
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot completed"]


def test_the_playbook_fails_where_a_host_has_failed(fleet):
    fleet.announce("web-1", "web-2", notice=900)
    run = fleet.respond(prepare=FAIL_ON_B, playbook="fleetops.azure_maintenance.respond")
    assert run.code == 2
    assert fleet.approved == []


def test_two_events_over_overlapping_hosts(fleet):
    """host-b is in both, and is restored only when both are over."""
    first = fleet.announce("web-1", "web-2", started_for=2)
    second = fleet.announce("web-2", "web-3", event_type="Redeploy", started_for=12)
    run = fleet.respond()
    assert run.code == 0, run.out + run.err
    assert sorted(fleet.approved) == sorted([("web-1", [first]), ("web-2", [second])])
    assert fleet.story("host-b") == [
        "prepare host-b Reboot",
        "prepare host-b Redeploy",
        "restore host-b Reboot completed",
        "restore host-b Redeploy completed",
    ]
    assert fleet.story("host-c") == ["prepare host-c Redeploy", "restore host-c Redeploy completed"]


def test_a_host_is_restored_when_its_own_events_are_over(fleet):
    """host-c does not wait for the Redeploy of host-a."""
    first = fleet.announce("web-3")
    second = fleet.announce("web-1", event_type="Redeploy", started_for=45)
    run = fleet.respond(
        restore="""
        - name: Ask which events are over
          ansible.builtin.uri:
            url: "{{ simulator }}/simulator/events"
            use_proxy: false
          register: asked
        - name: Note them
          ansible.builtin.copy:
            content: "{{ asked.json.events | selectattr('phase', 'eq', 'ended') | map(attribute='event_id') }}"
            dest: "{{ story }}.over"
            mode: "0644"
        """
    )
    assert run.code == 0, run.out + run.err
    over = {host: json.loads((fleet.folder / f"{host}.story.over").read_text()) for host in ("host-a", "host-c")}
    assert over["host-c"] == [first]
    assert sorted(over["host-a"]) == sorted([first, second])


def test_a_failure_for_one_event_does_not_hold_back_the_other(fleet):
    fleet.announce("web-1", "web-2", notice=900)
    other = fleet.announce("web-3")
    run = fleet.respond(prepare=FAIL_ON_B)
    assert run.code == 2
    assert fleet.approved == [("web-3", [other])]
    assert fleet.story("host-c") == ["prepare host-c Reboot", "restore host-c Reboot completed"]


def test_a_vm_that_is_no_host_of_the_play(fleet):
    fleet.announce("web-1", "web-2", notice=900)
    run = fleet.respond("--limit", "host-a")
    assert run.code == 2
    assert fleet.approved == []
    assert "no host of this play said that it is web-2" in run.out


def test_a_vm_that_is_no_host_of_the_play_may_be_ignored(fleet):
    event = fleet.announce("web-1", "web-2")
    run = fleet.respond("--limit", "host-a", event_response_outside_vms="ignore")
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event])]


@pytest.mark.parametrize(
    ("resources", "approved", "why"),
    [
        pytest.param(["web-1", "web-2"], True, None, id="of others"),
        pytest.param(
            ["web-1", "web-3"],
            False,
            "no host of this play said that it is web-3, host-c failed or became unreachable",
            id="perhaps its own",
        ),
    ],
)
@pytest.mark.parametrize(
    "variable",
    [
        pytest.param({"event_response_endpoint": "http://127.0.0.1:9"}, id="not on Azure"),
        pytest.param({"ansible_python_interpreter": "/nowhere/python"}, id="without Python"),
    ],
)
def test_a_host_that_cannot_ask_holds_back_only_what_may_be_its_own(fleet, variable, resources, approved, why):
    event = fleet.announce(*resources, notice=900)
    inventory = json.loads(fleet.inventory.read_text())
    inventory["all"]["hosts"]["host-c"].update(variable)
    fleet.inventory.write_text(json.dumps(inventory))
    run = fleet.respond()
    assert run.code == 2, run.out + run.err
    assert fleet.approved == ([("web-1", [event])] if approved else [])
    assert why is None or why in run.out
    assert fleet.story("host-c") == []


def test_check_mode_prepares_nothing_and_approves_nothing(fleet):
    event = fleet.announce("web-1", "web-2")
    fleet.announce("web-3", event_type="Redeploy")
    run = fleet.respond("--check")
    assert run.code == 0, run.out + run.err
    assert fleet.approved == []
    assert fleet.story("host-a") == []
    assert f"Reboot {event} announced, would be approved by host-a" in run.out
    # Both files ran, as check mode lets them, and each of them for all hosts at once.
    assert run.out.count("Note it]") == 2


def test_without_approval_it_is_prepared_for_and_waited_for(fleet):
    fleet.announce("web-1", notice=20)
    run = fleet.respond(event_response_approve=False)
    assert run.code == 0, run.out + run.err
    assert fleet.approved == []
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot completed"]


def test_without_waiting_an_approved_event_is_left_prepared(fleet):
    event = fleet.announce("web-1")
    run = fleet.respond(event_response_wait=False)
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event])]
    assert fleet.story("host-a") == ["prepare host-a Reboot"]


def test_an_event_that_does_not_end_in_time_is_not_restored_after(fleet):
    event = fleet.announce("web-1", started_for=600)
    run = fleet.respond(event_response_wait_timeout=6)
    assert run.code == 2
    assert fleet.approved == [("web-1", [event])]
    assert "host-a was not restored: the event did not end within 6 s." in run.out
    assert fleet.story("host-a") == ["prepare host-a Reboot"]


def test_hosts_in_another_batch_hold_an_event_back(fleet):
    fleet.announce("web-1", "web-2", notice=900)
    run = fleet.respond(play={"serial": 1})
    assert run.code == 2
    assert fleet.approved == []
    assert "host-b is in another batch of the play" in run.out


def test_any_errors_fatal_still_restores_what_was_prepared(fleet):
    fleet.announce("web-1", "web-2", notice=900)
    run = fleet.respond(prepare=FAIL_ON_B, play={"any_errors_fatal": True})
    assert run.code == 2
    assert fleet.approved == []
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot "]


def test_the_strategy_free_is_refused_before_anything_is_done(fleet):
    fleet.announce("web-1", "web-2")
    run = fleet.respond(play={"strategy": "free"})
    assert run.code != 0
    assert "not supported in the free strategy" in " ".join((run.out + run.err).split())
    assert fleet.approved == []
    assert [fleet.story(host) for host in HOSTS] == [[], [], []]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"event_response_prepare": "/nowhere/drain.yml"},
            "event_response_prepare: there is no file /nowhere/drain.yml",
        ),
        ({"event_response_restore": "/nowhere/refill.yml"}, "event_response_restore: there is no file"),
        ({"event_response_outside_vms": "allow"}, "event_response_outside_vms"),
        ({"event_response_wait": "perhaps"}, "event_response_wait"),
        ({"event_response_wait_timeout": "soon"}, "event_response_wait_timeout"),
        (
            {"event_response_due_within": "soon"},
            "event_response_due_within must be a whole number of seconds, not 'soon'.",
        ),
        ({"event_response_event_types": {"a": 1}}, "event_response_event_types"),
    ],
)
def test_bad_input_stops_before_any_host_is_asked(fleet, variables, words):
    fleet.announce("web-1")
    run = fleet.respond(**variables)
    assert run.code == 2
    assert words in (run.out + run.err).replace("\n", " ")
    assert fleet.azure.control("GET", "/simulator/journal")["requests"] == []


def test_nothing_is_coming(fleet):
    run = fleet.respond()
    assert run.code == 0, run.out + run.err
    assert "No event." in run.out
    assert fleet.approved == []


def test_only_the_wanted_events_are_answered(fleet):
    fleet.announce("web-1", event_type="Freeze", notice=900)
    event = fleet.announce("web-1")
    run = fleet.respond(event_response_event_types=["Reboot"])
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event])]
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot completed"]


def test_a_hundred_hosts_of_which_fifty_are_in_ten_events(hundred):
    groups = [[f"web-{n:02}" for n in range(first, first + 5)] for first in range(0, 100, 10)]
    events = [hundred.announce(*group) for group in groups]
    run = hundred.respond("--forks", "10", event_response_prepare="", event_response_restore="")
    assert run.code == 0, run.out + run.err
    assert sorted(hundred.approved) == sorted((group[0], [event]) for group, event in zip(groups, events))
    assert run.out.count(" completed, approved by ") == 10
    assert run.out.count("failed=0") == 100


def test_a_survey_left_empty_means_all_events(fleet):
    names = ("event_types", "event_sources", "event_ids", "due_within", "prepare", "restore")
    fleet.announce("web-1")
    empty = {f"event_response_{name}": "" for name in names}
    run = fleet.respond("--check", playbook="fleetops.azure_maintenance.respond", target="", **empty)
    assert run.code == 0, run.out + run.err
    assert "would be approved" in run.out


def test_the_lines_of_a_survey_are_the_words_of_a_list(fleet):
    reboot, freeze = fleet.announce("web-1"), fleet.announce("web-1", event_type="Freeze")
    fleet.announce("web-1", event_type="Redeploy", notice=900)
    run = fleet.respond(event_response_event_types="Reboot\n Freeze\n", event_response_due_within="900000")
    assert run.code == 0, run.out + run.err
    assert sorted(event for _vm, events in fleet.approved for event in events) == sorted([reboot, freeze])
