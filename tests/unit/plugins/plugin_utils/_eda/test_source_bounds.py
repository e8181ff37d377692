# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""However long no answer can be read in full, the event source and its state file stay small (P9)."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._eda import source
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._eda import state as eda_state

# The folder in which ansible_collections lies
ROOT = Path(source.__file__).parents[6]
MIB = 1024 * 1024
# Reading one answer may take 64 (test__document_bounds.py); the rest is for what is remembered.
MOST_MIB = 80
MOST_MIB_ON_DISK = 16
# Seconds. What takes longer hangs.
STOP = 600

# The peak of a process that getrusage() tells includes that of the one which started it.
CHILD = """
import logging, sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._eda import source

class Service:
    timeout = 1.0
    api_version = "2020-07-01"
    answers = 0

    def deadline(self, seconds):
        return None

    def get_document(self, deadline):
        self.answers += 1
        return answer.replace(b"@", b"%04d" % self.answers)

logging.disable(logging.WARNING)
answer = sys.stdin.buffer.read()
watcher = source.Watcher(Service(), "web-1", 1.0, sys.argv[2])
for _time in range(int(sys.argv[3])):
    watcher.poll()
    watcher.keep()
with open("/proc/self/status") as file:
    print(next(line for line in file if line.startswith("VmHWM")).split()[1])
"""


def of_web_1(event_id: str, *others: str, **more: str) -> dict[str, object]:
    return {"EventId": event_id, "Resources": ["web-1", *others], **more}


# How many answers come, and what each lists; @ is another number in each, so that each lists other events.
ANSWERED = {
    "one event with a long description": (60, [of_web_1("@", Description="x" * 900_000)]),
    "one event with texts that JSON escapes": (
        20,
        [of_web_1("@", Description="\N{WINE GLASS}" * 120_000, EventType="\x01" * 500_000)],
    ),
    "events with texts as long as they are kept": (
        4,
        [of_web_1(f"@-{each}", Description="\x01" * 1000, EventType="\x01" * 1000) for each in range(400)],
    ),
    "events with many VMs": (
        20,
        [of_web_1(f"@-{each}", *(f"{vm:05}-{each:04}" for vm in range(1999))) for each in range(37)],
    ),
    "events with many VMs of two letters": (
        10,
        [of_web_1(f"@-{each}", *(f"{vm:02x}" for vm in range(1999))) for each in range(60)],
    ),
    "events with many VMs in several entries": (
        10,
        [
            of_web_1(f"@-{each}", *(chr(0x4E00 + 2000 * entry + vm) for vm in range(1999)))
            for each in range(8)
            for entry in range(9)
        ],
    ),
    "events that have only an id": (3, [{"EventId": f"@{each:x}"} for each in range(20_000)]),
}
# Together they would need more than the five seconds of a file in make unit.
QUICK = ("one event with texts that JSON escapes", "events with texts as long as they are kept")


def write(events: list[dict[str, object]]) -> bytes:
    """Return an answer with these events and an entry that cannot be read; control characters are sent as they are."""
    text = json.dumps({"Events": [7, *events]}, ensure_ascii=False, separators=(",", ":"))
    return text.replace("\\u0001", "\x01").encode()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a process")
@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=() if shape in QUICK else pytest.mark.matrix) for shape in ANSWERED]
)
def test_p9_answers_that_cannot_be_read_in_full_take_a_bounded_amount_of_memory_and_disk(shape, tmp_path, caplog):
    answers, events = ANSWERED[shape]
    body = write(events)
    assert MIB / 3 < len(body) <= MIB
    state = tmp_path / "state.json"
    command = [sys.executable, "-c", CHILD, str(ROOT), str(state), str(answers)]
    run = subprocess.run(command, input=body, capture_output=True, timeout=STOP, check=True)
    assert run.stderr == b""
    peak, size = int(run.stdout) / 1024, state.stat().st_size / MIB
    assert peak <= MOST_MIB, f"{peak:.0f} MiB"
    assert size <= MOST_MIB_ON_DISK, f"{size:.0f} MiB"
    with caplog.at_level(logging.WARNING):
        remembered = eda_state.StateFile(str(state)).read().seen
    assert caplog.messages == []
    assert len(remembered) == len(json.loads(state.read_text())["Events"])
    assert len({event["EventId"] for event in events}) < len(remembered)


def test_p9_there_is_room_for_a_thousand_events_as_azure_tells_them():
    raw = {
        "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
        "EventType": "Reboot",
        "EventStatus": "Scheduled",
        "ResourceType": "VirtualMachine",
        "Resources": ["web-server-1", "web-server-2"],
        "NotBefore": "Sat, 21 Nov 2026 10:15:00 GMT",
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
    }
    (event,) = eda_state.parse_document({"Events": [raw]}, "2020-07-01").events
    seen = eda_state.Seen(event, "5f4d9c53-5ab0-4f6e-8d3a-4a04a1a3fd4e/22222222")
    most = source.LARGEST_UNLISTED // eda_state.written_size(seen)
    assert most >= source.MOST_UNLISTED
