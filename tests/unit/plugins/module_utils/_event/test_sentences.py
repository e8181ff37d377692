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


STARTED = raw_event(EventStatus="Started", NotBefore="")
SCHEDULED = "Reboot Scheduled, may start in 14 min 59 s"


@pytest.mark.parametrize(
    ("events", "said"),
    [
        pytest.param([], "no events", id="no events"),
        pytest.param([raw_event(Resources=["web-1", "web-2"])], f"{SCHEDULED} (web-1, web-2)", id="one event"),
        pytest.param(
            [raw_event(), {**STARTED, "EventType": "Freeze"}],
            f"{SCHEDULED} (vm-1); Freeze Started (vm-1)",
            id="two events",
        ),
        pytest.param(
            [raw_event(NotBefore="Sat, 21 Nov 2026 09:00:00 GMT")],
            "Reboot Scheduled, may start now (vm-1)",
            id="due",
        ),
        pytest.param(
            [raw_event(NotBefore="soon")],
            "Reboot Scheduled, start unknown (vm-1)",
            id="S12 start unknown, not due",
        ),
        pytest.param(
            [{}],
            "unknown event in unknown status, start unknown (no VM named)",
            id="an event with nothing but an id",
        ),
        pytest.param(
            [raw_event(Resources=VMS[:4])],
            f"{SCHEDULED} (vm-1, vm-2, vm-3, vm-4)",
            id="four VMs are all named",
        ),
        pytest.param(
            [raw_event(Resources=VMS)],
            f"{SCHEDULED} (vm-1, vm-2, vm-3, vm-4, 2 more)",
            id="of six VMs four are named and the others counted",
        ),
        pytest.param(
            [STARTED] * 5,
            "Reboot Started (vm-1); " * 4 + "1 more",
            id="of five events four are told and the other counted",
        ),
    ],
)
def test_a_summary_says_what_is_coming_and_when(events: list[dict[str, Any]], said: str) -> None:
    assert summary(*events) == f"vm-1: {said}"


def test_a_vm_that_does_not_know_its_name_tells_of_the_document() -> None:
    assert summary(name=None) == "document: no events"


def test_none_selected_does_not_read_as_none_there() -> None:
    document = parse(raw_event(), {**raw_event(), "EventId": "A-2"})
    assert summarize([], document, NOW, "vm-1") == "vm-1: no such events (2 others in the document)"


ONE = "an entry of the document cannot be read and may be one. Ask again."
ONE_MORE = "an entry of the document cannot be read and may be one more. Ask again."


@pytest.mark.parametrize(
    ("document", "selected", "said"),
    [
        pytest.param(parse("junk"), 0, f"no event that can be read, but {ONE}", id="nothing can be read"),
        pytest.param(
            parse(raw_event(), "junk"),
            0,
            f"no such events (1 others in the document), but {ONE}",
            id="others can be read",
        ),
        pytest.param(parse(raw_event(), "junk"), 1, f"{SCHEDULED} (vm-1), but {ONE_MORE}", id="one can be read"),
    ],
)
def test_what_cannot_be_read_does_not_read_as_none_there(document: Document, selected: int, said: str) -> None:
    assert summarize(document.events[:selected], document, NOW, "vm-1") == f"vm-1: {said}"


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
