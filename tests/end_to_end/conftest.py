# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures: Ansible's programs as a user calls them, and the real simulator as a process."""

from __future__ import annotations

import json
import os
import re
import subprocess
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import pytest
from ansible.release import __version__
from ansible_collections.fleetops.azure_maintenance.tests.simulator import launcher, plain_environment

TREE = Path(__file__).resolve().parents[2]
# Where nothing listens: a forgotten endpoint must not reach 169.254.169.254, which is a real service on some networks.
NOWHERE = "http://127.0.0.1:9"
# Seconds. Ends what hangs; no test judges by it.
LONGEST_RUN = 600


def on_one_line(text):
    """Return what a program printed without its breaks of lines."""
    return re.sub(r"\s+", " ", text)


def set_traps(folder, name):
    """Make a folder as another user may leave it: what opens its files waits for ever, or writes where a link leads.

    :param name: of the files, before their endings.
    :return: the file that a link leads to, which must stay as it is.
    """
    folder.mkdir()
    precious = folder.with_name("precious")
    precious.write_text("precious")
    os.mkfifo(folder / f"{name}.html")
    (folder / f"{name}.csv").symlink_to(precious)
    return precious


class Run(NamedTuple):
    """How a program ended: its exit status, what it printed, and what it printed on stderr."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """What it printed, the lines of each message joined."""
        return " ".join(re.sub(r'",\s+"\s*', " ", self.out).split())


@pytest.fixture
def simulator():
    """A factory: simulator("--vms", "web-1,web-2") starts the real program on a free port of loopback."""
    with launcher() as start:
        yield start


@pytest.fixture
def ansible(tmp_path):
    """A runner: ansible("ansible-playbook", "site.yml") calls the program that PATH has, with a home of its own."""
    return runner(tmp_path / "home")


@pytest.fixture
def checker_tasks(ansible, tmp_path):
    """Run a file of tasks of the role event_checker on this machine: checker_tasks("packages.yml", variable="value").

    ``tasks`` come after them, ``play`` has keywords of the play.
    """

    def run(file, *options, tasks=(), play=None, **variables):
        role = {"name": "fleetops.azure_maintenance.event_checker", "tasks_from": file, "public": True}
        tasks = [{"ansible.builtin.include_role": role}, *tasks]
        whole = [{"hosts": "localhost", "gather_facts": False, "tasks": tasks, **(play or {})}]
        (tmp_path / "play.yml").write_text(json.dumps(whole))
        variables["ansible_python_interpreter"] = "{{ ansible_playbook_python }}"
        (tmp_path / "variables.json").write_text(json.dumps(variables))
        given = ["-i", "localhost,", "-c", "local", "-e", f"@{tmp_path / 'variables.json'}"]
        return ansible("ansible-playbook", *options, *given, tmp_path / "play.yml")

    return run


@pytest.fixture(scope="module")
def ansible_once(tmp_path_factory):
    """The same for what all tests of a module share."""
    return runner(tmp_path_factory.mktemp("shared") / "home")


@pytest.fixture(scope="session")
def artifact(tmp_path_factory):
    """The file that ansible-galaxy builds of this collection."""
    folder = tmp_path_factory.mktemp("artifact")
    run = runner(folder / "home")("ansible-galaxy", "collection", "build", str(TREE), "--output-path", str(folder))
    assert run.code == 0, run.out + run.err
    (built,) = folder.glob("fleetops-azure_maintenance-*.tar.gz")
    return built


@pytest.fixture
def axe():
    """The program of axe-core, as text."""
    return resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def refuse_deprecations(text):
    """Fail where Ansible says that something is deprecated: all that the tests run is ours."""
    at = text.find("[DEPRECATION WARNING]")
    assert at < 0, f"Ansible warns of something deprecated: {text[max(0, at - 1000) : at + 1000]}"


# Without this some versions may stand still between two plays, as the guide of troubleshooting says.
MAY_STAND_STILL = (
    {"ANSIBLE_WORKER_SHUTDOWN_POLL_COUNT": "50"} if __version__ in [f"2.19.{patch}" for patch in range(4)] else {}
)


def runner(home):
    home.mkdir()
    # By default Ansible asks its workers a thousand times a second whether they are done.
    (home / ".ansible.cfg").write_text("[defaults]\ninternal_poll_interval = 0.01\n")
    assert os.environ.get("ANSIBLE_COLLECTIONS_PATH"), "ANSIBLE_COLLECTIONS_PATH must say where the collection lies"

    def run(*argv, env=None, cwd=None):
        settings = {
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_DEPRECATION_WARNINGS": "true",
            "AZURE_IMDS_ENDPOINT": NOWHERE,
            "AZURE_MAINTENANCE_MARKS": str(home / "marks"),
            **MAY_STAND_STILL,
        }
        ended = subprocess.run(
            argv,
            cwd=cwd or home,
            env={**plain_environment(), **settings, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=LONGEST_RUN,
            check=False,
        )
        refuse_deprecations(ended.stdout + ended.stderr)
        return Run(ended.returncode, ended.stdout, ended.stderr)

    return run
