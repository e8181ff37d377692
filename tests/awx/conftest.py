# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures: the example project set up in a stand-in for AWX, and its jobs run as AWX runs them, by ansible-runner."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

import ansible_runner
import pytest
from ansible_collections.fleetops.azure_maintenance.tests.awx import access, controller, extra_vars
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import NOWHERE, ansible, runner, simulator
from ansible_collections.fleetops.azure_maintenance.tests.simulator import plain_environment

__all__ = ["ansible", "simulator"]

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "examples" / "awx_project"
GUIDES = ROOT / "docs" / "docsite" / "rst"
# What the owner of the project writes into tasks/prepare.yml and tasks/restore.yml
TASK = """
- name: Say it
  ansible.builtin.debug:
    msg: "{} {{{{ inventory_hostname }}}} {{{{ maintenance_event.event_type }}}} {{{{ maintenance_outcome or '-' }}}}"
"""
ADMIN = "t0ken-of-an-administrator"
TWO = {"apply_inventory": "web", "apply_credential": "web-ssh"}
ALL = {
    **TWO,
    "apply_project_url": "https://git.example.com/azure.git",
    "apply_report_dir": "/srv/reports",
    "apply_notification_url": "https://hooks.example.com/T0PS3CRET",
    "apply_slices": "2",
}


def commands_of(guide):
    """Every command that this guide shows, as one shell script."""
    lines = (GUIDES / f"{guide}.rst").read_text().splitlines()
    return "set -e\n" + "".join(line[5:] + "\n" for line in lines if line.startswith("   $ "))


def install(collections, home):
    """Put the collection where ansible-galaxy puts it, and return the environment of one who has it nowhere else."""
    folder = home / ".ansible" / "collections"
    folder.mkdir(parents=True)
    shutil.copytree(collections / "ansible_collections", folder / "ansible_collections")
    return {"HOME": str(home), "ANSIBLE_COLLECTIONS_PATH": str(folder), "PYTHONPATH": ""}


@contextlib.contextmanager
def new_awx(repository=PROJECT):
    """An AWX with an organization, an inventory and a credential, and with this project behind the address of ours."""
    state = controller.Awx(repository)
    organization = state.add("organizations", name="Default")["id"]
    state.add("inventories", name="web", organization=organization)
    state.add("credentials", name="web-ssh", organization=organization)
    with controller.serve(state):
        yield state


def apply_to(awx, ansible, *arguments, code=0, **variables):
    """Run apply.yml with the real modules of awx.awx, which must end with this code.

    Returns the run, and how many tasks changed something.
    """
    # An administrator of the organization is enough.
    awx.tokens[ADMIN] = access.Token(roles=[("admin_role", awx.named("organizations", "Default")["id"])])
    env = {"CONTROLLER_HOST": awx.url, "CONTROLLER_OAUTH_TOKEN": ADMIN}
    run = ansible("ansible-playbook", "apply.yml", "-e", json.dumps(variables), *arguments, env=env, cwd=PROJECT)
    assert run.code == code, run.out + run.err
    assert ADMIN not in run.out + run.err
    recap = re.search(r"localhost +: ok=\d+ +changed=(\d+)", run.out)
    return run, int(recap.group(1)) if recap else None


@pytest.fixture
def awx():
    with new_awx() as state:
        yield state


@pytest.fixture(scope="session")
def applied(tmp_path_factory):
    """An AWX in which apply.yml has set up all there is; ``run`` and ``changed`` tell of that."""
    with new_awx() as state:
        state.run, state.changed = apply_to(state, runner(tmp_path_factory.mktemp("apply") / "home"), "-v", **ALL)
        yield state


@pytest.fixture(scope="session")
def collections(tmp_path_factory):
    """The folder into which AWX would have installed the collection for the project: built, and nothing else in it."""
    folder = tmp_path_factory.mktemp("collections")
    run = runner(folder / "home")
    built = run("ansible-galaxy", "collection", "build", str(ROOT), "--output-path", str(folder))
    assert built.code == 0, built.out + built.err
    (artifact,) = folder.glob("*.tar.gz")
    # Else it would find the one of this checkout, and have nothing to do.
    elsewhere = {"ANSIBLE_COLLECTIONS_PATH": str(folder), "PYTHONPATH": ""}
    command = ["ansible-galaxy", "collection", "install", "--offline", "-p", str(folder), str(artifact)]
    installed = run(*command, env=elsewhere)
    assert "was installed successfully" in installed.out, installed.out + installed.err
    return folder


class Job:
    """How a job ended, as AWX reads it from ansible-runner."""

    def __init__(self, ended):
        self.status, self.events = ended.status, list(ended.events)
        self.out = ended.stdout.read()

    @property
    def artifacts(self):
        """What set_stats said, which AWX hands to the next job of a workflow and to notifications."""
        (stats,) = (event for event in self.events if event["event"] == "playbook_on_stats")
        return stats["event_data"]["artifact_data"]

    def hosts(self, task, kind="runner_on_ok"):
        """The hosts for which this task ended so."""
        data = [event["event_data"] for event in self.events if event["event"] == kind]
        return sorted(one["host"] for one in data if one["task"] == task)


@pytest.fixture
def job(tmp_path, collections, monkeypatch):
    """A runner: job(("fleet_report.yml", {…}, {…}), inventory, "--check") runs a playbook of the project as AWX does.

    The variables are those of the template, which AWX trusts, and all others. As soon as ``cancel`` returns something,
    the job is killed, as AWX does it. It must end with ``status``.
    """
    for name in {*os.environ} - {*plain_environment()} | {"PYTHONPATH"}:
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    numbers = iter(range(1, 100))

    def run(template, inventory, *arguments, status="successful", cancel=None):
        playbook, fixed, variables = template
        number = next(numbers)
        folder = tmp_path / f"job-{number}"
        shutil.copytree(PROJECT, folder / "project")
        for name, content in {
            "project/tasks/prepare.yml": TASK.format("prepare"),
            "project/tasks/restore.yml": TASK.format("restore"),
            "inventory/hosts": inventory,
            "env/extravars": extra_vars.dump({**fixed, **variables, "awx_job_id": number}, fixed),
            "env/cmdline": " ".join(["-u root", *arguments]),
            "env/envvars": json.dumps(
                {
                    "HOME": str(home),
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                    "ANSIBLE_COLLECTIONS_PATH": str(collections),
                    "AZURE_IMDS_ENDPOINT": NOWHERE,
                    "AZURE_MAINTENANCE_MARKS": str(home / "marks"),
                }
            ),
        }.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content)
        started = {"private_data_dir": str(folder), "playbook": playbook, "quiet": True}
        job = Job(ansible_runner.run(**started, cancel_callback=cancel and (lambda: bool(cancel()))))
        assert job.status == status, job.out
        return job

    return run
