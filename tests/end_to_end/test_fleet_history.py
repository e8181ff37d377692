# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/fleet_history.yml as a person or AWX runs it, over local hosts with checkers that have seen events."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import sys

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import TREE, on_one_line, set_traps
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program

HISTORY = "fleetops.azure_maintenance.fleet_history"
PROGRAM = "ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance"
FILES = {"history.json", "history.csv", "history.md", "history.html"}
HOSTILE = "=1+1 {{ 7*7 }} {% raw %} {# gone #} </script><script>alert(1)</script> | \u202e"
PAIR = ("web-1", "web-2")
COMMAND = """#!{python}
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {tree!r})
from {program} import cli, system
sys.exit(cli.main(sys.argv[1:], system.Folders(*{folders!r})))
"""


class Fleet:
    """Hosts of an inventory, each with a checker of its own, and what the playbook makes of them."""

    def __init__(self, ansible, simulator, folder):
        self.simulator = simulator
        self.folder = folder
        # Brackets and a blank mean something else to a shell and in a pattern.
        self.dir = folder / "out [1]"
        self._ansible = ansible
        self.inventory = folder / "hosts.ini"
        self.inventory.write_text("")

    def add(self, name, script=None, **variables):
        """Add a host; its command is a checker that asks the simulator, or this script."""
        command = self.folder / f"{name}-command"
        if script is not None:
            command.write_text(script)
            command.chmod(0o755)
        words = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        words = {**words, "fleet_history_command": command, **variables}
        line = " ".join([name, *(f"{key}={value}" for key, value in words.items())])
        self.inventory.write_text(f"{self.inventory.read_text()}{line}\n")
        return command

    def add_checker(self, name):
        names = ("config.json", "playbooks", "state", "run", "facts", "marks", "marks-in-memory")
        places = [self.folder / name / each for each in names]
        for place in places[1:]:
            place.mkdir(parents=True)
        config = {"endpoint": self.simulator.endpoint(name), "rules": [{"name": "Noted"}]}
        places[0].write_text(json.dumps(config))
        folders = tuple(map(str, places))
        tree = str(TREE.parents[2])
        self.add(name, COMMAND.format(python=sys.executable, tree=tree, program=PROGRAM, folders=folders))

    def check(self, *names):
        for name in names:
            run = self._ansible(str(self.folder / f"{name}-command"), "check", "--once")
            assert run.code == 0, run.err

    def history(self, *argv, env=None, **extra_vars):
        settings = {"fleet_history_dir": str(self.dir), "fleet_history_simulated": True, **extra_vars}
        command = ["ansible-playbook", "-i", str(self.inventory), HISTORY, "-e", json.dumps(settings), *argv]
        return self._ansible(*command, env=env)

    def written(self):
        return json.loads((self.dir / "history.json").read_text(encoding="utf-8"))

    def hosts(self):
        return {host["host"]: (host["state"], host["reason"]) for host in self.written()["hosts"]}


@pytest.fixture
def fleet(ansible, simulator, tmp_path):
    return Fleet(ansible, simulator("--vms", ",".join(PAIR), "--clock", "manual"), tmp_path)


