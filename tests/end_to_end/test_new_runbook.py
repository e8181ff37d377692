# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The skeleton of a runbook, from the command that makes it to its rehearsal."""

from __future__ import annotations

import json

import pytest

NEW_RUNBOOK = "fleetops.azure_maintenance.new_runbook"
pytestmark = pytest.mark.matrix


def test_a_new_runbook_is_rehearsed_as_it_says_and_is_never_overwritten(ansible, tmp_path):
    run = ansible("ansible-playbook", NEW_RUNBOOK, "-e", "new_runbook_path=shop", cwd=tmp_path)
    assert run.code == 0, run.out + run.err
    assert sorted(path.name for path in (tmp_path / "shop").iterdir()) == ["prepare.yml", "restore.yml"]
    command = run.words[run.words.index("ansible-playbook fleetops.azure_maintenance.rehearse") :].split('"')[0]
    rehearsal = ansible(*command.split(), cwd=tmp_path)
    assert rehearsal.code == 0, rehearsal.out + rehearsal.err
    assert "Here rehearsal-web-2 leaves the balancer" in rehearsal.words
    assert "The rehearsal went well." in rehearsal.out

    (tmp_path / "shop" / "prepare.yml").write_text("mine")
    run = ansible("ansible-playbook", NEW_RUNBOOK, "-e", "new_runbook_path=shop", cwd=tmp_path)
    assert (run.code, (tmp_path / "shop" / "prepare.yml").read_text()) == (0, "mine")


def test_b6_a_skeleton_in_which_nobody_has_written_prepares_no_host(ansible, simulator, tmp_path):
    """Its messages would count as a preparation, and the event would be approved."""
    azure = simulator("--vms", "web-1,web-2", "--clock", "manual")
    azure.announce("Reboot", "web-1")
    hosts = "".join(f"{vm} azure_maintenance_endpoint={azure.endpoint(vm)}\n" for vm in ("web-1", "web-2"))
    local = "ansible_connection=local\nansible_python_interpreter={{ ansible_playbook_python }}\n"
    (tmp_path / "inventory").write_text(f"[web]\n{hosts}[web:vars]\n{local}")
    assert ansible("ansible-playbook", NEW_RUNBOOK, "-e", "new_runbook_path=shop", cwd=tmp_path).code == 0
    files = {"event_response_prepare": "shop/prepare.yml", "event_response_restore": "shop/restore.yml"}
    given = json.dumps({**files, "event_response_wait": False})
    respond = "fleetops.azure_maintenance.respond"
    run = ansible("ansible-playbook", "-i", "inventory", respond, "-e", "target=web", "-e", given, cwd=tmp_path)
    assert run.code == 2, run.out + run.err
    assert azure.posted() == []
    for name in ("prepare", "restore"):
        assert f"shop/{name}.yml: nobody has written this file" in run.words
    assert "Write your own tasks into it, and delete its first task." in run.words
    assert "web-1 was not restored" not in run.words
    # No mark is left for nothing done.
    assert azure.asked() == set()


@pytest.mark.parametrize("playbook", ["respond", "restore"])
def test_p13_no_host_counts_as_restored_by_a_skeleton(ansible, simulator, tmp_path, playbook):
    azure = simulator("--vms", "web-1", "--clock", "manual")
    host = {"azure_maintenance_endpoint": azure.endpoint("web-1"), "ansible_connection": "local"}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"web-1": host}}}))
    assert ansible("ansible-playbook", NEW_RUNBOOK, "-e", "new_runbook_path=shop", cwd=tmp_path).code == 0
    (tmp_path / "shop" / "prepare.yml").write_text("- ansible.builtin.command: touch drained\n")
    given = {"event_response_restore": "shop/restore.yml"}
    if playbook == "respond":
        given["event_response_prepare"] = "shop/prepare.yml"
    command = ("ansible-playbook", "-i", "hosts.json", f"fleetops.azure_maintenance.{playbook}")
    run = ansible(*command, "-e", json.dumps(given), cwd=tmp_path)
    assert run.code == 2, run.out + run.err
    assert "shop/restore.yml: nobody has written this file" in run.words
    assert azure.asked() == set()


def test_p13_in_check_mode_it_does_not_say_that_the_files_are_there(ansible, tmp_path):
    run = ansible("ansible-playbook", NEW_RUNBOOK, "-e", "new_runbook_path=shop", "--check", cwd=tmp_path)
    assert run.code == 0, run.out + run.err
    assert not (tmp_path / "shop").exists()
    assert "Nothing was written, because of --check." in run.words
    assert "Write your own tasks" not in run.words


def test_p13_tags_leave_out_nothing_and_a_limit_without_localhost_is_refused(ansible, tmp_path):
    """Both ended well, and nothing was written."""
    run = ansible("ansible-playbook", NEW_RUNBOOK, "-e", "new_runbook_path=shop", "--tags", "web", cwd=tmp_path)
    assert run.code == 0, run.out + run.err
    assert (tmp_path / "shop" / "prepare.yml").exists()
    given = ("-i", "web-1,", "--limit", "web-1", "-e", "new_runbook_path=other")
    run = ansible("ansible-playbook", NEW_RUNBOOK, *given, cwd=tmp_path)
    assert run.code != 0, run.out
    assert "no host that --limit web-1 leaves matches 'localhost'" in " ".join((run.out + run.err).split())
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["my book", "a;b", "$(id)", "it's"])
def test_a_folder_whose_name_a_shell_would_change_is_refused(ansible, tmp_path, name):
    run = ansible("ansible-playbook", NEW_RUNBOOK, "-e", json.dumps({"new_runbook_path": name}), cwd=tmp_path)
    assert run.code == 2, run.out + run.err
    assert "new_runbook_path must have only letters, digits and" in run.words
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(("given", "code", "said"), [(12, 0, "12/prepare.yml"), (["a"], 2, "must have only letters")])
def test_a_folder_that_is_no_text_is_taken_as_text_or_refused_in_one_sentence(ansible, tmp_path, given, code, said):
    run = ansible("ansible-playbook", NEW_RUNBOOK, "-e", json.dumps({"new_runbook_path": given}), cwd=tmp_path)
    assert run.code == code, run.out + run.err
    assert said in run.words
    assert "filter plugin" not in run.words


@pytest.mark.parametrize("given", [(), ("-e", "new_runbook_path=")])
def test_p14_without_a_folder_nothing_is_written(ansible, tmp_path, given):
    run = ansible("ansible-playbook", NEW_RUNBOOK, *given, cwd=tmp_path)
    assert run.code == 2
    assert "Give the folder of the runbook: -e new_runbook_path=redis" in run.words
