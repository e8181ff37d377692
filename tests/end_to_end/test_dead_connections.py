# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A1, P15: an ssh that never returns, as over a connection whose peer has vanished, costs only its own host.

The connection plugin is Ansible's; in place of ssh stands a program that runs the command on this machine, until it is
to hang.
"""

from __future__ import annotations

import json
import re
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import FAR_OFF, RESPOND, Fleet, summary_of

SSH = """#!/bin/sh
for last; do :; done
case " $* " in *" -O "*) exit 0;; esac
echo "$*" | head -n 1 >>{arguments}
echo . >>{uses}
uses=$(wc -l <{uses})
if [ "$uses" -ge {first} ] && [ "$uses" -le {last} ]; then
  touch {hangs}
  while [ ! -e {over} ]; do sleep 0.2; done
  exit 255
fi
exec /bin/sh -c "$last"
"""
# Seconds. A busy machine needs some for what answers.
LIMIT = 15
FOR_GOOD = 10**6


class SshFleet(Fleet):
    """Hosts that are reached by ssh, and hang in some uses of it."""

    def hang(self, host, first, last=FOR_GOOD, ssh_args=""):
        ssh = self.folder / f"{host}.ssh"
        names = {name: self.folder / f"{host}.{name}" for name in ("uses", "hangs", "arguments")}
        ssh.write_text(SSH.format(first=first, last=last, over=self.folder / "over", **names))
        ssh.chmod(0o755)
        self.set(
            host,
            ansible_connection="ssh",
            ansible_ssh_executable=str(ssh),
            ansible_host="127.0.0.1",
            **({} if ssh_args is None else {"ansible_ssh_args": ssh_args}),
        )

    def hung(self, host):
        return (self.folder / f"{host}.hangs").exists()


@pytest.fixture
def make_fleet(ansible, simulator, tmp_path):
    fleets = []

    def make(*names):
        (tmp_path / "fleet").mkdir()
        hosts = {f"host-{number}": f"web-{number}" for number in range(len(names))}
        fleet = SshFleet(ansible, simulator, tmp_path / "fleet", hosts, hosts)
        fleets.append(fleet)
        return fleet, dict(zip(names, hosts)), {host: fleet.announce(vm, notice=FAR_OFF) for host, vm in hosts.items()}

    yield make
    for fleet in fleets:
        (fleet.folder / "over").touch()


# Which use of the connection hangs, once, and what the host has done when the run is over
STAGES = {
    "asked": ["prepare", "restore completed"],
    "marked": [],
    "prepared": ["restore -"],
    "marked as prepared": ["prepare", "restore completed"],
    "asked again": ["prepare", "restore -"],
    "told to approve": ["prepare", "restore withdrawn"],
    "asked whether it is over": ["prepare", "restore completed"],
    "marked as being put back": ["prepare", "restore completed"],
    "restored": ["prepare"],
    "its mark removed": ["prepare", "restore completed"],
    "nothing": ["prepare", "restore completed"],
}
FAULTS = ("marked", "prepared", "asked again", "restored", "its mark removed")


@pytest.mark.matrix
def test_a1_a_connection_that_hangs_in_any_task_of_a_run_costs_only_its_own_host(make_fleet):
    fleet, hosts, events = make_fleet(*STAGES)
    for number, host in enumerate(hosts.values(), start=1):
        fleet.hang(host, number, number)
    fleet.hang(hosts["nothing"], FOR_GOOD)
    unsure = hosts["told to approve"]
    withdraw = f"/simulator/events/{events[unsure]}"
    limits = {f"event_response_{name}_timeout": LIMIT for name in ("ask", "prepare", "restore")}
    with fleet.meanwhile(lambda: fleet.hung(unsure), lambda: fleet.azure.control("DELETE", withdraw)):
        run = fleet.respond("--forks", "20", playbook=RESPOND, event_response_reconnect_timeout=300, **limits)
    assert run.code == 2, run.out + run.err
    for stage, story in STAGES.items():
        host = hosts[stage]
        told = [
            re.sub(r"completed|withdrawn", "over", line.replace(f" {host} Reboot", "")) for line in fleet.story(host)
        ]
        expected = [re.sub(r"completed|withdrawn", "over", line) for line in story]
        assert told == expected, (stage, run.out)
    summary = summary_of(run)
    assert sorted(summary["faults"]) == sorted(hosts[stage] for stage in FAULTS)
    assert summary["not_restored"] == [hosts["restored"]]


@pytest.mark.matrix
@pytest.mark.releases
def test_a1_a_host_that_dies_while_it_waits_does_not_keep_the_others(make_fleet):
    """It is named when its time is over; the other was restored long before."""
    fleet, hosts, events = make_fleet("dies", "lives")
    fleet.hang(hosts["dies"], 7)
    fleet.hang(hosts["lives"], FOR_GOOD)
    begun = time.monotonic()
    limits = {"event_response_ask_timeout": LIMIT, "event_response_wait_timeout": 30}
    run = fleet.respond(playbook=RESPOND, **limits)
    assert run.code == 2, run.out + run.err
    assert time.monotonic() - begun < 200
    assert sorted(ids for _vm, ids in fleet.approved) == sorted([event] for event in events.values())
    assert [line.split()[0] for line in fleet.story(hosts["lives"])] == ["prepare", "restore"]
    assert list(summary_of(run)["faults"]) == [hosts["dies"]]
    assert f"{hosts['dies']} was not restored: it could not be reached: no answer within" in run.words


# Ansible does not use pipelining by default: the third use of the connection is the first one that needs its folder on
# the host, and it removes the folder over the same connection.
UNDER_A_MODULE = {"ANSIBLE_PIPELINING": "false", "ANSIBLE_SSH_TRANSFER_METHOD": "piped"}


@pytest.mark.parametrize(
    ("playbook", "dies_at", "settings"),
    [
        *((playbook, 1, {}) for playbook in ("fleet_report", "fleet_history", "approve")),
        *((playbook, 3, UNDER_A_MODULE) for playbook in ("fleet_report", "fleet_history", "approve")),
    ],
)
@pytest.mark.matrix
@pytest.mark.releases
def test_a1_a_host_that_never_answers_ends_no_other_playbook(make_fleet, playbook, dies_at, settings, tmp_path):
    fleet, hosts, events = make_fleet("dies", "lives")
    fleet.settings.update(settings)
    fleet.hang(hosts["dies"], dies_at)
    fleet.hang(hosts["lives"], FOR_GOOD)
    given = {
        f"{playbook}_ask_timeout": LIMIT,
        f"{playbook}_dir": str(tmp_path / "out"),
        "approve_event_types": "Reboot",
        "fleet_history_command": "/bin/true",
    }
    run = fleet.run(f"fleetops.azure_maintenance.{playbook}", "-e", json.dumps(given))
    assert fleet.hung(hosts["dies"])
    if playbook == "approve":
        assert fleet.approved == [("web-1", [events[hosts["lives"]]])], run.out + run.err
    else:
        (report,) = (tmp_path / "out").glob("*.json")
        assert hosts["dies"] in report.read_text()


@pytest.mark.parametrize(
    ("of_inventory", "of_environment", "expected"),
    [
        (None, None, "-C -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=15 "),
        (None, "-o Port=2222", "-o Port=2222 -o ServerAliveInterval=15 "),
        ("-o User=anna", "-o Port=2222", "-o User=anna -o "),
    ],
)
@pytest.mark.matrix
@pytest.mark.releases
def test_a1_ssh_finds_a_connection_that_died_unless_the_inventory_has_other_arguments(
    make_fleet, of_inventory, of_environment, expected
):
    fleet, hosts, _events = make_fleet("lives")
    fleet.hang(hosts["lives"], FOR_GOOD, ssh_args=of_inventory)
    fleet.settings.update({} if of_environment is None else {"ANSIBLE_SSH_ARGS": of_environment})
    run = fleet.respond(playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    told = (fleet.folder / f"{hosts['lives']}.arguments").read_text().splitlines()
    assert [line for line in told if not line.startswith(expected)] == []


CHECKERS = {
    # When it is told to end, the connection is dead.
    "dies": "#!/bin/sh\nyes | head -n 1000 >>{folder}/{host}.uses\nexec sleep 100\n",
    "lives": "#!/bin/sh\ncat {folder}/{host}.status\n",
}


@pytest.mark.matrix
def test_a1_a_host_that_dies_under_its_checker_does_not_keep_the_others(make_fleet):
    fleet, hosts, events = make_fleet(*CHECKERS)
    fleet.settings.update(UNDER_A_MODULE)
    for name, program in CHECKERS.items():
        host = hosts[name]
        fleet.hang(host, 1000)
        checker = fleet.folder / f"{host}.checker"
        checker.write_text(program.format(folder=fleet.folder, host=host))
        checker.chmod(0o755)
        step = {"state": "succeeded", "in_this_boot": True}
        response = {"number": 1, "phase": "announced", "state": "succeeded", "steps": [step]}
        status = [{"event_id": events[host], "phase": "announced", "responses": [response]}]
        (fleet.folder / f"{host}.status").write_text(json.dumps({"heard_lately": True, "events": status}))
    program = f"{fleet.folder}/{{{{ inventory_hostname }}}}.checker"
    words = {"event_response_prepare": "checker", "event_response_restore": "", "__event_response_checker": program}
    run = fleet.respond(playbook=RESPOND, event_response_ask_timeout=LIMIT, **words)
    assert run.code == 2, run.out + run.err
    assert fleet.approved == [("web-1", [events[hosts["lives"]]])]
    assert list(summary_of(run)["faults"]) == [hosts["dies"]]
    assert "could not be prepared: no answer within" in run.words
