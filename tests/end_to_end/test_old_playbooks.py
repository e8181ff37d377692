# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is not configured any more stays on the VM while the rule that was kept with an event may need it."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_root

RESPONSE = {"phase": "announced", "state": "succeeded"}
OPEN = {"events": [{"event_id": "A1", "rule": "Drain", "ended_at": None, "responses": [RESPONSE]}]}
# on_ended is still to come, and it is all that its rule has.
NOT_BEGUN = {"events": [{**OPEN["events"][0], "responses": []}]}
NO_RULE = {"events": [{**NOT_BEGUN["events"][0], "rule": None}]}


def make_command(folder, said, code):
    command = folder / "azure-maintenance"
    # A configuration that nobody reads would break the pipe of Ansible.
    command.write_text(f"#!/bin/sh\n[ \"$2\" != /dev/stdin ] || cat >/dev/null\necho '{said}'\nexit {code}\n")
    command.chmod(0o755)
    return str(command)


@pytest.mark.parametrize(
    ("said", "kept_for"),
    [
        pytest.param(
            json.dumps(OPEN),
            "because the checker has not finished with event A1: drained/restore.yml.",
            id="P3: an event is open",
        ),
        pytest.param(
            "",
            "azure-maintenance status does not tell whether the checker has finished with every event",
            id="the checker does not answer",
        ),
        pytest.param(
            json.dumps(NOT_BEGUN), "because the checker has not finished with event A1:", id="G5 nothing was begun"
        ),
        pytest.param(json.dumps(NO_RULE), None, id="no rule was kept with the event that is open"),
        pytest.param('{"events": []}', None, id="all is over"),
    ],
)
def test_a_playbook_that_is_not_configured_any_more(checker_tasks, tmp_path, said, kept_for):
    if kept_for is None:
        need_root("the list without them is given to root")
    playbooks = tmp_path / "playbooks"
    (playbooks / "drained").mkdir(parents=True)
    for name in ("drain.yml", "drained/restore.yml"):
        (playbooks / name).write_text("[]\n")
    installed = ["drain.yml", "drained/restore.yml"]
    (tmp_path / "playbooks.json").write_text(json.dumps(installed))
    variables = {
        "__event_checker_command": make_command(tmp_path, said, 1),
        "__event_checker_playbook_dir": str(playbooks),
        "__event_checker_installed_playbooks_file": str(tmp_path / "playbooks.json"),
        "__event_checker_installed_playbooks": installed,
        "__event_checker_playbooks_found": {"stdout": json.dumps({"files": [{"name": "drain.yml"}]})},
    }
    run = checker_tasks("old_playbooks.yml", **variables)
    assert run.code == 0, run.out
    listed = json.loads((tmp_path / "playbooks.json").read_text())
    if kept_for is None:
        assert listed == ["drain.yml"]
        assert [path.name for path in playbooks.iterdir()] == ["drain.yml"]
    else:
        assert listed == installed
        assert (playbooks / "drained" / "restore.yml").exists()
        assert kept_for in run.words


@pytest.mark.parametrize("spelled", ["drained/restore.yml", "./drained/restore.yml", "{folder}/drained/restore.yml"])
def test_p13_a_playbook_that_a_rule_needs_is_not_taken_away(checker_tasks, tmp_path, spelled):
    variables = {
        "__event_checker_playbook_dir": str(tmp_path),
        "__event_checker_installed_playbooks": ["drain.yml", "drained/restore.yml"],
        "__event_checker_playbooks_found": {"stdout": json.dumps({"files": [{"name": "drain.yml"}]})},
    }
    steps = [{"command": ["true"]}, {"playbook": spelled.format(folder=tmp_path)}]
    rules = [{"name": "Drain", "on_announced": [{"playbook": "drain.yml"}], "on_started": None, "on_ended": steps}]
    run = checker_tasks("needed_playbooks.yml", event_checker_rules=rules, **variables)
    assert run.code != 0
    assert "drained/restore.yml: a rule names it, and event_checker_playbooks does not any more." in run.words
    rules[0]["on_ended"] = []
    assert checker_tasks("needed_playbooks.yml", event_checker_rules=rules, **variables).code == 0


@pytest.mark.parametrize(
    ("listed", "after"),
    [
        pytest.param('["drain.yml"]\n', ["drain.yml", "restore.yml"], id="whole", marks=pytest.mark.every_core),
        pytest.param("", ["restore.yml"], id="empty, as after a loss of power"),
        pytest.param('["drain.ym', ["restore.yml"], id="cut"),
        pytest.param("\0" * 20, ["restore.yml"], id="zeros"),
    ],
)
def test_p7_a_damaged_list_of_playbooks_stops_no_run(checker_tasks, tmp_path, listed, after):
    need_root("the list is given to root")
    path = tmp_path / "playbooks.json"
    path.write_text(listed)
    variables = {
        "__event_checker_etc": str(tmp_path),
        "__event_checker_playbook_dir": str(tmp_path / "playbooks"),
        "__event_checker_installed_playbooks_file": str(path),
        "__event_checker_was_installed": True,
        "__event_checker_playbooks_found": {
            "stdout": json.dumps(
                {"files": [{"name": "restore.yml", "source": __file__, "mode": "0600"}], "folders": []}
            )
        },
    }
    run = checker_tasks("playbooks.yml", **variables)
    assert run.code == 0, run.out
    assert "FutureWarning" not in run.out + run.err
    assert json.loads(path.read_text()) == after


