# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the real ansible.windows takes, which the package ansible brings: its modules are read here, and not run.

Its action plugin win_copy is run, on a stand-in for the VM.

The gate windows-2.16.14 reads the release for the oldest ansible-core that is supported, the gate awx a newer one.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import ansible
import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import shell_loader
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import marks
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._windows import marks as windows_marks
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows_machine
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


def test_the_real_win_copy_writes_a_mark(tmp_path):
    spec = importlib.util.spec_from_file_location("real_win_copy", PLUGINS / "action" / "win_copy.py")
    real = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(real)
    machine, put, asked = tmp_path / "machine", {}, []
    machine.write_text("{}")

    def run(module_name, module_args, **_more):
        asked.append((module_name, module_args.get("_copy_mode")))
        return windows_machine.run(machine, module_name, module_args, False, put)

    def run_action(module, options):
        assert module == "ansible.windows.win_copy"
        shell = shell_loader.get("powershell")
        task = SimpleNamespace(args=options, async_val=0, check_mode=False, diff=False, delegate_to=None)
        play = SimpleNamespace(check_mode=False)
        copy = real.ActionModule(task, SimpleNamespace(_shell=shell), play, DataLoader(), None, None)
        copy._execute_module = run
        copy._make_tmp_path = lambda: "C:\\Temp\\ansible-tmp-1"
        copy._remove_tmp_path = lambda path: None
        copy._transfer_file = lambda local, there: put.update({there: Path(local).read_text()})
        return copy.run(task_vars={})

    event = {"event_id": "C7061BAC-AFDC-4513-B24B-AA5F13A16123", "event_type": "Re'boot {{ 1 }}"}
    mark = marks.new_mark(marks.RUN, event, "2026-11-21T17:32:00Z")
    assert windows_marks.write_mark(run, run_action, mark, None) == (None, {})
    assert ("ansible.windows.win_copy", "single") in asked
    folder = windows_marks.find_folder(run)
    (found,), faults = windows_marks.read_marks(run, folder, None)
    assert (found["event_type"], faults) == ("Re'boot {{ 1 }}", [])
    # One that is there already
    assert windows_marks.write_mark(run, run_action, mark, folder) == (None, {})


CITED = {
    "win_uri": (
        "$module.Result.elapsed = 0",
        "$module.Result.$header_key = $header_value",
        "$module.Result.content = [System.Text.Encoding]::UTF8.GetString($content_bytes)",
        "if ($status_code -notcontains $Response.StatusCode) {",
        '$module.FailJson("Unhandled exception occurred when sending web request.',
    ),
    "win_file": (
        'Fail-Json $result "path $path is not a directory"',
        "New-Item -Path $path -ItemType Directory",
        "Fail-Json $result $_.Exception.Message",
    ),
    "win_find": (
        "GetUnresolvedProviderPathFromPSPath($path)",
        "does not exist or is not accessible, skipping",
        "islnk = $false",
        "path = $dir_child.FullName",
        "$file_info.size = $dir_child.Length",
        "$file_info.checksum = Get-FileChecksum -Path $dir_child.FullName -Algorithm $checksum_algorithm",
        'default = "sha1"; choices = "md5", "sha1", "sha256"',
    ),
    "win_copy": (
        '-name "dest" -type "path"',
        "$result.files = $changed_files",
        "$remote_dest = Join-Path -Path $dest -ChildPath $original_basename",
        "Copy-Item -LiteralPath $src -Destination $remote_dest -Force",
    ),
    "win_stat": ("path = @{ type = 'path'", "$module.Result.stat = @{ exists = $false }", "path = $info.FullName"),
    "slurp": (
        '-name "src" -type "path"',
        "[System.Convert]::ToBase64String($bytes)",
        'Fail-Json $result "Path $src is a directory"',
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
