# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What tells one boot of a VM from the next."""

from __future__ import annotations


def read_boot_id(proc: str = "/proc") -> str | None:
    """Return what differs from boot to boot, None where the system does not tell.

    The start of process 1 tells apart the boots of a container, which all have the boot id of their host.
    """
    # Events are worth more than this: what a system hides counts as what it does not have.
    try:
        with open(f"{proc}/sys/kernel/random/boot_id", encoding="utf-8", errors="replace") as file:
            boot_id = file.read().strip()
    except OSError:
        return None
    try:
        with open(f"{proc}/1/stat", encoding="utf-8", errors="replace") as file:
            # The name of the program, in parentheses, may hold spaces.
            started = file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return boot_id or None
    return f"{boot_id}/{started}" if boot_id else None
