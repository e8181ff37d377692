# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""P2: only whom its checker has prepared for this event in this boot counts as prepared by it."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.checker_status import read_checker

STEP = {"state": "succeeded", "in_this_boot": True, "finished_at": "2026-11-21T10:05:00Z"}
IGNORED_STEP = {"state": "failed", "in_this_boot": False, "finished_at": "2026-11-21T10:04:00Z"}
OLD_STEP = {name: value for name, value in STEP.items() if name != "in_this_boot"}


def response(number=1, phase="announced", state="succeeded", steps=(STEP,)):
    return {"number": number, "phase": phase, "state": state, "steps": list(steps)}


def record(*responses, event_id="a1", phase="announced"):
    return {"event_id": event_id, "phase": phase, "responses": list(responses)}


def told(*records, heard=True):
    return f"{json.dumps({'heard_lately': heard, 'events': records})}\n"


def said(*responses, event_id="a1", heard=True):
    return told(record(*responses, event_id=event_id), heard=heard)


FAILED = response(2, state="failed")
OVER = record(response(1), response(2, phase="ended", state="failed"), phase="ended")


BEFORE_BOOT = {**STEP, "in_this_boot": False}
SKIPPED_STEP = {**STEP, "state": "skipped"}
FAILED_STEPS = [IGNORED_STEP, {**STEP, "state": "failed"}]
OF_1999 = {**STEP, "finished_at": "1999-01-01T00:00:00Z"}
TOO_EARLY = "prepared it before the last boot"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(said(response()), None, id="prepared"),
        pytest.param(said(response(1, state="failed"), response(2)), None, id="prepared at the second time"),
        pytest.param(said(response(), heard=False), "has not heard the metadata service", id="deaf"),
        pytest.param(said(response(), event_id="A2"), "does not know the event", id="another event"),
        pytest.param(said(), "has no preparation", id="no rule"),
        pytest.param(said(response(phase="ended")), "has no preparation", id="restored only"),
        pytest.param(said(response(state="running")), "response 1 of its checker is running.", id="not yet"),
        pytest.param(said(response(1), FAILED), "response 2 of its checker failed.", id="the last one failed"),
        pytest.param(said(response(state="skipped")), "response 1 of its checker was skipped.", id="not prepared"),
        pytest.param(said(response(steps=[SKIPPED_STEP])), "a step of response 1 of its checker is skipped", id="step"),
        # Such as a webhook: the rule goes on, and the checker approves events of its own VM alone all the same.
        pytest.param(
            said(response(steps=[IGNORED_STEP, STEP])), None, id="a step failed whose failure the rule ignores"
        ),
        pytest.param(
            said(response(state="failed", steps=FAILED_STEPS)),
            "response 1 of its checker failed.",
            id="one failed whose failure counts",
        ),
        pytest.param(
            said(response(steps=[IGNORED_STEP, BEFORE_BOOT])),
            TOO_EARLY,
            id="P2: before the last boot, with an ignored failure",
        ),
        pytest.param(said(response(steps=[BEFORE_BOOT, STEP])), TOO_EARLY, id="P2: before the last boot"),
        pytest.param(said(response(steps=[OF_1999])), None, id="P2: no clock is asked"),
        pytest.param(said(response(steps=[OLD_STEP])), "install the checker of this version", id="an older checker"),
        pytest.param(told(OVER), "does not know the event", id="P2: before the event that had this id ended"),
        pytest.param(
            told(OVER, record(response(3, state="failed"))),
            "response 3 of its checker failed.",
            id="P2: the event that has this id now",
        ),
        pytest.param(told(OVER, record(response(3))), None, id="prepared for the event that has this id now"),
        pytest.param(
            told(record(response(1)), record(FAILED)), "response 2 of its checker failed.", id="P2: the newer record"
        ),
        pytest.param("", "cannot be read", id="nothing"),
        pytest.param("azure-maintenance: not found", "cannot be read", id="no JSON"),
        pytest.param("[]", "cannot be read", id="other JSON"),
        pytest.param("[" * 100_000, "cannot be read", id="JSON without an end"),
        pytest.param(told({**record(), "event_id": 5}), "cannot be read", id="an id that is none"),
    ],
)
def test_who_is_prepared_by_its_checker(answer, why):
    why_not = read_checker(answer, "A1").why_not
    assert why_not == "" if why is None else why in why_not


@pytest.mark.parametrize(
    ("answer", "preparing"),
    [
        pytest.param(said(response(state="planned")), True, id="planned"),
        pytest.param(said(response(state="due")), True, id="due"),
        pytest.param(said(response(state="running")), True, id="running"),
        pytest.param(said(response(1, state="failed"), response(2, state="running")), True, id="for the second time"),
        pytest.param(said(event_id="A2"), True, id="it has not seen the event yet"),
        pytest.param(told(OVER), True, id="it has not seen yet that the event is there again"),
        pytest.param(said(response()), False, id="prepared"),
        pytest.param(said(response(state="failed")), False, id="failed"),
        pytest.param(said(), False, id="no rule"),
        pytest.param(said(response(state="running"), heard=False), False, id="deaf"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_whose_preparation_is_worth_waiting_for(answer, preparing):
    assert read_checker(answer, "A1").preparing is preparing
