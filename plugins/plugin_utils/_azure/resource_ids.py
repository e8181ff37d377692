# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Ids of Azure Resource Manager: VMs, scale sets and availability sets; pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from ...module_utils._errors import excerpt
from ...module_utils._event.document import fold_case

VM, SCALE_SET, AVAILABILITY_SET = "virtualMachines", "virtualMachineScaleSets", "availabilitySets"
_KINDS = {kind.lower(): kind for kind in (VM, SCALE_SET, AVAILABILITY_SET)}

# A part of the path of a request: no slash, question mark, percent sign or space.
_PART = r"[\w.()~-]{1,128}"
_is_name = re.compile(_PART).fullmatch
_FOLDER = re.compile(
    rf"/subscriptions/({_PART})/resourcegroups/({_PART})/providers/microsoft\.compute/"
    rf"(?:(virtualmachines|virtualmachinescalesets|availabilitysets)|virtualmachinescalesets/({_PART})/virtualmachines)",
    re.IGNORECASE,
)
_LONGEST = 1000
_VMS = f"/{VM}/"
_OF_EVENT = "/providers/microsoft.maintenance/scheduledevents/"


class ResourceId(NamedTuple):
    """The id of a VM, a scale set or an availability set.

    :ivar path: the whole id, in Azure's spelling; ``str()`` is the same.
    """

    path: str
    name: str

    def __str__(self) -> str:
        return self.path

    @property
    def subscription(self) -> str:
        return self.path.split("/")[2]

    @property
    def kind(self) -> str:
        """One of this module's words."""
        return self.path.split("/")[-2]

    @property
    def key(self) -> str:
        """The id in the form in which ids are compared."""
        return fold_case(self.path)

    @property
    def group_key(self) -> str:
        """The beginning that the keys of all resources of its resource group have."""
        return self.key[: self.key.index("/providers/")] + "/"

    def member(self, name: str) -> ResourceId:
        """Return the VM of this name that an event of this resource lists, by the rule of Microsoft's page."""
        if name == self.name and _VMS in self.path:
            return self
        folder = self.path[: -len(self.kind) - len(self.name) - 1]
        return ResourceId(f"{folder}{VM}/{name}", name)


def read_resource_id(text: Any) -> ResourceId | None:
    """Return the id, or None where the text is not one.

    A VM of a uniform scale set is known by the name that its events have, SET_NUMBER.
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    folder, _slash, name = text.rstrip("/").rpartition("/")
    begins = _read_folder(folder)
    if begins is None or not _is_name(name):
        return None
    return ResourceId(begins + name, name if begins[-1] == "/" else f"{folder.split('/')[-2]}_{name}")


# An answer has few of them and thousands of names.
@lru_cache(maxsize=1024)
def _read_folder(text: str) -> str | None:
    """Return the beginning of the ids that begin so, in Azure's spelling; None where ids do not begin so."""
    found = _FOLDER.fullmatch(text)
    if found is None:
        return None
    subscription, group, kind, scale_set = found.groups()
    folder = f"/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute"
    return f"{folder}/{VM}/{scale_set}_" if kind is None else f"{folder}/{_KINDS[kind.lower()]}/"


def need_resource_id(text: Any, option: str) -> ResourceId:
    """Return the id.

    :raises ValueError: the option has none.
    """
    found = read_resource_id(text)
    if found is None:
        raise ValueError(
            f"{option} must be the id of a VM, a scale set or an availability set, such as /subscriptions/ID/"
            f"resourceGroups/GROUP/providers/Microsoft.Compute/virtualMachines/NAME, not {excerpt(str(text))}."
        )
    return found


def read_event_target(text: Any) -> ResourceId | None:
    """Return the resource of a row or message; the id is of an event of it, or of the resource alone."""
    if not isinstance(text, str):
        return None
    place = text.lower().find(_OF_EVENT)
    return read_resource_id(text if place < 0 else text[:place])
