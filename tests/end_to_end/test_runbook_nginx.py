# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runbook docs/runbooks/nginx, by real ansible-playbook, with a real nginx whose clients must not notice it."""

from __future__ import annotations

import contextlib
import runpy
import socket
import subprocess
import sys
import threading
import time
from datetime import datetime

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import PATIENCE, beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.runbook import FAR_OFF, RUNBOOKS, Runbook
from ansible_collections.fleetops.azure_maintenance.tests.haproxy import Application
from ansible_collections.fleetops.azure_maintenance.tests.nginx import READ_TIMEOUT, Nginx
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program

pytestmark = pytest.mark.matrix

PROGRAM = need_program("nginx", package="nginx-light", folders=["/usr/sbin"])
VMS = ("web-1", "web-2", "web-3")


class Site(Runbook):
    """Three VMs with an application each, behind one nginx."""

    def __init__(self, ansible, azure, folder):
        self.applications = {name: Application(name) for name in VMS}
        self.nginx = Nginx(PROGRAM, self.applications.values())
        shared = {"nginx_balancers": ["lb-1"], "nginx_file": str(self.nginx.file), "nginx_health_path": "/health"}
        hosts = {name: {**shared, "nginx_server": self.nginx.addresses[name]} for name in VMS}
        balancer = {"nginx_pid": str(self.nginx.pid_file), "nginx_program": self.nginx.program}
        super().__init__(ansible, azure, folder, "nginx", hosts, {"lb-1": balancer})

    @contextlib.contextmanager
    def rebooting(self):
        """A VM that is down takes no connection and refuses none: what was sent to it gets no answer."""

        def live(over):
            silent = {}
            while not over.wait(0.1):
                down = self.started
                for name in down - set(silent):
                    self.applications[name].stop()
                    silent[name] = socket.create_server(("127.0.0.1", self.applications[name].port))
                for name in set(silent) - down:
                    silent.pop(name).close()
                    self.applications[name].start()

        with beside(live):
            yield

    @contextlib.contextmanager
    def slow_request_to(self, name):
        """A client whose request this application answers only when it is released; gives what it got, and when."""
        application, got = self.applications[name], []

        def ask():
            # nginx balances in turns, and some other may get it.
            while not got or got[-1][1] != name:
                got.append((*self.nginx.get("/slow/hold"), time.time()))

        for other in VMS:
            if other != name:
                self.applications[other].release.set()
        client = threading.Thread(target=ask)
        client.start()
        try:
            assert application.holds.wait(PATIENCE)
            yield got
        finally:
            application.release.set()
            client.join()

    def stop(self):
        self.nginx.stop()
        for application in self.applications.values():
            application.stop()


@pytest.fixture
def site(ansible, simulator, tmp_path):
    made = Site(ansible, simulator("--vms", ",".join(VMS)), tmp_path)
    try:
        wait_until(lambda: made.nginx.served_by() == set(VMS))
        yield made
    finally:
        made.stop()


def test_two_of_three_servers_reboot_and_no_client_notices(site):
    """The event is approved only when the last request has ended; requests come back when the application answers."""
    site.azure.announce("Reboot", "web-1", "web-2", started_for=5)

    def release_once_drained(over):
        wait_until(lambda: "web-1" in site.nginx.down() or over.is_set())
        site.applications["web-1"].release.set()

    with site.slow_request_to("web-1") as got, site.rebooting(), beside(release_once_drained):
        run = site.run()
    assert run.code == 0, run.out + run.err
    assert len(site.approved) == 1
    assert got[-1][:2] == (200, "web-1")
    (event,) = site.azure.control("GET", "/simulator/events")["events"]
    assert got[-1][2] < stamp(event["approved_at"])
    assert site.nginx.served_by(stamp(event["approved_at"]), stamp(event["ended_at"])) == {"web-3"}
    assert site.nginx.down() == set()
    begun = time.time()
    wait_until(lambda: site.nginx.served_by(begun) == set(VMS))
    site.nginx.tell("with the runbook")
    assert site.nginx.failed() == []
    assert site.nginx.longest_gap() < READ_TIMEOUT


def stamp(moment):
    return datetime.fromisoformat(moment).timestamp()


@pytest.mark.release
def test_without_the_runbook_requests_wait_for_a_vm_that_is_down(site):
    """What README compares with."""
    site.azure.announce("Reboot", "web-1", "web-2", started_for=8)
    with site.rebooting():
        run = site.run(event_response_prepare="nothing", event_response_restore="nothing")
    assert run.code == 0, run.out + run.err
    site.nginx.tell("without the runbook")
    assert site.nginx.longest_gap() > READ_TIMEOUT


