# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runbook service in the playbook respond, on a stand-in for systemctl; molecule/runbooks has the real one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import TREE
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import RESPOND, Fleet, left_by_killed_run
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port
from ansible_collections.fleetops.azure_maintenance.tests.slow_requests import (
    APPLICATION,
    NO_RUNBOOK,
    Clients,
    power_cycle,
)

pytestmark = pytest.mark.matrix

RUNBOOK = TREE / "docs" / "runbooks" / "service"
FILES = {f"event_response_{name}": str(RUNBOOK / f"{name}.yml") for name in ("prepare", "restore")}
# Of shop.service, whose state is in a file. It fails on what it does not know.
SYSTEMCTL = """#!{python}
import pathlib, sys
state = pathlib.Path({state!r})
*words, unit = sys.argv[1:]
assert unit == "shop.service", sys.argv
busy = state.with_name("busy")
if busy.exists():
    # Once systemd does not answer.
    busy.unlink()
    sys.exit("Failed to get properties: Connection timed out")
if words[0] == "show":
    assert all(word.startswith("--property=") for word in words[1:]), sys.argv
    print("LoadState=loaded\\nActiveState=" + state.read_text() + "\\nResult=success")
else:
    state.write_text({{"start": "active", "stop": "inactive"}}[words[0]])
    program = state.with_name(words[0])
    if program.exists():
        import subprocess
        subprocess.run([str(program)], check=True)
"""


class Shop:
    """An application of a machine, with programs that start and stop it, for the stand-in for systemctl."""

    def __init__(self, folder):
        self._folder = folder
        self._pid = folder / "pid"
        self.port = free_port()
        (folder / "shop.py").write_text(APPLICATION)
        run = f"{sys.executable} {folder}/shop.py {self.port} </dev/null >/dev/null 2>&1"
        self._write("start", f"{run} & echo $! >{self._pid}")
        # A process that has ended, and that nobody has waited for, has no program any more.
        runs = "readlink /proc/$pid/exe >/dev/null"
        self._write("stop", f"pid=$(cat {self._pid}); kill $pid; while {runs}; do sleep 0.1; done")

    def _write(self, name, line):
        program = self._folder / name
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)

    def start(self):
        (self._folder / "state").write_text("active")
        subprocess.run([self._folder / "start"], check=True)

    def lose_power(self):
        (self._folder / "state").write_text("inactive")
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(self._pid.read_text()), signal.SIGKILL)


@pytest.fixture
def fleet(ansible, simulator, tmp_path):
    (tmp_path / "fleet").mkdir()
    fleet = Fleet(ansible, simulator, tmp_path / "fleet", ["host-a"], {"host-a": "web-1"})
    program = fleet.folder / "systemctl"
    program.write_text(SYSTEMCTL.format(python=sys.executable, state=str(fleet.folder / "state")))
    program.chmod(0o755)
    fleet.settings["PATH"] = f"{fleet.folder}{os.pathsep}{os.environ['PATH']}"
    fleet.set("host-a", service_name="shop.service", service_check_command=["true"])
    return fleet


@pytest.mark.parametrize(
    "has_runbook", [True, pytest.param(False, marks=pytest.mark.release)], ids=["with the runbook", "without"]
)
def test_no_request_is_cut_off_by_a_reboot(fleet, has_runbook):
    shop = Shop(fleet.folder)
    shop.start()
    clients = Clients(shop.port)
    fleet.announce("web-1", started_for=60)

    def go_down():
        shop.lose_power()
        # So long the VM is down.
        time.sleep(3)
        fleet.pass_time(60)

    # Without the runbook it starts with the VM.
    boot = (lambda: None) if has_runbook else shop.start
    try:
        with clients.asking(), power_cycle(fleet.azure, go_down, boot):
            run = fleet.respond(playbook=RESPOND, **(FILES if has_runbook else NO_RUNBOOK))
    finally:
        shop.lose_power()
    assert run.code == 0, run.out + run.err
    clients.tell("with the runbook" if has_runbook else "without the runbook")
    assert clients.answered
    assert bool(clients.cut) is not has_runbook


