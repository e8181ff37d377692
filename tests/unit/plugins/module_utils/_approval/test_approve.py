# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Approving, against a server that answers as a test writes it down: only what was just seen is approved (P1)."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval import approve as approving
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval.guard import ApprovalRequest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.selection import NO_DOCUMENT, keys
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client, fetch, transport
from ansible_collections.fleetops.azure_maintenance.tests.instance import compute
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import (
    APPROVE_OPTIONS,
    document,
    event,
)

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("clock")]

BAD_REQUEST = (400, b'{"error": "Bad request."}')
NAME = (200, compute("web-1"))
OK = (200, b"")
LOST = ["reset"]


def sent_to(server):
    bodies = [json.loads(request.body) for request in server.requests if request.method == "POST"]
    return [[item["EventId"] for item in body["StartRequests"]] for body in bodies]


class Case:
    """A document, what is asked for, and what Azure gets and says afterwards."""

    def __init__(self, serve, first, *answers, api_version=client.DEFAULT_API_VERSION, then=None, **request):
        self.server = serve(first, *answers, then=then)
        self.found = fetch.fetch(self.server.client(api_version=api_version), "web-1")
        self.request = ApprovalRequest("web-1", **request)
        self.noted = []

    def approve(self):
        found = self.found
        done = approving.approve(found.client, found.document, self.request, found.deadline, self.noted.append)
        assert self.noted == self.sent
        self.unanswered = done.unanswered
        return done.plan

    @property
    def sent(self):
        return sent_to(self.server)

    @property
    def methods(self):
        return [request.method for request in self.server.requests]

    @property
    def incarnations(self):
        requests = [request for request in self.server.requests if request.method == "POST"]
        return [json.loads(request.body).get("DocumentIncarnation") for request in requests]


def results(plan):
    return {approval.event_id: approval.result for approval in plan.approvals}


def test_approve(serve):
    case = Case(serve, document(event("A"), event("B"), event("C", "Started")), (200, b""))
    assert results(case.approve()) == {"A": "approved", "B": "approved", "C": "already_started"}
    assert case.sent == [["A", "B"]]
    assert case.incarnations == [None]
    assert not case.unanswered


@pytest.mark.parametrize(
    ("events", "request_"),
    [
        ([], {"event_ids": ("A",)}),
        ([event("A", "Started")], {"event_ids": ("A",)}),
        ([event("A", Resources=["web-1", "web-2"])], {}),
        ([event("A"), event("B", Resources=["web-1", "web-2"])], {}),
    ],
)
def test_approve_sends_nothing_where_nothing_may_be_approved(serve, events, request_):
    case = Case(serve, document(*events), **request_)
    assert "approved" not in results(case.approve()).values()
    assert case.sent == []


@pytest.mark.parametrize(
    ("api_version", "fields", "expected", "sent"),
    [
        ("2020-07-01", {}, None, None),
        ("2020-07-01", {"DocumentIncarnation": 7}, "7", "7"),
        ("2020-07-01", {"DocumentIncarnation": "7"}, "7", "7"),
        ("2020-07-01", {"DocumentIncarnation": 0}, "0", "0"),
        ("2017-03-01", {"DocumentIncarnation": 7}, None, "7"),
        ("2017-11-01", {"DocumentIncarnation": 0}, None, "0"),
        ("2017-08-01", {"DocumentIncarnation": None}, None, None),
        ("2018-01-01", {"DocumentIncarnation": 7}, None, None),
    ],
)
def test_approve_sends_the_incarnation_where_it_is_asked_for(serve, api_version, fields, expected, sent):
    first = document(event("A"), **fields)
    case = Case(serve, first, (200, b""), api_version=api_version, document_incarnation=expected)
    case.approve()
    assert case.incarnations == [sent]


