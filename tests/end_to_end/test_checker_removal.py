# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role event_checker refuses to remove a checker whose state is in memory only; the lab removes the others."""

from __future__ import annotations

import json
import os

import pytest

PLAY = """
- hosts: localhost
  gather_facts: false
  environment:
    PATH: "{{ programs }}:{{ lookup('ansible.builtin.env', 'PATH') }}"
  tasks:
    - ansible.builtin.include_role:
        name: fleetops.azure_maintenance.event_checker
        tasks_from: stop.yml
"""


@pytest.mark.parametrize(
    ("in_memory", "options", "refused"),
    [
        pytest.param(True, {}, True, id="P6: the state on the disk is older"),
        pytest.param(True, {"event_checker_force": True}, False, id="forced"),
        pytest.param(False, {}, False, id="on the disk"),
    ],
)
def test_a_state_that_is_in_memory_only_is_not_lost(ansible, tmp_path, in_memory, options, refused):
    programs, run_dir = tmp_path / "programs", tmp_path / "run"
    for folder in (programs, run_dir):
        folder.mkdir()
    # No unit of a response runs.
    systemctl = programs / "systemctl"
    systemctl.write_text("#!/bin/sh\n")
    systemctl.chmod(0o755)
    if in_memory:
        (run_dir / "state.db").touch()
    (tmp_path / "play.yml").write_text(PLAY)
    variables = {
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "programs": os.fspath(programs),
        "__event_checker_was_installed": False,
        "__event_checker_run_dir": os.fspath(run_dir),
        **options,
    }
    run = ansible(
        "ansible-playbook", "-i", "localhost,", "-c", "local", "-e", json.dumps(variables), tmp_path / "play.yml"
    )
    assert run.code == (2 if refused else 0), run.out
    assert ("which is in memory: the disk could not be written" in run.words) is refused
