# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services and files of a stand-in for a Windows VM, in a file of JSON, as modules of ansible.windows 3.3.0 treat them.

V is win_service.ps1, I win_service_info.ps1, F win_file.ps1 and T win_stat.ps1, with the number of a line. The file has
{"services": {NAME: STATE}, "files": {PATH: SIZE}}; a service with the state "stuck" runs, and goes on to stop for ever.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

OPTIONS = {
    "ansible.windows.win_service": {"name", "state", "force_dependent_services"},
    "ansible.windows.win_service_info": {"name"},
    "ansible.windows.win_file": {"path", "state"},
    "ansible.windows.win_stat": {"path", "get_checksum"},
}
STUCK = "stuck"


def run(path, name, options, check_mode):
    """Return the result of a module; a change is written down but in check mode."""
    machine = json.loads(Path(path).read_text(encoding="utf-8"))
    result = MODULES[name](machine, **options)
    if not check_mode:
        Path(path).write_text(json.dumps(machine), encoding="utf-8")
    return result


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
    files = machine["files"]
    there = path in files
    if state == "absent":
        # F:106-110
        with contextlib.suppress(KeyError):
            del files[path]
        return {"changed": there}
    # F:92-103: changed also where it is there
    assert state == "touch", state
    files.setdefault(path, 0)
    return {"changed": True}


def win_stat(machine, path, get_checksum):
    assert get_checksum is False
    if path not in machine["files"]:
        # T:78
        return {"changed": False, "stat": {"exists": False}}
    return {"changed": False, "stat": {"exists": True, "isdir": False, "size": machine["files"][path]}}


MODULES = {
    "ansible.windows.win_service": win_service,
    "ansible.windows.win_service_info": win_service_info,
    "ansible.windows.win_file": win_file,
    "ansible.windows.win_stat": win_stat,
}
