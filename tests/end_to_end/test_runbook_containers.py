# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runbook docs/runbooks/containers, by real ansible-playbook, with real containers of podman.

Docker is not tried; the commands are those that both have. A container here is a shell of this machine in an image
without files.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import wait_until
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.runbook import FAR_OFF, Nowhere, Runbook
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program, need_root
from ansible_collections.fleetops.azure_maintenance.tests.slow_requests import (
    APPLICATION,
    NO_RUNBOOK,
    Clients,
    power_cycle,
)

pytestmark = pytest.mark.matrix

# Stops a container with success, and something starts it again at once.
RESTARTED = """#!/bin/sh
case "$1" in
  inspect) echo '[{"State": {"Running": true, "ExitCode": 0}}]' ;;
esac
"""
PROGRAM = need_program("podman", package="podman")
need_program("runc", package="runc", folders=["/usr/sbin"])
need_root("the tests start containers")
TREE = Path(__file__).resolve().parents[2]
RUNBOOK = TREE / "docs" / "runbooks" / "containers"
SETTINGS = {"CONTAINERS_CONF": str(TREE / ".ci" / "lab" / "containers.conf")}
IMAGE = "localhost/empty:1"
# The order in which they are stopped
NAMES = ("proxy", "shop", "database")
WORK = 'echo "start {0}" >>/story/story; trap \'echo "{1} {0}" >>/story/story; {2}\' TERM; while :; do sleep 0.1; done'


