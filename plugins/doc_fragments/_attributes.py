# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attributes that the modules share."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  action_group:
    description:
      - Use C(group/fleetops.azure_maintenance.imds) in C(module_defaults) to set the options of every module
        at once.
    support: full
    membership:
      - fleetops.azure_maintenance.imds
  check_mode:
    description: Can run in C(check_mode) and report its changes without making them.
  diff_mode:
    description: Shows its changes in diff mode, in C(check_mode) the changes that it would make.
  idempotent:
    description: When run twice in a row outside check mode with the same options, the second run changes nothing.
  platform:
    description: Where the module runs.
    platforms: posix
    support: full
"""
