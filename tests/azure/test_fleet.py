# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fleet_report and fleet_history with Azure Resource Graph: VMs that answer, and others that are lost."""

from __future__ import annotations

import csv
import io
import json
import sys
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.history_row import ROW
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.fleet import ask_for_hosts, read_vm_id
from ansible_collections.fleetops.azure_maintenance.tests.azure.conftest import run_playbook
from ansible_collections.fleetops.azure_maintenance.tests.azure.stand_in import GROUP
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import refuse_deprecations
from ansible_collections.fleetops.azure_maintenance.tests.simulator import launcher

VM = f"{GROUP}/virtualMachines/"
LOST, OLD, NAMELESS = (f"3da1b9aa-5204-4335-8c33-c54e315dcff{end}" for end in "abc")
HISTORY = "fleetops.azure_maintenance.fleet_history"
REPORT = "fleetops.azure_maintenance.fleet_report"
ASKED = "/providers/microsoft.resourcegraph/resources"
NO_ROLE = {"error": {"code": "AuthorizationFailed", "message": "No."}}


@pytest.fixture
def imds(principal):
    """The simulator of two VMs that answer."""
    with launcher() as start:
        yield start("--vms", "web-1,web-2,web-3", "--clock", "manual")


@pytest.fixture
def report(imds, tmp_path, monkeypatch):
    """report(**VARIABLES) runs the playbook for web-1 and web-2, which answer, and web-3 and db-9, which are lost."""
    monkeypatch.setenv("ANSIBLE_NOCOLOR", "true")
    monkeypatch.setenv("ANSIBLE_LOCALHOST_WARNING", "false")
    monkeypatch.setenv("AZURE_IMDS_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("AZURE_MAINTENANCE_MARKS", str(tmp_path / "marks"))
    lost = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    hosts = {
        **{
            name: {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                "azure_maintenance_endpoint": imds.endpoint(name),
                "id": f"{VM}{name}",
            }
            for name in ("web-1", "web-2")
        },
        # As the inventory plugin of azure.azcollection may spell it; a resource_id counts more than an id.
        "web-3": {**lost, "id": "i-0815", "resource_id": f"{VM}web-3".upper()},
        "db-9": {**lost, "id": f"{VM}db-9"},
    }
    inventory = tmp_path / "hosts.json"

    def run(*argv, playbook=REPORT, code=0, **variables):
        inventory.write_text(json.dumps({"all": {"hosts": {name: hosts[name] for name in run.hosts}}}))
        variables.setdefault("fleet_report_dir", str(tmp_path / "out"))
        ended = run_playbook(inventory, *argv, "-e", json.dumps(variables), playbook)
        refuse_deprecations(ended.stdout + ended.stderr)
        assert "Traceback" not in ended.stdout + ended.stderr
        assert ended.returncode == code, ended.stdout + ended.stderr
        return " ".join((ended.stdout + ended.stderr).split())

    run.hosts = tuple(hosts)
    run.inventory = hosts
    run.folder = tmp_path / "out"
    return run


def written(report):
    return json.loads((report.folder / "report.json").read_text(encoding="utf-8"))


def event_of(report, event_id):
    return next((each for each in written(report)["events"] if each["event_id"] == event_id), None)


def graph_questions(azure):
    return [each for each in azure.requests(ASKED) if "maintenanceresources" in json.dumps(each["body"])]


def test_hosts_that_only_azure_tells_of(principal, imds, report):
    shared = imds.announce("Reboot", "web-1", "web-3")
    principal.add_event(shared, f"{GROUP}/availabilitySets/web", ["web-1", "web-3"], {"EventType": "Redeploy"})
    principal.add_event(LOST, f"{VM}db-9", ["db-9"], {"Description": "<b>=1+1 {{ 7*7 }}"})
    printed = report(fleet_report_resource_graph=True)
    assert len(graph_questions(principal)) == 1
    told = written(report)
    assert {host["host"]: (host["state"], host["told_by_azure"]) for host in told["hosts"]} == {
        "web-1": ("affected", []),
        "web-2": ("quiet", []),
        "web-3": ("unreachable", [shared]),
        "db-9": ("unreachable", [LOST]),
    }
    assert told["counts"]["told_by_azure"] == 2
    both, alone = event_of(report, shared), event_of(report, LOST)
    # The VM's own word counts more.
    assert (both["event_type"], both["told_by"], both["told_by_azure"]) == ("Reboot", ["web-1", "web-2"], ["web-3"])
    assert both["vms"] == [{"resource": "web-1", "host": "web-1"}, {"resource": "web-3", "host": "web-3"}]
    assert both["contradictions"] == []
    assert (alone["event_type"], alone["told_by"], alone["told_by_azure"]) == ("Reboot", [], ["db-9"])
    said = "Azure Resource Graph tells of events of 2 hosts that gave no whole answer: db-9, web-3."
    assert said in printed
    assert said in (report.folder / "report.md").read_text()
    page = (report.folder / "report.html").read_text()
    assert said in page
    assert 'db-9 <span class="alarm">told by Azure</span>' in page
    assert "&lt;b&gt;=1+1" in page
    rows = list(csv.DictReader(io.StringIO((report.folder / "report.csv").read_text())))
    assert {row["host"]: row["told_by_azure"] for row in rows} == {
        "web-1": "no",
        "web-2": "",
        "web-3": "yes",
        "db-9": "yes",
    }


@pytest.mark.parametrize(("page_size", "pages"), [(1000, 1), (100, 5)])
@pytest.mark.parametrize("with_causes", [False, True], ids=["report", "history"])
def test_500_hosts_are_one_question_a_page(principal, run, page_size, pages, with_causes):
    principal.page_size = page_size
    names = [f"web-{number}" for number in range(500)]
    for number, name in enumerate(names):
        principal.add_event(f"{number:08x}{LOST[8:]}", f"{VM}{name}", [name])
        principal.add_health(f"{VM}{name}")
    resources = {name: read_vm_id([f"{VM}{name}"]) for name in names}
    result = run({"argument_spec": {}}, lambda task: ask_for_hosts(task, resources, with_causes))
    assert len(principal.requests(ASKED)) == pages * (2 if with_causes else 1)
    told = result["hosts"]
    assert [len(told[name]["events"]) for name in names] == [1] * 500
    assert [len(told[name]["causes"]) for name in names] == [int(with_causes)] * 500


@pytest.mark.release
def test_a_report_on_500_hosts_asks_azure_once(principal, report):
    names = [f"vm-{number}" for number in range(500)]
    with launcher() as start:
        imds = start("--vms", ",".join(names), "--clock", "manual")
        answering = {name: report.inventory["web-1"] | {"id": f"{VM}{name}"} for name in names}
        for name in names:
            answering[name]["azure_maintenance_endpoint"] = imds.endpoint(name)
        # The last fifty are lost.
        answering.update({name: report.inventory["db-9"] | {"id": f"{VM}{name}"} for name in names[450:]})
        report.inventory.clear()
        report.inventory.update(answering)
        report.hosts = tuple(names)
        for number, name in enumerate(names[400:]):
            principal.add_event(f"{number:08x}{LOST[8:]}", f"{VM}{name}", [name])
        report("-f", "20", fleet_report_resource_graph=True)
    assert len(graph_questions(principal)) == len(principal.requests(ASKED)) == 1
    assert written(report)["counts"]["told_by_azure"] == 50


def test_an_event_that_only_azure_tells_of_is_due(principal, report):
    principal.add_event(LOST, f"{VM}db-9", ["db-9"])
    printed = report(code=2, fleet_report_resource_graph=True, fleet_report_fail_within=1000)
    assert f"Reboot {LOST} in" in printed


def test_rows_that_are_older_than_the_word_of_a_vm_count_for_nothing(principal, imds, report):
    # web-1 answers and does not know it, so it is over. Azure is late.
    principal.add_event(OLD, f"{GROUP}/availabilitySets/web", ["web-1", "web-3"])
    principal.add_event(LOST, f"{VM}db-9", ["db-9"], {"EventStatus": "Cancelled"})
    printed = report(fleet_report_resource_graph=True)
    assert written(report)["events"] == []
    said = "Azure Resource Graph tells of no event of the 2 hosts that gave no answer"
    assert f"{said}, which is no proof that there is none." in printed


def test_a_vm_of_the_same_name_in_another_group_is_another_vm(principal, report):
    report.inventory["web-2"]["id"] = f"{VM}web-3".replace("/web/", "/test/")
    principal.add_event(LOST, f"{VM}web-3", ["web-3"])
    report(fleet_report_resource_graph=True)
    assert event_of(report, LOST)["told_by_azure"] == ["web-3"]


def test_an_event_of_a_set_that_names_no_vm_may_be_of_each_lost_one(principal, report):
    principal.add_event(NAMELESS, f"{GROUP}/availabilitySets/web", [])
    report(fleet_report_resource_graph=True)
    assert event_of(report, NAMELESS)["told_by_azure"] == ["web-3", "db-9"]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        pytest.param({"status": 403, "body": NO_ROLE, "times": 9}, "AuthorizationFailed", id="refused"),
        pytest.param({"status": "hang", "times": 99}, "Azure", id="hangs"),
    ],
)
def test_a_question_that_fails_is_one_line_and_never_all_clear(principal, imds, report, fault, sentence):
    event = imds.announce("Reboot", "web-1")
    principal.add_fault(ASKED, **fault)
    began = time.monotonic()
    printed = report(fleet_report_resource_graph=True, fleet_report_ask_timeout=10)
    assert time.monotonic() - began < 100
    assert event_of(report, event)["told_by"] == ["web-1", "web-2"]
    failure = "Azure Resource Graph was asked too, and gave no usable answer"
    assert printed.count(f"{failure}: ") == 1, printed
    (message,) = written(report)["azure_messages"]
    assert message.startswith(f"{failure}: ")
    assert sentence in message
    assert failure in (report.folder / "report.html").read_text()
    assert "tells of no event" not in printed


