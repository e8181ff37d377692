# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""What must never happen, P1 to P9, P13 and P16 of the design.

It is judged by what Azure told, what was sent, and what the steps did.

It never reads what the product thinks, but for the number of its records (P9).
"""

from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING, Any

from ansible_collections.fleetops.azure_maintenance.tests.campaign.azure import VM, Told
from ansible_collections.fleetops.azure_maintenance.tests.campaign.polling_rules import MOST_SILENT, PollingRules
from ansible_collections.fleetops.azure_maintenance.tests.campaign.rules import BY_KEY
from ansible_collections.fleetops.azure_maintenance.tests.campaign.scheduler import Actor
from ansible_collections.fleetops.azure_maintenance.tests.campaign.step_rules import StepRules
from ansible_collections.fleetops.azure_maintenance.tests.campaign.views import Run, View

if TYPE_CHECKING:
    from ansible_collections.fleetops.azure_maintenance.tests.campaign.vm import Machine

TRIES = 2
# Seconds after which a restore goes on that a boot interrupted
RESUMED_AFTER = 60.0


class Judge:
    """Notes what happens, and names the first property that was broken."""

    def __init__(self, machine: Machine, poll_interval: float, knows_name: bool) -> None:
        self._machine = machine
        self._poll_interval = poll_interval
        self._knows_name = knows_name
        self.broken: tuple[str, str] | None = None
        self.story: list[str] | None = None
        self._last_note = ""
        self.views: dict[str, View] = {}
        self._running: list[Run] = []
        # When a run marked the VM for each event that no check has been told of since
        self._untold: dict[str, float] = {}
        self._steps = StepRules(machine, self.views, self._running, self._untold)
        self.polling = PollingRules(poll_interval, self._require)
        # Successes that are sure when their process goes on
        self._unsure: dict[Actor, Run] = {}
        self._of_response: dict[int, tuple[str, str]] = {}
        self.documents = 0
        self.kills = 0
        # Failures that could not be written down at once, and perhaps never were
        self.unwritten = 0
        self.retries = 0
        # A bit of a fact has flipped: the name may be that of another VM until the next boot.
        self.blind = False
        # A name that was written down may be another since a bit of it has flipped.
        self._fact_damaged = False
        self._state_lost = self._configured = False

    def note(self, text: str) -> None:
        if self.story is not None and text != self._last_note:
            self._last_note = text
            text = text.replace(self._machine.state_folder, "/state").replace(self._machine.folder, "")
            self.story.append(f"{self._machine.now:8.2f}  {text}")

    def fail(self, name: str, why: str) -> None:
        self.note(f"BROKEN {name}: {why}")
        if self.broken is None:
            self.broken = (name, why)
            self._machine.scheduler.stop()

    def _require(self, name: str, holds: bool, why: str) -> None:
        if not holds:
            self.fail(name, why)

    # The VM

    def booted(self) -> None:
        self.note(f"boot {self._machine.boot}")
        self.polling.booted(self._machine.now)
        self.blind = False
        for view in self.views.values():
            view.resume_by = self._machine.now + RESUMED_AFTER if view.is_interrupted() else None

    def lost_power(self, state_in_memory: bool) -> None:
        self.note(f"power lost{', with the state in memory' if state_in_memory else ''}")
        if state_in_memory:
            for view in self.views.values():
                view.tainted = True

    def damaged(self, table: str, key: str | None) -> None:
        """A bit of a record has flipped: of its event anything may be forgotten, of the others nothing."""
        self.note(f"a bit flipped in {table} of {key}")
        if table == "fact":
            self.blind = self._fact_damaged = True
            for view in self.views.values():
                view.tainted = True
        elif key is not None and key in self.views:
            self.views[key].tainted = True

    def configured(self) -> None:
        """The checker gets other rules. What is lost is taken up by the rule of today that has the name in the mark."""
        self.note("the role installs other rules")
        self._configured = True
        for view in self.views.values():
            view.tainted = view.tainted or self._state_lost

    def lost_state(self) -> None:
        """The file of the state is lost. What the marks tell is taken up from them: that the VM was prepared."""
        self.note("the file of the state is lost")
        self._state_lost = True
        responds = any(actor.kind != "check" for actor in self._machine.actors)
        for view in self.views.values():
            view.tainted = view.tainted or responds or self._configured or not view.is_prepared_and_open()
            # Its mark does not tell whether Azure took an approval.
            view.maybe_sent = view.rule is not None and BY_KEY[view.rule].approves

    def crashed(self, actor: Actor, error: BaseException) -> None:
        place = "".join(traceback.format_exception(type(error), error, error.__traceback__)[-3:])
        self.fail("P7", f"{actor.kind} {actor.number} ended in an exception: {place}")

    def wrote(self, actor: Actor | None, text: str) -> None:
        self.note(f"{actor.kind if actor else '?'}: {text.strip()[:300]}")
        check = actor is not None and actor.kind == "check"
        if self._state_lost and "was put aside as" in text:
            # A check that had the file open has gone on with it: what it has written since is lost with the file.
            for view in self.views.values():
                view.tainted = view.tainted or not view.is_prepared_and_open()
        if "<3>Unexpected error" in text or (check and "cannot be used (" in text and not self._state_lost):
            self.fail("P7", text.strip())
        if check:
            self.polling.wrote(text)

    def published(self) -> None:
        """The facts were written, from which others know how Azure calls this VM."""
        with open(f"{self._machine.folders.facts}/azure_maintenance.fact", encoding="utf-8") as file:
            name = json.load(file)["resource_name"]
        good = name in (None, VM) or self._fact_damaged
        self._require("P4", good, f"status says that this VM is called {name!r}")

    def ended(self, actor: Actor, begun: float) -> None:
        """A process ended, by itself or not."""
        status = getattr(actor, "status", 1)
        run = self._unsure.pop(actor, None)
        if actor.killed:
            self.kills += 1
            for view in self.views.values():
                view.resume_by = view.resume_by and self._machine.now + RESUMED_AFTER
            self.polling.killed()
            self._note_unsent(actor)
            self.note(f"{actor.kind} {actor.number} was killed")
            return
        if run is not None and status == 0:
            self._seal(run)
        if actor.kind == "respond" and status == 1 and actor.number in self._of_response:
            key, phase = self._of_response[actor.number]
            if phase == "ended":
                self.views[key].restore_failed = True
        if actor.kind == "check":
            least = self._machine.timer_interval - MOST_SILENT - self._poll_interval
            lasted = self._machine.now - begun
            self._require("P7", lasted >= least, f"the check ended by itself after {lasted:.1f} s")

    def _note_unsent(self, actor: Actor) -> None:
        """A response notes an approval before it sends it. One that is killed in between leaves the note only."""
        told: Told | None = getattr(actor, "told", None)
        for key, entry in told.entries.items() if told is not None else ():
            if key in self.views and entry.resources == (VM,) and entry.status == "Scheduled":
                self.views[key].posted = True

    # Steps

    def step_begins(self, actor: Actor, context: Any, rule: str, label: str) -> None:
        key, phase = context.event.event_id.lower(), context.phase
        self.note(f"step {phase} {label} of {key} begins (response {actor.number})")
        self._go_on(actor)
        self._of_response[actor.number] = (key, phase)
        view = self.views.get(key)
        run = Run(key, rule, phase, label, self._machine.boot)
        run.is_retried = (self._machine.boot, actor.number) in self._machine.retried
        if not self.blind:
            self._require("P4", context.resource_name.lower() in ("", VM), f"the name is {context.resource_name!r}")
            if view is None:
                self.fail("P4", f"{key} was never listed")
                return
            if not view.tainted:
                for demand in self._steps.demands(view, run, context.outcome):
                    self._require(*demand)
        if view is None:
            view = self.views[key] = View(key, tainted=True)
        if run.phase == "ended":
            view.resume_by = None
        self._running.append(run)
        actor.step = run  # type: ignore[attr-defined]
        view.begin(run)

    def step_ends(self, actor: Actor, _context: Any, label: str, done: bool, permanent: bool) -> None:
        """:param permanent: it failed, and is not tried again."""
        run: Run = actor.step  # type: ignore[attr-defined]
        self._running.remove(run)
        how = "succeeds" if done else "is interrupted" if actor.killed else "fails"
        self.note(f"step {run.phase} {label} of {run.key} {how}")
        view = self.views[run.key]
        if done:
            view.succeed(run)
            self._unsure[actor] = run
        elif actor.killed:
            view.interrupt(run)
        else:
            failures = view.fail(run)
            if self._machine.disk is not None or self._machine.now < self._machine.locked_until:
                self.unwritten += 1
            # It may be killed before it can say so.
            given_up = permanent or failures >= TRIES
            view.restore_failed = view.restore_failed or (run.phase == "ended" and given_up)
            boots = self._machine.boot if run.phase == "announced" else 1
            most = TRIES * (view.instances * boots + self.retries) + self.kills + self.unwritten
            if not view.tainted:
                self._require("P6", failures <= most, f"{run.phase} {label} of {run.key} failed {failures} times")

    def _go_on(self, actor: Actor) -> None:
        """What its step did must have been written down, or it would not have gone on."""
        run = self._unsure.pop(actor, None)
        if run is not None:
            self._seal(run)

    def _seal(self, run: Run) -> None:
        self.views[run.key].seal(run)

    # Requests

    def asks(self, actor: Actor, method: str, path: str, body: bytes | None) -> None:
        now = self._machine.now
        if actor.kind == "check":
            self._settle(actor)
            self._judge_resumption()
            self.polling.asks(now, for_events="/instance/" not in path)
            actor.asked_at = now  # type: ignore[attr-defined]
            return
        self._go_on(actor)
        if method == "POST":
            ids = [str(each["EventId"]).lower() for each in json.loads(body or b"")["StartRequests"]]
            self.note(f"POST {ids} (response {actor.number})")
            self._judge_post(actor, ids)
        elif "/instance/" not in path:
            actor.asked_document = now  # type: ignore[attr-defined]

    def prepared_by_run(self, key: str) -> None:
        self.note(f"a run prepares the VM for {key}")
        restores = [run for run in self._running if run.phase == "ended" and not self.views[run.key].tainted]
        self._require("P3", not restores, f"a run prepares the VM for {key} while the checker restores")
        if key not in self.views:
            self._untold[key] = self._machine.now
        elif self.views[key].marked_at is None:
            self.views[key].marked_at = self._machine.now

    def restored_by_run(self, key: str) -> None:
        self.note(f"a run puts the VM back after {key}")
        self._untold.pop(key, None)
        if key in self.views:
            self.views[key].marked_at = None

    def _judge_resumption(self) -> None:
        """A restore that a boot interrupted goes on, whatever Azure answers, unless something stands in its way."""
        now, machine = self._machine.now, self._machine
        pending = bool(self._untold or machine.prepared_by_run) or any(
            view.tainted or (view.holds_back_restores() and not view.may_have_ended) for view in self.views.values()
        )
        in_the_way = pending or self._running or machine.disk is not None or now < machine.locked_until
        for view in self.views.values():
            if view.resume_by is None or view.tainted:
                continue
            if in_the_way:
                view.resume_by = now + RESUMED_AFTER
            elif now > view.resume_by:
                self.fail("liveness", f"the restore of {view.key}, which a boot interrupted, does not go on")

    def _judge_post(self, actor: Actor, ids: list[str]) -> None:
        told: Told | None = getattr(actor, "told", None)
        named = self._knows_name or getattr(actor, "named", None) is not None
        actor.told = None  # type: ignore[attr-defined]
        actor.posted = ids  # type: ignore[attr-defined]
        self._require("P1", named, "the name is not known")
        if told is None or not named:
            self.fail("P1", "no document was read since the last POST or the name")
            return
        if not self._knows_name:
            self._require("P1", actor.named <= actor.asked_document, "the document is older than the name")  # type: ignore[attr-defined]
        for key in ids:
            entry = told.entries.get(key)
            if entry is None or entry.status != "Scheduled" or entry.resources != (VM,):
                self.fail("P1", f"{key} is approved on {entry and entry[1:3]}")
                return
            view = self.views.get(key)
            if self.blind or view is None or view.tainted:
                continue
            view.posted = True
            rules = [rule for rule in view.possible_rules() if rule.approves]
            self._require("P2", bool(rules), f"{key} is approved, which no rule in {view.rules} asks for")
            why = f"{key} is approved, and not each of {[rule.prepares for rule in rules]} has succeeded in this boot"
            self._require("P2", any(self._is_ready(view, rule.prepares) for rule in rules), why)

    def _is_ready(self, view: View, labels: str) -> bool:
        """Tell whether these steps have prepared the VM for an event in this boot."""
        runs = [view.last("announced", label) for label in labels]
        return all(run is not None and run.done and run.boot == self._machine.boot for run in runs)

    def approval_succeeds(self, actor: Actor, key: str) -> None:
        """A step that approves has succeeded: Azure has taken an approval, or a document shows that it needs none."""
        view = self.views.get(key)
        if self.blind or view is None or view.tainted:
            return
        told: Told | None = getattr(actor, "told", None)
        entry = told.entries.get(key) if told is not None else None
        gone = told is not None and told.clear and entry is None
        needless = entry is not None and (entry.status == "Started" or entry.resources != (VM,))
        sent = key in self._machine.azure.accepted
        self._require("P13", sent or gone or needless, f"{key} counts as approved, and Azure got no approval of it")

    def heard(self, actor: Actor, told: Told) -> None:
        now = self._machine.now
        if actor.kind != "check":
            if told.what == "document":
                actor.told = told  # type: ignore[attr-defined]
                for key, entry in told.entries.items():
                    if key in self.views and VM in entry.resources:
                        # An approval may find other VMs that no check has seen yet.
                        self.views[key].led = self.views[key].led or len(entry.resources) > 1
            elif told.what == "name":
                actor.named, actor.told = now, None  # type: ignore[attr-defined]
            elif told.what == "taken":
                self._note_taken(actor)
            return
        self.note(f"told {told.what}: {[entry[1:3] for entry in told.entries.values()]}, clear: {told.clear}")
        self.polling.told_to_wait(told.retry_after)
        if told.what == "name":
            return
        if told.what not in ("document", "empty"):
            self.polling.note_failure()
            return
        self.polling.answered = True
        self.documents += 1
        clear = told.what == "document" and told.clear
        self.polling.note_clear(clear, now)
        too_long = self.polling.is_unclear_too_long(now)
        mine = {key: entry for key, entry in told.entries.items() if not entry.resources or VM in entry.resources}
        for key, entry in mine.items():
            view = self.views.get(key)
            if view is None:
                view = self.views[key] = View(key, tainted=self.blind)
            view.list(entry, self._machine, actor.configuration)  # type: ignore[attr-defined]
            view.marked_at = self._untold.pop(key, view.marked_at)
        if clear or too_long:
            # What a document of later does not list is over.
            for key in [key for key, at in self._untold.items() if at < actor.asked_at]:  # type: ignore[attr-defined]
                del self._untold[key]
        for key, view in self.views.items():
            if key not in mine and (clear or (too_long and view.maybe_took_place(self._machine))):
                view.leave_out(self.documents)
        sound = self._machine.disk is None and now >= self._machine.locked_until
        actor.document = (self.documents, set(mine), clear) if sound else None  # type: ignore[attr-defined]

    def _settle(self, actor: Actor) -> None:
        """The check asks again, so what its last document told is written down, unless the disk failed meanwhile."""
        document = getattr(actor, "document", None)
        actor.document = None  # type: ignore[attr-defined]
        if document is None or self._machine.disk is not None or self._machine.now < self._machine.locked_until:
            return
        number, listed, clear = document
        for key, view in self.views.items():
            if key in listed:
                view.started_sure = view.started_sure or view.started_last
                view.earliest_not_before = view.not_before
                view.decided = True
            elif clear and view.sure_end is None:
                view.sure_end = number

    def _note_taken(self, actor: Actor) -> None:
        for key in actor.posted:  # type: ignore[attr-defined]
            if key in self.views:
                self._unsure[actor] = Run(key, "", "approval", "", self._machine.boot)

    # The end

    def is_finished(self, probe: str | None) -> bool:
        """Tell whether all that was prepared is restored, and the last event was noticed, approved and restored."""
        return self._owed(probe) is None

    def unrestored(self) -> int:
        """Return for how many events the VM is still to be restored."""
        return sum((view.owed or view.decided) and not self._is_restored(view) for view in self.views.values())

    def is_held_up(self) -> bool:
        """Tell whether a step runs that may have lost its time limit with its record: others rightly wait for it."""
        return any(self.views[run.key].tainted for run in self._running)

    def finish(self, probe: str | None, held_up: bool) -> None:
        """Azure has answered and everything was sound for a while: all that was prepared is restored, once.

        :param held_up: the last event was started while it rightly waited, so that nobody could approve it.
        """
        owed = self._owed(probe, held_up)
        self._require("liveness", owed is None or self.is_held_up(), str(owed))
        marked = self._machine.marks_of_checker()
        for key, view in self.views.items():
            if view.tainted or view.instances != 1:
                continue
            rule = view.only_rule
            if rule is None:
                continue
            restored = view.owed and self._is_restored(view)
            self._require("P16", not restored or key not in marked, f"{key} is restored, and its mark is still there")
            for label in rule.ended:
                count = len(view.sure("ended", label))
                self._require("P6", count <= 1, f"restore {label} of {key} has run {count} times")

    @staticmethod
    def _is_restored(view: View) -> bool:
        rule = BY_KEY[view.rule] if view.rule else view.only_rule
        return rule is None or all(view.restored(label) for label in rule.ended)

    def _owed(self, probe: str | None, held_up: bool = False) -> str | None:
        for key, view in self.views.items():
            rule = BY_KEY[view.rule] if view.rule else view.only_rule
            # One that was recorded gets its on_ended, even if nothing was done for it before.
            recorded = view.decided and view.sure_end is not None and view.instances == 1
            if view.tainted or rule is None or not (view.owed or recorded):
                continue
            for label in rule.ended:
                if not view.restored(label):
                    return f"{key} was prepared or recorded, and restore {label} has not run"
            for label in rule.started:
                # Whether one ran for a lost record is not known, so it is not run.
                known = recorded and view.started_sure and not self._state_lost
                if known and view.last("started", label) is None:
                    return f"{key} has started, and on_started {label} has not run"
        if probe is None:
            return None
        last = self.views.get(probe)
        if last is None:
            return "nobody asked about the last event"
        if not last.approved and not held_up:
            return f"{probe} was not approved"
        return None if last.restored("2") else f"{probe} was not restored"
