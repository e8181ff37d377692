# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A thousand polls of random documents, held against a simple model of what should come of them.

No response twice, none missing, and no approval that the guard forbids.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import closing, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    parse_config,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.poll import check
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.responder import (  # noqa: E501
    Responder,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond.writer import (
    Writer,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state.records import (
    FAILED,
    PLANNED,
    SKIPPED,
    SUCCEEDED,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.system import (
    Folders,
    lock,
    response_lock,
)
from ansible_collections.fleetops.azure_maintenance.tests.instance import TARGET, compute
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker import conftest as builders
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.machine import folder_in_memory
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

NAME = "web-1"
LEAD_TIME = 900
RETRIES = 1
TRACE = """
read left <"$1/failures"
test "$left" -gt 0 && word=failed || word=ok
test "$left" -gt 0 && echo $((left - 1)) >"$1/failures"
echo "$word $AZURE_EVENT_PHASE $AZURE_EVENT_ID $AZURE_EVENT_OUTCOME" >>"$1/ran"
test "$word" = ok
"""
IDS = ["A", "B", "C", "D"]
# What becomes of a response that is to be started: it runs; it fails and runs again; it fails for good; it is cut off
# between two tries; its unit waits for its turn; systemd refuses.
STARTS = ["runs", "waits", "runs", "fails once", "fails", "breaks off", "waits", "refused"]
CHANGES_OF_START = {"starts later": 5000, "starts earlier": 10, "comes near": 800}
CHANGES_OF_RESOURCES = {"alone": ["web-1"], "together": ["web-1", "web-2"], "another's": ["web-2"]}
CHANGES = {"vanishes", "starts", "small letters", "capital letters", *CHANGES_OF_START, *CHANGES_OF_RESOURCES}
FAULTS = [None, None, None, "empty", "500", "garbage", "reset"]


HAPPENINGS = st.one_of(
    st.tuples(
        st.just("announce"),
        st.sampled_from(IDS),
        st.sampled_from(["Reboot", "Redeploy", "Reboot", "Redeploy", "Freeze"]),
        st.sampled_from(["Platform", "Platform", "Platform", "User"]),
        st.sampled_from([["web-1"], ["WEB-1"], ["web-1"], ["web-1", "web-2"], ["web-10"], []]),
        st.sampled_from([2000, 5000, 600, 30]),
        st.sampled_from(["Scheduled"] * 5 + ["Started"]),
    ),
    st.tuples(st.just("an_event_changes"), st.sampled_from(["vanishes", *sorted(CHANGES)]), st.integers(0, 3)),
    st.tuples(st.just("the_vm_goes_on"), st.sampled_from(["waiting units start", "restart", "reboot", 1, 30, 700])),
    st.tuples(st.just("polls"), st.just(None), st.sampled_from(STARTS), st.sampled_from([0, 0, 1, 2])),
    st.tuples(st.just("polls"), st.sampled_from(FAULTS), st.sampled_from(STARTS), st.just(0)),
)


class BrokenOff(BaseException):
    """The process of a response has died."""


class FakeAzure(HTTPServer):
    """IMDS as far as the checker needs it; whatever else it is asked is noted as a mistake."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.events = {}
        self.fault = None
        self.refuse_approvals = 0
        self.mistakes = []
        self.approved = []
        self.may_be_approved = None
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def document(self):
        return json.dumps({"DocumentIncarnation": 1, "Events": list(self.events.values())}).encode()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_arguments):
        pass

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        azure = self.server
        if self.headers.get("Metadata") != "true":
            azure.mistakes.append(f"no Metadata header: {self.path}")
        if self.path == TARGET:
            return self.answer(200, compute(NAME))
        if self.path != "/metadata/scheduledevents?api-version=2020-07-01":
            azure.mistakes.append(f"unexpected GET {self.path}")
            return self.answer(404)
        fault, azure.fault = azure.fault, None
        if fault == "reset":
            return None
        bodies = {None: azure.document(), "empty": b"", "garbage": b"{", "500": b'{"Events": []}'}
        return self.answer(500 if fault == "500" else 200, bodies[fault])

    def do_POST(self):
        azure = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if azure.refuse_approvals:
            azure.refuse_approvals -= 1
            return self.answer(403, b'{"error": "not now"}')
        for request in body["StartRequests"]:
            mistake = azure.may_be_approved(request["EventId"])
            if mistake:
                azure.mistakes.append(f"approved {request['EventId']}: {mistake}")
            azure.approved.append(request["EventId"])
        return self.answer(200)


class Occurrence:
    """What the model knows of one event, from the first document that lists it to the first that does not."""

    def __init__(self, raw, boot, ran_before):
        self.id = raw["EventId"]
        self.key = self.id.lower()
        self.kind = kind_of(raw)
        self.boot = boot
        self.prepared_before = ran_before
        self.phases = []
        self.approved = False
        self.alone = True
        self.must_prepare = False
        self.raw = raw
        self.outcome = None


def kind_of(raw):
    """What the rules below make of an event."""
    if not raw["Resources"]:
        return "nothing"
    if raw["EventSource"] == "User":
        return "at_once"
    return {"Reboot": "when_ready", "Redeploy": "late"}.get(raw["EventType"], "nothing")


class ResponseClock:
    """The clock of a response: while it waits for its next try, its process may die."""

    def __init__(self, world):
        self.world = world

    def now(self):
        return self.world.clock.now()

    def sleep(self, _seconds):
        if self.world.how == "breaks off":
            raise BrokenOff


class World(RuleBasedStateMachine):
    azure = None
    count_of_polls = 0
    seen = None

    def __init__(self):
        super().__init__()
        self.memory = folder_in_memory()
        self.folder = self.memory.__enter__()
        self.folders = Folders(*(str(self.folder / name) for name in Folders._fields))
        for folder in ("run", "facts"):
            (self.folder / folder).mkdir()
        (self.folder / "ran").touch()
        (self.folder / "step").write_text(TRACE)
        step = {"command": ["/bin/sh", str(self.folder / "step"), str(self.folder)]}
        steps = {"on_announced": [step], "on_started": [step], "on_ended": [step]}
        common = {**steps, "retries": RETRIES, "retry_delay": 1, "timeout": 600}
        self.config = parse_config(
            {
                "endpoint": f"http://127.0.0.1:{self.azure.server_port}",
                "timeout": 600,
                "rules": [
                    {"name": "own", "match": {"event_sources": ["User"]}, "approve": "at_once", **common},
                    {"name": "now", "match": {"event_types": ["Reboot"]}, "approve": "when_ready", **common},
                    {
                        "name": "late",
                        "match": {"event_types": ["Redeploy"]},
                        "approve": "when_ready",
                        "lead_time": LEAD_TIME,
                        **common,
                    },
                ],
            }
        )
        self.clock = builders.FakeClock()
        self.azure.events = {}
        self.azure.fault, self.azure.refuse_approvals = None, 0
        self.azure.mistakes, self.azure.approved = [], []
        self.azure.may_be_approved = self.find_mistake
        self.known = {}
        self.over = []
        self.waiting = []
        self.how = "runs"
        self.checker = None
        self.boots = 0
        self.begin()

    # The checker

    def open(self, unwritable=False, damaged=False, may_return=False):
        assert not unwritable
        assert not damaged
        return builders.open_state(self.folders)

    def begin(self):
        self.checker = check.Checker(self.config, self.folders, self.clock, self.open, self.start_unit)

    def start_unit(self, number):
        if self.how == "refused":
            return "systemd is busy."
        if number not in self.waiting:
            self.waiting.append(number)
        if self.how != "waits":
            self.run_waiting()
        return None

    def run_waiting(self):
        waiting, self.waiting = self.waiting, []
        for number in waiting:
            failures = {"fails once": 1, "breaks off": 1, "fails": RETRIES + 1}.get(self.how, 0)
            (self.folder / "failures").write_text(f"{failures}\n")

            writer = Writer(self.open, self.folders)
            responder = Responder(writer, self.config, self.folders, ResponseClock(self))
            with closing(writer), lock(self.folders.run, response_lock(number)) as free, suppress(BrokenOff):
                assert free
                responder.run(number)

    def poll(self, fault=None, how="runs"):
        World.count_of_polls += 1
        self.azure.fault, self.how = fault, how
        if fault is None:
            self.expect()
        self.checker._poll()
        self.checker._start_due()
        assert self.azure.fault is None, "it was not polled"
        self.how = "runs"

    # The model

    def expect(self):
        """Take in the document that is polled next, as the checker should."""
        now = self.clock.now()
        ours = {}
        for raw in self.azure.events.values():
            if not raw["Resources"] or NAME in [name.lower() for name in raw["Resources"]]:
                ours[raw["EventId"].lower()] = raw
        for key, one in list(self.known.items()):
            if key not in ours:
                happened = (
                    "started" in one.phases or one.boot != now.boot_id or one.approved or self.is_near(one.raw, 0)
                )
                one.outcome = "completed" if happened else "withdrawn"
                one.phases.append("ended")
                self.over.append(self.known.pop(key))
        for key, raw in ours.items():
            one = self.known.get(key)
            if one is None:
                one = self.known[key] = Occurrence(raw, now.boot_id, self.count("ok", "announced", key))
            one.raw = raw
            # A boot shows that it took place only after the last document that listed it.
            one.boot = now.boot_id
            one.alone = one.alone and len(raw["Resources"]) == 1
            phase = "started" if raw["EventStatus"] == "Started" else "announced"
            if phase not in one.phases and "started" not in one.phases:
                one.phases.append(phase)
            near = one.kind in ("at_once", "when_ready") or self.is_near(raw, LEAD_TIME)
            if one.phases == ["announced"] and near and self.how in ("runs", "fails once", "fails"):
                one.must_prepare = True

    def is_near(self, raw, seconds):
        if not raw["NotBefore"]:
            return False
        return (raw["at"] - self.clock.now().wall).total_seconds() < seconds + 1

    def count(self, word, phase, key):
        return len([1 for each in self.ran() if each[:2] == [word, phase] and each[2].lower() == key])

    def ran(self):
        return [line.split() for line in (self.folder / "ran").read_text().splitlines()]

    def find_mistake(self, event_id):
        """Return why an event must not be approved, None where it may."""
        raw = self.azure.events.get(event_id.upper())
        one = self.known.get(event_id.lower())
        if raw is None or one is None or raw["EventId"] != event_id:
            return "it is not in the document"
        if [name.lower() for name in raw["Resources"]] != [NAME]:
            return f"it lists {raw['Resources']}"
        if raw["EventStatus"] != "Scheduled":
            return f"it is {raw['EventStatus']}"
        if one.kind == "nothing":
            return "no rule asks for it"
        if one.kind != "at_once" and self.count("ok", "announced", one.key) <= one.prepared_before:
            return "it was not prepared for"
        one.approved = True
        return None

    # What happens; one rule for all, because Hypothesis would leave out some of several in each run

    @rule(happening=HAPPENINGS)
    def something_happens(self, happening):
        name, *arguments = happening
        getattr(self, name)(*arguments)

    def announce(self, name, kind, source, resources, notice, status):
        # An id comes back only after its end was seen, as anything else would be one event.
        if name in self.azure.events or name.lower() in self.known:
            return
        raw = {"EventId": name, "EventType": kind, "EventSource": source, "Resources": resources}
        raw.update(EventStatus=status, ResourceType="VirtualMachine", DurationInSeconds=-1, Description="")
        self.azure.events[name] = raw
        self.set_start(raw, notice)

    def set_start(self, raw, seconds):
        moment = self.clock.now().wall + timedelta(seconds=seconds)
        # For the model; datetimes cannot go into JSON, so it is kept from there.
        self.azure.events[raw["EventId"].upper()] = Raw(
            {**raw, "NotBefore": moment.strftime("%a, %d %b %Y %H:%M:%S GMT") if seconds is not None else ""}, moment
        )

    def an_event_changes(self, change, pick):
        if not self.azure.events:
            return
        name, raw = list(self.azure.events.items())[pick % len(self.azure.events)]
        if change == "vanishes":
            del self.azure.events[name]
        elif change == "starts":
            raw.update(EventStatus="Started", NotBefore="")
        elif change.endswith("letters"):
            letters = str.lower if change == "small letters" else str.upper
            raw["EventId"] = letters(raw["EventId"])
            raw["Resources"] = [letters(resource) for resource in raw["Resources"]]
        elif change in CHANGES_OF_RESOURCES:
            raw["Resources"] = CHANGES_OF_RESOURCES[change] if raw["Resources"] else []
        elif raw["EventStatus"] == "Scheduled":
            self.set_start(raw, CHANGES_OF_START[change])

    def the_vm_goes_on(self, what):
        if what == "waiting units start":
            self.run_waiting()
        elif what == "reboot":
            self.waiting = []
            self.boots += 1
            self.clock.reboot()
        elif what != "restart":
            self.clock.advance(what)
        if what in ("restart", "reboot"):
            self.checker._store.close()
            self.begin()

    def polls(self, fault, how, refusals):
        self.azure.refuse_approvals = refusals
        self.poll(fault, how)
        self.azure.refuse_approvals = 0

    # What must hold

    @invariant()
    def no_mistake_was_made(self):
        assert self.azure.mistakes == []

    @invariant()
    def nothing_succeeded_twice(self):
        for one in (*self.known.values(), *self.over):
            same = [each for each in (*self.known.values(), *self.over) if each.key == one.key]
            for phase in ("announced", "started", "ended"):
                reached = sum(phase in each.phases for each in same)
                if phase == "announced":
                    # What a boot separates from its approval is prepared anew.
                    reached += self.boots
                assert self.count("ok", phase, one.key) <= reached, f"{phase} {one.id} ran twice"

    def teardown(self):
        try:
            self.come_to_rest()
        finally:
            self.checker._store.close()
            self.memory.__exit__(None, None, None)

    def come_to_rest(self):
        """Let everything that is under way come to its end, and hold all that was recorded against the model."""
        self.run_waiting()
        for _number in range(15):
            self.poll()
        self.no_mistake_was_made()
        self.judge_all()
        # As soon as nothing is open any more, all that waited for that is put back into service.
        self.azure.events.clear()
        for _number in range(15):
            self.poll()
        self.judge_all()

    def judge_all(self):
        with closing(self.open()) as state:
            records = state.all_events()
            expected = sorted([*self.over, *self.known.values()], key=lambda one: one.key)
            records.sort(key=lambda record: record.event.key)
            assert [record.event.key for record in records] == [one.key for one in expected]
            by_key = {}
            for record, one in zip(records, expected):
                assert (record.phase, record.outcome) == (one.phases[-1], one.outcome), one.id
                assert (record.approval == "approved") == one.approved, one.id
                World.seen.update(
                    [one.outcome, "left to the fleet" if record.approval == "waiting" else record.approval]
                )
                responses = state.responses_to(record.number)
                assert [response.phase for response in responses] == (one.phases if one.kind != "nothing" else [])
                for response in responses:
                    self.judge(one, response)
                    if response.state == SUCCEEDED:
                        by_key.setdefault((response.phase, one.key), []).append(response.number)
                    if response.phase == "announced" and response.state == SUCCEEDED and one.phases == ["announced"]:
                        assert one.approved or not one.alone, f"{one.id} waits for an approval that never comes"
        # Done as often as it is recorded; what failed later, at the approval, was done too.
        for word, phase, event_id, *_outcome in self.ran():
            if word == "ok" and phase != "announced":
                numbers = by_key[phase, event_id.lower()]
                assert self.count("ok", phase, event_id.lower()) == len(numbers)
        outcomes = sorted(each[2].lower() + each[3] for each in self.ran() if each[:2] == ["ok", "ended"])
        wanted = sorted(one.key + one.outcome for one in self.over if one.kind != "nothing")
        assert [each for each in outcomes if each not in wanted] == []

    def judge(self, one, response):
        World.seen[response.phase, response.state] += 1
        where = f"{response.phase} {one.id}: {response}"
        if response.phase == "ended" and response.state not in (SUCCEEDED, FAILED):
            # Another event is open, for which this VM is prepared.
            assert self.known, where
        elif response.state == PLANNED:
            assert one.kind == "late", where
            assert not self.is_near(one.raw, LEAD_TIME), where
        elif response.state == SKIPPED:
            assert response.phase == "announced", where
            assert one.phases != ["announced"], where
            assert not one.must_prepare, where
        elif response.state == FAILED:
            assert self.count("failed", response.phase, one.key) > RETRIES or "approve" in response.message, where
        else:
            assert response.state == SUCCEEDED, where


class Raw(dict):
    """An event as Azure sends it, with its start as a datetime beside it."""

    def __init__(self, content, moment):
        super().__init__(content)
        self.moment = moment

    def __getitem__(self, key):
        return self.moment if key == "at" else super().__getitem__(key)


@pytest.mark.matrix
def test_a_thousand_polls_of_random_documents(monkeypatch):
    # Five seconds are long between two polls here.
    monkeypatch.setattr(check, "_RESTART_AFTER", 0.0)
    World.azure, World.count_of_polls, World.seen = FakeAzure(), 0, Counter()
    try:
        run_state_machine_as_test(
            World,
            settings=settings(
                max_examples=80,
                stateful_step_count=60,
                derandomize=True,
                database=None,
                deadline=None,
                # A shorter example for a failure would take minutes; to get one, add Phase.shrink.
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        World.azure.shutdown()
        World.azure.server_close()
    assert World.count_of_polls >= 1000
    # All that the model judges did happen, at least once.
    wanted = {(phase, state) for phase in ("announced", "started", "ended") for state in (SUCCEEDED, FAILED)}
    wanted |= {
        "completed",
        "withdrawn",
        "approved",
        "left to the fleet",
    }
    assert {what: World.seen[what] for what in wanted if not World.seen[what]} == {}
