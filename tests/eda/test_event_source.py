# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event source: what it tells of a real simulator's events, and what it makes of faults and wrong arguments."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.eda.conftest import SOURCE
from ansible_collections.fleetops.azure_maintenance.tests.simulator import plain_environment

KEYS = {"maintenance_event", "maintenance_phase", "maintenance_outcome", "resource_name", "meta"}
LOGGER = "fleetops.azure_maintenance.scheduled_events"


@pytest.fixture
def azure(simulator):
    return simulator("--vms", "web-1")


def said(caplog):
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def brief(told):
    return told["maintenance_phase"], told["maintenance_outcome"]


async def test_one_event_is_told_at_each_of_its_phases_and_not_in_between(simulator, watch):
    azure = simulator("--vms", "web-1,web-2", "--clock", "manual")
    async with watch(azure) as source:
        assert await source.silent()
        event_id = azure.announce("Reboot", "web-1", "web-2", notice=60, started_for=10)
        announced = await source.next()
        assert await source.silent()
        azure.control("POST", "/simulator/clock", {"advance": 61})
        started = await source.next()
        assert await source.silent()
        azure.control("POST", "/simulator/clock", {"advance": 10})
        ended = await source.next()
        assert await source.silent()
    told = [announced, started, ended]
    assert [brief(one) for one in told] == [("announced", None), ("started", None), ("ended", "completed")]
    for one in told:
        assert set(one) == KEYS
        assert one["maintenance_event"]["event_id"] == event_id
        assert one["maintenance_event"]["resources"] == ["web-1", "web-2"]
        assert one["resource_name"] == "web-1"
        assert one["meta"]["hosts"] == ["web-1"]
    assert len({one["meta"]["uuid"] for one in told}) == 3


@pytest.mark.parametrize("remembers", [True, False])
async def test_what_is_listed_at_the_start_is_told_again_with_the_same_uuid(simulator, watch, tmp_path, remembers):
    azure = simulator("--vms", "web-1", "--clock", "manual")
    azure.announce("Reboot", "web-1")
    azure.announce("Freeze", "web-1", event_status="Started")
    args = {"state_file": str(tmp_path / "state.json")} if remembers else {}
    seen = []
    for _time in range(2):
        async with watch(azure, **args) as source:
            told = [await source.next(), await source.next()]
            assert await source.silent()
        seen.append({brief(one)[0]: one["meta"]["uuid"] for one in told})
    assert set(seen[0]) == {"announced", "started"}
    assert seen[0] == seen[1]


async def test_events_of_other_vms_are_not_told(simulator, watch):
    azure = simulator("--vms", "web-1,web-2")
    azure.announce("Reboot", "web-2")
    async with watch(azure) as source:
        assert await source.silent()


async def test_a_withdrawn_event_has_ended(azure, watch):
    async with watch(azure, resource_name="WEB-1") as source:
        event_id = azure.announce("Reboot", "web-1")
        await source.next()
        azure.control("DELETE", f"/simulator/events/{event_id}")
        assert brief(await source.next()) == ("ended", "withdrawn")


@pytest.mark.parametrize("remembers", [True, False])
async def test_an_end_that_came_while_nothing_ran_is_told_with_a_state_file_only(azure, watch, tmp_path, remembers):
    event_id = azure.announce("Reboot", "web-1")
    args = {"state_file": str(tmp_path / "state.json")} if remembers else {}
    async with watch(azure, **args) as source:
        await source.next()
    azure.control("DELETE", f"/simulator/events/{event_id}")
    async with watch(azure, **args) as source:
        if remembers:
            ended = await source.next()
            assert brief(ended) == ("ended", "withdrawn")
            assert ended["maintenance_event"]["event_id"] == event_id
        assert await source.silent()
    async with watch(azure, **args) as source:
        assert await source.silent()
    files = {"state.json", "state.json.lock"} if remembers else set()
    assert {path.name for path in tmp_path.iterdir()} == files


@pytest.mark.parametrize(("changed", "told"), [("BootId", ("ended", "completed")), ("Resources", None)])
async def test_the_state_file_knows_the_boot_and_the_vm(simulator, watch, tmp_path, changed, told):
    """An event during which this VM rebooted has taken place; one that a copied disk brought along is another VM's."""
    azure = simulator("--vms", "web-1,web-9")
    event_id = azure.announce("Reboot", "web-1")
    state = tmp_path / "state.json"
    async with watch(azure, state_file=str(state)) as source:
        await source.next()
    content = json.loads(state.read_text())
    content["Events"][0][changed] = {"BootId": "another", "Resources": ["web-9"]}[changed]
    state.write_text(json.dumps(content))
    azure.control("DELETE", f"/simulator/events/{event_id}")
    async with watch(azure, state_file=str(state)) as source:
        if told:
            assert brief(await source.next()) == told
        assert await source.silent()


