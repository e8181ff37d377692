# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""B1: a playbook of the checker has succeeded when it ran a task, by the real ansible-playbook; P13."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    Config,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import (
    playbook_evidence,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.steps import (
    StepContext,
    StepError,
    run_step,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.records import (
    Moment,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import Folders
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import test_programs
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import NOW, make_event

crowd = test_programs.crowd

PROGRAM = "ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance"
DRAIN = {"ansible.builtin.command": {"argv": ["true"]}}
SIMULATED = {"ansible.builtin.file": {"path": "/nosuch/drained", "state": "directory"}}
FAIL = {"ansible.builtin.command": {"argv": ["false"]}}


def play(*tasks, hosts="localhost", **keywords):
    return {"hosts": hosts, "gather_facts": False, "tasks": list(tasks), **keywords}


def with_keywords(task, **keywords):
    return {**task, **keywords}


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    """No setting of this machine, and a working directory of the test's own."""
    for name in [name for name in os.environ if name.startswith("ANSIBLE_") and name != "ANSIBLE_COLLECTIONS_PATH"]:
        monkeypatch.delenv(name)
    for folder in ("home", "work", "run", "playbooks"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANSIBLE_PYTHON_INTERPRETER", sys.executable)
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def folders(tmp_path):
    return Folders(playbooks=str(tmp_path / "playbooks"), run=str(tmp_path / "run"))


@pytest.fixture
def drain(folders, tmp_path):
    """Run a playbook as the checker does, and return the sentence it comes to: drain(play, ...)."""

    def run(*plays, program=None):
        Path(folders.playbooks, "drain.yml").write_text(json.dumps(plays))
        # More files, for what includes them
        Path(folders.playbooks, "work.yml").write_text(json.dumps([DRAIN]))
        Path(folders.playbooks, "skipped.yml").write_text(json.dumps([with_keywords(DRAIN, when=False)]))
        Path(folders.playbooks, "other.yml").write_text(json.dumps([play(DRAIN)]))
        context = StepContext(1, make_event(), "announced", None, "web-1", "mark", False)
        config = Config(ansible_playbook=program or shutil.which("ansible-playbook"))
        try:
            return run_step(
                {"playbook": "drain.yml"}, context, config, folders, Moment(NOW.timestamp(), 5000.0, "boot-1"), 600
            )
        finally:
            assert os.listdir(folders.run) == []

    return run


ELSEWHERE = {"ansible.builtin.add_host": {"name": "lb", "ansible_connection": "local"}}
RAN = {
    "a task that changes something": [play(DRAIN)],
    "a task that finds nothing to change": [play(with_keywords(DRAIN, changed_when=False))],
    "after the facts were gathered": [play(DRAIN, gather_facts=True)],
    "on all hosts": [play(DRAIN, hosts="all")],
    "on 127.0.0.1": [play(DRAIN, hosts="127.0.0.1")],
    "behind a play for others": [play(DRAIN, hosts="web"), play(DRAIN)],
    "before a play for others": [play(DRAIN), play(DRAIN, hosts="web")],
    "in an included file": [play({"ansible.builtin.include_tasks": "work.yml"})],
    "in an imported file": [play({"ansible.builtin.import_tasks": "work.yml"})],
    "in an imported playbook": [{"ansible.builtin.import_playbook": "other.yml"}],
    "as a handler": [play(with_keywords(DRAIN, notify="h", tags="always"), handlers=[with_keywords(DRAIN, name="h")])],
    "in a rescue": [play({"block": [FAIL], "rescue": [DRAIN]})],
    "delegated": [play(with_keywords(DRAIN, delegate_to="lb", vars={"ansible_connection": "local"}))],
    "on a host that it added": [play(ELSEWHERE), play(DRAIN, hosts="lb")],
    "in the background": [play(with_keywords(DRAIN, **{"async": 60, "poll": 0}))],
    "beside others that are skipped": [play(with_keywords(DRAIN, when=False), DRAIN)],
    "for some of a loop": [play(with_keywords(DRAIN, loop=[1, 2], when="item == 2"))],
    "that failed and is to count as good": [play(with_keywords(FAIL, failed_when=False))],
    "that only says something": [play({"ansible.builtin.debug": {"msg": "There is nothing to drain."}})],
}


@pytest.mark.parametrize("plays", RAN.values(), ids=RAN)
def test_p13_a_playbook_that_ran_a_task_has_succeeded(drain, plays):
    assert drain(*plays) == "It ended with status 0."


NOT_THIS_VM = ["no play is for it", "Write hosts: localhost"]
NO_TASK_LEFT = ["no task was left to run", "tags"]
NOTHING_RAN = {
    "for other hosts": ([play(DRAIN, hosts="web")], [*NOT_THIS_VM, "hosts: web"]),
    "for all but this one": ([play(DRAIN, hosts="localhost:!localhost")], [*NOT_THIS_VM, "localhost:!localhost"]),
    "two plays for others": ([play(DRAIN, hosts=["web", "db"]), play(hosts="lb")], [*NOT_THIS_VM, "web, db, lb"]),
    "no task": ([play()], NO_TASK_LEFT),
    "facts": ([play(gather_facts=True)], NO_TASK_LEFT),
    "facts by a task": ([play({"ansible.builtin.setup": {"gather_subset": "!all"}})], NO_TASK_LEFT),
    "variables": ([play({"ansible.builtin.set_fact": {"drained": True}})], NO_TASK_LEFT),
    "an added host": ([play(ELSEWHERE), play(DRAIN, hosts="web")], NO_TASK_LEFT),
    "the end": ([play({"ansible.builtin.meta": "end_play"}, DRAIN)], NO_TASK_LEFT),
    "a tag that nobody asks for": ([play(with_keywords(DRAIN, tags="never"))], NO_TASK_LEFT),
    "a simulation": ([play(with_keywords(SIMULATED, check_mode=True))], NO_TASK_LEFT),
    "skipped": ([play(*[with_keywords(DRAIN, when=False)] * 2)], ["(tasks skipped: 2)", "debug"]),
    "a loop over nothing": ([play(with_keywords(DRAIN, loop=[]))], ["skipped: 1"]),
    "skipped in an included file": ([play({"ansible.builtin.include_tasks": "skipped.yml"})], ["skipped: 1"]),
    "failed": ([play(with_keywords(FAIL, ignore_errors=True))], ["failed and ignored: 1"]),
    "skipped and failed": (
        [play(with_keywords(DRAIN, when=False), with_keywords(FAIL, ignore_errors=True))],
        ["(tasks skipped: 1, failed and ignored: 1)"],
    ),
}


@pytest.mark.parametrize(("plays", "words"), NOTHING_RAN.values(), ids=NOTHING_RAN)
@pytest.mark.releases
def test_b1_a_playbook_that_ran_no_task_on_this_vm_has_failed(drain, plays, words):
    with pytest.raises(StepError) as caught:
        drain(*plays)
    for word in ("It ran no task on this VM", *words):
        assert word in str(caught.value)


LINES = {"ansible.builtin.command": {"argv": ["sh", "-c", "echo out; echo one >&2; echo 'no such pool' >&2; exit 3"]}}
SECRET = {"ansible.builtin.command": {"argv": ["sh", "-c", "echo s3cret; exit 3"]}, "no_log": True, "name": "Log in"}
TOLD = {"ansible.builtin.fail": {"msg": "Not ready.\nWait."}, "name": "Wait"}
UNDEFINED = {"ansible.builtin.debug": {"msg": "{{ nosuch }}"}, "name": "Say it"}
UNTIL = {"register": "told", "until": "'free' in told.stdout | default('')", "retries": 1, "delay": 0}
OPEN = {"ansible.builtin.command": {"argv": ["sh", "-c", "echo 17 connections"]}, "name": "Wait"}
STATE = {"ansible.builtin.stat": {"path": "/"}, "name": "Look"}
FAILED = {
    "what does not come": ([{**OPEN, **UNTIL}], "Task Wait failed: 17 connections (gave up after attempt 1)"),
    "what does not come for an item": ([{**OPEN, **UNTIL, "loop": [1]}], "17 connections (gave up after attempt 1)"),
    "a module that says nothing": ([{**STATE, **UNTIL}], "Task Look failed: It gave up after attempt 1."),
    "a command": ([with_keywords(LINES, name="Drain it")], "Task Drain it failed: no such pool"),
    "its last line on stdout": (
        [{"ansible.builtin.command": {"argv": ["sh", "-c", "echo one; echo two; exit 3"]}, "name": "Drain"}],
        "Task Drain failed: two",
    ),
    "a module": ([DRAIN, TOLD], "Task Wait failed: Not ready."),
    "an undefined variable": ([UNDEFINED], "'nosuch' is undefined"),
    "an item": ([with_keywords(LINES, name="Drain", loop=[1, 2])], "Task Drain failed: no such pool"),
    "a secret": ([SECRET], "Task Log in failed; no_log hides its message."),
    "a secret of an item": ([with_keywords(SECRET, loop=[1, 2])], "Task Log in failed; no_log hides its message."),
    "in a rescue": ([{"block": [FAIL], "rescue": [TOLD]}], "Task Wait failed: Not ready."),
    "before what always runs": ([{"block": [TOLD], "always": [DRAIN]}], "Task Wait failed: Not ready."),
    "without a name": ([FAIL], "Task ansible.builtin.command failed: "),
}


@pytest.mark.parametrize(("tasks", "said"), FAILED.values(), ids=FAILED)
@pytest.mark.releases
def test_i6_a_playbook_that_failed_names_the_task_and_what_it_said(drain, tasks, said):
    with pytest.raises(StepError) as caught:
        drain(play(*tasks))
    message = str(caught.value)
    assert message.startswith("It ended with status 2. Task ")
    assert said in message
    assert "s3cret" not in message


# It ignores SIGTERM, and Ansible has given it a session of its own.
IN_THE_BACKGROUND = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1], "left").write_text("")
time.sleep(600)
"""


@pytest.mark.parametrize(("last", "left"), [(DRAIN, 1), (FAIL, 0)], ids=["succeeds", "fails"])
@pytest.mark.releases
def test_c1_c2_tasks_in_the_background_live_on_only_when_the_playbook_succeeds(drain, crowd, capfd, last, left):
    task = {"ansible.builtin.command": {"argv": [sys.executable, "-c", IN_THE_BACKGROUND, str(crowd.folder)]}}
    begun = {"ansible.builtin.wait_for": {"path": str(crowd.folder / "left")}}
    with contextlib.nullcontext() if left else pytest.raises(StepError, match="It ended with status 2"):
        drain(play(with_keywords(task, **{"async": 600, "poll": 0}), begun, last))
    assert (crowd.folder / "left").exists(), capfd.readouterr().err
    assert len(crowd.alive) == left


@pytest.mark.parametrize("setting", ["[tags]\nrun = deploy\n", "[tags]\nskip = all\n"])
def test_b1_tags_of_an_ansible_cfg_that_leave_nothing(drain, tmp_path, setting):
    (tmp_path / "work" / "ansible.cfg").write_text(setting)
    with pytest.raises(StepError, match="no task was left to run"):
        drain(play(DRAIN))


# A callback plugin of the user's
USERS = """
from ansible.plugins.callback import CallbackBase

class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "TYPE"
    CALLBACK_NAME = "NAME"

    def v2_playbook_on_play_start(self, play):
        self._display.display("NAME saw a play")
"""
PLACES = {
    "beside ansible.cfg": ("work/plugins", {}, "callback_plugins = plugins"),
    "beside ansible.cfg elsewhere": ("etc/plugins", {"ANSIBLE_CONFIG": "{tmp}/etc"}, "callback_plugins = ./plugins"),
    "by its path": ("srv", {"ANSIBLE_CONFIG": "{tmp}/etc/ansible.cfg"}, "callback_plugins = /nosuch:{tmp}/srv"),
    "at home": ("home/mine", {}, "callback_plugins = ~/mine ; for all"),
    "by a variable": ("home/mine", {"MINE": "{tmp}/home/mine"}, "callback_plugins = $MINE"),
    "in the working directory": ("work/mine", {}, "callback_plugins = {{{{CWD}}}}/mine"),
    "by the environment": ("srv", {"ANSIBLE_CALLBACK_PLUGINS": "{tmp}/srv"}, "callback_plugins = /nosuch"),
    "by default": ("home/.ansible/plugins/callback", {}, "nocows = true"),
    "in the home of ansible.cfg": ("srv/plugins/callback", {}, "home = {tmp}/srv"),
    "beside the playbook": ("playbooks/callback_plugins", {}, "nocows = true"),
}


@pytest.mark.parametrize(("place", "variables", "setting"), PLACES.values(), ids=PLACES)
def test_callback_plugins_of_the_user_are_used_as_before(
    drain, tmp_path, monkeypatch, capfd, place, variables, setting
):
    (tmp_path / "etc").mkdir()
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    for name, kind in (("of_stdout", "stdout"), ("another", "notification")):
        (tmp_path / place / f"{name}.py").write_text(USERS.replace("NAME", name).replace("TYPE", kind))
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp=tmp_path))
    config = tmp_path / ("etc" if "ANSIBLE_CONFIG" in variables else "work") / "ansible.cfg"
    log = tmp_path / "log"
    config.write_text(f"[defaults]\nstdout_callback = of_stdout\nlog_path = {log}\n{setting.format(tmp=tmp_path)}\n")
    assert drain(play(DRAIN)) == "It ended with status 0."
    printed = capfd.readouterr().err
    assert "of_stdout saw a play" in printed
    assert "another saw a play" in printed
    assert "of_stdout saw a play" in log.read_text()


def test_an_ansible_cfg_that_everybody_can_write_beside_is_not_asked(drain, tmp_path, capfd):
    (tmp_path / "work" / "ansible.cfg").write_text("[defaults]\ncallback_plugins = plugins\n")
    (tmp_path / "work" / "plugins").mkdir()
    (tmp_path / "work" / "plugins" / "another.py").write_text(USERS.replace("NAME", "another").replace("TYPE", "x"))
    (tmp_path / "work").chmod(0o777)
    assert drain(play(DRAIN)) == "It ended with status 0."
    assert "another saw a play" not in capfd.readouterr().err


def test_the_interpreter_of_ansible_cfg_is_used(drain, tmp_path, monkeypatch):
    """An administrator's, with the libraries that the modules need."""
    monkeypatch.delenv("ANSIBLE_PYTHON_INTERPRETER")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ntouch {tmp_path}/used\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "work" / "ansible.cfg").write_text(f"[defaults]\ninterpreter_python = {python}\n")
    assert drain(play(DRAIN)) == "It ended with status 0."
    assert (tmp_path / "used").exists()


