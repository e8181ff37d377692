# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host answered: which state it is in, and in which words it tells a failure."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import WORDS
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.selection import NO_DOCUMENT
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.host_results import (
    AFFECTED,
    FAILED,
    NOT_ON_AZURE,
    QUIET,
    UNREACHABLE,
    read_answer,
    tell_failure,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils.conftest import make_event


def event(event_id="A-1", **changes):
    return make_event("web-1", **{"event_id": event_id, "resources": ["web-1"], **changes})


def answered(*events, **more):
    return {"events": list(events), "resource_name": "web-1", "msg": "web-1: …", **more}


SSH_ENDS = "Shared connection to 10.0.0.4 closed.\r\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "AnsiballZ.py", line 1\nOSError: [Errno 28] No space left\n'
OFF_AZURE = {"reason": "unreachable", "msg": "Nothing answers."}
EMPTY = answered(msg=NO_DOCUMENT, document_received=False)
ONE_FAILED = {"results": [answered(event()), {**OFF_AZURE, "failed": True}]}
NO_REASON = "no answer and no reason in the result"


@pytest.mark.parametrize(
    ("result", "failed", "state", "reason"),
    [
        pytest.param(answered(), False, QUIET, "", id="no event"),
        pytest.param(answered(event()), False, AFFECTED, "", id="an event of this VM"),
        pytest.param(answered(event(affects_this_vm=False)), False, QUIET, "", id="only events of other VMs"),
        pytest.param(answered(event(affects_this_vm=None)), False, AFFECTED, "", id="an event that names no VM"),
        pytest.param({"unreachable": True, "msg": "No route."}, False, UNREACHABLE, "No route.", id="ssh fails"),
        pytest.param(OFF_AZURE, True, NOT_ON_AZURE, "Nothing answers.", id="nothing listens"),
        pytest.param({"reason": "not_imds", "msg": "A router."}, True, NOT_ON_AZURE, "A router.", id="a router"),
        pytest.param(OFF_AZURE, False, NOT_ON_AZURE, "Nothing answers.", id="failed_when takes it for no failure"),
        pytest.param({"reason": "timeout", "msg": "Too slow."}, True, FAILED, "Too slow.", id="another reason"),
        pytest.param({"msg": "No option colour."}, True, FAILED, "No option colour.", id="a mistake in the options"),
        pytest.param(EMPTY, False, FAILED, NO_DOCUMENT, id="an empty answer is not quiet"),
        pytest.param(
            answered(event(affects_this_vm=False), document_is_clear=False),
            False,
            FAILED,
            "An entry of its document cannot be read and may be an event of this VM. Ask again.",
            id="a document that is unclear is not quiet",
        ),
        pytest.param(answered(event(), document_is_clear=False), False, AFFECTED, "", id="unclear, with an event"),
        pytest.param(answered(warnings=5), False, QUIET, "", id="warnings that are none"),
        pytest.param({"msg": "No packages.", "results": ["bar"]}, True, FAILED, "No packages.", id="texts, no loop"),
        pytest.param(answered(event(), msg="Bad query."), True, FAILED, "Bad query.", id="answered, then failed"),
        pytest.param({"censored": "hidden: no_log"}, False, FAILED, "hidden: no_log", id="no_log"),
        pytest.param({"ansible_job_id": "j1"}, False, FAILED, NO_REASON, id="left in background"),
        pytest.param({"results": [answered(), answered(event())]}, False, AFFECTED, "", id="loop, one has an event"),
        pytest.param(ONE_FAILED, True, NOT_ON_AZURE, "Nothing answers.", id="loop, one failed"),
        pytest.param({"results": [{"skipped": True}, answered()]}, False, QUIET, "", id="loop, one skipped"),
        pytest.param({"results": []}, False, QUIET, "", id="loop over nothing"),
    ],
)
def test_each_result_puts_its_host_into_one_state(result, failed, state, reason):
    answer = read_answer("web-1", result, failed)
    assert (answer["host"], answer["state"], answer["message"] or "") == ("web-1", state, reason)


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        pytest.param(
            answered(event(not_before="2026-11-21\u009b10:15:00Z")),
            "event A-1 has a not_before that is not a time",
            id="a time that steers a terminal",
        ),
        pytest.param(
            answered(event(duration_seconds=10**12 + 1)),
            "event A-1 has a duration that is not a number of seconds",
            id="a duration of no use",
        ),
        pytest.param(
            answered(marks=[{"event_id": "E", "counts": True}]),
            "a mark lacks a key, as from another version of the collection",
            id="a mark without its words",
        ),
        pytest.param(answered(marks=5), "marks is not a list", id="marks that are none"),
    ],
)
def test_an_answer_that_cannot_be_used_is_told_by_its_fault(result, complaint):
    answer = read_answer("web-1", result)
    assert (answer["host"], answer["state"]) == ("web-1", FAILED)
    assert answer["message"] == f"The answer of the host cannot be used: {complaint}."


