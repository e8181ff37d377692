# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who sends the approval of an event that several hosts may send."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.approval_share import share_approvals
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._run.fleet import make_event

LEADER, VM, OTHER = {"affects_this_vm": True, "is_leader": True}, {"affects_this_vm": True}, {"affects_this_vm": False}


def looked(clear=True, failed=False, **events):
    """What a host said of these events: its part in each, or the result where that is another than approved."""
    approvals, seen = [], []
    for event_id, part in events.items():
        approvals.append({"event_id": event_id, "result": "approved" if isinstance(part, dict) else part})
        if part != "not_found":
            seen.append({**make_event(event_id), "is_leader": False, **(part if isinstance(part, dict) else VM)})
    return {
        "approvals": approvals,
        "events": seen,
        "document_is_clear": clear,
        "document_received": True,
        "failed": failed,
    }


EMPTY = {**looked(clear=False), "document_received": False}
NOT_FOUND = {"approvals": [{"event_id": "E", "result": "not_found"}]}
UNREACHABLE, NEVER_LOOKED = {"unreachable": True, "msg": "No route to host"}, {}


@pytest.mark.parametrize(
    ("hosts", "approver"),
    [
        ({"a": looked(E=OTHER), "b": looked(E=VM), "c": looked(E=LEADER)}, "c"),
        ({"a": looked(E=OTHER), "b": looked(E=VM), "c": looked(e=VM)}, "b"),
        ({"a": looked(), "b": looked(E=OTHER), "c": looked(E=OTHER)}, "b"),
        ({"a": looked(E=OTHER), "b": looked(E="already_started")}, "b"),
        ({"a": looked(E=OTHER), "b": UNREACHABLE, "c": NEVER_LOOKED}, "a"),
    ],
)
def test_one_host_approves_an_event(hosts, approver):
    share = share_approvals(hosts)
    assert {host: ids for host, ids in share["event_ids"].items() if ids} == {approver: ["E"]}
    left = {host for host, result in hosts.items() if result.get("approvals")} - {approver}
    assert {host for host, said in share["left_to"].items() if said} == left
    assert all(said.startswith(f"{approver} answers for ") for host in left for said in share["left_to"][host])


def test_a_host_that_was_refused_approves_nothing():
    refused = looked(failed=True, E="already_started", F="refused")
    share = share_approvals({"a": looked(E=OTHER), "b": refused})
    assert share["event_ids"] == {"a": ["E"], "b": []}
    assert share["left_to"] == {"a": [], "b": []}


def test_each_event_has_a_host_of_its_own():
    share = share_approvals({"a": looked(E=LEADER, F=OTHER), "b": looked(F=LEADER, E=OTHER)})
    assert share["event_ids"] == {"a": ["E"], "b": ["F"]}


@pytest.mark.parametrize(
    ("hosts", "not_found"),
    [
        ({"a": looked(E="not_found"), "b": looked(E=VM)}, []),
        ({"a": looked(E="not_found", F="not_found"), "b": looked(e="not_found", F=VM)}, ["E"]),
        ({"a": looked(E="not_found"), "b": looked(failed=True, E="refused")}, []),
        ({"a": looked(E="not_found"), "b": looked(failed=True, E="not_found", F="refused")}, ["E"]),
        ({"a": looked(E="not_found"), "b": UNREACHABLE, "c": NEVER_LOOKED}, ["E"]),
        ({"a": looked()}, []),
        ({}, []),
    ],
)
def test_an_id_is_missing_when_no_host_has_seen_it(hosts, not_found):
    assert share_approvals(hosts)["not_found"] == not_found


@pytest.mark.parametrize(
    ("named", "ambiguous"),
    [
        (["abcd"], ["abcd"]),
        (["ABCD-1", "abcd-2"], []),
        (["abcd-1\nabcd"], ["abcd"]),
        (["gone"], []),
        ([], []),
    ],
)
def test_p14_a_beginning_that_means_another_event_to_another_vm_is_ambiguous(named, ambiguous):
    hosts = {"a": looked(**{"ABCD-1": VM}), "b": looked(**{"ABCD-2": VM, "ABCD-1": OTHER})}
    assert share_approvals(hosts, named)["ambiguous"] == ambiguous


