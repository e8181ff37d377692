# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Windows VMs for tests that run Ansible: stand-ins, no PowerShell runs. See connection/windows_stand_in.py."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import fleet, windows_machine

CONNECTIONS = str(Path(__file__).with_name("connection"))
WIN_COPY = Path(__file__).with_name("win_copy_action.py")
MODULES = (
    "setup",
    "slurp",
    "win_copy",
    "win_file",
    "win_find",
    "win_ping",
    "win_service",
    "win_service_info",
    "win_stat",
    "win_uri",
    "win_wait_for",
)
# The least that ansible-core takes for a module of PowerShell. No such file may lie in the collection itself.
MODULE = "#!powershell\n#AnsibleRequires -CSharpUtil Ansible.Basic\n"


def make_ansible_windows(folder):
    """Put into the folder a collection ansible.windows whose modules say nothing: the connection answers for them."""
    plugins = folder / "ansible_collections" / "ansible" / "windows" / "plugins"
    for kind in ("action", "modules"):
        (plugins / kind).mkdir(parents=True)
    for name in MODULES:
        (plugins / "modules" / f"{name}.ps1").write_text(MODULE)
    shutil.copy(WIN_COPY, plugins / "action" / "win_copy.py")
    return folder


def settings(collections=None):
    """Return the environment in which Ansible finds the connection and, if a folder is given, ansible.windows."""
    paths = [os.environ["ANSIBLE_COLLECTIONS_PATH"], *([str(collections)] if collections else [])]
    return {"ANSIBLE_CONNECTION_PLUGINS": CONNECTIONS, "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join(paths)}


def host(name, **variables):
    """Return the line of an inventory for a Windows VM.

    :param variables: of the connection, such as stand_in_imds, or any other.
    """
    words = [f"{key}={json.dumps(str(value))}" for key, value in variables.items()]
    return " ".join([name, "ansible_connection=windows_stand_in", *words]) + "\n"


def left_by_killed_run(event, vm_id, **more):
    """Return the mark as fleet.left_by_killed_run does, as a file of a Windows VM: {path: content}."""
    name, content = fleet.left_by_killed_run(event, vm_id, **more)
    return {f"{windows_machine.MARKS}\\{name}": content.decode()}
