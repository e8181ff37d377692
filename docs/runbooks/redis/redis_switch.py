# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make a replica of Redis the primary, by its Sentinel, without losing a write.

python3 redis_switch.py NAME SECONDS PRIMARY SENTINEL REPLICA REDIS-CLI...

PRIMARY, SENTINEL and REPLICA are HOST:PORT, REDIS-CLI is the program with its options. For about ten seconds after
a failover Sentinel lets the old primary take writes, which are lost then. So writes wait, from before the failover
until the old primary is a replica. Then their connections are cut, and a client that comes again is sent to the new
primary. What went wrong is one sentence on stderr, with status 1.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time

PAUSE = 0.1


class Refused(Exception):
    """The message is a sentence that says what to do."""


class Redis:
    def __init__(self, cli, place):
        host, _colon, port = place.rpartition(":")
        self.place = place
        self._argv = [*cli, "-h", host, "-p", port]

    def ask(self, *words):
        ended = subprocess.run([*self._argv, *words], capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise Refused(f"{self.place} does not answer: {ended.stderr.strip() or ended.returncode}")
        return ended.stdout.replace("\r", "").strip()

    def order(self, *words):
        said = self.ask(*words)
        if said != "OK":
            raise Refused(f"{self.place} refused {words[0]}: {said}")

    def offset(self, kind):
        found = re.search(rf"^{kind}_repl_offset:(\d+)$", self.ask("INFO", "replication"), re.MULTILINE)
        return int(found[1]) if found else None

    def primary(self, name):
        """Ask a Sentinel."""
        return ":".join(self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name).split())


def wait_until(condition, seconds, otherwise):
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise Refused(otherwise)
        time.sleep(PAUSE)


def switch(name, seconds, here, sentinel, following):
    # The pause ends by itself, in case that this program does not come to its end.
    here.order("CLIENT", "PAUSE", str((2 * seconds + 10) * 1000), "WRITE")
    try:
        wait_until(
            lambda: following.offset("slave") == here.offset("master"),
            seconds,
            f"{following.place} did not get all that was written on {here.place}; it stays a replica.",
        )
        sentinel.order("SENTINEL", "FAILOVER", name)
        wait_until(
            lambda: sentinel.primary(name) != here.place,
            seconds,
            f"Sentinel did not promote {following.place} within {seconds} s; its log says why.",
        )
        chosen = sentinel.primary(name)
        here.order("REPLICAOF", *chosen.rsplit(":", 1))
        if chosen != following.place:
            raise Refused(f"Sentinel promoted {chosen} instead of {following.place}.")
    finally:
        # Those whose write waits are cut off, and ask a Sentinel for the primary.
        here.ask("CLIENT", "KILL", "TYPE", "normal")
        here.ask("CLIENT", "UNPAUSE")
    # A server without a file for its configuration cannot write to it.
    here.ask("CONFIG", "REWRITE")


def main(name, seconds, here, sentinel, following, *cli):
    try:
        switch(name, int(seconds), *(Redis(cli, place) for place in (here, sentinel, following)))
    except Refused as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