@pytest.mark.parametrize("callback", ["minimal", "oneline", "tree"])
def test_what_prints_the_result_is_of_no_matter(drain, monkeypatch, callback):
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", callback)
    assert drain(play(DRAIN)) == "It ended with status 0."
    with pytest.raises(StepError, match="no play is for it"):
        drain(play(DRAIN, hosts="web"))


def test_nothing_is_printed_that_was_not_before(drain, capfd):
    drain(play(DRAIN))
    printed = capfd.readouterr().err
    assert "azure_maintenance" not in printed
    assert "WARN" not in printed


def test_tasks_know_nothing_of_it(drain, tmp_path):
    """So an ansible-playbook that a task starts cannot write over what the first one did."""
    ask = f"env > {tmp_path / 'environment'}"
    drain(play({"ansible.builtin.command": {"argv": ["sh", "-c", ask]}}))
    assert playbook_evidence.VARIABLE not in (tmp_path / "environment").read_text()


UNKNOWN = ["which tasks ran is not known", "ANSIBLE_CALLBACK_PLUGINS", playbook_evidence.VARIABLE]


@pytest.mark.parametrize("hidden", ["ANSIBLE_CALLBACK_PLUGINS", playbook_evidence.VARIABLE])
def test_p13_a_program_that_hides_what_ran_has_not_succeeded(drain, tmp_path, hidden):
    program = tmp_path / "wrapper"
    program.write_text(f'#!/bin/sh\nunset {hidden}\nexec {shutil.which("ansible-playbook")} "$@"\n')
    program.chmod(0o755)
    with pytest.raises(StepError) as caught:
        drain(play(DRAIN), program=str(program))
    for word in (str(program), *UNKNOWN):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("import nosuch_module\n", id="that cannot be imported"),
        pytest.param("class CallbackModule:\n    pass\n", id="that is none"),
        pytest.param(
            "SOURCE\ndef fail(self, stats):\n    raise OSError('full')\n\nCallbackModule.v2_playbook_on_stats = fail\n",
            id="that fails",
        ),
    ],
)
def test_p13_a_callback_plugin_that_does_not_work_is_no_success(drain, tmp_path, monkeypatch, broken):
    source = Path(playbook_evidence.PLUGIN).read_text()
    (tmp_path / "plugin.py").write_text(broken.replace("SOURCE", source))
    monkeypatch.setattr(playbook_evidence, "PLUGIN", str(tmp_path / "plugin.py"))
    with pytest.raises(StepError, match="which tasks ran is not known"):
        drain(play(DRAIN))


