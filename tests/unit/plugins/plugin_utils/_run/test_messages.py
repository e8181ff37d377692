# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operator reads while a fleet goes through an event: who, why, until when, and what to do, in 80 columns."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.messages import (
    format_held_back,
    format_marked,
    format_outcome,
    format_plan,
    format_waiting,
    merge_reasons,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.progress import NEW_PROGRESS
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.verdict import (
    find_faults,
    summarize,
    tell_reason,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._run.fleet import make_event

NOW = 1795255200.0  # 2026-11-21T10:00:00Z
EVENT = make_event("C7061BAC-AFDC-4513-B24B-AA5F13A16123")


def make_progress(event=None, **changes):
    return {**NEW_PROGRESS, "event": {**EVENT, **(event or {})}, "prepared": True, **changes}


def make_plan(event=None, **changes):
    usual = {"blocked": True, "wait": True, "why": "Not approved: host-b is not prepared."}
    return {"event": {**EVENT, **(event or {})}, **usual, **changes}


FAILED = make_progress(prepared=False, failed=True, why=["host-b could not be prepared: Drain: rc=1: no such pool"])


def test_what_is_held_back_says_who_why_until_when_and_what_to_do():
    assert format_held_back(make_plan(), {"host-a": [make_progress()], "host-b": [FAILED]}, 3600, NOW) == [
        "HELD BACK: Reboot C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        "  VMs: web-1, web-2",
        "  host-b could not be prepared: Drain: rc=1: no such pool",
        "  Not approved: host-b is not prepared.",
        "  Azure starts it without an approval from 2026-11-21 10:15:00 UTC",
        "    on, in 15 min. This run keeps the hosts prepared and waits for",
        "    it.",
        "  To do before then: repair the cause and run this again. Or approve",
        "    the event although a VM is not prepared, by this command in one",
        "    line, with the -i and the login options of this run:",
        "    ansible-playbook fleetops.azure_maintenance.approve -e target=host-a,host-b",
        "    -e approve_event_ids=C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        "    -e approve_resources_ready=web-1,web-2",
    ]


def test_a_rehearsal_shows_no_command_that_asks_azure():
    lines = format_held_back(make_plan(), {"host-a": [make_progress()], "host-b": [FAILED]}, 3600, NOW, rehearsal=True)
    assert lines[-2:] == ["    it.", "  To do: repair the cause and rehearse again."]


def test_nothing_is_told_of_what_is_not_held_back():
    assert format_held_back(make_plan(blocked=False), {"host-a": [make_progress()]}, 3600, NOW) == []


@pytest.mark.parametrize(
    ("not_before", "words"),
    [
        (None, "gave no start time"),
        ("2026-11-21T10:00:00Z", "may start it now"),
        ("2026-11-23T10:00:00Z", "2026-11-23"),
    ],
)
def test_it_says_when_azure_starts_it_as_far_as_it_is_known(not_before, words):
    lines = format_held_back(make_plan({"not_before": not_before}, wait=False), {}, 3600, NOW)
    assert words in " ".join(lines)
    assert all(len(line) <= 68 for line in lines if "ansible-playbook" not in line)


THEY_RESTORE = "the checkers restore their hosts after the event."
IT_RESTORES = "It restores each host that is prepared for no other event."


@pytest.mark.parametrize(
    ("wait", "wait_timeout", "options", "words"),
    [
        (True, 3600, {}, "This run keeps the hosts prepared and waits for it."),
        (True, 3600, {"check_mode": True}, "A real run keeps the hosts prepared and waits for it."),
        (True, 3600, {"of_checkers": True}, "This run waits for it. The checkers restore their hosts after it."),
        (False, 0, {"of_checkers": True}, f"This run does not wait. It restores no host: {THEY_RESTORE}"),
        (False, 600, {}, f"This run waits 10 min at most (event_response_wait_timeout). {IT_RESTORES}"),
        (False, 0, {"check_mode": True}, f"A real run does not wait. {IT_RESTORES}"),
    ],
)
def test_it_says_what_becomes_of_the_hosts(wait, wait_timeout, options, words):
    lines = format_held_back(make_plan(wait=wait), {}, wait_timeout, NOW, **options)
    assert words in " ".join(" ".join(lines).split())


STARTED = {"event_id": "b2", "event_type": "Freeze", "event_status": "Started", "not_before": None}


@pytest.mark.parametrize(
    ("hosts", "line"),
    [
        pytest.param(
            {"host-a": [make_progress()], "host-b": [make_progress()]},
            "Waiting for host-a, host-b, 8 min 20 s at most: Reboot C7061BAC may start in 15 min",
            id="announced",
        ),
        pytest.param(
            {"host-a": [make_progress(approved_by="host-a"), make_progress(STARTED, phase="started")]},
            "Waiting for host-a, 8 min 20 s at most: Reboot C7061BAC is approved; Freeze b2 has started",
            id="approved, and started",
        ),
        pytest.param(
            {"host-a": [make_progress(stays_prepared=False, unreachable=True)]},
            "Waiting for host-a, 8 min 20 s at most: cannot be reached now: host-a",
            id="lost",
        ),
        pytest.param(
            {"host-a": [make_progress(phase=phase, no_answer="No.") for phase in ("started", "ended")]},
            "Waiting for host-a, 8 min 20 s at most: Reboot C7061BAC has started; cannot be asked now: host-a",
            id="silent",
        ),
        pytest.param(
            {f"host-{number}": [make_progress(phase="started")] for number in range(6)},
            "Waiting for host-0, host-1, host-2, host-3, 2 more, 8 min 20 s at most: Reboot C7061BAC has started",
            id="many",
        ),
    ],
)
def test_one_line_says_who_is_awaited_and_for_how_long(hosts, line):
    assert format_waiting(hosts, NOW + 500.9, NOW) == line


def test_at_the_end_each_fault_is_told_once():
    event = {"event_id": "A1", "event_type": "Reboot", "outcome": None, "phase": "announced", "approved_by": None}
    event = {**event, "would_be_approved_by": "host-a"}
    summary = {"events": [{**event, "hosts": ["host-a", "host-b"], "why": ["No."]}]}
    faults = {"host-b": ["No."], "host-c": ["host-c could not be asked: down"]}
    assert format_outcome(summary, faults, {"No."}) == [
        "Reboot A1 announced, would be approved by host-a: host-a, host-b",
        "  No.",
        "host-c could not be asked: down",
    ]
    assert format_outcome({"events": []}, {}, ()) == ["No event."]
    assert format_outcome({"events": []}, {}, (), only_marked=True) == ["No VM is marked, so none is to be restored."]


def test_a_run_that_does_not_wait_says_which_hosts_it_leaves_out_of_service():
    assert format_outcome({"events": []}, {}, (), (), ["host-a", "host-b"]) == [
        "host-a, host-b stay out of service. When the event is over, run this",
        "  again, or the playbook restore.",
    ]


@pytest.mark.parametrize(("seconds", "at_most"), [(9, ", 9 s at most"), (0.9, ""), (-5, "")])
def test_who_waits_for_another_run_says_so(seconds, at_most):
    told = format_waiting({"host-a": []}, NOW + seconds, NOW)
    assert told == f"Waiting for host-a{at_most}: somebody may be at work there"


def test_p4_an_empty_answer_is_not_told_as_no_event():
    hosts = [f"host-{number}" for number in range(6)]
    assert format_outcome({"events": []}, {}, (), hosts[:1]) == [
        "Azure gave an empty answer to host-0: whether there are events is",
        "  unknown.",
    ]
    event = {"event_type": "Reboot", "event_id": "A1", "phase": "ended", "outcome": "completed", "approved_by": None}
    event = {**event, "would_be_approved_by": None}
    told = format_outcome({"events": [{**event, "hosts": ["web"], "why": []}]}, {}, (), hosts)
    assert told == [
        "Reboot A1 completed: web",
        "Azure gave an empty answer to host-0, host-1, host-2, host-3, 2",
        "  more: whether there are events is unknown.",
    ]


def test_what_is_told_at_the_end_fits_a_terminal():
    event = {"event_id": EVENT["event_id"], "event_type": "Reboot", "outcome": "completed", "approved_by": "host-1"}
    event = {**event, "would_be_approved_by": None}
    hosts = [f"host-{number}.example.com" for number in range(20)]
    summary = {"events": [{**event, "hosts": hosts, "why": ["a reason " * 20]}]}
    lines = format_outcome(summary, {"host-0": ["another reason " * 20]}, ())
    assert max(map(len, lines)) <= 68
    assert lines[:2] == [
        "Reboot C7061BAC-AFDC-4513-B24B-AA5F13A16123 completed, approved by",
        "  host-1: host-0.example.com, host-1.example.com,",
    ]


STEERS = "web-9\x1b]0;pwned\x07\x9b31m\u202e"


def test_an_approval_that_azure_refused_is_to_be_tried_once_more():
    lines = format_held_back(make_plan(was_tried=True), {"host-a": [make_progress()]}, 3600, NOW)
    told = " ".join(" ".join(lines).split())
    assert "Or approve the event once more, by this command" in told
    assert "is not prepared, by" not in told


def test_no_text_from_outside_steers_the_terminal():
    event = {"event_type": f"Reb{STEERS}oot", "resources": ["web-1", STEERS]}
    each = make_progress(event, failed=True, why=[f"No: {STEERS}"])
    plan = make_plan(event, why=f"Not approved: no host of this play is the VM {STEERS}.", resources_ready=[STEERS])
    faults = find_faults({"host-a": [each], "host-b": None}, {"host-b": {"failed": True, "msg": STEERS}})
    known = {tell_reason(f"No: {STEERS}")}
    told = [
        *format_held_back(plan, {"host-a": [each]}, 3600, NOW),
        *format_outcome(summarize({"host-a": [each]}), faults, known),
        format_waiting({"host-a": [each]}, NOW, NOW),
        format_plan(plan),
        *(fault for found in faults.values() for fault in found),
    ]
    assert [ascii(line) for line in told if not line.isprintable()] == []
    assert sum("pwned" in line for line in told) >= 8
    # Each fault is told once.
    assert sum("No: web-9" in line for line in format_outcome(summarize({"host-a": [each]}), faults, known)) == 1


FAILED_SO, NOT_APPROVED = "could not be prepared: No.", "Not approved: c is not prepared."


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        ([("a", f"a {FAILED_SO}"), ("b", f"b {FAILED_SO}")], [f"a, b {FAILED_SO}"]),
        ([("a", "a was not restored: No."), ("b", "b was not restored: No.")], ["a, b were not restored: No."]),
        ([("a", "a is not known"), ("b", "b was lost")], ["a is not known", "b was lost"]),
        ([("a", NOT_APPROVED), ("b", NOT_APPROVED)], [NOT_APPROVED]),
    ],
)
def test_i8_one_fault_is_one_sentence_however_many_hosts_have_it(reasons, told):
    assert merge_reasons(reasons) == told


