# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: read it, build the simulator, run it until it is told to stop."""

from __future__ import annotations

import argparse
import errno
import os
import sys

from simulator import process, scenario
from simulator.checks import Refused, positive_number, show
from simulator.clock import ManualClock, RealClock
from simulator.control import Control
from simulator.faults import Faults
from simulator.fleet import Addresses, check_vms, endpoint_path, share_scopes
from simulator.imds import Imds
from simulator.journal import Journal
from simulator.server import Server
from simulator.world import World


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(f"{message} (see --help).")


def _parser():
    parser = _Parser(prog="imds_simulator.py", description=sys.modules[__name__].__doc__, allow_abbrev=False)
    parser.description = "Simulate Azure's instance metadata service as far as it announces maintenance."
    add = parser.add_argument
    add("--listen", metavar="HOST:PORT", default="127.0.0.1:8181", help="default %(default)s; port 0 takes a free one")
    add("--vms", metavar="NAME,NAME", help="resource names of the VMs")
    add("--scope", metavar="NAME=VM,VM", action="append", default=[], help="VMs that share a document; repeatable")
    add("--by-address", metavar="ADDRESS=VM", action="append", default=[], help="tell a VM by its address; repeatable")
    add("--scenario", metavar="FILE|NAME", help="the scenario to play: " + ", ".join(scenario.shipped_names()))
    add("--clock", choices=("real", "manual"), default="real", help="manual: time moves by control requests only")
    add("--speed", metavar="N", help="divide every scheduled duration by N")
    add("--journal", metavar="FILE", help="append every IMDS request to this file, as JSON lines")
    add("--detach", action="store_true", help="go on in the background once it listens")
    add("--log", metavar="FILE", help="with --detach: the file for unexpected output (default: none)")
    add("--stop-after", metavar="SECONDS", help="stop by itself after so long, in real seconds")
    add("--state-file", metavar="FILE", help="keep the line printed at the start in this file while it runs")
    return parser


class Simulator:
    """The parts that the HTTP server brings together."""

    def __init__(self, options, arguments):
        told = scenario.load(options.scenario) if options.scenario is not None else scenario.Scenario()
        vms = check_vms(told.vms if options.vms is None else options.vms.split(","))
        pairs = _pairs("--scope", options.scope, "NAME=VM,VM")
        asked = {name: members.split(",") for name, members in pairs.items()} if pairs else told.scopes
        scopes = share_scopes(vms, asked, "--scope" if pairs else told.where)
        self.addresses = Addresses(vms, _pairs("--by-address", options.by_address, "ADDRESS=VM"))
        self.world = World(_clock(options), vms, scopes)
        self.faults = Faults()
        self.world.settings.change(told.settings, f"{told.where}: settings")
        self.faults.add(told.faults, f"{told.where}: fault", self.world)
        self.world.schedule(told.events, f"{told.where}: event")
        self.journal = Journal(self.world.clock, _journal_file(options.journal))
        self.imds = Imds(self.world)
        self.control = Control(self)
        self.about = {"arguments": arguments}

    def ready(self, url):
        """The line that is printed once it listens. The process id is that of the process that goes on."""
        vms = {vm: url + endpoint_path(vm) for vm in self.world.vms}
        line = {"url": url, "pid": os.getpid(), "vms": vms}
        self.about.update(line)
        return line


def main(arguments):
    try:
        options = _parser().parse_args(arguments)
        if options.log is not None and not options.detach:
            raise Refused("--log is only of use with --detach.")
        host, port = _listen(options.listen)
        if options.stop_after is not None:
            options.stop_after = positive_number(options.stop_after, "--stop-after", 10**9)
        simulator = Simulator(options, arguments)
    except Refused as refused:
        print(f"imds_simulator: {refused}", file=sys.stderr)
        return 2
    try:
        server = Server(host, port, simulator)
    except OSError as error:
        hint = ""
        if error.errno == errno.EADDRINUSE:
            hint = (
                " Another program listens there. If it is a simulator that was left running, "
                f"curl --noproxy '*' -X POST {_url(host, port)}/simulator/stop ends it. Or take another port."
            )
        print(f"imds_simulator: cannot listen on {options.listen}: {error.strerror}.{hint}", file=sys.stderr)
        return 1
    return process.run(server, lambda: simulator.ready(_url(host, server.server_address[1])), options)


def _listen(words):
    host, colon, port = words.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or not is_number or int(port) > 65535:
        raise Refused(f"--listen must be HOST:PORT, such as 127.0.0.1:8181, not {show(words)}.")
    return host, int(port)


def _url(host, port):
    # "Every address" is none that a client can ask; on this machine loopback is one of them.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _pairs(option, given, form):
    pairs = {}
    for words in given:
        name, equals, value = words.partition("=")
        if not (name and equals and value):
            raise Refused(f"{option} must be {form}, not {show(words)}.")
        if name in pairs:
            raise Refused(f"{option} names {name} twice.")
        pairs[name] = value
    return pairs


def _clock(options):
    if options.clock == "real":
        return RealClock(1.0 if options.speed is None else positive_number(options.speed, "--speed"))
    if options.speed is not None:
        raise Refused("--speed has no use with --clock manual, where only control requests move the time.")
    return ManualClock()


def _journal_file(path):
    if path is None:
        return None
    try:
        # Without a buffer, so that lines that the disk does not take are not tried again and again.
        return open(path, "ab", buffering=0, opener=_open_at_once)  # pylint: disable=consider-using-with
    except OSError as error:
        raise Refused(f"--journal {path} cannot be written: {error.strerror}.") from error


def _open_at_once(path, flags):
    """Open a file, and do not wait for the reader of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)