async def test_a_state_file_that_cannot_be_written_later_on_costs_no_event(azure, watch, tmp_path, caplog):
    folder = tmp_path / "state"
    folder.mkdir()
    async with watch(azure, state_file=str(folder / "state.json")) as source:
        await source.polled(1)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        azure.announce("Reboot", "web-1")
        assert brief(await source.next()) == ("announced", None)
        await source.polled(2)
    assert [line for line in said(caplog) if "cannot be written" in line] == [
        f"state_file {folder / 'state.json'} cannot be written: No such file or directory."
    ]


def write_state(path, *events):
    path.write_text(json.dumps({"Events": list(events)}))


def of_web_1(event_id, **changes):
    return {"EventId": event_id, "EventType": "Reboot", "EventStatus": "Started", "Resources": ["web-1"], **changes}


DAMAGED = [
    pytest.param(b"", id="empty"),
    pytest.param(bytes(400), id="zeros"),
    pytest.param(b'{"Events": [{"EventId": "A1", "Ev', id="cut off"),
    pytest.param(b'z"Events": [{"EventId": "A1"}]}', id="first byte flipped"),
    pytest.param(b'{"Avents": [{"EventId": "A1"}]}', id="name of the list flipped"),
    pytest.param(b'{"Events": 5}', id="no list"),
    pytest.param(b"[" * 100000 + b'"Events"', id="deep"),
]


@pytest.mark.parametrize("content", DAMAGED)
async def test_a_damaged_state_file_is_put_aside_and_the_source_goes_on(azure, watch, tmp_path, caplog, content):
    azure.announce("Reboot", "web-1")
    state = tmp_path / "state.json"
    state.write_bytes(content)
    async with watch(azure, state_file=str(state)) as source:
        assert brief(await source.next()) == ("announced", None)
        await source.polled(2)
    (aside,) = tmp_path.glob("state.json.damaged-*")
    assert aside.read_bytes() == content
    assert said(caplog) == [
        f"state_file {state} is damaged. It was renamed to {aside.name}, and no earlier event is remembered."
    ]
    assert len(json.loads(state.read_text())["Events"]) == 1


async def test_a_record_that_cannot_be_read_costs_no_other(azure, watch, tmp_path, caplog):
    state = tmp_path / "state.json"
    write_state(state, of_web_1(None), "rubbish", of_web_1("A1", NotBefore=5, DurationInSeconds="x"))
    async with watch(azure, state_file=str(state)) as source:
        ended = await source.next()
        assert (*brief(ended), ended["maintenance_event"]["event_id"]) == ("ended", "completed", "A1")
        await source.polled(2)
    first, second = said(caplog)
    assert first.startswith(f"state_file {state}: event 1 cannot be read and is left out: ")
    assert second.startswith(f"state_file {state}: event 2 cannot be read and is left out: ")
    assert json.loads(state.read_text())["Events"] == []


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("victim")], ids=["FIFO", "link"])
async def test_what_somebody_put_at_the_name_of_the_state_file_blocks_nothing_and_stays_as_it_was(
    azure, watch, tmp_path, caplog, make
):
    azure.announce("Reboot", "web-1")
    victim, state = tmp_path / "victim", tmp_path / "state.json"
    victim.write_text("untouched")
    make(state)
    async with watch(azure, state_file=str(state)) as source:
        assert brief(await source.next()) == ("announced", None)
        await source.polled(2)
    assert "is not a regular file. It was renamed" in said(caplog)[0]
    assert victim.read_text() == "untouched"
    assert state.is_file()
    assert not state.is_symlink()


async def test_p16_two_sources_do_not_replace_the_events_of_each_other(azure, watch, plugin, tmp_path):
    state = str(tmp_path / "state.json")
    options = plugin["read_options"]({"endpoint": azure.endpoint("web-1"), "state_file": state})
    async with watch(azure, state_file=state) as source:
        await source.polled(1)
        with pytest.raises(ValueError, match=f"{re.escape(state)} is in use by another source[.] Give each source"):
            plugin["make_watcher"](options)
    plugin["make_watcher"](options).close()


def test_p16_a_source_that_has_ended_does_not_write_into_the_file_of_the_next(azure, plugin, tmp_path):
    """ansible-rulebook may begin another one in the same process, while Azure holds an answer to the first."""
    state = tmp_path / "state.json"
    options = plugin["read_options"]({"endpoint": azure.endpoint("web-1"), "state_file": str(state)})
    first = plugin["make_watcher"](options)
    azure.announce("Reboot", "web-1")
    first.close()
    assert len(first.poll()[0]) == 1
    assert not state.exists()


