# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that are reached by a real ssh and can vanish: network namespaces of this machine, each with an sshd.

They share the files of this machine. A VM that vanishes sends nothing any more: its link is cut first, and then its
processes are killed, so that no FIN and no RST of theirs arrives.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.programs import need_network_namespace, need_program

FOLDERS = ["/usr/sbin", "/sbin"]
UNSHARE = need_program("unshare", package="util-linux")
IP = need_program("ip", package="iproute2", folders=FOLDERS)
SSH = need_program("ssh", package="openssh-client")
SSHD = need_program("sshd", package="openssh-server", folders=FOLDERS)
need_network_namespace(UNSHARE)

# Seconds. What takes longer hangs.
STOP = 120
NOBODY = "02:00:00:00:00:01"
SSHD_CONFIG = """
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
SetEnv AZURE_MAINTENANCE_MARKS={folder}/{name}.marks
"""


def ip(*words):
    subprocess.run([IP, *words], check=True, capture_output=True, text=True)


class SshVms:
    """A network of this process alone, in the range that is kept free for tests of networks (RFC 2544).

    :ivar address: that of this machine in it.
    :ivar environment: variables of Ansible.
    """

    def __init__(self, folder, stack):
        self._folder = folder
        self._stack = stack
        self._net = f"198.18.{os.getpid() % 250}"
        self._bridge = f"azm{os.getpid()}"
        self._links = {}
        self._addresses = {}
        self._processes = {}
        self.address = f"{self._net}.1"
        # A socket of ssh must have a short path.
        sockets = stack.enter_context(tempfile.TemporaryDirectory())
        self.environment = {"ANSIBLE_SSH_CONTROL_PATH_DIR": sockets}
        stack.callback(self._end_connections, sockets)
        for name in ("key", "host_key"):
            path = str(folder / name)
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        # sshd refuses to start without it.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        ip("link", "add", self._bridge, "type", "bridge")
        stack.callback(ip, "link", "del", self._bridge)
        ip("address", "add", f"{self.address}/24", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")

    def start(self, name):
        """Start a VM, and return the variables by which Ansible reaches it."""
        number = len(self._links) + 2
        link = self._links[name] = f"{self._bridge}-{number}"
        address = self._addresses[name] = f"{self._net}.{number}"
        ip("netns", "add", link)
        self._stack.callback(self.vanish, name)
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", link)
        ip("link", "set", link, "master", self._bridge, "up")
        ip("-n", link, "link", "set", "lo", "up")
        ip("-n", link, "address", "add", f"{address}/24", "dev", "eth0")
        ip("-n", link, "link", "set", "eth0", "up")
        config = self._folder / f"{name}.sshd"
        config.write_text(SSHD_CONFIG.format(folder=self._folder, name=name))
        vm = [UNSHARE, "--pid", "--fork", "--kill-child", "--mount-proc", SSHD, "-D", "-e", "-f", str(config)]
        with open(self._folder / f"{name}.log", "w") as log:
            self._processes[name] = subprocess.Popen(
                [IP, "netns", "exec", link, *vm], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._wait_for(address, name)
        return {
            "ansible_connection": "ssh",
            "ansible_host": address,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self._folder / "key"),
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -F none",
            "ansible_remote_tmp": str(self._folder / f"{name}.tmp"),
        }

    def _wait_for(self, address, name):
        end = time.monotonic() + STOP
        while True:
            with contextlib.suppress(OSError), socket.create_connection((address, 22), 5):
                return
            log = (self._folder / f"{name}.log").read_text()
            assert self._processes[name].poll() is None, log
            assert time.monotonic() < end, log
            time.sleep(0.05)

    def vanish(self, name):
        """Let a VM be gone from one moment to the next, if it is there."""
        process, link = self._processes.pop(name, None), self._links[name]
        if process is None:
            return
        # As Azure's network, which takes packets for a VM that is gone: without this the kernel tells ssh that it is.
        ip("neighbor", "replace", self._addresses[name], "lladdr", NOBODY, "dev", self._bridge, "nud", "permanent")
        ip("link", "del", link)
        # ip has become unshare, whose death kills all processes of the VM.
        process.kill()
        process.wait(STOP)
        ip("netns", "del", link)

    @staticmethod
    def _end_connections(sockets):
        """Let no ssh stay that Ansible keeps for the next task."""
        for path in Path(sockets).iterdir():
            leave = [SSH, "-O", "exit", "-o", f"ControlPath={path}", "-F", "none", "vm"]
            subprocess.run(leave, capture_output=True, check=False)