@pytest.fixture
def validate(tmp_path):
    """Run azure-maintenance validate for playbooks, and return what it says and its exit status."""

    def run(*playbooks, program=None, **environment):
        rules = [{"name": "Drain", "on_announced": [{"playbook": str(path)} for path in playbooks]}]
        content = {"ansible_playbook": program or shutil.which("ansible-playbook"), "rules": rules}
        done = subprocess.run(
            [sys.executable, "-m", PROGRAM, "--config", "-", "validate"],
            input=json.dumps(content),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.environ["ANSIBLE_COLLECTIONS_PATH"], **environment},
            timeout=600,
        )
        return done.stderr.replace(str(tmp_path), "TMP").splitlines(), done.returncode

    return run


# What validate sees is what it can see without running them.
SEEN = {
    "for other hosts": ([play(DRAIN, hosts="web")], "no play of TMP/drain.yml is for this VM (hosts: web)."),
    "for all but this one": (
        [play(DRAIN, hosts="localhost:!localhost")],
        "no play of TMP/drain.yml is for this VM (hosts: localhost:!localhost).",
    ),
    "two plays for others": (
        [play(DRAIN, hosts=["web", "db"], name="a (b): c"), play(hosts="lb")],
        "no play of TMP/drain.yml is for this VM (hosts: web,db, lb).",
    ),
    "no play": ([], "TMP/drain.yml has no play."),
    "no task": ([play()], "no task of TMP/drain.yml would run."),
    "a tag that nobody asks for": ([play(with_keywords(DRAIN, tags="never"))], "no task of TMP/drain.yml would run."),
    "tasks for others only": ([play(DRAIN, hosts="web"), play()], "no task of TMP/drain.yml would run."),
}