class Host(Runbook):
    """A VM that is this machine, with three containers."""

    def __init__(self, ansible, azure, folder, storage):
        self.podman = [PROGRAM, f"--root={storage}/root", f"--runroot={storage}/run", "--storage-driver=vfs"]
        self.variables = {
            "containers": [{"name": name, "timeout": 20} for name in NAMES],
            "containers_program": self.podman,
        }
        super().__init__(ansible, azure, folder, "containers", {"web-1": self.variables}, env=SETTINGS)

    def ask(self, *words, check=True, **options):
        environment = {**os.environ, **SETTINGS}
        command = [*self.podman, *words]
        return subprocess.run(command, env=environment, capture_output=True, check=check, **options).stdout

    def make_image(self):
        """Links into /usr, which is that of this machine."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            for name in ("bin", "lib", "lib64", "sbin"):
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
                archive.addfile(link)
        self.ask("import", "-", IMAGE, input=content.getvalue())

    def run_container(self, name, at_end="exit 0", word="end"):
        volumes = ["--volume=/usr:/usr:ro", f"--volume={self.folder}:/story"]
        work = WORK.format(name, word, at_end)
        self.ask("run", "--detach", "--network=none", f"--name={name}", *volumes, IMAGE, "sh", "-c", work)

    def run_application(self, name, port):
        """In place of a container: one that answers on a port of this machine."""
        (self.folder / "application.py").write_text(APPLICATION)
        self.ask("rm", "--force", "--time=0", name)
        volumes = ["--volume=/usr:/usr:ro", f"--volume={self.folder}:/story"]
        work = ["/usr/bin/python3", "/story/application.py", str(port)]
        self.ask("run", "--detach", "--network=host", f"--name={name}", *volumes, IMAGE, *work)

    def is_running(self):
        told = json.loads(self.ask("inspect", *NAMES))
        return [each["State"]["Running"] for each in told]

    @property
    def story(self):
        return (self.folder / "story").read_text().splitlines()


@pytest.fixture
def host(ansible, simulator, tmp_path):
    # Not the folder of the test: the path of a socket may have 107 characters.
    storage = tempfile.mkdtemp(prefix="podman-")
    made = Host(ansible, simulator("--vms", "web-1"), tmp_path, storage)
    try:
        made.make_image()
        for name in NAMES:
            made.run_container(name)
        yield made
    finally:
        made.ask("rm", "--all", "--force", "--time=0")
        # What podman starts to clean up after a container writes there, too.
        wait_until(
            lambda: subprocess.run(["pgrep", "--full", storage], stdout=subprocess.DEVNULL, check=False).returncode
        )
        shutil.rmtree(storage)


def test_the_containers_end_in_their_order_before_the_approval_and_start_the_other_way_round(host):
    host.azure.announce("Reboot", "web-1", started_for=1)
    run = host.run()
    assert run.code == 0, run.out + run.err
    assert [vm for vm, _body in host.azure.posted()] == ["web-1"]
    begun = [f"start {name}" for name in NAMES]
    assert host.story == [*begun, *(f"end {name}" for name in NAMES), *reversed(begun)]
    assert host.is_running() == [True, True, True]


@pytest.mark.parametrize(
    "has_runbook", [True, pytest.param(False, marks=pytest.mark.release)], ids=["with the runbook", "without"]
)
def test_no_request_is_cut_off_by_a_reboot(host, has_runbook):
    clients = Clients(free_port())
    host.run_application("shop", clients.port)
    host.azure.announce("Reboot", "web-1", started_for=5)
    # Without the runbook they start with the VM.
    boot = (lambda: None) if has_runbook else (lambda: host.ask("start", "--all"))
    with clients.asking(), power_cycle(host.azure, lambda: host.ask("kill", "--all", check=False), boot):
        run = host.run(**({} if has_runbook else NO_RUNBOOK))
    assert run.code == 0, run.out + run.err
    clients.tell("with the runbook" if has_runbook else "without the runbook")
    assert clients.answered
    assert bool(clients.cut) is not has_runbook


@pytest.mark.release
def test_check_mode_and_a_freeze_stop_nothing(host):
    host.azure.announce("Freeze", "web-1", started_for=1)
    assert host.run().code == 0
    host.azure.announce("Reboot", "web-1", notice=FAR_OFF)
    run = host.run("--check")
    assert run.code == 0, run.out + run.err
    assert host.story == [f"start {name}" for name in NAMES]


@pytest.mark.release
def test_a_container_that_must_be_killed_holds_the_event_back_and_all_are_started_again(host):
    host.ask("rm", "--force", "--time=0", "shop")
    host.run_container("shop", at_end="", word="ignore")
    host.variables["containers"][1]["timeout"] = 1
    host.azure.announce("Reboot", "web-1", notice=FAR_OFF)
    run = host.run()
    assert run.code == 2
    assert "Check that none had to be killed: shop did not end in time and had to be killed." in run.words
    assert host.azure.posted() == []
    assert host.is_running() == [True, True, True]


@pytest.mark.release
def test_each_file_alone_can_be_run_again_and_an_unknown_container_is_refused_before_one_is_stopped(host):
    for name, changes, runs in (
        ("prepare", 1, False),
        ("prepare", 0, False),
        ("restore", 3, True),
        ("restore", 0, True),
    ):
        run = host.run_files("web-1", name)
        assert run.code == 0, run.out + run.err
        assert f"changed={changes}" in run.words
        assert host.is_running() == [runs] * 3
    host.variables["containers"].append({"name": "nosuch"})
    run = host.run_files("web-1", "prepare")
    assert run.code == 2
    assert "nosuch" in run.words
    assert host.is_running() == [True, True, True]


def test_p13_a_container_that_was_started_again_at_once_has_not_stopped(ansible, tmp_path):
    program = tmp_path / "podman"
    program.write_text(RESTARTED)
    program.chmod(0o755)
    hosts = {"shop-1": {"containers_program": [str(program)], "containers": [{"name": "shop"}]}}
    run = Runbook(ansible, Nowhere, tmp_path, "containers", hosts).run_files("shop-1", "prepare")
    assert run.code == 2, run.out + run.err
    assert "shop runs on: something else, such as a unit of systemd, starts it again." in run.words


def test_p15_containers_healthy_timeout_counts_the_time_of_the_questions_too(ansible, tmp_path):
    asked, program = tmp_path / "asked", tmp_path / "podman"
    program.write_text(
        f'#!/bin/sh\necho "$1" >>{asked}\n[ "$1" = start ] || sleep 3\n' + 'echo \'[{"State":{"Running":false}}]\'\n'
    )
    program.chmod(0o755)
    settings = {"containers_program": [str(program)], "containers_healthy_timeout": 4}
    hosts = {"shop-1": {**settings, "containers": [{"name": "shop"}]}}
    run = Runbook(ansible, Nowhere, tmp_path, "containers", hosts).run_files("shop-1", "restore")
    assert run.code == 2, run.out + run.err
    # The first is whether it runs. Each of the others takes three seconds and a pause.
    assert asked.read_text().splitlines()[:2] == ["inspect", "start"]
    assert len(asked.read_text().splitlines()) <= 4


@pytest.mark.parametrize(("file", "hangs"), [("prepare", "inspect"), ("prepare", "stop"), ("restore", "start")])
def test_p15_a_program_that_does_not_end_is_stopped(ansible, tmp_path, file, hangs):
    """Docker's programs wait for its service, which may hang."""
    runs = "true" if file == "prepare" else "false"
    program = tmp_path / "podman"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = {hangs} ] && exec sleep 600\necho \'[{{"State": {{"Running": {runs}}}}}]\'\n'
    )
    program.chmod(0o755)
    settings = {"containers_program": [str(program)], "containers_healthy_timeout": 2}
    hosts = {"shop-1": {**settings, "containers": [{"name": "shop", "timeout": 1}]}}
    run = Runbook(ansible, Nowhere, tmp_path, "containers", hosts).run_files("shop-1", file)
    assert run.code == 2, run.out + run.err
    told = "tells nothing of the containers: no answer in 10 s." if hangs == "inspect" else f"{hangs} did not end."
    assert told in run.words
