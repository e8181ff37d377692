# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""What must never happen does not happen in random runs over a fleet; a mend that is taken back is found."""

from __future__ import annotations

import random
from typing import Any, Callable

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval import guard
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import ENDED, WITHDRAWN
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure import acknowledge
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import approval, engine, hosts, verdict
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.checker_status import CheckerVerdict
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.progress import update_event
from ansible_collections.fleetops.azure_maintenance.tests import run_picture
from ansible_collections.fleetops.azure_maintenance.tests.campaign import fleet_run
from ansible_collections.fleetops.azure_maintenance.tests.campaign.fleet_judge import Judge, Together
from ansible_collections.fleetops.azure_maintenance.tests.campaign.fleet_mixed import run_mixed_history
from ansible_collections.fleetops.azure_maintenance.tests.campaign.fleet_pair import (
    run_mixed_pair_history,
    run_pair_history,
)
from ansible_collections.fleetops.azure_maintenance.tests.campaign.fleet_run import (
    run_check_history,
    run_history,
    run_history_in_batches,
    run_limited_history,
    run_outside_history,
    run_restore_history,
)

# As many as a few seconds of CPU hold
_PART = 500


def play(run: Callable[[int], Judge | Together], first: int = 0, count: int = _PART) -> list[Any]:
    """Return the judges of so many histories, none of which breaks a property."""
    judges = [run(seed) for seed in range(first, first + count)]
    broken = next((judge for judge in judges if judge.broken), None)
    assert broken is None, "\n".join(broken.story)
    return judges


@pytest.mark.parametrize("first", range(0, 6 * _PART, _PART))
def test_no_history_of_a_fleet_breaks_a_property(first: int) -> None:
    judges = play(run_history, first)
    assert sum(judge.approvals for judge in judges) > _PART / 4
    assert sum(judge.restores for judge in judges) > _PART / 2


@pytest.mark.parametrize("first", range(0, 2 * _PART, _PART))
def test_no_history_with_azure_as_one_more_voice_breaks_a_property(first: int) -> None:
    judges = play(run_outside_history, first)
    assert sum(judge.acknowledged for judge in judges) > _PART / 20
    story = "\n".join(line for judge in judges for line in judge.story)
    for said in ("it waits for one-more", "is Canceled, so nothing was sent", "is not in Azure Resource Graph"):
        assert said in story
    for said in ("is Completed, so nothing was sent", "There was no end of it", "Azure answered 500"):
        assert said in story


def test_no_history_of_a_run_that_is_limited_to_some_events_breaks_a_property() -> None:
    assert sum(judge.approvals for judge in play(run_limited_history)) > _PART / 8


def test_no_history_with_the_playbook_restore_breaks_a_property() -> None:
    assert sum(judge.restores for judge in play(run_restore_history)) > _PART / 8


def test_no_history_in_check_mode_changes_a_vm_or_breaks_a_property() -> None:
    assert sum(judge.approvals for judge in play(run_check_history)) > _PART / 8


def test_no_history_of_a_run_in_batches_breaks_a_property() -> None:
    judges = play(run_history_in_batches)
    assert sum(judge.approvals for judge in judges) > _PART / 8
    told = [" ".join(" ".join(judge.said).split()) for judge in judges]
    assert sum("is in another batch of the play" in text for text in told) > _PART / 20


@pytest.mark.parametrize("first", range(0, 3 * _PART, _PART))
def test_no_history_of_hosts_that_differ_and_have_checkers_breaks_a_property(first: int) -> None:
    judges = play(run_mixed_history, first)
    assert sum(judge.approvals for judge in judges) > _PART / 8
    stories = ["\n".join(judge.story) for judge in judges]
    assert sum("begins to restore" in story for story in stories) > _PART / 8


@pytest.mark.parametrize("first", range(0, 3 * _PART, _PART))
def test_no_history_of_two_runs_beside_each_other_breaks_a_property(first: int) -> None:
    play(run_pair_history, first)


def test_no_history_of_two_runs_over_hosts_that_differ_breaks_a_property() -> None:
    play(run_mixed_pair_history, count=2 * _PART)


def test_nobody_takes_marks_away_between_the_mark_of_a_run_and_its_preparation() -> None:
    chance = random.Random(0)
    world = fleet_run.random_world(chance)
    settings = fleet_run.random_settings(chance)
    run = fleet_run.FleetRun(world, Judge(world, fleet_run.LONGEST), chance, "1", float("inf"), **settings)
    host, vm = next(iter(world.vms.items()))
    for writers, left in (({"2"}, 1), (set(), 0)):
        vm.marks, vm.writers = {("E", "2"): {}}, writers
        run._let_person_restore(host, chance, 1.0)
        assert len(vm.marks) == left


def test_the_guide_has_the_picture_of_the_states_that_the_histories_go_through() -> None:
    text = run_picture.GUIDE.read_text(encoding="utf-8")
    picture = run_picture.draw_states()
    assert text == run_picture.make_guide(text, run_picture.STATES_FOLLOW, picture), "run: python tests/run_picture.py"


