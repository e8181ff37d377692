# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rim of what asks Azure from outside: results and errors as Ansible takes them."""

from __future__ import annotations

import types

import pytest
from ansible.utils.unsafe_proxy import AnsibleUnsafe
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils import _unsafe
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure import acknowledge
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.errors import FORBIDDEN, AzureError
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.task import run_on_controller, run_task

LOGIN = {"client_id": "c", "secret": "only-for-this-test", "tenant": "t"}
TEXT = "{{ lookup('pipe', 'id') }}"


@pytest.fixture
def run(monkeypatch):
    """run(WORK, OPTIONS) does it as an action plugin would."""
    monkeypatch.delenv("ANSIBLE_AZURE_AUTH_SOURCE", raising=False)

    def run_work(work, options=None):
        task = types.SimpleNamespace(args=LOGIN if options is None else options, action="module", check_mode=False)
        return run_on_controller(types.SimpleNamespace(_task=task), {"argument_spec": {}}, work)

    return run_work


def is_data(text):
    """From ansible-core 2.19 on, what a plugin returns is no template anyway."""
    return _unsafe._trust is not None or isinstance(text, AnsibleUnsafe)


def fail(error):
    def work(_task):
        raise error

    return work


@pytest.mark.hostile_text
def test_p10_what_is_returned_is_no_template(run):
    result = run(lambda task: task.warn(TEXT) or {"events": [{TEXT: TEXT}], "msg": TEXT})
    ((key, value),) = result["events"][0].items()
    assert all(map(is_data, (key, value, result["msg"], *result["warnings"])))
    assert is_data(run(fail(ValueError(TEXT)))["msg"])
    assert is_data(run(fail(AzureError(TEXT, FORBIDDEN, 403)))["msg"])


def test_a_failure_of_azure_has_a_reason(run):
    result = run(fail(AzureError("No role.", FORBIDDEN, 403, "AuthorizationFailed")))
    assert result == {
        "failed": True,
        "msg": "No role.",
        "reason": "forbidden",
        "http_status": 403,
        "error_code": "AuthorizationFailed",
    }


def test_a_wrong_option_tells_no_secret(run):
    result = run(fail(ValueError("only-for-this-test is wrong")))
    assert (result["failed"], result["msg"]) == (True, "******** is wrong")


def test_a_warning_is_told_once(run):
    def work(task):
        task.warn("twice")
        task.warn("twice")
        return {}

    assert run(work) == {"warnings": ["twice"]}


def test_the_source_of_the_login_may_stand_in_the_environment(run, monkeypatch):
    monkeypatch.setenv("ANSIBLE_AZURE_AUTH_SOURCE", "msi")
    assert run(lambda task: {"kind": task._login.kind})["kind"] == "managed identity"
    monkeypatch.setenv("ANSIBLE_AZURE_AUTH_SOURCE", "sesame")
    assert "auth_source must be one of" in run(lambda task: {})["msg"]


@pytest.mark.parametrize(
    "given", [{"resources_ready": "['web-1', 'web-2']"}, {"event_ids": '["3da1b9aa-5204-4335-8c33-c54e315dcffe"]'}]
)
def test_a_list_in_a_text_is_called_by_its_name_before_azure_is_asked(given):
    options = {**LOGIN, "subscription_id": "s", "event_ids": ["3da1b9aa-5204-4335-8c33-c54e315dcffe"], **given}
    result = run_task(options, "module", False, acknowledge.SPEC, acknowledge.acknowledge)
    assert (
        f"{next(iter(given))} must be a list, or words with commas between them, not a list in a text" in result["msg"]
    )
