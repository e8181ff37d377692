# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command azure-maintenance in a folder of its own, with processes of its own in the place of units.

usage: python launched.py FOLDER COMMAND…
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import (
    cli,
    system,
)

FOLDER = Path(sys.argv[1])


def start_unit(number):
    """Do as systemd does: start it without waiting, and nothing where it is active already."""
    # The process holds this lock as long as it lives, however it ends.
    with open(FOLDER / "units" / str(number), "a+") as active:
        try:
            fcntl.flock(active, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        with open(FOLDER / "units.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, __file__, str(FOLDER), "respond", str(number)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[active.fileno()],
            )
        active.truncate(0)
        active.write(str(process.pid))
    # This one goes on by itself.
    process.returncode = 0
    return None


if __name__ == "__main__":
    cli.start_unit = start_unit
    boot_id = (FOLDER / "boot_id").read_text()
    system.read_boot_id = lambda: boot_id
    names = {name: str(FOLDER / name) for name in system.Folders._fields}
    names["config"] += ".json"
    os.umask(0o022)
    sys.exit(cli.main(sys.argv[2:], system.Folders(**names)))
