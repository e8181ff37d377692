# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Azure CLI at the stand-in: it logs in, its login is ours, and what we send it sends, too."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure import acknowledge, info
from ansible_collections.fleetops.azure_maintenance.tests.azure import stand_in
from ansible_collections.fleetops.azure_maintenance.tests.azure.stand_in import EVENT, VM
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program

pytestmark = pytest.mark.release

FIRST, SECOND = EVENT, "743c15d8-a994-46fc-93af-b84ee33f9a14"


@pytest.fixture
def az(azure, tmp_path, monkeypatch):
    """az(ARGUMENTS) runs the program, which is logged in at the stand-in, and returns the JSON that it prints."""
    # Not where the module begins: the gate azure reads it, and has no such program.
    program = need_program("az", package="azure-cli, or put .venv/azure-cli/bin into PATH")
    for name, value in {
        "AZURE_CONFIG_DIR": str(tmp_path / "azure"),
        "AZURE_CORE_COLLECT_TELEMETRY": "false",
        "AZURE_CORE_INSTANCE_DISCOVERY": "false",
    }.items():
        monkeypatch.setenv(name, value)
    # The packages of the test are not those of the program.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*arguments):
        command = [program, *arguments, "--output", "json"]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout) if ended.stdout.strip() else None

    run("cloud", "register", "--name", "StandIn", "--endpoint-resource-manager", azure.url)
    run("cloud", "set", "--name", "StandIn")
    login = ("--username", stand_in.CLIENT_ID, "--password", stand_in.SECRET, "--tenant", stand_in.TENANT)
    run("login", "--service-principal", *login)
    return run


@pytest.fixture
def do(run, monkeypatch):
    """Do a task as its action plugin would, with the login of the Azure CLI and no other."""
    for name in ("AZURE_CLIENT_ID", "AZURE_SECRET", "AZURE_TENANT"):
        monkeypatch.delenv(name)
    return partial(partial, run)


def send_again(az, azure, request):
    """Have the Azure CLI send what was sent."""
    address = f"{azure.url}{request['path']}?api-version={request['query']['api-version']}"
    body = ["--body", json.dumps(request["body"])] if request["body"] is not None else []
    answer = az("rest", "--method", request["method"].lower(), "--url", address, *body)
    repeated = azure.journal[-1]
    assert [repeated[name] for name in ("method", "path", "query", "body")] == [
        request[name] for name in ("method", "path", "query", "body")
    ]
    return answer


def test_its_login_is_ours_and_our_question_is_one_of_its(azure, az, do):
    azure.add_event(FIRST, VM, ["web-1"])
    logins = azure.logins
    result = do(info.SPEC, info.get_events)()
    assert [each["event_id"] for each in result["events"]] == [FIRST], result
    # It has kept the token of its own login.
    assert azure.logins == logins
    (request,) = azure.requests("/providers/microsoft.resourcegraph")
    assert [row["name"] for row in send_again(az, azure, request)["data"]] == [FIRST]


def test_our_approvals_are_ones_of_its(azure, az, do):
    for event_id in (FIRST, SECOND):
        azure.add_event(event_id, VM, ["web-1"])
    approve = do(acknowledge.SPEC, acknowledge.acknowledge)
    for ids in ([FIRST], [FIRST, SECOND]):
        result = approve(event_ids=ids, resources_ready=["web-1"])
        assert {each["result"] for each in result["approvals"]} == {"approved"}
        request = azure.requests("/scheduledevents")[-1]
        assert send_again(az, azure, request) == {"value": "Successfully Approved"}
