# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Azure answers where it is asked which VM this is, for servers that a test makes up."""

from __future__ import annotations

import json
import uuid
from typing import Any

PATH = "/metadata/instance/compute"
TARGET = f"{PATH}?api-version=2021-02-01"


def vm_id_of(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def resource_id_of(name: str) -> str:
    return f"/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/{name}"


def compute(vm: str, **members: Any) -> bytes:
    """Return the JSON of /metadata/instance/compute of a VM.

    :param members: replace members of it, or leave one out where the value is ....
    """
    content = {
        "location": "westeurope",
        "name": vm,
        "osProfile": {"computerName": "db01"},
        "resourceId": resource_id_of(vm),
        "storageProfile": {"dataDisks": [{"lun": "0"}, {"lun": "1"}]},
        "tagsList": [{"name": "team", "value": "data"}],
        "vmId": vm_id_of(vm),
        **members,
    }
    return json.dumps({key: value for key, value in content.items() if value is not ...}).encode()
