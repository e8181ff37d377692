# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's promises in files: defaults and argument specs agree, and the program gets to the host unharmed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml

ROLE = Path(__file__).resolve().parents[4] / "roles" / "imds_simulator"


def load(name):
    return yaml.safe_load((ROLE / name).read_text(encoding="utf-8"))


def test_defaults_and_argument_specs_agree():
    defaults = load("defaults/main.yml")
    options = load("meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert {name: option["default"] for name, option in options.items()} == defaults
    kinds = {"str": str, "list": list, "dict": dict, "float": float}
    for name, option in options.items():
        assert isinstance(defaults[name], kinds[option["type"]]), name
        assert option["description"], name


def test_every_variable_is_in_the_readme():
    readme = (ROLE / "README.md").read_text(encoding="utf-8")
    assert [name for name in load("defaults/main.yml") if f"`{name}`" not in readme] == []


def unpack(directory, files, *more):
    ended = subprocess.run(
        [sys.executable, "-c", (ROLE / "files" / "unpack.py").read_text(encoding="utf-8"), str(directory), *more],
        input=json.dumps(files),
        check=True,
        capture_output=True,
        text=True,
    )
    assert ended.stderr == ""
    return ended.stdout.splitlines()


def test_unpacking_writes_only_what_differs(tmp_path):
    files = {"a.py": "caf\u00e9\n", "sub/b.py": ""}
    home = tmp_path / "home"
    assert unpack(home, files, "--dry-run") == ["a.py", "sub/b.py"]
    assert not home.exists()
    assert unpack(home, files) == ["a.py", "sub/b.py"]
    assert unpack(home, files) == []
    assert (home / "a.py").read_bytes() == "caf\u00e9\n".encode()
    (home / "a.py").write_text("changed", encoding="utf-8")
    assert unpack(home, files, "--dry-run") == ["a.py"] == unpack(home, files)
    assert unpack(home, files) == []


def test_a_directory_that_cannot_be_used_is_told_in_one_sentence(tmp_path):
    (tmp_path / "sub").write_text("a file in the place of a folder")
    program = (ROLE / "files" / "unpack.py").read_text(encoding="utf-8")
    command = [sys.executable, "-c", program, str(tmp_path)]
    ended = subprocess.run(command, input='{"sub/b.py": ""}', check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (1, f"{tmp_path}/sub: File exists.\n")
