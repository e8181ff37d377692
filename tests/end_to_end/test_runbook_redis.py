# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runbook docs/runbooks/redis, run by real ansible-playbook on three real servers with their Sentinels, under load.

Not real: the VMs are this machine. A reboot is stood in for by a server and a Sentinel that are killed, a host that
cannot be reached while the event is started, and both being started again when it has ended, as systemd would do it.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.steps import (
    StepContext,
    playbook_command,
    unsafe_yaml,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.records import (
    Moment,
)
from ansible_collections.fleetops.azure_maintenance.tests.beside import beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.runbook import (
    FAR_OFF,
    MORTAL,
    RUNBOOKS,
    Nowhere,
    Runbook,
)
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.test_guides import blocks, read
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program
from ansible_collections.fleetops.azure_maintenance.tests.redis import DOWN_AFTER, NAME, ask, three_nodes, writing
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import NOW, make_event

pytestmark = pytest.mark.matrix

PROGRAMS = (
    need_program("redis-server", package="redis-server"),
    need_program("redis-sentinel", package="redis-sentinel"),
)
RUNBOOK = RUNBOOKS / "redis"
HOSTS = ("redis-1", "redis-2", "redis-3")
VMS = {host: host.replace("redis", "vm") for host in HOSTS}


class Maintenance(Runbook):
    """The three as hosts of an inventory. In the beginning redis-1 is the primary."""

    def __init__(self, ansible, azure, folder, nodes):
        self.nodes = dict(zip(HOSTS, nodes))
        places = {host: f"127.0.0.1:{node.port}" for host, node in self.nodes.items()}
        self.shared = {"redis_name": NAME, "redis_nodes": places}
        hosts = {
            host: {
                "ansible_connection": "mortal",
                "up_file": str(folder / f"{host}.up"),
                "azure_maintenance_endpoint": azure.endpoint(VMS[host]),
                "redis_sentinel": f"127.0.0.1:{node.sentinel_port}",
                **self.shared,
            }
            for host, node in self.nodes.items()
        }
        for host in hosts:
            (folder / f"{host}.up").touch()
        super().__init__(ansible, azure, folder, "redis", hosts, env=MORTAL)

    def rehearse(self, runbook):
        for host in self.hosts.values():
            host.update(ansible_connection="local")
            del host["azure_maintenance_endpoint"]
        return super().rehearse(**{f"rehearse_{name}": str(runbook / f"{name}.yml") for name in ("prepare", "restore")})

    @contextlib.contextmanager
    def rebooting(self):
        """Each VM of an event that has started is down until the event has ended."""

        def live(over):
            down = set()
            while not over.wait(0.1):
                hosts = {host for host, vm in VMS.items() if vm in self.started}
                for host in hosts - down:
                    (self.folder / f"{host}.up").unlink()
                    self.nodes[host].stop()
                for host in down - hosts:
                    self.nodes[host].start()
                    (self.folder / f"{host}.up").touch()
                down = hosts

        with beside(live):
            yield

    def assert_whole(self, primary, client=None):
        """One primary, two replicas in sync, all with their own priority, and each write that was acknowledged."""
        node = self.nodes[primary]
        wait_until(lambda: all(each.primary_of_sentinel == node.port for each in self.nodes.values()), "all agree")
        roles = {host: each.role for host, each in self.nodes.items()}
        assert roles == {host: "master" if host == primary else "slave" for host in HOSTS}
        wait_until(lambda: node.info()["connected_slaves"] == "2", "both replicas follow")
        assert {host: each.priority for host, each in self.nodes.items()} == dict.fromkeys(HOSTS, 100)
        if client is not None:
            assert len(client.acknowledged) > 100
            assert client.lost(node) == set()

    @contextlib.contextmanager
    def writing(self):
        with writing(list(self.nodes.values())) as client:
            yield client

    def run_by_checker(self, host, file, context, **variables):
        """Run a file as the checker of a VM runs a playbook with it."""
        own = {"redis_node": host, "redis_sentinel": self.hosts[host]["redis_sentinel"], **self.shared, **variables}
        tasks = [{"ansible.builtin.import_tasks": str(RUNBOOK / f"{file}.yml")}]
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": own, "tasks": tasks}
        (self.folder / "playbook.yml").write_text(json.dumps([play]))
        (self.folder / "variables.yml").write_text(unsafe_yaml(context.variables(Moment(NOW.timestamp(), 0.0, ""))))
        variables = f"@{self.folder / 'variables.yml'}"
        argv = playbook_command("ansible-playbook", str(self.folder / "playbook.yml"), "--extra-vars", variables)
        return self._ansible(*argv, env={"ANSIBLE_PYTHON_INTERPRETER": sys.executable})


def announced(**changes):
    """What the checker of redis-1 prepares for."""
    return StepContext(1, make_event(**changes), "announced", None, "redis-1", "mark", False)


@pytest.fixture
def maintenance(ansible, simulator, tmp_path):
    with three_nodes(PROGRAMS) as nodes:
        yield Maintenance(ansible, simulator("--vms", ",".join(VMS.values())), tmp_path, nodes)


def test_the_one_server_that_stays_takes_over_before_two_others_reboot_and_no_write_is_lost(maintenance):
    """Two events, one of the primary and one of a replica, at the same time."""
    for vm in ("vm-1", "vm-2"):
        maintenance.azure.announce("Reboot", vm, started_for=5)
    with maintenance.writing() as client, maintenance.rebooting():
        run = maintenance.run()
    assert run.code == 0, run.out + run.err
    assert sorted(maintenance.approved) == ["vm-1", "vm-2"]
    maintenance.assert_whole("redis-3", client)
    client.tell("with the runbook")
    assert client.gap < DOWN_AFTER / 1000


@pytest.mark.release
def test_without_the_runbook_writes_fail_until_the_sentinels_have_noticed(maintenance):
    """What README compares with."""
    maintenance.azure.announce("Reboot", "vm-1", started_for=20)
    with maintenance.writing() as client, maintenance.rebooting():
        run = maintenance.run(event_response_prepare="nothing", event_response_restore="nothing")
    assert run.code == 0, run.out + run.err
    client.tell("without the runbook")
    assert client.gap > DOWN_AFTER / 1000


@pytest.mark.release
def test_a_failover_by_sentinel_alone_loses_writes(maintenance):
    """Why the runbook lets writes wait. Without it the test of the hand-over would prove nothing."""
    first = maintenance.nodes["redis-1"]
    with maintenance.writing() as client:
        assert ask(first.sentinel_port, "SENTINEL", "FAILOVER", NAME) == "OK"
        wait_until(lambda: first.role == "slave", "the old primary follows")
    (primary,) = [node for node in maintenance.nodes.values() if node.role == "master"]
    client.tell(f"SENTINEL FAILOVER alone, {len(client.lost(primary))} writes lost")
    assert client.lost(primary)


@pytest.mark.release
def test_a_rehearsal_with_the_primary_and_a_replica_in_one_event(maintenance):
    """The first two hosts are in it, so the third takes over, although a short Freeze is announced for it."""
    run = maintenance.rehearse(RUNBOOK)
    assert run.code == 0, run.out + run.err
    maintenance.assert_whole("redis-3")


@pytest.mark.release
def test_what_the_guide_builds_passes_the_same_rehearsal(maintenance, tmp_path):
    (tmp_path / "redis").mkdir()
    for block in blocks(read("guide_writing_a_runbook")):
        if block.caption.startswith("redis/"):
            (tmp_path / block.caption).write_text(block.text)
    for host, node in maintenance.nodes.items():
        ports = {"redis_port": node.port, "redis_sentinel_port": node.sentinel_port}
        maintenance.hosts[host].update(redis_address="127.0.0.1", **ports)
    run = maintenance.rehearse(tmp_path / "redis")
    assert run.code == 0, run.out + run.err
    maintenance.assert_whole("redis-3")


@pytest.mark.release
def test_an_event_of_all_three_is_held_back_and_nothing_is_changed(maintenance):
    maintenance.azure.announce("Reboot", *VMS.values(), notice=FAR_OFF)
    run = maintenance.run(event_response_wait_timeout=60)
    assert run.code == 2
    assert "redis-1 stays the primary, because no other server can take over." in run.words
    assert "nothing is known of them: redis-2, redis-3." in run.words
    assert maintenance.approved == []
    maintenance.assert_whole("redis-1")


@pytest.mark.release
def test_the_checker_refuses_where_the_only_replica_in_sync_is_in_the_same_event(maintenance):
    maintenance.nodes["redis-3"].stop()
    run = maintenance.run_by_checker("redis-1", "prepare", announced(resources=("redis-1", "REDIS-2")))
    assert run.code == 2
    assert "of them: redis-2. No replica in sync that may be promoted: redis-3." in run.words
    assert [maintenance.nodes[host].priority for host in HOSTS] == [100, 100, None]
    assert maintenance.nodes["redis-1"].role == "master"


def test_a_hand_over_that_fails_loses_nothing_and_is_put_back(maintenance, tmp_path):
    program = tmp_path / "redis-cli"
    program.write_text('#!/bin/sh\ncase "$*" in *FAILOVER*) echo NOGOODSLAVE;; *) exec redis-cli "$@";; esac\n')
    program.chmod(0o755)
    with maintenance.writing() as client:
        run = maintenance.run_by_checker("redis-1", "prepare", announced(), redis_cli=[str(program)])
        assert run.code == 2
        assert "refused SENTINEL: NOGOODSLAVE" in run.words
        assert maintenance.run_by_checker("redis-1", "restore", announced()).code == 0
    maintenance.assert_whole("redis-1", client)


@pytest.mark.release
def test_check_mode_changes_nothing_and_a_short_freeze_needs_nothing(maintenance):
    reboot = maintenance.azure.announce("Reboot", "vm-1", notice=FAR_OFF)
    maintenance.azure.announce("Freeze", "vm-2", notice=FAR_OFF, duration_seconds=5)
    run = maintenance.run("--check")
    assert run.code == 0, run.out + run.err
    assert f"Reboot {reboot} announced, would be approved by redis-1" in run.words
    assert "redis-2 stays as it is: the Freeze takes 5 s, and down-after-milliseconds is 12000." in run.words
    maintenance.assert_whole("redis-1")


@pytest.mark.release
def test_a_freeze_of_more_than_half_the_time_out_is_taken_seriously(maintenance):
    """The primary was seen to lose writes: a Sentinel hears late of the end of a Freeze."""
    maintenance.nodes["redis-3"].stop()
    run = maintenance.run_by_checker(
        "redis-1", "prepare", announced(event_type="Freeze", duration_seconds=7, resources=("redis-1", "redis-2"))
    )
    assert run.code == 2
    assert "redis-1 stays the primary" in run.words


@pytest.mark.release
def test_the_checker_of_a_vm_runs_both_files_and_a_second_restore_changes_nothing(maintenance):
    """Beside that: what a run has left that was broken off in the middle of a hand-over."""
    run = maintenance.run_by_checker("redis-1", "prepare", announced(resources=("REDIS-1", "redis-2")))
    assert run.code == 0, run.out + run.err
    assert maintenance.nodes["redis-3"].role == "master"
    assert maintenance.nodes["redis-1"].priority == 0
    ask(maintenance.nodes["redis-2"].port, "CONFIG", "SET", "replica-priority", 1)
    for changes in ("changed=2", "changed=0"):
        run = maintenance.run_by_checker("redis-1", "restore", announced()._replace(phase="ended", outcome="completed"))
        assert run.code == 0, run.out + run.err
        assert changes in run.words
        maintenance.assert_whole("redis-3")


def test_p15_redis_timeout_counts_the_time_of_the_questions_too(ansible, tmp_path):
    asked = tmp_path / "asked"
    client = ["sh", "-c", f"echo once more >>{asked}; sleep 3"]
    hosts = {"redis-1": {"redis_cli": client, "redis_timeout": 4, "redis_name": NAME}}
    hosts["redis-1"]["redis_nodes"] = {"redis-1": "127.0.0.1:9"}
    run = Runbook(ansible, Nowhere, tmp_path, "redis", hosts).run_files("redis-1", "restore")
    assert run.code == 2, run.out + run.err
    # Each takes three seconds and a pause.
    assert len(asked.read_text().splitlines()) <= 2


def test_p15_a_client_that_does_not_end_is_stopped(ansible, tmp_path):
    hosts = {"redis-1": {"redis_cli": ["sh", "-c", "exec sleep 600"], "redis_timeout": 1, "redis_name": NAME}}
    hosts["redis-1"]["redis_nodes"] = {"redis-1": "127.0.0.1:9"}
    begun = time.monotonic()
    run = Runbook(ansible, Nowhere, tmp_path, "redis", hosts).run_files("redis-1", "restore")
    assert time.monotonic() - begun < 300
    assert run.code == 2, run.out + run.err
