# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program: its arguments, its background life, and the scenarios it comes with."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

FILES = Path(__file__).resolve().parents[4] / "roles" / "imds_simulator" / "files"
ANYWHERE = ("--listen", "127.0.0.1:0")
VMS = ("--vms", "web-1,web-2")


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-B", str(FILES / "imds_simulator.py"), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        cwd=cwd,
    )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "--vms"),
        (("--vms", ""), "VM"),
        (("--vms", "a,,b"), "VM"),
        (("--vms", "a,b/c"), "b/c"),
        (("--vms", "a b"), "a b"),
        (("--vms", "web-1,WEB-1"), "twice"),
        (("web-1",), "unrecognized"),
        ((*VMS, "--verbose"), "--verbose"),
        ((*VMS, "--listen", "8181"), "HOST:PORT"),
        ((*VMS, "--listen", "127.0.0.1:http"), "HOST:PORT"),
        ((*VMS, "--listen", "127.0.0.1:70000"), "HOST:PORT"),
        ((*VMS, "--listen", "127.0.0.1:" + "1" * 5000), "HOST:PORT"),
        ((*VMS, "--clock", "sundial"), "sundial"),
        ((*VMS, "--clock", "manual", "--speed", "2"), "--speed"),
        ((*VMS, "--speed", "0"), "--speed"),
        ((*VMS, "--speed", "fast"), "--speed"),
        ((*VMS, "--speed", "nan"), "--speed"),
        ((*VMS, "--scope", "web-1"), "--scope"),
        ((*VMS, "--scope", "a=web-9"), "web-9"),
        ((*VMS, "--scope", "a=web-1", "--scope", "b=WEB-1"), "has one"),
        ((*VMS, "--scope", "a=web-1", "--scope", "a=web-2"), "twice"),
        ((*VMS, "--by-address", "web-1"), "--by-address"),
        ((*VMS, "--by-address", "localhost=web-1"), "localhost"),
        ((*VMS, "--by-address", "10.0.0.2=web-9"), "web-9"),
        ((*VMS, "--scenario", "earthquake"), "reboot_two_vms"),
        ((*VMS, "--scenario", "/no/such.json"), "/no/such.json"),
        (("--vms", "alone", "--scenario", "reboot_two_vms"), "number 1"),
        ((*VMS, "--journal", "/no/such/journal"), "/no/such/journal"),
        ((*VMS, "--log", "x"), "--detach"),
        ((*VMS, "--stop-after", "0"), "--stop-after"),
        ((*VMS, "--stop-after", "soon"), "soon"),
        ((*VMS, "--stop-after", "1e10"), "at most 1000000000"),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_sentence(arguments, word):
    ended = run(*ANYWHERE, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert word in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith("imds_simulator: ")


@pytest.mark.parametrize(
    ("scenario", "word"),
    [
        ("nonsense", "JSON"),
        ("[]", "object"),
        ({"event": []}, "event"),
        ({"vms": "a,b"}, "vms"),
        ({"vms": [1]}, "vms"),
        ({"events": {}}, "events"),
        ({"events": [{"event_type": "Reboot", "resources": [0]}, {"event_type": "Reboot"}]}, "event 2"),
        ({"settings": {"speed": 2}}, "speed"),
        ({"settings": []}, "settings"),
        ({"faults": [{"fault": "nothing"}]}, "fault"),
        ({"scopes": {"a": ["web-9"]}}, "web-9"),
        ({"scopes": {"a": [None]}}, "null"),
        ({"scopes": {"a": "web-1"}}, "scopes.a"),
        ({"scopes": {"a": [0], "b": ["web-1"]}}, "has one"),
    ],
)
def test_a_wrong_scenario_is_refused_naming_the_file(tmp_path, scenario, word):
    path = tmp_path / "mine.json"
    path.write_text(scenario if isinstance(scenario, str) else json.dumps(scenario), encoding="utf-8")
    ended = run(*ANYWHERE, *VMS, "--scenario", str(path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert str(path) in ended.stderr
    assert word in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_scenario_brings_vms_scopes_settings_events_and_faults(start, tmp_path):
    path = tmp_path / "mine.json"
    scenario = {
        "description": "all of it",
        "vms": ["a", "b", "c"],
        "scopes": {"front": [0, "b"]},
        "settings": {"baseline_incarnation": 0},
        "events": [{"event_type": "Reboot", "resources": ["b"], "after": 5}],
        "faults": [{"fault": "empty", "times": 1, "vms": ["c"]}],
    }
    path.write_text(json.dumps(scenario), encoding="utf-8")
    stage = start("--scenario", str(path))
    assert stage.document("a") == {"DocumentIncarnation": 0, "Events": []}
    stage.advance(5)
    assert stage.statuses("a") == stage.statuses("b") == ["Scheduled"]
    assert stage.get("c").body == b""
    assert stage.statuses("c") == []


def test_the_command_line_goes_before_the_scenario(start, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"vms": ["a"], "scopes": {"x": [0]}}), encoding="utf-8")
    stage = start("--scenario", str(path), "--vms", "b,c", "--scope", "y=c")
    scopes = stage.control("GET", "/simulator/state")["scopes"]
    assert [(scope["name"], scope["vms"]) for scope in scopes] == [("y", ["c"]), ("default", ["b"])]


@pytest.mark.parametrize(
    ("name", "event_type", "source", "resources", "approve", "phases"),
    [
        # the phase 10 s, 10 min, 20 min and 8 days after the start
        ("freeze", "Freeze", "Platform", ["x"], False, ["announced", "announced", "started", "ended"]),
        ("reboot_two_vms", "Reboot", "Platform", ["x", "y"], True, ["announced", "ended", "ended", "ended"]),
        ("redeploy", "Redeploy", "User", ["x"], False, ["announced", "announced", "ended", "ended"]),
        ("preempt", "Preempt", "Platform", ["x"], False, ["announced", "ended", "ended", "ended"]),
        ("terminate", "Terminate", "User", ["x"], False, ["announced", "ended", "ended", "ended"]),
        ("withdrawn", "Reboot", "Platform", ["x"], False, ["announced", "ended", "ended", "ended"]),
        ("straight_to_started", "Reboot", "Platform", ["x"], False, ["started", "ended", "ended", "ended"]),
        ("predicted_hardware_failure", "Redeploy", "Platform", ["x"], False, ["announced"] * 3 + ["ended"]),
        ("new_id_each_state", "Reboot", "Platform", ["x"], False, ["announced", "announced", "ended", "ended"]),
    ],
)
def test_the_shipped_scenarios(start, name, event_type, source, resources, approve, phases):
    stage = start("--vms", "x,y", "--scenario", name)
    assert stage.document("x")["Events"] == []
    seen = []
    for seconds in (10, 590, 600, 690000):
        stage.advance(seconds)
        (event,) = stage.control("GET", "/simulator/events")["events"]
        seen.append(event["phase"])
        if approve and event["phase"] == "announced":
            assert stage.approve(event["event_id"], vm="y").status == 200
    assert seen == phases
    assert (event["event_type"], event["event_source"], event["resources"]) == (event_type, source, resources)
    assert event["outcome"] == ("withdrawn" if name == "withdrawn" else "completed")


@pytest.mark.parametrize(
    ("name", "fault", "times"),
    [("proxy_agent", {"fault": "proxy_agent", "path": "any", "times": 3}, 3), ("silent", {"fault": "silent"}, 2)],
)
def test_the_shipped_scenarios_whose_first_answers_go_wrong(start, name, fault, times):
    stage = start("--vms", "x,y", "--scenario", name)
    (set_fault,) = stage.control("GET", "/simulator/faults")["faults"]
    assert {**set_fault, **fault, "times": times} == set_fault
    stage.control("DELETE", "/simulator/faults")
    stage.advance(10)
    (event,) = stage.document("x")["Events"]
    assert (event["EventType"], event["Resources"]) == ("Reboot", ["x"])


def test_every_shipped_scenario_is_tested_and_listed():
    names = {path.stem for path in (FILES / "scenarios").glob("*.json")}
    assert len(names) == 11
    shown = " ".join(run("--help").stdout.split())
    assert all(name in shown for name in names)


def test_the_line_it_prints_and_a_clean_end(simulator):
    running = simulator("--vms", "web-1,b.c_d")
    assert running.line == {
        "url": running.url,
        "pid": running.process.pid,
        "vms": {"web-1": running.url + "/vm/web-1", "b.c_d": running.url + "/vm/b.c_d"},
    }
    assert running.url.startswith("http://127.0.0.1:")
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(5) == 0
    assert running.process.stdout.read() == b""


def test_i14_a_taken_port_is_reported_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        both = [run("--listen", address, *VMS, *more) for more in ((), ("--detach",))]
    for ended in both:
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr == (
            f"imds_simulator: cannot listen on {address}: Address already in use. Another program listens there. "
            "If it is a simulator that was left running, "
            f"curl --noproxy '*' -X POST http://{address}/simulator/stop ends it. Or take another port.\n"
        )


def test_an_address_that_this_machine_has_not_is_reported():
    ended = run(*VMS, "--listen", "192.0.2.1:0")
    assert ended.returncode == 1
    assert ended.stderr == "imds_simulator: cannot listen on 192.0.2.1:0: Cannot assign requested address.\n"


def test_the_address_for_clients_when_it_listens_everywhere(simulator):
    running = simulator("--vms", "a", "--listen", "0.0.0.0:0")
    assert running.url.startswith("http://127.0.0.1:")
    assert running.get("a", "/metadata/versions").status == 200


def test_listening_on_ipv6(simulator):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 loopback here: {error}")
    running = simulator("--vms", "a", "--listen", "[::1]:0")
    assert running.url.startswith("http://[::1]:")
    assert running.get("a", "/metadata/versions").status == 200


def test_the_state_file_is_there_while_it_runs(simulator, tmp_path):
    path = tmp_path / "state.json"
    running = simulator("--vms", "a", "--state-file", str(path))
    assert json.loads(path.read_text(encoding="utf-8")) == running.line
    assert running.control("POST", "/simulator/stop")
    assert running.process.wait(5) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_state_file_that_another_took_over_is_left_alone(simulator, tmp_path):
    path = tmp_path / "state.json"
    first = simulator("--vms", "a", "--state-file", str(path))
    second = simulator("--vms", "a", "--state-file", str(path))
    first.stop()
    assert json.loads(path.read_text(encoding="utf-8")) == second.line


def wait_for_end(pid):
    """Until a process that is no child of ours is gone, or waits for its parent only."""
    deadline = time.monotonic() + 600
    while True:
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        assert time.monotonic() < deadline, "the process does not end"
        time.sleep(0.02)


def test_detached_it_goes_on_by_itself(tmp_path):
    ended = run(*ANYWHERE, *VMS, "--detach", "--state-file", "state.json", "--log", "log.txt", cwd=str(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")
    line = json.loads(ended.stdout)
    try:
        assert len(ended.stdout.splitlines()) == 1
        assert json.loads((tmp_path / "state.json").read_text(encoding="utf-8")) == line
        assert os.getsid(line["pid"]) == line["pid"]
        with socket.create_connection(("127.0.0.1", int(line["url"].rsplit(":", 1)[1])), timeout=600):
            pass
    finally:
        os.kill(line["pid"], signal.SIGTERM)
    wait_for_end(line["pid"])
    assert not (tmp_path / "state.json").exists()
    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("option", ["--state-file", "--log"])
def test_a_detached_one_that_cannot_come_up_says_why(option):
    ended = run(*ANYWHERE, *VMS, "--detach", option, "/no/such/place")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "/no/such/place" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_what_cannot_become_a_state_file_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for more in ((), ("--detach",)):
        ended = run(*ANYWHERE, *VMS, *more, "--state-file", str(folder))
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr == f"imds_simulator: --state-file {folder} cannot be written: Is a directory.\n"
    assert list(tmp_path.iterdir()) == [folder]


def test_a_journal_file_on_a_full_disk_costs_no_answer(tmp_path):
    log = tmp_path / "log.txt"
    ended = run(*ANYWHERE, *VMS, "--detach", "--journal", "/dev/full", "--log", str(log))
    line = json.loads(ended.stdout)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", int(line["url"].rsplit(":", 1)[1]), timeout=600)
        with contextlib.closing(connection):
            for _each in range(2):
                connection.request("GET", "/vm/web-1/metadata/versions", headers={"Metadata": "true"})
                answer = connection.getresponse()
                assert (answer.status, bool(answer.read())) == (200, True)
    finally:
        os.kill(line["pid"], signal.SIGTERM)
    wait_for_end(line["pid"])
    said = "--journal /dev/full cannot be written: No space left on device. It lacks requests from now on."
    assert log.read_text(encoding="utf-8") == f"imds_simulator: {said}\n"


def test_a_journal_file_that_is_a_fifo_blocks_nothing(tmp_path):
    fifo = tmp_path / "journal"
    os.mkfifo(fifo)
    ended = run(*ANYWHERE, *VMS, "--journal", str(fifo), "--stop-after", "0.1")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"imds_simulator: --journal {fifo} cannot be written: No such device or address.\n"


def test_it_stops_by_itself_when_it_was_told_how_long_to_live(tmp_path):
    started = time.monotonic()
    ended = run(*ANYWHERE, *VMS, "--stop-after", "0.5", "--state-file", str(tmp_path / "state.json"))
    assert ended.returncode == 0
    assert time.monotonic() - started >= 0.5
    assert not (tmp_path / "state.json").exists()
