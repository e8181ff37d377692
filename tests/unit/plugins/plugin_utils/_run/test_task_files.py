# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a file of tasks must not hold. What Ansible makes of a file is seen in end_to_end/test_event_response.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.task_files import find_file_faults

NEW_RUNBOOK = Path(__file__).resolve().parents[5] / "playbooks" / "files" / "new_runbook"
REFUSED = (
    "drain.yml: run_once: true must not be used: the task runs for one host, and its result counts for all "
    "hosts, also for those that only wait. Use delegate_to without it."
)
STOPS_ALL = "drain.yml: any_errors_fatal: true must not be used: where the task fails for one host, Ansible ends the "


def task(action="raw", **more):
    unset = dict.fromkeys(("name", "notify", "run_once", "any_errors_fatal", "_role"))
    return SimpleNamespace(**{"action": action, "args": {}, **unset, "async_val": 0, "poll": 15, **more})


def handler(name, *, role=None, listen=(), **more):
    role = role and SimpleNamespace(_role_path=f"/roles/{role}", _from_files={}, name=role)
    names = {False: f"{role.name} : {name}", True: f"ns.{role.name} : {name}"} if role else dict.fromkeys((0, 1), name)
    known = {"name": name, "listen": listen, "_role": role, "timeout": 60, **more}
    return task(get_name=lambda include_role_fqcn: names[include_role_fqcn], **known)


def find_faults(tasks, blocks=(), handlers=(), rehearsal=False):
    """Return what is wrong with the tasks of drain.yml, in which any role that is included has these blocks."""
    for each in tasks:
        if getattr(each, "action", "") == "include_role":
            each._role_name, each._from_files = "drain", {}
    loader = SimpleNamespace(
        role=None,
        load_file=lambda path, role: tasks,
        load_role=lambda each: (SimpleNamespace(_role_path="/roles/drain"), blocks),
        load_handlers=lambda role: [SimpleNamespace(block=getattr(role, "handlers", []))],
        load_play_handlers=lambda: [SimpleNamespace(block=handlers)],
        acts_for_all=lambda each: each.action.rpartition(".")[2] in ("pause", "add_host"),
        tags_let_run=lambda each: not {"never", "skipped"}.intersection(getattr(each, "tags", ())),
        has_tag_never=lambda each: "never" in getattr(each, "tags", ()),
    )
    return find_file_faults("drain.yml", loader, [], rehearsal)


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
    assert find_faults(tasks) == ([REFUSED] if refused else [])


FOR_ALL = (
    "must not be used: Ansible runs it for the first host only, also its when, and its result counts for "
    "all hosts, also for those that only wait."
)
WAIT = " To wait N seconds, use ansible.builtin.wait_for with timeout: N."


@pytest.mark.parametrize(
    ("tasks", "blocks", "told"),
    [
        pytest.param([task("wait_for")], [], [], id="another action"),
        pytest.param([task("pause"), task("pause")], [], [f"drain.yml: pause {FOR_ALL}{WAIT}"], id="pause"),
        pytest.param(
            [task("ansible.builtin.add_host")], [], [f"drain.yml: ansible.builtin.add_host {FOR_ALL}"], id="another one"
        ),
        pytest.param(
            [task("include_role")],
            [task("ansible.builtin.pause")],
            [f"/roles/drain: ansible.builtin.pause {FOR_ALL}{WAIT}"],
            id="in a role",
        ),
    ],
)
def test_p2_an_action_that_runs_for_one_host_and_counts_for_all_is_refused(tasks, blocks, told):
    assert find_faults(tasks, blocks) == told


@pytest.mark.parametrize(
    ("value", "refused"), [(True, True), ("yes", True), (False, False), ("{{ fatal }}", False), (None, False)]
)
def test_a_task_whose_failure_would_end_the_response_for_all_is_refused(value, refused):
    faults = find_faults([task(any_errors_fatal=value)])
    assert len(faults) == refused
    assert all(fault.startswith(STOPS_ALL) for fault in faults)


