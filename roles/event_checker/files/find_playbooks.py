# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print as JSON which files the entries of event_checker_playbooks mean, and under which names they go to the VM.

The role runs this on the controller: find_playbooks.py PLAYBOOK_FOLDER WORKING_FOLDER ENTRY...
A file keeps its name, a folder too with all that is in it; of a folder that ends in a slash only the content goes.
The playbooks of this collection are never meant: one is called restore.yml, as a user's may be.
"""

from __future__ import annotations

import json
import os
import sys

COLLECTION = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))


def main(playbook_folder, working_folder, *entries):
    is_ours = os.path.realpath(playbook_folder) == os.path.join(COLLECTION, "playbooks")
    searched = [working_folder] if is_ours else [playbook_folder, working_folder]
    sources = {}
    for entry in entries:
        if not entry.strip():
            # As a path it would be the whole folder.
            sys.exit("an entry is empty.")
        places = [os.path.join(folder, entry) for folder in searched]
        found = [path for path in places if os.path.isdir(path) or os.path.isfile(path)]
        if not found:
            where = f" in {working_folder}" if is_ours else f", neither in {playbook_folder} nor in {working_folder}"
            sys.exit(f"there is no {entry}{where}.")
        for name, source in files_of(found[0]):
            if name.startswith("../"):
                sys.exit(f"{entry} would be installed outside the folder of the playbooks: name the folder itself.")
            if sources.setdefault(name, source) != source:
                sys.exit(f"both {sources[name]} and {source} would be installed as {name}.")
    folders = {folder for name in sources for folder in parents(name)}
    files = [
        {
            "name": name,
            "source": source,
            "mode": "0700" if os.access(source, os.X_OK) else "0600",
            "is_vaulted": is_vaulted(source),
        }
        for name, source in sorted(sources.items())
    ]
    print(json.dumps({"folders": sorted(folders), "files": files}))


def is_vaulted(path):
    """Tell whether Ansible decrypts a file when it copies it."""
    try:
        with open(path, "rb") as file:
            return file.read(15) == b"$ANSIBLE_VAULT;"
    except OSError as error:
        sys.exit(f"{path} cannot be read: {error.strerror}.")


def files_of(start):
    """Yield each file as its name on the VM and its path here, without the folders of Python and git."""
    if not os.path.isdir(start):
        yield os.path.basename(start), start
        return
    above = start if start.endswith("/") else os.path.dirname(start)
    for folder, folders, names in os.walk(start, followlinks=True):
        wanted = sorted(set(folders) - {"__pycache__", ".git"})
        folders[:] = [name for name in wanted if not leads_back(os.path.join(folder, name), start)]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                yield os.path.relpath(path, above), path


def leads_back(folder, start):
    """Tell whether a folder is, by a link, one of those from start on that it lies in."""
    above = folder
    while len(above) > len(start):
        above = os.path.dirname(above)
        if os.path.samefile(folder, above):
            return True
    return False


def parents(name):
    folder = os.path.dirname(name)
    while folder:
        yield folder
        folder = os.path.dirname(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
