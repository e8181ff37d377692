# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a Freeze of one VM does to the services on it, and to their clients. Prints the rows of a table, as JSON.

    unshare --net python3 tests/freeze.py SECONDS

A VM is a control group that is frozen, and the ports of its servers, whose packets are dropped meanwhile: the kernel of
a frozen VM answers nothing either. So it wants a network namespace of its own, in which loopback may be down.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from glob import glob

from ansible_collections.fleetops.azure_maintenance.tests import haproxy, postgresql, redis
from ansible_collections.fleetops.azure_maintenance.tests.beside import beside, wait_until
from ansible_collections.fleetops.azure_maintenance.tests.cgroup import group
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port

_ECHO = """
import socketserver, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
_WEB = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class Client:
    """Asks again and again; counts what fails, and the longest time between two answers."""

    def __init__(self, ask, errors=(OSError,)):
        self._ask = ask
        self._errors = errors
        self.failed = 0
        self.gap = 0.0

    def live(self, over):
        last = time.monotonic()
        while not over.wait(0.05):
            try:
                self._ask()
            except self._errors:
                self.failed += 1
                continue
            self.gap = max(self.gap, time.monotonic() - last)
            last = time.monotonic()


class Line:
    """A connection that stays, and is made anew when it has failed."""

    def __init__(self, port, read=None, user_timeout=None):
        self._port, self._read, self._user_timeout = port, read, user_timeout
        self._file = None

    def ask(self):
        try:
            if self._file is None:
                with socket.create_connection(("127.0.0.1", self._port), self._read) as made:
                    if self._user_timeout:
                        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._user_timeout * 1000)
                    self._file = made.makefile("rwb")
            self._file.write(b"hello\n")
            self._file.flush()
            if not self._file.readline():
                raise ConnectionError("closed")
        except OSError:
            with contextlib.suppress(OSError, AttributeError):
                self._file.close()
            self._file = None
            raise


@contextlib.contextmanager
def frozen(machine, ports):
    """Freeze a VM as long as the block lasts."""
    numbers = ", ".join(map(str, ports))
    table = f"freeze-{ports[0]}"
    rules = f"""table inet {table} {{
        chain silence {{
            type filter hook input priority 0; policy accept;
            tcp dport {{ {numbers} }} drop
            tcp sport {{ {numbers} }} drop
        }}
    }}"""
    machine.freeze()
    subprocess.run(["nft", rules], check=True)
    try:
        yield
    finally:
        machine.thaw()
        subprocess.run(["nft", f"delete table inet {table}"], check=True)


def measure(machine, ports, seconds, clients):
    """Let clients ask before, during and after a Freeze."""
    with contextlib.ExitStack() as stack:
        for client in clients:
            stack.enter_context(beside(client.live))
        time.sleep(1)
        with frozen(machine, ports):
            time.sleep(seconds)
        # A connection sends again after as long as it has waited last.
        time.sleep(seconds + 3)


def _row(what, failed, gap, after=""):
    return {"what": what, "failed": failed, "gap": round(gap, 1), "after": after}


def server(code, port, machine):
    made = subprocess.Popen([sys.executable, "-c", code, str(port)], preexec_fn=machine and machine.enter)
    wait_until(lambda: takes_connections(port))
    return made


def takes_connections(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def tcp(seconds):
    with group() as machine:
        port = free_port()
        process = server(_ECHO, port, machine)
        clients = {
            "TCP, no time-out": Client(Line(port).ask),
            "TCP, 3 s to read": Client(Line(port, read=3).ask),
            "TCP, TCP_USER_TIMEOUT 3 s": Client(Line(port, user_timeout=3).ask),
        }
        measure(machine, [port], seconds, clients.values())
        machine.kill()
        process.wait()
    return [_row(what, client.failed, client.gap) for what, client in clients.items()]


class _Place:
    def __init__(self, name, port):
        self.name, self.port = name, port


def web(what, order, seconds):
    """HAProxy before two servers, of which the first is on the VM that freezes."""
    with group() as machine, group() as other:
        places = [_Place("first", free_port()), _Place("second", free_port())]
        processes = [server(_WEB, place.port, vm) for place, vm in zip(places, (machine, other))]
        balancer = haproxy.Balancer("haproxy", places)
        if order:
            balancer.order(order)
        clients = [Client(partial(balancer.get, "/")) for _client in range(4)]
        measure(machine, [places[0].port], seconds, clients)
        balancer.stop()
        for vm in (machine, other):
            vm.kill()
        for process in processes:
            process.wait()
    waited = sum(client.gap > 1 for client in clients)
    failed, gap = sum(client.failed for client in clients), max(client.gap for client in clients)
    return [_row(what, failed, gap, f"{waited} of {len(clients)} clients waited")]


def sentinels(what, down_after, seconds):
    """The first VM has the primary and a Sentinel."""
    with group() as machine, redis.three_nodes(("redis-server", "redis-sentinel")) as nodes:
        machine.take(*nodes[0].processes)
        for node in nodes:
            redis.ask(node.sentinel_port, "SENTINEL", "SET", redis.NAME, "down-after-milliseconds", down_after)
        client = redis.Client(nodes)
        measure(machine, [nodes[0].port, nodes[0].sentinel_port], seconds, [client])
        # A Sentinel turns an old primary round after ten seconds.
        time.sleep(12)
        primaries = [node for node in nodes if node.role == "master"]
        lost = len(client.lost(primaries[0])) if len(primaries) == 1 else "unknown"
        stays = "no failover" if nodes[0] in primaries else "failover"
    return [_row(what, client.errors, client.gap, f"{stays}, {lost} writes lost")]


def database(seconds):
    (programs,) = glob("/usr/lib/postgresql/*/bin")[:1]
    with group() as machine, postgresql.pair_of_servers(programs) as pair:
        pair.renew()
        pid = int((pair.first.data / "postmaster.pid").read_text().split()[0])
        machine.take(pid)
        argv = ["psql", "-XAtqw", "-d", f"host={pair.first.folder} port={pair.first.port} dbname=postgres"]
        session = subprocess.Popen(postgresql.as_user(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def ask():
            session.stdin.write("INSERT INTO entries SELECT coalesce(max(number), 0) + 1 FROM entries RETURNING 1;\n")
            session.stdin.flush()
            if not session.stdout.readline():
                raise OSError("closed")

        client = Client(ask)
        measure(machine, [pair.first.port], seconds, [client])
        session.stdin.close()
        session.wait()
        roles = f"{pair.first.role}, its standby {'streams' if pair.second.streams else 'does not stream'}"
        pair.stop()
    return [_row("PostgreSQL, a session without a time-out", client.failed, client.gap, roles)]


def main():
    seconds = float(sys.argv[1])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    parts = (
        tcp,
        partial(web, "HAProxy, as it is", None),
        partial(web, "HAProxy, checks paused", "disable health web/first"),
        partial(web, "HAProxy, server drained", "set server web/first state drain"),
        partial(sentinels, "Redis, Sentinels at 6 s", 6000),
        partial(sentinels, "Redis, Sentinels at 60 s", 60000),
        database,
    )
    # Most of the time all of them sleep.
    with ThreadPoolExecutor(len(parts)) as pool:
        print(json.dumps([row for rows in pool.map(lambda part: part(seconds), parts) for row in rows]))


if __name__ == "__main__":
    main()
