# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the VM to AWX: the checker's steps awx_callback and awx_job, against a stand-in that keeps AWX's rules."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import notify
from ansible_collections.fleetops.azure_maintenance.tests.awx import access, controller
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.machine import Machine

KEY = "k3y-of-the-template"
# What the inventory knows each host as; to the stand-in this machine is 127.0.0.1.
HOSTS = {"web-1": "127.0.0.1", "web-2": "10.0.0.2"}


@pytest.fixture
def respond(awx):
    """The job template that the checker starts."""
    inventory = awx.named("inventories", "web")["id"]
    awx.hosts[inventory] = dict(HOSTS)
    return awx.add(
        "job_templates",
        name="Respond, 100 %",
        organization=awx.named("organizations", "Default")["id"],
        inventory=inventory,
        host_config_key=KEY,
        ask_variables_on_launch=True,
    )


def callback_url(awx, template):
    return f"{awx.url}/api/v2/job_templates/{template['id']}/callback/"


@pytest.fixture
def secret(tmp_path):
    """A factory: secret(text, mode) writes a file with a secret, and returns its path."""

    def write(text, mode=0o600):
        path = tmp_path / f"secret-{text}"
        path.touch(0o600)
        path.write_text(text + "\n")
        path.chmod(mode)
        return str(path)

    return write


@pytest.fixture
def azure(simulator):
    return simulator("--vms", "web-1")


@pytest.fixture
def machine(azure, tmp_path):
    machine = Machine(tmp_path / "vm", azure.endpoint("web-1"))
    yield machine
    machine.close()


def test_the_checker_launches_a_template_and_calls_back(machine, azure, awx, respond, secret):
    token = secret(controller.TOKEN)
    machine.configure(
        machine.rule(
            on_announced=[{"awx_job": awx.url, "template": "Respond, 100 %++Default", "token_file": token}],
            on_ended=[{"awx_callback": callback_url(awx, respond), "key_file": secret(KEY)}],
        )
    )
    event = azure.announce("Reboot", "web-1", description="{{ 6 * 7 }} $(id)")
    machine.check_until_quiet()
    (launched,) = awx.jobs
    variables = json.loads(launched["extra_vars"])
    assert (variables["maintenance_event"]["event_id"], variables["maintenance_phase"]) == (event, "announced")
    assert variables["maintenance_event"]["description"] == "{{ 6 * 7 }} $(id)"
    # Prepared for by AWX, so the VM lets it begin.
    assert [body["StartRequests"] for _vm, body in azure.posted()] == [[{"EventId": event}]]

    azure.control("DELETE", f"/simulator/events/{event}")
    machine.check_until_quiet()
    _launched, called = awx.jobs
    assert (called["limit"], json.loads(called["extra_vars"])["maintenance_phase"]) == ("web-1", "ended")
    for text in (machine.units_log, str(machine.history())):
        assert controller.TOKEN not in text
        assert KEY not in text


def test_a_leader_launches_the_template_for_the_checkers_which_takes_the_id_and_nothing_else(
    simulator, applied, secret, tmp_path
):
    azure = simulator("--vms", "web-1,web-2")
    template = "Azure maintenance: approve for the checkers++Default"
    step = {"awx_job": applied.url, "template": template, "token_file": secret(controller.TOKEN)}
    machine = Machine(tmp_path / "vm", azure.endpoint("web-1"))
    try:
        machine.configure(machine.rule(on_announced=[], on_waiting=[step]))
        event = azure.announce("Reboot", "web-1", "web-2")
        # The first one finds that the approval waits.
        machine.check()
        machine.check_until_quiet()
    finally:
        machine.close()
    assert applied.jobs[-1]["name"] in template
    variables = json.loads(applied.jobs[-1]["extra_vars"])
    assert variables.pop("maintenance_launch").startswith(f"{event} ")
    assert variables == {
        "target": "all",
        "event_response_prepare": "checker",
        "event_response_restore": "",
        "event_response_event_ids": event,
    }
    assert azure.posted() == []


@pytest.mark.parametrize("kind", ["token", "key"])
def test_a_secret_that_others_can_read_is_not_used(machine, azure, awx, respond, secret, kind):
    job = {"awx_job": awx.url, "template": respond["id"], "token_file": secret(controller.TOKEN, 0o644)}
    callback = {"awx_callback": callback_url(awx, respond), "key_file": secret(KEY, 0o640)}
    machine.configure(machine.rule(on_announced=[job if kind == "token" else callback]))
    azure.announce("Reboot", "web-1")
    machine.check()
    assert "is open to others than its owner: chmod 600 it." in machine.units_log
    assert awx.requests == []
    assert azure.posted() == []


