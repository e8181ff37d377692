# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A step of a rule: its options, and the properties of its kind."""

from __future__ import annotations

import re
from typing import Any, Mapping
from urllib.parse import unquote

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import excerpt

from . import values
from .values import ConfigError, join_names, kind_of, refuse_null, show

PLAYBOOK = "playbook"
COMMAND = "command"
WEBHOOK = "webhook"
AWX_CALLBACK = "awx_callback"
AWX_JOB = "awx_job"
# For each kind of step the options that it needs, and those it may have
STEP_OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    PLAYBOOK: ((), ()),
    COMMAND: ((), ()),
    WEBHOOK: ((), ("ca_file", "hmac_file", "token_file")),
    AWX_CALLBACK: (("key_file",), ("ca_file",)),
    AWX_JOB: (("template", "token_file"), ("ca_file",)),
}
# The options that each step may have
OPTIONS_OF_EACH_STEP = ("timeout", "ignore_errors")
# These tell another service, and must not use up the time in which the VM is to be prepared.
_TELLING = (WEBHOOK, AWX_CALLBACK, AWX_JOB)
# The address of a callback: the part before the template, the template, and the part after it
CALLBACK = re.compile(r"(https?://[^\s?#]+/job_templates/)([^\s/?#]+)(/callback/?)")


def parse_step(content: Any, where: str) -> dict[str, Any]:
    """:raises ConfigError: something in it cannot be used."""
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: must be a mapping such as {{playbook: drain.yml}}, not {kind_of(content)}.")
    refuse_null(where, content)
    kinds = [key for key in content if key in STEP_OPTIONS]
    if len(kinds) != 1:
        raise ConfigError(f"{where}: needs exactly one of {', '.join(STEP_OPTIONS)}; it has {len(kinds)}.")
    kind = kinds[0]
    required, optional = STEP_OPTIONS[kind]
    for key, value in content.items():
        if key == kind:
            _check_target(kind, value, where)
        elif key in OPTIONS_OF_EACH_STEP:
            wanted = (values.SECONDS if key == "timeout" else values.flag)(value)
            if wanted:
                raise ConfigError(f"{where}: {key} must be {wanted}, not {show(value)}.")
        elif key not in required + optional:
            known = required + optional + OPTIONS_OF_EACH_STEP
            raise ConfigError(f"{where}: unknown key {excerpt(str(key))}; {kind} takes {join_names(known)}.")
        elif key == "template":
            if isinstance(value, bool) or not isinstance(value, (int, str)) or not _names_template(str(value)):
                raise ConfigError(f"{where}: template must be the number of a job template or NAME++ORGANIZATION.")
        elif values.path(value):
            raise ConfigError(f"{where}: {key} must be the absolute path of a file.")
    for key in required:
        if key not in content:
            raise ConfigError(f"{where}: {kind} needs {key}.")
    return dict(content)


def tells(step: Mapping[str, Any]) -> bool:
    """Tell whether a step tells another service of the event."""
    return any(kind in step for kind in _TELLING)


def ignores_errors(step: Mapping[str, Any]) -> bool:
    """Tell whether the steps behind a step run although it failed. A webhook that fails makes no VM unprepared."""
    return bool(step.get("ignore_errors", WEBHOOK in step))


def _check_target(kind: str, value: Any, where: str) -> None:
    if kind == COMMAND:
        if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value) or not value[0]:
            raise ConfigError(
                f"{where}: command must be a list of strings, the program first: there is no shell to take it apart."
            )
        if any("\0" in word for word in value):
            raise ConfigError(f"{where}: command holds a NUL character, which no program can be given.")
    elif not isinstance(value, str) or not value:
        raise ConfigError(f"{where}: {kind} must be a string on one line, not {kind_of(value)}.")
    elif not value.isprintable():
        raise ConfigError(
            f"{where}: {kind} must be a string on one line; it has a line break, also at its end, or another character "
            "that cannot be shown."
        )
    elif kind != PLAYBOOK and values.split_address(value) is None:
        raise ConfigError(f"{where}: {kind} must be {values.AN_ADDRESS}.")
    elif kind == AWX_JOB and "?" in value:
        raise ConfigError(f"{where}: {AWX_JOB} must be the address of AWX, without a query.")
    elif kind == AWX_JOB and "/job_templates" in value:
        raise ConfigError(f"{where}: {AWX_JOB} must be the address of AWX alone; template names the job template.")
    elif kind == AWX_CALLBACK:
        found = CALLBACK.fullmatch(value)
        if not found or not _names_template(unquote(found[2])):
            raise ConfigError(
                f"{where}: {AWX_CALLBACK} must be an address …/api/v2/job_templates/N/callback/, "
                "where N is the number of a job template or NAME++ORGANIZATION."
            )


def _names_template(template: str) -> bool:
    # AWX takes a name alone for a template of that name in any organization.
    name, plus, organization = template.rpartition("++")
    return bool(name.strip() and organization.strip()) if plus else re.fullmatch("[0-9]+", template) is not None


def describe_step(step: Mapping[str, Any]) -> str:
    """Return a few words that tell a step from its neighbours.

    Of an address only the host: with many webhooks, everybody who knows the path may post to it.
    """
    kind = next((kind for kind in STEP_OPTIONS if kind in step), None)
    if kind is None:
        return "approve" if step.get("approve") is True else "a step that cannot be read"
    target = " ".join(step[kind]) if kind == COMMAND else step[kind]
    if kind not in (COMMAND, PLAYBOOK):
        target = "".join(re.findall(r"^\w+://[^/?#]+", target))
    return f"{kind} {target} {step['template']}" if kind == AWX_JOB else f"{kind} {target}".rstrip()
