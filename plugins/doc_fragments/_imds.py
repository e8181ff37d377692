# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of every module, and where it runs; the twin of imds_argument_spec in module_utils/_module/interface.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
requirements:
  - Python 3.8 or newer on the host, except for Windows hosts
  - the collection ansible.windows on the controller, for Windows hosts only
attributes:
  platform:
    description: Where the module runs.
    support: full
    platforms: posix, windows
    details:
      - A Windows host is asked by M(ansible.windows.win_uri). All else runs on the controller there.
      - It has not been run on a real Windows host yet.
options:
  endpoint:
    description:
      - Where the metadata service answers, as C(http://HOST[:PORT][/PREFIX]).
      - Another value than the default is for a simulator, or for a VM outside a virtual network.
      - If not set, the variable C(azure_maintenance_endpoint) of the host is used. All roles and playbooks of this
        collection take it too, so that one variable points everything at a simulator.
      - If that is not set either, or empty, the environment variable E(AZURE_IMDS_ENDPOINT) of the target is used, if
        it is set there. On a Windows host it is used only where C(environment) of the task sets it.
      - A proxy is never used and a redirect never followed.
      - It is no secret. Messages, and so reports, contain it. One with a user or a password is refused.
    type: str
    default: http://169.254.169.254
  api_version:
    description:
      - Version of C(/metadata/scheduledevents). It has a version list of its own, other than C(/metadata/instance).
      - Older versions lack fields (RV(ignore:events[].description), RV(ignore:events[].event_source),
        RV(ignore:events[].duration_seconds)) and some event types.
    type: str
    default: "2020-07-01"
  connect_timeout:
    description:
      - Seconds to wait for a connection, more than 0 and at most 86400.
      - A machine that is not an Azure VM fails after this time at the latest. A Windows host may take longer, because
        there a request has no such limit of its own.
    type: float
    default: 3.0
  timeout:
    description:
      - Seconds for the whole conversation with the metadata service, retries included. More than 0 and at most 86400.
      - Azure may hold the first answer up to two minutes while it switches Scheduled Events on for the VM.
    type: float
    default: 150.0
  discover_endpoint:
    description:
      - If nothing answers at O(endpoint), look up the address that DHCP option 245 names in the lease files of
        dhclient, systemd-networkd, dhcpcd and NetworkManager, and ask there. Nothing is written.
      - Refused on a Windows host, because no module reads its leases.
    type: bool
    default: false
  resource_name:
    description:
      - The name that the events call this VM by. It is the VM's resource name, not its host name.
      - If not set, the metadata service is asked for it, by C(/metadata/instance/compute). Only an answer with the vmId
        of a VM counts. Anything else is asked again until O(timeout).
      - Classic VMs have no name there and must set it. Right after a boot others have none either, so a 404 is asked
        again for some seconds.
      - A text that cannot be the name of a VM, such as one with a space, is refused.
    type: str
"""
