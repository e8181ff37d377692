# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules on Windows VMs, as tasks of playbooks. The VMs are stand-ins: no PowerShell runs."""

from __future__ import annotations

import json
import re
import textwrap

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import TREE

INFO = "fleetops.azure_maintenance.scheduled_events_info"
APPROVE = "fleetops.azure_maintenance.scheduled_event_approve"
FIRST, SECOND, THIRD = (f"{number}7061BAC-AFDC-4513-B24B-AA5F13A16123" for number in "ABC")
# What the guide lists: Windows has no boot_id and no marks. Newer ansible-core says where in a module something failed.
DIFFERENT = ("boot_id", "marks", "exception")
APPROVAL = "an approval"
# Of each: the name of the task, the module, its options, and what else the task has.
TASKS = [
    ("all that affects this VM", INFO, {}, {}),
    ("the whole document", INFO, {"scope": "all", "query": "events[].event_id"}, {}),
    ("a selection", INFO, {"event_types": "reboot,Redeploy", "due_within": 5}, {}),
    ("a name that is given", INFO, {"resource_name": "web-2"}, {}),
    ("another api-version", INFO, {"api_version": "2017-08-01"}, {}),
    ("an option that does not exist", INFO, {"evnt_types": ["Reboot"]}, {}),
    ("an option of the wrong type", INFO, {"timeout": "soon"}, {}),
    ("a choice that does not exist", INFO, {"scope": "mine"}, {}),
    ("a word that Azure does not use", INFO, {"event_types": ["Rebot"]}, {}),
    ("a limit that cannot be", INFO, {"connect_timeout": 0}, {}),
    ("an endpoint that cannot be", INFO, {"endpoint": "https://127.0.0.1"}, {}),
    ("a query that is none", INFO, {"query": "events["}, {}),
    ("until", INFO, {"scope": "all"}, {"until": "result.events | length == 3", "retries": 1, "delay": 0}),
    ("a loop", INFO, {"event_ids": ["{{ item }}"], "scope": "all"}, {"loop": [FIRST, SECOND]}),
    ("an event of several VMs", APPROVE, {"event_id": SECOND}, {}),
    ("nothing selected", APPROVE, {"event_ids": []}, {}),
    ("nothing said", APPROVE, {}, {}),
    ("an id and its alias", APPROVE, {"event_ids": [FIRST], "event_id": FIRST}, {"check_mode": True}),
    ("check mode", APPROVE, {"event_ids": [FIRST]}, {"check_mode": True, "diff": True}),
    ("a document that has changed", APPROVE, {"event_ids": [FIRST], "document_incarnation": "99"}, {}),
    ("an id that is not there", APPROVE, {"event_ids": ["F7061BAC"]}, {}),
    (APPROVAL, APPROVE, {"event_ids": [FIRST.lower()]}, {"diff": True}),
    ("an approval of several VMs", APPROVE, {"event_id": SECOND, "resources_ready": ["web-2"]}, {}),
]
# What make test has. What else the modules say is compared in the unit tests of _windows/transport.py too.
SHORT = ["the whole document", "an option that does not exist", "check mode", APPROVAL]


@pytest.fixture
def run(ansible, tmp_path):
    """A runner: run(inventory, tasks) runs tasks on all hosts, or on those they name; returns results by host, task."""
    collections = windows.make_ansible_windows(tmp_path / "installed")

    def run(inventory, tasks, *arguments, settings=None):
        (tmp_path / "hosts").write_text(inventory)
        play = [
            {name: options, "name": name_of_task, "register": f"result_{number}", "ignore_errors": True, **more}
            for number, (name_of_task, name, options, more) in enumerate(tasks)
        ]
        for task in play:
            if "until" in task:
                task["until"] = task["until"].replace("result", task["register"])
        results = ", ".join(f"result_{number} | default(none)" for number in range(len(tasks)))
        play.append(
            {
                "name": "Write down what came out",
                "ansible.builtin.copy": {
                    "content": "{{ [" + results + "] | to_json }}",
                    "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}.json",
                },
                "delegate_to": "localhost",
                "check_mode": False,
                "become": False,
            }
        )
        # A play for each task: Ansible needs almost as long for a task that a host skips as for one that it runs.
        plays = [{"hosts": task.pop("hosts", "all"), "gather_facts": False, "tasks": [task]} for task in play]
        (tmp_path / "play.yml").write_text(json.dumps(plays))
        ended = ansible(
            "ansible-playbook",
            "-i",
            "hosts",
            "play.yml",
            *arguments,
            cwd=tmp_path,
            env={**(windows.settings(collections) if settings is None else settings)},
        )
        results = {}
        for path in tmp_path.glob("*.json"):
            results[path.stem] = dict(zip([task[0] for task in tasks], json.loads(path.read_text())))
        return ended, results

    return run


