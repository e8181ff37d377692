# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""P1 to P9 of the design hold in random histories, and everything prepared is restored once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Callable

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.campaign import disk
from ansible_collections.fleetops.azure_maintenance.tests.campaign.azure import VM
from ansible_collections.fleetops.azure_maintenance.tests.campaign.ending import Ending
from ansible_collections.fleetops.azure_maintenance.tests.campaign.history import run_history, temporary_folder
from ansible_collections.fleetops.azure_maintenance.tests.campaign.mutants import mutated
from ansible_collections.fleetops.azure_maintenance.tests.campaign.patches import patched
from ansible_collections.fleetops.azure_maintenance.tests.campaign.properties import Judge
from ansible_collections.fleetops.azure_maintenance.tests.campaign.run import describe, run_many, shorten
from ansible_collections.fleetops.azure_maintenance.tests.campaign.shared_state import SharedState
from ansible_collections.fleetops.azure_maintenance.tests.campaign.vm import Machine

# As many as about 20 s of CPU hold
_PART = 70


@pytest.mark.parametrize("first", range(0, 6 * _PART, _PART))
def test_no_history_breaks_a_property(first: int) -> None:
    with patched():
        found, _number = run_many(first, _PART)
        message = describe(found[0], shorten(found[0])) if found else ""
    assert not found, message


# No history is here in which the file is damaged under a program that has it open: SQLite has a cache, and notices that
# at another moment.
@pytest.mark.parametrize(
    ("seed", "becomes_file"), [(0, False), (8, False), (39, False), (7, True), (33, True), (34, True)]
)
def test_a_history_is_the_same_with_a_file_of_its_own_and_after_others(seed: int, becomes_file: bool) -> None:
    with patched(), temporary_folder() as folder, closing(SharedState(folder)) as shared_state:
        alone, first, second = (run_history(seed, tell=True, shared_state=each) for each in (None, *[shared_state] * 2))
    assert len(alone[1]) > 20
    assert alone == first == second
    assert shared_state.files == 2 * becomes_file


def test_a_mend_that_is_taken_back_is_found_and_the_history_shortened() -> None:
    with patched(), mutated("3-restored-while-pending"):
        found, number = run_many(0, 100)
        assert found, f"not found in {number} histories"
        keep = shorten(found[0])
        message = describe(found[0], keep)
    assert found[0].name == "P3"
    assert len(keep) <= 6
    assert f"--seed {found[0].seed} --keep {','.join(map(str, keep))}" in message


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Judge]:
    """Let a VM live for so many seconds, with what happens to it at which moment; no property may be broken."""

    def play(
        seconds: float,
        happens: dict[float, Callable[[Machine], object]],
        poll_interval: float = 1.0,
        knows_name: bool = True,
    ) -> Judge:
        machine = disk.world = Machine(1, str(tmp_path), poll_interval, knows_name)
        # Neither do steps fail, nor units.
        machine.sound = True
        machine.scheduler.at(0.0, machine.start)
        for moment, action in happens.items():
            machine.scheduler.at(moment, lambda action=action: action(machine))  # type: ignore[misc]
        machine.scheduler.at(seconds, machine.scheduler.stop)
        with patched():
            try:
                machine.scheduler.direct()
            finally:
                machine.over = True
                machine.scheduler.kill_all(list(machine.actors))
        assert machine.judge.broken is None
        return machine.judge

    return play


def _announce(machine: Machine, kind: str = "Reboot") -> None:
    machine.azure.announce("A", kind, [VM], machine.now, 900.0)


def _freeze(machine: Machine) -> None:
    _announce(machine, "Freeze")


def _clear(machine: Machine) -> None:
    machine.azure.open[0].spoilt = None


def _reboot(machine: Machine) -> None:
    machine.reboot(5.0)


def _start(machine: Machine) -> None:
    machine.azure.start(machine.azure.open[0])


def _end(machine: Machine) -> None:
    machine.azure.end(machine.azure.open[0])


def _hold(machine: Machine) -> None:
    machine.azure.break_until("delays", "hold", machine.now + 400.0)


def _lock(machine: Machine) -> None:
    machine.locked_until = machine.now + 400.0


def _unlock(machine: Machine) -> None:
    machine.locked_until = machine.now


def _fill(machine: Machine) -> None:
    machine.disk = "full"


def _empty(machine: Machine) -> None:
    machine.disk = None


# What stands in the way of asking, beside a request that is never answered
_IN_THE_WAY = {
    "locked": {20.0: _lock, 21.0: _hold},
    "locked since before the boot": {20.0: _lock, 21.0: _reboot, 40.0: _hold},
    "locked with an event": {20.0: _lock, 22.0: _announce, 31.0: _hold},
    "in memory because the disk was full, and then locked": {
        5.0: _fill, 6.0: _announce, 15.0: _empty, 15.1: _lock, 15.2: _hold,
    },
}  # fmt: skip


