# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What scheduled_events_info says besides the events: which VM this is, in which boot, and if there was a document."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import document, parser, selection
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import boot_id as boot
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._module import info
from ansible_collections.fleetops.azure_maintenance.tests.instance import compute, resource_id_of, vm_id_of
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import INFO_OPTIONS

OPTIONS = {**INFO_OPTIONS, "scope": "all", "resource_name": "web-1"}
NONE = "web-1: no events"
UNCLEAR = "no event that can be read"


@pytest.mark.parametrize(
    ("body", "received", "clear", "said"),
    [
        pytest.param(b"", False, False, selection.NO_DOCUMENT, id="empty body"),
        pytest.param(b'{"Events": []}', True, True, NONE, id="document without an incarnation"),
        pytest.param(b'{"DocumentIncarnation": 7, "Events": []}', True, True, NONE, id="document"),
        pytest.param(b'{"Events": [{"EventId": null}]}', True, False, UNCLEAR, id="an entry that has no id"),
        pytest.param(b'{"Events": [5]}', True, False, UNCLEAR, id="an entry that is not an object"),
    ],
)
def test_a_document_is_told_from_an_empty_body_and_from_one_that_cannot_be_read_whole(
    serve, body, received, clear, said
):
    server = serve((200, body))
    result = info.get_info(OPTIONS, server.client(), lambda _warning: None, "boot-1")
    assert (result["document_received"], result["boot_id"]) == (received, "boot-1")
    assert result["document_is_clear"] is clear
    assert said in result["msg"]


# What is asked and answered before the document, the option resource_name, and what is known of this VM.
VMS = [
    pytest.param([], "db-1", ("db-1", None, None), id="the name is given"),
    pytest.param(
        [(200, compute("web-1"))], None, ("web-1", vm_id_of("web-1"), resource_id_of("web-1")), id="Azure tells"
    ),
    pytest.param(
        [(200, compute("web-1", name=..., resourceId=...))],
        "",
        (None, vm_id_of("web-1"), None),
        id="nothing but a vmId",
    ),
    pytest.param([(404, b'{ "error": "Not found" }')], None, (None, None, None), id="classic VM"),
]


@pytest.mark.parametrize(("answers", "given", "expected"), VMS)
def test_which_vm_this_is(serve, one_try, answers, given, expected):
    server = serve(*answers, (200, b'{"Events": []}'))
    result = info.get_info({**OPTIONS, "resource_name": given}, server.client(), pytest.fail, None)
    assert tuple(result[key] for key in ("resource_name", "vm_id", "resource_id")) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"event_types": ["Reboot", "Rebot"]}, 'event_types must be any of Freeze, Reboot, .*, not "Rebot"'),
        ({"event_statuses": ["Completed"]}, 'event_statuses must be any of Scheduled, Started, not "Completed"'),
        ({"event_sources": ["Azure"]}, 'event_sources must be any of Platform, User, not "Azure"'),
        # As Ansible makes a list of the text ["A1"]
        ({"event_ids": ['["A1"]']}, "event_ids must be a list, .*, not a list in a text: .*A1.*[.] Leave"),
        ({"event_types": ["[Reboot", "Freeze]"]}, "event_types must be a list, .*, not a list in a text: .*Reboot"),
        ({"resource_name": " web-1"}, 'resource_name must be a name by which Azure can call a VM .*, not " web-1"'),
        ({"resource_name": "web-1\n"}, "resource_name must be"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_asked(serve, options, message):
    server = serve()
    with pytest.raises(ValueError, match=message):
        info.get_info({**OPTIONS, **options}, server.client(), lambda _warning: None, None)
    assert server.requests == []


STAT = "1 (systemd (x) y) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {start} 1 2\n"


@pytest.mark.parametrize(
    ("boot_id", "stat", "expected"),
    [
        ("4f6a5a2e\n", STAT.format(start=12), "4f6a5a2e/12"),
        ("4f6a5a2e\n", STAT.format(start=99), "4f6a5a2e/99"),
        ("4f6a5a2e\n", None, "4f6a5a2e"),
        ("4f6a5a2e\n", "1 (init)", "4f6a5a2e"),
        ("", STAT.format(start=12), None),
        (None, STAT.format(start=12), None),
    ],
    ids=["a VM", "another boot of a container", "process 1 is hidden", "no start", "empty", "no boot id"],
)
def test_the_boot_id_differs_from_boot_to_boot_and_is_null_where_there_is_none(tmp_path, boot_id, stat, expected):
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "1").mkdir()
    for place, text in (("sys/kernel/random/boot_id", boot_id), ("1/stat", stat)):
        if text is not None:
            (tmp_path / place).write_text(text)
    assert boot.read_boot_id(str(tmp_path), str(tmp_path / "units")) == expected


def test_c3_a_soft_reboot_is_a_boot_and_a_restart_of_the_journal_is_none(tmp_path):
    """So it is on systemd 257: the kernel and process 1 go on, and the service that each boot runs once runs again."""
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("4f6a5a2e\n")
    (tmp_path / "1").mkdir()
    (tmp_path / "1/stat").write_text(STAT.format(start=12))
    (tmp_path / "units").mkdir()

    def run(unit, invocation):
        link = tmp_path / "units" / f"invocation:{unit}.service"
        link.unlink(missing_ok=True)
        link.symlink_to(invocation)
        return boot.read_boot_id(str(tmp_path), str(tmp_path / "units"))

    run("systemd-journald", "179a1cb484e1446f90df98285e48a2fb")
    first = run("systemd-tmpfiles-setup", "f2bbbfad66cc4c11b8b238d41bf88d9a")
    assert first == "4f6a5a2e/12/f2bbbfad66cc4c11b8b238d41bf88d9a"
    assert run("systemd-journald", "f55a4908116a420faa1a1355b324e324") == first
    assert run("systemd-tmpfiles-setup", "fdcba137f2f3409c89652876c116588b") != first


def test_an_event_survives_json():
    raw = {
        "EventId": "A1",
        "EventType": "Reboot",
        "EventStatus": "Scheduled",
        "Resources": ["web-1", "web-2"],
        "NotBefore": "Sat, 21 Nov 2026 10:00:00 GMT",
        "DurationInSeconds": 9,
    }
    (event,) = parser.parse_document({"Events": [raw]}, "2020-07-01").events
    assert document.Event.from_dict(json.loads(json.dumps(event.fields()))) == event
