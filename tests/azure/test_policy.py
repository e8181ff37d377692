# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""scheduled_events_policy at the stand-in: what is read, what is sent, and what is left as it is."""

from __future__ import annotations

import copy
from functools import partial

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.set_policy import SPEC, set_policy
from ansible_collections.fleetops.azure_maintenance.tests.azure.stand_in import GROUP, VM

PAIR, POOL = f"{GROUP}/availabilitySets/pair", f"{GROUP}/virtualMachineScaleSets/pool"
NOTHING = {
    "publish": None,
    "publish_api_version": None,
    "approve_user_reboot": None,
    "approve_user_redeploy": None,
    "approve_all_instances_down": None,
    "terminate_notice": None,
    "terminate_notice_minutes": None,
    "os_image_notice": None,
}
REBOOT = {"userInitiatedReboot": {"automaticallyApprove": True}}
PUBLISHED = {"scheduledEventsAdditionalPublishingTargets": {"eventGridAndResourceGraph": {"enable": True}}}


@pytest.fixture
def policy(run):
    return partial(run, SPEC, set_policy)


def writes(azure):
    return [each for each in azure.journal if each["method"] in ("PATCH", "PUT")]


@pytest.mark.parametrize("resource", [VM, PAIR, POOL])
def test_reads_where_nothing_is_named(principal, policy, resource):
    principal.add_resource(resource)
    result = policy(resource_id=resource)
    assert (result["changed"], result["policy"], writes(principal)) == (False, NOTHING, [])
    assert result["msg"] == f"{resource.rsplit('/', 1)[1]}: nothing to change."


@pytest.mark.parametrize(
    ("resource", "method"), [(VM, "PATCH"), (PAIR, "PATCH"), (POOL, "PUT")], ids=["vm", "availability set", "scale set"]
)
def test_changes_what_is_named_and_keeps_the_rest(principal, policy, resource, method):
    principal.add_resource(resource, scheduledEventsPolicy=REBOOT, other={"kept": [1]})
    result = policy(resource_id=resource, publish=True)
    assert not result.get("failed"), result
    assert result["changed"]
    (sent,) = writes(principal)
    kept = principal.resources[resource.lower()]
    assert sent["method"] == method
    assert sent["query"] == {"api-version": "2025-04-01"}
    assert kept["properties"]["scheduledEventsPolicy"] == {**REBOOT, **PUBLISHED}
    assert kept["properties"]["other"] == {"kept": [1]}
    assert kept["tags"] == {"owner": "anna"}
    if method == "PATCH":
        assert sent["body"] == {"properties": {"scheduledEventsPolicy": {**REBOOT, **PUBLISHED}}}
    assert result["diff"]["before"] == {**NOTHING, "approve_user_reboot": True}
    assert result["diff"]["after"] == {**NOTHING, "approve_user_reboot": True, "publish": True}
    assert not policy(resource_id=resource, publish=True, approve_user_reboot=True)["changed"]
    assert len(writes(principal)) == 1


def test_false_is_a_setting_and_what_is_not_named_is_none(principal, policy):
    principal.add_resource(VM)
    policy(resource_id=VM, approve_user_reboot=False)
    sent = writes(principal)[0]["body"]["properties"]
    assert sent == {"scheduledEventsPolicy": {"userInitiatedReboot": {"automaticallyApprove": False}}}


def test_all_settings(principal, policy):
    principal.add_resource(VM)
    wanted = {
        "publish": True,
        "publish_api_version": "2020-07-01",
        "approve_user_reboot": True,
        "approve_user_redeploy": True,
        "approve_all_instances_down": False,
        "terminate_notice": True,
        "terminate_notice_minutes": 10,
        "os_image_notice": True,
    }
    assert policy(resource_id=VM, **wanted)["policy"] == wanted
    (sent,) = writes(principal)
    profile = sent["body"]["properties"]["scheduledEventsProfile"]
    assert profile["terminateNotificationProfile"] == {"enable": True, "notBeforeTimeout": "PT10M"}


def test_a_notice_of_a_scale_set_is_a_patch_of_it_alone(principal, policy):
    principal.add_resource(POOL, scheduledEventsPolicy=REBOOT, virtualMachineProfile={"priority": "Spot"})
    assert policy(resource_id=POOL, terminate_notice=True)["changed"]
    (sent,) = writes(principal)
    notice = {"scheduledEventsProfile": {"terminateNotificationProfile": {"enable": True}}}
    assert (sent["method"], sent["body"]) == ("PATCH", {"properties": {"virtualMachineProfile": notice}})
    assert principal.resources[POOL.lower()]["properties"]["virtualMachineProfile"]["priority"] == "Spot"


def test_check_mode(principal, policy):
    before = copy.deepcopy(principal.add_resource(VM))
    result = policy(check_mode=True, resource_id=VM, publish=True)
    assert (result["changed"], result["policy"]["publish"]) == (True, True)
    assert result["msg"] == "web-1: would be set: publish=True."
    assert principal.resources[VM.lower()] == before


