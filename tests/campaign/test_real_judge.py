# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judge of the campaign on real systemd finds what a made-up history breaks, and nothing in a good one."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.campaign.real_judge import Seen, find_broken, read_lines

# Prepared from 1 on, approved at 3, started at 4, over at 5, restored from 6 on
GOOD = """
1.0 begin announced-0 A 10
1.2 end announced-0 A 10
1.3 begin announced-1 A 11
1.4 alive announced-1 A 11
1.5 end announced-1 A 11
4.1 begin started-0 A 12
4.2 end started-0 A 12
6.0 begin ended-0 A 13
6.1 end ended-0 A 13
6.2 begin ended-1 A 14
6.3 end ended-1 A 14
9.5 alive announced-1 A 11
"""
A = {"event_id": "A", "not_before": 9.0, "started_at": 4.0, "ended_at": 5.0, "steps": ["announced-0", "announced-1"]}
B = {"event_id": "B", "not_before": 9.0, "started_at": None, "ended_at": 8.0, "steps": ["announced-0", "announced-1"]}
RESTORED_B = "8.1 begin ended-0 B 23\n8.2 end ended-0 B 23\n8.3 begin ended-1 B 24\n8.4 end ended-1 B 24\n"
WITHDRAWN_B = RESTORED_B.replace("8.2 end", "8.1 told-completed ended-0 B 23\n8.2 end")


def broken(lines=GOOD, **changes):
    seen = Seen(read_lines(lines), [A], [(3.0, ["A"])], [2.9, 8.05, 8.5, 8.9], [], 0, 1, 10.0, [])
    return [found.split()[0] for found in find_broken(seen._replace(**changes))]


def test_nothing_is_found_in_a_good_history():
    assert broken() == []


@pytest.mark.parametrize(
    ("name", "lines", "changes"),
    [
        ("P1", GOOD, {"reads": [1.1]}),
        ("P2", GOOD.replace("1.5 end announced-1 A 11\n", ""), {}),
        ("P2", GOOD, {"boots": [2.0]}),
        ("P2", "1.6 begin ended-0 A 30\n" + GOOD, {}),
        ("P3", GOOD + "5.0 begin announced-0 B 20\n5.1 end announced-0 B 20\n" + RESTORED_B, {"events": [A, B]}),
        ("P3", GOOD + "6.05 begin started-0 A 21\n6.25 end started-0 A 21\n", {}),
        ("P3", GOOD + RESTORED_B, {"events": [A, {**B, "started_at": 2.0}]}),
        ("P4", GOOD, {"events": [{**A, "ended_at": 6.15}]}),
        ("P4", GOOD + WITHDRAWN_B, {"events": [A, B], "boots": [2.0]}),
        ("P6", GOOD + "6.4 begin ended-1 A 15\n6.5 end ended-1 A 15\n", {}),
        ("P6", GOOD + "6.4 begin ended-1 A 15\n6.5 begin ended-1 A 16\n", {}),
        ("P6", "0.5 begin announced-0 A 9\n1.1 alive announced-0 A 9\n" + GOOD, {}),
        ("C1", GOOD.replace("9.5 alive", "6.5 alive"), {}),
        ("P16", GOOD.replace("6.3 end", "6.3 alive"), {}),
        ("P16", GOOD, {"left": ["a mark is left"]}),
    ],
)
def test_what_a_history_breaks_is_found(name, lines, changes):
    assert name in broken(lines, **changes)


@pytest.mark.parametrize(("hangs", "found"), [((1.4,), []), ((2.0,), []), ((9.0,), ["C1"])])
def test_what_a_response_that_hangs_excuses(hangs, found):
    assert broken(GOOD.replace("9.5 alive", "6.5 alive"), hangs=hangs) == found


def test_what_a_reboot_or_a_kill_excuses():
    twice = GOOD + "6.4 begin ended-1 A 15\n6.5 end ended-1 A 15\n"
    assert broken(twice, kills=1) == []
    gone = GOOD.replace("9.5 alive announced-1 A 11\n", "")
    assert broken(gone, boots=[5.5]) == []


def test_a_checker_that_reads_nothing_while_an_event_is_withdrawn_cannot_know_it():
    assert "P4" in broken(GOOD + WITHDRAWN_B, events=[A, B])
    # The approval alone has read it.
    assert "P4" not in broken(GOOD + WITHDRAWN_B, events=[A, B], reads=[2.9, 8.05, 9.1])
    assert "P4" not in broken(GOOD + WITHDRAWN_B, events=[A, B], run_beside=True)
    assert "P4" not in broken(GOOD + WITHDRAWN_B, events=[A, B], clock_was_set=True)


@pytest.mark.parametrize("boot", [5.5, 8.05])
def test_a_boot_after_which_no_document_listed_the_event_may_have_been_azures(boot):
    assert "P4" not in broken(GOOD + WITHDRAWN_B, events=[A, B], boots=[boot])


def test_a_playbook_begins_before_its_command():
    later = GOOD.replace("6.2 begin", "8.6 begin").replace("6.3 end", "8.7 end")
    sudden = {**B, "started_at": 6.15, "ended_at": 9.0, "steps": []}
    seen = {"reads": [2.9, 6.3], "taken_at": 9.6}
    assert broken(later, events=[A, sudden], **seen) == ["P3"]
    by_playbook = {**A, "by_playbook": ["ended-1"]}
    assert broken(later, events=[by_playbook, sudden], **seen) == []
    # What ran beside it is known by the lines of the commands alone.
    again = later.replace("8.6 begin", "6.2 begin ended-1 A 13\n8.6 begin")
    between = again + "6.3 begin started-0 B 15\n6.4 end started-0 B 15\n"
    assert "P3" not in broken(between, events=[by_playbook, sudden], **seen)


# The checker prepared it too, but not as a whole.
BY_RUN = (
    "".join(line for line in GOOD.splitlines(keepends=True) if "announced-1" not in line)
    + "2.0 begin run-0 A 40\n2.1 end run-0 A 40\n7.0 begin ended-run A 41\n7.1 end ended-run A 41\n"
)


def test_a_run_beside_the_checker_approves_by_its_own_preparation():
    assert broken(BY_RUN) == []
    assert "P2" in broken(BY_RUN, boots=[2.5])
    assert "P2" in broken(BY_RUN, reads=[1.1])
    assert broken(BY_RUN.replace("7.1 end ended-run A 41\n", "")) == ["P16"]


def test_a_run_that_gives_up_puts_back_before_the_end():
    early = BY_RUN.replace("7.0 begin", "3.5 begin").replace("7.1 end", "3.6 end")
    assert "P4" in broken(early)
    assert "P4" not in broken(early + "3.5 told-None ended-run A 41\n")


def test_a_pid_of_another_boot_is_no_sign_of_life():
    lived = "0.5 begin announced-0 A 13\n" + GOOD + "6.15 alive ended-0 A 13\n9.5 alive ended-0 A 13\n"
    assert broken(lived, boots=[0.9]) == []
    # The first try of the same step was cut off by that boot, and the second ended without a process that lives.
    ended = "".join(line for line in GOOD.splitlines(keepends=True) if "alive" not in line)
    assert broken("0.5 begin announced-1 A 11\n0.6 alive announced-1 A 11\n" + ended, boots=[0.9]) == []


def test_a_line_that_a_crash_cut_off_is_none():
    assert broken(GOOD + "9.6 ali") == []
