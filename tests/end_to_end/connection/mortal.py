# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = """
name: mortal
author: fleetops contributors
short_description: Reach this machine, as long as there is a file
description:
  - Stands for a host that goes down and comes up again.
  - Where it cannot be reached it leaves a file whose name ends with .missed beside that one.
options:
  up:
    description: The host can be reached while this file exists.
    required: true
    vars:
      - name: up_file
  dies_at:
    description: Which use of the connection, counted from 1, finds the host down in spite of that file. 0 for none.
    default: 0
    type: int
    vars:
      - name: mortal_dies_at
  back_after:
    description: How many uses find it down then. 0 for all that come.
    default: 0
    type: int
    vars:
      - name: mortal_back_after
  error:
    description:
      - What is raised then. C(plain) is an error that Ansible does not take for a lost connection, such as a prompt of
        sudo that does not come, or a file that could not be transferred.
    choices: [connection, plain]
    default: connection
    vars:
      - name: mortal_error
  cut_at:
    description: Which use of the connection, counted from 1, does its work and loses the answer. 0 for none.
    default: 0
    type: int
    vars:
      - name: mortal_cut_at
  become_success_timeout:
    description: What the local connection of ansible-core 2.19 asks for where a task becomes another user.
    type: int
    default: 10
  become_strip_preamble:
    description: The same.
    type: bool
    default: true
"""

import os
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.connection.local import Connection as LocalConnection


class Connection(LocalConnection):
    """The local connection, unless the host is down."""

    transport = "mortal"

    def exec_command(self, *arguments, **options):
        self._check()
        answer = super().exec_command(*arguments, **options)
        if self.get_option("cut_at") and self._count_uses() == self.get_option("cut_at"):
            raise AnsibleConnectionFailure("The connection was reset.")
        return answer

    def put_file(self, *arguments, **options):
        self._check()
        return super().put_file(*arguments, **options)

    def _check(self) -> None:
        up = self.get_option("up")
        if self.get_option("dies_at") or self.get_option("cut_at"):
            # Ansible uses the connections of a host one after the other.
            with Path(up + ".uses").open("a") as file:
                file.write(".")
        if not os.path.exists(up) or self._is_lost():
            Path(up + ".missed").touch()
            if self.get_option("error") == "plain":
                raise AnsibleError("Timeout (12s) waiting for privilege escalation prompt: ")
            raise AnsibleConnectionFailure("The host is down.")

    def _is_lost(self) -> bool:
        dies_at, back_after = self.get_option("dies_at"), self.get_option("back_after")
        if not dies_at:
            return False
        number = self._count_uses()
        return dies_at <= number and (not back_after or number < dies_at + back_after)

    def _count_uses(self) -> int:
        return os.stat(self.get_option("up") + ".uses").st_size
