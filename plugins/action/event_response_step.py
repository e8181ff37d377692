# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of a run of event_response that need Ansible: they read and keep the state for the engine's decisions.

The state of a run is one text in the registered variable __event_response, which a step that is run once gives to
all hosts; the report of a host on a turn is one text in its __event_response_report.
"""

from __future__ import annotations

import getpass
import json
import os
import secrets
import socket
import time
from functools import cached_property
from typing import Any, Callable, Mapping, Sequence, TypeVar

from ansible import constants, context
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import connection_loader, strategy_loader
from ansible.utils.vars import load_extra_vars

from ..module_utils._event.document import format_utc
from ..module_utils._event.lifecycle import ENDED
from ..module_utils._event.marks import (
    FAILED,
    PREPARED,
    PREPARING,
    RESTORING,
    find_mark,
    is_of_run,
    new_mark,
    set_state,
)
from ..module_utils._event.marks import RUN as BY_RUN
from ..module_utils._imds.fetch import now_utc
from ..module_utils._time_limit import TimeIsUpError, limit
from ..plugin_utils._answer_form import UNUSABLE, find_approval_fault
from ..plugin_utils._conditions import find_conditions
from ..plugin_utils._failure_text import tell_error, tell_failure, without_frames
from ..plugin_utils._run import engine, settings, verdict
from ..plugin_utils._run.approval import could_not_be_asked, take_acknowledgement
from ..plugin_utils._run.checker_status import read_checker
from ..plugin_utils._run.hosts import NEW_HOST, is_usable, longest_files
from ..plugin_utils._run.marks import find_hindering, find_removable, has_older
from ..plugin_utils._run.messages import merge_reasons
from ..plugin_utils._run.peers import describe_hosts
from ..plugin_utils._step.mark_files import Written, remove_marks, update_mark, why_not_removable, write_mark
from ..plugin_utils._step.questions import Questions, count_forks
from ..plugin_utils._step.task_loader import TaskLoader
from ..plugin_utils._unsafe import mark_unsafe
from ..plugin_utils._windows.dispatch import is_windows
from ..plugin_utils._windows.run import remove_windows_mark, update_windows_mark, write_windows_mark

RUN, REPORT, APPROVALS = "__event_response", "__event_response_report", "__event_response_approvals"
SUMMARY, ACKNOWLEDGED, MARK = "__event_response_summary", "__event_response_acknowledged", "__event_response_mark"
# Those of them that the decisions for all hosts are made from
OF_HOSTS = (RUN, REPORT, APPROVALS, ACKNOWLEDGED, SUMMARY)
# Variables that the playbooks restore and rehearse set
REHEARSAL = "__event_response_rehearsal"
ONLY_MARKED, OPEN_TOO = "__event_response_only_marked", "__event_response_open_too"
# Those that the plays of respond set
ANCHORS, RETURNS = "__event_response_anchor_hosts", "__event_response_returns"
_Changed = TypeVar("_Changed")
_LONGEST_REASON = 500
# Ansible removes the folder of a module after the limit of its task, without one of its own: where the connection has
# died, only ssh ends that (P15). Of two values ssh takes the first one.
_FIND_DEAD_CONNECTION = "-o ServerAliveInterval=15 -o ServerAliveCountMax=3"
# Seconds after its own limit in which the client must have ended
_GRACE = 15.0
_HINDERED = (
    "Another run, or the checker, is at work on this host at this moment. This run asks again, and waits for it."
)
_NOT_BEGUN = (
    "The run did not begin, so no host was asked. Was it started with --tags, --skip-tags or --start-at-task? Start it "
    "without them."
)
_MARK_IS_OLD = (
    "The mark of {host} could not be changed to {state}: {why}. For a while other runs may take this one to be at work "
    "there, and wait."
)
_HIDDEN = "the task has no_log, so its reason is hidden."
_UNKNOWN = "a file or role that it includes could not be loaded, or Ansible gave no reason; see the output above."


class ActionModule(ActionBase):
    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._vars: dict[str, Any] = task_vars or {}
        # The playbook respond has a play for each part.
        self._is_in_one_play = ANCHORS not in self._vars
        steps = {
            "read": self._read_settings,
            "check": self._check_files,
            "begin": self._begin,
            "decide": self._decide,
            "mark": self._mark,
            "ask": self._ask,
            "acknowledge": self._acknowledge,
            "note": self._note,
            "report": self._report,
            "fail": self._fail,
        }
        result["changed"] = False
        result.update(mark_unsafe(steps[self._task.args["step"]]()))
        return result

    # The variables of a host

    def _read_settings(self) -> dict[str, Any]:
        """Keep the values that the variables of the role have now: a template could give others later."""
        # In the playbook respond the condition may leave out the first host, which would check it for all.
        conditions = [] if self._is_in_one_play else settings.tell_conditions(find_conditions(self._task))
        if conditions:
            return {"failed": True, "msg": " ".join([*conditions, "No host was asked."])}
        given, faults = {}, settings.tell_misspelled(self._vars)

        def evaluate(variable: str, value: Any) -> Any:
            try:
                return self._templar.template(value)
            except AnsibleError as error:
                faults.append(f"{variable} cannot be evaluated: {tell_error(error)}")
                return None

        for name in settings.NAMES:
            variable = f"event_response_{name}"
            given[name] = evaluate(variable, self._vars[variable])
        for name in ("prepare", "restore"):
            given[name] = "" if given[name] is None else str(given[name])
        by = str(given["group_by"] or "")
        group = evaluate(by, self._vars.get(by)) if by else None
        # Azure counts fault domains and update domains from 0 on.
        given["group"] = "" if group is None else str(group)
        if by and not given["group"]:
            faults.append(f"event_response_group_by: this host has no variable {by}, or it is empty.")
        return {"report": json.dumps({"settings": given, "fault": " ".join(faults), "play": self._play()}, default=str)}

    def _check_files(self) -> dict[str, Any]:
        given = {name: str(self._task.args.get(name) or "") for name in ("prepare", "restore")}
        faults = settings.tell_unknown_in_rehearsal(load_extra_vars(self._loader))
        faults += self._file_faults(given, str(self._task.args["prefix"]), rehearsal=True)
        return {"failed": True, "msg": " ".join([*faults, "No host was asked."])} if faults else {}

    def _file_faults(
        self, given: Mapping[str, str], prefix: str = "event_response", rehearsal: bool = False
    ) -> list[str]:
        faults = []
        loader = TaskLoader(self._task, self._loader, self._vars)
        for name, words in (("prepare", settings.WORDS), ("restore", (settings.NOTHING,))):
            if given[name] and given[name] not in words:
                faults += [f"{prefix}_{name}: {fault}" for fault in loader.find_faults(given[name], rehearsal)]
        return faults

    # The state of the run: the only place that reads the variables of hosts

    def _play(self) -> str:
        return str(self._task.get_play()._uuid)

    def _hosts(self) -> list[str]:
        anchors = set(self._anchors())
        return [host for host in self._vars["ansible_play_hosts_all"] if host not in anchors]

    def _anchors(self) -> list[str]:
        """Return the hosts that the playbook respond has besides its target: a run in one play has none."""
        return list(self._templar.template(self._vars.get(ANCHORS) or []))

    @cached_property
    def _registered(self) -> dict[str, dict[str, Any]]:
        # To put the variables of a host together costs time, and so does the search for templates: here are none.
        get = self._vars["hostvars"].raw_get
        found = ((host, get(host)) for host in self._hosts())
        return {host: {each: values.get(each) or {} for each in OF_HOSTS} for host, values in found}

    def _of_hosts(self, name: str) -> dict[str, Any]:
        return {host: values[name] for host, values in self._registered.items()}

    def _reports(self) -> dict[str, dict[str, Any]]:
        return {host: json.loads(said["report"]) for host, said in self._of_hosts(REPORT).items() if "report" in said}

    def _failed_before(self) -> list[str]:
        """Return the hosts for which an earlier batch of this play has failed."""
        reports = [said for said in self._of_hosts(SUMMARY).values() if said.get("play") == self._play()]
        return sorted({host for said in reports for host in said["summary"]["faults"]})

    def _latest(self) -> engine.Run:
        """Return the latest state of the run: a host that was lost in it has an older one."""
        kept = [*self._of_hosts(RUN).values(), self._vars.get(RUN) or {}]
        states = [said for said in kept if "state" in said]
        latest = max(states, key=lambda said: (said["serial"], said["turn"]), default=None)
        return json.loads(latest["state"]) if latest else engine.new_run(0, "", ())

    def _keep(self, run: engine.Run, lines: Sequence[str] = ()) -> dict[str, Any]:
        kept = {name: run[name] for name in ("serial", "batch", "turn", "turns", "do", "done")}
        kept.update(lines=list(lines), orders=self._complete(run), refused=" ".join(run["refused"]))
        kept["ssh_args"] = (self._vars.get(RUN) or {}).get("ssh_args") or _read_ssh_args()
        return {**kept, "state": json.dumps(run)}

    # Steps that are run once

    def _begin(self) -> dict[str, Any]:
        earlier = self._latest()
        # The batch before may have ended in the middle, when no host was left in it.
        earlier = engine.take_reports(earlier, self._reports_of_turn(earlier), time.time())
        own = set(self._hosts())
        batch = [host for host in self._vars["ansible_play_batch"] if host in own]
        same_play = earlier["play"] == self._play() and not set(earlier["batch"]) & set(batch)
        known = {**earlier["hosts"]} if same_play else {}
        run_id = earlier["id"] if same_play else secrets.token_hex(8)
        check_mode = bool(self._vars.get("ansible_check_mode"))
        only_marked, open_too = (self._is_set(name) for name in (ONLY_MARKED, OPEN_TOO))
        modes = (check_mode, run_id, only_marked, self._is_set(REHEARSAL))
        run = engine.new_run(earlier["serial"] + 1, self._play(), self._hosts(), known, *modes)
        if same_play:
            run["failed_before"] = self._failed_before()
        run["batch"] = batch
        reports = self._reports()
        there = set(self._vars["ansible_play_hosts"])
        for host in batch:
            said = reports.get(host, {})
            if host in there and said.get("play") == self._play() and "settings" in said:
                given = {
                    "settings": said["settings"],
                    "fault": said["fault"] or None,
                    "open_too": open_too,
                    "run": run_id,
                }
                run["hosts"][host] = {**NEW_HOST, **given}
        faults, doubts = self._check(
            {host: known["settings"] for host, known in run["hosts"].items() if host in batch and is_usable(known)},
            only_marked,
        )
        faults += settings.tell_wrong_switch("restore_open", self._templar.template(self._vars.get(OPEN_TOO)))
        run["refused"] = [*faults, "No host was asked."] if faults else []
        first = engine.decide(run, time.time())
        # Nearly each run asks first, and saves a turn. Its lines are said in the next one.
        kept = self._keep(first if first["do"] == engine.ASK else run)
        if doubts:
            kept["warnings"] = doubts
        return kept

    def _is_set(self, name: str) -> bool:
        return settings.as_boolean(self._templar.template(self._vars.get(name, False)))

    def _check(self, given: Mapping[str, Mapping[str, Any]], only_marked: bool = False) -> tuple[list[str], list[str]]:
        """Return the faults of the variables of the hosts, and doubts about them."""
        play = self._task.get_play()
        faults = settings.tell_wrong_words(given) + settings.tell_differences(given)
        faults += settings.tell_check_mode(self._task.check_mode, bool(self._vars.get("ansible_check_mode")))
        faults += settings.tell_step(bool(context.CLIARGS.get("step")))
        faults += settings.tell_skip_tags(() if self._is_in_one_play else play.skip_tags)
        faults += settings.tell_strategy(play.strategy, _is_linear(play.strategy))
        faults += settings.tell_max_fail(play.max_fail_percentage)
        faults += settings.tell_conditions(find_conditions(self._task))
        extra_variables = load_extra_vars(self._loader)
        faults += settings.tell_unknown(extra_variables)
        doubts = settings.tell_replaced(extra_variables)
        for hosts, own in settings.group_input(given):
            found = settings.tell_wrong_input(own, only_marked) + self._file_faults(own)
            faults += [hosts + fault for fault in found]
            doubts += [hosts + doubt for doubt in settings.tell_doubtful_input(own)]
        return faults, doubts

    def _decide(self) -> dict[str, Any]:
        now = time.time()
        run = self._latest()
        # Before hosts that are back in a later play get an order
        run = engine.take_reports(run, self._reports_of_turn(run), now)
        run = engine.enter_play(run, self._play(), self._vars["ansible_play_hosts"])
        run = engine.decide(run, now, returns=self._is_set(RETURNS))
        kept = self._keep({**run, "lines": []}, run["lines"])
        # In the playbook rehearse localhost has no settings: it takes no part, and is there for Ansible's sake.
        peers = {host: known for host, known in run["hosts"].items() if known["settings"] or not run["rehearsal"]}
        # One for all hosts, of which each leaves out itself where a file asks for it
        kept["peers"] = describe_hosts(peers) if run["do"] in (engine.PREPARE, engine.RESTORE) else {}
        kept["ends_play"] = not (self._is_in_one_play or run["orders"])
        return kept

    def _reports_of_turn(self, run: engine.Run) -> dict[str, dict[str, Any]]:
        """Return the reports on the latest turn; each host keeps its last report, also from an earlier turn."""
        if run["do"] == engine.APPROVE:
            return self._approvals(run)
        turn = (run["serial"], run["turn"])
        return {host: said for host, said in self._reports().items() if (said.get("serial"), said.get("turn")) == turn}

    def _approvals(self, run: engine.Run) -> dict[str, dict[str, Any]]:
        found = {}
        from_outside = self._of_hosts(ACKNOWLEDGED)
        for host, said in self._of_hosts(APPROVALS).items():
            results = _plain_results(said)
            if [item for item in results if item.get("item", {}).get("turn") == run["turn"]]:
                told = from_outside[host]
                outside = json.loads(told["outside"]) if told.get("turn") == run["turn"] else {}
                found[host] = {"results": [_take_outside(item, outside) for item in results]}
        return found

    def _acknowledge(self) -> dict[str, Any]:
        """Approve by Azure's control plane the events of this host's order for which the VM could not be asked."""
        said = self._vars[APPROVALS]
        items = [item for item in _plain_results(said) if "item" in item and could_not_be_asked(item)]
        told: dict[str, Any] = {"turn": self._vars[RUN]["turn"], "outside": "{}"}
        if not items:
            return told
        from ..plugin_utils._azure.fleet import ids_of_host, read_vm_id

        hostvars = self._vars["hostvars"]
        found = [read_vm_id(ids_of_host(hostvars, host)) for host in self._hosts()]
        subscriptions = sorted({each.subscription for each in found if each is not None})
        outside, warnings = {}, []
        for item in items:
            result = self._acknowledge_one(item["item"], subscriptions)
            warnings += result.pop("warnings", [])
            outside[item["item"]["event"]["event_id"]] = result
        if warnings:
            told["warnings"] = warnings
        changed = any(result.get("changed") for result in outside.values())
        return {**told, "outside": json.dumps(outside, default=str), "changed": changed}

    def _acknowledge_one(self, order: Mapping[str, Any], subscriptions: list[str]) -> dict[str, Any]:
        from ..plugin_utils._azure.acknowledge import SPEC, acknowledge
        from ..plugin_utils._azure.task import run_task

        seconds = float(order["timeout"])
        options = {
            "event_ids": [order["event"]["event_id"]],
            "resources_ready": order["resources_ready"],
            "subscriptions": subscriptions or None,
            "timeout": seconds,
        }
        check_mode = bool(self._task.check_mode)
        try:
            with limit(seconds + _GRACE):
                said = run_task(options, "scheduled_event_acknowledge", check_mode, SPEC, acknowledge)
        except TimeIsUpError:
            why = f"no answer within {seconds:g} s (event_response_ask_timeout)."
            return {"failed": True, "msg": why, "in_doubt": not check_mode}
        # Without the word nothing was sent: an option was wrong.
        return {"in_doubt": False, **said}

    # The orders of the hosts

    def _complete(self, run: engine.Run) -> dict[str, Any]:
        """Return the orders with the values that only the tasks need."""
        if run["do"] == engine.REFUSE:
            return dict(run["orders"])
        if run["do"] in (engine.PREPARE, engine.RESTORE):
            return self._complete_files(run)
        orders: dict[str, Any] = {}
        for host, order in run["orders"].items():
            given = run["hosts"][host]["settings"]
            timeout = int(float(given["ask_timeout"]))
            if run["do"] == engine.APPROVE:
                acknowledge = given["acknowledge"] == settings.FALLBACK
                orders[host] = [{**each, "timeout": timeout, "acknowledge": acknowledge} for each in order]
            else:
                orders[host] = {**order, "timeout": timeout}
        return orders

    def _complete_files(self, run: engine.Run) -> dict[str, Any]:
        orders: dict[str, Any] = {}
        for host, order in run["orders"].items():
            given = run["hosts"][host]["settings"]
            path = given[run["do"]]
            nothing = path in ("", settings.NOTHING) or order.get("only_marked")
            orders[host] = {
                **order,
                "path": "" if nothing else os.path.realpath(os.path.expanduser(path)),
                "timeout": int(float(given[f"{run['do']}_timeout"])),
                "mark": self._mark_of(run, host, order),
                "mark_timeout": int(float(given["ask_timeout"])),
            }
        # The files have the throttle of the play, as this task.
        throttle = int(self._templar.template(self._task.throttle) or 0)
        forks = min(count_forks(), throttle) if throttle > 0 else count_forks()
        longest = longest_files(((order["path"], order["timeout"]) for order in orders.values()), forks)
        # There is no date for what a large fleet may take with the greatest time-out.
        longest = min(longest, settings.MOST_SECONDS)
        return {host: {**order, "longest": max(longest, order["timeout"])} for host, order in orders.items()}

    def _mark_of(self, run: engine.Run, host: str, order: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the mark that a host gets before its preparation, or that is removed after its restore; None for
        none."""
        if run["check_mode"] or not order.get("is_marked", True):
            return None
        known = run["hosts"][host]
        since = format_utc(now_utc()) or ""
        if run["do"] == engine.RESTORE:
            before = find_mark(known["marks"] or (), order["event_id"], BY_RUN)
            since = (before and before["since"]) or since
        told = {**self._author, "run": run["id"], "boot_id": known["boot_id"], "vm_id": known["vm_id"]}
        return new_mark(BY_RUN, order["event"], since, **told)

    @cached_property
    def _author(self) -> dict[str, str | None]:
        """Return the controller, user and job of this run, for the marks. AWX gives each job its number."""
        job = self._vars.get("awx_job_id") or self._vars.get("tower_job_id")
        user = self._vars.get("awx_user_name") or self._vars.get("tower_user_name")
        return {
            "controller": socket.gethostname(),
            "user": str(user) if user else _user(),
            "job": str(job) if job else None,
        }

    # Steps of a host

    @cached_property
    def _host(self) -> str:
        return str(self._vars["inventory_hostname"])

    @cached_property
    def _run(self) -> engine.Run:
        """The run, as it was decided for this turn."""
        run: engine.Run = json.loads(self._vars[RUN]["state"])
        return run

    @property
    def _known(self) -> engine.Host:
        known: engine.Host = self._run["hosts"][self._host]
        return known

    @property
    def _order(self) -> dict[str, Any]:
        """The order of this host, with the values that only the tasks need."""
        order: dict[str, Any] = self._vars[RUN]["orders"][self._host]
        return order

    def _mark(self) -> dict[str, Any]:
        """Write the mark before the first task of a preparation or a restore; see that nobody else is at work (P3)."""
        order, restores = self._order, self._run["do"] == engine.RESTORE
        mark = order["mark"]
        if not mark:
            return {}
        if restores and order["phase"] != ENDED and not is_windows(self):
            why = self._reach(lambda: why_not_removable(self, mark), str)
            if why:
                return {"failed": True, "msg": why}
        written = self._write(mark, RESTORING if restores else PREPARING)
        others = {name: state for name, state in written.others.items() if not is_of_run(name, mark["run"])}
        hindering = find_hindering(others, restores, self._known["mark_states"], order["heeded"])
        if hindering:
            if restores:
                self._update(mark, PREPARED)
            return {"failed": True, "msg": _HINDERED, "hindered": hindering}
        if written.why and not restores:
            if is_windows(self):
                # A copy may be there all the same. It would say that the VM is out of service.
                self._reach(lambda: remove_windows_mark(self, self._vars, mark), str)
            return {"failed": True, "msg": f"The mark of this VM could not be written: {written.why}"}
        # Where a disk is full, a VM is put back all the same.
        return {}

    def _note_state(self, mark: Mapping[str, Any] | None, report: dict[str, Any]) -> list[str]:
        """Note on the VM that nobody is at work there any more; return a warning where that is not possible.

        Whether its mark was still there is added to the report.
        """
        restores = self._run["do"] == engine.RESTORE
        state, why = FAILED, None
        if mark and report.get("reached") and not restores:
            state = PREPARED
            why, report["was_marked"] = self._update(mark, PREPARED)
        elif mark and report.get("reached") is False and report["began"]:
            if restores and has_older(self._known, mark):
                why = self._remove(mark, True, ())
            else:
                why, _was_there = self._update(mark, FAILED)
        # Another sentence follows.
        told = verdict.tell_reason(why).rstrip(".") if why else ""
        return [_MARK_IS_OLD.format(host=self._host, state=state, why=told)] if why else []

    def _dated(self, mark: Mapping[str, Any], state: str) -> dict[str, Any]:
        return set_state(mark, state, now_utc(), float(self._order["longest"]))

    def _write(self, mark: Mapping[str, Any], state: str) -> Written:
        """Write a mark before a file begins, and look which others there are then."""
        mark = self._dated(mark, state)

        def write() -> Written:
            if is_windows(self):
                return Written(*write_windows_mark(self, self._vars, mark, self._known["marks_folder"]))
            return write_mark(self, mark)

        return self._reach(write, lambda why: Written(why, {}))

    def _update(self, mark: Mapping[str, Any], state: str) -> tuple[str | None, bool]:
        """Return why a mark could not be changed, None where it was, and whether it was still there."""
        mark = self._dated(mark, state)

        def update() -> tuple[str | None, bool]:
            return update_windows_mark(self, self._vars, mark) if is_windows(self) else update_mark(self, mark)

        return self._reach(update, lambda why: (why, True))

    def _remove(self, mark: Mapping[str, Any], only_own: bool, waited_out: Sequence[str]) -> str | None:
        """Remove the mark, and those of other runs for its event that do not restore at this moment; return why one is
        left, None where all are gone."""
        if not is_windows(self):
            return self._reach(lambda: remove_marks(self, mark, only_own, waited_out), str)
        for each in [mark, *find_removable(self._known, mark, only_own, waited_out)]:
            why = self._reach(lambda each=each: remove_windows_mark(self, self._vars, each), str)
            if why:
                return why
        return None

    def _reach(self, change: Callable[[], _Changed], fail: Callable[[str], _Changed]) -> _Changed:
        """Return the result of a change on the host, also where there is none, or no end.

        :param fail: returns the result from the reason.
        """
        seconds = float(self._order["mark_timeout"])
        try:
            with limit(seconds):
                return change()
        except TimeIsUpError:
            self._connection._shell.tmpdir = None
            return fail(f"no answer within {seconds:g} s (event_response_ask_timeout).")
        except AnsibleError as error:
            return fail(str(error))

    def _ask(self) -> dict[str, Any]:
        """Note the result of what this host had to do, and ask it."""
        run, questions = self._run, Questions(self, self._vars)
        report = self._outcome()
        warnings = self._note_state(self._order.get("mark"), report)
        if run["do"] == engine.WAIT:
            awaited = {name: run["hosts"][name] for name in run["orders"]}
            known, answer = questions.wait(self._known, self._order, awaited, f"{run['serial']}_{run['turn']}")
        else:
            known, answer = questions.ask(self._known)
        said = {name: answer.pop(name) for name in ("warnings", "deprecations") if name in answer}
        if warnings:
            said["warnings"] = [*warnings, *said.get("warnings", ())]
        return {**said, **self._reported({**report, "host": known}), "answer": answer}

    def _note(self) -> dict[str, Any]:
        """Note whether this host is restored."""
        report, order = self._outcome(), self._order
        if order["mark"] and report["reached"]:
            report["mark_left"] = self._remove(order["mark"], order["only_marked"], order["waited_out"])
        warnings = self._note_state(order["mark"], report)
        return {**self._reported(report), **({"warnings": warnings} if warnings else {})}

    def _reported(self, report: Mapping[str, Any]) -> dict[str, Any]:
        turn = {name: self._run[name] for name in ("serial", "turn")}
        return {"report": json.dumps({**report, **turn}, default=str)}

    def _outcome(self) -> dict[str, Any]:
        """Return the result of the file that was run, or of the question to the checker of the host."""
        if self._task.args.get("checker"):
            return self._read_checker()
        reached = self._task.args.get("reached")
        if reached is None:
            return {}
        if reached:
            return {"reached": True, "why": None}
        marked = self._vars.get(MARK) or {}
        hindered = list(marked.get("hindered") or ())
        return {"reached": False, "began": not marked.get("failed"), "why": self._reason(), "hindered": hindered}

    def _read_checker(self) -> dict[str, Any]:
        if is_windows(self):
            # No module of Python runs there, so the question itself has failed.
            return {"reached": False, "why": "There is no checker for Windows: give this host a file that prepares it."}
        order = self._order
        said = Questions(self, self._vars).ask_checker(self._task.args["checker"], float(order["timeout"]))
        # The number of "No such file". A program that ends with 2 says why.
        if said.get("rc") == 2 and not said.get("stdout") and not said.get("stderr"):
            return {"reached": False, "why": "The host has no checker: run install_checker for it."}
        # Its exit status is about the events: it has answered where it is one of these.
        if said.get("rc") not in (0, 1, 3):
            return {"reached": False, "why": _sentence(tell_failure(said))}
        told = read_checker(str(said.get("stdout")), order["event_id"])
        if told.preparing and not order["last"]:
            return {"reached": None, "why": None}
        return {"reached": not told.why_not, "why": told.why_not}

    def _reason(self) -> str:
        """Return in a rescue which task failed, and why. A template with ansible_failed_task would run its own."""
        task, failure = self._vars.get("ansible_failed_task") or {}, self._vars.get("ansible_failed_result") or {}
        if not failure:
            return _UNKNOWN
        reason = _HIDDEN if _is_hidden(task, failure) else tell_failure(failure)
        return _sentence(": ".join(part for part in (str(task.get("name") or ""), reason) if part))

    # The end

    def _report(self) -> dict[str, Any]:
        run = self._latest()
        if not run["serial"]:
            run = {**engine.new_run(0, self._play(), self._hosts()), "refused": [_NOT_BEGUN]}
        run = engine.take_reports(run, self._reports_of_turn(run), time.time())
        told = verdict.conclude(run, self._is_in_one_play)
        ends_play = not (self._is_in_one_play or told["summary"]["faults"])
        return {**told, "ends_play": ends_play, "by": self._host, "play": self._play()}

    def _fail(self) -> dict[str, Any]:
        """Fail for this host, and on one host also for those that Ansible has taken out of the play."""
        said, host = self._vars.get(SUMMARY), self._host
        if not isinstance(said, Mapping):
            return {"failed": True, "msg": _NOT_BEGUN}
        faults = said["summary"]["faults"]
        if not faults:
            return {}
        by = next((name for name in self._anchors() if name in self._vars["ansible_play_hosts"]), said["by"])
        # Hosts for which a file has ended the role are in the batch, and do not come here.
        gone = [name for name in said["away"] if self._is_in_one_play or name not in self._vars["ansible_play_batch"]]
        own = [name for name in faults if name == host or (host == by and name in gone)]
        if not own:
            return {}
        told = merge_reasons((name, fault) for name in own for fault in faults[name])
        return {"failed": True, "msg": " ".join(told)}


