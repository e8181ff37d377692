# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""P13: what became of the events of a fleet is told by what each host is known to have reached."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.progress import NEW_PROGRESS
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.verdict import (
    as_check_mode,
    find_empty,
    find_faults,
    note_unrestored,
    summarize,
)

NOT_KNOWN = (
    "host-a is not known to be restored: the run ended for it, or its connection was lost, before that was done;"
)
PREPARED = {"phase": "ended", "outcome": "completed", "prepared": True}


def make_event(event_id="A1"):
    return {"event_id": event_id, "event_type": "Reboot"}


def make_progress(event=None, **changes):
    return {**NEW_PROGRESS, "event": event or make_event(), **changes}


NOT_REACHED = "host-a was not restored: it could not be reached: no"
NOT_OVER = "host-a was not restored: the event did not end within 60 s."


@pytest.mark.parametrize(
    ("changes", "may_stay", "why"),
    [
        pytest.param({"prepared": None}, False, None, id="it was never prepared"),
        pytest.param({**PREPARED, "restored": True}, False, None, id="restored"),
        pytest.param(PREPARED, False, NOT_KNOWN, id="P13: nothing is known of its restore"),
        pytest.param({**PREPARED, "prepared": False}, False, NOT_KNOWN, id="P13: lost while it was prepared"),
        pytest.param({"prepared": False}, True, NOT_KNOWN, id="P13: lost, and nobody has decided about it"),
        pytest.param({**PREPARED, "phase": "announced", "stays_prepared": False}, True, NOT_KNOWN, id="held back"),
        pytest.param({**PREPARED, "unreachable": True}, False, NOT_REACHED, id="lost"),
        pytest.param({**PREPARED, "phase": "started"}, False, NOT_OVER, id="not over"),
        pytest.param({**PREPARED, "phase": "started"}, True, None, id="it may stay prepared"),
    ],
)
def test_who_is_not_restored_has_failed_and_why(changes, may_stay, why):
    (closed,) = note_unrestored([make_progress(**changes)], "host-a", may_stay, 60.0)
    assert closed["failed"] is (why is not None)
    assert len(closed["why"]) == closed["failed"]
    assert why is None or closed["why"][0].startswith(why)
    assert note_unrestored([closed], "host-a", may_stay, 60.0) == [closed]
    left = ["host-a"] if why else []
    assert summarize({"host-a": [closed]})["not_restored"] == left


def test_who_could_not_be_reached_is_told_with_the_reason():
    lost = make_progress(**PREPARED, unreachable=True)
    (closed,) = note_unrestored([lost], "host-a", False, 60.0, no_answer="Permission denied (publickey).")
    assert closed["why"] == ["host-a was not restored: it could not be reached: Permission denied (publickey)."]


@pytest.mark.parametrize(
    ("may_stay", "why"),
    [
        (False, "host-a was not restored: its other event Reboot C3D4E5F6 did not end within 60 s."),
        (True, "host-a was not restored: it stays prepared for its other event Reboot C3D4E5F6."),
    ],
)
def test_who_stays_prepared_for_another_event_is_told_which(may_stay, why):
    over = make_progress(**PREPARED)
    pending = make_progress(make_event("C3D4E5F6-0000"), phase="started", prepared=True)
    closed = note_unrestored([over, pending], "host-a", may_stay, 60.0)[0]
    assert (closed["failed"], closed["why"]) == (True, [why])
    assert note_unrestored([closed, pending], "host-a", may_stay, 60.0)[0] == closed


@pytest.mark.parametrize(
    ("waited", "why"),
    [
        pytest.param(None, NOT_KNOWN, id="the run ended for the host meanwhile"),
        pytest.param(60.0, " did not end within 60 s.", id="the host waited to the end"),
    ],
)
@pytest.mark.parametrize("other", [False, True], ids=["its own event", "another event of it"])
def test_p13_an_event_is_said_to_have_lasted_too_long_only_where_the_host_waited_for_so_long(waited, why, other):
    pending = make_progress(make_event("C3D4E5F6-0000"), phase="started", prepared=True)
    followed = [make_progress(**PREPARED), pending] if other else [pending]
    closed = note_unrestored(followed, "host-a", False, waited)
    assert why in closed[0]["why"][0]


