# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for Azure's guest proxy agent, which the Metadata Security Protocol puts between a VM and IMDS.

It answers as the agent's source does: 421 where it does not know who connected, 403 with an empty body for its own
refusal, 502 and 503 where IMDS fails, and else the answer of IMDS with one more header. It knows a client by the
process that has the other end of the connection, as the agent does by eBPF. It is stricter than the agent: a request
that nothing but a proxy or an impostor would send gets 400, and is complained of.

As a program, it prints its address, and then a line of JSON for each request.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import pwd
import re
import socket
import sys
import threading
from collections import namedtuple
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

HEADER = "x-ms-azure-host-authorization"
# As the file of local rules that the agent cannot read: it refuses everybody.
BROKEN = "broken"
_VERBS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")
_PROXIES_SEND = ("forwarded", "proxy-authorization", "proxy-connection", "via", "x-forwarded-for", "x-forwarded-host")
# They are about one connection, and not about the answer.
_OF_ONE_CONNECTION = ("connection", "content-length", "keep-alive", "transfer-encoding")
# linux/netfilter_ipv4.h; the module socket has no name for it.
_SO_ORIGINAL_DST = 80

Asker = namedtuple("Asker", "userName exePath processName")
Decision = namedtuple("Decision", "asker method target status")


def allow(user_name, exe_path, paths=("/metadata/scheduledevents", "/metadata/instance/compute")):
    """Return an allow list that lets in one user with one program, as Azure writes it."""
    names = [f"path {number}" for number, _path in enumerate(paths)]
    return {
        "defaultAccess": "deny",
        "mode": "enforce",
        "id": "/subscriptions/0/galleries/g/inVMAccessControlProfiles/p/versions/1.0.0",
        "rules": {
            "privileges": [{"name": name, "path": path} for name, path in zip(names, paths)],
            "roles": [{"name": "reader", "privileges": names}],
            "identities": [{"name": "us", "userName": user_name, "exePath": exe_path}],
            "roleAssignments": [{"role": "reader", "identities": ["us"]}],
        },
    }


def is_allowed(rules, asker, target):
    """Tell whether an allow list lets this client ask for this path. What it is about to do with it does not matter."""
    if rules is None:
        return True
    if rules == BROKEN:
        return False
    path, _mark, query = target.partition("?")
    parameters = dict(parse_qsl(query))
    parts = rules["rules"]
    matching = {
        privilege["name"]
        for privilege in parts["privileges"]
        if path.lower().startswith(privilege["path"].lower())
        and all(parameters.get(name) == value for name, value in privilege.get("queryParameters", {}).items())
    }
    if not matching:
        return rules["defaultAccess"] == "allow"
    roles = {role["name"] for role in parts["roles"] if matching.intersection(role["privileges"])}
    assigned = [each for each in parts["roleAssignments"] if each["role"] in roles]
    names = {name for each in assigned for name in each["identities"]}
    mine = asker._asdict()
    return any(
        all(mine[field] == value for field, value in identity.items() if field != "name")
        for identity in parts["identities"]
        if identity["name"] in names
    )


