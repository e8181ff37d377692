# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""What the check was told of an event, and what the steps did for it: the record by which properties are judged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ansible_collections.fleetops.azure_maintenance.tests.campaign.azure import Entry
from ansible_collections.fleetops.azure_maintenance.tests.campaign.rules import BY_KEY, Rule, Words, find_rules

if TYPE_CHECKING:
    from ansible_collections.fleetops.azure_maintenance.tests.campaign.vm import Machine

# So often a step may be interrupted before it is given up.
INTERRUPTIONS = 3


class Run:
    """One run of a step."""

    def __init__(self, key: str, rule: str, phase: str, label: str, boot: int) -> None:
        self.key = key
        self.rule = rule
        self.phase = phase
        self.label = label
        self.boot = boot
        # A person has had its response tried again in this boot
        self.is_retried = False
        self.done = False
        self.interrupted = False


class View:
    """One id of an event.

    :ivar instances: how many events with this id the check may have told apart.
    :ivar may_have_ended: an answer that ends it has come since it was listed last.
    :ivar sure_end: the number of the document with which the check noted its end, at the latest.
    :ivar earliest_not_before: the earliest NotBefore that its record may hold. The check may have written down each
        one that a document told, until a later one is surely written down.
    :ivar rules: the keys of the rules that the check may have found for it, None among them where it may be none.
    :ivar rule: the one by which a step ran last.
    :ivar decided: a rule was surely found, or none; another may be found only where its type or source changes.
    :ivar named: it has listed this VM.
    :ivar tainted: its records were damaged or lost, so that little can be asked for.
    """

    def __init__(self, key: str, tainted: bool = False) -> None:
        self.key = key
        self.rules: set[str | None] = set()
        self.rule: str | None = None
        self.decided = False
        self.named = False
        self._words: tuple[Words, bool] | None = None
        self.tainted = tainted
        self.instances = 0
        self.listed_boots: set[int] = set()
        self.first_boot = 0
        self.not_before = 0.0
        self.earliest_not_before = math.inf
        self.started_seen = self.started_last = self.started_sure = False
        self.may_have_ended = False
        self.endings = 0
        self.earliest_end: int | None = None
        self.sure_end: int | None = None
        self.posted = False
        # Its state was lost, and with it whether an approval was sent
        self.maybe_sent = False
        self.approved = False
        # It has listed several VMs
        self.led = False
        # In this instance, and since it was restored last
        self.prepared = False
        self.owed = False
        self.restore_begun = False
        self.restore_failed = False
        # When a run over the fleet took the VM out of service for it; None where none did, or it was put back
        self.marked_at: float | None = None
        # When a restore that a boot interrupted must have gone on
        self.resume_by: float | None = None
        self._sure: dict[tuple[str, str], list[Run]] = {}
        self._last: dict[tuple[str, str], Run] = {}
        self._failures: dict[tuple[str, str], int] = {}
        self._interruptions: dict[tuple[str, str], int] = {}
        self._restored: set[str] = set()

    def holds_back_restores(self) -> bool:
        """Tell whether on_ended of another event waits until it has ended, or may do so."""
        # A response that only approves has begun as well.
        approves = any(rule.approves for rule in self.possible_rules())
        return self.prepared or self.marked_at is not None or self.started_seen or approves

    def list(self, entry: Entry, machine: Machine, configuration: int) -> None:
        """A document lists it.

        :param configuration: of the check that reads it.
        """
        if self.instances == 0 or self.may_have_ended:
            self.instances += 1
            self.first_boot = machine.boot
            self.listed_boots = set()
            self.started_seen = self.started_sure = self.posted = self.maybe_sent = self.approved = False
            self.may_have_ended = self.prepared = self.decided = self.named = False
            self.earliest_end = self.sure_end = None
            self.earliest_not_before = math.inf
        self._decide(entry, configuration)
        self.not_before = entry.not_before
        self.earliest_not_before = min(self.earliest_not_before, entry.not_before)
        self.listed_boots.add(machine.boot)
        self.led = self.led or len(entry.resources) > 1
        self.started_last = entry.status == "Started"
        self.started_seen = self.started_seen or self.started_last

    def _decide(self, entry: Entry, configuration: int) -> None:
        before, self._words = self._words, (entry.words, bool(entry.resources))
        is_another = before is None or before[0][:2] != entry.words[:2] or before[1] != bool(entry.resources)
        if not self.decided or is_another:
            # One that has listed this VM before goes on as if it listed it.
            self.rules |= find_rules(configuration, entry.words) if entry.resources or self.named else {None}
            self.rules |= set() if entry.resources else {None}
        self.named = self.named or bool(entry.resources)

    def possible_rules(self) -> list[Rule]:
        """Return the rules that it may have."""
        keys = {self.rule} if self.rule and self.instances == 1 else self.rules
        return [BY_KEY[key] for key in keys if key is not None]

    @property
    def only_rule(self) -> Rule | None:
        """The rule that it surely has, in its only instance."""
        keys = {self.rule} if self.rule else self.rules
        only = next(iter(keys)) if len(keys) == 1 and self.instances == 1 else None
        return None if only is None else BY_KEY[only]

    def leave_out(self, document: int) -> None:
        """An answer came that ends it."""
        if not self.may_have_ended:
            self.may_have_ended, self.earliest_end = True, document
            self.endings += 1

    def maybe_took_place(self, machine: Machine) -> bool:
        """Tell whether there may be evidence that Azure started it."""
        # A document tells whole seconds.
        due = machine.now >= self.earliest_not_before - 2.0 or machine.clock_was_set
        maybe_sent = self.posted or self.maybe_sent
        return self.started_seen or maybe_sent or self.first_boot != machine.boot or due

    def is_interrupted(self) -> bool:
        """Tell whether a step of its restore was begun and not ended, and the event has not come back."""
        interrupted = any(
            run.interrupted and self._interruptions[run.phase, run.label] < INTERRUPTIONS
            for run in self._last.values()
            if run.phase == "ended"
        )
        return self.may_have_ended and self.instances == 1 and interrupted

    def is_prepared_and_open(self) -> bool:
        """Tell whether a mark says all that must be known of it: the VM is prepared for it, and nothing came since."""
        begun = [run for run in self._last.values() if run.phase == "announced"]
        untouched = not (self.may_have_ended or self.started_seen or self.led or self.restore_begun)
        return bool(begun) and self.instances == 1 and untouched and all(run.done for run in begun)

    def begin(self, run: Run) -> None:
        self.rule = run.rule
        self._last[run.phase, run.label] = run
        if run.phase == "ended":
            self.restore_begun = True
        elif run.phase != "waiting":
            self.prepared = self.owed = True
            self._restored.clear()

    def seal(self, run: Run) -> None:
        """A success that the product has written down."""
        if run.phase == "approval":
            self.approved = True
            return
        self._sure.setdefault((run.phase, run.label), []).append(run)

    def succeed(self, run: Run) -> None:
        run.done = True
        if run.phase == "ended":
            self._restored.add(run.label)

    def interrupt(self, run: Run) -> None:
        run.interrupted = True
        key = (run.phase, run.label)
        self._interruptions[key] = self._interruptions.get(key, 0) + 1
        if run.phase == "ended" and self._interruptions[key] >= INTERRUPTIONS:
            self.restore_failed = True

    def fail(self, run: Run) -> int:
        key = (run.phase, run.label)
        self._failures[key] = self._failures.get(key, 0) + 1
        return self._failures[key]

    def sure(self, phase: str, label: str) -> list[Run]:
        """Return the successes that were written down."""
        return self._sure.get((phase, label), [])

    def last(self, phase: str, label: str) -> Run | None:
        return self._last.get((phase, label))

    def restored(self, label: str) -> bool:
        """Tell whether this step of on_ended has succeeded since anything was prepared."""
        return label in self._restored

    def is_owed_before(self, other: View) -> bool:
        """Tell whether its restore is due and must come before that of another event."""
        rule = self.only_rule
        if rule is None or not self.prepared or self.instances != 1 or other.instances != 1 or self.restore_failed:
            return False
        if self.sure_end is None or other.earliest_end is None or self.sure_end >= other.earliest_end:
            return False
        last = [self.last("ended", label) for label in rule.ended]
        return not all(run is not None and run.done for run in last)