def test_an_event_that_vanishes_before_the_approval_does_not_cost_the_others(serve):
    both = document(event("A"), event("B"))
    case = Case(serve, both, BAD_REQUEST, document(event("b")), (200, b""), event_ids=("a", "B"))
    plan = case.approve()
    assert case.sent == [["A", "B"], ["b"]]
    assert results(plan) == {"b": "approved", "A": "not_found"}
    assert [warning for warning in plan.warnings if "Event A" in warning]


def test_p1_an_event_that_was_named_by_its_beginning_is_not_changed_for_another_one(serve):
    first, second = document(event("ABCD-1")), document(event("ABCD-1-2"))
    case = Case(serve, first, BAD_REQUEST, second, event_ids=("abcd",), beginnings=True)
    assert results(case.approve()) == {"ABCD-1": "not_found"}
    assert case.sent == [["ABCD-1"]]


def test_warnings_are_kept_and_not_said_twice(serve):
    asked = {"event_ids": ("A", "B", "Z")}
    case = Case(serve, document(event("A"), event("B")), BAD_REQUEST, document(event("B")), (200, b""), **asked)
    plan = case.approve()
    assert results(plan) == {"B": "approved", "A": "not_found", "Z": "not_found"}
    assert sorted(warning.split(" is ")[0] for warning in plan.warnings) == ["Event A", "Event Z"]


def test_what_only_the_first_look_could_warn_of_is_kept(serve):
    other = event("T", EventType="Freeze")
    asked = {"event_ids": ("A", "B", "T"), "event_types": keys(["Reboot"])}
    case = Case(serve, document(event("A"), event("B"), other), BAD_REQUEST, document(event("B"), other), OK, **asked)
    plan = case.approve()
    assert results(plan) == {"B": "approved", "A": "not_found"}
    assert [warning for warning in plan.warnings if "Event T (Freeze) is listed but has another type" in warning]


def test_a_new_event_is_not_approved_on_the_second_look(serve):
    asked = {"event_types": keys(["Reboot"])}
    second = document(event("B"), event("NEW"))
    case = Case(serve, document(event("A"), event("B")), BAD_REQUEST, second, (200, b""), **asked)
    assert results(case.approve()) == {"B": "approved", "A": "not_found"}
    assert case.sent == [["A", "B"], ["B"]]


def test_all_events_vanish_one_by_one(serve):
    answers = [BAD_REQUEST, document(event("B")), BAD_REQUEST, document()]
    case = Case(serve, document(event("A"), event("B")), *answers)
    assert results(case.approve()) == {"A": "not_found", "B": "not_found"}
    assert case.sent == [["A", "B"], ["B"]]


def test_an_event_that_started_before_the_approval(serve):
    case = Case(serve, document(event("A")), BAD_REQUEST, document(event("A", "Started")))
    plan = case.approve()
    assert results(plan) == {"A": "already_started"}
    assert plan.approvals[0].event_status == "Started"
    assert case.sent == [["A"]]


def test_an_event_that_grew_before_the_approval_is_refused_and_so_are_the_others(serve):
    second = document(event("B"), event("C", Resources=["web-1", "web-2"]))
    case = Case(serve, document(event("A"), event("B"), event("C")), BAD_REQUEST, second)
    plan = case.approve()
    assert results(plan) == {"A": "not_found", "B": "refused", "C": "refused"}
    assert case.sent == [["A", "B", "C"]]


@pytest.mark.parametrize(
    ("answers", "then"),
    [
        pytest.param([document(event("A"), event("B"))], None, id="the event is still listed"),
        pytest.param([], (200, b""), id="never a document"),
        pytest.param([(403, b"")], None, id="no leave to ask"),
        pytest.param([(200, b"<html>")], None, id="a page"),
        pytest.param([(200, b"[]")], None, id="no document"),
    ],
)
def test_400_is_an_error_where_no_document_shows_that_the_event_is_gone(serve, answers, then):
    case = Case(serve, document(event("A")), BAD_REQUEST, *answers, then=then)
    with pytest.raises(_errors.HttpStatusError, match="Bad request"):
        case.approve()
    assert case.sent == [["A"]]


