# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Ids of Azure Resource Manager: VMs, scale sets and availability sets; pure."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ...module_utils._errors import excerpt
from ...module_utils._event.document import fold_case

VM, SCALE_SET, AVAILABILITY_SET = "virtualMachines", "virtualMachineScaleSets", "availabilitySets"
_KINDS = {kind.lower(): kind for kind in (VM, SCALE_SET, AVAILABILITY_SET)}

# A part of the path of a request: no slash, question mark, percent sign or space.
_PART = r"[\w.()~-]{1,128}"
_RESOURCE = re.compile(
    rf"/subscriptions/({_PART})/resourcegroups/({_PART})/providers/microsoft\.compute/"
    rf"(virtualmachines|virtualmachinescalesets|availabilitysets)/({_PART})(?:/virtualmachines/({_PART}))?",
    re.IGNORECASE,
)
_OF_EVENT = "/providers/microsoft.maintenance/scheduledevents/"


class ResourceId(NamedTuple):
    """The id of a VM, a scale set or an availability set.

    :ivar kind: one of this module's words, in Azure's spelling.
    """

    subscription: str
    group: str
    kind: str
    name: str

    def __str__(self) -> str:
        """Return the path of the resource."""
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
            f"/providers/Microsoft.Compute/{self.kind}/{self.name}"
        )

    @property
    def key(self) -> str:
        """The id in the form in which ids are compared."""
        return fold_case(str(self))

    def member(self, name: str) -> ResourceId:
        """Return the VM of this name that an event of this resource lists, by the rule of Microsoft's page."""
        return self._replace(kind=VM, name=name)


def read_resource_id(text: Any) -> ResourceId | None:
    """Return the id, or None where the text is not one.

    A VM of a uniform scale set is known by the name that its events have, SET_NUMBER.
    """
    found = _RESOURCE.fullmatch(text.rstrip("/")) if isinstance(text, str) else None
    if found is None:
        return None
    subscription, group, kind, name, instance = found.groups()
    kind = _KINDS[kind.lower()]
    if instance is not None:
        return ResourceId(subscription, group, VM, f"{name}_{instance}") if kind == SCALE_SET else None
    return ResourceId(subscription, group, kind, name)


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
