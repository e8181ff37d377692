# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._failure_text import (
    tell_failure,
    without_frames,
)


class FrameError(AssertionError):
    """Somebody read the frame, of which ansible-core 2.21 warns."""


class Timedout(dict):
    """What ansible-core adds to the result of a task that was stopped at its time limit."""

    def __getitem__(self, name):
        if name == "frame":
            raise FrameError
        return super().__getitem__(name)

    def items(self):
        raise FrameError


TIMEDOUT = Timedout(frame="line 1", period=15)


@pytest.mark.parametrize(
    ("result", "plain"),
    [
        ({"failed": True, "timedout": TIMEDOUT}, {"failed": True, "timedout": {"period": 15}}),
        ({"results": [{"item": 1, "timedout": TIMEDOUT}]}, {"results": [{"item": 1, "timedout": {"period": 15}}]}),
        ({"results": ["a package"], "msg": ""}, {"results": ["a package"], "msg": ""}),
        ({"timedout": None}, {"timedout": None}),
        (None, None),
    ],
)
def test_the_frame_of_a_time_limit_is_left_out_unread(result, plain):
    assert without_frames(result) == plain


NOT_STARTED = {"msg": "Error executing command.", "rc": 2}
FAILED_WHEN = {"failed_when_result": True}
EVALUATED = "A 'failed_when' expression evaluated to 'True'."


@pytest.mark.parametrize(
    ("result", "told"),
    [
        pytest.param(
            {**NOT_STARTED, "cmd": "redis-cli -a hunter2", "stdout": "", "stderr": ""},
            "Error executing command redis-cli",
            id="P12: a program that is not there on ansible-core 2.19, without its arguments",
        ),
        pytest.param(
            {**NOT_STARTED, "cmd": ["redis-cli", "-a", "hunter2"], "failed_when_result": True},
            "Error executing command redis-cli",
            id="the same by argv and with failed_when",
        ),
        pytest.param(
            {**FAILED_WHEN, "rc": 0, "stdout": "1\n2\n3\n4\n", "stderr": ""},
            "failed_when is true: 2 3 4",
            id="failed_when",
        ),
        pytest.param(
            {**FAILED_WHEN, "msg": "Task failed: Action failed: Unknown error.", "stdout": "1"},
            "failed_when is true: 1",
            id="failed_when on ansible-core 2.19",
        ),
        pytest.param(
            {**FAILED_WHEN, "msg": f"Task failed: Module failed: {EVALUATED}", "stdout": "1"},
            "failed_when is true: 1",
            id="failed_when on ansible-core 2.21",
        ),
        pytest.param(FAILED_WHEN, "failed_when is true", id="failed_when without an output"),
        pytest.param({"failed_when_result": False, "rc": 1, "msg": "No."}, "No: rc=1", id="it was false"),
        pytest.param(
            {"attempts": 30, "rc": 0, "msg": "", "stdout": "Draining\n17 connections", "stderr": ""},
            "gave up after attempt 30: Draining 17 connections",
            id="until of a command that succeeds each time",
        ),
        pytest.param(
            {"attempts": 30, "rc": 1, "msg": "non-zero return code", "stdout": "", "stderr": "No."},
            "non-zero return code: rc=1: gave up after attempt 30: No.",
            id="until of a command that fails each time",
        ),
        pytest.param(
            {"attempts": 30, "status": 200, "msg": "OK (1232 bytes)"},
            "OK (1232 bytes): gave up after attempt 30",
            id="until of a module",
        ),
        pytest.param(
            {"attempts": 2, "msg": "Task failed: Action failed: Unknown error."},
            "gave up after attempt 2",
            id="until of a module without a message on ansible-core 2.19",
        ),
        pytest.param(
            {
                "msg": "All items completed",
                "results": [{"failed": True, "attempts": 2, "stdout": "a"}, {"stdout": "b"}],
            },
            "gave up after attempt 2: a",
            id="until of an item",
        ),
        pytest.param(
            {"msg": "Assertion failed", "assertion": "members > 1"},
            "Assertion failed: members > 1 is false",
            id="assert",
        ),
        pytest.param({"msg": "Too few.", "assertion": "members > 1"}, "Too few.", id="assert with fail_msg"),
    ],
)
def test_b4_a_condition_that_failed_a_task_is_named(result, told):
    assert tell_failure(result) == told
