# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a fleet makes of an event: what was learnt of it, who approves it, and why nobody may."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import approval
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import progress as response
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.approval import (
    apply_approval_results,
    hold_back_refused,
    plan_approval,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils._run.fleet import make_event

NOW = 1795255200.0  # 2026-11-21T10:00:00Z


def make_progress(event=None, **changes):
    seen = {"event": event or make_event(), "seen_at": NOW, "listed_at": NOW, "boot_id": "boot-1"}
    return {**response.NEW_PROGRESS, **seen, "prepared": True, "prepared_since": NOW, **changes}


def answer(*events, received=True, clear=True, boot_id="boot-1", name="web-1"):
    return {
        "events": list(events),
        "document_received": received,
        "document_is_clear": received and clear,
        "document_incarnation": None,
        "boot_id": boot_id,
        "resource_name": name,
    }


def track_events(said, now):
    events = [event for event in said["events"] if event["affects_this_vm"]]
    return [response.track_event(event, said["boot_id"], now) for event in events]


def prepared(each):
    """The progress of an event that the host was prepared for as soon as it was seen."""
    (begun,) = response.start_preparation([each], each["event"]["event_id"], each["boot_id"], each["seen_at"])
    return {**begun, "prepared": True}


def plan_all(hosts, approve, outside_vms, max_wait, now):
    keys = [response.progress_key(each) for known in hosts.values() for each in known["progress"]]
    return [plan_approval(key, hosts, approve, outside_vms, max_wait, now) for key in dict.fromkeys(keys)]


def host(name, *progress, lost=None):
    return {"resource_name": name, "progress": list(progress), "lost": lost, "marked_for": set()}


def test_a_host_follows_what_surely_affects_it():
    others = [make_event("A2", affects_this_vm=False), make_event("A3", affects_this_vm=None)]
    progress = track_events(answer(make_event("A1"), *others, make_event("A4", status="Started")), NOW)
    assert [(each["event"]["event_id"], each["phase"]) for each in progress] == [("A1", "announced"), ("A4", "started")]


@pytest.mark.parametrize("newest_first", [False, True])
def test_p2_a_vm_that_came_into_an_event_is_in_the_newest_answer(newest_first):
    """From outside, rows that are late would approve it for the VMs that it had before."""
    grown = make_progress(make_event(resources=("web-1", "web-2", "web-3")), listed_at=NOW + 90)
    hosts = [("host-a", host("web-1", make_progress())), ("host-b", host("web-2", grown)), ("host-c", host("web-3"))]
    known = dict(reversed(hosts) if newest_first else hosts)
    (plan,) = plan_all(known, True, "refuse", 900, NOW + 91)
    assert (plan["approver"], plan["why"]) == (None, "Not approved: host-c has not seen it.")


STARTED = {"phase": "started"}
OVER = {"phase": "ended", "outcome": "withdrawn"}
WINDOWS_BOOTED = {**answer(boot_id=None), "booted_at": NOW + 4}
LEFT_IT = answer(make_event(resources=["web-2"], affects_this_vm=False))
NAMES_NO_VM = answer(make_event(resources=[], affects_this_vm=None))
UNREADABLE = answer(clear=False)
NEVER_DUE = {"event": make_event(not_before=None)}


@pytest.mark.parametrize(
    ("each", "said", "after", "phase", "outcome"),
    [
        pytest.param({}, answer(make_event("a1")), 10, "announced", None, id="listed in other letter case"),
        pytest.param({}, answer(make_event(status="Started")), 10, "started", None, id="started"),
        pytest.param({"approved_by": "host-a"}, answer(), 10, "ended", "completed", id="gone after its approval"),
        pytest.param({"may_be_approved": True}, answer(), 10, "ended", "completed", id="the approval was not answered"),
        pytest.param({"connection_lost": True}, answer(), 10, "ended", "withdrawn", id="lost connection: no proof"),
        pytest.param({"booted": True}, answer(boot_id=None), 10, "ended", "completed", id="a boot is not forgotten"),
        pytest.param({}, WINDOWS_BOOTED, 10, "ended", "completed", id="gone after a boot of a Windows host"),
        pytest.param(
            {"listed_at": NOW + 5}, WINDOWS_BOOTED, 10, "ended", "withdrawn", id="E1 Windows listed it after the boot"
        ),
        pytest.param({}, answer(boot_id=None), 10, "ended", "withdrawn", id="no boot id now"),
        pytest.param({"boot_id": None}, answer(boot_id="boot-2"), 10, "ended", "withdrawn", id="no boot id then"),
        pytest.param(STARTED, answer(received=False), 10, "started", None, id="S7: nor what has started"),
        pytest.param(STARTED, {"msg": "HTTP 500"}, 10, "started", None, id="a failure ends nothing"),
        pytest.param({}, {"unreachable": True}, 10, "announced", None, id="a host that is away ends nothing"),
        pytest.param(STARTED, UNREADABLE, 10, "started", None, id="an entry that cannot be read ends nothing"),
        pytest.param(
            {**STARTED, "unclear_since": NOW}, UNREADABLE, 300, "ended", "completed", id="unclear for five minutes"
        ),
        pytest.param(
            {**STARTED, "unclear_since": NOW + 1}, UNREADABLE, 300, "started", None, id="unclear for a little less"
        ),
        pytest.param({}, LEFT_IT, 10, "ended", "withdrawn", id="left it"),
        pytest.param({}, NAMES_NO_VM, 10, "announced", None, id="names no VM now"),
        pytest.param({}, answer(make_event(), name=None), 10, "announced", None, id="the VM has lost its name"),
        pytest.param(OVER, answer(make_event()), 10, "ended", "withdrawn", id="over is over"),
        pytest.param(NEVER_DUE, answer(), 9000, "ended", "withdrawn", id="when it is due is unknown"),
    ],
)
def test_what_a_later_answer_tells(each, said, after, phase, outcome):
    (followed,) = response.follow_progress([make_progress(**each)], said, NOW + after)
    assert (followed["phase"], followed["outcome"]) == (phase, outcome)
    assert followed["connection_lost"] == (each.get("connection_lost", False) or "unreachable" in said)


def test_an_answer_between_unclear_ones_begins_the_five_minutes_anew():
    progress = [make_progress(phase="started")]
    between = {60: UNREADABLE, 120: {"msg": "HTTP 500"}, 180: UNREADABLE, 400: UNREADABLE, 479: UNREADABLE}
    for after, said in between.items():
        progress = response.follow_progress(progress, said, NOW + after)
        assert progress[0]["phase"] == "started"
    (each,) = response.follow_progress(progress, UNREADABLE, NOW + 480)
    assert each["outcome"] == "completed"


def test_what_is_known_of_an_event_is_not_taken_back():
    progress = response.follow_progress([make_progress()], answer(make_event(status="Started")), NOW + 10)
    later = make_event(resources=[], affects_this_vm=None)
    (each,) = response.follow_progress(progress, answer(later), NOW + 20)
    assert (each["event"]["event_status"], each["event"]["resources"]) == ("Started", ["web-1", "web-2"])
    assert each["event"]["affects_this_vm"] is True


def test_the_seconds_are_counted_once():
    progress = [make_progress()]
    progress = response.follow_progress(progress, answer(make_event(status="Started")), NOW + 60)
    progress = response.follow_progress(progress, answer(), NOW + 90)
    (each,) = response.follow_progress(progress, answer(), NOW + 200)
    assert (each["notice_used_seconds"], each["ended_after_seconds"]) == (60, 90)


def test_what_is_given_is_not_changed():
    each = make_progress()
    before = {**each, "why": list(each["why"])}
    response.follow_progress([each], answer(), NOW)
    response.update_event([each], "A1", why="It failed.", prepared=False)
    response.note_interrupted_preparation([each], "A1", "host-a")
    response.start_preparation([each], "A1", "boot-2", NOW)
    response.note_deleted([each], NOW)
    assert each == before


def test_reasons_are_kept_beside_each_other():
    progress = [make_progress(), make_progress(make_event("A2"))]
    progress = response.update_event(progress, "a1", why="One.", failed=True)
    progress = response.update_event(progress, "A1", why="Two.", restored=False)
    assert [(each["why"], each["failed"]) for each in progress] == [(["One.", "Two."], True), ([], False)]


def test_a_word_that_no_course_has_is_an_error():
    with pytest.raises(ValueError, match="no repaired"):
        response.update_event([make_progress()], "A1", repaired=True)


READY = {"host-a": host("web-1", make_progress()), "host-b": host("web-2", make_progress())}
IN_CAPITALS = {"host-a": host("WEB-1", make_progress()), "host-b": host("Web-2", make_progress())}
LOST_HOST = "failed or became unreachable"
NO_WEB_2 = "no host of this play is the VM web-2"


@pytest.mark.parametrize(
    ("hosts", "ready"),
    [
        pytest.param(READY, ["web-1", "web-2"], id="all are ready"),
        pytest.param(dict(reversed(READY.items())), ["web-1", "web-2"], id="the leader approves"),
        pytest.param(IN_CAPITALS, ["WEB-1", "Web-2"], id="letter case does not matter"),
    ],
)
def test_who_approves_an_event(hosts, ready):
    (plan,) = plan_all(hosts, True, "refuse", 0.0, NOW)
    assert (plan["approver"], plan["resources_ready"], plan["why"]) == ("host-a", ready, None)


def web_2(lost=None, **changes):
    return {"host-b": host("web-2", make_progress(**changes), lost=lost)}


BOOTED = "host-b is not prepared: it booted after its preparation"
RESTORED = "host-b is not prepared: it was restored after its preparation"
TWINS = "host-a and host-c both say that they are web-1"


@pytest.mark.parametrize(
    ("others", "obstacle"),
    [
        pytest.param(web_2(prepared=False), "host-b is not prepared", id="S1"),
        pytest.param(web_2(prepared=None), "host-b is not prepared", id="not yet"),
        pytest.param(web_2(LOST_HOST), f"host-b {LOST_HOST}", id="prepared, and then lost"),
        pytest.param(web_2(connection_lost=True), "host-b became unreachable", id="prepared, and then unreachable"),
        pytest.param(web_2(rebooted=True), BOOTED, id="booted after its preparation"),
        pytest.param(web_2(restored=True), RESTORED, id="prepared by an earlier response, and restored"),
        pytest.param(web_2(restored=False), RESTORED, id="prepared, and a restore has begun"),
        pytest.param(
            web_2(no_answer="HTTP 500"),
            "host-b could not be asked again: HTTP 500",
            id="prepared, and which boot it is in now is not known",
        ),
        pytest.param({}, NO_WEB_2, id="S4: outside"),
        pytest.param(
            {"host-b": host(None, lost=LOST_HOST)}, f"{NO_WEB_2}; host-b {LOST_HOST}", id="could not be asked"
        ),
        pytest.param({**web_2(), "host-c": host("web-1")}, TWINS, id="twins"),
        pytest.param({"host-b": host("web-2")}, "host-b has not seen it", id="not seen"),
        pytest.param(web_2(phase="ended"), "host-b does not see it any more", id="gone for one of them"),
    ],
)
def test_nobody_approves_an_event_while_a_vm_of_it_is_not_ready(others, obstacle):
    (plan,) = plan_all({"host-a": READY["host-a"], **others}, True, "refuse", 0.0, NOW)
    assert (plan["approver"], plan["resources_ready"], plan["why"]) == (None, [], f"Not approved: {obstacle}.")


def test_s3_nobody_approves_an_event_that_has_started_for_one_of_them():
    started = web_2(event=make_event(status="Started"), phase="started")
    (plan,) = plan_all({**READY, **started}, True, "refuse", 0.0, NOW)
    assert (plan["approver"], plan["resources_ready"]) == (None, [])
    assert plan["why"] == "It started before this run had approved it."


@pytest.mark.parametrize(
    ("before", "after", "obstacle"),
    [
        pytest.param("boot-1", "boot-1", None, id="the same boot"),
        pytest.param("boot-1", "boot-2", "host-a is not prepared: it booted after its preparation", id="another boot"),
        pytest.param(None, "boot-2", None, id="no boot id before"),
        pytest.param("boot-1", None, None, id="no boot id after"),
    ],
)
def test_only_what_is_prepared_in_this_boot_is_approved(before, after, obstacle):
    event = make_event(resources=["web-1"])
    (each,) = track_events(answer(event, boot_id=before), NOW)
    progress = response.follow_progress([prepared(each)], answer(event, boot_id=after), NOW + 60)
    (plan,) = plan_all({"host-a": host("web-1", *progress)}, True, "refuse", 0.0, NOW)
    assert plan["approver"] == (None if obstacle else "host-a")
    assert plan["why"] == (obstacle and f"Not approved: {obstacle}.")


@pytest.mark.parametrize(
    ("said", "obstacle"),
    [
        pytest.param({"booted_at": NOW - 1.0}, None, id="before the preparation"),
        pytest.param({"booted_at": NOW + 1.0}, "is not prepared: it booted after its preparation", id="after it"),
        pytest.param({"boot_fault": "No"}, "could not be asked again: No", id="it does not tell"),
        pytest.param(None, "became unreachable", id="it is lost"),
        pytest.param({"booted_at": None}, None, id="another system that has no boot id"),
        pytest.param({}, None, id="a run without this question"),
    ],
)
def test_p2_what_is_prepared_on_a_host_without_a_boot_id_is_approved_only_if_it_has_not_booted_since(said, obstacle):
    event = make_event(resources=["web-1"])
    (each,) = track_events(answer(event, boot_id=None), NOW)
    said = {"unreachable": True, "msg": "Gone."} if said is None else {**answer(event, boot_id=None), **said}
    progress = response.follow_progress([prepared(each)], said, NOW + 60)
    (plan,) = plan_all({"host-a": host("web-1", *progress)}, True, "refuse", 0.0, NOW)
    assert plan["why"] == (obstacle and f"Not approved: host-a {obstacle}.")


def test_vms_outside_may_be_ignored():
    (plan,) = plan_all({"host-a": READY["host-a"]}, True, "ignore", 0.0, NOW)
    assert (plan["approver"], plan["resources_ready"]) == ("host-a", ["web-1", "web-2"])


def test_a_word_that_nobody_knows_ignores_no_vm():
    """Ansible refuses such a word, and a play can ignore that."""
    (plan,) = plan_all({"host-a": READY["host-a"]}, True, "allow", 0.0, NOW)
    assert (plan["approver"], plan["blocked"]) == (None, True)


@pytest.mark.parametrize(
    ("other", "obstacle"),
    [
        pytest.param(
            host(None, lost=approval.OTHER_BATCH),
            f"{NO_WEB_2}; hosts in later batches of the play were not asked",
            id="a later batch, which may have the VM",
        ),
        pytest.param(
            host("web-2", make_progress(), lost=approval.OTHER_BATCH),
            "host-b is in another batch of the play (serial)",
            id="an earlier batch, which has it",
        ),
        pytest.param(host("web-3", lost=approval.OTHER_BATCH), None, id="an earlier batch, which has it not"),
        pytest.param(
            host(None, lost="could not be asked"),
            f"{NO_WEB_2}; host-b could not be asked",
            id="a host that did not answer, which may be the VM",
        ),
        pytest.param(host("web-3", lost=LOST_HOST), None, id="a lost host, which is another VM"),
    ],
)
def test_p2_a_vm_that_may_be_a_host_that_did_not_say_so_is_not_ignored(other, obstacle):
    hosts = {"host-a": READY["host-a"], "host-b": other}
    (plan,) = plan_all(hosts, True, "ignore", 0.0, NOW)
    assert plan["approver"] == (None if obstacle else "host-a")
    assert plan["why"] == (obstacle and f"Not approved: {obstacle}.")


def test_nobody_of_the_event_is_there_although_outside_vms_are_ignored():
    hosts = {"host-a": host("web-9", make_progress())}
    (plan,) = plan_all(hosts, True, "ignore", 0.0, NOW)
    assert (plan["approver"], plan["why"]) == (None, "Not approved: it names no VM of this play.")


def test_nothing_is_approved_where_that_is_wanted():
    (plan,) = plan_all(READY, False, "refuse", 3600.0, NOW)
    assert (plan["approver"], plan["blocked"], plan["wait"]) == (None, False, True)


@pytest.mark.parametrize(
    ("not_before", "max_wait", "wait"),
    [("2026-11-21T10:15:00Z", 900, True), ("2026-11-21T10:15:00Z", 899, False), (None, 9000, False)],
)
def test_an_event_held_back_is_waited_for_if_its_time_is_near(not_before, max_wait, wait):
    event = make_event(not_before=not_before)
    failed = host("web-2", make_progress(event, prepared=False))
    hosts = {"host-a": host("web-1", make_progress(event)), "host-b": failed}
    (plan,) = plan_all(hosts, True, "refuse", max_wait, NOW)
    assert (plan["blocked"], plan["wait"]) == (True, wait)


def test_h3_an_event_that_is_held_back_is_not_waited_for_where_nobody_is_prepared():
    hosts = {"host-a": host("web-1", make_progress(prepared=False)), **web_2(prepared=False)}
    (plan,) = plan_all(hosts, True, "refuse", 3600.0, NOW)
    assert (plan["blocked"], plan["wait"]) == (True, False)


def plan_for(approver, **more):
    usual = {"resources_ready": ["web-1"], "why": None, "blocked": False, "wait": True}
    return {"event": make_event(), "approver": approver, **usual, **more}


def result_of(word, in_doubt=False, clear=True, **more):
    return {"approvals": [{"result": word}], "in_doubt": in_doubt, "document_is_clear": clear, **more}


WAITS = "It waits for web-2."
REFUSED = result_of("refused", failed=True, msg=WAITS)
REFUSED_AT_LAST = {**REFUSED, "in_doubt": True}
NOT_CLEAR = result_of("not_found", clear=False)
NOT_TOLD = "Not approved: host-a: no document told whether the event is still there"
FORBIDDEN = {"failed": True, "msg": "HTTP 403", "in_doubt": False}
LOST = {"failed": True, "msg": "HTTP 500", "in_doubt": True}
CRASHED = {"failed": True, "msg": "MODULE FAILURE", "changed": False}
WENT_DOWN = {"unreachable": True, "msg": "down"}
NOT_KNOWN = "Whether host-a approved it is not known: "


@pytest.mark.parametrize(
    ("result", "approved_by", "outcome", "failed", "why"),
    [
        pytest.param(result_of("approved"), "host-a", "completed", False, [], id="approved"),
        pytest.param(result_of("already_started"), None, "completed", False, [], id="started"),
        pytest.param(result_of("not_found"), None, "withdrawn", False, [], id="gone"),
        pytest.param(result_of("not_found", True), None, "completed", False, [], id="not answered, and gone"),
        pytest.param(
            NOT_CLEAR, None, "withdrawn", True, [NOT_TOLD], id="P4: not listed, but nothing tells that it is gone"
        ),
        pytest.param(REFUSED, None, "withdrawn", True, [f"Not approved: host-a: {WAITS}"], id="refused"),
        pytest.param(FORBIDDEN, None, "withdrawn", True, ["Not approved: host-a: HTTP 403"], id="Azure refused"),
        pytest.param(LOST, None, "completed", True, [NOT_KNOWN + "HTTP 500"], id="not answered"),
        pytest.param(
            REFUSED_AT_LAST, None, "completed", True, [NOT_KNOWN + WAITS], id="not answered, and then refused"
        ),
        pytest.param(CRASHED, None, "completed", True, [NOT_KNOWN + "MODULE FAILURE"], id="the module did not end"),
        pytest.param({}, None, "completed", True, [NOT_KNOWN + "it gave no answer"], id="nothing"),
        pytest.param(WENT_DOWN, None, "completed", False, [NOT_KNOWN], id="the approver went down"),
    ],
)
def test_what_came_of_an_approval(result, approved_by, outcome, failed, why):
    each = settle(result)
    assert (each["approved_by"], each["failed"]) == (approved_by, failed)
    assert len(each["why"]) == len(why)
    assert all(words in said for words, said in zip(why, each["why"]))
    assert each["notice_used_seconds"] == (30 if approved_by else None)
    assert each["stays_prepared"]
    (ended,) = response.follow_progress([each], answer(), NOW + 60)
    assert ended["outcome"] == outcome


def settle(result, wait=True, max_wait=900.0):
    results = {"host-a": [{**result, "item": {"event": make_event("a1")}}]}
    plans = hold_back_refused([plan_for("host-a")], results, max_wait, NOW + 30)
    (each,) = apply_approval_results([make_progress()], plans, results, wait, NOW + 30)
    return each


@pytest.mark.parametrize(
    ("result", "max_wait", "stays"),
    [
        pytest.param(REFUSED, 870, True, id="refused, and near"),
        pytest.param(REFUSED, 869, False, id="refused, and far off"),
        pytest.param(FORBIDDEN, 869, False, id="Azure refused, and far off"),
        pytest.param(NOT_CLEAR, 869, False, id="nothing told of it, and far off"),
        pytest.param(LOST, 869, True, id="it may be approved"),
        pytest.param(WENT_DOWN, 869, True, id="it may be approved by a host that is lost"),
        pytest.param(result_of("approved"), 869, True, id="approved"),
    ],
)
def test_a_refused_approval_holds_the_event_back_as_an_obstacle_does(result, max_wait, stays):
    assert settle(result, max_wait=max_wait)["stays_prepared"] is stays


@pytest.mark.parametrize(
    ("result", "stays", "failed"),
    [
        pytest.param(result_of("approved"), True, False, id="approved"),
        pytest.param(result_of("already_started"), True, False, id="started"),
        pytest.param(result_of("not_found"), False, False, id="gone"),
        pytest.param(result_of("not_found", True), False, False, id="not answered, and gone"),
        pytest.param(REFUSED, False, True, id="refused"),
        pytest.param(FORBIDDEN, False, True, id="Azure refused"),
        pytest.param(LOST, True, True, id="not answered"),
        pytest.param(CRASHED, True, True, id="the module did not end"),
        pytest.param(WENT_DOWN, True, True, id="the approver went down"),
    ],
)
def test_p3_without_waiting_whoever_may_be_approved_stays_prepared_and_what_is_not_known_is_a_fault(
    result, stays, failed
):
    each = settle(result, wait=False)
    assert (each["stays_prepared"], each["failed"]) == (stays, failed)
    told = " ".join(each["why"])
    assert (NOT_KNOWN in told and "stays prepared" in told) is (stays and failed)


@pytest.mark.parametrize(
    ("plan", "wait", "stays"),
    [
        (plan_for(None, blocked=True, why="Held.", wait=True), True, True),
        (plan_for(None, blocked=True, why="Held.", wait=False), True, False),
        (plan_for(None, blocked=True, why="Held.", wait=True), False, False),
    ],
)
def test_who_stays_prepared(plan, wait, stays):
    (each,) = apply_approval_results([make_progress()], [plan], {}, wait, NOW)
    assert (each["stays_prepared"], each["failed"], each["why"]) == (stays, True, ["Held."])


def test_a_preparation_that_was_cut_short_has_failed():
    (each,) = response.note_interrupted_preparation([make_progress(prepared=False)], "a1", "host-a")
    assert (each["failed"], each["connection_lost"]) == (True, True)
    assert each["why"][0].startswith("The preparation of host-a was cut short")


@pytest.mark.parametrize(
    ("changes", "coming", "left"),
    [
        pytest.param({}, True, True, id="announced"),
        pytest.param({"phase": "started"}, True, True, id="started"),
        pytest.param({"phase": "ended"}, False, True, id="ended, and not restored yet"),
        pytest.param({"stays_prepared": False}, False, True, id="held back, and far off"),
        pytest.param({"phase": "ended", "restored": True}, False, False, id="restored"),
        pytest.param({"phase": "ended", "restored": False}, False, False, id="could not be restored"),
        pytest.param({"phase": "ended", "gone": True}, False, False, id="the VM was deleted"),
        pytest.param({"phase": "ended", "prepared": None}, False, False, id="never prepared"),
    ],
)
def test_what_is_coming_and_what_must_be_restored(changes, coming, left):
    each = make_progress(**changes)
    assert (response.is_coming(each), response.must_restore(each)) == (coming, left)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"prepared": None}, "announced"),
        ({"prepared": None, "settled": True}, "held_back"),
        ({"prepared": False}, "preparing"),
        ({"prepared": False, "failed": True}, "not_prepared"),
        ({}, "prepared"),
        ({"settled": True}, "held_back"),
        ({"settled": True, "approved_by": "host-a"}, "approved"),
        ({"settled": True, "may_be_approved": True}, "approved"),
        ({"settled": True, "approved_by": "host-a", "phase": "started"}, "started"),
        ({"phase": "started", "prepared": None}, "started"),
        ({"phase": "ended"}, "to_restore"),
        ({"phase": "ended", "prepared": False, "failed": True}, "to_restore"),
        ({"phase": "ended", "prepared": None}, "ended"),
        ({"settled": True, "restored": True}, "restored"),
        ({"phase": "ended", "restored": False}, "not_restored"),
        ({"phase": "ended", "with_checker": True}, "with_checker"),
        ({"phase": "ended", "gone": True}, "deleted"),
    ],
)
def test_in_which_state_an_event_of_a_host_is(changes, state):
    assert response.state_of(make_progress(**changes)) == state


def test_a_host_can_be_reached_again_when_it_answers():
    (gone,) = response.follow_progress([make_progress(phase="ended")], {"unreachable": True, "msg": "down"}, NOW)
    (back,) = response.follow_progress([gone], {"failed": True, "msg": "HTTP 500"}, NOW)
    assert (gone["unreachable"], back["unreachable"]) == (True, False)
