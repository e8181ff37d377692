# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What VMs say, made up, for the tests of the fleet report."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Callable

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report import slices
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet import host_results
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.merge import merge_slices

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)


def make_event(this_vm: str, **changes: Any) -> dict[str, Any]:
    """Return an event as scheduled_events_info returns it on this VM."""
    event = {
        "event_id": "A-1",
        "event_type": "Reboot",
        "event_status": "Scheduled",
        "resource_type": "VirtualMachine",
        "resources": ["web-1", "web-2"],
        "not_before": "2026-11-21T10:10:00Z",
        "not_before_raw": "Sat, 21 Nov 2026 10:10:00 GMT",
        "seconds_until_start": 600,
        "description": "Host server is undergoing maintenance.",
        "event_source": "Platform",
        "duration_seconds": 9,
        **changes,
    }
    event["affects_this_vm"] = changes.get("affects_this_vm", this_vm in event["resources"])
    return event


@pytest.fixture
def event() -> Callable[..., dict[str, Any]]:
    return make_event


@pytest.fixture
def said() -> Callable[..., dict[str, Any]]:
    """The result of a VM that answered with these events, each given by how it differs from the usual one."""

    def result(name: str | None, *events: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {
            "events": [make_event(name or "", **changes) for changes in events],
            "resource_name": name,
            "document_received": True,
            "document_incarnation": 1,
            "msg": "",
            **more,
        }

    return result


@pytest.fixture
def report_on() -> Callable[..., dict[str, Any]]:
    """The report on hosts with these results, all in one part."""

    def merge(results: dict[str, Any], **options: Any) -> dict[str, Any]:
        part = host_results.make_slice(results, "whole", NOW)
        slices.check_slice(host_results.SLICE_FORMAT, "whole", part)
        return merge_slices([part], NOW, **options)

    return merge
