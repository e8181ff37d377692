# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""What must never happen does not happen in random runs over a fleet; a mend that is taken back is found."""

from __future__ import annotations

import random
from typing import Callable

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


def first_broken(seeds: range, run: Callable[[int], Judge | Together] = run_history) -> Judge | Together | None:
    return next((judge for judge in map(run, seeds) if judge.broken), None)


@pytest.mark.parametrize("first", range(0, 6 * _PART, _PART))
def test_no_history_of_a_fleet_breaks_a_property(first: int) -> None:
    judge = first_broken(range(first, first + _PART))
    assert judge is None, "\n".join(judge.story)


def test_the_histories_have_what_they_are_about() -> None:
    judges = [run_history(seed) for seed in range(_PART)]
    assert sum(judge.approvals for judge in judges) > _PART / 4
    assert sum(judge.restores for judge in judges) > _PART / 2


@pytest.mark.parametrize("first", range(0, 2 * _PART, _PART))
def test_no_history_with_azure_as_one_more_voice_breaks_a_property(first: int) -> None:
    judge = first_broken(range(first, first + _PART), run_outside_history)
    assert judge is None, "\n".join(judge.story)


def test_azure_is_told_and_contradicts_in_these_histories() -> None:
    judges = [run_outside_history(seed) for seed in range(_PART // 2)]
    assert sum(judge.acknowledged for judge in judges) > _PART / 40
    story = "\n".join(line for judge in judges for line in judge.story)
    for said in ("it waits for one-more", "is Canceled, so nothing was sent", "is not in Azure Resource Graph"):
        assert said in story
    for said in ("is Completed, so nothing was sent", "There was no end of it", "Azure answered 500"):
        assert said in story


def test_no_history_of_a_run_that_is_limited_to_some_events_breaks_a_property() -> None:
    judges = [run_limited_history(seed) for seed in range(_PART)]
    assert next((judge.story for judge in judges if judge.broken), None) is None
    assert sum(judge.approvals for judge in judges) > _PART / 8


def test_no_history_with_the_playbook_restore_breaks_a_property() -> None:
    judges = [run_restore_history(seed) for seed in range(_PART)]
    assert next((judge.story for judge in judges if judge.broken), None) is None
    assert sum(judge.restores for judge in judges) > _PART / 8


def test_no_history_of_a_run_in_batches_breaks_a_property() -> None:
    judges = [run_history_in_batches(seed) for seed in range(_PART)]
    assert next((judge.story for judge in judges if judge.broken), None) is None
    assert sum(judge.approvals for judge in judges) > _PART / 8
    told = [" ".join(" ".join(judge.said).split()) for judge in judges]
    assert sum("is in another batch of the play" in text for text in told) > _PART / 20


@pytest.mark.parametrize("first", range(0, 3 * _PART, _PART))
def test_no_history_of_hosts_that_differ_and_have_checkers_breaks_a_property(first: int) -> None:
    judges = [run_mixed_history(seed) for seed in range(first, first + _PART)]
    assert next((judge.story for judge in judges if judge.broken), None) is None
    assert sum(judge.approvals for judge in judges) > _PART / 8
    stories = ["\n".join(judge.story) for judge in judges]
    assert sum("begins to restore" in story for story in stories) > _PART / 8


@pytest.mark.parametrize("first", range(0, 3 * _PART, _PART))
def test_no_history_of_two_runs_beside_each_other_breaks_a_property(first: int) -> None:
    both = first_broken(range(first, first + _PART), run_pair_history)
    assert both is None, "\n".join(both.story)


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


def test_no_history_of_two_runs_over_hosts_that_differ_breaks_a_property() -> None:
    both = first_broken(range(2 * _PART), run_mixed_pair_history)
    assert both is None, "\n".join(both.story)


def test_no_history_in_check_mode_changes_a_vm_or_breaks_a_property() -> None:
    judges = [run_check_history(seed) for seed in range(_PART)]
    assert next((judge.story for judge in judges if judge.broken), None) is None
    assert sum(judge.approvals for judge in judges) > _PART / 8


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


# The mend that is taken back: where, by what, and which property says so
MUTANTS = {
    "A1": (fleet_run, "ASK_LIMIT", 4 * 3600.0, "P15"),
    "D1": (engine, "take_up_marks", _take_up_nothing, "P13"),
    "D2": (engine, "compare_marks", lambda name, host: host, "P2"),
    "D2, while others still prepare": (engine, "note_without_mark", _keep_as_prepared, "P2"),
    "B5": (approval, "_is_called", lambda host, name: False, "P2"),
    "D4": (hosts, "started", lambda host: [], "P3"),
    "D5": (engine, "track_events", _follow_only_the_first, "P16"),
    "a boot after the preparation": (approval, "_obstacle", lambda host, known, each: None, "P2"),
    "an answer that is old": (engine, "_FRESH", 1e9, "P2"),
}


def assert_found(broken: str, seeds: range, run: Callable[[int], Judge | Together] = run_history) -> None:
    judge = first_broken(seeds, run)
    assert judge is not None
    assert judge.broken is not None
    assert judge.broken[0] == broken, "\n".join(judge.story)


@pytest.mark.parametrize(("module", "name", "instead", "broken"), MUTANTS.values(), ids=MUTANTS)
def test_a_mend_that_is_taken_back_is_found(monkeypatch, module, name, instead, broken):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, name, instead)
    assert_found(broken, range(2000))


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


# The same for Azure as one more voice; each is found in the first histories.
MUTANTS_OF_OUTSIDE = {
    "Azure is not asked anew before the next try": (acknowledge, "ask_events", _ask_once, "P1"),
    "a row with one more VM is approved": (acknowledge, "plan_approval", _vouch_for_all, "P2"),
    "a VM is approved that is not prepared": (approval, "_obstacle", lambda host, known, each: None, "P2"),
    "a row ends an event that its VM lists": (approval, "_judge_approval", _believe_rows, "P6"),
    "what a VM has approved is approved from outside": (fleet_run, "could_not_be_asked", _approve_again, "P1"),
    "whatever Azure says counts as approved": (fleet_run, "take_acknowledgement", _take_for_approved, "P13"),
}


@pytest.mark.parametrize(("module", "name", "instead", "broken"), MUTANTS_OF_OUTSIDE.values(), ids=MUTANTS_OF_OUTSIDE)
def test_a_mend_of_the_outside_that_is_taken_back_is_found(monkeypatch, module, name, instead, broken):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, name, instead)
    assert_found(broken, range(300), run_outside_history)


