# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Take one server of an HAProxy backend out of service, or put it back, over the admin socket.

python3 haproxy_server.py SOCKET BACKEND SERVER ACTION NUMBER [LEAVING]

look            say how the server is; NUMBER means nothing
drain KEEP      give it no new sessions, if at least KEEP other servers of the backend take requests
may_drain KEEP  only say whether drain would refuse, where the servers that are named in LEAVING have left already
settle SECONDS  wait until its sessions have ended
close           put it into maintenance; NUMBER means nothing
refill SECONDS  wait until it passes its health check, then give it requests again

What it found and whether it changed something comes as JSON. What went wrong is one sentence on stderr, with status 1.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import os
import socket
import sys
import time

# The bit of srv_admin_state that says: put into maintenance over the socket
MAINTENANCE = 0x01
# What srv_op_state is when it is starting slowly, or is up
UP = ("1", "2")
# The bit of srv_check_state that says: HAProxy checks its health
CHECKED = 0x04
# What srv_check_result is when the last check has passed
PASSED = ("3", "4")
# The longest wait for one answer, which HAProxy gives at once, and for others who drain, who take some answers each
PATIENCE = 10
LOCKED = 60
PAUSE = 0.5


class Refused(Exception):
    """The message is a sentence that says what to do."""


class Server:
    """A server, as one HAProxy process has it."""

    def __init__(self, path, backend, name, leaving=()):
        self.path = path
        self.backend = backend
        self.name = name
        self.leaving = leaving

    def ask(self, *commands):
        try:
            with socket.socket(socket.AF_UNIX) as admin:
                admin.settimeout(PATIENCE)
                admin.connect(self.path)
                admin.sendall("; ".join(commands).encode() + b"\n")
                return b"".join(iter(lambda: admin.recv(65536), b"")).decode(errors="replace")
        except OSError as error:
            raise Refused(f"HAProxy cannot be spoken to at {self.path}: {error.strerror or error}.") from error

    @contextlib.contextmanager
    def locked(self):
        """Keep out others who would drain at the same time."""
        path = os.path.dirname(os.path.abspath(self.path))
        try:
            folder = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise Refused(f"{path} cannot be opened: {error.strerror}.") from error
        try:
            limit = time.monotonic() + LOCKED
            while not lock(folder):
                if time.monotonic() > limit:
                    raise Refused(f"Another process has kept {path} locked for {LOCKED} s.")
                time.sleep(PAUSE)
            yield
        finally:
            os.close(folder)

    def order(self, *commands):
        said = self.ask(*(f"set server {self.backend}/{self.name} {command}" for command in commands)).strip()
        if said:
            raise Refused(f"HAProxy refused to change {self.backend}/{self.name}: {said}")

    def look(self):
        # A line with the version of the format comes first, and the line with the names begins with "# ".
        lines = self.ask(f"show servers state {self.backend}").splitlines()[1:]
        if not lines or not lines[0].startswith("# "):
            raise Refused(f"HAProxy has no backend {self.backend}.")
        rows = [dict(zip(lines[0][2:].split(), line.split())) for line in lines[1:] if line]
        known = {row["srv_name"]: row for row in rows}
        if self.name not in known:
            raise Refused(f"The backend {self.backend} has no server {self.name}, only {', '.join(known)}.")
        taking = {row["srv_name"] for row in rows if in_service(row) and row["srv_op_state"] in UP}
        own, statistics = known[self.name], self.statistics()
        # A backup gets requests only where no other is left, and may have nothing but a page that says so.
        backups = {name for name, row in statistics.items() if row["bck"] == "1"}
        return {
            "in_service": in_service(own),
            "in_maintenance": bool(int(own["srv_admin_state"]) & MAINTENANCE),
            "up": own["srv_op_state"] in UP,
            "passed": own["srv_check_result"] in PASSED,
            "takes_requests": self.name in taking,
            "others": sorted(taking - backups - {self.name, *self.leaving}),
            "checked": bool(int(own["srv_check_state"]) & CHECKED),
            "sessions": sum(int(statistics[self.name][count]) for count in ("scur", "qcur")),
        }

    def statistics(self):
        table = self.ask(f"show stat {self.backend} 4 -1").lstrip("# ").splitlines()
        rows = {row["svname"]: row for row in csv.DictReader(table) if row.get("svname")}
        if self.name not in rows:
            raise Refused(f"HAProxy gives no statistics of {self.backend}/{self.name}. Is it being restarted?")
        return rows

    def wait(self, ready, seconds, otherwise):
        limit = time.monotonic() + seconds
        while not ready(self.look()):
            if time.monotonic() > limit:
                raise Refused(otherwise(self.look()))
            time.sleep(PAUSE)


def lock(folder):
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def in_service(row):
    """Tell whether nobody, neither an operator nor the configuration, has taken the server out."""
    return row["srv_admin_state"] == "0" and row["srv_uweight"] != "0"


def look(_server, _number):
    return False


def may_drain(server, keep):
    now = server.look()
    if now["takes_requests"] and len(now["others"]) < keep:
        others = f"only {', '.join(now['others'])}" if now["others"] else "no other server"
        raise Refused(
            f"{server.name} was not taken out of the backend {server.backend}: {others} would be left to take requests,"
            f" and haproxy_keep is {keep}."
        )
    return now["in_service"]


def drain(server, keep):
    # Two servers that look at the same time would each take the other for the one that stays.
    with server.locked():
        if not may_drain(server, keep):
            return False
        server.order("state drain")
        return True


def has_left(server, now):
    """Tell whether the server has no sessions, once it gets no new ones."""
    if now["in_service"]:
        raise Refused(
            f"{server.backend}/{server.name} takes new sessions again: HAProxy was restarted, or somebody has put it"
            " back. Prepare again."
        )
    return now["sessions"] == 0


def settle(server, seconds):
    server.wait(
        lambda now: has_left(server, now),
        seconds,
        lambda now: f"{server.backend}/{server.name} still has sessions ({now['sessions']}) after {seconds} s.",
    )
    return False


def close(server, _number):
    now = server.look()
    has_left(server, now)
    if now["in_maintenance"]:
        return False
    server.order("state maint")
    return True


def refill(server, seconds):
    if server.look()["in_maintenance"]:
        # HAProxy does not check a server in maintenance, and takes one that leaves it for healthy until a check fails.
        # Drained and said to be down, it gets no request, and is up only when the checks have found it so.
        server.order("state drain", "health down")
    # After its own start HAProxy takes a server for healthy until some checks have failed.
    server.wait(
        lambda now: now["up"] and (now["passed"] or not now["checked"]),
        seconds,
        lambda now: (
            f"{server.backend}/{server.name} did not pass HAProxy's health check within {seconds} s; "
            + ("HAProxy sends it requests by its own checks." if now["in_service"] else "it stays out of service.")
        ),
    )
    if server.look()["in_service"]:
        return False
    server.order("state ready")
    return True


ACTIONS = {"look": look, "may_drain": may_drain, "drain": drain, "settle": settle, "close": close, "refill": refill}


def main():
    path, backend, name, action, number, *leaving = sys.argv[1:]
    server = Server(path, backend, name, [each for names in leaving for each in names.split()])
    try:
        changed = ACTIONS[action](server, int(number))
        print(json.dumps({"changed": changed, **server.look()}))
    except Refused as refusal:
        sys.exit(str(refusal))


if __name__ == "__main__":
    main()
