# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command azure-maintenance: what it takes, says and returns, and what several of it do at once."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import (
    arguments as parser,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli, system
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import database
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import (
    open_state as opener,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import (
    records as states,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import Clock
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track.situation import (
    due_responses,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track.tracker import (
    record_answer,
)
from ansible_collections.fleetops.azure_maintenance.tests.proxy_agent import Asker, is_allowed
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    make_document,
    make_event,
    make_rule,
    open_state,
)

# The folder that holds ansible_collections
IMPORT_FROM = Path(cli.__file__).parents[7]
PACKAGE = "ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance"

pytestmark = pytest.mark.filterwarnings("error")

COMMANDS = (["check", "--once"], ["respond", "1"], ["status"], ["history"], ["validate"], ["retry", "1"])


@pytest.fixture(autouse=True, scope="module")
def _nothing_left_over():
    """What tests of other modules have left open is not what a command warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.fixture(autouse=True)
def _outside(monkeypatch):
    """Nothing of the outside: no journal, and the handler of signals as it was."""
    for name in ("JOURNAL_STREAM", "NOTIFY_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def log_to_journal(monkeypatch: Any) -> None:
    """Name the stderr of this process the journal, as systemd does.

    A test calls it itself: between a fixture and its test, pytest opens another file as stderr.
    """
    found = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")


class Shell:
    """A person at the command line, or systemd."""

    def __init__(self, folders: Any, capfd: Any, units: Path) -> None:
        self.folders = folders
        self._capfd = capfd
        self._units = units

    def configure(self, **config: Any) -> None:
        Path(self.folders.config).write_text(json.dumps(config))

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Return the exit status, what was printed, and what was said."""
        self._capfd.readouterr()
        status = cli.main(arguments, self.folders)
        return (status, *self._capfd.readouterr())

    def respond_to(self, *steps: dict[str, Any], due: bool = True, **rule: Any) -> None:
        """Make response 1."""
        rules, now = [make_rule(on_announced=list(steps), **rule)], Clock(self.folders).now()
        with closing(open_state(self.folders)) as state:
            record_answer(state, rules, make_document(make_event()), now, "web-1")
            if due:
                due_responses(state, now, lambda _number: False)

    def change(self, sql: str) -> None:
        with closing(sqlite3.connect(str(Path(self.folders.state, "state.db")), isolation_level=None)) as state:
            state.execute(sql)

    @property
    def response(self) -> Any:
        with closing(open_state(self.folders)) as state:
            return state.response(1)

    @property
    def units(self) -> list[str]:
        """How systemctl was called."""
        return self._units.read_text().splitlines() if self._units.exists() else []


@pytest.fixture
def shell(folders, capfd, tmp_path, monkeypatch):
    """The command with a configuration that is fine, and with a systemctl that writes down what it should start."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    systemctl = bin_folder / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/units\n')
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    shell = Shell(folders, capfd, tmp_path / "units")
    shell.configure()
    return shell


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "COMMAND"),
        (["frobnicate"], "frobnicate"),
        (["check", "--twice"], "--twice"),
        (["check", "1"], "1"),
        (["respond"], "ID"),
        (["respond", "one"], "number of a response"),
        (["respond", "-1"], "number of a response"),
        (["respond", "1", "2"], "2"),
        (["retry"], "ID"),
        (["retry", "9" * 30], "number of a response"),
        (["restore"], "ID"),
        (["status", "--xml"], "--xml"),
        (["validate", "--config"], "--config"),
        (["--config"], "--config"),
    ],
)
def test_wrong_usage_ends_with_2(shell, capfd, arguments, words):
    with pytest.raises(SystemExit) as caught:
        shell(*arguments)
    assert caught.value.code == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert words in said.err
    assert "usage: azure-maintenance" in said.err


@pytest.mark.parametrize("words", [["check"], ["check", "--once"]], ids=" ".join)
def test_a_check_that_systemd_starts_is_read_without_the_parser_and_to_the_same_end(words, monkeypatch):
    read = parser.parse(words)
    monkeypatch.setattr(parser, "parse", None)
    assert cli._read_arguments(words) == read


OF_STATUS = (
    "Exit status of status: 0 fine, 1 a response failed or something waits for a person, 2 bad usage, "
    "3 no usable answer from Azure lately."
)


@pytest.fixture
def told(shell, capfd):
    """told(ARGUMENTS) returns what the command prints by which it ends at once and well."""

    def tell(*arguments):
        with pytest.raises(SystemExit) as caught:
            shell(*arguments)
        assert caught.value.code == 0
        return " ".join(capfd.readouterr().out.split())

    return tell


def test_help(told):
    words = told("--help")
    assert "Exit status: 0 fine, 1 failed, 2 bad configuration or usage." in words
    assert OF_STATUS in words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("check", "Polls the metadata service"),
        ("respond", "Runs the steps of one response"),
        ("status", OF_STATUS),
        ("history", "Shows every event that is remembered"),
        ("validate", "Checks the configuration"),
        ("retry", "Makes a failed response due again."),
        ("allow-list", "an access control profile of the Metadata Security Protocol"),
        ("restore", "Runs the steps of on_ended for an event that has not started"),
    ],
)
def test_each_command_has_a_sentence_in_its_help(told, command, words):
    found = told(command, "--help")
    assert words in found
    assert "Exit status" in found


def test_the_version_is_that_of_the_collection(told):
    galaxy = (Path(__file__).resolve().parents[4] / "galaxy.yml").read_text()
    assert f"\nversion: {told('--version').split()[1]}\n" in galaxy


@pytest.mark.parametrize("command", [["check", "--once"], ["respond", "1"], ["validate"]], ids=" ".join)
def test_without_a_configuration(shell, command):
    os.unlink(shell.folders.config)
    status, printed, said = shell(*command)
    assert (status, printed, said.count("\n")) == (2, "", 1)
    assert said.startswith(f"{shell.folders.config}: ")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_configuration_that_cannot_be_used(shell, command):
    shell.configure(rules=[{"name": "Drain", "lead_tim": 5}])
    status, printed, said = shell(*command)
    if command[0] in ("status", "history"):
        # They show what is known, whatever the configuration says now.
        assert (status, said) == (3 if command[0] == "status" else 0, "")
    else:
        assert (status, printed) == (2, "")
        assert len(said.splitlines()) == 1
        assert command[0] == "retry" or 'rule 1 (Drain): unknown key "lead_tim"' in said


def test_another_configuration(shell, tmp_path):
    path = str(tmp_path / "other.json")
    status, printed, said = shell("--config", path, "validate")
    assert (status, printed, said.startswith(f"{path}: ")) == (2, "", True)
    Path(path).write_text('{"rules": [{"name": "A"}, {"name": "B"}]}')
    assert shell("--config", path, "validate") == (0, "", f"{path} is fine: 2 rules.\n")


def run_module(*arguments: str, text: str) -> subprocess.CompletedProcess[str]:
    """Run the command as the role does on the controller."""
    return subprocess.run(
        [sys.executable, "-m", PACKAGE, *arguments],
        input=text,
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(IMPORT_FROM), "PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.mark.parametrize(("path", "name"), [("-", "standard input"), ("/dev/stdin", "/dev/stdin")])
def test_the_configuration_from_standard_input(path, name):
    fine = run_module("--config", path, "validate", "--syntax-only", text='{"rules": [{"name": "A"}]}')
    assert (fine.returncode, fine.stdout, fine.stderr) == (0, "", f"{name} is fine: 1 rule.\n")
    wrong = run_module("--config", path, "validate", "--syntax-only", text='{"rulez": []}')
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith(f'{name}: the configuration: unknown key "rulez"')
    assert wrong.stderr.count("\n") == 1


class TestBadConfiguration:
    """What the service says in the journal of a configuration that is wrong, which the timer starts anew for ever."""

    @pytest.fixture
    def now(self, shell, clock, monkeypatch):
        monkeypatch.setattr(cli, "Clock", lambda _folders: clock)
        shell.configure(rulez=[])
        return clock

    @pytest.mark.one_python
    def test_it_is_told_once_an_hour(self, shell, now, monkeypatch):
        log_to_journal(monkeypatch)
        told = []
        for _number in range(1300):
            status, _printed, said = shell("check")
            assert status == 2
            told.append(said)
            now.advance(6)
        assert [said[:3] for said in told if said] == ["<3>"] * 3
        assert told[0].count("\n") == 1

    def test_it_is_told_when_the_reason_or_the_file_has_changed(self, shell, now, monkeypatch):
        log_to_journal(monkeypatch)
        assert shell("check")[2]
        shell.configure(rulezz=[])
        assert "rulezz" in shell("check")[2]
        assert not shell("check")[2]
        os.utime(shell.folders.config, (1, 1))
        assert "rulezz" in shell("check")[2]

    def test_by_hand_it_is_told_each_time(self, shell, now):
        for _number in range(2):
            assert "rulez" in shell("check")[2]

    def test_below_a_service_that_reads_it_itself_it_is_told_each_time_and_without_a_priority(
        self, shell, now, monkeypatch
    ):
        """As by "az vm run-command": Azure's agent is a service, and its variables are those of all that it starts."""
        monkeypatch.setenv("JOURNAL_STREAM", "8:1")
        for _number in range(2):
            said = shell("check")[2]
            assert said.startswith(f"{shell.folders.config}: ")
            assert "rulez" in said

    @pytest.mark.parametrize("text", ["", "x", "[]", "[1, 2, 3]", '["a", "b"]', "null"])
    def test_what_was_told_cannot_be_read(self, shell, now, monkeypatch, text):
        log_to_journal(monkeypatch)
        Path(shell.folders.run, "complaint.json").write_text(text)
        assert shell("check")[2]
        assert not shell("check")[2]


class TestValidate:
    """What is looked at besides the configuration itself is in test_validate."""

    def test_each_thing_that_is_missing_is_told(self, shell):
        shell.configure(rules=[{"name": "A", "on_ended": [{"command": ["/nosuch/a"]}, {"command": ["/nosuch/b"]}]}])
        status, printed, said = shell("validate")
        assert (status, printed) == (2, "")
        assert [line.rpartition("/")[2] for line in said.splitlines()] == ["a.", "b."]

    def test_the_syntax_only(self, shell):
        shell.configure(rules=[{"name": "A", "on_ended": [{"command": ["/nosuch/a"]}]}], metrics_dir="/nosuch")
        assert shell("validate", "--syntax-only") == (0, "", f"{shell.folders.config} is fine: 1 rule.\n")

    def test_it_touches_nothing(self, shell):
        before = sorted(Path(shell.folders.config).parent.rglob("*"))
        shell("validate")
        assert sorted(Path(shell.folders.config).parent.rglob("*")) == before


class TestStatus:
    """What a person sees is in test_status."""

    @pytest.mark.parametrize("command", ["status", "history"])
    def test_of_an_empty_state_for_programs(self, shell, command):
        status, printed, said = shell(command, "--json")
        assert (status, said) == (3 if command == "status" else 0, "")
        assert json.loads(printed)["events"] == []

    def test_p13_a_configuration_with_which_the_check_does_not_run_is_no_all_clear(self, shell):
        with closing(open_state(shell.folders)) as state:
            record_answer(state, [], make_document(), Clock(shell.folders).now(), "web-1")
            with state.transaction():
                answered = {"number": 1, "errors": {}, "last_answer_at": time.time(), "last_error": None}
                state.set_fact("polls", answered)
        assert shell("status")[0] == 0
        Path(shell.folders.config).write_text('{"rules": [}')
        status, printed, said = shell("status")
        assert (status, said) == (1, "")
        (warning,) = json.loads(shell("status", "--json")[1])["warnings"]
        why = f"{shell.folders.config}: is not JSON"
        assert warning.startswith(f"The check does not run, because its configuration is wrong: {why}")
        # A long path is cut at the width of the screen.
        assert "".join(f"!! {warning}".split()) in "".join(printed.split())
        assert "no maintenance is announced" not in printed

    def test_on_a_terminal_that_knows_ascii_only(self, shell, tmp_path):
        """Text from Azure may have any character, and a person must still see the rest of it."""
        state = open_state(shell.folders)
        event = make_event(description="Wartung für 🚧")
        record_answer(state, [], make_document(event), Clock(shell.folders).now(), "web-1")
        state.close()
        done = start(shell.folders, "status", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        printed, said = done.communicate(timeout=600)
        assert (done.returncode, said) == (3, "")
        assert "Wartung f" in printed

    def test_as_somebody_who_may_not_look(self, shell, monkeypatch):
        def refuse(path: str, *_arguments: Any, **_options: Any) -> None:
            raise PermissionError(13, "Permission denied", path)

        monkeypatch.setattr(database.os, "stat", refuse)
        monkeypatch.setattr(cli.os, "geteuid", lambda: 1000)
        advice = "Permission denied. Do this as root.\n"
        assert shell("status") == (1, "", f"{shell.folders.run}/state.db: {advice}")

    def test_it_only_reads(self, shell):
        """It makes no file, waits for no lock, and does not bring the state up to another version."""
        shell.respond_to({"command": ["true"]})
        folder = Path(shell.folders.state)

        def stored():
            folders = (shell.folders.state, shell.folders.run)
            return {str(path): path.read_bytes() for each in folders for path in Path(each).rglob("*")}

        before = stored()
        with closing(sqlite3.connect(str(folder / "state.db"), isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            for command in ("status", "history"):
                assert "Reboot A1" in shell(command)[1]
        assert {name: text for name, text in stored().items() if "-wal" not in name and "-shm" not in name} == before

    def test_of_a_state_on_a_disk_that_is_read_only(self, shell, monkeypatch):
        shell.respond_to({"command": ["true"]})
        connect = sqlite3.connect

        def read_only(target, **options):
            if target != ":memory:" and "immutable" not in target:
                raise sqlite3.OperationalError("unable to open database file")
            return connect(target, **options)

        monkeypatch.setattr(database.sqlite3, "connect", read_only)
        status, printed, said = shell("status")
        assert (status, said) == (3, "")
        assert "Reboot A1" in printed

    @pytest.mark.parametrize("command", ["status", "history"])
    def test_of_a_state_that_is_damaged(self, shell, command):
        shell.respond_to({"command": ["true"]})
        path = Path(shell.folders.state, "state.db")
        content = bytearray(path.read_bytes())
        page = content.index(b'"A1"') // 4096 * 4096
        content[page : page + 4096] = b"\xff" * 4096
        path.write_bytes(content)
        status, printed, said = shell(command)
        # P13: monitoring must not take what could not be read for an all-clear.
        assert (status, "no maintenance is announced" in printed) == (3 if command == "status" else 0, False)
        assert said.startswith(f"{path} ")
        assert said.count("\n") == 1
        assert path.read_bytes() == content


def test_a_log_that_cannot_be_written_ends_nothing(monkeypatch):
    with open("/dev/full", "w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        system.say("Response 1 begins.")
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space left"):
            full.write("really full\n")
        with contextlib.suppress(OSError):
            full.close()


def start(folders: Any, *arguments: str, stdout: int = subprocess.PIPE, **variables: str) -> subprocess.Popen[str]:
    """Start the command as a process of its own on these folders."""
    program = f"import sys; from {PACKAGE} import cli, system; sys.exit(cli.main(sys.argv[1:], "
    program += f"system.Folders(*{tuple(folders)!r})))"
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(IMPORT_FROM), "PYTHONDONTWRITEBYTECODE": "1", **variables},
    )


def wait_until(condition: Any, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end, process.communicate()
        time.sleep(0.01)


@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["allow-list"]], ids=" ".join)
def test_a_reader_that_has_enough_changes_no_status_and_a_full_disk_is_told(folders, shell, arguments):
    """As by head; Python itself would end with 120."""
    expected = shell(*arguments)[0]
    reader, writer = os.pipe()
    os.close(reader)
    process = start(folders, *arguments, stdout=writer)
    os.close(writer)
    assert (process.communicate(timeout=600)[1], process.returncode) == ("", expected)
    with open("/dev/full", "wb") as full:
        process = start(folders, *arguments, stdout=full.fileno())
    assert process.communicate(timeout=600)[1] == "The system: No space left on device.\n"
    assert process.returncode == 1


class TestRespond:
    """One response, as its unit runs it."""

    def test_it_fails(self, shell, recorder):
        recorder.fail(1)
        shell.respond_to(recorder.step("one"), retries=0)
        status, _printed, said = shell("respond", "1")
        assert status == 1
        assert said.splitlines()[-1].endswith(" azure-maintenance retry 1")

    def test_p15_systemd_is_told_before_the_state_is_opened_that_it_may_hang(self, shell, tmp_path, monkeypatch):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
            systemd.bind(str(tmp_path / "notify"))
            systemd.setblocking(False)
            monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
            shell("respond", "7")
            assert "WATCHDOG=1" in systemd.recv(200).decode().splitlines()

    def test_in_the_journal_the_lines_have_their_priority(self, shell, recorder, monkeypatch):
        log_to_journal(monkeypatch)
        recorder.fail(1)
        shell.respond_to(recorder.step("one\n<0>two"), retries=0)
        _status, _printed, said = shell("respond", "1")
        lines = said.splitlines()
        assert lines[0] == "<5>Response 1 (announced, Reboot A1) begins."
        assert lines[-1].startswith("<3>Response 1")
        # No line can claim a priority of its own.
        assert {line[:3] for line in lines} == {"<3>", "<5>"}

    def test_no_word_of_a_command_steers_the_terminal_that_shows_the_journal(self, shell, tmp_path):
        program = tmp_path / "\x1b[2J\u202e"
        shell.respond_to({"command": [str(program), "one\ntwo\x1b[31m\x85three"]}, retries=0)
        status, _printed, said = shell("respond", "1")
        assert (status, "\x1b" in said, "\u202e" in said, "\x85" in said) == (1, False, False, False)
        name = f"command {tmp_path}/\\u001b[2J\\u202e one\\u000atwo\\u001b[31m\\u0085three: "
        assert said.splitlines()[1].startswith(f"Response 1 (announced, Reboot A1), step 1: {name}")

    @pytest.mark.parametrize("command", ["respond", "retry"])
    def test_one_that_is_not_known(self, shell, command):
        message = "There is no response 7. azure-maintenance history lists them.\n"
        assert shell(command, "7") == (2, "", message)

    @pytest.mark.parametrize("state", [states.PLANNED, states.SUCCEEDED, states.FAILED, states.SKIPPED])
    def test_one_that_has_nothing_to_run(self, shell, recorder, state):
        shell.respond_to(recorder.step("one"), due=False)
        if state != states.PLANNED:
            opened = open_state(shell.folders)
            with opened.transaction():
                opened.finish_response(1, state, None, Clock(shell.folders).now())
            opened.close()
        said = f"Response 1 (announced, Reboot A1) is {state}; there is nothing to run.\n"
        assert shell("respond", "1") == (0, "", said)
        assert recorder.words == []

    def test_one_whose_lock_is_only_tested_in_this_instant_runs(self, shell, recorder, monkeypatch):
        """Who asks whether a response runs holds its lock for a moment."""
        shell.respond_to(recorder.step("one"))
        descriptor = os.open(os.path.join(shell.folders.run, "respond-1.lock"), os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        sleep = time.sleep

        def let_go(seconds):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            sleep(seconds)

        monkeypatch.setattr(system.time, "sleep", let_go)
        try:
            status, _printed, said = shell("respond", "1")
        finally:
            os.close(descriptor)
        assert (status, "running already" in said, recorder.words) == (0, False, ["one"])

    def test_one_that_is_running_already(self, shell, recorder):
        shell.respond_to(recorder.step("one"))
        with system.lock(shell.folders.run, system.response_lock(1)) as free:
            assert free
            assert shell("respond", "1") == (0, "", "Response 1 is running already.\n")
        assert recorder.words == []
        assert shell.response.state == "due"

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_p6_a_stop_ends_its_step_and_leaves_it_interrupted(self, shell, tmp_path, number):
        """As by systemd, or when the terminal of a person is closed."""
        # A child ignores what this process ignores, such as SIGHUP below nohup. The fixture _outside restores it.
        signal.signal(number, signal.SIG_DFL)
        begun, ended = tmp_path / "begun", tmp_path / "ended"
        script = f"trap 'touch {ended}; exit 0' TERM; touch {begun}; while :; do sleep 0.05; done"
        shell.respond_to({"command": ["/bin/sh", "-c", script]}, {"command": ["true"]})
        process = start(shell.folders, "respond", "1")
        wait_until(begun.exists, process)
        assert "response 1, on_announced: running\n" in shell("status")[1]
        process.send_signal(number)
        _printed, said = process.communicate(timeout=600)
        assert process.returncode == 1
        assert said.splitlines()[-1] == "Stopped."
        assert ended.exists()
        assert shell.response.state == "running"
        assert [(step.state, step.failures) for step in shell.response.steps] == [("running", 0), ("pending", 0)]
        assert "response 1, on_announced: waits for " in shell("status")[1]

    def test_the_folder_of_a_killed_playbook_stays_while_anything_of_it_lives_and_goes_at_the_next_start(
        self, shell, tmp_path
    ):
        begun, ended, may_end = tmp_path / "begun", tmp_path / "ended", tmp_path / "may end"
        program = tmp_path / "ansible-playbook"
        # It takes its time to end.
        wait = f"while ! test -e '{may_end}'; do sleep 0.05; done; touch '{ended}'; exit 0"
        program.write_text(f'#!/bin/sh\ntrap "{wait}" TERM\ntouch {begun}\nwhile :; do sleep 0.05; done\n')
        program.chmod(0o755)
        Path(shell.folders.playbooks, "drain.yml").touch()
        shell.configure(ansible_playbook=str(program))
        shell.respond_to({"playbook": "drain.yml"})

        def left():
            return sorted(path.name for path in Path(shell.folders.run).glob("playbook-*"))

        process = start(shell.folders, "respond", "1")
        wait_until(begun.exists, process)
        process.kill()
        folder = left()
        assert len(folder) == 1
        assert shell("respond", "7")[0] == 2
        assert left() == folder
        may_end.touch()
        # The supervisor has its stderr, and closes that before the lock.
        process.communicate(timeout=600)
        wait_until(lambda: not system.is_running(shell.folders, 1), process)
        assert ended.exists()
        assert left() == folder
        assert shell("respond", "7")[0] == 2
        assert left() == []


def test_sigterm_ends_a_check_in_peace(shell, simulator):
    """Nothing failed when the timer or the role stops it, and systemd is not to say so."""
    azure = simulator("--vms", "web-1")
    shell.configure(endpoint=azure.endpoint("web-1"))
    process = start(shell.folders, "check")
    # Who looked into the state meanwhile could lock it.
    wait_until(azure.asked, process)
    process.terminate()
    assert process.communicate(timeout=600)[1] == "Stopped.\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("command", "status"),
    [("check", 0), ("respond", 1), ("retry", 1), ("restore", 1), ("status", 1), ("history", 1), ("validate", 1)],
)
def test_a_command_that_is_stopped_before_its_end_has_failed_unless_the_next_check_does_the_same(
    shell, monkeypatch, command, status
):
    def stop(*_arguments):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setitem(cli._COMMANDS, command, stop)
    arguments = [command, "1"] if command in ("respond", "retry", "restore") else [command]
    assert shell(*arguments) == (status, "", "Stopped.\n")


def test_g1_the_printed_allow_list_lets_in_the_checker_and_nobody_else(shell):
    status, printed, said = shell("allow-list")
    assert (status, said) == (0, "")
    rules = {"defaultAccess": "deny", "mode": "enforce", "rules": json.loads(printed)}
    us = Asker("root", os.readlink("/proc/self/exe"), "python3")
    events, name = "/metadata/scheduledevents?api-version=2020-07-01", "/metadata/instance/compute?api-version=1"
    assert is_allowed(rules, us, events)
    assert is_allowed(rules, us, name)
    assert not is_allowed(rules, us, "/metadata/identity/oauth2/token")
    assert not is_allowed(rules, us._replace(userName="azureuser"), events)
    assert not is_allowed(rules, us._replace(exePath="/usr/bin/curl"), events)


def test_the_guide_shows_the_allow_list_that_is_printed(shell):
    guide = Path(__file__).resolve().parents[4] / "docs" / "docsite" / "rst" / "guide_hardened_vms.rst"
    shown = guide.read_text().split(".. code-block:: json\n\n", 1)[1].split("\n\nAdd them", 1)[0]
    printed = json.loads(shell("allow-list")[1])
    printed["identities"][0]["exePath"] = "/usr/bin/python3.11"
    assert json.loads(shown) == printed


class TestRetry:
    """A person has mended what made a response fail."""

    @pytest.fixture
    def failed(self, shell, recorder):
        recorder.fail(1)
        shell.respond_to(recorder.step("one"), retries=0)
        assert shell("respond", "1")[0] == 1
        return shell

    def test_it_is_due_again_and_its_unit_is_started(self, failed, recorder):
        message = "Response 1 runs. To watch it: journalctl -fu azure-maintenance-respond@1\n"
        assert failed("retry", "1") == (0, "", message)
        assert failed.units == ["start --no-block azure-maintenance-respond@1.service"]
        assert (failed.response.state, failed.response.message, failed.response.finished_at) == ("due", None, None)
        assert failed("respond", "1")[0] == 0
        assert recorder.words == ["one", "one"]

    def test_its_unit_cannot_be_started(self, failed, tmp_path):
        (tmp_path / "bin" / "systemctl").write_text("#!/bin/sh\necho 'Access denied'; echo again; exit 4\n")
        status, _printed, said = failed("retry", "1")
        assert (status, "Access denied again" in said) == (1, True)
        assert failed.response.state == "due"

    def test_without_systemd(self, failed, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        status, _printed, said = failed("retry", "1")
        assert (status, "azure-maintenance-respond@1.service" in said) == (1, True)

    def test_one_that_has_not_failed(self, shell, recorder):
        shell.respond_to(recorder.step("one"))
        message = "Response 1 has not failed (its state is due). Only a response that failed can be tried again.\n"
        assert shell("retry", "1") == (2, "", message)
        assert shell.units == []


class TestCheck:
    """One poll; what comes of many is in test_scenarios."""

    def test_p8_systemctl_may_hold_it_up_for_two_seconds_only(self, shell, tmp_path):
        (tmp_path / "bin" / "systemctl").write_text("#!/bin/sh\nexec sleep 600\n")
        shell.configure(endpoint="http://127.0.0.1:1")
        shell.respond_to({"command": ["true"]})
        said = shell("check", "--once")[2]
        assert "azure-maintenance-respond@1.service" in said
        assert "timed out after 2.0 seconds" in said
        assert shell.response.state == "due"

    def test_an_error_that_nobody_foresaw_is_told_with_its_place_and_polling_goes_on(
        self, shell, simulator, clock, monkeypatch
    ):
        """Data must never end the polling (P7), and LogLevelMax=notice drops a traceback, which has no priority."""
        from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.poll import (
            check,
        )

        calls = []
        record = check.record_answer

        def fail_at_first(*arguments):
            calls.append(arguments)
            if len(calls) < 4:
                raise ZeroDivisionError("of an event\nthat is odd")
            return record(*arguments)

        monkeypatch.setattr(check, "record_answer", fail_at_first)
        monkeypatch.setattr(cli, "Clock", lambda _folders: clock)
        log_to_journal(monkeypatch)
        azure = simulator("--clock", "manual", "--vms", "web-1")
        azure.control("POST", "/simulator/events", {"event_type": "Reboot", "resources": ["web-1"]})
        shell.configure(endpoint=azure.endpoint("web-1"), poll_interval=1, timer_interval=10)
        status, printed, said = shell("check")
        assert (status, printed) == (0, "")
        first, second = said.splitlines()
        assert first.startswith("<3>Unexpected error in ")
        assert first.endswith(": ZeroDivisionError: of an event that is odd. Polling goes on.")
        assert " announced" in second

    def test_a_record_that_was_damaged_is_told_with_its_priority_and_once(self, shell, simulator, monkeypatch):
        log_to_journal(monkeypatch)
        shell.respond_to({"command": ["true"]})
        shell.change("UPDATE event SET content = 'x'")
        azure = simulator("--vms", "web-1")
        shell.configure(endpoint=azure.endpoint("web-1"))
        told = [shell("check", "--once")[2] for _number in range(2)]
        assert told[0].startswith("<4>A record of event 1 ")
        assert "A record of" not in told[1]
        assert shell("status")[0] in (0, 1)


@pytest.mark.parametrize("command", [("check", "--once"), ("respond", "1"), ("retry", "1")])
@pytest.mark.parametrize(
    ("said", "advice"),
    [("database is locked", "Another program holds its lock."), ("database or disk is full", "Is the disk full?")],
)
def test_a_state_that_cannot_be_used_is_told_with_its_reason(shell, monkeypatch, command, said, advice):
    shell.configure(rules=[], endpoint="http://127.0.0.1:9")

    def fail(*_arguments, **_options):
        raise sqlite3.OperationalError(said)

    monkeypatch.setattr(opener, "open_database", fail)
    code, out, err = shell(*command)
    assert (code, out) == (1, "")
    lines = err.splitlines()
    assert lines[-1] == f"The state in {shell.folders.state} cannot be used ({said}). {advice}"
    # A check asks Azure all the same.
    assert len(lines) == (3 if command[0] == "check" else 1)
