# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long one request is waited for, when the next one follows, and what counts as having heard Azure."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import NoAnswerError
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import ImdsClient
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.poller import (
    LONGEST_RETRY_AFTER,
    Poller,
    Unclear,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.transport import Response
from ansible_collections.fleetops.azure_maintenance.tests.instance import compute, vm_id_of

PATIENT = 150.0
USUAL = 10.0
CALM = json.dumps({"DocumentIncarnation": 1, "Events": []})
EVENT = {"EventId": "A", "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["web-1"]}
ONE = json.dumps({"DocumentIncarnation": 2, "Events": [EVENT]})
UNREADABLE = json.dumps({"DocumentIncarnation": 3, "Events": [{**EVENT, "EventId": None}]})
NEIGHBOUR = json.dumps({"DocumentIncarnation": 4, "Events": [{**EVENT, "Resources": ["web-9"]}]})
WEB_1 = compute("web-1").decode()
# A request that is never answered
HELD = "held"


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


class Azure:
    """A transport that answers as it was told, and notes when it was asked for what, and how long it was waited for."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.answers: list[Any] = []
        self.asked: list[tuple[str, float, float]] = []

    def exchange(self, method: str, path: str, body: bytes | None, deadline: Any) -> Response:
        assert method == "GET"
        what = "name" if "/instance/" in path else "document"
        seconds = round(deadline.remaining())
        self.asked.append((what, self.clock.at, seconds))
        answer = self.answers.pop(0)
        if answer == HELD:
            self.clock.at += seconds
            raise NoAnswerError("No answer.")
        if isinstance(answer, int):
            return Response(answer, {}, b"out of order")
        if isinstance(answer, tuple):
            return Response(429, {"retry-after": str(answer[0])}, b"slow down")
        return Response(200, {}, answer.encode())


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def azure(clock):
    return Azure(clock)


@pytest.fixture
def make(clock, azure):
    def make(**options: Any) -> Poller:
        options.setdefault("resource_name", "web-1")
        client = ImdsClient("http://127.0.0.1:9", timeout=PATIENT, retries=False, transport=azure)
        return Poller(client, options.pop("poll_interval", 1.0), monotonic=clock, **options)

    return make


def poll(poller: Poller, clock: Clock, azure: Azure, answers: list[Any], **options: Any) -> list[str]:
    """Poll once for each answer, as the checker does, and return what each poll came to."""
    found = []
    azure.answers = list(answers)
    while azure.answers:
        begun = clock.at
        answer = poller.poll(**options)
        found.append(answer.kind)
        poller.accept()
        clock.at = max(clock.at, begun + poller.pause)
    return found


# Whether the service answered in this boot, whether something is due, and how long an answer is waited for.
PATIENCE = [
    pytest.param(False, False, PATIENT, id="the first switch-on"),
    pytest.param(True, False, USUAL, id="it answered in this boot, in an earlier activation"),
    pytest.param(False, True, USUAL, id="something is due"),
    pytest.param(True, True, USUAL, id="both"),
]


@pytest.mark.parametrize(("answered", "urgent", "expected"), PATIENCE)
def test_p8_the_patience_for_an_answer(make, azure, clock, answered, urgent, expected):
    poll(make(answered=answered), clock, azure, [HELD], urgent=urgent)
    assert azure.asked == [("document", 0.0, expected)]


def test_p8_patience_ends_with_the_first_answer_also_an_empty_one(make, azure, clock):
    poll(make(), clock, azure, [HELD, "", HELD])
    assert [seconds for _what, _at, seconds in azure.asked] == [PATIENT, PATIENT, USUAL]


# What Azure answers, after a first answer in this boot, and the longest time between two requests.
SILENCE = [
    pytest.param([HELD] * 20, id="held"),
    pytest.param([503] * 40, id="out of order"),
    pytest.param(["<html>proxy</html>"] * 40, id="a page"),
    pytest.param([""] * 40, id="empty"),
    pytest.param([HELD, 503, HELD, CALM, HELD, 404, "{", HELD, ""] * 4, id="all sorts"),
    pytest.param([(8,)] * 10, id="asked to wait for less"),
]


@pytest.mark.parametrize("answers", SILENCE)
@pytest.mark.parametrize("poll_interval", [0.5, 1.0, 5.0])
def test_p8_never_more_than_15_seconds_between_two_requests(make, azure, clock, answers, poll_interval):
    poll(make(answered=True, poll_interval=poll_interval), clock, azure, answers)
    times = [at for _what, at, _seconds in azure.asked]
    assert max(later - earlier for earlier, later in zip(times, times[1:])) <= 15
    assert all(seconds <= USUAL for _what, _at, seconds in azure.asked)


@pytest.mark.parametrize(("asked_for", "expected"), [(30, 30), (60, 60), (300, LONGEST_RETRY_AFTER)])
def test_p8_retry_after_counts_up_to_a_minute(make, azure, clock, asked_for, expected):
    poll(make(answered=True), clock, azure, [CALM, (asked_for,), CALM, CALM])
    assert [at for _what, at, _seconds in azure.asked] == [0, 1, 1 + expected, 2 + expected]


# What comes in the place of the name
NO_NAMES = [
    "web-1",
    "",
    '{"error": "Bad request"}',
    "<html>login</html>",
    compute("web-1", vmId=...).decode(),
    compute("web-1", name=...).decode(),
    compute("web-1", name="web 1 / db").decode(),
]


@pytest.mark.parametrize("text", NO_NAMES)
def test_p4_a_name_is_one_only_if_it_is_a_name(make, azure, clock, text):
    poller = make(resource_name=None)
    azure.answers = [text]
    # Without a name no document is asked for, as it could not be judged.
    assert poller.poll().kind == "failed"
    assert (poller.resource_name, poller.vm_id) == (None, None)
    azure.answers = [WEB_1, CALM]
    assert poller.poll().kind == "document"
    assert (poller.resource_name, poller.vm_id) == ("web-1", vm_id_of("web-1"))
    assert [what for what, _at, _seconds in azure.asked] == ["name", "name", "document"]


def test_p4_the_name_is_asked_for_once_and_before_the_document_also_where_no_event_lists_it(make, azure):
    poller = make(resource_name=None)
    azure.answers = [WEB_1, NEIGHBOUR, NEIGHBOUR]
    assert [poller.poll().document.is_clear for _time in range(2)] == [True, True]
    assert [what for what, _at, _seconds in azure.asked] == ["name", "document", "document"]


def test_a_name_that_is_given_is_not_asked_for(make, azure):
    poller = make(vm_id="an id")
    azure.answers = [CALM]
    assert poller.poll().kind == "document"
    assert (poller.resource_name, poller.vm_id) == ("web-1", "an id")


def test_a_404_for_the_name_is_a_failure_that_says_what_to_do(make, azure):
    azure.answers = [404]
    answer = make(resource_name=None).poll()
    assert answer.kind == "failed"
    assert "Set resource_name" in answer.lines[0]


def test_the_same_body_need_not_be_taken_in_again(make, azure, clock):
    poller = make()
    kinds = ["document", "unchanged", "empty", "document", "failed", "unchanged", "document"]
    assert poll(poller, clock, azure, [CALM, CALM, "", CALM, 503, CALM, ONE]) == kinds
    poller.forget()
    assert poll(poller, clock, azure, [ONE]) == ["document"]


def test_a_document_that_could_not_be_taken_in_comes_again(make, azure):
    poller = make()
    azure.answers = [ONE, ONE]
    assert [poller.poll().kind, poller.poll().kind] == ["document", "document"]


# Answers 50 s apart, and for how long none of them was clear after the last one.
SERIES = [
    pytest.param([""] * 7, 300, id="empty without interruption"),
    pytest.param([UNREADABLE] * 7, 300, id="unreadable without interruption"),
    pytest.param(["", UNREADABLE] * 3 + [""], 300, id="both"),
    pytest.param([*[""] * 6, CALM, ""], 0, id="a clear document between"),
    pytest.param([*[""] * 6, 503, ""], 0, id="an error between"),
    pytest.param([*[""] * 6, HELD, ""], 0, id="silence between"),
    pytest.param([CALM, ONE], 0, id="all clear"),
]


@pytest.mark.parametrize(("answers", "expected"), SERIES)
def test_p4_for_how_long_answers_were_unclear(make, azure, clock, answers, expected):
    poller = make(answered=True)
    for answer in answers:
        azure.answers = [answer]
        begun = clock.at
        seconds = poller.poll().unclear_seconds
        clock.at = begun + 50
    assert seconds == expected


@pytest.mark.parametrize(("last", "expected"), [(290.0, 310.0), (200.0, 0.0)], ids=["on", "interrupted"])
def test_p4_a_series_of_unclear_answers_goes_on_in_the_next_activation(make, azure, clock, last, expected):
    clock.at = 310.0
    poller = make(answered=True, unclear=Unclear(0.0, last))
    azure.answers = [""]
    assert poller.poll().unclear_seconds == expected


def test_heard_is_only_who_sent_a_document(make, azure):
    poller = make()
    azure.answers = [CALM, "", 503, CALM, UNREADABLE]
    assert [poller.poll().heard for _answer in range(5)] == [True, False, False, True, True]


def test_p9_the_log_does_not_grow_with_what_azure_repeats(make, azure, clock):
    poller = make(answered=True)
    lines: list[str] = []
    for number in range(500):
        azure.answers = [(503, "", UNREADABLE, f'{{"Events": [{number}]}}')[number % 4]]
        lines += poller.poll().lines
        clock.at += 1
    told_again = [line for line in lines if "answers again" in line]
    # What was odd in a hundred answers, that there is more, and one poll that failed
    assert len(lines) - len(told_again) <= 102
    assert len([line for line in lines if "empty body" in line]) == 1


def test_p9_what_becomes_of_events_is_a_line_each_time_and_a_hundred_an_hour(serve):
    now = [0.0]
    poller = Poller(serve().client(), 1.0, "web-1", monotonic=lambda: now[0])
    assert poller.limit(["Reboot A announced.", "Reboot A announced."]) == ("Reboot A announced.",) * 2
    said = 2
    for second in range(1, 1000):
        now[0] = float(second)
        said += len(poller.limit([f"Reboot {second} announced.", "Reboot A announced."]))
    # The last one says that there are no more.
    assert said == 101
    now[0] = 5000.0
    assert poller.limit(["Reboot A ended."]) == ("Reboot A ended.",)


def test_p9_lines_of_one_kind_silence_none_of_another(make, azure):
    """Many events, or many odd entries, must not hide that Azure cannot be asked any more."""
    further = "Further ones are not logged."
    azure.answers = [500, 500]
    poller = make(answered=True)
    lines = [f"Reboot {number} announced." for number in range(102)]
    told = poller.limit(lines)
    assert told == (*lines[:100], f"100 lines about events within an hour. {further}")
    assert poller.limit(["Reboot A ended."]) == ()
    told = poller.select_new([f"Entry {number} is odd." for number in range(102)])
    assert told[100:] == (f"100 lines about Azure's answers within an hour. {further}",)
    assert poller.select_new(["Entry x is odd."]) == ()
    (line,) = poller.poll().lines
    assert line.startswith("The metadata service could not be asked: ")
    assert poller.poll().lines == ()
