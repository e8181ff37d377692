# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check can see the Python of the checker, and the virtual environment outlives an upgrade to another one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.tests.unit.test_event_checker_role import ROLE


@pytest.mark.matrix
@pytest.mark.release
def test_a_virtual_environment_of_another_python_is_made_anew(checker_tasks, tmp_path):
    venv = tmp_path / "venv"
    # What is left of one: its programs start the new Python, which looks for the packages in a folder of its own.
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "pip").write_text("#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n")
    (venv / "bin" / "pip").chmod(0o755)
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    variables = {
        "event_checker_python": sys.executable,
        "event_checker_venv": True,
        # It is there, so nothing is asked for elsewhere.
        "event_checker_venv_requirements": ["pip"],
        "__event_checker_venv_dir": str(venv),
        "__event_checker_python_probe": {"stdout": json.dumps({"missing": [], "python": python})},
    }
    changes = []
    for _run in range(2):
        run = checker_tasks("packages.yml", **variables)
        assert run.code == 0, run.out
        changes.append("changed: [localhost]" in run.out)
    assert changes == [True, False]
    assert subprocess.run([venv / "bin" / "python", "-m", "pip", "--version"], check=False).returncode == 0


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(["/usr/bin/python3.11", "/usr"], None, id="that of the distribution"),
        pytest.param(["/root/.local/share/uv/bin/python3.11", "/root/.local"], "/root/.local/share/", id="a link"),
        pytest.param(["/opt/venv/bin/python3", "/home/alice/python"], "/home/alice/python", id="its libraries"),
    ],
)
def test_p8_a_python_that_the_check_cannot_see_is_refused(checker_tasks, tmp_path, found, told):
    python = tmp_path / "python3"
    answer = json.dumps({"missing": [], "python": "3.11", "places": found})
    python.write_text(f"#!/bin/sh\necho '{answer}'\n")
    python.chmod(0o755)
    run = checker_tasks("python.yml", event_checker_python=str(python))
    assert run.code == (2 if told else 0), run.out
    if told:
        assert f"{python} on localhost needs {told}" in run.words
        assert "the check cannot see /home, /root and /run." in run.words


def test_p8_the_python_of_a_path_with_a_space_is_refused_because_no_program_can_name_it(checker_tasks, tmp_path):
    (tmp_path / "my python").symlink_to(sys.executable)
    run = checker_tasks("python.yml", event_checker_python=str(tmp_path / "my python"))
    assert run.code == 2
    assert "must be an absolute path without spaces" in run.words


def test_the_question_to_the_python_of_the_vm_tells_where_it_is():
    probe = yaml.safe_load((ROLE / "vars" / "main.yml").read_text(encoding="utf-8"))["__event_checker_probe"]
    said = json.loads(subprocess.check_output([sys.executable, "-I", "-c", probe, "json", "nosuch"]))
    assert said["missing"] == ["nosuch"]
    assert said["places"] == [os.path.realpath(path) for path in (sys.executable, sys.base_prefix)]
