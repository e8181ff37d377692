# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of the role event_checker agree with each other, with the program, and with what DESIGN promises."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
import yaml

ROLE = Path(__file__).resolve().parents[2] / "roles" / "event_checker"
ENDPOINT = "azure_maintenance_endpoint"
PROGRAM = "ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance"
PHASES = ("on_announced", "on_started", "on_ended")


def load(path):
    return yaml.safe_load((ROLE / path).read_text(encoding="utf-8"))


def template(name):
    return (ROLE / "templates" / f"{name}.j2").read_text(encoding="utf-8")


def settings(name):
    """The lines of a unit that set something."""
    return [line for line in template(name).splitlines() if re.match(r"\w+=", line)]


@pytest.fixture(scope="module")
def options():
    return load("meta/argument_specs.yml")["argument_specs"]["main"]["options"]


@pytest.fixture(scope="module")
def config():
    return importlib.import_module(f"{PROGRAM}.config.config")


@pytest.fixture(scope="module")
def step():
    return importlib.import_module(f"{PROGRAM}.config.step")


def test_argument_specs_and_defaults_have_the_same_variables_and_values(options):
    # A role that had a default for the variable of the whole collection would hide where it is not set.
    own = {name: option.get("default") for name, option in options.items() if name != ENDPOINT}
    assert own == load("defaults/main.yml")


def test_every_default_has_the_type_that_the_specification_asks_for(options):
    types = {"str": str, "list": list, "bool": bool, "int": int, "float": (int, float)}
    for name, option in options.items():
        if option.get("default") is not None:
            assert isinstance(option["default"], types[option["type"]]), name


def test_config_json_has_a_variable_for_each_key_and_each_key_is_one_of_the_program(config):
    keys = re.findall(r"^  '(\w+)':", template("config.json"), re.MULTILINE)
    assert sorted(keys) == sorted(config._CONFIG_FIELDS)
    variables = [name for name in load("defaults/main.yml") if name[len("event_checker_") :] in keys]
    assert len(variables) == len(keys) - 1
    for key in set(keys) - {"rules"}:
        variable = ENDPOINT if key == "endpoint" else f"event_checker_{key}"
        assert re.search(rf"^  '{key}': {variable}\b", template("config.json"), re.MULTILINE), key


def test_the_defaults_are_those_of_the_program(config):
    program, role = config.Config(), load("defaults/main.yml")
    for key in set(config._CONFIG_FIELDS) - {"endpoint", "rules"}:
        if role[f"event_checker_{key}"] is not None:
            assert role[f"event_checker_{key}"] == getattr(program, key), key


def test_the_specification_knows_the_keys_of_a_rule_that_the_program_knows(options, config):
    rule = options["event_checker_rules"]["options"]
    assert rule.keys() == config._RULE_FIELDS.keys()
    assert rule["match"]["options"].keys() == config._MATCH_FIELDS.keys()
    assert rule["approve"]["choices"] == list(config.APPROVE)


def test_no_key_of_a_rule_has_a_default_in_the_specification(options):
    """The program has them; a second place could say something else."""
    rule = options["event_checker_rules"]["options"]
    nested = [rule, rule["match"]["options"], *(rule[phase]["options"] for phase in PHASES)]
    assert [name for level in nested for name, option in level.items() if "default" in option] == []


@pytest.mark.parametrize("phase", PHASES)
def test_the_specification_knows_the_steps_that_the_program_knows(options, step, phase):
    spec = options["event_checker_rules"]["options"][phase]
    kinds = set(step.STEP_OPTIONS)
    others = {name for required, optional in step.STEP_OPTIONS.values() for name in required + optional}
    assert spec["options"].keys() == kinds | others | set(step.OPTIONS_OF_EACH_STEP)
    assert [set(group) for group in spec["mutually_exclusive"]] == [kinds]
    assert [set(group) for group in spec["required_one_of"]] == [kinds]
    needed = {kind: set(required) for kind, (required, _optional) in step.STEP_OPTIONS.items() if required}
    asked = {kind: {names} if isinstance(names, str) else set(names) for kind, names in spec["required_by"].items()}
    assert asked == needed


