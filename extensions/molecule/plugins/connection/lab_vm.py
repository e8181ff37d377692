# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = """
name: lab_vm
author: fleetops contributors
short_description: Reach a VM of the lab by entering its namespaces
description:
  - Takes milliseconds, where C(podman exec) takes a quarter of a second for each task, and
    C(containers.podman.podman) several of them and the 500 MB of the package C(ansible).
options:
  pid_file:
    description: The file in which podman keeps the process id of the container.
    required: true
    vars:
      - name: lab_pid_file
"""

import subprocess
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

_ENVIRONMENT = {"HOME": "/root", "LC_ALL": "C.UTF-8", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"}


class Connection(ConnectionBase):
    """A container as Ansible sees it."""

    transport = "lab_vm"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def close(self) -> None:
        """Do nothing: no connection is held."""
        self._connected = False

    def _run(self, command: list[str], given: bytes | None = None) -> tuple[int, bytes, bytes]:
        pid = Path(self.get_option("pid_file")).read_text(encoding="ascii").strip()
        if not Path("/proc", pid).exists():
            raise AnsibleConnectionFailure("The VM does not run.")
        enter = ["nsenter", f"--target={pid}", "--all", *command]
        answer = subprocess.run(enter, input=given or b"", capture_output=True, check=False, env=_ENVIRONMENT)
        return answer.returncode, answer.stdout, answer.stderr

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run this line of shell."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return self._run(["/bin/sh", "-c", cmd], in_data)

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file into the container."""
        super().put_file(in_path, out_path)
        status, _output, error = self._run(["dd", f"of={out_path}", "status=none"], Path(in_path).read_bytes())
        if status != 0:
            raise AnsibleConnectionFailure(f"{out_path} cannot be written: {error.decode(errors='replace')}")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file out of the container."""
        super().fetch_file(in_path, out_path)
        status, output, error = self._run(["cat", in_path])
        if status != 0:
            raise AnsibleConnectionFailure(f"{in_path} cannot be read: {error.decode(errors='replace')}")
        Path(out_path).write_bytes(output)