@pytest.mark.parametrize("answer", [(403, b""), (404, b'{"error": "Not found"}'), (302, b""), b"SSH-2.0-OpenSSH\r\n"])
def test_other_errors_are_final(serve, answer):
    case = Case(serve, document(event("A")), answer)
    with pytest.raises(_errors.ImdsError):
        case.approve()
    assert case.sent == [["A"]]


def test_the_rest_is_refused_when_the_caller_wants_no_other_incarnation(serve):
    first = document(event("A"), event("B"), DocumentIncarnation=4)
    second = document(event("B"), DocumentIncarnation=5)
    case = Case(serve, first, BAD_REQUEST, second, document_incarnation="4")
    plan = case.approve()
    assert results(plan) == {"A": "not_found", "B": "refused"}
    assert "the document has changed since" in plan.refusals[0].why
    assert case.sent == [["A", "B"]]
    assert case.incarnations == ["4"]


def test_the_second_approval_carries_the_incarnation_of_the_second_look(serve):
    first = document(event("A"), event("B"), DocumentIncarnation=4)
    second = document(event("B"), DocumentIncarnation=5)
    case = Case(serve, first, BAD_REQUEST, second, (200, b""), api_version="2017-08-01")
    assert results(case.approve()) == {"A": "not_found", "B": "approved"}
    assert case.incarnations == ["4", "5"]


def test_force_still_holds_on_the_second_look(serve):
    shared = event("B", Resources=["web-1", "web-2"])
    case = Case(serve, document(event("A"), shared), BAD_REQUEST, document(shared), (200, b""), force=True)
    assert results(case.approve()) == {"A": "not_found", "B": "approved"}


def test_the_limit_of_the_document_holds_for_the_approval_too(serve):
    case = Case(serve, document(event("A")))
    case.found = case.found._replace(deadline=transport.Deadline(0))
    with pytest.raises(_errors.NoAnswerError) as caught:
        case.approve()
    assert case.sent == []
    assert caught.value.refused


FAULTS = [LOST, (500, b""), (503, b""), (429, b""), (410, b"")]
GROWN = event("A", Resources=["web-1", "web-2"])


@pytest.mark.parametrize("fault", FAULTS)
def test_p1_the_document_is_read_anew_before_an_approval_is_sent_again(serve, clock, fault):
    case = Case(serve, document(event("A")), fault, document(event("a")), OK)
    assert results(case.approve()) == {"a": "approved"}
    assert case.methods == ["GET", "POST", "GET", "POST"]
    # What was read last is what is sent.
    assert case.sent == [["A"], ["a"]]
    assert clock.pauses == [0.5]


@pytest.mark.parametrize("fault", FAULTS)
def test_p1_an_event_that_got_another_vm_meanwhile_is_not_sent_again(serve, fault):
    case = Case(serve, document(event("A")), fault, document(GROWN))
    plan = case.approve()
    assert results(plan) == {"A": "refused"}
    assert plan.refusals[0].waiting_for == ("web-2",)
    assert case.sent == [["A"]]


def test_p1_a_server_that_alternates_documents_and_400_is_not_asked_without_a_pause(serve, clock):
    steps = []
    for number in range(6):
        both = document(event("A"), event("B"))
        steps += [BAD_REQUEST, document(event("A")) if number % 2 == 0 else both]
    case = Case(serve, document(event("A"), event("B")), *steps, then=BAD_REQUEST, event_ids=("A", "B"))
    with pytest.raises(_errors.ImdsError):
        case.approve()
    posts = case.methods.count("POST")
    assert len(clock.pauses) >= posts - 1
    assert clock.pauses[:4] == [0.5, 1, 2, 4]


def test_a_retry_after_is_waited_for_before_the_document_is_read_anew(serve, clock):
    case = Case(serve, document(event("A")), (429, b"", {"Retry-After": "7"}), document(event("A")), OK)
    assert results(case.approve()) == {"A": "approved"}
    assert clock.pauses == [7]


