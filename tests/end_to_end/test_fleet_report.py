# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/fleet_report.yml as a person or AWX runs it: whom it asks, what it writes where, and what it says."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from datetime import datetime

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import on_one_line, set_traps
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program

REPORT = "fleetops.azure_maintenance.fleet_report"
VMS = ("web-1", "web-2")
FILES = {"report.json", "report.csv", "report.md", "report.html"}
HOSTILE = "=1+1 {{ 7*7 }} {% raw %} {# gone #} </script><script>alert(1)</script> | \u202e"
EMPTY_SURVEY = {
    "fleet_report_dir": "",
    "fleet_report_mode": "",
    "fleet_report_part": "",
    "fleet_report_max_age": "",
    "fleet_report_fail_within": "",
    "fleet_report_warn_after": "",
    "fleet_report_resource_graph": "",
    "azure_maintenance_endpoint": "",
}


class Fleet:
    """Two simulated VMs, a host that cannot be reached, and one that is not on Azure."""

    def __init__(self, ansible, simulator, folder):
        need_program("ssh", package="openssh-client")
        self.simulator = simulator
        # Brackets and a blank mean something else to a shell and in a pattern.
        self.dir = folder / "out [1]"
        self._ansible = ansible
        self.inventory = folder / "hosts.ini"
        self.announce = simulator.announce
        self.asked = simulator.asked
        # No ssh server listens on port 1; laptop sees the endpoint where nothing listens.
        self.inventory.write_text(
            simulator.inventory(VMS, folder)
            + "db-9 ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1\n"
            + f"laptop ansible_connection=local ansible_python_interpreter={sys.executable}\n"
        )

    def report(self, *argv, env=None, **extra_vars):
        extra_vars.setdefault("fleet_report_dir", str(self.dir))
        command = ["ansible-playbook", "-i", str(self.inventory), REPORT, "-e", json.dumps(extra_vars), *argv]
        return self._ansible(*command, env=env)

    def written(self):
        return json.loads((self.dir / "report.json").read_text(encoding="utf-8"))

    def states(self):
        return {host["host"]: host["state"] for host in self.written()["hosts"]}


@pytest.fixture
def fleet(ansible, simulator, tmp_path):
    return Fleet(ansible, simulator("--vms", ",".join(VMS), "--clock", "manual"), tmp_path)


