# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runbook haproxy, by real ansible-playbook, with a real HAProxy whose clients must not notice a maintenance."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
from datetime import datetime
from types import SimpleNamespace

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import PATIENCE, beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import left_by_killed_run
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.runbook import MORTAL, RUNBOOKS, Runbook
from ansible_collections.fleetops.azure_maintenance.tests.haproxy import Application, Balancer
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program
from ansible_collections.fleetops.azure_maintenance.tests.slow_requests import NO_RUNBOOK

PROGRAM = need_program("haproxy", package="haproxy", folders=["/usr/sbin"])
DOCSITE = RUNBOOKS.parent / "docsite" / "rst"
RUNBOOK = RUNBOOKS / "haproxy"
VMS = ("web-1", "web-2", "web-3")
# Hosts that HAProxy does not know
STRANGERS = ("web-4", "web-5", "web-6")
NONE_WOULD_STAY = (
    "web-1 was not taken out of the backend web: no other server would be left to take requests, and"
    " haproxy_keep is 1.\n"
)


class Site(Runbook):
    """Three VMs with an application each, behind one balancer."""

    def __init__(self, ansible, azure, folder):
        self.applications = {name: Application(name) for name in VMS}
        self.balancer = Balancer(PROGRAM, self.applications.values())
        self.ill_after_reboot = []
        hosts = {name: {"haproxy_balancers": ["lb-1"], "haproxy_backend": "web"} for name in (*VMS, *STRANGERS)}
        balancers = {"lb-1": {"haproxy_socket": str(self.balancer.socket)}}
        super().__init__(ansible, azure, folder, "haproxy", hosts, balancers, MORTAL)

    def announce(self, *resources, **more):
        event = {"event_type": "Reboot", "resources": list(resources), "started_for": 2, **more}
        return self.azure.control("POST", "/simulator/events", event)["event_id"]

    def restore_by_hand(self, target):
        """Run the playbook that the guide gives as first aid."""
        guide = (DOCSITE / "guide_troubleshooting.rst").read_text()
        lines = textwrap.dedent(guide.split(":caption: refill_now.yml", 1)[1].split(".. code-block", 1)[0])
        playbook = self.folder / "refill_now.yml"
        playbook.write_text(lines.replace("import_tasks: refill.yml", f"import_tasks: {RUNBOOK / 'restore.yml'}"))
        return self.run(playbook=str(playbook), target=target)

    def respond(self, *arguments, **variables):
        """Run the playbook with the runbook, while Azure reboots the VMs whose events start."""
        with self._rebooting():
            return self.run(*arguments, **variables)

    @contextlib.contextmanager
    def _rebooting(self):
        """An application is down while its VM is, and comes up somewhat later."""

        def live(over):
            down = {}
            while not over.wait(0.2):
                for event in self.events():
                    for name in event["resources"] if event["phase"] == "started" else []:
                        self.applications[name].stop()
                        self.applications[name].ill = name in self.ill_after_reboot
                        down[name] = time.monotonic() + 3
                for name in [name for name, until in down.items() if until < time.monotonic()]:
                    self.applications[name].start()
                    del down[name]
            for name in down:
                self.applications[name].start()

        with beside(live):
            yield

    @contextlib.contextmanager
    def session_with(self, name):
        """A client whose request this application answers only when it is released; gives what it got, and when."""
        application = self.applications[name]
        got = []

        def ask():
            got.extend((*self.balancer.get(f"/{name}/hold"), time.time()))

        client = threading.Thread(target=ask)
        client.start()
        try:
            assert application.holds.wait(PATIENCE)
            yield got
        finally:
            application.release.set()
            client.join()

    @contextlib.contextmanager
    def once_drained(self, name, then):
        """Do this as soon as the server gets no new sessions, and release the one that it has."""

        def act():
            wait_until(lambda: self.balancer.states()[name] == "DRAIN")
            then()
            self.applications[name].release.set()

        thread = threading.Thread(target=act)
        thread.start()
        yield
        thread.join()

    def events(self):
        return self.azure.control("GET", "/simulator/events")["events"]

    def event(self, event_id):
        return next(event for event in self.events() if event["event_id"] == event_id)

    @property
    def approved(self):
        """Who approved what, in order."""
        return [(vm, [each["EventId"] for each in body["StartRequests"]]) for vm, body in self.azure.posted()]

    def stop(self):
        self.balancer.stop()
        for application in self.applications.values():
            application.stop()


