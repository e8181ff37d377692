# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors

"""F2: each question of the surveys of the example project, answered as AWX writes it, on each release of ansible-core.

B6: the project as it is copied.

The playbooks of the project run against the simulator. Newer releases give an answer a type (tests/awx/extra_vars.py).
"""

from __future__ import annotations

import json
import shutil

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.awx import extra_vars, rules
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import TREE, on_one_line

PROJECT = TREE / "examples" / "awx_project"
VMS = ("web-1", "web-2", "0123")
GIVES_TYPES = extra_vars.load("0123") == 83
NOT_TEXT = "must be text, not"
TASK = """
- name: Say it
  ansible.builtin.debug:
    msg: "{} {{{{ inventory_hostname }}}}"
"""
# What the playbook says once it has taken the answers, where it must not or cannot go on here
NO_CHECKER = "The host has no checker: run install_checker for it."
WRONG_RULE = "perhaps"
NO_REHEARSAL = "so there is none in check mode."


@pytest.fixture(scope="module")
def templates(ansible_once, tmp_path_factory):
    """The job templates of the project, by the last part of their names."""
    folder = tmp_path_factory.mktemp("templates")
    names = ["surveys", "job_templates"]
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "apply_report_dir": "",
            "apply_notification_url": "",
        },
        "vars_files": [str(PROJECT / "awx" / f"{name}.yml") for name in names],
        "tasks": [
            {"ansible.builtin.copy": {"content": "{{ apply_job_templates | to_json }}", "dest": f"{folder}/all.json"}}
        ],
    }
    (folder / "play.json").write_text(json.dumps([play]))
    run = ansible_once("ansible-playbook", "-i", "localhost,", "-c", "local", folder / "play.json")
    assert run.code == 0, run.out + run.err
    return {one["name"].partition(": ")[2]: one for one in json.loads((folder / "all.json").read_text())}


class Project:
    """The project in AWX, its files of tasks written, and the simulator that its VMs ask."""

    def __init__(self, ansible, azure, templates, folder):
        self.azure, self.folder = azure, folder / "project"
        self._ansible, self._templates = ansible, templates
        shutil.copytree(PROJECT, self.folder)
        for name in ("prepare", "restore"):
            (self.folder / "tasks" / f"{name}.yml").write_text(TASK.format(name))
        lines = azure.inventory(VMS, folder).splitlines()
        rule = '[{"name": "x", "approve": "perhaps"}]'
        hosts = [f"{line} ansible_become=false event_checker_rules='{rule}'\n" for line in lines]
        (folder / "hosts.ini").write_text("".join(hosts))

    def answer(self, name, answers, *arguments, prompted=None):
        """Start a job of this template with these answers, and return its run.

        :param prompted: variables that nobody asks for, as a template that prompts for variables takes them.
        """
        template = self._templates[name]
        questions = template.get("survey", [])
        assert set(answers) <= {question["variable"] for question in questions}
        assert [error for question in questions for error in rules.check_answer(question, answers)] == []
        fixed = template.get("extra_vars", {})
        variables = {**fixed, **rules.with_defaults(questions, answers), **(prompted or {}), "awx_job_id": 7}
        path = self.folder.with_name("extravars")
        path.write_text(extra_vars.dump(variables, fixed))
        inventory = self.folder.with_name("hosts.ini")
        argv = ("ansible-playbook", "-i", inventory, "-e", f"@{path}", *arguments, template["playbook"])
        run = self._ansible(*argv, cwd=self.folder)
        return run, on_one_line(run.out + run.err)

    def empty_answers(self, name):
        """The answer that each question of this template gets where a person empties it; where AWX allows that."""
        found = {}
        for question in self._templates[name].get("survey", []):
            empty = [] if question["type"] == "multiselect" else ""
            if not rules.check_answer(question, {question["variable"]: empty}):
                found[question["variable"]] = empty
        return found

    @property
    def approved(self):
        return [each["EventId"] for _vm, body in self.azure.posted() for each in body["StartRequests"]]


@pytest.fixture
def project(ansible, simulator, templates, tmp_path):
    return Project(ansible, simulator("--vms", ",".join(VMS)), templates, tmp_path)


def test_every_template_that_asks_is_in_the_tables_below(templates):
    assert {name for name, template in templates.items() if "survey" in template} == {
        "report",
        "approve",
        "respond",
        "restore",
        "approve for the checkers",
        "install the checker",
        "rehearse the checker",
    }


@pytest.mark.every_core
@pytest.mark.parametrize("emptied", [False, True], ids=["defaults", "emptied"])
@pytest.mark.matrix
def test_f2_respond_takes_a_survey_that_nobody_fills_in(project, emptied):
    event = project.azure.announce("Reboot", "web-1", "web-2", start_delay=0, started_for=0)
    answers = project.empty_answers("respond") if emptied else {}
    names = {"event_types", "event_sources", "event_ids", "due_within"}
    assert set(answers) == ({f"event_response_{name}" for name in names} if emptied else set())
    run, said = project.answer("respond", answers)
    assert run.code == 0, said
    assert project.approved == [event]
    for words in ("prepare web-1", "prepare web-2", "restore web-1", "restore web-2"):
        assert words in said