@pytest.mark.parametrize(
    "path", ["", "/", "/api/controller", "/api/controller/", "/api/controller/v2", "/api/controller/v2/"]
)
def test_g2_awx_behind_the_gateway_of_the_platform(secret, path):
    awx = controller.Awx(gateway=True)
    inventory = awx.add("inventories", name="web", organization=awx.add("organizations", name="Default")["id"])["id"]
    awx.hosts[inventory] = dict(HOSTS)
    template = awx.add("job_templates", name="Respond", inventory=inventory, host_config_key=KEY)["id"]
    token = secret(controller.TOKEN)
    with controller.serve(awx):
        said = notify.awx_job(awx.url + path, template, {}, 10, token_file=token, mark="1")
        assert said.startswith("AWX started job 100")
        callback = f"{awx.url}/api/controller/v2/job_templates/{template}/callback/"
        assert notify.awx_callback(callback, {}, 10, key_file=secret(KEY)) == "AWX started job 101."
        # As without a gateway
        refused = f"{awx.url}/api/v2/job_templates/{template}/launch/ answered HTTP 404"
        with pytest.raises(notify.NotifyError, match=refused):
            notify.awx_job(f"{awx.url}/api/v2", template, {}, 10, token_file=token, mark="1")


def test_what_keeps_awx_from_starting_a_job_for_the_vm(awx, respond, secret):
    """The texts are AWX's own."""

    def call(key=KEY, number=None):
        return notify.awx_callback(callback_url(awx, {"id": number or respond["id"]}), {}, 1, key_file=secret(key))

    def refusal(**how):
        with pytest.raises(notify.NotifyError) as caught:
            call(**how)
        assert caught.value.permanent
        return str(caught.value)

    assert 'HTTP 403: "You do not have permission to perform this action."' in refusal(key="wrong")
    assert 'HTTP 404: "Not found."' in refusal(number=4711)
    hosts = awx.hosts[respond["inventory"]]
    hosts.update({"web-1": "10.0.0.1"})
    assert '"No matching host could be found!"' in refusal()
    hosts.update({"web-1": "127.0.0.1", "web-2": "127.0.0.1"})
    assert '"Multiple hosts matched the request!"' in refusal()
    hosts.update(HOSTS)
    awx.surveys[respond["id"]] = {"spec": [{"variable": "target", "type": "text", "required": True}]}
    respond["survey_enabled"] = True
    assert '"Cannot start automatically, user input required!"' in refusal()
    respond["survey_enabled"] = False
    inventory, respond["inventory"] = respond["inventory"], None
    assert '"Cannot start automatically, an inventory is required."' in refusal()
    respond["inventory"] = inventory
    assert awx.jobs == []

    awx.busy = True
    assert call() == "AWX started job 100."
    with pytest.raises(notify.NotifyError, match="AWX takes no callback while another job"):
        call()
    assert len(awx.jobs) == 1


def test_b2_a_callback_is_made_again_while_the_job_of_another_step_runs(machine, azure, awx, respond, secret):
    awx.busy = True
    callback = {"awx_callback": callback_url(awx, respond), "key_file": secret(KEY)}
    machine.configure(machine.rule(on_announced=[callback], on_ended=[{**callback, "timeout": 600}]))
    event = azure.announce("Reboot", "web-1")
    machine.check_until_quiet()
    azure.control("DELETE", f"/simulator/events/{event}")
    machine.run("check", "--once")
    machine.wait(lambda: [one[3] for one in awx.requests] == [201, 400], "AWX is not asked a second time")
    assert len(awx.jobs) == 1
    awx.busy = False
    machine.check_until_quiet()
    assert [json.loads(job["extra_vars"])["maintenance_phase"] for job in awx.jobs] == ["announced", "ended"]


@pytest.mark.parametrize(
    ("changes", "token", "template", "said"),
    [
        ({}, "wrong", None, 'HTTP 401: "Authentication credentials were not provided.'),
        ({}, controller.TOKEN, "Nobody++Default", 'HTTP 404: "Not found."'),
        ({}, "only-reads", None, 'HTTP 403: "You do not have permission to perform this action."'),
        ({}, "of-nobody", None, 'HTTP 403: "You do not have permission to perform this action."'),
        # H7: 404 does not mean that there is none.
        ({}, "of-nobody", "Respond, 100 %++Default", "and that its user has the role Execute of this template."),
        ({"survey_enabled": True}, controller.TOKEN, None, "'target' value missing"),
    ],
)
def test_what_keeps_awx_from_launching_a_template(awx, respond, secret, changes, token, template, said):
    awx.surveys[respond["id"]] = {"spec": [{"variable": "target", "type": "text", "required": True}]}
    respond.update(changes)
    awx.tokens["only-reads"] = access.Token(access.READ)
    awx.tokens["of-nobody"] = access.Token(roles=[])
    with pytest.raises(notify.NotifyError) as caught:
        notify.awx_job(awx.url, template or respond["id"], {}, 10, token_file=secret(token), mark="1")
    assert caught.value.permanent
    assert said in str(caught.value)
    assert awx.jobs == []


def test_a_token_needs_no_other_role_than_to_execute_the_template(awx, respond, secret):
    awx.tokens["executes"] = access.Token(roles=[("execute_role", respond["id"])])
    for mark in "12":
        said = notify.awx_job(awx.url, respond["id"], {}, 10, token_file=secret("executes"), mark=mark)
        assert said.startswith("AWX started job 10")


def test_variables_that_awx_would_drop_are_told(awx, respond, secret):
    respond["ask_variables_on_launch"] = False
    token, sent = secret(controller.TOKEN), {"maintenance_phase": "x"}
    said = notify.awx_job(awx.url, respond["id"], sent, 10, token_file=token, mark="1")
    assert said.startswith("AWX started job 100, but without variables that the job template")
    assert awx.jobs[0]["extra_vars"] == "{}"
