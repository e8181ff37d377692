# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the files given on stdin (JSON: path to content) below a directory, those that differ; print their paths.

The role runs this on the host: one task in place of a copy for each of the program's many small files.
"""

from __future__ import annotations

import json
import os
import sys


def main(directory, dry_run):
    for path, content in sorted(json.load(sys.stdin).items()):
        target = os.path.join(directory, path)
        wanted = content.encode("utf-8")
        if os.path.exists(target):
            with open(target, "rb") as file:
                if file.read() == wanted:
                    continue
        print(path)
        if not dry_run:
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            with open(target, "wb") as file:
                file.write(wanted)


if __name__ == "__main__":
    try:
        main(sys.argv[1], "--dry-run" in sys.argv[2:])
    except OSError as failure:
        sys.exit(f"{failure.filename or sys.argv[1]}: {failure.strerror}.")
