# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""P14: each playbook that takes a target refuses an empty one, and one that matches no host, before it asks anybody."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import TREE

NAMESPACE = "fleetops.azure_maintenance."
REST = [
    pytest.param(name, marks=pytest.mark.matrix)
    for name in ("respond", "fleet_report", "fleet_history", "install_checker")
]
PLAYBOOKS = ["approve", *REST, "rehearse_checker"]
EMPTY = "target is empty: name the hosts, such as target=web, or target=all"
INVENTORY = """
[web]
web-1
web-2
[db]
db-1
[all:vars]
ansible_connection=local
ansible_python_interpreter={{ ansible_playbook_python }}
"""


@pytest.fixture
def play(ansible, tmp_path):
    """play("approve", "--limit", "web-1", target="web"), and what was said on stdout and stderr in one line."""
    (tmp_path / "hosts.ini").write_text(INVENTORY)

    def run(playbook, *argv, **extra_vars):
        variables = {
            "fleet_report_dir": str(tmp_path / "report"),
            "fleet_history_dir": str(tmp_path / "history"),
            "approve_event_types": "Reboot",
            **extra_vars,
        }
        argv = ("-i", str(tmp_path / "hosts.ini"), NAMESPACE + playbook, "-e", json.dumps(variables), *argv)
        ended = ansible("ansible-playbook", *argv)
        return ended, re.sub(r"\s+", " ", ended.out + ended.err)

    return run


def asked_nobody(ended):
    assert "PLAY [" not in ended.out
    return ended.code != 0


def test_p14_a_misspelled_target_is_refused(play):
    ended, said = play("approve", targets="web")
    assert "targets is given, and target is not: is target meant? For every host say target=all." in said
    assert asked_nobody(ended)


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_an_empty_target_is_refused(play, playbook):
    ended, said = play(playbook, "-e", "target=")
    assert asked_nobody(ended)
    assert EMPTY in said


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_a_target_that_no_host_matches_is_refused(play, playbook):
    ended, said = play(playbook, target="wbe")
    assert asked_nobody(ended)
    assert "target: no host of the inventory matches 'wbe'. No host was asked." in said


@pytest.mark.parametrize("playbook", ["approve", *REST])
@pytest.mark.releases
def test_a_target_that_cannot_be_told_is_refused_and_does_not_mean_all_hosts(play, playbook):
    """Variables of hosts are not known where Ansible chooses the hosts of a play."""
    ended, said = play(playbook, target="{{ ansible_connection }}")
    assert asked_nobody(ended)
    assert "'ansible_connection' is undefined" in said


@pytest.mark.releases
def test_a_limit_that_leaves_none_of_the_target_is_refused_and_no_tag_or_step_goes_around_that(play):
    for argv in ((), ("--tags", "none"), ("--start-at-task", "Show the approvals")):
        ended, said = play("approve", "--limit", "db-1", *argv, target="web")
        assert asked_nobody(ended)
        assert "target: no host that --limit db-1 leaves matches 'web'. No host was asked." in said


@pytest.mark.matrix
def test_a_limit_without_localhost_leaves_the_rest_of_the_target(play):
    ended, said = play("fleet_report", "--limit", "web-2", target="web,db")
    assert ended.code == 0, said
    assert "1 host" in said
    assert "web-2" in ended.out
    assert "web-1" not in ended.out


@pytest.mark.parametrize("playbook", ["respond", "restore"])
def test_a_target_may_be_a_list_of_patterns(play, playbook):
    """As the lookup takes it: web-1 takes part, and db-1, but not web-2."""
    words = {"event_response_prepare": "nothing"} if playbook == "respond" else {"event_response_restore": "nothing"}
    _ended, said = play(playbook, target=["web:!web-2", "db-1"], **words)
    assert "db-1, web-1 could not be asked:" in said or "web-1, db-1 could not be asked:" in said
    assert "localhost could not be asked" not in said


def test_a_rehearsal_on_vms_needs_a_target_also_under_a_limit(play):
    ended, said = play("rehearse_checker", "--limit", "web-1")
    assert asked_nobody(ended)
    assert EMPTY in said


def test_p13_a_rehearsal_under_a_limit_without_localhost_is_refused(play):
    """Ansible would skip each play, and a rehearsal of nothing would end well."""
    ended, said = play("rehearse", "--limit", "web-1", target="web-1")
    assert asked_nobody(ended)
    assert "target: no host that --limit web-1 leaves matches 'localhost'." in said


@pytest.mark.parametrize("path", sorted((TREE / "playbooks").glob("*.yml")), ids=lambda path: path.stem)
def test_no_play_takes_a_target_that_nobody_has_looked_at(path):
    """The same for all of them, without a run of each."""
    for play in yaml.safe_load(path.read_text()):
        # A playbook that it imports is looked at, too.
        hosts = "" if "import_playbook" in play else play["hosts"]
        assert "target" not in hosts or hosts.startswith(f"{{{{ query('{NAMESPACE}target'")


def test_an_inventory_without_a_host_is_refused(play, ansible):
    ended = ansible("ansible-playbook", NAMESPACE + "approve", "-e", "approve_event_types=Reboot")
    assert asked_nobody(ended)
    assert "target: no host of the inventory matches 'all'." in re.sub(r"\s+", " ", ended.out + ended.err)
