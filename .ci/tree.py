# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Make build/ansible_collections/fleetops/azure_maintenance anew, where Ansible finds the collection.

It is a copy of every file that git tracks or would track, because ansible-test refuses links. It is a git repository of
its own, because ansible-test and ansible-lint ask git for the files, and the checkout's git ignores all of build/.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from venvs import ROOT, clean_environment

COLLECTIONS = ROOT / "build"
TREE = COLLECTIONS / "ansible_collections" / "fleetops" / "azure_maintenance"


def make_tree() -> None:
    """Copy the checkout as it is now, uncommitted changes and all."""
    environment = clean_environment()
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(listing, cwd=ROOT, env=environment, text=True).split("\0")
    shutil.rmtree(TREE, ignore_errors=True)
    for name in filter(None, names):
        if os.path.lexists(ROOT / name):
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, TREE / name, follow_symlinks=False)
    subprocess.check_call(["git", "init", "--quiet", "."], cwd=TREE, env=environment)
    subprocess.check_call(["git", "add", "--all", "--force"], cwd=TREE, env=environment)


if __name__ == "__main__":
    make_tree()
