# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback plugin fleet and the ad hoc commands of the guide: what they print, and what Azure received."""

from __future__ import annotations

import json
import re
import shlex
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.callback import fleet as fleet_callback
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.host_results import read_answer
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program

INFO = "fleetops.azure_maintenance.scheduled_events_info"
GUIDE = (Path(__file__).resolve().parents[2] / "docs/docsite/rst/guide_asking.rst").read_text(encoding="utf-8")
WITHOUT_A_VM = GUIDE.split("\nWithout a VM\n", 1)[1].split("\nApprove\n---", 1)[0]
AD_HOC = GUIDE.split("\nAd hoc\n---", 1)[1].split("\nWithout a VM\n", 1)[0]
SWITCHED_ON = {"ANSIBLE_LOAD_CALLBACK_PLUGINS": "1", "ANSIBLE_STDOUT_CALLBACK": "fleetops.azure_maintenance.fleet"}


def blocks(language, text=AD_HOC):
    found = re.findall(rf"^\.\. code-block:: {language}\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    return [textwrap.dedent(block).strip() + "\n" for block in found]


COMMANDS = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
EXPORTS = [command for command in COMMANDS if command.startswith("export ")]
ONE_LINERS = [command for command in COMMANDS if command not in EXPORTS]


class Fleet:
    """Six hosts of a group web: four simulated VMs, one that cannot be reached, one that is not on Azure."""

    def __init__(self, ansible, simulator, folder):
        self.simulator = simulator
        self.folder = folder
        self._ansible = ansible
        lines = ["[web]"]
        for vm in ("web-1", "web-2", "web-3", "web-4"):
            python = folder / f"python-of-{vm}"
            python.write_text(
                f'#!/bin/sh\nAZURE_IMDS_ENDPOINT={simulator.endpoint(vm)} exec {shlex.quote(sys.executable)} "$@"\n'
            )
            python.chmod(0o755)
            lines.append(f"{vm} ansible_python_interpreter={python}")
        # Nobody can make a folder there, which Ansible takes for a connection that does not work.
        lines.append("web-5 ansible_remote_tmp=/proc/nowhere")
        # Sees the endpoint where nothing listens.
        lines.append(f"web-6 ansible_python_interpreter={sys.executable}")
        lines += ["[web:vars]", "ansible_connection=local"]
        (folder / "hosts.ini").write_text("\n".join(lines) + "\n")

    def announce(self, event_type, *resources, **more):
        event = {"event_type": event_type, "resources": list(resources), **more}
        return self.simulator.control("POST", "/simulator/events", event)["event_id"]

    def run(self, *argv, **env):
        inventory = str(self.folder / "hosts.ini")
        return self._ansible(*argv, cwd=self.folder, env={"ANSIBLE_INVENTORY": inventory, "COLUMNS": "80", **env})

    def as_written(self, command):
        """Run a command of the guide in the shell, after the exports that it shows."""
        return self.run("sh", "-c", "\n".join([*EXPORTS, command]))

    def ask(self, *argv, **env):
        return self.run("ansible", "web", "-m", INFO, *argv, **SWITCHED_ON, **env)

    def play(self, tasks, *argv, keywords=None, **env):
        play = {"hosts": "web", "gather_facts": False, "tasks": tasks, **(keywords or {})}
        (self.folder / "play.yml").write_text(json.dumps([play]))
        return self.run("ansible-playbook", "play.yml", *argv, **SWITCHED_ON, **env)


@pytest.fixture
def fleet(ansible, simulator, tmp_path):
    return Fleet(ansible, simulator("--vms", "web-1,web-2,web-3,web-4,db-1", "--clock", "manual"), tmp_path)


def shape(text):
    """Return the lines without what differs from run to run: times, ids, reasons in full, and the widths they take."""
    text = re.sub(r"\bin \d+ min( \d+ s)?(?=  )", "in TIME", text)
    text = re.sub(r"\b\d\d-\d\d \d\d:\d\d\b", "WHEN", text)
    text = re.sub(r"\b[0-9A-F]{8}\b(?=  )", "ID", text)
    text = re.sub(r"(unreachable|not on Azure): .*(\n {4,}.*)*", r"\1: REASON", text)
    return [re.sub(r"(?<=\S) {2,}", "  ", line) for line in text.strip().splitlines()]


def announce_both(fleet):
    reboot = fleet.announce("Reboot", "web-1", "web-2")
    freeze = fleet.announce("Freeze", "web-3", notice=600, duration_seconds=9)
    return reboot, freeze


def test_the_guide_shows_the_commands_that_these_tests_run():
    assert len(EXPORTS) == 1
    assert [re.sub(r"\S*fleetops\.azure_maintenance\.", "", command) for command in ONE_LINERS] == [
        "ansible web -m scheduled_events_info",
        "ansible web -m scheduled_events_info -a due_within=3600",
        "ansible web -m scheduled_events_info -a 'event_types=Preempt scope=all'",
        "ansible web -m scheduled_event_approve -a event_sources=User",
    ]


@pytest.mark.matrix
def test_one_answer_a_host_as_the_guide_writes_it(fleet):
    announce_both(fleet)
    # The guide has the exports for the next command.
    run = fleet.run("sh", "-c", ONE_LINERS[0])
    assert run.code == 4, run.err
    told = {
        each.split(" | ")[0]: each for each in re.split(r"^(?=\S+ \| )", run.out, flags=re.MULTILINE) if " | " in each
    }
    assert sorted(told) == ["web-1", "web-2", "web-3", "web-4", "web-5", "web-6"]
    assert '"msg": "web-1: Reboot Scheduled, may start in ' in told["web-1"]
    assert '"msg": "web-4: no such events (2 others in the document)"' in told["web-4"]


@pytest.mark.releases
def test_who_is_scheduled_within_the_hour_prints_what_the_guide_shows(fleet):
    announce_both(fleet)
    fleet.announce("Redeploy", "web-4", notice=7200)
    run = fleet.as_written(ONE_LINERS[1])
    assert run.code == 4, run.err
    (sample,) = blocks("text")
    assert shape(run.out) == shape(sample)
    assert max(map(len, run.out.splitlines())) <= 80
    assert max(map(len, sample.splitlines())) <= 80


@pytest.mark.matrix
def test_all_preempts_are_found_also_those_of_vms_outside_the_group(fleet):
    announce_both(fleet)
    fleet.announce("Preempt", "db-1", notice=300)
    fleet.announce("Preempt", "web-4", notice=600)
    run = fleet.as_written(ONE_LINERS[2])
    assert run.code == 4, run.err
    rows = [line.split() for line in run.out.splitlines() if "  Preempt  " in line]
    assert [row[-1] for row in rows] == ["db-1", "web-4"]
    assert "Reboot" not in run.out
    assert "\nAlso affected: db-1\n" in run.out
    assert "6 hosts asked: 3 quiet, 1 affected, 1 unreachable, 1 not on Azure, 0 failed" in run.out


def test_our_own_restarts_are_approved_and_no_others(fleet):
    ours = fleet.announce("Reboot", "web-1", event_source="User")
    announce_both(fleet)
    run = fleet.as_written(ONE_LINERS[3])
    assert run.code == 4, run.err
    assert re.search(r"^web-1 \| CHANGED => ", run.out, re.MULTILINE)
    assert re.search(r"^web-3 \| SUCCESS => ", run.out, re.MULTILINE)
    assert [(vm, body["StartRequests"]) for vm, body in fleet.simulator.posted()] == [("web-1", [{"EventId": ours}])]


@pytest.mark.releases
def test_ansible_cfg_switches_it_on_as_the_guide_says_and_one_setting_alone_does_not(fleet):
    settings = re.findall(r"`((?:bin_ansible_callbacks|stdout_callback) = [\w.]+)`", AD_HOC)
    assert len(settings) == 2
    printed = []
    for lines in (settings, settings[1:]):
        (fleet.folder / "ansible.cfg").write_text("\n".join(["[defaults]", *lines, ""]))
        printed.append(fleet.run("ansible", "web-1", "-m", INFO).out)
    assert printed[0].startswith("1 host asked: ")
    assert printed[1].startswith("web-1 | SUCCESS => {")


def test_an_empty_answer_is_not_quiet_and_its_warning_is_shown(fleet):
    fleet.simulator.control(
        "POST", "/simulator/faults", {"fault": "empty", "vms": ["web-1"], "path": "scheduledevents"}
    )
    run = fleet.ask("--limit", "web-1,web-2")
    assert "  web-1  failed: Azure answered with an empty body, no document" in run.out
    assert "2 hosts asked: 1 quiet, 0 affected, 0 unreachable, 0 not on Azure, 1 failed" in run.out
    assert "Azure answered with an empty body" in re.sub(r"\s+", " ", run.err)


@pytest.mark.releases
def test_text_from_azure_steers_no_terminal(fleet):
    event = {
        "EventId": "A-1",
        "EventType": "\x1b[2JReboot",
        "EventStatus": "Scheduled",
        "Resources": ["web-1", "b\r\nc"],
    }
    body = json.dumps({"DocumentIncarnation": 1, "Events": [event]})
    fleet.simulator.control("POST", "/simulator/faults", {"fault": "body", "body": body, "path": "scheduledevents"})
    run = fleet.ask("--limit", "web-1")
    assert "\x1b" not in run.out
    assert '  "\\u001b[2JReboot"  ' in run.out
    assert run.out.splitlines()[1].endswith('  "b\\r\\nc", web-1')


@pytest.mark.matrix
def test_verbose_shows_every_result_in_full_as_well(fleet):
    run = fleet.ask("-v", "--limit", "web-1")
    assert run.out.count("web-1 | SUCCESS => {") == 1
    assert run.out.endswith("1 host asked: 1 quiet, 0 affected, 0 unreachable, 0 not on Azure, 0 failed\n")


@pytest.mark.matrix
def test_another_module_ad_hoc_prints_what_it_prints_without_the_callback(fleet):
    argv = ("ansible", "web", "-m", "ansible.builtin.command", "-a", "printf hello", "--forks", "1")
    assert fleet.run(*argv, "--limit", "web-1", **SWITCHED_ON).out == "web-1 | CHANGED | rc=0 >>\nhello\n"
    assert "web-5 | UNREACHABLE! => {" in fleet.run(*argv, "--limit", "web-5", **SWITCHED_ON).out
    failing = fleet.run("ansible", "web-1", "-m", "ansible.builtin.fail", "-a", "msg=no", **SWITCHED_ON)
    assert re.search(r'web-1 \| FAILED! => \{.*"msg": "no"', failing.out, re.DOTALL)


ASK = {"name": "Ask", INFO: {}}
BREAK_WEB_3 = {
    "name": "Restart nginx",
    "ansible.builtin.shell": "printf 'first\\n\\033[31msecond' >&2; exit 3",
    "when": "inventory_hostname == 'web-3'",
}
SIX = "6 hosts asked: 1 quiet, 2 affected, 1 unreachable, 1 not on Azure, 1 failed"


@pytest.mark.matrix
def test_of_the_other_tasks_of_a_play_failures_are_told_and_successes_are_not(fleet):
    announce_both(fleet)
    run = fleet.play([{"name": "Rest", "ansible.builtin.command": "printf restful"}, BREAK_WEB_3, ASK])
    assert run.code == 4, run.err
    # ansible-core 2.21 puts words before "non-zero return code".
    failed = r"^web-3 \| Restart nginx \| FAILED: .*non-zero return code: rc=3: first \\u001b\[31msecond$"
    assert re.search(failed, run.out, re.MULTILINE)
    assert re.search(r"^web-5 \| Rest \| UNREACHABLE: .*Failed to create temporary directory", run.out, re.MULTILINE)
    assert "restful" not in run.out
    assert "PLAY" not in run.out
    assert re.search(r"^  web-3  failed: Restart nginx: .*non-zero return code:\s+rc=3", run.out, re.MULTILINE)
    assert "  web-5  unreachable: Rest: " in run.out
    assert SIX in run.out


@pytest.mark.releases
def test_a_host_without_python_is_told_with_what_its_shell_said_ad_hoc_and_in_a_play(fleet):
    with (fleet.folder / "hosts.ini").open("a") as inventory:
        inventory.write("[web]\nbare ansible_python_interpreter=/no/python3\n")
    asked = fleet.ask("--limit", "bare,web-1", COLUMNS="300").out
    played = fleet.play([ASK], "--limit", "bare,web-1", keywords={"gather_facts": True}, COLUMNS="300").out
    for printed in (asked, played):
        assert re.search(r"^  bare  failed: .*: rc=127: \S+: .*/no/python3: not found$", printed, re.MULTILINE)
        assert "2 hosts asked: 1 quiet, 0 affected, 0 unreachable, 0 not on Azure, 1 failed" in printed
    first, rest = played.split("\n\n", 1)
    assert re.fullmatch(r"bare \| Gathering Facts \| FAILED: .*: rc=127: .*/no/python3: not found", first)
    assert rest.startswith("No answer from:\n")


@pytest.mark.matrix
def test_a_failure_that_is_ignored_keeps_no_host_out_of_the_table(fleet):
    announce_both(fleet)
    run = fleet.play([{**BREAK_WEB_3, "ignore_errors": True}, ASK])
    assert "web-3 | Restart nginx | FAILED, ignored: " in run.out
    assert "6 hosts asked: 1 quiet, 3 affected, 1 unreachable, 1 not on Azure, 0 failed" in run.out


@pytest.mark.matrix
def test_a_host_that_a_query_leaves_out_is_not_named_for_a_failure_that_is_ignored(fleet):
    run = fleet.play([{**BREAK_WEB_3, "ignore_errors": True}, {**ASK, "run_once": True}], "--limit", "web-1,web-3")
    assert "1 host asked: 1 quiet, " in run.out


DEBUG = "ansible.builtin.debug"


@pytest.mark.matrix
@pytest.mark.releases
def test_what_debug_shows_is_shown_once_also_in_a_loop(fleet):
    loop = {DEBUG: {"msg": "item {{ item }}"}, "loop": [1, 2]}
    run = fleet.play([{DEBUG: {"msg": "once"}}, loop], "--limit", "web-1", "-v")
    assert run.code == 0, run.err
    assert re.findall(r'"msg": "(.*)"', run.out) == ["once", "item 1", "item 2"]


@pytest.mark.matrix
@pytest.mark.releases
def test_the_text_of_debug_is_printed_as_it_is_and_data_as_data(fleet):
    tasks = [
        {"name": "Say", DEBUG: {"msg": ["one \x1b[2J", "two\nthree"]}, "run_once": True},
        {"name": "Loop", DEBUG: {"msg": "item {{ item }}"}, "loop": [1, 2]},
        {"name": "Data", DEBUG: {"var": "[1]"}},
    ]
    run = fleet.play(tasks, "--limit", "web-1")
    assert run.code == 0, run.err
    text, _found, data = run.out.partition("web-1 | SUCCESS => ")
    told = ["Say:", "  one \\u001b[2J", "  two", "  three", "web-1 | Loop:", "  item 1", "web-1 | Loop:", "  item 2"]
    assert text.splitlines() == told
    assert "[1]" in data


@pytest.mark.matrix
def test_all_batches_of_a_play_make_one_table(fleet):
    announce_both(fleet)
    run = fleet.play([ASK], keywords={"serial": 2})
    assert re.findall(r".* asked: .*", run.out) == [
        "6 hosts asked: 1 quiet, 3 affected, 1 unreachable, 1 not on Azure, 0 failed"
    ]
    assert run.out.count("  Reboot  ") == 1


@pytest.mark.releases
def test_each_query_of_a_play_has_its_table_and_a_host_lost_between_is_named(fleet):
    announce_both(fleet)
    again = {"name": "Ask again", INFO: {"event_types": ["Freeze"]}}
    skipped = {"name": "Ask nobody", INFO: {}, "when": "false"}
    run = fleet.play([ASK, BREAK_WEB_3, skipped, again])
    first, second = run.out.split("Ask again:\n")
    assert "\nAsk:\nSTART  " in first
    assert "6 hosts asked: 1 quiet, 3 affected, 1 unreachable, 1 not on Azure, 0 failed\n" in first
    assert "Ask nobody" not in run.out
    assert "  web-3  failed: Restart nginx: " in second
    assert "6 hosts asked: 3 quiet, 0 affected, 1 unreachable, 1 not on Azure, 1 failed\n" in second


@pytest.mark.matrix
def test_a_loop_and_a_failure_that_the_play_forgives_are_read_like_others(fleet):
    announce_both(fleet)
    task = {
        "name": "Ask by type",
        INFO: {"event_types": "{{ item }}"},
        "loop": ["Freeze", "Reboot"],
        "register": "asked",
        "failed_when": False,
    }
    run = fleet.play([task], "--limit", "web-1,web-3,web-4,web-6")
    assert run.code == 0, run.err
    assert [len(re.findall(f"  {word}  ", run.out)) for word in ("Freeze", "Reboot")] == [1, 1]
    assert "4 hosts asked: 1 quiet, 2 affected, 0 unreachable, 1 not on Azure, 0 failed" in run.out


def test_the_answer_of_a_job_is_that_of_async_status(fleet):
    announce_both(fleet)
    run = fleet.play(
        [
            {INFO: {}, "async": 60, "poll": 0, "register": "job"},
            {
                "ansible.builtin.async_status": {"jid": "{{ job.ansible_job_id }}"},
                "when": "job.ansible_job_id is defined",
                "register": "answer",
                "until": "answer is finished",
                "retries": 100,
                "delay": 1,
            },
        ],
        keywords={"vars": {"ansible_async_dir": str(fleet.folder / "jobs")}},
    )
    assert "no answer and no reason" not in run.out, run.out
    assert "web-3" in run.out
    assert re.search(r"4 hosts asked|6 hosts asked: 1 quiet, 3 affected", run.out), run.out


# Which of them Ansible gives depends on a race between the job and who waits for it.
@pytest.mark.parametrize(
    ("said", "failed", "counts"),
    [
        ({"ansible_job_id": "j1", "msg": "Timeout exceeded"}, True, True),
        ({"msg": "async task did not complete within the requested time - 5s"}, True, True),
        ({"ansible_job_id": "j1", "started": 1}, False, False),
    ],
)
def test_p13_a_job_that_failed_is_a_query_without_an_answer(said, failed, counts):
    task = SimpleNamespace(resolved_action=INFO)
    assert fleet_callback._is_query(SimpleNamespace(_task=task, _result=said), failed) is counts


def answer_of(*ids, **more):
    """Return the answer of a VM to which these events were announced."""
    event = dict.fromkeys(("event_source", "description", "duration_seconds", "not_before"))
    event.update(event_type="Reboot", event_status="Scheduled", resources=["web-1"], affects_this_vm=True)
    events = [{**event, "event_id": each} for each in ids]
    return read_answer("web-1", {"resource_name": "web-1", "events": events, **more})


@pytest.mark.parametrize(
    ("answers", "shown"),
    [
        ([answer_of(), answer_of("A-1")], ["A-1"]),
        ([answer_of("A-1"), answer_of("a-1", "A-2"), answer_of()], ["A-1", "A-2"]),
        # Some VMs get an empty body where there is no event.
        ([answer_of(document_received=False), answer_of("A-1"), answer_of(document_received=False)], ["A-1"]),
    ],
)
def test_p16_an_event_that_is_announced_during_a_response_is_in_its_table(answers, shown):
    response = fleet_callback.Response()
    for answer in answers:
        response.take("web-1", answer)
    (told,) = response.all_answers()
    assert (told["state"], told["reason"], [event["event_id"] for event in told["events"]]) == ("affected", None, shown)


@pytest.mark.parametrize("events", [3, "3", {"A-1": 1}, None, ["A-1"], [{"outcome": "completed"}]])
def test_numbers_of_somebody_else_by_the_name_of_a_response_do_no_harm(events):
    response = fleet_callback.Response()
    response.conclude({"events": events})
    response.take("web-1", answer_of("A-1"))
    assert response.outcomes.get("a-1") is None


def test_text_from_azure_in_the_fault_of_a_query_steers_no_terminal(fleet):
    fleet.announce("Reboot", "web-1", description="\x1b[31mred\x1b]0;title\x07")
    query = {INFO: {"query": "abs(events[-1].description)"}}
    (fleet.folder / "query.json").write_text(json.dumps([{"hosts": "web-1", "gather_facts": False, "tasks": [query]}]))
    # By Ansible's own callback, which prints the message as it is
    run = fleet.run("ansible-playbook", "query.json")
    assert run.code == 2
    assert "cannot be applied to the answer" in " ".join((run.out + run.err).split())
    assert "\x1b]0" not in run.out + run.err
    assert "\x07" not in run.out + run.err


def test_a_play_without_a_query_prints_no_table(fleet):
    run = fleet.play([{"ansible.builtin.command": "true"}], "--limit", "web-1")
    assert (run.code, run.out) == (0, "")


def test_i5_after_a_response_the_table_says_what_became_of_the_events_and_names_no_other_ones(fleet):
    over = fleet.announce("Reboot", "web-1", "web-2", start_delay=0, started_for=0, description="Rack 7 is serviced.")
    fleet.announce("Freeze", "web-3", notice=900)
    (fleet.folder / "prepare.yml").write_text(json.dumps([{"ansible.builtin.debug": {"msg": "drained"}}]))
    variables = {"event_response_event_types": "Reboot", "event_response_prepare": str(fleet.folder / "prepare.yml")}
    argv = ("fleetops.azure_maintenance.respond", "--limit", "web-1,web-2,web-4", "-e", json.dumps(variables))
    run = fleet.run("ansible-playbook", *argv, **SWITCHED_ON, COLUMNS="200")
    assert run.code == 0, run.out + run.err
    heading, row, rest = run.out[run.out.index("START  ") :].split("\n", 2)
    assert heading.split()[-1] == "DESCRIPTION"
    assert re.match(rf"completed  - +Reboot .* {over}  web-1, web-2  Rack 7 is serviced\.", row)
    assert rest == "\n3 hosts asked: 1 quiet, 2 affected, 0 unreachable, 0 not on Azure, 0 failed\n"
    assert " asked: " not in run.out[: run.out.index("START  ")]


def test_the_guide_shows_an_event_at_once_also_without_a_vm(ansible, tmp_path):
    """But for the two exports that say where make has put ansible and the collection."""
    need_program("curl", package="curl")
    commands, stop = (re.sub(r"^\$ ", "", block, flags=re.MULTILINE) for block in blocks("console", WITHOUT_A_VM))
    (sample,) = blocks("text", WITHOUT_A_VM)
    port = str(free_port())
    script = "\n".join(line for line in commands.splitlines() if "export PATH=" not in line)
    (tmp_path / "try.sh").write_text(f"{script}\n{stop}".replace("8181", port))
    run = ansible("sh", str(tmp_path / "try.sh"), cwd=Path(__file__).resolve().parents[2], env={"COLUMNS": "80"})
    table = run.out[run.out.index("START ") :].split("{", 1)[0]
    assert shape(table) == shape(sample)
    assert '{"stopping":true}' in run.out
