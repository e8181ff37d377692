# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes on beside a test while it waits for a program."""

from __future__ import annotations

import contextlib
import threading
import time

# Seconds. Ends what hangs; no test judges by it.
PATIENCE = 600


@contextlib.contextmanager
def beside(live):
    """Run live(over) in a thread as long as the block lasts; ``over`` is an event that is set at its end.

    A test fails with the thread, also where it got all that it asserts.
    """
    over = threading.Event()
    faults = []

    def run():
        try:
            live(over)
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if faults:
            # With the fault of the block, if it has one, as its context.
            raise faults[0]


def wait_until(condition, what="it comes to that"):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.1)
