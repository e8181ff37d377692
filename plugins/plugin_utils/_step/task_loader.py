# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Load the files that a run is given as Ansible will load them, to find their faults before a host is asked."""

from __future__ import annotations

import inspect
import os
from typing import Any, Collection, Mapping, Sequence

from ansible.errors import AnsibleError
from ansible.playbook.block import Block
from ansible.playbook.helpers import load_list_of_blocks
from ansible.playbook.role import Role
from ansible.playbook.role.include import RoleInclude
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.loader import action_loader

from .._run.task_files import find_file_faults


class TaskLoader:
    """Loads files for the task of an action plugin, where its role will include them; its methods raise the errors of
    Ansible.

    :ivar role: the role that runs the files, None where a playbook runs them.
    """

    def __init__(self, task: Any, loader: Any, variables: Mapping[str, Any]) -> None:
        self._task = task
        self._loader = loader
        self.role = task._role
        self._variables = variables

    def find_faults(self, given: str, rehearsal: bool = False) -> Sequence[str]:
        """Return the faults of a file, a sentence each.

        :param rehearsal: whether the skeleton of a runbook is no fault.
        """
        path = os.path.realpath(os.path.expanduser(given))
        if not os.path.isfile(path):
            return [f"there is no file {path}. Give the path of a file with tasks."]
        role_tasks = [os.path.join(self.role._role_path, "tasks")] if self.role else []
        return find_file_faults(path, self, [*role_tasks, self._loader.get_basedir()], rehearsal)

    def load_file(self, path: str, role: Any) -> Sequence[Any]:
        """Return the blocks of a file.

        :param role: which includes it, None for the role that runs the files.
        """
        # Newer ansible-core runs no template of a file without this mark of trust.
        trusts = "trusted_as_template" in inspect.signature(self._loader.load_from_file).parameters
        tasks = self._loader.load_from_file(path, **({"trusted_as_template": True} if trusts else {}))
        if tasks is None:
            return []
        if not isinstance(tasks, list):
            raise AnsibleError(f"The file must hold a list of tasks, not {_kind(tasks)}")
        for task in tasks:
            if not isinstance(task, dict):
                raise AnsibleError(f"Each member of the list must be a task, not {_kind(task)}")
        play, variables = self._task._parent._play, self._task._variable_manager
        role = role or self.role
        parent = Block(play=play, role=role)
        # As in the tasks that will include the file; that of the play takes effect when the response is over.
        parent.any_errors_fatal = False
        parent.tags = list(self._task.tags)
        parent.collections = self._task.collections
        include = TaskInclude.load(
            {"include_tasks": {"file": path}}, block=parent, role=role, variable_manager=variables, loader=self._loader
        )
        loaded: Sequence[Any] = load_list_of_blocks(
            tasks, play=play, parent_block=include, role=role, variable_manager=variables, loader=self._loader
        )
        return loaded

    def load_role(self, task: Any) -> tuple[Any, Sequence[Any]]:
        """Return the role that a task includes, and its blocks."""
        play = task._parent._play
        include = RoleInclude.load(
            task._role_name,
            play=play,
            variable_manager=self._task._variable_manager,
            loader=self._loader,
            collection_list=task.collections,
        )
        role = Role.load(include, play, from_files=task._from_files, from_include=True, validate=False)
        blocks: Sequence[Any] = role.compile(play=play)
        # Ansible returns the same handlers when they are asked for again.
        for block in [*blocks, *self.load_handlers(role)]:
            block._parent = task.build_parent_block()
        return role, blocks

    def load_handlers(self, role: Any) -> Sequence[Any]:
        """Return the blocks with the handlers of a role, and of those it depends on."""
        blocks: Sequence[Any] = role.get_handler_blocks(self._task._parent._play)
        return blocks

    def load_play_handlers(self) -> Sequence[Any]:
        """Return the blocks with the handlers of the play and of all its roles."""
        play = self._task.get_play()
        # Those of a role are the play's own only once Ansible runs the play.
        return [*play.handlers, *(block for role in play.roles for block in self.load_handlers(role))]

    def acts_for_all(self, task: Any) -> bool:
        """Tell whether the action of a task runs once for all hosts, as the strategy linear finds out."""
        action = action_loader.get(task.action, class_only=True, collection_list=task.collections)
        return bool(getattr(action, "BYPASS_HOST_LOOP", False))

    def tags_let_run(self, task: Any) -> bool:
        """Tell whether the tags of a task, and those with which the run was started, let it run."""
        play = self._task.get_play()
        return self._evaluate_tags(task, play.only_tags, play.skip_tags)

    def has_tag_never(self, task: Any) -> bool:
        """Tell whether a task runs only where the run is started with one of its tags."""
        return not self._evaluate_tags(task, ("all",), ())

    def _evaluate_tags(self, task: Any, only: Collection[str], skip: Collection[str]) -> bool:
        try:
            return bool(task.evaluate_tags(only, skip, self._variables))
        except AnsibleError:
            # A tag that uses a variable of the file is not known yet.
            return True


def _kind(value: Any) -> str:
    return "a mapping" if isinstance(value, Mapping) else f"{str(value)[:60]!r}"