@pytest.mark.parametrize(
    "result",
    [
        pytest.param({"msg": "Timed out after 5 second(s).", "timedout": {"period": 5}}, id="ansible-core 2.19"),
        pytest.param(
            {"msg": "The info action failed to execute in the expected time frame (5) and was terminated"},
            id="ansible-core 2.16",
        ),
    ],
)
def test_a1_a_host_that_is_too_slow_is_told_from_one_whose_module_failed(result):
    answer = read_answer("web-1", result, True)
    assert (answer["state"], answer["reason"], answer["message"]) == (FAILED, "timeout", result["msg"])


def test_what_a_host_said_before_it_failed_is_kept():
    assert read_answer("web-1", answered(event(), msg="Bad query."), True)["events"] == [event()]
    loop = {"results": [answered(event("A-1")), answered(event("A-2")), {**OFF_AZURE, "failed": True}]}
    assert [one["event_id"] for one in read_answer("web-1", loop, True)["events"]] == ["A-1", "A-2"]


def test_p16_a_failure_in_a_loop_hides_no_mark():
    mark = {**dict.fromkeys(WORDS), "event_id": "C7061BAC", "by": "checker", "counts": True, "file": "/m"}
    told = answered(marks=[mark])
    (why,) = read_answer("web-1", told)["out_of_service"]
    loop = {"results": [told, told, {**OFF_AZURE, "failed": True}]}
    assert read_answer("web-1", loop, True)["out_of_service"] == [why]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"msg": "No such file."}, "No such file."),
        ({"msg": "two\r\nlines\t here"}, "two lines here"),
        ({"msg": "non-zero return code", "rc": 2, "stderr": "bad\n", "stdout": "x"}, "non-zero return code: rc=2: bad"),
        ({"msg": "non-zero return code", "rc": 2, "stdout": "x"}, "non-zero return code: rc=2: x"),
        ({"msg": "MODULE FAILURE", "rc": 1, "module_stderr": "sh: no python"}, "MODULE FAILURE: rc=1: sh: no python"),
        ({"msg": "It failed.", "rc": 1, "module_stderr": "sh: no python"}, "It failed: rc=1: sh: no python"),
        ({"msg": "No.", "rc": 127, "module_stdout": "no sh\r\n", "module_stderr": SSH_ENDS}, "No: rc=127: no sh"),
        ({"msg": "Failed.", "rc": 1, "module_stderr": TRACEBACK}, "Failed: rc=1: OSError: [Errno 28] No space left"),
        ({"msg": "Modules failed.", "failed_modules": {"setup": {"failed": True, "msg": "no python"}}}, "no python"),
        ({"msg": "fine", "rc": 0, "stdout": "much"}, "fine"),
        ({"msg": "Items failed", "results": [{"msg": "no a", "failed": True}, {"msg": "b is fine"}]}, "no a"),
        ({"results": [{"msg": "no", "failed": True}, {"msg": "no", "unreachable": True}]}, "no"),
        ({"msg": "Failed to install.", "results": ["Installed: bar"], "rc": 1}, "Failed to install: rc=1"),
        ({"msg": "Modules failed.", "failed_modules": {"setup": "odd"}}, "Modules failed."),
        ({}, NO_REASON),
        ({"msg": ["a", "list"]}, "['a', 'list']"),
    ],
)
def test_a_failure_is_told_on_one_line_in_the_words_of_the_module(result, told):
    assert tell_failure(result) == told