@pytest.fixture
def site(ansible, simulator, tmp_path):
    made = Site(ansible, simulator("--vms", ",".join((*VMS, *STRANGERS))), tmp_path)
    try:
        everybody_serves(made)
        yield made
        assert made.balancer.failed() == []
    finally:
        made.stop()


def everybody_serves(site):
    wait_until(lambda: all(site.balancer.states()[name] == "UP" for name in VMS))


def seconds(moment):
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def test_two_of_three_servers_go_through_a_reboot_and_no_client_notices(site):
    """The event is approved only when the last session has ended; requests come back only when the application has."""
    event = site.announce("web-1", "web-2", start_delay=2)
    with site.session_with("web-1") as got, site.once_drained("web-1", then=lambda: None):
        run = site.respond()
    assert run.code == 0, run.out + run.err
    assert site.approved == [("web-1", [event])]
    assert got[:2] == [200, "web-1"]
    seen = site.event(event)
    assert got[2] < seconds(seen["approved_at"])
    assert site.balancer.served_by(seconds(seen["approved_at"]), seconds(seen["ended_at"])) == {"web-3"}
    begun = time.time()
    wait_until(lambda: site.balancer.served_by(begun) == set(VMS))
    site.balancer.tell("with the runbook")


@pytest.mark.release
def test_without_the_runbook_requests_wait_or_fail_until_the_checks_have_noticed(site):
    """What README compares with."""
    site.announce("web-1", "web-2", started_for=8)
    run = site.respond(**NO_RUNBOOK)
    assert run.code == 0, run.out + run.err
    site.balancer.tell("without the runbook")
    assert site.balancer.longest_gap() > 1
    site.balancer.requests.clear()


def test_first_aid_puts_a_server_back_that_an_earlier_run_has_left_drained(site):
    site.balancer.order("set server web/web-1 state maint")
    run = site.restore_by_hand("web-1")
    assert run.code == 0, run.out + run.err
    assert site.balancer.states() == {**site.balancer.states(), "web-1": "UP", "web-2": "UP", "web-3": "UP"}
    del site.hosts["web-1"]["haproxy_backend"]
    run = site.restore_by_hand("web-1")
    assert run.code == 2
    assert "Give haproxy_balancers (a list of hosts of the inventory), haproxy_backend" in " ".join(run.out.split())


@pytest.mark.matrix
def test_a_session_that_does_not_end_holds_the_event_back_and_is_not_cut(site):
    site.announce("web-1", notice=900)
    with site.session_with("web-1") as got:
        run = site.respond(haproxy_drain_timeout=2)
        assert run.code == 2
        assert "lb-1: web/web-1 still has sessions (1) after 2 s." in run.out
        assert site.approved == []
        assert site.balancer.states()["web-1"] == "UP"
    assert got[:2] == [200, "web-1"]


@pytest.mark.matrix
@pytest.mark.parametrize("argv", [(), ("--check",)], ids=["run", "check"])
def test_the_last_server_is_refused_also_when_two_leave_at_the_same_time_and_in_check_mode(site, argv):
    site.balancer.order("set server web/web-3 state maint")
    site.announce("web-1", "web-2", notice=900)
    run = site.respond(*argv)
    assert run.code == 2
    refused = "lb-1: web-2 was not taken out of the backend web: no other server would be left to take requests"
    assert refused in " ".join(run.out.split())
    assert site.approved == []
    assert site.balancer.states() == {**site.balancer.states(), "web-1": "UP", "web-2": "UP", "web-3": "MAINT"}