def test_p13_an_answer_is_no_younger_than_the_begin_of_the_run(fleet):
    slow = fleet.inventory.with_name("slow-python")
    slow.write_text(f'#!/bin/sh\nsleep 3\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    fleet.inventory.write_text(f"slow ansible_connection=local ansible_python_interpreter={slow}\n")
    assert fleet.report().code == 0
    first, written = (datetime.fromisoformat(fleet.written()[name][:-1]) for name in ("asked_from", "generated_at"))
    assert (written - first).total_seconds() >= 3


@pytest.mark.matrix
def test_p13_where_the_metadata_service_fails_the_report_has_its_words_and_not_those_of_the_time_limit(fleet):
    fleet.simulator.control("POST", "/simulator/faults", {"fault": "status", "status": 500})
    run = fleet.report("--limit", "web-1", fleet_report_ask_timeout=14)
    assert run.code == 0, run.out + run.err
    (host,) = fleet.written()["hosts"]
    assert (host["reason"], "answered HTTP 500" in host["message"]) == ("http_status", True), host


@pytest.mark.hostile_text
@pytest.mark.matrix
def test_hosts_that_cannot_be_asked_are_named_and_text_of_azure_arrives_as_it_is_and_is_never_a_template(fleet):
    event = fleet.announce("Reboot", "web-1", description=HOSTILE)
    with fleet.inventory.open("a") as inventory:
        inventory.write("bare ansible_connection=local ansible_python_interpreter=/no/python3\n")
    precious = set_traps(fleet.dir, "report")
    run = fleet.report(env={"ANSIBLE_SHOW_CUSTOM_STATS": "true"})
    assert run.code == 0, run.out
    assert precious.read_text() == "precious"
    assert {path.name for path in fleet.dir.iterdir()} == {*FILES, "parts"}
    assert fleet.states() == {
        "web-1": "affected",
        "web-2": "quiet",
        "db-9": "unreachable",
        "laptop": "not_on_azure",
        "bare": "failed",
    }
    hosts = {host["host"]: host for host in fleet.written()["hosts"]}
    assert "Connection refused" in hosts["db-9"]["message"]
    assert hosts["laptop"]["reason"] == "unreachable"
    assert "Nothing answers at http://127.0.0.1:9" in hosts["laptop"]["message"]
    # Its shell said that.
    assert hosts["bare"]["reason"] == "module_failed"
    assert "/no/python3" in hosts["bare"]["message"]
    (told,) = fleet.written()["events"]
    assert (told["event_id"], told["vms"]) == (event, [{"resource": "web-1", "host": "web-1"}])
    said = "5 hosts asked: 1 affected, 1 quiet, 1 unreachable, 1 not on Azure, 1 without a usable answer."
    assert said in on_one_line(run.out)
    assert f"Written: {fleet.dir}/report.html" in run.out
    stats = on_one_line(run.out.split("CUSTOM STATS", 1)[1])
    assert '"asked": 5' in stats
    assert '"affected": 1' in stats
    assert told["description"] == HOSTILE
    with open(fleet.dir / "report.csv", encoding="utf-8", newline="") as file:
        (description,) = {row["description"] for row in csv.DictReader(file)} - {""}
    assert description == "'" + HOSTILE.replace("\u202e", r"\u202e")
    html = (fleet.dir / "report.html").read_text(encoding="utf-8")
    assert html.count("<script>") == 1
    assert "bare" in html
    shown = "=1+1 {{ 7*7 }} {% raw %} {# gone #} &lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt; | \\u202e"
    assert f">{shown}<" in html
    markdown = (fleet.dir / "report.md").read_text(encoding="utf-8")
    assert r"| \=1+1 {{ 7\*7 }} {% raw %} {# gone #} &lt;/script&gt;" in markdown


@pytest.mark.matrix
def test_check_mode_asks_and_tells_and_writes_nothing(fleet):
    fleet.announce("Reboot", "web-1")
    run = fleet.report("--check", "--diff", target="web-*")
    assert run.code == 0, run.out
    assert fleet.asked() == set(VMS)
    assert "2 hosts asked: 1 affected, 1 quiet" in run.out
    assert "Nothing is written in check mode." in run.out
    assert not fleet.dir.exists()


@pytest.mark.parametrize(
    ("where", "argv"),
    [
        ("a file", ()),
        pytest.param("a file", ("--check",), marks=pytest.mark.matrix),
        pytest.param("/proc/sys", (), marks=pytest.mark.matrix),
        ("/proc/sys", ("--check",)),
    ],
)
def test_a_folder_that_cannot_be_written_is_told_before_any_host_is_asked(fleet, where, argv):
    # Not even root can make a folder in /proc.
    folder = fleet.dir if where == "a file" else where
    if where == "a file":
        fleet.dir.write_text("a file")
    run = fleet.report(*argv, fleet_report_dir=str(folder))
    assert run.code != 0
    said = on_one_line(run.out + run.err)
    assert f"fleet_report_dir: {folder} cannot be written (" in said
    assert "No host was asked." in said
    assert fleet.asked() == set()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        # All that is refused is in the test_settings.py of the reports.
        ({"fleet_report_mode": "html"}, "fleet_report_mode must be report, part or merge, not html."),
        # Not as if it were left out
        pytest.param({"fleet_report_fail_within": "{{ typo }}"}, "'typo' is undefined", marks=pytest.mark.matrix),
        ({"fleet_report_mode": "part"}, "fleet_report_part must be set: a name"),
    ],
)
@pytest.mark.releases
def test_a_wrong_setting_is_told_before_any_host_is_asked(fleet, wrong, said):
    run = fleet.report(**wrong)
    assert run.code != 0
    assert said in on_one_line(run.out + run.err)
    assert ("_part must be set" in run.out) == ("_part must be set" in said), "what is not wrong is not told"
    assert fleet.asked() == set()
    assert not fleet.dir.exists()


@pytest.mark.release
def test_an_empty_survey_in_a_project_of_ones_own_writes_to_the_home_folder_and_not_to_the_project(
    fleet, ansible, tmp_path
):
    project = tmp_path / "project"
    project.mkdir()
    (project / "site.yml").write_text(f"- import_playbook: {REPORT}\n")
    survey = json.dumps(EMPTY_SURVEY)
    command = ["ansible-playbook", "-i", str(fleet.inventory), "site.yml", "--limit", "web-2", "-e", survey]
    run = ansible(*command, cwd=project)
    assert run.code == 0, run.out
    assert fleet.asked() == {"web-2"}
    assert [path.name for path in project.iterdir()] == ["site.yml"]
    written = tmp_path / "home" / "fleet-report"
    assert {path.name for path in written.iterdir()} == {*FILES, "parts"}
    assert "It warns after 15 min (<code>fleet_report_warn_after</code>)." in (written / "report.html").read_text()


