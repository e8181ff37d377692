# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table as a person sees it, at several widths."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet import table
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.host_results import (
    AFFECTED,
    FAILED,
    NOT_ON_AZURE,
    QUIET,
    UNREACHABLE,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils.conftest import make_event

NOW = datetime(2026, 11, 21, 10, 0, 1, tzinfo=timezone.utc)

ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
OTHER_ID = "8920A2F0-5F9A-4611-A2FA-172833728FA4"


def event(event_id=ID, **changes):
    usual = {"duration_seconds": None, "not_before": "2026-11-21T10:15:00Z", "description": ""}
    return make_event("web-1", **{"event_id": event_id, "affects_this_vm": True, **usual, **changes})


STARTED = {"event_status": "Started", "not_before": None}


def look(host, state, message=None, resource_name=None, events=(), out=(), reason="as of the state"):
    told = {"host": host, "state": state, "message": message, "resource_name": resource_name, "events": events}
    if reason == "as of the state":
        reason = None if state in (QUIET, AFFECTED) else "module_failed"
    return {**told, "reason": reason, "out_of_service": list(out), "resource_id": None, "azure_events": []}


def fleet_lines(looks, width):
    return table.fleet_lines(looks, width, NOW)


def lines(*events, width=80):
    return fleet_lines([look("web-1", AFFECTED, "", "web-1", events)], width)


def test_p16_who_is_out_of_service_is_told_since_when_for_what_and_on_whose_account():
    why = "since 2026-11-21T17:32:00Z for Reboot C7061BAC by AWX job 812 of anna on awx-task-6c5f"
    told = fleet_lines([look("web-10", QUIET, out=[why]), look("web-2", QUIET, out=["since \x1b[31m"])], 80)
    assert told == [
        "Out of service:",
        "  web-2  since \\u001b[31m",
        "  web-10  since 2026-11-21T17:32:00Z for Reboot C7061BAC by AWX job 812 of anna",
        "      on awx-task-6c5f",
        "",
        "2 hosts asked: 2 quiet, 0 affected, 0 unreachable, 0 not on Azure, 0 failed",
    ]


@pytest.mark.parametrize("hosts", [1, 20])
def test_an_option_that_there_is_not_is_named_also_where_a_reason_has_one_line(hosts):
    why = (
        "Unsupported parameters for (fleetops.azure_maintenance.scheduled_events_info) module: event_type. Supported "
        "parameters include: api_version, connect_timeout, discover_endpoint, due_within, endpoint, event_ids."
    )
    told = fleet_lines([look(f"web-{number}", FAILED, why) for number in range(hosts)], 80)
    assert sum("failed: Unsupported parameters: event_type." in line for line in told) == hosts


def test_a_fleet_as_it_is_seen_at_80_columns():
    reboot = event(resources=[f"web-{number}" for number in range(1, 31)])
    freeze = event(OTHER_ID, event_type="Freeze", duration_seconds=9, resources=["db-1"], **STARTED)
    answers = [
        look("web-1", AFFECTED, "", "web-1", [reboot]),
        look("web-2", AFFECTED, "", "web-2", [reboot]),
        look("vm-9", AFFECTED, "", "db-1", [freeze]),
        look("web-9", QUIET),
        look(
            "laptop", NOT_ON_AZURE, f"Nothing answers at http://127.0.0.1:9. {'This machine is not an Azure VM. ' * 4}"
        ),
        look("gone", UNREACHABLE, "No route to host"),
        look("slow", FAILED, "No complete answer."),
    ]
    assert fleet_lines(answers, 80) == [
        "START      UTC          TYPE    LASTS  SOURCE    EVENT     VMS",
        "started    -            Freeze  9 s    Platform  8920A2F0  db-1 (vm-9)",
        "in 14 min  11-21 10:15  Reboot  -      Platform  C7061BAC  30 VMs:",
        "  web-1, web-2, web-3, web-4, web-5, web-6, web-7, web-8, web-9, web-10, web-11,",
        "  web-12, web-13, web-14, web-15, web-16, web-17, web-18, web-19, +11 more",
        "",
        "Also affected: web-3, web-4, web-5, web-6, web-7, web-8, web-9, web-10, +20 more",
        "",
        "No answer from:",
        "  gone    unreachable: No route to host",
        "  laptop  not on Azure: Nothing answers at http://127.0.0.1:9. This machine is",
        "          not an Azure VM. This machine is not an Azure VM. This machine is …",
        "  slow    failed: No complete answer.",
        "",
        "7 hosts asked: 1 quiet, 3 affected, 1 unreachable, 1 not on Azure, 1 failed",
    ]


def test_a_task_that_fails_by_a_condition_of_its_own_is_not_told_as_a_host_without_an_answer():
    """Such as failed_when, by which a job of a pipeline fails where an event is there."""
    answers = [
        look("web-1", FAILED, "failed_when is true", "web-1", [event(resources=["web-1", "web-2"])], reason=None),
        look("web-3", QUIET, "", "web-3"),
        look("web-4", FAILED, "Part of the answer could not be read.", "web-4", reason="unclear_document"),
    ]
    assert fleet_lines(answers, 80)[2:] == [
        "",
        "Also affected: web-2",
        "",
        "Failed after their answer:",
        "  web-1  failed: failed_when is true",
        "",
        "No answer from:",
        "  web-4  failed: Part of the answer could not be read.",
        "",
        "3 hosts asked: 1 quiet, 0 unreachable, 0 not on Azure, 2 failed",
    ]


def test_a_wide_terminal_shows_whole_ids_all_vms_and_the_whole_time():
    assert lines(event(), width=120)[:2] == [
        f"START      NOT BEFORE            TYPE    LASTS  SOURCE    EVENT{' ' * 33}VMS",
        f"in 14 min  2026-11-21T10:15:00Z  Reboot  -      Platform  {ID}  web-1, web-2",
    ]


def test_descriptions_are_shown_where_there_is_room_for_them():
    told = event(description="Host server is undergoing\nmaintenance.")
    wide = lines(told, width=160)
    assert [line.split("  ")[-1].strip() for line in wide[:2]] == [
        "DESCRIPTION",
        '"Host server is undergoing\\nmaintenance."',
    ]
    assert f"  {ID}  " in wide[1]
    assert "DESCRIPTION" not in lines(told, width=100)[0]
    assert lines(told, width=120)[1].endswith('  C7061BAC  web-1, web-2  "Host server is undergoing\\nmaintenance."')
    short = lines(event(description="Host is being maintained."), width=100)
    assert short[1].endswith("  C7061BAC  web-1, web-2  Host is being maintained.")
    assert "DESCRIPTION" not in "".join(lines(event(), width=400))


def test_a_description_goes_before_vms_that_have_a_line_of_their_own_and_not_before_few_vms():
    told = "Host server is serviced."
    many = lines(event(resources=[f"web-{number}" for number in range(1, 31)], description=told), width=130)
    assert many[1].endswith(f"  C7061BAC  30 VMs:  {told}")
    assert many[2].startswith("  web-1, web-2, ")
    names = ["prod-westeu-web-001", "prod-westeu-web-002"]
    assert lines(event(resources=names, description=told), width=112)[1].endswith(f"  C7061BAC  {', '.join(names)}")


def told_vms(cell):
    """Return how many VMs a list of the table names or counts."""
    found = re.search(r", \+(\d+) more$", cell)
    return cell.count(", ") + 1 + (int(found[1]) - 1 if found else 0)


@pytest.mark.parametrize("length", [5, 64])
@pytest.mark.parametrize("width", [80, 160])
def test_the_counts_agree_with_the_rows(width, length):
    """Each host that is counted stands in a row, and each VM of a row is a host that is counted or named below."""
    names = [f"{letter}{number}".ljust(length, "x") for letter in "abcdefg" for number in range(4)]
    asked, outside = names[:24], names[24:]
    events = [event(f"{number:08X}{ID[8:]}", resources=names[4 * number : 4 * number + 4]) for number in range(4)]
    events.append(event(OTHER_ID, resources=[asked[16], *outside], event_type="Freeze"))
    answers = [
        look(name, AFFECTED, "", name, [one for one in events if name in one["resources"]]) for name in asked[:17]
    ]
    answers += [look(name, QUIET, "", name) for name in asked[17:20]]
    answers += [look(name, UNREACHABLE, "No route") for name in asked[20:22]]
    answers += [look(asked[22], NOT_ON_AZURE, "Nothing answers"), look(asked[23], FAILED, "No complete answer")]
    shown = fleet_lines(answers, width)
    assert max(map(len, shown)) <= width
    column = shown[0].index("VMS")
    (end,) = [number for number, line in enumerate(shown) if line.startswith("Also affected: ")]
    rows = []
    for line in shown[1 : end - 1]:
        if not line.startswith("  "):
            rows.append(line[column:].split("  ")[0])
        else:
            rows[-1] = f"{'' if rows[-1].endswith(' VMs:') else rows[-1] + ' '}{line.strip()}"
    (also,) = [line.removeprefix("Also affected: ") for line in shown if line.startswith("Also affected: ")]
    assert [told_vms(cell) for cell in rows] == [4, 4, 4, 4, 5]
    assert told_vms(also) == len(outside) == sum(map(told_vms, rows)) - 17
    silent = shown[shown.index("No answer from:") + 1 : -2]
    for word, number in (("unreachable: ", 2), ("not on Azure: ", 1), ("failed: ", 1)):
        assert sum(word in line for line in silent) == number
    assert shown[-1] == "24 hosts asked: 3 quiet, 17 affected, 2 unreachable, 1 not on Azure, 1 failed"


@pytest.mark.parametrize("width", [80, 100])
def test_names_of_64_characters_leave_the_table_within_the_width(width):
    first, second = "a" * 64, "b" * 64
    many = [event(resources=[first, second]), event(OTHER_ID, resources=[second])]
    answers = [look(first, AFFECTED, "", first, many), look("c" * 64, UNREACHABLE, "No route to host. " * 9)]
    shown = fleet_lines(answers, width)
    assert max(map(len, shown)) <= width
    assert [line.strip(" ,") for line in shown[1:6] if line.startswith("  ")] == [second, first, second]
    assert f"  {'c' * 64}" in shown
    assert [line for line in shown if line.strip().startswith("unreachable: No route to host.")]


@pytest.mark.parametrize("names", [["web-1"], ["web-1", "web-2"]], ids=len)
@pytest.mark.parametrize("width", [80, 120])
def test_a_host_name_that_is_cut_keeps_its_closing_bracket(names, width):
    host = "web-1." + "a" * 80 + ".example.com"
    shown = fleet_lines([look(host, AFFECTED, "", "web-1", [event(resources=names)])], width)
    assert [line for line in shown if re.search(r"web-1 \(web-1\.a+…\)", line)], shown


def test_i5_what_is_over_is_told_by_its_outcome_and_without_the_time_before_which_it_would_not_have_started():
    looks = [look("web-1", AFFECTED, "", "web-1", [event(), event(OTHER_ID, **STARTED)])]
    shown = table.fleet_lines(looks, 80, NOW, {ID.lower(): "completed"})
    assert [line.split()[:3] for line in shown[1:3]] == [["started", "-", "Reboot"], ["completed", "-", "Reboot"]]


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([look("web-1", QUIET, "", "web-1", [event(resources=["db-1"], affects_this_vm=False)])], "db-1"),
        (
            [
                look("web-1", AFFECTED, "", "web-1", [event(resources=["web-1", "WEB-2", "db-1"])]),
                look("web-2", UNREACHABLE, "No route"),
            ],
            "db-1, WEB-2",
        ),
    ],
)
def test_vms_that_are_affected_and_gave_no_answer_are_named_and_nobody_is_told_that_none_is_affected(results, said):
    shown = fleet_lines(results, 80)
    assert f"Also affected: {said}" in shown
    assert "0 affected" not in shown[-1]


