# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The integration targets of the modules, at once on Linux and on a stand-in for a Windows VM: no PowerShell runs.

Each task of the modules must return the same, but for what the guide "Windows VMs" lists.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import TREE

pytestmark = pytest.mark.integration

TARGETS = TREE / "tests" / "integration" / "targets"
# Of the modules on Linux, where the gate has one
PYTHON = os.environ.get("PYTHON_TARGET", sys.executable)
GUIDE = (TREE / "docs" / "docsite" / "rst" / "guide_windows.rst").read_text(encoding="utf-8")
# Those of S1 to S18 that are about a module; the others are about a program that keeps running.
SCENARIOS = {f"S{number}" for number in range(1, 19)} - {"S1", "S5", "S11", "S15"}
# What Ansible adds to a result, newer releases for a module and not for an action plugin
OF_ANSIBLE = {"exception", "failed_when_suppressed_exception"}
# What differs, each with the words of the guide that say so: a key of all results,
KEYS = {
    "boot_id": "is null, because no module gives an id of the boot",
    "marks": "is null: only a run of ``event_response`` reads the marks there",
}
# a key of results with a reason,
KEYS_BY_REASON = {
    ("msg", "unreachable"): "Some words of ``msg`` differ",
    ("msg", "timeout"): "Some words of ``msg`` differ",
}
# and tasks.
TASKS = {
    "Ask, with an answer that trickles one byte a second": "does not limit how long the body of an answer may take",
    "Ask there": "limits that look only. A request has no limit of its own for the connection",
    "Ask where nothing listens": "is refused: no module reads the DHCP leases of Windows.",
    "Ask as three hosts at once, in the background": "is refused, because the task runs on the controller",
}


@pytest.fixture
def play(ansible, tmp_path):
    """A runner: play(target) plays it on both systems; returns the run, and names and results of tasks by system."""
    collections = windows.make_ansible_windows(tmp_path / "installed")

    def play(target):
        hosts = {}
        for system, connection in (("linux", "local"), ("windows", "windows_stand_in")):
            hosts[system] = {
                "ansible_connection": connection,
                "ansible_python_interpreter": PYTHON,
                "output_dir": str(tmp_path / system),
                "target_is_windows": system == "windows",
            }
            (tmp_path / system).mkdir()
        (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
        (tmp_path / "play.json").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "roles": [target]}]))
        env = {
            **windows.settings(collections),
            "ANSIBLE_ROLES_PATH": str(TARGETS),
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).with_name("callback")),
            "ANSIBLE_CALLBACKS_ENABLED": "keep_results",
            "KEEP_RESULTS": str(tmp_path / "results"),
        }
        run = ansible("ansible-playbook", "-i", "hosts.json", "play.json", cwd=tmp_path, env=env)
        assert run.code == 0, run.out + run.err
        results = {system: [] for system in hosts}
        for line in (tmp_path / "results").read_text().splitlines():
            system, name, result = json.loads(re.sub(f"{re.escape(str(tmp_path))}/(linux|windows)", "FOLDER", line))
            results[system].append((name, plain(without_differences(result))))
        return run, results

    return play


def plain(result):
    """Return a result without what differs from run to run: addresses, times, and ids that the simulator made up."""
    ids = {}
    text = json.dumps(result)
    text = re.sub(r"http://127\.0\.0\.1:\d{2,}", "ENDPOINT", text)
    text = re.sub(r'"seconds_until_start": [1-9]\d*', '"seconds_until_start": 9', text)
    text = re.sub(r"in (\d+ (d|h|min|s) )+\(", "in SOON (", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", "WHEN", text)
    # Python lists them in another order in each process.
    text = re.sub(r'(Valid booleans include: )(?:[^"\\]|\\.)*', r"\1ALL", text)
    made_up = r"\b([0-9A-Fa-f]{8})(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b|\b[0-9a-f]{8}\b"
    return json.loads(re.sub(made_up, lambda id: ids.setdefault(id[0][:8].upper(), f"ID-{len(ids)}"), text))


def without_differences(result):
    """Return a result without the keys that differ."""
    if isinstance(result.get("results"), list):
        return {**result, "results": [without_differences(each) for each in result["results"]]}
    left_out = OF_ANSIBLE | set(KEYS) | {key for key, reason in KEYS_BY_REASON if reason == result.get("reason")}
    return {key: value for key, value in result.items() if key not in left_out}


@pytest.mark.parametrize("target", ["scenarios", "faults", "scheduled_events_info", "scheduled_event_approve"])
def test_a_target_returns_the_same_on_linux_and_windows(play, target):
    run, results = play(target)
    if target == "scenarios":
        assert set(re.findall(r"^TASK \[\w+ : (S\d+) Check", run.out, re.MULTILINE)) == SCENARIOS
    linux, other = ([each for each in results[system] if each[0] not in TASKS] for system in ("linux", "windows"))
    assert len(linux) > 10
    assert [name for name, _result in other] == [name for name, _result in linux]
    for (name, result), (_name, expected) in zip(other, linux):
        assert result == expected, name


def test_the_guide_lists_each_difference():
    guide = " ".join(GUIDE.split())
    for words in (*KEYS.values(), *KEYS_BY_REASON.values(), *TASKS.values()):
        assert words in guide