@pytest.mark.parametrize(("plays", "sentence"), SEEN.values(), ids=SEEN)
def test_b1_validate_names_a_playbook_that_would_run_nothing(validate, tmp_path, plays, sentence):
    (tmp_path / "drain.yml").write_text(json.dumps(plays))
    lines, code = validate(tmp_path / "drain.yml")
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith(f"rule Drain: {sentence} ")


# At an event it would fail when the VM is already out of service.
UNLOADABLE = {
    "no YAML": "- hosts: localhost\n  tasks: [",
    "a misspelled key": "- hosts: localhost\n  taskz: []\n",
    "a collection that is missing": json.dumps([play({"nobody.nothing.drain": {}})]),
    "a file that is missing": json.dumps([{"import_playbook": "nowhere.yml"}]),
    "a role that is missing": json.dumps([play(DRAIN, roles=["nowhere"])]),
}


@pytest.mark.parametrize("text", UNLOADABLE.values(), ids=UNLOADABLE)
def test_p13_validate_names_a_playbook_that_cannot_be_loaded(validate, tmp_path, text):
    (tmp_path / "drain.yml").write_text(text)
    lines, code = validate(tmp_path / "drain.yml")
    assert (len(lines), code) == (1, 2), lines
    assert lines[0].startswith("rule Drain: ansible-playbook cannot load TMP/drain.yml: ")
    assert "ERROR" not in lines[0]


