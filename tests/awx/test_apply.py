# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""apply.yml of the example project with the real modules of awx.awx, against a stand-in for AWX."""

from __future__ import annotations

import json
import re
import shutil
import urllib.error
import urllib.request

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.awx import launching, rules
from ansible_collections.fleetops.azure_maintenance.tests.awx.conftest import (
    ALL,
    GUIDES,
    PROJECT,
    TWO,
    apply_to,
    commands_of,
    install,
)
from ansible_collections.fleetops.azure_maintenance.tests.awx.controller import TOKEN

NAME = "Azure maintenance"
OF_ONE_VM = "report of one VM"
NUMBER = "must be a number of slices, 1 or more"
MATRIX = pytest.mark.matrix


@pytest.fixture
def project(awx):
    """One that a person has made."""
    return awx.add("projects", name=NAME, organization=awx.named("organizations", "Default")["id"], scm_type="git")


def methods(awx):
    return {method for method, *_rest in awx.requests}


@pytest.mark.matrix
def test_two_variables_are_enough_by_the_commands_of_the_guide(awx, project, ansible, collections, tmp_path):
    env = {**install(collections, tmp_path / "ann"), "CONTROLLER_HOST": awx.url, "CONTROLLER_OAUTH_TOKEN": TOKEN}
    run = ansible("bash", "-c", commands_of("guide_awx"), cwd=tmp_path, env=env)
    assert run.code == 0, run.out + run.err
    # The first was a check, which found the schedule to be out of reach.
    checked, applied = re.findall(r"localhost +: ok=\d+ +changed=(\d+) .* skipped=(\d+)", run.out)
    assert (checked, applied) == (("1", "8"), ("2", "7"))
    templates = awx.items["job_templates"].values()
    assert len(templates) == 9
    for template in templates:
        assert template["project"] == project["id"]
        assert template["inventory"] == awx.named("inventories", "web")["id"]
        assert awx.linked(template, "credentials") == [awx.named("credentials", "web-ssh")["id"]]
        prompts = [template["ask_limit_on_launch"], template["ask_job_type_on_launch"]]
        assert prompts == [template["name"] != f"{NAME}: {OF_ONE_VM}"] * 2
    report = awx.named("job_templates", f"{NAME}: report")
    assert awx.named("schedules", f"{NAME} every morning")["unified_job_template"] == report["id"]
    assert not awx.items["workflow_job_templates"]
    assert not awx.items["notification_templates"]


def test_the_project_the_workflow_and_the_notification(applied):
    assert applied.changed == 5
    project = applied.named("projects", NAME)
    assert (project["scm_url"], project["scm_update_on_launch"]) == (ALL["apply_project_url"], True)
    workflow = applied.named("workflow_job_templates", f"{NAME}: report in slices")
    ask, merge = (applied.named("workflow_job_template_nodes", name) for name in ("ask", "merge"))
    assert {node["workflow_job_template"] for node in (ask, merge)} == {workflow["id"]}
    assert applied.linked(ask, "always_nodes") == [merge["id"]]
    slices, merged = (applied.items["job_templates"][node["unified_job_template"]] for node in (ask, merge))
    assert [slices["job_slice_count"], merged["job_slice_count"]] == [2, 1]
    assert [json.loads(one["extra_vars"]) for one in (slices, merged)] == [
        {"fleet_report_mode": mode, "fleet_report_dir": "/srv/reports"} for mode in ("part", "merge")
    ]
    hook = applied.named("notification_templates", NAME)
    assert applied.linked(merged, "notification_templates_success") == [hook["id"]]
    report = applied.named("job_templates", f"{NAME}: report")
    for one in (report, merged, workflow):
        assert applied.linked(one, "notification_templates_error") == [hook["id"]]
    assert applied.named("schedules", f"{NAME} every morning")["unified_job_template"] == workflow["id"]


def test_the_address_of_the_notification_is_not_shown(applied):
    assert applied.named("notification_templates", NAME)["notification_configuration"]["url"].endswith("T0PS3CRET")
    assert "Set up the notification" in applied.run.out
    assert "T0PS3CRET" not in applied.run.out + applied.run.err


@pytest.mark.matrix
def test_a_second_run_changes_nothing(applied, ansible):
    applied.requests.clear()
    run, changed = apply_to(applied, ansible, **ALL)
    assert changed == 0, run.out + run.err
    assert methods(applied) == {"GET"}


