# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the records of the store are written as text and read back.

Each text begins with its checksum, so that a record is read as it was written or not at all.
"""

from __future__ import annotations

import functools
import json
import zlib
from typing import Any

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Event

from ..config.config import Rule
from .records import EventRecord, Moment, ResponseRecord, StepRecord

# Azure's texts must not fill the disk.
_LONGEST_NAME = 1000
_MOST_WAITED_FOR = 100


class DamagedRecord(Exception):
    """A record cannot be read."""


def seal(content: Any) -> str:
    text = json.dumps(content)
    return f"{_checksum(text)} {text}"


def unseal(text: Any) -> Any:
    """Return the value that seal() got.

    :raises DamagedRecord: it is not a text of seal().
    """
    checksum, _space, body = text.partition(" ") if isinstance(text, str) else ("", "", "")
    if not body or checksum != _checksum(body):
        raise DamagedRecord("its checksum is wrong")
    content = json.loads(body)
    if "\\ud" in body:
        # Half a surrogate pair can be written to no file.
        content = json.loads(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))
    return content


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'replace')):08x}"


def encode_event(record: EventRecord) -> str:
    """Return the text of an event, its words cut where they are too long to be kept."""
    return seal(
        {
            **record._asdict(),
            "number": None,
            "event": record.event.shortened().fields(),
            # Only the match of the rule needed it.
            "rule": record.rule and {**record.rule._asdict(), "match": {}},
            # More names do not help a person.
            "waiting_for": [name[:_LONGEST_NAME] for name in record.waiting_for][:_MOST_WAITED_FOR],
        }
    )


# The check reads the same records at every poll.
@functools.lru_cache(maxsize=512)
def decode_event(number: int, key: Any, ended_at: Any, end_order: Any, text: Any) -> EventRecord:
    """:raises DamagedRecord: the record cannot be read."""
    content = unseal(text)
    content.update(
        number=number,
        event=Event.from_dict(content["event"]),
        rule=content["rule"] and _read_rule(content["rule"]),
        seen=Moment(*content["seen"]),
        waiting_for=tuple(content["waiting_for"]),
    )
    record = EventRecord(**content)
    if (record.event.key, record.ended_at, record.end_order) != (key, ended_at, end_order):
        raise DamagedRecord("its columns contradict its content")
    return record


def _read_rule(content: dict[str, Any]) -> Rule:
    known: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in content.items()}
    return Rule(**known)


def encode_response(record: ResponseRecord) -> str:
    # The number of a new one is not known yet.
    return seal([None, *record[1:-1], [step[2:] for step in record.steps]])


@functools.lru_cache(maxsize=512)
def decode_response(number: int, event: Any, phase: Any, state: Any, text: Any) -> ResponseRecord:
    """:raises DamagedRecord: the record cannot be read."""
    _none, *content, steps = unseal(text)
    found = tuple(StepRecord(number, position, *step) for position, step in enumerate(steps, start=1))
    record = ResponseRecord(*(number, *content, found))
    if (record.event, record.phase, record.state) != (event, phase, state):
        raise DamagedRecord("its columns contradict its content")
    return record


def decode_fact(name: Any, text: Any) -> dict[str, Any]:
    """:raises DamagedRecord: the fact cannot be read."""
    sealed_name, value = unseal(text)
    if sealed_name != name or not isinstance(value, dict):
        raise DamagedRecord("its name contradicts its content")
    return value
