# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rehearsal as a person runs it: by its full name, with real ansible-playbook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import TREE
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import CONNECTIONS

REHEARSE = "fleetops.azure_maintenance.rehearse"
CHECKER = "name: fleetops.azure_maintenance.event_checker"
PREPARE_FAILS_ON_WEB_2 = """
- name: Leave a trace of what the tasks are given
  ansible.builtin.copy:
    content: "{{ maintenance_event.event_type }} {{ maintenance_event.resources | join(' ') }}"
    dest: "{{ trace }}/prepared-{{ inventory_hostname }}"
    mode: "0600"
- name: Drain
  ansible.builtin.fail:
    msg: the balancer said no
  when: inventory_hostname == 'rehearsal-web-2'
"""
RESTORE_FAILS = """
- name: Leave a trace
  ansible.builtin.copy:
    content: "{{ maintenance_event.event_type }}"
    dest: "{{ trace }}/restored-{{ inventory_hostname }}"
    mode: "0600"
- name: Refill
  ansible.builtin.fail:
    msg: the balancer is gone
"""


def timeline(out: str) -> list[str]:
    """Return the lines that the task 'Show the timeline' printed."""
    task = out.split("TASK [Show the timeline]", 1)[1]
    return json.loads(re.search(r'"msg": (\[.*?\n    \])', task, re.DOTALL).group(1))


def order(lines: list[str], *wanted: str) -> None:
    """Assert that the wanted texts stand in the timeline, in this order."""
    story = "\n".join(lines)
    places = [story.find(text) for text in wanted]
    assert -1 not in places, f"not in the timeline: {[w for w, p in zip(wanted, places) if p < 0]}\n{story}"
    assert places == sorted(places), story


def simulator_url(out: str) -> str:
    return re.search(r"http://127\.0\.0\.1:\d+", out).group(0)


def assert_nothing_listens(url: str) -> None:
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)


@pytest.fixture
def trace(tmp_path):
    folder = tmp_path / "trace"
    folder.mkdir()
    return folder


@pytest.mark.releases
def test_a_rehearsal_of_the_built_artifact_goes_from_announced_to_restored_and_leaves_nothing_behind(
    ansible, artifact, tmp_path
):
    """Without the repository, as users get the collection."""
    elsewhere = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections")}
    installed = ansible("ansible-galaxy", "collection", "install", "--offline", str(artifact), env=elsewhere)
    assert installed.code == 0, installed.out
    run = ansible("ansible-playbook", "-v", REHEARSE, env=elsewhere, cwd=tmp_path)
    assert run.code == 0, run.out
    lines = timeline(run.out)
    order(
        lines, "scheduled Reboot", "> prepared", "approved Reboot", "started Reboot", "completed Reboot", "> restored"
    )
    story = "\n".join(lines)
    assert story.count("> prepared") == story.count("> restored") == 2, story
    assert len(re.findall(r"web-\d  approved Reboot", story)) == 1, story
    assert "nobody approved it" in story, "the short Freeze is only noted, and starts by itself"
    assert "The rehearsal went well." in run.out
    printed = run.out.split("TASK [Show the timeline]", 1)[1].split("TASK [", 1)[0]
    assert [line for line in printed.splitlines() if len(line) > 80] == [], "as Ansible prints it, in 80 columns"
    assert_nothing_listens(simulator_url(run.out))


