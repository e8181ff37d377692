# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The faults of a file of tasks, before any host is asked. It is loaded as Ansible will load it, with its includes.

These functions get the objects that Ansible loads, and know only the names of their attributes.
"""

from __future__ import annotations

import os
import re
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from ...module_utils._errors import one_line


class _Search(NamedTuple):
    """The state of a search."""

    # A TaskLoader of _step/task_loader.py
    loader: Any
    # The files and roles that were searched
    seen: set[str]
    # The handlers that their tasks notify
    notified: set[str]
    # Whether a file that is included and not found is a fault
    strict: bool = True
    # Whether the skeleton of a runbook is no fault
    rehearsal: bool = False


_INCLUDES = ("include_tasks", "ansible.builtin.include_tasks", "ansible.legacy.include_tasks")
_ROLES = ("include_role", "ansible.builtin.include_role", "ansible.legacy.include_role")
_META = ("meta", "ansible.builtin.meta", "ansible.legacy.meta")
# Each takes hosts out of the play, also out of the tasks that would restore them. A role of its own may end.
_ENDS_OF_ROLE = ("end_host", "end_play", "end_batch")
_ENDS = (*_ENDS_OF_ROLE, "end_role")
# As YAML and Ansible read it
_TRUE = ("true", "yes", "on", "y", "t", "1", "1.0")
_EMPTY = "{path}: the file has no task. Write the tasks into it. To do nothing, set the variable to `nothing`."
_TAGS = (
    "{path}: no task is left of the file, because of its tags and those of the run, so a host would count as done "
    "although nothing ran. Give the tasks no tags, and start this without --tags and --skip-tags."
)
_PARTLY = (
    "{path}: --tags or --skip-tags leaves out tasks of the file ({names}), so a host would count as done without them. "
    "Start this without these options, and look for tags in ansible.cfg."
)
# Of the tasks that a sentence names
_MOST_NAMES = 3
_RUN_ONCE = (
    "{path}: run_once: true must not be used: the task runs for one host, and its result counts for all hosts, "
    "also for those that only wait. Use delegate_to without it."
)
_STOPS_ALL = (
    "{path}: any_errors_fatal: true must not be used: where the task fails for one host, Ansible ends the response for "
    "all hosts, also for those that only wait. Leave it out, or set it to false where the play sets it: an event is "
    "approved only if all its VMs are prepared."
)
_ACTS_FOR_ALL = (
    "{path}: {action} must not be used: Ansible runs it for the first host only, also its when, and its result "
    "counts for all hosts, also for those that only wait."
)
_FORGETS = (
    "{path}: meta: clear_host_errors must not be used: Ansible forgets which hosts have failed, so a host that is not "
    "prepared would count as prepared. Leave it out. To go on after a failure, use a block with rescue."
)
_WITHOUT_END = (
    "{path}, must have a timeout: it is a handler of the play, which the time-outs of this run do not limit. Give it, "
    "or the play, timeout: SECONDS."
)
_POLLS = (
    "{path}: async must have poll: 0: with any other value Ansible asks without a limit whether the job has ended, so "
    "a host whose connection dies would keep the run for hours. Wait by ansible.builtin.async_status with until, "
    "retries and delay."
)
_BOOTS = ("reboot", "win_reboot")
_BOOT = (
    "{path}: {action} must not be used: a host that boots after it was prepared is not prepared any more, and Azure "
    "may take it down in the middle of the boot that the file waits for. Boot the host in a run of its own."
)
# The first task of each file that the playbook new_runbook writes
_OF_SKELETON = "Check that this file is not the skeleton any more"
_SKELETON = (
    "{path}: nobody has written this file: its tasks only print lines, so a host would count as prepared, or as "
    "restored, although nothing was done. Write your own tasks into it, and delete its first task."
)
_INSTEAD_OF_PAUSE = " To wait N seconds, use ansible.builtin.wait_for with timeout: N."
# The next line says why.
_NO_CONTENTS = "Unable to retrieve file contents"
_POSITION = re.compile(r"(?:The error appears to be in '(?P<old>[^']+)': line |Origin: (?P<new>[^\n]+?):)(?P<line>\d+)")


def find_file_faults(path: str, loader: Any, folders: Sequence[str], rehearsal: bool = False) -> list[str]:
    """Return the faults of a file, and of the files it includes by a literal name; a sentence each.

    :param loader: a TaskLoader, which loads files, roles and handlers as Ansible does.
    :param folders: where Ansible looks for included files, besides the folder of the file that includes them.
    :param rehearsal: whether the skeleton of a runbook is no fault.
    """
    search = _Search(loader, set(), set(), rehearsal=rehearsal)
    faults = list(_find_file_faults(path, search, folders))
    # Ansible looks for a notified handler among all handlers of the play.
    return [*faults, *dict.fromkeys(_find_notified_faults(path, search, folders))]


def _find_file_faults(path: str, search: _Search, folders: Sequence[str], role: Any = None) -> Iterator[str]:
    if path in search.seen:
        return
    search.seen.add(path)
    try:
        tasks = list(_walk(search.loader.load_file(path, role)))
    except Exception as error:
        # Ansible has many errors, and any of them would stop the run when it loads the file. A role may have files that
        # are never included here, as for other systems.
        if role is None:
            yield tell_error(error, path)
        return
    # A file that another one includes may be empty.
    if not tasks and search.seen == {path}:
        yield _EMPTY.format(path=path)
    elif search.seen == {path}:
        yield from _find_tag_faults(path, tasks, search.loader)
    yield from _find_task_faults(path, tasks, search, [os.path.dirname(path), *folders], role)
    yield from _find_imported_handler_faults(tasks, search, folders)


def _find_tag_faults(path: str, tasks: Sequence[Any], loader: Any) -> Iterator[str]:
    left_out = [task for task in tasks if not loader.tags_let_run(task)]
    # Nobody expects these to run.
    unexpected = [task for task in left_out if not loader.has_tag_never(task)]
    if len(left_out) == len(tasks):
        yield _TAGS.format(path=path)
    elif unexpected:
        names = [_name(task) for task in unexpected[:_MOST_NAMES]]
        more = [f"{len(unexpected) - _MOST_NAMES} more"] if unexpected[_MOST_NAMES:] else []
        yield _PARTLY.format(path=path, names=", ".join(names + more))


def _find_task_faults(
    path: str, tasks: Sequence[Any], search: _Search, here: Sequence[str], role: Any = None
) -> Iterator[str]:
    """Return the faults of the tasks of a file, or of an included role, whose folder is path."""
    loader = search.loader
    search.notified.update(str(name) for task in tasks for name in _listed(task.notify))
    if not search.rehearsal and any(task.name == _OF_SKELETON for task in tasks):
        yield _SKELETON.format(path=path)
    for name, sentence in (("run_once", _RUN_ONCE), ("any_errors_fatal", _STOPS_ALL)):
        if any(_is_set(name, task) for task in tasks):
            yield sentence.format(path=path)
    if any(str(task.async_val or 0) != "0" and str(task.poll) != "0" for task in tasks):
        yield _POLLS.format(path=path)
    # Which action a template will name is not known; Ansible would warn that there is none of its name.
    known = [task for task in tasks if not _is_template(task.action)]
    for action in dict.fromkeys(task.action for task in known if task.action.rpartition(".")[2] in _BOOTS):
        yield _BOOT.format(path=path, action=action)
    for action in dict.fromkeys(task.action for task in known if loader.acts_for_all(task)):
        instead = _INSTEAD_OF_PAUSE if action.rpartition(".")[2] == "pause" else ""
        yield _ACTS_FOR_ALL.format(path=path, action=action) + instead
    for task in tasks:
        outer, folders = role, here
        # Of a role that is imported, as in a role that is included
        if role is None and task._role not in (None, loader.role):
            outer, folders = task._role, [os.path.join(task._role._role_path, "tasks"), *here]
        words = str(task.args.get("_raw_params") or "")
        if task.action in _META and words == "clear_host_errors":
            yield _FORGETS.format(path=path)
        elif task.action in _META and words in (_ENDS if outer is None else _ENDS_OF_ROLE):
            yield (
                f"{path}: meta: {words} must not be used: it takes hosts out of the run, which cannot restore them "
                "then. Use when, or a block with rescue."
            )
        elif task.action in _ROLES and not _is_template(f"{task._role_name} {task._from_files}"):
            yield from _find_role_faults(path, task, search, folders, outer)
        elif task.action in _INCLUDES and words and not _is_template(words):
            found = next((file for file in _candidates(words, folders) if os.path.isfile(file)), None)
            if found is not None:
                yield from _find_file_faults(found, search, folders, outer)
            elif outer is None and search.strict:
                yield f"{path}: include_tasks: there is no file {words} (looked in {here[0]})."


def _find_role_faults(path: str, task: Any, search: _Search, here: Sequence[str], outer: Any) -> Iterator[str]:
    try:
        role, blocks = search.loader.load_role(task)
    except Exception as error:
        if outer is None:
            yield tell_error(error, path)
        return
    folder = role._role_path
    # The same role may be included for other files of its own.
    key = f"{folder} {task._from_files}"
    if key not in search.seen:
        search.seen.add(key)
        folders = [os.path.join(folder, "tasks"), *here]
        tasks = list(_walk(blocks))
        yield from _find_task_faults(folder, tasks, search, folders, role)
        yield from _find_imported_handler_faults(tasks, search, folders)


def _find_imported_handler_faults(tasks: Sequence[Any], search: _Search, here: Sequence[str]) -> Iterator[str]:
    """Return the faults of the handlers of the roles that these tasks come from.

    The tasks of an imported role replace the import, but its handlers do not.
    """
    for role in (task._role for task in tasks if task._role is not None):
        folder = role._role_path
        if _handlers_key(role) not in search.seen:
            search.seen.add(_handlers_key(role))
            handlers = [handler for handler in _walk(search.loader.load_handlers(role)) if handler._role is role]
            folders = [os.path.join(folder, "handlers"), *here]
            yield from _find_task_faults(folder, handlers, search, folders, role)
            yield from _find_imported_handler_faults(handlers, search, folders)


def _handlers_key(role: Any) -> str:
    return f"{role._role_path} {role._from_files} handlers"


def _find_notified_faults(path: str, search: _Search, folders: Sequence[str]) -> Iterator[str]:
    """Return the faults of the handlers of the play, and of its other roles, that the file may notify."""
    # It is unknown here where Ansible looks for the files that they include.
    search = search._replace(strict=False)
    left = list(_walk(search.loader.load_play_handlers()))
    while True:
        notified = [handler for handler in left if _is_notified(handler, search.notified)]
        if not notified:
            return
        left = [handler for handler in left if handler not in notified]
        for handler in notified:
            named = f"{path}: handler {_name(handler)}, which it notifies"
            role = handler._role
            here = [os.path.join(role._role_path, "handlers"), *folders] if role is not None else folders
            # Those of a role that the file uses have its limit.
            of_file = role is not None and _handlers_key(role) in search.seen
            if not handler.timeout and not of_file:
                yield _WITHOUT_END.format(path=named)
            yield from _find_task_faults(named, [handler], search, here, role)


def _is_notified(handler: Any, notified: Iterable[str]) -> bool:
    """Tell whether a handler may be one of those; a template may mean any."""
    names = {handler.name, handler.get_name(include_role_fqcn=False), handler.get_name(include_role_fqcn=True)}
    topics = set(map(str, _listed(handler.listen)))
    if any(_is_template(name) for name in notified) or (notified and _is_template(str(handler.name))):
        return True
    return not topics.union(names).isdisjoint(notified)


def _name(task: Any) -> str:
    # A handler that only listens needs no name.
    return one_line(task.name or task.get_name(include_role_fqcn=False))


def _listed(value: Any) -> Sequence[Any]:
    """Return the members of a keyword that Ansible has not made a list yet."""
    return value if isinstance(value, (list, tuple)) else [] if value is None else [value]


def _is_set(name: str, task: Any) -> bool:
    """Tell whether a keyword of a task, or of its include, is surely true; a template is not known yet."""
    applied = task.args.get("apply") if task.action in (*_INCLUDES, *_ROLES) else None
    given = (getattr(task, name), applied.get(name) if isinstance(applied, Mapping) else None)
    return any(str(value).strip().lower() in _TRUE for value in given)


def _walk(entries: Sequence[Any]) -> Iterator[Any]:
    """Return the tasks of all blocks."""
    for entry in entries:
        parts = [getattr(entry, name, None) for name in ("block", "rescue", "always")]
        if any(part is not None for part in parts):
            for part in parts:
                yield from _walk(part or [])
        else:
            yield entry


def _candidates(name: str, folders: Sequence[str]) -> Iterator[str]:
    for folder in folders:
        yield os.path.join(folder, name)
        yield os.path.join(folder, "tasks", name)


def _is_template(text: str) -> bool:
    return "{{" in text or "{%" in text


def tell_error(error: Exception, path: str) -> str:
    """Return the first sentence of an error of Ansible's, and where in which file it is."""
    problem = getattr(getattr(error, "orig_exc", None), "problem", None)
    text = f"{error}\n{getattr(error, '_formatted_source_context', None) or ''}"
    position = _POSITION.search(text)
    where = path
    if position:
        where = f"{position['old'] or position['new']}, line {position['line']}"
    # From ansible-core 2.21 on the reason stands behind it on the same line.
    lines = [line.strip().removeprefix(_NO_CONTENTS).strip(" .") for line in text.splitlines()]
    said = f"YAML parsing failed: {problem}" if problem else next(filter(None, lines))
    return f"{where}: {said.rstrip('.')}."
