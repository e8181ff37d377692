# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The virtual environment of the role event_checker outlives an upgrade of the VM that brings another Python."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


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
