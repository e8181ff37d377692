# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the command as a module, as the role does on the controller."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
