# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a history of a real VM from outside: by the lines that its steps left behind, and by what the simulator knows.

Nothing here reads the checker's state or asks it anything. All times are of one clock, that of the machine.
"""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple

BEGIN, END, ALIVE = "begin", "end", "alive"
# Of a step of on_ended: the outcome of which it was told
TOLD_COMPLETED, TOLD_NONE = "told-completed", "told-None"
ANNOUNCED, STARTED, ENDED = "announced", "started", "ended"
# Of an operator's run of respond: its preparation, and how it puts the VM back
BY_RUN, RESTORED_BY_RUN = "run-0", "ended-run"
# Seconds: two lines of the steps and of the simulator may be noted a little late.
_LATE = 0.05
# Within so many seconds a process that lives has left a line.
_HEARTBEAT = 1.5
# Seconds from when a response hangs until the watchdog has killed it, at most
_HANG = 75.0
# Within so many seconds a checker has written down what a document says, and what it has started before has begun.
_RECORDED = 2.0


class Line(NamedTuple):
    """What a step wrote.

    :ivar step: its phase and its place among the steps of that, such as announced-0.
    :ivar pid: of the try.
    """

    at: float
    word: str
    step: str
    event: str
    pid: str


class Try(NamedTuple):
    """One try of a step; ``ended`` is None where it did not succeed."""

    begun: float
    ended: float | None
    step: str
    event: str
    pid: str

    @property
    def phase(self) -> str:
        return self.step.partition("-")[0]


class Seen(NamedTuple):
    """What is known of a history when it is over.

    :ivar events: as the simulator shows them, with ``steps``, the steps of the preparation, ``by_playbook``, the steps
        of on_ended that a playbook runs, and times in seconds.
    :ivar posts: times of approvals, with the ids that each had.
    :ivar reads: times at which the simulator gave its document.
    :ivar boots: times at which the VM booted.
    :ivar kills: how often a response was killed.
    :ivar taken_at: when the lines were read.
    :ivar left: marks that are still on the VM, and what systemd and the journal say that is wrong.
    :ivar clock_was_set: the clock of the VM was wrong for some time.
    :ivar run_beside: an operator ran respond.
    :ivar hangs: times at which a response was stopped, so that it did not learn how the try ended that ran.
    """

    lines: list[Line]
    events: list[dict[str, Any]]
    posts: list[tuple[float, list[str]]]
    reads: list[float]
    boots: list[float]
    kills: int
    retries: int
    taken_at: float
    left: list[str]
    clock_was_set: bool = False
    run_beside: bool = False
    hangs: tuple[float, ...] = ()


def read_lines(text: str) -> list[Line]:
    """A line that a crash has cut off is none."""
    found = [line.split() for line in text.splitlines()]
    return sorted(Line(float(words[0]), *words[1:]) for words in found if len(words) == 5)


def find_broken(seen: Seen) -> list[str]:
    """Return what was broken, each with the number of its property first."""
    ran = _tries(seen.lines)
    tries = _begun_by_playbook(seen, ran)
    return [
        *_approvals(seen, tries),
        *_restores(seen, tries),
        *_beside(ran),
        *_beside_started(seen, tries),
        *_outcomes(seen),
        *_once(seen, tries),
        *_left_running(seen, tries),
        *_not_restored(seen, tries),
        *(f"P16 {what}" for what in seen.left),
    ]


def _tries(lines: list[Line]) -> list[Try]:
    found = []
    for begin in (line for line in lines if line.word == BEGIN):
        ends = [line.at for line in _of_try(lines, begin.at, begin[2:]) if line.word == END]
        found.append(Try(begin.at, min(ends, default=None), *begin[2:]))
    return found


def _of_try(lines: list[Line], begun: float, whose: tuple[str, ...]) -> list[Line]:
    """Return the lines of one try; another boot may give the same pid to a later one."""
    mine = [line for line in lines if line[2:] == whose and line.at >= begun]
    until = min((line.at for line in mine if line.word == BEGIN and line.at > begun), default=float("inf"))
    return [line for line in mine if line.at < until]


def _begun_by_playbook(seen: Seen, tries: list[Try]) -> list[Try]:
    """A playbook needs seconds until its command begins, so the try begins with the end of the step before."""
    names = {(event["event_id"], step) for event in seen.events for step in event.get("by_playbook", ())}
    found = []
    for each in tries:
        if (each.event, each.step) in names:
            ends = [one.ended for one in tries if one.event == each.event and one.ended and one.ended <= each.begun]
            each = each._replace(begun=max(ends, default=each.begun))
        found.append(each)
    return found


def _boot(seen: Seen, at: float) -> int:
    return sum(boot <= at for boot in seen.boots)


def _approvals(seen: Seen, tries: list[Try]) -> Iterable[str]:
    """P1 and P2: each approval comes after a document, and that after a whole preparation of this boot."""
    for at, ids in seen.posts:
        for event in (each for each in seen.events if each["event_id"] in ids):
            # Either a run has approved it, by its own preparation, or the checker, by its own.
            if list(_why_not_prepared(seen, tries, event, [BY_RUN], at)):
                yield from _why_not_prepared(seen, tries, event, event["steps"], at)


def _why_not_prepared(
    seen: Seen, tries: list[Try], event: dict[str, Any], steps: list[str], at: float
) -> Iterable[str]:
    name, done = event["event_id"][:8], []
    for step in steps:
        of_step = [each for each in tries if (each.event, each.step) == (event["event_id"], step)]
        ends = [each.ended for each in of_step if each.ended is not None and each.ended < at + _LATE]
        ends = [end for end in ends if _boot(seen, end) == _boot(seen, at)]
        if not ends:
            yield f"P2 {name} was approved, and {step} did not succeed before in this boot"
            continue
        done.append(max(ends))
    if done and any(each.phase == ENDED and min(done) < each.begun < at for each in tries):
        yield f"P2 {name} was approved, and the VM was put back after its preparation"
    if done and not any(max(done) - _LATE < read < at + _LATE for read in seen.reads):
        yield f"P1 {name} was approved, and no document came after its preparation"


def _restores(seen: Seen, tries: list[Try]) -> Iterable[str]:
    """P3 and P4: nothing is put back before its event ended, nor while another is prepared for."""
    ends = {event["event_id"]: event["ended_at"] for event in seen.events}
    out = [each for each in tries if each.phase != ENDED]
    for restore in (each for each in tries if each.phase == ENDED):
        name = restore.event[:8]
        ended_at = ends[restore.event]
        # A run that gives an event up restores the VM at once, and tells no outcome.
        gives_up = any(line[1:] == (TOLD_NONE, *restore[2:]) for line in seen.lines) and restore.step == RESTORED_BY_RUN
        if not gives_up and (ended_at is None or ended_at > restore.begun + _LATE):
            yield f"P4 {restore.step} of {name} began before the event had ended"
        for other in out:
            open_until = ends[other.event] or float("inf")
            if other.event != restore.event and other.begun < restore.begun < open_until - _LATE:
                yield f"P3 {restore.step} of {name} began while {other.event[:8]} was prepared for and open"


def _beside(tries: list[Try]) -> Iterable[str]:
    """P3: nothing is put back beside a step that takes out."""
    done = [each for each in tries if each.ended is not None]
    for restore in (each for each in done if each.phase == ENDED):
        for other in (each for each in done if each.phase != ENDED):
            if other.begun < restore.ended and restore.begun < other.ended:
                yield f"P3 {restore.step} of {restore.event[:8]} ran beside {other.step} of {other.event[:8]}"


def _beside_started(seen: Seen, tries: list[Try]) -> Iterable[str]:
    """P3: nothing is put back while a document has listed another event as Started (D4)."""
    for event in seen.events:
        read = [at for at in seen.reads if event["started_at"] and event["started_at"] + _LATE < at]
        if not read or event["ended_at"] is None:
            continue
        for restore in (each for each in tries if each.phase == ENDED and each.event != event["event_id"]):
            # The checker writes down what it has read before it looks what is due.
            if min(read) + _RECORDED < restore.begun < event["ended_at"] - _LATE:
                yield f"P3 {restore.step} of {restore.event[:8]} began while {event['event_id'][:8]} was started (D4)"


def _outcomes(seen: Seen) -> Iterable[str]:
    """P4: an event that was neither started, approved nor due is withdrawn, also after a boot that listed it (E1)."""
    if seen.clock_was_set or seen.run_beside:
        # A checker knows only the wrong clock for an event that it sees first then. And it does not know the documents
        # that a run has read.
        return
    approved = {event_id for _at, ids in seen.posts for event_id in ids}
    for event in seen.events:
        if event["started_at"] or event["ended_at"] is None or event["event_id"] in approved:
            continue
        told = [line.at for line in seen.lines if (line.word, line.event) == (TOLD_COMPLETED, event["event_id"])]
        # It may have ended while the VM booted: no document of that boot listed it then.
        last_boot = max((at for at in seen.boots if told and at < min(told)), default=0.0)
        listed = any(last_boot < at < event["ended_at"] for at in seen.reads)
        # Only a checker that runs at that time knows it. An approval alone reads once or twice.
        gone = [at for at in seen.reads if event["ended_at"] < at < event["not_before"]]
        if told and listed and len(gone) > 2:
            yield f"P4 {event['event_id'][:8]} was withdrawn, and on_ended was told that it was completed (E1)"


def _once(seen: Seen, tries: list[Try]) -> Iterable[str]:
    """P6: no step succeeds or fails more often than it may, and none begins while the try before it lives."""
    breaks = seen.kills + len(seen.boots)
    for event, step in sorted({(each.event, each.step) for each in tries}):
        of_step = [each for each in tries if (each.event, each.step) == (event, step)]
        good = sum(each.ended is not None for each in of_step)
        # One whose success could not be written down any more is run again.
        if good > 1 + breaks:
            yield f"P6 {step} of {event[:8]} succeeded {good} times"
        if len(of_step) > (1 + seen.retries) * (1 + breaks) + breaks:
            yield f"P6 {step} of {event[:8]} was tried {len(of_step)} times"
    for before in tries:
        if before.ended is not None:
            continue
        later = [each.begun for each in tries if _same_owner(each, before) and each.begun > before.begun]
        alive = _signs_of_life(seen, before)
        if later and alive and max(alive) > min(later) + _LATE:
            yield f"P6 a try of {before.step} of {before.event[:8]} lived on when the next began (C2)"


def _same_owner(each: Try, other: Try) -> bool:
    steps_of_run = (BY_RUN, RESTORED_BY_RUN)
    return each.event == other.event and (each.step in steps_of_run) == (other.step in steps_of_run)


def _signs_of_life(seen: Seen, each: Try) -> list[float]:
    return [line.at for line in _of_try(seen.lines, each.begun, each[2:]) if line.word == ALIVE]


def _left_running(seen: Seen, tries: list[Try]) -> Iterable[str]:
    """C1: what a step that succeeded left running lives until the VM boots."""
    for each in tries:
        alive = _signs_of_life(seen, each)
        if each.ended is None or not alive or _boot(seen, each.ended) != _boot(seen, seen.taken_at):
            continue
        if any(at - _HEARTBEAT < each.ended < at + _HANG for at in seen.hangs):
            continue
        if seen.taken_at - max(alive) > _HEARTBEAT:
            yield f"C1 what {each.step} of {each.event[:8]} left running is gone"


def _not_restored(seen: Seen, tries: list[Try]) -> Iterable[str]:
    for event in seen.events:
        mine = [each for each in tries if each.event == event["event_id"]]
        restored = {each.step for each in mine if each.phase == ENDED and each.ended is not None}
        steps = {each.step for each in mine} - {RESTORED_BY_RUN}
        wanted = {RESTORED_BY_RUN} if BY_RUN in steps else set()
        wanted |= {"ended-0", "ended-1"} if steps - {BY_RUN} else set()
        # A run also restores a VM that it lost before the first step of its preparation.
        if not wanted <= restored:
            yield f"P16 {event['event_id'][:8]} is over, and of what restores only {sorted(restored)} succeeded"
