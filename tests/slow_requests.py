# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An application that needs a second for each answer, and clients that count which of their requests were cut off."""

from __future__ import annotations

import contextlib
import http.client
import threading

from ansible_collections.fleetops.azure_maintenance.tests.beside import beside

# Its argument is a port. When it is asked to end it takes no more connections, and answers one more request on each
# that it has: so a request can only be cut off by a kill, never by the end of the program itself.
APPLICATION = """
import http.server, signal, sys, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        time.sleep(1)
        self.send_response(200)
        self.send_header("Content-Length", "4")
        if self.server.ends:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"done")

    def log_message(self, *arguments):
        pass

class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False
    ends = False

server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever(0.05)
# First this: a client that is told to connect anew must not wait at a port that is about to be closed.
server.socket.close()
server.ends = True
server.server_close()
"""
# The variables of a run that only approves
NO_RUNBOOK = {"event_response_prepare": "nothing", "event_response_restore": "nothing"}
_CLIENTS = 4
_PATIENCE = 60


class Clients:
    """Four clients with a connection each that ask without a pause.

    :ivar answered: how many requests were answered.
    :ivar refused: how many found no server: such a client asks another one, or later.
    :ivar cut: how many were sent and not answered: nobody knows what became of them.
    """

    def __init__(self, port):
        self.port = port
        self._lock = threading.Lock()
        self.answered = self.refused = self.cut = 0

    @contextlib.contextmanager
    def asking(self):
        with contextlib.ExitStack() as stack:
            for _number in range(_CLIENTS):
                stack.enter_context(beside(self._keep_asking))
            yield

    def _keep_asking(self, over):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        while not over.is_set():
            outcome = self._ask(connection)
            with self._lock:
                setattr(self, outcome, getattr(self, outcome) + 1)
            if outcome != "answered":
                connection.close()
            if outcome == "refused":
                over.wait(0.1)
        connection.close()

    @staticmethod
    def _ask(connection):
        if connection.sock is None:
            try:
                connection.connect()
            except OSError:
                return "refused"
        try:
            connection.request("GET", "/")
            return "answered" if connection.getresponse().read() == b"done" else "cut"
        except (OSError, http.client.HTTPException):
            return "cut"

    def tell(self, how):
        print(f"{how}: {self.answered} requests answered, {self.cut} cut off, {self.refused} found no server")


@contextlib.contextmanager
def power_cycle(azure, lose_power, boot):
    """Do this meanwhile when the only event starts, and that when it has ended."""

    def live(over):
        is_down = False
        while not over.wait(0.1):
            (event,) = azure.control("GET", "/simulator/events")["events"]
            if event["phase"] == "started" and not is_down:
                lose_power()
                is_down = True
            elif event["phase"] == "ended" and is_down:
                boot()
                return

    with beside(live):
        yield