@pytest.mark.parametrize(
    ("seconds", "poll", "refused"),
    [
        (0, 15, False),
        (600, 0, False),
        ("600", "0", False),
        (600, 15, True),
        ("600", "5", True),
        ("{{ 0 if ansible_check_mode else 600 }}", 15, True),
        ("{{ 0 if ansible_check_mode else 600 }}", 0, False),
        (600, "{{ pause }}", True),
    ],
)
def test_a1_p15_a_job_that_ansible_itself_waits_for_is_refused(seconds, poll, refused):
    """Ansible asks without a limit whether it has ended: a connection that dies would keep the run for hours."""
    faults = find_faults([task(async_val=seconds, poll=poll)])
    assert len(faults) == refused
    assert all(fault.startswith("drain.yml: async must have poll: 0: ") for fault in faults)


@pytest.mark.parametrize(
    ("words", "refused"), [("end_host", True), ("end_play", True), ("end_role", False), ("flush_handlers", False)]
)
def test_a_role_that_is_included_may_end_itself_only(words, refused):
    meta = task("meta", args={"_raw_params": words})
    faults = find_faults([task("include_role")], [SimpleNamespace(block=[meta])])
    assert [fault.split(" must")[0] for fault in faults] == [f"/roles/drain: meta: {words}"] * refused


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        pytest.param({"action": "meta", "args": {"_raw_params": "end_host"}}, "meta: end_host must not", id="it ends"),
        pytest.param({"run_once": True}, "run_once: true must not", id="it runs once"),
        pytest.param({"action": "pause"}, "pause must not", id="it waits"),
        pytest.param({"action": "meta", "args": {"_raw_params": "end_role"}}, None, id="it ends its role"),
    ],
)
@pytest.mark.parametrize("nested", [False, True], ids=["by the file", "by a role that the file includes"])
def test_p13_the_handlers_of_a_role_that_is_imported_are_searched_once(handler, told, nested):
    """Its tasks stand in the place of the import, and tell by their role only where they come from."""
    role = SimpleNamespace(_role_path="/roles/refill", _from_files={})
    role.handlers = [task(_role=role, **handler)]
    imported = [task(_role=role), task(_role=role)]
    faults = find_faults([task("include_role")], imported) if nested else find_faults(imported)
    assert len(faults) == (told is not None)
    assert all(fault.startswith(f"/roles/refill: {told}") for fault in faults)


NOTIFIED = "drain.yml: handler Stop, which it notifies: "


@pytest.mark.parametrize(
    ("notify", "handlers", "told"),
    [
        pytest.param(None, [handler("Stop", run_once=True)], [], id="no task notifies it"),
        pytest.param(["Start"], [handler("Stop", run_once=True)], [], id="another one is notified"),
        pytest.param(["Stop"], [handler("Stop")], [], id="it may be notified"),
        pytest.param(["Stop"], [handler("Stop", run_once=True)], ["run_once: true"], id="by name"),
        pytest.param("Stop", [handler("Stop", run_once=True)], ["run_once: true"], id="as Ansible has read it"),
        pytest.param("off", [handler("Stop", listen="off", run_once=True)], ["run_once: true"], id="a topic so, too"),
        pytest.param(["app : Stop"], [handler("Stop", role="app", run_once=True)], ["run_once: true"], id="of a role"),
        pytest.param(["ns.app : Stop"], [handler("Stop", role="app", action="pause")], ["pause"], id="its full name"),
        pytest.param(["stopped"], [handler("Stop", listen=["stopped"], run_once=True)], ["run_once: true"], id="topic"),
        pytest.param(["{{ it }}"], [handler("Stop", action="pause")], ["pause"], id="what is notified is not known"),
        pytest.param(
            ["Start"],
            [handler("Stop", run_once=True), handler("Start", notify=["Stop"])],
            ["run_once: true"],
            id="by another handler",
        ),
        pytest.param(
            ["Stop"],
            [
                handler("Stop", role="app", action="meta", args={"_raw_params": "end_role"}),
                handler("Start", role="app", run_once=True),
            ],
            [],
            id="others of its role are not searched, and it may end its role",
        ),
        pytest.param(
            ["Stop"], [handler("Stop", action="include_tasks", args={"_raw_params": "gone.yml"})], [], id="no file"
        ),
    ],
)
@pytest.mark.parametrize("nested", [False, True], ids=["by the file", "by a role that the file includes"])
def test_p2_a_handler_of_the_play_is_searched_where_the_file_may_notify_it(notify, handlers, told, nested):
    tells = [task(notify=notify)]
    faults = find_faults([task("include_role")], tells, handlers) if nested else find_faults(tells, [], handlers)
    assert [fault.split(" must not")[0] for fault in faults] == [NOTIFIED + each for each in told]