@pytest.mark.matrix
@pytest.mark.releases
@pytest.mark.parametrize("left_out", VMS)
@pytest.mark.parametrize("playbook", ["fleet_report", "fleet_history", "approve"])
def test_p13_a_condition_at_import_playbook_makes_no_playbook_end_well_that_did_nothing(
    fleet, ansible, tmp_path, playbook, left_out
):
    """The first host decides for all, and where the condition leaves it out nobody does."""
    play = {"import_playbook": f"fleetops.azure_maintenance.{playbook}", "when": f"inventory_hostname != '{left_out}'"}
    (tmp_path / "site.json").write_text(json.dumps([play]))
    settings = {"target": "web-*", "approve_event_types": ["Reboot"], f"{playbook}_dir": str(fleet.dir)}
    given = ["-i", str(fleet.inventory), "-e", json.dumps(settings)]
    run = ansible("ansible-playbook", *given, str(tmp_path / "site.json"))
    # Where the first host takes part, approve does its work for all that do.
    refused = (playbook, left_out) != ("approve", VMS[1])
    assert run.code == (2 if refused else 0), run.out + run.err
    assert ("when must not " in on_one_line(run.out + run.err)) is refused
    assert not fleet.dir.exists()


@pytest.mark.matrix
def test_p13_a_misspelled_variable_is_refused_and_nobody_is_asked(fleet):
    run = fleet.report(fleet_report_fail_withn=600)
    assert run.code == 2, run.out
    assert "Is fleet_report_fail_within meant? No host was asked." in on_one_line(run.out)
    assert fleet.asked() == set()


_OF_REPORT = "No host was asked. Start the run without --tags, --skip-tags and --start-at-task."
NOT_BEGUN = {
    "fleet_report": _OF_REPORT,
    "fleet_history": _OF_REPORT,
    "approve": "Nothing was approved. Start the run without --tags, --skip-tags and --start-at-task.",
}


@pytest.mark.matrix
@pytest.mark.releases
@pytest.mark.parametrize("arguments", [("--tags", "web"), ("--skip-tags", "untagged")], ids=" ".join)
@pytest.mark.parametrize("playbook", ["fleet_report", "fleet_history", "approve"])
def test_p13_tags_by_which_ansible_leaves_out_the_tasks_make_no_playbook_end_well_that_did_nothing(
    fleet, ansible, playbook, arguments
):
    settings = {"target": "web-*", "approve_event_types": ["Reboot"], f"{playbook}_dir": str(fleet.dir)}
    given = ["-i", str(fleet.inventory), "-e", json.dumps(settings), *arguments]
    run = ansible("ansible-playbook", *given, f"fleetops.azure_maintenance.{playbook}")
    assert run.code == 2, run.out + run.err
    said = on_one_line(run.out + run.err)
    assert NOT_BEGUN[playbook] in said
    assert fleet.asked() == set()
    assert not fleet.dir.exists()


@pytest.mark.matrix
@pytest.mark.releases
@pytest.mark.parametrize("playbook", ["fleet_report", "fleet_history", "approve"])
def test_p13_a_run_that_would_leave_out_the_task_that_must_not_be_left_out_is_refused(fleet, ansible, playbook):
    settings = {"target": "web-*", "approve_event_types": ["Reboot"], f"{playbook}_dir": str(fleet.dir)}
    given = ["-i", str(fleet.inventory), "-e", json.dumps(settings), "--skip-tags", "always"]
    run = ansible("ansible-playbook", *given, f"fleetops.azure_maintenance.{playbook}")
    assert run.code == 2, run.out + run.err
    said = on_one_line(run.out + run.err)
    assert "With --skip-tags always Ansible leaves out the task that " in said
    assert "is undefined" not in said
    assert fleet.asked() == set()
    assert not fleet.dir.exists()


