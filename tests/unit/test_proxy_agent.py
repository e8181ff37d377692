# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for the guest proxy agent answers as the agent's source says: by a client that is not ours."""

from __future__ import annotations

import contextlib
import http.client
import os
import pwd
from urllib.parse import urlsplit

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.instance import TARGET
from ansible_collections.fleetops.azure_maintenance.tests.proxy_agent import (
    BROKEN,
    HEADER,
    Asker,
    ProxyAgent,
    allow,
    launcher,
)

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
USER = pwd.getpwuid(os.getuid()).pw_name
PROGRAM = os.readlink("/proc/self/exe")
US = allow(USER, PROGRAM)
OTHERS = allow(USER, "/usr/bin/curl")


@pytest.fixture(scope="module")
def azure(lasting_simulator):
    return lasting_simulator("--vms", "web-1")


@pytest.fixture
def start(azure):
    with launcher(azure) as start:
        yield start


@contextlib.contextmanager
def connect(agent):
    connection = http.client.HTTPConnection(urlsplit(agent.endpoint).netloc, timeout=600)
    with contextlib.closing(connection):
        yield connection


def ask(connection, target=EVENTS, method="GET", **headers):
    connection.request(method, target, headers={"Metadata": "true", **headers})
    response = connection.getresponse()
    return response, response.read()


def once(agent, target=EVENTS, method="GET", **headers):
    with connect(agent) as connection:
        return ask(connection, target, method, **headers)


def assert_agents_own(response, body, status):
    assert (response.status, body, response.getheader("Connection")) == (status, b"", "close")
    assert response.getheader(HEADER) is None


def only(name, value):
    rules = allow(USER, PROGRAM)
    rules["rules"]["identities"] = [{"name": "us", name: value}]
    return rules


def with_query(**parameters):
    rules = allow(USER, PROGRAM)
    rules["rules"]["privileges"][0]["queryParameters"] = parameters
    return rules


LETS_IN = {
    "no list": (None, EVENTS),
    "user and program": (US, EVENTS),
    "which VM this is": (US, TARGET),
    "a path in other letter case": (US, "/METADATA/ScheduledEvents?api-version=2020-07-01"),
    "a longer path": (US, "/metadata/scheduledevents/more"),
    "the user alone": (only("userName", USER), EVENTS),
    "the name of the process": (only("processName", os.path.basename(PROGRAM)), EVENTS),
    "the right query": (with_query(**{"api-version": "2020-07-01"}), EVENTS),
    "a path without a privilege": ({**OTHERS, "defaultAccess": "allow"}, "/metadata/versions"),
}


@pytest.mark.parametrize("case", LETS_IN)
def test_whoever_is_allowed_gets_the_answer_of_imds_and_the_header(start, case):
    rules, target = LETS_IN[case]
    response, _body = once(start(rules), target)
    assert response.getheader(HEADER) == "value"


KEEPS_OUT = {
    "another program": (OTHERS, EVENTS),
    "another user": (allow("nobody-of-this-name", PROGRAM), EVENTS),
    "a user in other letter case": (only("userName", USER.upper()), EVENTS),
    "a link to the program": (only("exePath", "/usr/bin/python3"), EVENTS),
    "a path without a privilege": (US, "/metadata/versions"),
    "the wrong query": (with_query(**{"api-version": "2019-08-01"}), EVENTS),
    "a path that others may have": ({**OTHERS, "defaultAccess": "allow"}, EVENTS),
    "rules that cannot be read": (BROKEN, EVENTS),
    "two dots": (None, "/metadata/../metadata/scheduledevents"),
}


@pytest.mark.parametrize("case", KEEPS_OUT)
def test_whoever_is_not_allowed_gets_403_without_the_header(start, case):
    rules, target = KEEPS_OUT[case]
    assert_agents_own(*once(start(rules), target), 403)


def test_audit_lets_in_everybody(start):
    agent = start(OTHERS)
    agent.only_audits = True
    assert once(agent)[0].status == 200


def test_a_403_of_azure_has_the_header(start, azure):
    azure.control("POST", "/simulator/faults", {"fault": "status", "status": 403, "times": 1})
    response, _body = once(start())
    assert (response.status, response.getheader(HEADER)) == (403, "value")


def test_421_where_it_is_not_known_who_connected(start):
    agent = start(unknown=1)
    assert_agents_own(*once(agent), 421)
    assert once(agent)[0].status == 200


def test_421_where_nothing_was_redirected(start):
    assert_agents_own(*once(start(only_redirected=True)), 421)


def test_who_asks_is_found_once_for_a_connection(start):
    agent = start()
    with connect(agent) as connection:
        assert ask(connection)[0].status == 200
        agent.unknown = 1
        assert ask(connection)[0].status == 200
    assert once(agent)[0].status == 421
    known = Asker(USER, PROGRAM, os.path.basename(PROGRAM))
    assert [decision.asker for decision in agent.decisions] == [known, known, None]


def test_502_where_imds_is_not_reached(start):
    assert_agents_own(*once(start(upstream="http://127.0.0.1:9")), 502)


def test_503_where_imds_fails(start, azure):
    azure.control("POST", "/simulator/faults", {"fault": "reset", "times": 1})
    assert_agents_own(*once(start()), 503)


def test_an_answer_that_is_held_passes(start, azure):
    azure.control("POST", "/simulator/faults", {"fault": "hold", "seconds": 1, "times": 1})
    response, body = once(start())
    assert (response.status, body[:22]) == (200, b'{"DocumentIncarnation"')


@pytest.mark.parametrize("verb", ["TRACE", "CONNECT", "BREW"])
def test_405_for_other_verbs(start, verb):
    response, body = once(start(), method=verb)
    assert_agents_own(response, body, 405)
    assert "POST" in response.getheader("Allow")


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("http://169.254.169.254" + EVENTS, {}),
        (EVENTS, {"Metadata": "True"}),
        (EVENTS, {"X-Forwarded-For": "10.0.0.4"}),
        (EVENTS, {"Via": "1.1 proxy"}),
        (EVENTS, {HEADER: "value"}),
        (EVENTS, {"Transfer-Encoding": "chunked"}),
    ],
)
def test_it_complains_of_what_no_client_of_imds_sends(azure, target, headers):
    agent = ProxyAgent(azure.endpoint("web-1"))
    try:
        assert_agents_own(*once(agent, target, **headers), 400)
        assert len(agent.complaints) == 1
    finally:
        agent.stop()
