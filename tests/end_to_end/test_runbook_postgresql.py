# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runbook docs/runbooks/postgresql, run by real ansible-playbook on two real servers.

Not real: the VMs are this machine. A reboot is stood in for by a server that is killed, a host that cannot be reached
while the event is started, and a server that starts again when it has ended, as systemd would start it.
"""

from __future__ import annotations

import contextlib
import glob
import shlex
import time
from datetime import datetime
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.runbook import FAR_OFF, MORTAL, Nowhere, Runbook
from ansible_collections.fleetops.azure_maintenance.tests.postgresql import USER, pair_of_servers
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program
from ansible_collections.fleetops.azure_maintenance.tests.slow_requests import NO_RUNBOOK

# Not on PATH, for Debian keeps several versions side by side
FOLDERS = glob.glob("/usr/lib/postgresql/*/bin")
PROGRAMS = Path(need_program("pg_controldata", package="postgresql", folders=FOLDERS)).resolve().parent
VMS = {"db-1": "vm-1", "db-2": "vm-2"}
KILLED = "received immediate shutdown request"
STARTED = "SELECT pg_postmaster_start_time()"


class Maintenance(Runbook):
    """The pair as hosts of an inventory. In the beginning db-1 is the primary."""

    def __init__(self, ansible, azure, folder, pair):
        self.pair = pair
        self.servers = dict(zip(VMS, pair.both, strict=True))
        hosts = {
            host: {
                "ansible_connection": "mortal",
                "ansible_become_method": "su",
                "ansible_python_interpreter": str(pair.python),
                "up_file": str(folder / f"{host}.up"),
                "azure_maintenance_endpoint": azure.endpoint(VMS[host]),
                "postgresql_peer": peer,
                "postgresql_user": USER,
                "postgresql_programs": str(server.programs),
                "postgresql_data": str(server.data),
                "postgresql_start": server.start_command,
                "postgresql_stop": server.stop_command,
                "postgresql_environment": {"PGHOST": str(server.folder), "PGPORT": str(server.port)},
                "postgresql_timeout": 120,
            }
            for (host, server), peer in zip(self.servers.items(), reversed(VMS), strict=True)
        }
        for host in hosts:
            (folder / f"{host}.up").touch()
        super().__init__(ansible, azure, folder, "postgresql", hosts, env=MORTAL)

    def rehearse(self, **variables):
        """Hosts that are not local by their connection need an address that they reach."""
        return super().rehearse(rehearse_listen="127.0.0.1:0", **variables)

    @contextlib.contextmanager
    def watched(self, meanwhile=lambda: None):
        """Write row after row meanwhile, and look which of the servers is a primary; gives what was seen."""
        seen = {"acknowledged": set(), "roles": set(), "failed": 0, "gap": 0.0}

        def watch(over):
            number, last = 0, time.monotonic()
            while not over.is_set():
                seen["roles"].add(tuple(server.role for server in self.pair.both))
                if self.pair.write(number):
                    seen["acknowledged"].add(number)
                    number += 1
                    seen["gap"] = max(seen["gap"], time.monotonic() - last)
                    last = time.monotonic()
                else:
                    seen["failed"] += 1
                meanwhile()
                over.wait(0.2)

        with beside(watch):
            yield seen

    @contextlib.contextmanager
    def rebooting(self, host):
        server = self.servers[host]
        up = Path(self.hosts[host]["up_file"])

        def live(over):
            while not over.wait(0.1):
                (event,) = self.azure.control("GET", "/simulator/events")["events"]
                if event["phase"] == "started" and up.exists():
                    up.unlink()
                    server.stop("immediate")
                elif event["phase"] == "ended" and not up.exists():
                    server.start()
                    up.touch()

        with beside(live):
            yield

    @staticmethod
    def tell(how, seen):
        print(f"{how}: {seen['failed']} writes failed, longest time without one {seen['gap']:.1f} s")

    def assert_whole(self, primary, seen=None):
        """One primary, the other streams from it, and both have every row that a client was told is written."""
        (standby,) = set(VMS) - {primary}
        assert (self.servers[primary].role, self.servers[standby].role) == ("primary", "standby")
        assert self.servers[standby].streams
        # It has no mark of a switchover that is still to be ended.
        assert (self.servers[standby].data / "standby.signal").read_text() == ""
        assert not (self.servers[primary].data / "standby.signal").exists()
        if seen is not None:
            assert ("primary", "primary") not in seen["roles"]
            rows = self.rows(primary)
            assert len(seen["acknowledged"]) > 10
            assert seen["acknowledged"] <= rows
            wait_until(lambda: rows <= self.rows(standby), "the standby has every row")

    def rows(self, host):
        return {int(row) for row in self.servers[host].ask("SELECT number FROM entries").split()}


@pytest.fixture(scope="module")
def servers():
    with pair_of_servers(PROGRAMS) as pair:
        yield pair


@pytest.fixture
def maintenance(ansible, simulator, tmp_path, servers):
    servers.renew()
    try:
        yield Maintenance(ansible, simulator("--vms", ",".join(VMS.values())), tmp_path, servers)
    finally:
        servers.stop()


def test_the_standby_takes_over_before_the_primary_reboots(maintenance):
    maintenance.azure.announce("Reboot", "vm-1", started_for=3)
    with maintenance.watched() as seen, maintenance.rebooting("db-1"):
        run = maintenance.run()
    assert run.code == 0, run.out + run.err
    assert maintenance.approved == ["vm-1"]
    maintenance.assert_whole("db-2", seen)
    assert KILLED in maintenance.servers["db-1"].log.read_text()
    # In its log each line begins with the seconds since 1970.
    log = maintenance.servers["db-2"].log.read_text()
    (promoted,) = [float(line.split()[0]) for line in log.splitlines() if "archive recovery complete" in line]
    (event,) = maintenance.azure.control("GET", "/simulator/events")["events"]
    assert promoted < datetime.fromisoformat(event["approved_at"]).timestamp()
    maintenance.tell("with the runbook", seen)


@pytest.mark.release
def test_without_the_runbook_nobody_can_write_while_the_primary_reboots(maintenance):
    """What README compares with: a real VM needs longer for it."""
    maintenance.azure.announce("Reboot", "vm-1", started_for=30)
    with maintenance.watched() as seen, maintenance.rebooting("db-1"):
        run = maintenance.run(**NO_RUNBOOK)
        wait_until(lambda: maintenance.pair.write(-1), "it can be written again")
    assert run.code == 0, run.out + run.err
    maintenance.tell("without the runbook", seen)
    assert seen["gap"] > 25


@pytest.mark.matrix
@pytest.mark.release
def test_the_rehearsal_in_one_command_switches_over_and_with_both_in_one_event_it_is_refused(maintenance):
    run = maintenance.rehearse(rehearse_event_hosts=1)
    assert run.code == 0, run.out + run.err
    maintenance.assert_whole("db-2")
    run = maintenance.rehearse(target="db-2,db-1")
    assert run.code == 2
    assert "There is nothing to fail over to: db-1 has maintenance of its own (Reboot)." in run.words
    maintenance.assert_whole("db-2")
    assert maintenance.azure.asked() == set()


def test_a_withdrawn_event_is_not_approved_and_the_new_primary_stays(maintenance):
    event = maintenance.azure.announce("Reboot", "vm-1")

    def withdraw():
        # Once, as soon as the other one has been promoted
        if maintenance.servers["db-2"].role == "primary" and not withdrawn:
            withdrawn.append(maintenance.azure.control("DELETE", f"/simulator/events/{event}"))

    withdrawn = []
    with maintenance.watched(withdraw) as seen:
        run = maintenance.run()
    assert run.code == 0, run.out + run.err
    assert f"Reboot {event} withdrawn" in run.out
    assert maintenance.approved == []
    maintenance.assert_whole("db-2", seen)


@pytest.mark.matrix
@pytest.mark.release
def test_a_standby_may_reboot_at_once(maintenance):
    maintenance.azure.announce("Reboot", "vm-2", started_for=3)
    started = maintenance.servers["db-1"].ask(STARTED)
    with maintenance.watched() as seen, maintenance.rebooting("db-2"):
        run = maintenance.run()
    assert run.code == 0, run.out + run.err
    assert maintenance.approved == ["vm-2"]
    maintenance.assert_whole("db-1", seen)
    assert KILLED in maintenance.servers["db-2"].log.read_text()
    assert maintenance.servers["db-1"].ask(STARTED) == started


@pytest.mark.matrix
@pytest.mark.release
def test_check_mode_asks_both_servers_and_changes_nothing(maintenance):
    event = maintenance.azure.announce("Reboot", "vm-1", notice=FAR_OFF)
    started = [server.ask(STARTED) for server in maintenance.pair.both]
    run = maintenance.run("--check")
    assert run.code == 0, run.out + run.err
    assert f"Reboot {event} announced, would be approved by db-1" in run.words
    assert maintenance.approved == []
    assert [server.ask(STARTED) for server in maintenance.pair.both] == started
    maintenance.assert_whole("db-1")


def disconnect(pair):
    pair.second.stop()


def delay(pair):
    for query in ("ALTER SYSTEM SET recovery_min_apply_delay = '1h'", "SELECT pg_reload_conf()"):
        assert pair.second.ask(query) is not None
    pair.write(1)


def wait_for_the_standby(pair):
    for query in ("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"):
        assert pair.first.ask(query) is not None


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("vms", "arrange", "why"),
    [
        (["vm-1"], disconnect, "db-2 cannot take over: its server is down."),
        (["vm-1"], delay, "bytes behind, and postgresql_max_lag is 0."),
        (["vm-1", "vm-2"], None, "There is nothing to fail over to: db-2 has maintenance of its own"),
        (["vm-2"], wait_for_the_standby, "Once db-2 is down, every commit on db-1 would hang"),
    ],
)
@pytest.mark.release
def test_an_event_is_held_back_where_nobody_can_take_over(maintenance, vms, arrange, why):
    maintenance.azure.announce("Reboot", *vms, notice=FAR_OFF)
    if arrange:
        arrange(maintenance.pair)
    for host in maintenance.hosts.values():
        host.update(postgresql_timeout=2, postgresql_max_lag=0)
    started = maintenance.servers["db-1"].ask(STARTED)
    run = maintenance.run()
    assert run.code == 2
    assert why in " ".join(run.out.split())
    assert maintenance.approved == []
    assert maintenance.servers["db-1"].role == "primary"
    assert maintenance.servers["db-1"].ask(STARTED) == started


@pytest.mark.matrix
@pytest.mark.release
def test_an_event_of_the_standby_counts_although_the_run_leaves_out_its_type(maintenance):
    """Azure starts it all the same. Only a Freeze may be left out."""
    maintenance.azure.announce("Reboot", "vm-1", notice=FAR_OFF)
    maintenance.azure.announce("Freeze", "vm-2", notice=FAR_OFF)
    maintenance.azure.announce("Preempt", "vm-2", notice=FAR_OFF)
    run = maintenance.run(event_response_event_types=["Reboot", "Redeploy"])
    assert run.code == 2
    assert "There is nothing to fail over to: db-2 has maintenance of its own (Preempt)." in run.words
    assert maintenance.approved == []
    maintenance.assert_whole("db-1")


@pytest.mark.matrix
def test_a_standby_that_does_not_get_it_all_is_not_promoted(maintenance):
    """The old primary, which is down by then, becomes the primary again."""
    maintenance.azure.announce("Reboot", "vm-1", notice=FAR_OFF)
    first, second = maintenance.pair.both
    maintenance.hosts["db-1"]["postgresql_stop"] = one_after_the_other(
        second.command_to("SELECT pg_wal_replay_pause()"), first.stop_command
    )
    maintenance.hosts["db-1"]["postgresql_timeout"] = 4
    with maintenance.watched() as seen:
        run = maintenance.run()
    assert run.code == 2
    assert "db-2 was not promoted, because it has not replayed all that db-1 had written." in run.out
    assert maintenance.approved == []
    maintenance.assert_whole("db-1", seen)


@pytest.mark.matrix
@pytest.mark.release
def test_a_promotion_whose_answer_is_lost_is_not_undone(maintenance, servers):
    maintenance.azure.announce("Reboot", "vm-1", notice=FAR_OFF)
    maintenance.hosts["db-2"]["postgresql_programs"] = str(programs_that_lose_an_answer(servers.folder))
    with maintenance.watched() as seen:
        run = maintenance.run()
    assert run.code == 2
    assert "db-2 did not say that it was promoted" in run.out
    assert maintenance.approved == []
    maintenance.assert_whole("db-2", seen)


@pytest.mark.matrix
def test_a_switchover_that_was_cut_off_is_ended_by_the_next_run(maintenance):
    """db-1 is rebooted in the middle of it, and db-2 cannot be reached: nobody can tell whether it was promoted."""
    maintenance.azure.announce("Reboot", "vm-1", notice=FAR_OFF, started_for=1)
    first = maintenance.servers["db-1"]
    lost = ["rm", maintenance.hosts["db-2"]["up_file"]]
    maintenance.hosts["db-1"]["postgresql_stop"] = one_after_the_other(lost, first.stop_command, first.start_command)
    with maintenance.watched() as seen:
        run = maintenance.run()
        assert run.code == 2
        assert "What the PostgreSQL server of db-2 is cannot be told, so nothing is done" in run.out
        assert maintenance.approved == []
        assert {server.role for server in maintenance.pair.both} == {"standby"}

        Path(maintenance.hosts["db-2"]["up_file"]).touch()
        maintenance.hosts["db-1"]["postgresql_stop"] = first.stop_command
        run = maintenance.run()
    assert run.code == 0, run.out + run.err
    assert maintenance.approved == ["vm-1"]
    maintenance.assert_whole("db-2", seen)


def pair_with(programs, **variables):
    """Return the variables of two hosts whose PostgreSQL has these programs, and cannot be started."""
    return {
        host: {
            "ansible_become_method": "su",
            "postgresql_user": "root",
            "postgresql_peer": peer,
            "postgresql_programs": str(programs),
            "postgresql_data": str(programs.parent),
            "postgresql_start": ["false"],
            "postgresql_stop": ["false"],
            **variables,
        }
        for host, peer in (("db-1", "db-2"), ("db-2", "db-1"))
    }


def test_p15_postgresql_timeout_counts_the_time_of_the_questions_too(ansible, tmp_path):
    asked, programs = tmp_path / "asked", tmp_path / "programs"
    programs.mkdir()
    (programs / "pg_isready").symlink_to("/bin/true")
    (programs / "psql").write_text(
        "#!/bin/sh\n"
        'case "$*" in *json_build_object*) echo "{\\"role\\": \\"$ROLE\\"}";; '
        f'*) echo "$*" >>{asked}; sleep 3;; esac\n'
    )
    (programs / "psql").chmod(0o755)
    hosts = pair_with(programs, postgresql_timeout=4)
    for host, role in (("db-1", "primary"), ("db-2", "standby")):
        hosts[host]["postgresql_environment"] = {"ROLE": role}
    run = Runbook(ansible, Nowhere, tmp_path, "postgresql", hosts).run_files("db-1", "restore")
    assert run.code == 2, run.out + run.err
    assert "db-2 does not stream from the primary." in run.words
    # Each takes three seconds and a pause.
    assert len(asked.read_text().splitlines()) <= 2


def test_p15_a_server_that_takes_the_connection_and_never_answers_is_told_in_one_sentence(ansible, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "pg_isready").write_text("#!/bin/sh\necho accepting connections\n")
    (programs / "psql").write_text("#!/bin/sh\nexec sleep 300\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    hosts = pair_with(programs, postgresql_timeout=1)
    begun = time.monotonic()
    run = Runbook(ansible, Nowhere, tmp_path, "postgresql", hosts).run_files("db-1", "restore")
    assert time.monotonic() - begun < 200
    assert run.code == 2, run.out + run.err
    assert "server of db-1 is cannot be told, so nothing is done: psql had no answer in 11 s." in run.words


def one_after_the_other(*commands):
    return ["sh", "-ec", "\n".join(map(shlex.join, commands))]


def programs_that_lose_an_answer(folder):
    """PostgreSQL's programs, but a psql whose connection breaks when the server has promoted itself."""
    programs = folder / "programs"
    programs.mkdir()
    for name in ("pg_isready", "pg_ctl"):
        (programs / name).symlink_to(PROGRAMS / name)
    psql = programs / "psql"
    lose = f'case "$*" in *pg_promote*) "{PROGRAMS}/psql" "$@" >/dev/null; exit 2;; esac'
    psql.write_text(f'#!/bin/sh\n{lose}\nexec "{PROGRAMS}/psql" "$@"\n')
    psql.chmod(0o755)
    return programs
