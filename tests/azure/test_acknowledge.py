# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""scheduled_event_acknowledge approves at the stand-in: the guard, each of Azure's answers, and what is in doubt."""

from __future__ import annotations

from functools import partial

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.acknowledge import SPEC, acknowledge
from ansible_collections.fleetops.azure_maintenance.tests.azure import stand_in
from ansible_collections.fleetops.azure_maintenance.tests.azure.stand_in import EVENT, GROUP, VM

PAIR = f"{GROUP}/availabilitySets/pair"
FIRST, SECOND = EVENT, "743C15D8-A994-46FC-93AF-B84EE33F9A14"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
GRAPH, ACKNOWLEDGE = "/providers/microsoft.resourcegraph", "/scheduledevents"


@pytest.fixture
def approve(run):
    return partial(run, SPEC, acknowledge)


def results(result):
    return {each["event_id"]: each["result"] for each in result["approvals"]}


def posts(azure):
    return azure.requests(ACKNOWLEDGE)


def test_approved_once_every_vm_is_ready(principal, approve):
    principal.add_event(FIRST, PAIR, ["web-1", "web-2"])
    result = approve(event_ids=[FIRST.upper()], resources_ready=["WEB-2", "web-1"])
    assert results(result) == {FIRST: "approved"}
    assert (result["changed"], result["in_doubt"], result.get("failed")) == (True, False, None)
    assert result["diff"] == {"before": {FIRST: "Scheduled"}, "after": {FIRST: "approved"}}
    assert result["msg"] == f"approved: {FIRST}."
    assert [each["path"] for each in posts(principal)] == [
        f"{PAIR}/providers/Microsoft.Maintenance/scheduledevents/{FIRST}/acknowledge"
    ]


@pytest.mark.parametrize("ready", [[], ["web-1"]])
def test_refused_while_a_vm_is_not_ready(principal, approve, ready):
    principal.add_event(FIRST, PAIR, ["web-1", "web-2"])
    principal.add_event(SECOND, VM, ["web-1"])
    result = approve(event_ids=[FIRST, SECOND], resources_ready=ready)
    assert result["failed"]
    assert set(results(result).values()) == {"refused"}
    assert result["approvals"][0]["waiting_for"] == [name for name in ("web-1", "web-2") if name not in ready]
    assert "add " in result["msg"]
    assert posts(principal) == []


def test_force(principal, approve):
    principal.add_event(FIRST, PAIR, [])
    assert approve(event_ids=[FIRST], force=True)["approvals"][0]["result"] == "approved"


def test_refused_where_nobody_knows_whose_event_it_is(principal, approve):
    principal.add_event(FIRST, VM, ["web-1"], id=f"/subscriptions/{stand_in.SUBSCRIPTION}/elsewhere")
    result = approve(event_ids=[FIRST], force=True)
    assert (result["failed"], results(result)) == (True, {FIRST: "refused"})
    assert "does not tell its resource" in result["msg"]


@pytest.mark.parametrize(
    ("status", "word"),
    [("Started", "already_started"), ("Completed", "ended"), ("Cancelled", "ended"), ("Canceled", "ended")],
)
def test_nothing_is_sent_for_an_event_that_has_started_or_ended(principal, approve, status, word):
    principal.add_event(FIRST, VM, ["web-1"], {"EventStatus": status})
    result = approve(event_ids=[FIRST], resources_ready=["web-1"])
    assert (results(result), result["changed"], result.get("failed")) == ({FIRST: word}, False, None)
    assert posts(principal) == []


def test_an_event_that_is_not_there_is_a_warning(principal, approve):
    result = approve(event_ids=[UNKNOWN])
    assert (results(result), result["changed"], result.get("failed")) == ({UNKNOWN: "not_found"}, False, None)
    assert "is not in Azure Resource Graph" in result["warnings"][0]


def test_idempotent_once_the_event_has_started(principal, approve):
    principal.add_event(FIRST, VM, ["web-1"])
    principal.after_approval = lambda row: row["properties"].update(EventStatus="Started", NotBefore="")
    assert approve(event_ids=[FIRST], resources_ready=["web-1"])["changed"]
    assert not approve(event_ids=[FIRST], resources_ready=["web-1"])["changed"]
    assert len(principal.approved) == 1


def test_check_mode(principal, approve):
    principal.add_event(FIRST, VM, ["web-1"])
    result = approve(check_mode=True, event_ids=[FIRST], resources_ready=["web-1"])
    assert (result["changed"], results(result), posts(principal)) == (True, {FIRST: "approved"}, [])
    assert result["msg"] == f"would be approved: {FIRST}."


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "missing required arguments: event_ids"),
        ({"event_ids": ["3da1b9aa"]}, "event_ids must be whole ids"),
        ({"event_ids": [f"{FIRST}/../x"]}, "event_ids must be whole ids"),
        ({"event_ids": ""}, "event_ids must be whole ids"),
    ],
)
def test_p14_only_whole_ids(principal, approve, options, said):
    result = approve(**options)
    assert result["failed"]
    assert said in result["msg"]
    assert principal.journal == []


