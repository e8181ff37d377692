# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What config.json may say, and the sentence that tells what is wrong in it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config import (
    values as validators,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    Config,
    Rule,
    parse_config,
    read_config,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.step import (
    STEP_OPTIONS,
    describe_step,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.values import (
    ConfigError,
)

pytestmark = pytest.mark.filterwarnings("error")

COMMAND = {"command": ["/bin/true"]}
WEBHOOK = {"webhook": "https://eda.example.com:5000/endpoint"}
CALLBACK = {"awx_callback": "https://awx.example.com/api/v2/job_templates/7/callback/", "key_file": "/etc/key"}
JOB = {"awx_job": "https://awx.example.com", "template": 7, "token_file": "/etc/token"}


def rule(**options: Any) -> dict[str, Any]:
    return {"rules": [{"name": "Drain", **options}]}


def step(content: Any) -> dict[str, Any]:
    return rule(on_started=[COMMAND, content])


def without(key: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with this step, but for one of its keys."""
    return step({name: value for name, value in content.items() if name != key})


def refusal(content: Any) -> str:
    """Return why a configuration is refused: one sentence on one line, or two with what to do."""
    with pytest.raises(ConfigError) as caught:
        parse_config(content)
    message = str(caught.value)
    assert message.isprintable()
    assert message.endswith(".")
    assert len(message) < 700
    return message


def test_everything_has_a_default():
    config = parse_config({})
    assert config == Config()
    assert config._asdict() == {
        "endpoint": "http://169.254.169.254",
        "api_version": "2020-07-01",
        "connect_timeout": 3,
        "timeout": 150,
        "discover_endpoint": False,
        "resource_name": None,
        "poll_interval": 1,
        "timer_interval": 60,
        "metrics_dir": None,
        "ansible_playbook": None,
        "history_days": 400,
        "rules": (),
    }


def test_a_rule_needs_a_name_only():
    (found,) = parse_config({"rules": [{"name": "Noted"}]}).rules
    assert found._asdict() == {
        "name": "Noted",
        "match": {},
        "lead_time": None,
        "on_announced": (),
        "on_waiting": (),
        "on_started": (),
        "on_ended": (),
        "approve": "never",
        "timeout": 600,
        "retries": 2,
        "retry_delay": 10,
    }


def test_null_stands_for_the_default_of_a_setting():
    assert parse_config(dict.fromkeys(Config._fields)) == Config()


IS_NULL = "is null. Write a value, or leave the key out."
MATCH = ("event_types", "event_sources", "min_duration", "max_duration", "description", "query")
RULE_KEYS = sorted({*Rule._fields} - {"name", "match", "lead_time"})


def test_f1_null_is_a_lead_time_that_is_documented():
    assert parse_config(rule(lead_time=None)).rules == (Rule("Drain"),)


@pytest.mark.parametrize("key", MATCH)
@pytest.mark.parametrize(
    "others", [{}, {"event_types": ["Reboot"], "description": "x"}], ids=["alone", "beside others"]
)
def test_f1_p14_a_condition_that_is_null_is_refused(key, others):
    message = refusal(rule(match={**others, key: None}, approve="at_once"))
    assert message == f"rule 1 (Drain): match: {key} {IS_NULL}"


@pytest.mark.parametrize("match", [None, {}], ids=str)
def test_f1_p14_a_match_without_a_condition_is_refused(match):
    assert refusal(rule(match=match, approve="at_once")) == (
        "rule 1 (Drain): match has no condition. Write one, or leave match out: "
        "a rule without match matches every event."
    )


@pytest.mark.parametrize("key", RULE_KEYS)
def test_f1_p14_a_key_of_a_rule_that_is_null_is_refused(key):
    """Of all, on_announced: with approve: when_ready, nothing would be prepared and the event approved."""
    message = refusal(rule(**{"approve": "when_ready", key: None}))
    assert message == f"rule 1 (Drain): {key} {IS_NULL}"


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"playbook": None}, "playbook"),
        ({**WEBHOOK, "token_file": None}, "token_file"),
        ({**JOB, "template": None}, "template"),
    ],
)
def test_f1_p14_a_key_of_a_step_that_is_null_is_refused(content, key):
    message = refusal(step(content))
    assert message == f"rule 1 (Drain): on_started, step 2: {key} {IS_NULL}"


# A part of the configuration, and how it comes back.
GOOD = [
    ({"endpoint": "http://127.0.0.1:8181/vm/web-1"}, "endpoint", "http://127.0.0.1:8181/vm/web-1"),
    ({"api_version": "2017-03-01"}, "api_version", "2017-03-01"),
    ({"connect_timeout": 0.5}, "connect_timeout", 0.5),
    ({"timeout": 86400}, "timeout", 86400),
    ({"discover_endpoint": True}, "discover_endpoint", True),
    ({"resource_name": "WEB-1"}, "resource_name", "WEB-1"),
    ({"poll_interval": 0.5}, "poll_interval", 0.5),
    ({"poll_interval": 3600}, "poll_interval", 3600),
    ({"timer_interval": 1}, "timer_interval", 1),
    ({"timer_interval": 3600}, "timer_interval", 3600),
    ({"metrics_dir": "/var/lib/node exporter"}, "metrics_dir", "/var/lib/node exporter"),
    ({"ansible_playbook": "/opt/venv/bin/ansible-playbook"}, "ansible_playbook", "/opt/venv/bin/ansible-playbook"),
    ({"history_days": 30}, "history_days", 30),
    ({"rules": []}, "rules", ()),
]


@pytest.mark.parametrize(("content", "key", "value"), GOOD, ids=str)
def test_a_key_with_a_good_value(content, key, value):
    assert parse_config(content) == Config()._replace(**{key: value})


# Options of a rule, each of which comes back as it was written
GOOD_RULES = [
    {"lead_time": 0},
    {"lead_time": 604800},
    {"approve": "when_ready", "lead_time": 900},
    {"approve": "at_once"},
    {"timeout": 0.1},
    {"retries": 0},
    {"retries": 1000},
    {"retry_delay": 0},
    {"match": {"event_types": ["freeze", "REBOOT"]}},
    {"match": {"event_sources": ["user"]}},
    {"match": {"min_duration": 0, "max_duration": 9.5}},
    {"match": {"description": "(?i)host.*"}},
    {"on_announced": [{"playbook": "drain.yml"}]},
    {"on_announced": [{"playbook": "/srv/drain.yml"}]},
    {"on_waiting": [COMMAND], "approve": "when_ready"},
    {"on_started": [COMMAND, COMMAND]},
    {"on_ended": [{"command": ["x", "", "a\nb"]}]},
    {"on_ended": [WEBHOOK]},
    {"on_ended": [{"webhook": "http://[::1]:5000"}]},
    {"on_ended": [{"webhook": "https://a/b?c=d&e"}]},
    {"on_ended": [{**WEBHOOK, "ca_file": "/a", "hmac_file": "/b", "token_file": "/c"}]},
    {"on_ended": [CALLBACK]},
    {"on_ended": [{**CALLBACK, "ca_file": "/a"}]},
    {"on_ended": [JOB]},
    {"on_ended": [{**JOB, "template": "A++B"}]},
]


@pytest.mark.parametrize("options", GOOD_RULES, ids=str)
def test_a_rule_with_a_good_option(options):
    as_steps = {key: tuple(value) if key.startswith("on_") else value for key, value in options.items()}
    assert parse_config(rule(**options)).rules == (Rule("Drain", **as_steps),)


APPROVE = "approve must be never, when_ready or at_once"
# A configuration, and what the message must name.
BAD = [
    pytest.param([], ["the configuration", "a mapping"], id="no mapping"),
    pytest.param(None, ["the configuration", "a mapping"], id="null"),
    pytest.param({"endpont": "x"}, ["endpont", "endpoint"], id="unknown key"),
    pytest.param({"": 1}, ['unknown key ""'], id="empty key"),
    pytest.param({"a\n\x1b[31m": 1}, [r"a\n\u001b[31m"], id="key with control characters"),
    pytest.param({"endpoint": ""}, ["endpoint", "a string"], id="empty endpoint"),
    pytest.param({"endpoint": 5}, ["endpoint", "a string", "not 5"], id="endpoint is a number"),
    pytest.param({"endpoint": "169.254.169.254"}, ["endpoint", "http://"], id="endpoint without a scheme"),
    pytest.param({"endpoint": "https://127.0.0.1"}, ["endpoint", "http://"], id="endpoint with TLS"),
    pytest.param({"endpoint": "http://127.0.0.1:99999"}, ["endpoint"], id="endpoint with a port too high"),
    pytest.param({"api_version": 20200701}, ["api_version", "a date"], id="api_version is a number"),
    pytest.param({"api_version": "2020-07-01 x"}, ["api_version", "a date"], id="api_version with a space"),
    pytest.param({"api_version": "2020-07-01\r\nHost: x"}, ["api_version", "a date"], id="api_version with a line end"),
    pytest.param({"connect_timeout": 0}, ["connect_timeout", "more than 0"], id="connect_timeout is 0"),
    pytest.param({"connect_timeout": "3"}, ["connect_timeout", "a number", "not"], id="connect_timeout is text"),
    pytest.param({"connect_timeout": True}, ["connect_timeout", "a number", "not true"], id="connect_timeout is true"),
    pytest.param({"timeout": 86401}, ["timeout", "at most 86400"], id="timeout is more than a day"),
    pytest.param({"timeout": -1}, ["timeout", "more than 0"], id="timeout is negative"),
    pytest.param({"timeout": float("nan")}, ["timeout", "not NaN"], id="timeout is NaN"),
    pytest.param({"timeout": float("inf")}, ["timeout", "not Infinity"], id="timeout is infinite"),
    pytest.param({"timeout": 10**300}, ["timeout", "at most 86400"], id="timeout has 300 digits"),
    pytest.param({"discover_endpoint": "yes"}, ["discover_endpoint", "true or false"], id="discover_endpoint is text"),
    pytest.param({"discover_endpoint": 1}, ["discover_endpoint", "true or false"], id="discover_endpoint is 1"),
    pytest.param({"resource_name": ["web-1"]}, ["resource_name", "can call a VM"], id="resource_name is a list"),
    pytest.param({"resource_name": " web-1"}, ["resource_name", '" web-1"'], id="resource_name begins with a space"),
    pytest.param({"poll_interval": 0.4}, ["poll_interval", "at least 0.5"], id="poll_interval is too short"),
    pytest.param({"poll_interval": 3601}, ["poll_interval", "at most 3600"], id="poll_interval is too long"),
    pytest.param({"timer_interval": 0.9}, ["timer_interval", "at least 1"], id="timer_interval is too short"),
    pytest.param({"history_days": 29}, ["history_days", "at least 30"], id="history_days is too short"),
    pytest.param({"history_days": 30.5}, ["history_days", "whole"], id="history_days is no whole number"),
    pytest.param({"timer_interval": False}, ["timer_interval", "a number"], id="timer_interval is false"),
    pytest.param({"metrics_dir": "metrics"}, ["metrics_dir", "an absolute path"], id="metrics_dir is relative"),
    pytest.param(
        {"metrics_dir": '/a"b'}, ["metrics_dir", "without quotes"], id="metrics_dir that ends a word of a unit"
    ),
    pytest.param({"metrics_dir": "/a\nb"}, ["metrics_dir", "line breaks"], id="metrics_dir that ends a line of a unit"),
    pytest.param({"metrics_dir": "/a\0b"}, ["metrics_dir", "an absolute path"], id="metrics_dir with NUL"),
    pytest.param({"ansible_playbook": "~/bin/x"}, ["ansible_playbook", "absolute"], id="ansible_playbook is relative"),
    pytest.param({"rules": {"name": "x"}}, ["rules", "a list"], id="rules is a mapping"),
    pytest.param({"rules": ["Drain"]}, ["rule 1 must be a mapping"], id="a rule is a string"),
    pytest.param({"rules": [None]}, ["rule 1 must be a mapping"], id="a rule is null"),
    pytest.param({"rules": [{"name": "A"}, {}]}, ["rule 2", "no name"], id="a rule without a name"),
    pytest.param(
        {"rules": [{"name": ""}]}, ["rule 1", "name must be a string that is not empty"], id="a rule with an empty name"
    ),
    pytest.param({"rules": [{"name": 5}]}, ["rule 1", "name", "a string"], id="a rule named by a number"),
    pytest.param({"rules": [{"name": "A"}, {"name": "A"}]}, ["rules", "two", '"A"'], id="two rules of one name"),
    pytest.param(rule(matches={}), ["rule 1 (Drain)", "matches", "match"], id="unknown key in a rule"),
    pytest.param(rule(match=[]), ["Drain", "match", "a mapping"], id="match is a list"),
    pytest.param(rule(match={"type": "Freeze"}), ["Drain", "match", "type", "event_types"], id="unknown condition"),
    pytest.param(rule(match={"event_types": "Freeze"}), ["event_types", "a list of"], id="event_types is a string"),
    pytest.param(
        rule(match={"event_types": ["Freeze", "Frezee"]}),
        ["Drain", "event_types", "Frezee", "Reboot"],
        id="unknown event type",
    ),
    pytest.param(rule(match={"event_types": [None]}), ["event_types"], id="event type null"),
    pytest.param(rule(match={"event_types": []}), ["event_types", "one or more of Freeze"], id="P14: no event type"),
    pytest.param(rule(match={"event_sources": []}), ["event_sources", "one or more"], id="P14: no event source"),
    pytest.param(rule(match={"description": ""}), ["description", "that is not empty"], id="P14: no description"),
    pytest.param(rule(match={"event_sources": ["Azure"]}), ["event_sources", "Platform"], id="unknown event source"),
    pytest.param(rule(match={"min_duration": -1}), ["min_duration", "at least 0"], id="negative duration"),
    pytest.param(rule(match={"min_duration": True}), ["min_duration", "number"], id="duration is true"),
    pytest.param(rule(match={"max_duration": float("inf")}), ["max_duration", "at most"], id="infinite duration"),
    pytest.param(rule(match={"max_duration": float("nan")}), ["max_duration", "not NaN"], id="duration is NaN"),
    pytest.param(
        rule(match={"min_duration": 10, "max_duration": 9}),
        ["Drain", "min_duration", "max_duration"],
        id="durations that no event has",
    ),
    pytest.param(
        rule(match={"description": "(unclosed"}),
        ["rule 1 (Drain)", "match", "description", "regular expression", "unterminated"],
        id="description does not compile",
    ),
    pytest.param(rule(match={"description": 5}), ["Drain", "description", "not 5"], id="description is a number"),
    pytest.param(rule(match={"description": [{}]}), ["Drain", "description"], id="description is a list"),
    pytest.param(rule(lead_time=-1), ["Drain", "lead_time", "at least 0"], id="negative lead_time"),
    pytest.param(rule(lead_time=0.5), ["lead_time", "whole number"], id="half a second of lead_time"),
    pytest.param(rule(lead_time="900"), ["lead_time", "whole number"], id="lead_time is text"),
    pytest.param(rule(lead_time=True), ["lead_time", "whole number"], id="lead_time is true"),
    pytest.param(rule(lead_time=604801), ["lead_time", "604800"], id="lead_time of more than a week"),
    pytest.param(rule(lead_time=900, approve="at_once"), ["Drain", "lead_time", "at_once"], id="lead_time and at_once"),
    pytest.param(rule(approve="always"), [f'rule 1 (Drain): {APPROVE}, not "always".'], id="unknown approve"),
    pytest.param(rule(approve=True), [f"rule 1 (Drain): {APPROVE}, not true."], id="approve is true"),
    pytest.param(rule(approve=""), [APPROVE], id="approve is empty"),
    pytest.param(rule(timeout=0), ["Drain", "timeout", "more than 0"], id="no time for a step"),
    pytest.param(rule(retries=1.5), ["Drain", "retries", "whole number"], id="one and a half retries"),
    pytest.param(rule(retries=1001), ["Drain", "retries", "1000"], id="too many retries"),
    pytest.param(rule(retry_delay=-0.1), ["Drain", "retry_delay", "at least 0"], id="negative retry_delay"),
    pytest.param(rule(on_announced={}), ["Drain", "on_announced", "a list"], id="on_announced is a mapping"),
    pytest.param(rule(on_waiting=[COMMAND]), ["Drain", "on_waiting", "when_ready"], id="on_waiting alone"),
    pytest.param(
        rule(on_waiting=[COMMAND], approve="never"), ["Drain", "on_waiting", "never"], id="on_waiting and never"
    ),
    pytest.param(rule(on_started="x"), ["Drain", "on_started", "a list"], id="on_started is a string"),
    pytest.param(step("drain.yml"), ["Drain", "on_started, step 2", "a mapping"], id="a step is a string"),
    pytest.param(step(None), ["on_started, step 2", "a mapping"], id="a step is null"),
    pytest.param(step({}), ["step 2", "exactly one of", "has 0"], id="an empty step"),
    pytest.param(step({**COMMAND, **WEBHOOK}), ["step 2", "has 2"], id="two steps in one"),
    pytest.param(step({"shell": "x"}), ["step 2", "playbook, command"], id="an unknown kind of step"),
    pytest.param(
        step({**COMMAND, "ca_file": "/a"}), ["ca_file", "command takes timeout, ignore_errors"], id="an option too many"
    ),
    pytest.param(step({**WEBHOOK, "template": 1}), ["template", "webhook takes ca_file"], id="an option of another"),
    pytest.param(step({**COMMAND, "timeout": 0}), ["step 2", "timeout must be"], id="no time for a step"),
    pytest.param(step({**WEBHOOK, "ignore_errors": "no"}), ["ignore_errors must be", '"no"'], id="a flag that is text"),
    pytest.param(step({"playbook": ""}), ["step 2", "playbook"], id="an empty playbook"),
    pytest.param(step({"playbook": ["a.yml"]}), ["step 2", "playbook"], id="a list of playbooks"),
    pytest.param(step({"playbook": "a\nb.yml"}), ["step 2", "playbook", "a line break"], id="a playbook on two lines"),
    pytest.param(step({"command": "rm -rf /"}), ["step 2", "command", "list"], id="a command for a shell"),
    pytest.param(step({"command": []}), ["step 2", "command"], id="an empty command"),
    pytest.param(step({"command": [""]}), ["step 2", "command"], id="a command without a program"),
    pytest.param(step({"command": ["a", 5]}), ["step 2", "command", "strings"], id="a command with a number"),
    pytest.param(step({"command": ["a", "b\0c"]}), ["step 2", "command", "NUL"], id="a command with NUL"),
    pytest.param(step({"webhook": "ftp://a/b"}), ["step 2", "webhook", "https://"], id="a webhook by FTP"),
    pytest.param(step({"webhook": "https://"}), ["step 2", "webhook"], id="a webhook without a host"),
    pytest.param(step({"webhook": "https://a/b c"}), ["step 2", "webhook"], id="a webhook with a space"),
    pytest.param(step({"webhook": "https://a/b#c"}), ["step 2", "webhook"], id="a webhook with a fragment"),
    pytest.param(step({"webhook": "https://a:port/b"}), ["step 2", "webhook"], id="a webhook with a port of words"),
    pytest.param(step({**JOB, "awx_job": "https://a?b=c"}), ["step 2", "awx_job"], id="a query behind AWX"),
    pytest.param(
        step({**JOB, "awx_job": "https://a/api/v2/job_templates/7/launch/"}),
        ["awx_job must be the address of AWX alone; template names the job template."],
        id="a template behind AWX",
    ),
    pytest.param(step({**WEBHOOK, "ca_file": "ca.pem"}), ["ca_file", "absolute path"], id="a relative ca_file"),
    pytest.param(step({**WEBHOOK, "hmac_file": 5}), ["hmac_file", "absolute path"], id="hmac_file is a number"),
    pytest.param(step({**WEBHOOK, "token_file": "/a\0"}), ["token_file", "absolute path"], id="token_file with NUL"),
    pytest.param(without("key_file", CALLBACK), ["awx_callback needs key_file"], id="no key_file"),
    pytest.param(without("template", JOB), ["awx_job needs template"], id="no template"),
    pytest.param(without("token_file", JOB), ["awx_job needs token_file"], id="no token_file"),
    *(
        pytest.param(step({**JOB, "template": template}), ["template must be the number"], id=f"template {template}")
        for template in ("Drain", "Drain+Ops", "++Ops", "Drain++", True, " ")
    ),
    *(
        pytest.param(
            step({**CALLBACK, "awx_callback": f"https://awx.example.com{path}"}),
            ["awx_callback must be an address …/api/v2/job_templates/N/callback/", "NAME++ORGANIZATION"],
            id=f"callback {path}",
        )
        for path in (
            "",
            "/api/v2/job_templates/7/launch/",
            "/api/v2/job_templates/Drain/callback/",
            "/api/v2/job_templates/Drain%20it/callback/",
        )
    ),
    pytest.param(step({**JOB, "template": 1.5}), ["template", "number"], id="template is a fraction"),
]


@pytest.mark.parametrize(("content", "words"), BAD)
def test_what_is_wrong_is_named_in_one_sentence(content, words):
    message = refusal(content)
    for word in words:
        assert word in message


@pytest.mark.parametrize("kind", ["webhook", "awx_callback", "awx_job"])
@pytest.mark.parametrize("url", ["https://me:s3cret@example.com/", "https://s3cret@example.com", "http://s3cret@a/b@c"])
def test_an_address_with_a_password_is_refused_and_not_repeated(kind, url):
    message = refusal(step({**{"awx_callback": CALLBACK, "awx_job": JOB}.get(kind, WEBHOOK), kind: url}))
    assert "without a password" in message
    assert "s3cret" not in message


SECRET = "https://hooks.example.com/s3cret"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (step({"webhook": f"{SECRET}\n"}), "webhook must be a string on one line; it has a line break"),
        (step({"webhook": {"url": SECRET}}), "webhook must be a string on one line, not a mapping."),
        (step({"webhook": [SECRET]}), "webhook must be a string on one line, not a list."),
        (step({"webhook": ""}), "webhook must be a string on one line, not an empty string."),
        (step({"awx_callback": {"url": SECRET, "host_config_key": "s3cret"}}), "awx_callback must be a string"),
        (step({**WEBHOOK, "token_file": "s3cret"}), "token_file must be the absolute path of a file."),
        (step(f"webhook {SECRET}"), "must be a mapping such as {playbook: drain.yml}, not a string."),
        (step([{"webhook": SECRET}]), "must be a mapping such as {playbook: drain.yml}, not a list."),
        (rule(on_announced={"webhook": SECRET}), "on_announced must be a list, not a mapping."),
        (rule(on_announced=f"webhook {SECRET}"), "on_announced must be a list, not a string."),
        ({"rules": {"on_announced": [{"webhook": SECRET}]}}, "rules must be a list, not a mapping."),
        ({"rules": [[{"webhook": SECRET}]]}, "rule 1 must be a mapping, not a list."),
    ],
)
def test_p12_what_may_be_a_secret_is_not_repeated(content, words):
    message = refusal(content)
    assert words in message
    assert "s3cret" not in message


@pytest.mark.parametrize(
    "url",
    [
        "https://contoso.webhook.office.com/webhookb2/1@2/x",
        "https://h.example.com/in?to=ops@example.com",
        "https://h.example.com?token=abc",
        "https://h.example.com?to=ops@example.com",
        "https://[2001:db8::1]:8443/a@b",
    ],
)
def test_f3_only_what_stands_before_the_host_is_a_password(url):
    (found,) = parse_config(rule(on_ended=[{"webhook": url}])).rules
    assert found.on_ended == ({"webhook": url},)


def test_a_name_that_is_long_or_strange_is_told_in_short():
    message = refusal({"rules": [{"name": "x\n\x1b[31m" * 1000, "approve": "y" * 1000}]})
    assert r"x\n\u001b[31m" in message


JMESPATH_ERRORS = [
    pytest.param("resources[", "incomplete", id="S18 it ends too early"),
    pytest.param("", "expression", id="empty"),
    pytest.param("nosuch(", "JMESPath", id="an unknown function"),
    pytest.param("a b\nc", "JMESPath", id="on two lines"),
    pytest.param(5, "not 5", id="a number"),
    pytest.param(["a"], "JMESPath", id="a list"),
    pytest.param("(" * 100_000, "JMESPath", id="nested too deeply"),
]


@pytest.mark.parametrize(("query", "word"), JMESPATH_ERRORS)
def test_a_query_that_does_not_compile(query, word):
    pytest.importorskip("jmespath", reason="not part of a target's Python")
    message = refusal(rule(match={"query": query}))
    assert message.startswith("rule 1 (Drain): match: query must be ")
    assert word.lower() in message.lower()


def test_a_good_query_is_kept():
    pytest.importorskip("jmespath", reason="not part of a target's Python")
    (found,) = parse_config(rule(match={"query": "length(resources) > `1`"})).rules
    assert found.match == {"query": "length(resources) > `1`"}


def test_a_query_finds_its_library_where_python_was_started_without():
    """As the command starts it, because the folders of libraries take time to find."""
    folder = str(Path(validators.__file__).parents[8])
    program = f"""
import site, sys
sys.path.insert(0, {folder!r})
from {validators.__name__} import query
find, found = site.main, []
site.main = lambda: found.append(find())
print(query("a"), query("b"), len(found))
"""
    said = subprocess.check_output([sys.executable, "-IS", "-c", program], text=True).strip()
    # Once is enough, however many rules have a query.
    assert (said == "None None 1") == (importlib.util.find_spec("jmespath") is not None), said


def test_a_query_without_the_library_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "jmespath", None)
    said = "query needs the Python library jmespath. Install python3-jmespath, or leave query out."
    assert refusal(rule(match={"query": "x"})) == f"rule 1 (Drain): match: {said}"


def test_the_rules_keep_their_order():
    names = ["c", "a", "b"]
    found = parse_config({"rules": [{"name": name} for name in names]})
    assert [each.name for each in found.rules] == names


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"playbook": "drain.yml"}, "playbook drain.yml"),
        ({"command": ["/bin/sh", "-c", "a b"]}, "command /bin/sh -c a b"),
        # The path of a webhook is often all that keeps others from posting there.
        ({"webhook": "https://example.com:5000/services/s3cret?key=s3cret"}, "webhook https://example.com:5000"),
        ({"webhook": "https://example.com"}, "webhook https://example.com"),
        ({"webhook": "https://example.com?key=s3cret"}, "webhook https://example.com"),
        ({"webhook": "s3cret"}, "webhook"),
        (CALLBACK, "awx_callback https://awx.example.com"),
        (JOB, "awx_job https://awx.example.com 7"),
        ({"approve": True}, "approve"),
    ],
)
def test_a_step_is_told_from_its_neighbours_without_its_secrets(content, told):
    assert describe_step(content) == told


class TestFile:
    """The file as it lies on the disk."""

    @staticmethod
    def refusal(path: Path, content: bytes) -> str:
        path.write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            read_config(str(path))
        message = str(caught.value)
        assert message.startswith(f"{path}: ")
        assert message.isprintable()
        return message

    def test_a_good_one(self, tmp_path):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"poll_interval": 2, "rules": [{"name": "Ümläut 🚧"}]}, ensure_ascii=False), "utf-8")
        assert read_config(str(path)) == Config(poll_interval=2, rules=(Rule("Ümläut 🚧"),))

    @pytest.mark.parametrize(
        ("content", "word"),
        [
            pytest.param(b"", "not JSON", id="empty"),
            pytest.param(b"{", "not JSON", id="it ends too early"),
            pytest.param(b"{'rules': []}", "not JSON", id="single quotes"),
            pytest.param(b"rules: []", "not JSON", id="YAML"),
            pytest.param(b"\xff\xfe{}", "cannot be read", id="not UTF-8"),
            pytest.param(b"[]", "a mapping", id="a list"),
            pytest.param(b"{} {}", "not JSON", id="two"),
            pytest.param(b'{"timeout": NaN}', "timeout", id="NaN"),
            pytest.param(b'{"timeout": 1e999}', "timeout", id="too large for a number"),
            pytest.param(
                b'{"rules": [{"name": "A", "match": {"min_duration": Infinity}}]}', "rule 1 (A)", id="Infinity"
            ),
            pytest.param(b"[" * 100_000, "nested too deeply", id="nested too deeply"),
            pytest.param(b'{"endpoint": ' + b"[" * 100_000, "nested too deeply", id="nested too deeply in a key"),
            pytest.param(b'{"endpoint": ' + b"[" * 900 + b"]" * 900 + b"}", "e", id="nested nearly too deeply"),
        ],
    )
    def test_a_bad_one(self, tmp_path, content, word):
        assert word in self.refusal(tmp_path / "config.json", content)

    def test_a_missing_one(self, tmp_path):
        with pytest.raises(ConfigError, match=r"cannot be read .No such file or directory.. Run the role"):
            read_config(str(tmp_path / "config.json"))

    def test_one_of_root(self, tmp_path, monkeypatch):
        def refuse(*_arguments, **_more):
            raise PermissionError(13, "Permission denied")

        with monkeypatch.context() as patched:
            patched.setattr("builtins.open", refuse)
            with pytest.raises(ConfigError) as refused:
                read_config(str(tmp_path / "config.json"))
        assert str(refused.value).endswith("cannot be read (Permission denied). Do this as root.")

    def test_a_folder(self, tmp_path):
        with pytest.raises(ConfigError, match=r"cannot be read .Is a directory."):
            read_config(str(tmp_path))


def test_every_option_of_every_step_has_a_test():
    options = {kind: set(required + optional) for kind, (required, optional) in STEP_OPTIONS.items()}
    assert options == {
        "playbook": set(),
        "command": set(),
        "webhook": {"ca_file", "hmac_file", "token_file"},
        "awx_callback": {"key_file", "ca_file"},
        "awx_job": {"template", "token_file", "ca_file"},
    }
