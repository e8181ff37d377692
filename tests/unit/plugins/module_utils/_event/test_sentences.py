# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one sentence that a person reads."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Document
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.sentences import (
    format_duration,
    summarize,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils import conftest
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import parse

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
VMS = [f"vm-{number}" for number in range(1, 7)]


def raw_event(**changes: Any) -> dict[str, Any]:
    usual = {"Resources": ["vm-1"], "NotBefore": "Sat, 21 Nov 2026 10:14:59 GMT"}
    return conftest.raw_event("A-1", **{**usual, **changes})


def summary(*events: dict[str, Any], name: str | None = "vm-1") -> str:
    document = parse(*({**event, "EventId": f"A-{number}"} for number, event in enumerate(events)))
    return summarize(document.events, document, NOW, name)


@pytest.mark.parametrize(
    ("events", "name", "said"),
    [
        pytest.param([], "vm-1", "vm-1: no events", id="no events"),
        pytest.param([], None, "document: no events", id="own name unknown"),
        pytest.param(
            [raw_event(Resources=["web-1", "web-2"])],
            "web-1",
            "web-1: Reboot Scheduled, may start in 14 min 59 s (web-1, web-2)",
            id="one event",
        ),
        pytest.param(
            [raw_event(), raw_event(EventType="Freeze", EventStatus="Started", NotBefore="")],
            "vm-1",
            "vm-1: Reboot Scheduled, may start in 14 min 59 s (vm-1); Freeze Started (vm-1)",
            id="two events",
        ),
        pytest.param(
            [raw_event(NotBefore="Sat, 21 Nov 2026 09:00:00 GMT")],
            "vm-1",
            "vm-1: Reboot Scheduled, may start now (vm-1)",
            id="due",
        ),
        pytest.param(
            [raw_event(NotBefore="soon")],
            "vm-1",
            "vm-1: Reboot Scheduled, start unknown (vm-1)",
            id="S12 start unknown, not due",
        ),
        pytest.param(
            [{}],
            "vm-1",
            "vm-1: unknown event in unknown status, start unknown (no VM named)",
            id="an event with nothing but an id",
        ),
        pytest.param(
            [raw_event(Resources=VMS[:4])],
            "vm-1",
            "vm-1: Reboot Scheduled, may start in 14 min 59 s (vm-1, vm-2, vm-3, vm-4)",
            id="four VMs are all named",
        ),
        pytest.param(
            [raw_event(Resources=VMS)],
            "vm-1",
            "vm-1: Reboot Scheduled, may start in 14 min 59 s (vm-1, vm-2, vm-3, vm-4, 2 more)",
            id="of six VMs four are named and the others counted",
        ),
        pytest.param(
            [raw_event(EventStatus="Started", NotBefore="")] * 5,
            "vm-1",
            "vm-1: " + "Reboot Started (vm-1); " * 4 + "1 more",
            id="of five events four are told and the other counted",
        ),
    ],
)
def test_a_summary_says_what_is_coming_and_when(events: list[dict[str, Any]], name: str | None, said: str) -> None:
    assert summary(*events, name=name) == said


def test_none_selected_does_not_read_as_none_there() -> None:
    document = parse(raw_event(), {**raw_event(), "EventId": "A-2"})
    assert summarize([], document, NOW, "vm-1") == "vm-1: no such events (2 others in the document)"


@pytest.mark.parametrize(
    ("document", "selected", "said"),
    [
        pytest.param(
            parse("junk"),
            0,
            "vm-1: no event that can be read, but an entry of the document cannot be read and may be one. Ask again.",
            id="nothing can be read",
        ),
        pytest.param(
            parse(raw_event(), "junk"),
            0,
            "vm-1: no such events (1 others in the document), but an entry of the document cannot be read and may be "
            "one. Ask again.",
            id="others can be read",
        ),
        pytest.param(
            parse(raw_event(), "junk"),
            1,
            "vm-1: Reboot Scheduled, may start in 14 min 59 s (vm-1), but an entry of the document cannot be read and "
            "may be one more. Ask again.",
            id="one can be read",
        ),
    ],
)
def test_what_cannot_be_read_does_not_read_as_none_there(document: Document, selected: int, said: str) -> None:
    assert summarize(document.events[:selected], document, NOW, "vm-1") == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (1, "1 s"),
        (59, "59 s"),
        (60, "1 min"),
        (899, "14 min 59 s"),
        (3600, "1 h"),
        (3601, "1 h 1 s"),
        (7500, "2 h 5 min"),
        (7501, "2 h 5 min"),
        (86399, "23 h 59 min"),
        (86400, "1 d"),
        (7 * 86400 + 3 * 3600 + 61, "7 d 3 h"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(seconds: int, said: str) -> None:
    assert format_duration(seconds) == said
