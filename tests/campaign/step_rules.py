# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Which step may run when, P2 to P6 of the design, judged by what Azure told and what steps did before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, Mapping, Sequence, Tuple

from ansible_collections.fleetops.azure_maintenance.tests.campaign.rules import BY_KEY
from ansible_collections.fleetops.azure_maintenance.tests.campaign.views import Run, View

if TYPE_CHECKING:
    from ansible_collections.fleetops.azure_maintenance.tests.campaign.vm import Machine

Demand = Tuple[str, bool, str]


class StepRules:
    """:param views: of all events, by their ids.
    :param running: the steps that run now.
    :param untold: the events for which a run has marked the VM, and of which no check has been told since.
    """

    def __init__(
        self, machine: Machine, views: Mapping[str, View], running: Sequence[Run], untold: Mapping[str, float]
    ) -> None:
        self._machine = machine
        self._views = views
        self._running = running
        self._untold = untold

    def demands(self, view: View, run: Run, outcome: str | None) -> Iterator[Demand]:
        """Return what must hold when a step begins: the property, whether it holds, and why it does not.

        :param outcome: what the step was told of the event's end.
        """
        what = f"{run.phase} {run.label} of {view.key} begins"
        yield from self._of_rule(view, run, what)
        for other in self._running:
            yield "P6", other.key != run.key, f"{what} while {other.phase} {other.label} of it runs"
            opposite = "ended" in {other.phase, run.phase} and other.phase != run.phase
            opposite = opposite and "waiting" not in {other.phase, run.phase} and not self._views[other.key].tainted
            yield "P3", not opposite, f"{what} while {other.phase} {other.label} of {other.key} runs"
        if run.phase in ("announced", "started"):
            yield "P16", view.key in self._machine.marks_of_checker(), f"{what}, and the VM has no mark that says so"
            # By a clock that was set nobody can tell whether a run was killed.
            by_run = self._machine.restored_by_run and not self._machine.clock_was_set
            yield "P3", not by_run, f"{what} while a run puts the VM back"
        successes = view.sure(run.phase, run.label)
        if run.phase == "announced":
            yield from self._of_preparation(view, run, what, successes)
            return
        yield "P6", len(successes) < view.instances, f"{what} after {len(successes)} successes"
        if run.phase == "waiting":
            yield "P5", self._machine.boot in view.listed_boots, f"{what}; no document of this boot lists it"
            yield "P6", view.led, f"{what}; this VM has never led it"
            yield "P6", view.instances > 1 or not view.approved, f"{what} though it is approved"
        elif run.phase == "started":
            yield "P4", view.started_seen or view.instances > 1, f"{what}; no document lists it as Started"
            yield "P6", view.instances > 1 or not view.restore_begun, f"{what} after its restore"
        else:
            yield "P4", len(successes) < view.endings, f"{what}; no clear document has left it out"
            yield from self._of_restore(view, what, outcome)

    def _of_rule(self, view: View, run: Run, what: str) -> Iterator[Demand]:
        """The first rule that matches, found when the event is seen, stays its rule (DESIGN §6)."""
        yield "rule", run.rule in view.rules, f"{what} by rule {run.rule}, not by {view.rules}"
        kept = view.instances > 1 or view.rule in (None, run.rule)
        yield "rule", kept, f"{what} by rule {run.rule}, though a step of {view.rule} has run"

    def _of_preparation(self, view: View, run: Run, what: str, successes: list[Run]) -> Iterator[Demand]:
        again = BY_KEY[run.rule].prepares_again
        boot = self._machine.boot
        yield "P5", boot in view.listed_boots, f"{what}; no document of this boot lists it"
        # A person may have a preparation run anew that a boot took back. And an earlier event of the same id may have
        # had a rule that prepares in each boot.
        once = not again and not run.is_retried
        done = sum(1 for each in successes if each.boot == boot or (once and each.rule == run.rule))
        yield "P6", done < view.instances, f"{what} after {done} successes"
        yield "P6", view.instances > 1 or not view.restore_begun, f"{what} after its restore"
        too_late = again and view.instances == 1 and view.approved
        yield "P2", not too_late, f"{what} though it is approved already"

    def _of_restore(self, view: View, what: str, outcome: str | None) -> Iterator[Demand]:
        if view.instances == 1:
            evidence = view.maybe_took_place(self._machine)
            yield "P4", outcome == "completed" or not view.started_sure, f"{what}: {outcome} though it started"
            yield "P4", outcome == "withdrawn" or evidence, f"{what}: {outcome} without evidence"
        # The marks are compared with the answers by the clock.
        untold = self._untold and not self._machine.clock_was_set
        yield "P3", not untold, f"{what}, and a run has the VM out of service for {list(self._untold)}"
        prepared = self._machine.prepared_by_run and not self._machine.clock_was_set
        yield "P3", not prepared, f"{what} while a run prepares the VM"
        for other in self._views.values():
            if other is view or other.tainted:
                continue
            out_of_service = other.prepared or other.marked_at is not None or other.started_sure
            pending = out_of_service and not other.may_have_ended
            yield "P3", not pending, f"{what} while {other.key}, prepared, is open"
            earlier = other.is_owed_before(view)
            yield "P3", not earlier, f"{what} before that of {other.key}, which ended earlier"
