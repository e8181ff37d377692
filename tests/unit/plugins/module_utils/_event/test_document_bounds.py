# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever an answer of 1 MiB holds, reading it takes a bounded amount of memory and few warnings (P9)."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Callable

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import MalformedError
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.parser import (
    decode_document,
    parse_document,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import STOP

# The folder in which ansible_collections lies
ROOT = Path(_errors.__file__).parents[5]
MIB = 1024 * 1024
MOST_MIB = 64

# The peak of a process that getrusage() tells includes that of the one which started it.
CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import parser
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client
body = sys.stdin.buffer.read()
warnings = []
try:
    content = parser.decode_document(body)
    if content is not None:
        warnings = parser.parse_document(content, "2020-07-01").warnings
except _errors.ImdsError as error:
    warnings = [str(error)]
with open("/proc/self/status") as file:
    peak = next(line for line in file if line.startswith("VmHWM")).split()[1]
print(peak, len(warnings), max(map(len, warnings), default=0))
"""


def fill(item: bytes, before: bytes = b'{"Events":[', after: bytes = b"]}") -> bytes:
    """Return an answer of 1 MiB that repeats the item in a list."""
    return before + b",".join([item] * ((MIB - len(before) - len(after) + 1) // (len(item) + 1))) + after


def count(write: Callable[[int], bytes], before: bytes = b'{"Events":[', after: bytes = b"]}") -> bytes:
    """Return an answer of 1 MiB with a list of items, each of which has its number."""
    items, size = [], len(before) + len(after)
    while size + len(write(len(items))) + 1 <= MIB:
        items.append(write(len(items)))
        size += len(items[-1]) + 1
    return before + b",".join(items) + after


def event(number: int) -> bytes:
    return json.dumps(
        {
            "EventId": f"{number:036}",
            "EventStatus": "Scheduled",
            "EventType": "Reboot",
            "Resources": [f"web-{number}"],
            "NotBefore": "Sat, 21 Nov 2026 10:15:00 GMT",
            "Description": "Host server is undergoing maintenance.",
        }
    ).encode()


ONE_EVENT = b'{"Events":[{"EventId":"A","Resources":['
ANSWERS = {
    "events": lambda: count(event),
    "events that have only an id": lambda: count(lambda number: b'{"EventId":"%x"}' % number),
    "one event, again and again": lambda: fill(b'{"EventId":"A"}'),
    "one event, each time with another VM": lambda: count(
        lambda number: b'{"EventId":"A","Resources":["%x"]}' % number
    ),
    "one event with many VMs": lambda: count(lambda number: b'"%x"' % number, ONE_EVENT, b"]}]}"),
    "one event with many numbers for VMs": lambda: fill(b"1", ONE_EVENT, b"]}]}"),
    "one event with many lists for VMs": lambda: fill(b"[]", ONE_EVENT, b"]}]}"),
    "one event with a list for a type": lambda: fill(b"[]", b'{"Events":[{"EventId":"A","EventType":[', b"]}]}"),
    "a long description": lambda: fill(b"x", b'{"Events":[{"EventId":"A","Description":"', b'"}]}'),
    "numbers": lambda: fill(b"1"),
    "large numbers": lambda: fill(b"123456789"),
    "empty objects": lambda: fill(b"{}"),
    "objects": lambda: fill(b'{"a":1}'),
    "objects in objects": lambda: fill(b'{"":{}}'),
    "objects of other keys": lambda: count(lambda number: b'{"%x":{}}' % number),
    "empty lists": lambda: fill(b"[]"),
    "lists in lists": lambda: fill(b"[[]]"),
    "deep lists": lambda: fill(b"[" * 400 + b"]" * 400),
    "deep objects": lambda: fill(b'{"a":' * 400 + b"1" + b"}" * 400),
    "strings with an emoji": lambda: fill('"😀"'.encode()),
    "a long string with an emoji": lambda: b'{"Events":["' + "😀".encode() + b"a" * (MIB - 30) + b'"]}',
    "empty lists beside an emoji": lambda: fill(b"[]", '{"x":"😀","Events":['.encode()),
    "lists in lists beside an emoji": lambda: fill(b"[[]]", '{"x":"😀","Events":['.encode()),
    "objects beside an emoji": lambda: fill(b'{"":{}}', '{"x":"😀","Events":['.encode()),
    "halves of surrogate pairs": lambda: fill(rb'"\ud800"'),
    "escaped backslashes": lambda: fill(rb"\\", rb'{"Events":["\ud800', b'"]}'),
    "empty lists beside half a surrogate pair": lambda: fill(b"[]", rb'{"x":"\ud800","Events":['),
    "objects beside half a surrogate pair": lambda: fill(b'{"":{}}', rb'{"x":"\ud800","Events":['),
    "bytes that are not UTF-8": lambda: b'{"Events":["' + b"\xff" * (MIB - 30) + b'"]}',
    "rubbish for an incarnation": lambda: fill(b"[]", b'{"Events":[],"DocumentIncarnation":['),
    "rubbish in another field": lambda: fill(b"{}", b'{"Events":[],"x":['),
    "rubbish that breaks off": lambda: fill(b"[[]]", after=b"]"),
    "a list": lambda: fill(b"[]", b"[", b"]"),
    "a list too deep to be read": lambda: b'{"Events":' + b"[" * (MIB // 2 - 20) + b"]" * (MIB // 2 - 20) + b"}",
    "text": lambda: "😀".encode() * (MIB // 4),
}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a process")
@pytest.mark.parametrize("shape", ANSWERS)
def test_p9_an_answer_of_1_mib_takes_at_most_64_mib_and_ten_warnings(shape: str) -> None:
    body = ANSWERS[shape]()
    assert MIB - 100_000 < len(body) <= MIB + 8
    command = [sys.executable, "-c", CHILD, str(ROOT)]
    run = subprocess.run(command, input=body, stdout=subprocess.PIPE, timeout=STOP, check=True)
    peak, warnings, longest = map(int, run.stdout.split())
    assert peak <= MOST_MIB * 1024, f"{peak // 1024} MiB"
    assert warnings <= 11
    assert longest < 1000


def test_p9_of_many_warnings_ten_are_kept_and_the_others_counted() -> None:
    warnings = parse_document({"Events": [None] * 15}, "2020-07-01").warnings
    assert len(warnings) == 11
    assert warnings[0].startswith("Event 1 of the document is not an object")
    assert warnings[-1] == "And 5 more warnings of this document."


def test_a_document_of_1000_events_with_100_vms_each_is_read_whole() -> None:
    resources = [f"vm-{number}" for number in range(100)]
    events = [{**json.loads(event(number)), "Resources": resources} for number in range(1000)]
    content = decode_document(json.dumps({"Events": events}).encode())
    assert content is not None
    document = parse_document(content, "2020-07-01")
    assert document.is_clear
    assert document.warnings == ()
    assert [len(found.resources) for found in document.events] == [100] * 1000


def test_an_answer_of_too_many_lists_and_objects_is_not_decoded() -> None:
    assert decode_document(fill(b"[[]]", b'{"Events":[', b"]}")[: 5 * 49_000 + 10] + b"]}") is not None
    with pytest.raises(MalformedError, match="has more than 100000 lists and objects"):
        decode_document(fill(b"[[]]"))


def test_p4_a_document_with_more_entries_than_are_read_is_unclear() -> None:
    entries = [{"EventId": "A", "Resources": ["vm-1"], "EventType": "Reboot", "EventStatus": "Scheduled"}] * 20001
    document = parse_document({"Events": entries}, "2020-07-01")
    assert not document.is_clear
    assert document.warnings[0] == "The document has 20001 entries. Only the first 20000 are read."


def test_p4_an_event_with_more_vms_than_are_read_may_affect_any_vm() -> None:
    raw = {"EventId": "A", "Resources": [f"vm-{number}" for number in range(2001)]}
    (found,) = parse_document({"Events": [raw]}, "2020-07-01").events
    assert (len(found.resources), found.names_its_vms) == (2000, False)
    assert (found.affects("vm-1"), found.affects("vm-2000")) == (True, None)


def test_p9_nothing_long_is_kept_from_answer_to_answer() -> None:
    """A poller reads one answer after the other, each with other long words and dates."""
    date = f"2026-11-21T10:00:00.{'0' * MIB}Z"
    tracemalloc.start()
    try:
        for number in range(20):
            raw = {"EventId": "E-1", "EventType": f"{number}".zfill(MIB), "NotBefore": f"{' ' * number}{date}"}
            event = parse_document({"Events": [raw]}, "2020-07-01").events[0]
            assert (event.event_type, event.not_before) == (raw["EventType"], None)
        del raw, event
        assert tracemalloc.get_traced_memory()[0] < 4 * MIB
    finally:
        tracemalloc.stop()