@pytest.mark.release
def test_a_service_is_rehearsed_by_one_command(fleet):
    (fleet.folder / "state").write_text("active")
    fleet.set("host-a", ansible_connection="local")
    files = {f"rehearse_{name}": str(RUNBOOK / f"{name}.yml") for name in ("prepare", "restore")}
    run = fleet.run("fleetops.azure_maintenance.rehearse", "-e", json.dumps({"target": "all", **files}))
    assert run.code == 0, run.out + run.err
    assert re.search("approved Reboot .*completed Reboot .*> restored", run.words)
    assert re.search(r"TASK \[.*Stop it\] \**\nchanged: ", run.out)
    assert (fleet.folder / "state").read_text() == "active"


@pytest.mark.parametrize(("was_killed", "state"), [(True, "active"), (False, "inactive")])
def test_a_service_that_a_killed_run_has_stopped_is_started_and_one_that_an_operator_has_stopped_is_not(
    fleet, tmp_path, was_killed, state
):
    event = {"event_id": fleet.announce("web-1"), "event_type": "Reboot"}
    folder = tmp_path / "home" / "marks"
    folder.mkdir()
    if was_killed:
        name, mark = left_by_killed_run(event, fleet.azure.vm_id("web-1"))
        (folder / name).write_bytes(mark)
    (fleet.folder / "state").write_text("inactive")
    run = fleet.respond(playbook=RESPOND, **FILES)
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [event["event_id"]])]
    assert (fleet.folder / "state").read_text() == state
    assert list(folder.iterdir()) == []


def test_p13_a_service_that_a_killed_run_has_stopped_is_started_also_where_the_next_preparation_fails_early(
    fleet, tmp_path
):
    """It fails before it has looked whether the service ran."""
    event = {"event_id": fleet.announce("web-1"), "event_type": "Reboot"}
    folder = tmp_path / "home" / "marks"
    folder.mkdir()
    name, mark = left_by_killed_run(event, fleet.azure.vm_id("web-1"))
    (folder / name).write_bytes(mark)
    (fleet.folder / "state").write_text("inactive")
    busy = fleet.folder / "busy"
    busy.touch()

    def let_the_event_end(over):
        wait_until(lambda: over.is_set() or not busy.exists())
        fleet.pass_time(3600)

    with beside(let_the_event_end):
        run = fleet.respond(playbook=RESPOND, **FILES)
    assert run.code == 2, run.out + run.err
    assert "Failed to get properties: Connection timed out" in run.words
    assert fleet.approved == []
    assert ((fleet.folder / "state").read_text(), list(folder.iterdir())) == ("active", [])


# In place of the id that the command calls which writes a mark: another run has written its own, and stopped the unit
ID = """#!/bin/sh
if mv {new} {mark} 2>/dev/null; then printf inactive >{state}; fi
PATH={path} exec id "$@"
"""


@pytest.mark.releases
def test_p13_a_service_that_another_run_stops_between_the_question_and_the_mark_is_started(fleet, tmp_path):
    """Its mark is news to this run. Else the service would count as one that an operator has stopped."""
    event = {"event_id": fleet.announce("web-1"), "event_type": "Reboot"}
    name, mark = left_by_killed_run(event, fleet.azure.vm_id("web-1"))
    state, new, programs = fleet.folder / "state", tmp_path / "new", tmp_path / "programs"
    state.write_text("active")
    new.write_bytes(mark)
    (tmp_path / "home" / "marks").mkdir()
    programs.mkdir()
    place = tmp_path / "home" / "marks" / name
    (programs / "id").write_text(ID.format(new=new, mark=place, state=state, path=os.environ["PATH"]))
    (programs / "id").chmod(0o755)
    play = {"hosts": "host-a", "environment": {"PATH": f"{programs}:{fleet.settings['PATH']}"}}
    run = fleet.respond(play=play, **FILES)
    assert run.code == 0, run.out + run.err
    assert state.read_text() == "active"
