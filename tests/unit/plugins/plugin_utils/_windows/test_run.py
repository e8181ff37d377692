# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of connections to a Windows VM, where their libraries let them through."""

from __future__ import annotations

from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._windows.run import tell_boot_time


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
