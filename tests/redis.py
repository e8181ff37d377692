# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real Redis servers on loopback, a Sentinel beside each, and a client that writes all the time."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.beside import PATIENCE, beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port

# What Sentinel calls the primary and its replicas
NAME = "shop"
# Milliseconds. A rehearsal announces a Freeze of five seconds, which it must not notice: more than twice as long.
DOWN_AFTER = 12000
_SERVER = """
bind 127.0.0.1
port {port}
dir {folder}
save ""
appendonly no
repl-diskless-sync-delay 0
replica-priority 100
{replica_of}
"""
_SENTINEL = """
bind 127.0.0.1
port {port}
dir {folder}
sentinel monitor {name} 127.0.0.1 {primary} 2
sentinel down-after-milliseconds {name} {down_after}
sentinel failover-timeout {name} 20000
"""


class NoAnswerError(Exception):
    """The server cannot be reached, or answers with an error."""


class Connection:
    """A connection of a client that speaks Redis' protocol."""

    def __init__(self, port, timeout=1.0):
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        except OSError as error:
            raise NoAnswerError(str(error)) from error
        self._file = self._socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self._file.close()
        self._socket.close()

    def ask(self, *words):
        parts = [str(word).encode() for word in words]
        told = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        try:
            self._socket.sendall(b"*%d\r\n%s" % (len(parts), told))
            return self._read()
        except (OSError, ValueError, KeyError) as error:
            raise NoAnswerError(str(error) or "closed") from error

    def _read(self):
        line = self._file.readline()
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise NoAnswerError(rest)
        if kind == b"$":
            return None if rest == "-1" else self._file.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self._read() for _each in range(int(rest))]
        return int(rest) if kind == b":" else {b"+": rest}[kind]


def ask(port, *words):
    """Return what a server answers, None where it does not."""
    try:
        with Connection(port) as connection:
            return connection.ask(*words)
    except NoAnswerError:
        return None


class Node:
    """One VM: a server and its Sentinel, with what they have written in a folder of their own."""

    def __init__(self, programs, folder):
        self.folder = folder
        self._programs = programs
        self.port, self.sentinel_port = free_port(), free_port()
        self._running = []

    def configure(self, primary):
        self.folder.mkdir()
        told = {"folder": self.folder, "primary": primary.port, "name": NAME, "down_after": DOWN_AFTER}
        replica_of = "" if primary is self else f"replicaof 127.0.0.1 {primary.port}"
        (self.folder / "redis.conf").write_text(_SERVER.format(port=self.port, replica_of=replica_of, **told))
        (self.folder / "sentinel.conf").write_text(_SENTINEL.format(port=self.sentinel_port, **told))

    def start(self, files=("redis.conf", "sentinel.conf")):
        """Start both, as systemd does in the boot of a VM."""
        for file in files:
            program = self._programs[file == "sentinel.conf"]
            self._running.append(
                subprocess.Popen(  # pylint: disable=consider-using-with
                    [program, str(self.folder / file)],
                    stdin=subprocess.DEVNULL,
                    stdout=(self.folder / file).with_suffix(".log").open("ab"),
                    stderr=subprocess.STDOUT,
                )
            )

    def stop(self):
        """Stop both as a power cut does."""
        for process in self._running:
            process.kill()
            process.wait(PATIENCE)
        self._running = []

    @property
    def processes(self):
        """Return the ids of both."""
        return [process.pid for process in self._running]

    def info(self):
        """Return what the server tells of its replication; nothing where it is down."""
        told = ask(self.port, "INFO", "replication") or ""
        return dict(line.split(":", 1) for line in told.splitlines() if ":" in line)

    @property
    def role(self):
        return self.info().get("role", "down")

    @property
    def priority(self):
        told = ask(self.port, "CONFIG", "GET", "replica-priority")
        return int(told[1]) if told else None

    @property
    def primary_of_sentinel(self):
        told = ask(self.sentinel_port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        return int(told[1]) if told else None

    @property
    def knows_all(self):
        """Whether its Sentinel knows two replicas that can be promoted, and two other Sentinels."""
        told = ask(self.sentinel_port, "SENTINEL", "MASTER", NAME) or []
        known = dict(zip(told[::2], told[1::2]))
        replicas = ask(self.sentinel_port, "SENTINEL", "REPLICAS", NAME) or []
        links = [dict(zip(each[::2], each[1::2])).get("master-link-status") for each in replicas]
        return known.get("num-other-sentinels") == "2" and links == ["ok", "ok"]


class Client:
    """Writes number after number to the primary that a Sentinel names, as a client library does.

    :ivar acknowledged: the numbers of which the primary said that they are written.
    :ivar errors: how many writes failed.
    :ivar gap: the longest time between two writes that succeeded, in seconds.
    """

    def __init__(self, nodes):
        self._nodes = nodes
        self.acknowledged = set()
        self.errors = 0
        self.gap = 0.0

    def live(self, over):
        number, last, connection = 0, time.monotonic(), None
        while not over.wait(0.005):
            number += 1
            try:
                connection = connection or self._connect()
                connection.ask("SADD", "numbers", number)
            except NoAnswerError:
                self.errors += 1
                if connection:
                    connection.__exit__()
                connection = None
                over.wait(0.05)
                continue
            self.acknowledged.add(number)
            self.gap = max(self.gap, time.monotonic() - last)
            last = time.monotonic()
        if connection:
            connection.__exit__()

    def _connect(self):
        for node in self._nodes:
            port = node.primary_of_sentinel
            if port:
                return Connection(port, timeout=10.0)
        raise NoAnswerError("no Sentinel answers")

    def tell(self, how):
        """Print what README says."""
        print(f"{how}: {self.errors} errors, longest gap {self.gap:.1f} s, {len(self.acknowledged)} writes")

    def lost(self, primary):
        """Return the numbers that were acknowledged and that the primary does not have."""
        return self.acknowledged - set(map(int, ask(primary.port, "SMEMBERS", "numbers") or ()))


@contextlib.contextmanager
def three_nodes(programs):
    """Start three nodes, of which the first is the primary, and leave nothing of them behind."""
    folder = Path(tempfile.mkdtemp(prefix="redis-"))
    nodes = [Node(programs, folder / str(number)) for number in (1, 2, 3)]
    try:
        for node in nodes:
            node.configure(nodes[0])
            node.start(["redis.conf"])
        # A Sentinel that finds them at once need not wait ten seconds until it asks again.
        wait_until(lambda: nodes[0].info().get("connected_slaves") == "2", "both replicas follow")
        for node in nodes:
            node.start(["sentinel.conf"])
        wait_until(lambda: all(node.knows_all for node in nodes), "the Sentinels know all")
        yield nodes
    finally:
        for node in nodes:
            node.stop()
        shutil.rmtree(folder)


@contextlib.contextmanager
def writing(nodes):
    client = Client(nodes)
    with beside(client.live):
        yield client
