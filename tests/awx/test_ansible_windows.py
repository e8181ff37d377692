# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the real ansible.windows takes, which the package ansible brings: its modules are read here, and not run.

The gate windows-2.16.14 reads the release for the oldest ansible-core that is supported, the gate awx a newer one.
"""

from __future__ import annotations

import re
from pathlib import Path

import ansible
import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.connection.windows_stand_in import OPTIONS

PLUGINS = Path(ansible.__file__).parents[1] / "ansible_collections" / "ansible" / "windows" / "plugins"


def options_of(module):
    """Return the names in the argument spec of a module, as PowerShell reads it."""
    source = (PLUGINS / "modules" / f"{module}.ps1").read_text(encoding="utf-8")
    legacy = re.findall(r'Get-AnsibleParam -obj \$params -name "(\w+)"', source)
    if legacy:
        return set(legacy)
    spec = source[source.index("$spec = @{") : source.index("supports_check_mode")]
    if "Get-AnsibleWindowsWebRequestSpec" in source:
        shared = (PLUGINS / "module_utils" / "WebRequest.psm1").read_text(encoding="utf-8")
        spec += shared[shared.rindex("Function Get-AnsibleWindowsWebRequestSpec") :]
    return set(re.findall(r"^\s+(\w+) = @\{", spec, re.MULTILINE)) - {"options"}


@pytest.mark.parametrize("module", sorted(set(OPTIONS) - {"ansible.windows.win_ping"}))
def test_each_option_that_is_given_is_one_of_the_module(module):
    # The stand-in for Windows fails on any other option than these, so nothing else is given, also by the runbook.
    given = OPTIONS[module]
    assert given
    assert given <= options_of(module.rpartition(".")[2])


def test_win_uri_refuses_nothing_that_is_asked_for():
    shared = (PLUGINS / "module_utils" / "WebRequest.psm1").read_text(encoding="utf-8")
    assert "follow_redirects = @{ type = 'str'; choices = @('all', 'none', 'safe')" in shared
    assert "url_timeout = @{ type = 'int'" in shared


CITED = {
    "win_uri": (
        "$module.Result.elapsed = 0",
        "$module.Result.$header_key = $header_value",
        "$module.Result.content = [System.Text.Encoding]::UTF8.GetString($content_bytes)",
        "if ($status_code -notcontains $Response.StatusCode) {",
        '$module.FailJson("Unhandled exception occurred when sending web request.',
    ),
    "setup": (
        "$ansibleFacts.ansible_uptime_seconds = [Math]::Round($ticks / 1000)",
        "if ($item.StartsWith('!')) {",
        "elseif ($allSet.Contains($item)) {",
        "hardware = [System.Collections.Generic.List[string]]@('bios', 'memory', 'processor', 'uptime', 'virtual')",
    ),
    "win_service_info": (
        "Stopped { 'stopped' }",
        "StopPending { 'stop_pending' }",
        "Running { 'started' }",
        "services = @(",
    ),
    "win_wait_for": (
        "while (((Get-Date) - $start_time).TotalSeconds -lt $timeout)",
        "$result.wait_attempts = $attempts",
        "    Start-Sleep -Seconds $timeout",
    ),
}


@pytest.mark.parametrize("module", CITED)
def test_what_the_stand_in_cites_is_still_written_there(module):
    source = (PLUGINS / "modules" / f"{module}.ps1").read_text(encoding="utf-8")
    assert [line for line in CITED[module] if line not in source] == []
