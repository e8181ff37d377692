# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation of the filters fleet_report and fleet_history names each key of their data, and no other."""

from __future__ import annotations

import re

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.filter import fleet_history, fleet_report
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet import host_results
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.history.host_results import (
    AZURE_CAUSE,
    make_slice,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._report.history.test_merge import (
    of_azure,
    row,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._report.history.test_merge import (
    said as said_by_checker,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils.conftest import NOW, make_event


def all_keys(value):
    if isinstance(value, dict):
        return set(value).union(*map(all_keys, value.values()))
    return set().union(*map(all_keys, value)) if isinstance(value, list) else set()


def report_data():
    said = {
        name: {"events": [make_event(name, duration_seconds=seconds)], "resource_name": name, "document_received": True}
        for name, seconds in (("web-1", 9), ("web-2", 5))
    }
    return fleet_report.fleet_report([host_results.make_slice(said, "whole", NOW)])


def history_data():
    azure = of_azure("host-a", event_id="other")
    azure["hosts"]["host-a"]["causes"] = [dict.fromkeys(AZURE_CAUSE)]
    checker = said_by_checker(row(started=900, ended=1000))
    return fleet_history.fleet_history([make_slice({"host-a": checker}, "whole", NOW, azure)])


@pytest.mark.parametrize(("plugin", "data"), [(fleet_report, report_data), (fleet_history, history_data)])
def test_each_key_is_documented(plugin, data):
    named = set(re.findall(r"C\((\w+)\)", plugin.RETURN))
    assert all_keys(data()) == named
