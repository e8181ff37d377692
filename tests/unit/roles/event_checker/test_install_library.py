# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""install_library.py, which the role runs on the VM: the folder holds what was given and nothing else, compiled."""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[4] / "roles" / "event_checker" / "files" / "install_library.py"
BUNDLE = {"program/__init__.py": "", "program/main.py": "import space.inner.rules\n", "space/inner/rules.py": "N = 1\n"}


@pytest.fixture
def root(tmp_path):
    return tmp_path / "library of the program"


@pytest.fixture
def install(root):
    """install(bundle, "--dry-run") runs the script as the role does, and gives the lines that it prints."""

    def run(bundle, *arguments, is_broken_off=False):
        command = [sys.executable, "-I", "-c", SCRIPT.read_text(encoding="utf-8"), str(root), *arguments]
        ended = subprocess.run(command, input=json.dumps(bundle), capture_output=True, text=True, check=False)
        assert ended.returncode == int(is_broken_off)
        assert "SyntaxError" in ended.stderr if is_broken_off else not ended.stderr
        return ended.stdout.splitlines()

    return run


def sources(root):
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}


def test_what_is_installed_can_be_imported_and_is_compiled(root, install):
    install(BUNDLE)
    assert sources(root) == {**BUNDLE, "space/__init__.py": "", "space/inner/__init__.py": ""}
    # -B: were something not compiled, it would not be now.
    code = (
        f"import sys; sys.path.insert(0, {str(root)!r}); import program.main; print(program.main.space.inner.rules.N)"
    )
    assert subprocess.check_output([sys.executable, "-I", "-B", "-c", code]) == b"1\n"
    assert all(os.path.exists(importlib.util.cache_from_source(str(path))) for path in root.rglob("*.py"))


def test_a_second_time_nothing_is_done(install):
    assert install(BUNDLE)
    assert install(BUNDLE) == []


def test_a_dry_run_tells_the_same_and_writes_nothing(root, install):
    told = install(BUNDLE, "--dry-run")
    assert not root.exists()
    assert told == install(BUNDLE)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda root: (root / "program" / "main.py").write_text("broken"),
        lambda root: (root / "program" / "main.py").unlink(),
        lambda root: os.utime(root / "program" / "main.py", (0, 0)),
        lambda root: os.unlink(importlib.util.cache_from_source(str(root / "program" / "main.py"))),
    ],
    ids=["changed", "gone", "touched", "not compiled"],
)
def test_a_file_that_was_spoilt_is_mended_and_no_other_is_touched(root, install, spoil):
    install(BUNDLE)
    spoil(root)
    assert install(BUNDLE, "--dry-run") == [f"write {root}/program/main.py"]
    install(BUNDLE)
    assert install(BUNDLE) == []
    assert sources(root)["program/main.py"] == BUNDLE["program/main.py"]


def test_files_of_an_older_version_are_removed_with_what_was_compiled_of_them(root, install):
    install({**BUNDLE, "program/old.py": "", "space/outer/old.py": ""})
    (root / "program" / "half-written.py.new").write_text("x")
    install(BUNDLE)
    assert not list(root.rglob("*old*")) + list(root.rglob("*.new"))
    assert not (root / "space" / "outer").exists()
    assert install(BUNDLE) == []


def test_a_run_that_is_broken_off_leaves_the_old_program_as_it_was(root, install):
    install(BUNDLE)
    before = sources(root)
    # The files are written in the order of their names, and the last one cannot be compiled.
    install({**BUNDLE, "program/main.py": "N = 2\n", "space/inner/rules.py": "N =\n"}, is_broken_off=True)
    assert sources(root) == before
    install(BUNDLE)
    assert sources(root) == before
    assert not list(root.rglob("*.new"))


def test_everybody_may_read_it_and_only_the_owner_write(root, install):
    before = os.umask(0o077)
    try:
        install(BUNDLE)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [root, *root.rglob("*")]}
    assert {path for path, mode in modes.items() if mode != (0o755 if path.is_dir() else 0o644)} == set()


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["real", "dry run"])
def test_a_folder_that_cannot_be_used_is_told_in_one_sentence(root, dry):
    root.mkdir()
    (root / "space").write_text("a file in the place of a folder")
    command = [sys.executable, "-I", "-c", SCRIPT.read_text(encoding="utf-8"), str(root), *dry]
    ended = subprocess.run(command, input=json.dumps(BUNDLE), capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"{root}/space/__init__.py: Not a directory.\n"


def test_a_full_disk_is_told_in_one_sentence_and_has_no_less_room_than_before(root, install):
    install(BUNDLE)
    before = sources(root)
    # As on a full disk, the second file cannot be written as a whole.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    limit += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    program = limit + SCRIPT.read_text(encoding="utf-8").replace("from __future__ import annotations\n", "")
    larger = {**BUNDLE, "program/main.py": "N = 2\n", "space/inner/rules.py": "# " + "x" * 5000}
    command = [sys.executable, "-I", "-c", program, str(root)]
    ended = subprocess.run(command, input=json.dumps(larger), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, f"{root}: File too large.\n")
    assert sources(root) == before
    assert not list(root.rglob("*.new"))
