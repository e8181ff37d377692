# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who logs in, by options, environment and file: the order of azure.azcollection."""

from __future__ import annotations

import re

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.credentials import (
    CERTIFICATE,
    CLI,
    MANAGED,
    SECRET,
    WORKLOAD,
    read_login,
)

OPTIONS = {"client_id": "o-client", "secret": "o-secret", "tenant": "o-tenant"}
ENVIRONMENT = {
    "AZURE_CLIENT_ID": "e-client",
    "AZURE_SECRET": "e-secret",
    "AZURE_TENANT": "e-tenant",
    "AZURE_SUBSCRIPTION_ID": "e-subscription",
}
POD = {
    "AZURE_CLIENT_ID": "p-client",
    "AZURE_TENANT_ID": "p-tenant",
    "AZURE_FEDERATED_TOKEN_FILE": "/var/run/secrets/token",
}
PROFILE = {"AZURE_PROFILE": "other"}
PUBLIC = {"cloud_environment": "AzureCloud"}
OTHERS = {"subscription_id": "o-subscription", **PUBLIC}
FILE = """
[default]
subscription_id = f-subscription
client_id = f-client
secret = f%secret
tenant = f-tenant
cloud_environment = AzureChinaCloud

[other]
client_id = g-client
tenant = g-tenant
x509_certificate_path = /etc/g.pem
"""


@pytest.mark.parametrize(
    ("options", "environment", "file", "kind", "known"),
    [
        (OPTIONS, ENVIRONMENT, FILE, SECRET, {"client_id": "o-client", "subscription_id": "e-subscription"}),
        ({}, ENVIRONMENT, FILE, SECRET, {"client_id": "e-client", "secret": "e-secret"}),
        ({}, {}, FILE, SECRET, {"secret": "f%secret", "cloud_environment": "AzureChinaCloud"}),
        ({"profile": "other"}, ENVIRONMENT, FILE, CERTIFICATE, {"client_id": "g-client", "certificate": "/etc/g.pem"}),
        ({"auth_source": "credential_file"}, ENVIRONMENT, FILE, SECRET, {"client_id": "f-client"}),
        ({"auth_source": "env", **OPTIONS}, ENVIRONMENT, FILE, SECRET, {"client_id": "e-client"}),
        ({}, {}, None, CLI, {"client_id": None}),
        ({"auth_source": "cli"}, ENVIRONMENT, FILE, CLI, {"secret": None, "subscription_id": "e-subscription"}),
        ({"auth_source": "msi"}, {}, FILE, MANAGED, {"client_id": None}),
        ({"auth_source": "msi", "client_id": "o-client"}, ENVIRONMENT, FILE, MANAGED, {"client_id": "o-client"}),
        ({}, POD, None, WORKLOAD, {"tenant": "p-tenant", "token_file": "/var/run/secrets/token"}),
        ({}, {**POD, **ENVIRONMENT}, None, SECRET, {"client_id": "e-client"}),
        ({"auth_source": "workload"}, {**POD, **ENVIRONMENT}, None, WORKLOAD, {"tenant": "e-tenant"}),
        ({**OPTIONS, "secret": "", "x509_certificate_path": "/c.pem"}, {}, None, CERTIFICATE, {"secret": None}),
        (PUBLIC, {**ENVIRONMENT, "AZURE_CLOUD_ENVIRONMENT": "AzureUSGovernment"}, None, SECRET, PUBLIC),
        # The section has both, and the task names others.
        ({"profile": "default", **OTHERS}, ENVIRONMENT, FILE, SECRET, {"client_id": "f-client", **OTHERS}),
        ({"profile": "default"}, ENVIRONMENT, FILE, SECRET, {"subscription_id": "f-subscription"}),
        # As azure.azcollection: the section that the environment names goes before its other variables.
        ({}, {**ENVIRONMENT, **PROFILE}, FILE, CERTIFICATE, {"client_id": "g-client"}),
        ({"auth_source": "env"}, {**ENVIRONMENT, **PROFILE}, FILE, CERTIFICATE, {"client_id": "g-client"}),
        (OPTIONS, PROFILE, FILE, SECRET, {"client_id": "o-client"}),
        ({"profile": "default"}, PROFILE, FILE, SECRET, {"client_id": "f-client"}),
        ({"auth_source": "credential_file"}, PROFILE, FILE, SECRET, {"client_id": "f-client"}),
        ({"profile": "other"}, ENVIRONMENT, FILE, CERTIFICATE, {"subscription_id": "e-subscription"}),
    ],
)
def test_who_logs_in(tmp_path, options, environment, file, kind, known):
    if file:
        (tmp_path / ".azure").mkdir()
        (tmp_path / ".azure/credentials").write_text(file)
    login = read_login(options, environment, tmp_path)
    assert login.kind == kind
    assert {name: getattr(login, name) for name in known} == known


@pytest.mark.parametrize(
    ("options", "environment", "file", "said"),
    [
        ({"client_id": "o-client", "tenant": "o-tenant"}, ENVIRONMENT, None, "Missing in the options: secret or"),
        ({}, {"AZURE_CLIENT_ID": "e-client"}, None, "Missing in the environment: tenant, secret or"),
        ({"auth_source": "env"}, {}, None, "Missing in the environment: client_id, tenant"),
        ({"auth_source": "credential_file"}, {}, None, "/.azure/credentials cannot be read: No such file or directory"),
        ({"profile": "third"}, {}, FILE, "has no section [third]"),
        ({}, {"AZURE_PROFILE": "third"}, FILE, "has no section [third]"),
        ({"profile": "default"}, {}, "secret=hidden", "is no file of sections"),
        ({"auth_source": "workload"}, ENVIRONMENT, None, "AZURE_FEDERATED_TOKEN_FILE"),
    ],
)
def test_what_is_missing(tmp_path, options, environment, file, said):
    if file:
        (tmp_path / ".azure").mkdir()
        (tmp_path / ".azure/credentials").write_text(file)
    with pytest.raises(ValueError, match=re.escape(said)) as told:
        read_login(options, environment, tmp_path)
    assert "hidden" not in str(told.value)
