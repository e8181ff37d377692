# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks of the example project, run by ansible-runner as AWX does, with what apply.yml put into AWX."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.awx import notifications, rules
from ansible_collections.fleetops.azure_maintenance.tests.awx.conftest import PROJECT

NAME = "Azure maintenance"
PLAYBOOKS = ["approve", "fleet_report", "install_checker", "rehearse", "rehearse_checker", "respond", "restore"]


@pytest.fixture
def azure(simulator):
    return simulator("--vms", "web-1,web-2,web-3")


@pytest.fixture
def inventory(azure, tmp_path):
    """Lines of an inventory for a job: each VM, and in a slice only some."""
    lines = azure.inventory(["web-1", "web-2", "web-3"], tmp_path).splitlines()
    # As root, AWX would ask sudo, which a container may not have.
    return lambda *hosts: "\n".join(f"{line} ansible_become=false" for line in lines if line.split()[0] in hosts) + "\n"


@pytest.fixture
def template(applied, tmp_path):
    """What a job template gives to its jobs: its playbook, its variables and those of its survey, as template("report",
    target="web") answers it.
    """

    def find(name, **answers):
        found = applied.named("job_templates", f"{NAME}: {name}")
        fixed = json.loads(found["extra_vars"]) if found["extra_vars"] else {}
        if fixed.get("fleet_report_dir"):
            fixed["fleet_report_dir"] = str(tmp_path / "reports")
        questions = applied.surveys.get(found["id"], {}).get("spec", [])
        asked = {question["variable"]: question.get("default", []) for question in questions}
        assert set(answers) <= set(asked)
        return found["playbook"], fixed, {**asked, **answers}

    return find


def test_awx_lists_the_playbooks_and_nothing_else():
    assert rules.listed_playbooks(PROJECT) == sorted(f"{name}.yml" for name in [*PLAYBOOKS, "apply"])


def test_every_playbook_has_a_job_template(applied):
    used = {template["playbook"] for template in applied.items["job_templates"].values()}
    assert used == {f"{name}.yml" for name in PLAYBOOKS}


@pytest.mark.matrix
def test_the_workflow_reports_in_slices_merges_and_notifies(job, azure, inventory, template, applied, tmp_path):
    event = azure.announce("Reboot", "web-1", "web-3")
    slices = template("report, ask in slices")
    for hosts in (["web-1", "web-3"], ["web-2"]):
        ask = job(slices, inventory(*hosts))
        assert ask.hosts("Ask") == hosts
        assert ask.artifacts["fleet_report_counts"]["asked"] == len(hosts)
    playbook, fixed, variables = template("report, merge the slices")
    merge = job((playbook, fixed, {**variables, **ask.artifacts}), inventory("web-1", "web-2", "web-3"))
    assert merge.hosts("Ask") == []
    counts = merge.artifacts["fleet_report_counts"]
    assert (counts["asked"], counts["events"]) == (3, 1)
    report = json.loads((tmp_path / "reports" / "report.json").read_text())
    assert [one["event_id"] for one in report["events"]] == [event]

    messages = applied.named("notification_templates", NAME)["messages"]
    told = notifications.posted(
        messages["success"]["body"], job={"artifacts": merge.artifacts}, url="https://awx/#/jobs/7"
    )
    assert told == {"text": f"{NAME}: 1 events, 0 of them started; 3 hosts asked. https://awx/#/jobs/7"}


@pytest.fixture
def failure(applied):
    """What AWX posts for a job that failed: failure("Azure maintenance: report", artifacts={…})."""
    body = applied.named("notification_templates", NAME)["messages"]["error"]["body"]
    # Of a workflow AWX hands over no artifacts.
    return lambda name, **more: notifications.posted(
        body, job={"name": name, "status": "failed", **more}, url="https://awx/#/jobs/8"
    )["text"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),
        ({"artifacts": {}, "job_explanation": ""}, ""),
        ({"job_explanation": "Job cancelled"}, " Job cancelled."),
        ({"artifacts": {"fleet_report_due": [f"E{number}" for number in range(6)]}}, " Due: E0; E1; E2; 3 more."),
    ],
)
def test_h4_a_notification_names_what_failed(failure, more, said):
    assert failure(f"{NAME}: respond", **more) == f"{NAME}: respond: failed.{said} https://awx/#/jobs/8"


