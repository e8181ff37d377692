# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts the command azure-maintenance for the tests, each run of it and each unit as a process of its own.

All are forked from this one, which has imported the program already: an interpreter for each would take most of the
time of the tests. It reads requests on stdin, a line of JSON each, and answers with a number on a line:

- ``["start", folder, arguments, environment, output, usual_answer]``: the id of the process that was started;
- ``["poll" or "wait", process id]``: its exit status, -1 while it runs, -9 for one that was killed.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import poller
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli, system
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.shared_clock import SharedClock

# What is imported only when needed
for _module in ("poll.check", "respond.responder", "report.status_text", "report.report", "config.requirements"):
    importlib.import_module(f"{cli.__package__}.{_module}")


def fork(action):
    """Run an action in a new process, which ends with the status that the action returns."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        code = action()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def redirect(output, errors):
    """Let the standard streams lead to these files from now on."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, path, how in ((0, os.devnull, os.O_RDONLY), (1, output, flags), (2, errors, flags)):
        descriptor = os.open(str(path), how, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)


class Run:
    """One run of the command, and the units that it starts.

    The units are forked by a parent of the command that never opens the state: SQLite must not be taken through a fork.
    """

    def __init__(self, folder, arguments, environment, output, usual_answer):
        self.folder = Path(folder)
        self.arguments = arguments
        self.environment = environment
        self.output = output
        self.usual_answer = usual_answer

    def supervise(self):
        os.setsid()
        # Whoever stops the group means the command.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        answer(os.getpid())
        os.environ.update(self.environment)
        redirect(f"{self.output}.stdout", f"{self.output}.stderr")
        ours, theirs = socket.socketpair()
        command = fork(lambda: self.command(ours, theirs))
        theirs.close()
        while True:
            number = ours.recv(64).decode()
            if not number:
                break
            self.start_unit(number, ours)
            ours.send(b"started")
        status = os.waitpid(command, 0)[1]
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 98

    def command(self, ours, theirs):
        ours.close()

        def start_unit(number, timeout=None):
            theirs.send(str(number).encode())
            assert theirs.recv(64) == b"started"

        cli.start_unit = start_unit
        return self.main(self.arguments)

    def start_unit(self, number, ours):
        """Do as systemd does: start it without waiting, and nothing where it is active already."""
        # The process holds this lock as long as it lives, however it ends.
        with open(self.folder / "units" / number, "a+") as active:
            try:
                fcntl.flock(active, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return

            def unit():
                ours.close()
                os.setsid()
                log = self.folder / "units.log"
                redirect(log, log)
                return self.main(["respond", number])

            pid = fork(unit)
            active.truncate(0)
            active.write(str(pid))

    def main(self, arguments):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        folder = self.folder
        clock = SharedClock(folder / "clock", (folder / "boot_id").read_text())
        cli.Clock = lambda _folders: clock
        poller.USUAL_ANSWER = self.usual_answer
        names = {name: str(folder / name) for name in system.Folders._fields}
        names["config"] += ".json"
        os.umask(0o022)
        return cli.main(arguments, system.Folders(**names))


def exit_status(pid, options):
    found, status = os.waitpid(pid, options)
    if not found:
        return -1
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def answer(number):
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # Ctrl+C is for the tests, whose end is the end of this process too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in iter(sys.stdin.readline, ""):
        verb, *rest = json.loads(line)
        if verb == "start":
            # It answers by itself, as soon as it can be stopped.
            fork(Run(*rest).supervise)
        else:
            answer(exit_status(rest[0], os.WNOHANG if verb == "poll" else 0))
