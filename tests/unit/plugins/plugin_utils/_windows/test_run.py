# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of connections to a Windows VM that their libraries let through, and modules that die after an approval."""

from __future__ import annotations

import json
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._windows.run import (
    run_for_windows,
    tell_boot_time,
)


def error_of(module):
    """Return an error as a library has it, which need not be installed here."""
    return type("Error", (Exception,), {"__module__": module})("Cannot contact any KDC")


def ask(error):
    def run(**_module):
        raise error

    task = SimpleNamespace(async_val=0)
    connection = SimpleNamespace(become=None)
    return tell_boot_time(SimpleNamespace(_task=task, _connection=connection, _execute_module=run), {})


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(104, "Connection reset by peer"),
        error_of("pypsrp.exceptions"),
        error_of("winrm.exceptions"),
        # A ticket of Kerberos has expired, or the domain controller is away: for psrp it is no error of requests.
        error_of("spnego.exceptions"),
        error_of("requests_credssp.exceptions"),
        AnsibleError("winrm send_input failed; \nstdout: \nstderr "),
        # Where the operating system of the controller calls it so, as macOS does
        AnsibleError("the connection attempt timed out"),
        # An answer that was cut off
        ElementTree.ParseError("no element found: line 1, column 0"),
    ],
    ids=lambda error: type(error).__module__,
)
def test_an_error_of_the_library_of_a_connection_makes_the_vm_unreachable(error):
    with pytest.raises(AnsibleConnectionFailure, match="The connection to this VM was lost: "):
        ask(error)


def test_any_other_error_is_a_fault_of_the_program():
    with pytest.raises(KeyError):
        ask(KeyError("x"))


def answer(*events):
    return {"status_code": 200, "elapsed": 0.1, "content": json.dumps({"DocumentIncarnation": 1, "Events": events})}


EVENT = {"EventId": "A", "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["web-1"]}
DEAD = {"failed": True, "module_stdout": "", "module_stderr": "powershell.exe was terminated"}


@pytest.mark.parametrize(
    ("answers", "in_doubt"),
    [
        pytest.param([answer(EVENT), answer(), DEAD], True, id="while it waits"),
        pytest.param([answer(EVENT), DEAD], True, id="with the approval"),
        pytest.param([DEAD], None, id="before"),
    ],
)
def test_p13_powershell_that_dies_after_an_approval_says_that_azure_may_have_taken_it(answers, in_doubt):
    left = iter(answers)
    action = SimpleNamespace(
        _task=SimpleNamespace(async_val=0, check_mode=False),
        _connection=SimpleNamespace(become=None),
        _compute_environment_string=lambda _environment: None,
        _execute_module=lambda **_module: next(left),
    )
    options = {"event_ids": ["A"], "resource_name": "web-1", "wait_for": "ended"}
    result = run_for_windows(action, "fleetops.azure_maintenance.scheduled_event_approve", options, {})
    assert (result["failed"], result.get("in_doubt")) == (True, in_doubt)
    assert result["msg"].count("The approval may have been sent, and Azure may have taken it.") == bool(in_doubt)
