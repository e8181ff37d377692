# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put back the playbooks that a run of the role has replaced which was lost before it had checked the new ones.

The role runs this on the VM: end_lost_run.py PLAYBOOK_FOLDER LIST_OF_PLAYBOOKS CONFIGURATION. Ansible keeps each file
that it replaces as NAME.PID.DATE~, and the role removes these copies at its end. Where the configuration was replaced
after a copy was made, the new playbooks had been checked, and the copy is only removed. It prints each change.
"""

from __future__ import annotations

import json
import os
import re
import sys

_COPY = re.compile(r"(.+)\.[0-9]+\.[0-9]{4}-[0-9]{2}-[0-9]{2}@[0-9]{2}:[0-9]{2}:[0-9]{2}~", re.DOTALL)


def main(playbook_folder, list_of_playbooks, configuration):
    try:
        with open(list_of_playbooks, "rb") as file:
            installed = json.load(file)
    except (OSError, ValueError):
        installed = None
    if not isinstance(installed, list):
        # Nothing is known to be the role's.
        return
    checked_at = os.stat(configuration).st_mtime if os.path.exists(configuration) else 0.0
    for path, copies in find_copies(playbook_folder, installed).items():
        # After several lost runs the oldest is the one that was checked.
        newer = [copy for copy in copies if changed_at(copy) > checked_at]
        for copy in newer[:1]:
            os.replace(copy, path)
            print("put back", path)
        for copy in [copy for copy in copies if copy not in newer[:1]]:
            os.unlink(copy)
            print("remove", copy)


def find_copies(playbook_folder, installed):
    """Return the paths of the replaced playbooks, each with its copies, the oldest first."""
    found = {}
    for folder, _folders, names in os.walk(playbook_folder):
        for match in filter(None, map(_COPY.fullmatch, names)):
            path = os.path.join(folder, match[1])
            if os.path.relpath(path, playbook_folder) in installed:
                found.setdefault(path, []).append(os.path.join(folder, match[0]))
    return {path: sorted(copies, key=changed_at) for path, copies in found.items()}


def changed_at(path):
    """Return when a copy was made: it has kept the time of the file's content."""
    return os.lstat(path).st_ctime


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as failure:
        sys.exit(f"{failure.filename}: {failure.strerror}.")