def test_a_lost_host_without_an_id_is_named(principal, report):
    del report.inventory["db-9"]["id"]
    report.inventory["web-3"]["resource_id"] = "web-3"
    printed = report(fleet_report_resource_graph=True)
    missing = "the inventory has neither resource_id nor id of a VM of Azure for them."
    assert f"Azure Resource Graph was not asked for web-3, db-9: {missing}" in printed


def test_slices(principal, imds, report):
    principal.add_event(LOST, f"{VM}db-9", ["db-9"])
    for part, hosts in (("a", ("web-1", "web-3")), ("b", ("web-2", "db-9"))):
        report.hosts = hosts
        report(fleet_report_resource_graph=True, fleet_report_mode="part", fleet_report_part=part)
    asked = len(graph_questions(principal))
    report.hosts = tuple(report.inventory)
    report(fleet_report_mode="merge", fleet_report_resource_graph=True)
    assert (asked, len(graph_questions(principal))) == (2, 2)
    assert event_of(report, LOST)["told_by_azure"] == ["db-9"]
    assert written(report)["azure_messages"] == []


@pytest.mark.parametrize("given", [{}, {"fleet_report_resource_graph": False}, {"fleet_report_resource_graph": ""}])
def test_without_the_option_nobody_asks_azure(principal, report, given):
    principal.add_event(LOST, f"{VM}db-9", ["db-9"])
    report(**given)
    assert principal.journal == []
    assert (written(report)["events"], written(report)["azure_messages"]) == ([], None)
    assert "Resource Graph" not in (report.folder / "report.md").read_text()


