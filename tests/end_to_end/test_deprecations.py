# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of the tests fails where Ansible says that what it was given is deprecated."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.every_core

# A module of a playbook's own: what releases of ansible-core deprecate differs.
MODULE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({})
module.deprecate("It is old.", version="99.0.0", collection_name="fleetops.azure_maintenance")
module.exit_json()
"""


def test_a_run_that_warns_of_something_deprecated_fails(ansible, tmp_path):
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "old.py").write_text(MODULE)
    play = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [{"old": {}}]}]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    with pytest.raises(AssertionError, match=r"(?s)Ansible warns of something deprecated.*It is old\."):
        ansible("ansible-playbook", tmp_path / "play.yml", env={"ANSIBLE_LIBRARY": str(tmp_path / "library")})
