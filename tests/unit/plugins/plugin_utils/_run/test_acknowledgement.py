# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Approvals from outside: after which results of a VM one is tried, and the result of both together."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.approval import (
    apply_approval_results,
    could_not_be_asked,
    hold_back_refused,
    take_acknowledgement,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.progress import track_event
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.settings import tell_wrong_words
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._run.fleet import make_event

LOST = {"unreachable": True, "msg": "The host is down."}
LATE = {"failed": True, "msg": "Timed out after 30 second(s).", "timedout": {"period": 30}}
SILENT = {"failed": True, "reason": "timeout", "in_doubt": False, "msg": "No answer."}
EVENT = make_event("E-1", ["web-1"])


def outside(result: str, **more: Any) -> dict[str, Any]:
    return {"approvals": [{"event_id": "E-1", "result": result}], "in_doubt": False, "msg": f"It is {result}.", **more}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (LOST, True),
        (LATE, True),
        (SILENT, True),
        ({**SILENT, "reason": "unreachable"}, True),
        # It may have been approved from inside.
        ({**SILENT, "in_doubt": True}, False),
        # A refusal is an answer.
        ({**SILENT, "reason": "http_status", "http_status": 400}, False),
        ({"approvals": [{"result": "refused"}], "in_doubt": False, "failed": True, "msg": "Refused."}, False),
        ({"approvals": [{"result": "approved"}], "in_doubt": False}, False),
        ({"approvals": [{"result": "not_found"}], "in_doubt": False}, False),
        ({"failed": True, "msg": "MODULE FAILURE"}, False),
    ],
)
def test_after_which_results_an_approval_from_outside_is_tried(result: dict[str, Any], expected: bool) -> None:
    assert could_not_be_asked(result) is expected


@pytest.mark.parametrize("inside", [LOST, SILENT], ids=["lost", "silent"])
@pytest.mark.parametrize(
    ("said", "approved", "may_be", "held_back"),
    [
        (outside("approved"), True, False, False),
        (outside("ended", approvals=[{"result": "ended", "event_status": "Canceled"}]), False, False, False),
        (outside("ended", approvals=[{"result": "ended", "event_status": "Completed"}]), False, "lost", "silent"),
        (outside("refused", failed=True), False, "lost", "silent"),
        (outside("not_found"), False, "lost", "silent"),
        ({"failed": True, "msg": "No login.", "in_doubt": False}, False, "lost", "silent"),
        (outside("failed", failed=True, in_doubt=True), False, True, False),
    ],
)
def test_the_result_of_both(
    inside: dict[str, Any], said: dict[str, Any], approved: bool, may_be: bool | str, held_back: bool | str
) -> None:
    is_lost = "unreachable" in inside
    result = {**take_acknowledgement(inside, said), "item": {"event": EVENT}}
    plan = {"event": EVENT, "approver": "host-a", "resources_ready": ["web-1"]}
    plan.update(why=None, blocked=False, wait=True)
    plans = hold_back_refused([plan], {"host-a": [result]}, 0.0, 0.0)
    (after,) = apply_approval_results([track_event(EVENT, "boot-1", 0.0)], plans, {"host-a": [result]}, True, 1.0)
    assert after["approved_by"] == ("host-a" if approved else None)
    assert after["may_be_approved"] is (is_lost if may_be == "lost" else may_be)
    assert (plans[0]["approver"] is None) is (not is_lost if held_back == "silent" else held_back)
    if may_be or held_back:
        assert f"From outside: {said['msg']}" in after["why"][0]


@pytest.mark.parametrize("value", ["always", "", None, True])
def test_another_word_is_refused_and_null_too(value: Any) -> None:
    shown = "" if value is None else value
    fault = f"event_response_acknowledge must be never or fallback, not '{shown}'."
    assert tell_wrong_words({"host-a": {"acknowledge": value}}) == [fault]