@pytest.mark.matrix
def test_s1_s4_a_failed_prepare_holds_the_approval_of_both_back_and_failed_restores_are_told_too(
    ansible, tmp_path, trace
):
    (tmp_path / "drain.yml").write_text(PREPARE_FAILS_ON_WEB_2)
    (tmp_path / "refill.yml").write_text(RESTORE_FAILS)
    run = ansible(
        "ansible-playbook",
        "-v",
        REHEARSE,
        *("-e", "rehearse_prepare=drain.yml", "-e", "rehearse_restore=refill.yml", "-e", f"trace={trace}"),
        cwd=tmp_path,
    )
    assert run.code != 0, run.out
    story = "\n".join(timeline(run.out))
    assert "approved Reboot" not in story
    assert "started Reboot" not in story
    verdict = run.words.split("TASK [Report the result]", 1)[1]
    assert "rehearsal-web-2 could not be prepared: Drain: the balancer said no" in verdict
    assert "rehearsal-web-2: rehearsal-web-2" not in verdict
    assert "Not approved: rehearsal-web-2 is not prepared." in verdict
    # It would ask Azure, and no inventory has these hosts.
    assert "HELD BACK: Reboot" in run.out
    assert "fleetops.azure_maintenance.approve" not in run.out
    assert "repair the cause and rehearse again" in run.words
    assert "rehearsal-web-1 could not be restored: Refill: the balancer is gone" in verdict
    assert "rehearsal-web-2 could not be restored: Refill: the balancer is gone" in verdict
    assert sorted(path.name for path in trace.iterdir()) == [
        "prepared-rehearsal-web-1",
        "prepared-rehearsal-web-2",
        "restored-rehearsal-web-1",
        "restored-rehearsal-web-2",
    ]
    assert (trace / "prepared-rehearsal-web-1").read_text() == "Reboot web-1 web-2"
    assert_nothing_listens(simulator_url(run.out))


OWN_DRAIN = """
- name: Drain
  ansible.builtin.raw: echo drain {{ pool }} >>{{ story }}
"""
LOST_DRAIN = """
- name: Go down
  ansible.builtin.raw: rm -f {{ up_file }}
- name: Drain
  ansible.builtin.raw: "true"
"""


@pytest.fixture
def own(tmp_path):
    """An inventory of one's own: two hosts of a group, and where the service of Azure is that nobody may ask."""
    lines = ["[app]"]
    for name in ("app-1", "app-2"):
        (tmp_path / f"{name}.up").touch()
        lines.append(f"{name} up_file={tmp_path}/{name}.up story={tmp_path}/{name}.story pool=pool-of-{name}")
    lines += ["[app:vars]", "ansible_connection=mortal", f"ansible_python_interpreter={sys.executable}"]
    lines += ["azure_maintenance_endpoint=http://127.0.0.1:9", "[far]", "db-1"]
    (tmp_path / "hosts.ini").write_text("\n".join(lines) + "\n")
    (tmp_path / "drain.yml").write_text(OWN_DRAIN)
    return tmp_path


def rehearse_own(ansible, folder, options=(), **variables):
    given = {"target": "app", "rehearse_prepare": "drain.yml", "rehearse_listen": "127.0.0.1:0", **variables}
    command = ("ansible-playbook", "-v", "-i", "hosts.ini", REHEARSE, "-e", json.dumps(given), *options)
    return ansible(*command, cwd=folder, env={"ANSIBLE_CONNECTION_PLUGINS": CONNECTIONS})


def test_i2_the_hosts_and_variables_of_an_own_inventory_are_rehearsed_and_nobody_asks_azure(ansible, own):
    run = rehearse_own(ansible, own)
    assert run.code == 0, run.out + run.err
    order(timeline(run.out), "> prepared", "approved Reboot", "completed Reboot", "> restored")
    assert [(own / f"{name}.story").read_text() for name in ("app-1", "app-2")] == [
        "drain pool-of-app-1\n",
        "drain pool-of-app-2\n",
    ]
    assert not (own / "home" / "marks").exists(), "the marks of a rehearsal are none of the machine"
    assert_nothing_listens(simulator_url(run.out))


