# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runbook docs/runbooks/galera, by real ansible-playbook, on three real MariaDB servers under load.

Not real: the VMs are this machine. A server that runs when its VM reboots is killed.
"""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.runbook import FAR_OFF, Nowhere, Runbook
from ansible_collections.fleetops.azure_maintenance.tests.galera import PROVIDER, cluster, writing
from ansible_collections.fleetops.azure_maintenance.tests.programs import leave_out, need_program

pytestmark = pytest.mark.matrix

PROGRAM = need_program("mariadbd", package="mariadb-server", folders=["/usr/sbin"])
INSTALL = need_program("mariadb-install-db", package="mariadb-server")
if not Path(PROVIDER).exists():
    leave_out("there is no Galera: install Debian's package galera-4")
HOSTS = ("db-1", "db-2", "db-3")


class Maintenance(Runbook):
    """The three nodes as hosts of an inventory."""

    def __init__(self, ansible, azure, folder, nodes):
        self.nodes = dict(zip(HOSTS, nodes))
        hosts = {
            host: {"galera_client": node.client, "galera_start": node.start_command, "galera_stop": node.stop_command}
            for host, node in self.nodes.items()
        }
        super().__init__(ansible, azure, folder, "galera", hosts)

    @contextlib.contextmanager
    def rebooting(self, boot_starts_it=False):
        def live(over):
            down = set()
            while not over.wait(0.1):
                started = self.started
                for host in started - down:
                    self.nodes[host].kill()
                for host in down - started if boot_starts_it else ():
                    self.nodes[host].start()
                down = started

        with beside(live):
            yield

    def wait_for_all(self):
        wait_until(lambda: all(node.is_synced and node.size == 3 for node in self.nodes.values()))

    def assert_whole(self, client=None):
        """Nobody may write meanwhile."""
        self.wait_for_all()
        rows = {node.ask("SELECT GROUP_CONCAT(number) FROM shop.entries") for node in self.nodes.values()}
        assert len(rows) == 1
        if client is not None:
            assert client.acknowledged <= set(map(int, rows.pop().split(",")))


@pytest.fixture(scope="module")
def nodes():
    with cluster(PROGRAM, INSTALL) as made:
        yield made


@pytest.fixture
def maintenance(ansible, simulator, tmp_path, nodes):
    made = Maintenance(ansible, simulator("--vms", ",".join(HOSTS)), tmp_path, nodes)
    made.assert_whole()
    nodes[0].ask("SET SESSION group_concat_max_len = 1000000; DELETE FROM shop.entries")
    for node in nodes:
        node.ask("SET GLOBAL group_concat_max_len = 1000000")
    yield made
    made.assert_whole()


def test_two_events_go_in_turn_and_the_nodes_catch_up_without_a_copy_of_all_data(maintenance):
    for host in ("db-1", "db-2"):
        maintenance.azure.announce("Reboot", host, started_for=3)
    with writing(maintenance.nodes.values()) as client, maintenance.rebooting():
        run = maintenance.run(event_response_max_unavailable=1)
    assert run.code == 0, run.out + run.err
    assert sorted(maintenance.approved) == ["db-1", "db-2"]
    maintenance.assert_whole(client)
    client.tell("with the runbook")
    logs = [(node.folder / "log.err").read_text() for node in maintenance.nodes.values()]
    assert any("--role 'donor'" in log for log in logs), "the log tells of what a node gave to another"
    assert not any(node.gave_all_data for node in maintenance.nodes.values())
    # Less than the others need to notice that one is gone
    assert client.gap < 5


@pytest.mark.release
def test_without_the_runbook_nobody_can_write_until_the_others_have_noticed(maintenance):
    """What README compares with."""
    maintenance.azure.announce("Reboot", "db-1", started_for=12)
    with writing(maintenance.nodes.values()) as client, maintenance.rebooting(boot_starts_it=True):
        run = maintenance.run(event_response_prepare="nothing", event_response_restore="nothing")
        assert run.code == 0, run.out + run.err
        maintenance.wait_for_all()
    maintenance.assert_whole()
    client.tell("without the runbook")
    assert client.gap > 5


@pytest.mark.release
def test_the_second_of_three_is_refused(maintenance):
    maintenance.azure.announce("Reboot", "db-1", "db-2", notice=FAR_OFF)
    run = maintenance.run(event_response_wait_timeout=60)
    assert run.code == 2
    assert "db-2 stays in the cluster: 1 nodes would be left, and galera_keep is 2." in run.words
    assert "db-1 could not be prepared" not in run.words
    assert maintenance.approved == []


@pytest.mark.release
def test_a_rehearsal_and_check_mode(maintenance):
    """The rehearsal has two hosts in one event, so one must be enough."""
    run = maintenance.rehearse(galera_keep=1)
    assert run.code == 0, run.out + run.err
    maintenance.assert_whole()
    event = maintenance.azure.announce("Reboot", "db-1", notice=FAR_OFF)
    maintenance.azure.announce("Freeze", "db-2", notice=FAR_OFF, duration_seconds=3)
    run = maintenance.run("--check")
    assert run.code == 0, run.out + run.err
    assert f"Reboot {event} announced, would be approved by db-1" in run.words


@pytest.mark.release
def test_each_file_alone_can_be_run_again(maintenance):
    for name, changes in (("prepare", 1), ("prepare", 0), ("restore", 1), ("restore", 0)):
        run = maintenance.run_files("db-3", name)
        assert run.code == 0, run.out + run.err
        assert f"changed={changes}" in run.words
        assert maintenance.nodes["db-3"].is_synced == (name == "restore")


@pytest.mark.parametrize(
    ("said", "runs"),
    [
        ("ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: NO)", "not known"),
        ("ERROR 2002 (HY000): Can't connect to local server through socket '/run/mysqld.sock' (13)", "not known"),
        ("timeout: failed to run command 'mariadb': No such file or directory", "not known"),
        ("", "not known"),
        ("ERROR 2002 (HY000): Can't connect to local server through socket '/run/mysqld.sock' (2)", "no"),
        ("ERROR 2003 (HY000): Can't connect to MySQL server on '127.0.0.1' (111)", "no"),
    ],
)
def test_p13_a_server_that_cannot_be_asked_is_not_taken_for_one_that_has_left(ansible, tmp_path, said, runs):
    client = ["sh", "-c", f"echo {shlex.quote(said)} >&2; exit 1"]
    runbook = Runbook(ansible, Nowhere, tmp_path, "galera", {"db-1": {"galera_client": client}})
    run = runbook.run_files("db-1", "prepare")
    assert (run.code == 0) == (runs == "no"), run.out + run.err
    if runs != "no":
        assert f"Whether the server of db-1 runs is not known: {said}" in run.words


def test_p13_a_server_that_runs_on_after_the_stop_has_not_left(ansible, tmp_path):
    """systemctl stops a unit that is not there, or not this server's, with success."""
    lines = ["wsrep_cluster_size\t3", "wsrep_cluster_status\tPrimary", "wsrep_local_state_comment\tSynced"]
    client = ["printf", r"%b\n", *lines, "#"]
    hosts = {"db-1": {"galera_client": client, "galera_stop": ["true"]}}
    run = Runbook(ansible, Nowhere, tmp_path, "galera", hosts).run_files("db-1", "prepare")
    assert run.code == 2, run.out + run.err
    assert "The server of db-1 runs on after galera_stop (true)." in run.words


def test_p15_galera_timeout_counts_the_time_of_the_questions_too(ansible, tmp_path):
    asked = tmp_path / "asked"
    client = ["sh", "-c", f"echo once more >>{asked}; sleep 3; exit 1"]
    hosts = {"db-1": {"galera_client": client, "galera_start": ["true"], "galera_timeout": 4}}
    run = Runbook(ansible, Nowhere, tmp_path, "galera", hosts).run_files("db-1", "restore")
    assert run.code == 2, run.out + run.err
    # The first is whether it runs. Each of the others takes three seconds and a pause.
    assert len(asked.read_text().splitlines()) <= 3
