# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a VM in the hands of somebody else may return, and what it costs the others."""

from __future__ import annotations

import copy
import random

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import PREPARED, RUN, new_mark
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._answer_form import (
    find_answer_fault,
    find_approval_fault,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._run.fleet import (
    Fleet,
    FleetEvent,
    make_event,
)

EVENT = make_event()
MARK = {**new_mark(RUN, EVENT, "2026-11-21T09:00:00Z", run="0a1b"), "state": PREPARED, "counts": True, "file": "/m"}
ANSWER = {
    "events": [EVENT],
    "marks": [MARK],
    "document_received": True,
    "document_is_clear": True,
    "resource_name": "web-1",
    "boot_id": "b",
    "vm_id": "v",
    "msg": "",
}
ODD = (None, True, 0, 10**12, 1.5, "", "x", "9999-12-31T23:59:59Z", "\ud800", [], [None], ["web-1"], [{}], {}, {"a": 1})


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"marks": None, "boot_id": None, "vm_id": None, "msg": None}, None),
        ({"events": None}, "it has no list of events"),
        ({"events": {"A1": EVENT}}, "it has no list of events"),
        ({"events": [{**EVENT, "resources": "web-1"}]}, "event A1 has resources that are not a list of names"),
        (
            {"events": [{**EVENT, "not_before_raw": 5}]},
            "an event lacks a key, as from another version of the collection",
        ),
        ({"document_received": "yes"}, "document_received is neither true nor false"),
        ({"document_is_clear": None}, "document_is_clear is neither true nor false"),
        ({"boot_id": 5}, "boot_id is not a text"),
        ({"msg": ["No."]}, "msg is not a text"),
        ({"marks": {}}, "marks is not a list"),
        ({"marks": [{**MARK, "file": None}]}, "a mark has a key that is not a text"),
        ({"marks": [{**MARK, "event_id": None}]}, "a mark has no event_id"),
        ({"marks": [{**MARK, "event_id": None, "counts": False}]}, None),
    ],
)
def test_each_fault_of_an_answer_has_a_sentence(changes, fault):
    assert find_answer_fault({**ANSWER, **changes}) == fault


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"approvals": []}, None),
        ({"approvals": None}, "approvals is not a list of dictionaries"),
        ({"approvals": ["approved"]}, "approvals is not a list of dictionaries"),
        ({"approvals": [{"event_id": "A1"}]}, "an approval has no event_id or no result"),
        ({"approvals": [{"event_id": "A1", "result": {}}]}, "an approval has no event_id or no result"),
        ({"msg": {}}, "an approval has something else where a text belongs"),
    ],
)
def test_each_fault_of_an_approval_has_a_sentence(changes, fault):
    result = {"approvals": [{"event_id": "A1", "result": "approved", "event_status": "Started"}], "msg": ""}
    assert find_approval_fault({**result, **changes}) == fault


def places(value, place=()):
    """Yield the place of each value in it."""
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*place, key))


def forge(answer, chance):
    """Return the answer with another value in one place, or without that place."""
    forged = copy.deepcopy(answer)
    *above, last = chance.choice([place for place in places(forged) if place])
    inner = forged
    for key in above:
        inner = inner[key]
    if isinstance(inner, dict) and chance.random() < 0.2:
        del inner[last]
    else:
        inner[last] = copy.deepcopy(chance.choice(ODD))
    return forged


@pytest.mark.parametrize("seed", range(20))
def test_a_vm_that_forges_its_answers_keeps_no_other_from_being_prepared_and_restored(seed):
    chance = random.Random(seed)
    fleet = Fleet(["web-1", "web-2"], FleetEvent("A1", ["web-1"], lasts=200.0), FleetEvent("B2", ["web-2"]))
    fleet.marks["web-1"]["B9"] = {name: value for name, value in MARK.items() if name not in ("counts", "file")}
    tell = fleet.answer

    def answer(host):
        told = tell(host)
        if host == "web-2" or chance.random() < 0.3:
            return told
        forged = forge(told, chance)
        fault = find_answer_fault(forged)
        return {"failed": True, "msg": fault} if fault else forged

    fleet.answer = answer
    fleet.go()
    assert fleet.story["web-2"] == ["prepare B2", "restore B2"]
    assert [event_id for host, event_id, _ready in fleet.posted if host == "web-2"] == ["B2"]
