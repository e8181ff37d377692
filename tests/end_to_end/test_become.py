# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run whose user becomes root by a password.

The connection plugin and the become plugin are Ansible's. In place of ssh stands a program that runs the command on
this machine, in place of sudo one that asks for a password as sudo does.
"""

from __future__ import annotations

import time

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import LONG, RESPOND, Fleet, summary_of

SSH = """#!/bin/sh
for last; do :; done
case " $* " in *" -O "*) exit 0;; esac
exec /bin/sh -c "$last"
"""
SUDO = """#!/bin/sh
while [ "$1" != -u ]; do
  [ "$1" != -p ] || prompt=$2
  shift
done
shift 2
printf '%s' "$prompt" >&2
read -r password
if [ "$password" = "$(cat {password})" ]; then exec "$@"; fi
echo x >>{refused}
printf 'Sorry, try again.\\n%s' "$prompt" >&2
read -r password
echo 'sudo: 1 incorrect password attempt' >&2
exit 1
"""


@pytest.fixture
def fleet(ansible, simulator, tmp_path):
    folder = tmp_path / "fleet"
    folder.mkdir()
    hosts = {"host-a": "web-1", "host-b": "web-2"}
    fleet = Fleet(ansible, simulator, folder, hosts, hosts)
    (folder / "ssh").write_text(SSH)
    for host in hosts:
        password, refused = folder / f"{host}.password", folder / f"{host}.refused"
        password.write_text("right\n")
        (folder / f"{host}.sudo").write_text(SUDO.format(password=password, refused=refused))
        fleet.set(
            host,
            ansible_connection="ssh",
            ansible_ssh_executable=str(folder / "ssh"),
            ansible_ssh_args="",
            ansible_host="127.0.0.1",
            ansible_become_exe=str(folder / f"{host}.sudo"),
            ansible_become_password="right",
        )
    for program in (folder / "ssh", folder / "host-a.sudo", folder / "host-b.sudo"):
        program.chmod(0o755)
    # The user is root already.
    fleet.settings["ANSIBLE_BECOME_ALLOW_SAME_USER"] = "true"
    return fleet


@pytest.mark.matrix
@pytest.mark.releases
def test_p15_p16_a_password_that_becomes_wrong_is_named_at_once_and_not_tried_until_the_account_is_locked(fleet):
    fleet.announce("web-1", "web-2", started_for=LONG)
    refused = fleet.folder / "host-a.refused"
    becomes_wrong = fleet.meanwhile(
        fleet.is_one_started, lambda: (fleet.folder / "host-a.password").write_text("changed\n")
    )
    then_over = fleet.meanwhile(refused.exists, lambda: fleet.pass_time(LONG))
    begun = time.monotonic()
    with becomes_wrong, then_over:
        run = fleet.respond("--become", playbook=RESPOND)
    assert run.code == 2, run.out + run.err
    assert time.monotonic() - begun < 300
    assert [line.split()[0] for line in fleet.story("host-a")] == ["prepare"]
    assert [line.split()[0] for line in fleet.story("host-b")] == ["prepare", "restore"]
    assert "host-a is not waited for any more: Incorrect sudo password" in run.words
    why = "host-a was not restored: it could not be asked any more: Incorrect sudo password"
    summary = summary_of(run)
    assert (summary["faults"], summary["not_restored"]) == ({"host-a": [why]}, ["host-a"])
    assert refused.read_text().count("x") == 1
