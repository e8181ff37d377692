# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A test fails with what goes on beside it."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.beside import beside


def test_a_thread_that_dies_fails_its_test():
    with pytest.raises(KeyError, match="web-1"), beside(lambda over: {}["web-1"]):
        pass


def test_the_end_of_the_block_is_no_fault():
    with beside(lambda over: over.wait()):
        pass