@pytest.fixture
def azures(simulator):
    """Two simulators in which the same happens."""
    both = [simulator("--vms", "web-1,web-2", "--clock", "manual") for _each in range(2)]
    for azure in both:
        azure.announce("Reboot", "web-1", event_id=FIRST)
        azure.announce("Redeploy", "web-1", "web-2", event_id=SECOND)
        azure.announce("Freeze", "web-2", event_id=THIRD)
    return both


def plain(result, endpoint):
    """Return a result as far as it is the same on both systems and at each time, as text."""
    said = json.dumps(without_differences(result)).replace(endpoint, "ENDPOINT")
    said = re.sub(r'"seconds_until_start": \d+', '"seconds_until_start": 9', said)
    return json.loads(re.sub(r"in \d+ min( \d+ s)?|\d\d:\d\d:\d\d", "SOON", said))


def without_differences(result):
    if "results" in result:
        return {**result, "results": [without_differences(each) for each in result["results"]]}
    return {name: value for name, value in result.items() if name not in DIFFERENT}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(SHORT, id="short"),
        pytest.param([name for name, *_rest in TASKS if name not in SHORT], id="rest", marks=pytest.mark.matrix),
    ],
)
@pytest.mark.releases
def test_tasks_say_the_same_on_linux_and_windows(run, azures, tmp_path, names):
    linux, other = azures
    inventory = linux.inventory(["web-1"], tmp_path).replace("web-1 ", "linux ", 1)
    inventory += windows.host("windows", stand_in_imds=other.endpoint("web-1"))
    tasks = [
        (name, module, {"endpoint": "{{ endpoint }}", **options}, more)
        for name, module, options, more in TASKS
        if name in names
    ]
    hosts = {"linux": linux.endpoint("web-1"), "windows": other.endpoint("web-1")}
    inventory = inventory.replace("linux ", f"linux endpoint={hosts['linux']} ")
    inventory = inventory.replace("windows ", f"windows endpoint={hosts['windows']} ", 1)
    ended, results = run(inventory, tasks)
    assert set(results) == {"linux", "windows"}, ended.out + ended.err
    for name in names:
        said = [plain(results[host][name], endpoint) for host, endpoint in hosts.items()]
        assert said[1] == said[0], name
    assert other.posted()
    assert linux.posted() == other.posted()


