# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runbook docs/runbooks/rabbitmq, by real ansible-playbook, on three real RabbitMQ servers under load.

Not real: the VMs are this machine. A server that runs when its VM reboots is killed.
"""

from __future__ import annotations

import contextlib
import signal
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.runbook import FAR_OFF, Nowhere, Runbook
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program
from ansible_collections.fleetops.azure_maintenance.tests.rabbitmq import (
    PATIENCE,
    Connection,
    cluster,
    publishing,
    take_all,
)

pytestmark = pytest.mark.matrix

need_program("rabbitmq-server", package="rabbitmq-server", folders=["/usr/sbin"])
HOSTS = ("mq-1", "mq-2", "mq-3")


class Maintenance(Runbook):
    """The three nodes as hosts of an inventory."""

    def __init__(self, ansible, azure, folder, nodes):
        self._queues = []
        self.nodes = dict(zip(HOSTS, nodes))
        hosts = {
            host: {"rabbitmq_programs": str(node.programs), "rabbitmq_start": node.start_command}
            for host, node in self.nodes.items()
        }
        super().__init__(ansible, azure, folder, "rabbitmq", hosts)

    @contextlib.contextmanager
    def rebooting(self, silent, boot_starts_it=False):
        """A VM that vanishes closes no connection: its server is silent for so many seconds before it is killed."""

        def live(over):
            since, killed = {}, set()
            while not over.wait(0.1):
                started = self.started
                for host in started - set(since):
                    since[host] = time.monotonic()
                    self.nodes[host].signal(signal.SIGSTOP)
                for host in set(since) - killed:
                    if time.monotonic() - since[host] > silent:
                        self.nodes[host].kill()
                        killed.add(host)
                for host in killed - started if boot_starts_it else ():
                    self.nodes[host].start()
                    killed.discard(host)

        with beside(live):
            yield

    def declare(self, queue):
        """The node to which the client is connected becomes the leader."""
        with Connection(self.nodes["mq-1"].port) as connection:
            connection.declare(queue)
        self._queues.append(queue)

    def delete_queues(self):
        """As long as a replica of one is missing, the runbook refuses."""
        for queue in self._queues:
            with Connection(self.nodes["mq-1"].port) as connection:
                connection.delete(queue)

    def assert_whole(self):
        wait_until(lambda: all(node.serves for node in self.nodes.values()))


@pytest.fixture(scope="module")
def nodes():
    with cluster() as made:
        yield made


@pytest.fixture
def maintenance(ansible, simulator, tmp_path, nodes):
    made = Maintenance(ansible, simulator("--vms", ",".join(HOSTS)), tmp_path, nodes)
    yield made
    made.assert_whole()
    made.delete_queues()


def test_two_events_go_in_turn_and_the_queue_stays_available(maintenance):
    for host in ("mq-1", "mq-2"):
        maintenance.azure.announce("Reboot", host, started_for=12)
    maintenance.declare("in-turn")
    first, second, third = maintenance.nodes.values()
    publishers = publishing("in-turn", first, second, third), publishing("in-turn", third)
    with publishers[0] as client, publishers[1] as other, maintenance.rebooting(silent=PATIENCE + 2):
        run = maintenance.run(event_response_max_unavailable=1)
    assert run.code == 0, run.out + run.err
    assert sorted(maintenance.approved) == ["mq-1", "mq-2"]
    client.tell("with the runbook, on a node that leaves")
    other.tell("with the runbook, on a node that stays")
    assert client.acknowledged | other.acknowledged <= take_all("in-turn", third)
    # Each drain ends the connection of the client once.
    assert client.errors <= 2
    assert other.errors == 0
    # As long as a client waits here for a node that is gone
    assert max(client.gap, other.gap) < PATIENCE


@pytest.mark.release
def test_without_the_runbook_a_client_waits_for_the_node_that_is_gone(maintenance):
    """What README compares with."""
    maintenance.azure.announce("Reboot", "mq-1", started_for=25)
    maintenance.declare("vanish")
    first, second, third = maintenance.nodes.values()
    publishers = publishing("vanish", first, second, third), publishing("vanish", third)
    with publishers[0] as client, publishers[1] as other, maintenance.rebooting(silent=20, boot_starts_it=True):
        run = maintenance.run(event_response_prepare="nothing", event_response_restore="nothing")
        assert run.code == 0, run.out + run.err
        maintenance.assert_whole()
    client.tell("without the runbook, on the node that vanishes")
    other.tell("without the runbook, on a node that stays")
    assert client.acknowledged | other.acknowledged <= take_all("vanish", third)
    assert client.gap >= PATIENCE


@pytest.mark.release
def test_the_second_of_three_is_refused(maintenance):
    maintenance.azure.announce("Reboot", "mq-1", "mq-2", notice=FAR_OFF)
    run = maintenance.run(event_response_wait_timeout=60)
    assert run.code == 2
    assert "mq-2 stays in service: 1 nodes would be left, and rabbitmq_keep is 2." in run.words
    assert "mq-1 could not be prepared" not in run.words
    assert maintenance.approved == []


@pytest.mark.release
def test_a_rehearsal(maintenance):
    """It has two hosts in one event, so one must be enough, and a Freeze of five seconds of the third."""
    run = maintenance.rehearse(rabbitmq_keep=1)
    assert run.code == 0, run.out + run.err
    maintenance.assert_whole()


@pytest.mark.release
def test_a_queue_that_would_lose_its_quorum_is_named(maintenance):
    """It has replicas on two nodes only, so each of them is needed."""
    with Connection(maintenance.nodes["mq-3"].port) as connection:
        connection.declare("pair", quorum_initial_group_size=2)
        try:
            run = maintenance.run_files("mq-3", "prepare", rabbitmq_patience=1)
        finally:
            connection.delete("pair")
    assert run.code == 2
    assert "mq-3 stays in service: " in run.words
    assert "queue 'pair' in vhost '/' would lose quorum" in run.words


@pytest.mark.release
def test_each_file_alone_can_be_run_again_and_check_mode_changes_nothing(maintenance):
    run = maintenance.run_files("mq-3", "prepare", "restore", options=["--check"])
    assert run.code == 0, run.out + run.err
    assert "changed=0" in run.words
    assert maintenance.nodes["mq-3"].serves
    run = maintenance.run_files("mq-3", "prepare", "prepare")
    assert run.code == 0, run.out + run.err
    assert "changed=1" in run.words
    assert not maintenance.nodes["mq-3"].serves
    run = maintenance.run_files("mq-3", "restore", "restore")
    assert run.code == 0, run.out + run.err
    assert "changed=1" in run.words
    assert maintenance.nodes["mq-3"].serves


@pytest.mark.parametrize(
    ("said", "runs"),
    [
        ("TCP connection succeeded but Erlang distribution failed", "not known"),
        ("Only root or rabbitmq can run rabbitmq-diagnostics", "not known"),
        ("  * epmd reports: node 'rabbit' not running at all", "no"),
    ],
)
def test_p13_a_node_that_cannot_be_asked_is_not_taken_for_one_that_has_left(ansible, tmp_path, said, runs):
    program = tmp_path / "rabbitmq-diagnostics"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 69\n")
    program.chmod(0o755)
    hosts = {"mq-1": {"rabbitmq_programs": str(tmp_path)}}
    run = Runbook(ansible, Nowhere, tmp_path, "rabbitmq", hosts).run_files("mq-1", "prepare")
    assert (run.code == 0) == (runs == "no"), run.out + run.err
    if runs != "no":
        assert f"Whether the node of mq-1 runs is not known: {said}. Let" in run.words


# A node in maintenance mode that is too busy to answer the first question; what was asked of it is in a file.
BUSY = """#!/bin/sh
cd "$(dirname "$0")" && echo "$(basename "$0") $*" >>asked
case "$*" in
  *status*) test -e busy && rm busy && echo "Error: operation status on node rabbit@mq-1 timed out" >&2 && exit 69
    test -e revived && under=false || under=true; echo '{"is_under_maintenance": '$under'}' ;;
  revive*) touch revived ;;
