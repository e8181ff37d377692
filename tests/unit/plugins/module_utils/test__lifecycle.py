# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has become of the events between two documents: announced, started, ended with its outcome."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import Document, parse_document
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._lifecycle import Known, find_transitions


def raw(event_id: str, status: Any = "Scheduled", **changes: Any) -> dict[str, Any]:
    return {
        "EventId": event_id,
        "EventStatus": status,
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["web-1"],
        "NotBefore": "Sat, 21 Nov 2026 10:15:00 GMT" if status == "Scheduled" else "",
        **changes,
    }


def document(*events: dict[str, Any], incarnation: Any = 1) -> Document:
    return parse_document({"DocumentIncarnation": incarnation, "Events": list(events)}, "2020-07-01")


def known(*events: dict[str, Any], **facts: bool) -> list[Known]:
    """Return the events as they were seen, with these facts about each of them."""
    return [Known(event, **facts) for event in document(*events).events]


def told(before: list[Known], after: Document) -> list[tuple[str, str, str | None]]:
    return [(each.event.event_id, each.phase, each.outcome) for each in find_transitions(before, after)]


A, B, C = raw("A"), raw("B"), raw("C")
A_STARTED, B_STARTED = raw("A", "Started"), raw("B", "Started")

# What was known, the document, and what became of the events.
DOCUMENTS = [
    pytest.param([], [], [], id="nothing"),
    pytest.param([], [A], [("A", "announced", None)], id="announced"),
    pytest.param([A], [A], [], id="the same document"),
    pytest.param([A], [A_STARTED], [("A", "started", None)], id="started"),
    pytest.param([], [A_STARTED], [("A", "started", None)], id="S3 straight to started"),
    pytest.param([A_STARTED], [A_STARTED], [], id="still started"),
    pytest.param([A_STARTED], [A], [], id="Started back to Scheduled is no news"),
    pytest.param([A_STARTED], [], [("A", "ended", "completed")], id="ended after it was seen started"),
    pytest.param([A], [], [("A", "ended", "withdrawn")], id="ended without a sign that it happened"),
    pytest.param([A], [B], [("A", "ended", "withdrawn"), ("B", "announced", None)], id="S17 one replaces the other"),
    pytest.param(
        [A, B_STARTED],
        [C, A_STARTED],
        [("B", "ended", "completed"), ("C", "announced", None), ("A", "started", None)],
        id="one ends, one comes, one starts",
    ),
    pytest.param([A, B], [B, A], [], id="another order"),
    pytest.param([raw("AbC-1")], [raw("aBc-1")], [], id="S10 the id in other letter case"),
    pytest.param([raw("a")], [raw("A", "STARTED")], [("A", "started", None)], id="S10 the status in capitals"),
    pytest.param([], [raw("A", "Postponed")], [("A", "announced", None)], id="an unknown status has not started"),
    pytest.param([], [raw("A", None)], [("A", "announced", None)], id="no status has not started"),
    pytest.param([A], [raw("A", "Postponed")], [], id="an unknown status after Scheduled"),
    pytest.param([A], [raw("A", NotBefore="Sat, 21 Nov 2026 11:00:00 GMT")], [], id="the start was put off"),
    pytest.param([A], [raw("A", Resources=["web-1", "web-2"])], [], id="another VM joined"),
]


@pytest.mark.parametrize(("before", "after", "expected"), DOCUMENTS)
def test_what_became_of_the_events(before, after, expected):
    assert told(known(*before), document(*after)) == expected


@pytest.mark.parametrize("incarnations", [(1, 2), (2, 2), (9, 1), ("x", None)], ids=str)
def test_s16_the_incarnation_says_nothing(incarnations):
    after = document(A_STARTED, incarnation=incarnations[1])
    before = [Known(event) for event in document(A, incarnation=incarnations[0]).events]
    assert told(before, after) == [("A", "started", None)]


@pytest.mark.parametrize(
    ("event", "facts", "outcome"),
    [
        pytest.param(A, {}, "withdrawn", id="nothing happened"),
        pytest.param(A_STARTED, {}, "completed", id="it was seen started"),
        pytest.param(A, {"approved": True}, "completed", id="it had been approved"),
        pytest.param(A, {"rebooted": True}, "completed", id="the VM booted meanwhile"),
        pytest.param(A, {"fell_due": True}, "completed", id="its time had come"),
    ],
)
def test_the_outcome_of_an_event_that_is_gone(event, facts, outcome):
    assert told(known(event, **facts), document()) == [("A", "ended", outcome)]


def test_the_facts_count_for_their_own_event_only():
    before = [*known(A, rebooted=True), *known(B)]
    assert told(before, document()) == [("A", "ended", "completed"), ("B", "ended", "withdrawn")]


def test_an_ended_event_is_told_as_it_was_last_seen_and_others_as_they_are_now():
    before = known(raw("A", Description="old"), raw("B", Description="old"))
    ended, announced = find_transitions(before[:1], document(raw("C", Description="new")))
    assert (ended.event.description, announced.event.description) == ("old", "new")
    (begun,) = find_transitions(before[1:], document(raw("B", "Started", Description="new")))
    assert begun.event.description == "new"


def test_an_event_that_is_listed_again_after_it_ended_is_announced_anew():
    first = document(A)
    assert told([], first) == [("A", "announced", None)]
    assert told(known(A), document()) == [("A", "ended", "withdrawn")]
    assert told([], first) == [("A", "announced", None)]
