# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role event_checker removes no checker that is still needed, and stops none that it does not remove."""

from __future__ import annotations

import os
import shlex

import pytest

# A systemctl of the test's own comes first.
PLAY = {"environment": {"PATH": "{{ programs }}:{{ lookup('ansible.builtin.env', 'PATH') }}"}}
RESPONSE = "azure-maintenance-respond@7.service loaded activating start Respond to an Azure maintenance event"


@pytest.fixture
def stop(checker_tasks, tmp_path):
    """Run the tasks that stop the checker; return the run, and what systemctl was asked to do meanwhile."""
    programs, run_dir, asked = tmp_path / "programs", tmp_path / "run", tmp_path / "asked"
    for folder in (programs, run_dir):
        folder.mkdir()

    def run(running="", *options, **variables):
        systemctl = programs / "systemctl"
        systemctl.write_text(
            f"""#!/bin/sh
echo "$@" >> {shlex.quote(os.fspath(asked))}
case "$1" in
  list-units) printf %s {shlex.quote(running)} ;;
  show) printf 'LoadState=loaded\nActiveState=active\n' ;;
esac
"""
        )
        systemctl.chmod(0o755)
        variables = {"programs": os.fspath(programs), "__event_checker_run_dir": os.fspath(run_dir), **variables}
        done = checker_tasks("stop.yml", *options, play=PLAY, **variables)
        return done, [line.split()[0] for line in asked.read_text().splitlines()]

    run.run_dir = run_dir
    return run


@pytest.mark.parametrize(
    ("in_memory", "options", "refused"),
    [
        pytest.param(True, {}, True, id="P6: the state on the disk is older"),
        pytest.param(True, {"event_checker_force": True}, False, id="forced"),
        pytest.param(False, {}, False, id="on the disk"),
    ],
)
@pytest.mark.matrix
def test_a_state_that_is_in_memory_only_is_not_lost(stop, in_memory, options, refused):
    if in_memory:
        (stop.run_dir / "state.db").touch()
    run, _asked = stop(__event_checker_was_installed=False, **options)
    assert run.code == (2 if refused else 0), run.out
    assert ("which is in memory: the disk could not be written" in run.words) is refused


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.matrix
def test_p8_the_checker_works_while_a_response_is_waited_for(stop, forced):
    """Whoever loses or cancels the run during the wait leaves a VM that is looked after."""
    run, asked = stop(
        RESPONSE, __event_checker_was_installed=True, event_checker_response_wait=0, event_checker_force=forced
    )
    assert run.code == 2
    assert "Responses still run" in run.words
    # The check would start a response again that is stopped alone.
    units = "azure-maintenance-check.timer azure-maintenance-check.service azure-maintenance-respond@7.service"
    assert f"systemctl stop {units}, and run this again with event_checker_force" in run.words
    assert "list-units" in asked
    assert "stop" not in asked


@pytest.mark.matrix
def test_the_checker_is_stopped_once_nothing_is_left_to_do(stop, tmp_path):
    command = tmp_path / "azure-maintenance"
    command.write_text("""#!/bin/sh\necho '{"events": []}'\n""")
    command.chmod(0o755)
    run, asked = stop(__event_checker_was_installed=True, __event_checker_command=os.fspath(command))
    assert run.code == 0, run.out
    assert asked.count("stop") == 2
    assert asked.count("list-units") == 2
    assert asked.index("list-units") < asked.index("stop")
    assert "stop" not in asked[asked.index("disable") :]


@pytest.mark.matrix
def test_check_mode_waits_for_no_response_and_names_the_event_that_would_stop_the_removal(stop, tmp_path):
    command = tmp_path / "azure-maintenance"
    command.write_text(
        """#!/bin/sh\necho '{"events": [{"event_id": "A1", "ended_at": null, "responses": [{"phase": "announced", '"""
        """'"state": "running"}]}]}'\n"""
    )
    command.chmod(0o755)
    run, _asked = stop(
        RESPONSE, "--check", __event_checker_was_installed=True, __event_checker_command=os.fspath(command)
    )
    assert run.code == 2, run.out
    assert "the checker has not finished with event A1" in run.words
    assert "Responses still run" not in run.words


@pytest.mark.parametrize(
    ("mark", "options", "refused"),
    [
        pytest.param("a1.0f.checker.mark.json", {}, True, id="P16: the checker has it out of service"),
        pytest.param("a1.0f.checker.mark.json", {"event_checker_force": True}, False, id="forced"),
        pytest.param("a1.0f.run-1.mark.json", {}, False, id="a run has it out of service, and puts it back"),
        pytest.param(None, {}, False, id="it is in service"),
    ],
)
@pytest.mark.matrix
def test_a_checker_whose_program_does_not_run_is_not_removed_while_the_vm_is_out_of_service(
    stop, tmp_path, mark, options, refused
):
    marks = tmp_path / "marks"
    marks.mkdir()
    if mark:
        (marks / mark).write_text("{}")
    run, asked = stop(
        __event_checker_was_installed=True,
        __event_checker_command=os.fspath(tmp_path / "nosuch"),
        __event_checker_marks_dirs=[os.fspath(marks), os.fspath(tmp_path / "no folder")],
        **options,
    )
    assert run.code == (2 if refused else 0), run.out
    assert ("azure-maintenance status does not run there" in run.words) is refused
    assert ("stop" in asked) is not refused
    # One of the two folders is not there, as on any VM whose disk was never full.
    assert "[WARNING]: Skipped" not in run.out + run.err


OUT_OF_SERVICE = "!! localhost may be out of service, and nothing puts it back"


@pytest.mark.parametrize(
    ("folder", "mark", "said"),
    [
        pytest.param("marks", "a1.0f.checker.mark.json", OUT_OF_SERVICE, id="P16: the checker had it out of service"),
        pytest.param(
            "in memory", "a1.0f.checker.mark.json", OUT_OF_SERVICE, id="P16: the disk had no room for the mark"
        ),
        pytest.param(
            "marks", "a1.0f.run-1.mark.json", "!! localhost may be out of service because of", id="P16: a run has it"
        ),
        pytest.param("marks", None, None, id="it is in service"),
    ],
)
@pytest.mark.matrix
def test_the_last_message_says_that_the_vm_may_be_out_of_service(checker_tasks, tmp_path, folder, mark, said):
    folders = [tmp_path / "marks", tmp_path / "in memory"]
    folders[0].mkdir()
    path = tmp_path / folder / str(mark)
    if mark:
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    run = checker_tasks(
        "say_what_is_kept.yml",
        __event_checker_etc=os.fspath(tmp_path / "etc"),
        __event_checker_state_dir=os.fspath(tmp_path / "state"),
        __event_checker_facts_dir=os.fspath(tmp_path / "facts"),
        __event_checker_old_metrics_dir="",
        __event_checker_marks_dirs=[os.fspath(each) for each in folders],
    )
    assert run.code == 0, run.out
    assert "The checker is removed. Kept on localhost:" in run.words
    assert "[WARNING]: Skipped" not in run.out + run.err
    if said is None:
        assert "may be out of service" not in run.words
    else:
        assert said in run.words
        assert os.fspath(path) in run.words


@pytest.mark.parametrize(("state", "code"), [("present", 2), ("absent", 0)])
def test_a_checker_whose_python_is_gone_can_be_removed(checker_tasks, tmp_path, state, code):
    run = checker_tasks(
        "lost_run.yml",
        event_checker_state=state,
        event_checker_python="/nosuch/python3",
        __event_checker_playbook_dir=os.fspath(tmp_path),
    )
    assert run.code == code, run.out
