# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The entries for the checker in an allow list of the guest proxy agent (Metadata Security Protocol)."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import PATHS

_NAME = "azure-maintenance"
# The user of the units
_USER = "root"


def allow_list_rules() -> dict[str, Any]:
    """Return the ``rules`` of an access control profile that let in the checker, and nobody else."""
    privileges = [{"name": f"{_NAME}-{path.rpartition('/')[2]}", "path": path} for path in PATHS]
    return {
        "privileges": privileges,
        "roles": [{"name": _NAME, "privileges": [each["name"] for each in privileges]}],
        # The agent compares the path behind all links. The units run this same program.
        "identities": [{"name": _NAME, "userName": _USER, "exePath": os.path.realpath("/proc/self/exe")}],
        "roleAssignments": [{"role": _NAME, "identities": [_NAME]}],
    }