@pytest.mark.parametrize("fault", [(500, b""), (429, b"")])
def test_the_approval_ends_with_its_limit(serve, clock, fault):
    case = Case(serve, document(event("A")), *[fault, document(event("A"))] * 24, fault)
    with pytest.raises(_errors.ImdsError) as caught:
        case.approve()
    assert caught.value.http_status == fault[0]
    assert sum(clock.pauses) < 600


@pytest.mark.parametrize(
    ("answer", "clear"), [(document(), True), (document(None), False), ((200, b""), False)], ids=["all", "some", "none"]
)
def test_p4_it_is_told_whether_an_event_that_is_not_found_may_still_be_there(serve, answer, clear):
    result, warnings = run(serve(NAME, answer))
    assert (result["approvals"][0]["result"], result["document_is_clear"]) == ("not_found", clear)
    assert warnings


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(document(), "no such event", id="a document without events"),
        pytest.param(document("junk"), "no such event could be read; ask again", id="an unclear document"),
        pytest.param((200, b""), NO_DOCUMENT, id="an empty body"),
    ],
)
def test_what_cannot_be_read_does_not_read_as_no_such_event(serve, answer, said):
    result, _warnings = run(serve(NAME, answer), event_ids=None, event_sources=["User"])
    assert (result["msg"], result["changed"], result["approvals"]) == (said, False, [])


def test_where_an_empty_list_selects_nothing_there_is_no_such_event(serve):
    server = serve()
    result, _warnings = run(server, event_ids=[])
    assert (result["msg"], server.requests) == ("no such event", [])


def test_an_empty_body_or_a_fault_between_two_tries_is_asked_over(serve):
    case = Case(serve, document(event("A")), (503, b""), (200, b""), (500, b""), ["reset"], document(event("A")), OK)
    assert results(case.approve()) == {"A": "approved"}
    assert case.methods == ["GET", "POST", "GET", "GET", "GET", "GET", "POST"]


@pytest.mark.parametrize(
    ("answers", "result", "in_doubt"),
    [
        pytest.param([LOST, document(event("A", "Started"))], "already_started", True, id="lost, and then started"),
        pytest.param([LOST, document()], "not_found", True, id="lost, and then gone"),
        pytest.param([LOST, document(None)], "not_found", True, id="lost, and then unclear"),
        pytest.param([LOST, document(GROWN)], "refused", True, id="lost, and then grown"),
        pytest.param([LOST, document(event("A")), OK], "approved", False, id="lost, and taken the second time"),
        pytest.param(
            [(429, b""), document(event("A", "Started"))], "already_started", False, id="refused, and then started"
        ),
    ],
)
def test_an_approval_is_in_doubt_where_its_answer_was_lost(serve, answers, result, in_doubt):
    case = Case(serve, document(event("A")), *answers, event_ids=("A",))
    assert results(case.approve()) == {"A": result}
    assert case.unanswered is in_doubt


def test_of_two_lost_approvals_the_one_that_vanished_stays_in_doubt(serve):
    case = Case(serve, document(event("A"), event("B")), LOST, document(event("B")), OK)
    assert results(case.approve()) == {"A": "not_found", "B": "approved"}
    assert case.unanswered


@pytest.mark.parametrize(
    "later", [[(403, b"")], [document(event("A")), (403, b"")], [document(event("A")), BAD_REQUEST]]
)
def test_an_error_after_a_lost_approval_does_not_say_that_azure_refused(serve, later):
    then = document(event("A")) if later[-1] == BAD_REQUEST else None
    case = Case(serve, document(event("A")), LOST, *later, then=then)
    with pytest.raises(_errors.NoAnswerError, match="broke the connection") as caught:
        case.approve()
    assert not caught.value.refused


OPTIONS = {**APPROVE_OPTIONS, "event_ids": ["A"]}