def test_p14_an_empty_list_approves_nothing(principal, approve):
    principal.add_event(FIRST, VM, ["web-1"])
    result = approve(event_ids=[], force=True)
    assert (result["approvals"], result["changed"], result["msg"]) == ([], False, "no such event")
    assert principal.journal == []


def test_several_events_of_one_resource_are_one_request(principal, approve):
    for each in (FIRST, SECOND):
        principal.add_event(each, VM, ["web-1"])
    assert set(results(approve(event_ids=[FIRST, SECOND], resources_ready=["web-1"])).values()) == {"approved"}
    (post,) = posts(principal)
    assert post["body"] == {"value": [FIRST, SECOND]}


def test_an_event_of_several_resources_is_approved_when_all_took_it(principal, approve):
    other = VM.replace("web-1", "web-2")
    principal.add_event(FIRST, VM, ["web-1"])
    principal.add_event(FIRST, other, ["web-2"])
    principal.add_fault(f"web-2{'/providers/microsoft.maintenance'}", 503)
    result = approve(event_ids=[FIRST], resources_ready=["web-1", "web-2"])
    assert results(result) == {FIRST: "approved"}
    assert [parent.rsplit("/", 1)[1] for parent, _event in principal.approved] == ["web-1", "web-2"]
    # What was taken is not sent again.
    assert len(posts(principal)) == 3


def test_207_is_a_partial_failure(principal, approve):
    for each in (FIRST, SECOND):
        principal.add_event(each, VM, ["web-1"])
    body = {
        "Error": {
            "Code": "MultiStatusResponse",
            "Message": "The operation returned different statuses for the Scheduled Events.",
            "Details": [{"Target": SECOND.lower(), "Code": "Conflict", "Message": "Not now."}],
        }
    }
    principal.add_fault(ACKNOWLEDGE, 207, body=body)
    result = approve(event_ids=[FIRST, SECOND], resources_ready=["web-1"])
    assert results(result) == {FIRST: "approved", SECOND: "failed"}
    assert (result["failed"], result["changed"], result["in_doubt"]) == (True, True, False)
    assert result["approvals"][1]["error_code"] == "Conflict"
    assert f"approved: {FIRST}." in result["msg"]
    assert "Not now." in result["msg"]


@pytest.mark.parametrize("status_after", ["Completed", "Canceled", None])
def test_207_for_an_event_that_is_gone(principal, approve, status_after):
    """Resource Graph is asked whether it has ended."""
    for each in (FIRST, SECOND):
        principal.add_event(each, VM, ["web-1"])
    row = principal.rows[1]

    def vanish(_row):
        if status_after is None:
            principal.rows.remove(row)
        else:
            row["properties"]["EventStatus"] = status_after
        principal.after_approval = None

    principal.after_approval = vanish
    result = approve(event_ids=[FIRST, SECOND], resources_ready=["web-1"])
    assert results(result) == {FIRST: "approved", SECOND: "ended" if status_after else "not_found"}
    assert not result.get("failed")


@pytest.mark.parametrize("target", [None, f"{PAIR}/providers/Microsoft.Maintenance/scheduledevents/{SECOND}", UNKNOWN])
def test_p13_207_for_an_event_that_cannot_be_told(principal, approve, target):
    for event_id in (FIRST, SECOND):
        principal.add_event(event_id, PAIR, ["web-1"])
    details = [{"target": each, "code": "Conflict", "message": "Busy."} for each in (FIRST, target)]
    principal.add_fault(ACKNOWLEDGE, 207, body={"error": {"code": "MultiStatusResponse", "details": details}})
    result = approve(event_ids=[FIRST, SECOND], resources_ready=["web-1"])
    assert (result["failed"], result["in_doubt"]) == (True, True)
    assert results(result) == {FIRST: "failed", SECOND: "failed"}


def test_207_without_saying_for_which(principal, approve):
    for each in (FIRST, SECOND):
        principal.add_event(each, VM, ["web-1"])
    principal.add_fault(ACKNOWLEDGE, 207, body={"error": {"code": "MultiStatusResponse", "message": "Some failed."}})
    result = approve(event_ids=[FIRST, SECOND], resources_ready=["web-1"])
    assert set(results(result).values()) == {"failed"}
    assert (result["failed"], result["in_doubt"], result["changed"]) == (True, True, True)


