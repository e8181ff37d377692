# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures: the stand-in for Azure, and an environment in which nobody finds another."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.task import run_on_controller
from ansible_collections.fleetops.azure_maintenance.tests.azure import stand_in
from ansible_collections.fleetops.azure_maintenance.tests.certificates import make_certificate


def run_playbook(inventory, *argv):
    """Run ansible-playbook with an inventory, and return how it ended."""
    command = [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """The certificate of the stand-in with its key in one file, and the same without the key beside it."""
    return make_certificate(tmp_path_factory.mktemp("tls") / "stand-in.pem", "IP:127.0.0.1")


@pytest.fixture
def azure(certificate, tmp_path, monkeypatch):
    """The stand-in. This process finds it, trusts it, and has no other credentials."""
    for name in list(os.environ):
        if name.startswith(("AZURE_", "IDENTITY_", "MSI_", "IMDS_", "ARM_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate.with_suffix(".crt")))
    with stand_in.serve(certificate) as served:
        monkeypatch.setenv("AZURE_CLOUD_ENVIRONMENT", served.url)
        yield served


@pytest.fixture
def principal(azure, monkeypatch):
    """The stand-in, and in the environment the service principal as AWX puts it there."""
    for name, value in {
        "AZURE_SUBSCRIPTION_ID": stand_in.SUBSCRIPTION,
        "AZURE_CLIENT_ID": stand_in.CLIENT_ID,
        "AZURE_SECRET": stand_in.SECRET,
        "AZURE_TENANT": stand_in.TENANT,
    }.items():
        monkeypatch.setenv(name, value)
    return azure


@pytest.fixture
def run(principal):
    """run(SPEC, work, check_mode=False, **options) does a task as its action plugin would, and returns the result."""

    def run_task(spec, work, check_mode=False, **options):
        task = types.SimpleNamespace(args=options, action="module", check_mode=check_mode)
        return run_on_controller(types.SimpleNamespace(_task=task), spec, work)

    return run_task
