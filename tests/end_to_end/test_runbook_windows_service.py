# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runbook windows_service in the playbook respond, and its files by themselves. The VMs are stand-ins."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows, windows_machine
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import TREE
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import FAR_OFF, RESPOND, Fleet

pytestmark = pytest.mark.matrix

RUNBOOK = TREE / "docs" / "runbooks" / "windows_service"
SERVICE, PROBE = "ShopWorker", "C:\\inetpub\\wwwroot\\in_service.htm"
IN_SERVICE = {"services": {SERVICE: "started"}, "files": {PROBE: 0}}
NAMED = {"windows_service_name": SERVICE, "windows_service_probe_file": PROBE, "windows_service_drain_seconds": 1}
# Of each host: what it is like, its variables besides, whether its event is approved, what is left of it, what is said
HOSTS = {
    "host-good": (IN_SERVICE, {}, True, IN_SERVICE, ""),
    "host-out": (
        {"services": {SERVICE: "stopped"}, "files": {}},
        {},
        True,
        {"services": {SERVICE: "stopped"}, "files": {}},
        "",
    ),
    "host-stuck": (
        {"services": {SERVICE: "stuck"}, "files": {PROBE: 0}},
        {"windows_service_stop_timeout": 0, "windows_service_healthy_timeout": 0},
        False,
        {"services": {SERVICE: "stop_pending"}, "files": {}},
        "host-stuck could not be prepared: Check that it stopped: ShopWorker did not stop: stop_pending.",
    ),
    "host-unknown": (
        {"services": {}, "files": {PROBE: 0}},
        {},
        False,
        {"services": {}, "files": {PROBE: 0}},
        "host-unknown could not be prepared: Check that there is such a service: Windows knows no service ShopWorker.",
    ),
    "host-content": (
        {"services": {SERVICE: "started"}, "files": {PROBE: 12}},
        {},
        False,
        {"services": {SERVICE: "started"}, "files": {PROBE: 12}},
        "in_service.htm must be an empty file: it is removed, and restore makes an empty one.",
    ),
    "host-unnamed": (
        IN_SERVICE,
        {"windows_service_name": ""},
        False,
        IN_SERVICE,
        "host-unnamed could not be prepared: Check the input: Give windows_service_name, the name of a Windows service",
    ),
    "host-ill": (
        IN_SERVICE,
        {"windows_service_check_url": "http://127.0.0.1:9", "windows_service_healthy_timeout": 0},
        True,
        {"services": {SERVICE: "started"}, "files": {}},
        "host-ill could not be restored: Check that the URL answered: ShopWorker runs, but http://127.0.0.1:9 did not",
    ),
}


def machine(folder, host):
    return folder / f"{host}.machine"


@pytest.fixture
def make_fleet(ansible, simulator, tmp_path):
    def make(hosts):
        (tmp_path / "fleet").mkdir()
        vms = {host: host.replace("host", "app") for host in hosts}
        fleet = Fleet(ansible, simulator, tmp_path / "fleet", hosts, vms)
        for host in hosts:
            machine(fleet.folder, host).write_text(json.dumps(HOSTS[host][0]))
            fleet.set(
                host,
                ansible_connection="windows_stand_in",
                stand_in_machine=str(machine(fleet.folder, host)),
                stand_in_log=str(fleet.folder / f"{host}.log"),
                **{**NAMED, "windows_service_check_url": f"{fleet.azure.url}/simulator/state", **HOSTS[host][1]},
            )
        fleet.settings = windows.settings(windows.make_ansible_windows(tmp_path / "installed"))
        return fleet

    return make


def respond(fleet, *arguments):
    files = {f"event_response_{name}": str(RUNBOOK / f"{name}.yml") for name in ("prepare", "restore")}
    return fleet.respond(*arguments, playbook=RESPOND, **files)


def left(fleet, host):
    """Return what is left on a host of what the runbook touches."""
    kept = json.loads(machine(fleet.folder, host).read_text())
    files = {path: size for path, size in kept["files"].items() if not path.endswith(".mark.json")}
    return {"services": kept["services"], "files": files}


def is_marked(fleet, host):
    return any(path.endswith(".mark.json") for path in json.loads(machine(fleet.folder, host).read_text())["files"])


def log(fleet, host):
    """Return what was run on a host, in order, as far as it changes something."""
    lines = [json.loads(line) for line in (fleet.folder / f"{host}.log").read_text().splitlines()]
    own = [(name, options) for name, options in lines if "azure-maintenance" not in options.get("path", "")]
    done = [(name.rpartition(".")[2], options.get("state") or options.get("url_method")) for name, options in own]
    return [each for each in done if each[0] in ("win_file", "win_service", "win_wait_for") or each[1] == "POST"]


