# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Make a new copy of ansible_collections/fleetops/azure_maintenance below build/, where Ansible finds the collection.

It is a copy of every file that git tracks or would track, because ansible-test refuses links. It is a git repository of
its own, because ansible-test and ansible-lint ask git for the files, and the checkout's git ignores all of build/.

With a folder as the argument: build the file for Galaxy there. Galaxy shows the READMEs, but not what they link to, so
their links lead to the repository there, at the tag of the version. In the checkout they stay relative, and work in
every clone and on every branch.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from venvs import BUILD, ROOT, clean_environment

# In Markdown: the mark of a picture, the text of the link (in one line or two), its address, and the anchor in it
LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


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


def absolute_links(text: str, place: Path, address: str, version: str) -> str:
    """Return a README of the folder place with absolute links; exit where a link leads nowhere."""

    def replace(found: re.Match[str]) -> str:
        picture, start, path, anchor = found.groups(default="")
        target = (place / path).resolve()
        if not target.exists() or ROOT not in target.parents:
            sys.exit(f"{place.relative_to(ROOT)}/README.md links to {path}, which is not in the repository.")
        kind = "raw" if picture else "tree" if target.is_dir() else "blob"
        return f"{picture}{start}{address}/{kind}/{version}/{target.relative_to(ROOT)}{anchor})"

    return LINK.sub(replace, text)


def build_artifact(folder: str) -> None:
    settings = dict(re.findall(r"^(repository|version): (\S+)$", (ROOT / "galaxy.yml").read_text(), re.MULTILINE))
    with tempfile.TemporaryDirectory() as name:
        copy = make_tree(Path(name))
        for readme in (ROOT / "README.md", *ROOT.glob("roles/*/README.md")):
            text = absolute_links(readme.read_text(), readme.parent, settings["repository"], settings["version"])
            (copy / readme.relative_to(ROOT)).write_text(text)
        command = ["ansible-galaxy", "collection", "build", "--force", "--output-path", folder, str(copy)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        build_artifact(sys.argv[1])
    else:
        make_tree(BUILD)
