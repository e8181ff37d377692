# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every IMDS request as it came, and the status of its answer."""

from __future__ import annotations

import json
import sys
import threading
from collections import deque

from simulator.clock import iso

_KEPT = 10000


class Journal:
    """In memory the last 10,000 requests; in the file, when there is one, all of them."""

    def __init__(self, clock, file=None):
        self._clock = clock
        self._lock = threading.Lock()
        self._requests = deque(maxlen=_KEPT)
        self._file = file
        self._fails = False

    def begin(self, address, method, path, headers, body):
        """Enter a request when it comes, so that one that is being held is seen; ``status`` is null until then."""
        now = self._clock.now()
        entry = {
            "time": iso(now),
            "seconds": round(now - self._clock.started, 3),
            "address": address,
            "vm": None,
            "method": method,
            "path": path,
            "headers": [list(header) for header in headers],
            "body": body.decode("utf-8", "backslashreplace"),
            "status": None,
            "fault": None,
        }
        with self._lock:
            self._requests.append(entry)
        return entry

    def finish(self, entry):
        if self._file is not None:
            line = (json.dumps(entry) + "\n").encode("ascii")
            with self._lock:
                self._write(line)

    def _write(self, line):
        try:
            why = None if self._file.write(line) == len(line) else "it takes no whole line"
        except OSError as error:
            why = error.strerror
        # Requests are answered anyway. The warning comes once, until a line is written again.
        if why and not self._fails:
            told = f"--journal {self._file.name} cannot be written: {why}. It lacks requests from now on."
            print(f"imds_simulator: {told}", file=sys.stderr, flush=True)
        self._fails = bool(why)

    def requests(self):
        with self._lock:
            return [dict(entry) for entry in self._requests]

    def clear(self):
        with self._lock:
            self._requests.clear()
