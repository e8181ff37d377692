# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection as its users get it: built, installed elsewhere, and asked ad hoc."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

NAMESPACE = "fleetops.azure_maintenance."
INFO = NAMESPACE + "scheduled_events_info"


def test_the_artifact_holds_what_users_need_and_nothing_of_the_workshop(artifact):
    listing = subprocess.run(["tar", "-tzf", str(artifact)], stdout=subprocess.PIPE, text=True, check=True).stdout
    folders = {name.split("/", 1)[0] for name in listing.split() if "/" in name}
    assert folders <= {"changelogs", "docs", "examples", "extensions", "meta", "playbooks", "plugins", "roles", "tests"}
    # What ansible-test must not complain of
    assert {name.split("/")[1] for name in listing.split() if name.startswith("tests/")} == {"", "sanity"}
    assert "roles/imds_simulator/files/imds_simulator.py" in listing
    assert "extensions/eda/plugins/event_source/scheduled_events.py" in listing
    assert "extensions/molecule" not in listing
    assert "__pycache__" not in listing


@pytest.mark.releases
def test_asked_ad_hoc_a_host_says_in_words_what_is_coming(ansible, simulator):
    imds = simulator("--vms", "web-1,web-2")
    imds.control("POST", "/simulator/events", {"event_type": "Reboot", "resources": [0, 1]})
    run = ansible("ansible", "localhost", "-m", INFO, env={"AZURE_IMDS_ENDPOINT": imds.endpoint("web-2")})
    assert run.code == 0, run.out
    state, answer = re.search(r"^localhost \| (\w+) => (\{.*\})", run.out, re.MULTILINE | re.DOTALL).groups()
    assert state == "SUCCESS"
    said = json.loads(answer)["msg"]
    assert re.fullmatch(r"web-2: Reboot Scheduled, may start in \d+ min( \d+ s)? \(web-1, web-2\)", said)


def test_asked_ad_hoc_off_azure_a_host_says_so(ansible):
    run = ansible("ansible", "localhost", "-m", INFO, env={"AZURE_IMDS_ENDPOINT": "http://127.0.0.1:9"})
    assert run.code != 0
    answer = json.loads(re.search(r"^localhost \| FAILED! => (\{.*\})", run.out, re.MULTILINE | re.DOTALL)[1])
    assert (answer["reason"], answer["http_status"], answer["imds_reachable"]) == ("unreachable", None, False)
    assert "Nothing answers at http://127.0.0.1:9" in answer["msg"]


@pytest.mark.releases
def test_i3_one_variable_points_the_modules_at_a_simulator_where_a_task_names_no_endpoint(ansible, simulator, tmp_path):
    imds = simulator("--vms", "web-1,web-2")
    event = imds.announce("Reboot", "web-1")
    variable = "azure_maintenance_endpoint"
    ask = {INFO: {}, "register": "said", "failed_when": False}
    tell = {"ansible.builtin.debug": {"msg": "{{ said.resource_name | default(said.msg) }}"}}
    tasks = [
        *({**ask, **more} for more in ({}, {INFO: {"endpoint": imds.endpoint("web-2")}})),
        *({**ask, "vars": {variable: value}} for value in ("", None, "http://{{ not_there }}")),
    ]
    approve = {NAMESPACE + "scheduled_event_approve": {"event_ids": [event]}}
    play = {"hosts": "all", "gather_facts": False, "tasks": [*(one for task in tasks for one in (task, tell)), approve]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    (tmp_path / "hosts.ini").write_text(f"web-1 {variable}='{imds.url}/vm/{{{{ inventory_hostname }}}}'\n")
    given = ["-c", "local", "-e", "ansible_python_interpreter={{ ansible_playbook_python }}"]
    run = ansible("ansible-playbook", "-i", str(tmp_path / "hosts.ini"), *given, str(tmp_path / "play.yml"))
    assert run.code == 0, run.out + run.err
    asked, named, empty, null, unknown = re.findall(r'"msg": "(.*)"', run.out)
    assert (asked, named) == ("web-1", "web-2")
    assert empty.startswith("Nothing answers at http://127.0.0.1:9")
    assert null == empty
    assert unknown.startswith(f"{variable} cannot be evaluated: ")
    assert "'not_there' is undefined" in unknown
    assert imds.posted() == [("web-1", {"StartRequests": [{"EventId": event}]})]


def ansible_doc(ansible, kind, name):
    (documented,) = json.loads(ansible("ansible-doc", "--json", "--type", kind, f"{NAMESPACE}{name}").out).values()
    return documented.get("doc", {}) | documented


def test_ansible_doc_lists_no_step_of_a_role_or_playbook(ansible):
    listed = json.loads(ansible("ansible-doc", "--list", "--json", "--type", "module", NAMESPACE.rstrip(".")).out)
    assert sorted(name.removeprefix(NAMESPACE) for name in listed) == [
        "resource_graph_events_info",
        "scheduled_event_acknowledge",
        "scheduled_event_approve",
        "scheduled_events_info",
        "scheduled_events_policy",
    ]


@pytest.mark.releases
def test_each_documented_example_is_a_valid_play(ansible, tmp_path):
    names = {
        "module": (
            "resource_graph_events_info",
            "scheduled_event_acknowledge",
            "scheduled_event_approve",
            "scheduled_events_info",
            "scheduled_events_policy",
        ),
        "filter": ("approval_share", "fleet_history", "fleet_history_part", "fleet_part", "fleet_report"),
    }
    plays = ansible_doc(ansible, "lookup", "target")["examples"]
    for role in ("event_checker", "event_response", "imds_simulator"):
        plays += "\n" + ansible_doc(ansible, "role", role)["entry_points"]["main"]["examples"]
    plays += "\n"
    for kind, plugins in names.items():
        wanted = [f"fleetops.azure_maintenance.{name}" for name in plugins]
        documented = json.loads(ansible("ansible-doc", "--json", "--type", kind, *wanted).out)
        assert sorted(documented) == sorted(wanted)
        for plugin in documented.values():
            tasks = "\n".join("    " + line for line in plugin["examples"].strip().splitlines())
            plays += f"- hosts: localhost\n  gather_facts: false\n  tasks:\n{tasks}\n"
    playbook = tmp_path / "examples.yml"
    playbook.write_text(plays)
    run = ansible("ansible-playbook", "--syntax-check", str(playbook))
    assert run.code == 0, run.out