@pytest.mark.parametrize("error", ["The service is busy.", {"message": "The service is busy."}])
def test_p13_an_error_without_a_code_is_no_approval_whatever_the_status(principal, approve, error):
    principal.add_event(FIRST, VM, ["web-1"])
    principal.add_fault(ACKNOWLEDGE, 200, body={"error": error})
    result = approve(event_ids=[FIRST], resources_ready=["web-1"])
    assert (result["failed"], result["in_doubt"]) == (True, True)
    assert results(result) == {FIRST: "failed"}


def test_404_although_it_is_listed(principal, approve):
    principal.add_event(FIRST, VM, ["web-1"])
    body = {"Error": {"Code": "InvalidScheduledEventId", "Details": [{"Target": FIRST}]}}
    principal.add_fault(ACKNOWLEDGE, 404, body=body)
    result = approve(event_ids=[FIRST], resources_ready=["web-1"])
    assert (results(result), result["failed"]) == ({FIRST: "failed"}, True)
    assert result["error_code"] == "InvalidScheduledEventId"
    assert "Resource Graph lists it" in result["msg"]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (400, stand_in._BAD_ID, "http_status"),
        (405, stand_in.WRONG_REGION, "http_status"),
        (403, {"error": {"code": "AuthorizationFailed", "message": "No role."}}, "forbidden"),
    ],
)
def test_answers_that_do_not_pass(principal, approve, status, body, reason):
    principal.add_event(FIRST, VM, ["web-1"])
    principal.add_fault(ACKNOWLEDGE, status, body=body)
    result = approve(event_ids=[FIRST], resources_ready=["web-1"])
    assert (results(result), result["reason"], result["http_status"]) == ({FIRST: "failed"}, reason, status)
    assert (result["failed"], result["changed"], result["in_doubt"]) == (True, False, False)
    assert body["error"]["message"].rstrip(". ") in result["msg"]
    assert len(posts(principal)) == 1


@pytest.mark.parametrize(
    ("status", "body"), [(204, None), (200, {"value": "Successfully approved scheduled event"}), (200, None)]
)
def test_successes_of_all_kinds(principal, approve, status, body):
    principal.add_event(FIRST, VM, ["web-1"])
    principal.add_fault(ACKNOWLEDGE, status, body=body)
    assert results(approve(event_ids=[FIRST], resources_ready=["web-1"])) == {FIRST: "approved"}


@pytest.mark.parametrize("status", [401, 500, 502, 429, "reset", "take", "garble"])
def test_p1_asks_resource_graph_anew_before_each_try(principal, approve, status):
    principal.add_event(FIRST, VM, ["web-1"])
    body = "<html>502</html>" if status == 502 else stand_in.INTERNAL
    principal.add_fault(ACKNOWLEDGE, status, body=body)
    result = approve(event_ids=[FIRST], resources_ready=["web-1"])
    assert (results(result), result["in_doubt"]) == ({FIRST: "approved"}, False)
    paths = [each["path"] for each in principal.journal]
    asked = [path for path in paths if "/metadata" not in path and "2.0" not in path]
    assert ["acknowledge" in path for path in asked] == [False, True, False, True]


@pytest.mark.parametrize(
    ("change", "word", "failed"),
    [
        ({"Resources": ["web-1", "web-2"]}, "refused", True),
        ({"EventStatus": "Started"}, "already_started", None),
        ({"EventStatus": "Completed"}, "ended", None),
    ],
)
def test_p1_what_changed_meanwhile_is_not_sent_again(principal, approve, change, word, failed):
    """The answer to the first try is lost, so that it is in doubt."""
    principal.add_event(FIRST, PAIR, ["web-1"])
    principal.after_approval = lambda row: row["properties"].update(change)
    principal.add_fault(ACKNOWLEDGE, "take")
    result = approve(event_ids=[FIRST], resources_ready=["web-1"])
    assert (results(result), result.get("failed")) == ({FIRST: word}, failed)
    assert (result["in_doubt"], result["changed"]) == (True, True)
    assert "Azure may have taken it" in " ".join(result["warnings"])
    assert len(posts(principal)) == 1


def changing_login(azure, row, **change):
    """Let an event change while the client logs in anew."""
    real = azure.find_fault

    def find_fault(path):
        if "oauth2" in path and posts(azure):
            row["properties"].update(change)
        return real(path)

    azure.find_fault = find_fault


def test_p1_what_changed_during_a_new_login_is_not_sent_again(principal, approve):
    principal.add_event(FIRST, VM, ["web-1"])
    principal.add_fault(ACKNOWLEDGE, 401, body={"error": {"code": "ExpiredAuthenticationToken", "message": "Expired."}})
    changing_login(principal, principal.rows[0], Resources=["web-1", "db-1"])
    result = approve(event_ids=[FIRST], resources_ready=["web-1"])
    assert (results(result), result["in_doubt"]) == ({FIRST: "refused"}, False)
    assert len(posts(principal)) == 1