def test_i4_the_command_that_approves_all_the_same_names_the_hosts_of_the_event():
    others = [make_progress({"event_id": "D3"})]
    lines = format_held_back(make_plan(), {"host-a": [make_progress()], "host-b": others}, 3600, NOW)
    assert any(line.endswith("approve -e target=host-a") for line in lines)


BY_ID = f"-e approve_event_ids={EVENT['event_id']}"


@pytest.mark.parametrize(
    ("host", "vm", "command"),
    [
        ("web 1", "web-1", f"""approve -e '{{"target": "web 1,"}}' {BY_ID} -e approve_resources_ready=web-1"""),
        (
            "b\u00fcro's",
            "x;reboot",
            f"""approve -e '{{"target": "b\u00fcro'"'"'s,"}}' {BY_ID} -e 'approve_resources_ready=x;reboot'""",
        ),
        # Ansible shows a message as JSON, with a backslash before each double quote, so that could not be copied.
        ("b\u00fcro/1", "web-1", f"""approve -e 'target=b\u00fcro/1' {BY_ID} -e approve_resources_ready=web-1"""),
        ("a{{b", "web-1", f"""approve -e '{{"target": "a{{{{b,"}}' {BY_ID} -e approve_resources_ready=web-1"""),
    ],
)
def test_i4_a_name_in_that_command_is_one_word_for_a_shell_and_one_host_for_ansible(host, vm, command):
    """Ansible cut "-e target=web 1" at the space, and asked all hosts of a group called web."""
    lines = format_held_back(make_plan({"resources": [vm]}), {host: [make_progress()]}, 3600, NOW)
    told = " ".join(line.strip() for line in lines[-3:])
    assert told.endswith(command)


def test_i8_hosts_where_somebody_may_be_at_work_are_told_at_once_with_what_to_do_where_nobody_is():
    hosts = [f"web-{number}" for number in range(1, 41)]
    told = " ".join(map(str.strip, format_marked(["web-1 is out of service."], dict(zip(hosts, range(40))))))
    assert told == (
        "web-1 is out of service. Somebody may be at work on web-1, web-2, web-3, web-4, 36 more. Until 00:00:39 UTC "
        "at most this run does nothing there that disturbs it. If you know that nobody is, the playbook restore with "
        "-e restore_open=true restores it at once."
    )
    assert format_marked([], {}) == []
