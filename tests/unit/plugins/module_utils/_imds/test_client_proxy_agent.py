# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""G1, the client behind the guest proxy agent of the Metadata Security Protocol; see tests/proxy_agent.py."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval import approve
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client, fetch
from ansible_collections.fleetops.azure_maintenance.tests.instance import compute
from ansible_collections.fleetops.azure_maintenance.tests.proxy_agent import HEADER, allow, launcher
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import (
    APPROVE_OPTIONS,
    STOP,
)

pytestmark = pytest.mark.filterwarnings("error")

USER = pwd.getpwuid(os.getuid()).pw_name
PROGRAM = os.readlink("/proc/self/exe")
OTHERS = allow(USER, "/usr/bin/curl")
APPROVE = {**APPROVE_OPTIONS, "event_types": ["Reboot"]}


@pytest.fixture(scope="module")
def azure(lasting_simulator):
    return lasting_simulator("--vms", "web-1")


@pytest.fixture
def start(azure):
    with launcher(azure) as start:
        yield start
        azure.control("DELETE", "/simulator/faults")


def make_client(agent, **options):
    return client.ImdsClient(agent.endpoint, **{"connect_timeout": STOP, "timeout": STOP, **options})


def failure(agent, **options):
    with pytest.raises(_errors.ImdsError) as caught:
        fetch.fetch(make_client(agent, **options), None)
    error = caught.value
    assert str(error).isprintable()
    assert len(str(error)) < 700
    return error


def test_g1_who_is_on_the_allow_list_asks_and_approves(start, azure):
    agent = start(allow(USER, PROGRAM))
    event_id = azure.announce("Reboot", "web-1")
    result = approve.run_approval(APPROVE, make_client(agent), pytest.fail, False)
    assert [(each["event_id"], each["result"]) for each in result["approvals"]] == [(event_id, "approved")]
    assert agent.statuses() == [200, 200, 200]
    assert azure.posted() == [("web-1", {"StartRequests": [{"EventId": event_id}]})]


def test_g1_421_is_asked_again(start, short_pauses):
    agent = start(unknown=2)
    fetched = fetch.fetch(make_client(agent), None)
    assert (fetched.identity.name, fetched.document_received) == ("web-1", True)
    assert agent.statuses() == [421, 421, 200, 200]


def test_g1_421_is_asked_again_within_the_time_only(start, one_try):
    error = failure(start(unknown=99))
    assert (error.reason, error.http_status, error.imds_reachable, error.refused) == ("http_status", 421, True, True)
    assert "does not know which program asked" in str(error)
    assert "Ask again" in str(error)


def test_g1_an_approval_that_421_answers_is_sent_again_once_the_document_was_read_anew(serve, short_pauses):
    event = {"EventId": "A-1", "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["web-1"]}
    document = (200, json.dumps({"DocumentIncarnation": 1, "Events": [event]}).encode(), {HEADER: "value"})
    server = serve((200, compute("web-1")), document, (421, b"", {"Connection": "close"}), document, (200, b""))
    result = approve.run_approval(APPROVE, server.client(), pytest.fail, False)
    assert [(each["event_id"], each["result"]) for each in result["approvals"]] == [("A-1", "approved")]
    assert [request.method for request in server.requests] == ["GET", "GET", "POST", "GET", "POST"]


def test_g1_a_refusal_of_the_agent_names_user_and_program_and_is_final(start, short_pauses):
    agent = start(OTHERS)
    error = failure(agent)
    assert (error.reason, error.http_status, error.imds_reachable) == ("http_status", 403, True)
    (decision,) = agent.decisions
    # As the agent has seen them, which is what the allow list is compared with.
    assert f"userName {decision.asker.userName}, exePath {decision.asker.exePath}" in str(error)
    for words in ("guest proxy agent", "allow list", "/metadata/scheduledevents", "/metadata/instance/compute"):
        assert words in str(error)


def test_g1_the_program_is_the_one_behind_links(start, tmp_path):
    link = tmp_path / "python3"
    link.symlink_to(sys.executable)
    agent = start(OTHERS)
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors\n"
        "from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client\n"
        "try: client.ImdsClient(sys.argv[1]).get_document()\n"
        "except _errors.ImdsError as error: print(error)\n"
    )
    command = [str(link), "-c", code, agent.endpoint, *filter(None, sys.path)]
    said = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", timeout=STOP, check=True).stdout
    (decision,) = agent.decisions
    assert f"exePath {decision.asker.exePath}" in said
    assert str(tmp_path) not in said


def test_g1_a_user_without_a_name_is_told_by_number(serve, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 987654321)
    error = serve((403, b"")).failure(_errors.HttpStatusError)
    assert "userName of uid 987654321, " in str(error)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((403, b"", {HEADER: "value"}), "Azure itself refused it"),
        ((403, b"", {HEADER.title(): ""}), "Azure itself refused it"),
        ((403, b'{"error":"Forbidden"}', {HEADER: "value"}), "Azure itself refused it"),
        ((403, b'{"error":"Forbidden"}'), "Access is filtered"),
        ((403, b"<html>Blocked</html>"), "Access is filtered"),
        ((401, b""), "Access is filtered"),
    ],
)
def test_g1_another_refusal_does_not_speak_of_the_allow_list(serve, short_pauses, answer, words):
    error = serve(answer).failure(_errors.HttpStatusError)
    assert words in str(error)
    assert "exePath" not in str(error)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"fault": "proxy_agent"}, "does not know which program asked"),
        ({"fault": "proxy_agent", "status": 403}, "Its allow list must have userName"),
        ({"fault": "proxy_agent", "status": 403, "by_azure": True}, "Azure itself refused it"),
        ({"fault": "silent"}, "gave no complete answer in time"),
    ],
)
def test_g1_what_the_simulator_plays_is_told_as_what_it_stands_for(azure, one_try, fault, words):
    azure.control("POST", "/simulator/faults", {**fault, "path": "any"})
    try:
        with pytest.raises(_errors.ImdsError) as caught:
            client.ImdsClient(azure.endpoint("web-1"), timeout=0.5).get_document()
        assert words in str(caught.value)
    finally:
        azure.control("DELETE", "/simulator/faults")


def test_g1_502_and_503_are_asked_again(start, azure, clock):
    agent = start(upstream="http://127.0.0.1:9")
    azure.control("POST", "/simulator/faults", {"fault": "reset", "times": 1})

    def mend(seconds):
        clock.skip(seconds)
        agent.upstream = azure.endpoint("web-1")

    clock.sleep = mend
    assert (
        make_client(agent).get_document() == azure.get("web-1", "/metadata/scheduledevents?api-version=2020-07-01").body
    )
    assert agent.statuses() == [502, 503, 200]
