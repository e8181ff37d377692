# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Looking, looking elsewhere, and approving, against a server that answers as a test writes it down."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import (
    _approve,
    _errors,
    _fetch,
    _imds,
    _imds_transport,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval_plan import (
    ApprovalRequest,
    plan_approval,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._selection import keys

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("one_try")]

BAD_REQUEST = (400, b'{"error": "Bad request."}')
NAME = (200, b"web-1")
OK = (200, b"")


def event(event_id, status="Scheduled", **fields):
    return {
        "EventId": event_id,
        "EventStatus": status,
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["web-1"],
        "NotBefore": "",
        **fields,
    }


def document(*events, **fields):
    return 200, json.dumps({"DocumentIncarnation": 1, "Events": events, **fields}).encode()


def ids(look):
    return [found.event_id for found in look.document.events]


def test_look_asks_for_the_document_and_then_for_the_name(serve):
    server = serve(document(event("A"), event("B", Resources=[])), NAME)
    client = server.client()
    look = _fetch.fetch(client, None)
    assert ids(look) == ["A", "B"]
    assert look.resource_name == "web-1"
    assert look.client is client
    assert 0 < look.deadline.remaining() < client.timeout
    assert len(look.warnings) == 1
    assert "Event B" in look.warnings[0]
    assert [request.target.split("?")[0] for request in server.requests] == [
        "/metadata/scheduledevents",
        "/metadata/instance/compute/name",
    ]


def test_look_does_not_ask_for_a_name_that_is_given(serve):
    server = serve(document())
    assert _fetch.fetch(server.client(), "db-1").resource_name == "db-1"
    assert len(server.requests) == 1


@pytest.mark.parametrize("answer", [(404, b'{ "error": "Not found" }'), (200, b"")])
@pytest.mark.parametrize("given", [None, ""])
def test_look_where_imds_has_no_name(serve, answer, given):
    server = serve(document(event("A")), answer)
    look = _fetch.fetch(server.client(), given)
    assert look.resource_name is None
    assert ids(look) == ["A"]


def test_look_s7_without_a_document(serve):
    look = _fetch.fetch(serve((200, b""), NAME).client(), None)
    assert (look.document, look.resource_name, look.warnings) == (None, "web-1", ())


def test_look_fails_when_the_name_cannot_be_had(serve):
    server = serve(document(), (500, b""))
    with pytest.raises(_errors.HttpStatusError):
        _fetch.fetch(server.client(), None)


def test_look_reads_names_as_the_api_version_writes_them(serve):
    server = serve(document(event("A", Resources=["_web-1"])))
    look = _fetch.fetch(server.client(api_version="2017-03-01"), "web-1")
    assert look.document.events[0].resources == ("web-1",)


def test_the_document_and_the_name_share_one_limit(serve, clock):
    server = serve([lambda: clock.skip(5999.5), document()], then=["hold"])
    # The server gives up, and complains, long before a second limit of so many seconds would end.
    with pytest.raises(_errors.NoAnswerError):
        _fetch.look(server.client(timeout=6000), None)


def addresses(*servers, notes=()):
    # An address may carry a port here; those of leases do not, and port 80 is what they mean.
    return lambda: ([(server.authority, f"lease {number}") for number, server in enumerate(servers, 1)], list(notes))


def test_look_elsewhere(serve, dead_endpoint):
    server = serve(document(event("A")), NAME)
    client = _imds.ImdsClient(dead_endpoint, "2019-08-01")
    look = _fetch.look(client, None, addresses(server, notes=["lease 0 cannot be read."]))
    assert ids(look) == ["A"]
    assert look.client.endpoint == server.endpoint
    assert look.resource_name == "web-1"
    assert look.warnings == ("lease 0 cannot be read.",)
    assert all(request.target for request in server.requests)
    assert server.requests[0].target.endswith("=2019-08-01")


def test_look_elsewhere_until_one_answers(serve, dead_endpoint):
    stranger, good, spare = serve((404, b"404 page not found")), serve(document(event("A"))), serve()
    client = _imds.ImdsClient(dead_endpoint)
    look = _fetch.look(client, "web-1", addresses(stranger, good, spare))
    assert look.client.endpoint == good.endpoint
    assert not spare.requests


