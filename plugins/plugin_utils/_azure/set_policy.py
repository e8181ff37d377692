# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Read and change a policy for scheduled events: the work of the module scheduled_events_policy."""

from __future__ import annotations

from typing import Any, Mapping

from ...module_utils._errors import one_line
from ...module_utils._event.document import fold_case
from .arm import Answer, ArmClient, fold_keys, growing_pauses, join_code, read_error
from .errors import HTTP_STATUS, MALFORMED, AzureError
from .policy import SETTINGS, Change, check_member, check_options, merge_policy, plan_change, read_policy
from .resource_ids import ResourceId, need_resource_id
from .task import Task

# The first that has every setting
_API_VERSION = "2025-04-01"
_POLL = 2.0

SPEC: dict[str, Any] = {
    "argument_spec": {
        "resource_id": {"type": "str", "required": True},
        **{name: {"type": "bool"} for name in SETTINGS},
        "publish_api_version": {"type": "str"},
        "terminate_notice_minutes": {"type": "int"},
    }
}


def set_policy(task: Task) -> dict[str, Any]:
    """Do the module's work.

    :raises AzureError: Azure gave no usable answer, or did not take the change.
    :raises ValueError: an option is wrong.
    """
    options = task.options
    resource = need_resource_id(options["resource_id"], "resource_id")
    if not fold_case(options["resource_id"].rstrip("/")).endswith(f"/{fold_case(resource.name)}"):
        raise ValueError("resource_id must be that of the scale set: its VM has no policy of its own.")
    check_options(options, resource)
    client = task.client()
    answer = _read(client, resource)
    before = read_policy(answer.body, resource.kind)
    check_member(options, answer.body)
    change = plan_change(answer.body, resource.kind, options)
    if task.check_mode or change is None:
        return _describe(before, merge_policy(before, options), resource, task.check_mode)
    after = _change(client, resource, answer, change, options)
    return _describe(before, after, resource)


def _describe(
    before: Mapping[str, Any], after: Mapping[str, Any], resource: ResourceId, check_mode: bool = False
) -> dict[str, Any]:
    changed = [name for name in SETTINGS if before[name] != after[name]]
    would = "would be set" if check_mode else "set"
    told = ", ".join(f"{name}={after[name]}" for name in changed)
    name = one_line(resource.name)
    return {
        "changed": bool(changed),
        "policy": after,
        "diff": {"before": before, "after": after},
        "msg": f"{name}: {would}: {told}." if changed else f"{name}: nothing to change.",
    }


def _read(client: ArmClient, resource: ResourceId) -> Answer:
    answer = client.send("GET", str(resource), _API_VERSION)
    if not isinstance(answer.body, dict) or not isinstance(answer.body.get("properties"), dict):
        raise AzureError(f"Azure answered for {resource} with something that is no resource.", MALFORMED, answer.status)
    return answer


def _change(
    client: ArmClient, resource: ResourceId, answer: Answer, change: Change, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Send the change, again and merged anew where another one came between, and return the resource afterwards."""
    pauses = growing_pauses()
    while True:
        try:
            headers = _if_unchanged(answer, change, resource)
            _wait(client, client.send(change.method, str(resource), _API_VERSION, change.body, headers))
        except AzureError as error:
            if error.http_status not in (409, 412):
                raise
            # Another client changes it, too.
            client.pause(next(pauses), error)
            answer, taken = _read(client, resource), False
        else:
            answer, taken = _read_settled(client, resource), True
        left = plan_change(answer.body, resource.kind, options)
        if left is None:
            return read_policy(answer.body, resource.kind)
        if taken:
            raise AzureError(
                f"Azure took the change of {resource}, and shows other settings now. Does another client change it?",
                MALFORMED,
                answer.status,
            )
        change = left


def _read_settled(client: ArmClient, resource: ResourceId) -> Answer:
    """Return the resource once Azure does not work on it any more."""
    while True:
        answer = _read(client, resource)
        state = str(answer.body["properties"].get("provisioningState") or "succeeded").lower()
        if state in ("succeeded", "failed", "canceled"):
            return answer
        client.pause(_POLL)


def _if_unchanged(answer: Answer, change: Change, resource: ResourceId) -> dict[str, str]:
    """Return the header by which Azure refuses the change where another client made one since."""
    etag = answer.body.get("etag") or answer.headers.get("etag")
    if isinstance(etag, str) and etag:
        return {"If-Match": etag}
    if change.method == "PUT":
        raise AzureError(
            f"Azure gave no ETag for {resource}, and takes this change only with the whole scale set. That could undo "
            "the change of another client, so nothing was sent.",
            MALFORMED,
            answer.status,
        )
    return {}


def _wait(client: ArmClient, sent: Answer) -> None:
    """Wait until Azure has carried out the change.

    :raises AzureError: it failed, or the time is up.
    """
    address = sent.headers.get("azure-asyncoperation")
    if address is None:
        return
    while True:
        answer = client.follow(address)
        status = str(fold_keys(answer.body).get("status", "")).lower()
        if status == "succeeded":
            return
        if status in ("failed", "canceled"):
            code, message, _details = read_error(answer.body)
            why = join_code(code, message) or "It does not say why."
            raise AzureError(f"Azure did not carry out the change. {why}", HTTP_STATUS, answer.status, code)
        client.pause(_POLL)
