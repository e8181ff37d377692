# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What AWX 24 demands of what it is given, as far as our example project touches it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

TYPE_OF = {
    "organizations": "organization",
    "inventories": "inventory",
    "credentials": "credential",
    "execution_environments": "execution_environment",
    "projects": "project",
    "job_templates": "job_template",
    "workflow_job_templates": "workflow_job_template",
    "workflow_job_template_nodes": "workflow_job_template_node",
    "schedules": "schedule",
    "notification_templates": "notification_template",
}
# A line that makes a YAML file a playbook for AWX, at any depth
PLAYS = re.compile(r"\s*-?\s*(hosts|(ansible\.builtin\.)?(include|import_playbook)):")
# What the parts of a survey must be
ANSWERS = {
    "text": str,
    "textarea": str,
    "password": str,
    "multiplechoice": str,
    "multiselect": str,
    "integer": int,
    "float": (float, int),
}


class Wrong(Exception):
    """AWX answers 400 with this body."""

    def __init__(self, body):
        super().__init__(body)
        self.body = body


def listed_playbooks(project):
    """Return the files that AWX offers as playbooks of a project, relative to its folder."""
    found = []
    for folder, _folders, names in os.walk(project):
        inside = Path(folder).relative_to(project).parts
        if any(part in ("roles", "tasks", "group_vars", "host_vars") or part.startswith(".") for part in inside):
            continue
        for name in names:
            path = Path(folder, name)
            if path.suffix in (".yml", ".yaml"):
                lines = path.read_text(errors="ignore").splitlines()
                if any(map(PLAYS.match, lines)) or (lines and lines[0].startswith("$ANSIBLE_VAULT;")):
                    found.append(str(path.relative_to(project)))
    return sorted(found)


def page(items):
    return {"count": len(items), "next": None, "previous": None, "results": items}


def check_survey(survey):
    for field, kind in (("name", str), ("description", str), ("spec", list)):
        if not isinstance(survey.get(field), kind):
            raise Wrong({"error": f"Field '{field}' is missing from survey spec."})
    if not survey["spec"]:
        raise Wrong({"error": "'spec' doesn't contain any items."})
    variables = [question.get("variable") for question in survey["spec"]]
    for number, question in enumerate(survey["spec"]):
        for field, kind in (("type", str), ("question_name", str), ("variable", str), ("required", bool)):
            if not isinstance(question.get(field), kind):
                raise Wrong({"error": f"'{field}' in survey question {number} expected to be {kind.__name__}."})
        kind, default = question["type"], question.get("default", "")
        if kind not in ANSWERS or variables.count(question["variable"]) > 1:
            raise Wrong({"error": f"survey question {number} is of no known type, or its variable is duplicated."})
        if default != "" and not isinstance(default, ANSWERS[kind]):
            raise Wrong({"error": f"Default value {default} in survey question {number} expected to be {kind}."})
        # A bool is an int for Python, and none for AWX.
        limits = [question.get(limit, 0) for limit in ("min", "max")]
        if any(isinstance(limit, bool) or not isinstance(limit, int) for limit in limits):
            raise Wrong({"error": f"The min limit in survey question {number} expected to be integer."})
        if kind in ("multiselect", "multiplechoice"):
            if "choices" not in question:
                raise Wrong({"error": f"Survey question {number} of type {kind} must specify choices."})
            if "default" in question and any(line not in question["choices"] for line in default.splitlines()):
                raise Wrong({"error": "Default choice must be answered from the choices listed."})


def check_answer(question, answers):
    """Return what is wrong with the answer to a question; empty text is an answer, an empty choice is none."""
    name, kind = question["variable"], question["type"]
    if name not in answers:
        return [f"'{name}' value missing"] if question["required"] and "default" not in question else []
    value = answers[name]
    if kind in ("text", "textarea"):
        if not isinstance(value, str):
            return [f"Value {value} for '{name}' expected to be a string."]
        if not question.get("min", 0) <= len(value) <= question.get("max", 1024):
            return [f"'{name}' value {value} is too small or too large."]
    elif kind == "multiplechoice" and value not in question["choices"]:
        return [f"Value {value} for '{name}' expected to be one of {question['choices']}."]
    elif kind == "multiselect":
        if not isinstance(value, list):
            return [f"'{name}' value is expected to be a list."]
        return [f"Value {one} for '{name}' expected to be one of …" for one in value if one not in question["choices"]]
    return []


def check_rrule(rule):
    starts = re.findall(r"DTSTART(?:;[^:]+)?:[0-9]+T[0-9]+Z?", rule)
    errors = []
    if len(starts) != 1:
        errors.append("Valid DTSTART required in rrule. Value should start with: DTSTART:YYYYMMDDTHHMMSSZ")
    elif starts[0].startswith("DTSTART:") and not starts[0].endswith("Z"):
        errors.append("DTSTART cannot be a naive datetime.  Specify ;TZINFO= or YYYYMMDDTHHMMSSZZ.")
    rules = re.findall(r"RULE:\S*", rule)
    if not rules:
        errors.append("One or more rule required in rrule.")
    errors += [f"INTERVAL required in rrule: {one}" for one in rules if "INTERVAL=" not in one]
    if errors:
        raise Wrong({"rrule": errors})


# What a message may name, with the values AWX tries it out with
STUB = {
    "job": {"id": 5, "name": "Stub", "status": "successful", "artifacts": {}, "job_slice_number": 0},
    "job_friendly_name": "Job",
    "url": "https://towerhost/#/jobs/playbook/1010",
    "job_metadata": "{}",
    "approval_status": "approved",
    "approval_node_name": "Approve Me",
    "workflow_url": "https://towerhost/#/jobs/workflow/1010",
}


def render(body, **context):
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
    return json.loads(environment.from_string(body).render({**STUB, **context}))


def check_notification(template):
    configuration = template["notification_configuration"]
    assert template["notification_type"] == "webhook", "the stand-in knows no other type"
    for field, kind in (("url", str), ("headers", dict)):
        if not isinstance(configuration.get(field), kind):
            raise Wrong([f"Missing required fields for Notification Configuration: {[field]}."])
    for field, default in (
        ("http_method", "POST"),
        ("disable_ssl_verification", False),
        ("username", ""),
        ("password", ""),
    ):
        configuration.setdefault(field, default)
        if type(configuration[field]) is not type(default):
            raise Wrong([f"Configuration field '{field}' incorrect type."])
    for event, message in (template["messages"] or {}).items():
        if event not in ("started", "success", "error", "workflow_approval"):
            raise Wrong({"messages": [f"Event '{event}' invalid"]})
        if message is not None and not set(message) <= {"message", "body"}:
            raise Wrong({"messages": ["Message type invalid, must be either 'message' or 'body'"]})
        if message and message.get("body"):
            render(message["body"])
