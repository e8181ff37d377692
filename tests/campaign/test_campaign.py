# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""P1 to P9 of the design hold in random histories, and everything prepared is restored once."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.campaign.mutants import mutated
from ansible_collections.fleetops.azure_maintenance.tests.campaign.patches import patched
from ansible_collections.fleetops.azure_maintenance.tests.campaign.run import describe, run_many, shorten

_PART = 20


@pytest.mark.parametrize("first", range(0, 6 * _PART, _PART))
def test_no_history_breaks_a_property(first: int) -> None:
    with patched():
        found, _number = run_many(first, _PART)
        message = describe(found[0], shorten(found[0])) if found else ""
    assert not found, message


def test_a_mend_that_is_taken_back_is_found_and_the_history_shortened() -> None:
    with patched(), mutated("3-restored-while-pending"):
        found, number = run_many(0, 100)
        assert found, f"not found in {number} histories"
        keep = shorten(found[0])
        message = describe(found[0], keep)
    assert found[0].name == "P3"
    assert len(keep) <= 6
    assert f"--seed {found[0].seed} --keep {','.join(map(str, keep))}" in message