def test_another_word_is_refused(principal, report):
    printed = report(code=2, fleet_report_resource_graph="sometimes")
    assert "fleet_report_resource_graph must be true or false, not sometimes. No host was asked." in printed


SEEN = {
    **dict.fromkeys(ROW),
    "event_type": "Reboot",
    "resource_name": "web-1",
    "first_seen_at": "2026-11-20T10:00:00Z",
    "started_at": "2026-11-20T10:10:00Z",
    "responses": 1,
    "failed_responses": [],
    "late": False,
    "simulated": False,
}


@pytest.fixture
def history(report, tmp_path):
    """history(*ROWS, **VARIABLES) runs the playbook; the checker of web-1 has these rows, web-2 has no checker."""

    def run(*rows, **variables):
        told = {"resource_name": "web-1", "history_format": 1, "version": "1.1.0", "warnings": [], "history": rows}
        command = tmp_path / "history"
        command.write_text(f"#!/bin/sh\ncat <<'EOF'\n{json.dumps(told)}\nEOF\n")
        command.chmod(0o755)
        report.inventory["web-1"]["fleet_history_command"] = str(command)
        report.inventory["web-2"]["fleet_history_command"] = str(tmp_path / "missing")
        printed = report(playbook=HISTORY, fleet_history_dir=str(report.folder), **variables)
        return json.loads((report.folder / "history.json").read_text(encoding="utf-8")), printed

    return run


