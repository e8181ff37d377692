# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Make a new copy of ansible_collections/fleetops/azure_maintenance below a folder, where Ansible finds the collection.

It is a copy of every file that git tracks or would track, because ansible-test refuses links. It is a git repository of
its own, because ansible-test and ansible-lint ask git for the files, and the checkout's git ignores all of build/.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from venvs import ROOT, clean_environment

COLLECTIONS = ROOT / "build"


def make_tree(collections: Path) -> Path:
    """Copy the checkout as it is now, uncommitted changes and all, and return where the copy is."""
    tree = collections / "ansible_collections" / "fleetops" / "azure_maintenance"
    environment = clean_environment()
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(listing, cwd=ROOT, env=environment, text=True).split("\0")
    shutil.rmtree(tree, ignore_errors=True)
    for name in filter(None, names):
        if os.path.lexists(ROOT / name):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    subprocess.check_call(["git", "init", "--quiet", "."], cwd=tree, env=environment)
    subprocess.check_call(["git", "add", "--all", "--force"], cwd=tree, env=environment)
    return tree


if __name__ == "__main__":
    make_tree(COLLECTIONS)
