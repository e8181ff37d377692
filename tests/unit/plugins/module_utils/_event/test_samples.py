# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every document captured from a real VM, through the pure core."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import MalformedError
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import Document
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.parser import (
    decode_document,
    parse_document,
)
from ansible_collections.fleetops.azure_maintenance.tests.samples import (
    DOCUMENTS,
    EVENTS,
    FOLDER,
    MALFORMED,
    NO_DOCUMENT,
    NO_FOLDER,
    NO_SAMPLE,
    SINGLE_EVENTS,
    WARNINGS,
    Wanted,
)

if not FOLDER.is_dir():
    pytest.skip(NO_FOLDER, allow_module_level=True)

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)


def assert_comes_out(name: str, document: Document) -> None:
    word = WARNINGS.get(name)
    assert len(document.warnings) == (0 if word is None else 1)
    assert word is None or word in document.warnings[0]
    shown = [event.to_dict(NOW, "no-such-vm") for event in document.events]
    assert [Wanted(**{field: event[field] for field in Wanted._fields}) for event in shown] == (
        [EVENTS[name]] if name in EVENTS else []
    )
    for event in shown:
        assert event["resource_type"] == "VirtualMachine"
        assert event["affects_this_vm"] is (False if event["resources"] else None)
        # All of them are long past; one without a date that has not started is not due.
        due = event["not_before"] is not None or event["event_status"] == "Started"
        assert event["seconds_until_start"] == (0 if due else None)


def test_every_sample_has_an_expectation() -> None:
    present = {path.name for path in FOLDER.iterdir()}
    new = present - NO_SAMPLE - set(DOCUMENTS) - set(MALFORMED) - NO_DOCUMENT
    assert not new, f"new sample: state what must come out of {', '.join(sorted(new))}"


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_document_comes_out_as_stated(name: str) -> None:
    api_version, incarnation = DOCUMENTS[name]
    content = decode_document((FOLDER / name).read_bytes())
    assert content is not None
    document = parse_document(content, api_version)
    assert document.incarnation == incarnation
    assert_comes_out(name, document)


@pytest.mark.parametrize("name", sorted(NO_DOCUMENT))
def test_s7_an_empty_body_is_no_document(name: str) -> None:
    assert decode_document((FOLDER / name).read_bytes()) is None


@pytest.mark.parametrize("name", sorted(MALFORMED))
def test_what_is_no_document_is_one_clear_error(name: str) -> None:
    body = (FOLDER / name).read_bytes()
    with pytest.raises(MalformedError) as caught:
        decode_document(body)
    assert (caught.value.reason, caught.value.http_status) == ("malformed", 200)
    assert MALFORMED[name] in str(caught.value)
    assert json.dumps(body.decode().strip()[:200])[1:-1] in str(caught.value)


@pytest.mark.parametrize("name", sorted(SINGLE_EVENTS))
def test_a_single_event_comes_out_as_stated_inside_a_document(name: str) -> None:
    event = json.loads((FOLDER / name).read_bytes())
    assert_comes_out(name, parse_document({"DocumentIncarnation": 1, "Events": [event]}, "2020-07-01"))


def test_the_name_of_the_instance_document_is_the_name_in_resources() -> None:
    """The pair of captures of one VM: its compute name is the resource name, its host name is not."""
    compute = json.loads((FOLDER / "imds-instance-aks-spot-2021-02-01.json").read_bytes())["compute"]
    content = decode_document((FOLDER / "preempt-aks-2022.json").read_bytes())
    assert content is not None
    (event,) = parse_document(content, "2020-07-01").events
    assert event.affects(compute["name"]) is True
    assert event.affects(compute["osProfile"]["computerName"]) is False
