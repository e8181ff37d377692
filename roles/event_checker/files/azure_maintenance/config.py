# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration: read it, and refuse what is wrong in it with one sentence that says where."""

from __future__ import annotations

import json
import re
from typing import Any, Iterable, Mapping, NamedTuple
from urllib.parse import unquote

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import excerpt, one_line
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import (
    EVENT_SOURCES,
    EVENT_TYPES,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import (
    DEFAULT_API_VERSION,
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_ENDPOINT,
    DEFAULT_TIMEOUT,
    ImdsClient,
)

from . import validators
from .validators import Check

NEVER = "never"
WHEN_READY = "when_ready"
AT_ONCE = "at_once"
APPROVE = (NEVER, WHEN_READY, AT_ONCE)

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
# What each step may have
OPTIONS_OF_EACH_STEP = ("timeout", "ignore_errors")
# These tell another service, and must not use up the time in which the VM is to be prepared.
_TELLING = (WEBHOOK, AWX_CALLBACK, AWX_JOB)
# Seconds for one try of these, unless the step says more
_TELLING_TIMEOUT = 15.0
# What comes before the template in the address of a callback, the template, and what comes after it
CALLBACK = re.compile(r"(https?://[^\s?#]+/job_templates/)([^\s/?#]+)(/callback/?)")


class ConfigError(Exception):
    """The configuration cannot be used; the message says where and why."""


class Rule(NamedTuple):
    """What is done for the events that match.

    :ivar match: the conditions by name; an absent one asks for nothing.
    :ivar lead_time: seconds before the start at which the steps of on_announced are due; None: at once.
    :ivar timeout: seconds for each step that does not say more; one that tells another service has fewer.
    :ivar retries: further tries of a step after the first has failed, ``retry_delay`` seconds apart.
    """

    name: str
    match: dict[str, Any] = {}  # noqa: RUF012 - never changed
    lead_time: int | None = None
    on_announced: tuple[dict[str, Any], ...] = ()
    on_waiting: tuple[dict[str, Any], ...] = ()
    on_started: tuple[dict[str, Any], ...] = ()
    on_ended: tuple[dict[str, Any], ...] = ()
    approve: str = NEVER
    timeout: float = 600
    retries: int = 2
    retry_delay: float = 10

    @property
    def steps(self) -> tuple[dict[str, Any], ...]:
        return self.on_announced + self.on_waiting + self.on_started + self.on_ended


class Config(NamedTuple):
    """config.json; times are in seconds."""

    endpoint: str = DEFAULT_ENDPOINT
    api_version: str = DEFAULT_API_VERSION
    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT
    timeout: float = DEFAULT_TIMEOUT
    discover_endpoint: bool = False
    resource_name: str | None = None
    poll_interval: float = 1
    timer_interval: float = 60
    metrics_dir: str | None = None
    ansible_playbook: str | None = None
    history_days: int = 400
    rules: tuple[Rule, ...] = ()

    def client(self, retries: bool, timeout: float | None = None) -> ImdsClient:
        return ImdsClient(self.endpoint, self.api_version, self.connect_timeout, timeout or self.timeout, retries)


_SECONDS = validators.number(0, above=True)
_CONFIG_FIELDS: dict[str, Check] = {
    "endpoint": validators.text,
    "api_version": validators.date,
    "connect_timeout": _SECONDS,
    "timeout": _SECONDS,
    "discover_endpoint": validators.flag,
    "resource_name": validators.vm_name,
    # Azure allows five requests a second for all programs of a VM together.
    "poll_interval": validators.number(0.5, most=3600),
    "timer_interval": validators.number(1, most=3600),
    "metrics_dir": validators.path,
    "ansible_playbook": validators.path,
    # For 30 days events are kept with all that was done for them.
    "history_days": validators.number(30, whole=True, most=3660),
    "rules": validators.listing,
}
_RULE_FIELDS: dict[str, Check] = {
    "name": validators.text,
    "match": validators.mapping,
    "lead_time": validators.number(0, whole=True, most=604800),
    "on_announced": validators.listing,
    "on_waiting": validators.listing,
    "on_started": validators.listing,
    "on_ended": validators.listing,
    "approve": validators.text,
    "timeout": _SECONDS,
    "retries": validators.number(0, whole=True, most=1000),
    "retry_delay": validators.number(0),
}
# As soon as the event is seen
_MAY_BE_NULL = ("lead_time",)
_MATCH_FIELDS: dict[str, Check] = {
    "event_types": validators.words(EVENT_TYPES),
    "event_sources": validators.words(EVENT_SOURCES),
    "min_duration": validators.number(0, most=604800),
    "max_duration": validators.number(0, most=604800),
    "description": validators.pattern,
    "query": validators.query,
}


def read_config(path: str) -> Config:
    """Read and check a file.

    :raises ConfigError: it cannot be read or used.
    """
    try:
        with open(0 if path == "-" else path, encoding="utf-8", closefd=path != "-") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read ({reason}). Run the role event_checker again.") from error
    try:
        return parse_config(json.loads(text))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: is nested too deeply. Run the role event_checker again.") from error
    except ValueError as error:
        raise ConfigError(f"{path}: is not JSON ({error}). Run the role event_checker again.") from error


def parse_config(content: Any) -> Config:
    """:raises ConfigError: something in it cannot be used."""
    fields = _take("the configuration", content, _CONFIG_FIELDS)
    rules = fields.pop("rules", [])
    config = Config(**fields, rules=tuple(parse_rule(rule, f"rule {at}") for at, rule in enumerate(rules, start=1)))
    names: set[str] = set()
    for rule in config.rules:
        if rule.name in names:
            raise ConfigError(f"rules: two are named {excerpt(rule.name)}; give each a name of its own.")
        names.add(rule.name)
    try:
        config.client(retries=False)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return config


def parse_rule(content: Any, where: str) -> Rule:
    """:raises ConfigError: something in it cannot be used."""
    if isinstance(content, dict) and isinstance(content.get("name"), str):
        where = f"{where} ({one_line(content['name'])})"
    if isinstance(content, dict) and "match" in content and content["match"] in (None, {}):
        raise ConfigError(
            f"{where}: match has no condition. Write one, or leave match out: a rule without match matches every event."
        )
    _refuse_null(where, content, _MAY_BE_NULL)
    fields = _take(where, content, _RULE_FIELDS)
    if not fields.get("name"):
        raise ConfigError(f"{where}: has no name.")
    given = fields.pop("match", {})
    _refuse_null(f"{where}: match", given)
    match = _take(f"{where}: match", given, _MATCH_FIELDS)
    steps: dict[str, Any] = {
        phase: tuple(parse_step(step, f"{where}: {phase}, step {at}") for at, step in enumerate(fields.pop(phase), 1))
        for phase in ("on_announced", "on_waiting", "on_started", "on_ended")
        if phase in fields
    }
    rule = Rule(match=match, **steps, **fields)
    if rule.approve not in APPROVE:
        raise ConfigError(f"{where}: approve must be {NEVER}, {WHEN_READY} or {AT_ONCE}, not {excerpt(rule.approve)}.")
    if rule.on_waiting and rule.approve == NEVER:
        raise ConfigError(
            f"{where}: on_waiting needs approve: {WHEN_READY} or {AT_ONCE}; with {NEVER} no approval waits."
        )
    if rule.approve == AT_ONCE and rule.lead_time is not None:
        raise ConfigError(f"{where}: lead_time and approve: at_once contradict each other; leave one out.")
    if match.get("min_duration", 0) > match.get("max_duration", float("inf")):
        raise ConfigError(f"{where}: match: min_duration is more than max_duration; no event matches.")
    return rule


def parse_step(content: Any, where: str) -> dict[str, Any]:
    """:raises ConfigError: something in it cannot be used."""
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: must be a mapping such as {{playbook: drain.yml}}, not {_show(content)}.")
    _refuse_null(where, content)
    kinds = [key for key in content if key in STEP_OPTIONS]
    if len(kinds) != 1:
        raise ConfigError(f"{where}: needs exactly one of {', '.join(STEP_OPTIONS)}; it has {len(kinds)}.")
    kind = kinds[0]
    required, optional = STEP_OPTIONS[kind]
    for key, value in content.items():
        if key == kind:
            _check_target(kind, value, where)
        elif key in OPTIONS_OF_EACH_STEP:
            wanted = (_SECONDS if key == "timeout" else validators.flag)(value)
            if wanted:
                raise ConfigError(f"{where}: {key} must be {wanted}, not {_show(value)}.")
        elif key not in required + optional:
            known = required + optional + OPTIONS_OF_EACH_STEP
            raise ConfigError(f"{where}: unknown key {excerpt(str(key))}; {kind} takes {_names(known)}.")
        elif key == "template":
            if isinstance(value, bool) or not isinstance(value, (int, str)) or not _names_template(str(value)):
                raise ConfigError(f"{where}: template must be the number of a job template or NAME++ORGANIZATION.")
        elif validators.path(value):
            raise ConfigError(f"{where}: {key} must be the absolute path of a file, not {_show(value)}.")
    for key in required:
        if key not in content:
            raise ConfigError(f"{where}: {kind} needs {key}.")
    return dict(content)


def tells(step: Mapping[str, Any]) -> bool:
    """Tell whether a step tells another service of the event."""
    return any(kind in step for kind in _TELLING)


def step_timeout(step: Mapping[str, Any], rule: Rule) -> float:
    """Return the seconds for one try of a step."""
    usual = min(_TELLING_TIMEOUT, rule.timeout) if tells(step) else rule.timeout
    return float(step.get("timeout", usual))


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
    elif not isinstance(value, str) or not value or not value.isprintable():
        raise ConfigError(f"{where}: {kind} must be a string on one line, not {_show(value)}.")
    elif kind != PLAYBOOK and validators.split_address(value) is None:
        raise ConfigError(f"{where}: {kind} must be {validators.AN_ADDRESS}.")
    elif kind == AWX_JOB and "?" in value:
        raise ConfigError(f"{where}: {AWX_JOB} must be the address of AWX, without a query.")
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

    Of an address only the host: with many webhooks, whoever knows the path may post to it.
    """
    kind = next((kind for kind in STEP_OPTIONS if kind in step), None)
    if kind is None:
        return "approve" if step.get("approve") is True else "a step that cannot be read"
    target = " ".join(step[kind]) if kind == COMMAND else step[kind]
    if kind not in (COMMAND, PLAYBOOK):
        target = "".join(re.findall(r"^\w+://[^/?#]+", target))
    return f"{kind} {target} {step['template']}" if kind == AWX_JOB else f"{kind} {target}".rstrip()


def _take(where: str, content: Any, known: Mapping[str, Check]) -> dict[str, Any]:
    """Return the values that are given (null stands for the default), each of them checked."""
    if not isinstance(content, dict):
        raise ConfigError(f"{where} must be a mapping, not {_show(content)}.")
    for key, value in content.items():
        if key not in known:
            raise ConfigError(f"{where}: unknown key {excerpt(str(key))}; known are {_names(known)}.")
        wanted = None if value is None else known[key](value)
        if wanted == validators.NO_JMESPATH:
            raise ConfigError(f"{where}: {wanted}")
        if wanted:
            raise ConfigError(f"{where}: {key} must be {wanted}, not {_show(value)}.")
    return {key: value for key, value in content.items() if value is not None}


def _refuse_null(where: str, content: Any, may_be_null: tuple[str, ...] = ()) -> None:
    """Refuse a value that was commented out: it must not stand for every event, or for nothing to do (P14)."""
    if isinstance(content, dict):
        for key, value in content.items():
            if value is None and key not in may_be_null:
                raise ConfigError(f"{where}: {one_line(str(key))} is null. Write a value, or leave the key out.")


def _names(words: Iterable[str]) -> str:
    return ", ".join(words) or "no other"


def _show(value: Any) -> str:
    return excerpt(value) if isinstance(value, str) else one_line(json.dumps(value))
