# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""P14: a run is limited to the events that its user named, and to no other."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.event_ids import resolve_event_ids


def answered(*ids, clear=True, affects=True):
    return {"events": [{"event_id": each, "affects_this_vm": affects} for each in ids], "document_is_clear": clear}


A, B = "C7061BAC-AFDC-4513-B24B-AA5F13A16123", "C7061BAC-0000-4513-B24B-AA5F13A16123"
LOST = {"unreachable": True, "msg": "No route to host"}
FAILED = {"failed": True, "msg": "Nothing answers."}
EMPTY = {**answered(clear=False), "document_received": False}
NOT_ALL = (
    "event_response_event_ids: c7061bac-a is not the whole id of an event, and not all events of {} are known, so "
    "another one may begin so: give whole ids."
)


@pytest.mark.parametrize(
    ("names", "answers", "ids"),
    [
        pytest.param([], {"a": answered(A)}, None, id="all"),
        pytest.param("", {"a": answered(A)}, None, id="an empty survey"),
        pytest.param(["", " \n"], {"a": answered(A)}, None, id="empty words"),
        pytest.param([A.lower()], {"a": answered(A, B)}, [A], id="the whole id in another letter case"),
        pytest.param(["c7061bac-a"], {"a": answered(B), "b": answered(A)}, [A], id="a beginning"),
        pytest.param(["c7061bac-a", A], {"a": answered(A)}, [A, A], id="twice"),
        pytest.param("c7061bac-a\nc7061bac-0", {"a": answered(B), "b": answered(A)}, [A, B], id="lines of a survey"),
        pytest.param("c7061bac-a,c7061bac-0", {"a": answered(B), "b": answered(A)}, [A, B], id="between commas"),
        pytest.param([12345678], {"a": answered("12345678-9")}, ["12345678-9"], id="a number"),
        pytest.param(["abcd"], {"a": answered("ABCD"), "b": answered("ABCDEF")}, ["ABCD"], id="whole before beginning"),
        pytest.param([B], {"a": answered(A), "later": None}, [B], id="a host has not been asked: it may have it"),
        pytest.param([A.lower()], {"a": answered(A), "later": None}, [A], id="whole, and a host has not been asked"),
        pytest.param(["abcd"], {"a": answered("ABCD"), "later": None}, ["ABCD"], id="short, but one has just this id"),
        pytest.param(
            [A, "abcd"],
            {"a": answered(A, "ABCD"), "b": LOST, "c": FAILED, "d": EMPTY},
            [A, "ABCD"],
            id="whole, and not all answers are known",
        ),
    ],
)
def test_the_events_that_are_named(names, answers, ids):
    assert resolve_event_ids(names, answers) == {"event_ids": ids, "faults": []}


@pytest.mark.parametrize(
    ("names", "answers", "words"),
    [
        pytest.param(["c7061bac"], {"a": answered(A, B)}, "2 events have an id that begins with c7061bac:", id="two"),
        pytest.param(["c7061bac"], {"a": answered(A), "b": answered(B), "later": None}, "2 events", id="of two hosts"),
        pytest.param(["dead"], {"a": answered(A)}, "no host is affected by an event with the id dead", id="no"),
        pytest.param([A], {"a": answered(B), "b": LOST}, f"no host is affected by an event with the id {A}", id="lost"),
        pytest.param(["c7061bac-a"], {"a": answered(A), "b": LOST}, NOT_ALL.format("b"), id="a host that is lost"),
        pytest.param(["c7061bac-a"], {"a": answered(A), "b": FAILED}, NOT_ALL.format("b"), id="one that failed"),
        pytest.param(
            ["c7061bac-a"],
            {"b": EMPTY, "a": answered(A), "c": answered(clear=False)},
            NOT_ALL.format("b, c"),
            id="an empty answer, and one that is not clear",
        ),
        pytest.param(
            ["c7061bac-a"], {"a": answered(A), "later": None}, "give whole ids", id="a later batch may have two"
        ),
        pytest.param(["dead"], {"a": answered(A), "later": None}, "give whole ids", id="a later batch may have one"),
        pytest.param(["c70"], {"a": answered(A)}, "4 characters at least", id="too short"),
        pytest.param([A], {"a": answered(A, affects=None)}, "names no VM", id="it names no VM"),
        pytest.param([A], {"a": answered(clear=False), "b": answered()}, "to a was empty or could not", id="unclear"),
        pytest.param(["x\x1b[2J" * 9], {"a": answered(A)}, r'the id "x\u001b[2Jx', id="hostile"),
    ],
)
def test_p14_what_names_no_event_or_several_is_a_fault(names, answers, words):
    assert words in " ".join(resolve_event_ids(names, answers)["faults"])
