# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process: in front or in the background, known by a state file, stopped by a signal."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading

_STOP = (signal.SIGTERM, signal.SIGINT)


def run(server, ready, options):
    """Serve until SIGTERM or SIGINT comes; give the exit status."""
    state_file = None if options.state_file is None else os.path.abspath(options.state_file)
    if options.detach:
        log = None if options.log is None else os.path.abspath(options.log)
        return _detach(server, ready, state_file, log, options.stop_after)
    try:
        line = _start(server, ready, state_file)
    except OSError as error:
        return _failed(error)
    print(line, flush=True)
    _serve_until_stopped(server, state_file, options.stop_after)
    return 0


def _start(server, ready, state_file):
    # Blocked here and in the threads to come, so that the signals wait for sigwait instead of interrupting anything.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    line = json.dumps(ready())
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    if state_file is not None:
        _write_atomically(state_file, line + "\n")
    return line


def _serve_until_stopped(server, state_file, stop_after):
    if stop_after is None:
        signal.sigwait(_STOP)
    else:
        signal.sigtimedwait(_STOP, stop_after)
    server.shutdown()
    server.server_close()
    if state_file is not None:
        _remove_own(state_file)


def _detach(server, ready, state_file, log, stop_after):
    """The socket listens already, so the child reports only whether it came up."""
    sys.stdout.flush()
    sys.stderr.flush()
    from_child, to_parent = os.pipe()
    child = os.fork()
    if child:
        os.close(to_parent)
        with open(from_child, encoding="utf-8") as pipe:
            report = pipe.read()
        if report.startswith("{"):
            print(report, end="", flush=True)
            return 0
        os.waitpid(child, 0)
        print(report or "imds_simulator: the background process died while it started.", file=sys.stderr)
        return 1
    os.close(from_child)
    with open(to_parent, "w", encoding="utf-8") as pipe:
        try:
            os.setsid()
            _redirect_streams(log)
            os.chdir("/")
            line = _start(server, ready, state_file)
        except OSError as error:
            pipe.write(f"imds_simulator: {error}")
            return 1
        pipe.write(line + "\n")
    _serve_until_stopped(server, state_file, stop_after)
    return 0


def _redirect_streams(log):
    null = os.open(os.devnull, os.O_RDWR)
    output = null if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(null)
    if output != null:
        os.close(output)


def _failed(error):
    print(f"imds_simulator: {error}", file=sys.stderr)
    return 1


def _write_atomically(path, content):
    # The folder may belong to somebody else: use a name that cannot be guessed, and open no existing file.
    temporary = f"{path}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise OSError(f"--state-file {path} cannot be written: {error.strerror}.") from error


def _remove_own(path):
    """Another simulator may have been given the same file meanwhile; then it is no longer ours."""
    with contextlib.suppress(FileNotFoundError):
        with open(path, encoding="utf-8") as file:
            content = file.read()
        if json.loads(content)["pid"] == os.getpid():
            os.remove(path)
