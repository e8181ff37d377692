# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which events are selected, and the guard: which may be approved and why not."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval.guard import (
    ApprovalPlan,
    ApprovalRequest,
    plan_approval,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.selection import (
    Selection,
    keys,
    select_events,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils import conftest
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import parse

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
IN_TWO_HOURS = "Sat, 21 Nov 2026 12:00:00 GMT"


def raw_event(event_id: str, *resources: Any, **changes: Any) -> dict[str, Any]:
    return conftest.raw_event(event_id, **{"Resources": list(resources), "EventSource": "Platform", **changes})


def started(event_id: str, *resources: Any, **changes: Any) -> dict[str, Any]:
    return raw_event(event_id, *resources, EventStatus="Started", NotBefore="", **changes)


def plan(*events: Any, incarnation: Any = 5, name: str = "vm-1", **wanted: Any) -> ApprovalPlan:
    """Decide for the VM of this name; without event_ids every event that names it is meant."""
    for words in ("event_types", "event_sources"):
        wanted[words] = keys(wanted.get(words, ()))
    return plan_approval(parse(*events, incarnation=incarnation), ApprovalRequest(name, **wanted), NOW)


def results(of: ApprovalPlan) -> list[tuple[str, str]]:
    return [(approval.event_id, approval.result) for approval in of.approvals]


# One event, asked for by its id: the options, the event, the result, the VMs it waits for.
GUARD = [
    pytest.param({}, raw_event("A", "vm-1"), "approved", (), id="only this VM"),
    pytest.param({}, raw_event("A", "VM-1"), "approved", (), id="S10 this VM in capitals"),
    pytest.param({"name": "VM-1"}, raw_event("A", "vm-1"), "approved", (), id="S10 own name in capitals"),
    pytest.param({}, raw_event("A", "vm-1", "vm-2"), "refused", ("vm-2",), id="S4 another VM beside this one"),
    pytest.param(
        {}, raw_event("A", "vm-3", "vm-1", "vm-2"), "refused", ("vm-3", "vm-2"), id="S4 two others, named in order"
    ),
    pytest.param({}, raw_event("A", "vm-2"), "refused", ("vm-2",), id="S18 another VM alone"),
    pytest.param({}, raw_event("A", "vm-10"), "refused", ("vm-10",), id="S18 vm-1 is not vm-10"),
    pytest.param({"name": "vm-10"}, raw_event("A", "vm-1"), "refused", ("vm-1",), id="S18 vm-10 is not vm-1"),
    pytest.param({"resources_ready": ("vm-2",)}, raw_event("A", "vm-1", "vm-2"), "approved", (), id="both are ready"),
    pytest.param({"resources_ready": ("VM-2",)}, raw_event("A", "vm-2"), "approved", (), id="S10 ready in capitals"),
    pytest.param({"resources_ready": ("vm-9",)}, raw_event("A", "vm-1"), "approved", (), id="more ready than asked"),
    pytest.param(
        {"resources_ready": ("vm-2", "vm-20")},
        raw_event("A", "vm-1", "vm-2", "Vm-3"),
        "refused",
        ("Vm-3",),
        id="S4 one of three is not ready",
    ),
    pytest.param({"resources_ready": ("vm-",)}, raw_event("A", "vm-2"), "refused", ("vm-2",), id="S18 part of a name"),
    pytest.param({}, raw_event("A"), "refused", (), id="no VM named"),
    pytest.param({}, raw_event("A", Resources=None), "refused", (), id="Resources null"),
    pytest.param({}, raw_event("A", Resources=...), "refused", (), id="Resources missing"),
    pytest.param({}, raw_event("A", Resources="vm-1"), "refused", (), id="Resources a string"),
    pytest.param({"resources_ready": ("", "null")}, raw_event("A"), "refused", (), id="no VM named, odd names ready"),
    pytest.param({"force": True}, raw_event("A", "vm-1", "vm-2"), "approved", (), id="force, two VMs"),
    pytest.param({"force": True}, raw_event("A", "vm-2"), "approved", (), id="force, another VM's event"),
    pytest.param({"force": True}, raw_event("A"), "approved", (), id="force, no VM named"),
    pytest.param({"force": True}, raw_event("A", EventStatus="Completed"), "approved", (), id="force, unknown status"),
    pytest.param({}, started("A", "vm-1"), "already_started", (), id="S3 started"),
    pytest.param({}, raw_event("A", "vm-1", EventStatus="STARTED"), "already_started", (), id="S3 started in capitals"),
    pytest.param({}, started("A", "vm-1", "vm-2"), "already_started", (), id="S3 started, of two VMs"),
    pytest.param({}, started("A"), "already_started", (), id="S3 started, no VM named"),
    pytest.param({"force": True}, started("A", "vm-1"), "already_started", (), id="S3 started, force"),
    pytest.param(
        {"document_incarnation": "4"}, started("A", "vm-1"), "already_started", (), id="S3 started, document changed"
    ),
    pytest.param({}, raw_event("A", "vm-1", EventStatus="Completed"), "refused", (), id="unknown status"),
    pytest.param({}, raw_event("A", "vm-1", EventStatus=...), "refused", (), id="no status"),
    pytest.param({}, raw_event("A", "vm-1", EventStatus="scheduled"), "approved", (), id="status in small letters"),
    pytest.param({}, raw_event("A", "vm-1", NotBefore="soon"), "approved", (), id="S12 start unknown"),
    pytest.param({}, raw_event("A", "vm-1", EventType="Maintain"), "approved", (), id="unknown type"),
]


@pytest.mark.parametrize(("wanted", "event", "result", "waiting_for"), GUARD)
def test_the_guard(wanted: dict[str, Any], event: dict[str, Any], result: str, waiting_for: tuple[str, ...]) -> None:
    made = plan(event, event_ids=("A",), **wanted)
    (approval,) = made.approvals
    assert (approval.result, approval.waiting_for) == (result, waiting_for)
    assert made.ids_to_approve == (["A"] if result == "approved" else [])
    assert [refusal.event_id for refusal in made.refusals] == (["A"] if result == "refused" else [])
    assert made.warnings == ()
    assert bool(approval.why) is (result == "refused")
    for name in waiting_for:
        assert name in approval.why
    assert "resources_ready" not in approval.why, "the checker shows it, and has no such option"
    assert ("resources_ready" in approval.advice) is bool(waiting_for)


UNREADABLE_VMS = [[None], [5, "vm-1"], ["vm-1", ""], ["vm-1", {"name": "vm-2"}]]


@pytest.mark.parametrize("resources", UNREADABLE_VMS)
def test_p4_an_event_with_a_vm_that_cannot_be_read_is_refused_whatever_is_ready(resources: list[Any]) -> None:
    event = raw_event("A", Resources=resources)
    shown = parse(event).events[0].resources
    for ready in ((), ("vm-1", "vm-2", "5", "null", ""), shown):
        made = plan(event, event_ids=("A",), resources_ready=ready)
        assert results(made) == [("A", "refused")]
    assert "not every VM that it lists can be read" in made.refusals[0].why
    assert results(plan(event, event_ids=("A",), force=True)) == [("A", "approved")]


def test_p4_conditions_meet_an_event_of_others_with_a_vm_that_cannot_be_read_and_refuse_it() -> None:
    event = raw_event("A", "vm-2", None)
    assert results(plan(event, event_types=["Reboot"])) == [("A", "refused")]
    assert results(plan(event, event_types=["Reboot"], force=True)) == []


def test_p4_an_id_that_an_unclear_document_does_not_list_may_be_there() -> None:
    made = plan(raw_event(""), event_ids=("A",))
    assert (results(made), made.ids_to_approve) == ([("A", "not_found")], [])
    assert made.warnings == (
        "Event A is not in the document: an entry of the document cannot be read and may be this event. Ask again.",
    )


@pytest.mark.parametrize("odd", [None, 7, "", {"name": "vm-1"}])
def test_an_event_that_lists_what_is_no_name_is_refused(odd: Any) -> None:
    ready = ("", "null", "None", "7", str(odd))
    (approval,) = plan(raw_event("A", "vm-1", odd), event_ids=("A",), resources_ready=ready).approvals
    assert approval.result == "refused"
    assert len(approval.waiting_for) == 1


def test_two_events_with_one_id_wait_for_the_vms_of_both() -> None:
    (approval,) = plan(raw_event("A", "vm-1"), raw_event("a", "vm-2"), event_ids=("A",)).approvals
    assert (approval.result, approval.waiting_for) == ("refused", ("vm-2",))


@pytest.mark.parametrize(
    ("incarnation", "expected", "result"),
    [
        pytest.param(5, "5", "approved", id="the same number"),
        pytest.param("5", "5", "approved", id="the same string"),
        pytest.param("abc123", "abc123", "approved", id="the same word"),
        pytest.param(0, "0", "approved", id="the same nought"),
        pytest.param(6, "5", "refused", id="gone on"),
        pytest.param(50, "5", "refused", id="starts alike"),
        pytest.param(1, "5", "refused", id="S16 went back"),
        pytest.param(5, "", "refused", id="an empty string"),
        pytest.param(None, "5", "refused", id="not in the document"),
        pytest.param(None, "None", "refused", id="not in the document, nor before"),
        pytest.param(1, None, "approved", id="S16 nobody looks"),
        pytest.param(None, None, "approved", id="not in the document, nobody looks"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_a_document_that_changed_is_refused(incarnation: Any, expected: str | None, result: str, force: bool) -> None:
    made = plan(
        raw_event("A", "vm-1"), incarnation=incarnation, event_ids=("A",), document_incarnation=expected, force=force
    )
    assert results(made) == [("A", result)]
    assert bool(made.ids_to_approve) is (result == "approved")


def test_an_incarnation_stays_on_one_line_of_the_refusal() -> None:
    (refusal,) = plan(raw_event("A", "vm-1"), incarnation="5\n6", document_incarnation="4").refusals
    assert '(DocumentIncarnation is "5\\n6", not 4)' in refusal.why


def test_ids_match_in_any_letter_case_and_are_sent_as_azure_spells_them() -> None:
    made = plan(raw_event("ABC-1", "vm-1"), raw_event("ABC-10", "vm-1"), event_ids=("abc-1",))
    assert (made.ids_to_approve, made.warnings) == (["ABC-1"], ())
    assert results(made) == [("ABC-1", "approved")]


def test_an_id_listed_twice_is_one_approval() -> None:
    assert results(plan(raw_event("A", "vm-1"), event_ids=("a", "A"))) == [("A", "approved")]
    assert len(plan(event_ids=("b", "B")).approvals) == 1


def test_an_id_that_is_not_there_is_a_warning_and_holds_nothing_back() -> None:
    made = plan(raw_event("A", "vm-1"), event_ids=("GONE-1", "A"))
    assert sorted(results(made)) == [("A", "approved"), ("GONE-1", "not_found")]
    assert (made.ids_to_approve, made.refusals) == (["A"], [])
    assert len(made.warnings) == 1
    assert "GONE-1" in made.warnings[0]


def test_s7_without_a_document_nothing_is_approved_and_the_warning_says_why() -> None:
    made = plan_approval(None, ApprovalRequest("vm-1", event_ids=("A",)), NOW)
    assert results(made) == [("A", "not_found")]
    assert (made.ids_to_approve, made.refusals) == ([], [])
    assert len(made.warnings) == 1
    assert "no document" in made.warnings[0]
    everything = plan_approval(None, ApprovalRequest("vm-1", event_types=keys(["Reboot"])), NOW)
    assert (everything.approvals, everything.warnings) == ((), made.warnings)


def test_one_refused_event_holds_all_back() -> None:
    events = [
        raw_event("GOOD-1", "vm-1"),
        started("OLD-1", "vm-1"),
        raw_event("BAD-1", "vm-1", "vm-2"),
        raw_event("GOOD-2", "vm-1"),
    ]
    made = plan(*events, event_ids=("GOOD-1", "GONE-1", "OLD-1", "BAD-1", "GOOD-2"))
    assert made.ids_to_approve == []
    assert dict(results(made)) == {
        "GOOD-1": "refused",
        "OLD-1": "already_started",
        "BAD-1": "refused",
        "GOOD-2": "refused",
        "GONE-1": "not_found",
    }
    waiting = {approval.event_id: approval.waiting_for for approval in made.approvals}
    assert (waiting["BAD-1"], waiting["GOOD-1"]) == (("vm-2",), ())
    assert all(refusal.why for refusal in made.refusals)


@pytest.mark.parametrize(
    ("wanted", "approved"),
    [
        ({"event_types": ["reboot"]}, ["R-PLATFORM", "R-USER"]),
        ({"event_types": ["FREEZE", "Reboot"]}, ["R-PLATFORM", "F-USER", "R-USER"]),
        ({"event_sources": ["user"]}, ["F-USER", "R-USER"]),
        ({"event_types": ["Reboot"], "event_sources": ["User"]}, ["R-USER"]),
        ({"event_types": ["Reboot"], "event_ids": ("r-user", "f-user")}, ["R-USER"]),
        ({"event_sources": ["User"], "event_ids": ("R-PLATFORM",)}, []),
        ({"event_types": ["Redeploy"]}, []),
        ({"event_types": ["Reboo"]}, []),
    ],
)
def test_s18_conditions_are_combined_by_and_and_leave_other_vms_alone(
    wanted: dict[str, Any], approved: list[str]
) -> None:
    made = plan(
        raw_event("R-PLATFORM", "vm-1"),
        raw_event("OTHER-1", "vm-2"),
        raw_event("F-USER", "vm-1", EventType="Freeze", EventSource="User"),
        raw_event("R-USER", "VM-1", EventSource="user"),
        raw_event("OTHER-2", "vm-10", EventSource="User"),
        raw_event("OTHER-3", "vm-10", EventType="Freeze", EventSource="User"),
        **wanted,
    )
    assert made.ids_to_approve == approved
    assert made.refusals == []
    left_alone = [event_id.upper() for event_id in wanted.get("event_ids", ()) if event_id.upper() not in approved]
    assert len(made.warnings) == len(left_alone)
    for event_id, warning in zip(left_alone, made.warnings):
        assert event_id in warning
        assert "type or source" in warning
    assert [event_id for event_id, _result in results(made)] == approved


def test_conditions_reach_the_events_of_every_vm_that_is_ready() -> None:
    events = [raw_event("A", "vm-1"), raw_event("B", "vm-2"), raw_event("C", "vm-2", "vm-3"), raw_event("D", "vm-4")]
    assert results(plan(*events, event_types=["Reboot"], resources_ready=("vm-2", "vm-3"))) == [
        ("A", "approved"),
        ("B", "approved"),
        ("C", "approved"),
    ]
    held_back = plan(*events, event_types=["Reboot"], resources_ready=("vm-2",))
    assert held_back.ids_to_approve == []
    assert [approval.waiting_for for approval in held_back.approvals] == [(), (), ("vm-3",)]


def test_conditions_meet_an_event_that_names_no_vm_and_refuse_it() -> None:
    made = plan(raw_event("A"), event_types=["Reboot"])
    assert results(made) == [("A", "refused")]
    assert results(plan(raw_event("A", EventSource=...), event_sources=["User"])) == []


def test_force_does_not_widen_what_conditions_select() -> None:
    made = plan(raw_event("A", "vm-1", "vm-2"), raw_event("B", "vm-2"), event_types=["Reboot"], force=True)
    assert made.ids_to_approve == ["A"]


def test_a_refusal_says_which_event_it_is() -> None:
    made = plan(raw_event("A", "vm-2"), raw_event("B", "vm-2", EventType=...), event_ids=("A", "B"))
    first, second = (refusal.why for refusal in made.refusals)
    assert "A (Reboot)" in first
    assert "B (unknown type)" in second


@pytest.mark.parametrize(
    ("vms", "why", "advice"),
    [
        (
            ["vm-1", "vm-2"],
            "Event A (Reboot) is not approved: it waits for vm-2.",
            "Prepare it and add its name to resources_ready (playbook approve: approve_resources_ready).",
        ),
        (
            ["vm-1", "vm-2", "vm-3"],
            "Event A (Reboot) is not approved: it waits for vm-2, vm-3.",
            "Prepare them and add their names to resources_ready (playbook approve: approve_resources_ready).",
        ),
        (
            [],
            "Event A (Reboot) is not approved: it lists no VM, so readiness cannot be confirmed.",
            "Set force of the module to approve anyway.",
        ),
    ],
)
def test_what_a_caller_can_do_is_a_sentence_of_its_own(vms: list[str], why: str, advice: str) -> None:
    (refusal,) = plan(raw_event("A", *vms), event_ids=("A",)).refusals
    assert (refusal.why, refusal.advice) == (why, advice)


def test_an_approval_as_users_see_it() -> None:
    (approval,) = plan(raw_event("A", "vm-2", "vm-1", "vm-3"), event_ids=("a",)).approvals
    assert approval.to_dict() == {
        "event_id": "A",
        "result": "refused",
        "waiting_for": ["vm-2", "vm-3"],
        "event_status": "Scheduled",
    }
    (absent,) = plan(event_ids=("a",)).approvals
    assert absent.to_dict() == {"event_id": "a", "result": "not_found", "waiting_for": [], "event_status": None}


FLEET = [
    raw_event("NOW", "VM-1", "vm-2", NotBefore="Sat, 21 Nov 2026 10:00:00 GMT"),
    raw_event("LATER", "vm-1", NotBefore=IN_TWO_HOURS, EventType="freeze", EventSource=...),
    raw_event("OTHER", "vm-10", EventSource="user"),
    raw_event("UNKNOWN", "vm-1", NotBefore="soon", EventType="Maintain", EventStatus="Odd"),
    started("STARTED", "vm-1", EventSource="User"),
    raw_event("NOBODY", EventType=...),
]


@pytest.mark.parametrize(
    ("selection", "only_for", "selected"),
    [
        pytest.param({}, None, "NOW LATER OTHER UNKNOWN STARTED NOBODY", id="scope all"),
        pytest.param({}, "vm-1", "NOW LATER UNKNOWN STARTED NOBODY", id="S10 S18 scope this_vm"),
        pytest.param({}, "VM-10", "OTHER NOBODY", id="S10 S18 vm-10 beside vm-1"),
        pytest.param({}, "vm", "NOBODY", id="S18 part of a name"),
        pytest.param({"event_ids": ["now", "Later", "NO"]}, None, "NOW LATER", id="ids in any case, whole"),
        pytest.param({"event_types": ["REBOOT"]}, None, "NOW OTHER STARTED", id="type in any case"),
        pytest.param({"event_types": ["maintain", "Freeze"]}, None, "LATER UNKNOWN", id="types, one unknown"),
        pytest.param({"event_statuses": ["started"]}, None, "STARTED", id="status"),
        pytest.param({"event_statuses": ["ODD"]}, None, "UNKNOWN", id="unknown status"),
        pytest.param({"event_sources": ["USER"]}, None, "OTHER STARTED", id="source; none is no source"),
        pytest.param({"event_sources": ["User"]}, "vm-1", "STARTED", id="source and this VM"),
        pytest.param(
            {"event_types": ["Reboot"], "event_statuses": ["Scheduled"], "event_sources": ["Platform"]},
            None,
            "NOW",
            id="all conditions together",
        ),
        pytest.param({"due_within": 0}, "vm-1", "NOW STARTED", id="S2 S12 due now"),
        pytest.param({"due_within": 899}, None, "NOW STARTED", id="S12 a second too early"),
        pytest.param({"due_within": 900}, None, "NOW OTHER STARTED NOBODY", id="S12 due within 15 minutes"),
        pytest.param({"due_within": 7200}, "vm-1", "NOW LATER STARTED NOBODY", id="S12 due within two hours"),
        pytest.param({"due_within": 10**12}, "vm-1", "NOW LATER STARTED NOBODY", id="S12 unknown is never due"),
    ],
)
def test_selection(selection: dict[str, Any], only_for: str | None, selected: str) -> None:
    wanted = {name: value if name == "due_within" else keys(value) for name, value in selection.items()}
    found = select_events(parse(*FLEET), Selection(**wanted), NOW, only_for)
    assert [event.event_id for event in found] == selected.split()


def test_selection_leaves_out_no_vm_unless_it_is_asked_to() -> None:
    assert len(select_events(parse(*FLEET), Selection(), NOW)) == len(FLEET)


@pytest.mark.parametrize(
    ("written", "approved"),
    [
        (("c7061bac",), ["C7061BAC-AFDC"]),
        (("C706",), ["C7061BAC-AFDC"]),
        (("C7061BAC-AFDC", "c7061bac"), ["C7061BAC-AFDC"]),
        (("8920A2F0", "C7061BAC"), ["C7061BAC-AFDC", "8920A2F0-5F9A"]),
        (("8920A2F1-22",), ["8920A2F1-22"]),
        (("C70",), []),
        (("7061",), []),
        (("C7061BAC-AFDC-4513",), []),
    ],
)
def test_the_beginning_of_one_id_names_its_event(written: tuple[str, ...], approved: list[str]) -> None:
    events = [raw_event(each, "vm-1") for each in ("C7061BAC-AFDC", "8920A2F0-5F9A", "8920A2F1-22", "8920A2F1-224")]
    made = plan(*events, event_ids=written, beginnings=True)
    assert made.ids_to_approve == approved
    assert made.refusals == []
    assert [event.event_id for event in made.events] == approved
    assert len(made.warnings) == (0 if approved else 1)


def test_p14_the_beginning_of_two_ids_is_refused_and_nothing_is_approved_beside_it() -> None:
    events = [raw_event(each, "vm-1") for each in ("C7061BAC-1", "C7061BAC-2", "OTHER-1")]
    made = plan(*events, event_ids=("OTHER-1", "c7061"), beginnings=True)
    assert made.ids_to_approve == []
    assert [approval.result for approval in made.approvals].count("approved") == 0
    assert "2 events have an id that begins with c7061, so none is approved: write more of it." in [
        refusal.why for refusal in made.refusals
    ]


@pytest.mark.parametrize(
    ("written", "result"), [("c7061", "refused"), ("c7061bac-1", "approved")], ids=["beginning", "whole"]
)
def test_p14_a_beginning_is_refused_where_an_entry_that_cannot_be_read_may_begin_so(written: str, result: str) -> None:
    made = plan(raw_event("C7061BAC-1", "vm-1"), None, event_ids=(written,), beginnings=True)
    assert results(made) == [("C7061BAC-1", result)]


def test_p14_a_beginning_that_is_too_short_is_told_so() -> None:
    (warning,) = plan(raw_event("C7061BAC-1", "vm-1"), event_ids=("c70",), beginnings=True).warnings
    assert warning.endswith(" The beginning of an id needs at least 4 characters.")
    (warning,) = plan(raw_event("C7061BAC-1", "vm-1"), event_ids=("c70",)).warnings
    assert warning.endswith("or was never there.")


def test_p14_a_whole_id_is_never_the_beginning_of_another_one() -> None:
    whole = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
    made = plan(raw_event(f"{whole}-2", "vm-1"), event_ids=(whole,), beginnings=True)
    assert results(made) == [(whole, "not_found")]


def test_whoever_knows_whole_ids_gets_no_event_that_only_begins_so() -> None:
    assert results(plan(raw_event("C7061BAC-1", "vm-1"), event_ids=("C7061BAC",))) == [("C7061BAC", "not_found")]
