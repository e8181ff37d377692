# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Read, write and remove the marks on a Windows VM, by modules of ansible.windows.

Ordinary users may write into a new folder there, and no module tells which owner of a file is the user of the task.
So all marks count: it is worse to leave a VM out of service than to restore one that is in service.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import PureWindowsPath
from typing import Any, Mapping

from ...module_utils._errors import excerpt
from ...module_utils._event.marks import (
    ENDING,
    LARGEST,
    MOST_MARKS,
    NO_MARK,
    decode,
    encode,
    file_name,
    is_of_run,
    patterns_on_vm,
    select_marks,
    unreadable,
)
from .transport import RunModule, WindowsHostError, run_to_end

CHANGE = "ansible.windows.win_file"
COPY = "ansible.windows.win_copy"
FIND = "ansible.windows.win_find"
LOOK = "ansible.windows.win_stat"
READ = "ansible.windows.slurp"
FOLDER = r"%ProgramData%\azure-maintenance\marks"


def find_folder(run_module: RunModule) -> str | None:
    """Return the path of the folder of the marks, None where there is none.

    :raises WindowsHostError: nobody knows.
    """
    stat = _read(run_module, LOOK, {"path": FOLDER, "get_checksum": False, "get_size": False}, "stat")
    return str(stat["path"]) if stat["exists"] else None


def read_marks(run_module: RunModule, folder: str | None, vm_id: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the marks of a Windows VM, and their faults, as read_marks() of _event/marks.py does.

    :param folder: that find_folder() returned.
    :raises WindowsHostError: the marks cannot be read.
    """
    # win_find warns where there is no folder; and only win_find does not expand variables of the environment.
    if folder is None:
        return [], []
    options = {"paths": [folder], "patterns": [f"*{ENDING}"], "get_checksum": False}
    files = _read(run_module, FIND, options, "files")
    return select_marks([_read_file(run_module, file) for file in files[:MOST_MARKS]], vm_id)


def write_mark(
    run_module: RunModule, run_action: RunModule, mark: Mapping[str, Any], folder: str | None
) -> tuple[str | None, dict[str, str]]:
    """Write a mark, and look which others there are then; return why it could not be written, None where it was, and
    the states of the marks of others, by their names.

    :param run_action: runs a module that has an action plugin of the same name.
    :param folder: that find_folder() returned.
    :raises WindowsHostError: the VM could not be told to.
    """
    try:
        content = encode(mark)
    except ValueError as error:
        return str(error), {}
    why = None if folder else _failure(run_to_end(run_module, CHANGE, {"path": FOLDER, "state": "directory"}))
    why = why or _put(run_action, mark)
    if why is not None:
        return why, {}
    own = file_name(mark)
    options = {
        "paths": [folder or find_folder(run_module)],
        "patterns": patterns_on_vm(mark),
        "get_checksum": True,
        "checksum_algorithm": "sha256",
    }
    found = {PureWindowsPath(file["path"]).name: file for file in _read(run_module, FIND, options, "files")}
    # A copy may end in its middle, and a folder in the place of the file takes it.
    if found.get(own, {}).get("checksum") != hashlib.sha256(content).hexdigest():
        why = f"{_path(mark)} does not have the content that was written."
    of_others = [name for name in found if name != own and not is_of_run(name, mark["run"])]
    # One that cannot be read may be written at this moment.
    states = {name: _read_file(run_module, found[name])["state"] or "" for name in of_others[:MOST_MARKS]}
    return why, states


def update_mark(run_module: RunModule, run_action: RunModule, mark: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Write a mark of now in the place of one that was written; return why it could not be written, None where it was,
    and whether the one before was still there.

    :raises WindowsHostError: the VM could not be told to.
    """
    options = {"path": _path(mark), "get_checksum": False, "get_size": False}
    was_there = bool(_read(run_module, LOOK, options, "stat")["exists"])
    return _put(run_action, mark), was_there


def _put(run_action: RunModule, mark: Mapping[str, Any]) -> str | None:
    return _failure(run_to_end(run_action, COPY, {"content": encode(mark).decode(), "dest": _path(mark)}))


def remove_mark(run_module: RunModule, mark: Mapping[str, Any]) -> str | None:
    """Remove a mark; return why it could not be removed, None where it is gone.

    :raises WindowsHostError: the VM could not be told to.
    """
    return _failure(run_to_end(run_module, CHANGE, {"path": _path(mark), "state": "absent"}))


def _path(mark: Mapping[str, Any]) -> str:
    return f"{FOLDER}\\{file_name(mark)}"


def _read(run_module: RunModule, module: str, options: dict[str, Any], key: str) -> Any:
    result = run_to_end(run_module, module, options)
    if result.get("failed") or key not in result:
        raise WindowsHostError(f"{module} could not read the marks of this VM: {_said(result)}")
    return result[key]


def _read_file(run_module: RunModule, file: Mapping[str, Any]) -> dict[str, Any]:
    path, size = str(file["path"]), file["size"]
    if file["islnk"] or size > LARGEST:
        return unreadable(path, NO_MARK)
    result = run_to_end(run_module, READ, {"src": path})
    why = _failure(result)
    return unreadable(path, why) if why is not None else decode(path, base64.b64decode(result["content"]))


def _failure(result: Mapping[str, Any]) -> str | None:
    return _said(result) if result.get("failed") else None


def _said(result: Mapping[str, Any]) -> str:
    return excerpt(str(result.get("msg") or "it told nothing").strip())
