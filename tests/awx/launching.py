# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How AWX 24 starts a job: launched by somebody with a token, or called back by a host of the inventory."""

from __future__ import annotations

import contextlib
import socket

from ansible_collections.fleetops.azure_maintenance.tests.awx import rules
from ansible_collections.fleetops.azure_maintenance.tests.awx.rules import Refused


def questions_of(awx, item):
    return awx.surveys.get(item["id"], {}).get("spec", []) if item["survey_enabled"] else []


def launch(awx, item, body):
    given = rules.as_variables(body.get("extra_vars"))
    questions = questions_of(awx, item)
    errors = [error for question in questions for error in rules.check_answer(question, given)]
    if errors:
        raise Refused(400, {"variables_needed_to_start": errors})
    if not item["inventory"] and not (item["ask_inventory_on_launch"] and body.get("inventory")):
        raise Refused(400, {"inventory": ["This field may not be null."]})
    asked = {question["variable"] for question in questions}
    kept = {name: value for name, value in given.items() if item["ask_variables_on_launch"] or name in asked}
    ignored = {"extra_vars": {name: value for name, value in given.items() if name not in kept}}
    if "limit" in body and not item["ask_limit_on_launch"]:
        ignored["limit"] = body["limit"]
    job, headers = awx.start(item, kept, limit=body.get("limit", "") if item["ask_limit_on_launch"] else "")
    return (
        201,
        {"job": job["id"], "ignored_fields": {name: one for name, one in ignored.items() if one}, **job},
        headers,
    )


def call_back(awx, item, body, address):
    key = body.get("host_config_key", "")
    if not key or key != item["host_config_key"]:
        raise Refused(403, {"detail": "You do not have permission to perform this action."})
    if not item["inventory"]:
        raise Refused(400, {"msg": "Cannot start automatically, an inventory is required."})
    found = _matching(awx.hosts.get(item["inventory"], {}), address)
    if len(found) != 1:
        said = "Multiple hosts matched the request!" if found else "No matching host could be found!"
        raise Refused(400, {"msg": said})
    given = body.get("extra_vars")
    needed = [question["variable"] for question in questions_of(awx, item) if question["required"]]
    prompts = any(value for name, value in item.items() if name.startswith("ask_"))
    if any(name not in (given or {}) for name in needed) or (given is None and prompts):
        raise Refused(400, {"msg": "Cannot start automatically, user input required!"})
    if awx.busy and any((job["job_template"], job["limit"]) == (item["id"], found[0]) for job in awx.jobs):
        raise Refused(400, {"msg": "Host callback job already pending."})
    _job, headers = awx.start(item, given or {} if item["ask_variables_on_launch"] else {}, limit=found[0])
    return 201, None, headers


def _matching(hosts, address):
    """Return the hosts that an address may be: by what the inventory calls them, else by what that resolves to."""
    found = [host for host, known_as in hosts.items() if address == (known_as or host)]
    if len(found) == 1:
        return found
    for host, known_as in hosts.items():
        with contextlib.suppress(OSError):
            if host not in found and address in {one[4][0] for one in socket.getaddrinfo(known_as or host, None)}:
                found.append(host)
    return found
