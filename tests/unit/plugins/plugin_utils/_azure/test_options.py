# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of what asks Azure from outside are those of its documentation."""

from __future__ import annotations

import importlib

import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.plugins.doc_fragments._azure import ModuleDocFragment
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure import acknowledge, info, set_policy
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.task import azure_argument_spec

MODULES = "ansible_collections.fleetops.azure_maintenance.plugins.modules"
FRAGMENT = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]
SPECS = {
    "resource_graph_events_info": info.SPEC,
    "scheduled_event_acknowledge": acknowledge.SPEC,
    "scheduled_events_policy": set_policy.SPEC,
}


def facts(options):
    """What documentation and code must agree on."""
    names = ("type", "elements", "required", "default", "choices", "aliases")
    return {
        name: {fact: option[fact] for fact in names if option.get(fact) is not None} for name, option in options.items()
    }


def test_options_of_all():
    spec = azure_argument_spec()
    assert {name: {**told, "choices": sorted(told.get("choices", ()))} for name, told in facts(spec).items()} == {
        name: {**told, "choices": sorted(told.get("choices", ()))} for name, told in facts(FRAGMENT).items()
    }
    assert [name for name, option in spec.items() if option.get("no_log")] == ["secret"]


@pytest.mark.parametrize("name", SPECS)
def test_options_of_each(name):
    module = importlib.import_module(f"{MODULES}.{name}")
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    assert facts(SPECS[name]["argument_spec"]) == facts(documented)
    assert not documented.keys() & FRAGMENT.keys()
