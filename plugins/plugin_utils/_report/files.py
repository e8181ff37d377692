# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The folder of a report, to which others may write: only new files are opened for writing there (P11)."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from typing import Mapping

from ...module_utils._errors import one_line
from .slices import SliceError

_ENDING = ".json"
_MODE = 0o644


class FolderError(ValueError):
    """A folder or a file cannot be written; the message says which, and why."""


def make_folder(path: str, check_mode: bool) -> bool:
    """Make sure that files can be created in a folder; return whether the folder had to be created.

    :param check_mode: create nothing, and check whether it could be created.
    :raises FolderError: files cannot be created there.
    """
    nearest, missing = path, not os.path.lexists(path)
    try:
        if missing and not check_mode:
            os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise FolderError(f"{one_line(path)} cannot be written ({error.strerror})") from error
    while check_mode and not os.path.lexists(nearest):
        nearest = os.path.dirname(nearest)
    if not (os.path.isdir(nearest) and os.access(nearest, os.W_OK | os.X_OK)):
        raise FolderError(f"{one_line(path)} cannot be written (it must be a folder that this user may write)")
    return missing


def write_files(contents: Mapping[str, str]) -> None:
    """Write files, each in one step, and none of them where one cannot be written, as on a full disk.

    :param contents: by the path of each file.
    :raises FolderError: one cannot be written.
    """
    new: dict[str, str] = {}
    path = ""
    try:
        for path, content in contents.items():
            _write_new(path, content, new)
        for path, made in new.items():
            os.replace(made, path)
    except OSError as error:
        raise FolderError(f"{one_line(path)} cannot be written ({error.strerror})") from error
    finally:
        for made in new.values():
            with suppress(OSError):
                os.unlink(made)


def _write_new(path: str, content: str, new: dict[str, str]) -> None:
    descriptor, new[path] = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".azure-maintenance-")
    with open(descriptor, "w", encoding="utf-8", newline="") as file:
        file.write(content)
        os.fchmod(descriptor, _MODE)


def read_slices(folder: str) -> list[tuple[str, bytes]]:
    """Return the path and the content of each slice. Only regular files are slices, and no link is one.

    :raises SliceError: one, or the folder, cannot be read.
    """
    return [(path, content) for path in _find(folder) for content in [_read(path)] if content is not None]


def _find(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if entry.name.endswith(_ENDING) and not entry.name.startswith(".")]
    except FileNotFoundError:
        # In check mode nothing has created it.
        return []
    except OSError as error:
        raise SliceError(f"{one_line(folder)} cannot be read ({error.strerror}).") from error
    return sorted(entry.path for entry in found if entry.is_file(follow_symlinks=False))


def _read(path: str) -> bytes | None:
    try:
        # It may have become something else since it was found.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError as error:
        raise SliceError(f"Part {one_line(path)} cannot be read ({error.strerror}).") from error


def delete_slices(folder: str, before: float) -> list[str]:
    """Delete the slices that were written before a time; return a sentence for each that cannot be deleted.

    :param before: seconds since 1970.
    """
    faults = []
    for path in _find(folder):
        try:
            if os.lstat(path).st_mtime <= before:
                os.unlink(path)
        except OSError as error:
            faults.append(f"The old part {one_line(path)} cannot be deleted ({error.strerror}).")
    return faults
