#!/usr/bin/python
# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Everything happens in the action plugin of the same name, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: response_boot
short_description: Tell when a Windows host booted
version_added: 1.1.0
description:
  - Tells when a Windows host booted, because M(fleetops.azure_maintenance.scheduled_events_info) returns no C(boot_id)
    there.
  - Runs C(ansible.windows.setup) on a Windows host, and nothing on any other.
  - Made for the role P(fleetops.azure_maintenance.event_response#role).
extends_documentation_fragment:
  - fleetops.azure_maintenance._response
  - fleetops.azure_maintenance._attributes
attributes:
  action_group:
    support: none
    membership: []
  platform:
    platforms: posix, windows
requirements:
  - The collection C(ansible.windows) on the controller, for Windows hosts.
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- name: Ask when this host booted
  fleetops.azure_maintenance.response_boot:
  register: boot
"""

RETURN = r"""
booted_at:
  description:
    - When the host booted, in seconds since 1970 by the clock of the controller. It may be late by the time that the
      answer took, never early.
    - It is null on a host that does not run Windows.
  returned: success
  type: float
"""
