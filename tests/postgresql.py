# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two real PostgreSQL servers on loopback, the one a streaming replica of the other."""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.beside import PATIENCE, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port

_START_CACHE = Path(__file__).resolve().parents[1] / ".ci" / "start_cache.py"

# PostgreSQL does not run as root.
USER = "postgres" if os.geteuid() == 0 else getpass.getuser()
_CONFIGURATION = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
primary_conninfo = 'host=127.0.0.1 port={peer_port} user=replicator passfile={passfile}'
wal_keep_size = 64MB
wal_retrieve_retry_interval = 500ms
log_line_prefix = '%n '
shared_buffers = 16MB
# Processes are killed here, and no machine: what is written is not lost.
fsync = off
"""


class Server:
    """One server, with its data and its socket in a folder of its own."""

    def __init__(self, programs, folder, port):
        self.programs = Path(programs)
        self.folder = Path(folder)
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.port = port

    def run(self, program, *arguments, check=True):
        return run_as_user([str(self.programs / program), *arguments], check=check)

    @property
    def start_command(self):
        return as_user([str(self.programs / "pg_ctl"), "start", f"--pgdata={self.data}", f"--log={self.log}", "--wait"])

    @property
    def stop_command(self):
        return as_user([str(self.programs / "pg_ctl"), "stop", f"--pgdata={self.data}", "--mode=fast", "--wait"])

    def command_to(self, query):
        return as_user([str(self.programs / "psql"), *self._options, query])

    def start(self):
        self.run("pg_ctl", "start", f"--pgdata={self.data}", f"--log={self.log}", "--wait")

    def stop(self, mode="fast"):
        """Stop it, if it runs; ``immediate`` is like a power cut."""
        if (self.data / "postmaster.pid").exists():
            self.run("pg_ctl", "stop", f"--pgdata={self.data}", f"--mode={mode}", "--wait", check=False)

    def ask(self, query):
        """What the server answers, None when it does not."""
        ended = self.run("psql", *self._options, query, check=False)
        return ended.stdout.strip() if ended.returncode == 0 else None

    @property
    def _options(self):
        return ["-X", "-w", "-A", "-t", "-d", f"host={self.folder} port={self.port} dbname=postgres", "-c"]

    @property
    def role(self):
        return {"t": "standby", "f": "primary", None: "down"}[self.ask("SELECT pg_is_in_recovery()")]

    @property
    def streams(self):
        return self.ask("SELECT status FROM pg_stat_wal_receiver") == "streaming"


class Pair:
    """A primary and its standby, as they were made, before each test anew."""

    def __init__(self, programs, folder):
        self.folder = folder
        ports = (free_port(), free_port())
        self.first, self.second = (
            Server(programs, folder / name, port) for name, port in zip(("one", "two"), ports, strict=True)
        )
        self.both = (self.first, self.second)
        self._kept = folder / "kept"
        self._make()
        self.python = self._make_python()

    def _make(self):
        first, second = self.both
        passfile = self.folder / "passfile"
        run_as_user(["mkdir", "--mode=700", str(first.folder), str(second.folder), str(self._kept)])
        run_as_user(["sh", "-c", f"umask 077; echo '*:*:*:replicator:secret' > '{passfile}'"])
        first.run("initdb", f"--pgdata={first.data}", "--no-sync", "--auth-local=peer", "--auth-host=scram-sha-256")
        with open(first.data / "postgresql.conf", "a", encoding="ascii") as file:
            file.write("include '../server.conf'\n")
        for server, peer in (self.both, self.both[::-1]):
            settings = {"port": server.port, "folder": server.folder, "peer_port": peer.port, "passfile": passfile}
            (server.folder / "server.conf").write_text(_CONFIGURATION.format(**settings))
        first.start()
        assert first.ask("CREATE USER replicator REPLICATION PASSWORD 'secret'") is not None
        assert first.ask("CREATE TABLE entries (number int PRIMARY KEY)") is not None
        place = f"host=127.0.0.1 port={first.port} user=replicator passfile={passfile}"
        options = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync", f"--dbname={place}"]
        second.run("pg_basebackup", f"--pgdata={second.data}", *options)
        first.stop()
        for server in self.both:
            run_as_user(["cp", "-a", str(server.data), str(self._kept / server.folder.name)])

    def _make_python(self):
        """Return a Python that the user of the servers may run, which keeps the bytecode of Ansible's modules."""
        place = self.folder / "python"
        run_as_user(["/usr/bin/python3", "-m", "venv", "--without-pip", str(place)])
        (packages,) = place.glob("lib/python3*/site-packages")
        shutil.copy(_START_CACHE, packages)
        (packages / "start_cache.pth").write_text("import start_cache\n")
        run_as_user(["mkdir", "--mode=777", str(place / "start_cache")])
        return place / "bin" / "python"

    def renew(self):
        """Start the pair as it was made."""
        self.stop()
        for server in self.both:
            shutil.rmtree(server.data)
            server.log.unlink(missing_ok=True)
            run_as_user(["cp", "-a", str(self._kept / server.folder.name), str(server.data)])
            server.start()
        wait_until(lambda: self.second.streams, "the standby streams")

    def stop(self):
        for server in self.both:
            server.stop("immediate")

    def write(self, number):
        """Write a row as a client does that knows both servers; tells whether the primary acknowledged it."""
        hosts = ",".join(str(server.folder) for server in self.both)
        ports = ",".join(str(server.port) for server in self.both)
        place = f"host={hosts} port={ports} dbname=postgres target_session_attrs=read-write connect_timeout=5"
        query = f"INSERT INTO entries VALUES ({number}) ON CONFLICT DO NOTHING"
        return self.first.run("psql", "-X", "-w", "-d", place, "-c", query, check=False).returncode == 0


def as_user(argv):
    """This command line, for root or for the user itself to run."""
    return ["runuser", "-u", USER, "--", *argv] if os.geteuid() == 0 else argv


def run_as_user(argv, check=True):
    identity = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    ended = subprocess.run(
        argv,
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
        **identity,
    )
    assert ended.returncode == 0 or not check, f"{argv}: {ended.stdout}{ended.stderr}"
    return ended


@contextlib.contextmanager
def pair_of_servers(programs):
    """Make a pair, and leave nothing of it behind. Its folder is short, because the path of a socket must be."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, USER, USER)
    servers = [Server(programs, folder / name, 0) for name in ("one", "two")]
    stop = [shlex.join([*server.stop_command, "--mode=immediate"]) for server in servers]
    # A process of its own cleans up, as soon as this one is done or is no more, even if it was killed.
    script = "\n".join(["cat", *stop, shlex.join(["rm", "-rf", str(folder)])])
    with subprocess.Popen(
        ["sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ):
        yield Pair(programs, folder)
