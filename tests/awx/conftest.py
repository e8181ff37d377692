# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures: the example project, the stand-in for AWX, and what the end-to-end tests have."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.awx import controller, rules
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import ansible, simulator

__all__ = ["ansible", "simulator"]

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "examples" / "awx_project"


@pytest.fixture
def awx():
    """An AWX with an organization, an inventory and a credential, and with the example project behind its address."""
    state = controller.Awx(rules.listed_playbooks(PROJECT))
    organization = state.add("organizations", name="Default")["id"]
    state.add("inventories", name="web", organization=organization)
    state.add("credentials", name="web-ssh", organization=organization)
    server = controller.serve(state)
    state.url = server.url
    yield state
    server.shutdown()
    server.server_close()
    assert state.unexpected == []
