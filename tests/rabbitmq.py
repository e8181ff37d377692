# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three real RabbitMQ servers on loopback that are one cluster, and a client that publishes all the time."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.beside import beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port

# Seconds for one step of a client, so that a server that hangs counts as a gap, and not as the end of the test
PATIENCE = 8
# Those in /usr/sbin become the user rabbitmq, and forget what they are told here.
PROGRAMS = Path("/usr/lib/rabbitmq/bin")
# pause_minority is what RabbitMQ's guide to clusters recommends for three nodes.
_CONFIGURATION = """
listeners.tcp.1 = 127.0.0.1:{port}
log.file.level = error
cluster_partition_handling = pause_minority
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.randomized_startup_delay_range.min = 0
cluster_formation.randomized_startup_delay_range.max = 1
{members}
"""


class AmqpError(Exception):
    """The server cannot be reached, or does not do what it was asked."""


def _short(text):
    return bytes([len(text)]) + text.encode()


def _long(content):
    return struct.pack(">I", len(content)) + content


class Connection:
    """What of AMQP 0-9-1 a client needs who publishes with confirms and takes messages from one queue."""

    def __init__(self, port, patience=60):
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), patience)
        except OSError as error:
            raise AmqpError(str(error)) from error
        self._file = self._socket.makefile("rb")
        try:
            self._write(b"AMQP\x00\x00\x09\x01")
            self._expect((10, 10))
            self.call((10, 11), _long(b"") + _short("PLAIN") + _long(b"\0guest\0guest") + _short("en_US"), (10, 30))
            # One channel, frames of 128 KiB, no heartbeat
            self._send(1, 0, struct.pack(">HHHIH", 10, 31, 1, 131072, 0))
            self.call((10, 40), _short("/") + _short("") + b"\0", (10, 41))
            self.call((20, 10), _short(""), (20, 11), channel=1)
        except AmqpError:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._file.close()
        self._socket.close()

    def declare(self, queue, **arguments):
        """Make a durable queue of the type quorum."""
        table = _short("x-queue-type") + b"S" + _long(b"quorum")
        for key, number in arguments.items():
            table += _short("x-" + key.replace("_", "-")) + b"I" + struct.pack(">i", number)
        self.call((50, 10), b"\0\0" + _short(queue) + b"\x02" + _long(table), (50, 11), channel=1)

    def delete(self, queue):
        self.call((50, 40), b"\0\0" + _short(queue) + b"\0", (50, 41), channel=1)

    def select_confirms(self):
        self.call((85, 10), b"\0", (85, 11), channel=1)

    def publish(self, queue, body):
        """Return when a majority of the nodes has the message."""
        self._send(1, 1, struct.pack(">HH", 60, 40) + b"\0\0" + _short("") + _short(queue) + b"\0")
        # The only property: the message is durable.
        self._send(2, 1, struct.pack(">HHQHB", 60, 0, len(body), 0x1000, 2))
        self._send(3, 1, body)
        self._expect((60, 80))

    def take(self, queue):
        """Return the next message, None where there is no more."""
        taken, _arguments = self.call((60, 70), b"\0\0" + _short(queue) + b"\x01", (60, 71), (60, 72), channel=1)
        if taken == (60, 72):
            return None
        self._receive()
        return self._receive()[1]

    def call(self, method, arguments, *answers, channel=0):
        self._send(1, channel, struct.pack(">HH", *method) + arguments)
        return self._expect(*answers)

    def _expect(self, *answers):
        _kind, content = self._receive()
        method = struct.unpack(">HH", content[:4])
        if method not in answers:
            raise AmqpError(f"the server answers {method} and not {answers}: {content[4:]!r}")
        return method, content[4:]

    def _send(self, kind, channel, content):
        self._write(struct.pack(">BHI", kind, channel, len(content)) + content + b"\xce")

    def _write(self, content):
        try:
            self._socket.sendall(content)
        except OSError as error:
            raise AmqpError(str(error)) from error

    def _receive(self):
        try:
            kind, _channel, size = struct.unpack(">BHI", self._read(7))
            return kind, self._read(size + 1)[:-1]
        except OSError as error:
            raise AmqpError(str(error)) from error

    def _read(self, size):
        content = self._file.read(size)
        if len(content) < size:
            raise AmqpError("the server has closed the connection")
        return content


