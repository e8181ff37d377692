# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a program prints: it goes on to the journal as it comes, and the last line of it is kept, to tell a failure."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import threading

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import one_line

# Bytes
_PIECE = 64 * 1024
_LONGEST_LINE = 1000
# Seconds for what a program that has ended still has in its pipe
_LATE = 0.2
# Seconds for a journal that takes no line
_GRACE = 10.0


class Printed:
    """What one program prints.

    :ivar descriptor: where it is to print.
    """

    def __init__(self) -> None:
        self._source, self.descriptor = os.pipe()
        self._hears, self._says = os.pipe()
        self._journal = sys.stderr.fileno()
        self._piece = self._last = b""
        self._is_over = False
        self._thread = threading.Thread(target=self._copy, name="printed", daemon=True)

    def follow(self) -> None:
        """Begin to read; the program has its end of the pipe."""
        os.close(self.descriptor)
        self._thread.start()

    def finish(self) -> None:
        """Take in the rest. What the program left running may print for long; cat passes that on to the journal."""
        if self._thread.ident is None:
            os.close(self.descriptor)
        else:
            self._thread.join(_LATE)
            os.write(self._says, b".")
            self._thread.join(_GRACE)
            if self._thread.is_alive():
                return
            if not self._is_over:
                with contextlib.suppress(OSError):
                    to = [(os.POSIX_SPAWN_DUP2, self._source, 0), (os.POSIX_SPAWN_DUP2, self._journal, 1)]
                    os.posix_spawnp("cat", ["cat"], os.environ, file_actions=to, setpgroup=0)
        for descriptor in (self._source, self._hears, self._says):
            os.close(descriptor)

    def last_line(self) -> str:
        """Return a sentence with the last line that was printed, for people; an empty one where there is none."""
        line = self._last.decode("utf-8", "replace").strip()
        return f" It printed last: {one_line(line)}" if line else ""

    def _copy(self) -> None:
        while True:
            ready, _writable, _exceptional = select.select([self._source, self._hears], [], [])
            if self._source in ready:
                data = os.read(self._source, _PIECE)
                if not data:
                    self._is_over = True
                    return
                self._keep(data)
                # A journal that takes nothing is no reason to stop the program.
                with contextlib.suppress(OSError):
                    while data:
                        data = data[os.write(self._journal, data) :]
            if self._hears in ready:
                return

    def _keep(self, data: bytes) -> None:
        first, *others = re.split(rb"[\r\n]", data)
        for piece in (self._piece + first, *others):
            self._piece = piece[:_LONGEST_LINE]
            self._last = self._piece if self._piece.strip() else self._last
