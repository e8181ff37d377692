# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP: one thread for each connection, and the ways to spoil an answer."""

from __future__ import annotations

import os
import signal
import socket
import socketserver
import struct
import time
from http.client import responses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from simulator.faults import SPOILED
from simulator.imds import Answer, Request, area_of
from simulator.wire import compact

_LARGEST_BODY = 1024 * 1024
_REDIRECTED = "/simulator/redirected"


class Server(ThreadingHTTPServer):
    # A held or slow answer must not keep the process from stopping.
    daemon_threads = True
    block_on_close = False
    # A fleet asks all at once.
    request_queue_size = 128

    def __init__(self, host, port, simulator):
        self.simulator = simulator
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self):
        # Not HTTPServer's, which asks DNS for the name of this host and may wait for it.
        socketserver.TCPServer.server_bind(self)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 300

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            # The client has gone away, as some tests of time-outs want: nobody is left to get an answer.
            self.close_connection = True

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        """Silent: the journal has it all."""

    def send_error(self, code, message=None, explain=None):
        """Answer in JSON for a request that http.server itself refuses (a broken request line, an unknown verb)."""
        self.close_connection = True
        # http.server answers 501 for an unknown verb; IMDS answers 405 for every verb that it does not take.
        code = 405 if code == 501 else int(code)
        self._reply(Answer(code, compact({"error": message or responses.get(code, "")})))

    def _serve(self):
        if self.request_version == "HTTP/1.0":
            self.close_connection = True
        body = self._read_body()
        if body is None:
            return
        path, _mark, query = self.path.partition("?")
        if path == _REDIRECTED:
            self._redirected(body)
        elif path == "/simulator" or path.startswith("/simulator/"):
            self._control(path, body)
        else:
            self._imds(path, query, body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _serve

    def _read_body(self):
        """The body of the request; None when it was refused."""
        length = self.headers.get("Content-Length", "0").strip()
        if self.headers.get("Transfer-Encoding"):
            self.send_error(411, "A body needs a Content-Length here.")
        elif not (length.isascii() and length.isdigit()):
            self.send_error(400, "Content-Length is not a number.")
        elif len(length) > 9 or int(length) > _LARGEST_BODY:
            self.send_error(413, f"The body is larger than {_LARGEST_BODY} bytes.")
        else:
            body = self.rfile.read(int(length))
            if len(body) < int(length):
                raise ConnectionAbortedError("the client left in the middle of its body")
            return body
        return None

    # --- the three kinds of routes ------------------------------------------------------------------------------

    def _control(self, path, body):
        status, value = self.server.simulator.control.answer(self.command, path, body)
        self._reply(Answer(status, compact(value) + b"\n"))
        if status == 200 and path == "/simulator/stop":
            os.kill(os.getpid(), signal.SIGTERM)

    def _redirected(self, body):
        """The target of the fault "redirect": a client that follows gets a false document."""
        entry = self._journal(body)
        self._answer(entry, Answer(200, b'{"DocumentIncarnation":1,"Events":[]}'))

    def _imds(self, path, query, body):
        simulator = self.server.simulator
        client = self.client_address[0]
        entry = self._journal(body)
        vm, path = simulator.addresses.find(path, client)
        if vm is None:
            self._answer(entry, Answer(404, compact({"error": simulator.addresses.help(client)})))
            return
        entry["vm"] = vm
        fault = simulator.faults.take(area_of(path), self.command, vm)
        if fault is not None:
            entry["fault"] = fault.fault
            if fault.fault == "hold":
                time.sleep(fault.seconds)
            elif fault.fault == "silent":
                self._keep_silent(entry, path)
                return
            elif fault.fault == "proxy_agent":
                self.close_connection = True
        with simulator.world.lock:
            simulator.world.settle()
            if fault is None or fault.fault in SPOILED:
                answer = simulator.imds.answer(Request(vm, self.command, path, query, self.headers, body))
            else:
                answer = Answer(*fault.answer(simulator.world.settings))
            self._tell_timeline(path, vm, entry["fault"], answer.status)
        if fault is not None:
            answer.headers = _merged(answer.headers, fault.headers)
        self._answer(entry, answer, fault)

    def _keep_silent(self, entry, path):
        """Give no answer, until the client closes the connection."""
        simulator = self.server.simulator
        with simulator.world.lock:
            simulator.world.settle()
            self._tell_timeline(path, entry["vm"], "silent", None)
        simulator.journal.finish(entry)
        self.close_connection = True
        self.connection.settimeout(None)
        while self.rfile.read1(4096):
            pass

    def _tell_timeline(self, path, vm, fault, status):
        if area_of(path) != "scheduledevents":
            return
        timeline = self.server.simulator.world.timeline
        if self.command == "GET":
            timeline.count_poll(vm, fault)
        elif self.command == "POST" and fault is not None:
            told = f"status {status}" if status else "no answer"
            timeline.add("vm", f'its approval met the fault "{fault}" ({told})', vm)

    def _journal(self, body):
        return self.server.simulator.journal.begin(
            self.client_address[0], self.command, self.path, self.headers.items(), body
        )

    # --- answers ------------------------------------------------------------------------------------------------

    def _answer(self, entry, answer, fault=None):
        # Entered before it is sent: a client that has the answer finds it in the journal.
        entry["status"] = answer.status
        self.server.simulator.journal.finish(entry)
        self._reply(answer, fault)

    def _reply(self, answer, fault=None):
        body = b"" if answer.status in (204, 304) else answer.body
        headers = {
            "Server": "IMDS-simulator",
            "Date": self.date_time_string(),
            "Content-Type": answer.content_type,
            "Content-Length": str(len(body)),
        }
        if answer.status == 204:
            del headers["Content-Length"]
        if self.close_connection:
            headers["Connection"] = "close"
        lines = [f"HTTP/1.1 {answer.status} {responses.get(answer.status, 'Simulated')}"]
        lines += [f"{name}: {value}" for name, value in _merged(headers, answer.headers).items()]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if self.command == "HEAD":
            body = b""
        kind = fault.fault if fault is not None else None
        if kind in ("reset", "truncated"):
            self.wfile.write(head + body[: len(body) // 2])
            self.close_connection = True
            if kind == "reset":
                self._reset()
        elif kind == "slow":
            self.wfile.write(head)
            for position in range(len(body)):
                time.sleep(fault.seconds)
                self.wfile.write(body[position : position + 1])
        else:
            self.wfile.write(head + body)

    def _reset(self):
        """Close with RST. The descriptor is closed here, because the shutdown of socketserver would send FIN."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())


def _merged(headers, extra):
    """The headers with those of ``extra`` in place of any of the same name."""
    replaced = {name.lower() for name in extra}
    return {**{name: value for name, value in headers.items() if name.lower() not in replaced}, **extra}
