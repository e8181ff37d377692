# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The execution environment, by the real ansible-builder: what the collection asks for, and the example definition."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.tests.awx.conftest import PROJECT, ROOT, commands_of, install

DEFINITION = ROOT / "examples" / "execution_environment" / "execution-environment.yml"


@pytest.mark.matrix
def test_the_commands_of_the_guide(ansible, collections, tmp_path):
    home = tmp_path / "ann"
    run = ansible(
        "bash", "-c", commands_of("guide_execution_environment"), cwd=tmp_path, env=install(collections, home)
    )
    assert run.code == 0, run.out + run.err
    said = yaml.safe_load(run.out[run.out.index("# Dependency data") :])
    libraries = ("jmespath", "pypsrp", "azure-identity", "requests")
    asked = [f"{library}  # from collection fleetops.azure_maintenance" for library in libraries]
    assert said == {"python": asked, "system": []}
    context = tmp_path / "azure-maintenance-ee" / "context"
    containerfile = (context / "Containerfile").read_text()
    assert "ansible-galaxy collection install" in containerfile
    assert 'ANSIBLE_INSTALL_REFS="ansible-core>=2.16.14,<2.20 ansible-runner>=2.4"' in containerfile
    assert "openssh-clients" in (context / "_build" / "bindep.txt").read_text()
    assert (context / "_build" / "requirements.yml").read_text() == (DEFINITION.parent / "requirements.yml").read_text()


@pytest.mark.parametrize("folder", [PROJECT / "collections", pytest.param(DEFINITION.parent, marks=pytest.mark.matrix)])
def test_the_requirements_are_met_by_this_version(ansible, collections, folder):
    """Galaxy is not asked, because the collection is there already, and the others come with the package ansible."""
    command = ["ansible-galaxy", "collection", "install", "--offline", "-r", str(folder / "requirements.yml")]
    run = ansible(*command, "-p", str(collections), env={"ANSIBLE_COLLECTIONS_PATH": str(collections)})
    assert run.code == 0, run.out + run.err
    assert "Nothing to do. All requested collections are already installed." in run.out


def test_project_and_image_have_the_same_collections():
    files = [folder / "requirements.yml" for folder in (PROJECT / "collections", DEFINITION.parent)]
    assert yaml.safe_load(files[0].read_text()) == yaml.safe_load(files[1].read_text())