def test_every_host_is_counted_in_its_state_and_no_state_is_left_out():
    fleet = [look("a", QUIET), look("b", QUIET), look("c", NOT_ON_AZURE)]
    assert fleet_lines(fleet, 80)[-1] == "3 hosts asked: 2 quiet, 0 affected, 0 unreachable, 1 not on Azure, 0 failed"


def test_a_quiet_fleet_is_one_line():
    assert fleet_lines([look("web-1", QUIET)], 80) == [
        "1 host asked: 1 quiet, 0 affected, 0 unreachable, 0 not on Azure, 0 failed"
    ]


def test_without_events_the_hosts_that_gave_no_answer_come_first():
    assert fleet_lines([look("gone", UNREACHABLE, "No route")], 80)[:3] == [
        "No answer from:",
        "  gone  unreachable: No route",
        "",
    ]


@pytest.mark.parametrize(("hosts", "lines_each"), [(10, 2), (11, 1)])
def test_where_many_hosts_give_no_answer_each_has_one_line(hosts, lines_each):
    fleet = [look(f"web-{number:02}", UNREACHABLE, "No route to this host. " * 9) for number in range(hosts)]
    shown = fleet_lines(fleet, 80)
    assert len(shown) == 1 + hosts * lines_each + 2
    assert [line.split()[0] for line in shown[1:-2:lines_each]] == [one["host"] for one in fleet]
    assert all(line.endswith(" …") for line in shown[lines_each:-2:lines_each])


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        (STARTED, "started"),
        ({"event_status": "started"}, "started"),
        ({"not_before": "2026-11-21T10:00:01Z"}, "now"),
        ({"not_before": "2026-11-21T12:01:02Z"}, "in 2 h 1 min"),
        ({"not_before": "2026-11-21T10:09:01Z"}, "in 9 min"),
        ({"not_before": "2026-11-21T10:09:02Z"}, "in 9 min 1 s"),
        ({"not_before": None}, "unknown"),
        ({"event_status": "Paused"}, "in 14 min, Paused"),
        ({"event_status": None, "not_before": "2026-11-21T09:59:00Z"}, "now, no status"),
    ],
)
def test_the_start_is_told_in_words(changes, start):
    assert lines(event(**changes))[1].split("  ")[0] == start


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"event_type": None, "event_source": None}, "  -     -      -       C7061BAC  "),
        ({"duration_seconds": 90}, "  Reboot  1 min 30 s  Platform  "),
        ({"resources": []}, "  none named"),
    ],
)
def test_what_azure_did_not_say_is_not_made_up(changes, shown):
    assert shown in lines(event(**changes))[1] + "  "