@pytest.mark.matrix
@pytest.mark.releases
@pytest.mark.parametrize(
    ("playbook", "task"),
    [
        ("fleet_report", "Ask"),
        ("fleet_report", "Write the report"),
        ("fleet_report", "Show the coming events"),
        ("fleet_report", "Fail where something is due, or nothing is known"),
        ("fleet_history", "Ask"),
        ("fleet_history", "Write the history"),
        ("fleet_history", "Show the totals"),
        ("approve", "Check the settings of time"),
        ("approve", "Look which events may be approved"),
        ("approve", "Decide which host approves which events"),
        ("approve", "Check that each id names one event"),
        ("approve", "Approve the selected events"),
        ("approve", "Show the approvals"),
        ("approve", "Fail where an id was named that no VM lists"),
    ],
)
def test_p13_a_run_that_begins_in_the_middle_says_so(fleet, ansible, playbook, task):
    settings = {"target": "web-*", "approve_event_types": ["Reboot"], f"{playbook}_dir": str(fleet.dir)}
    given = ["-i", str(fleet.inventory), "-e", json.dumps(settings), "--start-at-task", task]
    run = ansible("ansible-playbook", *given, f"fleetops.azure_maintenance.{playbook}")
    assert run.code == 2, run.out + run.err
    said = on_one_line(run.out + run.err)
    assert NOT_BEGUN[playbook] in said
    assert "' is undefined" not in said
    assert fleet.asked() == set()
    assert not fleet.dir.exists()


@pytest.mark.matrix
def test_where_no_host_answers_the_report_says_that_nothing_is_known(fleet):
    run = fleet.report(target="db-9")
    assert run.code == 0, run.out
    assert fleet.states() == {"db-9": "unreachable"}
    assert "No VM answered, so nothing is known of any maintenance." in run.out


@pytest.mark.matrix
def test_p13_a_run_that_is_to_fail_when_something_is_due_fails_where_nothing_is_known(fleet):
    """A monitoring that looks at exit statuses took the silence of all VMs for no event."""
    run = fleet.report(target="db-9", fleet_report_fail_within=600)
    assert run.code == 2, run.out
    assert on_one_line(run.out).count("No VM answered, so nothing is known of any maintenance.") > 1
    assert fleet.states() == {"db-9": "unreachable"}
    # One answer is one, and the others are named.
    run = fleet.report(target="db-9,web-1", fleet_report_fail_within=600)
    assert run.code == 0, run.out


@pytest.mark.matrix
@pytest.mark.release
def test_slices_write_their_parts_and_a_last_run_merges_them_and_asks_nobody(fleet):
    """A part of another version is told; one that is too old anyway hinders no merge, and is deleted after a week.

    The merge fails where something is due, and no part does.
    """
    event = fleet.announce("Reboot", "web-1", "web-2", notice=900)
    for number, limit in enumerate(("web-1,db-9", "web-2"), start=1):
        # AWX hands the number of the job to each slice.
        slice_of_job = {"fleet_report_mode": "part", "awx_job_id": 40 + number, "fleet_report_fail_within": 1000}
        run = fleet.report("--limit", limit, **slice_of_job)
        assert run.code == 0, run.out
        assert f"Written: {fleet.dir}/parts/job-{40 + number}.json" in run.out
    asked = len(fleet.simulator.control("GET", "/simulator/journal")["requests"])
    parts = fleet.dir / "parts"
    old = {**json.loads((parts / "job-41.json").read_text()), "version": 0}

    (parts / "old.json").write_text(json.dumps(old))
    run = fleet.report(fleet_report_mode="merge")
    assert run.code != 0
    said = on_one_line(run.out + run.err)
    assert "old.json holds results of another version of the collection" in said
    assert "run that slice again with the same version as the merge" in said
    assert {path.name for path in fleet.dir.iterdir()} == {"parts"}

    (parts / "old.json").unlink()
    for name in ("hours", "weeks"):
        stale = {**old, "asked_at": "2026-01-01T10:00:00Z", "name": name}
        (parts / f"{name}.json").write_text(json.dumps(stale))
    os.utime(parts / "weeks.json", (0, 0))
    run = fleet.report(fleet_report_mode="merge")
    assert run.code == 0, run.out
    assert len(fleet.simulator.control("GET", "/simulator/journal")["requests"]) == asked
    assert fleet.states() == {"web-1": "affected", "db-9": "unreachable", "web-2": "affected", "laptop": "not_asked"}
    (told,) = fleet.written()["events"]
    assert (told["event_id"], told["told_by"], told["contradictions"]) == (event, ["web-1", "web-2"], [])
    assert fleet.written()["left_out_parts"] == ["hours", "weeks"]
    assert {path.name for path in parts.iterdir()} == {"job-41.json", "job-42.json", "hours.json"}
    assert "fleet_report_warn_after" in (fleet.dir / "report.html").read_text()
    run = fleet.report(fleet_report_mode="merge", fleet_report_warn_after=0, fleet_report_fail_within=1000)
    assert run.code == 2
    assert f"Due within 1000 s: Reboot {event}" in on_one_line(run.out)
    assert "fleet_report_warn_after" not in (fleet.dir / "report.html").read_text()