NOT_SEEN = {
    "a task": [play(DRAIN)],
    "a host that it will have added": [play(ELSEWHERE), play(DRAIN, hosts="lb")],
    "a host that only the event tells": [play(DRAIN, hosts="{{ maintenance_event.resources }}")],
    "an included file": [play({"ansible.builtin.include_tasks": "{{ maintenance_phase }}.yml"})],
    "an imported file": [play({"ansible.builtin.import_tasks": "{{ maintenance_phase }}.yml"})],
    "an imported playbook": [{"import_playbook": "{{ maintenance_phase }}.yml"}],
    "a condition": [play(with_keywords(DRAIN, when="maintenance_phase == 'announced'"))],
}


@pytest.mark.parametrize("plays", NOT_SEEN.values(), ids=NOT_SEEN)
def test_validate_takes_no_offence_at_what_it_cannot_know(validate, tmp_path, plays):
    (tmp_path / "drain.yml").write_text(json.dumps(plays))
    lines, code = validate(tmp_path / "drain.yml")
    assert (len(lines), code) == (1, 0), lines
    assert lines[0].endswith("is fine: 1 rule.")


# Only a run shows that: each step would fail, when the VM is already out of service.
ANSIBLE_CFG = {
    "a callback plugin": ("stdout_callback = nosuch", "nosuch"),
    "a strategy": ("strategy = nosuch", "Invalid play strategy specified: nosuch"),
    "a folder": ("remote_tmp = /proc/nosuch", "Failed to create temporary directory."),
}