class Node:
    """One VM with its server."""

    def __init__(self, folder, number, epmd_port):
        self.name = f"mq-{number}@localhost"
        self.folder = folder / f"mq-{number}"
        self.port = free_port()
        self.programs = self.folder / "bin"
        self._environment = {
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(epmd_port),
            # It may be ended although the nodes have just been killed.
            "ERL_EPMD_RELAXED_COMMAND_CHECK": "1",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(self.folder),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 -kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CTL_ERL_ARGS": "+S 1:1",
        }

    def configure(self, nodes):
        self.folder.mkdir()
        members = "\n".join(
            f"cluster_formation.classic_config.nodes.{number} = {node.name}" for number, node in enumerate(nodes, 1)
        )
        (self.folder / "rabbitmq.conf").write_text(_CONFIGURATION.format(port=self.port, members=members))
        (self.folder / "plugins").write_text("[].\n")
        self.programs.mkdir()
        settings = shlex.join(["env", *(f"{key}={value}" for key, value in self._environment.items())])
        for program in PROGRAMS.iterdir():
            (self.programs / program.name).write_text(f'#!/bin/sh\nexec {settings} {program} "$@"\n')
            (self.programs / program.name).chmod(0o755)

    def command(self, program, *options):
        return [str(self.programs / program), *options]

    @property
    def start_command(self):
        log = shlex.quote(str(self.folder / "started"))
        wait = shlex.join(self.command("rabbitmqctl", "wait", "--timeout", "300", str(self.folder / "pid")))
        return [
            "sh",
            "-c",
            f"rm -f {self.folder}/pid; {shlex.join(self.command('rabbitmq-server'))} >{log} 2>&1 & {wait}",
        ]

    def start(self):
        subprocess.run(self.start_command, check=True, capture_output=True)

    def signal(self, number):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
            os.kill(int((self.folder / "pid").read_text()), number)

    def kill(self):
        """Stop it as a power cut does."""
        self.signal(signal.SIGKILL)

    def ask(self, program, *question):
        """Return what it answers, None where it does not."""
        argv = self.command(program, "--quiet", *question, "--formatter", "json")
        ended = subprocess.run(argv, capture_output=True, text=True, check=False)
        return json.loads(ended.stdout) if ended.returncode == 0 else None

    @property
    def serves(self):
        """Whether it runs, and is not in maintenance mode."""
        return (self.ask("rabbitmq-diagnostics", "status") or {}).get("is_under_maintenance") is False


class Client:
    """Publishes message after message to the first node that takes them."""

    def __init__(self, queue, nodes):
        self._queue = queue
        self._nodes = list(nodes)
        self.name = nodes[0].name
        self.acknowledged = set()
        self.errors = 0
        self.gap = 0.0

    def live(self, over):
        number, last = 0, time.monotonic()
        while not over.is_set():
            try:
                with Connection(self._nodes[0].port, PATIENCE) as connection:
                    connection.select_confirms()
                    while not over.wait(0.05):
                        number += 1
                        message = f"{number} of {self.name}"
                        connection.publish(self._queue, message.encode())
                        self.acknowledged.add(message)
                        self.gap = max(self.gap, time.monotonic() - last)
                        last = time.monotonic()
            except AmqpError:
                self.errors += 1
                # As a client library does that has the addresses of all nodes
                self._nodes.append(self._nodes.pop(0))
                over.wait(0.05)

    def tell(self, how):
        print(f"{how}: {self.errors} errors, longest gap {self.gap:.1f} s, {len(self.acknowledged)} messages")


def take_all(queue, node):
    """Take what is in the queue."""
    with Connection(node.port) as connection:
        return {body.decode() for body in iter(lambda: connection.take(queue), None)}


@contextlib.contextmanager
def cluster():
    """Make three nodes, and leave nothing of them behind."""
    folder = Path(tempfile.mkdtemp(prefix="rabbitmq-"))
    epmd_port = free_port()
    nodes = [Node(folder, number, epmd_port) for number in (1, 2, 3)]
    cookie = folder / ".erlang.cookie"
    try:
        cookie.write_text("COOKIEOFTHETEST")
        cookie.chmod(0o400)
        for node in nodes:
            node.configure(nodes)
        starting = [subprocess.Popen(node.start_command, stdout=subprocess.DEVNULL) for node in nodes]
        assert [started.wait() for started in starting] == [0, 0, 0]
        wait_until(lambda: len(nodes[0].ask("rabbitmqctl", "cluster_status")["running_nodes"]) == 3)
        yield nodes
    finally:
        for node in nodes:
            node.kill()
        # The first node has started it.
        subprocess.run(["epmd", "-port", str(epmd_port), "-kill"], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def publishing(queue, *nodes):
    client = Client(queue, nodes)
    with beside(client.live):
        yield client