# What the host is like; the task and what it has besides; what must be in the result, and a part of its text.
CASES = [
    ("a VM", {}, (INFO, {}, {}), {"endpoint": "http://169.254.169.254", "boot_id": None, "marks": None}, "Reboot"),
    (
        "the environment of the task",
        {},
        (INFO, {}, {"environment": {"AZURE_IMDS_ENDPOINT": "http://169.254.169.254/"}}),
        {"endpoint": "http://169.254.169.254"},
        "Reboot",
    ),
    (
        "an endpoint from the environment that is none",
        {},
        (INFO, {}, {"environment": {"AZURE_IMDS_ENDPOINT": "x"}}),
        {"failed": True},
        'endpoint must have the form http://HOST[:PORT][/PREFIX], not "x"',
    ),
    (
        "become sudo",
        {},
        (INFO, {}, {"become": True, "become_method": "sudo"}),
        {"failed": True},
        "become_method must be runas on a Windows host, not sudo.",
    ),
    (
        "async",
        {},
        (INFO, {}, {"async": 30, "poll": 1}),
        {"failed": True},
        "async cannot be used with Windows hosts, because it runs on the controller.",
    ),
    (
        "discover_endpoint",
        {},
        (APPROVE, {"discover_endpoint": True, "event_types": "Reboot"}, {}),
        {"failed": True},
        "discover_endpoint cannot be used with Windows hosts",
    ),
    (
        "no metadata service",
        {"stand_in_imds": "http://127.0.0.1:9"},
        (INFO, {"endpoint": "http://127.0.0.1:9"}, {}),
        {"failed": True, "reason": "unreachable", "imds_reachable": False, "http_status": None},
        "Nothing answers at http://127.0.0.1:9",
    ),
    (
        "Windows by name only",
        {"stand_in_breaks": "no_powershell"},
        (INFO, {}, {}),
        {"failed": True},
        "win_uri did not run to its end on this host",
    ),
    (
        "an old ansible.windows",
        {"stand_in_breaks": "old"},
        (INFO, {}, {}),
        {"failed": True},
        "Install a newer one: ansible-galaxy collection install ansible.windows --upgrade",
    ),
    ("a lost VM", {"stand_in_breaks": "lost"}, (INFO, {}, {}), {"unreachable": True}, "The host is down."),
    (
        "a VM that is lost in the middle",
        {"stand_in_breaks": "reset"},
        (INFO, {}, {}),
        {"unreachable": True},
        "The connection to this VM was lost",
    ),
    (
        "a VM that is lost with an approval",
        {"stand_in_breaks": "reset_at_post"},
        (APPROVE, {"event_types": "Reboot"}, {}),
        {"unreachable": True},
        "The connection to this VM was lost after an approval had been sent, which Azure may have taken: ",
    ),
]


@pytest.mark.matrix
def test_what_is_different_on_windows(run, simulator):
    azure = simulator("--vms", "web-1", "--clock", "manual")
    azure.announce("Reboot", "web-1", event_id=FIRST)
    inventory, tasks = "", []
    for number, (name, variables, (module, options, more), _result, _text) in enumerate(CASES):
        inventory += windows.host(f"host-{number}", **{"stand_in_imds": azure.endpoint("web-1"), **variables})
        tasks.append((name, module, options, {**more, "ignore_unreachable": True, "hosts": f"host-{number}"}))
    ended, results = run(inventory, tasks)
    for number, (name, _variables, _task, expected, text) in enumerate(CASES):
        result = results[f"host-{number}"][name]
        assert {key: result.get(key) for key in expected} == expected, (name, result, ended.err)
        assert text in result["msg"], name
        assert result["msg"].isprintable(), name
    # The one whose answer was lost
    assert azure.posted() == [("web-1", {"StartRequests": [{"EventId": FIRST}]})]


@pytest.mark.hostile_text
def test_text_of_azure_never_runs_as_a_template(run, simulator, tmp_path):
    """P10: on Windows it comes from a plugin and not from a module, whose results Ansible itself marks."""
    azure = simulator("--vms", "web-1", "--clock", "manual")
    hostile = f"{{{{ lookup('pipe', 'touch {tmp_path}/ran') }}}}"
    azure.announce("Reboot", "web-1", description=hostile)
    keep = {"told": "{{ result_0.events[0].description }}"}
    tasks = [
        ("ask", INFO, {}, {}),
        ("keep", "ansible.builtin.set_fact", keep, {}),
        ("use", "ansible.builtin.debug", {"msg": "{{ told }}"}, {}),
    ]
    _ended, results = run(windows.host("windows", stand_in_imds=azure.endpoint("web-1")), tasks)
    assert not (tmp_path / "ran").exists()
    assert results["windows"]["use"]["msg"] == hostile


@pytest.mark.releases
def test_without_ansible_windows_one_sentence_says_how_to_install_it(run, simulator):
    azure = simulator("--vms", "web-1")
    inventory = windows.host("windows", stand_in_imds=azure.endpoint("web-1"))
    _ended, results = run(inventory, [("ask", INFO, {}, {})], settings=windows.settings())
    assert results["windows"]["ask"]["msg"] == (
        "Windows hosts need the collection ansible.windows on the controller, which has no ansible.windows.win_uri: "
        "ansible-galaxy collection install ansible.windows"
    )
    assert "reason" not in results["windows"]["ask"]


