# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What AWX 24 demands of what it is given, as far as our example project touches it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import yaml

# A line that makes a YAML file a playbook for AWX, at any depth
PLAYS = re.compile(r"\s*-?\s*(hosts|(ansible\.builtin\.)?(include|import_playbook)):")
# The questions of our surveys; AWX has more.
QUESTIONS = ("text", "textarea", "multiplechoice", "multiselect")


class Refused(Exception):
    """AWX refuses the request with this status and body."""

    def __init__(self, status, body):
        super().__init__(status, body)
        self.status, self.body = status, body


class Wrong(Refused):
    """AWX refuses what it was sent."""

    def __init__(self, body):
        super().__init__(400, body)


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
        if kind not in QUESTIONS:
            raise NotImplementedError(f"a question of type {kind}")
        if variables.count(question["variable"]) > 1:
            raise Wrong({"error": f"The variable of survey question {number} is duplicated."})
        if not isinstance(default, str):
            raise Wrong({"error": f"Default value {default} in survey question {number} expected to be {kind}."})
        for limit in ("min", "max"):
            # A bool is an int for Python, and so for AWX.
            if question.get(limit) not in (None, "") and not isinstance(question[limit], int):
                raise Wrong({"error": f"The {limit} limit in survey question {number} expected to be integer."})
        if kind in ("multiselect", "multiplechoice"):
            if "choices" not in question:
                raise Wrong({"error": f"Survey question {number} of type {kind} must specify choices."})
            if "default" in question and any(line not in question["choices"] for line in default.splitlines()):
                raise Wrong({"error": "Default choice must be answered from the choices listed."})


def check_answer(question, answers):
    """Return what is wrong with the answer to a question. A required one has to be given, default or not."""
    name, kind = question["variable"], question["type"]
    if name not in answers:
        return [f"'{name}' value missing"] if question["required"] else []
    value = answers[name]
    if kind in ("text", "textarea"):
        if not isinstance(value, str):
            return [f"Value {value} for '{name}' expected to be a string."]
        low, high = question.get("min"), question.get("max")
        if low not in (None, "") and len(value) < int(low):
            return [f"'{name}' value {value} is too small (length is {len(value)} must be at least {low})."]
        if high not in (None, "") and len(value) > int(high):
            return [f"'{name}' value {value} is too large (must be no more than {high})."]
        return []
    choices = question["choices"].splitlines() if isinstance(question["choices"], str) else question["choices"]
    if kind == "multiselect" and not isinstance(value, list):
        return [f"'{name}' value is expected to be a list."]
    wrong = [one for one in (value if kind == "multiselect" else [value]) if one not in choices]
    return [f"Value {one} for '{name}' expected to be one of {choices}." for one in wrong]


def with_defaults(questions, given):
    """Return the answers of a job: the given ones, and of the others the defaults that are good answers."""
    defaults = {one["variable"]: one["default"] for one in questions if one.get("default") is not None}
    good = {one["variable"] for one in questions if one["variable"] in defaults and not check_answer(one, defaults)}
    return {**{name: value for name, value in defaults.items() if name in good}, **given}


def as_variables(value):
    """Return extra variables as AWX keeps them: a dict, or YAML of one."""
    found = yaml.safe_load(value) if isinstance(value, str) else value
    if value in ("", None):
        return {}
    if not isinstance(found, dict):
        raise Wrong({"extra_vars": [f"Input type `{type(found).__name__}` is not a dictionary"]})
    return found


FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")


def check_rrule(rule):
    errors = []
    if not re.search(r"DTSTART(;[^:]+)?:[0-9]+T[0-9]+Z?", rule):
        errors.append("Valid DTSTART required in rrule. Value should start with: DTSTART:YYYYMMDDTHHMMSSZ")
    if re.search(r"DTSTART:[0-9]+T[0-9]+ ", rule):
        errors.append("DTSTART cannot be a naive datetime.  Specify ;TZINFO= or YYYYMMDDTHHMMSSZZ.")
    if "rrule:" not in rule.lower():
        errors.append("One or more rule required in rrule.")
    for one in re.findall(r"RULE:\S*", rule):
        parts = dict(part.partition("=")[::2] for part in one.partition(":")[2].split(";"))
        if "INTERVAL" not in parts:
            errors.append(f"INTERVAL required in rrule: {one}")
        if parts.get("FREQ") not in FREQUENCIES:
            errors.append(f"rrule parsing failed validation: invalid 'FREQ': {parts.get('FREQ')}")
    if errors:
        raise Wrong({"rrule": errors})
