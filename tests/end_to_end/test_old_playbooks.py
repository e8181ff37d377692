# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A playbook that is not configured any more stays on the VM while the checker may need it."""

from __future__ import annotations

import json

import pytest

RESPONSE = {"phase": "announced", "state": "succeeded"}
OPEN = {"events": [{"event_id": "A1", "ended_at": None, "responses": [RESPONSE]}]}


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
        pytest.param('{"events": []}', None, id="all is over"),
    ],
)
def test_a_playbook_that_is_not_configured_any_more(checker_tasks, tmp_path, said, kept_for):
    playbooks = tmp_path / "playbooks"
    (playbooks / "drained").mkdir(parents=True)
    for name in ("drain.yml", "drained/restore.yml"):
        (playbooks / name).write_text("[]\n")
    installed = ["drain.yml", "drained/restore.yml"]
    (tmp_path / "playbooks.json").write_text(json.dumps(installed))
    command = tmp_path / "azure-maintenance"
    command.write_text(f"#!/bin/sh\necho '{said}'\nexit 1\n")
    command.chmod(0o755)
    variables = {
        "__event_checker_command": str(command),
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
