# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors

"""Build the file for Galaxy of this checkout; argument: the folder for it.

Galaxy shows the READMEs, but not the files that they link to. So there their links lead to the repository, at the tag
of the version. In the checkout they stay relative, and work in every clone and on every branch.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tree import make_tree
from venvs import ROOT

# In Markdown: the mark of a picture, the text of the link (in one line or two), its address, and the anchor in it
LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def absolute_links(text: str, place: Path, address: str, version: str) -> str:
    """Return a README with absolute links.

    :param place: its folder.
    :raises SystemExit: a link leads nowhere.
    """

    def replace(found: re.Match[str]) -> str:
        picture, start, path, anchor = found.groups(default="")
        target = (place / path).resolve()
        if not target.exists() or ROOT not in target.parents:
            sys.exit(f"{place.relative_to(ROOT)}/README.md links to {path}, which is not in the repository.")
        kind = "raw" if picture else "tree" if target.is_dir() else "blob"
        return f"{picture}{start}{address}/{kind}/{version}/{target.relative_to(ROOT)}{anchor})"

    return LINK.sub(replace, text)


def main() -> None:
    settings = dict(re.findall(r"^(repository|version): (\S+)$", (ROOT / "galaxy.yml").read_text(), re.MULTILINE))
    with tempfile.TemporaryDirectory() as name:
        copy = make_tree(Path(name))
        for readme in (ROOT / "README.md", *ROOT.glob("roles/*/README.md")):
            text = absolute_links(readme.read_text(), readme.parent, settings["repository"], settings["version"])
            (copy / readme.relative_to(ROOT)).write_text(text)
        command = ["ansible-galaxy", "collection", "build", "--force", "--output-path", sys.argv[1], str(copy)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
