# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every document captured from a real VM, through the module as Ansible runs it, served by a plain loopback server."""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
from http.server import ThreadingHTTPServer

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.quiet_handler import QuietHandler
from ansible_collections.fleetops.azure_maintenance.tests.samples import (
    DOCUMENTS,
    EVENTS,
    FOLDER,
    MALFORMED,
    NO_DOCUMENT,
    NO_FOLDER,
    NO_SAMPLE,
    WARNINGS,
    Wanted,
)

if not FOLDER.is_dir():
    pytest.skip(NO_FOLDER, allow_module_level=True)

INFO = "fleetops.azure_maintenance.scheduled_events_info"
SERVED = sorted({path.name for path in FOLDER.iterdir()} - NO_SAMPLE)
# Which VM every sample is served to
COMPUTE = json.loads((FOLDER / "imds-instance-aks-spot-2021-02-01.json").read_bytes())["compute"]


VM = [
    "aks-spottest-41185300-vmss_2",
    "00000000-0000-0000-0000-000000000001",
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/MC_some-group_westeurope/providers"
    "/Microsoft.Compute/virtualMachineScaleSets/aks-spottest-41185300-vmss/virtualMachines/2",
]


class Samples(QuietHandler):
    """Serves each sample at the endpoint /NAME, all to one VM."""

    def do_GET(self):
        name, _slash, path = self.path[1:].partition("/")
        if path.startswith("metadata/scheduledevents?") and name in SERVED:
            return self.reply(200, (FOLDER / name).read_bytes().strip())
        assert path == "metadata/instance/compute?api-version=2021-02-01", path
        return self.reply(200, COMPUTE)


@pytest.fixture(scope="module")
def answers(tmp_path_factory, ansible_once):
    """What the module returned for each sample, asked once for all processes of pytest-xdist."""
    folder = tmp_path_factory.getbasetemp()
    # Each process of pytest-xdist has its own folder in that of the whole run.
    shared = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "sample-answers.json"
    with open(f"{shared}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            shared.write_text(json.dumps(ask(tmp_path_factory, ansible_once)))
    return json.loads(shared.read_text())


def ask(tmp_path_factory, ansible_once):
    """Ask for all samples by one command, one host a sample."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Samples)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    inventory = tmp_path_factory.mktemp("samples") / "hosts.json"
    hosts = {
        name: {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "endpoint": f"http://127.0.0.1:{server.server_port}/{name}",
            "api_version": DOCUMENTS.get(name, ("2020-07-01",))[0],
        }
        for name in SERVED
    }
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    arguments = {"scope": "all", "endpoint": "{{ endpoint }}", "api_version": "{{ api_version }}"}
    run = ansible_once("ansible", "all", "-i", str(inventory), "-m", INFO, "-a", json.dumps(arguments))
    server.shutdown()
    server.server_close()
    found = re.findall(r"^(\S+) \| (SUCCESS|FAILED!) => (\{.*?^\})$", run.out, re.MULTILINE | re.DOTALL)
    assert sorted(name for name, _state, _answer in found) == SERVED, run.out + run.err
    return {name: {"state": state, **json.loads(answer)} for name, state, answer in found}


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_document_comes_out_as_stated(answers, name):
    answer = answers[name]
    assert answer["state"] == "SUCCESS", answer["msg"]
    wanted = [EVENTS[name]._asdict()] if name in EVENTS else []
    assert [{field: event[field] for field in Wanted._fields} for event in answer["events"]] == wanted
    assert answer["document_incarnation"] == DOCUMENTS[name][1]
    assert [answer[key] for key in ("resource_name", "vm_id", "resource_id")] == VM
    # Where no VM is listed it is unknown.
    affects = [VM[0] in event["resources"] if event["resources"] else None for event in wanted]
    assert [event["affects_this_vm"] for event in answer["events"]] == affects
    # Ansible may print warnings beside the answer instead of in it; where it keeps them they name what is odd.
    assert all(WARNINGS[name] in str(warning) for warning in answer.get("warnings", []))


@pytest.mark.parametrize("name", sorted(MALFORMED))
def test_what_is_no_document_is_one_clear_error(answers, name):
    answer = answers[name]
    assert (answer["state"], answer["reason"], answer["http_status"]) == ("FAILED!", "malformed", 200)
    assert answer["imds_reachable"] is True
    assert MALFORMED[name] in answer["msg"]


@pytest.mark.parametrize("name", sorted(NO_DOCUMENT))
def test_s7_an_empty_body_is_no_document(answers, name):
    answer = answers[name]
    assert answer["state"] == "SUCCESS", answer["msg"]
    assert (answer["events"], answer["document_incarnation"]) == ([], None)
    assert "no document" in answer["msg"]
