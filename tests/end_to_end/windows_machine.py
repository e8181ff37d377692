# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services and files of a stand-in for a Windows VM, in a file of JSON, as modules of ansible.windows 3.3.0 treat them.

V is win_service.ps1, I win_service_info.ps1, F win_file.ps1, T win_stat.ps1, C win_copy.ps1, D win_find.ps1 and S
slurp.ps1, with the number of a line. The file has {"services": {NAME: STATE}, "files": {PATH: SIZE or TEXT},
"folders": [PATH], "broken": [MODULE], "behind_copy": FILES}; a service with the state "stuck" runs, and goes on to stop
for ever. The last are files that others write behind the first copy.
"""

from __future__ import annotations

import base64
import contextlib
import fnmatch
import hashlib
import json
import os
import re
from pathlib import Path, PureWindowsPath

OPTIONS = {
    "ansible.windows.win_service": {"name", "state", "force_dependent_services"},
    "ansible.windows.win_service_info": {"name"},
    "ansible.windows.win_file": {"path", "state"},
    "ansible.windows.win_stat": {"path", "get_checksum", "get_size"},
    "ansible.windows.win_find": {"paths", "patterns", "get_checksum", "checksum_algorithm"},
    "ansible.windows.win_copy": {
        "_copy_mode",
        "_original_basename",
        "backup",
        "dest",
        "directories",
        "files",
        "force",
        "src",
    },
    "ansible.windows.slurp": {"src"},
}
STUCK = "stuck"
PROGRAM_DATA = "C:\\ProgramData"
MARKS = f"{PROGRAM_DATA}\\azure-maintenance\\marks"


def run(path, name, options, check_mode, put):
    """Return the result of a module; a change is written down but in check mode.

    :param put: the files that were put on the VM, by their paths there.
    """
    kept = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    machine = {"services": {}, "files": {}, "folders": [], **kept}
    before = json.dumps(machine)
    machine["put"] = put
    if name in machine.get("broken", ()):
        return {"changed": False, "failed": True, "msg": "Zugriff verweigert"}
    result = MODULES[name](machine, **options)
    del machine["put"]
    if path and not check_mode and json.dumps(machine) != before:
        Path(f"{path}.new").write_text(json.dumps(machine), encoding="utf-8")
        os.replace(f"{path}.new", path)
    return result


def expand(path):
    """Return a path as Get-AnsibleParam of the type path gives it to a module, with Windows' separators."""
    return re.sub("%ProgramData%", lambda _found: PROGRAM_DATA, path, flags=re.IGNORECASE).replace("/", "\\")


def parents(path):
    """Return the folders in which a path lies, the nearest first."""
    return [str(parent) for parent in PureWindowsPath(path).parents][:-1]


def win_service(machine, name, state, force_dependent_services=False):
    services = machine["services"]
    if name not in services:
        # V:1021
        said = f"Service '{name}' is not installed, need to set 'path' to create a new service"
        return {"changed": False, "exists": False, "failed": True, "msg": said}
    # V:823-848; Stop-Service only warns where a service goes on to stop.
    changed = services[name] != state
    assert state in ("started", "stopped")
    services[name] = "stop_pending" if services[name] in (STUCK, "stop_pending") else state
    return {"changed": changed, "exists": True, "name": name, "state": services[name]}


def win_service_info(machine, name):
    state = machine["services"].get(name)
    # I:20-48, I:120-128
    shown = "started" if state == STUCK else state
    return {"changed": False, "exists": bool(state), "services": [{"name": name, "state": shown}] if state else []}


def win_file(machine, path, state):
    path = expand(path)
    files, folders = machine["files"], machine["folders"]
    there = path in files or path in folders
    if state == "absent":
        # F:106-110
        with contextlib.suppress(KeyError):
            del files[path]
        gone = [folder for folder in folders if path in (folder, *parents(folder))]
        machine["folders"] = [folder for folder in folders if folder not in gone]
        return {"changed": there}
    if state == "directory":
        if path in files:
            # F:114
            return {"changed": False, "failed": True, "msg": f"path {path} is not a directory"}
        if any(parent in files for parent in parents(path)):
            # F:149, in the language of Windows
            return {"changed": False, "failed": True, "msg": "Das Verzeichnis wurde nicht gefunden."}
        folders += [folder for folder in (path, *parents(path)) if folder not in folders]
        return {"changed": not there}
    # F:92-103: changed also where it is there
    assert state == "touch", state
    files.setdefault(path, 0)
    return {"changed": True}


