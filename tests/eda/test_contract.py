# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is promised beside the code: documentation, schema, rulebooks, the guide, and what is shipped."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import runpy
import socket
import ssl
import subprocess
import tarfile
import textwrap
import threading
import urllib.request
from pathlib import Path

import jsonschema
import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.tests.eda.conftest import EDA, SOURCE
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program
from ansible_collections.fleetops.azure_maintenance.tests.simulator import ROOT, plain_environment
from ansible_rulebook.json_generator import generate_dict_rulesets
from ansible_rulebook.rules_parser import parse_rule_sets
from ansible_rulebook.util import substitute_variables
from ansible_rulebook.validators import Validate

FILTER = EDA / "plugins" / "event_filter" / "no_templates.py"
RULEBOOKS = sorted((EDA / "rulebooks").iterdir())
SCHEMA = json.loads((SOURCE.parent / "schemas" / "scheduled_events.json").read_text())
GUIDE = (ROOT / "docs" / "docsite" / "rst" / "guide_eda.rst").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^   \$ ((?:.*\\\n)*.*)$", GUIDE, re.MULTILINE)


def test_documentation_schema_and_code_agree(plugin):
    documented = yaml.safe_load(plugin["DOCUMENTATION"])["options"]
    kinds = {"str": "string", "float": "number"}
    options = plugin["Options"]
    assert list(documented) == list(SCHEMA["properties"]) == list(options._fields)
    for name, option in documented.items():
        assert SCHEMA["properties"][name]["type"] == kinds[option["type"]]
        assert option.get("default") == SCHEMA["properties"][name].get("default") == options._field_defaults[name]
    assert list(inspect.signature(plugin["main"]).parameters) == ["queue", "args"]


LIMITS = [("poll_interval", 0.2, 0.19), ("poll_interval", 60, 61), ("timeout", 86400, 86401), ("connect_timeout", 1, 0)]


@pytest.mark.parametrize(("name", "right", "wrong"), LIMITS)
def test_schema_and_code_have_the_same_limits(plugin, name, right, wrong):
    jsonschema.validate({name: right}, SCHEMA)
    plugin["read_options"]({name: right})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({name: wrong}, SCHEMA)
    with pytest.raises(ValueError, match=name):
        plugin["read_options"]({name: wrong})


def test_examples_are_right(plugin):
    for example in yaml.safe_load(plugin["EXAMPLES"]):
        jsonschema.validate(example["fleetops.azure_maintenance.scheduled_events"], SCHEMA)
    filtered = runpy.run_path(str(FILTER))
    assert yaml.safe_load(filtered["DOCUMENTATION"])["options"] == {}
    ((source),) = yaml.safe_load(filtered["EXAMPLES"])
    assert source["filters"] == [{"fleetops.azure_maintenance.no_templates": None}]


@pytest.mark.parametrize("rulebook", RULEBOOKS, ids=lambda path: path.stem)
def test_the_rulebooks_are_valid(rulebook):
    """As ansible-rulebook validates them."""
    Validate.rulebook(yaml.safe_load(rulebook.read_text()))


@pytest.mark.parametrize("rulebook", RULEBOOKS, ids=lambda path: path.stem)
def test_what_prepares_or_restores_is_tried_again(rulebook):
    """A connection that is lost for a moment costs no preparation."""
    (ruleset,) = yaml.safe_load(rulebook.read_text())
    for rule in ruleset["rules"]:
        ((_kind, action),) = rule["action"].items()
        # The playbook respond goes on by itself.
        assert (action.get("retries"), action.get("delay")) == (2, 5) or action["name"].endswith(".respond")


@pytest.mark.parametrize("rulebook", RULEBOOKS, ids=lambda path: path.stem)
def test_p15_in_a_fleet_no_playbook_waits_for_another(rulebook):
    (ruleset,) = yaml.safe_load(rulebook.read_text())
    of_one_vm = rulebook.stem.startswith("scheduled_events")
    assert ruleset.get("execution_strategy") == (None if of_one_vm else "parallel")


def begin(rulebook, variables):
    """Do what ansible-rulebook does with a rulebook and its variables at its start."""
    rulesets = parse_rule_sets(yaml.safe_load(rulebook.read_text()), variables)
    generate_dict_rulesets(rulesets, variables)
    substitute_variables(rulesets[0].sources[0].source_args, variables)


