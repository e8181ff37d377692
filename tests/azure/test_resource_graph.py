# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""resource_graph_events_info asks the stand-in: scopes, pages, quotas, causes, and what goes wrong in the middle."""

from __future__ import annotations

import json
import time
from functools import partial

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.info import SPEC, get_events
from ansible_collections.fleetops.azure_maintenance.tests.azure import stand_in
from ansible_collections.fleetops.azure_maintenance.tests.azure.stand_in import EVENT, GROUP, VM

PAGE = "/providers/microsoft.resourcegraph"


def event_id(number):
    return f"{number:08x}{EVENT[8:]}"


@pytest.fixture
def ask(run):
    return partial(run, SPEC, get_events)


def ids(result):
    assert not result.get("failed"), result
    return [each["event_id"] for each in result["events"]]


def test_the_subscription_of_the_login(principal, ask):
    principal.add_event(EVENT, VM, ["web-1"])
    principal.add_event(event_id(1), VM.replace(stand_in.SUBSCRIPTION, "another"), ["web-1"])
    result = ask()
    assert ids(result) == [EVENT]
    assert (result["changed"], result["is_complete"], result.get("warnings")) == (False, True, None)
    assert result["msg"] == "Azure Resource Graph has 1 Scheduled."
    assert 890 <= result["events"][0]["seconds_until_start"] <= 900


def test_management_groups(principal, ask):
    principal.add_event(event_id(1), VM.replace(stand_in.SUBSCRIPTION, "another"), ["web-1"])
    assert ids(ask(management_groups=["all"])) == [event_id(1)]


@pytest.mark.parametrize("option", ["subscriptions", "management_groups", "resource_ids"])
def test_p14_an_empty_list_asks_nothing(principal, ask, option):
    principal.add_event(EVENT, VM, ["web-1"])
    result = ask(**{option: []})
    assert ids(result) == []
    assert result["msg"] == f"{option} is empty, so nothing was asked."
    assert principal.journal == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"resource_ids": ["web-1"]}, "resource_ids must be the id of a VM"),
        ({"resource_ids": [""]}, "resource_ids must be the id of a VM"),
        ({"management_groups": ""}, "management_groups must be names, and one of them is empty."),
        ({"management_groups": ["all", None]}, "management_groups must be names, and one of them is empty."),
        ({"subscriptions": ["s"], "resource_ids": [VM]}, "mutually exclusive"),
        ({"event_statuses": ["Done"]}, "event_statuses must be any of"),
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"cloud": "AzureCloud"}, "Unsupported parameters for (module) module: cloud"),
        ({"cloud_environment": "Moon"}, "cloud_environment must be AzureCloud"),
        ({"auth_source": "password"}, "value of auth_source must be one of"),
    ],
)
def test_wrong_options(principal, ask, options, said):
    result = ask(**options)
    assert result["failed"]
    assert said in result["msg"]
    assert principal.requests(PAGE) == []


def test_nothing_says_which_subscription(principal, ask, monkeypatch):
    monkeypatch.delenv("AZURE_SUBSCRIPTION_ID")
    assert "No subscription is given" in ask()["msg"]


def test_500_hosts_are_one_question_a_page(principal, ask):
    for number in range(500):
        principal.add_event(event_id(number), f"{GROUP}/virtualMachines/web-{number}", [f"web-{number}"])
    hosts = [f"{GROUP}/virtualMachines/WEB-{number}" for number in range(0, 1000, 2)]
    principal.page_size = 100
    assert len(ids(ask(resource_ids=hosts))) == 250
    assert len(principal.requests(PAGE)) == 5


def test_700_subscriptions_are_three_questions(principal, ask):
    principal.add_event(EVENT, VM.replace(stand_in.SUBSCRIPTION, "s-650"), ["web-1"])
    assert ids(ask(subscriptions=[f"s-{number}" for number in range(700)])) == [EVENT]
    assert [len(each["body"]["subscriptions"]) for each in principal.requests(PAGE)] == [299, 299, 102]


def test_what_is_asked_is_what_microsofts_client_asks(principal, ask):
    ask()
    (asked,) = principal.requests(PAGE)
    assert asked["query"] == {"api-version": "2021-03-01"}
    assert asked["path"] == "/providers/Microsoft.ResourceGraph/resources"
    assert set(asked["body"]) == {"subscriptions", "query", "options"}
    assert asked["body"]["options"] == {"resultFormat": "objectArray", "$top": 1000}


@pytest.mark.parametrize("status", [429, 500, 503, "reset"])
def test_a_fault_in_the_middle_of_paging(principal, ask, status):
    for number in range(6):
        principal.add_event(event_id(number), VM, ["web-1"])
    principal.page_size = 2
    principal.add_fault(PAGE, status, after=1, Retry_After=0)
    assert ids(ask()) == [event_id(number) for number in range(6)]


