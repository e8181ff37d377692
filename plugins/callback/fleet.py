# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet
type: stdout
short_description: Print the events of a whole fleet as one table
version_added: 1.0.0
description:
  - Prints the events that M(fleetops.azure_maintenance.scheduled_events_info) found on all hosts as one table at the
    end, one row an event. An event that many VMs report is one row that lists its VMs. The time from which Azure may
    start it stands beside the time until then, in UTC.
  - Started events come first, then the others in the order of their start, at the end those with an unknown start.
  - Below the table stand the hosts that gave no answer, each with a reason, and a line that counts the hosts.
    V(quiet) hosts have no event of those asked for, V(affected) hosts have some. V(unreachable) hosts could not be
    reached by Ansible. V(not on Azure) hosts have no metadata service. V(failed) hosts gave no answer for any other
    reason, or one that was empty or could not be read as a whole. A host whose task failed after its answer, as by
    C(failed_when), counts as V(failed), too, and stands under a heading of its own. VMs of an event that were not
    asked, or did not answer, are named before that line.
  - Of other tasks of a play, failures, unreachable hosts and the output of C(debug) are printed as they come, the
    rest is not. Other modules run by C(ansible) are printed as P(ansible.builtin.minimal#callback) does.
  - The questions of the role P(fleetops.azure_maintenance.event_response#role) make one table together, at the end of
    the run. An ended event has its outcome there, V(completed) or V(withdrawn), and no time.
  - With C(-v), every result is printed in full as well.
extends_documentation_fragment:
  - ansible.builtin.result_format_callback
notes:
  - The table is as wide as the terminal, or as the environment variable E(COLUMNS) says, else 80 columns. Descriptions
    are shown where there is room for them, and in a still wider one the ids of events and the times are whole. Where
    the VMs of an event have no room in its row, the row counts them, and they stand on at most two lines below it. The
    second ends with the number of those left out.
  - A VM is shown by its resource name, and with its name in the inventory in parentheses where that differs.
  - A run that is interrupted prints no table.
requirements:
  - Set as stdout callback. The command C(ansible) reads this setting only where callback plugins are switched on for
    it, by E(ANSIBLE_LOAD_CALLBACK_PLUGINS=1) or C(bin_ansible_callbacks=true) in C(ansible.cfg), and without C(-o).
seealso:
  - module: fleetops.azure_maintenance.scheduled_events_info
author:
  - fleetops contributors (@fleetops)
"""

import shutil
from collections import Counter
from datetime import datetime, timezone

from ansible import constants as C
from ansible.plugins.callback.minimal import CallbackModule as Minimal

from ..module_utils._errors import escape
from ..module_utils._event.document import fold_case
from ..plugin_utils._failure_text import tell_failure
from ..plugin_utils._masking import mask_secrets
from ..plugin_utils._report.fleet.host_results import (
    AFFECTED,
    FAILED,
    QUIET,
    UNREACHABLE,
    no_answer,
    read_answer,
)
from ..plugin_utils._report.fleet.table import fleet_lines
from ..plugin_utils._report.slices import mask_texts

QUERY = "fleetops.azure_maintenance.scheduled_events_info"
# The question of the role event_response
STEP = "fleetops.azure_maintenance.event_response_step"
DEBUG = "ansible.builtin.debug"
_LONGEST_FAILURE = 1000


class Table:
    """The answers to one task of a play."""

    def __init__(self, title):
        self.title = title
        self.answers = {}
        self.not_asked = set()


class Response:
    """The answers to the role event_response in a run, and the outcomes that it reports."""

    def __init__(self):
        self.answers = {}
        self.lost = {}
        self.outcomes = {}
        self._latest = {}

    def take(self, host, answer):
        """Keep the first answer of a host that is whole, with every event that was announced to it during the run."""
        known = self.answers.get(host, answer)
        events = {fold_case(event["event_id"]): event for event in (*answer["events"], *known["events"])}
        told = answer if known["reason"] is not None else known
        state = AFFECTED if events and told["state"] == QUIET else told["state"]
        self.answers[host] = {**told, "state": state, "events": list(events.values())}
        for event in answer["events"]:
            self._latest[fold_case(event["event_id"])] = {name: event[name] for name in ("event_status", "not_before")}

    def conclude(self, summary):
        events = summary.get("events")
        # A play of somebody else may give its own numbers this name.
        for event in events if isinstance(events, list) else ():
            if isinstance(event, dict) and event.get("outcome"):
                self.outcomes[fold_case(str(event.get("event_id")))] = str(event["outcome"])

    def all_answers(self):
        """Return each answer with its events as they were seen last, and the hosts that gave none."""
        known = [
            {**each, "events": [{**event, **self._latest[fold_case(event["event_id"])]} for event in each["events"]]}
            for each in self.answers.values()
        ]
        return known + [self.lost[host] for host in self.lost if host not in self.answers]


class CallbackModule(Minimal):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "fleetops.azure_maintenance.fleet"
    # From ansible-core 2.22 on, results come with their secrets, because ids may be equal to one. Ansible masks what is
    # printed.
    ANSIBLE_SUPPORTS_MASKING = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._ad_hoc = False
        self._printed = False
        self._response = Response()
        self._begin_play(None)

    def _begin_play(self, play_id):
        self._play_id = play_id
        self._tables = {}
        self._rounds = Counter()
        self._lost = {}

    def v2_playbook_on_start(self, playbook):
        self._ad_hoc = playbook._file_name == "__adhoc_playbook__"

    def v2_playbook_on_play_start(self, play):
        # Each batch of a play with serial starts it again.
        if play._uuid != self._play_id:
            self._end_play()
            self._begin_play(play._uuid)

    def v2_playbook_on_no_hosts_matched(self):
        # Ad hoc, Ansible warns of it by itself.
        if not self._ad_hoc:
            self._display.display("No hosts matched.", color=C.COLOR_SKIP)

    def v2_playbook_on_stats(self, stats):
        self._end_play()
        if self._response.answers:
            self._show(self._response.all_answers(), self._response.outcomes)

    def v2_runner_on_ok(self, result):
        stats = result._result.get("ansible_stats")
        if isinstance(stats, dict) and isinstance(stats.get("data", {}).get("event_response"), dict):
            self._response.conclude(stats["data"]["event_response"])
        if _is_query(result):
            self._take(result, Minimal.v2_runner_on_ok)
        elif result._task.resolved_action == STEP and "answer" in result._result:
            self._take_answer(result)
        elif self._ad_hoc or (self._run_is_verbose(result) and not result._task.loop):
            self._show_output(result)
        else:
            self._handle_warnings(result._result)

    def v2_runner_item_on_ok(self, result):
        if not _is_query(result) and not self._ad_hoc and self._run_is_verbose(result):
            self._show_output(result)

    def v2_runner_on_skipped(self, result):
        if _is_query(result):
            self._table(result).not_asked.add(result._host.get_name())
        elif self._ad_hoc:
            super().v2_runner_on_skipped(result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        if _is_query(result, failed=True):
            self._take(result, Minimal.v2_runner_on_failed, failed=True, lost=not ignore_errors)
        elif self._ad_hoc:
            super().v2_runner_on_failed(result, ignore_errors)
        else:
            self._tell(result, "FAILED, ignored" if ignore_errors else "FAILED", C.COLOR_ERROR)
            if not ignore_errors:
                self._lose(result, FAILED)
            if self._run_is_verbose(result):
                super().v2_runner_on_failed(result, ignore_errors)

    def v2_runner_on_unreachable(self, result):
        if _is_query(result):
            self._take(result, Minimal.v2_runner_on_unreachable, lost=True)
        elif self._ad_hoc:
            super().v2_runner_on_unreachable(result)
        else:
            self._tell(result, "UNREACHABLE", C.COLOR_UNREACHABLE)
            self._lose(result, UNREACHABLE)

    def _take(self, result, show, failed=False, lost=False):
        host = result._host.get_name()
        answer = mask_texts(read_answer(host, result._result, failed))
        self._table(result).answers[host] = answer
        if lost:
            self._lost[host] = {**answer, "events": []}
        if self._run_is_verbose(result):
            self._printed = True
            show(self, result)
        else:
            self._handle_warnings(result._result)

    def _take_answer(self, result):
        """Keep the answer of a host to the role event_response, which asks again and again."""
        host, said = result._host.get_name(), result._result["answer"]
        answer = mask_texts(read_answer(host, said, bool(said.get("failed"))))
        if "events" in said:
            # This run may restore the hosts that earlier runs left out of service, and reports them itself.
            self._response.take(host, {**answer, "out_of_service": []})
        else:
            self._response.lost[host] = answer
        self._handle_warnings(result._result)

    def _table(self, result):
        """Return the table in which this host has not answered yet: a repeated task begins another table."""
        task = result._task
        asked = (task.get_path(), result._host.get_name())
        self._rounds[asked] += 1
        return self._tables.setdefault((asked[0], self._rounds[asked]), Table(task.get_name()))

    def _show_output(self, result):
        """Print a result, but of a debug that tells people something only its text."""
        self._printed = True
        told = result._result.get("msg")
        lines = told if isinstance(told, list) else [told]
        is_text = result._task.resolved_action == DEBUG and all(isinstance(line, str) for line in lines)
        if not is_text or self._ad_hoc or self._display.verbosity:
            super().v2_runner_on_ok(result)
            return
        # One host tells what is true for all.
        host = "" if result._task.run_once else f"{result._host.get_name()} | "
        lines = [each for line in lines for each in line.splitlines()]
        for line in (f"{host}{result._task.name or DEBUG}:", *(f"  {line}" for line in lines)):
            self._display.display(escape(mask_secrets(line)))
        self._handle_warnings(result._result)

    def _tell(self, result, caption, color):
        """Print the failure of a task that is no query on one line."""
        title = result._task.get_name()
        # Mask before the cut: Ansible masks its output, but does not know the first half of a secret.
        line = f"{result._host.get_name()} | {title} | {caption}: {tell_failure(result._result)}"
        line = escape(mask_secrets(line))
        self._printed = True
        self._display.display(line[:_LONGEST_FAILURE] + ("…" if len(line) > _LONGEST_FAILURE else ""), color=color)
        self._handle_warnings(result._result)

    def _lose(self, result, state):
        """Keep the reason why a host may never reach a query of this play, so that the table can name it."""
        host = result._host.get_name()
        message = f"{result._task.get_name()}: {tell_failure(result._result)}"
        self._lost[host] = no_answer(host, state, "task_failed", message)

    def _end_play(self):
        for host, answer in self._lost.items():
            self._response.lost.setdefault(host, answer)
        for table in self._tables.values():
            if not table.answers:
                continue
            missing = [self._lost[host] for host in self._lost if host not in {*table.answers, *table.not_asked}]
            self._show([*table.answers.values(), *missing], {}, table.title if len(self._tables) > 1 else None)

    def _show(self, answers, outcomes, title=None):
        if self._printed:
            self._display.display("")
        self._printed = True
        if title is not None:
            self._display.display(f"{escape(title)}:")
        now = datetime.now(timezone.utc)
        for line in fleet_lines(answers, shutil.get_terminal_size().columns, now, outcomes):
            self._display.display(line)


def _is_query(result, failed=False):
    """Tell whether a result is an answer. Of a job (async with poll 0), async_status returns it.

    A job that was waited for (async with poll) may have failed without one.
    """
    action, said = result._task.resolved_action, result._result
    if action == "ansible.builtin.async_status":
        return "document_received" in said
    return action == QUERY and ("events" in said or "ansible_job_id" not in said or failed)