def test_look_elsewhere_in_vain(serve, dead_endpoint):
    stranger, broken = serve((200, b"<html>")), serve(["reset"])
    client = _imds.ImdsClient(dead_endpoint)
    with pytest.raises(_errors.UnreachableError) as caught:
        _fetch.fetch(client, None, addresses(stranger, broken, notes=["lease 0 cannot be read."]))
    message = str(caught.value)
    for part in (
        f"Nothing answers at {dead_endpoint}",
        "lease 0 cannot be read.",
        "From lease 1: The endpoint answered with a web page",
        f"From lease 2: {broken.endpoint} broke the connection",
    ):
        assert part in message
    assert (caught.value.reason, caught.value.http_status) == ("unreachable", None)
    assert "No DHCP lease" not in message


def test_look_elsewhere_where_no_lease_names_an_address(dead_endpoint):
    with pytest.raises(_errors.UnreachableError, match=r"Nothing answers at .* No DHCP lease of this machine names"):
        _fetch.fetch(_imds.ImdsClient(dead_endpoint), None, addresses())


def test_look_does_not_look_elsewhere_unless_told(dead_endpoint):
    with pytest.raises(_errors.UnreachableError) as caught:
        _fetch.fetch(_imds.ImdsClient(dead_endpoint), None)
    assert "lease" not in str(caught.value)


@pytest.mark.parametrize("answer", [(500, b""), (404, b"no"), (200, b"<html>"), (200, b"[]"), (200, b""), ["reset"]])
def test_look_does_not_look_elsewhere_where_something_answers(serve, answer):
    def find_addresses():
        raise AssertionError("looked elsewhere")

    client = serve(answer).client()
    if answer == (200, b""):
        assert _fetch.fetch(client, "web-1", find_addresses).document is None
    else:
        with pytest.raises(_errors.ImdsError):
            _fetch.fetch(client, "web-1", find_addresses)


class Case:
    """A look, what is asked for, and what Azure gets and says afterwards."""

    def __init__(self, serve, first, *answers, api_version=_imds.DEFAULT_API_VERSION, **request):
        self.server = serve(first, *answers)
        self.look = _fetch.fetch(self.server.client(api_version=api_version), "web-1")
        self.request = ApprovalRequest("web-1", **request)
        self.plan = plan_approval(self.look.document, self.request, _fetch.now_utc())

    def approve(self):
        return _approve.approve(self.look, self.plan, self.request)

    @property
    def sent(self):
        bodies = [json.loads(request.body) for request in self.server.requests if request.method == "POST"]
        return [[item["EventId"] for item in body["StartRequests"]] for body in bodies]

    @property
    def incarnations(self):
        requests = [request for request in self.server.requests if request.method == "POST"]
        return [json.loads(request.body).get("DocumentIncarnation") for request in requests]


def results(plan):
    return {approval.event_id: approval.result for approval in plan.approvals}


def test_approve(serve):
    case = Case(serve, document(event("A"), event("B"), event("C", "Started")), (200, b""))
    assert case.approve() is case.plan
    assert case.sent == [["A", "B"]]
    assert case.incarnations == [None]


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
    assert case.approve() is case.plan
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
    case = Case(
        serve, document(event("A"), event("B")), BAD_REQUEST, document(event("b")), (200, b""), event_ids=("a", "B")
    )
    plan = case.approve()
    assert case.sent == [["A", "B"], ["b"]]
    assert results(plan) == {"b": "approved", "A": "not_found"}
    assert [warning for warning in plan.warnings if "Event A" in warning]


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


def test_400_for_events_that_are_still_listed_is_an_error(serve):
    case = Case(serve, document(event("A")), BAD_REQUEST, document(event("A"), event("B")))
    with pytest.raises(_errors.HttpStatusError, match="Bad request"):
        case.approve()


def test_400_and_then_no_document_is_an_error(serve):
    case = Case(serve, document(event("A")), BAD_REQUEST, (200, b""))
    with pytest.raises(_errors.HttpStatusError, match="Bad request"):
        case.approve()


def test_400_and_then_no_answer_is_an_error(serve):
    case = Case(serve, document(event("A")), BAD_REQUEST, (403, b""))
    with pytest.raises(_errors.HttpStatusError, match="HTTP 403"):
        case.approve()


@pytest.mark.parametrize("answer", [(403, b""), (404, b'{"error": "Not found"}'), (500, b""), (429, b""), ["reset"]])
def test_other_errors_are_not_looked_into(serve, answer):
    case = Case(serve, document(event("A")), answer)
    with pytest.raises(_errors.ImdsError):
        case.approve()


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


def test_the_limit_of_the_look_holds_for_the_approval_too(serve):
    case = Case(serve, document(event("A")))
    case.look = case.look._replace(deadline=_imds_transport.Deadline(0))
    with pytest.raises(_errors.NoAnswerError, match="No time was left"):
        case.approve()
    assert case.sent == []