@pytest.mark.parametrize("member_of", ["availabilitySet", "virtualMachineScaleSet"])
def test_a_member_of_a_set_inherits_its_policy(principal, policy, member_of):
    principal.add_resource(VM, **{member_of: {"id": PAIR}})
    result = policy(resource_id=VM, publish=True)
    assert result["failed"]
    assert f"inherits publish from its set: set it for {PAIR}" in result["msg"]
    assert writes(principal) == []
    assert policy(resource_id=VM, terminate_notice=True)["changed"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"resource_id": PAIR, "terminate_notice": True}, "An availability set has no terminate_notice"),
        ({"resource_id": VM, "terminate_notice_minutes": 16}, "terminate_notice_minutes must be from 5 to 15"),
        (
            {"resource_id": VM, "publish_api_version": ""},
            'publish_api_version must be a date such as 2020-07-01, not ""',
        ),
        ({"resource_id": VM, "publish_api_version": "latest"}, 'such as 2020-07-01, not "latest".'),
        ({"resource_id": "web-1"}, "resource_id must be the id of a VM"),
        ({"resource_id": f"{POOL}/virtualMachines/3"}, "resource_id must be that of the scale set"),
        ({"resource_id": VM, "approve": True}, "Unsupported parameters"),
        ({"resource_id": VM, "publish": "perhaps"}, "unable to convert to bool"),
    ],
)
def test_wrong_options(principal, policy, options, said):
    result = policy(**options)
    assert result["failed"]
    assert said in result["msg"]
    assert principal.journal == []


@pytest.mark.parametrize("resource", [VM, POOL])
def test_a_change_of_somebody_else_is_kept(principal, policy, resource):
    """It comes between the question and the change, which is refused, and merged anew."""
    kept = principal.add_resource(resource)
    done = []

    def change():
        kept["properties"]["scheduledEventsPolicy"] = {"userInitiatedRedeploy": {"automaticallyApprove": True}}
        kept["etag"] = '"7"'

    principal.before_write = lambda: done or done.append(change())
    result = policy(resource_id=resource, publish=True)
    assert result["policy"] == {**NOTHING, "publish": True, "approve_user_redeploy": True}
    assert len(writes(principal)) == 2


def test_a_scale_set_without_etag_is_not_written_as_a_whole(principal, policy):
    del principal.add_resource(POOL)["etag"]
    result = policy(resource_id=POOL, publish=True)
    assert result["failed"]
    assert "no ETag" in result["msg"]
    assert writes(principal) == []


@pytest.mark.parametrize("status", [429, 503, "reset", "take"])
def test_a_fault_that_passes(principal, policy, status):
    principal.add_resource(VM)
    principal.add_fault(VM, status, after=1)
    result = policy(resource_id=VM, publish=True)
    assert (result["changed"], result["policy"]["publish"]) == (True, True)


def test_waits_until_azure_has_carried_it_out(principal, policy):
    principal.add_resource(VM)
    principal.asynchronous = "Succeeded"
    assert policy(resource_id=VM, publish=True)["changed"]
    assert len(principal.requests("/operations/")) == 2


def test_a_change_that_azure_does_not_carry_out(principal, policy):
    principal.add_resource(VM)
    principal.asynchronous = "Failed"
    result = policy(resource_id=VM, publish=True)
    assert (result["failed"], result["error_code"]) == (True, "OperationNotAllowed")


def test_a_change_that_azure_does_not_carry_out_and_does_not_say_why(principal, policy):
    principal.add_resource(VM)
    principal.asynchronous = "Failed"
    principal.add_fault("/operations/", 200, body={"status": "Failed"})
    result = policy(resource_id=VM, publish=True)
    assert result["msg"].endswith("Azure did not carry out the change. It does not say why.")


def test_p13_a_change_that_azure_took_and_does_not_show(principal, policy):
    kept = principal.add_resource(VM)
    principal.after_write = lambda: kept["properties"].pop("scheduledEventsPolicy")
    result = policy(resource_id=VM, publish=True)
    assert result["failed"]
    assert "shows other settings now" in result["msg"]


def test_a_resource_that_is_not_there(principal, policy):
    result = policy(resource_id=VM)
    assert (result["failed"], result["http_status"], result["error_code"]) == (True, 404, "ResourceNotFound")


@pytest.mark.parametrize("body", ["[]", '{"properties": []}', "", "5"])
def test_answers_that_are_no_resource(principal, policy, body):
    principal.add_fault(VM, 200, body=body)
    assert policy(resource_id=VM)["reason"] == "malformed"


@pytest.mark.parametrize(
    "found", [{"scheduledEventsPolicy": "text"}, {"scheduledEventsPolicy": {"userInitiatedReboot": 5}}, {"x": None}]
)
def test_odd_settings_are_none(principal, policy, found):
    principal.add_resource(VM, **found)
    assert policy(resource_id=VM)["policy"] == NOTHING
