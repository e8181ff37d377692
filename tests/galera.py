# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three real MariaDB servers on loopback that are one cluster of Galera, and a client that writes all the time."""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.beside import beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port

# MariaDB does not run as root unless it is told to.
USER = "mysql" if os.geteuid() == 0 else getpass.getuser()
PROVIDER = "/usr/lib/galera/libgalera_smm.so"
_CONFIGURATION = """
[mariadbd]
user={user}
datadir={folder}/data
socket={folder}/socket
pid-file={folder}/pid
log-error={folder}/log.err
port={port}
bind-address=127.0.0.1
skip-name-resolve
innodb-buffer-pool-size=16M
innodb-flush-log-at-trx-commit=0
performance-schema=off
binlog-format=ROW
innodb-autoinc-lock-mode=2
wsrep-on=ON
wsrep-provider={provider}
wsrep-cluster-name=shop
wsrep-cluster-address=gcomm://{members}
wsrep-node-name={name}
wsrep-node-address=127.0.0.1:{cluster_port}
wsrep-sst-method=rsync
wsrep-sst-receive-address=127.0.0.1:{copy_port}
wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{cluster_port};ist.recv_addr=127.0.0.1:{transfer_port};gcache.size=16M
"""


class Node:
    """One VM with its server."""

    def __init__(self, program, folder, name):
        self.name = name
        self.folder = folder / name
        self._program = program
        self.ports = {kind: free_port() for kind in ("port", "cluster_port", "transfer_port", "copy_port")}

    def configure(self, nodes):
        members = ",".join(f"127.0.0.1:{node.ports['cluster_port']}" for node in nodes)
        told = {"folder": self.folder, "name": self.name, "members": members, "user": USER, "provider": PROVIDER}
        (self.folder / "my.cnf").write_text(_CONFIGURATION.format(**told, **self.ports))

    @property
    def client(self):
        return ["timeout", "10", "mariadb", "--no-defaults", f"--socket={self.folder}/socket", "--user=root"]

    def command(self, *options):
        return [self._program, f"--defaults-file={self.folder}/my.cnf", *options]

    @property
    def start_command(self):
        return ["sh", "-c", f"{shlex.join(self.command())} >/dev/null 2>&1 & exit 0"]

    @property
    def stop_command(self):
        ask = shlex.join([*self.client, "-e", "SHUTDOWN"])
        return ["sh", "-c", f"{ask} && while test -e {self.folder}/pid; do sleep 0.1; done"]

    def start(self, *options):
        subprocess.run(["sh", "-c", f"{shlex.join(self.command(*options))} >/dev/null 2>&1 & exit 0"], check=True)

    @property
    def gave_all_data(self):
        """Whether another node has got a copy of all its data, and not only what it had missed."""
        log = (self.folder / "log.err").read_text()
        return any("--role 'donor'" in line and "--bypass" not in line for line in log.splitlines())

    def kill(self):
        """Stop it as a power cut does."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
            os.kill(int((self.folder / "pid").read_text()), 9)
        (self.folder / "pid").unlink(missing_ok=True)

    def ask(self, query):
        """Return what the server answers, None where it does not."""
        argv = [*self.client, "--batch", "--skip-column-names", "-e", query]
        ended = subprocess.run(argv, capture_output=True, text=True, check=False)
        return ended.stdout.strip() if ended.returncode == 0 else None

    @property
    def is_synced(self):
        return (self.ask("SHOW STATUS LIKE 'wsrep_local_state_comment'") or "").endswith("Synced")

    @property
    def size(self):
        return int((self.ask("SHOW STATUS LIKE 'wsrep_cluster_size'") or "0").split()[-1])


class Client:
    """Writes row after row to the first node that takes them."""

    def __init__(self, nodes):
        self._nodes = list(nodes)
        self.acknowledged = set()
        self.errors = 0
        self.gap = 0.0

    def live(self, over):
        number, last = 0, time.monotonic()
        while not over.wait(0.05):
            number += 1
            if self._nodes[0].ask(f"INSERT INTO shop.entries VALUES ({number})") is None:
                self.errors += 1
                # As a balancer does that has seen the first one fail
                self._nodes.append(self._nodes.pop(0))
                continue
            self.acknowledged.add(number)
            self.gap = max(self.gap, time.monotonic() - last)
            last = time.monotonic()

    def tell(self, how):
        print(f"{how}: {self.errors} errors, longest gap {self.gap:.1f} s, {len(self.acknowledged)} writes")


@contextlib.contextmanager
def cluster(program, install):
    """Make three nodes with the same data, start them, and leave nothing of them behind."""
    folder = Path(tempfile.mkdtemp(prefix="galera-"))
    nodes = [Node(program, folder, f"db-{number}") for number in (1, 2, 3)]
    first = nodes[0]
    try:
        for node in nodes:
            node.folder.mkdir()
            node.configure(nodes)
        options = ["--no-defaults", f"--datadir={first.folder}/data", "--auth-root-authentication-method=normal"]
        subprocess.run([install, *options, "--skip-test-db"], check=True, capture_output=True)
        give_to_user(folder)
        first.start("--wsrep-new-cluster")
        wait_until(lambda: first.is_synced)
        first.ask("CREATE DATABASE shop; CREATE TABLE shop.entries (number int PRIMARY KEY)")
        subprocess.run(first.stop_command, check=True)
        # Of the same state no node needs the data of another.
        for node in nodes[1:]:
            shutil.copytree(first.folder / "data", node.folder / "data")
        give_to_user(folder)
        first.start("--wsrep-new-cluster")
        wait_until(lambda: first.is_synced)
        for node in nodes[1:]:
            node.start()
        wait_until(lambda: all(node.is_synced and node.size == 3 for node in nodes))
        yield nodes
    finally:
        for node in nodes:
            node.kill()
        shutil.rmtree(folder, ignore_errors=True)


def give_to_user(folder):
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", USER, str(folder)], check=True)


@contextlib.contextmanager
def writing(nodes):
    client = Client(nodes)
    with beside(client.live):
        yield client
