# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of an inventory, with variables in them, as the checker gets them; no VM is needed."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import TREE

TEMPLATE = str(TREE / "roles" / "event_checker" / "templates" / "config.json.j2")


@pytest.mark.releases
@pytest.mark.matrix
def test_a_number_of_a_variable_is_a_word_of_a_command_and_a_number_of_a_rule(checker_tasks, tmp_path):
    rule = {"name": "Drain", "match": {"max_duration": "{{ seconds }}"}, "lead_time": "{{ seconds }}", "retries": 0}
    rule["on_announced"] = [{"command": ["drain", "--port", "{{ web_port }}", 5, ""]}, {"playbook": "drain.yml"}]
    rule["on_ended"] = [{"command": ["refill", "{{ web_port }}"]}]
    content = "{{ lookup('ansible.builtin.template', template) | string }}"
    copy = {"content": content, "dest": str(tmp_path / "config.json"), "mode": "0600"}
    run = checker_tasks(
        "check_input.yml",
        tasks=[{"ansible.builtin.copy": copy}],
        event_checker_rules=[rule, {"name": "Others"}],
        web_port=8080,
        seconds=60,
        template=TEMPLATE,
    )
    assert run.code == 0, run.out + run.err
    found = json.loads((tmp_path / "config.json").read_text())["rules"]
    assert found == [
        {
            "name": "Drain",
            "match": {"max_duration": 60},
            "lead_time": 60,
            "retries": 0,
            "on_announced": [{"command": ["drain", "--port", "8080", "5", ""]}, {"playbook": "drain.yml"}],
            "on_ended": [{"command": ["refill", "8080"]}],
        },
        {"name": "Others"},
    ]


@pytest.mark.parametrize("command", [["drain", True], "drain --now"])
def test_what_is_no_list_of_words_is_refused(checker_tasks, command):
    rule = {"name": "Drain", "on_announced": [{"command": command}]}
    run = checker_tasks("check_input.yml", event_checker_rules=[rule])
    assert run.code == 2
    assert "command must be a list of strings, the program first" in run.words


NO_CONDITION = "match has no condition. Write one, or leave match out: a rule without match matches every event."
# What an inventory has where a value was commented out
NULLS = {
    "a condition": ({"match": {"event_sources": None}}, "match: event_sources is null."),
    "one of two conditions": ({"match": {"event_types": ["Reboot"], "query": None}}, "match: query is null."),
    "match": ({"match": None}, NO_CONDITION),
    "no condition": ({"match": {}}, NO_CONDITION),
    "the preparation": ({"on_announced": None, "approve": "when_ready"}, "on_announced is null."),
    "when to approve": ({"approve": None}, "approve is null."),
    "a file of a step": (
        {"on_ended": [{"webhook": "https://example.com/", "token_file": None}]},
        "on_ended, step 1: token_file is null.",
    ),
}


@pytest.mark.releases
@pytest.mark.parametrize(("changes", "sentence"), NULLS.values(), ids=NULLS)
@pytest.mark.matrix
def test_f1_p14_what_is_null_in_a_rule_is_refused(checker_tasks, changes, sentence):
    rule = {"name": "Own restarts", "approve": "at_once", **changes}
    run = checker_tasks("check_input.yml", event_checker_rules=[rule])
    assert run.code == 2
    assert f"rule 1 (Own restarts): {sentence}" in run.words


@pytest.mark.releases
@pytest.mark.matrix
def test_f1_a_lead_time_of_null_and_a_rule_without_match_are_good(checker_tasks):
    run = checker_tasks(
        "check_input.yml", event_checker_rules=[{"name": "All", "approve": "when_ready", "lead_time": None}]
    )
    assert run.code == 0, run.out + run.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("event_checker_rules", None, id="all rules are commented out", marks=pytest.mark.every_core),
        ("event_checker_venv_requirements", None),
        ("event_checker_venv_requirements", "ansible-core"),
    ],
)
def test_f1_what_is_no_list_is_refused_before_the_vm_is_asked(checker_tasks, name, value):
    run = checker_tasks("preflight.yml", **{name: value})
    assert run.code == 2
    assert f"{name} must be a list, such as [], not null or text." in run.words
    assert "Look whether systemd runs" not in run.out