@pytest.mark.hostile_text
def test_what_checkers_saw_is_merged_and_hosts_without_a_history_are_named_with_the_reason(fleet):
    need_program("ssh", package="openssh-client")
    for name in PAIR:
        fleet.add_checker(name)
    event = fleet.simulator.announce("Reboot", *PAIR, description=HOSTILE, notice=900, started_for=60)
    fleet.check(*PAIR)
    fleet.simulator.control("POST", "/simulator/clock", {"advance": 901})
    fleet.check("web-1")
    fleet.simulator.control("POST", "/simulator/clock", {"advance": 61})
    fleet.check(*PAIR)
    fleet.add("bare")
    fleet.add("old", """#!/bin/sh\necho '{"events": []}'\n""")
    fleet.add("hurt", "#!/bin/sh\necho '{{ 7*7 }}'\n")
    fleet.add("db-9", ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1)
    with fleet.inventory.open("a") as inventory:
        inventory.write(windows.host("win-1", ansible_shell_type="powershell"))
    env = {**windows.settings(), "ANSIBLE_SHOW_CUSTOM_STATS": "true"}
    precious = set_traps(fleet.dir, "history")
    run = fleet.history(env=env)
    assert run.code == 0, run.out + run.err
    assert precious.read_text() == "precious"
    assert {path.name for path in fleet.dir.iterdir()} == {*FILES, "history-parts"}
    assert fleet.hosts() == {
        "web-1": ("told", None),
        "web-2": ("told", None),
        "bare": ("no_checker", "no_checker"),
        "old": ("other_version", "no_history"),
        "hurt": ("damaged", "not_json"),
        "db-9": ("unreachable", "unreachable"),
        "win-1": ("no_checker", "windows"),
    }
    (told,) = fleet.written()["events"]
    assert told["event_id"] == event
    assert told["description"] == HOSTILE
    assert told["outcome"] == "completed"
    assert [vm["host"] for vm in told["vms"]] == ["web-1", "web-2"]
    assert told["documented_notice_seconds"] == 900
    said = on_one_line(run.out)
    assert "7 hosts asked: 2 with a history, 1 with a damaged one, 2 without a checker" in said
    assert f"Written: {fleet.dir}/history.html" in said
    assert '"events": 1' in said.split("CUSTOM STATS", 1)[1]
    with open(fleet.dir / "history.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["host"] for row in rows] == ["web-1", "web-2", "bare", "old", "hurt", "db-9", "win-1"]
    assert {row["description"] for row in rows[:2]} == {"'" + HOSTILE.replace("\u202e", r"\u202e")}
    html = (fleet.dir / "history.html").read_text(encoding="utf-8")
    assert "<script" not in html
    assert "=1+1 {{ 7*7 }} {% raw %} {# gone #} &lt;/script&gt;&lt;script&gt;" in html
    assert r"\=1+1 {{ 7\*7 }} {% raw %}" in (fleet.dir / "history.md").read_text(encoding="utf-8")
    # A rehearsal tells nothing of Azure.
    run = fleet.history("--limit", "web-1,web-2", fleet_history_simulated="")
    assert run.code == 0, run.out
    assert (fleet.written()["events"], fleet.written()["counts"]["simulated"]) == ([], 2)
    # Nothing is left of what the same folder had of other hosts.
    assert set(fleet.hosts()) == set(PAIR)


@pytest.mark.matrix
def test_a_state_that_is_damaged_is_named_with_the_events_that_can_be_read(fleet):
    fleet.add_checker("web-1")
    fleet.simulator.announce("Reboot", "web-1")
    fleet.check("web-1")
    event = fleet.simulator.announce("Freeze", "web-1")
    fleet.check("web-1")
    with sqlite3.connect(fleet.folder / "web-1" / "state" / "state.db") as state:
        state.execute("UPDATE event SET content = '{', key = '' WHERE number = 1")
        state.execute("UPDATE history SET content = '{' WHERE key = (SELECT MIN(key) FROM history)")
    run = fleet.history()
    assert run.code == 0, run.out
    assert fleet.hosts() == {"web-1": ("damaged", "damaged")}
    assert event in {each["event_id"] for each in fleet.written()["events"]}
    assert "Records of the state are damaged, and are left out." in on_one_line(run.out)


@pytest.mark.matrix
@pytest.mark.release
def test_slices_write_their_parts_and_a_last_run_merges_them_and_asks_nobody(fleet):
    for name in PAIR:
        fleet.add_checker(name)
    event = fleet.simulator.announce("Reboot", *PAIR)
    fleet.check(*PAIR)
    for number, name in enumerate(PAIR):
        run = fleet.history("--limit", name, fleet_history_mode="part", awx_job_id=40 + number)
        assert run.code == 0, run.out
        assert f"Written: {fleet.dir}/history-parts/job-{40 + number}.json" in on_one_line(run.out)
    fleet.add("late")
    os.mkfifo(fleet.dir / "history-parts" / "other.json")
    run = fleet.history(fleet_history_mode="merge")
    assert run.code == 0, run.out
    assert fleet.hosts() == {"web-1": ("told", None), "web-2": ("told", None), "late": ("not_asked", "no_part")}
    assert [(each["event_id"], len(each["vms"])) for each in fleet.written()["events"]] == [(event, 2)]
    part = fleet.dir / "history-parts" / "job-40.json"
    part.write_text(json.dumps({**json.loads(part.read_text()), "asked_at": "2026-01-01T10:00:00Z"}))
    for max_age, state in ((None, "not_asked"), (0, "told")):
        run = fleet.history(fleet_history_mode="merge", fleet_history_max_age=max_age)
        assert run.code == 0, run.out
        assert fleet.hosts()["web-1"][0] == state
    part.write_text(json.dumps({**json.loads(part.read_text()), "version": 0}))
    run = fleet.history(fleet_history_mode="merge", fleet_history_max_age=0)
    assert run.code != 0
    assert "holds histories of another version of the collection" in on_one_line(run.out + run.err)


def test_check_mode_reads_and_tells_and_writes_nothing(fleet):
    fleet.add_checker("web-1")
    fleet.simulator.announce("Reboot", "web-1")
    fleet.check("web-1")
    run = fleet.history("--check", "--diff")
    assert run.code == 0, run.out
    assert "1 event: 0 completed, 0 withdrawn, 1 open." in run.out
    assert "Nothing is written in check mode." in run.out
    assert not fleet.dir.exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        # All that is refused is in the test_settings.py of the reports.
        ({"fleet_history_mode": "html"}, "fleet_history_mode must be report, part or merge, not html."),
        # Not as if it were left out
        pytest.param({"fleet_history_simulated": "{{ typo }}"}, "'typo' is undefined", marks=pytest.mark.matrix),
        pytest.param(
            {"fleet_history_dir": "/proc/sys"},
            "fleet_history_dir: /proc/sys cannot be written (",
            marks=pytest.mark.matrix,
        ),
        pytest.param({"target": ""}, "target is empty", marks=pytest.mark.matrix),
        ({"target": "nobody"}, "nobody"),
        pytest.param({"fleet_history_mode": "merge"}, "There is no part in", marks=pytest.mark.matrix),
    ],
)
def test_a_wrong_setting_is_told_before_any_host_is_asked(fleet, wrong, said):
    asked = fleet.folder / "asked"
    fleet.add("web-1", f"#!/bin/sh\ntouch {asked}\n")
    run = fleet.history(**wrong)
    assert run.code != 0
    assert said in on_one_line(run.out + run.err)
    assert ("_part must be set" in run.out) == ("_part must be set" in said), "what is not wrong is not told"
    assert not asked.exists()