@pytest.mark.release
def test_the_last_server_is_refused_also_when_two_events_come_at_once(site):
    site.nginx.mark_by_hand("web-3")
    for name in ("web-1", "web-2"):
        site.azure.announce("Reboot", name, notice=FAR_OFF)
    run = site.run(event_response_wait_timeout=60, event_response_approve=False)
    assert run.code == 2
    assert "no other server would be left to take requests, and nginx_keep is 1." in run.words
    assert site.nginx.down() == {"web-3"}, "what an operator has taken out stays out"
    assert site.nginx.failed() == []


@pytest.mark.release
def test_check_mode_and_wrong_input_change_nothing(site):
    event = site.azure.announce("Reboot", "web-1", notice=FAR_OFF)
    before = site.nginx.file.read_text()
    run = site.run("--check")
    assert run.code == 0, run.out + run.err
    assert f"Reboot {event} announced, would be approved by web-1" in run.words
    site.hosts["web-1"]["nginx_server"] = "127.0.0.1:9"
    run = site.run("--check")
    assert run.code == 2
    assert f"lb-1: {site.nginx.file} must have one server 127.0.0.1:9, and has" in run.words
    assert site.nginx.file.read_text() == before


@pytest.mark.release
def test_a_rehearsal_takes_two_out_and_puts_them_back(site):
    run = site.rehearse()
    assert run.code == 0, run.out + run.err
    assert site.nginx.down() == set()
    assert site.nginx.failed() == []


@pytest.mark.release
def test_requests_that_do_not_end_hold_the_event_back_and_restore_alone_puts_the_server_back(site):
    site.azure.announce("Reboot", "web-1", notice=FAR_OFF)
    with site.slow_request_to("web-1") as got:
        run = site.run(nginx_drain_timeout=2, event_response_restore="nothing")
        assert run.code == 2
        assert f"lb-1: {site.nginx.addresses['web-1']} still has connections after 2 s." in run.words
        assert site.approved == []
        assert site.nginx.down() == {"web-1"}
    assert got[-1][:2] == (200, "web-1")
    for changed in ("changed=1", "changed=0"):
        run = site.run_files("web-1", "restore")
        assert (run.code, site.nginx.down()) == (0, set()), run.out + run.err
        assert changed in run.words


def test_p13_a_mark_that_nginx_has_not_read_yet_counts_for_nothing(site):
    """The balancer lost its power, or the process was killed, between the change of the file and the reload."""
    address, text = site.nginx.addresses["web-1"], site.nginx.file.read_text()
    site.nginx.file.write_text(
        text.replace(f"{address} max_fails=0;", f"{address} max_fails=0 down; # azure-maintenance")
    )
    run = site.run_files("web-1", "prepare")
    assert run.code == 0, run.out + run.err
    begun = time.time()
    wait_until(lambda: len(site.nginx.served_by(begun)) > 1)
    assert site.nginx.served_by(begun) == {"web-2", "web-3"}


def test_p13_a_reload_that_fails_is_repeated_by_the_next_restore(site, tmp_path):
    run = site.run_files("web-1", "prepare")
    assert run.code == 0, run.out + run.err
    program = tmp_path / "nginx"
    program.write_text('#!/bin/sh\ncase "$*" in *reload*) echo "nginx: [alert] kill failed" >&2; exit 1; esac\n')
    program.chmod(0o755)
    run = site.run_files("web-1", "restore", nginx_program=[str(program)])
    assert run.code == 2
    assert "lb-1: nginx did not take the command to reload: nginx: [alert] kill failed" in run.words
    # The file has no `down` any more, and nginx still has it.
    run = site.run_files("web-1", "restore")
    assert run.code == 0, run.out + run.err
    begun = time.time()
    wait_until(lambda: site.nginx.served_by(begun) == set(VMS))
    assert "azure-maintenance" not in site.nginx.file.read_text()


@pytest.mark.release
def test_a_balancer_that_cannot_be_reached_in_the_restore_is_named_and_the_others_take_the_server_back(site):
    run = site.run_files("web-1", "prepare")
    assert run.code == 0, run.out + run.err
    site.others["lb-2"] = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}
    run = site.run_files("web-1", "restore", nginx_balancers=["lb-2", "lb-1"])
    assert run.code == 2
    assert "lb-2: " in run.words
    assert "onnect to host 127.0.0.1 port 9: Connection refused" in run.words
    assert site.nginx.down() == set()


class Balanced:
    """An nginx with an upstream of one's own, and the program of the runbook, without Ansible."""

    def __init__(self):
        self.application = Application("web-1")
        self.nginx = Nginx(PROGRAM, [self.application])
        self.address = self.nginx.addresses["web-1"]

    def has(self, *lines, name="upstream web"):
        text = "".join(f"    {line}\n" for line in lines)
        self.nginx.file.write_bytes(f"{name} {{\n{text}}}\n".encode("latin-1"))

    def ask(self, action, number, server=None):
        file = RUNBOOKS / "nginx" / "nginx_server.py"
        argv = [str(self.nginx.file), server or self.address, action, str(number), "/health", str(self.nginx.pid_file)]
        argv = [sys.executable, str(file), *argv, *self.nginx.program]
        return subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def lines(self):
        return [line.strip() for line in self.nginx.file.read_text("latin-1").splitlines()[1:-1]]


