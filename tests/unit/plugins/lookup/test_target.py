# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which patterns of hosts the playbooks take."""

from __future__ import annotations

import pytest
from ansible import context
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible.utils.context_objects import ImmutableDict
from ansible_collections.fleetops.azure_maintenance.plugins.lookup import target as target_lookup
from ansible_collections.fleetops.azure_maintenance.plugins.lookup.target import LookupModule

FLEET = {"all": ["web-1", "web-2", "db-1"], "web": ["web-1", "web-2"], "empty": [], "ungrouped": ["db-1"]}


def ask(target, limit=None, groups=None):
    variables = {"groups": FLEET if groups is None else groups}
    if limit is not None:
        variables["ansible_limit"] = limit
    return LookupModule(loader=DataLoader()).run([target], variables)


@pytest.mark.parametrize(
    ("target", "limit"),
    [
        ("all", None),
        ("web", None),
        ("web-*", None),
        ("~web-\\d", None),
        ("web:&web-1", None),
        ("nope,db-1", None),
        ("localhost", None),
        ("web", "web-2,db-1"),
        ("all", "!web"),
        ("localhost", "localhost"),
    ],
)
def test_a_pattern_that_a_host_matches_is_returned_as_it_is(target, limit):
    assert ask(target, limit) == [target]


@pytest.mark.parametrize("target", ["!db-1", "&web", "&web:!web-1", "!web-1, !db-1"])
def test_a_pattern_that_only_leaves_hosts_out_is_one_of_all_hosts_also_beside_another(target):
    assert ask(target) == ["all", target]


def test_a_list_of_patterns_stays_a_list():
    assert ask(["web-1", "db-1"]) == ["web-1", "db-1"]


@pytest.mark.parametrize("target", ["", " ", ",", ":", "!", " , ", None, [], [""], ["", None]])
def test_an_empty_pattern_is_refused_as_ansible_would_take_it_for_all_hosts(target):
    with pytest.raises(AnsibleLookupError, match="target is empty: name the hosts, such as target=web"):
        ask(target)


@pytest.mark.parametrize("name", ["tagret", "targets", "Target", "taget"])
def test_p14_a_misspelled_target_does_not_mean_all_hosts(name, monkeypatch):
    lookup = LookupModule(loader=DataLoader(), templar=Templar(DataLoader()))
    monkeypatch.setattr(
        target_lookup, "load_extra_vars", lambda _loader: {name: "web", "event_response_event_types": "Freeze"}
    )
    with pytest.raises(AnsibleLookupError, match=f"{name} is given, and target is not: is target meant"):
        lookup.run([], {"groups": FLEET, name: "web"})
    assert lookup.run([], {"groups": FLEET, name: "web", "target": "db-1"}) == ["db-1"]


@pytest.mark.parametrize("name", ["hosts", "tag", "market", "target_group", "rack"])
def test_without_a_target_all_hosts_are_taken(name, monkeypatch):
    monkeypatch.setattr(target_lookup, "load_extra_vars", lambda _loader: {name: "web"})
    assert LookupModule(loader=DataLoader()).run([], {"groups": FLEET, name: "web"}) == ["all"]


@pytest.mark.parametrize("target", [83, 0, False, True, ["web", 83]])
def test_f2_p14_a_pattern_that_is_no_text_is_refused_although_a_host_may_be_called_so(target):
    with pytest.raises(AnsibleLookupError, match=r"target must be text, not the .* No host was asked\."):
        ask(target, groups={"all": ["83", "0", "True", "False", "web"]})


@pytest.mark.parametrize(
    ("target", "limit", "groups", "message"),
    [
        ("nope", None, None, "no host of the inventory matches 'nope'"),
        ("empty", None, None, "no host of the inventory matches 'empty'"),
        ("web:!web-*", None, None, "no host of the inventory matches 'web:!web-\\*'"),
        (["nope", "neither"], None, None, "no host of the inventory matches 'nope,neither'"),
        ("all", None, {"all": []}, "no host of the inventory matches 'all'"),
        ("web", "db-1", None, "no host that --limit db-1 leaves matches 'web'"),
        ("localhost", "web", None, "no host that --limit web leaves matches 'localhost'"),
        ("~(", None, None, "target: .*"),
    ],
)
def test_a_pattern_that_no_host_matches_is_refused(target, limit, groups, message):
    with pytest.raises(AnsibleLookupError, match=message):
        ask(target, limit, groups)


@pytest.mark.parametrize("target", ["", "nope"])
def test_a_syntax_check_needs_no_inventory(target, monkeypatch):
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict(syntax=True))
    assert ask(target, groups={"all": []}) == ["all"]
