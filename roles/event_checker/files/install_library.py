# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a folder hold the Python files given on stdin (JSON: path to content) and no others, and compile them.

The role runs this on the VM: one task in place of a copy for each of the program's many small files. It prints each
change, with --dry-run without making it. A folder of Python code that is not meant to be a package gets an empty
__init__.py, so that a namespace package of the same name elsewhere on the VM cannot take its place.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import py_compile
import sys

# The ending of a file that is not at work yet
NEW = ".new"


def main(root, dry_run):
    wanted = {os.path.join(root, path): content.encode("utf-8") for path, content in json.load(sys.stdin).items()}
    for folder in {parent for path in wanted for parent in parents(path, root)}:
        wanted.setdefault(os.path.join(folder, "__init__.py"), b"")
    compiled = {importlib.util.cache_from_source(path) for path in wanted}
    unwanted = sorted(stale(root, wanted.keys() | compiled))
    changed = [path for path, content in sorted(wanted.items()) if read(path) != content or not is_compiled(path)]
    for path in unwanted:
        print("remove", path)
    for path in changed:
        print("write", path)
    if dry_run:
        return
    # First all files beside the old ones: a run that is killed must not leave a program of old and new files, and a
    # check may start at any moment.
    try:
        new = [name for path in changed for name in write_beside(path, wanted[path])]
    except OSError:
        # A full disk needs the room.
        for path in stale(root, ()):
            if path.endswith(NEW):
                os.unlink(path)
        raise
    for name in new:
        os.replace(name + NEW, name)
    # One that an earlier run has left beside a file may have its name by now.
    for path in filter(os.path.lexists, unwanted):
        os.unlink(path)
        with contextlib.suppress(OSError):  # as far as the folders are empty now
            os.removedirs(os.path.dirname(path))


def parents(path, root):
    """Yield the folders between the root and the path."""
    folder = os.path.dirname(path)
    while folder != root:
        yield folder
        folder = os.path.dirname(folder)


def stale(root, known):
    for folder, _folders, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if path not in known:
                yield path


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write_beside(path, content):
    """Write the new content of a file and compile it, and return the names that they are to have without NEW."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path + NEW, "wb") as file:
        file.write(content)
    compiled = importlib.util.cache_from_source(path)
    py_compile.compile(path + NEW, cfile=compiled + NEW, dfile=path, doraise=True)
    return path, compiled


def is_compiled(path):
    """Tell whether this file was compiled as it is now; the header of the compiled one says when it was changed."""
    header = (read(importlib.util.cache_from_source(path)) or b"")[8:16]
    status = os.stat(path)
    return header == b"".join((int(n) & 0xFFFFFFFF).to_bytes(4, "little") for n in (status.st_mtime, status.st_size))


if __name__ == "__main__":
    os.umask(0o022)
    try:
        main(sys.argv[1], "--dry-run" in sys.argv[2:])
    except OSError as failure:
        sys.exit(f"{failure.filename or sys.argv[1]}: {failure.strerror}.")
