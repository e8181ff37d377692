# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a Freeze does to services, measured, and the runbook docs/runbooks/freeze, on real Sentinels.

Not real: a VM is a control group that is frozen, and ports whose packets are dropped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests import freeze, redis
from ansible_collections.fleetops.azure_maintenance.tests.cgroup import can_be_made
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.runbook import FAR_OFF, Nowhere, Runbook
from ansible_collections.fleetops.azure_maintenance.tests.programs import (
    leave_out,
    need_network_namespace,
    need_program,
    need_root,
)

pytestmark = pytest.mark.matrix

UNSHARE = need_program("unshare", package="util-linux")
need_program("ip", package="iproute2", folders=["/usr/sbin"])
need_program("nft", package="nftables", folders=["/usr/sbin"])
need_program("haproxy", package="haproxy", folders=["/usr/sbin"])
need_program("pg_ctl", package="postgresql", folders=[str(path) for path in Path("/usr/lib/postgresql").glob("*/bin")])
PROGRAMS = (
    need_program("redis-server", package="redis-server"),
    need_program("redis-sentinel", package="redis-sentinel"),
)
need_root("the test freezes processes")
need_network_namespace(UNSHARE)
if not can_be_made():
    leave_out("no control group can be made here")
HOSTS = ("vm-1", "vm-2", "vm-3")
USUAL = [redis.DOWN_AFTER // 1000] * 3


def measured(seconds):
    """Measure a Freeze of so many seconds, and print the lines of README's table."""
    argv = [UNSHARE, "--net", sys.executable, freeze.__file__, str(seconds)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(ended.stdout.splitlines()[-1])
    for row in rows:
        print("| {what} | {failed} | {gap} s | {after} |".format(**row))
    return {row["what"]: row for row in rows}


def judge(rows, seconds):
    # It was really frozen.
    assert rows["TCP, no time-out"]["gap"] >= seconds
    assert rows["TCP, no time-out"]["failed"] == 0
    assert rows["HAProxy, server drained"]["gap"] < seconds
    assert rows["Redis, Sentinels at 60 s"]["after"] == "no failover, 0 writes lost"
    assert rows["PostgreSQL, a session without a time-out"]["failed"] == 0
    assert rows["PostgreSQL, a session without a time-out"]["after"] == "primary, its standby streams"


def test_a_freeze_of_5_s():
    judge(measured(5), 5)


@pytest.mark.release
def test_a_freeze_of_30_s():
    rows = measured(30)
    judge(rows, 30)
    # Without it a client waits until it happens to send again, which may be at once or a minute later.
    assert rows["TCP, TCP_USER_TIMEOUT 3 s"]["failed"] > 0
    assert rows["TCP, TCP_USER_TIMEOUT 3 s"]["gap"] < 60
    assert "failover," in rows["Redis, Sentinels at 6 s"]["after"]
    assert "no failover" not in rows["Redis, Sentinels at 6 s"]["after"]


class Maintenance(Runbook):
    """Three VMs with a Sentinel each."""

    def __init__(self, ansible, azure, folder, nodes):
        self._nodes = nodes
        self.settings = {
            "freeze_sentinels": [f"127.0.0.1:{node.sentinel_port}" for node in nodes],
            "freeze_redis_name": redis.NAME,
            "freeze_usual_timeout": redis.DOWN_AFTER // 1000,
            "event_response_event_types": ["Freeze"],
        }
        super().__init__(ansible, azure, folder, "freeze", dict.fromkeys(HOSTS, self.settings))

    @property
    def timeouts(self):
        told = [redis.ask(node.sentinel_port, "SENTINEL", "MASTER", redis.NAME) for node in self._nodes]
        return [int(dict(zip(each[::2], each[1::2]))["down-after-milliseconds"]) // 1000 for each in told]


@pytest.fixture
def maintenance(ansible, simulator, tmp_path):
    with redis.three_nodes(PROGRAMS) as nodes:
        yield Maintenance(ansible, simulator("--vms", ",".join(HOSTS)), tmp_path, nodes)


@pytest.mark.release
def test_two_freezes_and_one_of_two_vms_leave_the_usual_time_out(maintenance):
    maintenance.azure.announce("Freeze", "vm-1", "vm-2", notice=FAR_OFF, started_for=2, duration_seconds=40)
    maintenance.azure.announce("Freeze", "vm-3", notice=FAR_OFF, started_for=20, duration_seconds=5)
    run = maintenance.run()
    assert run.code == 0, run.out + run.err
    assert len(maintenance.approved) == 2
    assert "changed: [vm-1]" in run.words
    # When the first is over, the other is not.
    assert "The Sentinels keep their longer time-out for vm-3." in run.words
    assert maintenance.timeouts == USUAL


@pytest.mark.release
def test_a_sentinel_that_does_not_answer_holds_the_event_back(maintenance):
    maintenance.azure.announce("Freeze", "vm-1", notice=FAR_OFF)
    maintenance.settings["freeze_sentinels"].append("127.0.0.1:9")
    run = maintenance.run(event_response_wait_timeout=60)
    assert run.code == 2
    assert "127.0.0.1:9" in run.words
    assert maintenance.approved == []
    assert maintenance.timeouts == USUAL


@pytest.mark.release
def test_check_mode_changes_nothing_and_another_event_is_refused(maintenance):
    event = maintenance.azure.announce("Freeze", "vm-1", notice=FAR_OFF)
    run = maintenance.run("--check")
    assert run.code == 0, run.out + run.err
    assert f"Freeze {event} announced, would be approved by vm-1" in run.words
    assert maintenance.timeouts == USUAL
    run = maintenance.run_files("vm-1", "prepare")
    assert run.code == 2
    assert "vm-1 has a Reboot, and this runbook is for a Freeze only." in run.words


@pytest.mark.release
def test_a_freeze_is_rehearsed_by_one_command(maintenance):
    run = maintenance.rehearse(rehearse_event_type="Freeze")
    assert run.code == 0, run.out + run.err
    assert re.search(r"approved Freeze .*completed Freeze ", run.words)
    # By prepare, and by restore
    assert run.words.count("changed: [vm-1] => (item=") >= 2 * len(HOSTS)
    assert maintenance.timeouts == USUAL


@pytest.mark.release
def test_each_file_alone_can_be_run_again(maintenance):
    """Prepare alone is what a run has left that was broken off."""
    for name, timeout in (("prepare", 60), ("restore", redis.DOWN_AFTER // 1000)):
        run = maintenance.run_files("vm-1", name, name, event={"event_type": "Freeze", "duration_seconds": 5})
        assert run.code == 0, run.out + run.err
        assert "changed=1" in run.words
        assert maintenance.timeouts == [timeout] * 3


def test_p15_a_client_that_does_not_end_is_stopped(ansible, tmp_path):
    client = {"freeze_cli": ["sh", "-c", "exec sleep 600"], "freeze_usual_timeout": 6, "freeze_redis_name": "mymaster"}
    hosts = {"vm-1": {**client, "freeze_sentinels": ["127.0.0.1:9"]}}
    begun = time.monotonic()
    run = Runbook(ansible, Nowhere, tmp_path, "freeze", hosts).run_files("vm-1", "restore")
    assert time.monotonic() - begun < 300
    assert run.code == 2, run.out + run.err
