# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The policy for scheduled events of a VM, scale set or availability set: as options, and as Azure has it; pure."""

from __future__ import annotations

import copy
import re
from typing import Any, Mapping, NamedTuple

from ...module_utils._errors import excerpt
from .resource_ids import AVAILABILITY_SET, SCALE_SET, VM, ResourceId

_MINUTES = re.compile(r"PT(\d{1,4})M")
_API_VERSION = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?")
# The limits of Azure
_FEWEST, _MOST = 5, 15
_POLICY, _PROFILE, _VM_PROFILE = "scheduledEventsPolicy", "scheduledEventsProfile", "virtualMachineProfile"
_PUBLISHING = ("scheduledEventsAdditionalPublishingTargets", "eventGridAndResourceGraph")
# Azure writes these itself.
_READ_ONLY = ("id", "name", "type", "etag", "systemData")
_READ_ONLY_PROPERTIES = ("provisioningState", "uniqueId", "timeCreated")


class Setting(NamedTuple):
    """One setting.

    :ivar part: of which object of Azure it is, the policy or the profile with the notices.
    :ivar path: where it is in there.
    """

    part: str
    path: tuple[str, ...]

    def read(self, parts: Mapping[str, Any]) -> Any:
        value: Any = parts[self.part]
        for name in self.path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def write(self, parts: Mapping[str, dict[str, Any]], value: Any) -> None:
        *folders, last = self.path
        place = parts[self.part]
        for name in folders:
            if not isinstance(place.get(name), dict):
                place[name] = {}
            place = place[name]
        place[last] = value


SETTINGS = {
    "publish": Setting(_POLICY, (*_PUBLISHING, "enable")),
    "publish_api_version": Setting(_POLICY, (*_PUBLISHING, "scheduledEventsApiVersion")),
    "approve_user_reboot": Setting(_POLICY, ("userInitiatedReboot", "automaticallyApprove")),
    "approve_user_redeploy": Setting(_POLICY, ("userInitiatedRedeploy", "automaticallyApprove")),
    "approve_all_instances_down": Setting(_POLICY, ("allInstancesDown", "automaticallyApprove")),
    "terminate_notice": Setting(_PROFILE, ("terminateNotificationProfile", "enable")),
    "terminate_notice_minutes": Setting(_PROFILE, ("terminateNotificationProfile", "notBeforeTimeout")),
    "os_image_notice": Setting(_PROFILE, ("osImageNotificationProfile", "enable")),
}


def check_options(options: Mapping[str, Any], resource: ResourceId) -> None:
    """Refuse an option that has a wrong value, or that this kind of resource cannot have.

    :raises ValueError: names the option.
    """
    minutes = options.get("terminate_notice_minutes")
    if minutes is not None and not _FEWEST <= minutes <= _MOST:
        raise ValueError(f"terminate_notice_minutes must be from {_FEWEST} to {_MOST}, not {minutes}.")
    version = options.get("publish_api_version")
    if version is not None and not _API_VERSION.fullmatch(version):
        raise ValueError(f"publish_api_version must be a date such as 2020-07-01, not {excerpt(version)}.")
    notices = [name for name in _named(options) if SETTINGS[name].part == _PROFILE]
    if notices and resource.kind == AVAILABILITY_SET:
        raise ValueError(f"An availability set has no {', '.join(notices)}: set it for its VMs.")


def check_member(options: Mapping[str, Any], resource: Mapping[str, Any]) -> None:
    """Refuse an option that a VM inherits from its set.

    :param resource: as Azure has it.
    :raises ValueError: names the option and the set.
    """
    named = [name for name in _named(options) if SETTINGS[name].part == _POLICY]
    for member_of in ("virtualMachineScaleSet", "availabilitySet"):
        found = _properties(resource).get(member_of)
        if named and isinstance(found, Mapping) and found.get("id"):
            raise ValueError(f"The VM inherits {', '.join(named)} from its set: set it for {found['id']}.")


def read_policy(resource: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return all settings of a resource as options have them, None where Azure has none."""
    parts = _parts(resource, kind)
    return {name: _from_azure(name, setting.read(parts)) for name, setting in SETTINGS.items()}


def merge_policy(policy: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wanted settings: those of the options, and the others as they are."""
    return {**policy, **{name: options[name] for name in _named(options)}}


class Change(NamedTuple):
    """The request with a change.

    :ivar method: PUT sends the resource as it was read but for the change; Azure must compare its ETag then.
    """

    method: str
    body: dict[str, Any]


def plan_change(resource: Mapping[str, Any], kind: str, options: Mapping[str, Any]) -> Change | None:
    """Return the request that gives the resource the settings of the options, None where it has them.

    An object that changes is sent whole: Azure might delete a part that is left out.
    """
    policy = read_policy(resource, kind)
    differing = [name for name in _named(options) if policy[name] != options[name]]
    if not differing:
        return None
    parts = copy.deepcopy(_parts(resource, kind))
    for name in differing:
        SETTINGS[name].write(parts, _to_azure(name, options[name]))
    changed = {SETTINGS[name].part for name in differing}
    if kind != SCALE_SET:
        return Change("PATCH", {"properties": {part: parts[part] for part in sorted(changed)}})
    if _POLICY not in changed:
        return Change("PATCH", {"properties": {_VM_PROFILE: {_PROFILE: parts[_PROFILE]}}})
    # Azure takes the policy of a scale set with the whole scale set only.
    body = {name: copy.deepcopy(value) for name, value in resource.items() if name not in _READ_ONLY}
    properties = {name: value for name, value in _properties(body).items() if name not in _READ_ONLY_PROPERTIES}
    properties[_POLICY] = parts[_POLICY]
    if _PROFILE in changed:
        properties[_VM_PROFILE] = {**(properties.get(_VM_PROFILE) or {}), _PROFILE: parts[_PROFILE]}
    return Change("PUT", {**body, "properties": properties})


def _named(options: Mapping[str, Any]) -> list[str]:
    return [name for name in SETTINGS if options.get(name) is not None]


def _properties(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    found = resource.get("properties")
    return found if isinstance(found, Mapping) else {}


def _parts(resource: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    properties = _properties(resource)
    around: Any = properties.get(_VM_PROFILE) if kind == SCALE_SET else properties if kind == VM else None
    profile = around.get(_PROFILE) if isinstance(around, Mapping) else None
    policy = properties.get(_POLICY)
    return {
        _POLICY: dict(policy) if isinstance(policy, Mapping) else {},
        _PROFILE: dict(profile) if isinstance(profile, Mapping) else {},
    }


def _from_azure(name: str, value: Any) -> Any:
    if name != "terminate_notice_minutes":
        return value
    found = _MINUTES.fullmatch(value) if isinstance(value, str) else None
    return int(found[1]) if found else value


def _to_azure(name: str, value: Any) -> Any:
    return f"PT{value}M" if name == "terminate_notice_minutes" else value
