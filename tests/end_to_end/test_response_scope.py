# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who takes part in a response, and by which words: nobody whom the target does not name (P14)."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import FAR_OFF, HOSTS, RESPOND, ROLE, Fleet


@pytest.fixture
def make_fleet(ansible, simulator, tmp_path):
    (tmp_path / "fleet").mkdir()
    return lambda hosts: Fleet(ansible, simulator, tmp_path / "fleet", hosts, hosts)


# The hosts of the inventory besides host-a, which is the target, a group that they are in, and the target
OUTSIDERS = [
    pytest.param(["127.0.0.1"], None, "host-a", id="this machine by another name"),
    pytest.param(["::1", "host-c"], "localhost", "host-a", id="a group called localhost", marks=pytest.mark.matrix),
    pytest.param(["host-b"], None, "!host-b", id="a pattern that only leaves out"),
]


@pytest.mark.releases
@pytest.mark.parametrize(("others", "group", "target"), OUTSIDERS)
@pytest.mark.matrix
def test_p14_nobody_takes_part_whom_the_target_does_not_name(make_fleet, others, group, target):
    """Ansible takes the localhost that the playbook adds for a host or a group of the inventory, where there is one."""
    fleet = make_fleet(dict(zip(["host-a", *others], HOSTS.values())))
    wanted = fleet.announce("web-1", notice=FAR_OFF)
    for number in range(len(others)):
        fleet.announce(f"web-{number + 2}", notice=FAR_OFF)
    if group:
        fleet.put_into(group, *others)
    run = fleet.respond(playbook=RESPOND, target=target)
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [wanted])]
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot completed"]
    assert [fleet.story(host) for host in others] == [[] for _host in others]
    requests = fleet.azure.control("GET", "/simulator/journal")["requests"]
    assert {one["vm"] for one in requests if "/metadata/" in one["path"]} == {"web-1"}


@pytest.mark.releases
@pytest.mark.release
def test_what_one_host_decides_for_all_must_be_the_same_for_all_and_each_file_is_checked(make_fleet):
    fleet = make_fleet({"host-a": "web-1", "host-b": "web-2"})
    events = {host: fleet.announce(vm, notice=FAR_OFF) for host, vm in (("host-a", "web-1"), ("host-b", "web-2"))}
    fleet.set("host-b", event_response_approve=False)
    for host, event in events.items():
        fleet.set(host, event_response_event_ids=[event])
    differ = fleet.respond(playbook=RESPOND)
    for words in (
        "event_response_approve must be the same for all hosts of a run, because one of them decides for all: it is "
        "true for host-a, and false for host-b.",
        f"it is {events['host-a']} for host-a, and {events['host-b']} for host-b.",
        "No host was asked.",
    ):
        assert words in differ.words

    for host in events:
        fleet.set(host, event_response_approve=True, event_response_event_ids=[], own=f"{fleet.folder}/{host}.yml")
    own = {"event_response_prepare": "{{ own }}"}
    (fleet.folder / "host-a.yml").write_text("- raw: echo a >>{{ story | quote }}")
    (fleet.folder / "host-b.yml").write_text("- meta: end_host")
    refused = fleet.respond(playbook=RESPOND, **own)
    assert (
        f"host-b: event_response_prepare: {fleet.folder}/host-b.yml: meta: end_host must not be used" in refused.words
    )
    assert "host-a: event_response_prepare" not in refused.words
    assert fleet.azure.control("GET", "/simulator/journal")["requests"] == []
    assert (differ.code, refused.code) == (2, 2)

    (fleet.folder / "host-b.yml").write_text("- raw: echo b >>{{ story | quote }}")
    run = fleet.respond(playbook=RESPOND, **own)
    assert run.code == 0, run.out + run.err
    assert sorted(fleet.approved) == [("web-1", [events["host-a"]]), ("web-2", [events["host-b"]])]
    assert [fleet.story(host)[0] for host in events] == ["a", "b"]


# Where the play has a condition that the preparation makes false
CONDITION = {"when": "state | default('up') == 'up' and inventory_hostname != 'host-a'"}
INCLUDED = {"include_role": {"name": ROLE}}
CONDITIONS = [
    pytest.param([{"roles": [{"role": ROLE, **CONDITION}]}], True, id="at the role"),
    pytest.param([{"tasks": [{"block": [INCLUDED], **CONDITION}]}], True, id="at a block around it"),
    pytest.param([{"import_playbook": RESPOND, **CONDITION}], True, id="at the playbook"),
    pytest.param([{"tasks": [{**INCLUDED, **CONDITION}]}], False, id="at the task that includes it"),
]


@pytest.mark.releases
@pytest.mark.parametrize(("plays", "refused"), CONDITIONS)
@pytest.mark.release
def test_a_condition_that_may_become_false_meanwhile_is_refused(make_fleet, plays, refused):
    """Ansible would skip the restore and the verdict, with exit status 0.

    Here it leaves out the first host of the play, which does what is run once.
    """
    fleet = make_fleet({"host-a": "web-1", "host-b": "web-2"})
    fleet.announce("web-1", notice=FAR_OFF)
    wanted = fleet.announce("web-2", notice=FAR_OFF)
    given = {"vars": fleet.write_files("- set_fact: {state: down}\n")}
    play = {"hosts": "all", "gather_facts": False}
    plays = [{**({} if "import_playbook" in each else play), **each, **given} for each in plays]
    (fleet.folder / "site.json").write_text(json.dumps(plays))
    run = fleet.run(str(fleet.folder / "site.json"))
    assert run.code == (2 if refused else 0), run.out + run.err
    assert ("when must not stand at the role, at a block around it or at import_playbook" in run.words) is refused
    assert fleet.story("host-a") == []
    if refused:
        assert fleet.azure.control("GET", "/simulator/journal")["requests"] == []
    else:
        assert fleet.approved == [("web-2", [wanted])]
        assert fleet.story("host-b") == ["prepare host-b Reboot", "restore host-b Reboot completed"]
