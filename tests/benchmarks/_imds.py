# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A metadata service that answers at once, so that only the cost of asking is measured."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_COMPUTE = b'{"name": "vm", "vmId": "02aab8a4-74ef-476e-8182-f6d2ba4166a6", "resourceId": "/subscriptions/s"}'


def serve(document: bytes) -> str:
    """Answer with this document from a free port of loopback until this process ends, and return the endpoint."""

    class Imds(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = _COMPUTE if "/instance/" in self.path else document
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_unused: object) -> None:
            """Keep quiet: the benchmark's own lines are what is read."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Imds)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"