def test_the_readme_names_every_variable_and_every_key(options, config, step):
    text = (ROLE / "README.md").read_text(encoding="utf-8")
    steps = [name for required, optional in step.STEP_OPTIONS.values() for name in required + optional]
    names = [*options, *config._RULE_FIELDS, *config._MATCH_FIELDS, *step.STEP_OPTIONS, *steps]
    assert [name for name in names if not re.search(rf"`{name}\b", text)] == []


def test_all_of_the_program_is_copied():
    """The role copies *.py of these folders, and nothing else."""
    program = ROLE / "files" / "azure_maintenance"
    files = [path for path in program.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    assert {path.suffix for path in files} == {".py"}
    rooms = {str(path.parent.relative_to(program)) for path in files}
    assert rooms == set(load("vars/main.yml")["__event_checker_program_rooms"])


def test_all_that_the_program_imports_of_the_collection_is_copied():
    copied = set(re.findall(r"'(_\w+)/\*\.py'", load("vars/main.yml")["__event_checker_pure_paths"]))
    sources = (ROLE / "files" / "azure_maintenance").rglob("*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    assert set(re.findall(r"\bmodule_utils\.(_\w+)(?= import|\.)", text)) - {"_errors", "_time_limit"} == copied


@pytest.mark.parametrize("name", load("vars/main.yml")["__event_checker_units"])
def test_every_unit_that_is_removed_is_installed(name):
    assert template(name)


CHECK = """
Type=exec
ExecStart={{ __event_checker_command }} check
StartLimitIntervalSec=0
LogLevelMax=notice
SuccessExitStatus=2
StateDirectory=azure-maintenance
StateDirectoryMode=0700
RuntimeDirectory=azure-maintenance
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
ReadWritePaths=-{{ __event_checker_facts_dir }}
MemoryMax=128M
IPAddressDeny=any
CapabilityBoundingSet=
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
SystemCallFilter=@system-service
"""
RESPOND = """
Type=exec
ExecStart={{ __event_checker_command }} respond %i
StartLimitIntervalSec=0
NotifyAccess=main
RuntimeMaxSec=1d
WatchdogSignal=SIGKILL
KillMode=process
OOMPolicy=continue
Environment=HOME=/root LC_ALL=C.UTF-8
StateDirectory=azure-maintenance
RuntimeDirectory=azure-maintenance
RuntimeDirectoryPreserve=yes
"""
TIMER = """
OnActiveSec=0
OnUnitInactiveSec={{ [event_checker_poll_interval | float, event_checker_timer_interval | float] | min }}s
AccuracySec=100ms
WantedBy=timers.target
"""


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("azure-maintenance-check.service", CHECK),
        ("azure-maintenance-respond@.service", RESPOND),
        ("azure-maintenance-check.timer", TIMER),
    ],
)
def test_the_units_say_what_was_promised(name, lines):
    assert [line for line in lines.split("\n") if line and line not in settings(name)] == []


def test_the_check_can_see_process_1_and_the_boot_id():
    assert [line for line in settings("azure-maintenance-check.service") if line.startswith("Proc")] == []
    assert [line for line in settings("azure-maintenance-check.service") if line.startswith("ProtectProc=")] == []


def test_p15_the_unit_alone_ends_no_response_that_has_not_told_how_long_it_may_take():
    # Where systemd forgot what it was told, it must not take the limit of a short step for a long one.
    assert [line for line in settings("azure-maintenance-respond@.service") if line.startswith("WatchdogSec=")] == []


def test_a_response_is_not_sandboxed_and_its_output_is_kept():
    names = {line.split("=")[0] for line in settings("azure-maintenance-respond@.service")}
    assert [
        name for name in names if name.startswith(("Protect", "Private", "Restrict", "IPAddress", "LogLevel"))
    ] == []


ENDED_AT = "2026-11-21T10:00:00Z"


def said_of(event_id, ended_at, state, phase="announced"):
    """Return what status tells of an event with one response."""
    return {"event_id": event_id, "ended_at": ended_at, "responses": [{"phase": phase, "state": state}]}