def test_h4_a_notification_of_a_report_that_failed_says_what_is_due(job, azure, inventory, template, failure):
    event = azure.announce("Reboot", "web-1", notice=900)
    playbook, fixed, answers = template("report")
    ended = job((playbook, {**fixed, "fleet_report_fail_within": 3600}, answers), inventory("web-1"), status="failed")
    told = failure(f"{NAME}: report", artifacts=ended.artifacts)
    assert told.startswith(f"{NAME}: report: failed. Due: Reboot {event} in "), told
    assert told.endswith(": web-1. https://awx/#/jobs/8")


@pytest.mark.matrix
def test_a_check_job_of_the_report_asks_and_writes_nothing(job, azure, inventory, template, tmp_path):
    azure.announce("Freeze", "web-2")
    ended = job(template("report"), inventory("web-1", "web-2"), "--check", "--diff")
    assert ended.artifacts["fleet_report_counts"]["events"] == 1
    assert not (tmp_path / "reports").exists()


def test_events_are_approved_by_the_answers_of_the_survey(job, azure, inventory, template):
    reboot = azure.announce("Reboot", "web-1")
    azure.announce("Freeze", "web-2")
    wanted = template("approve", approve_event_types="Reboot\nRedeploy\n")
    ended = job(wanted, inventory("web-1", "web-2"))
    assert ended.hosts("Approve the selected events") == ["web-1", "web-2"]
    assert [body["StartRequests"] for _vm, body in azure.posted()] == [[{"EventId": reboot}]]


def test_an_approval_without_any_answer_fails_in_words(job, azure, inventory, template):
    azure.announce("Reboot", "web-1")
    ended = job(template("approve"), inventory("web-1"), status="failed")
    assert "Nothing says which events to approve" in ended.out
    assert azure.posted() == []


def test_a_maintenance_is_gone_through_with_an_empty_survey(job, azure, inventory, template):
    event = azure.announce("Reboot", "web-1", "web-2", start_delay=0, started_for=0)
    ended = job(template("respond"), inventory("web-1", "web-2", "web-3"))
    assert [body["StartRequests"] for _vm, body in azure.posted()] == [[{"EventId": event}]]
    ran = [one["event_data"] for one in ended.events if one["event"] == "runner_on_ok"]
    said = [one["res"]["msg"] for one in ran if one["task"] == "Say it"]
    assert sorted(said) == [
        "prepare web-1 Reboot -",
        "prepare web-2 Reboot -",
        "restore web-1 Reboot completed",
        "restore web-2 Reboot completed",
    ]
    summary = ended.artifacts["event_response"]
    assert (summary["approved"], summary["completed"], summary["failed"]) == (1, 1, 0)


@pytest.mark.matrix
def test_d1_a_job_that_was_cancelled_is_mended_by_the_template_for_restore(job, azure, inventory, template):
    azure.announce("Reboot", "web-1", "web-2", notice=7200, start_delay=3600)
    hosts = inventory("web-1", "web-2", "web-3")
    job(template("respond"), hosts, cancel=azure.posted, status="canceled")
    early = job(template("restore"), hosts, status="failed")
    assert early.hosts("Say it") == []
    assert "web-1 is out of service since" in early.out
    assert "by AWX job 1 of" in early.out
    ended = job(template("restore", restore_open="true"), hosts)
    assert ended.hosts("Say it") == ["web-1", "web-2"]
    again = job(template("restore"), hosts)
    assert again.hosts("Say it") == []


@pytest.mark.matrix
def test_a_maintenance_is_only_prepared_for_where_the_survey_says_so(job, azure, inventory, template):
    azure.announce("Freeze", "web-1", started_for=1, notice=900)
    answers = {"event_response_event_types": ["Reboot"], "event_response_approve": "false", "target": "web-1"}
    ended = job(template("respond", **answers), inventory("web-1", "web-2"))
    assert ended.hosts("Say it") == []
    assert azure.posted() == []
    assert azure.asked() == {"web-1"}


def test_the_checker_is_checked_before_it_is_installed(job, inventory, template):
    lines = inventory("web-1").replace("\n", ' event_checker_rules=\'[{"name": "x", "approve": "perhaps"}]\'\n')
    ended = job(template("install the checker"), lines, "--check", status="failed")
    assert "approve" in ended.out
    assert "perhaps" in ended.out


@pytest.mark.matrix
def test_a_rehearsal_needs_no_host(job, template):
    ended = job(template("rehearse"), "")
    assert "The rehearsal went well." in ended.out


@pytest.mark.matrix
def test_a_rehearsal_of_the_checker_wants_to_be_told_where(job, azure, inventory, template):
    ended = job(template("rehearse the checker", target=""), inventory("web-1"), status="failed")
    assert "target is empty: name the hosts" in ended.out
    assert azure.asked() == set()