@pytest.mark.matrix
@pytest.mark.usefixtures("project")
def test_check_mode_of_an_empty_survey_writes_nothing(awx, ansible):
    apply_to(awx, ansible, "--check", **{**dict.fromkeys(ALL, ""), **TWO})
    assert (methods(awx), awx.items["job_templates"]) == ({"GET"}, {})


def test_check_mode_in_an_awx_that_has_nothing_yet(awx, ansible):
    run, changed = apply_to(awx, ansible, "--check", **ALL)
    assert changed == 2, run.out + run.err
    assert methods(awx) == {"GET"}


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "apply_inventory must name the inventory of AWX that has the Azure VMs."),
        pytest.param({"apply_inventory": ""}, "apply_inventory must name the inventory of AWX", marks=MATRIX),
        pytest.param({**TWO, "apply_slices": "0"}, f"apply_slices {NUMBER}, not 0.", marks=MATRIX),
        pytest.param({**TWO, "apply_slices": "many"}, f"apply_slices {NUMBER}, not many.", marks=MATRIX),
        (
            {**TWO, "apply_project_credential": "git"},
            "apply_project_credential needs apply_project_url, because a project made by hand has its own.",
        ),
        ({**TWO, "apply_report_dir": "reports"}, "apply_report_dir must be a path that begins with /, not reports."),
    ],
)
def test_a_wrong_setting_is_told_before_awx_is_asked(awx, ansible, variables, said):
    run, _changed = apply_to(awx, ansible, code=2, **variables)
    assert said in run.out
    assert awx.requests == []


def test_what_is_not_in_awx_is_named(awx, ansible):
    run, _changed = apply_to(awx, ansible, code=2, **TWO)
    assert f"The project {NAME} in organization Default was not found" in run.out


FAULT = "Failed to download remote objects and refs: fatal: could not read Username for 'https://git.example.com'"
OWN_PROJECT = {**TWO, "apply_project_url": "https://git.example.com/azure.git"}


@pytest.mark.parametrize("by_hand", [False, True])
def test_h2_a_failed_update_of_the_project_is_told_why_and_begun_again(awx, ansible, by_hand, request):
    git = awx.add("credentials", name="git", organization=awx.named("organizations", "Default")["id"], kind="scm")["id"]
    awx.repository_fault = FAULT
    if by_hand:
        request.getfixturevalue("project").update(status="failed", playbooks=[])
    variables = TWO if by_hand else OWN_PROJECT
    run, _changed = apply_to(awx, ansible, code=2, **variables)
    assert f"AWX cannot use the project {NAME}: its update " in run.out
    assert f"ended as failed. Update project using git: {FAULT}." in run.out
    assert awx.items["job_templates"] == {}
    awx.repository_fault = ""
    more = {} if by_hand else {"apply_project_credential": "git"}
    updates = len(awx.items["project_updates"])
    apply_to(awx, ansible, **variables, **more)
    assert len(awx.items["project_updates"]) == updates + 1
    assert len(awx.items["job_templates"]) > 0
    if not by_hand:
        assert awx.named("projects", NAME)["credential"] == git


def test_h6_without_galaxy_a_project_that_asks_for_no_collections_is_offered(awx, ansible, tmp_path):
    awx.reaches_galaxy = False
    run, _changed = apply_to(awx, ansible, code=2, **OWN_PROJECT)
    assert "Fetch galaxy collections from collections/requirements.(yml/yaml): non-zero return code: ERROR!" in run.out
    awx.repository = shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("collections"))
    apply_to(awx, ansible, **OWN_PROJECT)


def test_h7_the_name_of_an_execution_environment_may_have_a_space_and_stays_when_it_is_left_out(awx, project, ansible):
    environment = awx.add("execution_environments", name="EE 2.18", organization=project["organization"])["id"]
    cut = ["-e", "apply_execution_environment=EE 2.18"]  # What the shell hands over of …='EE 2.18'
    run, _changed = apply_to(awx, ansible, *cut, code=2, **TWO)
    assert "Ansible has cut a value before 2.18, at a space" in run.out
    assert awx.requests == []
    apply_to(awx, ansible, "-e", "apply_execution_environment='EE 2.18'", **TWO)
    run, changed = apply_to(awx, ansible, **TWO)
    assert changed == 0, run.out + run.err
    assert {one["execution_environment"] for one in awx.items["job_templates"].values()} == {environment}