@pytest.mark.parametrize("untouched", [["prepare", "restore"], ["restore"]], ids=["both", "restore"])
@pytest.mark.matrix
def test_b6_a_file_of_the_project_that_nobody_has_written_stops_respond_before_any_host_is_asked(project, untouched):
    """Also the second of them: else hosts are approved that nothing will restore."""
    project.azure.announce("Reboot", "web-1", start_delay=0, started_for=0)
    for name in untouched:
        shutil.copy(PROJECT / "tasks" / f"{name}.yml", project.folder / "tasks")
    run, said = project.answer("respond", {})
    assert run.code == 2
    for name in untouched:
        path = project.folder / "tasks" / f"{name}.yml"
        assert f"event_response_{name}: {path}: the file has no task. Write the tasks into it." in said
    assert project.azure.asked() == set()
    assert project.approved == []


@pytest.mark.every_core
@pytest.mark.matrix
def test_f2_respond_takes_a_survey_that_is_filled_in(project):
    event = project.azure.announce("Reboot", "web-1", event_id="1E100000-0000-0000-0000-000000000001", started_for=0)
    project.azure.announce("Freeze", "web-1", notice=90)
    answers = {
        "target": "web-1,web-2",
        "event_response_event_types": ["Reboot", "Freeze"],
        "event_response_event_sources": ["Platform"],
        "event_response_event_ids": "1e10\n",
        "event_response_due_within": "900",
        "event_response_approve": "true",
        "event_response_wait": "true",
    }
    run, said = project.answer("respond", answers)
    assert run.code == 0, said
    assert project.approved == [event]
    assert project.azure.asked() == {"web-1", "web-2"}


@pytest.mark.parametrize("answers", [{}, {"event_response_event_ids": "", "restore_open": "false"}])
@pytest.mark.matrix
def test_f2_restore_takes_a_survey_that_nobody_fills_in(project, answers):
    run, said = project.answer("restore", answers)
    assert run.code == 0, said
    assert project.azure.asked() == set(VMS)


@pytest.mark.matrix
def test_f2_respond_approves_nothing_where_the_answer_is_false_or_the_event_is_not_due(project):
    project.azure.announce("Reboot", "web-1", notice=900)
    run, said = project.answer("respond", {"event_response_due_within": "0"})
    assert run.code == 0, said
    assert "prepare web-1" not in said
    run, said = project.answer("respond", {"event_response_approve": "false", "event_response_wait": "false"})
    assert "prepare web-1" in said
    assert project.approved == []


# 0000 would leave no condition at all where 0 counts as no answer. Others are in tests/unit.
@pytest.mark.parametrize("answer", ["0000", "0123", "12345678"])
def test_f2_p14_an_id_keeps_its_text_or_is_refused(project, answer):
    """Neither 83, which 0123 becomes, nor any other event is approved."""
    begin = answer.ljust(8, "0")
    project.azure.announce("Reboot", "web-1", event_id=f"{begin}-0000-0000-0000-000000000001")
    project.azure.announce("Reboot", "web-1", event_id="83000000-0000-0000-0000-000000000002")
    run, said = project.answer("respond", {"event_response_event_ids": answer}, "--check")
    if not GIVES_TYPES:
        assert run.code == 0, said
        assert begin in said
        assert "83000000" not in said
    else:
        assert run.code == 2
        assert f"event_response_event_ids {NOT_TEXT}" in said
        assert "In AWX, write a comma after it (0123,)." in said
        assert project.azure.asked() == set()
    assert project.approved == []


@pytest.mark.release
def test_f2_an_id_that_looks_like_a_number_is_taken_with_a_comma_after_it(project):
    event = project.azure.announce("Reboot", "web-1", event_id="01230000-0000-0000-0000-000000000001", started_for=0)
    project.azure.announce("Reboot", "web-1", event_id="83000000-0000-0000-0000-000000000002")
    run, said = project.answer("respond", {"event_response_event_ids": "0123,"})
    assert run.code == 0, said
    assert project.approved == [event]


@pytest.mark.parametrize(
    ("prompted", "refused"),
    [
        (
            {
                "event_response_event_types": "Reboot\nFreeze\n",
                "event_response_event_sources": "",
                "event_response_wait_timeout": "60",
                "event_response_reconnect_timeout": "0",
                "event_response_wait": "yes",
                "event_response_restore": "",
                "azure_maintenance_endpoint": "",
            },
            [],
        ),
        (
            {"event_response_event_types": "off", "event_response_due_within": "off"},
            ["event_response_due_within must be a whole number of seconds"]
            + ([f"event_response_event_types {NOT_TEXT} the boolean false."] if GIVES_TYPES else []),
        ),
        (
            {"event_response_wait_timeout": "", "event_response_approve": ""},
            ["event_response_wait_timeout must be a whole number", "event_response_approve must be true or false"],
        ),
    ],
    ids=["good ones", "no conditions", "empty ones"],
)
@pytest.mark.release
def test_f2_variables_of_a_launch_are_taken_or_refused_by_name(project, prompted, refused):
    event = project.azure.announce("Reboot", "web-1", started_for=0)
    run, said = project.answer("respond", {}, "--check", prompted=prompted)
    assert run.code == (2 if refused else 0), said
    for words in refused or [event[:8]]:
        assert words in said
    assert project.approved == []