@pytest.fixture
def balanced():
    made = Balanced()
    try:
        yield made
    finally:
        made.nginx.stop()
        made.application.stop()


def test_p13_a_line_that_is_commented_out_is_not_taken_for_that_of_the_server(balanced):
    line = f"server {balanced.address};"
    balanced.has(f"#    {line}".removeprefix("    "), line, "# Gewählt von Jörg")
    drained = balanced.ask("drain", 0)
    assert (drained.returncode, drained.stdout) == (0, "changed\n"), drained.stderr
    assert balanced.lines() == [f"#    {line}", f"{line[:-1]} down; # azure-maintenance", "# Gewählt von Jörg"]
    back = balanced.ask("refill", 10)
    assert (back.returncode, back.stdout) == (0, "changed\n"), back.stderr
    assert balanced.lines() == [f"#    {line}", line, "# Gewählt von Jörg"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["server {0}; server 127.0.0.1:9;"], "must have one server {0}, and has none."),
        (["server {0};", "}}", "upstream other {{", "server 127.0.0.1:9;"], "has more than one upstream"),
    ],
    ids=["two on one line", "two upstreams"],
)
def test_a_file_in_another_form_is_refused_and_not_changed(balanced, lines, told):
    balanced.has(*(line.format(balanced.address) for line in lines))
    before = balanced.nginx.file.read_text()
    refused = balanced.ask("drain", 0)
    assert refused.returncode == 1
    assert told.format(balanced.address) in refused.stderr
    assert balanced.nginx.file.read_text() == before


@pytest.mark.parametrize("other", ["unix:/run/web.sock", "127.0.0.1:99999", "[::1"])
def test_another_server_that_cannot_be_asked_does_not_count(balanced, other):
    balanced.has(f"server {balanced.address};", f"server {other};")
    refused = balanced.ask("may_drain", 1)
    assert refused.stderr == (
        f"{balanced.address} stays in {balanced.nginx.file}: no other server would be left to take requests, and"
        " nginx_keep is 1.\n"
    )


def test_p15_another_server_that_answers_without_an_end_does_not_count(balanced):
    def drip(over):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            balanced.has(f"server {balanced.address};", f"server 127.0.0.1:{listener.getsockname()[1]};")
            ready.set()
            connection, _peer = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not over.wait(0.5):
                    connection.sendall(b"x")

    ready = threading.Event()
    with beside(drip):
        assert ready.wait(PATIENCE)
        refused = balanced.ask("may_drain", 1)
    assert "no other server would be left to take requests" in refused.stderr


def test_p15_a_lock_is_not_waited_for_without_an_end(balanced, monkeypatch):
    program = runpy.run_path(str(RUNBOOKS / "nginx" / "nginx_server.py"))
    monkeypatch.setitem(program["main"].__globals__, "LOCKED", 1)
    upstream = program["Upstream"](str(balanced.nginx.file), balanced.address, "/", "", [])
    with upstream.locked(), pytest.raises(program["Refused"]) as refused, upstream.locked():
        pass
    assert str(refused.value) == f"Another process has kept {balanced.nginx.folder} locked for 1 s."


def test_p15_a_test_of_the_file_that_does_not_end_changes_nothing(balanced, monkeypatch):
    """A later reload by anybody else would take the server out of service."""
    slow = balanced.nginx.folder / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    program = runpy.run_path(str(RUNBOOKS / "nginx" / "nginx_server.py"))
    monkeypatch.setitem(program["main"].__globals__, "RELOAD", 1)
    before = balanced.nginx.file.read_text()
    upstream = program["Upstream"](str(balanced.nginx.file), balanced.address, "/", "", [str(slow)])
    with pytest.raises(program["Refused"]) as refused:
        program["drain"](upstream, 0)
    assert str(refused.value) == f"`{slow} -t` did not end within 1 s. {balanced.nginx.file} is as it was."
    assert balanced.nginx.file.read_text() == before


@pytest.mark.parametrize("server", ["127.0.0.1:99999", "[::1"])
def test_a_server_that_is_no_address_is_told_in_one_sentence(balanced, server):
    balanced.has(f"server {server};")
    refused = balanced.ask("settle", 1, server)
    assert refused.stderr.startswith(f"{server} is not the address of a server: "), refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_p13_connections_to_an_address_of_ipv6_are_waited_for(balanced):
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        port = listener.getsockname()[1]
        server = f"[::1]:{port}"
        balanced.has(f"server {server};")
        with socket.create_connection(("::1", port)):
            still = balanced.ask("settle", 1, server)
            assert still.stderr == f"{server} still has connections after 1 s.\n"
    settled = balanced.ask("settle", 10, server)
    assert settled.returncode == 0, settled.stderr
