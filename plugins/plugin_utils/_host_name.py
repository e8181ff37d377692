# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Names of VMs that a rulebook hands to Ansible as its limit; pure."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GROUPS = ("all", "ungrouped")


def is_host_name(name: str) -> bool:
    """Tell whether Ansible takes it for one host other than the controller: others are patterns, groups or files."""
    return bool(_NAME.fullmatch(name)) and name.lower() not in (*_GROUPS, "localhost")
