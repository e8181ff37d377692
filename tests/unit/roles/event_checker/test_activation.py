# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When one activation of the check polls, and when it ends; the next one begins a poll interval later."""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import ImdsClient
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    parse_config,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.poll import check
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.report.report import (
    report,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.open_state import (  # noqa: E501
    open_store,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.records import (
    DUE,
    SUCCEEDED,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.store import Store
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import lock
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track import tracker
from ansible_collections.fleetops.azure_maintenance.tests.instance import TARGET
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils import conftest as loopback
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import open_state

serve = loopback.serve

FINE = b'{"DocumentIncarnation": 1, "Events": []}'
BUSY = (503, b"busy")


@pytest.fixture
def prepare(folders, clock):
    """A check of web-1 at an endpoint; systemd is asked for no unit unless told otherwise."""

    def make(endpoint, start_unit=pytest.fail, open_store=None, **settings):
        config = parse_config({"endpoint": endpoint, "resource_name": "web-1", **settings})
        return check.Checker(config, folders, clock, open_store or (lambda **_why: open_state(folders)), start_unit)

    return make


EVENT = {"EventId": "A1", "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["web-1"]}


def document(*events):
    return 200, json.dumps({"DocumentIncarnation": 1, "Events": events}).encode()


def busy(seconds):
    return (429, b"slow down", {"Retry-After": str(seconds)})


@pytest.mark.parametrize(
    ("poll_interval", "timer_interval", "once", "answers", "polls", "end"),
    [
        pytest.param(1, 4, False, [FINE] * 4, [0, 1, 2, 3], 3, id="until the next check is due"),
        pytest.param(0.5, 2, False, [FINE] * 4, [0, 0.5, 1, 1.5], 1.5, id="twice a second"),
        pytest.param(1.5, 4, False, [FINE] * 3, [0, 1.5, 3], 3, id="intervals that do not fit"),
        pytest.param(4, 4, False, [FINE], [0], 0, id="one shot"),
        pytest.param(1, 4, True, [FINE], [0], 0, id="once"),
        pytest.param(1, 4, True, [busy(30)], [0], 0, id="once, and Azure asks for quiet"),
        pytest.param(1, 20, False, [BUSY] * 6, [0, 1, 3, 7, 12, 17], 21, id="longer while Azure fails"),
        pytest.param(1, 60, False, [busy(50), *[FINE] * 10], [0, *range(50, 60)], 59, id="quiet that ends in time"),
        pytest.param(1, 10, False, [FINE, FINE, busy(8)], [0, 1, 2], 9, id="quiet that ends with the activation"),
        pytest.param(
            1, 10, False, [FINE, FINE, busy(300)], [0, 1, 2], 61, id="quiet beyond the activation, for a minute at most"
        ),
    ],
)
def test_the_polls_of_an_activation(
    serve, prepare, clock, monkeypatch, poll_interval, timer_interval, once, answers, polls, end
):
    begun = clock.now().uptime
    polled = []

    def passed():
        return clock.now().uptime - begun

    def get_document(client, deadline):
        polled.append(passed())
        return ask(client, deadline)

    ask = ImdsClient.get_document
    monkeypatch.setattr(ImdsClient, "get_document", get_document)
    server = serve(*[answer if isinstance(answer, tuple) else (200, answer) for answer in answers])
    prepare(server.endpoint, poll_interval=poll_interval, timer_interval=timer_interval).run(once)
    assert polled == polls
    assert passed() == end


def test_p7_a_state_that_fails_only_when_it_is_read_is_put_aside_before_the_first_poll(serve, folders, prepare):
    opened = []

    def fail(_name):
        raise sqlite3.DatabaseError("database disk image is malformed")

    def open_damaged(**why):
        opened.append(why)
        store = open_state(folders)
        if not why.get("damaged"):
            store.fact = fail
        return store

    checker = prepare(serve((200, FINE)).endpoint, open_store=open_damaged)
    assert opened == [{"may_return": True}, {"damaged": True}]
    assert checker.run(once=True)


def test_p9_an_event_for_which_there_was_no_room_is_followed_when_there_is(serve, folders, prepare, clock, monkeypatch):
    """The same document says so, once what fills the room has been answered."""
    monkeypatch.setattr(tracker, "MOST_PENDING", 1)
    answers = [document({"EventId": each, "Resources": ["web-1"]}) for each in ("A1", "B1", "B1")]
    rules = [{"name": "Restore", "on_ended": [{"command": ["true"]}]}]

    def run_at_once(number):
        with closing(open_state(folders)) as state, state.transaction():
            state.finish_response(number, SUCCEEDED, None, clock.now())

    prepare(serve(*answers).endpoint, run_at_once, poll_interval=1, timer_interval=3, rules=rules).run(once=False)
    with closing(open_state(folders)) as state:
        assert [(each.event.event_id, each.phase) for each in state.all_events()] == [
            ("A1", "ended"),
            ("B1", "announced"),
        ]


def test_p16_a_response_that_becomes_due_while_the_check_finds_none_is_started(
    serve, folders, prepare, clock, monkeypatch
):
    started, looks = [], []

    def change(number, *how):
        with closing(open_state(folders)) as state, state.transaction():
            (state.finish_response if len(how) > 1 else state.begin_response)(number, *how, clock.now())

    def run_at_once(number):
        started.append(number)
        change(number, SUCCEEDED, None)

    def look(store):
        found = unfinished_responses(store)
        if started and not found:
            looks.append(found)
            if len(looks) == 2:
                # A person retries it at this moment.
                change(1, DUE)
        return found

    unfinished_responses = Store.unfinished_responses
    monkeypatch.setattr(Store, "unfinished_responses", look)
    rules = [{"name": "Drain", "on_announced": [{"command": ["true"]}]}]
    server = serve(*[document(EVENT)] * 9)
    prepare(server.endpoint, run_at_once, poll_interval=1, timer_interval=9, rules=rules).run(once=False)
    assert started == [1, 1]


def test_retry_after_does_not_delay_what_becomes_due_meanwhile(serve, prepare, clock):
    start = (clock.now().wall + timedelta(seconds=330)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    server = serve(document({**EVENT, "NotBefore": start}), busy(60))
    rule = {"name": "Drain", "lead_time": 300, "on_announced": [{"command": ["true"]}]}
    begun = clock.now().uptime
    started = []

    def start_unit(_number):
        started.append(clock.now().uptime - begun)

    prepare(server.endpoint, start_unit, timer_interval=40, rules=[rule]).run(once=False)
    assert started[0] == 30


def test_a_systemd_that_does_not_answer_holds_up_no_poll(serve, prepare, clock):
    """P8: of three responses that are due, each one that hangs is followed by a poll."""
    server = serve(then=document(*({**EVENT, "EventId": f"A{number}"} for number in range(3))))
    rule = {"name": "Drain", "on_announced": [{"command": ["true"]}]}
    polls_before = {}

    def start_unit(number):
        polls_before.setdefault(number, len(server.requests))
        clock.advance(2)
        return f"azure-maintenance-respond@{number}.service could not be started: it hangs."

    prepare(server.endpoint, start_unit, timer_interval=9, rules=[rule]).run(once=False)
    assert polls_before == {1: 1, 2: 2, 3: 3}


def test_p7_a_check_goes_on_in_the_file_that_a_response_has_made_in_the_place_of_a_damaged_one(serve, folders, prepare):
    checker = prepare(serve(then=document(EVENT)).endpoint)
    open_store(folders, damaged=True).close()
    assert checker.run(once=True)
    with closing(open_state(folders)) as state:
        assert [record.event.event_id for record in state.all_events()] == ["A1"]


class TestASeriesOfUnclearAnswers:
    """It goes on from one check to the next, and ends later rather than earlier (P4)."""

    @pytest.fixture
    def check_for(self, serve, folders, prepare, clock):
        """Check, with these answers a second apart, and return for how long no answer has been clear."""

        def check_for(*answers, killed=False):
            server = serve(*[(200, answer) for answer in answers])
            seconds = len(answers) + 9 * killed
            opened = open_state(folders)
            checker = prepare(server.endpoint, open_store=lambda **_why: opened, timer_interval=seconds)
            if killed:
                polls = iter(answers[1:])
                clock.sleep = lambda seconds: (clock.advance(seconds), next(polls))
                with closing(opened), pytest.raises(StopIteration):
                    checker.run(once=False)
                del clock.sleep
            else:
                checker.run(once=False)
            clock.advance(1)
            with closing(open_state(folders)) as state:
                return report(state, clock.now(), [])["unclear_seconds"]

        return check_for

    def test_goes_on_after_a_check_that_ended_by_itself(self, check_for):
        assert [check_for(b"", b"", b"") for _check in range(3)] == [3, 6, 9]

    def test_does_not_go_on_after_one_that_was_killed(self, check_for):
        """It may have heard a clear document that it could not write down."""
        assert check_for(b"", b"", b"") == 3
        check_for(b"", b"", killed=True)
        assert check_for(b"") == 1

    def test_ends_with_a_clear_document(self, check_for):
        assert [check_for(b"", b"", b""), check_for(b"", FINE), check_for(b"", b"")] == [3, 0, 2]


class TestTheNameOfThisVm:
    """A name that does not hold any more would turn the events of this VM into those of another."""

    @pytest.fixture
    def asked(self, folders, prepare):
        """Check once, and tell by which name, and whether IMDS was asked for it."""

        def check_once(azure, vm, **config):
            azure.control("DELETE", "/simulator/journal")
            assert prepare(azure.endpoint(vm), **{"resource_name": None, **config}).run(once=True)
            requests = azure.control("GET", "/simulator/journal")["requests"]
            with closing(open_state(folders)) as state:
                name = state.fact("resource_name")["name"]
            return name, any("/instance" in request["path"] for request in requests)

        return check_once

    def test_is_asked_for_once_a_boot(self, simulator, asked, clock):
        azure = simulator("--vms", "web-1")
        assert asked(azure, "web-1") == ("web-1", True)
        assert asked(azure, "web-1") == ("web-1", False)
        clock.reboot()
        assert asked(azure, "web-1") == ("web-1", True)

    @pytest.mark.parametrize(
        ("vm", "config", "name"),
        [
            pytest.param("web-1", {"resource_name": "other"}, "other", id="that was configured"),
            pytest.param("rehearsed", {}, "rehearsed", id="of a rehearsal"),
        ],
    )
    def test_is_not_the_one_before(self, simulator, asked, vm, config, name):
        azure = simulator("--vms", "web-1,rehearsed")
        assert asked(azure, vm, **config) == (name, not config)
        assert asked(azure, "web-1") == ("web-1", True)

    def test_is_written_down_with_its_vm_id(self, simulator, asked, folders):
        azure = simulator("--vms", "web-1")
        compute = json.loads(azure.get("web-1", TARGET).body)
        for _check in range(2):
            asked(azure, "web-1")
            with closing(open_state(folders)) as state:
                assert state.fact("resource_name")["vm_id"] == compute["vmId"]

    def test_that_was_configured_has_no_vm_id(self, simulator, asked, folders):
        asked(simulator("--vms", "web-1"), "web-1", resource_name="web-1")
        with closing(open_state(folders)) as state:
            assert state.fact("resource_name")["vm_id"] is None

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda fact: fact.clear(), id="it is lost"),
            pytest.param(lambda fact: fact.update(boot_id="boot-0"), id="an earlier boot"),
            pytest.param(lambda fact: fact.update(endpoint="http://127.0.0.1:1"), id="another endpoint gave it"),
        ],
    )
    def test_is_asked_for_again_where_it_was_not_written_down_as_a_whole(self, simulator, asked, folders, change):
        azure = simulator("--vms", "web-1")
        asked(azure, "web-1")
        with closing(open_state(folders)) as state, state.transaction():
            fact = state.fact("resource_name")
            change(fact)
            state.set_fact("resource_name", fact)
        assert asked(azure, "web-1") == ("web-1", True)

    @pytest.mark.parametrize("body", ["Unavailable", '{"name": "Unavailable"}', "<html>"])
    def test_p4_is_none_that_came_without_a_vm_id(self, simulator, folders, prepare, clock, body):
        azure = simulator("--vms", "web-1")
        azure.announce("Reboot", "web-1")
        azure.control("POST", "/simulator/faults", {"fault": "body", "body": body, "path": "instance", "times": 1})
        found = []
        for _check in range(2):
            answered = prepare(azure.endpoint("web-1"), resource_name=None).run(once=True)
            with closing(open_state(folders)) as state:
                found.append((answered, state.fact("resource_name").get("name"), len(state.all_events())))
            clock.advance(1)
        assert found == [(False, None, 0), (True, "web-1", 1)]


@pytest.fixture
def begin(folders, clock):
    """Begin a check of web-1 at an endpoint, with a real state; return it."""

    def begin(endpoint, once=False, **settings):
        config = parse_config({"endpoint": endpoint, "resource_name": "web-1", **settings})
        opener = functools.partial(open_store, folders, busy_timeout=0.05)
        return check.begin_check(config, folders, clock, opener, pytest.fail, once)

    return begin


def test_p8_azure_is_asked_while_a_stopped_program_holds_the_state(serve, folders, begin, clock, capfd):
    server = serve(then=document(EVENT))
    begun = clock.now().uptime
    with lock(folders.run, "state"), pytest.raises(sqlite3.OperationalError, match="another program opens it"):
        begin(server.endpoint, poll_interval=10, timer_interval=60)
    assert clock.now().uptime - begun == 50
    assert len(server.requests) == 6
    told = capfd.readouterr().err
    # Once, not at each request
    assert told.count("cannot be opened") == 1
    assert told.count("Reboot Scheduled, start unknown (web-1)") == 1


def test_a_check_begins_as_soon_as_the_state_is_free(serve, folders, begin, clock, monkeypatch):
    server = serve(then=(200, FINE))
    with contextlib.ExitStack() as held:
        held.enter_context(lock(folders.run, "state"))
        monkeypatch.setattr(clock, "sleep", lambda _seconds: held.close())
        checker = begin(server.endpoint)
        assert len(server.requests) == 1
        assert checker.run(once=True)


def test_a_check_by_hand_asks_once_where_the_state_is_held(serve, folders, begin):
    server = serve(then=(200, FINE))
    with lock(folders.run, "state"), pytest.raises(sqlite3.OperationalError):
        begin(server.endpoint, once=True)
    assert len(server.requests) == 1
