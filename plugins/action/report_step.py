# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of the playbooks fleet_report and fleet_history, most of which are carried out on the controller."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime, timezone
from typing import Any, Mapping

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from ..module_utils._errors import escape
from ..plugin_utils._conditions import find_conditions
from ..plugin_utils._failure_text import tell_error
from ..plugin_utils._report.settings import MERGE, PLAYBOOKS, read_settings, tell_misspelled
from ..plugin_utils._unsafe import mark_unsafe

_WEEK = 7 * 86400
_NOT_BEGUN = "No host was asked. Start the run without --tags, --skip-tags and --start-at-task."
_SKIP_ALWAYS = "With --skip-tags always Ansible leaves out the task that writes the files. Run this without it."
_SPEC = {"argument_spec": {"step": {"type": "str"}, "playbook": {"type": "str"}}}


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._vars: dict[str, Any] = task_vars or {}
        self._playbook = PLAYBOOKS[self._task.args["playbook"]]
        steps = {
            "check": self._check,
            "ask_checker": self._ask_checker,
            "ask_azure": self._ask_azure,
            "write": self._write,
        }
        try:
            result.update(mark_unsafe(steps[self._task.args["step"]]()))
        except ValueError as error:
            result.update(mark_unsafe({"failed": True, "msg": str(error)}))
        return result

    def _check(self) -> dict[str, Any]:
        """Check the settings, and create the folder."""
        # With the first plugin of a folder Ansible loads all of them, so each step imports only its own helpers.
        from ..module_utils._event.document import format_utc
        from ..plugin_utils._report.files import FolderError, make_folder

        given, faults = self._read_variables()
        faults += tell_misspelled(self._playbook, load_extra_vars(self._loader))
        conditions = find_conditions(self._task)
        if conditions:
            # The report would call the hosts that it leaves out silent.
            faults.append(f"when must not stand at import_playbook: choose the hosts by target. It is: {conditions}.")
        if "always" in self._task.get_play().skip_tags:
            faults.append(_SKIP_ALWAYS)
        settings: dict[str, Any] = {}
        if not faults:
            settings, faults = read_settings(self._playbook, given, self._vars.get("awx_job_id"))
        if faults:
            raise ValueError(" ".join([*faults, "No host was asked."]))
        try:
            folders = (settings["dir"], settings["slices_dir"])
            created = [make_folder(folder, self._task.check_mode) for folder in folders]
        except FolderError as error:
            raise ValueError(f"{self._playbook.name}_dir: {error}. No host was asked.") from error
        # No answer is older. In a large fleet the first ones are minutes old when they are written.
        begun = format_utc(datetime.now(timezone.utc))
        return {"changed": any(created), "settings": settings, "begun": begun}

    def _read_variables(self) -> tuple[dict[str, Any], list[str]]:
        """Return the values of the variables, and a sentence for each that cannot be evaluated."""
        given, faults = {}, []
        for name in self._playbook.defaults:
            variable = f"{self._playbook.name}_{name}"
            try:
                given[name] = self._templar.template(self._vars.get(variable))
            except AnsibleError as error:
                faults.append(f"{variable} cannot be evaluated: {tell_error(error)}")
        return given, faults

    def _ask_checker(self) -> dict[str, Any]:
        """Ask the checker of this host for its history."""
        from ..plugin_utils._load_action import load_action

        argv = [self._task.args["command"], "history", "--json"]
        result: dict[str, Any] = load_action(self, "ansible.builtin.command", {"argv": argv}).run(task_vars=self._vars)
        return result

    def _ask_azure(self) -> dict[str, Any]:
        """Ask Azure Resource Graph, in one question for all hosts."""
        from ..plugin_utils._azure.fleet import ask_for_hosts, ids_of_host, read_vm_id
        from ..plugin_utils._azure.task import run_on_controller

        hostvars, said = self._vars["hostvars"], f"__{self._playbook.name}_said"
        found = {}
        for host in self._hosts():
            # At last the VM's own answer
            told = (hostvars.raw_get(host).get(said) or {}).get("resource_id")
            found[host] = read_vm_id((*ids_of_host(hostvars, host), told))
        resources = {host: resource for host, resource in found.items() if resource is not None}
        with_causes = self._playbook.name == "fleet_history"
        return run_on_controller(self, _SPEC, lambda task: ask_for_hosts(task, resources, with_causes))

    def _write(self) -> dict[str, Any]:
        """Merge the answers of the hosts, or the slices of earlier runs, and write the files."""
        from ..module_utils._event.document import parse_utc
        from ..plugin_utils._report.slices import gc_paused

        ready = self._vars.get(f"__{self._playbook.name}_ready")
        if ready is None:
            raise ValueError(_NOT_BEGUN)
        settings = ready["settings"]
        formats, host_results = self._format()
        now = datetime.now(timezone.utc).replace(microsecond=0)
        with gc_paused():
            if settings["mode"] == MERGE:
                files, slices = {}, self._read_slices(settings, host_results.SLICE_FORMAT, now)
            else:
                begun = parse_utc(ready["begun"])
                slices = [host_results.make_slice(self._answers(), settings["part"], begun, self._azure(settings))]
                files = {os.path.join(settings["slices_dir"], f"{settings['part']}.json"): json.dumps(slices[0])}
            made = formats.format_slices(slices, now, self._hosts(), settings)
        for ending, text in made.files.items():
            files[os.path.join(settings["dir"], f"{self._playbook.file}.{ending}")] = text
        warnings = [] if self._task.check_mode else self._write_files(settings, files)
        # The page, or the slice where there is none
        written = (
            "Nothing is written in check mode." if self._task.check_mode else f"Written: {escape(list(files)[-1])}"
        )
        return {**self._told(settings["fail_within"], made, written), "warnings": warnings}

    def _format(self) -> Any:
        """Return the modules that write the files of this playbook and that read the answers of its hosts."""
        if self._playbook.name == "fleet_report":
            from ..plugin_utils._report.fleet import formats, host_results
        else:
            from ..plugin_utils._report.history import formats, host_results
        return formats, host_results

    def _hosts(self) -> list[str]:
        return [str(host) for host in self._vars["ansible_play_hosts_all"]]

    def _answers(self) -> dict[str, Any]:
        from ..plugin_utils._report.slices import plain_results

        # A registered answer holds no templates, and the search for them costs time.
        hostvars, name = self._vars["hostvars"], f"__{self._playbook.name}_said"
        return plain_results({host: hostvars.raw_get(host).get(name) or {} for host in self._hosts()})

    def _azure(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of the question to Azure Resource Graph; None where it was not asked."""
        from ..plugin_utils._report.slices import plain_results

        name = f"__{self._playbook.name}_azure"
        return plain_results({name: self._vars.get(name) or {}})[name] if settings["resource_graph"] else None

    def _read_slices(self, settings: Mapping[str, Any], slice_format: Any, now: datetime) -> list[dict[str, Any]]:
        from ..plugin_utils._report.files import read_slices
        from ..plugin_utils._report.slices import checked_slices, decode_slice

        name, folder = self._playbook.name, settings["slices_dir"]
        found = [(path, decode_slice(path, content)) for path, content in read_slices(folder)]
        if not found:
            raise ValueError(
                f"There is no part in {escape(folder)} to merge: run the slices first, with {name}_mode=part and the "
                f"same {name}_dir."
            )
        return checked_slices(slice_format, found, now, settings["max_age"])

    def _write_files(self, settings: Mapping[str, Any], files: Mapping[str, str]) -> list[str]:
        """Write the files and delete old ones; return a sentence for each that cannot be deleted."""
        from ..plugin_utils._report.files import FolderError, delete_slices, write_files

        try:
            write_files(files)
        except FolderError as error:
            raise ValueError(f"{self._playbook.name}_dir: {error}.") from error
        return delete_slices(settings["slices_dir"], time.time() - _WEEK) if settings["mode"] == MERGE else []

    def _told(self, within: str, made: Any, written: str) -> dict[str, Any]:
        stats = {f"{self._playbook.name}_counts": made.counts}
        if within:
            # A notification of AWX has no other way to tell why the job failed.
            stats[f"{self._playbook.name}_due"] = made.due
        return {
            "changed": True,
            "lines": [*made.lines, written],
            "failure": _tell_failure(within, made),
            "ansible_stats": {"data": stats, "per_host": False, "aggregate": True},
        }


def _tell_failure(within: str, made: Any) -> str:
    """Return why a run that was to fail where an event is due fails; empty where it does not."""
    if not within:
        return ""
    from ..plugin_utils._report.fleet.text import NOTHING_KNOWN, somebody_answered

    if made.due:
        return f"Due within {within} s: {'; '.join(made.due)}."
    return "" if somebody_answered(made.counts) else NOTHING_KNOWN
