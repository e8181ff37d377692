# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""G1, a VM with the Metadata Security Protocol: Azure's address leads to an agent on loopback, and no endpoint is set.

The VM is a network namespace in which a rule of nftables does what the agent's eBPF program does. It has no network but
loopback, so nothing of this can reach the metadata service of the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import subprocess
import sys

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import LONGEST_RUN, TREE, on_one_line
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_network_namespace, need_program
from ansible_collections.fleetops.azure_maintenance.tests.proxy_agent import allow

FOLDERS = ["/usr/sbin", "/sbin"]
UNSHARE = need_program("unshare", package="util-linux")
ENTER = need_program("nsenter", package="util-linux")
IP = need_program("ip", package="iproute2", folders=FOLDERS)
NFT = need_program("nft", package="nftables", folders=FOLDERS)
need_network_namespace(UNSHARE)

# The kernel lets a connection to a link-local address out by loopback only if it has an address to ask from.
NETWORK = f"{IP} link set lo up && {IP} address add 169.254.0.5/16 dev lo && exec {NFT} -f -"
REDIRECTION = """
table ip guest_proxy_agent {
  chain output {
    type nat hook output priority -100
    ip daddr 169.254.169.254 tcp dport 80 dnat to 127.0.0.1:3080
  }
}
"""
SIMULATOR = TREE / "roles" / "imds_simulator" / "files" / "imds_simulator.py"
AGENT = TREE / "tests" / "proxy_agent.py"
UPSTREAM = "http://127.0.0.1:8181/vm/web-1"
EVENTS = {"events": [{"event_type": "Reboot", "resources": ["web-1"]}]}
USER = pwd.getpwuid(os.getuid()).pw_name
PROGRAM = os.readlink("/proc/self/exe")
US = allow(USER, PROGRAM)
OTHERS = allow(USER, "/usr/bin/curl")
INFO = (
    "ansible",
    "localhost",
    "-i",
    "localhost,",
    "-c",
    "local",
    "-m",
    "fleetops.azure_maintenance.scheduled_events_info",
)
CHECKER = (
    "from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli, system"
)


class Vm:
    """A network namespace, and what runs in it."""

    def __init__(self, stack, ansible, folder):
        self._stack = stack
        self._ansible = ansible
        self._folder = folder
        holder = self._start(UNSHARE, "--net", "sh", "-c", "echo made; exec cat")
        self._enter = [ENTER, f"--net=/proc/{holder.pid}/ns/net", "env", "-u", "AZURE_IMDS_ENDPOINT"]
        subprocess.run([*self._enter, "sh", "-c", NETWORK], input=REDIRECTION, text=True, check=True)
        (folder / "events.json").write_text(json.dumps(EVENTS))
        (folder / "config.json").write_text("{}")
        (folder / "facts").mkdir()
        events = str(folder / "events.json")
        self._start(*self._enter, sys.executable, "-B", str(SIMULATOR), "--vms", "web-1", "--scenario", events)

    def _start(self, *argv):
        """Start a program that runs until the end of the test, and wait for its first line."""
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._stack.callback(process.stdin.close)
        self._stack.callback(process.stdout.close)
        self._stack.callback(process.wait, LONGEST_RUN)
        self._stack.callback(process.terminate)
        assert process.stdout.readline()
        return process

    def start_agent(self, rules, unknown=0):
        listen = ("--listen", "127.0.0.1:3080", "--upstream", UPSTREAM)
        options = ("--rules", json.dumps(rules), "--unknown", str(unknown))
        self._agent = self._start(*self._enter, sys.executable, "-B", str(AGENT), *listen, *options)

    def decisions(self):
        """Stop the agent, and return what it answered to whom; it must have nothing to complain of."""
        self._agent.terminate()
        decisions = [json.loads(line) for line in self._agent.stdout]
        assert [decision for decision in decisions if decision["complaints"]] == []
        return decisions

    def ask(self, *options):
        """Run the module scheduled_events_info."""
        python = ("-e", f"ansible_python_interpreter={sys.executable}")
        return self._ansible(*self._enter, *INFO, *python, *options)

    def checker(self, *arguments):
        """Run the command azure-maintenance, which keeps all that it writes in the folder of the test."""
        names = ("config.json", "playbooks", "state", "run", "facts", "marks", "marks-in-memory")
        folders = f"system.Folders(*{[str(self._folder / name) for name in names]!r})"
        program = f"import sys; {CHECKER}; sys.exit(cli.main(sys.argv[1:], {folders}))"
        path = {"PYTHONPATH": os.environ["ANSIBLE_COLLECTIONS_PATH"]}
        return self._ansible(*self._enter, sys.executable, "-c", program, *arguments, env=path)


@pytest.fixture
def vm(ansible, tmp_path):
    with contextlib.ExitStack() as stack:
        yield Vm(stack, ansible, tmp_path)


@pytest.mark.matrix
def test_g1_the_module_and_the_check_see_azure_through_the_agent(vm):
    vm.start_agent(US, unknown=1)
    asked = vm.ask()
    assert asked.code == 0, asked.out + asked.err
    assert '"resource_name": "web-1"' in asked.out
    assert '"endpoint": "http://169.254.169.254"' in asked.out
    checked = vm.checker("check", "--once")
    assert checked.code == 0, checked.err
    status = json.loads(vm.checker("status", "--json").out)
    assert (status["resource_name"], [event["event_type"] for event in status["events"]]) == ("web-1", ["Reboot"])
    decisions = vm.decisions()
    assert [decision["status"] for decision in decisions] == [421, 200, 200, 200, 200]
    known = {"userName": USER, "exePath": PROGRAM, "processName": os.path.basename(PROGRAM)}
    assert [decision["asker"] for decision in decisions] == [None, known, known, known, known]


@pytest.mark.matrix
def test_g1_the_allow_list_that_the_command_prints_lets_the_check_in(vm):
    printed = vm.checker("allow-list")
    assert printed.code == 0, printed.err
    vm.start_agent({"defaultAccess": "deny", "mode": "enforce", "rules": json.loads(printed.out)})
    checked = vm.checker("check", "--once")
    assert checked.code == 0, checked.err
    assert [decision["status"] for decision in vm.decisions()] == [200, 200]


@pytest.mark.matrix
def test_g1_who_is_not_on_the_allow_list_is_told_what_it_must_have(vm):
    vm.start_agent(OTHERS)
    asked = vm.ask()
    checked = vm.checker("check", "--once")
    assert (asked.code, checked.code) == (2, 1)
    decisions = vm.decisions()
    assert [decision["status"] for decision in decisions] == [403, 403]
    for decision, said in zip(decisions, (asked.out, checked.err)):
        asker = decision["asker"]
        assert f"userName {asker['userName']}, exePath {asker['exePath']}," in on_one_line(said)


@pytest.mark.matrix
def test_g1_the_agent_does_not_know_who_asks_it_without_the_redirection(vm):
    vm.start_agent(US)
    asked = vm.ask("-a", "endpoint=http://127.0.0.1:3080 timeout=0.4")
    assert asked.code == 2
    assert "does not know which program asked" in on_one_line(asked.out)


@pytest.mark.matrix
def test_g1_nothing_answers_where_the_agent_does_not_run(vm):
    asked = vm.ask()
    assert asked.code == 2
    assert "Nothing answers at http://169.254.169.254 ([Errno 111] Connection refused)" in on_one_line(asked.out)
