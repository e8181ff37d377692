# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the actions made for the role event_response have in common. It goes before _attributes, which it completes."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This action changes nothing.
  diff_mode:
    support: N/A
    details:
      - This action changes nothing.
  idempotent:
    support: full
  action:
    description: Is an action plugin.
    support: full
  async:
    description: Can be used with C(async).
    support: none
"""