@pytest.mark.matrix
@pytest.mark.parametrize("shell_type", ["powershell", "cmd"])
def test_a_windows_vm_is_rehearsed(ansible, own, shell_type):
    """It is known as one by the type of its shell alone, as with OpenSSH."""
    machine = own / "machine"
    machine.write_text("{}")
    (own / "hosts.ini").write_text(windows.host("app-1", ansible_shell_type=shell_type, stand_in_machine=machine))
    given = {"target": "app-1", "rehearse_listen": "127.0.0.1:0"}
    command = ("ansible-playbook", "-i", "hosts.ini", REHEARSE, "-e", json.dumps(given))
    run = ansible(*command, cwd=own, env=windows.settings(windows.make_ansible_windows(own / "installed")))
    assert run.code == 0, run.out + run.err
    assert re.search(r"^app-1 .* failed=0 ", run.out, re.MULTILINE), run.out
    order(timeline(run.out), "> prepared", "approved Reboot", "completed Reboot", "> restored")
    assert json.loads(machine.read_text())["files"] == {}


def test_p13_variables_of_the_inventory_leave_nothing_of_the_rehearsal_out(ansible, own):
    words = "wait=false event_sources=User event_ids=A1B2C3D4 due_within=600 approve=false acknowledge=always"
    with (own / "hosts.ini").open("a") as inventory:
        inventory.write("[app:vars]\n" + "".join(f"event_response_{word}\n" for word in words.split()))
    run = rehearse_own(ansible, own)
    assert run.code == 0, run.out + run.err
    order(timeline(run.out), "> prepared", "approved Reboot", "completed Reboot", "> restored")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("-e", "event_response_due_within=600"), "app-2: It was not rehearsed, because it was not prepared"),
        (("--tags", "none-has-it"), "app-2 took no part. --tags or --skip-tags may have left it out"),
        (("-e", "event_response_max_unavailable=one"), "event_response_max_unavailable must be"),
    ],
    ids=["the event is left out", "tags", "a variable that the role refuses"],
)
def test_p13_a_rehearsal_of_nothing_did_not_go_well_and_leaves_no_simulator(ansible, own, options, why):
    run = rehearse_own(ansible, own, options)
    assert run.code != 0
    assert why in run.words + run.err
    assert "The rehearsal went well." not in run.out
    assert_nothing_listens(simulator_url(run.out))


@pytest.mark.parametrize(
    ("name", "meant"),
    [("targets", "target"), ("rehearse_prepar", "rehearse_prepare"), ("rehearse_retsore", "rehearse_restore")],
)
def test_p14_a_misspelled_variable_is_refused_and_nothing_runs_on_this_machine(ansible, tmp_path, name, meant):
    """The tasks meant for other hosts would run here, or a rehearsal without them would go well."""
    (tmp_path / "drain.yml").write_text(f"- ansible.builtin.command: touch {tmp_path / 'drained'}\n")
    given = {"rehearse_prepare": "drain.yml", name: "drain.yml"} if name == "targets" else {name: "drain.yml"}
    run = ansible("ansible-playbook", REHEARSE, "-e", json.dumps(given), cwd=tmp_path)
    assert run.code == 2, run.out + run.err
    assert f"{name} is no variable of the playbook rehearse. Is {meant} meant? No host was asked." in run.words
    assert not (tmp_path / "drained").exists()


@pytest.mark.parametrize(
    "arguments",
    [("--skip-tags", "always"), ("--start-at-task", "Show the timeline"), ("--start-at-task", "Report the result")],
    ids=" ".join,
)
def test_p13_a_rehearsal_of_which_ansible_leaves_out_the_beginning_says_so(ansible, tmp_path, arguments):
    run = ansible("ansible-playbook", REHEARSE, *arguments, cwd=tmp_path)
    assert run.code == 2, run.out + run.err
    told = "Nothing was rehearsed. Start the rehearsal without --tags, --skip-tags and --start-at-task."
    assert told in " ".join((run.out + run.err).split())
    assert "The rehearsal went well." not in run.out


def test_a_strategy_of_ansible_cfg_does_not_count_for_a_rehearsal(ansible, own):
    """Under another one Ansible ends the run at add_host, and the simulator goes on."""
    (own / "ansible.cfg").write_text("[defaults]\nstrategy = free\n")
    run = rehearse_own(ansible, own)
    assert run.code == 0, run.out + run.err
    order(timeline(run.out), "> prepared", "approved Reboot", "completed Reboot", "> restored")


