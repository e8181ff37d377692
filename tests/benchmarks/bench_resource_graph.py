# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long 10,000 events of Azure Resource Graph take from the requests of its pages to a result.

The limit is three times json.loads of the pages and the requests, which are made once by this collection's client and
once by requests alone, with TLS over loopback. All is timed in turn in one run, as the CPU time
of this process; the server is another one. The exit status tells nothing of the speed: a number that depends on the
machine must not fail a build.
"""

from __future__ import annotations

import http.server
import json
import multiprocessing
import os
import ssl
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from statistics import median
from typing import Any, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))

import requests
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure import arm, events, graph
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.cloud import Cloud
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.credentials import Login
from ansible_collections.fleetops.azure_maintenance.tests.benchmarks._cpu import seconds
from ansible_collections.fleetops.azure_maintenance.tests.certificates import make_certificate
from ansible_collections.fleetops.azure_maintenance.tests.quiet_handler import QuietHandler

ROWS, PAGES = 10_000, 20
ROUNDS = 15
LIMIT = 3.0

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
GROUP = "/subscriptions/5b4b650e-28b9-4790-b3ab-ddbd88d727c4/resourcegroups/web/providers/microsoft.compute"


def make_pages() -> list[bytes]:
    """Return the answers: nine of ten events have ended, as in a list that keeps them."""
    pages = []
    for first in range(0, ROWS, ROWS // PAGES):
        rows = [make_row(number) for number in range(first, first + ROWS // PAGES)]
        answer = {"totalRecords": ROWS, "count": len(rows), "data": rows, "facets": [], "resultTruncated": "false"}
        if len(pages) + 1 < PAGES:
            answer["$skipToken"] = f"page {len(pages) + 1}"
        pages.append(json.dumps(answer, separators=(",", ":")).encode())
    return pages


def make_row(number: int) -> dict[str, Any]:
    event_id = f"{number:08x}-5204-4335-8c33-c54e315dcffe"
    live = number % 10 == 0
    start = NOW + timedelta(seconds=number % 900)
    return {
        "id": f"{GROUP}/virtualmachines/web-{number}/providers/microsoft.maintenance/scheduledevents/{event_id}",
        "name": event_id,
        "location": "westeurope",
        "properties": {
            "EventId": event_id,
            "EventType": ("Freeze", "Reboot", "Redeploy")[number % 3],
            "ResourceType": "VirtualMachine",
            "Resources": [f"web-{number}"],
            "EventStatus": "Scheduled" if live else "Completed",
            "NotBefore": format_datetime(start, usegmt=True) if live else "",
            "Description": "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
            "EventSource": "Platform",
            "DurationInSeconds": 9,
            "TargetResourceId": f"{GROUP}/virtualmachines/web-{number}",
            "ScheduledEventApiVersion": "2020-07-01",
        },
    }


class Handler(QuietHandler):
    """Gives the page that a $skipToken asks for."""

    protocol_version = "HTTP/1.1"
    # Otherwise each answer waits for the acknowledgement of its headers.
    disable_nagle_algorithm = True
    pages: Sequence[bytes] = ()

    def do_POST(self) -> None:
        asked = self.read_json()
        self.reply(200, self.pages[int(asked["options"].get("$skipToken", "page 0").split()[1])])


def serve(pages: list[bytes], certificate: Path, port: Any) -> None:
    Handler.pages = pages
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    port.send(server.server_address[1])
    server.serve_forever()


class Client(arm.ArmClient):
    """Has logged in to the server."""

    def __init__(self, url: str) -> None:
        super().__init__(Login("none"), 120, print)
        self._cloud, self._token = Cloud("loopback", url, url, url), "token"


def read(url: str) -> int:
    """Return the number of events, on the way of the module from its first request to its result."""
    found = graph.ask_events(Client(url), graph.Scope(("s",)), print)
    selected = events.select(found.events, events.read_selection({}), NOW)
    return len([each.to_dict(NOW) for each in selected])


def request(url: str) -> int:
    """Return the number of pages, as requests alone gets them."""
    with requests.Session() as session:
        path = f"{url}/providers/Microsoft.ResourceGraph/resources?api-version=2021-03-01"
        bodies = [{"options": {"$skipToken": f"page {number}"}} for number in range(PAGES)]
        return len([session.post(path, json=body, timeout=60).content for body in bodies])


def decode(pages: list[bytes]) -> int:
    return len([json.loads(page) for page in pages])


def main() -> None:
    pages = make_pages()
    with tempfile.TemporaryDirectory() as folder:
        certificate = make_certificate(Path(folder) / "server.pem", "IP:127.0.0.1")
        os.environ["REQUESTS_CA_BUNDLE"] = str(certificate.with_suffix(".crt"))
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.Process(target=serve, args=(pages, certificate, theirs), daemon=True)
        server.start()
        url = f"https://127.0.0.1:{ours.recv()}"
        try:
            measure(url, pages)
        finally:
            server.kill()


def measure(url: str, pages: list[bytes]) -> None:
    assert read(url) == ROWS
    times: dict[str, list[float]] = {"all": [], "json": [], "requests": []}
    for _round in range(ROUNDS):
        times["json"].append(seconds(lambda: decode(pages)))
        times["requests"].append(seconds(lambda: request(url)))
        times["all"].append(seconds(lambda: read(url)))
    whole, decoding, asking = (median(times[name]) for name in ("all", "json", "requests"))
    # The sentence of the issue can be read in both ways.
    for title, ratio in (
        ("both", whole / (decoding + asking)),
        ("json.loads alone, without the requests", (whole - asking) / decoding),
    ):
        verdict = "met" if ratio <= LIMIT else "MISSED"
        print(f"events of Resource Graph: {ratio:.2f} x {title}, limit {LIMIT:g}: {verdict}")
    print(
        f"  {ROWS:,} events in {PAGES} pages, {sum(map(len, pages)) / 2**20:.1f} MiB, CPU; medians of {ROUNDS} rounds:"
    )
    print(f"  {whole * 1000:.1f} ms in all; json.loads {decoding * 1000:.1f} ms, requests {asking * 1000:.1f} ms")


if __name__ == "__main__":
    main()
