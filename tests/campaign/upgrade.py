# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""A state as version 1.0 left it: an event that was announced and prepared, and not yet approved."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

from ansible_collections.fleetops.azure_maintenance.tests.campaign.azure import VM, Entry
from ansible_collections.fleetops.azure_maintenance.tests.campaign.views import Run, View
from ansible_collections.fleetops.azure_maintenance.tests.tables_1_0 import TABLES_1_0

if TYPE_CHECKING:
    from ansible_collections.fleetops.azure_maintenance.tests.campaign.vm import Machine


def leave_state_of_1_0(machine: Machine) -> None:
    """The old program has run in boot 0, before the history begins."""
    event = machine.azure.announce("old-1", "Reboot", [VM], machine.now, 400.0)
    content = {
        "event_id": event.id,
        "event_type": event.kind,
        "event_status": "Scheduled",
        "resource_type": "VirtualMachine",
        "resources": [VM],
        "not_before": None,
        "not_before_raw": "",
        "description": None,
        "event_source": "Platform",
        "duration_seconds": None,
    }
    rule = {"name": "Drain", "match": {}, "lead_time": None, "on_waiting": [], "approve": "when_ready"}
    del rule["on_waiting"]
    rule.update(timeout=60, retries=1, retry_delay=5)
    for phase, labels in (("on_announced", "12"), ("on_started", "1"), ("on_ended", "12")):
        rule[phase] = [{"command": ["/bin/step", label]} for label in labels]
    connection = sqlite3.connect(f"{machine.state_folder}/state.db")
    connection.executescript(TABLES_1_0)
    at = machine.wall - 60
    connection.execute(
        "INSERT INTO event (key, content, rule, phase, boot_id, seen_at, seen_uptime, announced_at)"
        " VALUES (?, ?, ?, 'announced', 'boot-0', ?, 50, ?)",
        (event.id, json.dumps(content), json.dumps(rule), at, at),
    )
    connection.execute(
        "INSERT INTO response (event, phase, state, boot_id, created_at)"
        " VALUES (1, 'announced', 'running', 'boot-0', ?)",
        (at,),
    )
    steps = [*rule["on_announced"], {"approve": True}]  # type: ignore[misc]
    for position, step in enumerate(steps, start=1):
        done = position < 3
        connection.execute(
            "INSERT INTO step (response, position, content, state, started_at, finished_at) VALUES (1, ?, ?, ?, ?, ?)",
            (
                position,
                json.dumps(step),
                "succeeded" if done else "pending",
                at if done else None,
                at if done else None,
            ),
        )
    if machine.chance("the name of 1.0") < 0.5:
        # In the others its row was damaged.
        origin = {"boot_id": "boot-0", "endpoint": machine.config.endpoint, "configured": machine.config.resource_name}
        name = json.dumps({"name": VM, **origin})
        connection.execute("INSERT INTO fact (name, value) VALUES ('resource_name', ?)", (name,))
    connection.commit()
    connection.close()
    view = machine.judge.views[event.id] = View(event.id, event.kind)
    view.list(Entry(event, "Scheduled", (VM,), event.not_before), machine)
    for label in ("1", "2"):
        run = Run(event.id, "announced", label, 0)
        view.begin(run)
        run.done = True
        view.seal(run)
