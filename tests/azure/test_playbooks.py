# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules as tasks of a real playbook: hosts out of reach, secrets, hostile text, a library that is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.azure import stand_in
from ansible_collections.fleetops.azure_maintenance.tests.azure.conftest import run_playbook
from ansible_collections.fleetops.azure_maintenance.tests.azure.stand_in import EVENT, VM
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import refuse_deprecations

INFO = "fleetops.azure_maintenance.resource_graph_events_info"


@pytest.fixture
def play(azure, tmp_path, monkeypatch):
    """play(TASKS) runs them for two hosts that do not exist, and returns what was printed."""
    monkeypatch.setenv("ANSIBLE_LOG_PATH", str(tmp_path / "ansible.log"))
    monkeypatch.setenv("ANSIBLE_LOCALHOST_WARNING", "false")
    monkeypatch.setenv("ANSIBLE_NOCOLOR", "true")
    # Nothing is asked of these hosts. An attempt fails at once.
    inventory = tmp_path / "hosts"
    inventory.write_text(
        f"web-1 id={VM}\nweb-2 id={VM.replace('web-1', 'web-2')}\n[all:vars]\nansible_host=203.0.113.9\n"
    )

    def run(*tasks, options=(), code=0):
        book = tmp_path / "book.yml"
        book.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
        ended = run_playbook(inventory, *options, book)
        refuse_deprecations(ended.stdout + ended.stderr)
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    return run


def show(expression):
    return {"ansible.builtin.debug": {"msg": expression}, "run_once": True}


def test_hosts_that_nobody_can_reach(principal, play):
    principal.add_event(EVENT, VM, ["web-1"])
    ask = {
        INFO: {"resource_ids": "{{ ansible_play_hosts_all | map('extract', hostvars, 'id') }}"},
        "run_once": True,
        "register": "outside",
    }
    printed = play(ask, show("found {{ outside.events[0].resources }} {{ outside.msg }}"))
    assert "found ['web-1'] Azure Resource Graph has 1 Scheduled." in printed


def test_secret_and_token_are_nowhere(azure, play, tmp_path, monkeypatch):
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", stand_in.SUBSCRIPTION)
    login = {"client_id": stand_in.CLIENT_ID, "secret": stand_in.SECRET, "tenant": stand_in.TENANT}
    wrong = {INFO: {**login, "auth_source": "sesame"}, "ignore_errors": True}
    odd = {INFO: {**login, "secret": {"of": stand_in.SECRET}}, "ignore_errors": True}
    printed = play({INFO: login}, wrong, odd, options=["-vvvv", "--diff"])
    written = printed + (tmp_path / "ansible.log").read_text()
    assert azure.tokens
    # What the book itself has is not printed either.
    assert [secret for secret in (stand_in.SECRET, *azure.tokens) if secret in written] == []


def test_p10_text_of_azure_is_no_template(principal, play, tmp_path):
    hacked = tmp_path / "hacked"
    text = "{{ lookup('ansible.builtin.pipe', 'touch " + str(hacked) + "') }}"
    principal.add_event(EVENT, VM, [text], {"Description": text, "EventType": text})
    printed = play({INFO: {}, "run_once": True, "register": "outside"}, show("{{ outside.events }}"))
    assert "lookup(" in printed
    assert not hacked.exists()


def test_a_library_that_is_missing_is_one_sentence(principal, play, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'azure.identity' or name == 'azure':\n"
        "            raise ModuleNotFoundError('No module', name='azure.identity')\n"
        "sys.meta_path.insert(0, Missing())\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    printed = play({INFO: {}, "run_once": True}, code=2)
    said = "The Python library azure.identity is missing on the controller. Run: "
    assert said in printed
    assert "-m pip install azure-identity requests" in printed
    assert "Traceback" not in printed


def test_p15_the_time_limit_of_a_task_holds(principal, play):
    principal.add_fault("/oauth2/", "hang", times=9)
    began = time.monotonic()
    play({INFO: {"timeout": 100}, "run_once": True, "timeout": 5}, code=2)
    assert time.monotonic() - began < 60


def test_nobody_imports_a_library_who_does_not_ask_azure():
    code = (
        "import sys\n"
        "import ansible_collections.fleetops.azure_maintenance.plugins.action.resource_graph_events_info\n"
        "import ansible_collections.fleetops.azure_maintenance.plugins.action.scheduled_events_info\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('azure', 'msal', 'requests')])\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert (ended.returncode, ended.stdout.strip()) == (0, "[]"), ended.stderr
