# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long 10,000 events of Azure Resource Graph take from its pages to a result, in units of json.loads of the pages.

Both are timed in turn in one run, so that whatever else the machine does hits both alike. The exit status tells
nothing of the speed: a number that depends on the machine must not fail a build. The requests are not measured; each
of Azure's takes longer than all of this.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from statistics import median
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))

from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure import arm, events, graph

ROWS, PAGES = 10_000, 20
ROUNDS = 15
LIMIT = 3.0

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
GROUP = "/subscriptions/5b4b650e-28b9-4790-b3ab-ddbd88d727c4/resourcegroups/web/providers/microsoft.compute"


def make_pages() -> list[bytes]:
    """Return the answers: nine of ten events have ended, as in a list that keeps them."""
    pages = []
    for first in range(0, ROWS, ROWS // PAGES):
        rows = [make_row(number) for number in range(first, first + ROWS // PAGES)]
        answer = {"totalRecords": ROWS, "count": len(rows), "data": rows, "facets": [], "resultTruncated": "false"}
        if len(pages) + 1 < PAGES:
            answer["$skipToken"] = f"page {len(pages) + 1}"
        pages.append(json.dumps(answer, separators=(",", ":")).encode())
    return pages


def make_row(number: int) -> dict[str, Any]:
    event_id = f"{number:08x}-5204-4335-8c33-c54e315dcffe"
    live = number % 10 == 0
    start = NOW + timedelta(seconds=number % 900)
    return {
        "id": f"{GROUP}/virtualmachines/web-{number}/providers/microsoft.maintenance/scheduledevents/{event_id}",
        "name": event_id,
        "location": "westeurope",
        "properties": {
            "EventId": event_id,
            "EventType": ("Freeze", "Reboot", "Redeploy")[number % 3],
            "ResourceType": "VirtualMachine",
            "Resources": [f"web-{number}"],
            "EventStatus": "Scheduled" if live else "Completed",
            "NotBefore": format_datetime(start, usegmt=True) if live else "",
            "Description": "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
            "EventSource": "Platform",
            "DurationInSeconds": 9,
        },
    }


class Client:
    """Gives one page after the other, as ArmClient would."""

    def __init__(self, pages: list[bytes]) -> None:
        self._pages = iter(pages)

    def send(self, *_request: Any) -> arm.Answer:
        return arm.Answer(200, {}, json.loads(next(self._pages)))


def read(pages: list[bytes]) -> int:
    """Return the number of events, on the way that the module goes from the answers to its result."""
    found = graph.ask_events(Client(pages), graph.Scope(("s",)), print)  # type: ignore[arg-type]
    selected = events.select(found.events, events.read_selection({}), NOW)
    return len([each.to_dict(NOW) for each in selected])


def decode(pages: list[bytes]) -> int:
    return len([json.loads(page) for page in pages])


def seconds(work: Callable[[list[bytes]], int], pages: list[bytes]) -> float:
    started = time.process_time()
    work(pages)
    return time.process_time() - started


def main() -> None:
    pages = make_pages()
    assert read(pages) == ROWS
    ours, theirs = [], []
    for _round in range(ROUNDS):
        theirs.append(seconds(decode, pages))
        ours.append(seconds(read, pages))
    ratio = median(ours) / median(theirs)
    verdict = "met" if ratio <= LIMIT else "MISSED"
    print(f"events of Resource Graph: {ratio:.2f} x json.loads, limit {LIMIT:g}: {verdict}")
    print(f"  {ROWS:,} events in {PAGES} pages, {sum(map(len, pages)) / 2**20:.1f} MiB; medians of {ROUNDS} rounds:")
    print(f"  {median(ours) * 1000:.1f} ms against {median(theirs) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