def test_outcomes_and_causes_that_only_azure_tells(principal, report, history):
    ended = {**SEEN, "event_id": OLD.upper(), "ended_at": "2026-11-20T10:20:00Z", "outcome": "withdrawn"}
    lost_sight = {**SEEN, "event_id": NAMELESS}
    own = {**SEEN, "event_id": "E-1", "ended_at": "2026-11-20T10:20:00Z", "outcome": "completed"}
    hostile = "<b>=1+1 {{ 7*7 }}"
    principal.add_event(OLD, f"{VM}web-1", ["web-1"], {"EventStatus": "Completed"})
    principal.add_event(NAMELESS, f"{VM}web-1", ["web-1"], {"EventStatus": "Cancelled"})
    principal.add_event(LOST, f"{VM}db-9", ["db-9"], {"EventStatus": "Completed", "Description": hostile})
    principal.add_health(f"{VM}DB-9", summary=hostile)
    principal.add_health(f"{VM}other-vm")
    told, printed = history(ended, lost_sight, own, fleet_history_resource_graph=True)
    assert len(graph_questions(principal)) == 1
    assert {each["event_id"]: (each["outcome"], each["azure_outcome"]) for each in told["events"]} == {
        # Azure alone knows how an event ended.
        OLD.upper(): ("completed", "completed"),
        NAMELESS: ("withdrawn", "withdrawn"),
        "E-1": ("completed", None),
    }
    counts = {"events": 3, "completed": 2, "withdrawn": 1, "open": 0, "told_by_azure": 1}
    assert {name: told["counts"][name] for name in counts} == counts
    (alone,) = told["azure_events"]
    assert (alone["event_id"], alone["hosts"], alone["outcome"]) == (LOST, ["db-9"], "completed")
    (cause,) = told["azure_causes"]
    assert (cause["host"], cause["category"], cause["occurred_at"]) == ("db-9", "Planned", "2026-11-21T10:00:00Z")
    assert told["azure_messages"] == []
    assert "Azure Resource Graph tells of 1 event that no checker saw." in printed
    page = (report.folder / "history.html").read_text()
    assert "Events that no checker saw" in page
    assert "VirtualMachineHostRebootedForMaintenance" in page
    assert "&lt;b&gt;=1+1" in page
    rows = list(csv.DictReader(io.StringIO((report.folder / "history.csv").read_text())))
    assert {(row["host"], row["event_id"], row["azure_outcome"]) for row in rows} == {
        ("web-1", OLD.upper(), "completed"),
        ("web-1", NAMELESS, "withdrawn"),
        ("web-1", "E-1", ""),
        ("db-9", LOST, "completed"),
        ("web-2", "", ""),
        ("web-3", "", ""),
    }


def test_a_history_for_which_azure_gives_no_answer(principal, report, history):
    principal.add_fault(ASKED, status=403, times=9)
    told, printed = history({**SEEN, "event_id": OLD}, fleet_history_resource_graph=True)
    assert [(each["event_id"], each["azure_outcome"]) for each in told["events"]] == [(OLD, None)]
    assert len(told["azure_messages"]) == 1
    assert printed.count("Azure Resource Graph was asked too, and gave no usable answer: ") == 1
    assert told["azure_messages"][0][:40] in (report.folder / "history.html").read_text()


def test_without_the_option_the_history_asks_nobody_at_azure(principal, history):
    told, _printed = history({**SEEN, "event_id": OLD})
    assert principal.journal == []
    assert (told["azure_messages"], told["azure_events"], told["azure_causes"]) == (None, [], [])
