# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The id of the current boot of a VM."""

from __future__ import annotations

import os

# Each boot runs it once, a soft reboot too, and nobody can restart it: the unit has RefuseManualStop=yes.
_ONCE_A_BOOT = "systemd-tmpfiles-setup.service"


def read_boot_id(proc: str = "/proc", units: str = "/run/systemd/units") -> str | None:
    """Return a text that differs from boot to boot, None where the system has none.

    The start of process 1 tells apart the boots of a container, which all have the boot id of their host.

    A soft reboot (``systemctl soft-reboot``, systemd 254 and later) stops and starts all services, and keeps the
    kernel, process 1 and /run (systemd-soft-reboot.service(8)). The id of the run of a service that each boot runs
    once shows it: systemd keeps that id as a link for the journal, which every user can read (unit_export_state_files()
    in src/core/unit.c). Seen on systemd 257: daemon-reload, daemon-reexec and a restart of the journal leave it, a
    soft reboot changes it. systemd promises these links to nobody else; without them a soft reboot is not noticed.
    """
    # Events matter more than the boot id: a file that cannot be read counts as missing.
    try:
        with open(f"{proc}/sys/kernel/random/boot_id", encoding="utf-8", errors="replace") as file:
            boot_id = file.read().strip()
    except OSError:
        return None
    if not boot_id:
        return None
    return "/".join(filter(None, [boot_id, _start_of_process_1(proc), _run_of_this_boot(units)]))


def _start_of_process_1(proc: str) -> str | None:
    try:
        with open(f"{proc}/1/stat", encoding="utf-8", errors="replace") as file:
            # The name of the program, in parentheses, may hold spaces.
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _run_of_this_boot(units: str) -> str | None:
    try:
        return os.readlink(f"{units}/invocation:{_ONCE_A_BOOT}")
    except OSError:
        return None