def test_s1_a_fleet_in_which_each_host_has_another_fault(make_fleet):
    fleet = make_fleet(list(HOSTS))
    for host, (_machine, _variables, approved, _left, _words) in HOSTS.items():
        fleet.announce(host.replace("host", "app"), **({} if approved else {"notice": FAR_OFF}))
    run = respond(fleet)
    assert run.code == 2, run.out + run.err
    may = {host for host, case in HOSTS.items() if case[2]}
    assert {vm.replace("app", "host") for vm, _ids in fleet.approved} == may, run.out
    assert {host: left(fleet, host) for host in HOSTS} == {host: case[3] for host, case in HOSTS.items()}
    assert '"not_restored": [ "host-stuck host-ill" ]' in run.words
    assert {host for host in HOSTS if is_marked(fleet, host)} == {"host-stuck", "host-ill"}
    for host, case in HOSTS.items():
        assert case[4] in run.words, (host, [line for line in run.out.splitlines() if host in line])
    # Out of the rotation first, then stopped, and only then approved
    assert log(fleet, "host-good") == [
        ("win_file", "absent"),
        ("win_wait_for", None),
        ("win_service", "stopped"),
        ("win_uri", "POST"),
        ("win_service", "started"),
        ("win_file", "touch"),
    ]
    for untouched in ("host-unknown", "host-content", "host-unnamed"):
        assert log(fleet, untouched) == []


@pytest.mark.release
def test_check_mode_touches_nothing(make_fleet):
    fleet = make_fleet(["host-good"])
    fleet.announce("app-good")
    run = respond(fleet, "--check")
    assert run.code == 0, run.out + run.err
    assert left(fleet, "host-good") == IN_SERVICE
    assert fleet.approved == []


def test_a_service_that_a_killed_run_has_stopped_is_put_back_after_the_event(make_fleet):
    """Without its mark the service and the file would stay as they are: an operator's doing."""
    fleet = make_fleet(["host-out"])
    event = {"event_id": fleet.announce("app-out"), "event_type": "Reboot"}
    mark = windows.left_by_killed_run(event, fleet.azure.vm_id("app-out"))
    folders = [folder for path in mark for folder in windows_machine.parents(path)]
    out = {"services": {SERVICE: "stopped"}, "files": mark, "folders": folders}
    machine(fleet.folder, "host-out").write_text(json.dumps(out))
    run = respond(fleet)
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("app-out", [event["event_id"]])]
    assert left(fleet, "host-out") == IN_SERVICE
    assert not is_marked(fleet, "host-out")


@pytest.mark.release
def test_restore_works_by_itself_and_says_what_it_lacks(make_fleet):
    fleet = make_fleet(["host-good", "host-unnamed"])
    out = {"services": {SERVICE: "stopped"}, "files": {}}
    for host in ("host-good", "host-unnamed"):
        machine(fleet.folder, host).write_text(json.dumps(out))
    play = {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.include_tasks": str(RUNBOOK / "restore.yml")}],
    }
    (fleet.folder / "restore.json").write_text(json.dumps([play]))
    run = fleet.run(str(fleet.folder / "restore.json"), "--check")
    assert [left(fleet, host) for host in ("host-good", "host-unnamed")] == [out, out], run.out
    run = fleet.run(str(fleet.folder / "restore.json"))
    assert run.code == 2, run.out + run.err
    assert left(fleet, "host-good") == IN_SERVICE
    assert left(fleet, "host-unnamed") == out
    assert "Give windows_service_name, the name of a Windows service without wildcards." in run.words


@pytest.mark.release
def test_a_service_is_rehearsed_by_one_command(make_fleet):
    fleet = make_fleet(["host-good"])
    fleet.set("host-good", ansible_shell_type="powershell")
    files = {f"rehearse_{name}": str(RUNBOOK / f"{name}.yml") for name in ("prepare", "restore")}
    run = fleet.run(
        "fleetops.azure_maintenance.rehearse",
        "-e",
        json.dumps({"target": "all", "rehearse_listen": "127.0.0.1:0", **files}),
    )
    assert run.code == 0, run.out + run.err
    assert left(fleet, "host-good") == IN_SERVICE
    assert not is_marked(fleet, "host-good")
    assert [name for name, _state in log(fleet, "host-good")] == [
        "win_file",
        "win_wait_for",
        "win_service",
        "win_uri",
        "win_service",
        "win_file",
    ]