@contextlib.contextmanager
def balanced(*names, backups=()):
    """An HAProxy that balances these, and the program of the runbook, without Ansible."""
    applications = [Application(name) for name in names]
    balancer = Balancer(PROGRAM, applications, backups)

    def start(name, action, number):
        argv = [sys.executable, str(RUNBOOK / "haproxy_server.py"), str(balancer.socket), "web", name, action]
        return subprocess.Popen([*argv, str(number)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    try:
        wait_until(lambda: all(balancer.states()[name] == "UP" for name in names))
        yield balancer, start
    finally:
        balancer.stop()
        for application in applications:
            application.stop()


@pytest.mark.matrix
def test_two_runs_do_not_take_out_the_last_two_servers_at_the_same_time():
    """The second looks only when the first has taken its server out."""
    with balanced("web-1", "web-2") as (balancer, start):
        folder = os.open(balancer.folder, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        with start("web-1", "drain", 1) as second:
            with pytest.raises(subprocess.TimeoutExpired):
                second.wait(3)
            balancer.order("set server web/web-2 state drain")
            os.close(folder)
            _said, told = second.communicate(timeout=PATIENCE)
        assert told == NONE_WOULD_STAY
        assert balancer.states()["web-1"] == "UP"


@pytest.mark.matrix
def test_a_backup_is_no_server_that_stays():
    """It may have nothing but a page that says sorry."""
    with balanced("web-1", "web-2", "sorry", backups=["sorry"]) as (balancer, start):
        balancer.order("set server web/web-2 state maint")
        with start("web-1", "drain", 1) as asked:
            _said, told = asked.communicate(timeout=PATIENCE)
        assert told == NONE_WOULD_STAY
        assert balancer.states()["web-1"] == "UP"


@pytest.mark.matrix
@pytest.mark.parametrize(("action", "number"), [("settle", 30), ("close", 0)])
def test_p13_a_server_that_came_back_meanwhile_has_not_left(action, number):
    """HAProxy was reloaded after the drain, or an operator has put the server back: it gets new sessions."""
    with balanced("web-1", "web-2") as (balancer, start):
        with start("web-1", action, number) as asked:
            _said, told = asked.communicate(timeout=PATIENCE)
        assert told == (
            "web/web-1 takes new sessions again: HAProxy was restarted, or somebody has put it back. Prepare again.\n"
        )
        assert balancer.states()["web-1"] == "UP"


@pytest.mark.matrix
def test_p13_a_server_that_haproxy_has_not_checked_since_its_start_is_not_back():
    """HAProxy takes it for healthy until the first check has an answer, or none in ten seconds."""
    silent = socket.create_server(("127.0.0.1", 0))
    balancer = Balancer(PROGRAM, [SimpleNamespace(name="web-1", port=silent.getsockname()[1])])
    try:
        script = [sys.executable, str(RUNBOOK / "haproxy_server.py"), str(balancer.socket), "web", "web-1"]
        asked = [*script, "refill", "1"]
        refused = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE, check=False)
    finally:
        # Else the client of the balancer waits for its answer.
        silent.close()
        balancer.stop()
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "web/web-1 did not pass HAProxy's health check within 1 s; HAProxy sends it requests by its own checks.\n"
    )


@pytest.mark.matrix
@pytest.mark.release
def test_the_last_server_leaves_where_none_must_stay():
    application = Application("web-1")
    balancer = Balancer(PROGRAM, [application])
    try:
        wait_until(lambda: balancer.states()["web-1"] == "UP")
        script = [sys.executable, str(RUNBOOK / "haproxy_server.py"), str(balancer.socket), "web", "web-1", "drain"]
        refused = subprocess.run([*script, "1"], capture_output=True, text=True, check=False)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "no other server would be left to take requests, and haproxy_keep is 1." in refused.stderr
        assert balancer.states()["web-1"] == "UP"
        taken = subprocess.run([*script, "0"], capture_output=True, text=True, check=True)
        assert json.loads(taken.stdout)["changed"] is True
        assert balancer.states()["web-1"] == "DRAIN"
    finally:
        balancer.stop()
        application.stop()


@pytest.mark.matrix
@pytest.mark.release
def test_a_withdrawn_event_refills(site):
    event = site.announce("web-1")

    def withdraw():
        site.azure.control("DELETE", f"/simulator/events/{event}")

    with site.session_with("web-1"), site.once_drained("web-1", then=withdraw):
        run = site.respond()
    assert run.code == 0, run.out + run.err
    assert f"Reboot {event} withdrawn: web-1" in run.out
    assert site.approved == []
    assert site.balancer.states()["web-1"] == "UP"


@pytest.mark.matrix
@pytest.mark.release
def test_what_an_operator_took_out_stays_out_and_a_vm_in_two_events_is_refilled_after_both(site):
    site.balancer.order("set server web/web-3 state drain")
    events = [site.announce("web-3"), site.announce("web-1"), site.announce("web-1", event_type="Freeze")]
    run = site.respond()
    assert run.code == 0, run.out + run.err
    assert sorted(each for _vm, (each,) in site.approved) == sorted(events)
    assert site.balancer.states() == {**site.balancer.states(), "web-1": "UP", "web-2": "UP", "web-3": "DRAIN"}


@pytest.mark.matrix
def test_a_server_that_a_killed_run_has_taken_out_is_put_back_after_the_event(site, tmp_path):
    event = {"event_id": site.announce("web-1"), "event_type": "Reboot"}
    name, mark = left_by_killed_run(event, site.azure.vm_id("web-1"))
    folder = tmp_path / "home" / "marks"
    folder.mkdir()
    (folder / name).write_bytes(mark)
    site.balancer.order("set server web/web-1 state maint")
    run = site.respond()
    assert run.code == 0, run.out + run.err
    assert site.approved == [("web-1", [event["event_id"]])]
    assert site.balancer.states()["web-1"] == "UP"
    assert list(folder.iterdir()) == []


@pytest.mark.matrix
@pytest.mark.release
def test_p13_such_a_server_is_put_back_also_where_the_next_preparation_finds_no_haproxy(site, tmp_path):
    event = {"event_id": site.announce("web-1", notice=15), "event_type": "Reboot"}
    name, mark = left_by_killed_run(event, site.azure.vm_id("web-1"))
    folder = tmp_path / "home" / "marks"
    folder.mkdir()
    (folder / name).write_bytes(mark)
    site.balancer.order("set server web/web-1 state maint")
    socket = tmp_path / "admin.sock"
    site.others["lb-1"]["haproxy_socket"] = str(socket)

    def come_back(over):
        wait_until(lambda: over.is_set() or any(event["phase"] == "started" for event in site.events()))
        socket.symlink_to(site.balancer.socket)

    with beside(come_back):
        run = site.respond()
    assert run.code == 2
    assert f"lb-1: HAProxy cannot be spoken to at {socket}: No such file or directory." in run.words
    assert site.approved == []
    assert (site.balancer.states()["web-1"], list(folder.iterdir())) == ("UP", [])


@pytest.mark.matrix
@pytest.mark.release
def test_two_servers_are_rehearsed_by_one_command(site):
    run = site.rehearse()
    assert run.code == 0, run.out + run.err
    assert re.search("approved Reboot .*completed Reboot .*> restored", run.words)
    assert site.balancer.states() == {**site.balancer.states(), "web-1": "UP", "web-2": "UP", "web-3": "UP"}


@pytest.mark.matrix
@pytest.mark.release
def test_an_application_that_is_ill_after_the_reboot_gets_no_requests(site):
    event = site.announce("web-1")
    site.ill_after_reboot = ["web-1"]
    run = site.respond(haproxy_up_timeout=6)
    assert run.code == 2
    assert "lb-1: web/web-1 did not pass HAProxy's health check within 6 s; it stays out of service." in run.out
    assert site.approved == [("web-1", [event])]
    assert site.balancer.states()["web-1"].startswith("DOWN")
    assert site.balancer.served_by(seconds(site.event(event)["approved_at"])) == {"web-2", "web-3"}


@pytest.mark.matrix
@pytest.mark.release
def test_what_cannot_be_taken_out_is_named_and_left_alone(site):
    site.others["lb-2"] = {"ansible_connection": "mortal", "up_file": str(site.folder / "never")}
    wrong_input = "Check the input: Give haproxy_balancers (a list of hosts of the inventory), haproxy_backend"
    cases = [
        ({"haproxy_backend": "shop"}, "Check the answers to look: lb-1: HAProxy has no backend shop."),
        (
            {"haproxy_server": "web-9"},
            "lb-1: The backend web has no server web-9, only web-1, web-2, web-3, unchecked.",
        ),
        (
            {"haproxy_server": "unchecked"},
            "HAProxy does not check the health of web/unchecked: add `check` to its line",
        ),
        ({"haproxy_balancers": ["lb-1", "lb-2"]}, "The host is down."),
        ({"haproxy_balancers": "lb-1"}, wrong_input),
        ({"haproxy_server": "web-1 state maint; set server web/web-2"}, wrong_input),
    ]
    before = site.balancer.states()
    for name, (variables, _words) in zip(site.hosts, cases):
        site.hosts[name].update(variables)
        site.announce(name, notice=900)
    run = site.respond()
    assert run.code == 2
    said = " ".join(run.out.split())
    for name, (_variables, words) in zip(site.hosts, cases):
        assert re.search(f'{name} could not be prepared: [^"]*{re.escape(words)}', said), words
    assert site.approved == []
    assert site.balancer.states() == before


@pytest.mark.matrix
@pytest.mark.release
def test_check_mode_looks_and_changes_nothing(site):
    event = site.announce("web-1")
    run = site.respond("--check")
    assert run.code == 0, run.out + run.err
    assert f"Reboot {event} announced, would be approved by web-1" in run.words
    assert site.balancer.served_by() == set(VMS)
    assert site.balancer.states()["web-1"] == "UP"
