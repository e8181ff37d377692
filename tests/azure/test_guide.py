# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide "Without touching the VMs" and the examples of the modules, done as they are written."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.azure import stand_in
from ansible_collections.fleetops.azure_maintenance.tests.azure.conftest import run_playbook
from ansible_collections.fleetops.azure_maintenance.tests.azure.stand_in import EVENT, VM

TREE = Path(__file__).resolve().parents[2]
GUIDE = (TREE / "docs" / "docsite" / "rst" / "guide_without_touching_vms.rst").read_text(encoding="utf-8")
FILES = {name: textwrap.dedent(text) for name, text in re.findall(r":caption: (\S+)\n\n((?:   .*\n|\n)+)", GUIDE)}
MODULES = ("resource_graph_events_info", "scheduled_event_acknowledge", "scheduled_events_policy")


@pytest.fixture
def do(principal, tmp_path, monkeypatch):
    """do(PLAYBOOK) runs one of the guide for two VMs that do not exist, and returns what was printed."""
    monkeypatch.setenv("ANSIBLE_NOCOLOR", "true")
    other = VM.replace("web-1", "web-2")
    (tmp_path / "hosts").write_text(f"web-1 id={VM}\nweb-2 id={other}\n[all:vars]\nansible_host=203.0.113.9\n")
    for resource in (VM, other):
        principal.add_resource(resource)
    principal.add_event(EVENT, VM, ["web-1", "web-2"])

    def run(name, *options):
        (tmp_path / name).write_text(FILES[name])
        ended = run_playbook(tmp_path / "hosts", *options, tmp_path / name)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run


def test_each_playbook_of_the_guide_is_tested():
    assert set(FILES) == {"outside.yml", "publish.yml", "acknowledge.yml", "outside_check.yml"}


def test_see_the_events(do):
    assert "Azure Resource Graph has 1 Scheduled." in do("outside.yml")


def test_publish(do, principal):
    assert "changed=0" not in do("publish.yml", "--check", "--diff")
    assert '+    "publish": true' in do("publish.yml", "--check", "--diff")
    assert [each["method"] for each in principal.requests("/virtualmachines/")] == ["GET"] * 4
    do("publish.yml")
    assert "changed=1" not in do("publish.yml")
    policies = [each["properties"]["scheduledEventsPolicy"] for each in principal.resources.values()]
    published = {"eventGridAndResourceGraph": {"enable": True, "scheduledEventsApiVersion": "2020-07-01"}}
    assert policies == [{"scheduledEventsAdditionalPublishingTargets": published}] * 2


def test_approve(do, principal):
    assert "changed=1" in do("acknowledge.yml", "-e", f"event_id={EVENT}")
    assert principal.approved == [(VM, EVENT)]


def test_what_a_user_sends_us(do, principal):
    printed = do("outside_check.yml", "-vvv")
    assert "is not approved: it waits for web-1, web-2." in printed
    assert stand_in.SECRET not in printed
    assert principal.approved == []


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_tasks(name, tmp_path):
    module = importlib.import_module(f"ansible_collections.fleetops.azure_maintenance.plugins.modules.{name}")
    book = tmp_path / "book.yml"
    book.write_text("- hosts: localhost\n  tasks:\n" + textwrap.indent(module.EXAMPLES, "    "))
    command = [sys.executable, "-m", "ansible", "playbook", "--syntax-check", str(book)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