def test_what_did_not_go_as_it_should_is_told_of_each_host_once():
    failed = make_progress(failed=True, why=["No."])
    hosts = {"well": [make_progress()], "idle": [], "failed": [failed, failed], "silent": None, "skipped": None}
    answers = {"silent": {"failed": True, "msg": "Nothing answers."}}
    assert find_faults(hosts, answers) == {
        "failed": ["No."],
        "silent": ["silent could not be asked: Nothing answers."],
        "skipped": ["skipped was not asked: see the output above."],
    }
    assert summarize(hosts)["not_asked"] == ["silent", "skipped"]


UNCLEAR = "host-a was given an answer that could not be read as a whole, so an event may be missing. Run this again."


@pytest.mark.parametrize(
    ("received", "clear", "followed", "fault", "empty"),
    [
        pytest.param(True, True, [], None, False, id="no event"),
        pytest.param(True, False, [], UNCLEAR, False, id="P4: an entry could not be read"),
        pytest.param(True, False, [make_progress()], None, False, id="an event was read and followed"),
        pytest.param(False, False, [], None, True, id="P4: an empty body"),
        pytest.param(False, False, [make_progress()], None, False, id="an empty body when an event was followed"),
    ],
)
def test_p13_a_first_answer_that_is_unclear_or_empty_is_not_told_as_no_event(received, clear, followed, fault, empty):
    answers = {"host-a": {"document_received": received, "document_is_clear": clear}}
    assert find_faults({"host-a": followed}, answers) == ({"host-a": [fault]} if fault else {})
    assert find_empty({"host-a": followed, "host-b": None, "host-c": []}, answers) == (["host-a"] if empty else [])


@pytest.mark.parametrize(
    ("named", "resources", "refused"),
    [
        pytest.param([], ["web-1"], True, id="all events are wanted"),
        pytest.param("a1", ["web-1"], False, id="another VM told of the event that is wanted"),
        pytest.param(["A1", "b2"], ["web-1"], True, id="of one of two, that nobody told of"),
        pytest.param(["a"], ["web-1"], True, id="a beginning may mean it too"),
        pytest.param(["A1"], ["web-1", "WEB-2"], True, id="it lists this VM, which did not see it"),
    ],
)
def test_p13_an_entry_that_cannot_be_read_and_is_no_event_that_is_wanted_is_no_fault(named, resources, refused):
    told = make_progress({**make_event("A1"), "resources": resources})
    answers = {"host-a": {"document_received": True, "document_is_clear": False, "resource_name": "web-2"}}
    faults = find_faults({"host-a": [], "host-b": [told]}, answers, named)
    assert faults == ({"host-a": [UNCLEAR]} if refused else {})


def test_the_sum_of_a_fleet():
    done = make_progress(phase="ended", outcome="completed", approved_by="host-a")
    unaware = make_progress(
        make_event("a1"), phase="ended", outcome="withdrawn", approved_by="host-a", failed=True, why=["No."]
    )
    withdrawn = make_progress(make_event("A2"), phase="ended", outcome="withdrawn")
    found = summarize({"host-b": [unaware], "host-a": [done, withdrawn]})
    assert (found["approved"], found["completed"], found["withdrawn"], found["failed"]) == (1, 1, 1, 1)
    first, second = found["events"]
    assert (first["hosts"], first["failed_hosts"]) == (["host-b", "host-a"], ["host-b"])
    assert (first["outcome"], first["why"]) == ("completed", ["No."])
    assert second["event_id"] == "A2"


def test_h8_in_check_mode_nothing_counts_as_approved():
    approved = make_progress(approved_by="host-a", notice_used_seconds=3)
    started = make_progress(make_event("A2"), phase="started", notice_used_seconds=5)
    progress = as_check_mode({"host-a": [approved, started], "host-b": None})
    assert [each["notice_used_seconds"] for each in progress["host-a"]] == [None, 5]
    found = summarize(progress)
    assert (found["approved"], found["would_be_approved"], found["not_asked"]) == (0, 1, ["host-b"])
    assert [(each["approved_by"], each["would_be_approved_by"]) for each in found["events"]] == [
        (None, "host-a"),
        (None, None),
    ]
    # In a real run it is the other way round.
    real = summarize({"host-a": [approved, started]})
    assert (real["approved"], real["would_be_approved"]) == (1, 0)
