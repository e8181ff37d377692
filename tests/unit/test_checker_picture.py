# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture of the checker in the guide is that of its tables, and these know every phase and every state."""

from __future__ import annotations

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import PHASES
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import records
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track import changes
from ansible_collections.fleetops.azure_maintenance.tests import checker_picture


def test_the_guide_has_the_picture_of_the_tables():
    text = checker_picture.GUIDE.read_text(encoding="utf-8")
    assert text == checker_picture.make_guide(text), "run: python tests/checker_picture.py"


def test_the_picture_fits_a_terminal():
    assert max(map(len, checker_picture.draw().splitlines())) <= 79


def test_the_tables_know_every_phase_and_every_state():
    states = (*records.UNFINISHED, records.SUCCEEDED, records.FAILED, records.SKIPPED)
    for table, known in ((changes.PHASE_CHANGES, PHASES), (changes.RESPONSE_CHANGES, states)):
        assert {word for change in table for word in change[:2]} == {changes.NEW, *known}