def find_asker(address):
    """Return who has the socket with this address, None where nobody has it."""
    here = f"{socket.inet_aton(address[0])[::-1].hex().upper()}:{address[1]:04X}"
    # The kernel gives the table in parts, and leaves a line out where others come and go between two of them.
    for _look in range(5):
        for line in Path("/proc/self/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            # One that was closed long ago, and one that is just closed, have no inode.
            if fields[1] == here and fields[9] != "0":
                return _find_process(f"socket:[{fields[9]}]", int(fields[7]))
    return None


def _find_process(link, uid):
    for process in filter(str.isdigit, os.listdir("/proc")):
        # Processes end and files are closed meanwhile, and those of others cannot be looked into.
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{process}/fd"):
                if _read_link(f"/proc/{process}/fd/{number}") == link:
                    program = os.readlink(f"/proc/{process}/exe")
                    return Asker(pwd.getpwuid(uid).pw_name, program, os.path.basename(program))
    return None


def _read_link(path):
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return None


def _was_redirected(connection):
    """Tell whether a client has asked for another address than the one at which it was let in."""
    try:
        wanted = connection.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
    except OSError:
        return False
    return (socket.inet_ntoa(wanted[4:8]), int.from_bytes(wanted[2:4], "big")) != connection.getsockname()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        # Once for all requests of a connection
        self.asker = self.server.agent.identify(self.connection, self.client_address)

    def handle(self):
        # A client may give up waiting.
        with contextlib.suppress(ConnectionError):
            super().handle()

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        agent = self.server.agent
        fault = self._find_fault()
        if fault:
            agent.complaints.append(f"{self.requestline}: {fault}")
            self.refuse(400)
        elif re.search(r"\.\.|%2e", self.path, re.IGNORECASE):
            self.refuse(403)
        elif self.asker is None:
            self.refuse(421)
        elif not is_allowed(agent.rules, self.asker, self.path) and not agent.only_audits:
            self.refuse(403)
        else:
            self._forward(body)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = answer

    def _find_fault(self):
        names = [name.lower() for name in self.headers]
        if not self.path.startswith("/"):
            return "that is how a proxy is asked"
        if names.count("host") != 1 or self.headers.get_all("Metadata") != ["true"]:
            return "one header Host, and one 'Metadata: true', must be there"
        if "transfer-encoding" in names:
            return "the length of a body must be said"
        wrong = [name for name in names if name in _PROXIES_SEND or name.startswith("x-ms-azure-host-")]
        return f"no client of IMDS sends {', '.join(wrong)}" if wrong else ""

    def _forward(self, body):
        response, content = self._ask_imds(body)
        if isinstance(response, int):
            self.refuse(response)
            return
        self.server.agent.note(Decision(self.asker, self.command, self.path, response.status))
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        self.send_header(HEADER, "value")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _ask_imds(self, body):
        """Return the answer of IMDS and its body, or the status that says why there is none."""
        parts = urlsplit(self.server.agent.upstream)
        # Without a time-out: Azure holds its first answer up to two minutes.
        connection = http.client.HTTPConnection(parts.hostname, parts.port)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_ONE_CONNECTION}
        headers.update({"Host": parts.netloc, HEADER: "Azure-HMAC-SHA256 key signature", "Connection": "close"})
        with contextlib.closing(connection):
            try:
                connection.connect()
            except OSError:
                return 502, b""
            try:
                connection.request(self.command, parts.path + self.path, body or None, headers)
                response = connection.getresponse()
                return response, response.read()
            except (OSError, http.client.HTTPException):
                return 503, b""

    def refuse(self, status, **headers):
        self.server.agent.note(Decision(self.asker, self.command, self.path, status))
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": "0", "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True

    def send_error(self, code, message=None, explain=None):
        """Answer a verb that has no method do_VERB here, or what is no HTTP."""
        if code == 501:
            self.refuse(405, Allow=", ".join(_VERBS))
        else:
            self.server.agent.complaints.append(f"{self.requestline!r} is no request: {message}")
            self.close_connection = True

    def log_message(self, *_arguments):
        pass


class ProxyAgent:
    """A guest proxy agent that listens.

    :ivar rules: the allow list; None where there is none; BROKEN.
    :ivar only_audits: let in who is not on the list too (mode audit).
    :ivar unknown: of so many of the next connections it does not know who made them.
    :ivar decisions: what was answered to whom.
    :ivar complaints: what no client of IMDS may send.
    """

    def __init__(self, upstream, rules=None, address=("127.0.0.1", 0), only_redirected=False, unknown=0):
        self.upstream = upstream
        self.rules = rules
        self.only_audits = False
        self.unknown = unknown
        self.decisions = []
        self.complaints = []
        self._only_redirected = only_redirected
        self._server = ThreadingHTTPServer(address, _Handler)
        self._server.agent = self
        self.endpoint = "http://{}:{}".format(*self._server.server_address)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self._thread.start()

    def identify(self, connection, address):
        if self.unknown:
            self.unknown -= 1
            return None
        if self._only_redirected and not _was_redirected(connection):
            return None
        return find_asker(address)

    def note(self, decision):
        self.decisions.append(decision)

    def statuses(self):
        return [decision.status for decision in self.decisions]

    def wait(self):
        self._thread.join()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def launcher(simulator):
    """Give a function that starts agents in front of a simulator; afterwards none of them may have complaints."""
    agents = []

    def start(rules=None, upstream=None, **settings):
        agents.append(ProxyAgent(upstream or simulator.endpoint("web-1"), rules, **settings))
        return agents[-1]

    try:
        yield start
    finally:
        for agent in agents:
            agent.stop()
    assert [agent.complaints for agent in agents if agent.complaints] == []


class _Printing(ProxyAgent):
    def note(self, decision):
        super().note(decision)
        asker = decision.asker and decision.asker._asdict()
        print(json.dumps({**decision._asdict(), "asker": asker, "complaints": self.complaints}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, metavar="ADDRESS:PORT")
    parser.add_argument("--upstream", required=True, metavar="ENDPOINT")
    parser.add_argument("--rules", type=json.loads, metavar="JSON")
    parser.add_argument("--unknown", type=int, default=0, metavar="CONNECTIONS")
    options = parser.parse_args()
    host, _colon, port = options.listen.rpartition(":")
    agent = _Printing(options.upstream, options.rules, (host, int(port)), True, options.unknown)
    print(agent.endpoint, flush=True)
    agent.wait()


if __name__ == "__main__":
    sys.exit(main())
