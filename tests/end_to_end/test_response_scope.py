# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who takes part in a response, and by which words: nobody whom the target does not name (P14)."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import FAR_OFF, HOSTS, RESPOND, Fleet


@pytest.fixture
def make_fleet(ansible, simulator, tmp_path):
    (tmp_path / "fleet").mkdir()
    return lambda hosts: Fleet(ansible, simulator, tmp_path / "fleet", hosts, hosts)


# The hosts of the inventory besides host-a, which is the target, a group that they are in, and the target
OUTSIDERS = [
    pytest.param(["127.0.0.1"], None, "host-a", id="this machine by another name"),
    pytest.param(["::1", "host-c"], "localhost", "host-a", id="a group called localhost", marks=pytest.mark.matrix),
    pytest.param(["host-b"], None, "!host-b", id="a pattern that only leaves out"),
]


@pytest.mark.releases
@pytest.mark.parametrize(("others", "group", "target"), OUTSIDERS)
def test_p14_nobody_takes_part_whom_the_target_does_not_name(make_fleet, others, group, target):
    """Ansible takes the localhost that the playbook adds for a host or a group of the inventory, where there is one."""
    fleet = make_fleet(dict(zip(["host-a", *others], HOSTS.values())))
    wanted = fleet.announce("web-1", notice=FAR_OFF)
    for number in range(len(others)):
        fleet.announce(f"web-{number + 2}", notice=FAR_OFF)
    if group:
        fleet.put_into(group, *others)
    run = fleet.respond(playbook=RESPOND, target=target)
    assert run.code == 0, run.out + run.err
    assert fleet.approved == [("web-1", [wanted])]
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot completed"]
    assert [fleet.story(host) for host in others] == [[] for _host in others]
    requests = fleet.azure.control("GET", "/simulator/journal")["requests"]
    assert {one["vm"] for one in requests if "/metadata/" in one["path"]} == {"web-1"}
