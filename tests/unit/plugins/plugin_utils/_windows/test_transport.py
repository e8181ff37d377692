# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metadata service of a Windows VM: what win_uri returns is told as a socket's answer would be.

win_uri is a stand-in, which sends the requests for real; see tests/end_to_end/connection/windows_stand_in.py.
"""

from __future__ import annotations

import json
import re
import socket

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval import approve
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import (
    HttpStatusError,
    ImdsError,
    MalformedError,
    NoAnswerError,
    NotImdsError,
    UnreachableError,
    failure_data,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client as imds
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.transport import AGENT_HEADER
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._module import info as module_info
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._windows import transport
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._windows.transport import WindowsHostError
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.connection import windows_stand_in
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import (
    APPROVE_OPTIONS,
    INFO_OPTIONS,
)

ENDPOINT = "http://127.0.0.1:9"
APPROVE = {**APPROVE_OPTIONS, "event_types": ["Reboot"], "resource_name": "web-1"}
DOCUMENT = json.dumps(
    {
        "DocumentIncarnation": 1,
        "Events": [{"EventId": "A-1", "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["web-1"]}],
    }
)
OK = {"changed": False, "elapsed": 0.1, "status_code": 200, "content": DOCUMENT, "_ansible_parsed": True}


@pytest.fixture(autouse=True)
def one_try(monkeypatch):
    """Make the first pause longer than any limit here: what would be asked again fails at once."""
    for module in (imds, approve):
        monkeypatch.setattr(module, "_FIRST_PAUSE", 86401)


class Vm:
    """Runs modules as a Windows VM would, by a script or by the stand-in, and keeps what it was asked."""

    def __init__(self, *results):
        self.asked = []
        self._results = list(results)

    def run(self, module, options):
        self.asked.append((module, options))
        if not self._results:
            raise AssertionError(f"unexpected: {module} {options}")
        result = self._results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    @property
    def posts(self):
        return [options for _module, options in self.asked if options.get("url_method") == "POST"]


class StandIn(Vm):
    def run(self, module, options):
        self.asked.append((module, options))
        if module == "ansible.windows.win_wait_for":
            return windows_stand_in.wait_for(**options)
        assert module == "ansible.windows.win_uri"
        return windows_stand_in.win_uri(options, options["url"])


def client(vm, endpoint=ENDPOINT, **options):
    return imds.ImdsClient(endpoint, transport=transport.WindowsTransport(endpoint, 3.0, vm.run), **options)


def test_what_is_asked_of_win_uri():
    vm = Vm(OK, {**OK, "content": ""})
    result = approve.run_approval(APPROVE, client(vm, ENDPOINT + "/", timeout=10), pytest.fail, False)
    assert result["approvals"][0]["result"] == "approved"
    common = {
        "url": ENDPOINT + "/metadata/scheduledevents?api-version=2020-07-01",
        "headers": {"Metadata": "true"},
        "return_content": True,
        "follow_redirects": "none",
        "use_proxy": False,
        "url_timeout": None,
    }
    body = {"content_type": "application/json", "body": '{"StartRequests": [{"EventId": "A-1"}]}'}
    assert [(module, {**options, "url_timeout": None}) for module, options in vm.asked] == [
        ("ansible.windows.win_uri", {**common, "url_method": "GET"}),
        ("ansible.windows.win_uri", {**common, "url_method": "POST", **body}),
    ]
    assert {type(options["url_timeout"]) for _module, options in vm.asked} == {int}
    assert all(1 <= options["url_timeout"] <= 10 for _module, options in vm.asked)


def test_a_boot_is_told_by_the_clock_of_the_controller_and_never_early(monkeypatch):
    monkeypatch.setattr(transport.time, "time", lambda: 1000.0)
    # What setup.ps1 makes of 99.6 s, and the clock of the VM is wrong
    facts = {"ansible_uptime_seconds": 100, "ansible_lastboot": "2031-01-01 00:00:00Z"}
    vm = Vm({"changed": False, "ansible_facts": facts, "_ansible_parsed": True})
    assert 1000 - 99.6 <= transport.read_boot_time(vm.run) <= 1001 - 99.6
    assert vm.asked == [("ansible.windows.setup", {"gather_subset": ["!all", "!min", "uptime"]})]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"ansible_facts": {}, "warnings": ["Failed to collect uptime due to timeout"]}, "uptime due to timeout"),
        ({"ansible_facts": {"ansible_uptime_seconds": "long"}}, "it is unknown whether it booted"),
        ({"ansible_facts": {"ansible_uptime_seconds": -1}}, "it is unknown whether it booted"),
        ({"ansible_facts": {"ansible_uptime_seconds": True}}, "it is unknown whether it booted"),
        ({"failed": True, "msg": "No."}, "it is unknown whether it booted: .No."),
        ({"failed": True, "_ansible_parsed": False, "module_stderr": "sh: no"}, "setup did not run to its end"),
    ],
)
def test_a_vm_that_does_not_tell_when_it_booted(result, words):
    with pytest.raises(WindowsHostError, match=words):
        transport.read_boot_time(Vm(result).run)


def test_check_mode_sends_no_approval_although_win_uri_would():
    vm = Vm(OK)
    result = approve.run_approval(APPROVE, client(vm), pytest.fail, True)
    assert (result["changed"], vm.posts) == (True, [])


def test_azure_may_hold_an_answer_for_two_minutes_and_no_longer():
    vm = Vm(OK)
    client(vm, timeout=86400).get_document()
    assert vm.asked[0][1]["url_timeout"] == 125


NO_ANSWER = {"failed": True, "elapsed": 0.1, "status_code": None, "msg": "Zeitüberschreitung", "_ansible_parsed": True}
CLOSED = {"failed": True, "elapsed": 4.0, "wait_attempts": 1, "msg": "timeout while waiting for 127.0.0.1:9"}
OPEN = {"changed": False, "elapsed": 0.0, "wait_attempts": 1}
DEAD = {"failed": True, "_ansible_parsed": False, "module_stdout": "", "module_stderr": "sh: PowerShell: not found\n"}
OLD = {"failed": True, "msg": "Unsupported parameters", "_ansible_parsed": True}
NO_OUTPUT = {"failed": True, "_ansible_parsed": False, "msg": "MODULE FAILURE"}
# As ansible-core says it of any module that cannot begin: its sources are compiled on the disk of the VM.
FULL = {"failed": True, "changed": False, "msg": "Unhandled exception while executing module: Nicht genug Speicher"}
CUT = "broke the connection before its answer was complete"
BAD = {
    "no answer and a closed port": ([NO_ANSWER, CLOSED], UnreachableError, "Nothing answers at"),
    "no answer and an open port": ([NO_ANSWER, OPEN], NoAnswerError, "gave no complete answer"),
    "the probe refuses its options": (
        [NO_ANSWER, {"failed": True, "msg": "Unsupported"}],
        WindowsHostError,
        'win_wait_for could not look whether .*"Unsupported"',
    ),
    "the probe does not run": ([NO_ANSWER, DEAD], WindowsHostError, "win_wait_for did not run to its end"),
    "an old ansible.windows": (
        [OLD],
        WindowsHostError,
        '"Unsupported parameters". Install a newer one: ansible-galaxy collection install ansible.windows --upgrade',
    ),
    "Windows by name only": ([DEAD], WindowsHostError, "did not run to its end .*PowerShell: not found.*"),
    "no output at all": ([NO_OUTPUT], WindowsHostError, '"MODULE FAILURE". The host must be Windows with PowerShell'),
    "a full disk": (
        [FULL],
        WindowsHostError,
        'win_uri failed on this host: "Unhandled exception .* Nicht genug Speicher"[.] See whether other modules',
    ),
    "an empty result": ([{}], WindowsHostError, "win_uri failed on this host"),
    "a result of JSON that is too deep": ([RecursionError()], MalformedError, "nested too deeply"),
    "JSON of 10,000 levels": (
        [{**OK, "content": "[" * 10000 + "]" * 10000}],
        MalformedError,
        "The scheduled events document (is not JSON|has more than)",
    ),
    "status 0": ([{**OK, "status_code": 0}], NotImdsError, "has the status 0, which must be a number from"),
    "a status of text": ([{**OK, "status_code": "200"}], NotImdsError, 'has the status "200"'),
    "a status of yes": ([{**OK, "status_code": True}], NotImdsError, "has the status true"),
    "a status of 200.0": ([{**OK, "status_code": 200.0}], NotImdsError, "has the status 200.0"),
    "a list as the status": ([{**OK, "status_code": [200]}], NotImdsError, r"has the status \[200\]"),
    "no content": ([{**OK, "content": None}], NoAnswerError, "broke the connection before its answer"),
    "a number as the content": ([{**OK, "content": 7}], MalformedError, "the body of the answer 7, which must"),
    "a dictionary as the content": ([{**OK, "content": {"Events": []}}], MalformedError, "must be a text"),
    "a body of 2 MiB": (
        [{**OK, "content": '{"Events": [], "x": "' + "x" * 2**21 + '"}'}],
        MalformedError,
        "answered with more than 1 MiB, no scheduled events document",
    ),
    "a body that ends early": ([{**OK, "content_length": len(DOCUMENT) + 1}], NoAnswerError, CUT),
    "a body that ends early, after a header of text": (
        [{**OK, "content_length": str(len(DOCUMENT) + 1)}],
        NoAnswerError,
        CUT,
    ),
    "a page": ([{**OK, "content": "<html>login</html>"}], NotImdsError, "web page"),
    "a redirect to a list": (
        [{**OK, "status_code": 302, "failed": True, "location": ["x"]}],
        NotImdsError,
        r'redirects \(HTTP 302\) to ""',
    ),
    "an error without a body": (
        [{**OK, "status_code": 500, "failed": True, "content": ""}],
        HttpStatusError,
        "answered HTTP 500",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_sentence_and_approves_nothing(case):
    results, error_class, words = BAD[case]
    vm = Vm(*results)
    if issubclass(error_class, ImdsError):
        result = approve.run_approval(APPROVE, client(vm), pytest.fail, False)
        message = result["msg"]
        assert (result["failed"], result["reason"], result["in_doubt"]) == (True, error_class.reason, False)
    else:
        with pytest.raises(error_class) as caught:
            approve.run_approval(APPROVE, client(vm), pytest.fail, False)
        message = str(caught.value)
    assert re.search(words, message)
    assert message.isprintable()
    assert len(message) < 700
    assert (vm.posts, len(vm.asked)) == ([], len(results))


GOOD = {
    "a byte order mark": {"content": "\ufeff" + DOCUMENT, "content_length": len(DOCUMENT) + 3},
    "headers that overwrite keys": {
        "msg": ["x"],
        "elapsed": "x",
        "failed": "maybe",
        "changed": {},
        "url": 7,
        "json": 1,
    },
    "a length that nobody knows": {"content_length": -1},
    "a length that is no number": {"content_length": "many"},
    "bytes that are not UTF-8": {"content": DOCUMENT.replace("A-1", "A-1\ufffd"), "content_length": len(DOCUMENT) + 9},
    "half a surrogate pair": {"content": DOCUMENT.replace("A-1", "A-1\ud800")},
    "a time to wait that is no text": {"retry_after": 9},
}


@pytest.mark.parametrize("case", GOOD)
def test_what_may_be_odd_about_a_good_answer(case):
    info = module_info.get_info(
        {**INFO_OPTIONS, "resource_name": "web-1"}, client(Vm({**OK, **GOOD[case]})), lambda _warning: None, None
    )
    assert [event["event_type"] for event in info["events"]] == ["Reboot"]


@pytest.mark.parametrize("lost", [NO_ANSWER, {**NO_ANSWER, "status_code": 200}, {**OK, "status_code": "200"}])
def test_an_approval_without_an_answer_stays_in_doubt(lost):
    # Whether the port is open later on tells nothing of what was sent, so it is not asked.
    vm = Vm(OK, lost)
    warnings = []
    result = approve.run_approval(APPROVE, client(vm), warnings.append, False)
    assert (result["failed"], result["in_doubt"]) == (True, True)
    assert warnings == ["An approval was sent and was not confirmed. Azure may have taken it."]
    assert len(vm.asked) == 2


@pytest.mark.parametrize("result", [DEAD, {"failed": True, "msg": "Unhandled exception while executing module: x"}])
def test_powershell_that_dies_with_an_approval_says_so(result):
    with pytest.raises(WindowsHostError, match="The approval may have been sent, and Azure may have taken it"):
        approve.run_approval(APPROVE, client(Vm(OK, result)), pytest.fail, False)


def test_a_wait_looks_every_5_seconds(monkeypatch):
    pauses = []
    monkeypatch.setattr(approve.time, "sleep", pauses.append)
    started = {**OK, "content": DOCUMENT.replace("Scheduled", "Started")}
    vm = Vm(OK, {**OK, "content": ""}, OK, OK, started)
    result = approve.run_approval(
        {**APPROVE, "wait_for": "started"}, client(vm), pytest.fail, False, transport.POLL_INTERVAL
    )
    assert (result["approvals"][0]["event_status"], pauses) == ("Started", [5.0, 5.0])


# Parity: the same question over a socket and by win_uri, to the real simulator

FAULTS = {
    "no fault": None,
    "s6 500 with a document": {"fault": "status", "status": 500},
    "400": {"fault": "status", "status": 400},
    "403 of a filter": {"fault": "status", "status": 403, "body": "denied"},
    "403 of the guest proxy agent": {"fault": "status", "status": 403, "body": ""},
    "403 of Azure behind it": {"fault": "status", "status": 403, "body": "", "headers": {AGENT_HEADER: "value"}},
    "421 of the guest proxy agent": {"fault": "status", "status": 421, "body": ""},
    "404 of another cloud": {"fault": "status", "status": 404, "body": "404 page not found"},
    "410": {"fault": "status", "status": 410},
    "s7 an empty body": {"fault": "empty"},
    "garbage": {"fault": "garbage"},
    "not JSON": {"fault": "body", "body": "{"},
    "no events": {"fault": "body", "body": '{"DocumentIncarnation": 1}'},
    "a byte that is not UTF-8": {
        "fault": "body",
        "body": '{"Events": [{"EventId": "A\udcff", "Resources": ["web-1"]}]}',
    },
    "a byte order mark": {"fault": "body", "body": '\ufeff{"DocumentIncarnation": 3, "Events": []}'},
    "control characters": {"fault": "body", "body": '{"Events": [{"EventId": "A", "Description": "a\u0007\nb"}]}'},
    "deep JSON": {"fault": "body", "body": "[" * 10000, "content_type": "text/plain"},
    "a proxy's page": {"fault": "proxy_page"},
    "a proxy's page with 403": {"fault": "proxy_page", "status": 403},
    "a redirect": {"fault": "redirect"},
    "s5 too many requests": {"fault": "throttle"},
    # The guest proxy agent writes the names of all headers in small letters.
    "s5 the same behind the agent": {"fault": "status", "status": 429, "headers": {"retry-after": "9"}},
    "a body cut short": {"fault": "truncated"},
    "a connection that breaks": {"fault": "reset"},
    "a name that is none": {"fault": "body", "body": "<html>", "path": "instance"},
    "no name": {"fault": "status", "status": 404, "body": '{"error": "Not found"}', "path": "instance"},
}
# What .NET does not tell: why a connection broke, and how much of the body had come. And the program that asks
TEXT_OF_ITS_OWN = {"a body cut short", "a connection that breaks", "403 of the guest proxy agent"}


@pytest.fixture(scope="module")
def azure(lasting_simulator):
    azure = lasting_simulator("--vms", "web-1,web-2", "--clock", "manual")
    azure.announce("Reboot", "web-1", "web-2")
    return azure


def ask(params, asking):
    warnings = []
    try:
        info = module_info.get_info(params, asking, warnings.append, "boot-1")
    except ImdsError as error:
        return {"msg": str(error), **failure_data(error), "retry_after": error.retry_after}, warnings
    except ValueError as error:
        return {"msg": str(error)}, warnings
    return info, warnings


@pytest.mark.parametrize("case", FAULTS)
def test_linux_and_windows_say_the_same(azure, monkeypatch, case):
    # A second may pass between the two.
    now = module_info.now_utc()
    monkeypatch.setattr(module_info, "now_utc", lambda: now)
    azure.control("DELETE", "/simulator/faults")
    if FAULTS[case]:
        azure.control("POST", "/simulator/faults", FAULTS[case])
    endpoint = azure.endpoint("web-1")
    linux = ask(INFO_OPTIONS, imds.ImdsClient(endpoint))
    windows = ask(INFO_OPTIONS, client(StandIn(), endpoint))
    if case in TEXT_OF_ITS_OWN:
        assert linux[0].pop("msg") != windows[0].pop("msg")
    assert windows == linux


def test_g1_a_refusal_of_the_guest_proxy_agent_does_not_name_the_controller(azure):
    azure.control("DELETE", "/simulator/faults")
    azure.control("POST", "/simulator/faults", FAULTS["403 of the guest proxy agent"])
    said = ask(INFO_OPTIONS, client(StandIn(), azure.endpoint("web-1")))[0]["msg"]
    assert "the program by which Ansible runs PowerShell on this VM" in said
    assert "exePath" not in said


@pytest.mark.parametrize(("listens", "reason"), [(False, "unreachable"), (True, "timeout")])
def test_a_port_tells_unreachable_from_a_time_out(listens, reason):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        if listens:
            holder.listen(8)
        endpoint = f"http://127.0.0.1:{holder.getsockname()[1]}"
        answers = [
            ask(INFO_OPTIONS, asking)[0]
            for asking in (imds.ImdsClient(endpoint, timeout=0.5), client(StandIn(), endpoint, timeout=0.5))
        ]
    assert [(answer["reason"], answer["http_status"], answer["imds_reachable"]) for answer in answers] == [
        (reason, None, listens)
    ] * 2
