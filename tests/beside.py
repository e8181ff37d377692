# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes on beside a test while it waits for a program."""

from __future__ import annotations

import contextlib
import threading


@contextlib.contextmanager
def beside(live):
    """Run live(over) in a thread as long as the block lasts; ``over`` is an event that is set at its end."""
    over = threading.Event()
    thread = threading.Thread(target=live, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
