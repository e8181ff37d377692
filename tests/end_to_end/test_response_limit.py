# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Not too many hosts are out of service at once; all cases are in the test_limit.py of the engine."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import (
    FAR_OFF,
    HOSTS,
    RESPOND,
    Fleet,
)


@pytest.fixture
def three(ansible, simulator, tmp_path):
    (tmp_path / "fleet").mkdir()
    return Fleet(ansible, simulator, tmp_path / "fleet", HOSTS, HOSTS)


@pytest.mark.releases
@pytest.mark.matrix
def test_two_events_of_a_tier_go_one_after_the_other_and_another_tier_does_not_wait(three):
    first, second, third = (three.announce(name, notice=FAR_OFF) for name in ("web-1", "web-2", "web-3"))
    for host, tier in zip(HOSTS, (0, 0, "{{ 'ba' }}ck")):
        three.set(host, tier=tier)
    # Both files write into one story, in the order in which they run.
    order = three.folder / "order"
    both = "- name: Note the order\n  ansible.builtin.raw: echo {} {{{{ inventory_hostname }}}} >>" + str(order)
    run = three.respond(
        playbook=RESPOND,
        prepare=both.format("prepare"),
        restore=both.format("restore"),
        event_response_max_unavailable=1,
        event_response_group_by="tier",
    )
    assert run.code == 0, run.out + run.err
    assert three.approved[-1] == ("web-2", [second])
    assert sorted(three.approved[:2]) == sorted([("web-1", [first]), ("web-3", [third])])
    lines = order.read_text().splitlines()
    assert lines.index("restore host-a") < lines.index("prepare host-b")
    assert lines.index("prepare host-c") < lines.index("restore host-a")
    assert f"Reboot {second} of host-b waits its turn:" in run.words


@pytest.mark.matrix
def test_a_host_without_the_variable_of_its_group_holds_its_event_back(three):
    three.announce("web-1", "web-2", notice=FAR_OFF)
    for host in ("host-a", "host-c"):
        three.set(host, tier="front")
    run = three.respond(event_response_max_unavailable=1, event_response_group_by="tier")
    assert run.code == 2
    assert three.approved == []
    assert "event_response_group_by: this host has no variable tier, or it is empty." in run.words


@pytest.mark.matrix
def test_p2_a_vm_that_boots_during_a_long_restore_of_another_is_not_approved_by_its_answer_from_before(three):
    """Both hosts of the second event are prepared early, because Azure may start it soon, and wait for the first."""
    first = three.announce("web-1", notice=400)
    three.announce("web-2", "web-3", notice=500)
    boot = three.give_boot_id("host-c")
    withdraw = f"""
    - ansible.builtin.uri:
        url: "{{{{ simulator }}}}/simulator/events/{first}"
        method: DELETE
        status_code: [200, 204]
      when: inventory_hostname == 'host-a'
    """
    # Longer than an answer counts as that of now
    restore = f"""
    - ansible.builtin.raw: echo boot-2 >{boot}; sleep 65
      when: inventory_hostname == 'host-a'
    """
    settings = {"event_response_max_unavailable": 1, "event_response_wait_timeout": 60}
    run = three.respond(playbook=RESPOND, prepare=withdraw, restore=restore, **settings)
    assert run.code == 2, run.out + run.err
    assert "host-c is not prepared: it booted after its preparation" in run.words
    assert three.approved == []
    assert three.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot withdrawn"]
