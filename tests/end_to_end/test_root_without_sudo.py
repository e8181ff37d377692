# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""I10: the playbooks that need root become root where the user is another, and only there: root may have no sudo."""

from __future__ import annotations

import os

import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import TREE

# As over ssh with the user of ~/.ssh/config: Ansible does not know by itself that the user is root already.
UNKNOWN_USER = {"ANSIBLE_BECOME_ALLOW_SAME_USER": "true"}


@pytest.fixture
def play(ansible, tmp_path):
    """Run a playbook on this machine as the user with a number; return the run, and the calls of sudo."""
    programs, calls = tmp_path / "programs", tmp_path / "calls"
    programs.mkdir()
    calls.touch()

    def run(playbook, user, *options):
        for name, script in (("id", f"echo {user}"), ("sudo", f"echo sudo >> {calls}; exit 1")):
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        environment = {**UNKNOWN_USER, "PATH": f"{programs}:{os.environ['PATH']}"}
        given = (
            "-i",
            "vm,",
            "-c",
            "local",
            "-e",
            "target=vm",
            "-e",
            "ansible_python_interpreter={{ ansible_playbook_python }}",
        )
        ended = ansible("ansible-playbook", *given, f"fleetops.azure_maintenance.{playbook}", *options, env=environment)
        return ended, calls.read_text().splitlines()

    return run


@pytest.mark.parametrize(
    ("user", "options", "calls_sudo"),
    [
        pytest.param(0, (), False, id="root"),
        pytest.param(0, ("--become",), False, id="root with --become"),
        pytest.param(1000, (), True, id="another user"),
        pytest.param(1000, ("-e", "ansible_become=false"), False, id="another user who forbids it"),
    ],
)
@pytest.mark.releases
@pytest.mark.matrix
def test_i10_sudo_is_called_only_where_the_user_is_not_root(play, user, options, calls_sudo):
    run, calls = play("install_checker", user, "--check", *options)
    assert bool(calls) is calls_sudo, run.out


@pytest.mark.matrix
def test_i10_each_playbook_that_needs_root_asks_first_who_the_user_is():
    plays = {path.stem: yaml.safe_load(path.read_text()) for path in (TREE / "playbooks").glob("*.yml")}
    assert [name for name, parts in plays.items() if any("become" in part for part in parts)] == []
    asking = [name for name, parts in plays.items() if "tasks/ask_who_the_user_is.yml" in str(parts)]
    assert sorted(asking) == ["install_checker", "rehearse_checker"]