def run(server, **options):
    """Return the result of the module and its warnings."""
    warnings = []
    result = approving.run_approval({**OPTIONS, **options}, server.client(), warnings.append, check_mode=False)
    return result, warnings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"event_types": ["Reboot\nRebot"]}, 'event_types must be any of Freeze, Reboot, .*, not "Rebot"'),
        ({"resource_name": "web-1 "}, 'resource_name must be a name by which Azure can call a VM .*, not "web-1 "'),
        ({"event_ids": [], "event_types": ["Rebot"]}, "event_types must be any of"),
        ({"event_ids": [], "wait_timeout": -5.0}, "wait_timeout must be more than 0 seconds, not -5.0"),
        ({"wait_timeout": float("inf")}, "wait_timeout must be a number of seconds with an end, not inf"),
        ({"event_sources": ["Azure"]}, 'event_sources must be any of Platform, User, not "Azure"'),
        ({"resources_ready": ['["web-2"]']}, "resources_ready must be a list, or words with commas"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_asked(serve, options, message):
    server = serve()
    result, _warnings = run(server, **options)
    assert (result["failed"], result["in_doubt"]) == (True, False)
    assert re.search(message, result["msg"])
    assert server.requests == []


def test_check_mode_says_what_would_be_approved(serve):
    server = serve(NAME, document(event("A"), event("B", "Started")))
    options = {**OPTIONS, "event_ids": ["A", "B", "Z"]}
    result = approving.run_approval(options, server.client(), lambda _warning: None, check_mode=True)
    assert result["msg"] == "would be approved: A; already_started B; not_found Z"
    assert [(each["event_id"], each["affects_this_vm"]) for each in result["events"]] == [("A", True), ("B", True)]
    assert sent_to(server) == []


def test_p1_an_event_that_grew_while_the_name_was_held_is_not_sent(serve):
    """The document is read after the name, so the second VM is seen, however long the name was held."""
    server = serve([lambda: None, NAME], document(GROWN))
    result, _warnings = run(server)
    assert (result["failed"], result["changed"]) == (True, False)
    assert result["approvals"][0]["waiting_for"] == ["web-2"]
    assert "metadata/instance" in server.requests[0].target
    assert sent_to(server) == []


@pytest.mark.parametrize(
    ("after", "status"),
    [(document(event("A", "Started")), "Started"), (document(), "not_found")],
    ids=["started", "gone"],
)
def test_a_lost_answer_and_then_an_event_that_started_or_went_is_a_change_and_a_warning(serve, after, status):
    result, warnings = run(serve(NAME, document(event("A")), LOST, after))
    assert (result["changed"], result["in_doubt"]) == (True, True)
    assert result["diff"] == {"before": {"A": "Scheduled"}, "after": {"A": status}}
    assert [warning for warning in warnings if "was not confirmed" in warning]
    assert "failed" not in result


ANSWERED = "answered the approval with"
PAGE = b"<html>Sign in to the portal</html>"


@pytest.mark.parametrize(
    ("answers", "reason", "said"),
    [
        pytest.param([(200, b"\n" + PAGE)], "not_imds", ANSWERED, id="a page after a line"),
        pytest.param([(200, b"\xef\xbb\xbf" + PAGE)], "not_imds", ANSWERED, id="a page after a byte order mark"),
        pytest.param([LOST, (403, b"")], "timeout", "", id="no answer, and then a failure"),
        pytest.param(
            [(200, b'{"error": "Bad request.\\n"}')],
            "malformed",
            ANSWERED + r' HTTP 200 and the error "Bad request.\n"',
            id="p13 an error with the status of a success",
        ),
        pytest.param(
            [(200, b'{"Error": {"code": "ServerBusy"}}')],
            "malformed",
            r'and the error "{\"Error\": {\"code\": \"ServerBusy\"}}"',
            id="p13 an error that is an object",
        ),
    ],
)
def test_a_failure_says_that_azure_may_have_taken_the_approval(serve, answers, reason, said):
    result, warnings = run(serve(NAME, document(event("A")), *answers))
    assert (result["failed"], result["in_doubt"], result["reason"]) == (True, True, reason)
    assert said in result["msg"]
    assert [warning for warning in warnings if "was not confirmed" in warning]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([(403, b"")], id="the name is refused"),
        pytest.param([(404, b'{"error": "Not found"}')], id="there is no name"),
        pytest.param([NAME, (403, b"")], id="the document is refused"),
        pytest.param([NAME, (500, b""), b"SSH-2.0-OpenSSH\r\n"], id="the document cannot be read"),
        pytest.param([NAME, document(GROWN)], id="the guard refuses"),
        pytest.param([NAME, document(event("A")), (403, b"")], id="the approval is refused"),
        pytest.param([NAME, document(event("A")), (429, b""), (403, b"")], id="throttled, and then refused"),
        pytest.param([NAME, document(event("A")), (429, b""), document(GROWN)], id="throttled, and then the guard"),
    ],
)
def test_a_failure_says_whether_it_is_certain_that_azure_took_no_approval(serve, answers):
    result, warnings = run(serve(*answers, then=answers[-1]))
    assert (result["failed"], result["in_doubt"]) == (True, False)
    assert ("reason" in result) is (answers[-1] != document(GROWN))
    assert not [warning for warning in warnings if "was not confirmed" in warning]


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"error": null}', b'["error"]', b"error", b'{"StartRequests": [{"EventId": "A", "error": 1}]}'],
)
def test_an_approval_that_azure_took_is_not_in_doubt(serve, body):
    result, _warnings = run(serve(NAME, document(event("A")), (200, body)))
    assert (result["changed"], result["in_doubt"]) == (True, False)


