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


def test_s17_scheduled_turns_to_started(serve):
    server = serve(document(A="Scheduled"), document(A="Scheduled"), document(A="Started"))
    assert wait(server, {"A": "Scheduled"}, until_ended=False) == {"A": "Started"}


def test_until_ended(serve):
    server = serve(document(A="Scheduled"), document(A="Started"), document(A="Started"), document())
    assert wait(server, {"A": "Scheduled"}, until_ended=True) == {"A": GONE}


def test_an_event_may_skip_started(serve):
    server = serve(document(A="Scheduled"), document())
    assert wait(server, {"A": "Scheduled"}, until_ended=False) == {"A": GONE}


@pytest.mark.parametrize(
    ("until_ended", "answers", "last"),
    [
        (
            False,
            [document(A="Scheduled", B="Started"), document(A="Scheduled"), document(A="Started")],
            {"A": "Started", "B": GONE},
        ),
        (
            True,
            [document(A="Started", B="Started"), document(B="Started"), document(C="Started")],
            {"A": GONE, "B": GONE},
        ),
        (True, [document(A="Scheduled"), document(A="Started"), document()], {"A": GONE, "B": GONE}),
    ],
)
def test_all_events_are_waited_for(serve, until_ended, answers, last):
    assert wait(serve(*answers), {"A": "Scheduled", "B": "Scheduled"}, until_ended) == last


def test_ids_are_compared_without_regard_to_case(serve):
    server = serve(document(a="Scheduled"), document(a="started"))
    assert wait(server, {"A": "Scheduled"}, until_ended=False) == {"A": "Started"}


def test_an_incarnation_that_goes_back_does_not_matter(serve):
    server = serve(document(9, A="Scheduled"), document(1, A="Started"), document(0))
    assert wait(server, {"A": "Scheduled"}, until_ended=True) == {"A": GONE}


@pytest.mark.parametrize("until_ended", [False, True])
def test_s15_s7_a_failing_look_ends_nothing(serve, until_ended):
    between = [step for failing in FAILING_LOOKS for step in (failing, document(A="Scheduled"))]
    last = [document(A="Started"), *FAILING_LOOKS, document()] if until_ended else [document(A="Started")]
    server = serve(document(A="Scheduled"), *between, *FAILING_LOOKS, *last)
    assert wait(server, {"A": "Scheduled"}, until_ended) == {"A": GONE if until_ended else "Started"}


@pytest.mark.parametrize("failing", [answer for answer in FAILING_LOOKS if answer != (200, b"")])
def test_s15_looks_that_only_fail_end_nothing(serve, failing):
    with pytest.raises(approve.WaitExpired) as caught:
        wait(serve(then=failing), {"A": "Started", "B": "Scheduled"}, until_ended=True, seconds=1000)
    assert caught.value.statuses == {"A": "Started", "B": "Scheduled"}
    assert isinstance(caught.value.last_error, _errors.ImdsError)


def test_s7_answers_that_are_only_empty_end_nothing(serve):
    with pytest.raises(approve.WaitExpired) as caught:
        wait(serve(then=(200, b"")), {"A": "Started", "B": "Scheduled"}, until_ended=True, seconds=1000)
    assert caught.value.statuses == {"A": "Started", "B": "Scheduled"}
    assert caught.value.last_error is None


def test_a_look_that_the_end_of_the_wait_cut_short_is_no_error(serve):
    server = serve(document(A="Started"), then=["hold"])
    with pytest.raises(approve.WaitExpired) as caught:
        wait(server, {"A": "Scheduled"}, until_ended=True, seconds=100.5)
    assert (caught.value.statuses, caught.value.last_error) == ({"A": "Started"}, None)


def test_nothing_listens_any_more(dead_endpoint):
    with pytest.raises(approve.WaitExpired) as caught:
        approve.wait_for(client.ImdsClient(dead_endpoint), {"A": "Started"}, True, 1000)
    assert caught.value.statuses == {"A": "Started"}
    assert caught.value.last_error is not None


def test_expiry_tells_what_was_seen_last(serve, clock):
    server = serve(document(A="Scheduled", B="Scheduled"), (403, b""), then=document(A="Started"))
    with pytest.raises(approve.WaitExpired) as caught:
        wait(server, {"A": "Scheduled", "B": "Scheduled"}, until_ended=True, seconds=1050)
    assert caught.value.statuses == {"A": "Started", "B": GONE}
    # It waited as long as it was to.
    assert clock.pauses == [100] * 10


def test_an_error_that_passed_is_not_told(serve):
    server = serve((403, b""), document(A="Started"))
    with pytest.raises(approve.WaitExpired) as caught:
        wait(server, {"A": "Scheduled"}, until_ended=True, seconds=190)
    assert (caught.value.statuses, caught.value.last_error) == ({"A": "Started"}, None)


def test_a_held_answer_ends_with_the_wait(serve, monkeypatch):
    monkeypatch.setattr(approve, "POLL_INTERVAL", 0.1)
    server = serve(["hold"])
    with pytest.raises(approve.WaitExpired) as caught:
        wait(server, {"A": "Scheduled"}, until_ended=False, seconds=0.5)
    assert caught.value.last_error.reason == "timeout"


def test_one_look_takes_no_longer_than_the_client_allows(serve):
    # On a busy machine the good answer may be too late as well, and then it comes again.
    server = serve(["hold"], ["hold"], then=document(A="Started"))
    assert wait(server, {"A": "Scheduled"}, until_ended=False, timeout=0.3) == {"A": "Started"}


def test_a_pause_lies_between_two_looks(serve, clock):
    server = serve(document(A="Scheduled"), (403, b""), document(A="Started"))
    wait(server, {"A": "Scheduled"}, until_ended=False)
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
    server = serve(unclear(entry), unclear(entry), document(A="Scheduled"), unclear(entry), document())
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
        wait(serve(document(A="Started"), then=last), {"A": "Scheduled"}, until_ended=True, seconds=1000)
    assert (caught.value.statuses, caught.value.unclear) == ({"A": "Started"}, True)


def test_the_caller_says_how_long_to_pause_between_two_looks(serve, clock):
    server = serve(document(A="Scheduled"), document(A="Scheduled"), document(A="Started"))
    approve.wait_for(server.client(), {"A": "Scheduled"}, False, 86400, poll_interval=7.0)
    assert clock.pauses == [7.0, 7.0]
