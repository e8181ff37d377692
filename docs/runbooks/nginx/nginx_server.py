# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Take one server of an upstream of nginx out of service, or put it back, in the file that has the upstream.

python3 nginx_server.py FILE SERVER ACTION NUMBER HEALTH PID-FILE NGINX...

look            say nothing; fail where the file does not have the server once
drain KEEP      mark it `down`, if at least KEEP other servers of the file are in service and answer 200 at HEALTH
may_drain KEEP  only fail where drain would refuse
settle SECONDS  wait until nginx has no connection to it
refill SECONDS  where drain has marked it: wait until it answers 200 at HEALTH, and take the mark away

Where something changed it prints so. What went wrong is one sentence on stderr, with status 1.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

# Tells what drain has marked from what an operator has.
MARK = " down; # azure-maintenance"
# In its place until nginx has read the file: a restore that was broken off is repeated.
BACK = "; # azure-maintenance: back"
PAUSE = 0.2
# Seconds for one question, for a reload, and for others who change the file
PATIENCE = 5
RELOAD = 30
LOCKED = 120


class Refused(Exception):
    """The message is a sentence that says what to do."""


class Upstream:
    def __init__(self, path, server, health, pid_file, nginx):
        # Debian's sites-enabled has links.
        self.path = os.path.realpath(path)
        self.server = server
        self.health = health
        self.pid_file = pid_file
        self.nginx = nginx

    def read(self):
        """Return the lines of the file, as they are: a comment may be in any encoding."""
        try:
            with open(self.path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                return list(file)
        except OSError as error:
            raise Refused(f"{self.path} cannot be read: {error.strerror}.") from error

    def servers(self):
        """Return the line of each server, by its address."""
        lines = self.read()
        if sum(bool(re.match(r"\s*upstream\s", line)) for line in lines) > 1:
            raise Refused(f"{self.path} has more than one upstream. Give each a file of its own.")
        # Nothing else is on the line: what comes behind would get into the comment.
        found = [re.match(r"\s*server\s+([^\s;]+)[^;#]*;\s*(#.*)?$", line) for line in lines]
        named = [(match[1], match.string) for match in found if match]
        if [name for name, _line in named].count(self.server) != 1:
            names = ", ".join(name for name, _line in named)
            raise Refused(f"{self.path} must have one server {self.server}, and has {names or 'none'}.")
        return dict(named)

    @contextlib.contextmanager
    def locked(self):
        """Keep others out who would change the file."""
        path = os.path.dirname(self.path)
        folder = os.open(path, os.O_RDONLY)
        try:
            wait_until(lambda: lock(folder), LOCKED, f"Another process has kept {path} locked for {LOCKED} s.")
            yield
        finally:
            os.close(folder)

    def others(self):
        """Return the other servers that get requests and answer."""
        lines = self.servers().items()
        serving = [name for name, line in lines if not re.search(r"\s(down|backup)\b[^;#]*;", line)]
        return [name for name in serving if name != self.server and self.answers(name)]

    def answers(self, server):
        # The limit of the connection is for each piece of an answer, which may come byte by byte.
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(PATIENCE)
        try:
            with contextlib.closing(http.client.HTTPConnection(server, timeout=PATIENCE)) as connection:
                connection.request("GET", self.health)
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            signal.alarm(0)

    def write(self, before, after):
        """Change the line of the server, and let nginx read it; put it back where nginx refuses it."""
        old = self.read()
        self._replace([after if line == before else line for line in old])
        try:
            tested = self._run("-t")
        except subprocess.TimeoutExpired as error:
            self._replace(old)
            command = " ".join(error.cmd)
            raise Refused(f"`{command}` did not end within {RELOAD} s. {self.path} is as it was.") from error
        if tested.returncode != 0:
            self._replace(old)
            raise Refused(f"nginx refuses {self.path} with this change: {tested.stderr.strip()}")
        self.reload()

    def reload(self):
        workers = self.workers()
        told = self._run("-s", "reload")
        if told.returncode != 0:
            raise Refused(f"nginx did not take the command to reload: {told.stderr.strip()}")
        # Until then those that have the old file may take a request.
        wait_until(lambda: not workers & self.workers(), RELOAD, f"nginx did not read {self.path} anew in {RELOAD} s.")

    def clean(self):
        """Remove what says that nginx has to read the line of the server; nginx need not read a comment."""
        before = self.servers()[self.server]
        self._replace([before.replace(BACK, ";", 1) if line == before else line for line in self.read()])

    def _run(self, *options):
        return subprocess.run([*self.nginx, *options], capture_output=True, text=True, timeout=RELOAD, check=False)

    def _replace(self, lines):
        folder, name = os.path.split(self.path)
        # Nothing that nginx includes begins with a dot.
        new = os.path.join(folder, f".{name}.new")
        shutil.copy2(self.path, new)
        with open(new, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.writelines(lines)
        os.replace(new, self.path)

    def workers(self):
        """Return the processes that take requests, without those that only end what they have."""
        try:
            with open(self.pid_file, encoding="ascii") as file:
                master = int(file.read())
            with open(f"/proc/{master}/task/{master}/children", encoding="ascii") as file:
                children = file.read().split()
        except (OSError, ValueError) as error:
            raise Refused(f"nginx does not run, by its file {self.pid_file}: {error}.") from error
        return {child for child in children if "shutting down" not in title(child)}

    def connections(self):
        try:
            parts = urllib.parse.urlsplit(f"//{self.server}")
            number = parts.port or 80
        except ValueError as error:
            raise Refused(f"{self.server} is not the address of a server: {error}.") from error
        found = socket.getaddrinfo(parts.hostname, number, type=socket.SOCK_STREAM)
        count = 0
        # nginx takes all addresses of a name.
        for family, _type, _proto, _name, (address, port, *_more) in found:
            host = f"[{address}]" if family == socket.AF_INET6 else address
            asked = ["ss", "-Htn", "state", "established", "dst", f"{host}:{port}"]
            told = subprocess.run(asked, capture_output=True, text=True, timeout=RELOAD, check=True)
            count += len(told.stdout.splitlines())
        return count


def give_up(_signal, _frame):
    raise TimeoutError


def title(process):
    try:
        with open(f"/proc/{process}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return "shutting down"


def lock(folder):
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_until(condition, seconds, otherwise):
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise Refused(otherwise)
        time.sleep(PAUSE)


def look(upstream, _number):
    upstream.servers()
    upstream.workers()
    return False


def may_drain(upstream, keep):
    line = upstream.servers()[upstream.server]
    if re.search(r"\sdown\b[^;#]*;", line):
        return False
    others = upstream.others()
    if len(others) < keep:
        raise Refused(
            f"{upstream.server} stays in {upstream.path}: {', '.join(others) or 'no other server'} would be left to"
            f" take requests, and nginx_keep is {keep}."
        )
    return True


def drain(upstream, keep):
    # Two servers that look at the same time would each take the other for the one that stays.
    with upstream.locked():
        line = upstream.servers()[upstream.server]
        if MARK in line:
            # Whether nginx has read it is not known: who has marked it may have been killed then.
            upstream.reload()
            return False
        if not may_drain(upstream, keep):
            return False
        upstream.write(line, line.replace(BACK, ";", 1).replace(";", MARK, 1))
        return True


def settle(upstream, seconds):
    wait_until(
        lambda: upstream.connections() == 0,
        seconds,
        f"{upstream.server} still has connections after {seconds} s.",
    )
    return False


def refill(upstream, seconds):
    line = upstream.servers()[upstream.server]
    if MARK not in line and BACK not in line:
        return False
    ill = f"{upstream.server} did not answer 200 at {upstream.health} within {seconds} s; it stays out of service."
    wait_until(lambda: upstream.answers(upstream.server), seconds, ill)
    with upstream.locked():
        line = upstream.servers()[upstream.server]
        upstream.write(line, line.replace(MARK, BACK, 1))
        upstream.clean()
        return True


ACTIONS = {"look": look, "may_drain": may_drain, "drain": drain, "settle": settle, "refill": refill}


def main():
    path, server, action, number, health, pid_file, *nginx = sys.argv[1:]
    try:
        if ACTIONS[action](Upstream(path, server, health, pid_file, nginx), int(number)):
            print("changed")
    except (Refused, OSError, subprocess.SubprocessError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