@pytest.mark.matrix
def test_i2_hosts_that_are_all_lost_are_named_and_the_simulator_is_stopped(ansible, own):
    (own / "drain.yml").write_text(LOST_DRAIN)
    run = rehearse_own(ansible, own)
    assert run.code != 0
    for host in ("app-1", "app-2"):
        assert re.search(rf"{host}( was lost|: .* It may still be out of service: run your restore file)", run.words)
    assert "The rehearsal went well." not in run.out
    assert_nothing_listens(simulator_url(run.out))


@pytest.mark.matrix
@pytest.mark.parametrize(("event_type", "other"), [("Freeze", "Reboot"), ("Preempt", "Freeze")])
def test_an_event_of_another_type_is_rehearsed_and_the_other_is_only_noted(ansible, event_type, other):
    run = ansible("ansible-playbook", REHEARSE, "-e", f"rehearse_event_type={event_type}")
    assert run.code == 0, run.out + run.err
    lines = timeline(run.out)
    order(
        lines,
        f"scheduled {event_type}",
        "> prepared",
        f"approved {event_type}",
        f"completed {event_type}",
        "> restored",
    )
    story = "\n".join(lines)
    assert story.count("> prepared") == story.count("> restored") == 2, story
    assert re.search(rf"started {other} .*nobody approved it", story), story


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        (
            {"rehearse_event_type": "Freez"},
            "rehearse_event_type must be one of Freeze, Reboot, Redeploy, Preempt, Terminate",
        ),
        ({"rehearse_event_hosts": 0}, "rehearse_event_hosts must be a whole number from 1 on, not 0."),
        ({"rehearse_prepare": ["drain.yml"]}, "rehearse_prepare: there is no file"),
        ({"target": "far", "rehearse_listen": ""}, "db-1 may not reach a simulator on the loopback address"),
        ({"target": ""}, "target is empty"),
        ({"azure_maintenance_endpoint": "http://127.0.0.1:9"}, "azure_maintenance_endpoint must not be given"),
    ],
    ids=["no type of an event", "no host", "no path", "loopback over ssh", "an empty target", "another endpoint"],
)
def test_i2_what_would_not_be_a_rehearsal_is_refused_before_a_host_is_asked(ansible, own, variables, why):
    run = rehearse_own(ansible, own, **variables)
    assert run.code != 0
    assert why in run.words + run.err
    assert "Start the simulator" not in run.out


def test_there_is_no_rehearsal_in_check_mode(ansible):
    run = ansible("ansible-playbook", REHEARSE, "--check")
    assert run.code != 0
    assert "A rehearsal starts a simulator and runs your files, so there is none in check mode." in run.words
    assert "Start the simulator" not in run.out


def test_task_files_that_do_not_exist_stop_the_rehearsal_before_it_begins(ansible):
    options = ("rehearse_prepare", "rehearse_restore")
    run = ansible(
        "ansible-playbook", REHEARSE, "-e", json.dumps({option: f"no/such/{option}.yml" for option in options})
    )
    assert run.code != 0
    for option in options:
        assert re.search(rf"{option}: there is no file /\S*/no/such/{option}.yml\.", run.out)
    assert "Start the simulator" not in run.out


def test_the_words_of_the_role_are_names_of_files_here(ansible):
    words = {"rehearse_prepare": "checker", "rehearse_restore": "nothing"}
    run = ansible("ansible-playbook", REHEARSE, "-e", json.dumps(words))
    assert run.code == 2
    for option, word in words.items():
        assert re.search(rf"{option}: there is no file /\S*/{word}\.", run.out)
    assert "event_response_" not in run.out + run.err
    assert "Start the simulator" not in run.out


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("- name: Drain\n  ansible.builtin.debug:\n    msg: [\n", "rehearse_restore: {folder}/refill.yml, line 4: "),
        pytest.param("- name: Drain\n  no.such.module:\n", "no.such.module", marks=pytest.mark.matrix),
    ],
    ids=["yaml", "module"],
)
@pytest.mark.releases
def test_a_task_file_that_ansible_cannot_load_stops_the_rehearsal_before_it_begins(ansible, tmp_path, content, reason):
    (tmp_path / "refill.yml").write_text(content)
    run = ansible("ansible-playbook", REHEARSE, "-e", "rehearse_restore=refill.yml", cwd=tmp_path)
    assert run.code == 2
    assert reason.format(folder=tmp_path) in run.out
    assert "Start the simulator" not in run.out