FAULTS = [
    {"fault": "status", "status": 500},
    {"fault": "status", "status": 410},
    {"fault": "status", "status": 400},
    {"fault": "status", "status": 404},
    {"fault": "throttle"},
    {"fault": "garbage"},
    {"fault": "oversize"},
    {"fault": "proxy_page"},
    {"fault": "redirect"},
    {"fault": "truncated"},
    {"fault": "reset"},
    {"fault": "body", "body": '{"DocumentIncarnation": 3}'},
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.get("status", fault["fault"])))
async def test_a_fault_ends_no_event_and_is_said_once(azure, watch, caplog, fault):
    azure.announce("Reboot", "web-1")
    async with watch(azure) as source:
        await source.next()
        azure.control("POST", "/simulator/faults", {**fault, "times": 2})
        assert await source.silent(4)
        azure.announce("Freeze", "web-1")
        assert brief(await source.next()) == ("announced", None)
    first, last = said(caplog)
    assert first.startswith("The metadata service could not be asked: ")
    assert last == "The metadata service answers again, after 2 polls that failed."


UNCLEAR = [
    pytest.param({"fault": "empty"}, "an empty body, which is not a document", id="empty body"),
    pytest.param({"fault": "body", "body": '{"Events": [{"EventId": null}]}'}, "has no EventId", id="entry without id"),
]


@pytest.mark.parametrize(("fault", "line"), UNCLEAR)
async def test_an_unclear_answer_ends_no_event_and_is_said_once(azure, watch, caplog, fault, line):
    azure.announce("Reboot", "web-1")
    async with watch(azure) as source:
        await source.next()
        azure.control("POST", "/simulator/faults", {**fault, "times": 3})
        assert await source.silent(4)
    (only,) = said(caplog)
    assert line in only


async def test_a_vm_whose_name_cannot_be_asked_yet(azure, watch, caplog):
    azure.announce("Reboot", "web-1")
    azure.control("PATCH", "/simulator/settings", {"instance_name": "missing"})
    async with watch(azure) as source:
        assert await source.silent(2)
        azure.control("PATCH", "/simulator/settings", {"instance_name": "present"})
        assert brief(await source.next()) == ("announced", None)
    assert "Set resource_name " in said(caplog)[0]


@pytest.mark.parametrize(
    ("setting", "fault", "pauses"),
    [
        (None, {"fault": "status", "status": 500}, [1, 2, 4, 5, 5]),
        (7, {"fault": "throttle"}, [7, 7]),
        (3600, {"fault": "throttle"}, [60, 60]),
    ],
    ids=["growing", "Retry-After", "endless Retry-After"],
)
def test_the_pauses_after_faults(azure, plugin, setting, fault, pauses):
    azure.control("PATCH", "/simulator/settings", {"retry_after": setting})
    azure.control("POST", "/simulator/faults", fault)
    options = plugin["read_options"]({"endpoint": azure.endpoint("web-1")})
    watcher = plugin["make_watcher"](options)
    assert [watcher.poll() for _time in pauses] == [([], pause) for pause in pauses]
    azure.control("DELETE", "/simulator/faults")
    assert watcher.poll() == ([], 1)


def test_an_answer_that_is_held_blocks_neither_the_loop_nor_the_end(azure, watch):
    """Else Azure would have answered in the meantime, when it has held the answer long enough."""
    azure.control("POST", "/simulator/faults", {"fault": "hold", "seconds": 600})

    async def scenario():
        async with watch(azure, timeout=86400) as source:
            while not source.polls(answered=False):
                await asyncio.sleep(0.01)
            return source

    source = asyncio.run(scenario())
    assert (source.polls(), source.polls(answered=False)) == (0, 1)
    azure.control("DELETE", "/simulator/faults")


@pytest.mark.hostile_text
async def test_text_from_azure_is_no_template(azure, watch):
    azure.announce("Reboot", "web-1", description="{{ lookup('pipe', 'id') }}")
    async with watch(azure) as source:
        told = await source.next()
    assert told["maintenance_event"]["description"] == "{ { lookup('pipe', 'id') }}"