def test_p15_a_handler_of_the_play_must_have_a_timeout():
    (fault,) = find_faults([task(notify=["Stop"])], [], [handler("Stop", timeout=0), handler("Start", timeout=0)])
    assert fault.startswith("drain.yml: handler Stop, which it notifies, must have a timeout: it is a handler of")


def test_p2_p13_no_file_may_let_ansible_forget_who_has_failed():
    forgets = task("meta", args={"_raw_params": "clear_host_errors"})
    (fault,) = find_faults([task(), forgets])
    assert fault.startswith("drain.yml: meta: clear_host_errors must not be used: Ansible forgets which hosts have")
    (of_role,) = find_faults([task("include_role")], [SimpleNamespace(block=[forgets])])
    assert of_role.startswith("/roles/drain: meta: clear_host_errors must not be used")


def test_p2_a_handler_that_only_listens_needs_no_name():
    nameless = task("pause", name="", listen=["stopped"], get_name=lambda include_role_fqcn: "pause", timeout=9)
    (fault,) = find_faults([task(notify=["stopped"])], [], [nameless])
    assert fault.startswith("drain.yml: handler pause, which it notifies: pause must not be used")


def test_p2_a_handler_whose_name_is_a_template_may_be_meant():
    handlers = [handler("Stop {{ app }}", run_once=True)]
    assert find_faults([task()], [], handlers) == []
    (fault,) = find_faults([task(notify=["Stop the app"])], [], handlers)
    assert "run_once: true must not be used" in fault


def test_a_role_that_is_imported_may_end_itself_and_lack_a_file():
    role = SimpleNamespace(_role_path="/roles/refill", _from_files={}, handlers=[])
    ends = task("meta", args={"_raw_params": "end_role"}, _role=role)
    lacks = task("include_tasks", args={"_raw_params": "windows.yml"}, _role=role)
    assert find_faults([ends, lacks]) == []


def test_a_file_without_a_task_is_refused():
    assert find_faults([]) == [
        "drain.yml: the file has no task. Write the tasks into it. To do nothing, set the variable to `nothing`."
    ]


def test_p13_a_file_of_which_tags_leave_no_task_is_refused():
    assert find_faults([task(tags=["never"]), task()]) == []
    for tag in ("never", "skipped"):
        (fault,) = find_faults([task(tags=[tag])])
        assert fault.startswith("drain.yml: no task is left of the file, because of its tags and those of the run")


@pytest.mark.parametrize(
    ("skipped", "named"),
    [
        pytest.param(["Drain"], "Drain", id="one"),
        pytest.param(["Drain", "Stop", "Tell", "Log", "Look"], "Drain, Stop, Tell, 2 more", id="many"),
    ],
)
def test_p13_a_file_of_which_the_tags_of_the_run_leave_a_part_is_refused(skipped, named):
    left_out = [task(tags=["skipped"], name=name) for name in skipped]
    assert find_faults([task(), *left_out, task(tags=["never"])]) == [
        f"drain.yml: --tags or --skip-tags leaves out tasks of the file ({named}), so a host would count as done "
        "without them. Start this without these options, and look for tags in ansible.cfg."
    ]


@pytest.mark.parametrize("action", ["reboot", "ansible.builtin.reboot", "ansible.windows.win_reboot"])
def test_i11_a_file_that_boots_its_host_is_refused(action):
    (fault,) = find_faults([task(action)])
    assert fault.startswith(f"drain.yml: {action} must not be used: a host that boots after it was prepared")


def test_b6_the_skeleton_of_a_runbook_is_refused():
    skeleton = yaml.safe_load((NEW_RUNBOOK / "restore.yml").read_text())
    assert skeleton[0]["name"] == yaml.safe_load((NEW_RUNBOOK / "prepare.yml").read_text())[0]["name"]
    (told,) = find_faults([task("debug", name=each["name"]) for each in skeleton])
    assert find_faults([task("debug", name=each["name"]) for each in skeleton], rehearsal=True) == []
    assert told.startswith("drain.yml: nobody has written this file")
    assert find_faults([task("debug", name=each["name"]) for each in skeleton[1:]]) == []
