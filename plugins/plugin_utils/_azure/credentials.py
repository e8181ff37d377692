# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The login to Azure: the options, variables and files of azure.azcollection, and a credential of azure-identity."""

from __future__ import annotations

import configparser
import importlib
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from ...module_utils._errors import excerpt
from .cloud import Cloud
from .errors import LOGIN, AzureError, missing_library, plain

SECRET, CERTIFICATE, WORKLOAD, MANAGED, CLI = "secret", "certificate", "workload", "managed identity", "Azure CLI"

# The names in azure.azcollection: as options, in ~/.azure/credentials and in the environment
VARIABLES = {
    "subscription_id": "AZURE_SUBSCRIPTION_ID",
    "client_id": "AZURE_CLIENT_ID",
    "secret": "AZURE_SECRET",
    "tenant": "AZURE_TENANT",
    "cloud_environment": "AZURE_CLOUD_ENVIRONMENT",
    "x509_certificate_path": "AZURE_X509_CERTIFICATE_PATH",
}
AUTH_SOURCES = ("auto", "cli", "credential_file", "env", "msi", "workload")

_FILE = ".azure/credentials"
# Names a section of it
_PROFILE = "AZURE_PROFILE"
# Seconds for a connection, and for each answer; all ends with the time of the task.
_CONNECT, _READ = 10, 30


class Login(NamedTuple):
    """A login.

    :ivar kind: one of this module's words.
    :ivar subscription_id: of the same place, or of the environment.
    :ivar token_file: has the token of a workload identity.
    """

    kind: str
    subscription_id: str | None = None
    cloud_environment: str | None = None
    client_id: str | None = None
    secret: str | None = None
    tenant: str | None = None
    certificate: str | None = None
    token_file: str | None = None


def read_login(options: Mapping[str, Any], environment: Mapping[str, str], home: Path) -> Login:
    """Return the login, by the order of azure.azcollection: options, environment, file, Azure CLI.

    All of one login comes from one place, so that no secret is sent for another identity. Only the subscription and
    the cloud may come from the environment beside it.

    :raises ValueError: something is missing or wrong, in a sentence.
    """
    given = {name: str(options.get(name) or "").strip() or None for name in VARIABLES}
    variables = {name: environment.get(variable, "").strip() or None for name, variable in VARIABLES.items()}
    beside = {name: given[name] or variables[name] or None for name in ("subscription_id", "cloud_environment")}
    source = options.get("auth_source") or "auto"
    file, named = home / _FILE, environment.get(_PROFILE, "").strip()
    if source == "msi":
        return Login(MANAGED, client_id=given["client_id"] or variables["client_id"], **beside)
    if source == "cli":
        return Login(CLI, tenant=given["tenant"], **beside)
    if source == "workload":
        return _workload({**variables, **_present(given)}, environment, beside)
    if source == "env":
        return _from_file(file, named, given, beside) if named else _from_environment(variables, environment, beside)
    if source == "credential_file" or options.get("profile"):
        return _from_file(file, options.get("profile") or "default", given, beside)
    if given["client_id"]:
        return _principal(given, beside, "the options")
    if named:
        return _from_file(file, named, given, beside)
    if variables["client_id"]:
        return _from_environment(variables, environment, beside)
    if file.exists():
        return _from_file(file, "default", given, beside)
    return Login(CLI, tenant=given["tenant"], **beside)