def test_a_token_that_expires_in_the_middle_of_paging(principal, ask):
    for number in range(6):
        principal.add_event(event_id(number), VM, ["web-1"])
    principal.page_size = 2
    body = {"error": {"code": "ExpiredAuthenticationToken", "message": "The access token has expired."}}
    principal.add_fault(PAGE, 401, body=body, after=2)
    assert len(ids(ask())) == 6
    assert principal.logins == 2


def test_a_quota_that_is_used_up_is_waited_for(principal, ask):
    for number in range(4):
        principal.add_event(event_id(number), VM, ["web-1"])
    principal.page_size, principal.quota = 1, 2
    began = time.monotonic()
    result = ask()
    assert len(ids(result)) == 4
    assert time.monotonic() - began >= 1
    refused = len(principal.requests(PAGE)) - 4
    assert refused <= 1


def test_a_quota_that_lasts_longer_than_the_task(principal, ask):
    principal.add_fault(PAGE, 429, body={"error": {"code": "RateLimiting", "message": "Slow."}}, Retry_After=3600)
    result = ask(timeout=5)
    assert (result["failed"], result["reason"], result["http_status"]) == (True, "throttled", 429)


@pytest.mark.parametrize("body", ["[]", "{}", '{"data": {}}', '{"data": "text"}', "null", "5", ""])
def test_answers_without_rows(principal, ask, body):
    principal.add_fault(PAGE, 200, body=body)
    result = ask()
    assert (result["failed"], result["reason"]) == (True, "malformed")


def test_a_page_that_comes_again_and_again(principal, ask):
    principal.add_fault(PAGE, 200, body='{"data": [], "$skipToken": "again"}', times=99)
    result = ask()
    assert (result["failed"], result["reason"]) == (True, "malformed")
    assert len(principal.requests(PAGE)) == 2


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ({"data": [], "resultTruncated": "true"}, {}),
        ({"data": []}, {"x_ms_tenant_subscription_limit_hit": "true"}),
        ({"data": [5]}, {}),
        ({"data": [{"properties": {"EventType": "Reboot"}}]}, {}),
    ],
)
def test_an_answer_that_is_not_complete_says_so(principal, ask, body, headers):
    principal.add_fault(PAGE, 200, body=body, **headers)
    result = ask()
    assert ids(result) == []
    assert not result["is_complete"]
    assert len(result["warnings"]) == 1
    assert "there may be more" in result["msg"]


def test_a_role_that_is_missing(principal, ask):
    body = {"error": {"code": "AuthorizationFailed", "message": "The client has no authorization."}}
    principal.add_fault(PAGE, 403, body=body)
    result = ask()
    assert (result["reason"], result["http_status"], result["error_code"]) == ("forbidden", 403, "AuthorizationFailed")
    assert "Without touching the VMs" in result["msg"]


def test_causes(principal, ask):
    principal.add_event(EVENT, VM, ["web-1"], {"EventStatus": "Completed", "NotBefore": ""})
    principal.add_event(event_id(1), VM.replace("web-1", "web-2"), ["web-2"])
    principal.add_health(VM.lower())
    principal.add_health(VM, occurredTime="2026-11-21T11:00:00Z", context="User-initiated")
    over, other = sorted(ask(cause=True)["events"], key=lambda each: each["event_id"], reverse=True)
    assert [each["context"] for each in over["causes"]] == ["User-initiated", "Platform-Initiated"]
    assert other["causes"] == []
    assert len(principal.requests(PAGE)) == 2


def test_without_cause_nobody_asks_for_it(principal, ask):
    principal.add_event(EVENT, VM, ["web-1"])
    assert "causes" not in ask()["events"][0]


def test_the_clock_of_azure_counts(principal, ask):
    principal.add_event(EVENT, VM, ["web-1"])
    principal.clock_ahead = 600
    result = ask()
    assert 280 <= result["events"][0]["seconds_until_start"] <= 300
    assert "s behind Azure's" in result["warnings"][0]


def test_50000_rows(principal, ask):
    for number in range(50_000):
        principal.add_event(event_id(number), f"{GROUP}/virtualMachines/web-{number}", [f"web-{number}"])
    principal.quota = 10**6
    began = time.process_time()
    assert len(ids(ask(event_statuses=["Completed"], timeout=1000))) == 0
    assert len(principal.requests(PAGE)) == 50
    # A stop for what grows with the square, the stand-in in this process included
    assert time.process_time() - began < 120


def test_hostile_text_is_kept_as_it_is(principal, ask):
    text = "{{ lookup('pipe', 'touch /tmp/hacked') }}\x1b[31m<script>"
    principal.add_event(EVENT, VM, [text], {"Description": text, "EventType": text})
    (event,) = json.loads(json.dumps(ask()["events"]))
    assert (event["description"], event["event_type"], event["resources"]) == (text, text, [text])
