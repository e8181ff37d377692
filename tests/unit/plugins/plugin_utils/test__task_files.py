# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a file of tasks must not hold. What Ansible makes of a file is seen in end_to_end/test_event_response.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._task_files import find_file_faults

REFUSED = (
    "drain.yml: run_once: true must not be used: the task runs for one host, and what becomes of it counts for all "
    "hosts, also for those that only wait. Use delegate_to without it."
)


def task(action="raw", **more):
    return SimpleNamespace(**{"action": action, "args": {}, "run_once": None, **more})


@pytest.mark.parametrize(
    ("tasks", "refused"),
    [
        pytest.param([task()], False, id="without it"),
        pytest.param([task(run_once=False)], False, id="false"),
        pytest.param([task(run_once="no")], False, id="false as text"),
        pytest.param([task(run_once="{{ once }}")], False, id="not known before the run"),
        pytest.param([task("patch", args={"apply": True})], False, id="a module with an option of that name"),
        pytest.param([task(run_once=True)], True, id="true"),
        pytest.param([task(run_once="True")], True, id="true as text"),
        pytest.param([task(run_once=1)], True, id="true as a number"),
        pytest.param([task(run_once=True), task(run_once=True)], True, id="said once"),
        pytest.param([SimpleNamespace(block=[task()], rescue=[task(run_once=True)])], True, id="in a rescue"),
        pytest.param([task("include_tasks", run_once=True)], True, id="an include"),
        pytest.param([task("include_role", args={"apply": {"run_once": "yes"}})], True, id="what an include applies"),
    ],
)
def test_what_one_host_would_do_for_all_is_refused(tasks, refused):
    for each in tasks:
        if getattr(each, "action", "") == "include_role":
            each._role_name, each._from_files = "drain", {}
    faults = find_file_faults("drain.yml", lambda path: tasks, lambda role: None, [])
    assert faults == ([REFUSED] if refused else [])