def vms(names, width):
    """Return the VMs of an event as its row shows them, and the lines below it."""
    head, row, *rest = lines(event(resources=names), width=width)
    return [row[head.index("VMS") :], *rest[: rest.index("")]]


@pytest.mark.parametrize(
    ("names", "width", "shown"),
    [
        (["web-10", "x", "web-9", "w-2"], 86, ["w-2, web-9, web-10, x"]),
        (["web-10", "x", "web-9", "w-2"], 78, ["4 VMs:", "  w-2, web-9, web-10, x"]),
        (["prod-westeu-web-1", "prod-westeu-web-2"], 80, ["2 VMs:", "  prod-westeu-web-1, prod-westeu-web-2"]),
        (["a" * 64, "b" * 64], 80, ["2 VMs:", f"  {'a' * 64},", f"  {'b' * 64}"]),
        (["a" * 64, "b" * 64, "c" * 64], 80, ["3 VMs:", f"  {'a' * 64},", f"  {'b' * 64}, +1 more"]),
        (["a" * 64], 80, ["1 VM:", f"  {'a' * 64}"]),
        (
            [f"web-{number}" for number in range(2000)],
            20,
            [
                "2000 VMs:",
                "  web-0, web-1, web-2, web-3, web-4, web-5, web-6, web-7, web-8, web-9,",
                "  web-10, web-11, web-12, web-13, web-14, web-15, web-16, +1983 more",
            ],
        ),
    ],
)
def test_i5_vms_without_room_in_the_row_stand_below_it_and_only_many_are_left_out(names, width, shown):
    assert vms(names, width) == shown


