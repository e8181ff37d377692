# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture of a run in the guide, and the table of its turns in the README of the role, are those of the engine."""

from __future__ import annotations

import re

from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run import engine
from ansible_collections.fleetops.azure_maintenance.tests import run_picture


def test_the_guide_has_the_picture_of_the_engine():
    text = run_picture.GUIDE.read_text(encoding="utf-8")
    made = run_picture.make_guide(text, run_picture.RULES, run_picture.draw())
    assert text == made, "run: python tests/run_picture.py"


def test_the_picture_fits_a_terminal():
    assert max(map(len, run_picture.draw().splitlines())) <= 79


def test_the_readme_of_the_role_tells_of_each_turn_and_of_no_other():
    text = (run_picture.TREE / "roles" / "event_response" / "README.md").read_text(encoding="utf-8")
    table = text.partition("| turn | what the hosts do |")[2].partition("\n\n")[0]
    told = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert set(told) == {rule.do for rule in engine.RULES} | {engine.DONE}
