# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A limit ends what goes on, and leaves a limit around it as it was."""

from __future__ import annotations

import re
import signal
import time

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._time_limit import TimeIsUpError, limit


class OuterError(BaseException):
    """The limit around it, such as the keyword timeout of a task."""


@pytest.fixture(autouse=True)
def outer():
    """outer(SECONDS) sets the limit around; until then there is none, and none of pytest."""

    def end(_signal, _frame):
        raise OuterError

    of_pytest, _interval = signal.setitimer(signal.ITIMER_REAL, 0)
    before = signal.signal(signal.SIGALRM, end)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, of_pytest)


@pytest.mark.parametrize("hang", [lambda: time.sleep(60), lambda: re.match(r"(a+)+$", "a" * 40 + "b")])
def test_ends_what_goes_on(hang):
    with pytest.raises(TimeIsUpError), limit(0.2):
        hang()
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_what_ends_in_time():
    with limit(60):
        pass
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_p15_the_limit_around_it_ends_it_sooner(outer):
    outer(0.2)
    with pytest.raises(OuterError), limit(60):
        time.sleep(60)


def test_p15_the_limit_around_it_goes_on(outer):
    outer(60)
    with pytest.raises(TimeIsUpError), limit(0.1):
        time.sleep(60)
    assert 50 < signal.getitimer(signal.ITIMER_REAL)[0] < 60


def test_p15_the_limit_around_it_is_still_there_afterwards(outer):
    outer(0.3)
    with limit(0.2):
        pass
    with pytest.raises(OuterError):
        time.sleep(60)