@pytest.mark.parametrize("happens", list(_IN_THE_WAY.values()), ids=list(_IN_THE_WAY))
def test_p8_while_another_program_holds_the_lock_of_the_state(
    play: Callable[..., Judge], happens: dict[float, Callable[[Machine], object]]
) -> None:
    judge = play(300.0, happens)
    assert 10.0 <= judge.polling.longest_silence <= 15.0


def test_p4_a_date_of_long_ago_that_was_written_down_before_another_program_locked_the_state(
    play: Callable[..., Judge],
) -> None:
    def spoil(machine: Machine) -> None:
        machine.azure.open[0].spoilt = "odd date"

    # The next poll after the odd date finds the state locked, and so does the one that sees the right date again.
    happens = {5.0: _freeze, 26.0: spoil, 35.0: _lock, 55.0: _clear, 65.0: _end, 85.0: _unlock}
    judge = play(120.0, happens, poll_interval=10.0)
    assert judge.views["a"].restored("1")


def test_p6_an_id_that_ends_and_is_listed_again_is_not_prepared_twice_at_a_time(play: Callable[..., Judge]) -> None:
    def slow_down(machine: Machine) -> None:
        machine.seconds_of_steps = 30.0

    judge = play(200.0, {1.0: slow_down, 5.0: _announce, 10.0: _end, 12.0: _announce})
    assert judge.views["a"].approved


def test_p4_what_is_seen_after_a_response_has_moved_the_state_is_kept(play: Callable[..., Judge]) -> None:
    def slow_down(machine: Machine) -> None:
        machine.seconds_of_steps = 3.0

    # The disk is full only while the step of the response ends, and the check has nothing to write then.
    happens = {1.0: slow_down, 5.0: _freeze, 12.0: _fill, 18.0: _empty, 19.0: _start, 25.0: _end}
    judge = play(100.0, happens, poll_interval=10.0)
    started = judge.views["a"].last("started", "1")
    assert started is not None
    assert started.done
    assert judge.views["a"].restored("1")


def test_p7_an_event_that_lists_no_vm_while_a_word_stands_in_the_place_of_the_name(
    play: Callable[..., Judge],
) -> None:
    def confuse(machine: Machine) -> None:
        machine.azure.break_until("names", "word", 60.0)
        machine.azure.open[0].spoilt = "no vm"

    happens = {5.0: _freeze, 20.0: _reboot, 21.0: confuse, 60.0: _clear, 80.0: _end}
    judge = play(120.0, happens, knows_name=False)
    assert judge.views["a"].restored("1")


def test_p7_an_event_whose_record_does_not_tell_any_more_that_it_has_started(play: Callable[..., Judge]) -> None:
    def damage(machine: Machine) -> None:
        with closing(sqlite3.connect(f"{machine.state_folder}/state.db", isolation_level=None)) as connection:
            changed = connection.execute("UPDATE event SET content = replace(content, 'Started', 'Qtarted')")
            assert changed.rowcount == 1
        machine.reboot(5.0)

    judge = play(100.0, {5.0: _freeze, 10.0: _start, 20.0: damage, 40.0: _end})
    assert len(judge.views["a"].sure("started", "1")) == 1
    assert judge.views["a"].restored("1")


def test_p4_a_word_that_stands_in_the_place_of_the_name_after_two_boots(play: Callable[..., Judge]) -> None:
    def confuse(machine: Machine) -> None:
        machine.azure.break_until("names", "word", 40.0)

    happens = {0.0: confuse, 20.0: _reboot, 50.0: _announce}
    judge = play(100.0, happens, knows_name=False)
    assert judge.views["a"].approved


@pytest.mark.parametrize("answer", ["word", "no id", "sentence"])
@pytest.mark.parametrize("ends_at", [24.0, 45.0, 80.0])
def test_p4_nothing_ends_before_there_is_a_name(play: Callable[..., Judge], answer: str, ends_at: float) -> None:
    def confuse(machine: Machine) -> None:
        machine.azure.break_until("names", answer, 60.0)

    happens = {5.0: _freeze, 20.0: _reboot, 21.0: confuse, ends_at: _end}
    judge = play(120.0, happens, knows_name=False)
    assert judge.views["a"].restored("1")


def test_liveness_of_an_event_whose_record_is_damaged_while_its_step_runs(play: Callable[..., Judge]) -> None:
    def damage(machine: Machine) -> None:
        with closing(sqlite3.connect(f"{machine.state_folder}/state.db", isolation_level=None)) as connection:
            connection.execute("UPDATE event SET content = replace(content, 'timeout', 'timeouu')")
        machine.judge.damaged("event", "a")
        machine.seconds_of_steps = 400.0
        _end(machine)

    def speed_up(machine: Machine) -> None:
        machine.seconds_of_steps = 0.6

    def finish(machine: Machine) -> None:
        Ending(machine, machine.azure, hasty=True, last="plain").begin()

    judge = play(600.0, {5.0: _announce, 20.0: damage, 40.0: speed_up, 45.0: finish})
    # The step that runs knows its time limit, and what comes after it waits for its end alone (P3).
    assert judge.views["probe"].approved
    assert judge.views["probe"].restored("2")