def test_a_login_that_azure_never_takes_ends_the_approval(principal, approve):
    principal.add_event(FIRST, VM, ["web-1"])
    body = {"error": {"code": "InvalidAuthenticationToken", "message": "Not for this."}}
    principal.add_fault(ACKNOWLEDGE, 401, body=body, times=9)
    result = approve(event_ids=[FIRST], resources_ready=["web-1"])
    assert (results(result), result["in_doubt"]) == ({FIRST: "failed"}, False)
    assert len(posts(principal)) == 2


def test_p1_what_changed_during_the_approval_of_another_event_is_not_sent(principal, approve):
    principal.add_event(FIRST, VM, ["web-1"])
    principal.add_event(SECOND, VM.replace("web-1", "web-2"), ["web-2"])
    principal.after_approval = lambda _row: principal.rows[1]["properties"].update(Resources=["web-2", "db-1"])
    result = approve(event_ids=[FIRST, SECOND], resources_ready=["web-1", "web-2"])
    assert results(result) == {FIRST: "approved", SECOND: "refused"}
    assert len(posts(principal)) == 1


def test_an_event_that_starts_once_one_of_its_resources_took_the_approval_is_approved(principal, approve):
    principal.add_event(FIRST, VM, ["web-1"])
    principal.add_event(FIRST, VM.replace("web-1", "web-2"), ["web-2"])
    principal.after_approval = lambda _row: [row["properties"].update(EventStatus="Started") for row in principal.rows]
    result = approve(event_ids=[FIRST], resources_ready=["web-1", "web-2"])
    assert (results(result), result["in_doubt"]) == ({FIRST: "approved"}, False)
    assert len(posts(principal)) == 1


def test_an_event_that_one_of_its_resources_took_and_another_refused_is_in_doubt(principal, approve):
    principal.add_event(FIRST, VM, ["web-1"])
    principal.add_event(FIRST, VM.replace("web-1", "web-2"), ["web-2"])
    body = {"error": {"code": "AuthorizationFailed", "message": "No role."}}
    principal.add_fault(f"web-2{'/providers/microsoft.maintenance'}", 403, body=body)
    result = approve(event_ids=[FIRST], resources_ready=["web-1", "web-2"])
    assert (results(result), result["in_doubt"], result["changed"]) == ({FIRST: "failed"}, True, True)


def test_two_resources_that_fail_are_asked_by_turns_with_pauses(principal, approve):
    other = VM.replace("web-1", "web-2")
    principal.add_event(FIRST, VM, ["web-1"])
    principal.add_event(SECOND, other, ["web-2"])
    principal.add_fault(ACKNOWLEDGE, 503, times=99)
    result = approve(event_ids=[FIRST, SECOND], resources_ready=["web-1", "web-2"], timeout=4)
    assert results(result) == {FIRST: "failed", SECOND: "failed"}
    asked = ["web-2" in each["path"] for each in posts(principal)]
    assert asked[:3] == [False, True, False]
    assert len(asked) <= 6


def test_p15_an_approval_that_hangs(principal, approve):
    principal.add_event(FIRST, VM, ["web-1"])
    principal.add_fault(ACKNOWLEDGE, "hang", times=9)
    result = approve(event_ids=[FIRST], resources_ready=["web-1"], timeout=4)
    assert (results(result), result["reason"]) == ({FIRST: "failed"}, "timeout")
    assert (result["failed"], result["in_doubt"]) == (True, True)


@pytest.mark.parametrize("how", ["take", "garble", 500])
def test_p13_an_approval_whose_answer_is_lost_is_not_said_to_be_none(principal, approve, how):
    principal.add_event(FIRST, VM, ["web-1"])
    principal.add_fault(ACKNOWLEDGE, how, times=9)
    result = approve(event_ids=[FIRST], resources_ready=["web-1"], timeout=4)
    assert (results(result), result["failed"], result["in_doubt"]) == ({FIRST: "failed"}, True, True)
    assert result["msg"].startswith(f"Whether event {FIRST} was approved is not known: ")
    assert result["reason"] == ("http_status" if how == 500 else "unreachable")


def test_an_answer_that_fails_before_anything_is_sent(principal, approve):
    principal.add_fault(GRAPH, 403, body={"error": {"code": "AuthorizationFailed", "message": "No role."}})
    result = approve(event_ids=[FIRST])
    assert (result["failed"], result["reason"], result["in_doubt"]) == (True, "forbidden", False)
