# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for events: what is seen counts, what could not be seen never does."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval import approve
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("clock", "one_try")]

GONE = None
FAILING_LOOKS = [
    ["reset"],
    [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"],
    (200, b""),
    (200, b"<html>"),
    (200, b'{"DocumentIncarnation": 2, "Events": null}'),
    (200, b'{"DocumentIncarnation": 2}'),
    (200, b'{"DocumentIncarnation": 2, "Events": [{"EventId": "A"'),
    (500, b'{"DocumentIncarnation": 2, "Events": []}'),
    (404, b"404 page not found"),
    (403, b""),
    (429, b""),
    b"SSH-2.0-OpenSSH\r\n",
]


@pytest.fixture(autouse=True)
def long_pauses(monkeypatch):
    """Beside the pauses, which are over at once, what a busy machine takes for a look counts for nothing."""
    monkeypatch.setattr(approve, "POLL_INTERVAL", 100.0)


def document(incarnation=1, **statuses):
    events = [
        {"EventId": event_id, "EventStatus": status, "EventType": "Reboot", "Resources": ["web-1"]}
        for event_id, status in statuses.items()
        if status is not GONE
    ]
    return 200, json.dumps({"DocumentIncarnation": incarnation, "Events": events}).encode()


def wait(server, statuses, until_ended, seconds=86400, **options):
    return approve.wait_for(server.client(**options), statuses, until_ended, seconds)


A_SCHEDULED, A_STARTED = document(A="Scheduled"), document(A="Started")


@pytest.mark.parametrize(
    ("until_ended", "answers", "last"),
    [
        pytest.param(False, [A_SCHEDULED, A_SCHEDULED, A_STARTED], "Started", id="S17 scheduled turns to started"),
        pytest.param(True, [A_SCHEDULED, A_STARTED, A_STARTED, document()], GONE, id="until it has ended"),
        pytest.param(False, [A_SCHEDULED, document()], GONE, id="it may skip started"),
        pytest.param(False, [document(a="Scheduled"), document(a="started")], "Started", id="S10 in other letter case"),
        pytest.param(
            True,
            [document(9, A="Scheduled"), document(1, A="Started"), document(0)],
            GONE,
            id="S16 an incarnation that goes back does not matter",
        ),
    ],
)
def test_one_event_is_waited_for(serve, until_ended, answers, last):
    assert wait(serve(*answers), {"A": "Scheduled"}, until_ended) == {"A": last}


@pytest.mark.parametrize(
    ("until_ended", "answers", "last"),
    [
        (False, [document(A="Scheduled", B="Started"), A_SCHEDULED, A_STARTED], {"A": "Started", "B": GONE}),
        (
            True,
            [document(A="Started", B="Started"), document(B="Started"), document(C="Started")],
            {"A": GONE, "B": GONE},
        ),
        (True, [A_SCHEDULED, A_STARTED, document()], {"A": GONE, "B": GONE}),
    ],
)
def test_all_events_are_waited_for(serve, until_ended, answers, last):
    assert wait(serve(*answers), {"A": "Scheduled", "B": "Scheduled"}, until_ended) == last


@pytest.mark.parametrize("until_ended", [False, True])
def test_s15_s7_a_failing_look_ends_nothing(serve, until_ended):
    between = [step for failing in FAILING_LOOKS for step in (failing, A_SCHEDULED)]
    last = [A_STARTED, *FAILING_LOOKS, document()] if until_ended else [A_STARTED]
    server = serve(A_SCHEDULED, *between, *FAILING_LOOKS, *last)
    assert wait(server, {"A": "Scheduled"}, until_ended) == {"A": GONE if until_ended else "Started"}


@pytest.mark.parametrize("failing", FAILING_LOOKS)
def test_s15_s7_looks_that_only_fail_or_are_empty_end_nothing(serve, failing):
    with pytest.raises(approve.WaitExpired) as caught:
        wait(serve(then=failing), {"A": "Started", "B": "Scheduled"}, until_ended=True, seconds=1000)
    assert caught.value.statuses == {"A": "Started", "B": "Scheduled"}
    assert isinstance(caught.value.last_error, type(None) if failing == (200, b"") else _errors.ImdsError)


@pytest.mark.parametrize(
    ("answers", "seconds"),
    [
        pytest.param([A_STARTED, ["hold"]], 100.5, id="the end of the wait cut the last look short"),
        pytest.param([(403, b""), A_STARTED], 190, id="an error that passed"),
    ],
)
def test_what_is_no_error_of_a_wait(serve, answers, seconds):
    with pytest.raises(approve.WaitExpired) as caught:
        wait(serve(*answers), {"A": "Scheduled"}, until_ended=True, seconds=seconds)
    assert (caught.value.statuses, caught.value.last_error) == ({"A": "Started"}, None)


def test_nothing_listens_any_more(dead_endpoint):
    with pytest.raises(approve.WaitExpired) as caught:
        approve.wait_for(client.ImdsClient(dead_endpoint), {"A": "Started"}, True, 1000)
    assert caught.value.statuses == {"A": "Started"}
    assert caught.value.last_error is not None


def test_expiry_tells_what_was_seen_last(serve, clock):
    server = serve(document(A="Scheduled", B="Scheduled"), (403, b""), then=A_STARTED)
    with pytest.raises(approve.WaitExpired) as caught:
        wait(server, {"A": "Scheduled", "B": "Scheduled"}, until_ended=True, seconds=1050)
    assert caught.value.statuses == {"A": "Started", "B": GONE}
    # It waited as long as it was to.
    assert clock.pauses == [100] * 10


def test_a_held_answer_ends_with_the_wait(serve, monkeypatch):
    monkeypatch.setattr(approve, "POLL_INTERVAL", 0.1)
    server = serve(["hold"])
    with pytest.raises(approve.WaitExpired) as caught:
        wait(server, {"A": "Scheduled"}, until_ended=False, seconds=0.5)
    assert caught.value.last_error.reason == "timeout"


def test_one_look_takes_no_longer_than_the_client_allows(serve):
    # On a busy machine the good answer may be too late as well, and then it comes again.
    server = serve(["hold"], ["hold"], then=A_STARTED)
    assert wait(server, {"A": "Scheduled"}, until_ended=False, timeout=0.3) == {"A": "Started"}


def test_a_pause_lies_between_two_looks(serve, clock):
    wait(serve(A_SCHEDULED, (403, b""), A_STARTED), {"A": "Scheduled"}, until_ended=False)
    assert clock.pauses == [100, 100]


def test_azure_allows_five_requests_a_second(monkeypatch):
    monkeypatch.undo()
    assert approve.POLL_INTERVAL == 1.0


UNCLEAR = [b"null", b'{"EventId": null}', b"{}", b'"A"', b'{"EventId": "' + b"A" * 300 + b'"}']


def unclear(entry, *listed):
    events = json.loads(document(**dict(listed))[1])["Events"]
    return 200, json.dumps({"Events": [json.loads(entry), *events]}).encode()


@pytest.mark.parametrize("entry", UNCLEAR)
@pytest.mark.parametrize("until_ended", [False, True])
def test_p4_an_unclear_document_that_does_not_list_an_event_does_not_end_it(serve, entry, until_ended):
    server = serve(unclear(entry), unclear(entry), A_SCHEDULED, unclear(entry), document())
    assert wait(server, {"A": "Scheduled"}, until_ended) == {"A": GONE}
    assert len(server.requests) == 5


def test_p4_an_unclear_document_tells_of_the_events_that_it_lists(serve):
    server = serve(unclear(b"null", ("A", "Started")))
    assert wait(server, {"A": "Scheduled"}, until_ended=False) == {"A": "Started"}


def test_p4_an_event_that_had_started_is_not_waited_for_again_in_an_unclear_document(serve):
    server = serve(document(A="Started", B="Scheduled"), unclear(b"null", ("B", "Started")))
    assert wait(server, {"A": "Scheduled", "B": "Scheduled"}, until_ended=False) == {"A": "Started", "B": "Started"}


@pytest.mark.parametrize("last", [(200, b""), unclear(b"null")])
def test_p4_a_wait_in_vain_knows_that_the_last_answer_was_unclear(serve, last):
    with pytest.raises(approve.WaitExpired) as caught:
        wait(serve(A_STARTED, then=last), {"A": "Scheduled"}, until_ended=True, seconds=1000)
    assert (caught.value.statuses, caught.value.unclear) == ({"A": "Started"}, True)


def test_the_caller_says_how_long_to_pause_between_two_looks(serve, clock):
    server = serve(A_SCHEDULED, A_SCHEDULED, A_STARTED)
    approve.wait_for(server.client(), {"A": "Scheduled"}, False, 86400, poll_interval=7.0)
    assert clock.pauses == [7.0, 7.0]
