# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What AWX 24 demands of a notification by webhook, what it keeps of one, and what it posts."""

from __future__ import annotations

import json

from ansible_collections.fleetops.azure_maintenance.tests.awx.rules import Wrong
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

EVENTS = ("started", "success", "error", "workflow_approval")
APPROVALS = ("running", "approved", "timed_out", "denied")
# What a message may name, with the values AWX tries it out with
STUB = {
    "job": {"id": 5, "name": "Stub", "status": "successful", "artifacts": {}, "job_slice_number": 0},
    "job_friendly_name": "Job",
    "url": "https://towerhost/#/jobs/playbook/1010",
    "job_metadata": "{}",
    "approval_status": "approved",
    "approval_node_name": "Approve Me",
    "workflow_url": "https://towerhost/#/jobs/workflow/1010",
}
DEFAULTS = {"http_method": "POST", "disable_ssl_verification": False, "username": "", "password": ""}


def render(body, **context):
    return ImmutableSandboxedEnvironment(undefined=StrictUndefined).from_string(body).render({**STUB, **context})


def posted(body, **context):
    """Return what AWX 24.0 posts for this body: two lines or fewer count as blank, and what is no JSON as {}."""
    text = render(body, **context)
    if len(text.strip().splitlines()) <= 2:
        text = "The template rendering return a blank body.\r\nPlease check the template."
    try:
        return json.loads(text)
    except ValueError:
        return {}


def check(template):
    """Return the configuration that AWX keeps, or raise what it answers."""
    configuration = {**DEFAULTS, **template["notification_configuration"]}
    assert template["notification_type"] == "webhook", "the stand-in knows no other type"
    errors = []
    missing = [field for field in ("url", "headers") if field not in configuration]
    if missing:
        errors.append(f"Missing required fields for Notification Configuration: {missing}.")
    for field, kind in (("url", str), ("headers", dict), *((name, type(one)) for name, one in DEFAULTS.items())):
        if field in configuration and not isinstance(configuration[field], kind):
            errors.append(f"Configuration field '{field}' incorrect type, expected {kind.__name__}.")
    if configuration["http_method"] not in ("POST", "PUT"):
        errors.append("HTTP method must be either 'POST' or 'PUT'.")
    if errors:
        raise Wrong({"__all__": errors})
    errors = list(_wrong_messages(template["messages"] or {}))
    if errors:
        raise Wrong({"messages": errors})
    return configuration


def _wrong_messages(messages):
    for event, message in messages.items():
        if event not in EVENTS:
            yield f"Event '{event}' invalid, must be one of 'started', 'success', 'error', or 'workflow_approval'"
        elif event == "workflow_approval":
            for one, approval in (message or {}).items():
                if one not in APPROVALS:
                    yield f"Workflow Approval event '{one}' invalid"
                yield from _wrong_message(event, approval or {})
        else:
            yield from _wrong_message(event, message or {})


def _wrong_message(event, message):
    for kind, text in message.items():
        if kind not in ("message", "body"):
            yield f"Message type '{kind}' invalid, must be either 'message' or 'body'"
        elif text is not None and not isinstance(text, str):
            yield f"Expected string for '{kind}', found {type(text)}, "
        elif kind == "message" and "\n" in (text or ""):
            yield f"Messages cannot contain newlines (found newline in {event} event)"
        elif text:
            try:
                render(text)
            except TemplateError as error:
                yield f"Unable to render message '{text}': {error.message}"


def merge(old, new):
    """Return the messages that AWX keeps when it has old ones: of what is null or missing in the new the old stays."""
    new = dict(new or {})
    old = old or {}
    for event in EVENTS:
        if event == "workflow_approval" and old.get(event):
            new[event] = {one: _merge_one(old[event].get(one), (new.get(event) or {}).get(one)) for one in APPROVALS}
        else:
            new[event] = _merge_one(old.get(event), new.get(event))
    return new


def _merge_one(old, new):
    if not new or not old:
        return new or old or None
    return {**{kind: text for kind, text in old.items() if text and kind not in new}, **new}
