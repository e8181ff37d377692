# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""The rules of the campaign's checker: one for each type of event, which differ in what runs when and who approves."""

from __future__ import annotations

from typing import Any


def _steps(*labels: str) -> list[dict[str, Any]]:
    return [{"command": ["/bin/step", label]} for label in labels]


_COMMON = {"timeout": 60, "retries": 1, "retry_delay": 5}
RULES: list[dict[str, Any]] = [
    {
        **_COMMON,
        "name": "Drain",
        "match": {"event_types": ["Reboot"]},
        "on_announced": _steps("1", "2"),
        "on_waiting": _steps("1"),
        "on_started": _steps("1"),
        "on_ended": _steps("1", "2"),
        "approve": "when_ready",
    },
    {
        **_COMMON,
        "name": "Late",
        "match": {"event_types": ["Redeploy"]},
        "lead_time": 60,
        "on_announced": _steps("1"),
        "on_ended": _steps("1"),
        "approve": "when_ready",
    },
    {
        **_COMMON,
        "name": "At once",
        "match": {"event_types": ["Preempt"]},
        "on_announced": _steps("1"),
        "on_ended": _steps("1"),
        "approve": "at_once",
    },
    {
        **_COMMON,
        "name": "Short",
        "match": {"event_types": ["Freeze"]},
        "on_announced": _steps("1"),
        "on_started": _steps("1"),
        "on_ended": _steps("1"),
    },
]
