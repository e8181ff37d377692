# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps as they are run: real programs, a real ansible-playbook, and text from Azure that is data all the way."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    Config,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import (
    notify,
    steps,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.steps import (
    StepContext,
    StepError,
    run_step,
    unsafe_yaml,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.records import (
    Moment,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils import conftest as scripted
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    HOSTILE,
    NOW,
    ended_with,
    make_event,
)

pytestmark = pytest.mark.filterwarnings("error")

serve = scripted.serve

ANSIBLE_PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")


@pytest.fixture
def run(folders, clock):
    """Run a step for an event that was announced, unless told otherwise; limits are for a busy machine."""

    def run(step, event=None, phase="announced", outcome=None, timeout=30, config=None):
        context = StepContext(1, event or make_event(), phase, outcome, "web-1", "mark", False, planned_at=7.5)
        return run_step(step, context, config or Config(), folders, clock.now(), timeout)

    return run


def python(program: str, *arguments: str) -> dict[str, Any]:
    return {"command": [sys.executable, "-I", "-S", "-c", program, *arguments]}


def failure(run: Any, step: dict[str, Any], **options: Any) -> StepError:
    with pytest.raises(StepError) as caught:
        run(step, **options)
    return caught.value


class TestCommand:
    """A program of the user, without a shell."""

    def test_it_gets_the_event_on_stdin_and_in_its_variables(self, run, recorder):
        event = make_event(resources=("web-1", "web-2"), duration_seconds=9)
        assert run(recorder.step("one", "two three"), event) == ended_with(0)
        (call,) = recorder.calls
        assert call.arguments == ["one", "two three"]
        assert json.loads(call.stdin) == {
            "maintenance_event": event.to_dict(NOW, "web-1"),
            "maintenance_phase": "announced",
            "maintenance_outcome": None,
            "resource_name": "web-1",
        }
        assert call.variables == {
            "AZURE_EVENT_ID": "A1",
            "AZURE_EVENT_TYPE": "Reboot",
            "AZURE_EVENT_STATUS": "Scheduled",
            "AZURE_EVENT_SOURCE": "Platform",
            "AZURE_EVENT_DESCRIPTION": "Host server is undergoing maintenance.",
            "AZURE_EVENT_RESOURCES": "web-1,web-2",
            "AZURE_EVENT_NOT_BEFORE": "2026-11-21T10:15:00Z",
            "AZURE_EVENT_DURATION_SECONDS": "9",
            "AZURE_EVENT_PHASE": "announced",
            "AZURE_EVENT_OUTCOME": "",
        }

    def test_what_is_unknown_is_empty(self, run, recorder, monkeypatch):
        monkeypatch.setenv("AZURE_EVENT_TYPE", "of another event")
        names = ("event_type", "event_status", "not_before", "not_before_raw", "description", "event_source")
        unknown = make_event(resources=(), **dict.fromkeys(names))
        run(recorder.step(), unknown, phase="ended", outcome="withdrawn")
        (call,) = recorder.calls
        given = {name: value for name, value in call.variables.items() if value}
        known = {"ID": "A1", "PHASE": "ended", "OUTCOME": "withdrawn"}
        assert given == {f"AZURE_EVENT_{name}": value for name, value in known.items()}
        assert len(call.variables) == 10
        assert json.loads(call.stdin)["maintenance_outcome"] == "withdrawn"

    @pytest.mark.hostile_text
    def test_text_from_azure_stays_text(self, run, recorder, tmp_path):
        marker = tmp_path / "touched"
        text = HOSTILE.format(marker=marker) + "\0"
        run(recorder.step(), make_event(event_id=text, description=text, resources=("web-1", text)))
        (call,) = recorder.calls
        told = json.loads(call.stdin)["maintenance_event"]
        assert (told["event_id"], told["description"], told["resources"]) == (text, text, ["web-1", text])
        # No program can have a NUL in its environment.
        shown = text.replace("\0", "\ufffd")
        assert call.variables["AZURE_EVENT_ID"] == shown
        assert call.variables["AZURE_EVENT_DESCRIPTION"] == shown
        assert call.variables["AZURE_EVENT_RESOURCES"] == f"web-1,{shown}"
        assert not marker.exists()

    @pytest.mark.hostile_text
    def test_its_arguments_are_taken_as_they_are(self, run, recorder, tmp_path):
        marker = tmp_path / "touched"
        words = ["$AZURE_EVENT_ID", "*", f"$(touch {marker})", "{{ maintenance_event }}", "", "a\nb", "é🚧"]
        run(recorder.step(*words))
        assert recorder.calls[0].arguments == words
        assert not marker.exists()

    def test_a_description_that_no_variable_can_hold_is_cut_there_and_whole_on_stdin(self, run, recorder):
        run(recorder.step(), make_event(description="🚧" * 250_000))
        (call,) = recorder.calls
        assert call.variables["AZURE_EVENT_DESCRIPTION"] == "🚧" * 30_000
        assert json.loads(call.stdin)["maintenance_event"]["description"] == "🚧" * 250_000

    def test_what_it_prints_goes_to_the_journal(self, run, capfd):
        run(python("import sys; print('out'); print('err', file=sys.stderr)"))
        printed = capfd.readouterr()
        assert sorted(printed.err.split()) == ["err", "out"]
        assert printed.out == ""

    def test_it_cannot_speak_to_systemd_for_us(self, run, tmp_path, monkeypatch):
        monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
        monkeypatch.setenv("KEPT", "yes")
        run(python("import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))", str(tmp_path / "env")))
        environment = json.loads((tmp_path / "env").read_text())
        assert "NOTIFY_SOCKET" not in environment
        assert environment["KEPT"] == "yes"

    @pytest.mark.parametrize(
        ("program", "said"),
        [("raise SystemExit(7)", ended_with(7)), ("import os; os.kill(os.getpid(), 9)", "It was ended by signal 9.")],
        ids=["a status", "a signal"],
    )
    def test_it_fails(self, run, program, said):
        error = failure(run, python(program))
        assert (str(error), error.permanent) == (said, False)

    @pytest.mark.parametrize(
        ("name", "reason"), [("nosuch", "No such file or directory"), ("plain.txt", "Permission denied")]
    )
    def test_a_program_that_cannot_be_started(self, run, tmp_path, name, reason):
        (tmp_path / "plain.txt").write_text("no program")
        error = failure(run, {"command": [str(tmp_path / name)]})
        assert str(error) == f"{tmp_path / name} could not be started: {reason}."
        assert error.permanent


@pytest.fixture
def no_playbook_may_run(folders, tmp_path):
    """Return a configuration whose ansible-playbook leaves a trace; there is a playbook drain.yml."""
    program = tmp_path / "ansible-playbook"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    Path(folders.playbooks, "drain.yml").write_text("[]\n")
    yield Config(ansible_playbook=str(program))
    assert not (tmp_path / "ran").exists()


def test_a_folder_in_which_no_file_can_be_made_for_a_playbook_is_told(run, folders, no_playbook_may_run):
    shutil.rmtree(folders.run)
    error = failure(run, {"playbook": "drain.yml"}, config=no_playbook_may_run)
    assert str(error) == f"Its files could not be written to {folders.run}: No such file or directory."
    assert error.permanent is False


def test_files_for_which_there_is_no_room_are_told(run, folders, no_playbook_may_run, monkeypatch):
    folder = Path(folders.run, "of the run")
    folder.mkdir()
    # Every write to this device fails as on a full disk.
    (folder / "variables.yml").symlink_to("/dev/full")
    monkeypatch.setattr(steps.tempfile, "mkdtemp", lambda **_options: str(folder))
    error = failure(run, {"playbook": "drain.yml"}, config=no_playbook_may_run)
    assert str(error) == f"Its files could not be written to {folders.run}: No space left on device."
    assert error.permanent is False
    assert os.listdir(folders.run) == []


# Stands for ansible-playbook where what it is given is looked at, not what it does.
PLAYBOOK_RUNNER = """#!{python}
import json, os, stat, sys
arguments = sys.argv[1:]
path = arguments[arguments.index("--extra-vars") + 1][1:]
found = {{
    "arguments": arguments,
    "folder mode": stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode),
    "variables": open(path).read(),
    "colour": os.environ.get("ANSIBLE_NOCOLOR"),
    "stdin": sys.stdin.read(),
}}
with open({out!r}, "w") as file:
    json.dump(found, file)
with open(os.environ["AZURE_MAINTENANCE_TASKS"], "w") as file:
    file.write({tasks!r})
sys.exit({status})
"""


# What the callback plugin writes
ONE_TASK = {"ran": 1, "skipped": 0, "ignored": 0, "matched": 1, "unmatched": []}
ONE_TASK_WRITTEN = json.dumps(ONE_TASK)


class TestPrinted:
    """What a program prints goes to the journal of its response, with nothing between them."""

    def test_all_of_it_goes_to_the_journal_before_the_step_is_over(self, run, capfd):
        lines = "".join(f"{number}\n" for number in range(50_000))
        run(python("for number in range(50_000): print(number)"))
        assert capfd.readouterr().err == lines


class TestPlaybook:
    """How ansible-playbook is called."""

    @pytest.fixture
    def runner(self, tmp_path):
        def make(status=0, tasks=ONE_TASK_WRITTEN):
            path = tmp_path / "ansible-playbook"
            values = {"python": sys.executable, "out": str(tmp_path / "out"), "status": status, "tasks": tasks}
            path.write_text(PLAYBOOK_RUNNER.format(**values))
            path.chmod(0o755)
            return Config(ansible_playbook=str(path))

        return make

    @pytest.fixture(autouse=True)
    def _playbook(self, folders):
        Path(folders.playbooks, "drain.yml").touch()

    def test_it_is_run_on_this_vm_with_the_variables_in_a_file(self, run, runner, folders, tmp_path):
        event = make_event(description="Host server is under maintenance; {{ x }}")
        assert run({"playbook": "drain.yml"}, event, config=runner()) == ended_with(0)
        found = json.loads((tmp_path / "out").read_text())
        path = found["arguments"][5][1:]
        assert found["arguments"] == [
            *("--inventory", "localhost,", "--connection", "local"),
            *("--extra-vars", f"@{path}", f"{folders.playbooks}/drain.yml"),
        ]
        assert os.path.dirname(os.path.dirname(path)) == folders.run
        assert found["folder mode"] == stat.S_IRWXU
        assert found["colour"] == "1"
        assert found["stdin"] == ""
        assert '"event_id": "A1"' in found["variables"]
        assert '"description": !unsafe "Host server is under maintenance; {{ x }}"' in found["variables"]
        assert os.listdir(folders.run) == []

    @pytest.mark.parametrize(
        ("tasks", "reason"),
        [
            ({**ONE_TASK, "ran": 0}, "no task was left to run"),
            ({**ONE_TASK, "ran": 0, "skipped": 3}, "(tasks skipped: 3)"),
            ({**ONE_TASK, "ran": 0, "matched": 0, "unmatched": ["web", "a\nb"]}, r'(hosts: "web, a\nb")'),
            (None, "which tasks ran is not known"),
        ],
    )
    def test_p13_one_that_ran_no_task_has_failed(self, run, runner, tasks, reason):
        error = failure(run, {"playbook": "drain.yml"}, config=runner(tasks=json.dumps(tasks) if tasks else ""))
        assert reason in str(error)
        assert error.permanent is False

    def test_an_absolute_path_is_taken_as_it_is(self, run, runner, tmp_path):
        (tmp_path / "other.yml").touch()
        run({"playbook": str(tmp_path / "other.yml")}, config=runner())
        assert json.loads((tmp_path / "out").read_text())["arguments"][-1] == str(tmp_path / "other.yml")

    @pytest.mark.parametrize(
        ("failed", "said"),
        [
            ({"task": "Drain", "hidden": False, "said": "no such pool"}, "Task Drain failed: no such pool"),
            ({"task": "Drain", "hidden": True, "said": ""}, "Task Drain failed; no_log hides its message."),
            ({"task": "a\x1b[31m", "hidden": False, "said": "x" * 1000}, f'Task "a\\u001b[31m" failed: "{"x" * 200}"…'),
        ],
    )
    def test_i6_one_that_failed_names_its_task(self, run, runner, failed, said):
        config = runner(status=2, tasks=json.dumps({"failed": failed}))
        assert str(failure(run, {"playbook": "drain.yml"}, config=config)) == f"{ended_with(2)} {said}"
        # Ansible has not come to its end.
        config = runner(tasks=json.dumps({"failed": failed}))
        assert "which tasks ran is not known" in str(failure(run, {"playbook": "drain.yml"}, config=config))

    def test_it_fails_and_its_variables_are_removed(self, run, runner, folders):
        error = failure(run, {"playbook": "drain.yml"}, config=runner(status=2))
        assert (str(error), error.permanent) == (ended_with(2), False)
        assert os.listdir(folders.run) == []

    def test_a_playbook_that_is_not_there(self, run, runner, folders):
        error = failure(run, {"playbook": "nosuch.yml"}, config=runner())
        assert str(error) == f"There is no playbook {folders.playbooks}/nosuch.yml."
        assert error.permanent

    @pytest.mark.parametrize("given", [None, "/nosuch/ansible-playbook"])
    def test_without_ansible_playbook(self, run, monkeypatch, tmp_path, given):
        monkeypatch.setenv("PATH", str(tmp_path))
        error = failure(run, {"playbook": "drain.yml"}, config=Config(ansible_playbook=given))
        assert str(error).startswith(f"{given or 'ansible-playbook'} was not found. Install ansible-core")
        assert error.permanent

    def test_without_a_given_path_it_is_looked_for(self, run, runner, monkeypatch, tmp_path):
        runner()
        monkeypatch.setenv("PATH", str(tmp_path))
        run({"playbook": "drain.yml"})
        assert (tmp_path / "out").exists()


PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Write down what came
      ansible.builtin.copy:
        content: >-
          {{ {'event': maintenance_event, 'phase': maintenance_phase, 'outcome': maintenance_outcome} | to_json }}
        dest: OUT
        mode: "0600"
    - name: Use the text in a task of its own
      ansible.builtin.debug:
        msg: "{{ maintenance_event.description }} {{ maintenance_event.resources | join(' ') }}"
"""


# What YAML takes for a number, a date, true, null or a merge where it is not quoted
LIKE_SOMETHING_ELSE = (
    *("", "yes\n", "2026-11-21 10:15:00.5"),
    *["~", "null", "yes", "No", "on", "true", "<<", "=", "12", "-1", "0x1f", "0b1", "017", "1_000", "1:30"],
    *["1.5", ".5", "1e3", "1.0e+3", ".inf", "-.inf", ".nan", "2026-11-21", "2026-11-21T10:15:00Z"],
)


@pytest.mark.skipif(not ANSIBLE_PLAYBOOK.exists(), reason="a target's Python has no ansible-core")
@pytest.mark.hostile_text
def test_text_from_azure_stays_text_in_a_real_playbook(run, folders, tmp_path, monkeypatch):
    marker, out = tmp_path / "touched", tmp_path / "out"
    text = HOSTILE.format(marker=marker) + "\0"
    event = make_event(
        event_id=text, event_type="1e3", description=text, resources=("web-1", text, *LIKE_SOMETHING_ELSE)
    )
    Path(folders.playbooks, "drain.yml").write_text(PLAYBOOK.replace("OUT", str(out)))
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "ansible"))
    monkeypatch.setenv("ANSIBLE_PYTHON_INTERPRETER", sys.executable)
    config = Config(ansible_playbook=str(ANSIBLE_PLAYBOOK))
    run({"playbook": "drain.yml"}, event, phase="ended", outcome="completed", timeout=120, config=config)
    assert json.loads(out.read_text("utf-8")) == {
        "event": event.to_dict(NOW, "web-1"),
        "phase": "ended",
        "outcome": "completed",
    }
    assert not marker.exists()


@pytest.mark.hostile_text
def test_every_character_reaches_yaml_as_it_is():
    yaml = pytest.importorskip("yaml")

    class Loader(yaml.SafeLoader):
        pass

    class Unsafe(str):
        pass

    Loader.add_constructor("!unsafe", lambda loader, node: Unsafe(loader.construct_scalar(node)))
    ranges = ((0, 0x3000), (0xD7F0, 0xD800), (0xE000, 0xE010), (0xFE00, 0x10010), (0x1F6A7, 0x1F6A8))
    text = "".join(chr(number) for each in ranges for number in range(*each)) + "\U0010ffff"
    plain = list(LIKE_SOMETHING_ELSE)
    value = {"a": text, "b": ["& x", "", None, True, 5, -1.5, {"c": "{{ d }}"}], "e": {}, "f": [], "g": plain}
    written = unsafe_yaml(value)
    assert written.isascii()
    assert written.isprintable()
    read = yaml.load(written, Loader)
    assert read == value
    marked = [read["a"], read["b"][0], read["b"][6]["c"]]
    assert [type(each) for each in marked] == [Unsafe] * 3


class TestMessages:
    """Steps that tell another system, as far as they are this file's business."""

    STEPS = (
        (
            {"webhook": "http://127.0.0.1:1/x", "ca_file": "/ca", "hmac_file": "/hmac", "token_file": "/token"},
            "webhook",
        ),
        ({"awx_callback": "http://127.0.0.1:1/x", "key_file": "/key", "ca_file": "/ca"}, "awx_callback"),
        ({"awx_job": "http://127.0.0.1:1", "template": "A++B", "token_file": "/token"}, "awx_job"),
    )

    @pytest.fixture
    def told(self, monkeypatch):
        """What each kind of message was called with."""
        calls = []

        def record(name):
            def call(*arguments, **options):
                calls.append((name, arguments, options))
                return f"{name} told."

            return call

        for _step, name in self.STEPS:
            monkeypatch.setattr(notify, name, record(name))
        return calls

    def test_each_gets_what_its_step_says(self, run, told):
        for step, name in self.STEPS:
            assert run(step) == f"{name} told."
        variables = {
            "maintenance_event": make_event().to_dict(NOW, "web-1"),
            "maintenance_phase": "announced",
            "maintenance_outcome": None,
        }
        payload = {**variables, "resource_name": "web-1"}
        assert told == [
            (
                "webhook",
                ("http://127.0.0.1:1/x", payload, 30),
                {"ca_file": "/ca", "hmac_file": "/hmac", "token_file": "/token"},
            ),
            (
                "awx_callback",
                ("http://127.0.0.1:1/x", variables, 30),
                {"key_file": "/key", "ca_file": "/ca", "tries": None},
            ),
            (
                "awx_job",
                ("http://127.0.0.1:1", "A++B", variables, 30),
                {"token_file": "/token", "mark": "mark", "again": False, "since": 7.5},
            ),
        ]

    @pytest.mark.parametrize("permanent", [True, False])
    def test_one_that_fails(self, run, monkeypatch, permanent):
        def fail(*_arguments, **_options):
            raise notify.NotifyError("It said no.", permanent)

        monkeypatch.setattr(notify, "webhook", fail)
        error = failure(run, self.STEPS[0][0])
        assert (str(error), error.permanent) == ("It said no.", permanent)

    @pytest.mark.hostile_text
    def test_a_webhook_gets_text_from_azure_as_text(self, run, serve, tmp_path):
        pytest.importorskip("requests", reason="not part of a target's Python")
        marker = tmp_path / "touched"
        text = HOSTILE.format(marker=marker) + "\0"
        server = serve((204, b""))
        run({"webhook": f"{server.endpoint}/hook"}, make_event(description=text))
        (request,) = server.requests
        assert (request.method, request.target) == ("POST", "/hook")
        assert json.loads(request.body)["maintenance_event"]["description"] == text
        assert not marker.exists()


@pytest.mark.parametrize(("phase", "ids"), [("announced", None), ("waiting", "A1"), ("ended", None)])
def test_what_is_launched_while_an_approval_waits_is_for_this_event_only(phase, ids):
    context = StepContext(1, make_event(), phase, None, "web-1", "mark", False)
    assert context.variables(Moment(0.0, 0.0, "boot-1")).get("event_response_event_ids") == ids