def _follow_only_the_first(known, wanted, now, _track=engine.track_events):  # type: ignore[no-untyped-def]
    return (known, []) if known["events"] or known["times_asked"] > 1 else _track(known, wanted, now)


def _take_up_nothing(name, host, wanted, run, now):  # type: ignore[no-untyped-def]
    return {**host, "found_marks": []}, []


def _keep_as_prepared(name, host, event_id):  # type: ignore[no-untyped-def]
    return {**host, "events": update_event(host["events"], event_id, prepared=True)}


def _ask_once(client, scope, warn, _ask=acknowledge.ask_events):  # type: ignore[no-untyped-def]
    client.found = getattr(client, "found", None) or _ask(client, scope, warn)
    return client.found


def _vouch_for_all(document, request, now):  # type: ignore[no-untyped-def]
    return guard.plan_approval(document, request._replace(force=True), now)


def _believe_rows(approver, said, wait, _judge=approval._judge_approval):  # type: ignore[no-untyped-def]
    if said.get("result") == WITHDRAWN:
        return {"phase": ENDED, "outcome": WITHDRAWN}
    return _judge(approver, said, wait)


def _approve_again(result):  # type: ignore[no-untyped-def]
    return True


def _take_for_approved(result, said):  # type: ignore[no-untyped-def]
    return {**result, "approvals": [{"result": "approved"}], "in_doubt": False, "from_outside": True}


def _remove_of_checker(host, mark, only_own, waited_out):  # type: ignore[no-untyped-def]
    return [each for each in host["marks"] if each["event_id"] == mark["event_id"]]


# In which histories a mend that is taken back is found; it is taken back where, by what, and which property says so.
MUTANTS = {
    (run_history, range(2000)): {
        "A1": (fleet_run, "ASK_LIMIT", 4 * 3600.0, "P15"),
        "D1": (engine, "take_up_marks", _take_up_nothing, "P13"),
        "D2": (engine, "compare_marks", lambda name, host: host, "P2"),
        "D2, while others still prepare": (engine, "note_without_mark", _keep_as_prepared, "P2"),
        "B5": (approval, "_is_called", lambda host, name: False, "P2"),
        "D4": (hosts, "started", lambda host: [], "P3"),
        "D5": (engine, "track_events", _follow_only_the_first, "P16"),
        "a boot after the preparation": (approval, "_obstacle", lambda host, known, each: None, "P2"),
        "an answer that is old": (engine, "_FRESH", 1e9, "P2"),
    },
    # With Azure as one more voice each is found in the first histories.
    (run_outside_history, range(300)): {
        "Azure is not asked anew before the next try": (acknowledge, "ask_events", _ask_once, "P1"),
        "a row with one more VM is approved": (acknowledge, "plan_approval", _vouch_for_all, "P2"),
        "a VM is approved that is not prepared": (approval, "_obstacle", lambda host, known, each: None, "P2"),
        "a row ends an event that its VM lists": (approval, "_judge_approval", _believe_rows, "P6"),
        "what a VM has approved is approved from outside": (fleet_run, "could_not_be_asked", _approve_again, "P1"),
        "whatever Azure says counts as approved": (fleet_run, "take_acknowledgement", _take_for_approved, "P13"),
    },
    (run_pair_history, range(2000)): {
        "D2 of two runs": (engine, "compare_marks", lambda name, host: host, "P2"),
        "who is at work is not waited for": (engine, "others_end_at", lambda host, state=None: 0.0, "P3"),
        "nobody looks at other marks after its own": (fleet_run, "find_hindering", lambda *each: [], "P3"),
        "the mark of another run holds nobody back": (hosts, "find_holding", lambda host: [], "P3"),
    },
    # From 4000 on each is found soon.
    (run_mixed_history, range(4000, 7000)): {
        "whatever a checker says counts as prepared": (fleet_run, "read_checker", lambda *each: CheckerVerdict(), "P2"),
        "the mark of a checker is forgotten": (engine, "find_removable", _remove_of_checker, "limit"),
        "the mark of a checker holds nobody back": (hosts, "find_holding", lambda host: [], "P3"),
        "nobody says who was left": (verdict, "_why_left", lambda *each: None, "P13"),
    },
}


@pytest.mark.parametrize(
    ("where", "name", "instead", "property_", "run", "seeds"),
    [pytest.param(*mutant, *how, id=mend) for how, mends in MUTANTS.items() for mend, mutant in mends.items()],
)
def test_a_mend_that_is_taken_back_is_found(monkeypatch, where, name, instead, property_, run, seeds):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(where, name, instead)
    judge = next((judge for judge in map(run, seeds) if judge.broken), None)
    assert judge is not None
    assert judge.broken[0] == property_, "\n".join(judge.story)