def win_stat(machine, path, get_checksum, get_size=True):
    assert get_checksum is False
    path = expand(path)
    if path in machine["folders"]:
        # T:109-133
        stat = {"exists": True, "isdir": True, "isreg": False, "islnk": False, "path": path}
        return {"changed": False, "stat": stat}
    if path not in machine["files"]:
        # T:78
        return {"changed": False, "stat": {"exists": False}}
    size = {"size": size_of(machine["files"][path])} if get_size else {}
    return {"changed": False, "stat": {"exists": True, "isdir": False, "path": path, **size}}


def size_of(file):
    return file if isinstance(file, int) else len(file.encode())


def win_find(machine, paths, patterns, get_checksum, checksum_algorithm="sha1"):
    found, warnings = [], []
    for path in paths:
        # D:457: not expanded, but below the folder where PowerShell runs
        if path not in machine["folders"]:
            # D:230
            warnings.append(f"Argument path '{path}' does not exist or is not accessible, skipping")
            continue
        for name in machine["files"]:
            child = PureWindowsPath(name)
            if str(child.parent) == path and any(fnmatch.fnmatch(child.name, pattern) for pattern in patterns):
                size = size_of(machine["files"][name])
                told = {"path": name, "filename": child.name, "size": size, "islnk": False, "isreg": True}
                content = str(machine["files"][name]).encode()
                # D:301-302
                checksum = hashlib.new(checksum_algorithm, content).hexdigest() if get_checksum else None
                found.append({**told, "checksum": checksum})
    # D:462
    result = {"changed": False, "files": sorted(found, key=lambda file: file["path"]), "matched": len(found)}
    return {**result, "warnings": warnings} if warnings else result


def win_copy(machine, dest, _copy_mode, src=None, files=(), _original_basename=None, **_ignored):
    dest, known, folders = expand(dest), machine["files"], machine["folders"]
    result = {"changed": False}
    if _copy_mode == "query":
        changed = []
        for file in files:
            path = f"{dest}\\{file['dest']}"
            if path in folders:
                # C:282-285
                path = f"{path}\\{PureWindowsPath(file['src']).name}"
            content = str(known.get(path, "")).encode()
            # C:287-300
            if path not in known or hashlib.sha1(content).hexdigest() != file["checksum"]:
                changed.append(file)
        return {**result, "files": changed, "directories": [], "symlinks": []}
    assert _copy_mode == "single", _copy_mode
    if src not in machine["put"]:
        # C:432
        return {**result, "failed": True, "msg": f"Cannot copy src file: '{src}' as it does not exist"}
    # C:436-439
    path = f"{dest}\\{_original_basename}" if dest in folders else dest
    if parents(path)[0] not in folders:
        # C:448
        said = f"Destination directory '{parents(path)[0]}' does not exist"
        return {**result, "failed": True, "msg": said}
    # C:459
    known[path] = machine["put"][src]
    known.update(machine.pop("behind_copy", {}))
    return {"changed": True}


def slurp(machine, src):
    src = expand(src)
    if src in machine["folders"]:
        # S:21
        return {"changed": False, "failed": True, "msg": f"Path {src} is a directory"}
    if src not in machine["files"]:
        # S:24
        return {"changed": False, "failed": True, "msg": f"Path {src} is not found"}
    content = base64.b64encode(machine["files"][src].encode()).decode()
    # S:16-18
    return {"changed": False, "content": content, "encoding": "base64"}


MODULES = {
    "ansible.windows.slurp": slurp,
    "ansible.windows.win_copy": win_copy,
    "ansible.windows.win_find": win_find,
    "ansible.windows.win_service": win_service,
    "ansible.windows.win_service_info": win_service_info,
    "ansible.windows.win_file": win_file,
    "ansible.windows.win_stat": win_stat,
}
