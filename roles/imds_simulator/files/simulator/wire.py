# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a document looks on the wire under each api-version."""

from __future__ import annotations

import json
from email.utils import format_datetime

from simulator.clock import utc

VERSIONS = (
    "2017-03-01",
    "2017-08-01",
    "2017-11-01",
    "2019-01-01",
    "2019-04-01",
    "2019-08-01",
    "2020-07-01",
)
# /instance has a list of its own; the two only overlap.
INSTANCE_VERSIONS = (
    "2017-03-01",
    "2017-04-02",
    "2017-08-01",
    "2017-10-01",
    "2017-12-01",
    "2018-02-01",
    "2018-04-02",
    "2018-10-01",
    "2019-02-01",
    "2019-03-11",
    "2019-04-30",
    "2019-06-01",
    "2019-06-04",
    "2019-08-01",
    "2019-08-15",
    "2019-11-01",
    "2020-06-01",
    "2020-07-15",
    "2020-09-01",
    "2020-10-01",
    "2020-12-01",
    "2021-01-01",
    "2021-02-01",
    "2021-03-01",
    "2021-05-01",
    "2021-10-01",
    "2021-11-01",
    "2021-11-15",
    "2021-12-13",
    "2023-07-01",
    "2023-11-15",
    "2024-03-15",
    "2024-07-17",
    "2025-04-07",
)
DOCUMENT_FIELDS = ("DocumentIncarnation", "Events")
# In the order of real captures; the templates in Azure's documentation have another one.
EVENT_FIELDS = (
    "EventId",
    "EventStatus",
    "EventType",
    "ResourceType",
    "Resources",
    "NotBefore",
    "Description",
    "EventSource",
    "DurationInSeconds",
)
_FIELD_SINCE = {"Description": "2019-04-01", "EventSource": "2019-08-01", "DurationInSeconds": "2020-07-01"}
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def header_required(version):
    """The Metadata header is enforced since 2017-08-01; a request that names no version does not get around it."""
    return version != "2017-03-01"


def not_before_text(moment, date_format):
    date = utc(moment).replace(microsecond=0)
    if date_format == "iso8601":
        return date.strftime("%Y-%m-%dT%H:%M:%SZ")
    shown = format_datetime(date, usegmt=True)
    if date_format == "wrong_weekday":
        return _WEEKDAYS[(date.weekday() + 1) % 7] + shown[3:]
    return shown


def event_id_text(event_id, settings):
    return event_id.lower() if settings.event_id_case == "lower" else event_id


def _event(event, version, settings):
    underscore = "_" if version == "2017-03-01" else ""
    started = event.started_at is not None
    members = {
        "EventId": event_id_text(event.listed_id, settings),
        "EventStatus": "Started" if started else "Scheduled",
        "EventType": event.event_type,
        "ResourceType": "VirtualMachine",
        "Resources": [underscore + name for name in event.resources],
        "NotBefore": "" if started else not_before_text(event.not_before, settings.date_format),
        "Description": event.description,
        "EventSource": event.event_source,
        "DurationInSeconds": event.duration_seconds,
    }
    return {
        name: members[name]
        for name in EVENT_FIELDS
        if version >= _FIELD_SINCE.get(name, "") and name not in settings.omit_fields
    }


def document(incarnation, events, version, settings):
    """The document as bytes: compact JSON on one line."""
    members = {
        "DocumentIncarnation": incarnation,
        "Events": [_event(event, version, settings) for event in events],
    }
    return compact({name: members[name] for name in DOCUMENT_FIELDS if name not in settings.omit_fields})


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode("ascii")