@pytest.mark.releases
@pytest.mark.matrix
def test_a_task_is_delegated_from_either_system_to_the_other(run, azures, tmp_path):
    linux, other = azures
    linux.announce("Terminate", "web-1")
    inventory = linux.inventory(["web-1"], tmp_path).replace("web-1 ", "linux partner=windows ", 1)
    inventory += windows.host("windows", stand_in_imds=other.endpoint("web-1"), partner="linux")
    _ended, results = run(inventory, [("ask", INFO, {}, {"delegate_to": "{{ partner }}"})])
    # Only the answer of Linux has the boot, and the other event.
    assert [len(results[host]["ask"]["events"]) for host in ("linux", "windows")] == [2, 3]
    assert [bool(results[host]["ask"]["boot_id"]) for host in ("linux", "windows")] == [False, True]


@pytest.mark.matrix
def test_async_works_on_linux(run, simulator, tmp_path):
    azure = simulator("--vms", "web-1", "--clock", "manual")
    azure.announce("Reboot", "web-1", event_id=FIRST)
    tasks = [(name, name, {"event_types": "Reboot"}, {"async": 600, "poll": 1}) for name in (INFO, APPROVE)]
    inventory = azure.inventory(["web-1"], tmp_path).strip() + f" ansible_async_dir={tmp_path}/jobs\n"
    _ended, results = run(inventory, tasks)
    assert [event["event_id"] for event in results["web-1"][INFO]["events"]] == [FIRST]
    assert results["web-1"][APPROVE]["approvals"][0]["result"] == "approved"


# How an inventory says that a host runs Windows. Nothing listens there: a role that asked would find it unreachable.
WINDOWS_HOSTS = {
    "winrm": "ansible_connection=ansible.builtin.winrm",
    "psrp": "ansible_connection=psrp",
    "powershell": "ansible_connection=ssh ansible_shell_type=powershell",
    "cmd": "ansible_connection=ssh ansible_shell_type=cmd",
}


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("event_checker", "Let AWX start the playbook fleetops.azure_maintenance.respond or"),
        ("imds_simulator", "Start it on a Linux host"),
    ],
)
@pytest.mark.releases
@pytest.mark.matrix
def test_the_roles_for_linux_refuse_windows_before_they_touch_it(ansible, tmp_path, role, words):
    hosts = [f"{name} {variables} ansible_host=127.0.0.1 ansible_port=9\n" for name, variables in WINDOWS_HOSTS.items()]
    (tmp_path / "hosts").write_text("".join(hosts))
    play = {"hosts": "all", "gather_facts": False, "become": True, "roles": [f"fleetops.azure_maintenance.{role}"]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    ended = ansible("ansible-playbook", "-i", "hosts", "play.yml", cwd=tmp_path)
    assert ended.code == 2, ended.out + ended.err
    for name in WINDOWS_HOSTS:
        assert re.search(rf"{name} +: ok=\d +changed=0 +unreachable=0 +failed=1", ended.out), ended.out
        assert f"{name} runs Windows, " in ended.out
    assert words in ended.out


@pytest.mark.matrix
def test_the_playbook_of_the_guide_with_which_users_see_for_themselves(ansible, simulator, tmp_path):
    azure = simulator("--vms", "web-1")
    guide = (TREE / "docs" / "docsite" / "rst" / "guide_windows.rst").read_text(encoding="utf-8")
    shown = re.search(r":caption: windows_check.yml\n\n((?:(?:   .*)?\n)+)", guide).group(1)
    (tmp_path / "windows_check.yml").write_text(textwrap.dedent(shown))
    (tmp_path / "inventory").write_text("[windows]\n" + windows.host("app-1", stand_in_imds=azure.endpoint("web-1")))
    settings = windows.settings(windows.make_ansible_windows(tmp_path / "installed"))
    ended = ansible("ansible-playbook", "-i", "inventory", "windows_check.yml", cwd=tmp_path, env=settings)
    assert ended.code == 0, ended.out + ended.err
    assert "ok=2 " in ended.out