@pytest.mark.parametrize("rulebook", RULEBOOKS, ids=lambda path: path.stem)
def test_p14_a_rulebook_without_one_of_its_variables_does_not_begin(rulebook):
    """At the event it would prepare nothing, and only the log would say so."""
    needed = set(re.findall(r"\{\{ (\w+)(?! \| default)\b", rulebook.read_text())) - {"event"}
    variables = dict.fromkeys(needed, "something")
    begin(rulebook, variables)
    for name in needed:
        with pytest.raises(Exception, match=name):
            begin(rulebook, {key: value for key, value in variables.items() if key != name})


TEXTS = [
    ("{{ x }}", "{ { x }}"),
    ("{% if x %}", "{ % if x %}"),
    ("{# x #}", "{ # x #}"),
    ("{{{{", "{ { { {"),
    ("#jinja2: variable_start_string:'[['", "# jinja2: variable_start_string:'[['"),
    ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
    ("100 % {of} #it", "100 % {of} #it"),
]


@pytest.mark.parametrize(("text", "plain"), TEXTS)
@pytest.mark.hostile_text
def test_the_filter_leaves_no_template_at_any_depth(text, plain):
    filtered = runpy.run_path(str(FILTER))["main"]({"a": [{text: text}, text], "b": None, "c": 5, "d": True})
    assert filtered == {"a": [{plain: plain}, plain], "b": None, "c": 5, "d": True}


def test_p7_an_event_that_is_nested_too_deeply_does_not_end_the_source():
    event = {"a": "{{ 7 }}"}
    for _level in range(20_000):
        event = {"a": event}
    assert runpy.run_path(str(FILTER))["main"](event) == {"left_out": "The event is nested too deeply."}


def test_what_is_shipped(tmp_path):
    build = ["ansible-galaxy", "collection", "build", "--output-path", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, env=plain_environment())
    (artifact,) = tmp_path.iterdir()
    with tarfile.open(artifact) as archive:
        names = {name for name in archive.getnames() if name.startswith("extensions/") and "." in name}
    shipped = [path for path in EDA.rglob("*") if path.suffix in (".py", ".json", ".yml")]
    assert names == {str(path.relative_to(ROOT)) for path in shipped}
    for extension in yaml.safe_load((ROOT / "meta" / "extensions.yml").read_text())["extensions"]:
        assert (ROOT / "extensions" / extension["args"]["ext_dir"]).is_dir()


def test_the_guide_runs_each_rulebook():
    shown = {command for command in COMMANDS if command.startswith("ansible-rulebook ")}
    rest = "-i inventory -e variables.yml"
    assert shown == {f"ansible-rulebook -r fleetops.azure_maintenance.{path.stem} {rest}" for path in RULEBOOKS}
    needed = set(re.findall(r"\{\{ (\w+)", "".join(path.read_text() for path in RULEBOOKS))) - {"event"}
    given = set()
    for block in re.findall(r":caption: variables.yml\n\n((?:   .*\n)+)", GUIDE):
        given |= set(yaml.safe_load(block))
    # It has a default that is right for most.
    assert needed - {"webhook_host"} == given


def test_i9_systemd_takes_the_unit_of_the_guide(tmp_path):
    analyze = need_program("systemd-analyze", package="systemd")
    (block,) = re.findall(r":caption: /etc/systemd/system/ansible-rulebook.service\n\n((?:   .*\n|\n)+)", GUIDE)
    unit = textwrap.dedent(block)
    program = re.search(r"^ExecStart=(\S+) -r (\S+)", unit, re.MULTILINE)
    assert program[2] in {f"fleetops.azure_maintenance.{path.stem}" for path in RULEBOOKS}
    path = tmp_path / "ansible-rulebook.service"
    # It says too where the program is not installed.
    path.write_text(unit.replace(program[1], "/bin/true"))
    ended = subprocess.run([analyze, "verify", str(path)], capture_output=True, text=True, check=False)
    assert "ansible-rulebook" not in ended.stdout + ended.stderr
    assert ended.returncode == 0, ended.stderr