@pytest.mark.parametrize(("setting", "sentence"), ANSIBLE_CFG.values(), ids=ANSIBLE_CFG)
def test_p13_validate_tells_that_ansible_cfg_names_what_is_not_there(validate, tmp_path, setting, sentence):
    (tmp_path / "drain.yml").write_text(json.dumps([play(DRAIN)]))
    (tmp_path / "ansible.cfg").write_text(f"[defaults]\n{setting}\n")
    lines, code = validate(tmp_path / "drain.yml", ANSIBLE_CONFIG=str(tmp_path / "ansible.cfg"))
    assert (len(lines), code) == (1, 2), lines
    assert "ansible-playbook cannot run a playbook on this VM, not even one that does nothing. " in lines[0]
    assert sentence in lines[0]


def test_p13_validate_tells_that_a_wrapper_hides_which_tasks_ran(validate, tmp_path):
    (tmp_path / "drain.yml").write_text(json.dumps([play(DRAIN)]))
    program = tmp_path / "wrapper"
    program.write_text(f'#!/bin/sh\nunset ANSIBLE_CALLBACK_PLUGINS\nexec {shutil.which("ansible-playbook")} "$@"\n')
    program.chmod(0o755)
    lines, code = validate(tmp_path / "drain.yml", program=str(program))
    assert (len(lines), code) == (1, 2), lines
    assert "TMP/wrapper did not use the checker's callback plugin." in lines[0]


@pytest.mark.parametrize(
    "settings",
    ["[tags]\nrun = drain\n", "[privilege_escalation]\nbecome = true\nbecome_user = nosuch\n"],
    ids=["tags", "become"],
)
def test_validate_takes_no_offence_at_defaults_that_a_playbook_may_overrule(validate, tmp_path, settings):
    (tmp_path / "drain.yml").write_text(json.dumps([play(with_keywords(DRAIN, tags="drain"), become=False)]))
    (tmp_path / "ansible.cfg").write_text(settings)
    lines, code = validate(tmp_path / "drain.yml", ANSIBLE_CONFIG=str(tmp_path / "ansible.cfg"))
    assert (len(lines), code) == (1, 0), lines


def test_validate_asks_once_for_each_playbook(validate, tmp_path):
    (tmp_path / "drain.yml").write_text(json.dumps([play(DRAIN, hosts="web")]))
    program = tmp_path / "counted"
    program.write_text(f'#!/bin/sh\necho >>{tmp_path}/calls\nexec {shutil.which("ansible-playbook")} "$@"\n')
    program.chmod(0o755)
    lines, code = validate(*[tmp_path / "drain.yml"] * 2, program=str(program))
    assert (len(lines), code) == (2, 2)
    assert (tmp_path / "calls").read_text() == "\n"