@pytest.mark.matrix
def test_f2_approve_takes_empty_answers_for_none_and_fails(project):
    project.azure.announce("Reboot", "web-1")
    answers = project.empty_answers("approve")
    assert {"approve_event_ids", "approve_event_types", "approve_event_sources"} < set(answers)
    run, said = project.answer("approve", answers)
    assert run.code == 2
    assert "Nothing says which events to approve" in said
    assert project.approved == []


@pytest.mark.every_core
@pytest.mark.release
def test_f2_approve_takes_a_survey_that_is_filled_in(project):
    event = project.azure.announce("Reboot", "web-1", "web-2", event_id="1E100000-0000-0000-0000-000000000001")
    answers = {
        "target": "web-1",
        "approve_event_ids": "1e10\n",
        "approve_event_types": "Reboot\n",
        "approve_event_sources": "Platform",
        "approve_resources_ready": "web-2\n",
        "approve_wait_for": "nothing",
    }
    run, said = project.answer("approve", answers)
    assert run.code == 0, said
    assert project.approved == [event]


@pytest.mark.release
def test_f2_approve_takes_no_number_for_the_name_of_an_event_or_a_vm(project):
    event = project.azure.announce("Reboot", "web-1", "0123", event_id="01230000-0000-0000-0000-000000000001")
    answers = {"target": "web-1", "approve_event_ids": "0123,", "approve_resources_ready": "0123,"}
    for name in ("approve_event_ids", "approve_resources_ready") if GIVES_TYPES else ():
        run, said = project.answer("approve", {**answers, name: "0123"})
        assert run.code == 2
        assert (
            f"approve_event_ids, approve_event_types, approve_event_sources and approve_resources_ready {NOT_TEXT} 83."
            in said
        )
        assert project.azure.asked() == set()
    run, said = project.answer("approve", answers)
    assert run.code == 0, said
    assert project.approved == [event]


@pytest.mark.parametrize(("answer", "asked"), [("0123", {"0123"}), ("0123,", {"0123"}), ("off", set())])
@pytest.mark.release
def test_f2_the_hosts_are_those_that_were_written_or_nobody_is_asked(project, answer, asked):
    run, said = project.answer("report", {"target": answer}, prompted={"fleet_report_fail_within": ""})
    if isinstance(extra_vars.load(answer), str):
        assert project.azure.asked() == asked
        assert (run.code == 0) == bool(asked), said
    else:
        assert run.code != 0
        assert f"target {NOT_TEXT}" in said
        assert project.azure.asked() == set()


@pytest.mark.matrix
def test_f2_the_report_is_written_where_the_answer_says(project):
    prompted = {"fleet_report_mode": "part", "fleet_report_part": "0", "fleet_report_max_age": ""}
    run, said = project.answer("report", {}, prompted={**prompted, "fleet_report_dir": "here"})
    assert run.code == 0, said
    assert (project.folder / "here" / "parts" / "0.json").exists()
    run, said = project.answer("report", {}, prompted={**prompted, "fleet_report_dir": "off"})
    assert (run.code, (project.folder / "off").exists()) == ((2, False) if GIVES_TYPES else (0, True))
    assert ("fleet_report_dir must be the path of a folder, not False." in said) == GIVES_TYPES


@pytest.mark.parametrize(
    ("name", "filled", "says"),
    [
        ("approve for the checkers", {"event_response_event_ids": "1E10", "maintenance_launch": "0123"}, NO_CHECKER),
        ("install the checker", {"event_checker_state": "present"}, WRONG_RULE),
        ("rehearse the checker", {"rehearse_event_type": "Freeze", "rehearse_notice": "0"}, NO_REHEARSAL),
    ],
)
@pytest.mark.release
def test_f2_what_needs_a_vm_takes_its_answers(project, name, filled, says):
    project.azure.announce("Reboot", "web-1", event_id="1E100000-0000-0000-0000-000000000001")
    for answers in (project.empty_answers(name), filled):
        run, said = project.answer(name, {**answers, "target": "web-1"}, "--check")
        assert run.code == 2
        assert says in said
    assert project.approved == []


@pytest.mark.matrix
def test_f2_a_notice_that_is_no_number_is_refused_before_anything_runs_on_the_vm(project):
    _run, said = project.answer("rehearse the checker", {"target": "web-1", "rehearse_notice": "off"}, "--check")
    assert "rehearse_notice must be a whole number of seconds, not" in said
