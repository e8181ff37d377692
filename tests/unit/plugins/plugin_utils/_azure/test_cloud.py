# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where to log in, and where the control plane answers."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.cloud import find_cloud
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.errors import AzureError

HERE = {
    "name": "StandIn",
    "resourceManager": "https://arm.example/",
    "authentication": {"loginEndpoint": "https://login.example/", "audiences": ["https://audience.example/"]},
}
ELSEWHERE = {**HERE, "resourceManager": "https://other.example"}


def refuse(address):
    raise AssertionError(f"asked {address}")


@pytest.mark.parametrize(
    ("name", "login", "scope"),
    [
        (None, "https://login.microsoftonline.com", "https://management.azure.com/.default"),
        ("", "https://login.microsoftonline.com", "https://management.azure.com/.default"),
        ("azurechinacloud", "https://login.chinacloudapi.cn", "https://management.chinacloudapi.cn/.default"),
        ("AzureUSGovernment", "https://login.microsoftonline.us", "https://management.usgovcloudapi.net/.default"),
    ],
)
def test_clouds_of_microsoft(name, login, scope):
    cloud = find_cloud(name, refuse)
    assert (cloud.login, cloud.scope, cloud.known) == (login, scope, True)


@pytest.mark.parametrize("content", [HERE, [ELSEWHERE, HERE, None], {**HERE, "resourceManager": None}])
def test_a_cloud_by_its_metadata(content):
    asked = []
    cloud = find_cloud("https://arm.example/", lambda address: asked.append(address) or content)
    assert asked == ["https://arm.example/metadata/endpoints?api-version=2022-09-01"]
    assert (cloud.login, cloud.resource_manager) == ("https://login.example", "https://arm.example")
    # As the Azure CLI has it, with both slashes
    assert (cloud.scope, cloud.known) == ("https://audience.example//.default", False)


@pytest.mark.parametrize(
    "name", ["AzureGermanCloud", "http://arm.example", "https://user:word@arm.example", "https://"]
)
def test_no_such_cloud(name):
    with pytest.raises(
        ValueError, match="cloud_environment must be AzureCloud, AzureChinaCloud, AzureUSGovernment, or"
    ):
        find_cloud(name, refuse)


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        "text",
        {"authentication": "text"},
        {**HERE, "authentication": {"loginEndpoint": "http://login.example", "audiences": ["a"]}},
        {**HERE, "authentication": {"loginEndpoint": "https://login.example", "audiences": []}},
        [ELSEWHERE, ELSEWHERE],
    ],
)
def test_metadata_that_name_no_place_for_a_secret(content):
    with pytest.raises(AzureError) as told:
        find_cloud("https://arm.example", lambda _address: content)
    assert told.value.reason == "malformed"