def _plain_results(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads(json.dumps(without_frames(said).get("results") or [], default=str))
    return [_readable(each) for each in results]


def _readable(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of an approval; of one that cannot be used nothing is known but the event."""
    failed = bool(result.get("failed") or result.get("unreachable"))
    fault = None if failed and "approvals" not in result else find_approval_fault(result)
    if fault:
        return {"item": result.get("item"), "failed": True, "msg": UNUSABLE.format(fault=fault)}
    return {**result, "msg": tell_failure(result)} if failed else result


def _take_outside(item: Mapping[str, Any], outside: Mapping[str, Any]) -> Mapping[str, Any]:
    said = outside.get(item.get("item", {}).get("event", {}).get("event_id"))
    return item if said is None else take_acknowledgement(item, said)


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may have a user without a name.
        return None


def _read_ssh_args() -> str:
    """Return the arguments for ssh of ansible.cfg or the environment, and those that find a dead connection."""
    # Ansible knows the options of a plugin when it has loaded it.
    connection_loader.get("ssh", class_only=True)
    given = constants.config.get_config_value("ssh_args", plugin_type="connection", plugin_name="ssh")
    return f"{given} {_FIND_DEAD_CONNECTION}"


def _is_linear(name: str) -> bool:
    """Tell whether hosts wait for each other under a strategy: by throttling, which Ansible allows no other."""
    strategy = strategy_loader.get(name, None, class_only=True)
    return bool(getattr(strategy, "ALLOW_BASE_THROTTLING", False))


def _is_hidden(task: Any, result: Any) -> bool:
    """Tell whether no_log hides the result, also where it is a template (which is not evaluated anew)."""
    no_log = str(task.get("no_log") or "").strip().lower()
    return bool(result.get("_ansible_no_log")) or no_log not in ("", "false", "no", "off", "n", "f", "0")


def _sentence(text: str) -> str:
    told = text[:_LONGEST_REASON] + ("…" if len(text) > _LONGEST_REASON else "")
    # Another sentence may follow.
    return told if told.endswith((".", "!", "?", "…")) else f"{told}."
