# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real HAProxy on loopback, applications behind it, and clients in front of it that keep asking."""

from __future__ import annotations

import contextlib
import csv
import http.client
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.beside import PATIENCE, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port
from ansible_collections.fleetops.azure_maintenance.tests.quiet_handler import QuietHandler

CONFIGURATION = """
global
  stats socket {socket} mode 600 level admin
defaults
  mode http
  timeout connect 10s
  timeout check 10s
  timeout client 1200s
  timeout server 1200s
frontend front
  bind fd@{listener}
  default_backend web
backend web
  option httpchk GET /health
  default-server inter 500ms fall 4 rise 2
{servers}
"""


class Application:
    """A web server that can be stopped and started again on its port, be ill, and let a client wait."""

    def __init__(self, name):
        self.name = name
        self.ill = False
        self.holds = threading.Event()
        self.release = threading.Event()
        self._server = None
        self.port = free_port()
        self.start()

    def start(self):
        application = self

        class Handler(QuietHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                if self.path.endswith("/hold"):
                    application.holds.set()
                    application.release.wait(PATIENCE)
                asked_how_it_is = self.path == "/health"
                self.send_response(503 if asked_how_it_is and application.ill else 200)
                # HAProxy does not wait for more than the status of a check.
                with contextlib.suppress(ConnectionResetError):
                    self.end_headers()
                    if not asked_how_it_is:
                        self.wfile.write(application.name.encode())

        ThreadingHTTPServer.request_queue_size = 128
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=[0.05]).start()

    def stop(self):
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class Balancer:
    """An HAProxy with one backend, web, in front of these applications.

    :param backups: the names of those that get requests only where no other is left.
    """

    def __init__(self, program, applications, backups=()):
        # Not the folder of the test: the path of a socket may have 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="haproxy-"))
        self.socket = self.folder / "admin.sock"
        self.requests = []
        self._over = threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            servers = [
                f"  use-server {each.name} if {{ path_beg /{each.name}/ }}\n"
                f"  server {each.name} 127.0.0.1:{each.port} check{' backup' * (each.name in backups)}"
                for each in applications
            ]
            # One that HAProxy does not check, and that gets no requests
            servers.append("  server unchecked 127.0.0.1:9 disabled")
            configuration = self.folder / "haproxy.cfg"
            configuration.write_text(
                CONFIGURATION.format(socket=self.socket, listener=listener.fileno(), servers="\n".join(servers))
            )
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                [program, "-q", "-db", "-f", str(configuration)],
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        wait_until(self._is_ready)
        self._client = threading.Thread(target=self._keep_asking)
        self._client.start()

    def _is_ready(self):
        # HAProxy makes the socket before it listens there.
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return bool(self.order("show info"))
        return False

    def order(self, command):
        """One command over the admin socket."""
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(str(self.socket))
            admin.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: admin.recv(65536), b"")).decode()

    def states(self):
        table = self.order("show stat web 4 -1").lstrip("# ").splitlines()
        return {row["svname"]: row["status"] for row in csv.DictReader(table)}

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def _keep_asking(self):
        while not self._over.wait(0.1):
            try:
                status, said = self.get("/")
            except OSError as problem:
                status, said = 0, str(problem)
            self.requests.append((time.time(), status, said))

    def failed(self):
        return [request for request in self.requests if request[1] != 200]

    def longest_gap(self):
        """Return the longest time between two answers that were good, in seconds."""
        good = [when for when, status, _said in self.requests if status == 200]
        return max((later - before for before, later in zip(good, good[1:])), default=0.0)

    def tell(self, how):
        failed, gap = len(self.failed()), self.longest_gap()
        print(f"{how}: {failed} of {len(self.requests)} requests failed, longest gap {gap:.1f} s")

    def served_by(self, since=0.0, until=None):
        """Who answered the clients in this time."""
        return {said for when, _status, said in self.requests if since <= when <= (until or time.time())}

    def stop(self):
        self._over.set()
        self._client.join()
        self._process.terminate()
        self._process.wait(PATIENCE)
        shutil.rmtree(self.folder)