def test_each_survey_may_be_left_empty_but_for_the_hosts(applied):
    for template in applied.items["job_templates"].values():
        for question in applied.surveys.get(template["id"], {}).get("spec", []):
            name, kind = question["variable"], question["type"]
            assert (name, rules.check_answer(question, {name: question.get("default", [])})) == (name, []) or (
                name == "target" and question["required"]
            )
            if kind != "multiplechoice":
                empty = [] if kind == "multiselect" else ""
                assert bool(rules.check_answer(question, {name: empty})) == (name == "target")


# Where a guide has a template started by what asks nobody, and what it gives
STARTED_BY = {
    "report": ("schedule",),
    OF_ONE_VM: ("callback",),
    "respond": ("schedule",),
    "restore": ("schedule",),
    "approve for the checkers": ("schedule", "checker"),
    "install the checker": ("schedule", "callback"),
    "approve": ("schedule",),
    "rehearse": ("schedule",),
    "report, ask in slices": ("workflow",),
    "report, merge the slices": ("workflow",),
}
PERSON = "rehearse the checker"


def start(awx, template, how):
    """Start a template as this kind of starter does, which answers no question."""
    if how == "callback":
        template["host_config_key"] = "k3y"
        awx.hosts[template["inventory"]] = {"web-1": "127.0.0.1"}
        return launching.call_back(awx, template, {"host_config_key": "k3y", "extra_vars": {}}, "127.0.0.1")
    sent = {"maintenance_phase": "waiting", "event_response_event_ids": "an id"} if how == "checker" else {}
    return launching.launch(awx, template, {"extra_vars": sent})


@pytest.mark.parametrize(("name", "how"), [(name, how) for name, ways in STARTED_BY.items() for how in ways])
def test_what_asks_nobody_starts_a_template(applied, name, how):
    template = applied.named("job_templates", f"{NAME}: {name}")
    assert start(applied, template, how)[0] == 201


def status_of(call):
    try:
        with urllib.request.urlopen(call, timeout=600) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize(("name", "plain"), [(OF_ONE_VM, 201), ("install the checker", 400)])
def test_h1_the_guide_has_the_callback_that_starts_each_template(applied, name, plain):
    template = applied.named("job_templates", f"{NAME}: {name}")
    start(applied, template, "callback")  # which makes the key
    (content,) = re.findall(r'^ +(\{"host_config_key": .*\})$', (GUIDES / "guide_awx.rst").read_text(), re.MULTILINE)
    form = b"host_config_key=k3y"
    for kind, data, status in (
        ("application/json", content.replace("KEY", "k3y").encode(), 201),
        ("application/x-www-form-urlencoded", form, plain),
    ):
        call = urllib.request.Request(f"{applied.url}{template['url']}callback/", data, {"Content-Type": kind})
        assert status_of(call) == status


def test_h5_the_report_of_one_vm_is_not_written_over_that_of_the_fleet(applied):
    named = {one["name"]: json.loads(one["extra_vars"] or "{}") for one in applied.items["job_templates"].values()}
    folders = {
        name: found.get("fleet_report_dir") for name, found in named.items() if name.startswith(f"{NAME}: report")
    }
    assert folders == {
        f"{NAME}: report": "/srv/reports/now",
        f"{NAME}: {OF_ONE_VM}": None,
        f"{NAME}: report, ask in slices": "/srv/reports",
        f"{NAME}: report, merge the slices": "/srv/reports",
    }


def test_a_person_alone_starts_what_runs_playbooks_on_the_vms(applied):
    assert {one["name"] for one in applied.items["job_templates"].values()} == {
        f"{NAME}: {name}" for name in [*STARTED_BY, PERSON]
    }
    template = applied.named("job_templates", f"{NAME}: {PERSON}")
    with pytest.raises(rules.Refused, match="'target' value missing"):
        start(applied, template, "schedule")


def test_the_schedule_and_the_workflow_start_without_an_answer(applied):
    (schedule,) = applied.items["schedules"].values()
    workflow = applied.items["workflow_job_templates"][schedule["unified_job_template"]]
    assert (schedule["enabled"], launching.questions_of(applied, workflow)) == (True, [])