def test_i9_no_secret_of_the_guide_lies_in_the_folder_that_ansible_rulebook_copies_for_each_run():
    secrets = set(re.findall(r"/etc/ansible-rulebook/[a-z]+\.(?:token|key)", GUIDE))
    assert len(secrets) == 2
    variables = [yaml.safe_load(block) for block in re.findall(r":caption: variables.yml\n\n((?:   .*\n)+)", GUIDE)]
    playbooks = [
        each[f"{kind}_playbook"] for each in variables for kind in ("prepare", "restore") if f"{kind}_playbook" in each
    ]
    assert playbooks
    for playbook in playbooks:
        copied = (Path("/etc/ansible-rulebook") / playbook).parent
        assert not [secret for secret in secrets if copied in Path(secret).parents]


def test_i9_a_checker_trusts_the_certificate_that_the_guide_makes(tmp_path):
    """And no other name."""
    need_program("openssl", package="openssl")
    make = next(command for command in COMMANDS if "openssl req" in command).replace("\\\n", "")
    make = make.replace("sudo ", "").replace("/etc/ansible-rulebook", str(tmp_path))
    subprocess.run(["sh", "-c", make], check=True, capture_output=True)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(tmp_path / "tls.pem", tmp_path / "tls.key")
    trusted = ssl.create_default_context(cafile=str(tmp_path / "tls.pem"))
    for name, is_good in (("eda.example.com", True), ("other.example.com", False)):
        here, there = socket.socketpair()
        server = threading.Thread(target=_shake_hands, args=(served, there))
        server.start()
        with here, contextlib.nullcontext() if is_good else pytest.raises(ssl.SSLCertVerificationError):
            trusted.wrap_socket(here, server_hostname=name).close()
        server.join()


def _shake_hands(context, connection):
    with connection, contextlib.suppress(OSError):
        context.wrap_socket(connection, server_side=True).close()


def test_the_other_commands_of_the_guide():
    """But the simulator's time passes when the source has told what was before, not at a hundred times its pace."""
    start, watch = (command for command in COMMANDS if "127.0.0.1:8181" in command)
    shown, limit = "--speed 100 --stop-after 60", "timeout 15 "
    assert shown in start
    assert watch.startswith(limit)
    port = str(free_port())
    how = {"cwd": ROOT, "env": plain_environment(), "text": True}
    start = start.replace(shown, "--clock manual --stop-after 600").replace("8181", port)
    subprocess.run(["bash", "-c", start], stdout=subprocess.DEVNULL, check=True, **how)
    watch = f"exec {watch.removeprefix(limit)}".replace("8181", port)
    told = ""
    with subprocess.Popen(["bash", "-c", watch], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how) as source:
        for seconds, words in (
            (6, '"maintenance_phase": "announced"'),
            (900, '"maintenance_phase": "started"'),
            (3600, '"maintenance_outcome": "completed"'),
        ):
            tell(port, "clock", {"advance": seconds})
            while words not in told:
                line = source.stdout.readline()
                assert line, told
                told += line
        source.terminate()
        assert source.stderr.read() == ""
    tell(port, "stop", {})


def tell(port, path, what):
    url = f"http://127.0.0.1:{port}/simulator/{path}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, json.dumps(what).encode()), timeout=600) as answer:
        answer.read()


def test_p13_where_a_webhook_is_all_that_prepares_a_post_that_failed_is_no_preparation():
    blocks = re.findall(r":caption: variables of the role event_checker\n\n((?:   .*\n|\n)+)", GUIDE)
    rules = [rule for block in blocks for rule in yaml.safe_load(block)["event_checker_rules"]]
    steps = [step for rule in rules for name in rule if name.startswith("on_") for step in rule[name]]
    posts = [step for step in steps if "webhook" in step]
    assert len(posts) == 3
    assert [step["ignore_errors"] for step in posts] == [False] * 3


def test_p16_an_end_is_posted_again_while_the_machine_of_ansible_rulebook_boots():
    """Otherwise the VM would stay out of service until somebody looks."""
    block = re.search(r":caption: variables of the role event_checker\n\n((?:   .*\n|\n)+)", GUIDE)[1]
    (rule,) = yaml.safe_load(block)["event_checker_rules"]
    assert rule["retries"] * rule["retry_delay"] == 600
    assert "ten minutes long" in GUIDE
