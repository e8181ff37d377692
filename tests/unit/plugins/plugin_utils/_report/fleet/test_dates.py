# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A date that is odd or cannot be read costs the fleet at most the answer in which it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.page import as_html
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.text import (
    as_csv,
    as_lines,
    as_markdown,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import progress

# The second is how a release wrote the year 999 that had it with three digits.
DATES = ["0999-12-31T19:00:00Z", "999-12-31T19:00:00Z", "9999-12-31T23:59:59Z", "soon", ""]


@pytest.mark.parametrize("not_before", DATES)
def test_an_odd_date_does_not_stop_the_report(report_on: Any, said: Any, not_before: str) -> None:
    report = report_on(
        {"web-1": said("web-1", {"not_before": not_before}), "web-2": said("web-2", {"event_id": "B-1"})}
    )
    assert "B-1" in [event["event_id"] for event in report["events"]]
    for written in (as_markdown, as_csv, as_html, as_lines, json.dumps):
        assert written(report)


@pytest.mark.parametrize(
    ("not_before", "left"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("0999-12-31T19:00:00Z", 0.0),
        ("999-12-31T19:00:00Z", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_the_seconds_that_are_left_are_unknown_where_the_date_cannot_be_read(
    event: Any, not_before: Any, left: Any
) -> None:
    assert progress.seconds_left(event("web-1", not_before=not_before), 0.0) == left