def test_p14_the_other_event_may_be_that_of_a_host_that_was_refused():
    hosts = {"a": looked(**{"ABCD-1": VM}), "b": looked(failed=True, **{"ABCD-2": "refused"})}
    assert share_approvals(hosts, ["abcd"])["ambiguous"] == ["abcd"]


ONE = "ABCD1111-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("named", "hosts", "incomplete", "unsure"),
    [
        pytest.param(["abcd"], {"a": looked(**{ONE: VM}), "b": looked()}, [], [], id="all is known"),
        pytest.param(["abcd"], {"a": looked(**{ONE: VM}), "b": UNREACHABLE}, ["abcd"], ["b"], id="unreachable"),
        pytest.param(["abcd"], {"a": looked(**{ONE: VM}), "b": NEVER_LOOKED}, ["abcd"], ["b"], id="it never looked"),
        pytest.param(["abcd"], {"a": looked(clear=False, abcd="not_found")}, ["abcd"], ["a"], id="not clear"),
        pytest.param(
            ["abcd"], {"a": looked(clear=False, failed=True, **{ONE: "refused"})}, ["abcd"], ["a"], id="and refused"
        ),
        pytest.param(["abcd"], {"a": looked(failed=True, **{ONE: "refused"})}, [], [], id="refused, and all is known"),
        pytest.param([ONE.lower()], {"a": looked(**{ONE: VM}), "b": UNREACHABLE}, [], ["b"], id="a whole id"),
        pytest.param([ONE], {"a": looked(), "b": UNREACHABLE}, [], ["b"], id="a whole id that nobody lists"),
        pytest.param(["abcd"], {"a": looked(ABCD=VM), "b": UNREACHABLE}, [], ["b"], id="just the id of an event"),
        pytest.param([], {"a": looked(**{ONE: VM}), "b": UNREACHABLE}, [], ["b"], id="by type"),
    ],
)
def test_p14_a_beginning_is_taken_only_where_each_host_tells_all_its_events(named, hosts, incomplete, unsure):
    share = share_approvals(hosts, named)
    assert (share["incomplete"], share["unsure"]) == (incomplete, unsure)


@pytest.mark.parametrize(
    ("hosts", "named", "told"),
    [
        pytest.param({"a": looked(clear=False), "b": looked(E=VM)}, [], "unclear", id="by type, nothing found there"),
        pytest.param({"a": looked(clear=False, E=VM)}, [], "unclear", id="by type, and there may be more"),
        pytest.param({"a": looked(clear=False, E="not_found")}, ["E"], "unclear", id="by an id that nobody lists"),
        pytest.param(
            {"a": looked(clear=False, E="not_found"), "b": looked(E=VM)},
            ["e"],
            None,
            id="by a whole id, found elsewhere",
        ),
        pytest.param({"a": EMPTY, "b": looked(E=VM)}, [], "empty", id="an empty answer, by type"),
        pytest.param({"a": {**EMPTY, **NOT_FOUND}}, ["E"], "empty", id="an empty answer, by an id that nobody lists"),
        pytest.param({"a": {**EMPTY, **NOT_FOUND}, "b": looked(E=VM)}, ["e"], None, id="empty, by a whole id"),
        pytest.param({"a": looked(clear=False, failed=True, E="refused")}, [], None, id="refused: it failed already"),
        pytest.param({"a": UNREACHABLE, "b": NEVER_LOOKED}, [], None, id="no answer: it has failed already"),
        pytest.param({"a": looked(E="not_found")}, ["E"], None, id="it is clear that it is not there"),
    ],
)
def test_p4_an_answer_that_is_not_clear_does_not_tell_that_there_is_nothing(hosts, named, told):
    share = share_approvals(hosts, named)
    assert {word: share[word] for word in ("unclear", "empty")} == {
        "unclear": [],
        "empty": [],
        **({told: ["a"]} if told else {}),
    }
