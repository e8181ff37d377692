# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""end_lost_run.py, which the role runs on the VM: what a lost run has replaced without a check comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[4] / "roles" / "event_checker" / "files" / "end_lost_run.py"
FIRST, SECOND = "drain.yml.4711.2026-11-21@10:00:00~", "drain.yml.99.2026-11-21@10:05:00~"
LONG_AGO = time.time() - 3600


@pytest.fixture
def end(tmp_path):
    """end(path=content, ...) makes these files in their order and returns what is there after the script."""
    playbooks = tmp_path / "playbooks"

    def run(files, listed='["drain.yml", "tasks/work.yml"]', config=LONG_AGO):
        for name, content in files.items():
            (playbooks / name).parent.mkdir(parents=True, exist_ok=True)
            (playbooks / name).write_text(content)
            # The copies have the times of the files.
            os.utime(playbooks / name, (LONG_AGO - 3600, LONG_AGO - 3600))
            time.sleep(0.02)
        if listed is not None:
            (tmp_path / "playbooks.json").write_text(listed)
        if config is not None:
            (tmp_path / "config.json").write_text("{}")
            os.utime(tmp_path / "config.json", (config, config))
        arguments = [str(playbooks), str(tmp_path / "playbooks.json"), str(tmp_path / "config.json")]
        command = [sys.executable, "-I", "-c", SCRIPT.read_text(encoding="utf-8"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        left = {str(path.relative_to(playbooks)): path.read_text() for path in playbooks.rglob("*") if path.is_file()}
        assert (done.stdout == "") is (left == files)
        return left

    return run


@pytest.mark.parametrize("config", [LONG_AGO, None], ids=["it was installed before", "it was never installed"])
def test_p13_a_playbook_that_was_not_checked_gives_way_to_the_one_of_before(end, config):
    assert end({"drain.yml": "new", FIRST: "checked"}, config=config) == {"drain.yml": "checked"}


def test_after_several_lost_runs_the_oldest_comes_back(end):
    before = {"drain.yml": "newest", "more.yml": "new", FIRST: "checked", SECOND: "new"}
    assert end(before) == {"drain.yml": "checked", "more.yml": "new"}


def test_a_playbook_in_a_folder_comes_back(end):
    copy = f"tasks/{FIRST.replace('drain', 'work')}"
    assert end({"tasks/work.yml": "new", copy: "checked"}) == {"tasks/work.yml": "checked"}


def test_a_copy_that_a_run_left_after_its_check_is_removed(end):
    assert end({"drain.yml": "new", FIRST: "old"}, config=time.time() + 60) == {"drain.yml": "new"}


@pytest.mark.parametrize(
    "name", ["of_a_user.yml.4711.2026-11-21@10:00:00~", "drain.yml~", "drain.yml.4711~", f"tasks/{FIRST}", f"{FIRST}x"]
)
def test_p11_a_file_of_a_user_stays(end, name):
    files = {"drain.yml": "new", name: "mine"}
    assert end(files) == files


@pytest.mark.parametrize("listed", ["", '["drain.ym', "\0" * 20, "null", None])
def test_p7_a_damaged_list_of_playbooks_changes_nothing(end, listed):
    files = {"drain.yml": "new", FIRST: "checked"}
    assert end(files, listed) == files


def test_a_folder_that_is_not_there_is_no_fault(tmp_path):
    arguments = [str(tmp_path / name) for name in ("playbooks", "playbooks.json", "config.json")]
    (tmp_path / "playbooks.json").write_text(json.dumps(["drain.yml"]))
    command = [sys.executable, "-I", "-c", SCRIPT.read_text(encoding="utf-8"), *arguments]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b""