def role_variables(folder, command, files, folders, was_installed):
    """Return the variables of the role for a VM whose files are in this folder."""
    return {
        "event_checker_rules": [],
        "__event_checker_etc": str(folder),
        "__event_checker_playbook_dir": str(folder / "playbooks"),
        "__event_checker_installed_playbooks_file": str(folder / "playbooks.json"),
        "__event_checker_facts_dir": str(folder),
        "__event_checker_command": command,
        "__event_checker_config_file": str(folder / "config.json"),
        "__event_checker_was_installed": was_installed,
        "__event_checker_playbooks_found": {"stdout": json.dumps({"files": files, "folders": folders})},
    }


@pytest.mark.parametrize("is_broken", [pytest.param(True, marks=pytest.mark.every_core), False])
def test_p13_new_playbooks_with_a_fault_do_not_replace_those_of_before(checker_tasks, tmp_path, is_broken):
    need_root("the playbooks are given to root")
    installed, sources = tmp_path / "playbooks", tmp_path / "sources"
    for folder in (installed, sources, installed / "tasks"):
        folder.mkdir()
    before = {"restore.yml": "old\n", "tasks/work.yml": "old\n", "same.yml": "same\n", "of_a_user.yml": "mine\n"}
    for name, text in before.items():
        (installed / name).write_text(text)
    (installed / "tasks" / "work.yml").chmod(0o700)
    (tmp_path / "config.json").write_text("{}\n")
    names = ("restore.yml", "work.yml", "same.yml", "more.yml")
    new = {name: "same\n" if name == "same.yml" else "new\n" for name in names}
    for name, text in new.items():
        (sources / name).write_text(text)
    files = [
        {"name": "tasks/work.yml" if name == "work.yml" else name, "source": str(sources / name), "mode": "0600"}
        for name in new
    ]
    # It judges the playbooks where they will run.
    command = tmp_path / "azure-maintenance"
    command.write_text(f"""#!/bin/sh
case "$*" in
  *stdin*) cat >/dev/null; grep -q new {installed}/restore.yml && grep -q new {installed}/more.yml || exit 1
     {"echo '/dev/stdin: restore.yml cannot be loaded.' >&2; exit 2" if is_broken else "exit 0"} ;;
  status*) echo '{{"events": []}}' ;;
esac
""")
    command.chmod(0o755)
    # No running check is restarted.
    variables = role_variables(tmp_path, str(command), files, ["tasks"], was_installed=False)
    run = checker_tasks("playbooks_and_configuration.yml", **variables)
    found = {str(path.relative_to(installed)): path.read_text() for path in installed.rglob("*") if path.is_file()}
    if is_broken:
        assert run.code == 2, run.out
        kept = "The playbooks and the configuration on localhost are still those of before this run:"
        assert f"{kept} restore.yml cannot be loaded." in run.words
        assert found == before
        assert (installed / "tasks" / "work.yml").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "config.json").read_text() == "{}\n"
    else:
        assert run.code == 0, run.out
        assert found == {**before, **{file["name"]: new[file["source"].rpartition("/")[2]] for file in files}}


def test_p13_the_playbooks_of_before_come_back_after_a_run_that_was_lost_before_it_had_checked_the_new(
    checker_tasks, tmp_path
):
    need_root("the playbooks are given to root")
    installed, source = tmp_path / "playbooks", tmp_path / "new.yml"
    installed.mkdir()
    (installed / "restore.yml").write_text("checked\n")
    source.write_text("lost\n")
    (tmp_path / "playbooks.json").write_text('["restore.yml"]\n')
    (tmp_path / "config.json").write_text("{}\n")
    files = [{"name": "restore.yml", "source": str(source), "mode": "0600"}]
    # It finds a fault in each configuration, by which the second run ends.
    variables = role_variables(tmp_path, make_command(tmp_path, "", 2), files, [], was_installed=True)
    # The lost run comes as far as this.
    assert checker_tasks("playbooks.yml", **variables).code == 0
    assert len(list(installed.iterdir())) == 2
    assert (installed / "restore.yml").read_text() == "lost\n"
    source.write_text("newer\n")
    run = checker_tasks("playbooks_and_configuration.yml", **variables)
    assert run.code == 2, run.out
    assert "are still those of before this run" in run.words
    assert {path.name: path.read_text() for path in installed.iterdir()} == {"restore.yml": "checked\n"}


OLD, NEW = "/opt/azure-maintenance/venv/bin/ansible-playbook", "/usr/local/bin/ansible-playbook"


@pytest.mark.parametrize(
    ("said", "before", "variables", "after"),
    [
        # Some releases read the text of a configuration as a value.
        pytest.param(OPEN, OLD, {}, OLD, id="an event is open", marks=pytest.mark.every_core),
        pytest.param({"events": []}, OLD, {}, None, id="all is over"),
        pytest.param(OPEN, None, {}, None, id="there was none"),
        pytest.param(OPEN, OLD, {"event_checker_ansible_playbook": NEW}, NEW, id="another is configured"),
        pytest.param(OPEN, NEW, {"event_checker_venv": True}, OLD, id="a virtual environment is configured"),
    ],
)
def test_g5_the_ansible_playbook_of_a_rule_that_was_kept_with_an_event(
    checker_tasks, tmp_path, said, before, variables, after
):
    need_root("the configuration is given to root")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"ansible_playbook": before, "rules": [{"name": "Drain"}]}))
    given = {
        "event_checker_rules": [],
        "__event_checker_facts_dir": str(tmp_path),
        "__event_checker_command": make_command(tmp_path, json.dumps(said), 0),
        "__event_checker_config_file": str(config),
        "__event_checker_was_installed": False,
    }
    run = checker_tasks("configuration.yml", **given, **variables)
    assert run.code == 0, run.out
    assert json.loads(config.read_text())["ansible_playbook"] == after