@pytest.mark.parametrize(
    ("variable", "value", "must"),
    [
        # As a number it would be 0: the rehearsal would end before a response does.
        ("rehearse_timeout", "15m", "be a whole number of seconds from 1 on, not 15m."),
        # No rule would match it, and a rehearsal of nothing would end as one that went well (P13).
        ("rehearse_event_type", "Freez", "be one of Freeze, Reboot, Redeploy, Preempt, Terminate, not Freez."),
    ],
)
def test_what_a_checker_cannot_rehearse_is_refused_before_the_vm_is_asked(ansible, variable, value, must):
    given = ["-e", "target=localhost", "-e", f"{variable}={value}", "--check"]
    run = ansible("ansible-playbook", f"{REHEARSE}_checker", *given)
    assert run.code == 2
    assert f"{variable} must {must}" in run.words
    assert "Ask who the user is" not in run.out


LAST_CHECK = "Check that every response succeeded"


@pytest.mark.parametrize(
    ("responses", "why"),
    [
        ([{"phase": "announced", "state": "succeeded"}, {"phase": "ended", "state": "succeeded"}], None),
        ([{"phase": "ended", "state": "failed", "message": "Step 1 failed."}], "Step 1 failed. See journalctl"),
        # The time was too short for it (P13).
        (
            [{"phase": "announced", "state": "skipped", "message": "The event ended before its preparation did."}],
            "The event ended before its preparation did. See journalctl",
        ),
        ([{"phase": "waiting", "state": "skipped", "message": "The event has started."}], None),
    ],
    ids=["all", "a failure", "a preparation that was cut short", "no wait for an approval"],
)
def test_the_verdict_on_the_responses_of_a_checker(ansible, tmp_path, responses, why):
    def find(tasks):
        inner = (find(task[part]) for task in tasks for part in ("block", "always") if part in task)
        return [task for task in tasks if task["name"] == LAST_CHECK] + [each for found in inner for each in found]

    (play,) = yaml.safe_load((TREE / "playbooks" / "rehearse_checker.yml").read_text())
    (check,) = find(play["tasks"])
    history = {"stdout": json.dumps({"events": [{"event_id": "A1", "phase": "ended", "responses": responses}]})}
    known = {"__rehearse_history": history, "__rehearse_announced": {"json": {"event_id": "A1"}}}
    (tmp_path / "verdict.yml").write_text(
        json.dumps([{"hosts": "localhost", "gather_facts": False, "vars": known, "tasks": [check]}])
    )
    run = ansible("ansible-playbook", "verdict.yml", cwd=tmp_path)
    assert (run.code == 0) == (why is None), run.out
    assert why is None or why in run.words


@pytest.mark.matrix
@pytest.mark.parametrize("tags", [[], ["--tags", "none-has-it"]], ids=["", "P13: tags leave out nothing"])
def test_the_simulator_is_stopped_also_where_the_checker_cannot_be_turned_back(ansible, tmp_path, tags):
    """With a role in place of event_checker that fails, because the real one needs a VM with systemd."""
    playbook = (TREE / "playbooks" / "rehearse_checker.yml").read_text()
    assert playbook.count(CHECKER) == 3
    asking = TREE / "playbooks" / "tasks" / "ask_who_the_user_is.yml"
    as_user = re.sub(r'become: ".*"', "become: false", playbook.replace("tasks/ask_who_the_user_is.yml", str(asking)))
    (tmp_path / "rehearse.yml").write_text(as_user.replace(CHECKER, "name: broken"))
    tasks = tmp_path / "roles" / "broken" / "tasks"
    tasks.mkdir(parents=True)
    (tasks / "main.yml").write_text("- ansible.builtin.fail:\n    msg: systemctl said no\n")
    variables = {"target": "localhost", "event_checker_python": sys.executable}
    run = ansible("ansible-playbook", "-v", "rehearse.yml", "-e", json.dumps(variables), *tags, cwd=tmp_path)
    assert run.code == 2
    said = re.sub(r"\s+", " ", run.out)
    assert "The checker of localhost may still ask the simulator, which is stopped now, and not Azure." in said
    assert "Run install_checker for this VM. systemctl said no" in said
    assert_nothing_listens(simulator_url(run.out))