esac
"""


def test_p13_a_node_that_gives_no_answer_at_first_does_not_stay_in_maintenance_mode(ansible, tmp_path):
    for name in ("rabbitmq-diagnostics", "rabbitmqctl", "rabbitmq-upgrade"):
        (tmp_path / name).write_text(BUSY)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "busy").touch()
    hosts = {"mq-1": {"rabbitmq_programs": str(tmp_path), "rabbitmq_start": ["true"]}}
    run = Runbook(ansible, Nowhere, tmp_path, "rabbitmq", hosts).run_files("mq-1", "restore")
    assert run.code == 0, run.out + run.err
    assert (tmp_path / "revived").exists(), (tmp_path / "asked").read_text()


@pytest.mark.release
def test_p15_a_program_that_does_not_end_holds_the_event_back(ansible, tmp_path):
    program = tmp_path / "rabbitmq-diagnostics"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    hosts = {"mq-1": {"rabbitmq_programs": str(tmp_path)}}
    run = Runbook(ansible, Nowhere, tmp_path, "rabbitmq", hosts).run_files("mq-1", "prepare")
    assert run.code == 2, run.out + run.err
    assert "Whether the node of mq-1 runs is not known: no answer in 90 s. Let" in run.words


@pytest.mark.release
def test_p15_a_command_that_does_not_heed_its_own_limit_is_stopped(ansible, tmp_path):
    programs = {
        "rabbitmq-diagnostics": "echo '{\"is_under_maintenance\": true}'",
        "rabbitmqctl": "exec true",
        "rabbitmq-upgrade": "exec sleep 600",
    }
    for name, does in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    hosts = {"mq-1": {"rabbitmq_programs": str(tmp_path), "rabbitmq_timeout": 1}}
    begun = time.monotonic()
    run = Runbook(ansible, Nowhere, tmp_path, "rabbitmq", hosts).run_files("mq-1", "restore")
    assert time.monotonic() - begun < 300
    assert run.code == 2, run.out + run.err
