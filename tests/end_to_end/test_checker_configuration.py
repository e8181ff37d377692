# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role makes of its variables on the VM: the unit of the check, and a configuration that stays out of logs.

The configuration may hold the address of a webhook that is a secret in itself. A module writes what it is given to the
system's log, and with -vvv Ansible prints it too, unless the task has no_log.
"""

from __future__ import annotations

import base64
import json

import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_root
from ansible_collections.fleetops.azure_maintenance.tests.unit.test_event_checker_role import ROLE

SECRET = "T0KEN-0F-THE-WEBHOOK"
RULE = {"name": "Drain", "on_announced": [{"webhook": f"https://hooks.example.com/{SECRET}"}]}
CONFIG = {"metrics_dir": "/var/lib/metrics", "rules": [RULE]}


@pytest.mark.parametrize(
    ("tasks", "rules", "code"),
    [
        pytest.param("check_input.yml", [RULE], 0, id="the rules are checked on the controller"),
        pytest.param("check_input.yml", [{**RULE, "retries": -1}], 2, id="and one is wrong"),
        pytest.param("old_configuration.yml", [], 0, id="the configuration of before is read"),
    ],
)
def test_p12_the_address_of_a_webhook_stays_out_of_what_ansible_prints(checker_tasks, tmp_path, tasks, rules, code):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    run = checker_tasks(tasks, "-vvv", event_checker_rules=rules, __event_checker_config_file=str(config))
    assert run.code == code, run.out
    assert SECRET not in run.out + run.err
    assert base64.b64encode(json.dumps(CONFIG).encode()).decode() not in run.out + run.err
    if code:
        assert "retries must be" in run.words


def all_tasks(tasks):
    for task in tasks:
        yield task
        for part in ("block", "rescue", "always"):
            yield from all_tasks(task.get(part, []))


def test_p12_no_task_logs_the_configuration():
    handed = set()
    for file in (ROLE / "tasks").glob("*.yml"):
        for task in all_tasks(yaml.safe_load(file.read_text(encoding="utf-8"))):
            command = task.get("ansible.builtin.command", {})
            source = task.get("ansible.builtin.slurp", {}).get("src", "")
            if "__event_checker_config " in command.get("stdin", "") or "__event_checker_config_file" in source:
                assert task.get("no_log") is True, task["name"]
                handed.add(task["name"])
    assert handed == {"Check the rules", "Check the configuration on the VM", "Read the configuration"}


UNIT = "azure-maintenance-check.service"
ENDPOINT = "azure_maintenance_endpoint"


# The lab cannot show it: its containers have no BPF filter, so systemd reads these lines there and filters nothing.
@pytest.mark.parametrize(
    ("variables", "allowed"),
    [
        pytest.param({}, ["169.254.169.254", "localhost"], id="Azure"),
        pytest.param({ENDPOINT: "http://10.1.2.3:8181/vm/a"}, ["10.1.2.3", "localhost"], id="an address"),
        pytest.param({ENDPOINT: "http://[fd00::1]"}, ["fd00::1", "localhost"], id="an IPv6 address"),
        pytest.param({ENDPOINT: "http://127.0.0.1:8181"}, ["localhost"], id="a simulator on the VM"),
        pytest.param({ENDPOINT: "http://azure.example.com"}, None, id="a host name"),
        pytest.param({"event_checker_discover_endpoint": True}, None, id="an address that is looked up"),
    ],
)
def test_g1_the_check_may_reach_imds_and_the_guest_proxy_agent_on_loopback_and_nothing_else(
    checker_tasks, tmp_path, variables, allowed
):
    unit = tmp_path / UNIT
    install = {"ansible.builtin.template": {"src": str(ROLE / "templates" / f"{UNIT}.j2"), "dest": str(unit)}}
    run = checker_tasks("check_input.yml", tasks=[install], **variables)
    assert run.code == 0, run.out
    lines = [line.partition("=") for line in unit.read_text().splitlines() if line.startswith("IPAddress")]
    settings = {name: value.split() for name, _equals, value in lines}
    assert settings == ({} if allowed is None else {"IPAddressDeny": ["any"], "IPAddressAllow": allowed})


@pytest.mark.parametrize(("now", "is_left"), [("new", False), (None, False), ("old", True)])
def test_old_metrics_are_gone_also_where_the_play_fails_later(checker_tasks, tmp_path, now, is_left):
    need_root("the units are given to root")
    programs, old = tmp_path / "programs", tmp_path / "old"
    for folder in (programs, old):
        folder.mkdir()
    (old / "azure_maintenance.prom").write_text("old")
    (programs / "systemctl").write_text("#!/bin/sh\nprintf 'LoadState=loaded\\nActiveState=active\\n'\n")
    (programs / "systemctl").chmod(0o755)
    run = checker_tasks(
        "units.yml",
        play={"environment": {"PATH": f"{programs}:{{{{ lookup('ansible.builtin.env', 'PATH') }}}}"}},
        tasks=[{"ansible.builtin.fail": {"msg": "A later task of the play fails."}}],
        event_checker_metrics_dir=now and str(tmp_path / now),
        __event_checker_old_metrics_dir=str(old),
        __event_checker_unit_dir=str(tmp_path),
        __event_checker_was_installed=True,
    )
    assert "A later task of the play fails." in run.words
    assert (old / "azure_maintenance.prom").exists() is is_left