def test_g3_an_older_ansible_core_is_told_what_a_rehearsal_needs(ansible, tmp_path):
    """Ansible takes its own release from there."""
    (tmp_path / "sitecustomize.py").write_text("import ansible.release\nansible.release.__version__ = '2.15.13'\n")
    run = ansible("ansible-playbook", REHEARSE, env={"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"})
    assert run.code == 2, run.out + run.err
    told = "The rehearsal did not begin: The simulator needs ansible-core 2.16.14 or newer, not 2.15.13."
    assert told in run.out
    assert "Unsupported parameters" not in run.out


@pytest.mark.parametrize("config", ['"http://127.0.0.1:8181/vm/web-1"', pytest.param("Azure", id="the end was lost")])
@pytest.mark.parametrize("killed_at", range(12))
def test_p8_a_vm_that_loses_power_while_it_turns_the_checker_back_does_so_the_next_time(tmp_path, killed_at, config):
    etc, units, programs, calls = (tmp_path / name for name in ("etc", "units", "programs", "calls"))
    back = etc / "rehearsal"
    for folder in (back, units, programs):
        folder.mkdir(parents=True)
    tasks = yaml.safe_load((TREE / "playbooks/tasks/rehearse_way_back.yml").read_text())
    script = next(task for task in tasks if "turns the checker back" in task["name"])["ansible.builtin.copy"]["content"]
    words = {
        "{{ __rehearse_back }}": str(back),
        "{{ __rehearse_back_unit }}": "rehearsal-end",
        "{{ imds_simulator_url }}": "http://127.0.0.1:8181",
        "/etc/systemd/system": str(units),
    }
    for word, value in words.items():
        script = script.replace(word, value)
    (back / "turn_back").write_text(script)
    (back / "config.json").write_text("Azure")
    (back / "azure-maintenance-check.service").write_text("Azure")
    (etc / "config.json").write_text(config)
    (units / "azure-maintenance-check.service").write_text("[Service]\nIPAddressAllow=localhost\n")
    (units / "rehearsal-end.service").write_text("turns it back")
    # Each program does its work, and one of them is the last.
    for name in ("mv", "rm", "grep", "systemctl"):
        work = f'/usr/bin/env -i PATH=/usr/bin:/bin {name} "$@"'
        if name == "systemctl":
            work = f'[ "$1" != disable ] || [ -e {units}/rehearsal-end.service ]'
        (programs / name).write_text(
            f'#!/bin/sh\n{work}\nstatus=$?\necho "{name} $*" >>{calls}\n'
            f'[ "$(wc -l <{calls})" != {killed_at} ] || kill -KILL $PPID\nexit $status\n'
        )
        (programs / name).chmod(0o755)
    runs = []
    while (back / "turn_back").exists() and len(runs) < 2:
        path = {"PATH": f"{programs}:/usr/bin:/bin"}
        runs.append(subprocess.run(["/bin/sh", str(back / "turn_back")], env=path, check=False).returncode)
    assert runs in ([0], [-9], [-9, 0])
    assert (etc / "config.json").read_text() == "Azure"
    assert (units / "azure-maintenance-check.service").read_text() == "Azure"
    assert not back.exists()
    assert calls.read_text().count("daemon-reload") > 0
    assert "restart azure-maintenance-check.service" in calls.read_text()