@pytest.mark.parametrize(
    ("events", "named"),
    [
        ([], ""),
        ([{"event_id": "A", "ended_at": None, "responses": []}], ""),
        ([said_of("A", None, "succeeded")], "A"),
        ([said_of("A", None, "planned")], "A"),
        ([said_of("A", ENDED_AT, "due")], "A"),
        ([said_of("A", ENDED_AT, "failed")], ""),
        ([said_of("A", ENDED_AT, "failed", phase="ended")], "A"),
        ([said_of("A", ENDED_AT, "succeeded", phase="ended")], ""),
        ([said_of("A", None, "failed"), said_of("{{ 7 * 7 }}", None, "due")], "A, {{ 7 * 7 }}"),
    ],
)
def test_the_removal_names_the_events_with_which_the_checker_has_not_finished(events, named):
    assert not_over(json.dumps({"events": events})) == named


@pytest.mark.parametrize(
    ("mark", "named"),
    [
        ({"event_id": "A", "by": "checker", "counts": True}, "A"),
        ({"event_id": "A", "by": "run", "counts": True}, ""),
        # Of another VM, whose disk was copied
        ({"event_id": "A", "by": "checker", "counts": False}, ""),
    ],
)
def test_p16_where_the_state_was_lost_the_mark_tells_that_the_vm_is_out_of_service(mark, named):
    assert not_over(json.dumps({"events": [], "marks": [mark]})) == named
    told = [said_of("A", None, "succeeded")]
    assert not_over(json.dumps({"events": told, "marks": [mark]})) == "A"


@pytest.mark.parametrize("said", ["", "azure-maintenance: something is wrong", None])
def test_a_program_that_does_not_run_can_be_removed(said):
    assert not_over(said) == ""


def not_over(said):
    """Evaluate what the role does, with what status --json printed."""
    environment = jinja2.Environment(trim_blocks=True)
    environment.filters["from_json"] = json.loads
    environment.tests["match"] = lambda text, pattern: re.match(pattern, text) is not None
    expression = environment.from_string(load("vars/main.yml")["__event_checker_not_over"])
    return expression.render(__event_checker_status={} if said is None else {"stdout": said})


def test_p7_the_journal_tells_why_a_program_that_is_torn_does_not_start(tmp_path):
    package = tmp_path / "azure_maintenance"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "cli.py").write_text("def main(:\n")
    values = {"event_checker_python": sys.executable, "__event_checker_library": str(tmp_path)}
    launcher = tmp_path / "azure-maintenance"
    launcher.write_text(jinja2.Environment().from_string(template("azure-maintenance")).render(values))
    command = [sys.executable, "-IS", str(launcher), "check"]
    done = subprocess.run(command, capture_output=True, text=True, env={"JOURNAL_STREAM": "8:1"}, check=False)
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr
    assert all(line.startswith("<3>") for line in done.stderr.splitlines())


def test_a_removal_that_was_broken_off_can_be_done_again():
    """A timer without its service cannot be started, and makes the role take the checker for installed."""
    assert load("vars/main.yml")["__event_checker_units"][0] == load("vars/main.yml")["__event_checker_timer"]
    (remove,) = (task for task in load("tasks/remove.yml") if task["name"] == "Remove installed files")
    assert remove["loop"].startswith("{{ __event_checker_units ")
    installed = [task["name"] for task in load("tasks/units.yml")]
    assert installed[:2] == ["Install the services", "Install the timer"]


def test_the_removal_asks_before_anything_is_removed_and_the_timer_starts_again():
    (block, _disable) = load("tasks/stop.yml")
    names = [task["name"] for task in block["block"]]
    assert names == [
        "Check that nothing would be lost, while the checker works",
        "Stop the timer",
        "Stop the check, which starts responses",
        "Check again, because an event may have come meanwhile",
    ]
    assert block["rescue"][0]["name"] == "Start the timer again"
    names = [task["name"] for task in load("tasks/refuse_unsafe_removal.yml")]
    assert names.index("Wait until no response runs") < names.index("Ask the checker for unfinished events")
    assert "Stop where the state of the checker would be lost" in names
    assert names[-1] == "Stop where nothing would put the VM back into service"