def changed_by_hand(awx):
    """Change what apply.yml has set up, as people do in the browser."""
    ask, merge = (awx.named("workflow_job_template_nodes", name) for name in ("ask", "merge"))
    awx.linked(ask, "always_nodes").remove(merge["id"])
    awx.linked(ask, "success_nodes").append(merge["id"])
    awx.add(
        "workflow_job_template_nodes",
        identifier="another",
        workflow_job_template=ask["workflow_job_template"],
        unified_job_template=ask["unified_job_template"],
    )
    awx.named("schedules", f"{NAME} every morning")["enabled"] = False
    messages = awx.named("notification_templates", NAME)["messages"]
    messages["started"] = {"message": "It starts", "body": ""}
    messages["success"]["message"] = "Well done"
    messages["workflow_approval"]["denied"] = {"message": "No", "body": ""}


@pytest.mark.matrix
def test_what_people_changed_by_hand_is_set_back(awx, ansible):
    apply_to(awx, ansible, **ALL)
    changed_by_hand(awx)
    awx.requests.clear()
    checked, changes = apply_to(awx, ansible, "--check", **ALL)
    assert methods(awx) == {"GET"}, checked.out + checked.err
    told = "report in slices has another, ask, ask (success) merge, merge; it must have ask, ask (always) merge, merge."
    assert told in checked.out
    run, changed = apply_to(awx, ansible, **ALL)
    assert changed == 3, run.out + run.err
    assert changes == 3
    ask, merge = (awx.named("workflow_job_template_nodes", name) for name in ("ask", "merge"))
    assert [awx.linked(ask, edge) for edge in ("success_nodes", "always_nodes")] == [[], [merge["id"]]]
    assert len(awx.items["workflow_job_template_nodes"]) == 2
    assert awx.named("schedules", f"{NAME} every morning")["enabled"]
    messages = awx.named("notification_templates", NAME)["messages"]
    nothing = {"message": "", "body": ""}
    assert (messages["started"], messages["workflow_approval"]["denied"]) == (nothing, nothing)
    assert messages["success"]["message"] == ""
    run, changed = apply_to(awx, ansible, **ALL)
    assert changed == 0, run.out + run.err


@pytest.mark.matrix
@pytest.mark.usefixtures("project")
def test_an_inventory_and_a_credential_of_the_same_name_elsewhere_do_not_count(awx, ansible):
    other = awx.add("organizations", name="Other")["id"]
    ours = awx.named("inventories", "web"), awx.named("credentials", "web-ssh")
    awx.add("inventories", name="web", organization=other)
    awx.add("credentials", name="web-ssh", organization=other)
    apply_to(awx, ansible, **TWO)
    for template in awx.items["job_templates"].values():
        assert (template["inventory"], awx.linked(template, "credentials")) == (ours[0]["id"], [ours[1]["id"]])
    # By their numbers they are the same.
    numbers = {"apply_inventory": str(ours[0]["id"]), "apply_credential": str(ours[1]["id"])}
    run, changed = apply_to(awx, ansible, **numbers)
    assert changed == 0, run.out + run.err


@pytest.mark.matrix
def test_the_reports_alone_get_the_credential_for_azure(awx, project, ansible):
    ssh = awx.named("credentials", "web-ssh")["id"]
    kind = {"organization": project["organization"], "kind": "azure_rm"}
    azure = awx.add("credentials", name="subscription", **kind)["id"]
    settings = {**TWO, "apply_azure_credential": "subscription", "apply_report_dir": "/reports"}
    apply_to(awx, ansible, **settings)
    reports = {f"{NAME}: report", f"{NAME}: report, ask in slices"}
    for template in awx.items["job_templates"].values():
        is_report = template["name"] in reports
        assert awx.linked(template, "credentials") == ([ssh, azure] if is_report else [ssh]), template["name"]
        given = json.loads(template["extra_vars"] or "{}")
        assert given.get("fleet_report_resource_graph", False) is is_report
    run, changed = apply_to(awx, ansible, **settings)
    assert changed == 0, run.out + run.err
    # Without it they ask the VMs only, as before.
    apply_to(awx, ansible, **{**TWO, "apply_report_dir": "/reports"})
    report = awx.named("job_templates", f"{NAME}: report")
    assert awx.linked(report, "credentials") == [ssh]
    assert "fleet_report_resource_graph" not in json.loads(report["extra_vars"])