def test_i5_the_lines_of_vms_stand_below_their_own_event():
    first, second = ["prod-westeu-web-1", "prod-westeu-web-2"], ["prod-westeu-db-1", "prod-westeu-db-2"]
    shown = lines(event(resources=first), event(OTHER_ID, resources=second, **STARTED))
    assert [OTHER_ID[:8] in shown[1], ID[:8] in shown[3]] == [True, True]
    assert [shown[2], shown[4]] == ["  " + ", ".join(second), "  " + ", ".join(first)]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_table_fits_where_it_can(width):
    many = [event(f"{number:08X}{ID[8:]}", resources=[f"web-{n}" for n in range(number)]) for number in range(1, 40)]
    assert max(map(len, lines(*many, width=width))) <= width


def test_nothing_from_outside_steers_the_terminal_or_breaks_a_line():
    evil = "\x1b[2Jx\r\n\u202ey"
    hosts = [
        look("web-1", AFFECTED, "", evil, [event(evil, event_type=evil, event_source=evil, resources=[evil, "b"])]),
        look(evil, FAILED, evil),
    ]
    shown = fleet_lines(hosts, 200)
    assert all(line.isprintable() for line in shown)
    assert "\\u001b[2Jx" in shown[1]
    assert shown[3].startswith("Also affected: ")
    assert "\\u001b[2Jx" in shown[6]


def test_endless_words_do_not_make_an_endless_table():
    endless = "x" * 10_000
    wild = event(event_type=endless, event_status=endless, event_source=endless, event_id=endless, resources=[endless])
    shown = fleet_lines([look("web-1", AFFECTED, "", "web-1", [wild]), look("web-2", FAILED, endless)], 80)
    assert max(map(len, shown)) < 250