def test_p4_an_event_that_an_unclear_document_does_not_list_is_waited_for(serve):
    server = serve(NAME, document(None), document(None), document(event("A")), document(event("A", "Started")))
    result, warnings = run(server, wait_for="started")
    (approval,) = result["approvals"]
    assert approval == {"event_id": "A", "result": "not_found", "waiting_for": [], "event_status": "Started"}
    assert not result["changed"]
    assert [warning for warning in warnings if "Event A is not in the document: an entry" in warning]


def test_p4_an_event_that_was_named_by_its_beginning_is_waited_for_when_it_is_listed_later(serve):
    later = document(event("C7061BAC-1", "Started"), event("B", "Started"))
    server = serve(NAME, (200, b""), document(event("C7061BAC-1")), later)
    result, _warnings = run(server, event_ids=["c7061bac"], wait_for="started")
    assert [(each["result"], each["event_status"]) for each in result["approvals"]] == [("not_found", "Started")]
    assert len(server.requests) == 4


def test_p4_a_wait_that_only_unclear_documents_answer_says_so(serve):
    server = serve(NAME, document(event("A")), OK, document(event("A", "Started")), then=document(None))
    result, _warnings = run(server, wait_for="ended", wait_timeout=30.0)
    assert (result["failed"], result["changed"]) == (True, True)
    assert "A is Started. The approval stands." in result["msg"]
    assert "an entry that cannot be read" in result["msg"]


def test_a_status_of_azure_stays_on_one_line_of_the_message(serve):
    server = serve(NAME, document(event("A")), OK, then=document(event("A", "Odd\nwords")))
    result, _warnings = run(server, wait_for="ended", wait_timeout=30.0)
    assert result["msg"] == 'After 30 s of waiting for ended: A is "Odd\\nwords". The approval stands.'


def test_p4_an_event_of_which_nothing_is_known_is_named_when_the_wait_is_over(serve):
    result, _warnings = run(serve(NAME, then=document(None)), wait_for="ended", wait_timeout=30.0)
    assert result["failed"]
    assert "After 30 s of waiting for ended: A is not known to have ended. The last answer was empty" in result["msg"]