# The same for two runs
MUTANTS_OF_TWO = {
    "D2": (engine, "compare_marks", lambda name, host: host, "P2"),
    "who is at work is not waited for": (engine, "others_end_at", lambda host, state=None: 0.0, "P3"),
    "nobody looks at other marks after its own": (fleet_run, "find_hindering", lambda *each: [], "P3"),
    "the mark of another run holds nobody back": (hosts, "find_holding", lambda host: [], "P3"),
}


@pytest.mark.parametrize(("module", "name", "instead", "broken"), MUTANTS_OF_TWO.values(), ids=MUTANTS_OF_TWO)
def test_a_mend_of_two_runs_that_is_taken_back_is_found(monkeypatch, module, name, instead, broken):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, name, instead)
    assert_found(broken, range(2000), run_pair_history)


def _remove_of_checker(host, mark, only_own, waited_out):  # type: ignore[no-untyped-def]
    return [each for each in host["marks"] if each["event_id"] == mark["event_id"]]


# The same for hosts that differ, and their checkers
MUTANTS_OF_MIXED = {
    "whatever a checker says counts as prepared": (fleet_run, "read_checker", lambda *each: CheckerVerdict(), "P2"),
    "the mark of a checker is forgotten": (engine, "find_removable", _remove_of_checker, "limit"),
    "the mark of a checker holds nobody back": (hosts, "find_holding", lambda host: [], "P3"),
    "nobody says who was left": (verdict, "_why_left", lambda *each: None, "P13"),
}


@pytest.mark.parametrize(("module", "name", "instead", "broken"), MUTANTS_OF_MIXED.values(), ids=MUTANTS_OF_MIXED)
def test_a_mend_for_hosts_that_differ_that_is_taken_back_is_found(monkeypatch, module, name, instead, broken):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, name, instead)
    # From here on each is found soon.
    assert_found(broken, range(4000, 7000), run_mixed_history)
