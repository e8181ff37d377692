# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of everything that asks Azure from outside the VMs; the twin of azure_argument_spec in _azure/task.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
requirements:
  - the Python libraries azure-identity and requests on the controller
attributes:
  action:
    description: Is an action plugin. It runs on the controller, for any host.
    support: full
  async:
    description: Can be used with C(async).
    support: none
  platform:
    description: Where the module runs.
    platforms: all
    support: full
    details:
      - On the controller. The host of the task is not contacted.
options:
  auth_source:
    description:
      - Where the login comes from. The names, the variables and their order are those of the collection
        C(azure.azcollection), so the login of its modules works here.
      - V(auto) takes the first of these that is there, the options O(client_id), O(secret) and so on, the environment,
        the file C(~/.azure/credentials), the login of the Azure CLI.
      - V(env) takes the section of C(~/.azure/credentials) that E(AZURE_PROFILE) names, or the variables
        E(AZURE_CLIENT_ID), E(AZURE_TENANT), E(AZURE_SECRET) or E(AZURE_X509_CERTIFICATE_PATH), as the credential type
        "Microsoft Azure Resource Manager" of AWX sets them.
      - V(credential_file) takes a section of C(~/.azure/credentials), V(cli) the login of the program C(az), V(msi) the
        managed identity of the machine, V(workload) the workload identity of a pod in Kubernetes.
      - All of one login comes from one place. Only O(subscription_id) and O(cloud_environment) may come from the
        environment beside it.
      - If not set, the environment variable E(ANSIBLE_AZURE_AUTH_SOURCE) is used.
    type: str
    choices: [auto, cli, credential_file, env, msi, workload]
    default: auto
  profile:
    description:
      - The section of C(~/.azure/credentials), V(default) if not set. If it is set, V(auto) takes the file first.
    type: str
  subscription_id:
    description:
      - The id of a subscription.
      - If not set, that of the section of C(~/.azure/credentials), or the environment variable
        E(AZURE_SUBSCRIPTION_ID), is used.
    type: str
  client_id:
    description: The client id of a service principal, or of a managed identity that a user assigned.
    type: str
  secret:
    description: The secret of the service principal. It reaches no log and no result.
    type: str
  tenant:
    description: The id of the tenant in Microsoft Entra.
    type: str
  x509_certificate_path:
    description:
      - A file in PEM format with the certificate of the service principal and its RSA key, in place of O(secret).
    type: path
  cloud_environment:
    description:
      - Which cloud of Azure is asked, V(AzureCloud), V(AzureChinaCloud) or V(AzureUSGovernment).
      - An address that begins with C(https://) names the control plane of another cloud, whose metadata say where to
        log in.
      - If not set, that of the section of C(~/.azure/credentials), or the environment variable
        E(AZURE_CLOUD_ENVIRONMENT), is used, and without these V(AzureCloud).
    type: str
  timeout:
    description:
      - Seconds for all of the task, the login and every further try included. More than 0 and at most 86400.
    type: float
    default: 120.0
notes:
  - This part of Azure is in preview. The requests were checked against Microsoft's own clients, not yet against Azure.
  - A proxy of the controller is used as its environment says, by E(HTTPS_PROXY).
"""
