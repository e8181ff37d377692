# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role imds_simulator: what it reports as changed, and what --check leaves alone.

The integration target role_imds_simulator shows the rest; from inside a play neither can be seen.
"""

from __future__ import annotations

import json
import re
import urllib.request

import pytest

# The integration target role_imds_simulator goes the same ways, but for what cannot be seen from inside a play.
pytestmark = pytest.mark.matrix

PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  roles:
    - fleetops.azure_maintenance.imds_simulator
"""


@pytest.fixture
def home(tmp_path):
    return tmp_path / "simulator's home"


@pytest.fixture
def role(ansible, tmp_path, home):
    """role("started", "--check", clock="manual") runs the role and gives the number of changes; stopped at the end."""
    playbook = tmp_path / "play.yml"
    playbook.write_text(PLAY)

    def run(state, *argv, **variables):
        given = {f"imds_simulator_{name}": value for name, value in variables.items()}
        given.update(imds_simulator_state=state, imds_simulator_vms=["web-1"], imds_simulator_dir=str(home))
        ended = ansible("ansible-playbook", *argv, "-e", json.dumps(given), str(playbook))
        assert ended.code == 0, ended.out + ended.err
        return int(re.search(r"^localhost\s.*changed=(\d+)", ended.out, re.MULTILINE).group(1))

    yield run
    if home.exists():
        run("stopped")


def pid(home):
    """The process that answers where the state file says."""
    url = json.loads((home / "state.json").read_text())["url"]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + "/simulator/state", timeout=10) as answer:
        return json.load(answer)["pid"]


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.release
def test_a_second_run_changes_nothing_and_another_configuration_restarts_it_and_check_mode_tells_that_and_does_not(
    role, home
):
    assert role("started") > 0
    process, files = pid(home), content(home)
    assert role("started") == 0
    assert role("started", "--check") == 0
    assert role("started", "--check", clock="manual") > 0
    assert role("stopped", "--check") > 0
    assert (pid(home), content(home)) == (process, files)
    assert role("started", clock="manual") > 0
    assert pid(home) != process
    assert role("stopped") > 0
    assert not home.exists()
    assert role("stopped") == 0


def test_a_directory_that_is_there_keeps_its_mode_and_its_files(role, home):
    home.mkdir()
    home.chmod(0o755)
    (home / "mine").touch()
    role("started")
    assert home.stat().st_mode & 0o777 == 0o755
    role("stopped")
    assert [path.name for path in home.iterdir()] == ["mine"]


def test_p11_a_directory_to_which_everybody_may_write_is_refused(ansible, tmp_path, home):
    home.mkdir()
    home.chmod(0o1777)
    (tmp_path / "play.yml").write_text(PLAY)
    given = {"imds_simulator_vms": ["web-1"], "imds_simulator_dir": str(home)}
    run = ansible("ansible-playbook", "-e", json.dumps(given), str(tmp_path / "play.yml"))
    assert run.code == 2
    assert f"imds_simulator_dir: everybody may write to {home} on localhost. Name a directory of its own" in run.words
    assert home.stat().st_mode & 0o7777 == 0o1777
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("damaged", ["", '{"url": "http://127.0.0.1:9", "pi'], ids=["empty", "cut off"])
@pytest.mark.release
def test_a_state_file_that_a_crash_has_damaged_hinders_nothing(role, home, damaged):
    home.mkdir()
    (home / "state.json").write_text(damaged)
    assert role("started") > 0
    assert pid(home)
    assert role("stopped") > 0
    home.mkdir()
    (home / "state.json").write_text(damaged)
    assert role("stopped") > 0
    assert not home.exists()


@pytest.mark.parametrize("scenario", ["freeze", "file"])
@pytest.mark.release
def test_check_mode_on_an_empty_host_writes_nothing_and_says_that_it_would(role, home, tmp_path, scenario):
    if scenario == "file":
        scenario = str(tmp_path / "mine.json")
        (tmp_path / "mine.json").write_text('{"vms": ["web-1"]}')
    assert role("started", "--check", scenario=scenario) > 0
    assert not home.exists()
    assert role("stopped", "--check") == 0


def test_check_mode_of_the_task_alone_lays_nothing_on_the_host_either(ansible, tmp_path):
    home = tmp_path / "home-of-the-simulator"
    home.mkdir()
    task = {
        "ansible.builtin.include_role": {
            "name": "fleetops.azure_maintenance.imds_simulator",
            "apply": {"check_mode": True},
        },
        "vars": {"imds_simulator_vms": ["web-1"], "imds_simulator_dir": str(home)},
    }
    playbook = tmp_path / "task.json"
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
    ended = ansible("ansible-playbook", str(playbook))
    assert ended.code == 0, ended.out + ended.err
    assert list(home.iterdir()) == []
