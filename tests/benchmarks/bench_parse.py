# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long parsing a document and selecting its events take, in units of json.loads of the same document.

Both are timed in turn in one run, so that whatever else the machine does hits both alike. The exit status tells
nothing of the speed: a number that depends on the machine must not fail a build.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import parser, selection
from ansible_collections.fleetops.azure_maintenance.tests.benchmarks._cpu import seconds

EVENTS = 1000
RESOURCES = 100
ROUNDS = 25
LIMIT = 5.0

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
WANTED = selection.Selection(event_types=selection.keys(["Freeze", "Reboot", "Redeploy"]), due_within=900)
# The last name of the events that hold it, so that every name of every event is looked at.
THIS_VM = "aks-nodepool1-21922338-vmss_99"


def make_body() -> bytes:
    """Return a document as Azure writes it: compact, RFC 1123 dates, ids in upper case."""
    names = [f"aks-nodepool1-21922338-vmss_{number}" for number in range(2 * RESOURCES)]
    events = [
        {
            "EventId": f"C7061BAC-AFDC-4513-B24B-{number:012X}",
            "EventStatus": "Scheduled",
            "EventType": ("Freeze", "Reboot", "Redeploy")[number % 3],
            "ResourceType": "VirtualMachine",
            "Resources": names[RESOURCES * (number % 2) :][:RESOURCES],
            "NotBefore": "Sat, 21 Nov 2026 10:14:59 GMT",
            "Description": "Host server is undergoing maintenance.",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }
        for number in range(EVENTS)
    ]
    return json.dumps({"DocumentIncarnation": 2, "Events": events}, separators=(",", ":")).encode()


def parse_and_select(body: bytes) -> int:
    """Return the number of wanted events, on the way that the modules go from an answer to them."""
    content = parser.decode_document(body)
    assert content is not None
    document = parser.parse_document(content, "2020-07-01")
    return len(selection.select_events(document, WANTED, NOW, only_for=THIS_VM))


def main() -> None:
    body = make_body()
    wanted = parse_and_select(body)
    assert wanted == EVENTS // 2, wanted
    ours, theirs = [], []
    for _round in range(ROUNDS):
        theirs.append(seconds(lambda: json.loads(body)))
        ours.append(seconds(lambda: parse_and_select(body)))
    ratio = median(ours) / median(theirs)
    verdict = "met" if ratio <= LIMIT else "MISSED"
    print(f"parse + select: {ratio:.2f} x json.loads, limit {LIMIT:g}: {verdict}")
    print(f"  {EVENTS:,} events x {RESOURCES} resources, {len(body) / 2**20:.1f} MiB; medians of {ROUNDS} rounds:")
    print(f"  {median(ours) * 1000:.1f} ms against {median(theirs) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