UNKNOWN = (
    "There is no argument intervall; there are endpoint, api_version, connect_timeout, timeout, resource_name, "
    "poll_interval, state_file."
)
REFUSED = [
    ({"endpoint": "ftp://here"}, 'endpoint must have the form http://HOST[:PORT][/PREFIX], not "ftp://here".'),
    ({"endpoint": 5}, 'endpoint must be a string, not "5".'),
    ({"timeout": 0}, "timeout must be more than 0 and at most 86400 seconds, not 0."),
    ({"timeout": True}, 'timeout must be a number, not "True".'),
    ({"connect_timeout": "soon"}, 'connect_timeout must be a number, not "soon".'),
    ({"poll_interval": 0.1}, "poll_interval must be from 0.2 to 60 seconds, not 0.1."),
    ({"poll_interval": float("nan")}, "poll_interval must be from 0.2 to 60 seconds, not nan."),
    ({"resource_name": "all:!web"}, 'resource_name must be the name of a VM, not "all:!web".'),
    ({"resource_name": "@hosts"}, 'resource_name must be the name of a VM, not "@hosts".'),
    # A rulebook would hand it to Ansible as its limit.
    ({"resource_name": "All"}, 'resource_name must be the name of a VM, not "All".'),
    ({"intervall": 1}, UNKNOWN),
    ({"intervall": ""}, UNKNOWN),
    (
        {"state_file": "/nowhere/state.json"},
        "state_file /nowhere/state.json cannot be written: No such file or directory. Its folder must exist and be "
        "writable.",
    ),
    (
        {"state_file": f"/tmp/{'s' * 240}"},
        f"state_file /tmp/{'s' * 240} cannot be written: File name too long. Its folder must exist and be writable.",
    ),
    ({"state_file": "/etc"}, "state_file /etc cannot be read: Is a directory."),
    ({"state_file": "/dev/null"}, "state_file /dev/null cannot be read: It is a device."),
]


@pytest.mark.parametrize(("args", "sentence"), REFUSED)
def test_a_wrong_argument_ends_the_source_at_once(plugin, args, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        asyncio.run(asyncio.wait_for(plugin["main"](asyncio.Queue(1), args), 5))


def test_a_file_of_another_program_stays_where_it_is(plugin, tmp_path):
    other = tmp_path / "daemon.json"
    other.write_text('{"log-driver": "journald"}\n')
    said = re.escape(f"state_file {other} was not written by this source. Name another one.")
    with pytest.raises(ValueError, match=f"^{said}$"):
        asyncio.run(asyncio.wait_for(plugin["main"](asyncio.Queue(1), {"state_file": str(other)}), 5))
    assert [path.name for path in tmp_path.iterdir()] == ["daemon.json"]


def test_an_empty_string_counts_as_not_set(plugin):
    options = plugin["read_options"]({"endpoint": "", "state_file": "", "resource_name": None})
    assert options == plugin["Options"](endpoint="http://127.0.0.1:9")


def held_answers(azure):
    requests = azure.control("GET", "/simulator/journal")["requests"]
    return len([one for one in requests if "/scheduledevents" in one["path"] and one["status"] is None])


def wait_for_a_held_answer(azure):
    while not held_answers(azure):
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("intervall=1", UNKNOWN),
        ("timeout=long", 'timeout must be a number, not "long".'),
        ("state_file=/etc", "state_file /etc cannot be read: Is a directory."),
    ],
)
def test_run_by_itself_with_a_wrong_argument_it_prints_the_sentence_alone(argument, sentence):
    run = subprocess.run(
        [sys.executable, "-B", str(SOURCE), argument],
        capture_output=True,
        text=True,
        cwd=os.path.dirname(SOURCE),
        env=plain_environment(),
        timeout=600,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (1, "", f"{sentence}\n")


def test_p16_a_second_program_is_refused_a_state_file_until_the_first_is_killed(azure, tmp_path):
    azure.announce("Reboot", "web-1")
    given = [f"endpoint={azure.endpoint('web-1')}", "poll_interval=0.2", f"state_file={tmp_path / 'state.json'}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    where = {"cwd": os.path.dirname(SOURCE), "env": plain_environment()}
    command = [sys.executable, "-B", str(SOURCE), *given]
    for _start in range(2):
        with subprocess.Popen(command, **pipes, **where) as first:
            try:
                assert first.stdout.readline() == "{\n"
                second = subprocess.run(command, **pipes, **where, timeout=600, check=False)
            finally:
                first.kill()
        assert (second.returncode, second.stdout) == (1, "")
        assert second.stderr.endswith("is in use by another source. Give each source a file of its own.\n")


def test_the_file_can_be_run_by_itself(azure):
    """It prints what it tells, and Ctrl+C ends it even while Azure holds an answer."""
    event_id = azure.announce("Reboot", "web-1")
    with subprocess.Popen(
        [
            sys.executable,
            "-B",
            str(SOURCE),
            f"endpoint={azure.endpoint('web-1')}",
            "poll_interval=0.2",
            "timeout=86400",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=os.path.dirname(SOURCE),
        env=plain_environment(),
        # Whoever runs the tests in the background may have them ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            lines = []
            while not lines or lines[-1] != "}\n":
                lines.append(process.stdout.readline())
            azure.control("POST", "/simulator/faults", {"fault": "hold", "seconds": 600})
            wait_for_a_held_answer(azure)
            process.send_signal(signal.SIGINT)
            _out, err = process.communicate(timeout=600)
        finally:
            process.kill()
    assert held_answers(azure) == 1, "it did not end before Azure answered"
    azure.control("DELETE", "/simulator/faults")
    assert json.loads("".join(lines))["maintenance_event"]["event_id"] == event_id
    assert err == ""
