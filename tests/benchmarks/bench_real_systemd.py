# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""The campaign on real systemd: 300 random histories of a VM of the lab on each Debian, which takes hours."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))

from ansible_collections.fleetops.azure_maintenance.tests.campaign import real_systemd


def main() -> int:
    status = 0
    for debian in real_systemd.IMAGES:
        why = real_systemd.why_not_here(debian)
        if why:
            print(f"real systemd: Debian {debian} is left out: {why}")
        else:
            status |= real_systemd.main(["--debian", debian, "--vms", "4"])
    return status


if __name__ == "__main__":
    sys.exit(main())