def _present(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _from_environment(
    variables: Mapping[str, str | None], environment: Mapping[str, str], beside: Mapping[str, str | None]
) -> Login:
    if not (variables["secret"] or variables["x509_certificate_path"]) and environment.get(
        "AZURE_FEDERATED_TOKEN_FILE"
    ):
        return _workload(variables, environment, beside)
    return _principal(variables, beside, "the environment")


def _workload(
    values: Mapping[str, str | None], environment: Mapping[str, str], beside: Mapping[str, str | None]
) -> Login:
    """Return the login of a pod in Kubernetes, whose variables are those of Azure's webhook there."""
    tenant = values["tenant"] or environment.get("AZURE_TENANT_ID")
    token_file = environment.get("AZURE_FEDERATED_TOKEN_FILE")
    if not (tenant and token_file and values["client_id"]):
        raise ValueError(
            "A workload identity needs the variables AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_FEDERATED_TOKEN_FILE, "
            "which Azure sets in a pod with the label azure.workload.identity/use."
        )
    return Login(WORKLOAD, client_id=values["client_id"], tenant=tenant, token_file=token_file, **beside)


def _from_file(path: Path, profile: str, given: Mapping[str, str | None], beside: Mapping[str, str | None]) -> Login:
    """Return the login of a section. The subscription and the cloud of a task count more than those of the section."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        # A message of the parser would repeat lines of the file, which may hold the secret.
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}.") from error
    except configparser.Error as error:
        raise ValueError(f"{path} is no file of sections with KEY=VALUE.") from error
    if profile not in parser:
        raise ValueError(f"{path} has no section [{profile}].")
    values = {name: parser[profile].get(name, "").strip() or None for name in VARIABLES}
    own = {name: given[name] or values[name] or beside[name] for name in beside}
    return _principal(values, own, f"the section [{profile}] of {path}")


def _principal(values: Mapping[str, str | None], beside: Mapping[str, str | None], place: str) -> Login:
    """Return the login of a service principal."""
    missing = [name for name in ("client_id", "tenant") if not values[name]]
    if not (values["secret"] or values["x509_certificate_path"]):
        missing.append("secret or x509_certificate_path")
    if missing:
        raise ValueError(
            f"A service principal needs client_id, tenant, and secret or x509_certificate_path. "
            f"Missing in {place}: {', '.join(missing)}."
        )
    kind = SECRET if values["secret"] else CERTIFICATE
    return Login(
        kind,
        client_id=values["client_id"],
        secret=values["secret"],
        tenant=values["tenant"],
        certificate=None if values["secret"] else values["x509_certificate_path"],
        **beside,
    )


def make_credential(login: Login, cloud: Cloud, seconds: float) -> Any:
    """Return azure-identity's credential for this login; no request is sent yet.

    :param seconds: the time for it all.
    :raises AzureError: azure-identity is missing, or refuses the login.
    """
    try:
        # It takes half a second, and a controller that only asks VMs need not have it.
        identity = importlib.import_module("azure.identity")
    except ImportError as error:
        raise missing_library(error) from error
    limits = {
        "connection_timeout": min(_CONNECT, seconds),
        "read_timeout": min(_READ, seconds),
        # The time of the task is the limit, but azure-identity needs a number of tries.
        "retry_total": 3,
    }
    # Microsoft's login endpoint does not know a cloud of one's own.
    entra = {**limits, "authority": cloud.login, "disable_instance_discovery": not cloud.known}
    try:
        if login.kind == MANAGED:
            return identity.ManagedIdentityCredential(client_id=login.client_id, **limits)
        if login.kind == CLI:
            return identity.AzureCliCredential(tenant_id=login.tenant or "", process_timeout=int(seconds) or 1)
        if login.kind == WORKLOAD:
            return identity.WorkloadIdentityCredential(
                tenant_id=login.tenant, client_id=login.client_id, token_file_path=login.token_file, **entra
            )
        if login.kind == CERTIFICATE:
            return identity.CertificateCredential(
                tenant_id=login.tenant, client_id=login.client_id, certificate_path=login.certificate, **entra
            )
        return identity.ClientSecretCredential(
            tenant_id=login.tenant, client_id=login.client_id, client_secret=login.secret, **entra
        )
    except (ValueError, OSError) as error:
        raise AzureError(f"{_title(login)} cannot be used: {plain(error, login.secret)}", LOGIN) from error


def ask_token(credential: Any, login: Login, cloud: Cloud) -> str:
    """Return a token for the cloud's control plane.

    :raises AzureError: the login failed.
    """
    from azure.core.exceptions import AzureError as LibraryError

    try:
        token: str = credential.get_token(cloud.scope).token
    except (LibraryError, ValueError, OSError) as error:
        raise AzureError(f"{_title(login)} could not log in: {plain(error, login.secret)}", LOGIN) from error
    return token


def _title(login: Login) -> str:
    titles = {
        SECRET: "The service principal {0} with its secret",
        CERTIFICATE: "The service principal {0} with its certificate",
        WORKLOAD: "The workload identity {0}",
        MANAGED: "The managed identity of this machine",
        CLI: "The Azure CLI",
    }
    return titles[login.kind].format(excerpt(login.client_id or ""))
