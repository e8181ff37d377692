# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The conditions around a task that decides for all hosts: one of them may leave out hosts unsaid."""

from __future__ import annotations

from typing import Any

from ..module_utils._errors import one_line


def find_conditions(task: Any) -> str:
    """Return the conditions of a task of Ansible as one text, also those at import_playbook; empty where there are
    none.
    """
    conditions = [*task.when, *(task.get_play()._included_conditional or ())]
    return " and ".join(dict.fromkeys(one_line(str(condition)) for condition in conditions))
