# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration: read it, and refuse a fault in it with one sentence that says where."""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple

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

from . import values
from .step import parse_step, tells
from .values import Check, ConfigError, refuse_null, take

NEVER = "never"
WHEN_READY = "when_ready"
AT_ONCE = "at_once"
APPROVE = (NEVER, WHEN_READY, AT_ONCE)

# Seconds for a step that tells another service, unless it has its own
_TELLING_TIMEOUT = 15.0


class Rule(NamedTuple):
    """The steps for the events that match.

    :ivar match: the conditions by name; an absent one matches every event.
    :ivar lead_time: seconds before the start at which the steps of on_announced are due; None: at once.
    :ivar timeout: seconds for each step without its own; one that tells another service has fewer.
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


_CONFIG_FIELDS: dict[str, Check] = {
    "endpoint": values.text,
    "api_version": values.date,
    "connect_timeout": values.SECONDS,
    "timeout": values.SECONDS,
    "discover_endpoint": values.flag,
    "resource_name": values.vm_name,
    # Azure allows five requests a second for all programs of a VM together.
    "poll_interval": values.number(0.5, most=3600),
    "timer_interval": values.number(1, most=3600),
    "metrics_dir": values.unit_path,
    "ansible_playbook": values.path,
    # For 30 days events are kept with all that was done for them.
    "history_days": values.number(30, whole=True, most=3660),
    "rules": values.listing,
}
_RULE_FIELDS: dict[str, Check] = {
    "name": values.text,
    "match": values.mapping,
    "lead_time": values.number(0, whole=True, most=604800),
    "on_announced": values.listing,
    "on_waiting": values.listing,
    "on_started": values.listing,
    "on_ended": values.listing,
    "approve": values.one_of(APPROVE),
    "timeout": values.SECONDS,
    "retries": values.number(0, whole=True, most=1000),
    "retry_delay": values.number(0),
}
# As soon as the event is seen
_MAY_BE_NULL = ("lead_time",)
_MATCH_FIELDS: dict[str, Check] = {
    "event_types": values.words(EVENT_TYPES),
    "event_sources": values.words(EVENT_SOURCES),
    "min_duration": values.number(0, most=604800),
    "max_duration": values.number(0, most=604800),
    "description": values.pattern,
    "query": values.query,
}


def config_name(path: str) -> str:
    """Return what a message calls the file."""
    return "standard input" if path == "-" else path


def read_config(path: str) -> Config:
    """Read and check a file, or standard input where the path is ``-``.

    :raises ConfigError: it cannot be read or used.
    """
    name = config_name(path)
    try:
        with open(0 if path == "-" else path, encoding="utf-8", closefd=path != "-") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        advice = "Do this as root." if isinstance(error, PermissionError) else "Run the role event_checker again."
        raise ConfigError(f"{name}: cannot be read ({reason}). {advice}") from error
    try:
        return parse_config(json.loads(text))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: is nested too deeply. Run the role event_checker again.") from error
    except ValueError as error:
        raise ConfigError(f"{name}: is not JSON ({error}). Run the role event_checker again.") from error


def parse_config(content: Any) -> Config:
    """:raises ConfigError: something in it cannot be used."""
    fields = take("the configuration", content, _CONFIG_FIELDS)
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
    refuse_null(where, content, _MAY_BE_NULL)
    fields = take(where, content, _RULE_FIELDS)
    if not fields.get("name"):
        raise ConfigError(f"{where}: has no name.")
    given = fields.pop("match", {})
    refuse_null(f"{where}: match", given)
    match = take(f"{where}: match", given, _MATCH_FIELDS)
    steps: dict[str, Any] = {
        phase: tuple(parse_step(step, f"{where}: {phase}, step {at}") for at, step in enumerate(fields.pop(phase), 1))
        for phase in ("on_announced", "on_waiting", "on_started", "on_ended")
        if phase in fields
    }
    rule = Rule(match=match, **steps, **fields)
    if rule.on_waiting and rule.approve == NEVER:
        raise ConfigError(
            f"{where}: on_waiting needs approve: {WHEN_READY} or {AT_ONCE}; with {NEVER} no approval waits."
        )
    if rule.approve == AT_ONCE and rule.lead_time is not None:
        raise ConfigError(f"{where}: lead_time and approve: at_once contradict each other; leave one out.")
    if match.get("min_duration", 0) > match.get("max_duration", float("inf")):
        raise ConfigError(f"{where}: match: min_duration is more than max_duration; no event matches.")
    return rule


def step_timeout(step: Mapping[str, Any], rule: Rule) -> float:
    """Return the seconds for one try of a step."""
    usual = min(_TELLING_TIMEOUT, rule.timeout) if tells(step) else rule.timeout
    return float(step.get("timeout", usual))
