# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The clouds of Azure: where to log in, and where the control plane answers; pure."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple
from urllib.parse import urlsplit

from ...module_utils._errors import excerpt
from .errors import MALFORMED, AzureError

_METADATA = "/metadata/endpoints?api-version=2022-09-01"


class Cloud(NamedTuple):
    """A cloud.

    :ivar login: the address of its login endpoint.
    :ivar resource_manager: the address of its control plane.
    :ivar audience: of its tokens.
    :ivar known: it is one of Microsoft's. Microsoft's login endpoint does not know others, so it is not asked for them.
    """

    name: str
    login: str
    resource_manager: str
    audience: str
    known: bool = True

    @property
    def scope(self) -> str:
        return f"{self.audience}/.default"


_CLOUDS = {
    cloud.name.lower(): cloud
    for cloud in (
        Cloud(
            "AzureCloud",
            "https://login.microsoftonline.com",
            "https://management.azure.com",
            "https://management.azure.com",
        ),
        Cloud(
            "AzureChinaCloud",
            "https://login.chinacloudapi.cn",
            "https://management.chinacloudapi.cn",
            "https://management.chinacloudapi.cn",
        ),
        Cloud(
            "AzureUSGovernment",
            "https://login.microsoftonline.us",
            "https://management.usgovcloudapi.net",
            "https://management.usgovcloudapi.net",
        ),
    )
}


def find_cloud(name: str | None, read: Callable[[str], Any]) -> Cloud:
    """Return the cloud of this name, or the one whose metadata are at this address.

    :param name: None is Microsoft's public cloud.
    :param read: returns the JSON that is at an address.
    :raises ValueError: there is no such cloud.
    :raises AzureError: its metadata cannot be read.
    """
    if not name:
        return _CLOUDS["azurecloud"]
    if name.lower() in _CLOUDS:
        return _CLOUDS[name.lower()]
    if not _is_address(name):
        known = ", ".join(cloud.name for cloud in _CLOUDS.values())
        raise ValueError(
            f"cloud_environment must be {known}, or an address that begins with https://, not {excerpt(name)}."
        )
    address = name.rstrip("/")
    return _read_metadata(address, read(address + _METADATA))


def _read_metadata(address: str, content: Any) -> Cloud:
    # Some versions of the metadata list all clouds.
    entries = content if isinstance(content, list) else [content]
    found = [entry for entry in entries if isinstance(entry, Mapping)]
    for entry in found:
        manager = str(entry.get("resourceManager") or address).rstrip("/")
        if len(found) > 1 and manager.lower() != address.lower():
            continue
        authentication = entry.get("authentication")
        authentication = authentication if isinstance(authentication, Mapping) else {}
        login, audiences = authentication.get("loginEndpoint"), authentication.get("audiences")
        audience = audiences[0] if isinstance(audiences, list) and audiences else None
        if _is_address(login) and _is_address(manager) and isinstance(audience, str):
            # A slash at the end of an audience is part of it.
            return Cloud(address, str(login).rstrip("/"), manager, audience, known=False)
    raise AzureError(
        f"The metadata at {address} name no login endpoint with https:// and no audience. Check cloud_environment.",
        MALFORMED,
        200,
    )


def _is_address(text: Any) -> bool:
    """Tell whether a secret may be sent there: encrypted, and without a password in the address."""
    if not isinstance(text, str):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc
