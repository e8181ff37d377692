# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What scheduled_events_info says besides the events: whether there was a document, and during which boot."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _document, _info

OPTIONS = {
    "scope": "all",
    "event_ids": None,
    "event_types": None,
    "event_statuses": None,
    "event_sources": None,
    "due_within": None,
    "discover_endpoint": False,
    "resource_name": "web-1",
}


@pytest.mark.parametrize(
    ("body", "received", "clear"),
    [
        pytest.param(b"", False, False, id="empty body"),
        pytest.param(b'{"Events": []}', True, True, id="document without an incarnation"),
        pytest.param(b'{"DocumentIncarnation": 7, "Events": []}', True, True, id="document"),
        pytest.param(b'{"Events": [{"EventId": null}]}', True, False, id="document with an entry that has no id"),
        pytest.param(b'{"Events": [5]}', True, False, id="document with an entry that is not an object"),
    ],
)
def test_a_document_is_told_from_an_empty_body_and_from_one_that_cannot_be_read_whole(serve, body, received, clear):
    server = serve((200, body))
    result = _info.get_info(OPTIONS, server.client(), lambda _warning: None, "boot-1")
    assert (result["document_received"], result["boot_id"]) == (received, "boot-1")
    assert result["document_is_clear"] is clear


def test_the_boot_id_is_what_the_file_holds_or_null(tmp_path):
    (tmp_path / "boot_id").write_text("4f6a5a2e\n")
    assert _info.read_boot_id(str(tmp_path / "boot_id")) == "4f6a5a2e"
    assert _info.read_boot_id(str(tmp_path / "missing")) is None


def test_an_event_survives_json():
    raw = {
        "EventId": "A1",
        "EventType": "Reboot",
        "EventStatus": "Scheduled",
        "Resources": ["web-1", "web-2"],
        "NotBefore": "Sat, 21 Nov 2026 10:00:00 GMT",
        "DurationInSeconds": 9,
    }
    (event,) = _document.parse_document({"Events": [raw]}, "2020-07-01").events
    assert _document.Event.from_dict(json.loads(json.dumps(event.fields()))) == event
