# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""The campaign: a million random histories of a VM, in which no property of DESIGN section 12 may be broken.

CAMPAIGN_HISTORIES gives another number of histories, CAMPAIGN_FIRST the first seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).resolve().parents[1] / "campaign" / "run.py"
MILLION = 1_000_000


def main() -> int:
    number = int(os.environ.get("CAMPAIGN_HISTORIES", MILLION))
    first = int(os.environ.get("CAMPAIGN_FIRST", "0"))
    processes = min(number, os.cpu_count() or 1)
    share = -(-number // processes)
    started = []
    for start in range(first, first + number, share):
        count = min(share, first + number - start)
        command = [sys.executable, str(RUN), "--first", str(start), "--number", str(count)]
        started.append(subprocess.Popen(command))
    return max(process.wait() for process in started)


if __name__ == "__main__":
    sys.exit(main())
