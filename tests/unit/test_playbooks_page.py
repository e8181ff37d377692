# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""I7: the page of the playbooks lists each variable that one of them reads, with the default that it has there."""

from __future__ import annotations

import re

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report import settings
from ansible_collections.fleetops.azure_maintenance.tests import playbooks_page

PLAYBOOKS = {
    path.stem: playbooks_page.read_playbook(path) for path in (playbooks_page.TREE / "playbooks").glob("*.yml")
}
PREFIXES = {
    name: f"{name}_" for name in ("approve", "fleet_history", "fleet_report", "new_runbook", "rehearse", "restore")
}
PREFIXES["rehearse_checker"] = "rehearse_"
NO_DEFAULT = ("not given", "none", "must be given")


def defaults_of_action(name):
    """Return the variables that report_step reads for a playbook, with their defaults."""
    if name not in settings.PLAYBOOKS:
        return {}
    return {f"{name}_{variable}": default for variable, default in settings.PLAYBOOKS[name].defaults.items()}


def test_i7_the_page_says_what_the_playbooks_and_roles_say():
    assert playbooks_page.PAGE.read_text(encoding="utf-8") == playbooks_page.make_page(), (
        "python tests/playbooks_page.py makes it anew"
    )


def test_i7_each_playbook_is_on_the_page():
    assert sorted(PLAYBOOKS) == sorted(playbooks_page.ORDER)


def read_by(playbook):
    """Return the variables that a playbook reads of those that begin with its name, without what it sets itself."""
    prefix = PREFIXES.get(playbook.name)
    if prefix is None:
        return set()
    # Neither a part of another name, nor the name of a plugin, a file or a key of what is set
    found = set(re.findall(rf"(?<![\w./])({prefix}[a-z_]+)\b(?!:|\.yml|\()", playbook.plays))
    set_here = set(re.findall(rf"^ *({prefix}[a-z_]+): \"", playbook.plays, re.MULTILINE))
    return {*(found - set_here), *defaults_of_action(playbook.name)}


@pytest.mark.parametrize("name", sorted(PLAYBOOKS))
def test_i7_the_head_of_a_playbook_names_the_variables_that_it_reads(name):
    # The modules read the endpoint by themselves.
    named = {variable.name for variable in PLAYBOOKS[name].variables} - {"azure_maintenance_endpoint"}
    assert sorted(named) == sorted(read_by(PLAYBOOKS[name]))


@pytest.mark.parametrize("name", sorted(PLAYBOOKS))
def test_i7_the_head_of_a_playbook_says_the_defaults_that_it_has(name):
    playbook = PLAYBOOKS[name]
    of_action = defaults_of_action(name)
    for variable in playbook.variables:
        if variable.name in of_action:
            assert (of_action[variable.name] or "not given") == variable.default, variable
        elif variable.default not in NO_DEFAULT:
            default = rf"default\('?{re.escape(variable.default)}'?[,)]"
            assert re.search(rf"\b{variable.name}\b[^}}]*{default}", playbook.plays), variable


def test_i7_the_variables_of_the_roles_that_playbooks_pass_on_have_a_meaning():
    for role in set(playbooks_page.ROLE_OF.values()):
        assert all(variable.meaning and variable.type for variable in playbooks_page.read_role(role))
