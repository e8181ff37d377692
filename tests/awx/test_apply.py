# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""apply.yml of the example project with the real modules of awx.awx, against a stand-in for AWX."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.awx import rules
from ansible_collections.fleetops.azure_maintenance.tests.awx.conftest import PROJECT
from ansible_collections.fleetops.azure_maintenance.tests.awx.controller import TOKEN

URL = "https://git.example.com/azure.git"
HOOK = "https://hooks.example.com/T0PS3CRET"
TWO = {"apply_inventory": "web", "apply_credential": "web-ssh"}
ALL = {**TWO, "apply_project_url": URL, "apply_report_dir": "/srv/reports", "apply_notification_url": HOOK}


@pytest.fixture
def apply(ansible, awx):
    """A runner: apply(*arguments, **variables) runs apply.yml and returns the run, and how many tasks changed something."""

    def run(*arguments, **variables):
        env = {"CONTROLLER_HOST": awx.url, "CONTROLLER_OAUTH_TOKEN": TOKEN}
        command = ["ansible-playbook", "apply.yml", "-e", json.dumps(variables), *arguments]
        ended = ansible(*command, env=env, cwd=PROJECT)
        assert TOKEN not in ended.out + ended.err
        recap = re.search(r"localhost +: ok=\d+ +changed=(\d+)", ended.out)
        return ended, int(recap.group(1)) if recap else None

    return run


def test_two_variables_are_enough_where_awx_has_the_project(apply, awx):
    organization = awx.named("organizations", "Default")["id"]
    project = awx.add("projects", name="Azure maintenance", organization=organization, scm_type="git")
    run, _changed = apply(**TWO)
    assert run.code == 0, run.out + run.err
    templates = awx.items["job_templates"].values()
    assert len(templates) == 6
    for template in templates:
        assert template["project"] == project["id"]
        assert template["inventory"] == awx.named("inventories", "web")["id"]
        assert awx.linked(template, "credentials") == [awx.named("credentials", "web-ssh")["id"]]
        assert template["ask_limit_on_launch"] and template["ask_job_type_on_launch"]
    report = awx.named("job_templates", "Azure maintenance: report")
    assert awx.named("schedules", "Azure maintenance every morning")["unified_job_template"] == report["id"]
    assert not awx.items["workflow_job_templates"]


def test_everything_is_set_up_once_and_a_second_run_changes_nothing(apply, awx):
    run, changed = apply(**ALL)
    assert run.code == 0, run.out + run.err
    assert changed == 5
    assert awx.named("projects", "Azure maintenance")["scm_url"] == URL
    workflow = awx.named("workflow_job_templates", "Azure maintenance: report in slices")
    ask, merge = (awx.named("workflow_job_template_nodes", name) for name in ("ask", "merge"))
    assert {node["workflow_job_template"] for node in (ask, merge)} == {workflow["id"]}
    assert awx.linked(ask, "always_nodes") == [merge["id"]]
    slices = awx.items["job_templates"][ask["unified_job_template"]]
    merged = awx.items["job_templates"][merge["unified_job_template"]]
    assert slices["job_slice_count"] == 4
    assert [json.loads(one["extra_vars"]) for one in (slices, merged)] == [
        {"fleet_report_mode": mode, "fleet_report_dir": "/srv/reports"} for mode in ("part", "merge")
    ]
    hook = awx.named("notification_templates", "Azure maintenance")
    assert awx.linked(merged, "notification_templates_success") == [hook["id"]]
    assert awx.linked(workflow, "notification_templates_error") == [hook["id"]]
    assert awx.named("schedules", "Azure maintenance every morning")["unified_job_template"] == workflow["id"]

    awx.requests.clear()
    run, changed = apply(**ALL)
    assert (run.code, changed) == (0, 0), run.out + run.err
    assert {method for method, *_rest in awx.requests} == {"GET"}