@pytest.mark.parametrize("arguments", [[], ["--check"]], ids=["", "check mode creates no folder"])
def test_a_merge_without_parts_is_told(fleet, arguments):
    run = fleet.report(*arguments, fleet_report_mode="merge")
    assert run.code != 0
    assert f"There is no part in {fleet.dir}/parts to merge: run the slices first" in on_one_line(run.out + run.err)


@pytest.mark.matrix
def test_a_run_that_is_to_fail_when_something_is_due_writes_its_report_first(fleet):
    reboot = fleet.announce("Reboot", "web-1", notice=900)
    frozen = fleet.announce("Freeze", "web-2", notice=3600)
    run = fleet.report(target="web-1,web-2", fleet_report_fail_within=600)
    assert run.code == 0, run.out
    run = fleet.report("--check", target="web-1,web-2", fleet_report_fail_within="1000")
    assert run.code == 2, run.out
    (fleet.dir / "report.json").unlink()
    run = fleet.report(target="web-1,web-2", fleet_report_fail_within="3600")
    assert run.code == 2, run.out
    said = on_one_line(run.out)
    assert re.search(rf"Due within 3600 s: Reboot {reboot} in [^:]*: web-1; Freeze {frozen} in [^:]*: web-2\.", said)
    assert len(fleet.written()["events"]) == 2
    run = fleet.report(target="web-1", fleet_report_fail_within="soon")
    assert "fleet_report_fail_within must be a number of seconds, not soon." in on_one_line(run.out)


@pytest.mark.matrix
@pytest.mark.release
def test_no_seconds_are_an_answer_also_as_a_number(fleet):
    """With -e NAME=0 it is a string; in YAML, JSON and a survey of AWX it is a number."""
    event = fleet.announce("Reboot", "web-1", event_status="Started", started_for=1000)
    run = fleet.report(target="web-1", fleet_report_fail_within=0, fleet_report_max_age=None)
    assert run.code == 2, run.out
    assert f"Due within 0 s: Reboot {event} started: web-1." in on_one_line(run.out)
    part = fleet.dir / "parts" / "whole.json"
    part.write_text(json.dumps({**json.loads(part.read_text()), "asked_at": "2026-01-01T10:00:00Z"}))
    settings = {"fleet_report_fail_within": None, "fleet_report_max_age": 0, "fleet_report_warn_after": None}
    run = fleet.report(target="web-1", fleet_report_mode="merge", **settings)
    assert run.code == 0, run.out
    assert fleet.states() == {"web-1": "affected"}
    assert "It warns after 15 min" in (fleet.dir / "report.html").read_text()


@pytest.mark.matrix
@pytest.mark.hostile_text
def test_a_run_that_fails_because_something_is_due_takes_text_of_azure_as_text(fleet):
    event = fleet.announce("Freeze", "web-2", notice=3600, description=HOSTILE)
    run = fleet.report(target="web-2", fleet_report_fail_within="3600")
    assert run.code == 2, run.out
    assert re.search(rf"Due within 3600 s: Freeze {event} in [^:]*: web-2\.", on_one_line(run.out))


@pytest.mark.matrix
@pytest.mark.releases
def test_a_host_whose_endpoint_cannot_be_told_is_not_asked_at_azures_address(fleet):
    """An inventory has the variable for some hosts only; what a rehearsal asks must not be the real service."""
    with fleet.inventory.open("a") as inventory:
        inventory.write(f"[all:vars]\nansible_python_interpreter={sys.executable}\n[known]\nweb-1\n")
        inventory.write(f"[known:vars]\nazure={fleet.simulator.url}\n")
    run = fleet.report(target="web-1,laptop", azure_maintenance_endpoint="{{ azure }}/vm/{{ inventory_hostname }}")
    assert run.code == 0, run.out
    assert fleet.states() == {"web-1": "quiet", "laptop": "failed"}
    (message,) = [host["message"] for host in fleet.written()["hosts"] if host["host"] == "laptop"]
    assert "'azure' is undefined" in message
